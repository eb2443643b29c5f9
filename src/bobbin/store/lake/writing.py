"""Parquet files of a table, written in this process: small row groups, and as many files as the rows need.

Reading one record decodes the row group that holds it, so row groups are small: a few thousand rows, or fewer where
the rows are large. They cost a little space and a little memory for each open file, and nothing else.
"""

from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from bobbin.store.lake.errors import translated
from bobbin.store.lake.files import Files
from bobbin.store.lake.tables import Table

COMPRESSION: Final = "zstd"


class Shape(Struct, frozen=True, kw_only=True):
    """How large files and their row groups become."""

    group_rows_max: int = 8_192
    group_bytes_max: int = 4 << 20
    """Uncompressed. One row may be larger than that and is then a row group of its own."""
    file_bytes_max: int = 1 << 30
    """Uncompressed: a file is closed after the row group that passes this."""


class PartWriter:
    """Writes rows that come in the table's order into the folder of a run."""

    def __init__(self, files: Files, table: Table, folder: str, shape: Shape | None = None) -> None:
        self._files = files
        self._table = table
        self._folder = folder
        self._shape = shape or Shape()
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._file_bytes = 0
        self._writer: Any = None
        self._sink: Any = None
        self.files_written = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. They are in the file when a row group is full, or at the end."""
        shape = self._shape
        at, rows = 0, batch.num_rows
        while at < rows:
            per_row = max(1, batch.nbytes // rows)
            room = min(
                shape.group_rows_max - self._pending_rows,
                max(1, (shape.group_bytes_max - self._pending_bytes) // per_row),
            )
            piece = batch.slice(at, min(room, rows - at))
            at += piece.num_rows
            self._pending.append(piece)
            self._pending_rows += piece.num_rows
            self._pending_bytes += per_row * piece.num_rows
            if self._pending_rows >= shape.group_rows_max or self._pending_bytes >= shape.group_bytes_max:
                self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        group = pa.Table.from_batches(self._pending).cast(self._table.schema).combine_chunks()
        with translated(f"writing into {self._folder} of the lake {self._files!r} failed"):
            if self._writer is None:
                self._sink = self._files.create(f"{self._folder}/part-{self.files_written:05d}.parquet")
                self._writer = pq.ParquetWriter(self._sink, self._table.schema, compression=COMPRESSION)
                self.files_written += 1
            self._writer.write_table(group, row_group_size=group.num_rows)
        self._file_bytes += self._pending_bytes
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        if self._file_bytes >= self._shape.file_bytes_max:
            self._close_file()

    def _close_file(self) -> None:
        if self._writer is not None:
            with translated(f"writing into {self._folder} of the lake {self._files!r} failed"):
                self._writer.close()
                self._sink.close()
            self._writer = self._sink = None
            self._file_bytes = 0

    def close(self) -> None:
        """Write what is left."""
        self._flush()
        self._close_file()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._sink is not None:
            # Part of a file, which the run that owns the folder removes. Why it is only a part is the error to tell.
            with suppress(Exception):
                self._writer.close()
            with suppress(Exception):
                self._sink.close()
