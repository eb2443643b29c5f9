"""The audit log of a node: every change of its role, of the health of members and of the configuration (CL-368).

One JSON object a line, in the order in which it happened, with what it was before (``from``) and what it is now
(``to``). Lines are numbered through, over restarts as well, so that a missing one shows. The file is opened for each
line: whoever rotates it need not tell anybody.

A line that cannot be written is counted and does not stop the node: what it tells of has happened already.
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson

from bobbin.cluster.raft.entries import Configuration

_TAIL_BYTES: Final = 64 * 1024
"""Looked at for the number of the last line."""


class Audit:
    """Appends lines."""

    def __init__(self, file: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._file: Final = file
        self._clock: Final = clock
        self._number = _last_number(file)
        self.failures = 0
        """Lines that could not be written."""

    def note(self, kind: str, before: str | None, after: str | None, **values: object) -> None:
        """Something has changed: ``kind`` says what, then come the values around it."""
        self._number += 1
        stamp = self._clock().isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
        entry = {"number": self._number, "time": stamp, "kind": kind, "from": before, "to": after, **values}
        try:
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, orjson.dumps(entry) + b"\n")
            finally:
                os.close(descriptor)
        except OSError:
            self.failures += 1


def configuration_text(configuration: Configuration) -> str:
    """A configuration on one line, for the audit log."""
    parts = [f"voters {' '.join(configuration.voters) or 'none'}"]
    if configuration.learners:
        parts.append(f"learners {' '.join(configuration.learners)}")
    if configuration.outgoing:
        parts.append(f"outgoing {' '.join(configuration.outgoing)}")
    return ", ".join(parts)


def _last_number(file: Path) -> int:
    """The number of the last whole line; 0 where there is none."""
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _TAIL_BYTES))
            lines = stream.read().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:  # cut off by a crash
            continue
        if isinstance(entry, dict) and isinstance(number := entry.get("number"), int):
            return number
    return 0
