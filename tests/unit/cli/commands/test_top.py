"""``bobbin top``."""

import io
import time
from pathlib import Path

import pytest
from msgspec import structs
from rich.console import Console

from bobbin.cli.commands import top
from bobbin.cli.node_client import NoNode
from bobbin.runtime.status import LinkState, NodeStatus
from tests.support.served import Served
from tests.unit.cli.command_line import Cli
from tests.unit.cli.test_link_text import STATUS

_BUSY = structs.replace(
    STATUS.links[0],
    id=2,
    peer="a-long-name-of-a-peer-that-is-somewhere",
    state=LinkState.EXCHANGING,
    phase="transfer",
    fixed_point="1640992000:000000000",
    records_in=123_456_789,
    records_out=99_999,
    bytes_in=123_456_789_012,
    bytes_out=987_654_321,
    missing=654_321,
    waits="for records of the peer",
)
_NOBODY = structs.replace(
    STATUS.links[0], id=3, peer=None, state=LinkState.INTRODUCING, phase=None, fixed_point=None, waits="for a word"
)


def _words(line: str) -> str:
    return " ".join(line.split())


def _drawn(status: NodeStatus, before: NodeStatus | None, width: int = 160) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(top.frame(status, before, width=width))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_without_a_terminal_one_frame_is_shown(node: Served, cli: Cli) -> None:
    answer = cli("top", node.folder)
    assert answer.code == 0
    assert answer.lines[0].startswith("node        ok")
    assert answer.lines[-1] == "0 links · ended: none", "there is nothing to end"
    assert "\x1b" not in answer.text
    assert cli("top", node.folder, "--json").json["health"] == "ok"


def test_no_node(folder: Path, cli: Cli) -> None:
    assert cli("top", folder).code == 5
    assert cli("top", folder, "--every", "0").code == 2


def test_without_a_terminal_nothing_is_cut(monkeypatch: pytest.MonkeyPatch, folder: Path, cli: Cli) -> None:
    status = structs.replace(STATUS, links=(STATUS.links[0], _BUSY, _NOBODY))
    monkeypatch.setattr(top, "ask_links", lambda _: status)
    head, first, second, third = cli("top", folder).lines[4:-1]
    assert _words(head) == "peer state fixed point records in out bytes in out missing waits"
    assert _words(first) == "← lab idle 12 s ago 1,000 3 12.3 kB 999 B for anything new"
    assert second.split()[1:4] == ["a-long-name-of-a-peer-that-is-somewhere", "exchanging", "transfer"]
    assert second.endswith("123,456,789  99,999  123.5 GB  987.7 MB  654,321  for records of the peer")
    assert third.index("for a word") == second.index("for records") == head.index("waits")


def test_a_terminal_that_can_draw_nothing_gets_the_plain_table(
    monkeypatch: pytest.MonkeyPatch, node: Served, cli: Cli
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(top, "_is_terminal", lambda: True)
    assert cli("top", node.folder).lines[-1] == "0 links · ended: none"


def test_eighty_columns_are_enough() -> None:
    status = structs.replace(STATUS, links=(STATUS.links[0], _BUSY, _NOBODY))
    earlier = structs.replace(
        status, at="1640995298:000000000", links=(structs.replace(_BUSY, bytes_in=123_456_700_000),)
    )
    lines = _drawn(status, earlier, 80)
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in lines if line.startswith("←")]
    assert " ".join(rows[0]) == "← lab idle 12 s 1,000/3 12.3 kB/999 B"
    assert " ".join(rows[1]) == "← a-long-name… exchanging 55 min 123 M/99,999 123.5 GB/987.7 MB 654 k"
    assert rows[2][:4] == ["←", "(nobody", "yet)", "introducing"]
    (head,) = [line for line in lines if "state" in line]
    assert _words(head) == "peer state fixed records in/out bytes in/out missing"
    below = " ".join(" ".join(row) for row in rows[3:])
    assert below.startswith("← a-long-name-of-a-peer-that-is-somewhere · 44.5 kB/s in · waits for records")
    assert "← (nobody yet) · waits for a word" in below
    assert not any("lab" in row for row in rows[3:]), "who is idle waits for nothing in particular"


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
