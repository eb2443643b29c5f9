"""Messages go onto the stream and come off it as they were, one phase at a time."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import PeerError, UsageError
from bobbin.facts import block
from bobbin.facts.block import OversizedBlock
from bobbin.interlace.advertise import advertisement
from bobbin.interlace.limits import Limits
from bobbin.interlace.messages import (
    Advertise,
    Hello,
    Message,
    Partition,
    Request,
    Response,
    Setup,
    Transfer,
    Unavailable,
)
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.interlace.schema import Schema
from bobbin.interlace.state import Awaits
from bobbin.wire.elements import Elements, Truncated
from bobbin.wire.interlace import HELLO_BYTES_MAX, SETUP_BYTES_MAX, Decoder, encode, reason_of
from tests.policy_worlds import ALICE
from tests.properties.effort import scaled
from tests.support.collector import without_collector
from tests.unit.wire.streams import (
    AWAITS,
    BLOB,
    MESSAGES,
    PLAN,
    PLAN_BYTES,
    PLEX,
    SCHEMA,
    SETUP,
    SOURCE,
    chunks,
    decode,
    decoder,
    delivered,
    encoded,
    hash_of,
)

HELLO = Hello(
    plan=PLAN,
    tai="1640995200:000000000",
    tick_interval_ns=1,
    formats=frozenset({"H3"}),
    schema=SCHEMA,
    plan_bytes=PLAN_BYTES,
)
TICK = "1640995200:000000000"
P1 = hash_of(1)


def code(raw: bytes, awaits: Awaits) -> str:
    with pytest.raises(PeerError) as refused:
        decode(raw, awaits)
    return reason_of(refused.value)


def answers(messages: list[Message]) -> tuple[list[Response], list[str]]:
    """The responses of all parts of a transfer, and the ticks; all parts but the last are not the last."""
    parts = [message for message in messages if isinstance(message, Transfer)]
    assert len(parts) == len(messages)
    assert not any(part.last for part in parts[:-1])
    return [response for part in parts for response in part.responses], [part.tick for part in parts if part.tick]


# ---- there and back -------------------------------------------------------------------------------------------------


@given(MESSAGES, st.lists(st.integers(0, 50), max_size=10))
def test_a_message_comes_back_as_it_was(message: Message, sizes: list[int]) -> None:
    """ILC-088, ILC-095, ILC-117: whole or in chunks."""
    raw = encoded(message)
    awaits = AWAITS[type(message)]
    assert decode(raw, awaits) == message
    reader = decoder()
    reader.expect(awaits)
    found = [one for part in chunks(raw, sizes) for one in reader.feed(part)]
    assert found == [message]


@scaled(0.3)
@given(st.lists(MESSAGES, max_size=5))
def test_a_whole_stream_byte_by_byte(messages: list[Message]) -> None:
    """ILC-088, ILC-095."""
    reader = decoder()
    waiting = list(messages)
    found: list[Message] = []

    def expect() -> None:
        reader.expect(AWAITS[type(waiting[len(found)])] if len(found) < len(waiting) else Awaits.NOTHING)

    expect()
    for byte in b"".join(map(encoded, messages)):
        for message in reader.feed(bytes([byte])):
            found.append(message)
            expect()
    assert found == messages
    reader.finish()


def test_an_empty_block_is_what_is_awaited() -> None:
    """ILC-094, ILC-133."""
    assert decode(b"\n", Awaits.ADVERTISE) == Advertise()
    assert decode(b"\n", Awaits.REQUEST) == Request()
    assert decode(b"\n", Awaits.TRANSFER) == Transfer(last=True)
    assert code(b"\n", Awaits.SETUP) == Reason.MALFORMED_BLOCK
    assert code(b"\n", Awaits.HELLO) == Reason.MALFORMED_BLOCK


def test_a_tick_stands_in_every_phase_of_the_loop() -> None:
    """ILC-096, ILC-142, IL-162."""
    raw = f"TickReady('{TICK}')\n\n".encode()
    assert decode(raw, Awaits.ADVERTISE) == Advertise(tick=TICK)
    assert decode(raw, Awaits.REQUEST) == Request(tick=TICK)
    assert decode(raw, Awaits.TRANSFER) == Transfer(tick=TICK, last=True)
    assert code(raw, Awaits.SETUP) == Reason.OUT_OF_PHASE
    assert code(raw, Awaits.HELLO) == Reason.OUT_OF_PHASE


def test_what_a_tick_says_is_for_the_machine_to_judge() -> None:
    """ILC-121: a tick that is not valid is ignored there, and nothing ends here."""
    assert decode(b"TickReady('soon')\n\n", Awaits.REQUEST) == Request(tick="soon")


def test_a_setup_may_come_instead_of_an_advertise_block() -> None:
    """ILC-131."""
    assert decode(encoded(SETUP), Awaits.ADVERTISE) == SETUP
    bare = Setup(index=SETUP.index, operand=SETUP.operand)
    assert decode(encoded(bare), Awaits.ADVERTISE) == bare


def test_comments_are_ignored() -> None:
    """ILC-093."""
    raw = encoded(HELLO).replace(b"HelloTAI", b"# hello\nHelloTAI")
    assert decode(b"#\n" + raw, Awaits.HELLO) == HELLO


@pytest.mark.parametrize(
    ("raw", "awaits"),
    [
        (encoded(HELLO), Awaits.SETUP),
        (encoded(SETUP), Awaits.HELLO),
        (encoded(SETUP), Awaits.REQUEST),
        (encoded(SETUP), Awaits.TRANSFER),
        (encoded(Request(records=(P1,))), Awaits.ADVERTISE),
        (encoded(Request(records=(P1,))), Awaits.TRANSFER),
        (encoded(Advertise(lists=("a",))), Awaits.REQUEST),
        (encoded(Advertise(lists=("a",))), Awaits.TRANSFER),
        (f"NotAvailable('{P1}')\n\n".encode(), Awaits.REQUEST),
        (f"NotAvailable('{P1}')\n\n".encode(), Awaits.ADVERTISE),
        (BLOB.raw + b"\n", Awaits.SETUP),
        (BLOB.raw + b"\n", Awaits.ADVERTISE),
        (BLOB.raw + b"\n", Awaits.REQUEST),
        (b"KnotProof('a','b')\n\n", Awaits.SETUP),
        (b"KnotProof('a','b')\n\n", Awaits.HELLO),
    ],
)
def test_an_element_of_another_phase_is_refused(raw: bytes, awaits: Awaits) -> None:
    """ILC-095, ILC-096, ILC-098, IL-120."""
    assert code(raw, awaits) == Reason.OUT_OF_PHASE


def test_a_phase_has_one_resource() -> None:
    """ILC-095."""
    raw = encoded(SETUP)
    resource = raw[raw.index("🧩".encode()) : -1]
    assert code(raw[:-1] + resource + b"\n", Awaits.SETUP) == Reason.OUT_OF_PHASE


def test_a_malformed_block_says_nothing() -> None:
    """IL-261: no line of it is used."""
    reader = decoder()
    reader.expect(Awaits.REQUEST)
    with pytest.raises(PeerError):
        reader.feed(f"MayRequest('{P1}')\nmayRequest\n\n".encode())
    for _ in range(2):
        with pytest.raises(PeerError):
            reader.feed(b"\n")
    assert not reader.wants_more


# ---- one block at a time --------------------------------------------------------------------------------------------


def test_nothing_is_decoded_before_it_is_expected() -> None:
    """ILC-095: what comes early waits, and then the link waits."""
    reader = decoder(ahead_bytes_max=1000)
    raw = encoded(Request(records=(P1,))) + encoded(Transfer(responses=(delivered(PLEX),), last=True))
    assert reader.feed(raw) == []
    reader.expect(Awaits.REQUEST)
    assert reader.feed(b"") == [Request(records=(P1,))]
    assert reader.feed(b"") == []
    reader.expect(Awaits.TRANSFER)
    assert reader.feed(b"") == [Transfer(responses=(delivered(PLEX),), last=True)]
    wanted = [reader.wants_more]
    reader.feed(b"x" * 1000)
    wanted.append(reader.wants_more)
    with pytest.raises(UsageError):
        reader.feed(b"x")
    reader.expect(Awaits.ADVERTISE)
    wanted.append(reader.wants_more)
    assert wanted == [True, False, True]


def test_the_terms_come_before_the_advertisements() -> None:
    reader = Decoder(Elements(has_preface=False))
    with pytest.raises(UsageError):
        reader.expect(Awaits.ADVERTISE)
    reader.agree(source=SOURCE, schema=Schema(), limits=Limits())
    reader.expect(Awaits.ADVERTISE)


def test_a_transfer_that_has_begun_is_read_to_its_end() -> None:
    reader = decoder()
    reader.expect(Awaits.TRANSFER)
    assert reader.feed(BLOB.raw + b"N") == []
    with pytest.raises(UsageError):
        reader.expect(Awaits.ADVERTISE)
    reader.expect(Awaits.NOTHING)
    reader.expect(Awaits.TRANSFER)
    raw = f"otAvailable('{P1}')\n\n".encode()
    assert answers(reader.feed(raw)) == ([delivered(BLOB), Unavailable(record=P1)], [])


def test_a_stream_ends_between_two_phases() -> None:
    """ILC-094."""
    for awaits, raw in ((Awaits.REQUEST, f"MayRequest('{P1}')\n"), (Awaits.REQUEST, "MayR"), (Awaits.TRANSFER, "#")):
        reader = decoder()
        reader.expect(awaits)
        assert reader.feed(raw.encode()) == []
        with pytest.raises(Truncated):
            reader.finish()
    reader = decoder()
    reader.expect(Awaits.TRANSFER)
    reader.feed(BLOB.raw + b"# nothing more\n")
    with pytest.raises(Truncated):
        reader.finish()
    decoder().finish()


# ---- transfers ------------------------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(1, 800), st.lists(st.integers(0, 300), max_size=12))
def test_the_parts_of_a_transfer_do_not_depend_on_the_chunks(records: int, size: int, sizes: list[int]) -> None:
    """ILC-092, ILC-096: a part is full, or the last."""
    responses: list[Response] = [delivered(BLOB), delivered(PLEX), Unavailable(record=P1)] * 3
    raw = encoded(Transfer(responses=tuple(responses), last=True, tick=TICK))

    def parts(pieces: list[bytes]) -> list[Message]:
        reader = decoder(chunk_records_max=records, chunk_bytes_max=size)
        reader.expect(Awaits.TRANSFER)
        return [message for piece in pieces for message in reader.feed(piece)]

    whole = parts([raw])
    assert answers(whole) == (responses, [TICK])
    assert isinstance(whole[-1], Transfer)
    assert whole[-1].last
    assert parts(list(chunks(raw, sizes))) == whole


def test_parts_make_one_phase() -> None:
    """ILC-095: only the last part ends it."""
    first = Transfer(responses=(delivered(BLOB),), tick=TICK)
    second = Transfer(responses=(Unavailable(record=P1), delivered(PLEX)), last=True)
    found = decode(encoded(first) + encoded(second), Awaits.TRANSFER)
    assert found == Transfer(responses=(*first.responses, *second.responses), last=True, tick=TICK)


def test_a_part_can_be_had_early() -> None:
    reader = decoder()
    reader.expect(Awaits.TRANSFER)
    assert reader.flush() == []
    assert reader.feed(BLOB.raw) == []
    assert reader.flush() == [Transfer(responses=(delivered(BLOB),))]
    assert reader.flush() == []
    assert reader.feed(b"\n") == [Transfer(last=True)]


def test_what_came_before_an_error_is_not_lost() -> None:
    """IL-261: records that came whole are handed on, then the error."""
    reader = decoder()
    reader.expect(Awaits.TRANSFER)
    assert reader.feed(BLOB.raw + b"\xff") == [Transfer(responses=(delivered(BLOB),))]
    with pytest.raises(Abort) as refused:
        reader.feed(b"")
    assert refused.value.reason is Reason.MALFORMED_BLOCK
    with pytest.raises(Abort):
        reader.finish()


def test_a_transfer_has_one_tick() -> None:
    """ILC-096."""
    tick = f"TickReady('{TICK}')\n".encode()
    reader = decoder()
    reader.expect(Awaits.TRANSFER)
    assert reader.feed(tick + BLOB.raw + tick + b"\n") == [Transfer(responses=(delivered(BLOB),), tick=TICK)]
    with pytest.raises(Abort):
        reader.feed(b"")


# ---- limits ---------------------------------------------------------------------------------------------------------


def test_the_negotiated_limits_hold() -> None:
    """IL-007, IL-268."""
    raw = encoded(Request(records=(P1, hash_of(2))))
    size = len(raw) - 1
    assert isinstance(decode(raw, Awaits.REQUEST, limits=Limits(max_fact_block_size=size)), Request)
    with pytest.raises(OversizedBlock):
        decode(raw, Awaits.REQUEST, limits=Limits(max_fact_block_size=size - 1))


def test_a_listing_is_bounded_for_each_partition_that_was_asked_for() -> None:
    """ILC-128, IL-007."""
    raw = b"".join(f"Advertised('{hash_of(number)}','{ALICE}')\n".encode() for number in range(4)) + b"\n"
    for listings, refused in ((1, True), (2, False)):
        reader = decoder(limits=Limits(max_advertisement_records_listed=2))
        reader.expect(Awaits.ADVERTISE, listings=listings)
        if refused:
            with pytest.raises(LimitReached):
                reader.feed(raw)
        else:
            assert len(reader.feed(raw)) == 1


def test_the_limit_on_summaries_holds() -> None:
    """IL-007."""
    message = Advertise(partitions=tuple(Partition(prefix=prefix, count=1, root=bytes(32)) for prefix in "ab"))
    assert decode(encoded(message), Awaits.ADVERTISE, limits=Limits(max_partition_summaries=2)) == message
    with pytest.raises(LimitReached):
        decode(encoded(message), Awaits.ADVERTISE, limits=Limits(max_partition_summaries=1))


def test_a_setup_is_small() -> None:
    """IL-268."""
    reader = decoder()
    reader.expect(Awaits.SETUP)
    with pytest.raises(OversizedBlock):
        reader.feed(b"E" * (SETUP_BYTES_MAX + 1))


@pytest.mark.parametrize(
    "message",
    [
        Request(records=(P1,)),
        HELLO,
        Advertise(lists=("a", "b")),
        Transfer(responses=(Unavailable(record=P1), delivered(BLOB), Unavailable(record=P1)), last=True),
    ],
)
def test_nothing_larger_than_agreed_is_sent(message: Message) -> None:
    """IL-047, IL-268."""
    size = sum(
        len(line) for line in encoded(message).replace(BLOB.raw, b"").splitlines(keepends=True) if line[:1].isupper()
    )
    size -= len(PLAN_BYTES) + len(b"Data-Length: 53\n") if isinstance(message, Hello) else 0
    assert b"".join(encode(message, source=SOURCE, fact_bytes_max=size)) == encoded(message)
    with pytest.raises(LimitReached) as reached:
        list(encode(message, source=SOURCE, fact_bytes_max=size - 1))
    assert reached.value.limit == "max_fact_block_size"


def test_records_are_advertised_for_a_source() -> None:
    """ILC-060."""
    message = Advertise(records=(advertisement(P1, SOURCE, ()),))
    assert encoded(message) == f"Advertised('{P1}','{ALICE}')\n\n".encode()
    with pytest.raises(UsageError):
        list(encode(message))


def test_a_large_block_is_sent_in_pieces() -> None:
    message = Request(records=tuple(hash_of(number) for number in range(5000)))
    pieces = list(encode(message))
    assert len(pieces) > 3
    assert max(map(len, pieces)) < 70_000
    assert decode(b"".join(pieces), Awaits.REQUEST) == message


def test_every_error_has_a_reason() -> None:
    assert reason_of(OversizedBlock("x")) is Reason.OVERSIZED_BLOCK
    assert reason_of(Truncated("x")) is Reason.LINK_LOST


def test_a_hello_is_small_whatever_a_block_may_have() -> None:
    """IL-268, IL-037: it comes before anything is agreed on, so it may not cost what a listing may."""
    line = b"HelloLimit('unknown_limit_%07d','1')\n"
    long = b"".join(line % number for number in range(HELLO_BYTES_MAX // len(line % 0) + 1))
    assert len(long) < Limits().max_fact_block_size
    assert code(long + b"\n", Awaits.HELLO) == Reason.OVERSIZED_BLOCK


def test_what_is_dropped_is_not_decoded() -> None:
    stream = Elements(has_preface=False)
    reading = Decoder(stream)
    reading.expect(Awaits.REQUEST)
    assert reading.feed(b"MayRequest('x')\n# rest") == []
    reading.drop()
    assert stream.buffered == 0
    assert reading.feed(b"\n") == [Request(records=())]


def test_what_has_begun_of_a_block_is_known() -> None:
    reading = Decoder(Elements(has_preface=False))
    reading.expect(Awaits.REQUEST)
    for said, begun in [(b"", False), (b"# a comment", True), (b"\n", False), (b"MayRe", True)]:
        assert reading.feed(said) == []
        assert reading.has_begun is begun, said
    # The line is taken off the stream here, and held until its phase ends.
    assert reading.feed(f"quest('{P1}')\n# and".encode()) == []
    assert reading.feed(b" no more\n") == []
    assert reading.has_begun
    assert reading.feed(b"\n") == [Request(records=(P1,))]
    assert not reading.has_begun


@pytest.mark.parametrize("bad", [b"", b"MayRequest('\xff')\n"], ids=["wrong predicate", "not UTF-8"])
def test_a_refused_block_is_gone_with_its_error(bad: bytes) -> None:
    """Though the decoder is still there, and no collector comes by: the error is kept, what it has passed is not."""
    piece = (b"PeerAdvertises('" + b"P" * 200 + b"','x')\n") * 1_000
    with without_collector():
        tracemalloc.start()
        try:
            reading = decoder()
            reading.expect(Awaits.REQUEST)
            for _ in range(100):
                assert reading.feed(piece) == []
            with pytest.raises(PeerError):
                reading.feed(bad + b"\n")
            assert tracemalloc.get_traced_memory()[1] > 20_000_000
            reading.drop()
            assert tracemalloc.get_traced_memory()[0] < 1_000_000
        finally:
            tracemalloc.stop()
    with pytest.raises(PeerError):
        reading.feed(b"")


def test_request_lines_are_the_same_however_many_are_made_at_once() -> None:
    names = tuple(hash_of(number) for number in range(200))
    expected = b"".join(f"MayRequest('{name}')\n".encode() for name in names) + b"\n"
    assert b"".join(encode(Request(records=names))) == expected
    odd = (*names[:70], "it's", "é")
    spelled = block.render([("MayRequest", (name,)) for name in odd]) + b"\n"
    assert b"".join(encode(Request(records=odd))) == spelled
