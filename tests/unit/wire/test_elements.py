"""The stream falls into the same elements however it arrives, and every bound holds while it does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin import profile
from bobbin.errors import PeerError
from bobbin.facts.block import MalformedBlock, OversizedBlock
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.policy.modules import MalformedModule
from bobbin.policy.plan import MalformedPlan
from bobbin.records import b64a
from bobbin.records.salvage import HEADER_BYTES_MAX
from bobbin.wire import elements
from bobbin.wire.elements import (
    Element,
    Elements,
    Facts,
    Kind,
    PhaseEnd,
    Preface,
    RecordBytes,
    Resource,
    Truncated,
    again,
    preface,
    resource,
)
from tests.policy_worlds import DING_IDENTIFIER
from tests.properties.strategies import damaged_records, records
from tests.unit.wire.streams import BLOB, MODULE, PLAN, PLAN_BYTES, PLEX, chunks, split

NONCE = bytes(range(32))
PREFACE = preface(NONCE)
MARK = "🖧".encode()

_PIECES = [
    PREFACE,
    b"\n",
    b"\n",
    b"A('x')\n",
    b"Have()\n",
    b"B",
    b"# words\n",
    b"#",
    resource(DING_IDENTIFIER, MODULE),
    resource(PLAN, PLAN_BYTES),
    resource(PLAN, MODULE),
    BLOB.raw,
    PLEX.raw,
    PLEX.raw[:-1],
    MARK,
    "🧩".encode(),
    b"\xf0",
    b"\xf0\x9f\x98\x80",
    b"x",
]
_STREAMS = st.lists(
    st.sampled_from(_PIECES)
    | st.sampled_from(_PIECES[1:5])
    | records().map(lambda record: record.raw)
    | damaged_records()
    | st.binary(max_size=3),
    max_size=8,
).map(lambda pieces: PREFACE + b"".join(pieces))


# ---- what a stream is -----------------------------------------------------------------------------------------------


def test_every_kind_of_element() -> None:
    """ILC-088, ILC-089, ILC-090, ILC-091, ILC-092, ILC-094."""
    raw = PREFACE + b"\nA('x')\nB()\n" + resource(DING_IDENTIFIER, MODULE) + BLOB.raw + PLEX.raw + b"C()\n\n\n"
    found, error = split([raw])
    assert error == ""
    assert found == [
        Preface(NONCE),
        PhaseEnd(),
        Facts(b"A('x')\nB()\n"),
        Resource(identifier=DING_IDENTIFIER, raw=MODULE),
        RecordBytes(record=BLOB.hash, raw=BLOB.raw),
        RecordBytes(record=PLEX.hash, raw=PLEX.raw),
        Facts(b"C()\n"),
        PhaseEnd(),
        PhaseEnd(),
    ]


@given(_STREAMS, st.lists(st.integers(0, 60), max_size=20))
def test_elements_do_not_depend_on_the_chunks(raw: bytes, sizes: list[int]) -> None:
    """ILC-088."""
    whole = split([raw])
    assert split(chunks(raw, sizes)) == whole
    assert split(chunks(raw, [1] * len(raw))) == whole


@given(st.lists(records(), max_size=4))
def test_a_record_takes_what_is_its_own(members: list[object]) -> None:
    """ILC-088, ILC-092: whatever the data looks like, the next element begins right after it."""
    raws = [member.raw for member in members]  # type: ignore[attr-defined]
    found, error = split([PREFACE + b"\n" + b"Tick()\n".join([b"", *raws, b""]) + b"\n"])
    assert error == ""
    assert [element.raw for element in found if isinstance(element, RecordBytes)] == raws


def test_a_comment_is_dropped_wherever_it_stands() -> None:
    """ILC-093: it ends no phase and reaches no block."""
    raw = PREFACE + b"# a\n\n# b\nA()\n# c\n#\nB()\n" + BLOB.raw + b"# d\n\n# after the end\n"
    found, error = split([raw], fact_bytes_max=8)
    assert error == ""
    assert found[1:] == [
        PhaseEnd(),
        Facts(b"A()\n"),
        Facts(b"B()\n"),
        RecordBytes(record=BLOB.hash, raw=BLOB.raw),
        PhaseEnd(),
    ]


@pytest.mark.parametrize("raw", [b"\n", b"# a\n", b"A()\n", b"\xff", BLOB.raw, "🪢: lace/2 ".encode()])
def test_the_preface_comes_first(raw: bytes) -> None:
    """ILC-089."""
    assert split([raw + PREFACE]) == ([], Reason.OUT_OF_PHASE)


@pytest.mark.parametrize("between", [b"", b"\n", b"\nA()\n"])
def test_a_second_preface_is_refused(between: bytes) -> None:
    """ILC-089."""
    assert split([PREFACE + between + PREFACE])[1] == Reason.OUT_OF_PHASE


@pytest.mark.parametrize(
    "nonce", [b64a.encode_bytes(NONCE)[:-1] + b"\n\n", b"0" * 42 + b"1\n", b"-" * 43 + b"\n", b"0" * 44]
)
def test_a_nonce_is_32_bytes(nonce: bytes) -> None:
    """ILC-089."""
    assert split([PREFACE[:-44] + nonce]) == ([], Reason.MALFORMED_BLOCK)


def test_a_stream_without_preface() -> None:
    assert split([b"\n"], has_preface=False) == ([PhaseEnd()], "")


@pytest.mark.parametrize("first", [b"a", b" ", b"\r", b"\x00", b"'", b"%", b"\xf0\x9f\x98\x80", b"\xef\xbb\xbf"])
def test_no_other_byte_begins_an_element(first: bytes) -> None:
    """ILC-090."""
    assert split([PREFACE + b"\n" + first + b"('x')\n\n"])[1] == Reason.MALFORMED_BLOCK


@pytest.mark.parametrize(
    "end", [b"A()", b"A()\n", b"#", b"\xf0", BLOB.raw[:-1], BLOB.raw, resource(PLAN, PLAN_BYTES)[:-1], b"\nA('x\n"]
)
def test_the_end_of_the_input_is_no_phase_end(end: bytes) -> None:
    """ILC-094: whatever waits for the rest was cut off."""
    assert split([PREFACE + b"\n" + end])[1] == Reason.LINK_LOST
    assert split([PREFACE])[1] == Reason.LINK_LOST
    assert split([PREFACE + b"\n"])[1] == ""


def test_a_truncated_stream_says_so() -> None:
    stream = Elements()
    stream.feed(PREFACE + b"\nA(")
    assert [stream.next(), stream.next(), stream.next()] == [Preface(NONCE), PhaseEnd(), None]
    for _ in range(2):
        with pytest.raises(Truncated, match="truncated"):
            stream.finish()


# ---- resources and records ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (resource(DING_IDENTIFIER, MODULE + b"x"), Reason.MALFORMED_MODULE),
        (resource(PLAN, PLAN_BYTES + b"x"), Reason.PLAN_MISMATCH),
        (resource(DING_IDENTIFIER, MODULE).replace(b"190", b"189"), Reason.MALFORMED_MODULE),
        (resource(DING_IDENTIFIER, MODULE).replace(b"190", b"191"), Reason.MALFORMED_MODULE),
        (resource(DING_IDENTIFIER, MODULE).replace(b"190", b"0190"), Reason.MALFORMED_BLOCK),
        (resource(DING_IDENTIFIER, MODULE).replace(b"190", b"-1"), Reason.MALFORMED_BLOCK),
        (resource("P." + DING_IDENTIFIER[2:], MODULE), Reason.MALFORMED_BLOCK),
        (resource(DING_IDENTIFIER[:-1], MODULE), Reason.MALFORMED_BLOCK),
        (resource(DING_IDENTIFIER, MODULE).replace(b"\nData", b"\nExtra: x\nData"), Reason.MALFORMED_BLOCK),
        (resource(DING_IDENTIFIER, MODULE).replace(b"\n", b"\r\n"), Reason.MALFORMED_BLOCK),
    ],
)
def test_a_resource_that_is_not_what_it_says(raw: bytes, reason: Reason) -> None:
    """ILC-091: another identifier, or a length that is one off."""
    assert split([PREFACE + b"\n" + raw + b"\n" * 90])[1] == reason


@pytest.mark.parametrize(
    "raw",
    [
        BLOB.raw.replace(b"Data-Length: ", b"Data-Length: 0"),
        BLOB.raw.replace(b"Data-Length: ", b"Data-Size: "),
        BLOB.raw.replace(b": B.", b": Q."),
        BLOB.raw.replace(b".H3", b".h3"),
        MARK + b"\n\n",
        BLOB.raw.partition(b"\n")[0] + b"\n\n",
        MARK + b": " + b"x" * (HEADER_BYTES_MAX + 1),
    ],
)
def test_a_record_whose_extent_cannot_be_read(raw: bytes) -> None:
    """ILC-092: nobody can say where the next element begins."""
    assert split([PREFACE + b"\n" + raw + b"\n"])[1] == Reason.MALFORMED_BLOCK


def test_a_record_need_not_be_valid() -> None:
    """ILC-122, ILC-132: wrong bytes, or those of another format, have an extent all the same."""
    wrong = BLOB.raw.replace(b"A('x')", b"B('x')")
    foreign = PLEX.raw.replace(b".H3", b".H4").replace(b"App: ", b"Apps: ")
    found, error = split([PREFACE + b"\n" + wrong + foreign + b"\n"])
    assert error == ""
    assert found[2:4] == [
        RecordBytes(record=BLOB.hash, raw=wrong),
        RecordBytes(record=PLEX.hash.replace("H3", "H4"), raw=foreign),
    ]


# ---- bounds ---------------------------------------------------------------------------------------------------------


def test_fact_lines_are_counted_from_phase_end_to_phase_end() -> None:
    """IL-268: also across other elements, and before a line is complete."""
    lines = b"A('12345')\n"
    raw = PREFACE + b"\n" + lines + BLOB.raw + lines + b"\n" + lines
    assert split([raw + b"\n"], fact_bytes_max=22)[1] == ""
    assert split([raw + b"\n"], fact_bytes_max=21)[1] == Reason.OVERSIZED_BLOCK
    assert split([raw + b"A('123456789"], fact_bytes_max=22)[1] == Reason.OVERSIZED_BLOCK


def test_an_oversized_block_is_refused_before_it_is_there() -> None:
    """IL-268: not buffered whole, nor cut at the limit."""
    stream = Elements(fact_bytes_max=1000, has_preface=False)
    stream.feed(b"A" * 1000)
    assert stream.next() is None
    stream.feed(b"A")
    with pytest.raises(OversizedBlock):
        stream.next()


@pytest.mark.parametrize(
    ("raw", "bound", "size"),
    [
        (resource(DING_IDENTIFIER, MODULE), "resource_bytes_max", len(MODULE)),
        (PLEX.raw, "record_bytes_max", len(PLEX.raw)),
        (b"# 345\n", "comment_bytes_max", 5),
    ],
)
def test_every_element_has_a_bound(raw: bytes, bound: str, size: int) -> None:
    stream = PREFACE + b"\n" + raw + b"\n"
    assert split([stream], **{bound: size})[1] == ""
    assert split([stream], **{bound: size - 1})[1] == Reason.OVERSIZED_BLOCK


def test_an_announced_length_is_refused_before_the_bytes_come() -> None:
    head = BLOB.raw.partition(b"Data-Length")[0] + b"Data-Length: 99999999\n\n"
    assert profile.RECORD_BYTES_MAX < 99_999_999
    assert split([PREFACE + b"\n" + head])[1] == Reason.OVERSIZED_BLOCK
    head = resource(DING_IDENTIFIER, MODULE).partition(b"Data-Length")[0] + b"Data-Length: 262145\n\n"
    assert split([PREFACE + b"\n" + head])[1] == Reason.OVERSIZED_BLOCK


@pytest.mark.parametrize(
    ("raw", "kind"), [(b"A", Kind.FACTS), (MARK, Kind.RECORD), (elements.RESOURCE_MARK, Kind.RESOURCE)]
)
def test_what_is_not_admitted_is_refused_at_its_first_bytes(raw: bytes, kind: Kind) -> None:
    """ILC-095: nothing of it is buffered first."""
    stream = Elements(has_preface=False)
    stream.feed(b"\n" + raw)
    stream.admits = frozenset(Kind) - {kind}
    assert stream.next() == PhaseEnd()
    for _ in range(2):
        with pytest.raises(Abort) as refused:
            stream.next()
        assert refused.value.reason is Reason.OUT_OF_PHASE


def test_memory_is_one_element() -> None:
    stream = Elements(has_preface=False)
    for _ in range(200):
        stream.feed(PLEX.raw * 50)
        while stream.next():
            pass
        assert stream.buffered == 0
        assert len(stream._buffer) == 0


def test_a_preface_needs_a_whole_nonce() -> None:
    with pytest.raises(AssertionError):
        preface(b"short")


@pytest.mark.parametrize(
    "failure",
    [
        OversizedBlock("large"),
        MalformedBlock(3, "bad"),
        Truncated("short"),
        Abort(Reason.OUT_OF_PHASE, "early"),
        LimitReached(Reason.LISTING_LIMIT, "max_advertisement_records_listed", "many"),
        MalformedModule("wrong", ()),
        MalformedPlan("none"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_an_error_can_be_made_again_without_its_way(failure: PeerError) -> None:
    with pytest.raises(PeerError) as raised:
        raise failure from UnicodeDecodeError("utf-8", b"a whole block", 0, 1, "bad")
    assert raised.value.__traceback__ is not None
    made = again(raised.value)
    assert type(made) is type(failure)
    assert (str(made), made.code, vars(made)) == (str(failure), failure.code, vars(failure))
    assert (made.__traceback__, made.__cause__, made.__context__) == (None, None, None)


def test_an_error_that_comes_again_is_another_one_each_time() -> None:
    stream = Elements(has_preface=False)
    stream.feed(b"\xff")
    caught: list[PeerError] = []
    for _ in range(3):
        with pytest.raises(Abort) as refused:
            stream.next()
        caught.append(refused.value)
    with pytest.raises(Abort) as refused:
        stream.finish()
    caught.append(refused.value)
    assert len({id(one) for one in caught}) == 4
    assert {(type(one), str(one)) for one in caught} == {(Abort, str(caught[0]))}


def test_what_is_dropped_is_gone() -> None:
    stream = Elements(has_preface=False)
    stream.feed(b"A" * 1000)
    assert stream.next() is None
    stream.drop()
    assert stream.buffered == 0
    assert stream.next() is None


# ---- records that follow one another --------------------------------------------------------------------------------


def _all(
    raw: bytes, sizes: list[int], *, at_once: bool, record_bytes_max: int = profile.RECORD_BYTES_MAX
) -> tuple[list[Element], str | None]:
    stream = Elements(record_bytes_max=record_bytes_max)
    found: list[Element] = []
    try:
        for chunk in chunks(raw, sizes):
            stream.feed(chunk)
            while True:
                if at_once:
                    found += [RecordBytes(record=record, raw=one) for record, one in stream.records()]
                element = stream.next()
                if element is None:
                    break
                found.append(element)
        stream.finish()
    except PeerError as error:
        return found, str(error)
    return found, None


@given(_STREAMS, st.lists(st.integers(1, 400)))
def test_records_at_once_are_those_one_by_one(raw: bytes, sizes: list[int]) -> None:
    """And so is everything between and after them, errors included."""
    assert _all(raw, sizes, at_once=True) == _all(raw, sizes, at_once=False)
    most = len(BLOB.raw)
    assert _all(raw, sizes, at_once=True, record_bytes_max=most) == _all(
        raw, sizes, at_once=False, record_bytes_max=most
    )


def test_no_record_is_given_where_none_is_admitted() -> None:
    stream = Elements(has_preface=False)
    stream.feed(BLOB.raw + PLEX.raw + PLEX.raw[:-1])
    stream.admits = frozenset({Kind.FACTS})
    assert stream.records() == []
    stream.admits = frozenset({Kind.RECORD})
    assert stream.records() == [(BLOB.hash, BLOB.raw), (PLEX.hash, PLEX.raw)]
    assert stream.records() == []
    stream.feed(PLEX.raw[-1:])
    assert stream.records() == [(PLEX.hash, PLEX.raw)]
    assert Elements().records() == [], "nothing comes before the preface"
