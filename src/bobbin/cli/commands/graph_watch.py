"""``bobbin graph watch``: a graph that is served elsewhere, kept up to date on the screen."""

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli import graph_text, output
from bobbin.cli.elsewhere import AllowInsecure, Authorities, ExpectedKey, Pin
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.graph_options import (
    CALLED,
    ROOM,
    Call,
    KeyOf,
    RoomName,
    SharedMemory,
    Shown,
    Signal,
    SignalToken,
    TokenFile,
    WhereOrRoom,
    connect,
    reach,
)
from bobbin.cli.link_text import duration_text
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.text import count_text, printable

if TYPE_CHECKING:
    from rich.console import Group

    from bobbin.reactive.link_effects import Updated
    from bobbin.reactive.messages import Node
    from bobbin.runtime.graph_calls import Room
    from bobbin.runtime.graph_client import GraphMirror
    from bobbin.runtime.reconnect import Lost
    from bobbin.wire.address import Address

_AROUND_LINES: Final = 4
"""Of a picture besides its rows: the address, two of the table's head, and what begins the foot."""
_DRAW_SECONDS: Final = 0.1
"""Between two pictures, whatever changes meanwhile."""


def graph_watch(
    where: WhereOrRoom = None,
    keys: Annotated[str, typer.Option("--keys", metavar="PATTERN", help="Only nodes whose keys match.")] = "*",
    once: Annotated[
        bool, typer.Option("--once", metavar="", help="Show what is there, and end.", show_default=False)
    ] = False,
    token_file: TokenFile = None,
    key_of: KeyOf = None,
    verifier: ExpectedKey = None,
    pin: Pin = None,
    authorities: Authorities = None,
    allow_insecure: AllowInsecure = False,
    shared_memory: SharedMemory = False,
    signal: Signal = None,
    room: RoomName = ROOM,
    signal_token: SignalToken = None,
    call: Call = CALLED,
    as_json: AsJson = False,
) -> ExitCode:
    """Watch a graph that is served, until Ctrl-C: a table of its values that is kept up to date.

    A link that is lost is dialled again, and what was known stays on the screen meanwhile. With --json there is a line
    for each update, the first with all that is there. Where stdout is no terminal, the present state is printed once.

    Example: bobbin graph watch ws:127.0.0.1:4794 --token-file watcher.token
    """
    out = Output(as_json=as_json)
    shown = Shown(
        token_file=token_file,
        key_of=key_of,
        verifier=verifier,
        pin=pin,
        authorities=authorities,
        allow_insecure=allow_insecure,
        shared_memory=shared_memory,
        signal=signal,
        room=room,
        signal_token=signal_token,
        call=call,
    )
    watching = Watching(out, reach(where, shown), keys)
    is_drawn = not (as_json or once) and sys.stdout is not None and sys.stdout.isatty()
    if is_drawn and os.environ.get("TERM") != "dumb":
        try:
            asyncio.run(watching.draw(shown))
        except KeyboardInterrupt:
            return ExitCode.OK
    else:
        asyncio.run(watching.print(shown, once=once or not as_json))
    return ExitCode.OK


class Watching:
    """One look at a graph, however long."""

    def __init__(self, out: Output, place: "Address | Room", keys: str) -> None:
        from bobbin.reactive.type_tags import TypeTags

        self._out: Final = out
        self._place: Final = place
        self._keys: Final = keys
        self._tags: Final = TypeTags.standard()
        self._trouble: str | None = None
        self._is_linked = False
        """As far as it was said."""

    async def print(self, shown: Shown, *, once: bool) -> None:
        """Line by line."""
        async with connect(self._place, shown, lost=self._say_lost) as mirror:
            async for update in mirror.updates():
                if not once and mirror.is_current:
                    self._say_linked()
                lines = self._lines(mirror)
                self._out.row(self._value(mirror, update), *map(self._out.style, lines))
                output.flush()
                if not lines:
                    self._out.note(self._nothing(mirror))
                if once:
                    return

    async def draw(self, shown: Shown) -> None:
        """On a screen."""
        from rich.console import Console
        from rich.live import Live

        console = Console(no_color=True if os.environ.get("NO_COLOR") else None)
        async with connect(self._place, shown, lost=self.note_lost) as mirror:
            picture = self.picture(mirror, console.size)
            with Live(picture, console=console, screen=True, auto_refresh=False) as live:
                updates = mirror.updates()
                while True:
                    try:
                        async with asyncio.timeout(1.0):
                            await anext(updates)
                    except TimeoutError:
                        pass
                    live.update(self.picture(mirror, console.size), refresh=True)
                    await asyncio.sleep(_DRAW_SECONDS)
                    updates.skip()

    def picture(self, mirror: "GraphMirror", size: tuple[int, int] = (120, 10_000)) -> "Group":
        """All that is known now, as far as a screen of so many columns and rows has room. How it stands always has."""
        from rich.console import Group
        from rich.text import Text

        nodes = self._nodes(mirror)
        state = "live" if mirror.is_current else (self._trouble or "no link now")
        width, height = size
        room = max(height - _AROUND_LINES - _lines(f"{state} · Ctrl-C ends", width), 1)
        count = count_text(len(nodes), "value")
        if room < len(nodes):
            count = f"{room:,} of {count}; --keys PATTERN chooses others"
        foot = printable(f"{count} · {state} · Ctrl-C ends")
        table = graph_text.table(nodes, self._tags, width=width, rows_max=room)
        return Group(Text(printable(str(self._place))), table, Text(foot))

    def _nodes(self, mirror: "GraphMirror") -> "list[Node]":
        return [node for node in mirror.nodes.values() if self._is_wanted(node)]

    def _is_wanted(self, node: "Node") -> bool:
        from bobbin.runtime.graph_allowances import is_match

        return is_match(node.key or "", self._keys)

    def _lines(self, mirror: "GraphMirror") -> list[str]:
        return [] if self._out.as_json else graph_text.plain_lines(self._nodes(mirror), self._tags)

    def _nothing(self, mirror: "GraphMirror") -> str:
        """Why there is nothing to see."""
        if not mirror.nodes:
            return f"{self._place} shows us nothing: there is nothing that we may read"
        return f"no key matches {self._keys!r}; there are {count_text(len(mirror.nodes), 'value')} in all"

    def _value(self, mirror: "GraphMirror", update: "Updated") -> dict[str, output.Json]:
        found = [mirror.nodes[id] for id in update.nodes if id in mirror.nodes]
        return {
            "event": "update",
            "epoch": update.epoch,
            "snapshot": update.replaced,
            "nodes": [graph_text.node_value(node, self._tags) for node in found if self._is_wanted(node)],
            "removed": list(update.removed),
        }

    def note_lost(self, lost: "Lost") -> None:
        """There is no link now."""
        self._trouble = f"{lost.why}; trying again within {duration_text(lost.wait_seconds + 1)}"

    def _say_lost(self, lost: "Lost") -> None:
        self.note_lost(lost)
        self._is_linked = False
        value: output.Json = {
            "event": "lost",
            "address": str(self._place),
            "reason": lost.why,
            "wait_seconds": round(lost.wait_seconds, 3),
            "attempts": lost.attempts,
        }
        self._out.event(value, f"the link is lost: {self._trouble}")

    def _say_linked(self) -> None:
        if not self._is_linked:
            self._is_linked = True
            self._out.event({"event": "linked", "address": str(self._place)}, f"linked to {self._place}")


def _lines(text: str, width: int) -> int:
    """How many lines a text takes at most, broken between words."""
    return 1 + len(text) // max(width * 3 // 4, 1)
