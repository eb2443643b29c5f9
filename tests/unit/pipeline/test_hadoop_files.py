"""A lake's files through Hadoop, here on Hadoop's own view of the local file system."""

import errno
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bobbin.errors import UsageError
from bobbin.pipeline import hadoop_files
from bobbin.pipeline.hadoop_files import HadoopFiles, files_of
from bobbin.store.lake.errors import LakeError
from bobbin.store.lake.files import LocalFiles
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.tables import RECORDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def files(spark: "SparkSession", tmp_path: Path) -> HadoopFiles:
    return HadoopFiles(spark, (tmp_path / "a lake").as_uri().replace("%20", " "))


def test_a_new_file_is_whole_and_is_not_written_twice(files: HadoopFiles, tmp_path: Path) -> None:
    files.write_new("a/b/c.json", b"one\x00\xff")
    with pytest.raises(FileExistsError) as caught:
        files.write_new("a/b/c.json", b"two")
    assert caught.value.filename == f"{files!r}/a/b/c.json"
    assert files.read("a/b/c.json") == b"one\x00\xff"
    assert [path.name for path in (tmp_path / "a lake" / "a" / "b").iterdir()] == ["c.json"]


def test_a_file_is_replaced_and_nothing_else_is_left(files: HadoopFiles, tmp_path: Path) -> None:
    files.replace("a/c.json", b"one")
    files.replace("a/c.json", b"two")
    assert files.read("a/c.json") == b"two"
    assert [path.name for path in (tmp_path / "a lake" / "a").iterdir()] == ["c.json"]


def test_a_reader_never_finds_a_replaced_file_missing_or_cut(files: HadoopFiles, tmp_path: Path) -> None:
    files.replace("c.json", b"0" * 1000)
    seen: set[bytes] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add((tmp_path / "a lake" / "c.json").read_bytes())

    thread = threading.Thread(target=look)
    thread.start()
    for digit in range(1, 10):
        files.replace("c.json", str(digit).encode() * 1000)
    done.set()
    thread.join()
    assert all(len(content) == 1000 and len(set(content)) == 1 for content in seen)


def test_names_are_sorted_and_folders_marked(files: HadoopFiles) -> None:
    files.write_new("b", b"")
    files.write_new("a/x", b"")
    files.make_folder("c/d")
    assert files.list("") == ["a/", "b", "c/"]
    assert files.list("nowhere") == []
    assert files.list("b") == []


def test_deleting_takes_a_folder_with_everything_and_nothing_quietly(files: HadoopFiles) -> None:
    files.write_new("a/b/c", b"")
    files.delete("a")
    files.delete("a")
    assert not files.exists("a")


def test_sizes_and_ages(files: HadoopFiles) -> None:
    files.write_new("a", b"12345")
    assert files.size("a") == 5
    assert 0 <= files.age_seconds("a") < 60
    files.sync(["a"])


@pytest.mark.parametrize("method", ["read", "size", "open", "age_seconds", "renew"])
def test_a_file_that_is_not_there_is_said_to_be_missing(files: HadoopFiles, method: str) -> None:
    with pytest.raises(FileNotFoundError):
        getattr(files, method)("none")
    with pytest.raises(FileNotFoundError):
        files.sync(["none"])


def test_other_failures_are_os_errors_with_javas_words(files: HadoopFiles) -> None:
    files.write_new("a", b"")
    with pytest.raises(OSError, match="a/b"):
        files.replace("a/b", b"")


def test_pyarrow_writes_and_reads_at_random(files: HadoopFiles, spark: "SparkSession") -> None:
    table = pa.table({"id": list(range(10_000)), "text": [str(value) for value in range(10_000)]})
    files.make_folder("t")
    with files.create("t/part-0.parquet") as stream:
        pq.write_table(table, stream, row_group_size=1000)
    with files.open("t/part-0.parquet") as stream:
        found = pq.ParquetFile(stream)
        assert found.metadata.num_row_groups == 10
        assert found.read_row_group(7, columns=["id"]).column("id").to_pylist() == list(range(7000, 8000))
    with files.open("t/part-0.parquet") as stream:
        assert stream.read(4) == b"PAR1"
        stream.seek(-4, 2)
        assert stream.read() == b"PAR1"
        assert stream.read(1) == b""
    assert spark.read.parquet(files.uri("t/part-0.parquet")).count() == 10_000


def test_only_one_holds_the_lock(files: HadoopFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hadoop_files, "LOCK_WAIT_SECONDS_MAX", -hadoop_files.LEASE_SECONDS)
    files.make_folder("")
    with files.lock():
        with pytest.raises(LakeError, match="for too long") as caught, files.lock():
            pass
        assert caught.value.retry
    with files.lock():
        pass
    assert files.list("") == []


def test_a_lock_that_nobody_renews_is_taken_away(files: HadoopFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_new(".lake.lock", b"dead")
    monkeypatch.setattr(hadoop_files, "LEASE_SECONDS", 0.0)
    with files.lock():
        assert files.read(".lake.lock") != b"dead"


def test_who_breaks_a_dead_lock_late_takes_no_living_one(files: HadoopFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_new(".lake.lock", b"dead")
    os.utime(Path(urlsplit(repr(files)).path) / ".lake.lock", (0, 0))
    read = files.read

    def slow(path: str) -> bytes:
        # Between this look and what follows, another breaks the same lock and has its own.
        found = read(path)
        if path == ".lake.lock" and found == b"dead":
            files.replace(".lake.lock", b"living")
        return found

    monkeypatch.setattr(files, "read", slow)
    files._break_if_dead(".lake.lock")
    assert read(".lake.lock") == b"living"
    assert files.list("") == [".lake.lock"]


def test_who_has_lost_the_lock_leaves_that_of_another(files: HadoopFiles) -> None:
    files.make_folder("")
    with files.lock():
        files.replace(".lake.lock", b"another")
    assert files.read(".lake.lock") == b"another"


def test_a_lock_that_cannot_be_removed_is_no_failure_of_what_was_done(
    files: HadoopFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: str) -> None:
        raise OSError(errno.EIO, "broken", path)

    files.make_folder("")
    with files.lock():
        monkeypatch.setattr(files, "delete", broken)
    assert files.exists(".lake.lock")


def test_the_clock_of_the_file_system_is_looked_at_again() -> None:
    clock = hadoop_files._Clock(skew_ms=7, wall=1000.0, steady=50.0)
    assert clock.is_good(1004.0, 54.0)
    assert not clock.is_good(1006.0, 56.0)  # some time has passed
    assert not clock.is_good(5000.0, 51.0)  # the clock was set, or the machine slept
    assert not clock.is_good(900.0, 51.0)


def test_a_run_whose_lease_ended_commits_nothing(
    spark: "SparkSession", files: HadoopFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.create(repr(files), files=files)
    rows = pa.table({"record": ["P.a"], "raw": [b"1"]}, schema=RECORDS.schema)
    with lake.begin("slow") as slow:
        with files.create(f"{slow.path('records')}/part-0.parquet") as stream:
            pq.write_table(rows, stream)
        slow.append("records")
        with monkeypatch.context() as patch:
            patch.setattr(hadoop_files, "LEASE_SECONDS", 0.0)
            Lake.open(repr(files), files=HadoopFiles(spark, repr(files))).begin("other").abandon()
        with pytest.raises(LakeError, match="no sign of life"):
            slow.commit(counts={"stored": 1})
    assert lake.manifest("records").number == 0
    assert list(lake.reports()) == []


def test_a_claim_is_held_until_its_owner_stops_renewing(files: HadoopFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = files.claim("runs/x.running", b"me")
    assert files.is_claimed("runs/x.running")
    with pytest.raises(LakeError, match="held by another"):
        files.claim("runs/x.running", b"you")
    claim.release()
    assert files.read("runs/x.running") == b"me"
    monkeypatch.setattr(hadoop_files, "LEASE_SECONDS", 0.0)
    assert not files.is_claimed("runs/x.running")
    assert not files.is_claimed("runs/none.running")


def test_a_claim_renews_itself_and_notices_that_it_was_taken_away(
    files: HadoopFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hadoop_files, "RENEW_SECONDS", 0.01)
    renewed = threading.Semaphore(0)
    renew = files.renew

    def counted(path: str) -> None:
        renew(path)
        renewed.release()

    monkeypatch.setattr(files, "renew", counted)
    claim = files.claim("x.running", b"me")
    assert isinstance(claim, hadoop_files._Renewed)
    assert renewed.acquire(timeout=60)
    files.delete("x.running")
    claim._thread.join(60)
    assert claim.is_lost
    claim.release()


def test_a_lake_lives_there(spark: "SparkSession", files: HadoopFiles) -> None:
    location = repr(files)
    lake = Lake.create(location, files=files)
    with lake.begin("test") as run:
        rows = pa.table({"record": ["P.a", "P.b"], "raw": [b"1", b"2"]}, schema=RECORDS.schema)
        with files.create(f"{run.path('records')}/part-0.parquet") as stream:
            pq.write_table(rows, stream)
        run.append("records")
        report = run.commit(inputs={"rows": 2})
    again = Lake.open(location, files=HadoopFiles(spark, location))
    manifest = again.manifest("records")
    assert (manifest.rows, manifest.number, report.tables) == (2, 1, {"records": 1})
    frame = spark.read.parquet(*(again.uri(file) for file in manifest.files))
    assert sorted(row.record for row in frame.collect()) == ["P.a", "P.b"]
    assert list(again.reports()) == [report]


def test_files_here_are_opened_without_java(spark: "SparkSession", tmp_path: Path) -> None:
    assert isinstance(files_of(spark, tmp_path), LocalFiles)
    assert isinstance(files_of(spark, str(tmp_path)), LocalFiles)
    assert isinstance(files_of(spark, tmp_path.as_uri()), LocalFiles)


def test_a_scheme_that_hadoop_does_not_know_is_the_callers_mistake(spark: "SparkSession") -> None:
    with pytest.raises(UsageError, match=r'gopher://host/lake is no place that Hadoop can reach: .*"gopher"'):
        files_of(spark, "gopher://host/lake")
