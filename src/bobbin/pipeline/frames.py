"""Tables of a lake as data frames: read by their manifest, spread by hash, and written in their order.

Only what a manifest names is read. Nothing here looks into a folder, and nothing decides how many files there shall
be: that is the caller's partitioning.
"""

import re
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from bobbin.records import b64a
from bobbin.store.lake import staging
from bobbin.store.lake.lake import Lake, Run
from bobbin.store.lake.manifest import Manifest
from bobbin.store.lake.reading import check_files
from bobbin.store.lake.tables import Table, table

COMPRESSION: Final = "zstd"
_LETTER: Final = len("P.")
_LEADING: Final = 3
_PLACES: Final = len(b64a.ALPHABET) ** _LEADING
"""How finely ``by_hash`` can divide: by the first three symbols."""
_PATTERN: Final = re.compile(r"[\\*?\[\]{}]")
"""What Spark reads as part of a pattern in a path that it is to read."""

ROW_GROUP_BYTES: Final = 4 << 20
"""A look at one record decodes the row group it is in, so they are small."""


def spark_path(uri: str) -> str:
    """A path or an address, as ``Lake.uri`` gives it, in the form in which ``session.read`` takes it for itself.

    Spark finds files by patterns: without an escape, a folder ``lake[1]`` is looked for as ``lake1``. It does not undo
    percent signs, so an address that has some (``Path.as_uri``) is another one.
    """
    return _PATTERN.sub(r"\\\g<0>", uri)


def read(session: SparkSession, lake: Lake, manifest: Manifest) -> DataFrame:
    """The rows of exactly the files that a manifest names; an empty frame where it names none.

    That they are there, and of the right size, is looked at first (``store.lake.reading.check_files``): of what Spark
    says later of a file nobody could tell whose it is.
    """
    check_files(lake, manifest)
    schema = schema_of(table(manifest.table))
    if not manifest.files:
        return session.createDataFrame([], schema)
    return session.read.schema(schema).parquet(*[spark_path(lake.uri(file)) for file in manifest.files])


def read_staged(session: SparkSession, run: Run, name: str) -> DataFrame:
    """The rows that a run has written for a table so far."""
    folder = run.path(name)
    parts = [spark_path(run.lake.uri(f"{folder}/{part}")) for part in staging.names(run.lake.files, folder)[0]]
    schema = schema_of(table(name))
    return session.read.schema(schema).parquet(*parts) if parts else session.createDataFrame([], schema)


def schema_of(table: Table) -> StructType:
    """The Spark form of a table's columns. All may be null, as everything that Spark reads from files."""
    nullable = _nullable(from_arrow_schema(table.schema))
    assert isinstance(nullable, StructType)
    return nullable


def write(frame: DataFrame, folder: str, table: Table) -> None:
    """Write a table's columns as Parquet, one file a partition, each in the order of the table."""
    ordered = [payload() if table.payload_order and name == "record" else f.col(name) for name in table.sorted_by]
    rows = frame.select(*table.schema.names).sortWithinPartitions(*ordered)
    writer = rows.write.mode("append").option("compression", COMPRESSION)
    # Parquet looks at sizes after a hundred rows only, and a hundred of the largest records are 3 GB.
    writer = writer.option("parquet.block.size.row.check.min", 1).option("parquet.page.size.row.check.min", 1)
    writer = writer.option("parquet.block.size", ROW_GROUP_BYTES)
    writer.parquet(folder)


def staged_rows(run: Run, name: str) -> int:
    """How many rows a run has written for a table so far: what its files say themselves."""
    folder = run.path(name)
    total = 0
    for part in staging.names(run.lake.files, folder)[0]:
        with staging.opened(run.lake.files, f"{folder}/{part}") as parquet:
            total += parquet.metadata.num_rows
    return total


def by_hash(frame: DataFrame, partitions: int) -> DataFrame:
    """Spread over so many partitions by ranges of the payload of ``record``: for tables in payload order."""
    return frame.repartitionById(partitions, hash_range(partitions))


def hash_range(partitions: int) -> Column:
    """Which of so many ranges of the payload ``record`` is in, whatever its kind.

    For tables in payload order; in one that sorts by the whole name, files of these ranges overlap, since each has all
    kinds. Digests are evenly spread, so the bounds follow from the number of partitions alone, and no row is read to
    find them.
    """
    place: Column = f.lit(0).cast("long")
    for position in range(_LEADING):
        symbol = f.substring("record", _LETTER + 1 + position, 1)
        place = place * len(b64a.ALPHABET) + f.position(symbol, f.lit(b64a.ALPHABET)) - 1
    return f.floor(place * partitions / _PLACES).cast("int")


def payload(length: int | None = None) -> Column:
    """The payload of ``record``, or so many of its first symbols."""
    return f.substring("record", _LETTER + 1, b64a.length(32) + len(".H3") if length is None else length)


def _nullable(kind: DataType) -> DataType:
    """The same type, with nulls allowed everywhere."""
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, _nullable(field.dataType)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    return kind
