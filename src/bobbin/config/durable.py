"""Files that are either whole or not there, whenever the power goes.

A file is written under a temporary name beside its own, synced, and then gets its name: by renaming, where it may
replace another, or by linking, which fails where the name is taken. The folder is synced last, since a new name is only
as durable as the folder that lists it. A crash leaves at most a file with a temporary name.
"""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

_PRIVATE: Final = 0o600
_PUBLIC: Final = 0o666
"""What the umask leaves of it."""

_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""What a file system without hard links says."""


def sync_folder(folder: Path) -> None:
    """Make new, renamed and removed names in this folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """A stream whose content becomes ``target`` when the block ends well, and nothing at all otherwise."""
    temporary = _temporary(target)
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def write_private(target: Path, content: bytes) -> None:
    """Create a file that only its owner can read. ``FileExistsError`` if the name is taken; nothing is overwritten."""
    _write_new(target, content, private=True)


def write_new(target: Path, content: bytes) -> None:
    """Create a file for everyone. ``FileExistsError`` if the name is taken; nothing is overwritten."""
    _write_new(target, content, private=False)


def _write_new(target: Path, content: bytes, *, private: bool) -> None:
    temporary = _temporary(target)
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, _PRIVATE if private else _PUBLIC), "wb") as stream:
            if private:
                # The umask may have taken bits away from the mode above, never added any; this one is exact.
                os.fchmod(stream.fileno(), _PRIVATE)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        _name(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(target.parent)


def _name(temporary: Path, target: Path) -> None:
    try:
        os.link(temporary, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # The check and the renaming are two steps here.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        temporary.rename(target)


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
