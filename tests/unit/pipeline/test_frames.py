"""Tables as frames: exactly the manifest's files, in ranges of hashes, each file in the table's order."""

import random
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from bobbin.pipeline import frames
from bobbin.records.ids import Kind, hash_text
from bobbin.store.lake import tables
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.tables import ADVERTISEMENTS, FACTS, RECORDS, TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows(count: int, seed: int = 0) -> list[tuple[str, bytes]]:
    source = random.Random(seed)
    return [(hash_text(source.choice(list(Kind)), source.randbytes(32)), source.randbytes(9)) for _ in range(count)]


def put(session: "SparkSession", lake: Lake, data: list[tuple[str, bytes]], partitions: int) -> None:
    with lake.begin("test") as run:
        frame = session.createDataFrame(data, frames.schema_of(RECORDS))
        frames.write(frames.by_hash(frame, partitions), run.folder("records"), RECORDS)
        run.append("records")
        run.commit()


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_has_the_same_columns_in_spark(table: Table) -> None:
    assert tables.difference(to_arrow_schema(frames.schema_of(table)), table.schema) is None


def test_everything_in_spark_may_be_null() -> None:
    text = frames.schema_of(FACTS).json()
    assert '"nullable":false' not in text
    assert '"containsNull":false' not in text


def test_a_table_that_was_never_written_is_an_empty_frame(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    frame = frames.read(spark, lake, lake.manifest("records"))
    assert frame.schema == frames.schema_of(RECORDS)
    assert frame.collect() == []


def test_exactly_the_files_of_a_manifest_are_read(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    put(spark, lake, rows(50, seed=1), 2)
    first = lake.manifest("records")
    put(spark, lake, rows(30, seed=2), 2)
    both = frames.read(spark, lake, lake.manifest("records"))
    assert sorted(map(tuple, both.collect())) == sorted(rows(50, seed=1) + rows(30, seed=2))
    assert sorted(map(tuple, frames.read(spark, lake, first).collect())) == sorted(rows(50, seed=1))


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_ranges_of_hashes_do_not_overlap(spark: "SparkSession", tmp_path: Path, partitions: int) -> None:
    lake = Lake.create(tmp_path / "lake")
    put(spark, lake, rows(300), partitions)
    read = [pq.read_table(lake.files.open(file.path)) for file in lake.manifest("records").files]
    names = [table.column("record").to_pylist() for table in read]
    assert all(part == sorted(part) for part in names)
    bounds = sorted((min(record[2:] for record in part), max(record[2:] for record in part)) for part in names)
    assert len(bounds) == partitions
    assert all(before[1] < after[0] for before, after in pairwise(bounds))
    assert max(map(len, names)) < 2 * 300 / partitions + 30


def test_a_lake_may_be_in_a_folder_whose_name_looks_like_a_pattern(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake[1] {a} 100%25")
    with lake.begin("test") as run:
        frame = spark.createDataFrame(rows(5), frames.schema_of(RECORDS))
        frames.write(frame, run.folder("records"), RECORDS)
        assert frames.read_staged(spark, run, "records").count() == 5
        run.append("records")
        run.commit(rows={"records": 5})
    assert frames.read(spark, lake, lake.manifest("records")).count() == 5


def test_row_groups_are_small(spark: "SparkSession", tmp_path: Path) -> None:
    source = random.Random(1)
    data = [(record, source.randbytes(20_000)) for record, _ in rows(600)]
    lake = Lake.create(tmp_path / "lake")
    put(spark, lake, data, 1)
    (file,) = lake.manifest("records").files
    metadata = pq.ParquetFile(lake.files.open(file.path)).metadata
    sizes = [metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)]
    assert max(sizes) < 2 * frames.ROW_GROUP_BYTES
    assert sum(sizes) > 2 * frames.ROW_GROUP_BYTES


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///lakes/notes/part-0.parquet", "file:///lakes/notes/part-0.parquet"),
        ("hdfs://host:9000/a b/100%20", "hdfs://host:9000/a b/100%20"),
        ("/lake[1]/{a,b}*?", "/lake\\[1\\]/\\{a,b\\}\\*\\?"),
        ("/a\\b", "/a\\\\b"),
    ],
)
def test_a_path_that_looks_like_a_pattern_is_escaped(uri: str, path: str) -> None:
    assert frames.spark_path(uri) == path


def test_a_table_in_payload_order(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    table = "advertisements/0123456789abcdef"
    with lake.begin("test") as run:
        frame = spark.createDataFrame(rows(100), frames.schema_of(ADVERTISEMENTS))
        frames.write(frames.by_hash(frame, 2), run.folder(table), ADVERTISEMENTS)
        run.replace(table)
        run.commit()
    names = [
        record
        for file in lake.manifest(table).files
        for record in pq.read_table(lake.files.open(file.path)).column("record").to_pylist()
    ]
    assert names == sorted((record for record, _ in rows(100)), key=lambda record: record[2:])


def test_the_payload_of_a_record(spark: "SparkSession") -> None:
    (record, _), *_ = rows(1)
    frame = spark.createDataFrame([(record, b"")], frames.schema_of(RECORDS))
    row = frame.select(frames.payload().alias("whole"), frames.payload(2).alias("prefix")).collect()[0]
    assert (row["whole"], row["prefix"]) == (record[2:], record[2:4])
