"""A copy of one moment as a store of its own, made while others go on reading and writing.

The source is a connection whose moment is pinned, so the copy neither starts again when someone writes nor mixes two
moments. The target appears under its name when it is whole and on the disk, and not before; an existing one is
refused. It is a store of its own, and follows no log, whatever the source does.
"""

from pathlib import Path
from typing import Final

import apsw

from bobbin.errors import UsageError
from bobbin.store.base import Progress
from bobbin.store.sqlite import faults, replica
from bobbin.store.sqlite.publish import published

_PAGES_PER_STEP: Final = 256


def back_up(source: apsw.Connection, target: Path, *, progress: Progress | None) -> None:
    """Copy what ``source`` sees to ``target``."""
    try:
        with published(target) as temporary, faults.translated(target):
            _copy(source, temporary, progress)
    except FileExistsError:
        raise UsageError(f"{target} exists already; a backup never replaces anything") from None


def _copy(source: apsw.Connection, target: Path, progress: Progress | None) -> None:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    destination = apsw.Connection(str(target), flags=flags)
    try:
        # Nobody knows the file yet: it needs no journal, and is flushed once, at the end.
        destination.pragma("journal_mode", "OFF")
        destination.pragma("synchronous", "OFF")
        with faults.translated(target, destination), destination.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(_PAGES_PER_STEP)
                if progress is not None:
                    progress(copying.page_count - copying.remaining, copying.page_count)
        with faults.translated(target, destination):
            replica.end(destination)
    finally:
        destination.close()
