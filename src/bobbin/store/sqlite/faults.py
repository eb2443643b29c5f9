"""What goes wrong under the store, as one typed error with a sentence that helps.

SQLite reports through apsw, in many classes. All that leaves the store is a ``StoreError`` (disk, locks, permissions,
damage) or a ``UsageError`` (a closed store or snapshot). ``retry`` is True where the same call can succeed later
without anyone changing the store: another process was writing, the disk was full, memory ran out.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from bobbin.errors import BobbinError, UsageError
from bobbin.store.base import DamagedStore, FullStore, StoreError

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})

_SENTENCES: Final[tuple[tuple[tuple[type[apsw.Error], ...], str, bool], ...]] = (
    ((apsw.BusyError, apsw.LockedError, apsw.ProtocolError), "the store {path} is held by another writer", True),
    ((apsw.NoMemError,), "not enough memory to work on the store {path}", True),
    ((apsw.InterruptError, apsw.AbortError), "the work on the store {path} was interrupted", True),
    ((apsw.ReadOnlyError, apsw.PermissionsError), "the store {path} cannot be written: it is read-only", False),
    ((apsw.CantOpenError,), "the store {path} cannot be opened: a file is not accessible", False),
    ((apsw.IOError,), "reading or writing the store {path} failed", False),
)  # fmt: skip
_CLOSED: Final = (apsw.ConnectionClosedError, apsw.CursorClosedError)


def translate(error: apsw.Error | UnicodeDecodeError, path: Path) -> BobbinError:
    """The error that a caller of the store gets for what SQLite said."""
    if isinstance(error, _CLOSED):
        return UsageError(f"the store {path}, or the snapshot of it that this came from, is closed")
    if isinstance(error, UnicodeDecodeError):
        return DamagedStore(f"the store {path} is damaged: a text is not UTF-8")
    if isinstance(error, apsw.ThreadingViolationError | apsw.ForkingViolationError):
        return UsageError(f"the store {path} is in use by another thread, or was opened before a fork")
    if isinstance(error, apsw.CorruptError | apsw.FormatError):
        return DamagedStore(f"the store {path} is damaged ({error})")
    if isinstance(error, apsw.NotADBError):
        return DamagedStore(f"{path} is not a store, or no longer: it is not a SQLite database ({error})")
    if isinstance(error, apsw.FullError):
        return FullStore(f"there is no space left for the store {path} ({error})")
    for classes, sentence, retry in _SENTENCES:
        if isinstance(error, classes):
            return StoreError(f"{sentence.format(path=path)} ({error})", retry=retry)
    return DamagedStore(f"the store {path} is not built as expected ({error})")


@contextmanager
def translated(path: Path, connection: apsw.Connection | None = None) -> Iterator[None]:
    """Everything inside raises only errors of ours. With the connection, a failed write tells a full disk apart."""
    try:
        yield
    except (apsw.Error, UnicodeDecodeError) as error:
        if isinstance(error, apsw.IOError) and connection is not None and connection.system_errno in NO_SPACE:
            raise FullStore(f"there is no space left for the store {path} ({error})") from error
        raise translate(error, path) from error
