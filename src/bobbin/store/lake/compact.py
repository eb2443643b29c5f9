"""Few large sorted files in place of many small ones, as a run like any other.

Files of a table pile up: each ingest adds some, and they overlap, so that looking a record up has to look into many.
Compacting merges them, in bounded memory, into files that do not overlap. The rows stay the same, and what was made
from them stays current. What other runs add meanwhile is left as it is, so a lake that is followed can be compacted.
The old files stay, too, for whoever is reading them, until ``clean`` removes them.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.store.base import Progress
from bobbin.store.lake import merging, staging, tables
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.lake import Lake, Report, Run
from bobbin.store.lake.manifest import Manifest
from bobbin.store.lake.tables import FACTS, QUARANTINE, RECORDS, Table
from bobbin.store.lake.writing import PartWriter, Shape

JOB: Final = "compact"
COMPACTED: Final = (RECORDS.name, FACTS.name, QUARANTINE.name)
"""The tables that grow file by file. The others are made anew each time."""

_UNIQUE: Final = frozenset({RECORDS.name, FACTS.name})


class Compacted(Struct, frozen=True):
    """What became of one table."""

    table: str
    rows: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int


def compact(
    lake: Lake,
    names: Sequence[str] = COMPACTED,
    *,
    shape: Shape | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> tuple[Report | None, tuple[Compacted, ...]]:
    """Compact the tables that need it; with ``force`` all. No report where there was nothing to do."""
    for name in names:
        if name not in COMPACTED:
            raise UsageError(f"the table {name} is not compacted: {', '.join(COMPACTED)} are")
    with lake.begin(JOB) as run:
        bases = [base for name in names if (base := run.base(name)).files and (force or needs_it(base))]
        if not bases:
            return None, ()
        total = sum(base.rows for base in bases)
        done = 0
        for base in bases:
            for rows in _rewrite(run, base, shape):
                done += rows
                if progress is not None:
                    progress(done, total)
            run.rewrite(base.table)
        counts = {base.table: base.rows for base in bases}
        report = run.commit(inputs=counts, outputs=counts, rows=counts)
        return report, tuple(_told(base, lake.manifest(base.table)) for base in bases)


def needs_it(manifest: Manifest) -> bool:
    """Whether a table's files overlap, or most of them are small."""
    if len(manifest.files) < 2:
        return False
    if merging.do_overlap(manifest.files):
        return True
    average = sum(file.bytes for file in manifest.files) // len(manifest.files)
    return average < Shape().file_bytes_max // 16


def _rewrite(run: Run, base: Manifest, shape: Shape | None) -> Iterator[int]:
    """Write the rows of a table anew; yields how many each time some are written."""
    table = tables.table(base.table)
    _check_bytes(run, base)
    written = 0
    last: bytes | None = None
    # A name that begins so is no part of the table, and goes when the run is committed or given up.
    scratch = merging.Scratch(run.lake.files, f"{run.path(base.table)}/_merging")
    with PartWriter(run.lake.files, table, run.path(base.table), shape) as writer:
        for batch in merging.merged(run.lake.files, table, base.files, scratch=scratch):
            last = _check_once(table, batch, last)
            writer.write(batch)
            written += batch.num_rows
            yield batch.num_rows
    if written != base.rows:
        raise DamagedLake(f"the table {base.table} has {written} rows; its manifest says {base.rows}")


def _check_bytes(run: Run, base: Manifest) -> None:
    """Refuse files that are not what was committed: written anew, their damage would have a digest that fits it."""
    for file in base.files:
        if staging.digest_of(run.lake.files, file.path) != file.digest:
            raise DamagedLake(
                f"the bytes of {file.path} are not those that were committed; nothing was compacted. "
                f"`bobbin lake check` says what else is wrong"
            )


def _check_once(table: Table, batch: pa.RecordBatch, last: bytes | None) -> bytes:
    """Refuse a record that is there twice; the last key of the batch."""
    keys = merging.keys_of(table, batch)
    before, after = keys.slice(0, len(keys) - 1), keys.slice(1)
    if table.name in _UNIQUE and (pc.any(pc.equal(before, after)).as_py() or last == merging.key_at(keys, 0)):
        raise DamagedLake(f"the table {table.name} has a record twice; `bobbin lake check` says which")
    return merging.key_at(keys, -1)


def _told(before: Manifest, after: Manifest) -> Compacted:
    return Compacted(
        before.table,
        after.rows,
        len(before.files),
        len(after.files),
        sum(file.bytes for file in before.files),
        sum(file.bytes for file in after.files),
    )
