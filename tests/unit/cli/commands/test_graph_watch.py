"""``bobbin graph watch``."""

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from bobbin.cli import output
from bobbin.cli.commands import graph_watch
from bobbin.cli.output import Output
from bobbin.errors import ResourceError
from bobbin.runtime.graph_client import GraphMirror, connect_graph
from bobbin.runtime.reconnect import Backoff, Lost, Once
from bobbin.wire import address as addresses
from tests.support.graphs import OTHER, OTHER_TOKEN, PEER, TOKEN, Sample, run, served_in_thread, serving
from tests.unit.cli.command_line import Cli


@pytest.fixture
def sample() -> Sample:
    return Sample()


@pytest.fixture
def place(sample: Sample) -> Iterator[str]:
    with served_in_thread(sample, "ws:127.0.0.1:0") as (address,):
        yield address


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "seven.token"
    path.write_text(f"{PEER} {TOKEN}\n", encoding="utf-8")
    path.chmod(0o600)
    return path


def test_once(place: str, token: Path, cli: Cli) -> None:
    answer = cli("graph", "watch", place, "--token-file", token, "--once")
    assert (answer.code, answer.err) == (0, "")
    assert [line.split() for line in answer.lines] == [
        ["figures/large", "held"],
        ["figures/one", "1"],
        ["figures/two", "2"],
        ["sums/all", "3"],
    ]
    assert cli("graph", "watch", place, "--token-file", token).lines == answer.lines, "no terminal"
    only = cli("graph", "watch", place, "--token-file", token, "--once", "--keys", "sums/*", "--json")
    assert [node["key"] for node in only.json["nodes"]] == ["sums/all"]
    assert only.json["snapshot"] is True


def test_who_is_not_let_in_and_who_is_not_there(place: str, tmp_path: Path, cli: Cli) -> None:
    assert cli("graph", "watch", place).code == 6
    wrong = tmp_path / "wrong"
    wrong.write_text("7 another-token\n", encoding="utf-8")
    wrong.chmod(0o600)
    answer = cli("graph", "watch", place, "--token-file", wrong, "--json")
    assert (answer.code, answer.error["exit_code"], answer.out) == (6, 6, b"")
    wrong.chmod(0o644)
    assert cli("graph", "watch", place, "--token-file", wrong).code == 3
    assert cli("graph", "watch", "tcp:127.0.0.1:1").code == 5
    assert cli("graph", "watch", "tcp:192.0.2.1:1").code == 6, "in the clear, off this machine"
    assert cli("graph", "watch", "nowhere").code == 2


def test_a_lace_that_is_not_served(folder: Path, cli: Cli) -> None:
    answer = cli("graph", "watch", folder)
    assert answer.code == 5
    assert f"the graph of {folder} is not served now; `bobbin graph serve {folder}` does it" in answer.err


def test_the_url_of_a_browser_will_do(place: str, token: Path, cli: Cli) -> None:
    for url in (place.replace("ws:", "ws://"), place.replace("ws:", "ws://") + "/graph"):
        assert cli("graph", "watch", url, "--token-file", token, "--once").code == 0
    assert cli("graph", "watch", place.replace("ws:", "ws://") + "/other", "--token-file", token).code == 2


def test_it_says_why_there_is_nothing(place: str, token: Path, cli: Cli) -> None:
    answer = cli("graph", "watch", place, "--token-file", token, "--once", "--keys", "nothing/*")
    assert (answer.code, answer.out) == (0, b"")
    assert answer.err == "no key matches 'nothing/*'; there are 4 values in all\n"
    other = token.with_name("other.token")
    other.write_text(f"{OTHER} {OTHER_TOKEN}\n", encoding="utf-8")
    other.chmod(0o600)
    assert "nothing that we may read" in cli("graph", "watch", place, "--token-file", other, "--once").err


def test_a_token_with_another_id(place: str, tmp_path: Path, cli: Cli) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text(f"{OTHER} {TOKEN}\n", encoding="utf-8")
    wrong.chmod(0o600)
    answer = cli("graph", "watch", place, "--token-file", wrong)
    assert answer.code == 6
    assert "goes with another id than ours" in answer.err


def test_the_picture() -> None:
    """What a terminal shows, while there is a link and when there is none."""
    sample = Sample()

    async def main() -> list[str]:
        async with serving(sample.host, "ws:127.0.0.1:0") as (address,):
            watching = graph_watch.Watching(Output(as_json=False), addresses.parse("ws:x:1"), "*")
            async with connect_graph(address, peer=PEER, token=TOKEN) as mirror:
                live = _drawn(watching, mirror)
            watching.note_lost(Lost(why="refused", wait_seconds=2.0, attempts=1))
            return [*live, *_drawn(watching, mirror)[-1:]]

    lines = run(main())
    assert lines[0] == "ws:x:1"
    assert "figures/one     1" in lines
    assert lines[-2:] == ["4 values · live · Ctrl-C ends", "4 values · refused; trying again within 3 s · Ctrl-C ends"]


def test_on_a_small_screen_keys_are_whole_and_the_foot_is_there() -> None:
    sample = Sample()
    with sample.host.changing():
        for number in range(30):
            sample.graph.cell("v" * 200, tag="string", key=f"figures/with/a/rather/long/key/{number:02}")

    async def main() -> list[str]:
        async with serving(sample.host, "ws:127.0.0.1:0") as (address,):
            watching = graph_watch.Watching(Output(as_json=False), addresses.parse("ws:x:1"), "*")
            async with connect_graph(address, peer=PEER, token=TOKEN) as mirror:
                live = _drawn(watching, mirror, 60, 12)
            watching.note_lost(Lost(why="refused; nothing listens there at all", wait_seconds=2.0, attempts=1))
            return [*live, "", *_drawn(watching, mirror, 60, 12)]

    lines = run(main())
    first, second = lines[: lines.index("")], lines[lines.index("") + 1 :]
    assert len(first) <= 12
    assert len(second) <= 12
    assert any(line.startswith("figures/with/a/rather/long/key/00   vvvv") and line.endswith("…") for line in first)
    assert " ".join(first[-2:]).endswith("of 34 values; --keys PATTERN chooses others · live · Ctrl-C ends")
    assert second[-1].endswith("Ctrl-C ends")


def _drawn(watching: graph_watch.Watching, mirror: object, width: int = 120, height: int = 10_000) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(watching.picture(mirror, (width, height)))  # type: ignore[arg-type]
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_line_for_each_update(
    sample: Sample, place: str, token: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is handed over at once. What is printed here ends after three."""
    lines: list[dict[str, object]] = []

    def flush() -> None:
        lines.append({})
        if len(lines) == 3:
            raise KeyboardInterrupt
        with sample.host.changing():
            sample.one.set(10 * len(lines))

    monkeypatch.setattr(output, "flush", flush)
    answer = cli("graph", "watch", place, "--token-file", token, "--json")
    assert answer.code == 130
    assert json.loads(answer.err.splitlines()[0]) == {"event": "linked", "address": place}
    rows = [json.loads(line) for line in answer.lines]
    assert [row["snapshot"] for row in rows] == [True, False, False]
    assert [{node["key"]: node["value"] for node in row["nodes"]} for row in rows[1:]] == [
        {"figures/one": 10, "sums/all": 12},
        {"figures/one": 20, "sums/all": 22},
    ]


def test_with_json_it_says_when_the_link_is_lost_and_when_it_is_back(
    place: str, token: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``bobbin follow`` does. Between the two rows that are printed here the server is gone."""
    rows: list[int] = []
    dialled: list[int] = []
    dial = GraphMirror._once

    async def once(self: GraphMirror) -> Once:
        dialled.append(1)
        if len(dialled) == 2:
            raise ResourceError("nobody is there", retry=True)
        try:
            async with asyncio.timeout(0.5 if len(dialled) == 1 else None):
                return await dial(self)
        except TimeoutError:
            return Once(was_good=True, why="the server has gone")

    def flush() -> None:
        rows.append(1)
        if len(rows) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(GraphMirror, "_once", once)
    monkeypatch.setattr(Backoff, "wait_seconds", lambda _: 0.0)
    monkeypatch.setattr(output, "flush", flush)
    answer = cli("graph", "watch", place, "--token-file", token, "--json")
    said = [json.loads(line) for line in answer.err.splitlines()[:-1]]
    assert [event["event"] for event in said] == ["linked", "lost", "lost", "linked"]
    assert said[2] == {
        "event": "lost",
        "address": place,
        "reason": "nobody is there",
        "wait_seconds": 0.0,
        "attempts": 2,
    }
    assert said[3] == {"event": "linked", "address": place}
