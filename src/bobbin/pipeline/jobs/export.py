"""``export``: the records of a lake, or some of them, into one bundle or into a lace.

The workers write parts into a folder beside the target, each a stretch of the bundle in its order; then the parts are
joined under a temporary name, and the bundle gets its own when all of it is on the disk. For a lace the parts are
imported, the ordinary way, every record validated again; a lace that is not there yet is filled under a temporary name,
too. So nothing is ever half-written under the final name.

The folder says what it is for: the manifest, what was chosen and in which order, and where the parts are cut. An export
that was interrupted goes on from the parts that are whole, if the same is asked for again; else they are thrown away.
So an error says that the folder is there; where the lake is damaged, nothing goes on from it, and it is removed.
Workers and driver must see the folder under the same name, as they must see the lake.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from blake3 import blake3
from msgspec import Struct
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from bobbin.config.durable import replacing, sync_folder
from bobbin.config.layout import Layout, lace_around
from bobbin.errors import ResourceError, UsageError
from bobbin.lace import Lace
from bobbin.pipeline import frames, interrupts
from bobbin.pipeline.batches.locate import LOCATED, locate
from bobbin.pipeline.batches.write_parts import NOTES, Note, finished, part_file, write_parts
from bobbin.pipeline.failures import explained
from bobbin.pipeline.offer import stale_notes
from bobbin.pipeline.progress import Step, silent
from bobbin.pipeline.spark import parallelism
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.store.base import DamagedStore
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.keys import derived_key
from bobbin.store.lake.lake import Lake, Run
from bobbin.store.lake.manifest import Manifest
from bobbin.store.lake.report import Report
from bobbin.store.lake.tables import RECORDS, SELECTIONS

if TYPE_CHECKING:
    import pyarrow as pa

    from bobbin.runtime.ingest import Ingested

JOB: Final = "export"
PART_BYTES: Final = 16 << 20
"""About how large the files of the lake are that make one part, compressed as they are."""

PARTS_MAX: Final = 4_096
_TIME_PARTS_MAX: Final = 512
"""Every row is compared with where the parts are cut."""

_CHUNK_BYTES: Final = 1 << 20
_LOCAL: Final = "file://"
_PLAN: Final = "export.json"
_LACE: Final = "lace"
_WORKERS_FROM_BYTES: Final = 2 << 20
_SECONDS: Final = 10


class Order(StrEnum):
    """How the records of a bundle follow one another."""

    HASH = "hash"
    TAI = "tai"


class Choice(Struct, frozen=True, kw_only=True):
    """Which records are exported."""

    selection: str | None = None
    """The key of a table ``selections/<key>``; None for all records."""
    predicate: str = "MaySend"
    """Which of the selection's predicates."""
    at: Coordinate | Prefix | None = None
    allow_stale: bool = False
    """Whether a selection may be behind the records; the report says so then."""


class Plan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a folder of parts is for."""

    key: str
    """Stands for everything that decides which bytes come out."""
    order: Order
    parts: int
    edges: tuple[int, ...] = ()
    """For the order of times: the first second of each part but the first."""


class Exported(Struct, frozen=True, kw_only=True):
    """What an export did."""

    report: Report
    target: str
    form: str
    """``bundle`` or ``lace``."""
    records: int
    bytes: int
    digest: str | None
    """BLAKE3 of the bundle, in hex."""
    reused: int
    """Parts that an earlier export had left whole."""
    parts: int
    imported: "Ingested | None" = None
    """What became of the records in the lace."""
    stale: tuple[str, ...] = ()
    """What there is to say of a selection that is behind the records."""


def run(
    session: SparkSession,
    lake: Lake,
    target: Path,
    *,
    choice: Choice | None = None,
    order: Order = Order.HASH,
    part_bytes: int = PART_BYTES,
    step: Step = silent,
) -> Exported:
    """Write records of a lake to a bundle, or into a lace where the target's name ends in ``.lace`` or is one."""
    chosen = choice or Choice()
    target = target.absolute()
    is_lace = is_for_lace(target)
    check_target(target, lake)
    folder = target.with_name(f".{target.name}.export")
    with _leaving(folder), explained(JOB), lake.begin(JOB) as run:
        base = run.base(RECORDS.name)
        stale = stale_notes(lake, _selection(run, chosen), allowed=chosen.allow_stale)
        records = _chosen(session, run, base, chosen, with_times=order is Order.TAI)
        step("planning")
        plan = _planned(records, folder, base, _key(run, base, chosen, order), order, part_bytes)
        reused = finished(folder, plan.parts)
        step("writing parts")
        notes = _write(records, folder, plan, reused)
        _check_count(run, base, chosen, notes)
        if is_lace:
            step("importing")
            imported = _into_lace(folder, target, notes, workers=parallelism(session))
            digest = None
        else:
            step("joining")
            digest, imported = _join(folder, target, notes), None
        report = _commit(run, base, chosen, notes, imported, reused=len(reused), stale=stale)
    shutil.rmtree(folder, ignore_errors=True)
    return Exported(
        report=report,
        target=str(target),
        form="lace" if is_lace else "bundle",
        records=sum(note.rows for note in notes),
        bytes=sum(note.bytes for note in notes),
        digest=digest,
        reused=len(reused),
        parts=plan.parts,
        imported=imported,
        stale=stale,
    )


@contextmanager
def _leaving(folder: Path) -> Iterator[None]:
    """Say of an error in the block what it leaves in the folder of parts. Damage leaves nothing."""
    try:
        yield
    except ResourceError as error:
        if isinstance(error, DamagedStore):
            shutil.rmtree(folder, ignore_errors=True)
        elif folder.exists():
            words = f"What was written so far is in {folder}; the same export goes on from there"
            error.args = (f"{error}. {words}", *error.args[1:])
        raise


def selection_of(lake: Lake, plan: str) -> str:
    """The key of the one selection that was made by a plan, named by its id or the beginning of it."""
    prefix = f"{SELECTIONS.name}/"
    kept = [name for name in lake.tables() if name.startswith(prefix)]
    found = [name for name in kept if lake.manifest(name).properties.get("plan", "").startswith(plan)]
    if len(found) != 1:
        words = "no selection" if not found else f"{len(found)} selections ({', '.join(found)})"
        raise UsageError(f"the lake {lake.location} has {words} by the plan {plan!r}; name one by its key")
    return found[0].removeprefix(prefix)


def is_for_lace(target: Path) -> bool:
    """Whether a target is a lace, or is to become one."""
    return Layout(target).is_lace() or target.suffix == ".lace"


def check_target(target: Path, lake: Lake | None) -> None:
    """Refuse a target that cannot be written, or that would destroy something."""
    target = target.absolute()
    is_lace = is_for_lace(target)
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}")
    if owner := lace_around(target):
        raise UsageError(f"{target} is inside the lace {owner}; name a file outside it")
    uri = "" if lake is None else lake.files.uri("")
    if (
        lake is not None
        and uri.startswith(_LOCAL)
        and target.resolve().is_relative_to(Path(uri.removeprefix(_LOCAL)).resolve())
    ):
        raise UsageError(f"{target} is inside the lake {lake.location}; name a file outside it")
    if is_lace and target.exists() and not Layout(target).is_lace():
        raise UsageError(f"{target} is there, and is no lace")
    if not is_lace and target.exists() and not target.is_file():
        raise UsageError(f"{target} is no file; a bundle is one")


# ---- which records, and in which parts -------------------------------------------------------------------------------


def _key(run: Run, base: Manifest, choice: Choice, order: Order) -> str:
    selected = _selection(run, choice)
    return derived_key(
        files=[file.digest for file in base.files],
        selection=choice.selection,
        selected=None if selected is None else [file.digest for file in selected.files],
        predicate=choice.predicate if choice.selection else None,
        at=None if choice.at is None else str(choice.at),
        order=order.value,
    )


def _selection(run: Run, choice: Choice) -> Manifest | None:
    """The table of selections that is asked for, which must be there."""
    if choice.selection is None:
        return None
    table = run.base(f"{SELECTIONS.name}/{choice.selection}")
    if not table.number:
        raise UsageError(f"the lake {run.lake.location} has no selection {choice.selection}")
    return table


def _chosen(session: SparkSession, run: Run, base: Manifest, choice: Choice, *, with_times: bool) -> DataFrame:
    """The rows (record, raw, tai) that are to be exported; without times where nobody needs them."""
    records = frames.read(session, run.lake, base)
    if (table := _selection(run, choice)) is not None:
        wanted = frames.read(session, run.lake, table).where(f.col("predicate") == choice.predicate).select("record")
        records = records.join(wanted, "record", "left_semi")
    if choice.at is None and not with_times:
        return records.withColumn("tai", f.lit(""))
    return located(records, choice.at)


def located(records: DataFrame, at: Coordinate | Prefix | None) -> DataFrame:
    """Rows of ``records`` with their times, of those at a place if one is named."""
    return records.mapInArrow(partial(_locate, at=at), from_arrow_schema(LOCATED))


def _locate(batches: "Iterable[pa.RecordBatch]", at: Coordinate | Prefix | None) -> "Iterator[pa.RecordBatch]":
    return locate(batches, at)


def _planned(records: DataFrame, folder: Path, base: Manifest, key: str, order: Order, part_bytes: int) -> Plan:
    """The plan of an earlier export of the same, or a new one in a folder that is empty."""
    file = folder / _PLAN
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Plan)
        if found.key == key:
            return found
    except (OSError, msgspec.DecodeError):
        pass
    most = _TIME_PARTS_MAX if order is Order.TAI else PARTS_MAX
    parts = max(1, min(most, base.rows, -(-sum(one.bytes for one in base.files) // part_bytes)))
    edges = time_edges(records, parts) if order is Order.TAI else ()
    plan = Plan(key=key, order=order, parts=len(edges) + 1 if order is Order.TAI else parts, edges=edges)
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with replacing(file) as stream:
            stream.write(msgspec.json.encode(plan))
    except OSError as error:
        raise ResourceError(f"cannot write {folder}: {error.strerror or error}", retry=False) from error
    return plan


def time_edges(records: DataFrame, parts: int) -> tuple[int, ...]:
    """Seconds that divide the records into about equal parts by their times."""
    if parts == 1:
        return ()
    shares = f.array(*[f.lit(number / parts) for number in range(1, parts)])
    row = records.where("tai <> ''").agg(f.percentile_approx(_seconds(), shares).alias("edges")).head()
    return tuple(sorted(set(row.edges or ()))) if row is not None else ()


def _seconds() -> Column:
    """The whole seconds of a time; none for a Blob, which has no time."""
    return f.when(f.col("tai") != "", f.substring("tai", 1, _SECONDS).cast("long"))


def part_of(plan: Plan) -> Column:
    """Which part a row belongs to."""
    if plan.order is Order.HASH:
        return frames.hash_range(plan.parts)
    edges = f.array(*[f.lit(edge).cast("long") for edge in plan.edges])
    before = f.filter(edges, lambda edge: edge <= _seconds())
    return f.when(f.col("tai") == "", f.lit(0)).otherwise(f.size(before)).cast("int")


# ---- the parts -------------------------------------------------------------------------------------------------------


def _write(records: DataFrame, folder: Path, plan: Plan, reused: dict[int, Note]) -> list[Note]:
    """Have the workers write what is missing; what all parts hold, in order."""
    missing = [part for part in range(plan.parts) if part not in reused]
    notes = dict(reused)
    if missing:
        rows = in_parts(records, plan, missing)
        written = rows.mapInArrow(partial(_write_parts, folder=str(folder)), from_arrow_schema(NOTES)).collect()
        notes |= {row.part: Note(row.part, row.rows, row.bytes, row.digest) for row in written}
    found = finished(folder, plan.parts)
    lost = [part for part in notes if found.get(part) != notes[part]]
    if lost:
        raise ResourceError(
            f"{len(lost)} parts are not in {folder} as the workers wrote them: either workers and driver do not see "
            "the same folder, or somebody else exports to the same target",
            retry=True,
        )
    return [notes[part] for part in sorted(notes)]


def in_parts(records: DataFrame, plan: Plan, missing: Sequence[int]) -> DataFrame:
    """The rows (part, record, raw) of some parts: one partition for each, in the order of the bundle."""
    payload = frames.payload()
    order = [payload] if plan.order is Order.HASH else [f.col("tai"), payload]
    rows = records.withColumn("part", part_of(plan))
    place = f.col("part")
    if len(missing) < plan.parts:
        # Looked up by the number of the part, so that a row costs the same however many parts there are.
        where = {part: number for number, part in enumerate(missing)}
        places = f.array(*[f.lit(where.get(part)).cast("int") for part in range(plan.parts)])
        rows = rows.withColumn("place", f.get(places, f.col("part"))).where(f.col("place").isNotNull())
        place = f.col("place")
    return (
        rows.repartitionById(len(missing), place).sortWithinPartitions("part", *order).select("part", "record", "raw")
    )


def _write_parts(batches: "Iterable[pa.RecordBatch]", folder: str) -> "Iterator[pa.RecordBatch]":
    return write_parts(batches, Path(folder))


def _check_count(run: Run, base: Manifest, choice: Choice, notes: Sequence[Note]) -> None:
    written = sum(note.rows for note in notes)
    if choice.selection is None and choice.at is None and written != base.rows:
        raise DamagedLake(
            f"the table records of the lake {run.lake.location} promises {base.rows} rows, and {written} came out"
        )


# ---- the target ------------------------------------------------------------------------------------------------------


def _join(folder: Path, target: Path, notes: Sequence[Note]) -> str:
    """One bundle of all parts; its digest. It has its name when it is complete."""
    whole = blake3()
    try:
        with replacing(target) as stream:
            for note in notes:
                for chunk in read_part(folder, note):
                    whole.update(chunk)
                    stream.write(chunk)
    except OSError as error:
        raise ResourceError(f"cannot write {target}: {error.strerror or error}", retry=False) from error
    return whole.hexdigest()


def read_part(folder: Path, note: Note) -> Iterator[bytes]:
    """The bytes of a part, which must be those that were written. A part that is not goes, so a rerun makes it new."""
    path = part_file(folder, note.part)
    hasher = blake3()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            hasher.update(chunk)
            yield chunk
    if hasher.hexdigest() != note.digest:
        path.unlink()
        raise ResourceError(f"{path} is not what was written there; export again", retry=True)


def _into_lace(folder: Path, target: Path, notes: Sequence[Note], *, workers: int) -> "Ingested":
    """Import all parts. A new lace gets its name when it has all of them."""
    is_new = not Layout(target).is_lace()
    place = folder / _LACE if is_new else target
    total = sum(note.bytes for note in notes)
    with _opened(place) as lace:
        counts = [_import(lace, folder, note, workers=workers if total >= _WORKERS_FROM_BYTES else 0) for note in notes]
    if is_new:
        try:
            place.rename(target)
            sync_folder(target.parent)
        except OSError as error:
            raise ResourceError(f"cannot rename {place} to {target}: {error.strerror or error}", retry=False) from error
    return add_up(counts)


def _opened(place: Path) -> Lace:
    return Lace.open(place) if Layout(place).is_lace() else Lace.create(place)


def _import(lace: Lace, folder: Path, note: Note, *, workers: int) -> "Ingested":
    for _ in read_part(folder, note):
        pass
    with part_file(folder, note.part).open("rb") as stream:
        return lace.import_(stream, source=f"{JOB} part {note.part}", form="bundle", workers=workers)


def add_up(counts: Sequence["Ingested"]) -> "Ingested":
    """What became of the records of all parts together."""
    from bobbin.runtime.ingest import Ingested  # noqa: PLC0415 -- a bundle needs none of it

    names = Ingested.__struct_fields__
    return Ingested(**{name: sum(getattr(one, name) for one in counts) for name in names})


def _commit(
    run: Run,
    base: Manifest,
    choice: Choice,
    notes: Sequence[Note],
    imported: "Ingested | None",
    *,
    reused: int,
    stale: Sequence[str],
) -> Report:
    written = sum(note.rows for note in notes)
    counts = {"in": written, "parts": len(notes), "parts_reused": reused}
    if imported is not None:
        outcome = {name: getattr(imported, name) for name in ("stored", "duplicate", "refused", "rejected")}
        if sum(outcome.values()) != written:
            raise DamagedLake(f"{written} records were to be imported, and there are answers for {outcome}")
        counts |= outcome
    notes_ = [f"of the records, those that {choice.predicate} of {choice.selection} names"] if choice.selection else []
    notes_ += [f"of the records, those at {choice.at}"] if choice.at is not None else []
    notes_ += stale
    interrupts.check()
    return run.commit(
        inputs={RECORDS.name: base.rows},
        outputs={"records": written, "bytes": sum(note.bytes for note in notes)},
        counts=counts,
        notes=notes_,
    )
