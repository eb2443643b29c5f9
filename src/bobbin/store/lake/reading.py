"""The rows of a table's files, a bounded piece at a time."""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from bobbin.store.lake import staging, tables
from bobbin.store.lake.errors import DamagedLake, LakeError, translated
from bobbin.store.lake.files import Files
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.manifest import DataFile, Manifest

PIECE_BYTES_MAX: Final = 4 << 20
PIECE_ROWS_MAX: Final = 8_192


def open_file(files: Files, file: DataFile) -> Any:  # noqa: ANN401 -- pyarrow has no types
    """A file that a manifest names, for a ``with``. One that is gone or another is damage."""
    path = file.path
    try:
        parquet = staging.opened(files, path)
    except LakeError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno not in {None, errno.ENOENT}:
            raise  # A disk that fails, or too many open files: nothing that says the file is damaged.
        raise DamagedLake(
            f"{error}. If the manifest that names it is an old one, `bobbin lake clean` may have removed it: open the "
            "lake anew"
        ) from error
    found = parquet.metadata.num_rows
    if found != file.rows:
        parquet.close(force=True)
        raise DamagedLake(f"{path} of the lake {files!r} has {found} rows; its manifest says {file.rows}")
    return parquet


def check_files(lake: Lake, manifest: Manifest) -> None:
    """Refuse a manifest whose files are not there, or not as long as they were, before anything is made of the rest.

    A file that the current manifest of its table names is damage then. One of an older manifest may have been cleaned
    away meanwhile, and whoever begins anew finds the table in other files.
    """
    for file in manifest.files:
        fault = _fault(lake.files, file)
        if fault is None:
            continue
        if all(file.path != one.path for one in lake.manifest(manifest.table).files):
            raise LakeError(
                f"{file.path} of the lake {lake.location} {fault}: the table {manifest.table} is in other files by "
                "now. Run the job again",
                retry=True,
            )
        raise DamagedLake(
            f"{file.path} of the lake {lake.location} {fault}, and the table {manifest.table} needs it. Nothing was "
            "changed; `bobbin lake check` lists all that is wrong"
        )


def _fault(files: Files, file: DataFile) -> str | None:
    """What is wrong with a file, as far as the file system knows."""
    with translated(f"looking at {file.path} of the lake {files!r} failed"):
        try:
            size = files.size(file.path)
        except (FileNotFoundError, NotADirectoryError):
            return "is lost"
    return None if size == file.bytes else f"has {size:,} bytes, and its manifest says {file.bytes:,}"


def pieces(
    files: Files,
    file: DataFile,
    table: tables.Table,
    *,
    columns: Sequence[str] | None = None,
    bytes_max: int = PIECE_BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """The rows of a file in order, as batches of the table's types, none larger than it must be."""
    parquet = open_file(files, file)
    try:
        check_columns(parquet, table, file)
        schema = table.schema if columns is None else pa.schema([table.schema.field(name) for name in columns])
        for group in range(parquet.metadata.num_row_groups):
            yield from group_pieces(files, file, parquet, group, schema, bytes_max=bytes_max)
    finally:
        # Leaving a ``with`` would leave open what pyarrow has not opened itself.
        parquet.close(force=True)


def check_columns(parquet: Any, table: tables.Table, file: DataFile) -> None:  # noqa: ANN401 -- pyarrow has no types
    """A file that has not the columns of its table, although a manifest names it, is damage."""
    try:
        staging.check_schema(parquet.schema_arrow, table, file.path)
    except LakeError as error:
        raise DamagedLake(str(error)) from error


def group_pieces(
    files: Files,
    file: DataFile,
    parquet: Any,  # noqa: ANN401 -- pyarrow has no types
    group: int,
    schema: pa.Schema,
    *,
    bytes_max: int = PIECE_BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """The rows of one row group."""
    rows = rows_of_pieces(parquet, group, bytes_max=bytes_max)
    if not rows:
        return
    with reading(files, file):
        for batch in parquet.iter_batches(batch_size=rows, row_groups=[group], columns=schema.names, use_threads=False):
            yield batch if batch.schema.equals(schema) else batch.cast(schema)


def rows_of_pieces(parquet: Any, group: int, *, bytes_max: int = PIECE_BYTES_MAX) -> int:  # noqa: ANN401
    """How many rows of a row group make a piece, by the average size of its rows; 0 for a group without rows."""
    metadata = parquet.metadata.row_group(group)
    if not metadata.num_rows:
        return 0
    per_row = max(1, metadata.total_byte_size // metadata.num_rows)
    return int(min(PIECE_ROWS_MAX, max(1, bytes_max // per_row)))


@contextmanager
def reading(files: Files, file: DataFile) -> Iterator[None]:
    """Whatever pyarrow says about a file inside is damage of that file, or a failing disk."""
    what = f"{file.path} of the lake {files!r}"
    try:
        with translated(f"reading {what} failed"):
            yield
    except (pa.ArrowException, ValueError) as error:
        raise DamagedLake(f"{what} is damaged ({error})") from error
    except LakeError as error:
        # A page that cannot be decoded is an OSError of pyarrow's, without the number that a real one has.
        if isinstance(error.__cause__, OSError) and error.__cause__.errno is None:
            raise DamagedLake(f"{what} is damaged ({error.__cause__})") from error
        raise
