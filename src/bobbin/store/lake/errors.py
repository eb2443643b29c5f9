"""What can go wrong with a lake. None of these leaves a lake other than it was."""

from collections.abc import Iterator
from contextlib import contextmanager

from bobbin.errors import UsageError
from bobbin.store.base import DamagedStore, StoreError

NO_SPACE_WORDS = ("No space left", "ENOSPC", "Disk quota exceeded", "File too large")


class NoLake(UsageError):
    """The location holds no lake."""


class LakeError(StoreError):
    """The lake cannot do its work. What was committed before is intact."""

    def __init__(self, message: str, *, retry: bool = False) -> None:
        super().__init__(message, retry=retry)


class ReadOnlyLake(UsageError):
    """Something was to be written into a lake that is open for reading, or as a store."""


class OtherVersion(LakeError):
    """The lake, or a table of it, was written by a version of Bobbin that this one does not know."""


class Conflict(LakeError):
    """Another run has changed a table since this one read it. Nothing was committed; run it again."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retry=True)


class DamagedLake(DamagedStore):
    """A file of the lake is not what the lake says it is."""


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Everything inside raises a ``LakeError`` where the file system fails, with what was being done."""
    try:
        yield
    except OSError as error:
        is_full = any(word in str(error) for word in NO_SPACE_WORDS)
        raise LakeError(f"{what}: {error}", retry=is_full) from error
