"""The tables ``facts``, ``selections``, ``advertisements`` and ``partitions`` of small lakes, made without Spark."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bobbin.interlace import merkle
from bobbin.pipeline.batches.advertise import Form, advertise
from bobbin.pipeline.batches.describe import describe
from bobbin.records.record import Record
from bobbin.store.lake.built import LENGTHS, spell_fields
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.tables import ADVERTISEMENTS, FACTS, PARTITIONS, RECORDS, SELECTIONS
from bobbin.store.lake.writing import PartWriter
from tests.support.lakes import some_records, store

KEY = "0123456789abcdef"


def describe_all(lake: Lake) -> None:
    """The table ``facts``, anew, as the job of this name makes it."""
    records = lake.manifest(RECORDS.name)
    with lake.begin("facts") as run:
        with PartWriter(lake.files, FACTS, run.path(FACTS.name)) as writer:
            found = []
            for file in records.files:
                with lake.files.open(file.path) as stream:
                    found.append(pq.read_table(stream))
            for batch in pa.concat_tables(found).sort_by("record").to_batches():
                writer.write(describe(batch))
        run.replace(FACTS.name, properties={RECORDS.name: str(records.number)})
        run.commit()


def select_some(lake: Lake, chosen: Mapping[str, Iterable[str]], *, key: str = KEY, plan: str = "x1") -> str:
    """A table of selections: records by predicate, as of the facts that there are. Returns its name."""
    name = f"{SELECTIONS.name}/{key}"
    rows = sorted((record, predicate) for predicate, records in chosen.items() for record in records)
    with lake.begin("select", plan=plan) as run:
        if rows:
            with PartWriter(lake.files, SELECTIONS, run.path(name)) as writer:
                columns = [pa.array([row[place] for row in rows], pa.string()) for place in (0, 1)]
                writer.write(pa.RecordBatch.from_arrays(columns, schema=SELECTIONS.schema))
        run.replace(name, properties={"plan": plan, FACTS.name: str(lake.manifest(FACTS.name).number)})
        run.commit(counts=Counter(predicate for _, predicate in rows))
    return name


def stale_lake(location: Path) -> list[Record]:
    """A lake whose selection is of its first record, and older than its last. Returns the records."""
    lake, records = Lake.create(location), some_records(4, 1)
    store(lake, records[:3])
    describe_all(lake)
    select_some(lake, {"MaySend": [records[0].hash]})
    store(lake, records[3:])
    return records


def advertise_all(
    lake: Lake,
    form: Form,
    *,
    key: str = KEY,
    lengths: Iterable[int] = (2,),
    properties: Mapping[str, str] | None = None,
) -> str:
    """The two tables of an offer of every record, as ``advertise`` makes them, without Spark. Returns the key."""
    facts = lake.manifest(FACTS.name)
    digests: dict[str, bytes] = {}
    for file in facts.files:
        with lake.files.open(file.path) as stream:
            for batch in advertise(pq.read_table(stream).to_batches(), form):
                digests |= zip(batch.column("record").to_pylist(), batch.column("digest").to_pylist(), strict=True)
    rows = sorted(digests.items(), key=lambda row: row[0][2:])
    said = {"source": form.source, "fields": spell_fields(form.schema), FACTS.name: str(facts.number)}
    said |= {RECORDS.name: facts.properties[RECORDS.name], **(properties or {})}
    summaries = []
    for length in sorted(lengths):
        parts: defaultdict[str, list[bytes]] = defaultdict(list)
        for record, digest in rows:
            parts[record[2 : 2 + length]].append(digest)
        summaries += [(length, prefix, len(own), merkle.root(own)) for prefix, own in parts.items()]
    with lake.begin("advertise") as run:
        for table, found in ((ADVERTISEMENTS, rows), (PARTITIONS, summaries)):
            name = f"{table.name}/{key}"
            with PartWriter(lake.files, table, run.path(name)) as writer:
                columns = [
                    pa.array(list(column), kind)
                    for column, kind in zip(zip(*found, strict=True), table.schema.types, strict=True)
                ]
                writer.write(pa.RecordBatch.from_arrays(columns, schema=table.schema))
            more = {LENGTHS: ",".join(map(str, sorted(lengths)))} if table is PARTITIONS else {}
            run.replace(name, properties=said | more)
        run.commit()
    return key
