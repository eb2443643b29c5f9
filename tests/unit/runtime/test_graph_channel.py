"""Frames on streams; those on WebSockets are in ``test_graph_web`` and ``test_graph_server``."""

import asyncio

import pytest

from bobbin.errors import UsageError
from bobbin.runtime.graph_channel import Channel, SocketChannel, StreamChannel
from bobbin.transport.base import TransportError
from bobbin.wire.lazily.faults import Fault, FrameFault
from bobbin.wire.lazily.handshake import HANDSHAKE_BYTES_MAX
from tests.support.byte_streams import MemoryStream, seeded, stream_pair, whole
from tests.support.graphs import Sample, raw_socket, run, serving

FRAMES = [b"{}", b"\x81\x01", b"x" * 5_000]


def _pair(seed: int | None = None) -> tuple[MemoryStream, MemoryStream]:
    return stream_pair(cut=whole if seed is None else seeded(seed))


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_frames_arrive_however_the_bytes_are_cut(seed: int | None) -> None:
    """RX-055."""

    async def main() -> None:
        left, right = _pair(seed)
        one, two = StreamChannel(left), StreamChannel(right)
        for raw in FRAMES:
            await one.send(raw)
        assert [await two.receive() for _ in FRAMES] == FRAMES
        await one.close()
        with pytest.raises(TransportError, match="closed"):
            await two.receive()

    run(main())


def test_the_first_frame_has_a_bound_of_its_own() -> None:
    """Whoever has not shaken hands does not get to fill memory."""

    async def main() -> None:
        left, right = _pair()
        await StreamChannel(left).send(b"x" * (HANDSHAKE_BYTES_MAX + 1))
        with pytest.raises(FrameFault) as caught:
            await StreamChannel(right).receive()
        assert caught.value.fault is Fault.OVERSIZED

    run(main())


def test_a_frame_that_is_too_long_is_neither_sent_nor_taken() -> None:
    """RX-074: refused when its length is there, not when it is."""

    async def main() -> None:
        left, right = _pair()
        small, channel = StreamChannel(right, frame_bytes_max=100), StreamChannel(left)
        with pytest.raises(UsageError, match="100"):
            await small.send(b"x" * 101)
        await channel.send(b"hello")
        assert await small.receive() == b"hello"
        await left.write((101).to_bytes(4, "little"))
        with pytest.raises(FrameFault) as caught:
            await small.receive()
        assert caught.value.fault is Fault.OVERSIZED

    run(main())


def test_a_frame_that_was_cut_off_is_none() -> None:
    async def main() -> None:
        left, right = _pair()
        await left.write((10).to_bytes(4, "little") + b"half")
        await left.close()
        with pytest.raises(FrameFault) as caught:
            await StreamChannel(right).receive()
        assert caught.value.fault is Fault.TRUNCATED

    run(main())


def test_what_a_websocket_says_of_its_end() -> None:
    async def main() -> None:
        sample = Sample()
        async with serving(sample.host, "ws:127.0.0.1:0") as (address,), raw_socket(address) as socket:
            channel: Channel = SocketChannel(socket)
            await channel.send(b'{"no":"handshake"}')
            with pytest.raises(TransportError, match="closed the link: malformed"):
                await channel.receive()
            with pytest.raises(TransportError, match="closed"):
                await channel.send(b"{}")
            await asyncio.gather(channel.close(), channel.close())

    run(main())
