"""Making a finished file visible at once: nobody ever sees half of it, and nothing that exists is replaced.

The file is written under a temporary name in the same folder, flushed to the disk, linked to its real name (which
fails if that name is taken), and the folder is flushed too. A crash leaves at most a file with a temporary name.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bobbin.errors import UsageError
from bobbin.store.base import StoreError
from bobbin.store.sqlite.faults import NO_SPACE


@contextmanager
def published(target: Path) -> Iterator[Path]:
    """A temporary path to write to. It becomes ``target`` when the block ends well, and vanishes when it does not.

    A ``target`` that exists is ``FileExistsError``, before the block or after it.
    """
    if os.path.lexists(target):
        raise FileExistsError(target)
    if not target.parent.is_dir():
        raise UsageError(f"the folder {target.parent} does not exist")
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        yield temporary
        _flush(temporary)
        _name(temporary, target)
        _flush(target.parent)
    except FileExistsError:
        raise
    except OSError as error:
        raise StoreError(f"{target} cannot be written ({error})", retry=error.errno in NO_SPACE) from error
    finally:
        for leftover in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                temporary.with_name(temporary.name + leftover).unlink()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _name(temporary: Path, target: Path) -> None:
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links: the check and the renaming are two steps there.
        if os.path.lexists(target):
            raise FileExistsError(target) from None
        temporary.rename(target)
