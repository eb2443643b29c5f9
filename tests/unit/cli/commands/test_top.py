"""``bobbin top``."""

import io
import time
from pathlib import Path

import pytest
from msgspec import structs
from rich.console import Console

from bobbin.cli.commands import top
from bobbin.cli.node_client import NoNode
from bobbin.runtime.status import NodeStatus
from tests.support.served import Served
from tests.unit.cli.command_line import Cli
from tests.unit.cli.test_link_text import STATUS


def _drawn(status: NodeStatus, before: NodeStatus | None) -> list[str]:
    console = Console(file=io.StringIO(), width=160)
    with console.capture() as captured:
        console.print(top.frame(status, before))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_without_a_terminal_one_frame_is_shown(node: Served, cli: Cli) -> None:
    answer = cli("top", node.folder)
    assert answer.code == 0
    assert answer.lines[0].startswith("node        ok")
    assert answer.lines[-1] == "0 links · ended: none · Ctrl-C ends"
    assert "\x1b" not in answer.text
    assert cli("top", node.folder, "--json").json["health"] == "ok"


def test_no_node(folder: Path, cli: Cli) -> None:
    assert cli("top", folder).code == 5
    assert cli("top", folder, "--every", "0").code == 2


def test_a_frame_has_a_row_for_each_link() -> None:
    (row,) = [line for line in _drawn(STATUS, None) if "lab" in line]
    assert " ".join(row.split()) == "← lab idle 12 s ago 1,000 3 12.3 kB 999 B for anything new"


def test_rates_are_those_since_the_frame_before() -> None:
    link = STATUS.links[0]
    before = structs.replace(
        STATUS, at="1640995298:000000000", links=(structs.replace(link, bytes_in=10_300, bytes_out=999),)
    )
    (row,) = [line for line in _drawn(STATUS, before) if "lab" in line]
    assert "12.3 kB 1.0 kB/s" in row
    assert row.count("/s") == 1, "nothing went out"


def test_what_a_peer_says_is_not_obeyed() -> None:
    hostile = structs.replace(STATUS.links[0], waits="\x1b[2J", peer="[red]x[/red]")
    drawn = "\n".join(_drawn(structs.replace(STATUS, links=(hostile,)), None))
    assert "\x1b" not in drawn
    assert "[red]x[/red]" in drawn


def test_it_goes_on_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers: list[NodeStatus | None] = [STATUS, None]

    def ask(folder: Path) -> NodeStatus:
        answer = answers.pop(0)
        if answer is None:
            raise NoNode(folder)
        return answer

    def wait(_: float) -> None:
        if not answers:
            raise KeyboardInterrupt

    monkeypatch.setattr(top, "ask_links", ask)
    monkeypatch.setattr(time, "sleep", wait)
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=160, height=40)
    top._watch(console, tmp_path, STATUS, 1.0)
    assert "lab" in screen.getvalue()
    assert "no node serves" in screen.getvalue()
