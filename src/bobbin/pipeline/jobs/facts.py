"""``facts``: what every stored record says, one wide row for each. The five relations are views of it (``wide_rows``).

The job is incremental: the table says which manifest of ``records`` it was made from, and only files that are new since
then are read. A compaction changes files and no rows, so nothing is read for it; where rows are gone, all of them are
read again. Rows stay where they are: a file of ``facts`` covers what some files of ``records`` cover, so nothing is
shuffled.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs
from pyspark.sql import DataFrame, SparkSession

from bobbin.pipeline import frames, interrupts
from bobbin.pipeline.batches.describe import describe
from bobbin.pipeline.offer import is_from_current
from bobbin.pipeline.progress import Step, silent
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.manifest import Manifest, content_of, number_in
from bobbin.store.lake.reading import check_files
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
            # Nothing is read, and whoever asks for facts that are up to date shall not find them gone.
            check_files(lake, base)
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
        interrupts.check()
        return run.commit(
            inputs={"records": pending.files.rows},
            outputs={"facts": written},
            counts={"before": before, "described": written, "after": before + written},
            rows={FACTS.name: written},
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
