"""``bobbin serve`` in a process of its own, for tests that talk to it."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bobbin.cli.node_client import ask_links
from bobbin.lace import Lace
from bobbin.records.ids import Verifier
from bobbin.runtime.status import NodeStatus
from tests.end_to_end.command import COMMAND, environment

PATIENCE_SECONDS: Final = 60.0
"""Nothing here depends on it; it ends a test that would wait for ever."""


class ServeProcess:
    """A node that runs; its events are read line by line, which waits for them."""

    def __init__(self, *arguments: str | Path) -> None:
        self.process: Final = subprocess.Popen(
            [*COMMAND, "serve", *map(str, arguments), "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        self.started: Final = self.event("started")
        self.addresses: Final = {text.partition(":")[0]: text for text in self.started["listening"]}

    def event(self, name: str) -> Any:  # noqa: ANN401 -- whatever the node says
        """The next event of this name."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            value = json.loads(line)
            if value["event"] == name:
                return value
        raise AssertionError(f"the node ended without {name}: {self.process.communicate()[1]}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> tuple[int, list[Any]]:
        """The exit code, and the log."""
        _, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, [json.loads(line) for line in err.splitlines()]


@contextmanager
def serving(*arguments: str | Path) -> Iterator[ServeProcess]:
    """A node for the length of a block; it is killed if the block has not ended it."""
    node = ServeProcess(*arguments)
    try:
        yield node
    finally:
        if node.process.poll() is None:
            node.process.kill()
        node.process.communicate()


def make_lace(path: Path) -> Verifier:
    """A new lace with a key; returns the verifier."""
    with Lace.create(path) as lace:
        return lace.new_key().verifier


def put(path: Path, name: str, data: bytes = b"x", *, group: str = "trade") -> str:
    """Store a record; returns its hash."""
    with Lace.open(path) as lace:
        return lace.put(data, group=group, app="orders", name=name)


def names(path: Path) -> set[str]:
    """Of all records in a lace."""
    with Lace.open(path, read_only=True) as lace:
        return {listed.name for listed in lace.list()}


def until(path: Path, condition: Callable[[NodeStatus], bool]) -> NodeStatus:
    """What the node of a lace says about itself, as soon as it is so."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition(status := ask_links(path)):
        assert time.monotonic() < end, f"it never was so: {status}"
        time.sleep(0.01)
    return status
