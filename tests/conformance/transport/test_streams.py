"""What every stream promises, whatever carries it (``transport/base.py``)."""

import asyncio
from contextlib import suppress
from random import Random

import pytest

from bobbin.transport import flow
from bobbin.transport.base import READ_BYTES_MAX, ByteStream, TransportError
from tests.conformance.transport.conftest import Kit

_FAR_TOO_MUCH = 64 * 1024 * 1024
"""More than a system holds for one socket."""


def _noise(size: int, seed: int = 1) -> bytes:
    return Random(seed).randbytes(size)


async def _read(stream: ByteStream, size: int) -> bytes:
    """Exactly so many bytes; every read along the way is checked."""
    parts: list[bytes] = []
    missing = size
    while missing > 0:
        data = await stream.read()
        assert 0 < len(data) <= READ_BYTES_MAX
        assert type(data) is bytes
        parts.append(data)
        missing -= len(data)
    assert missing == 0
    return b"".join(parts)


async def _read_to_end(stream: ByteStream) -> bytes:
    parts: list[bytes] = []
    while data := await stream.read():
        parts.append(data)
    return b"".join(parts)


async def _settle() -> None:
    for _ in range(500):
        await asyncio.sleep(0)


def test_bytes_arrive_in_order_both_ways(kit: Kit) -> None:
    async def test(one: ByteStream, other: ByteStream) -> None:
        random = Random(2)
        for _ in range(50):
            said = random.randbytes(random.randrange(1, 20_000))
            await one.write(said)
            assert await _read(other, len(said)) == said
            await other.write(said[::-1])
            assert await _read(one, len(said)) == said[::-1]

    kit.run(test)


def test_both_sides_may_write_at_once(kit: Kit) -> None:
    async def test(one: ByteStream, other: ByteStream) -> None:
        mine, yours = _noise(6_000_000), _noise(5_000_000, seed=3)
        _, _, here, there = await asyncio.gather(
            one.write(mine), other.write(yours), _read(one, len(yours)), _read(other, len(mine))
        )
        assert here == yours
        assert there == mine

    kit.run(test)


def test_an_empty_write_is_no_end(kit: Kit) -> None:
    async def test(one: ByteStream, other: ByteStream) -> None:
        await one.write(b"")
        await one.write(b"after")
        assert await _read(other, 5) == b"after"

    kit.run(test)


def test_a_close_comes_after_everything_that_was_written(kit: Kit) -> None:
    async def test(one: ByteStream, other: ByteStream) -> None:
        said = _noise(3_000_000)

        async def say() -> None:
            await one.write(said)
            await one.close()

        async def hear() -> bytes:
            heard = await _read_to_end(other)
            assert await other.read() == b""
            await other.close()
            return heard

        _, heard = await asyncio.gather(say(), hear())
        assert heard == said

    kit.run(test)


def test_what_was_written_arrives_although_the_writer_has_unread_bytes(kit: Kit) -> None:
    async def test(one: ByteStream, other: ByteStream) -> None:
        await other.write(_noise(100_000))

        async def hear() -> bytes:
            heard = await _read_to_end(other)
            await other.close()
            return heard

        await one.write(b"last words")
        _, heard = await asyncio.gather(one.close(), hear())
        assert heard == b"last words"

    kit.run(test)


def test_a_writer_waits_for_the_reader(kit: Kit) -> None:
    async def test(one: ByteStream, other: ByteStream) -> None:
        said = bytes(_FAR_TOO_MUCH)
        writing = asyncio.create_task(one.write(said))
        await _settle()
        assert not writing.done()
        count = 0
        while count < len(said):
            count += len(await other.read())
        await writing
        assert count == len(said)

    kit.run(test)


def test_reading_gives_nothing_after_it_was_closed_here(kit: Kit) -> None:
    async def test(one: ByteStream, other: ByteStream) -> None:
        reading = asyncio.create_task(one.read())
        await _settle()
        await asyncio.gather(one.close(), other.close())
        with pytest.raises(TransportError, match="this side has closed"):
            await reading
        with pytest.raises(TransportError, match="this side has closed"):
            await one.read()
        with pytest.raises(TransportError):
            await one.write(b"late")

    kit.run(test)


def test_closing_again_changes_nothing(kit: Kit) -> None:
    async def test(one: ByteStream, other: ByteStream) -> None:
        await asyncio.gather(one.close(), other.close(), one.close())
        await one.close()
        one.abort()
        await one.close()
        with pytest.raises(TransportError):
            await one.write(b"late")

    kit.run(test)


def test_a_close_does_not_wait_for_a_peer_that_does_not_read(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "CLOSE_SECONDS", 0.01)

    async def test(one: ByteStream, other: ByteStream) -> None:
        writing = asyncio.create_task(one.write(bytes(_FAR_TOO_MUCH)))
        await _settle()
        await one.close()
        with pytest.raises(TransportError):
            await writing
        del other

    kit.run(test)


def test_an_abort_ends_both_sides(kit: Kit) -> None:
    async def test(one: ByteStream, other: ByteStream) -> None:
        reading = asyncio.create_task(one.read())
        await _settle()
        one.abort()
        with pytest.raises(TransportError):
            await reading
        with pytest.raises(TransportError):
            await one.write(b"late")
        # The other end sees an end, or that it was no proper one; it does not wait for ever.
        with suppress(TransportError):
            assert await _read_to_end(other) == b""

    kit.run(test)


def test_writing_to_a_peer_that_is_gone_fails_in_the_end(kit: Kit) -> None:
    async def test(one: ByteStream, other: ByteStream) -> None:
        other.abort()

        async def write_on() -> None:
            while True:
                await one.write(bytes(10_000))
                await asyncio.sleep(0)

        with pytest.raises(TransportError) as found:
            await write_on()
        assert found.value.retry

    kit.run(test)


def test_a_read_that_is_given_up_loses_nothing(kit: Kit) -> None:
    async def test(one: ByteStream, other: ByteStream) -> None:
        for _ in range(3):
            reading = asyncio.create_task(other.read())
            await _settle()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        await one.write(b"whole")
        assert await _read(other, 5) == b"whole"

    kit.run(test)


def test_a_route_says_what_the_transport_knows(kit: Kit) -> None:
    async def test(one: ByteStream, other: ByteStream) -> None:
        assert one.route.loopback
        assert other.route.loopback
        assert one.route.binding == other.route.binding == kit.binding
        assert one.route.verified == (kit.binding is not None)
        assert not other.route.verified
        assert one.route.address == other.route.address
        assert one.route.remote
        expected = {"tcp6": "::1", "unix": "local", "stdio": "local", "stdio-socket": "local"}.get(
            kit.name, "127.0.0.1"
        )
        assert one.route.origin == other.route.origin == expected

    kit.run(test)
