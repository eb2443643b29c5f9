"""Cuts: what does not pass, what comes late, what is lost, and who is told apart from whom."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.faults.partitions import HOST, Partitions, owner_of

_DIAL = (
    "import socket, sys\n"
    "dialled = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
    "for line in sys.stdin:\n"
    "    dialled.sendall(line.encode())\n"
    "    print(dialled.recv(100).decode(), end='', flush=True)\n"
)


class _Echo:
    """A server that sends everything back and remembers it."""

    def __init__(self) -> None:
        self.heard = b""
        self.has_heard = asyncio.Event()
        self.links = 0
        self.tasks: list[asyncio.Task[None]] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.links += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        with suppress(ConnectionError):
            while data := await reader.read(100):
                self.heard += data
                self.has_heard.set()
                writer.write(data)
        await _closed(writer)


@asynccontextmanager
async def _served() -> AsyncIterator[tuple[Partitions, _Echo, int]]:
    echo = _Echo()
    server = await asyncio.start_server(echo.take, HOST, 0)
    network = Partitions(lambda: {"us": os.getpid()})
    try:
        yield network, echo, await network.open("echo", server.sockets[0].getsockname()[1])
    finally:
        await network.close()
        server.close()
        await asyncio.gather(*echo.tasks)


async def _closed(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def test_what_a_cut_holds_back_comes_when_it_heals() -> None:
    async def run() -> None:
        async with _served() as (network, echo, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(b"1")
            assert await reader.read(1) == b"1"
            network.cut([("us", "echo")])
            writer.write(b"2")
            for _ in range(50):
                await asyncio.sleep(0.001)
            assert echo.heard == b"1"
            network.heal(is_lost=False)
            assert await reader.read(1) == b"2"
            assert network.passed == {("us", "echo"): 2, ("echo", "us"): 2}
            await _closed(writer)

    asyncio.run(run())


def test_a_cut_has_a_direction() -> None:
    async def run() -> None:
        async with _served() as (network, echo, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            network.cut([("echo", "us")])
            writer.write(b"1")
            await echo.has_heard.wait()
            assert echo.heard == b"1"
            assert network.passed[("echo", "us")] == 0
            network.heal(is_lost=False)
            assert await reader.read(1) == b"1"
            await _closed(writer)

    asyncio.run(run())


def test_what_is_lost_takes_its_channel_with_it() -> None:
    async def run() -> None:
        async with _served() as (network, echo, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(b"1")
            assert await reader.read(1) == b"1"
            network.cut([("us", "echo")])
            writer.write(b"2")
            network.heal(is_lost=True)
            assert await reader.read(1) == b""
            again, writing = await asyncio.open_connection(HOST, port)
            writing.write(b"3")
            assert await again.read(1) == b"3"
            assert (echo.heard, echo.links) == (b"13", 2)
            await _closed(writer, writing)

    asyncio.run(run())


def test_who_dials_during_a_cut_gets_through_after_it() -> None:
    async def run() -> None:
        async with _served() as (network, echo, port):
            network.cut([("us", "echo")])
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(b"1")
            for _ in range(50):
                await asyncio.sleep(0.001)
            assert echo.links == 0
            network.heal(is_lost=False)
            assert await reader.read(1) == b"1"
            await _closed(writer)

    asyncio.run(run())


def test_processes_are_told_apart_by_their_sockets_and_a_stranger_is_turned_away() -> None:
    async def run() -> None:
        async with _served() as (_, echo, port):
            other = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _DIAL, str(port), stdin=PIPE, stdout=PIPE, stderr=PIPE
            )
            answer, _ = await other.communicate(b"1\n")
            # It is none of the processes that are known here.
            assert (answer, echo.links) == (b"", 0)

    asyncio.run(run())


def test_a_socket_of_a_process_is_found_and_one_of_nobody_is_not() -> None:
    async def run() -> None:
        async with _served() as (_, _, port):
            _, writer = await asyncio.open_connection(HOST, port)
            own = writer.get_extra_info("sockname")[1]
            assert owner_of(own, port, {"no": 1, "us": os.getpid()}) == "us"
            assert owner_of(own, port, {}) is None
            assert owner_of(own, 1, {"us": os.getpid()}) is None
            await _closed(writer)

    asyncio.run(run())
