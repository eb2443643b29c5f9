"""What can be told of a job before Spark is started for it: that a lake, a file or a selection is not there.

A session takes seconds to start, so whatever the user has mistyped is said before. Of a lake at an address nothing can
be told without Spark; the job itself says it then.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from bobbin.cli.sources import MissingFile, check_outside
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.store.lake.lake import Lake


def check_lake(location: str) -> "Lake | None":
    """The lake in a folder of this machine, which must be there; None for one that only Spark can reach."""
    from bobbin.store.lake.files import is_elsewhere
    from bobbin.store.lake.lake import Lake

    return None if is_elsewhere(location) else Lake.open(location)


def check_place(location: str) -> None:
    """Refuse a folder of this machine that is no lake, and in which none can be made."""
    from bobbin.store.lake.files import local_path
    from bobbin.store.lake.lake import Lake

    local = local_path(location)
    if local is None:
        return
    path = Path(local).absolute()
    there = next(part for part in (path, *path.parents) if part.exists())
    if not there.is_dir():
        raise UsageError(f"{there} is no folder, and a lake is one")
    Lake.check_place(location)


def check_target(file: Path, lake: str) -> None:
    """Refuse a file that cannot be written, or that would destroy something, before the work is done."""
    from bobbin.store.lake.files import local_path

    check_outside(None, file)
    if file.is_dir():
        raise UsageError(f"{file} is a folder; name a file in it")
    if not file.absolute().parent.is_dir():
        raise MissingFile(f"there is no folder {file.absolute().parent}")
    folder = local_path(lake)
    if folder is not None and file.resolve().is_relative_to(Path(folder).resolve()):
        raise UsageError(f"{file} is inside the lake {lake}; name a file outside it")


def check_selection(lake: "Lake | None", key: str | None, predicate: str, *, allow_stale: bool) -> None:
    """Refuse a selection that is not there, is stale, or has no answer of this name."""
    from bobbin.pipeline.offer import check_predicate, find_selection, stale_notes

    if lake is None or key is None:
        return
    found = find_selection(lake, key)
    check_predicate(lake, found, predicate)
    stale_notes(lake, found, allowed=allow_stale)
