"""What goes wrong under the log, as one typed error that says whether to try again."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bobbin.errors import ResourceError

RETRY: Final = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.EDQUOT,
        errno.EINTR,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.ETIMEDOUT,
    }
)
"""What may be gone at the next attempt, which is made on a new file. A file system that is read-only stays so."""


def resource_error(what: str, error: OSError) -> ResourceError:
    """The error that a caller gets for what the system said."""
    return ResourceError(f"{what} failed: {error.strerror or error}", retry=error.errno in RETRY)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Everything inside raises a ``ResourceError`` where the system fails, with what was being done."""
    try:
        yield
    except OSError as error:
        raise resource_error(what, error) from error


def free_for(free: int, size: int, least: int) -> None:
    """Raise unless so many bytes can be written and the least that must stay free is left."""
    if free - size < least:
        raise ResourceError(
            f"{size:,} bytes are to be written, {free:,} are free, and {least:,} must stay free", retry=True
        )
