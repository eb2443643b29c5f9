"""Compressed fact blocks: the same messages in fewer bytes, and no peer can make them cost more than plain ones."""

import random
import tracemalloc
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import PeerError
from bobbin.facts.block import OversizedBlock
from bobbin.interlace.advertise import advertisement
from bobbin.interlace.limits import Limits
from bobbin.interlace.messages import Advertise, Message
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.interlace.state import Awaits
from bobbin.policy.claims import ClaimedField
from bobbin.wire import compressed
from bobbin.wire.compressed import COMPRESSED_MARK, PIECE_BYTES_MAX, Inflater, compress
from bobbin.wire.elements import Elements
from bobbin.wire.interlace import Decoder, encode
from tests.unit.wire.streams import SCHEMA, SOURCE, advertises, chunks, hash_of

_LINE = b"NarrowAdvertisementPartition('aa')\n"


def _decoder(bytes_max: int = 64 * 1024 * 1024, *, agreed: bool = True) -> Decoder:
    made = Decoder(Elements(has_preface=False))
    made.agree(source=SOURCE, schema=SCHEMA, limits=Limits(max_fact_block_size=bytes_max), compressed=agreed)
    made.expect(Awaits.ADVERTISE)
    return made


def _element(piece: bytes) -> bytes:
    return b"%b: %d\n%b" % (COMPRESSED_MARK, len(piece), piece)


def _deflated(lines: bytes) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=compressed._DICTIONARY)
    return deflate.compress(lines) + deflate.flush()


def _listing(count: int) -> Advertise:
    field = ClaimedField("Group", "0", "measurements")
    return Advertise(records=tuple(advertisement(hash_of(number), SOURCE, (field,)) for number in range(count)))


def _read(raw: bytes, sizes: list[int] | None = None, bytes_max: int = 64 * 1024 * 1024) -> list[Message]:
    decoder = _decoder(bytes_max)
    found = [message for chunk in chunks(raw, sizes or []) for message in decoder.feed(chunk)]
    decoder.finish()
    return found


@given(advertises(), st.lists(st.integers(0, 200), max_size=5))
def test_a_message_comes_back_however_it_is_cut(message: Advertise, sizes: list[int]) -> None:
    raw = b"".join(encode(message, source=SOURCE, compressed=True))
    assert _read(raw, sizes) == [message]
    assert len(raw) <= sum(map(len, encode(message, source=SOURCE)))


def test_a_long_listing_travels_in_bounded_pieces_and_a_third_of_the_bytes() -> None:
    message = _listing(5_000)
    plain = b"".join(encode(message, source=SOURCE))
    pieces = list(encode(message, source=SOURCE, compressed=True))
    assert max(map(len, pieces)) <= PIECE_BYTES_MAX + compressed.HEAD_BYTES_MAX
    assert sum(map(len, pieces)) <= 0.35 * len(plain)
    assert _read(b"".join(pieces)) == [message]


def test_what_does_not_get_shorter_goes_as_it_is() -> None:
    assert list(compress([b"TickReady('1')\n"])) == [b"TickReady('1')\n"]
    assert list(compress([])) == [b""]
    noise = bytes(range(256)) * 4
    assert b"".join(compress([noise])) != noise
    incompressible = zlib.compress(noise)[:200]
    assert b"".join(compress([incompressible])) == incompressible


def test_compression_is_lazy_and_takes_a_piece_at_a_time() -> None:
    taken = 0

    def pieces() -> Iterator[bytes]:
        nonlocal taken
        for number in range(1_000):
            taken += 1
            yield random.Random(number).randbytes(50_000)

    elements = compress(pieces())
    next(elements)
    assert taken < 20


def test_the_form_is_fixed_for_ever() -> None:
    stream = bytes.fromhex("c31f268989181a2a40a6e8a817e7971625a75a1900e501")
    inflater = Inflater(1_000)
    assert inflater.take(stream) == _LINE + b"Advertised('P.x.H3','source:0')\n"
    inflater.finish()


# ---- what a peer may try --------------------------------------------------------------------------------------------


def _refusal(raw: bytes, bytes_max: int = 8_192) -> PeerError:
    with pytest.raises(PeerError) as refused:
        _read(raw, bytes_max=bytes_max)
    whole = str(refused.value)
    with pytest.raises(PeerError) as refused:
        _read(raw, [1] * (len(raw) - 1) if len(raw) < 5_000 else [777], bytes_max)
    assert str(refused.value) == whole, "it is the same however it is cut"
    return refused.value


def test_a_bomb_ends_at_the_bound_of_fact_blocks() -> None:
    bomb = _deflated(bytes(50_000_000))
    assert len(bomb) < PIECE_BYTES_MAX
    tracemalloc.start()
    refused = _refusal(_element(bomb) + b"\n", 100_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(refused, OversizedBlock)
    assert peak < 2_000_000


def test_a_block_that_is_just_long_enough_is_read() -> None:
    lines = b"NarrowAdvertisementPartition('aa')\nNarrowAdvertisementPartition('ab')\n"
    raw = _element(_deflated(lines)) + b"\n"
    assert _read(raw, bytes_max=len(lines)) == [Advertise(narrows=("aa", "ab"))]
    assert isinstance(_refusal(raw, len(lines) - 1), OversizedBlock)


def test_bytes_that_become_nothing_are_counted_too() -> None:
    """An empty block of a deflate stream, again and again."""
    nothing = b"\x00\x00\x00\xff\xff"
    assert isinstance(_refusal(_element(nothing) * 1_000), OversizedBlock)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (_element(b"\xff\xff\xff"), "invalid"),
        (_element(_deflated(_LINE)[:-1]) + b"\n", "no end"),
        (_element(_deflated(_LINE) + b"x") + b"\n", "after its end"),
        (_element(_deflated(_LINE)) + _element(b"x") + b"\n", "after its end"),
        (_element(_deflated(_LINE)) + _LINE + b"\n", "both compressed"),
        (_LINE + _element(_deflated(_LINE)) + b"\n", "both compressed"),
        (_element(_deflated(b"nonsense\n")) + b"\n", "line 1"),
        (COMPRESSED_MARK + b": 0\n\n", "from 1 to"),
        (COMPRESSED_MARK + b": 65537\n", "from 1 to"),
        (COMPRESSED_MARK + b": 99999999999", "from 1 to"),
        (COMPRESSED_MARK + b": 01\nx", "from 1 to"),
        (COMPRESSED_MARK + b"; 1\nxxxxxxxxx", "from 1 to"),
    ],
)
def test_what_is_no_compressed_block_is_refused(raw: bytes, said: str) -> None:
    refused = _refusal(raw)
    assert Reason(refused.code) is Reason.MALFORMED_BLOCK
    assert said in str(refused)


@pytest.mark.parametrize("cut", [2, 6, 12])
def test_a_stream_that_ends_within_a_piece_is_truncated(cut: int) -> None:
    with pytest.raises(Abort, match="truncated"):
        _read((_element(_deflated(_LINE)) + b"\n")[:cut])


def test_a_stream_that_ends_between_piece_and_phase_end_is_truncated() -> None:
    with pytest.raises(Abort, match="truncated"):
        _read(_element(_deflated(_LINE)))


def test_who_has_not_agreed_on_it_has_never_heard_of_it() -> None:
    raw = _element(_deflated(_LINE)) + b"\n"
    with pytest.raises(Abort, match="no element begins with the bytes f09f979c"):
        _decoder(agreed=False).feed(raw)


@pytest.mark.parametrize("awaits", [Awaits.SETUP, Awaits.HELLO, Awaits.REQUEST, Awaits.TRANSFER])
def test_only_the_advertise_phase_has_compressed_blocks(awaits: Awaits) -> None:
    decoder = _decoder()
    decoder.expect(awaits)
    with pytest.raises(Abort, match="no element begins"):
        decoder.feed(_element(_deflated(_LINE)) + b"\n")


def test_a_block_that_is_too_long_is_not_sent_compressed_either() -> None:
    with pytest.raises(LimitReached):
        list(encode(_listing(5_000), source=SOURCE, fact_bytes_max=100_000, compressed=True))


def test_what_waits_can_be_let_go_of() -> None:
    decoder = _decoder()
    decoder.feed(_element(_deflated(_LINE)))
    assert decoder.has_begun
    decoder.drop()
    assert not decoder.has_begun
