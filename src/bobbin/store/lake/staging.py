"""What a run has written into its folder, looked at before a manifest may name it.

A file is taken if it is Parquet, has the columns of its table and, where the table sorts by a text, row groups that
follow one another in that order. Its rows, bounds and digest are read from the file itself. Files without rows, and
what writers leave beside their files (``_SUCCESS``, checksums), are dropped.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from blake3 import blake3

from bobbin.store.lake import tables
from bobbin.store.lake.errors import LakeError, translated
from bobbin.store.lake.files import Files
from bobbin.store.lake.manifest import PART, DataFile
from bobbin.store.lake.tables import Table

_CHUNK_BYTES: Final = 1 << 20
_ROWS: Final = 1 << 16

Bounds = tuple[str | None, str | None]


def names(files: Files, folder: str) -> tuple[list[str], list[str]]:
    """The Parquet files of a staging folder, and what may be thrown away. Anything else is an error."""
    parts: list[str] = []
    droppings: list[str] = []
    for name in files.list(folder):
        if name.startswith(("_", ".")):
            droppings.append(name.rstrip("/"))
        elif PART.fullmatch(name):
            parts.append(name)
        else:
            raise LakeError(f"{folder}/{name} is not a Parquet file; a run writes nothing else into its folder")
    return parts, droppings


def describe_all(files: Files, table: Table, folder: str) -> tuple[DataFile, ...]:
    """Everything that a run has staged for a table, by name. Deletes what is not needed."""
    parts, droppings = names(files, folder)
    for name in droppings:
        files.delete(f"{folder}/{name}")
    with translated(f"making the files in {folder} durable failed"):
        files.sync(f"{folder}/{name}" for name in parts)
    described: list[DataFile] = []
    for name in parts:
        file = describe(files, table, f"{folder}/{name}")
        if file.rows:
            described.append(file)
        else:
            files.delete(file.path)
    return tuple(described)


def describe(files: Files, table: Table, path: str) -> DataFile:
    """What a manifest says about a file."""
    with opened(files, path) as parquet:
        check_schema(parquet.schema_arrow, table, path)
        rows = parquet.metadata.num_rows
        low, high = bounds(parquet, table, path) if rows else (None, None)
    return DataFile(path, rows, files.size(path), digest_of(files, path), low, high)


def opened(files: Files, path: str) -> Any:  # noqa: ANN401 -- pyarrow has no types
    """A Parquet file, for a ``with``; what is not one is a ``LakeError``."""
    with translated(f"the file {path} of the lake {files!r} cannot be opened"):
        source = files.open(path)
        try:
            # Pages are read as they are needed: some writers make row groups of 128 MB.
            return pq.ParquetFile(source, buffer_size=_CHUNK_BYTES, pre_buffer=False)
        except pa.ArrowException as error:
            source.close()
            raise LakeError(f"{path} of the lake {files!r} is no Parquet file, or a damaged one ({error})") from error


def check_schema(found: pa.Schema, table: Table, path: str) -> None:
    """Refuse a file that has not the columns of its table."""
    if reason := tables.difference(found, table.schema):
        raise LakeError(f"{path} is no file of the table {table.name}, version {table.version}: {reason}")


def digest_of(files: Files, path: str) -> str:
    """BLAKE3 of a file, in hex."""
    hasher = blake3()
    with translated(f"reading {path} of the lake {files!r} failed"), files.open(path) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            hasher.update(chunk)
    return hasher.hexdigest()


def is_bounded(table: Table) -> bool:
    """Whether files of this table have bounds: those whose first sort column is a text."""
    return bool(table.sorted_by) and pa.types.is_string(table.schema.field(table.sorted_by[0]).type)


def bounds(parquet: Any, table: Table, path: str) -> Bounds:  # noqa: ANN401 -- pyarrow has no types
    """The least and the greatest value of the first sort column, or nothing where that is no text."""
    if not is_bounded(table):
        return None, None
    groups = None if table.payload_order else group_bounds(parquet, table.sorted_by[0])
    if groups is None:
        return _read_bounds(parquet, table)
    for (_, high), (low, _) in pairwise(groups):
        if low < high:
            raise LakeError(f"{path} is not sorted by {table.sorted_by[0]}, as the table {table.name} asks")
    return groups[0][0], groups[-1][1]


def position_of(parquet: Any, column: str) -> int:  # noqa: ANN401 -- pyarrow has no types
    """Which of a file's leaf columns a top-level column is."""
    schema = parquet.schema
    return next(number for number in range(len(schema)) if schema.column(number).path == column)


def group_bounds(parquet: Any, column: str) -> list[tuple[str, str]] | None:  # noqa: ANN401 -- pyarrow has no types
    """The bounds of a text column in each row group that has rows, or None where the file does not say."""
    metadata = parquet.metadata
    position = position_of(parquet, column)
    found: list[tuple[str, str]] = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if not group.num_rows:
            continue
        statistics = group.column(position).statistics
        if statistics is None or not statistics.has_min_max:
            return None
        found.append((statistics.min, statistics.max))
    return found


def _read_bounds(parquet: Any, table: Table) -> Bounds:  # noqa: ANN401 -- pyarrow has no types
    """The bounds as the column itself gives them, a batch at a time."""
    low = high = None
    for column in _columns(parquet, table.sorted_by[0]):
        values = pc.utf8_slice_codeunits(column, 2) if table.payload_order else column
        found = pc.min_max(values).as_py()
        if found["min"] is not None:
            low = found["min"] if low is None else min(low, found["min"])
            high = found["max"] if high is None else max(high, found["max"])
    return low, high


def _columns(parquet: Any, name: str) -> Iterator[Any]:  # noqa: ANN401 -- pyarrow has no types
    for batch in parquet.iter_batches(batch_size=_ROWS, columns=[name], use_threads=False):
        yield batch.column(0)
