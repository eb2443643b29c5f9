"""Removing files that nobody needs any more.

A file goes if the current manifest of its table does not name it and it has been so for a while: whoever opened the
lake when the file was current has had that long to finish. A run that is still going keeps everything that was current
when it began, however long ago that is. Files that belong to nothing at all go when they are that old.

Of the history goes what is that old, too, since every manifest names all files of its time: a lake that is written to
every few seconds would soon have more of it than of records. What a current manifest refers to stays, and so do the
reports of all runs.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from bobbin.records import tai
from bobbin.store.lake import check, commit
from bobbin.store.lake.errors import translated
from bobbin.store.lake.lake import Lake, Report, Run, tai_now
from bobbin.store.lake.manifest import Manifest, content_of, number_in, order_of

JOB: Final = "clean"
AGE_SECONDS: Final = 24 * 3600
"""How long files stay that no current manifest names, unless another time is asked for."""


class Removed(Struct, frozen=True):
    """One file that went, or would go."""

    path: str
    bytes: int
    why: str


def clean(
    lake: Lake, *, age_seconds: float = AGE_SECONDS, dry_run: bool = False
) -> tuple[Report | None, tuple[Removed, ...]]:
    """Remove what nobody needs; with ``dry_run`` only say what that is. No report where nothing was removed."""
    if dry_run:
        return None, tuple(_unneeded(lake, age_seconds, None))
    with lake.begin(JOB) as run:
        found = tuple(_unneeded(lake, age_seconds, run))
        for file in found:
            with translated(f"removing {file.path} from the lake {lake.location} failed"):
                lake.files.delete(file.path)
        _remove_empty_folders(lake)
        if not found:
            return None, ()
        return run.commit(counts={"files": len(found), "bytes": sum(file.bytes for file in found)}), found


def _unneeded(lake: Lake, age_seconds: float, own: Run | None) -> Iterator[Removed]:
    now = tai.parse(tai_now())
    limit = now - round(age_seconds * tai.NANOSECONDS)
    going = [run for run in commit.running(lake.files) if lake.files.is_claimed(commit.running_path(run))]
    limit = min([limit, *(commit.began_ns(run) for run in going if own is None or run != own.id)])
    names = commit.table_names(lake.files)
    current = [lake.manifest(name) for name in names]
    for name in names:
        yield from _superseded(lake, name, limit)
        yield from _outlived(lake, name, limit, current)
    for orphan in check.orphans(lake):
        if lake.files.age_seconds(orphan.path) >= age_seconds:
            yield Removed(orphan.path, orphan.bytes, "no manifest names it")


def _superseded(lake: Lake, table: str, limit: int) -> Iterator[Removed]:
    """The files of older manifests that no later one names, and that have been replaced before the limit."""
    current = lake.manifest(table)
    needed = {file.path for file in current.files}
    # From the newest on: a manifest's files were given up when the next one came.
    newer: Manifest | None = None
    for manifest in lake.history(table):
        if newer is not None:
            is_late = tai.parse(newer.created) > limit
            for file in manifest.files:
                if file.path in needed:
                    continue
                needed.add(file.path)
                if not is_late and lake.files.exists(file.path):
                    yield Removed(file.path, file.bytes, f"replaced by the manifest {newer.number} of {table}")
        newer = manifest


def _outlived(lake: Lake, table: str, limit: int, current: Sequence[Manifest]) -> Iterator[Removed]:
    """The manifests that were replaced before the limit, and that nothing refers to."""
    own = lake.manifest(table)
    # Who follows a lake by places asks for the manifest that gave them last, and for the one before it.
    needed = {own.number, content_of(own), order_of(own), order_of(own) - 1}
    needed.update(number_in(other, table, 0) for other in current)
    newer: Manifest | None = None
    for manifest in lake.history(table):
        if newer is not None and manifest.number not in needed and tai.parse(newer.created) <= limit:
            path = commit.history_path(table, manifest.number)
            yield Removed(path, lake.files.size(path), f"replaced by the manifest {newer.number} of {table}")
        newer = manifest


def _remove_empty_folders(lake: Lake) -> None:
    live = {run for run in commit.running(lake.files) if lake.files.is_claimed(commit.running_path(run))}
    for table in commit.table_names(lake.files):
        for run in lake.files.list(f"{table}/data"):
            path = f"{table}/data/{run.rstrip('/')}"
            if run.endswith("/") and run.rstrip("/") not in live and not lake.files.list(path):
                lake.files.delete(path)
