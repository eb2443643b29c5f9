"""Encrypted streams: both sides of the handshake, what is written, and how an end is told from a cut."""

import asyncio

import pytest

from bobbin.transport import secret_stream
from bobbin.transport.base import TransportError
from bobbin.wire.pzp.faults import Fault, WireFault
from tests.support.byte_streams import drip, seeded, stream_pair, whole
from tests.support.pzp_wire import ALICE, BOB, CAROL
from tests.support.secret_links import secret_pair

HANDSHAKE_BYTES = {"client": 64 + 144, "server": 64 + 80}
HEADER = 24


@pytest.mark.parametrize("cut", [whole, drip, seeded(1)], ids=["whole", "drip", "seeded"])
def test_what_is_written_is_read(cut: object) -> None:
    async def main() -> None:
        assert callable(cut)
        ours, theirs, _, _ = await secret_pair(cut=cut)
        assert (ours.peer, theirs.peer) == (BOB.public_bytes, ALICE.public_bytes)
        await ours.write(b"a" * 1000)
        await ours.write(b"b")
        await theirs.write(b"c" * 494)
        read = b""
        while len(read) < 1001:
            read += await theirs.read()
        assert read == b"a" * 1000 + b"b"
        back = b""
        while len(back) < 494:
            back += await ours.read()
        assert back == b"c" * 494
        await asyncio.gather(ours.close(), theirs.close())

    asyncio.run(main())


def test_every_write_is_blocks_of_its_own() -> None:
    """TG-112."""

    async def main() -> None:
        ours, _, under, _ = await secret_pair()
        before = len(under.outgoing.written)
        assert before == HANDSHAKE_BYTES["client"] + HEADER
        for size, blocks in ((1, 1), (494, 1), (495, 2), (0, 0), (200_000, 405)):
            start = len(under.outgoing.written)
            writing = asyncio.create_task(ours.write(bytes(size)))
            await asyncio.wait_for(writing, 10)
            assert len(under.outgoing.written) - start == 512 * blocks

    asyncio.run(main())


def test_an_end_is_said_and_heard() -> None:
    async def main() -> None:
        ours, theirs, under, _ = await secret_pair()
        await ours.write(b"last")
        await ours.close()
        assert await theirs.read() == b"last"
        assert await theirs.read() == b""
        assert await theirs.read() == b""
        assert under.is_closed
        with pytest.raises(TransportError, match="closed"):
            await ours.write(b"more")
        await ours.close()

    asyncio.run(main())


def test_a_stream_that_was_cut_is_no_stream_that_ended() -> None:
    """TG-112."""

    async def main() -> None:
        ours, theirs, under, _ = await secret_pair()
        await ours.write(b"last")
        under.outgoing.end()
        assert await theirs.read() == b"last"
        with pytest.raises(WireFault) as caught:
            await theirs.read()
        assert caught.value.fault is Fault.TRUNCATED
        ours.abort()
        assert under.was_aborted

    asyncio.run(main())


def test_an_altered_stream_is_refused() -> None:
    async def main() -> None:
        ours, theirs, under, _ = await secret_pair()
        under.outgoing.stall(stalled=True)
        await ours.write(b"content")
        under.outgoing.written[-1] ^= 1
        under.outgoing.stall(stalled=False)
        for _ in range(2):
            with pytest.raises(WireFault) as caught:
                await theirs.read()
            assert caught.value.fault is Fault.FORGED_BLOCK

    asyncio.run(main())


def test_whoever_answers_must_hold_the_key_that_was_dialled() -> None:
    async def main() -> None:
        ours, theirs = stream_pair()
        called, answered = await asyncio.gather(
            secret_stream.call(ours, ALICE, CAROL.public_bytes),
            secret_stream.answer(theirs, BOB),
            return_exceptions=True,
        )
        assert isinstance(called, WireFault | TransportError)
        assert isinstance(answered, WireFault)
        assert answered.fault is Fault.NOT_PROVEN
        assert ours.was_aborted
        assert theirs.was_aborted

    asyncio.run(main())


def test_whoever_is_not_admitted_is_not_answered() -> None:
    async def main() -> None:
        ours, theirs = stream_pair()
        asked: list[bytes] = []

        def admits(peer: bytes) -> bool:
            asked.append(peer)
            return False

        called, answered = await asyncio.gather(
            secret_stream.call(ours, ALICE, BOB.public_bytes),
            secret_stream.answer(theirs, BOB, admits=admits),
            return_exceptions=True,
        )
        assert isinstance(called, WireFault | TransportError)
        assert isinstance(answered, WireFault)
        assert answered.fault is Fault.NOT_ADMITTED
        assert asked == [ALICE.public_bytes]
        assert len(theirs.outgoing.written) == 64

    asyncio.run(main())


def test_what_the_client_says_besides() -> None:
    async def main() -> None:
        ours, theirs = stream_pair()
        _, answered = await asyncio.gather(
            secret_stream.call(ours, ALICE, BOB.public_bytes, extra=b"\x05" * 32), secret_stream.answer(theirs, BOB)
        )
        assert answered.extra == b"\x05" * 32
        assert answered.route.loopback

    asyncio.run(main())


def test_a_handshake_has_its_time() -> None:
    """TG-110."""

    async def main() -> None:
        ours, theirs = stream_pair()
        ours.outgoing.stall(stalled=True)
        with pytest.raises(WireFault, match=r"0\.01 seconds") as caught:
            await secret_stream.answer(theirs, BOB, timeout_seconds=0.01)
        assert caught.value.fault is Fault.HANDSHAKE_TIMEOUT
        assert theirs.was_aborted

    asyncio.run(main())


@pytest.mark.parametrize("size", [0, 63, 64, 64 + 143])
def test_a_handshake_that_is_broken_off(size: int) -> None:
    async def main() -> None:
        ours, theirs = stream_pair()
        ours.outgoing.drop_after = size
        called, answered = await asyncio.gather(
            secret_stream.call(ours, ALICE, BOB.public_bytes),
            secret_stream.answer(theirs, BOB),
            return_exceptions=True,
        )
        assert isinstance(called, TransportError)
        assert isinstance(answered, TransportError | WireFault)

    asyncio.run(main())


def test_every_handshake_takes_fresh_chance() -> None:
    async def main() -> None:
        first, _, one, _ = await secret_pair()
        second, _, other, _ = await secret_pair()
        size = HANDSHAKE_BYTES["client"] + HEADER
        assert one.outgoing.written[:64] != other.outgoing.written[:64]
        assert one.outgoing.written[size - HEADER : size] != other.outgoing.written[size - HEADER : size]
        first.abort()
        second.abort()

    asyncio.run(main())
