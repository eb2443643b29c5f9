from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from blake3 import blake3

from bobbin.store.lake import staging, tables
from bobbin.store.lake.errors import LakeError
from bobbin.store.lake.files import LocalFiles
from tests.support.lake_tables import batch


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path)


def write(path: Path, names: list[str], *, group: int = 1024, statistics: bool = True) -> None:
    table = pa.Table.from_batches([batch(tables.RECORDS, [{"record": name, "raw": b"r"} for name in names])])
    pq.write_table(table, path, row_group_size=group, write_statistics=statistics)


def test_a_file_is_described_by_what_is_in_it(files: LocalFiles, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", ["B.a", "P.b", "S.c"], group=2)
    described = staging.describe(files, tables.RECORDS, "a.parquet")
    raw = (tmp_path / "a.parquet").read_bytes()
    assert (described.rows, described.bytes, described.low, described.high) == (3, len(raw), "B.a", "S.c")
    assert described.digest == blake3(raw).hexdigest()


def test_bounds_are_read_where_the_file_does_not_say(files: LocalFiles, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", ["B.a", "P.b", "S.c"], group=2, statistics=False)
    described = staging.describe(files, tables.RECORDS, "a.parquet")
    assert (described.low, described.high) == ("B.a", "S.c")


def test_bounds_of_a_table_in_payload_order_leave_the_letter_out(files: LocalFiles, tmp_path: Path) -> None:
    rows = [{"record": name, "digest": b"d"} for name in ("S.a", "B.b", "P.c")]
    pq.write_table(pa.Table.from_batches([batch(tables.ADVERTISEMENTS, rows)]), tmp_path / "a.parquet")
    described = staging.describe(files, tables.ADVERTISEMENTS, "a.parquet")
    assert (described.low, described.high) == ("a", "c")


def test_a_table_that_sorts_by_a_number_has_no_bounds(files: LocalFiles, tmp_path: Path) -> None:
    rows = [{"k": 2, "prefix": "aa", "count": 1, "root": b"r"}]
    pq.write_table(pa.Table.from_batches([batch(tables.PARTITIONS, rows)]), tmp_path / "a.parquet")
    described = staging.describe(files, tables.PARTITIONS, "a.parquet")
    assert (described.low, described.high) == (None, None)


def test_row_groups_out_of_order_are_refused(files: LocalFiles, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", ["P.b", "P.c", "B.a", "B.b"], group=2)
    with pytest.raises(LakeError, match="not sorted by record"):
        staging.describe(files, tables.RECORDS, "a.parquet")


def test_a_file_of_another_table_is_refused(files: LocalFiles, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", ["P.b"])
    with pytest.raises(LakeError, match=r"a\.parquet is no file of the table facts, version 1: it has the columns"):
        staging.describe(files, tables.FACTS, "a.parquet")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no Parquet at all" * 100])
def test_a_damaged_file_is_refused(files: LocalFiles, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(LakeError, match="no Parquet file, or a damaged one"):
        staging.describe(files, tables.RECORDS, "a.parquet")


def test_a_file_cut_short_is_refused(files: LocalFiles, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", ["P.b"] * 100)
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[:-10])
    with pytest.raises(LakeError):
        staging.describe(files, tables.RECORDS, "a.parquet")


def test_a_file_that_vanished_is_named(files: LocalFiles) -> None:
    with pytest.raises(LakeError, match=r"the file a\.parquet of the lake .* cannot be opened"):
        staging.describe(files, tables.RECORDS, "a.parquet")


def test_what_spark_leaves_is_dropped_and_files_without_rows_too(files: LocalFiles, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    write(folder / "part-2.parquet", ["B.a", "B.b"])
    write(folder / "part-1.parquet", ["P.a"])
    write(folder / "part-0.parquet", [])
    (folder / "_SUCCESS").touch()
    (folder / ".part-1.parquet.crc").touch()
    (folder / "_temporary" / "0").mkdir(parents=True)
    described = staging.describe_all(files, tables.RECORDS, "run")
    assert [file.path for file in described] == ["run/part-1.parquet", "run/part-2.parquet"]
    assert files.list("run") == ["part-1.parquet", "part-2.parquet"]


def test_anything_else_in_the_folder_is_an_error(files: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / "run" / "k=2").mkdir(parents=True)
    with pytest.raises(LakeError, match="run/k=2/ is not a Parquet file"):
        staging.describe_all(files, tables.RECORDS, "run")
    (tmp_path / "run" / "k=2").rmdir()
    (tmp_path / "run" / "notes.txt").touch()
    with pytest.raises(LakeError, match=r"run/notes\.txt"):
        staging.describe_all(files, tables.RECORDS, "run")


def test_a_folder_that_nothing_was_written_to_gives_nothing(files: LocalFiles) -> None:
    assert staging.describe_all(files, tables.RECORDS, "nowhere") == ()
