"""``bobbin top``: the links of a node, kept up to date on the screen."""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli import link_text
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.node_client import ask_links
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output
from bobbin.cli.text import count_text, printable, size_text
from bobbin.errors import ResourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, Group, RenderableType
    from rich.table import Table

    from bobbin.runtime.status import LinkStatus, NodeStatus

_WAITS: Final = "waits"
_WIDE: Final = ("", "peer", "state", "fixed point", "records in", "out", "bytes in", "out", "missing", _WAITS)
_NARROW: Final = ("", "peer", "state", "fixed", "records in/out", "bytes in/out", "missing")
_FIGURES: Final = range(4, 9)
"""The columns of figures, in either."""
_GAP: Final = 2
"""Between two columns; the box of the table makes one of them."""
_NAME_CHARACTERS: Final = 12
"""Of a peer in the narrow table, which so has room in 80 columns. The full name of one that is busy stands below."""


def top(
    folder: LaceFolder,
    every: Annotated[float, typer.Option("--every", min=0.1, max=3600, metavar="SECONDS", help="How often.")] = 1.0,
    as_json: AsJson = False,
) -> ExitCode:
    """Watch the links of the node that serves a lace, until Ctrl-C.

    Where stdout is no terminal, the present state is printed once, as a plain table. With --json it is that of
    `bobbin links`.

    Example: bobbin top notes.lace
    """
    out = Output(as_json=as_json)
    first = ask_links(folder)
    if as_json:
        from bobbin.runtime.status import encode_status

        out.json_text(encode_status(first))
        return ExitCode.OK

    if not _is_terminal() or os.environ.get("TERM") == "dumb":
        out.result(None, *map(out.style, plain_lines(first)))
        return ExitCode.OK

    from rich.console import Console

    _watch(Console(no_color=True if os.environ.get("NO_COLOR") else None), folder, first, every)
    return ExitCode.OK


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _watch(console: "Console", folder: Path, status: "NodeStatus", every: float) -> None:
    from rich.live import Live
    from rich.text import Text

    before: NodeStatus | None = None
    shown: RenderableType = frame(status, before, width=console.width)
    try:
        with Live(shown, console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                try:
                    before, status = status, ask_links(folder)
                    shown = frame(status, before, width=console.width)
                except ResourceError as error:
                    shown = Text(printable(str(error)))
                live.update(shown, refresh=True)
    except KeyboardInterrupt:
        return


def frame(status: "NodeStatus", before: "NodeStatus | None", *, width: int) -> "Group":
    """One picture for a terminal of this width. Rates are those since the picture before.

    Where not everything has room beside each other, figures are brief and what a link waits for stands below.
    """
    from rich.console import Group
    from rich.text import Text

    earlier = {link.id: link for link in before.links} if before is not None else {}
    seconds = (link_text.seconds_between(before.at, status.at) or 0.0) if before is not None else 0.0
    rates = [_rates(link, earlier.get(link.id), seconds) for link in status.links]
    rows = [_cells(link, rate, status.at) for link, rate in zip(status.links, rates, strict=True)]
    below: list[str] = []
    if _width([_WIDE, *rows]) <= width:
        table = _table(_WIDE, rows)
    else:
        table = _table(_NARROW, [_narrow_cells(link, status.at) for link in status.links])
        pairs = zip(status.links, rates, strict=True)
        below = [_below(link, rate) for link, rate in pairs if link.state != "idle"]
    head = Text.from_ansi("\n".join(link_text.node_lines(Output(as_json=False), status)))
    return Group(head, table, *map(Text, below), Text(f"{_foot(status)} · Ctrl-C ends"))


def _table(names: tuple[str, ...], rows: list[list[str]]) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, _GAP - 1, 0, 0), pad_edge=False)
    for at, name in enumerate(names):
        table.add_column(name, justify="right" if at in _FIGURES and name != _WAITS else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _width(rows: "Sequence[Sequence[str]]") -> int:
    """Columns that a table of these rows takes."""
    return sum(max(map(len, column)) + _GAP for column in zip(*rows, strict=True))


def plain_lines(status: "NodeStatus") -> list[str]:
    """The same as a plain table, however wide that is: for files, pipes, and terminals that can draw nothing."""
    rows = [[*_WIDE], *(_cells(link, ("", ""), status.at) for link in status.links)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [*link_text.node_lines(Output(as_json=False), status), ""]
    for row in rows if status.links else []:
        padded = [
            cell.rjust(width) if at in _FIGURES else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return [*lines, _foot(status)]


def _foot(status: "NodeStatus") -> str:
    ended = link_text.counts_text(status.ended) or "none"
    return f"{count_text(len(status.links), 'link')} · ended: {ended}"


def _rates(link: "LinkStatus", earlier: "LinkStatus | None", seconds: float) -> tuple[str, str]:
    """How fast bytes come and go; empty where they do not."""
    if earlier is None or seconds <= 0:
        return "", ""
    pairs = ((link.bytes_in, earlier.bytes_in), (link.bytes_out, earlier.bytes_out))
    came, went = (f"{size_text(int(max(new - old, 0) / seconds))}/s" if new > old else "" for new, old in pairs)
    return came, went


def _cells(link: "LinkStatus", rates: tuple[str, str], now: str) -> list[str]:
    at = "" if link.fixed_point is None else link_text.ago_text(link.fixed_point, now)
    state = link.state if link.phase is None or link.phase == link.state else f"{link.state} {link.phase}"
    cells = [
        *_who(link),
        state,
        at,
        f"{link.records_in:,}",
        f"{link.records_out:,}",
        f"{size_text(link.bytes_in)} {rates[0]}".rstrip(),
        f"{size_text(link.bytes_out)} {rates[1]}".rstrip(),
        f"{link.missing:,}" if link.missing else "",
        link.waits,
    ]
    return [printable(cell) for cell in cells]


def _narrow_cells(link: "LinkStatus", now: str) -> list[str]:
    at = None if link.fixed_point is None else link_text.seconds_between(link.fixed_point, now)
    arrow, who = _who(link)
    cells = [
        arrow,
        who if len(who) <= _NAME_CHARACTERS else f"{who[: _NAME_CHARACTERS - 1]}…",
        link.state,
        "" if at is None else link_text.brief_text(at),
        f"{link_text.brief_count(link.records_in)}/{link_text.brief_count(link.records_out)}",
        f"{size_text(link.bytes_in)}/{size_text(link.bytes_out)}",
        link_text.brief_count(link.missing) if link.missing else "",
    ]
    return [printable(cell) for cell in cells]


def _who(link: "LinkStatus") -> tuple[str, str]:
    return link_text.ARROWS[link.direction], link.peer or "(nobody yet)"


def _below(link: "LinkStatus", rates: tuple[str, str]) -> str:
    """What a narrow table has no room for."""
    arrow, who = _who(link)
    moving = [f"{rate} {way}" for rate, way in zip(rates, ("in", "out"), strict=True) if rate]
    return printable(" · ".join([f"{arrow} {who}", *moving, f"waits {link.waits}"]))
