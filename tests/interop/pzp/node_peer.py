"""A process of Node with peers made of the published packages, which tests tell what to do."""

import asyncio
import fcntl
import json
import os
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peer_packages
from benchmarks.material import cache_folder
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message

SCRIPT = peer_packages.RECIPES / "pzp" / "peer.cjs"
PATIENCE_SECONDS = 60.0
"""For anything of Node. Far more than it takes: a busy machine is not a failing test."""


def installed() -> Path:
    """The folder of the packages, installed if need be, by one process at a time.

    Skips where there is no npm; a build server has to have it.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        if os.environ.get("CI"):
            pytest.fail("a build server needs node and npm: scripts/system-packages node")
        pytest.skip("npm is not installed: scripts/system-packages node", allow_module_level=True)
    with (cache_folder() / "pzp.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return peer_packages.install("pzp")


class NodeError(Exception):
    """What a peer was told to do went wrong there."""


class NodeProcess:
    """One process with any number of peers. It outlives the event loops of the tests that use it."""

    def __init__(self, packages: Path) -> None:
        """Begins without peers."""
        self._process = subprocess.Popen(
            ["node", str(SCRIPT)], cwd=packages, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._asking = threading.Lock()

    async def tell(self, command: dict[str, Any]) -> Any:  # noqa: ANN401
        """What a command comes to."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                line = await asyncio.to_thread(self._tell, json.dumps(command).encode() + b"\n")
        except TimeoutError:
            # The thread that waits for an answer gets the end of the pipe instead.
            self._process.kill()
            raise
        answer = json.loads(line)
        if "error" in answer:
            raise NodeError(f"{command['do']}: {answer['error']} ({answer['cause']})")
        return answer.get("value")

    def _tell(self, line: bytes) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._asking:
            self._process.stdin.write(line)
            self._process.stdin.flush()
            return self._process.stdout.readline()

    def end(self) -> None:
        """Let it go."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    @asynccontextmanager
    async def peer(
        self,
        folder: Path,
        key: Keypair,
        *,
        spans: dict[str, int] | None = None,
        ghosts: dict[str, list[list[Any]]] | None = None,
    ) -> AsyncIterator["NodePeer"]:
        """A peer in a folder of its own. ``ghosts``: the registries that it finds there."""
        for tangle, entries in (ghosts or {}).items():
            registry = folder / "db" / "ghosts" / tangle
            registry.parent.mkdir(parents=True, exist_ok=True)
            registry.write_text(json.dumps(entries), encoding="utf-8")
        peer = NodePeer(self, str(folder))
        keypair = {"curve": "ed25519", "public": key.public, "private": key.private}
        await peer.do("open", folder=str(folder), keypair=keypair, spans=spans or {})
        try:
            yield peer
        finally:
            try:
                await peer.do("close")
            except NodeError as error:
                # Its own server may not be up yet. Then there is nothing to close, and the published package says so.
                if "Server is not running" not in str(error):
                    raise


class NodePeer:
    """One peer of the published packages."""

    def __init__(self, process: NodeProcess, name: str) -> None:
        self._process = process
        self._name = name

    async def do(self, what: str, **arguments: Any) -> Any:  # noqa: ANN401
        """Tell it to do something; see ``peer.cjs`` for what there is."""
        return await self._process.tell({"peer": self._name, "do": what, **arguments})

    async def add(self, messages: list[tuple[Message, str]]) -> None:
        """Put messages into its database, each as one of a tangle."""
        await self.do("add", pairs=[[json.loads(message.raw), tangle] for message, tangle in messages])

    async def records(self) -> list[tuple[str, str]]:
        """Its messages, and whether their data is there, by id."""
        return sorted((id, state) for id, state in await self.do("records"))


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until it is so."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await condition():  # noqa: ASYNC110 - it is another process that we wait for
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"it never came: {what}") from None
