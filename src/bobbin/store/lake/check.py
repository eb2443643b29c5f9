"""Verifying a lake against itself: every file again, and everything that manifests and reports say about it.

For each table: the manifest and its history; each file's size, digest, columns, rows, bounds and order; then what is in
it: records in full with their signatures, quarantined bytes by their digests. For each run: that its counts add up and
that its manifests are there. What belongs to nothing is named, too: it does no harm, and ``clean`` removes it. A
finding names a place and a fault, and the walk goes on after it. Nothing is repaired.
"""

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3
from msgspec import Struct

from bobbin.errors import BobbinError
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import validate
from bobbin.store.base import Finding, Progress
from bobbin.store.lake import commit, merging, reading, staging, tables
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.manifest import DataFile, Manifest
from bobbin.store.lake.report import Report
from bobbin.store.lake.tables import FACTS, QUARANTINE, RECORDS, Table

INGESTED: Final = ("in", "stored", "duplicate", "quarantined")
"""Counts of a run that takes things in: the first is the sum of the others."""

_UNIQUE: Final = frozenset({RECORDS.name, FACTS.name})
_FINDINGS_PER_FILE_MAX: Final = 20


class Orphan(Struct, frozen=True):
    """A file that no manifest names and no run that lives is writing."""

    path: str
    bytes: int


class _Counter:
    """How many rows have been looked at."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total = total
        self._progress = progress
        self.done = 0
        self.is_counting = True

    def add(self, rows: int) -> None:
        if not self.is_counting:
            return
        self.done += rows
        if self._progress is not None:
            self._progress(self.done, self._total)


def check(
    lake: Lake, *, quick: bool = False, progress: Progress | None = None, counted: str | None = None
) -> Iterator[Finding]:
    """Everything that is wrong with a lake. ``quick`` leaves out what is inside the files, beyond their digests.

    ``progress`` hears of the rows that were read; with ``counted``, only of those of this table.
    """
    sound: list[Manifest] = []
    for table in commit.table_names(lake.files):
        yield from _guarded(table, _check_history(lake, table))
        try:
            sound.append(lake.manifest(table))
        except BobbinError as error:
            yield Finding(table, str(error))
    total = sum(manifest.rows for manifest in sound if counted in (None, manifest.table))
    counter = _Counter(total, progress)
    for manifest in sound:
        counter.is_counting = counted in (None, manifest.table)
        for file in manifest.files:
            yield from _guarded(file.path, _check_file(lake, manifest, file, counter, quick=quick))
        if not quick:
            yield from _guarded(manifest.table, _check_twice(lake, manifest))
    yield from _guarded("facts", _check_facts(lake))
    yield from _guarded("runs", _check_reports(lake))


def _guarded(where: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """The findings of one part; that it cannot be looked at any further is one, too."""
    try:
        yield from findings
    except BobbinError as error:
        yield Finding(where, str(error))
    except OSError as error:
        yield Finding(where, f"it cannot be read ({error})")


# ---- manifests -------------------------------------------------------------------------------------------------------


def _check_history(lake: Lake, table: str) -> Iterator[Finding]:
    current = lake.manifest(table)
    numbers = commit.numbers(lake.files, table)
    if current.number and current.number not in numbers:
        yield Finding(table, f"the manifest {current.number} is not in the history")
    for number in numbers:
        found = commit.find_history(lake.files, table, number)
        if found is None:
            continue  # ``clean`` has taken it meanwhile.
        if number == current.number and found != current:
            yield Finding(table, f"the manifest {number} is another than the one in the history")
        if number > current.number and found.run not in commit.intended(lake.files):
            yield Finding(table, f"the history has a manifest {number} that was never current")


# ---- files -----------------------------------------------------------------------------------------------------------


def _check_file(lake: Lake, manifest: Manifest, file: DataFile, counter: _Counter, *, quick: bool) -> Iterator[Finding]:
    table = tables.table(manifest.table)
    if not lake.files.exists(file.path):
        yield Finding(file.path, "the file is gone")
    elif (size := lake.files.size(file.path)) != file.bytes:
        yield Finding(file.path, f"the file has {size} bytes, not {file.bytes}")
    elif staging.digest_of(lake.files, file.path) != file.digest:
        yield Finding(file.path, "the bytes of the file are not those that were committed")
    else:
        yield from _check_inside(lake, table, file, counter, quick=quick)
    if quick:
        counter.add(file.rows)


def _check_inside(lake: Lake, table: Table, file: DataFile, counter: _Counter, *, quick: bool) -> Iterator[Finding]:
    described = staging.describe(lake.files, table, file.path)
    for what in ("rows", "low", "high"):
        found, said = getattr(described, what), getattr(file, what)
        if found != said:
            yield Finding(file.path, f"the manifest says {what} = {said!r}; the file has {found!r}")
    if quick:
        return
    inspect = _INSIDE.get(table.name, _nothing)
    last: bytes | None = None
    told = 0
    for batch in reading.pieces(lake.files, file, table):
        if _is_mergeable(table):
            keys = merging.keys_of(table, batch)
            if not merging.is_sorted(keys, after=last):
                yield Finding(file.path, f"the rows are not sorted by {', '.join(table.sorted_by)}")
                return
            last = merging.key_at(keys, -1)
        for reason in inspect(batch):
            told += 1
            if told <= _FINDINGS_PER_FILE_MAX:
                yield Finding(file.path, reason)
        counter.add(batch.num_rows)
    if told > _FINDINGS_PER_FILE_MAX:
        yield Finding(file.path, f"and {told - _FINDINGS_PER_FILE_MAX} more like these")


def _is_mergeable(table: Table) -> bool:
    return table.sorted_by == ("record",) or table.name == QUARANTINE.name


def _bad_records(batch: pa.RecordBatch) -> Iterator[str]:
    for name, raw in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
        try:
            record = validate(raw)
        except InvalidRecord as error:
            yield f"{name} is no valid record: {error.reason} ({error.detail})"
            continue
        if record.hash != name:
            yield f"the row of {name} holds the record {record.hash}"


def _bad_quarantine(batch: pa.RecordBatch) -> Iterator[str]:
    rows = batch.select(["raw", "size", "digest", "source", "offset"]).to_pylist()
    for row in rows:
        place = row["source"] if row["offset"] is None else f"{row['source']} at {row['offset']}"
        if blake3(row["raw"]).digest() != row["digest"]:
            yield f"the quarantined bytes from {place} do not have their digest"
        if len(row["raw"]) != row["size"]:
            yield f"the quarantined bytes from {place} are {len(row['raw'])}, not {row['size']}"


def _nothing(_: pa.RecordBatch) -> Iterator[str]:
    return iter(())


_INSIDE: Final[dict[str, Callable[[pa.RecordBatch], Iterator[str]]]] = {
    RECORDS.name: _bad_records,
    QUARANTINE.name: _bad_quarantine,
}


def _check_twice(lake: Lake, manifest: Manifest) -> Iterator[Finding]:
    """Records that are there twice, in one file or in several."""
    if manifest.table not in _UNIQUE:
        return
    told = 0
    last: bytes | None = None
    for batch in merging.merged(lake.files, tables.table(manifest.table), manifest.files, columns=["record"]):
        names = batch.column(0)
        same = pc.equal(names.slice(0, len(names) - 1), names.slice(1))
        twice = [str(names[row]) for row in pc.indices_nonzero(same).to_pylist()]
        if last == merging.key_at(names, 0):
            twice.append(str(names[0]))
        last = merging.key_at(names, -1)
        for name in twice:
            told += 1
            if told <= _FINDINGS_PER_FILE_MAX:
                yield Finding(manifest.table, f"{name} is there twice")


# ---- what belongs together -------------------------------------------------------------------------------------------


def _check_facts(lake: Lake) -> Iterator[Finding]:
    facts, records = lake.manifest(FACTS.name), lake.manifest(RECORDS.name)
    made_from = facts.properties.get(RECORDS.name, "")
    if made_from.isdecimal() and lake.is_current(RECORDS.name, int(made_from)) and facts.rows != records.rows:
        yield Finding(FACTS.name, f"there are facts of {facts.rows} records; the lake has {records.rows}")


def _check_reports(lake: Lake) -> Iterator[Finding]:
    for run in commit.reported(lake.files):
        where = commit.report_path(run)
        try:
            report = lake.report(run)
        except BobbinError as error:
            yield Finding(where, str(error))
            continue
        if report is not None:
            yield from _guarded(where, _check_report(lake, report, where))


def _check_report(lake: Lake, report: Report, where: str) -> Iterator[Finding]:
    counts = report.counts
    whole, *parts = INGESTED
    if set(INGESTED) <= counts.keys() and counts[whole] != sum(counts[part] for part in parts):
        told = ", ".join(f"{counts[name]} {name}" for name in INGESTED)
        yield Finding(where, f"the counts of the run do not add up: {told}")
    for table, number in report.tables.items():
        made = commit.find_history(lake.files, table, number)
        if made is None and number >= lake.manifest(table).number:
            yield Finding(where, f"the manifest {number} of {table} is not there")
        if made is not None and made.run != report.run:
            yield Finding(where, f"the manifest {number} of {table} was made by another run")


def orphans(lake: Lake) -> Iterator[Orphan]:
    """Files that belong to nothing: left by dead runs, or put there by somebody else."""
    for table in commit.table_names(lake.files):
        # In this order: a run that ends meanwhile has committed before it lets go, and is in a manifest by then.
        found = [path for name in lake.files.list(f"{table}/data") for path in _below(lake, f"{table}/data/{name}")]
        found = [path for path in found if not _is_live(lake, path.removeprefix(f"{table}/data/").partition("/")[0])]
        named = {file.path for manifest in _manifests(lake, table) for file in manifest.files} if found else set()
        for path in found:
            if path not in named:
                yield Orphan(path, lake.files.size(path))


def _below(lake: Lake, path: str) -> Iterator[str]:
    if not path.endswith("/"):
        yield path
        return
    for name in lake.files.list(path.rstrip("/")):
        yield from _below(lake, f"{path}{name}")


def _is_live(lake: Lake, run: str) -> bool:
    """Whether a run is still going, or has decided to commit and was stopped."""
    return lake.files.is_claimed(commit.running_path(run)) or lake.files.exists(commit.intent_path(run))


def _manifests(lake: Lake, table: str) -> Iterator[Manifest]:
    yield lake.manifest(table)
    for number in commit.numbers(lake.files, table):
        if (found := commit.find_history(lake.files, table, number)) is not None:
            yield found
