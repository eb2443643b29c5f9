"""``facts``: what every stored record says, one wide row for each, and the five relations as views of it.

The job is incremental: the table says which manifest of ``records`` it was made from, and only files that are new since
then are read. A compaction changes files and no rows, so nothing is read for it; where rows are gone, all of them are
read again. Rows stay where they are: a file of ``facts`` covers what some files of ``records`` cover, so nothing is
shuffled.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from bobbin.facts import relations
from bobbin.pipeline import frames
from bobbin.pipeline.batches.describe import FIXED_FIELDS, describe
from bobbin.pipeline.offer import is_from_current
from bobbin.pipeline.progress import Step, silent
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.manifest import Manifest, content_of, number_in
from bobbin.store.lake.report import Report
from bobbin.store.lake.tables import FACTS, RECORDS

if TYPE_CHECKING:
    import pyarrow as pa

RECORDS_NUMBER: Final = "records"
"""The property that says which manifest of ``records`` a table was made from."""


class Pending(Struct, frozen=True, kw_only=True):
    """What the table ``facts`` lacks."""

    files: Manifest
    """The manifest of ``records``, with no files but those that are to be read."""
    from_nothing: bool
    """Whether the table is made anew, instead of growing."""


def run(session: SparkSession, lake: Lake, *, step: Step = silent) -> Report | None:
    """Bring the table up to date with ``records``; None if it is already."""
    with lake.begin("facts") as run:
        records, base = run.base(RECORDS.name), run.base(FACTS.name)
        pending = find_pending(lake, records, base)
        if pending is None:
            return None
        step("describing")
        written = 0
        if pending.files.files:
            frames.write(describe_records(frames.read(session, lake, pending.files)), run.folder(FACTS.name), FACTS)
            written = frames.staged_rows(run, FACTS.name)
        before = 0 if pending.from_nothing else base.rows
        if written != pending.files.rows or before + written != records.rows:
            raise DamagedLake(
                f"the table records of the lake {lake.location} promises {pending.files.rows} rows that facts lacks, "
                f"and its files have {written}; with the {before} from before there would not be {records.rows}"
            )
        step("committing")
        change = run.replace if pending.from_nothing else run.append
        change(FACTS.name, properties={RECORDS_NUMBER: str(records.number)})
        return run.commit(
            inputs={"records": pending.files.rows},
            outputs={"facts": written},
            counts={"before": before, "described": written, "after": before + written},
        )


def find_pending(lake: Lake, records: Manifest, facts: Manifest) -> Pending | None:
    """What is to be read so that ``facts`` says what the records say; None where it does.

    Where only the number of the manifest has moved on, there is nothing to read, and the table is to say the new one.
    """
    if records.number == 0 or is_from_current(lake, facts, RECORDS_NUMBER):
        return None
    current = {file.path for file in records.files}
    known = next((done for done in _described(lake, facts) if done <= current), None)
    if known is None:
        return Pending(files=records, from_nothing=True)
    new = tuple(file for file in records.files if file.path not in known)
    rows = sum(file.rows for file in new)
    return Pending(files=structs.replace(records, files=new, rows=rows), from_nothing=False)


def _described(lake: Lake, facts: Manifest) -> Iterator[frozenset[str]]:
    """The files that hold the rows which ``facts`` describes: as it read them, and as compactions wrote them since."""
    number = number_in(facts, RECORDS_NUMBER, 0)
    if not number:
        return
    same: dict[int, list[frozenset[str]]] = {}
    for one in lake.history(RECORDS.name):
        if one.number < number:
            return
        same.setdefault(content_of(one), []).append(frozenset(file.path for file in one.files))
        if one.number == number:
            yield from same[content_of(one)]
            return


def describe_records(records: DataFrame) -> DataFrame:
    """Rows of ``facts`` for rows of ``records``."""
    return records.mapInArrow(_describe, frames.schema_of(FACTS))


def _describe(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    return map(describe, batches)


# ---- the relations, as views of the wide table ----------------------------------------------------------------------


def have(facts: DataFrame) -> DataFrame:
    """``Have(record)``."""
    return facts.select("record")


def field(facts: DataFrame) -> DataFrame:
    """``Field(record, name, index, value)``."""
    own = f.transform(f.col("extras"), lambda extra: extra["name"])
    fixed = f.array(*[_fixed(name, column, own) for name, column in FIXED_FIELDS.items()])
    extras = f.transform(
        f.col("extras"),
        lambda extra: f.struct(
            extra["name"].alias("name"), extra["index"].cast("string").alias("index"), extra["value"].alias("value")
        ),
    )
    found = f.concat(f.filter(fixed, lambda one: one["value"].isNotNull()), extras)
    return facts.select("record", f.inline(found))


def record_link(facts: DataFrame) -> DataFrame:
    """``RecordLink(record, name, index, data, target)``."""
    return facts.select("record", f.inline("links")).withColumn("index", f.col("index").cast("string"))


def blob_hash(facts: DataFrame) -> DataFrame:
    """``BlobHash(record, blob_hash)``."""
    return facts.where(f.col("blob_hash").isNotNull()).select("record", "blob_hash")


def plex_hash(facts: DataFrame) -> DataFrame:
    """``PlexHash(record, plex_hash)``."""
    return facts.where(f.col("plex_hash").isNotNull()).select("record", "plex_hash")


VIEWS: Final[Mapping[str, Callable[[DataFrame], DataFrame]]] = MappingProxyType(
    {
        relations.HAVE: have,
        relations.FIELD: field,
        relations.RECORD_LINK: record_link,
        relations.BLOB_HASH: blob_hash,
        relations.PLEX_HASH: plex_hash,
    }
)
"""The relations by their names. Columns are in the order of the relation's arguments, and all are texts."""


def _fixed(name: str, column: str, extras: Column) -> Column:
    """One field that is no extra header; its value is null where an extra header has the name, or there is none."""
    value = f.when(~f.array_contains(extras, name), f.col(column).cast("string"))
    return f.struct(f.lit(name).alias("name"), f.lit("0").alias("index"), value.alias("value"))
