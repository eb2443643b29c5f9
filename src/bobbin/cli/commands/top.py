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
    from rich.console import Console, Group, RenderableType

    from bobbin.runtime.status import LinkStatus, NodeStatus

_WIDTH: Final = 120
"""Of a frame that no terminal shows."""


def top(
    folder: LaceFolder,
    every: Annotated[float, typer.Option("--every", min=0.1, max=3600, metavar="SECONDS", help="How often.")] = 1.0,
    as_json: AsJson = False,
) -> ExitCode:
    """Watch the links of the node that serves a lace, until Ctrl-C.

    Where stdout is no terminal, the present state is shown once. With --json it is that of `bobbin links`.

    Example: bobbin top notes.lace
    """
    out = Output(as_json=as_json)
    first = ask_links(folder)
    if as_json:
        from bobbin.runtime.status import encode_status

        out.json_text(encode_status(first))
        return ExitCode.OK

    from rich.console import Console

    is_terminal = sys.stdout.isatty()
    console = Console(width=None if is_terminal else _WIDTH, no_color=True if os.environ.get("NO_COLOR") else None)
    if is_terminal and os.environ.get("TERM") != "dumb":
        _watch(console, folder, first, every)
    else:
        with console.capture() as captured:
            console.print(frame(first, None))
        out.result(None, *(line.rstrip() for line in captured.get().splitlines()))
    return ExitCode.OK


def _watch(console: "Console", folder: Path, status: "NodeStatus", every: float) -> None:
    from rich.live import Live
    from rich.text import Text

    before: NodeStatus | None = None
    shown: RenderableType = frame(status, before)
    try:
        with Live(shown, console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                try:
                    before, status = status, ask_links(folder)
                    shown = frame(status, before)
                except ResourceError as error:
                    shown = Text(printable(str(error)))
                live.update(shown, refresh=True)
    except KeyboardInterrupt:
        return


def frame(status: "NodeStatus", before: "NodeStatus | None") -> "Group":
    """One picture. Rates are those since the picture before."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False)
    for name in ("", "peer", "state", "fixed point"):
        table.add_column(name, no_wrap=True)
    for name in ("records in", "out", "bytes in", "out", "missing"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("waits", ratio=1, overflow="ellipsis", no_wrap=True)
    earlier = {link.id: link for link in before.links} if before is not None else {}
    seconds = (link_text.seconds_between(before.at, status.at) or 0.0) if before is not None else 0.0
    for link in status.links:
        table.add_row(*map(Text, _cells(link, earlier.get(link.id), seconds, status.at)))
    head = Text.from_ansi("\n".join(link_text.node_lines(Output(as_json=False), status)))
    ended = link_text.counts_text(status.ended) or "none"
    foot = Text(f"{count_text(len(status.links), 'link')} · ended: {ended} · Ctrl-C ends")
    return Group(head, table, foot)


def _cells(link: "LinkStatus", earlier: "LinkStatus | None", seconds: float, now: str) -> list[str]:
    rates = ["", ""]
    if earlier is not None and seconds > 0:
        pairs = ((link.bytes_in, earlier.bytes_in), (link.bytes_out, earlier.bytes_out))
        rates = [f" {size_text(int(max(new - old, 0) / seconds))}/s" if new > old else "" for new, old in pairs]
    at = "" if link.fixed_point is None else link_text.ago_text(link.fixed_point, now)
    state = link.state if link.phase is None or link.phase == link.state else f"{link.state} {link.phase}"
    cells = [
        link_text.ARROWS[link.direction],
        link.peer or "(nobody yet)",
        state,
        at,
        f"{link.records_in:,}",
        f"{link.records_out:,}",
        f"{size_text(link.bytes_in)}{rates[0]}",
        f"{size_text(link.bytes_out)}{rates[1]}",
        f"{link.missing:,}" if link.missing else "",
        link.waits,
    ]
    return [printable(cell) for cell in cells]
