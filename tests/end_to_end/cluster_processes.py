"""Nodes of a cluster in processes of their own, for tests that kill them."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from bobbin.cli import cluster_view
from bobbin.config.cluster import create_cluster, prepare, read_folder
from bobbin.runtime.cluster_client import ClusterClient
from tests.end_to_end.command import COMMAND, Ended, bobbin, environment
from tests.support.clusters import free_ports

PATIENCE_SECONDS: Final = 90.0
"""Nothing depends on it; it ends a test that would wait for ever."""
_TOLD_LINES: Final = 40
"""Of each node, when a test has failed."""
T = TypeVar("T")

_SLOW_MACHINE: Final = (
    "[raft]\nelection_timeout = [1000, 2000]\nheartbeat_interval = 100\nrpc_timeout = 500\n"
    "snapshot_threshold = 100\nsnapshot_trailing_logs = 10\ncompaction_cooldown_ms = 10\n"
    "compaction_check_interval = 1\n"
)
"""So that a machine with much else to do holds no election for it; and small snapshots."""


class Processes:
    """A cluster of processes."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folders: Final = [folder / f"n{number}" for number in range(1, count + 1)]
        self.running: Final[dict[Path, subprocess.Popen[str]]] = {}
        self.create()

    def create(self) -> None:
        """Make the folders."""
        ports = free_ports(len(self.folders))
        made = [prepare(one, listen=f"tls:127.0.0.1:{port}") for one, port in zip(self.folders, ports, strict=True)]
        create_cluster(made)
        for one in self.folders:
            settle(one)

    def start(self, *folders: Path) -> None:
        """Run nodes, and wait until they listen."""
        for folder in folders:
            with _log_of(folder).open("ab") as log:
                self.running[folder] = subprocess.Popen(
                    [*COMMAND, "cluster", "serve", str(folder), "--json"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=environment(),
                    text=True,
                )
        for folder in folders:
            stdout = self.running[folder].stdout
            assert stdout is not None
            assert json.loads(stdout.readline())["event"] == "started"

    def kill(self, *folders: Path) -> None:
        """End nodes at once: no signal that they could hear."""
        for folder in folders:
            process = self.running.pop(folder)
            process.kill()
            process.communicate()

    def stop(self, folder: Path) -> int:
        """Ask a node to stop; returns its exit code."""
        process = self.running.pop(folder)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode

    def ask(self, question: Callable[[ClusterClient], Awaitable[T]], *, seconds: float = 60.0) -> T:
        """Put a question to the cluster, as an operator with the folder of the first node."""
        read = read_folder(self.folders[0])

        async def run() -> T:
            async with ClusterClient(read.known, own=read.operator, seconds=seconds) as client:
                return await question(client)

        return asyncio.run(run())

    def status(self) -> Any:  # noqa: ANN401 -- JSON
        """As ``bobbin cluster status`` says, without a process for each look."""
        return asyncio.run(cluster_view.look(read_folder(self.folders[0]), seconds=10)).value()

    def leader(self) -> Path:
        """The folder of whoever leads; waits until somebody does."""
        found = self.until(lambda status: status["leader"] is not None)["leader"]
        return next(folder for folder in self.folders if read_folder(folder).node == found)

    def until(self, condition: Callable[[Any], bool]) -> Any:  # noqa: ANN401 -- JSON
        """The status, as soon as it is so."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not condition(status := self.status()):
            assert time.monotonic() < end, f"it never was so: {status}"
            time.sleep(0.1)
        return status

    def tell(self) -> None:
        """Show what the nodes have said last, and which of them have ended by themselves."""
        for folder in self.folders:
            process = self.running.get(folder)
            ended = "" if process is None or process.poll() is None else f", ended with {process.returncode}"
            lines = _log_of(folder).read_text("utf-8").splitlines()[-_TOLD_LINES:]
            sys.stdout.write("\n".join([f"---- {folder.name}{ended}", *lines, ""]))


def _log_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.log")


P = TypeVar("P", bound=Processes)


def settle(folder: Path) -> None:
    """Let the node of a folder bear a machine that is busy."""
    file = folder / "cluster.toml"
    file.write_text(file.read_text("utf-8") + _SLOW_MACHINE, "utf-8")


@contextmanager
def processes(folder: Path, count: int = 3) -> Iterator[Processes]:
    """A cluster that runs for the length of a block; it is killed if the block has not ended it."""
    with running(Processes(folder, count)) as nodes:
        yield nodes


@contextmanager
def running(nodes: P) -> Iterator[P]:
    """Run all of them. If something goes wrong meanwhile, what they have said is shown."""
    try:
        nodes.start(*nodes.folders)
        yield nodes
    except BaseException:
        nodes.tell()
        raise
    finally:
        nodes.kill(*list(nodes.running))


def same_roots(status: Any) -> bool:  # noqa: ANN401 -- JSON
    """Whether all nodes answer, and hold the same."""
    nodes = status["nodes"]
    return (
        all(node["answers"] for node in nodes) and len({(node["applied_index"], node["root"]) for node in nodes}) == 1
    )


def join(processes: Processes, folder: Path, *more: str) -> Ended:
    """Invite and take in one more node, with more options; it is not started."""
    token = bobbin("cluster", "invite", processes.folders[0]).text.strip()
    port = free_ports(1)[0]
    place = f"tls:127.0.0.1:{port}"
    return bobbin("cluster", "join", folder, "--token", token, "--listen", place, "--seconds", "60", *more)
