"""Leaving nothing behind: what was made in vain goes away again.

What was there before stays, also where it lies among what was made.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bobbin.errors import BobbinError


@contextmanager
def undone_on_failure(folders: Iterable[Path], *, but_for: tuple[type[BobbinError], ...] = ()) -> Iterator[None]:
    """Make these folders, or nothing: if the block fails, what it made in them, and they themselves, are removed.

    ``but_for``: errors after which what was made is still needed.
    """
    roots = [_missing_from(folder) for folder in folders]
    before = {path for root in roots for path in _below(root)}
    try:
        yield
    except BaseException as error:
        if not isinstance(error, but_for):
            for path in reversed([path for root in roots for path in _below(root)]):
                if path not in before:
                    _remove(path)
        raise


def _missing_from(folder: Path) -> Path:
    """The highest folder on the way that is not there yet; the folder itself, if it is."""
    missing = folder
    for parent in folder.parents:
        if missing.exists() or parent.exists():
            break
        missing = parent
    return missing


def _below(root: Path) -> list[Path]:
    """What is there, every folder before what is in it."""
    if root.is_symlink() or not root.is_dir():
        return [root] if root.exists() or root.is_symlink() else []
    return [root, *(path for entry in sorted(root.iterdir()) for path in _below(entry))]


def _remove(path: Path) -> None:
    with suppress(OSError):  # the reason of the failure is worth more than this one
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
