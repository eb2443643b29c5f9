"""A graph in one process, mirrors of it in others: over every way, through a server that is killed.

The server is the real command. The observers are the real command, or a program that uses the package as its users do.
"""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from bobbin.errors import PeerError
from bobbin.lace import Lace
from bobbin.runtime.graph_client import GraphMirror, connect_graph
from bobbin.runtime.reconnect import Backoff, Lost
from bobbin.wire import address as addresses
from tests.end_to_end.command import COMMAND, bobbin, environment
from tests.end_to_end.served_process import make_lace, put
from tests.support.graphs import RawStream, greeting, raw_socket, run, seen

SEVEN: Final = "a-token-of-seven"
EIGHT: Final = "a-token-of-eight"
SOON: Final = Backoff(first_seconds=0.05, longest_seconds=0.2)
WAYS: Final = ("tcp", "unix", "ws")
HIDDEN: Final = ("store/", "refusals/", "quarantine/")


class GraphProcess:
    """``bobbin graph serve``; its events are read line by line, which waits for them."""

    def __init__(self, folder: Path, *options: str | Path) -> None:
        self.process: Final = subprocess.Popen(
            [*COMMAND, "graph", "serve", str(folder), *map(str, options), "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        self.started: Final = self.event("started")
        self.places: Final[dict[str, str]] = {text.partition(":")[0]: text for text in self.started["listening"]}

    def event(self, name: str) -> Any:  # noqa: ANN401 -- whatever the server says
        """The next event of this name."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            value = json.loads(line)
            if value["event"] == name:
                return value
        raise AssertionError(f"the server ended without {name}: {self.process.communicate()[1]}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def serving(folder: Path, *options: str | Path) -> Iterator[GraphProcess]:
    """A server for the length of a block; it is killed if the block has not ended it."""
    server = GraphProcess(folder, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate()


@pytest.fixture
def lace(tmp_path: Path) -> Path:
    folder = tmp_path / "notes.lace"
    make_lace(folder)
    put(folder, "one")
    return folder


@pytest.fixture
def options(tmp_path: Path) -> list[str | Path]:
    """Two peers with tokens, each of whom sees its own."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"7 {SEVEN}\n8 {EIGHT}\n", encoding="utf-8")
    tokens.chmod(0o600)
    return ["--token-file", tokens, "--allow", "7:read=records/*", "--allow", "8:read=store/cursor"]


def _listen(tmp_path: Path, places: dict[str, str] | None = None) -> list[str]:
    wanted = places or {"tcp": "tcp:127.0.0.1:0", "unix": f"unix:{tmp_path}/s", "ws": "ws:127.0.0.1:0"}
    return [word for place in wanted.values() for word in ("--listen", place)]


def _mirror(server: GraphProcess, way: str, lost: list[Lost] | None = None) -> GraphMirror:
    tell = (lambda _: None) if lost is None else lost.append
    return connect_graph(server.places[way], peer=7, token=SEVEN, backoff=SOON, lost=tell)


def test_the_same_mirror_over_each_way(lace: Path, options: list[str | Path], tmp_path: Path) -> None:
    """RX-056: the same graph run over each leaves the same mirror, edges and roots included."""

    async def main(server: GraphProcess) -> None:
        mirrors = [_mirror(server, way) for way in WAYS]
        for mirror in mirrors:
            await mirror.__aenter__()
        for number in range(3):
            put(lace, f"more/{number}")
        for mirror in mirrors:
            await seen(mirror, lambda values: values["records/count"] == 4)
        replicas = [mirror.machine.replica.snapshot(0) for mirror in mirrors]
        assert replicas[0] == replicas[1] == replicas[2]
        assert len(replicas[0].edges) == 3
        for mirror in mirrors:
            await mirror.__aexit__(None, None, None)

    with serving(lace, *_listen(tmp_path), *options) as server:
        run(main(server))


@pytest.mark.parametrize("way", WAYS)
def test_nothing_that_was_not_allowed_goes_over_any_way(
    way: str, lace: Path, options: list[str | Path], tmp_path: Path
) -> None:
    """RX-060: looked at in the bytes that come, snapshot and delta. RX-066: and nothing before the handshake."""

    async def stream(server: GraphProcess) -> str:
        observer = await RawStream.dial(addresses.parse(server.places[way]), SEVEN)
        told = str(await observer.greet(features=["json-base64"]))
        put(lace, "two")
        told += str(await observer.hear())
        await observer.stream.close()
        return told

    async def web(server: GraphProcess) -> str:
        async with raw_socket(addresses.parse(server.places[way]), token=SEVEN) as socket:
            await socket.send(json.dumps(greeting(features=["json-base64"])))
            await socket.recv()
            told = str(await socket.recv())
            put(lace, "two")
            return told + str(await socket.recv())

    with serving(lace, *_listen(tmp_path), *options) as server:
        told = run(web(server) if way == "ws" else stream(server))
        assert "records/newest" in told
        assert [word for word in HIDDEN if word in told] == []
        run(_refused(server.places[way], way))
        assert server.event("let-go")["reason"] == "peer_id"


async def _refused(place: str, way: str) -> None:
    for shown in ({"peer": 8, "token": SEVEN}, {"peer": 7, "token": "a-wrong-token"}, {}):
        if way == "unix" and not shown:
            continue  # that is the owner
        with pytest.raises(PeerError):
            async with connect_graph(place, **shown):  # type: ignore[arg-type]
                pass


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_is_killed_and_comes_back(
    way: str, lace: Path, options: list[str | Path], tmp_path: Path
) -> None:
    """The observer keeps what it knew, dials again, and shows what the new server has: also what it missed."""
    lost: list[Lost] = []

    async def main() -> None:
        with serving(lace, *_listen(tmp_path), *options) as first:
            mirror = _mirror(first, way, lost)
            await mirror.__aenter__()
            assert mirror.value("records/count") == 1
            first.kill()
            places = first.places
        put(lace, "while/nobody/served")
        with serving(lace, *_listen(tmp_path, places), *options) as second:
            await seen(mirror, lambda values: values["records/count"] == 2)
            put(lace, "and/after")
            values = await seen(mirror, lambda values: values["records/count"] == 3)
            assert lost
            async with _mirror(second, way) as fresh:
                assert fresh.values() == values
                assert fresh.machine.replica.snapshot(0) == mirror.machine.replica.snapshot(0)
            await mirror.__aexit__(None, None, None)

    run(main())


def test_over_stdio(lace: Path) -> None:
    """The link has stdin and stdout, and the server ends with it."""
    program = (
        "import asyncio, json, sys\n"
        "from bobbin.runtime.graph_client import connect_graph\n"
        "async def main():\n"
        "    async with connect_graph('stdio') as mirror:\n"
        "        print(json.dumps(mirror.values()), file=sys.stderr)\n"
        "asyncio.run(main())\n"
    )
    to_server, to_observer = os.pipe(), os.pipe()
    server = subprocess.Popen(
        [*COMMAND, "graph", "serve", str(lace), "--listen", "stdio"],
        stdin=to_server[0],
        stdout=to_observer[1],
        stderr=subprocess.PIPE,
        env=environment(),
    )
    observer = subprocess.Popen(
        [sys.executable, "-c", program], stdin=to_observer[0], stdout=to_server[1], stderr=subprocess.PIPE
    )
    for descriptor in (*to_server, *to_observer):
        os.close(descriptor)
    told = observer.communicate(timeout=60)[1].decode()
    said = server.communicate(timeout=60)[1].decode()
    assert (observer.returncode, server.returncode) == (0, 0), told + said
    assert json.loads(told.splitlines()[-1])["records/count"] == 1
    assert "owner       read *" in said


def test_the_commands_together(lace: Path, options: list[str | Path], tmp_path: Path) -> None:
    token = tmp_path / "seven"
    token.write_text(f"7 {SEVEN}\n", encoding="utf-8")
    token.chmod(0o600)
    with serving(lace, "--listen", f"unix:{lace}/graph.sock", *_listen(tmp_path), *options) as server:
        web = server.places["ws"]
        own = bobbin("graph", "watch", lace, "--once", "--json")
        assert own.code == 0, own.err
        assert {node["key"] for node in json.loads(own.text)["nodes"]} >= {"store/cursor", "records/count"}
        seven = bobbin("graph", "dump", web, "--token-file", token, "--json")
        assert seven.code == 0, seven.err
        assert {node["key"].partition("/")[0] for node in json.loads(seven.text)["nodes"]} == {"records"}
        assert bobbin("graph", "dump", web).code == 6
        watching = subprocess.Popen(
            [*COMMAND, "graph", "watch", web, "--token-file", str(token), "--json"],
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["snapshot"] is True
        name = put(lace, "two")
        update = json.loads(watching.stdout.readline())
        assert {node["key"]: node["value"] for node in update["nodes"]}["records/newest"]["hash"] == name
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=60)
        assert watching.returncode == 130
        server.process.send_signal(signal.SIGTERM)
        assert server.event("stopped") == {"event": "stopped"}
        assert server.process.wait(60) == 0


def test_a_proof_of_a_key_between_processes(lace: Path, tmp_path: Path) -> None:
    watcher = tmp_path / "watcher.lace"
    verifier = make_lace(watcher)
    assert bobbin("peers", "add", lace, "watcher", "--verifier", verifier).code == 0
    with Lace.open(lace) as opened:
        ours = opened.key().verifier
    with serving(lace, *_listen(tmp_path), "--allow", "watcher:read=records/count") as server:
        for way in ("tcp", "ws"):
            place = server.places[way]
            answer = bobbin("graph", "dump", place, "--key-of", watcher, "--verifier", ours, "--json")
            assert answer.code == 0, answer.err
            assert [node["key"] for node in json.loads(answer.text)["nodes"]] == ["records/count"]
        other = tmp_path / "other.lace"
        make_lace(other)
        assert bobbin("graph", "dump", server.places["tcp"], "--key-of", other).code == 6
        assert bobbin("graph", "dump", server.places["ws"], "--key-of", watcher, "--verifier", verifier).code == 6


def test_a_table_in_a_terminal(lace: Path) -> None:
    """It is drawn, drawn again when a record comes, and gone with Ctrl-C, which is how it ends."""
    with serving(lace):
        leader, follower = pty.openpty()
        watching = subprocess.Popen(
            [*COMMAND, "graph", "watch", str(lace)],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=environment() | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"},
            start_new_session=True,
        )
        os.close(follower)
        screen = bytearray()
        shown = re.compile(rb"store/cursor\s+(\d)")
        while b"1" not in shown.findall(screen):
            screen += os.read(leader, 65_536)
        put(lace, "two")
        while b"2" not in shown.findall(screen):
            screen += os.read(leader, 65_536)
        assert "live · Ctrl-C ends" in screen.decode(errors="replace")
        watching.send_signal(signal.SIGINT)
        while select.select([leader], [], [], 60)[0]:
            try:
                screen += os.read(leader, 65_536)
            except OSError:  # the last writer has gone
                break
        os.close(leader)
        assert watching.wait(60) == 0
        assert screen.endswith(b"\x1b[?25h\x1b[?1049l"), "the cursor is back, and the screen as it was"


def test_it_goes_on_when_nobody_hears_its_events(lace: Path) -> None:
    with serving(lace) as server:
        assert server.process.stdout is not None
        server.process.stdout.close()
        for _ in range(2):
            assert bobbin("graph", "watch", lace, "--once").code == 0
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        server.process.stdout = None
