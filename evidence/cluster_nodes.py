"""A cluster of three processes on loopback whose nodes can be killed, and cut from each other, at any moment.

Nodes dial each other through `tests.faults.partitions`; clients reach each node directly, so a leader that is cut from
its followers still hears what it is asked.
"""

import asyncio
import json
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct, structs

from bobbin.cluster.raft.effects import Role
from bobbin.config.cluster import create_cluster, prepare, read_folder
from bobbin.errors import BobbinError
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.cluster_members import Directory, KnownMembers
from bobbin.wire.cluster.client import Report
from tests.faults.partitions import HOST, Partitions
from tests.support.clusters import free_ports

NODES: Final = 3
PATIENCE_SECONDS: Final = 120.0
"""What takes longer than this will not happen any more."""
_ASK_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.02
_SERVE: Final = (sys.executable, "-m", "bobbin", "cluster", "serve")


class Timeouts(Struct, frozen=True, kw_only=True):
    """How patient the nodes are, in milliseconds. The defaults are those of a cluster on one network."""

    election: tuple[int, int] = (150, 300)
    heartbeat: int = 50
    rpc: int = 100

    @property
    def election_seconds(self) -> float:
        """The least election timeout: what is counted in these is not flattered."""
        return self.election[0] / 1000

    @property
    def settings(self) -> str:
        """For the file of a node; snapshots are small, so that there are some."""
        return (
            f"[raft]\nelection_timeout = {list(self.election)}\nheartbeat_interval = {self.heartbeat}\n"
            f"rpc_timeout = {self.rpc}\nsnapshot_threshold = 1000\nsnapshot_trailing_logs = 50\n"
            "compaction_cooldown_ms = 200\ncompaction_check_interval = 1\n"
        )


class NeverSoError(AssertionError):
    """What was waited for did not come about."""


class NodeProcesses(ABC):
    """The processes, by name; each serves what is in its folder."""

    def __init__(self, folder: Path, timeouts: Timeouts) -> None:
        self.timeouts: Final = timeouts
        self.names: Final = tuple(f"n{number}" for number in range(1, NODES + 1))
        self.network: Final = Partitions(self.processes)
        self.ended_alone: Final[list[str]] = []
        """Nodes that have ended without being killed."""
        self._folder: Final = folder
        self._running: Final[dict[str, subprocess.Popen[str]]] = {}

    @abstractmethod
    async def create(self) -> None:
        """Make the folders."""

    def processes(self) -> dict[str, int]:
        """The ids of those that run."""
        return {name: process.pid for name, process in self._running.items()}

    async def start(self, names: Iterable[str]) -> None:
        """Run nodes, and wait until they listen."""
        await asyncio.gather(*(asyncio.to_thread(self._start, name) for name in names))

    def _start(self, name: str) -> None:
        folder = self._folder / name
        with folder.with_suffix(".log").open("a", encoding="utf-8") as log:
            process = self._running[name] = subprocess.Popen(
                [*_SERVE, str(folder), "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line or json.loads(line).get("event") != "started":
            raise NeverSoError(f"{name} does not start: {folder.with_suffix('.log').read_text('utf-8')[-2000:]}")

    async def kill(self, names: Iterable[str]) -> None:
        """SIGKILL, to all at once."""
        doomed = [self._end(name) for name in names]
        for process in doomed:
            process.kill()
        for process in doomed:
            await asyncio.to_thread(process.communicate)

    async def stop(self) -> None:
        """Ask all of them to end."""
        ending = [self._end(name) for name in list(self._running)]
        for process in ending:
            process.send_signal(signal.SIGTERM)
        for process in ending:
            try:
                await asyncio.to_thread(process.communicate, timeout=PATIENCE_SECONDS)
            finally:
                process.kill()

    def _end(self, name: str) -> "subprocess.Popen[str]":
        process = self._running.pop(name)
        if process.poll() is not None:
            self.ended_alone.append(name)
        return process


class Nodes(NodeProcesses):
    """A cluster: each process is one node of it."""

    async def create(self) -> None:
        """Make the folders."""
        ports = dict(zip(self.names, free_ports(NODES), strict=True))
        made = []
        for name, port in ports.items():
            address = f"tls:{HOST}:{await self.network.open(name, port)}"
            made.append(prepare(self._folder / name, listen=f"tls:{HOST}:{port}", address=address))
        create_cluster(made)
        for name in self.names:
            with (self._folder / name / "cluster.toml").open("a", encoding="utf-8") as file:
                file.write(self.timeouts.settings)
        read = read_folder(self._folder / self.names[0])
        self.ids = {name: node.node for name, node in zip(self.names, made, strict=True)}
        self._operator = read.operator
        directory = read.known.directory
        listening = {self.ids[name]: f"tls:{HOST}:{port}" for name, port in ports.items()}
        self._known = KnownMembers(
            directory=Directory(
                [structs.replace(one, address=listening[one.node]) for one in directory.members.values()],
                directory.callers.values(),
            )
        )

    def client(self, seconds: float) -> ClusterClient:
        """A new client that gives up after so long."""
        return ClusterClient(self._known, own=self._operator, seconds=seconds)

    # ---- what they say ----------------------------------------------------------------------------------------------

    async def reports(self, client: ClusterClient) -> dict[str, Report]:
        """How each node that answers sees the cluster."""

        async def ask(name: str) -> tuple[str, Report | None]:
            with suppress(BobbinError, TimeoutError):
                async with asyncio.timeout(_ASK_SECONDS):
                    return name, await client.status(self.ids[name])
            return name, None

        answers = await asyncio.gather(*(ask(name) for name in self._running))
        return {name: report for name, report in answers if report is not None}

    async def leader(self, client: ClusterClient) -> str:
        """Who leads, as soon as somebody does."""
        async with patience("nobody leads"):
            while True:
                reports = await self.reports(client)
                leading = [name for name, report in reports.items() if report.role == Role.LEADER.value]
                if leading:
                    return max(leading, key=lambda name: reports[name].term)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def settled(self, client: ClusterClient, *, is_still: bool) -> None:
        """Wait until all run, know one leader and have all that it had. ``is_still``: and hold the same."""
        async with patience("the nodes do not come together"):
            await come_together(lambda: self.reports(client), is_still=is_still)

    def audit(self) -> list[dict[str, object]]:
        """Every line of every node's audit log."""
        return audit({str(self.ids[name]): self._folder / name for name in self.names})

    async def led_since(self, client: ClusterClient) -> datetime:
        """When the node that leads now was elected, as its audit log says."""
        leader = self.ids[await self.leader(client)]
        elected = [
            str(line["time"])
            for line in self.audit()
            if (line["kind"], line["to"], line["node"]) == ("role", Role.LEADER.value, leader)
        ]
        return datetime.fromisoformat(elected[-1])

    def terms_with_two_leaders(self) -> int:
        """How often more than one node has led in one term, over all their lives."""
        return terms_with_two_leaders(self.audit())


async def come_together(ask: Callable[[], Awaitable[Mapping[str, Report]]], *, is_still: bool) -> None:
    """Ask until all nodes know one leader and have all that was committed. ``is_still``: and hold the same."""
    wanted = 0
    while True:
        reports = (await ask()).values()
        leaders = {report.leader for report in reports}
        if len(reports) == NODES and len(leaders) == 1 and None not in leaders:
            # After a start of all, nobody knows that anything is committed until the new leader's first entry is.
            wanted = wanted or max(report.commit_index for report in reports)
            alike = len({(report.applied_index, report.root) for report in reports}) == 1
            if all(report.applied_index >= wanted > 0 for report in reports) and (alike or not is_still):
                return
        await asyncio.sleep(_PAUSE_SECONDS)


def audit(folders: Mapping[str, Path]) -> list[dict[str, object]]:
    """Every line of the audit logs in the folders of nodes."""
    lines: list[dict[str, object]] = []
    for node, folder in folders.items():
        for line in (folder / "audit.jsonl").read_text("utf-8").splitlines():
            with suppress(ValueError):  # cut off by a kill
                lines.append({"node": node, **json.loads(line)})
    return lines


def terms_with_two_leaders(lines: Iterable[Mapping[str, object]]) -> int:
    """How often audit logs tell of more than one leader in one term."""
    led: dict[object, set[object]] = {}
    for line in lines:
        if line["kind"] == "role" and line["to"] == Role.LEADER.value:
            led.setdefault(line["term"], set()).add(line["node"])
    return sum(len(leaders) > 1 for leaders in led.values())


N = TypeVar("N", bound=NodeProcesses)


@asynccontextmanager
async def nodes(folder: Path, timeouts: Timeouts) -> AsyncIterator[Nodes]:
    """A cluster that runs, for the length of a block."""
    async with running(Nodes(folder, timeouts)) as cluster:
        yield cluster


@asynccontextmanager
async def running(made: N) -> AsyncIterator[N]:
    """Make the folders and run the processes, for the length of a block."""
    try:
        await made.create()
        await made.start(made.names)
        yield made
    finally:
        await made.kill(list(made.processes()))
        await made.network.close()


@asynccontextmanager
async def patience(what: str) -> AsyncIterator[None]:
    """Fail if the block takes too long."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield
    except TimeoutError as error:
        raise NeverSoError(f"waited {PATIENCE_SECONDS:g} s in vain: {what}") from error
