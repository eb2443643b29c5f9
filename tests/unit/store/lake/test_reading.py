import errno
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from bobbin.store.lake import reading, staging, tables
from bobbin.store.lake.clean import clean
from bobbin.store.lake.compact import compact
from bobbin.store.lake.errors import DamagedLake, LakeError
from bobbin.store.lake.files import LocalFiles
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.manifest import DataFile
from tests.support.lake_tables import batch, ingest
from tests.support.lakes import some_records


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path)


def write(folder: Path, rows: int, *, size: int = 10, group: int = 1 << 20) -> DataFile:
    made = batch(
        tables.RECORDS, [{"record": f"P.{number:06d}", "raw": b"%d" % number * size} for number in range(rows)]
    )
    pq.write_table(pa.Table.from_batches([made]), folder / "a.parquet", row_group_size=group, compression="none")
    return staging.describe(LocalFiles(folder), tables.RECORDS, "a.parquet")


def test_pieces_are_bounded_in_bytes_and_rows_and_keep_the_order(files: LocalFiles, tmp_path: Path) -> None:
    file = write(tmp_path, 100, size=500, group=64)
    pieces = list(reading.pieces(files, file, tables.RECORDS, bytes_max=20_000))
    assert max(piece.nbytes for piece in pieces) <= 30_000
    assert sum(piece.num_rows for piece in pieces) == 100
    names = [name for piece in pieces for name in piece.column(0).to_pylist()]
    assert names == sorted(names)
    assert all(piece.schema.equals(tables.RECORDS.schema) for piece in pieces)
    assert max(piece.num_rows for piece in reading.pieces(files, file, tables.RECORDS, bytes_max=1)) == 1


def test_some_columns_only(files: LocalFiles, tmp_path: Path) -> None:
    file = write(tmp_path, 3)
    (piece,) = reading.pieces(files, file, tables.RECORDS, columns=["record"])
    assert piece.schema.names == ["record"]


def test_columns_come_as_the_table_has_them_whatever_the_writer_chose(files: LocalFiles, tmp_path: Path) -> None:
    made = pa.table({"record": pa.array(["P.a"], pa.large_string()), "raw": pa.array([b"r"], pa.large_binary())})
    pq.write_table(made, tmp_path / "a.parquet")
    file = staging.describe(files, tables.RECORDS, "a.parquet")
    (piece,) = reading.pieces(files, file, tables.RECORDS)
    assert piece.schema.equals(tables.RECORDS.schema)


def test_a_file_that_is_gone_or_has_other_rows_is_damage(files: LocalFiles, tmp_path: Path) -> None:
    file = write(tmp_path, 3)
    with pytest.raises(DamagedLake, match="has 3 rows; its manifest says 4"):
        list(reading.pieces(files, structs.replace(file, rows=4), tables.RECORDS))
    with pytest.raises(DamagedLake, match="is no file of the table facts"):
        list(reading.pieces(files, file, tables.FACTS))
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(DamagedLake, match="open the lake anew"):
        list(reading.pieces(files, file, tables.RECORDS))


def test_a_page_that_cannot_be_decoded_is_damage(files: LocalFiles, tmp_path: Path) -> None:
    made = batch(tables.RECORDS, [{"record": f"P.{number:06d}", "raw": b"x" * 100} for number in range(1_000)])
    pq.write_table(pa.Table.from_batches([made]), tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    file = staging.describe(files, tables.RECORDS, "a.parquet")
    raw = bytearray((tmp_path / "a.parquet").read_bytes())
    raw[100:400] = bytes(300)
    (tmp_path / "a.parquet").write_bytes(raw)
    with pytest.raises(DamagedLake, match="is damaged"):
        list(reading.pieces(files, file, tables.RECORDS))


def fail_inside(files: LocalFiles, file: DataFile, error: Exception) -> None:
    with reading.reading(files, file):
        raise error


def test_a_failing_disk_is_no_damage(files: LocalFiles, tmp_path: Path) -> None:
    file = write(tmp_path, 3)
    with pytest.raises(LakeError, match="Input/output error"):
        fail_inside(files, file, OSError(5, "Input/output error"))
    with pytest.raises(DamagedLake, match="Couldn't deserialize"):
        fail_inside(files, file, OSError("Couldn't deserialize thrift"))


def test_a_file_that_cannot_be_opened_now_is_no_damage(tmp_path: Path) -> None:
    class Exhausted(LocalFiles):
        def open(self, path: str) -> NoReturn:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    file = write(tmp_path, 3)
    with pytest.raises(LakeError, match="Too many open files"):
        reading.open_file(Exhausted(tmp_path), file)
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(DamagedLake, match="open the lake anew"):
        reading.open_file(LocalFiles(tmp_path), file)


def test_too_many_open_files_are_told_from_damage(tmp_path: Path) -> None:
    file = write(tmp_path, 3)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(LakeError, match="Too many open files"):
            reading.open_file(LocalFiles(tmp_path), file)
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_files_of_a_manifest_must_be_there_and_as_long_as_they_were(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, some_records(5, 1))
    manifest = lake.manifest("records")
    reading.check_files(lake, manifest)
    path = tmp_path / "lake" / manifest.files[0].path
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(DamagedLake, match=r"bytes, and its manifest says .*`bobbin lake check`"):
        reading.check_files(lake, manifest)
    path.unlink()
    with pytest.raises(DamagedLake, match=r"part-00000\.parquet of the lake .* is lost"):
        reading.check_files(lake, manifest)


def test_a_file_that_the_table_does_without_by_now_is_no_damage(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    for seed in (1, 2):
        ingest(lake, some_records(5, seed))
    manifest = lake.manifest("records")
    compact(lake)
    clean(lake, age_seconds=0)
    with pytest.raises(LakeError, match="is in other files by now") as caught:
        reading.check_files(lake, manifest)
    assert caught.value.retry
    assert not isinstance(caught.value, DamagedLake)
    reading.check_files(lake, lake.manifest("records"))
