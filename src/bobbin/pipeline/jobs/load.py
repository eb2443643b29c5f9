"""``load``: a bundle, a lace or another lake into a lake, in stretches that are committed one by one.

An ingest takes all of its sources in one run: all or nothing, and after an interruption all again. A load takes one
source, and commits what it has after every stretch, together with a cursor that says how far it is. Whoever starts the
same load again goes on from there. What is checked, stored, told apart and quarantined is the same as in an ingest.

A source is the same as before if it is the same file, of the same size and time; the same lace, grown perhaps; the same
manifest of the same lake. Otherwise the load begins anew, and what is in the lake already counts as duplicate. A lace
has one cursor for ``load`` and ``follow``.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from bobbin.errors import UsageError
from bobbin.pipeline import frames
from bobbin.pipeline.jobs import cursors, follow, ingest
from bobbin.pipeline.jobs.cursors import LaceCursor, LoadCursor
from bobbin.pipeline.jobs.ingest import Checked
from bobbin.pipeline.progress import Step, silent
from bobbin.pipeline.reading import parts as reading
from bobbin.pipeline.reading.parts import Part
from bobbin.pipeline.reading.plan import plan_parts
from bobbin.pipeline.reading.sources import Form, MissingSource, Source, find_sources
from bobbin.pipeline.source import lace_slices
from bobbin.pipeline.source import stream as streams
from bobbin.pipeline.source.locations import Kind, Location
from bobbin.pipeline.spark import parallelism
from bobbin.store.lake.files import local_path
from bobbin.store.lake.keys import derived_key
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.manifest import DataFile, Manifest
from bobbin.store.lake.report import Report
from bobbin.store.lake.tables import RECORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

JOB: Final = "load"
STRETCH_BYTES: Final = 1 << 30
"""About so much of a file is one run."""

STRETCH_RECORDS: Final = 1_000_000
"""So many records of a lace are one run."""


class Loaded(Struct, kw_only=True):
    """What one call of ``run`` did."""

    source: str
    form: str
    """``bundle``, ``lace`` or ``lake``."""
    resumed: bool
    """Whether an earlier load of the same source had come some way, or all of it."""
    runs: int = 0
    read: int = 0
    stored: int = 0
    duplicate: int = 0
    quarantined: int = 0
    reasons: dict[str, int] = {}
    """How many were quarantined, for each reason."""
    earlier: dict[str, int] = {}
    """The same for the loads that this one goes on from: what of the source is not in the lake for that."""


class _Stretch(Struct, frozen=True, kw_only=True):
    """What one run takes."""

    check: Callable[[str], Checked]
    properties: "Callable[[Checked], Mapping[str, str]]"
    sources: "Sequence[Source]" = ()


def run(
    session: SparkSession,
    lake: Lake,
    name: str,
    *,
    stretch_bytes: int = STRETCH_BYTES,
    stretch_records: int = STRETCH_RECORDS,
    step: Step = silent,
    heard: Callable[[Report], None] = lambda _: None,
) -> Loaded:
    """Take the records of one source into a lake, from where an earlier load was interrupted."""
    location = locate(name, lake.location)
    loaded = Loaded(source=str(location.path), form=location.kind.value, resumed=False)
    if location.kind is Kind.LACE:
        stretches = _of_lace(session, lake, location.path, loaded, stretch_records)
    else:
        of_kind = _of_lake if location.kind is Kind.LAKE else _of_bundle
        stretches = of_kind(session, lake, location.path, loaded, stretch_bytes)
    for stretch in stretches:
        report = ingest.take(
            session,
            lake,
            stretch.check,
            job=JOB,
            sources=stretch.sources,
            properties=stretch.properties,
            step=step,
        )
        loaded.runs += 1
        loaded.read += report.counts["in"]
        loaded.stored += report.counts["stored"]
        loaded.duplicate += report.counts["duplicate"]
        loaded.quarantined += report.counts["quarantined"]
        loaded.reasons = cursors.added(loaded.reasons, ingest.reasons_of(report))
        heard(report)
    return loaded


def locate(name: str, lake: str) -> Location:
    """What a name leads to, if that can be loaded into a lake."""
    path = local_path(name)
    if path is not None and not Path(path).exists():
        raise MissingSource(f"there is no source {name}")
    location = follow.locate(name)
    if location.kind is Kind.BUNDLE:
        (source,) = find_sources([str(location.path)], lake=lake)
        if source.form is not Form.BUNDLE:
            raise UsageError(
                f"{location.path} is no bundle, but {source.form.value}; `bobbin pipeline ingest` takes that"
            )
    folder = local_path(lake)
    if location.kind is Kind.LAKE and folder is not None and location.path.resolve() == Path(folder).resolve():
        raise UsageError(f"{name} is the lake itself")
    return location


# ---- bundles ---------------------------------------------------------------------------------------------------------


def _of_bundle(session: SparkSession, lake: Lake, path: Path, loaded: Loaded, stretch_bytes: int) -> Iterator[_Stretch]:
    """Stretches of a bundle. Each begins where the last piece of the one before has ended, damaged or not."""
    (source,) = find_sources([str(path)], lake=lake.location)
    key = derived_key(job=JOB, name=source.name, size=source.size, stamp=source.stamp)
    cursor = cursors.load_cursor(lake, key) or LoadCursor(key=key, at=0)
    loaded.resumed, loaded.earlier = cursor.at > 0 or cursor.done, cursor.rejected
    while not cursor.done:
        yield _bundle_stretch(session, lake, source, cursor, stretch_bytes)
        reached = cursors.load_cursor(lake, key)
        assert reached is not None, "it was committed with the stretch"
        cursor = reached


def _bundle_stretch(
    session: SparkSession, lake: Lake, source: Source, cursor: LoadCursor, stretch_bytes: int
) -> _Stretch:
    end = min(source.size, cursor.at + stretch_bytes)
    size = reading.part_bytes(end - cursor.at, parallelism(session))
    parts = stretch_parts(source, cursor, end, size)

    def check(scratch: str) -> Checked:
        return ingest.check_sources(session, [source], scratch, size=size, parts=parts)

    def properties(checked: Checked) -> "Mapping[str, str]":
        reached = max((tally.end for tally in checked.tallies), default=source.size)
        after = LoadCursor(
            key=cursor.key,
            at=reached,
            spent=cursor.spent + sum(tally.spent for tally in checked.tallies),
            done=reached >= source.size,
            rejected=cursors.added(cursor.rejected, checked.reasons()),
        )
        return cursors.load_property(lake, after)

    return _Stretch(check=check, properties=properties, sources=[source])


def stretch_parts(source: Source, cursor: LoadCursor, end: int, size: int) -> list[Part]:
    """The parts of a bundle between the cursor and a place: the first begins at the cursor, the others at guesses."""
    if cursor.at >= end:
        return []
    begins = [cursor.at, *(part.begin for part in plan_parts([source], size) if cursor.at < part.begin < end)]
    return [
        Part(number=number, source=0, begin=begin, end=until, joins=True, spent=cursor.spent)
        for number, (begin, until) in enumerate(zip(begins, [*begins[1:], end], strict=True))
    ]


# ---- laces -----------------------------------------------------------------------------------------------------------


def _of_lace(session: SparkSession, lake: Lake, path: Path, loaded: Loaded, stretch_records: int) -> Iterator[_Stretch]:
    """Stretches of a lace, up to the last record that it has when the load begins."""
    now = lace_slices.moment(path)
    key = follow.stream_key(now)
    cursor = cursors.lace_cursor(lake, key)
    at = 0 if cursor is None else streams.check(now, follow.offset_of(cursor))
    rejected = {} if cursor is None else cursor.rejected
    loaded.resumed, loaded.earlier = at > 0, rejected
    while at < now.high_water:
        end = min(now.high_water, lace_slices.last_of(path, at, stretch_records))
        if end == at:
            # What is left was removed.
            return
        reached = LaceCursor(**streams.offset_at(now, end), rejected=cursors.added(rejected, loaded.reasons))
        yield _lace_stretch(session, path, at, end, reached, key)
        at = end


def _lace_stretch(session: SparkSession, path: Path, begin: int, end: int, cursor: LaceCursor, key: str) -> _Stretch:
    """What is between two ids. ``cursor`` is at the end of it, and knows what was rejected before."""
    (source,) = find_sources([str(path)])
    share = max(1, source.size * (end - begin) // max(1, source.positions))
    size = reading.part_bytes(share, parallelism(session))
    step = max(1, (end - begin) * size // share)
    parts = [
        Part(number=number, source=0, begin=at, end=min(at + step, end))
        for number, at in enumerate(range(begin, end, step))
    ]

    def check(scratch: str) -> Checked:
        return ingest.check_sources(session, [source], scratch, size=step, parts=parts)

    def properties(checked: Checked) -> "Mapping[str, str]":
        after = structs.replace(cursor, rejected=cursors.added(cursor.rejected, checked.reasons()))
        return cursors.lace_property(key, after)

    return _Stretch(check=check, properties=properties, sources=[source])


# ---- lakes -----------------------------------------------------------------------------------------------------------


def _of_lake(session: SparkSession, lake: Lake, path: Path, loaded: Loaded, stretch_bytes: int) -> Iterator[_Stretch]:
    """Stretches of another lake: files of its manifest, as many as have the size together."""
    other = Lake.open(path)
    manifest = other.manifest(RECORDS.name)
    key = derived_key(job=JOB, files=[file.digest for file in manifest.files])
    cursor = cursors.load_cursor(lake, key) or LoadCursor(key=key, at=0)
    loaded.resumed, loaded.earlier = cursor.at > 0, cursor.rejected
    at = cursor.at
    while at < len(manifest.files):
        chosen = _some(manifest.files[at:], stretch_bytes)
        at += len(chosen)
        rejected = cursors.added(cursor.rejected, loaded.reasons)
        after = LoadCursor(key=key, at=at, done=at == len(manifest.files), rejected=rejected)
        yield _lake_stretch(session, lake, structs.replace(manifest, files=chosen), other, after)


def _lake_stretch(session: SparkSession, lake: Lake, chosen: Manifest, other: Lake, after: LoadCursor) -> _Stretch:
    """The files that are left of a manifest of another lake. ``after`` is the cursor behind them."""

    def check(scratch: str) -> Checked:
        rows = sum(file.rows for file in chosen.files)
        frame = frames.read(session, other, structs.replace(chosen, rows=rows))
        offset = f.lit(None).cast("long").alias("offset")
        return ingest.check_rows(session, frame.select("raw", f.lit(other.location).alias("source"), offset), scratch)

    def properties(checked: Checked) -> "Mapping[str, str]":
        rejected = cursors.added(after.rejected, checked.reasons())
        return cursors.load_property(lake, structs.replace(after, rejected=rejected))

    return _Stretch(check=check, properties=properties)


def _some(files: tuple[DataFile, ...], size: int) -> tuple[DataFile, ...]:
    """The first files that have so many bytes together; one at least."""
    held = 0
    for number, file in enumerate(files):
        held += file.bytes
        if number and held > size:
            return files[:number]
    return files
