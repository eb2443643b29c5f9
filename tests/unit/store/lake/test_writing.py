from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bobbin.store.lake import tables
from bobbin.store.lake.errors import LakeError
from bobbin.store.lake.files import LocalFiles
from bobbin.store.lake.writing import PartWriter, Shape
from tests.support.lake_tables import batch


def rows(numbers: range, size: int = 1) -> pa.RecordBatch:
    return batch(tables.RECORDS, [{"record": f"P.{number:06d}", "raw": b"x" * size} for number in numbers])


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    (tmp_path / "run").mkdir()
    return LocalFiles(tmp_path)


def written(folder: Path) -> list[pq.FileMetaData]:
    return [pq.read_metadata(path) for path in sorted(folder.iterdir())]


def test_row_groups_have_at_most_so_many_rows_whatever_the_batches(files: LocalFiles, tmp_path: Path) -> None:
    with PartWriter(files, tables.RECORDS, "run", Shape(group_rows_max=10)) as writer:
        for start in range(0, 95, 7):
            writer.write(rows(range(start, min(start + 7, 95))))
    (metadata,) = written(tmp_path / "run")
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [10] * 9 + [5]
    names = pq.read_table(tmp_path / "run" / "part-00000.parquet").column("record").to_pylist()
    assert names == [f"P.{number:06d}" for number in range(95)]


def test_large_rows_make_row_groups_of_few(files: LocalFiles, tmp_path: Path) -> None:
    with PartWriter(files, tables.RECORDS, "run", Shape(group_bytes_max=5_000)) as writer:
        writer.write(rows(range(9), size=2_000))
        writer.write(rows(range(9, 11), size=50_000))
    (metadata,) = written(tmp_path / "run")
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert sum(groups) == 11
    assert max(groups) <= 3
    assert groups[-2:] == [1, 1]


def test_a_file_ends_when_it_is_large(files: LocalFiles, tmp_path: Path) -> None:
    shape = Shape(group_rows_max=5, file_bytes_max=1_000)
    with PartWriter(files, tables.RECORDS, "run", shape) as writer:
        writer.write(rows(range(40), size=90))
    assert [metadata.num_rows for metadata in written(tmp_path / "run")] == [10] * 4
    assert writer.files_written == 4


def test_nothing_is_written_for_nothing(files: LocalFiles, tmp_path: Path) -> None:
    with PartWriter(files, tables.RECORDS, "run") as writer:
        writer.write(rows(range(0)))
    assert written(tmp_path / "run") == []


def test_a_failing_disk_is_an_error_of_the_lake(files: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    writer = PartWriter(files, tables.RECORDS, "run")
    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    with pytest.raises(LakeError, match="No space left") as caught, writer:
        writer.write(rows(range(3)))
    assert caught.value.retry


def fail_in(writer: PartWriter) -> None:
    with writer:
        writer.write(rows(range(2)))
        raise ZeroDivisionError


def test_an_error_in_the_block_is_not_hidden(files: LocalFiles) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_in(PartWriter(files, tables.RECORDS, "run", Shape(group_rows_max=1)))
