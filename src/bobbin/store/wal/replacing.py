"""A file that appears whole: written under another name, synced, renamed, and the folder synced."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from bobbin.store.wal.files import Appender, Files

TEMPORARY: Final = ".tmp"
"""How the name of a file ends that is still being written. Whatever has such a name at open is nobody's."""


def written_whole(files: Files, name: str, pieces: Iterable[bytes]) -> Appender:
    """Put a file of these pieces at ``name``, in place of what is there, and leave it open.

    When this raises, the file has its new content or its old one, and nothing temporary stays behind if the system lets
    go of it.
    """
    temporary = name + TEMPORARY
    appender = created_anew(files, temporary)
    try:
        for piece in pieces:
            appender.write(piece)
        appender.sync()
        files.rename(temporary, name)
        files.sync_folder()
    except BaseException:
        with suppress(OSError):
            appender.close()
        remove_quietly(files, temporary)
        raise
    return appender


def created_anew(files: Files, name: str) -> Appender:
    """An empty file, whether or not one of an earlier attempt is in the way."""
    try:
        return files.create(name)
    except FileExistsError:
        files.remove(name)
        return files.create(name)


def remove_quietly(files: Files, name: str) -> None:
    """Remove a file that nobody needs. If that fails, the next open does it."""
    with suppress(OSError):
        files.remove(name)
