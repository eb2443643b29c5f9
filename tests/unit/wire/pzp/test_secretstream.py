"""The stream cipher: recorded blocks, any cut, and everything that a middleman could do to the blocks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl import bindings

from bobbin.errors import UsageError
from bobbin.wire.pzp.faults import Fault, WireFault
from bobbin.wire.pzp.secretstream import BLOCK_SIZE, CONTENT_BYTES_MAX, HEADER_SIZE, Opener, Sealer
from tests.support.pzp_wire import cut, recorded

KEY = b"k" * 32
HEADER = b"h" * HEADER_SIZE


def _sealed(*writes: bytes) -> list[bytes]:
    """The blocks of these writes, and the last one."""
    sealer = Sealer(KEY, header=HEADER)
    blocks = b"".join(map(sealer.seal, writes)) + sealer.finish()
    return [blocks[at : at + BLOCK_SIZE] for at in range(0, len(blocks), BLOCK_SIZE)]


def _refused(blocks: list[bytes]) -> Fault:
    with pytest.raises(WireFault) as caught:
        _open(blocks)
    return caught.value.fault


def _open(blocks: list[bytes]) -> None:
    opener = Opener(KEY)
    for block in (HEADER, *blocks):
        opener.feed(block)
    opener.finish()


@pytest.mark.parametrize("values", recorded("secretstream")["streams"], ids=["5", "494", "495", "988"])
def test_recorded_streams_are_made_and_read_byte_for_byte(values: dict[str, Any]) -> None:
    """TG-112."""
    key, header = bytes.fromhex(values["key"]), bytes.fromhex(values["header"])
    writes = [bytes.fromhex(chunk) for chunk in values["plaintext_chunks"]]
    blocks = b"".join(map(bytes.fromhex, values["ciphertext_blocks"]))
    sealer = Sealer(key, header=header)
    assert b"".join(map(sealer.seal, writes)) + sealer.finish() == blocks
    opener = Opener(key)
    assert opener.feed(header + blocks) == b"".join(writes)
    assert opener.ended
    opener.finish()


def test_every_write_begins_a_block_of_its_own() -> None:
    """TG-112: writes are never merged."""
    sizes = {0: 0, 1: 1, CONTENT_BYTES_MAX: 1, CONTENT_BYTES_MAX + 1: 2, 2 * CONTENT_BYTES_MAX: 2}
    for size, blocks in sizes.items():
        assert len(Sealer(KEY, header=HEADER).seal(bytes(size))) == blocks * BLOCK_SIZE
    assert len(_sealed(b"a", b"b")) == 3


@given(st.lists(st.binary(max_size=1200), max_size=4), st.lists(st.integers(0, 700), max_size=8))
def test_how_the_bytes_are_cut_makes_no_difference(writes: list[bytes], sizes: list[int]) -> None:
    opener = Opener(KEY)
    stream = HEADER + b"".join(_sealed(*writes))
    assert b"".join(opener.feed(part) for part in cut(stream, sizes)) == b"".join(writes)
    opener.finish()
    assert opener.buffered == 0


def test_an_altered_block_is_refused_wherever_it_was_altered() -> None:
    for at in (0, 1, 255, BLOCK_SIZE - 1):
        blocks = _sealed(b"content")
        altered = bytearray(blocks[0])
        altered[at] ^= 0x80
        assert _refused([bytes(altered), blocks[1]]) is Fault.FORGED_BLOCK


def test_blocks_that_are_repeated_left_out_or_exchanged_are_refused() -> None:
    """A replay is no different from a forgery."""
    first, second, last = _sealed(b"first", b"second")
    assert _refused([first, first, second, last]) is Fault.FORGED_BLOCK
    assert _refused([second, last]) is Fault.FORGED_BLOCK
    assert _refused([second, first, last]) is Fault.FORGED_BLOCK
    assert _refused([first, last]) is Fault.FORGED_BLOCK


def test_another_header_or_key_opens_nothing() -> None:
    block = _sealed(b"content")[0]
    for opener, header in ((Opener(KEY), b"H" * HEADER_SIZE), (Opener(b"K" * 32), HEADER)):
        with pytest.raises(WireFault) as caught:
            opener.feed(header + block)
        assert caught.value.fault is Fault.FORGED_BLOCK


def test_a_stream_that_was_cut_is_no_stream_that_ended() -> None:
    """TG-112: without the last block it was cut, at the end of a block or inside one."""
    blocks = _sealed(b"content")
    assert _refused(blocks[:1]) is Fault.TRUNCATED
    assert _refused([blocks[0], blocks[1][:-1]]) is Fault.TRUNCATED
    assert _refused([]) is Fault.TRUNCATED


def test_nothing_comes_behind_the_last_block() -> None:
    blocks = _sealed(b"content")
    assert _refused([*blocks, b"x"]) is Fault.AFTER_END
    assert _refused([*blocks, blocks[0]]) is Fault.AFTER_END


def test_content_before_a_fault_is_not_lost() -> None:
    first, last = _sealed(b"content")
    for behind, fault in ((bytes(BLOCK_SIZE), Fault.FORGED_BLOCK), (last + b"x", Fault.AFTER_END)):
        opener = Opener(KEY)
        assert opener.feed(HEADER + first + behind) == b"content"
        for call in (opener.check, opener.finish, lambda opener=opener: opener.feed(b"")):
            with pytest.raises(WireFault) as caught:
                call()
            assert caught.value.fault is fault


def _block(plain: bytes, tag: int) -> bytes:
    state = bindings.crypto_secretstream_xchacha20poly1305_state()
    bindings.crypto_secretstream_xchacha20poly1305_init_pull(state, HEADER, KEY)
    return bindings.crypto_secretstream_xchacha20poly1305_push(state, plain, tag=tag)


@pytest.mark.parametrize(
    ("plain", "tag", "fault"),
    [
        (b"x\x80".ljust(495, b"\0"), 1, Fault.WRONG_TAG),
        (b"x\x80".ljust(495, b"\0"), 2, Fault.WRONG_TAG),
        (b"x\x80".ljust(495, b"\0"), 3, Fault.WRONG_TAG),
        (bytes(495), 0, Fault.PADDING),
        (b"x" * 495, 0, Fault.PADDING),
        (bytes(495), 3, Fault.PADDING),
    ],
    ids=["push", "rekey", "final with content", "no mark", "full", "final without mark"],
)
def test_genuine_blocks_of_another_kind_are_refused(plain: bytes, tag: int, fault: Fault) -> None:
    """TG-112."""
    assert _refused([_block(plain, tag)]) is fault


def test_an_empty_block_is_no_end() -> None:
    opener = Opener(KEY)
    assert opener.feed(HEADER + _block(b"\x80".ljust(495, b"\0"), 0)) == b""
    assert not opener.ended


def test_a_stream_ends_once() -> None:
    sealer = Sealer(KEY, header=HEADER)
    sealer.finish()
    with pytest.raises(UsageError, match="ends"):
        sealer.seal(b"more")
    with pytest.raises(UsageError, match="ends"):
        sealer.finish()


def test_keys_and_headers_have_their_size() -> None:
    with pytest.raises(UsageError):
        Sealer(b"short", header=HEADER)
    with pytest.raises(UsageError):
        Sealer(KEY, header=b"short")
    with pytest.raises(UsageError):
        Opener(b"short")


def test_memory_is_one_block() -> None:
    opener = Opener(KEY)
    stream = HEADER + b"".join(_sealed(bytes(20_000)))
    held = 0
    for at in range(0, len(stream), 300):
        opener.feed(stream[at : at + 300])
        held = max(held, opener.buffered)
    assert held < BLOCK_SIZE
