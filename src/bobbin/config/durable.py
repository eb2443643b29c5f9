"""Files that are either whole or not there, whenever the power goes.

A file is written under a temporary name beside its own, synced, and then renamed; the folder is synced last, since a
new name is only as durable as the folder that lists it.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_PRIVATE = 0o600


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
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
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
    descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _PRIVATE)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            # The umask may have taken bits away from the mode above, never added any; this one is exact.
            os.fchmod(stream.fileno(), _PRIVATE)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)
