"""Graphs of real processes that share more than a link: replicated cells, memory, and a room of a signaling server."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from bobbin.runtime.graph_client import connect_graph
from bobbin.runtime.graph_dial import ClientSettings
from tests.end_to_end.command import COMMAND, bobbin, environment
from tests.end_to_end.served_process import make_lace, put
from tests.end_to_end.test_graph_processes import serving
from tests.support.graphs import run, seen

SECONDS_MAX: Final = 60.0
TOKEN: Final = "a-token-of-seven"
BOARD: Final = ("--cell", "board/text=string", "--cell", "board/count=i64", "--allow", "owner:write=board/*")


def _board(folder: Path) -> dict[str, Any]:
    answer = bobbin("graph", "watch", folder, "--keys", "board/*", "--once", "--json")
    assert answer.code == 0, answer.err
    return {node["key"]: node["value"] for node in json.loads(answer.text)["nodes"]}


def _eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.slow
def test_two_servers_keep_their_cells_in_step_through_a_kill(tmp_path: Path) -> None:
    shop, mill = tmp_path / "shop.lace", tmp_path / "mill.lace"
    keys = {folder: make_lace(folder) for folder in (shop, mill)}
    for folder, name, other in ((shop, "mill", mill), (mill, "shop", shop)):
        assert bobbin("peers", "add", folder, name, "--verifier", keys[other]).code == 0
    own = ("--listen", f"unix:{shop}/graph.sock", *BOARD, "--replicate-with", "mill", "--replicate-at")
    with serving(shop, *own, "tcp:127.0.0.1:0") as first:
        (place,) = first.started["replicating"]
        with serving(mill, *BOARD, "--replicate-with", f"shop={place}") as second:
            assert second.event("replica")["address"] == place
            answer = bobbin("graph", "set", shop, "board/text=open until six", "board/count=7")
            assert (answer.code, answer.text) == (0, "board/text  written\nboard/count  written\n")
            _eventually(lambda: _board(mill) == {"board/text": "open until six", "board/count": 7})
            first.kill()
            assert bobbin("graph", "set", mill, "board/count=8").code == 0
            with serving(shop, *own, place):
                _eventually(lambda: _board(shop) == {"board/text": "open until six", "board/count": 8})
                assert bobbin("graph", "set", shop, "records/count=5").code == 1


@pytest.mark.slow
def test_large_values_go_in_memory_that_two_processes_share(tmp_path: Path) -> None:
    lace = tmp_path / "notes.lace"
    make_lace(lace)
    text = "x" * 100_000

    async def look(*, shares: bool) -> object:
        settings = ClientSettings(shares_memory=shares, frame_bytes_max=4 * 1024 * 1024)
        async with connect_graph(f"unix:{lace}/graph.sock", settings=settings) as mirror:
            return (await seen(mirror, lambda values: values["board/text"] != ""))["board/text"]

    with serving(lace, *BOARD, "--shared-memory") as server:
        assert bobbin("graph", "set", lace, f"board/text={text}").code == 0
        answer = bobbin("graph", "watch", lace, "--shared-memory", "--once", "--json", "--keys", "board/text")
        assert json.loads(answer.text)["nodes"][0]["value"] == text
        assert server.event("shares-memory") == {"event": "shares-memory", "peer": 1, "bytes": 16 * 1024 * 1024}
        assert run(look(shares=False)) == run(look(shares=True)) == text
        assert bobbin("graph", "dump", "tcp:127.0.0.1:1", "--shared-memory").code == 2


@contextmanager
def _signaling() -> Iterator[str]:
    process = subprocess.Popen(
        [*COMMAND, "signal", "serve", "--open", "--listen", "127.0.0.1:0", "--json"],
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_graph_is_watched_through_a_room(tmp_path: Path) -> None:
    lace, hall, token = tmp_path / "notes.lace", tmp_path / "hall.lace", tmp_path / "token"
    shown = ("--key-of", hall, "--verifier", make_lace(lace))
    assert bobbin("peers", "add", lace, "hall", "--verifier", make_lace(hall)).code == 0
    token.write_text(f"7 {TOKEN}\n", encoding="utf-8")
    token.chmod(0o600)
    with _signaling() as signal:
        room = ("--signal", signal, "--room", "hall")
        with serving(lace, *room, "--allow", "hall:read=records/*") as server:
            assert server.started["room"] == f"hall at {signal}"
            watching = subprocess.Popen(
                [*COMMAND, "graph", "watch", *room, *map(str, shown), "--json"],
                stdout=subprocess.PIPE,
                env=environment(),
                text=True,
            )
            try:
                assert watching.stdout is not None
                update = json.loads(watching.stdout.readline())
                assert {node["key"].partition("/")[0] for node in update["nodes"]} == {"records"}
                put(lace, "one")
                update = json.loads(watching.stdout.readline())
                assert {node["key"]: node["value"] for node in update["nodes"]}["records/count"] == 1
            finally:
                watching.kill()
                watching.communicate()
            assert bobbin("graph", "dump", *room).code == 6, "nothing is for anyone"
            refused = bobbin("graph", "dump", *room, "--token-file", token)
            assert refused.code == 2
            assert "would read the token" in refused.err
        other = bobbin("graph", "watch", *room, *shown, "--once")
        assert other.code == 5
        assert "nobody serves a graph in the room hall" in other.err
