"""``bobbin graph serve``: in this process, where a thread looks at it and then stops it."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bobbin.lace import Lace
from bobbin.runtime.graph_client import GraphMirror, connect_graph
from bobbin.runtime.graph_dial import ClientSettings
from bobbin.runtime.reconnect import Backoff
from tests.support.graphs import SECONDS_MAX, Sample, seen, served_in_thread
from tests.unit.cli.command_line import PLEX_1, VERIFIER, Answer, Cli

SOON = Backoff(first_seconds=0.01, longest_seconds=0.01)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text("7 a-token-of-seven\n", encoding="utf-8")
    path.chmod(0o600)
    return path


def _served(
    cli: Cli,
    folder: Path,
    *options: str | Path,
    look: Callable[[GraphMirror], object] = lambda _: None,
    at: Path | None = None,
) -> Answer:
    """Serve a lace, look at its graph as its owner, and stop."""
    socket = at or folder.resolve() / "graph.sock"
    failures: list[BaseException] = []
    is_over = threading.Event()

    async def watch() -> None:
        # Once somebody listens, the handlers of signals are there as well.
        mirrored = connect_graph(f"unix:{socket}", settings=ClientSettings(patient=True), backoff=SOON)
        async with asyncio.timeout(SECONDS_MAX), mirrored as mirror:
            found = look(mirror)
            if asyncio.iscoroutine(found):
                await found

    def work() -> None:
        try:
            asyncio.run(watch())
        except BaseException as error:  # noqa: BLE001 -- raised below, in the thread of the test
            failures.append(error)
        if not is_over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=work)
    thread.start()
    answer = cli("graph", "serve", folder, *options)
    is_over.set()
    thread.join()
    if failures:
        raise failures[0]
    return answer


def test_the_owner_watches_and_it_says_who_may_what(filled: Path, tokens: Path, cli: Cli) -> None:
    values: dict[str, object] = {}
    answer = _served(
        cli,
        filled,
        "--token-file",
        tokens,
        "--allow",
        "7:read=records/*",
        "--view",
        "links=//u//ding//links/",
        look=lambda mirror: values.update(mirror.values()),
    )
    assert (answer.code, answer.err) == (0, "")
    assert answer.lines[0] == f"listening   unix:{filled.resolve()}/graph.sock"
    assert answer.lines[1].startswith("owner       read *; that is whoever can open")
    assert answer.lines[2:4] == ["peer 7      read records/*", "all others  nothing"]
    assert answer.lines[-1] == "stopped"
    assert (values["records/count"], values["views/links/count"]) == (1, 1)
    assert values["views/links/records"] == [PLEX_1]
    assert not (filled / "graph.sock").exists()


def test_events_in_json_and_a_record_that_comes(filled: Path, cli: Cli) -> None:
    async def look(mirror: GraphMirror) -> None:
        with Lace.open(filled) as lace:
            lace.put(b"x", group="u", app="ding", name="links/2")
        found = await seen(mirror, lambda values: values["records/count"] == 2)
        assert found["store/cursor"] == 2

    answer = _served(cli, filled, "--json", "--allow", "anyone:read=records/*", look=look)
    events = [json.loads(line) for line in answer.lines]
    assert [event["event"] for event in events] == ["started", "linked", "ended", "stopped"]
    started = events[0]
    assert started["process"] == os.getpid()
    assert started["allowed"] == [
        {"peer": 2, "name": "anyone", "kind": "read", "keys": "records/*"},
        {"peer": 1, "name": "owner", "kind": "read", "keys": "*"},
    ]


def test_cells_can_be_written_and_large_values_go_in_shared_memory(filled: Path, cli: Cli) -> None:
    place = f"unix:{filled.resolve()}/graph.sock"

    async def look(mirror: GraphMirror) -> None:
        assert (mirror.value("board/count"), mirror.value("board/text")) == (0, "")
        await mirror.write({"board/count": 5, "board/text": "x" * 10_000})
        await mirror.acknowledged()
        async with connect_graph(place, settings=ClientSettings(shares_memory=True)) as other:
            found = await seen(other, lambda values: values["board/count"] == 5)
            assert found["board/text"] == "x" * 10_000

    options = ["--cell", "board/count=i64", "--cell", "board/text=string", "--allow", "owner:write=board/*"]
    answer = _served(cli, filled, *options, "--shared-memory", "--json", look=look)
    shared = [json.loads(line) for line in answer.lines if '"shares-memory"' in line]
    assert shared == [{"event": "shares-memory", "peer": 1, "bytes": 16 * 1024 * 1024}]


def test_who_replicates_needs_a_key_and_something_to_replicate(folder: Path, ding: Path, cli: Cli) -> None:
    other = VERIFIER.replace("V.O", "V.P")
    assert cli("peers", "add", folder, "lab", "--verifier", other, "--policy", ding).code == 0
    assert "nothing to replicate" in cli("graph", "serve", folder, "--replicate-with", "lab").err
    assert "say where" in cli("graph", "serve", folder, "--replicate-with", "lab", "--cell", "x=i64").err
    at = ["--cell", "x=i64", "--replicate-with", "lab", "--replicate-at", "tcp:127.0.0.1:0"]
    answer = _served(cli, folder, *at)
    assert answer.lines[1].startswith("replicas    tcp:127.0.0.1:")


def test_who_may_write_cannot_write_what_a_lace_holds(filled: Path, cli: Cli) -> None:
    """A count is what is there. And who may write may still read, if it is the owner."""

    async def look(mirror: GraphMirror) -> None:
        await mirror.write({"records/blob": 99, "records/newest": {"hash": "x"}})
        await mirror.acknowledged()
        await mirror.trigger("store/cursor")
        with Lace.open(filled) as lace:
            lace.put(b"x", group="u", app="ding", name="links/2")
        found = await seen(mirror, lambda values: values["records/plex"] == 2)
        assert (found["records/blob"], found["records/count"]) == (0, 2)

    answer = _served(
        cli,
        filled,
        *("--cell", "x=i64", "--allow", "owner:write=*", "--allow", "owner:trigger_effect=store/cursor", "--json"),
        look=look,
    )
    denied = [json.loads(line) for line in answer.lines if '"denied"' in line]
    assert [(one["kind"], one["why"]) for one in denied] == [("write", "there is no such cell")] * 2
    assert {"peer": 1, "name": "owner", "kind": "read", "keys": "*"} in json.loads(answer.lines[0])["allowed"]


def test_the_url_of_a_browser_is_an_address(filled: Path, cli: Cli) -> None:
    answer = _served(
        cli, filled, "--listen", "ws://127.0.0.1:0/graph", "--listen", f"unix:{filled.resolve()}/graph.sock"
    )
    assert answer.lines[0].startswith("listening   ws:127.0.0.1:")


def test_what_is_listened_at_is_there_besides_the_socket_of_the_folder(filled: Path, tmp_path: Path, cli: Cli) -> None:
    """So that ``graph watch DIR`` finds it, whatever else was wanted."""
    other = tmp_path / "other.sock"
    answer = _served(cli, filled, "--listen", f"unix:{other}", "--json")
    started = json.loads(answer.lines[0])
    assert started["listening"] == [f"unix:{other}", f"unix:{filled.resolve()}/graph.sock"]
    assert "not_listening" not in started


def test_a_socket_of_the_folder_that_cannot_be_had_is_said(filled: Path, tmp_path: Path, cli: Cli) -> None:
    other, own = tmp_path / "other.sock", f"unix:{filled.resolve()}/graph.sock"
    with served_in_thread(Sample(), own):
        answer = _served(cli, filled, "--listen", f"unix:{other}", "--json", at=other)
        plain = _served(cli, filled, "--listen", f"unix:{other}", at=other)
        assert cli("graph", "serve", filled).code == 5, "without another place there is nothing to go on with"
    started = json.loads(answer.lines[0])
    assert started["listening"] == [f"unix:{other}"]
    assert started["not_listening"] == f"{own}: something else listens there already"
    assert plain.lines[1] == f"but not at  {own}: something else listens there already"


def test_who_may_write_and_not_read_is_said_at_the_start(filled: Path, tokens: Path, cli: Cli) -> None:
    cells = ["--cell", "board/text=string", "--cell", "board/count=i64", "--token-file", str(tokens)]
    answer = cli("graph", "serve", filled, *cells, "--allow", "7:write=board/*", "--allow", "7:read=board/text")
    assert answer.code == 2
    assert (
        "peer 7 may write board/count and not read it, so it would not find it: add --allow '7:read=board/*'"
        in answer.err
    )
    allowed = ["--allow", "7:write=board/*", "--allow", "7:read=board/*", "--allow", "7:write=nothing/*"]
    assert _served(cli, filled, *cells, *allowed).code == 0


def test_what_makes_no_sense(folder: Path, tokens: Path, tmp_path: Path, cli: Cli) -> None:
    for options in (
        ["--allow", "7:read=*"],
        ["--allow", "7:read"],
        ["--allow", "lab:read=*"],
        ["--view", "x"],
        ["--view", "x=y"],
        ["--view", "X=//u//"],
        ["--listen", "nowhere"],
        ["--listen", "ws:0.0.0.0:0"],
        ["--listen", "wss:127.0.0.1:0"],
        ["--listen", "stdio", "--json"],
        ["--certificate", str(tokens)],
        ["--allow", "owner:write=records/*"],
        ["--cell", "x"],
        ["--cell", "records/count=i64"],
        ["--replicate-with", "lab", "--cell", "x=i64"],
        ["--replicate-at", "tcp:127.0.0.1:0", "--cell", "x=i64"],
        ["--signal", "tcp:127.0.0.1:1"],
        ["--signal-token", str(tokens)],
        ["--shared-memory", "--listen", "stdio"],
        ["--cell", "x=i64", "--token-file", str(tokens), "--allow", "7:write=x"],
    ):
        assert cli("graph", "serve", folder, *options).code == 2, options
    tokens.chmod(0o644)
    assert cli("graph", "serve", folder, "--token-file", tokens).code == 3
    assert cli("graph", "serve", tmp_path).code == 2
    assert cli("graph", "serve", folder, "--listen", f"unix:{tmp_path}/none/s").code == 5


def test_a_known_peer_is_allowed_by_name(folder: Path, ding: Path, cli: Cli) -> None:
    other = VERIFIER.replace("V.O", "V.P")
    assert cli("peers", "add", folder, "lab", "--verifier", other, "--policy", ding).code == 0
    answer = _served(cli, folder, "--allow", "lab:read=records/*", "--allow", "owner:read=store/*")
    assert "lab         read records/*" in answer.lines
    assert answer.lines[1].startswith("owner       read store/*;")
