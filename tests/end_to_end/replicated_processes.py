"""Nodes of a replicated lace in processes of their own, for tests that kill them."""

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bobbin.cli import cluster_view
from bobbin.config.cluster import read_folder
from bobbin.runtime.clock import tai_now
from bobbin.store.sqlite import open_store
from tests.end_to_end.cluster_processes import PATIENCE_SECONDS
from tests.end_to_end.command import COMMAND, bobbin, environment
from tests.support.clusters import free_ports

_PATIENT: Final = (
    "[raft]\nelection_timeout = [1000, 2000]\nheartbeat_interval = 100\nrpc_timeout = 500\n"
    "snapshot_threshold = {threshold}\nsnapshot_trailing_logs = 2\ncompaction_cooldown_ms = 10\n"
    "compaction_check_interval = 1\n"
)
"""So that a machine with much else to do holds no election for it; and small snapshots."""


class Lace:
    """A replicated lace of processes."""

    def __init__(self, folder: Path, count: int, *, threshold: int, listen: str = "tcp:127.0.0.1:0") -> None:
        """``listen``: where each node is to be found by peers, on a port of its own that it keeps."""
        self.folders: Final = [folder / f"n{number}" for number in range(1, count + 1)]
        port = free_ports(1)[0]
        made = bobbin("init", folder, "--cluster", "--nodes", str(count), "--listen", f"tls:127.0.0.1:{port}")
        assert made.code == 0, made.err
        for one in self.folders:
            file = one / "cluster" / "cluster.toml"
            text = file.read_text("utf-8")
            file.write_text(text[: text.index("[raft]")] + _PATIENT.format(threshold=threshold), "utf-8")
        self.running: Final[dict[Path, subprocess.Popen[str]]] = {}
        self.started: Final[dict[Path, Any]] = {}
        self._listen: Final = listen

    def start(self, *folders: Path) -> None:
        """Run nodes, and wait until they listen."""
        for folder in folders:
            log = (folder.parent / f"{folder.name}.log").open("a")
            self.running[folder] = subprocess.Popen(
                [*COMMAND, "serve", str(folder), "--listen", self.addresses.get(folder, self._listen), "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(),
                text=True,
            )
            log.close()
        for folder in folders:
            stdout = self.running[folder].stdout
            assert stdout is not None
            self.started[folder] = json.loads(stdout.readline())
            assert self.started[folder]["event"] == "started"

    @property
    def addresses(self) -> dict[Path, str]:
        """Where each node listens, or did before it was killed."""
        return {folder: started["listening"][0] for folder, started in self.started.items()}

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

    def status(self) -> Any:  # noqa: ANN401 -- JSON
        """As ``bobbin cluster status`` says, without a process for each look."""
        return asyncio.run(cluster_view.look(read_folder(self.folders[0] / "cluster"), seconds=10)).value()

    def leader(self) -> Path:
        """The folder of whoever leads; waits until somebody does."""
        found = self.until(lambda status: status["leader"] is not None)["leader"]
        return next(folder for folder in self.folders if read_folder(folder / "cluster").node == found)

    def until(self, condition: Callable[[Any], bool]) -> Any:  # noqa: ANN401 -- JSON
        """The status, as soon as it is so."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not condition(status := self.status()):
            assert time.monotonic() < end, f"it never was so: {status}"
            time.sleep(0.1)
        return status

    def settled(self) -> list[list[tuple[int, str]]]:
        """What each node has stored, by number, once they all hold the same."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            states: list[bytes] = []
            held: list[list[tuple[int, str]]] = []
            for folder in self.folders:
                with open_store(folder / "records.db", now=tai_now, read_only=True) as store:
                    state = store.replica.state()
                    assert state is not None
                    states.append(state.root)
                    held.append([(stored.id, stored.hash) for stored in store.scan()])
            if len(set(states)) == 1:
                return held
            assert time.monotonic() < end, f"they never came to hold the same: {[len(one) for one in held]}"
            time.sleep(0.1)


@contextmanager
def replicated_lace(folder: Path, count: int = 3, *, threshold: int = 1_000) -> Iterator[Lace]:
    """A lace that runs for the length of a block; its nodes are killed if the block has not ended them."""
    lace = Lace(folder, count, threshold=threshold)
    try:
        lace.start(*lace.folders)
        yield lace
    finally:
        lace.kill(*list(lace.running))
