"""Bytes in and out of a socket: what is held, when reading stops, and how an end is told from a break."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from bobbin.transport.base import READ_BYTES_MAX, EndedByPeer, TransportError
from bobbin.transport.flow import Flow


class _Socket(asyncio.Transport):
    """What asyncio would be to a flow, with nothing behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.written: list[bytes] = []
        self.aborted = 0

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del high, low

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def abort(self) -> None:
        self.aborted += 1


def _run(test: Callable[[Flow, _Socket], Awaitable[None]]) -> None:
    async def main() -> None:
        flow, under = Flow(), _Socket()
        flow.connection_made(under)
        await test(flow, under)

    asyncio.run(main())


def test_what_the_socket_gave_is_handed_on_as_it_is() -> None:
    async def test(flow: Flow, _: _Socket) -> None:
        given = bytes(1000)
        flow.data_received(given)
        assert await flow.read() is given

    _run(test)


def test_the_socket_is_not_read_while_enough_bytes_are_held() -> None:
    async def test(flow: Flow, under: _Socket) -> None:
        flow.data_received(bytes(READ_BYTES_MAX - 1))
        states = [under.reading]
        flow.data_received(b"x")
        states.append(under.reading)
        await flow.read()
        states.append(under.reading)
        assert states == [True, False, True]

    _run(test)


def test_the_socket_is_not_read_while_many_small_pieces_are_held() -> None:
    async def test(flow: Flow, under: _Socket) -> None:
        count = 0
        while under.reading:
            flow.data_received(b"x")
            count += 1
        assert count < 100
        assert [await flow.read() for _ in range(count)] == [b"x"] * count
        assert under.reading

    _run(test)


def test_a_read_is_bounded_even_if_the_socket_gives_more() -> None:
    async def test(flow: Flow, _: _Socket) -> None:
        flow.data_received(bytes(READ_BYTES_MAX) + b"rest")
        assert len(await flow.read()) == READ_BYTES_MAX
        assert await flow.read() == b"rest"

    _run(test)


@pytest.mark.parametrize("kind", [ConnectionResetError, BrokenPipeError])
def test_what_came_before_a_break_is_read_before_it_is_told(kind: type[OSError]) -> None:
    async def test(flow: Flow, _: _Socket) -> None:
        flow.data_received(b"before")
        flow.connection_lost(kind("reset"))
        assert await flow.read() == b"before"
        for _turn in range(2):
            with pytest.raises(EndedByPeer, match="the link broke: reset") as found:
                await flow.read()
            assert found.value.retry
        with pytest.raises(EndedByPeer, match="the link broke"):
            flow.put(b"late")

    _run(test)


def test_only_a_reset_is_the_doing_of_the_other_end() -> None:
    async def test(flow: Flow, _: _Socket) -> None:
        flow.connection_lost(TimeoutError("no route"))
        with pytest.raises(TransportError, match="the link broke: no route") as found:
            await flow.read()
        assert not isinstance(found.value, EndedByPeer)

    _run(test)


def test_an_end_leaves_the_other_direction_open() -> None:
    async def test(flow: Flow, under: _Socket) -> None:
        assert flow.eof_received()
        assert await flow.read() == b""
        await flow.write(b"still")
        assert under.written == [b"still"]

    _run(test)


def test_a_writer_waits_for_room_and_is_told_when_there_will_be_none() -> None:
    async def test(flow: Flow, _: _Socket) -> None:
        flow.pause_writing()
        first = asyncio.create_task(flow.write(b"one"))
        await asyncio.sleep(0)
        assert flow.is_full
        assert not first.done()
        flow.resume_writing()
        await first
        flow.pause_writing()
        second = asyncio.create_task(flow.write(b"two"))
        await asyncio.sleep(0)
        flow.connection_lost(None)
        with pytest.raises(TransportError, match="the other end has closed"):
            await second

    _run(test)


def test_a_long_write_is_handed_over_in_slices() -> None:
    async def test(flow: Flow, under: _Socket) -> None:
        data = bytes(range(256)) * 4096
        await flow.write(data)
        assert b"".join(under.written) == data
        assert max(map(len, under.written)) <= READ_BYTES_MAX

    _run(test)


def test_an_abort_reaches_the_socket_once() -> None:
    async def test(flow: Flow, under: _Socket) -> None:
        flow.abort()
        flow.abort()
        assert under.aborted == 1
        flow.data_received(b"dropped")
        with pytest.raises(TransportError, match="this side has closed"):
            await flow.read()

    _run(test)


def test_a_flow_that_never_connected_closes_without_a_word() -> None:
    async def main() -> None:
        flow = Flow()
        await flow.close()
        flow.abort()

    asyncio.run(main())


def test_a_close_that_is_given_up_lets_go_at_once() -> None:
    async def main() -> None:
        one, other = socket.socketpair()
        one.settimeout(0)
        with other:
            _, flow = await asyncio.get_running_loop().create_connection(Flow, sock=one)
            closing = asyncio.create_task(flow.close())
            await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            await asyncio.sleep(0)
            assert flow.is_over
            assert one.fileno() == -1

    asyncio.run(main())


def test_what_is_poured_comes_at_once_and_in_order_with_what_was_held_before() -> None:
    async def test(flow: Flow, under: _Socket) -> None:
        taken: list[bytes] = []
        flow.data_received(b"1")
        pouring = asyncio.create_task(flow.pour(taken.append))
        await asyncio.sleep(0)
        flow.data_received(b"2")
        # There was no turn of the event loop since, and nothing is held back.
        assert taken == [b"1", b"2"]
        flow.data_received(bytes(2 * READ_BYTES_MAX))
        assert under.reading
        flow.eof_received()
        await pouring
        assert len(taken) == 3

    _run(test)


def test_pouring_ends_as_reading_does() -> None:
    async def test(flow: Flow, _: _Socket) -> None:
        pouring = asyncio.create_task(flow.pour(lambda _: None))
        await asyncio.sleep(0)
        flow.connection_lost(ConnectionResetError("gone"))
        with pytest.raises(TransportError, match="gone"):
            await pouring

    async def closed(flow: Flow, _: _Socket) -> None:
        pouring = asyncio.create_task(flow.pour(lambda _: None))
        await asyncio.sleep(0)
        flow.abort()
        with pytest.raises(TransportError, match="this side"):
            await pouring

    _run(test)
    _run(closed)


def test_what_the_taker_raises_comes_to_whoever_pours_and_the_rest_is_held() -> None:
    async def test(flow: Flow, _: _Socket) -> None:
        def take(data: bytes) -> None:
            raise ValueError(data)

        pouring = asyncio.create_task(flow.pour(take))
        await asyncio.sleep(0)
        flow.data_received(b"1")
        flow.data_received(b"2")
        with pytest.raises(ValueError, match="1"):
            await pouring
        assert await flow.read() == b"2"

    _run(test)


def test_one_who_stops_pouring_can_read() -> None:
    async def test(flow: Flow, _: _Socket) -> None:
        pouring = asyncio.create_task(flow.pour(lambda _: None))
        await asyncio.sleep(0)
        pouring.cancel()
        await asyncio.gather(pouring, return_exceptions=True)
        flow.data_received(b"1")
        assert await flow.read() == b"1"

    _run(test)
