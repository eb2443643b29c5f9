"""What a server tells of itself while it runs: a line for each event, which can never hold it up.

Strangers can give rise to lines, by being turned away. So a line that whoever reads stdout has no room for is dropped,
and counted; the count is told as soon as there is room. A server whose reader has gone goes on in silence.
"""

import select
import sys
import threading
from collections.abc import Mapping
from typing import Final, TextIO

from bobbin.cli import output
from bobbin.cli.output import Json, Output, ReaderGone
from bobbin.errors import ResourceError

_TEXT_MAX: Final = 300
"""Characters of one value. What has room for anything has room for a line of a few kilobytes."""


class ServerLog:
    """The lines of one server, from any thread."""

    def __init__(self, out: Output, *, is_stdio: bool = False) -> None:
        """``is_stdio``: stdout is a link, so lines go to stderr."""
        self._out: Final = out
        self._is_stdio: Final = is_stdio
        self._is_heard = True
        self._dropped = 0
        self._lock: Final = threading.Lock()

    def hear(self, event: str, values: Mapping[str, str | int]) -> None:
        """An event that has one line, with its values."""
        short: dict[str, Json] = {
            name: value[:_TEXT_MAX] if isinstance(value, str) else value for name, value in values.items()
        }
        self.tell(event, short, _words(event, short))

    def tell(self, event: str, values: Mapping[str, Json], *lines: str) -> None:
        """An event, as one JSON value or as lines for people. Never waits, and never fails."""
        with self._lock:
            if not self._is_heard:
                return
            if not has_room(sys.stderr if self._is_stdio else sys.stdout):
                self._dropped += 1
                return
            if self._dropped:
                missed: dict[str, Json] = {"events": self._dropped}
                self._dropped = 0
                self._write("dropped", missed, _words("dropped", missed))
            self._write(event, values, *lines)

    def _write(self, event: str, values: Mapping[str, Json], *lines: str) -> None:
        if self._is_stdio:
            for line in lines:
                self._out.note(line)
            return
        try:
            self._out.row({"event": event, **values}, *map(self._out.style, lines))
            output.flush()
        except (ReaderGone, ResourceError):
            # Whoever started the server has heard enough, and it goes on.
            self._is_heard = False
            output.abandon()


def has_room(stream: TextIO | None) -> bool:
    """Whether a line can be written without waiting for whoever reads."""
    try:
        return stream is None or bool(select.select([], [stream.fileno()], [], 0)[1])
    except (OSError, ValueError):
        # Nothing that the system knows of, as in a test, or something that is closed, which the write will say.
        return True


def _words(event: str, values: Mapping[str, Json]) -> str:
    return "  ".join([event, *(f"{name} {value}" for name, value in values.items())])
