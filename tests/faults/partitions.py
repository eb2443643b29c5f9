"""Cuts between processes on loopback, at any moment and in either direction.

Every process that listens gets one port here, at which the others dial it. Who has dialled is found by asking the
system whose socket it is, so one address for each process is enough, as in a directory that all of them share. What a
cut holds back is passed on when it heals, as by a network that was only slow; or it is lost, and the channels with it.
`proxy` breaks a link at a chosen byte; this breaks all that there are, at a moment that somebody chooses.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

HOST: Final = "127.0.0.1"
_PIECE_BYTES: Final = 64 * 1024

Way: TypeAlias = tuple[str, str]
"""From one process to another, by their names."""


class Partitions:
    """Passes everything on, until it is told not to. Used in one event loop."""

    def __init__(self, processes: Callable[[], Mapping[str, int]]) -> None:
        """``processes``: the ids of those that run now, by name."""
        self.passed: Final[Counter[Way]] = Counter()
        """Bytes."""
        self._processes: Final = processes
        self._servers: Final[list[asyncio.Server]] = []
        self._links: Final[dict[asyncio.Task[None], Way]] = {}
        self._cut: frozenset[Way] = frozenset()
        self._healed: Final = asyncio.Event()

    async def open(self, name: str, port: int) -> int:
        """The port at which the others reach a process that listens at ``port``."""

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._take(name, port, reader, writer)

        server = await asyncio.start_server(take, HOST, 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    def cut(self, ways: Iterable[Way]) -> None:
        """Let nothing pass these ways until it heals. Nobody is told."""
        self._cut = frozenset(ways)
        self._healed.clear()

    def heal(self, *, is_lost: bool) -> None:
        """Open all ways. ``is_lost``: the channels that were cut break, and what was held back never comes."""
        if is_lost:
            for task, (dialling, dialled) in self._links.items():
                if {(dialling, dialled), (dialled, dialling)} & self._cut:
                    task.cancel()
        self._cut = frozenset()
        self._healed.set()

    async def close(self) -> None:
        """Break every channel, and take no more."""
        for server in self._servers:
            server.close()
        tasks = list(self._links)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # so that the sockets are closed as well

    async def _take(self, name: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        here, there = writer.get_extra_info("sockname")[1], writer.get_extra_info("peername")[1]
        dialling = owner_of(there, here, self._processes())
        # A process that is gone already has nothing to say, and whoever is none of ours has no business here.
        if dialling is None:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._links[task] = dialling, name
        ends = [writer]
        try:
            await self._passage((dialling, name))
            answers, onward = await asyncio.open_connection(HOST, port)
            ends.append(onward)
            await asyncio.gather(
                self._pump((dialling, name), reader, onward), self._pump((name, dialling), answers, writer)
            )
        except (OSError, asyncio.CancelledError):
            pass  # an end that is gone without a farewell, or a channel that breaks: the other end gets none either
        finally:
            del self._links[task]
            for end in ends:
                end.transport.abort()

    async def _pump(self, way: Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(_PIECE_BYTES):
            await self._passage(way)
            self.passed[way] += len(data)
            sink.write(data)
            await sink.drain()
        await self._passage(way)
        sink.write_eof()

    async def _passage(self, way: Way) -> None:
        while way in self._cut:
            await self._healed.wait()


def owner_of(port: int, remote_port: int, processes: Mapping[str, int]) -> str | None:
    """The name of the process that has the socket at ``port`` which is connected to ``remote_port``."""
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if (_port(fields[1]), _port(fields[2])) == (port, remote_port):
            wanted = f"socket:[{fields[9]}]"
            return next((name for name, process in processes.items() if wanted in _open_files(process)), None)
    return None


def _port(address: str) -> int:
    return int(address.partition(":")[2], 16)


def _open_files(process: int) -> set[str]:
    found = set()
    try:
        for entry in Path(f"/proc/{process}/fd").iterdir():
            found.add(str(entry.readlink()))
    except OSError:
        pass  # it has ended, or closed the file meanwhile
    return found
