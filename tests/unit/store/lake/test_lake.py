"""Runs and tables: what a commit changes, what an abandoned run leaves, what two runs at once get."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from bobbin.errors import UsageError
from bobbin.store.lake import commit as commits
from bobbin.store.lake.errors import Conflict, DamagedLake, LakeError, NoLake, OtherVersion
from bobbin.store.lake.lake import Lake, Run
from tests.support.lake_tables import SMALL, stage

KEYED = "selections/0123456789abcdef"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "lake")


def rows(*names: str) -> list[dict[str, object]]:
    return [{"record": name, "raw": b"raw"} for name in names]


def everything(lake: Lake) -> list[str]:
    folder = Path(lake.location)
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def put(lake: Lake, *names: str) -> str:
    with lake.begin("ingest") as run:
        stage(run, "records", rows(*names))
        run.append("records")
        run.commit()
        return run.id


def test_a_lake_is_made_once_and_in_a_folder_of_its_own(tmp_path: Path) -> None:
    Lake.create(tmp_path / "a" / "b")
    with pytest.raises(UsageError, match="already"):
        Lake.create(tmp_path / "a" / "b")
    with pytest.raises(UsageError, match="not empty"):
        Lake.create(tmp_path / "a")
    with pytest.raises(UsageError, match="not empty"):
        Lake.check_place(tmp_path / "a")
    Lake.check_place(tmp_path / "a" / "b")
    Lake.check_place(tmp_path / "c")
    assert not (tmp_path / "c").exists()
    assert Lake.open(tmp_path / "a" / "b").tables() == ()


def test_what_is_no_lake_is_said_to_be_none(tmp_path: Path) -> None:
    for location in (tmp_path, tmp_path / "nowhere", tmp_path / "nowhere" / "deeper"):
        with pytest.raises(NoLake, match="there is no lake"):
            Lake.open(location)
    made = Lake.open_or_create(tmp_path / "lake")
    assert Lake.open_or_create(tmp_path / "lake").location == made.location


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b'{"format": "bobbin-lake", "version": 2}', OtherVersion),
        (b'{"format": "something", "version": 1}', NoLake),
        (b"{", DamagedLake),
        (b"[]", DamagedLake),
        (b"\xff", DamagedLake),
    ],
)
def test_another_content_of_the_mark_is_refused(tmp_path: Path, content: bytes, error: type[Exception]) -> None:
    (tmp_path / "lake.json").write_bytes(content)
    with pytest.raises(error):
        Lake.open(tmp_path)


def test_a_table_never_written_is_empty(lake: Lake) -> None:
    assert lake.manifest("records").number == 0
    assert list(lake.history("records")) == []
    with pytest.raises(UsageError):
        lake.manifest("rows")
    with pytest.raises(UsageError):
        lake.manifest("selections")


def test_a_commit_appends_and_the_next_one_replaces(lake: Lake) -> None:
    with lake.begin("ingest", plan="a plan") as run:
        stage(run, "records", rows("B.a", "B.b", "P.c", "S.d"), shape=SMALL)
        run.append("records", properties={"made": "here"})
        report = run.commit(inputs={"bundle": 5}, outputs={"records": 4}, counts={"in": 5}, notes=["one twice"])
    first = lake.manifest("records")
    assert (first.number, first.rows, first.run, first.properties) == (1, 4, run.id, {"made": "here"})
    assert report == lake.report(run.id)
    assert (report.job, report.plan, report.tables, report.notes) == (
        "ingest",
        "a plan",
        {"records": 1},
        ("one twice",),
    )

    second_run = put(lake, "B.e")
    second = lake.manifest("records")
    assert (second.number, second.rows, second.properties) == (2, 5, {"made": "here"})
    assert second.files[: len(first.files)] == first.files

    with lake.begin("compact") as run:
        stage(run, "records", rows("B.a"))
        run.replace("records")
        run.commit()
    third = lake.manifest("records")
    assert (third.number, third.rows, third.properties, len(third.files)) == (3, 1, {"order": "3"}, 1)
    assert [manifest.number for manifest in lake.history("records")] == [3, 2, 1]
    assert [manifest.rows for manifest in lake.history("records")] == [1, 5, 4]
    assert [report.run for report in lake.reports()] == [run.id, second_run, first.run]
    assert all(lake.files.exists(file.path) for manifest in lake.history("records") for file in manifest.files)


def test_many_tables_change_in_one_commit_and_some_have_keys(lake: Lake) -> None:
    with lake.begin("select") as run:
        stage(run, "records", rows("B.a"))
        stage(run, KEYED, [{"record": "B.a", "predicate": "MaySend"}])
        run.append("records")
        run.replace(KEYED, properties={"plan": "a plan"})
        report = run.commit()
    assert report.tables == {"records": 1, KEYED: 1}
    assert lake.tables() == ("records", KEYED)
    assert lake.manifest(KEYED).properties == {"plan": "a plan"}


def fail_in(run: Run) -> None:
    with run:
        stage(run, "records", rows("B.b"))
        raise ZeroDivisionError


def test_a_run_that_is_not_committed_leaves_nothing(lake: Lake) -> None:
    put(lake, "B.a")
    before = everything(lake)
    with lake.begin("ingest") as run:
        stage(run, "records", rows("B.b"))
        run.append("records")
        assert everything(lake) != before
    assert everything(lake) == before
    with pytest.raises(ZeroDivisionError):
        fail_in(run := lake.begin("ingest"))
    assert everything(lake) == before
    for late in (run.commit, lambda: run.base("records"), lambda: run.append("records"), lambda: run.path("records")):
        with pytest.raises(UsageError, match="is over"):
            late()


def test_what_a_run_wrote_for_a_table_that_it_does_not_change_goes(lake: Lake) -> None:
    with lake.begin("ingest") as run:
        stage(run, "records", rows("B.a"))
        run.commit(counts={"in": 0})
    assert everything(lake) == ["lake.json", f"runs/{run.id}.json"]


def test_a_table_is_changed_once_in_a_run(lake: Lake) -> None:
    with lake.begin("ingest") as run:
        run.append("records")
        with pytest.raises(UsageError, match="twice"):
            run.replace("records")


def test_of_two_runs_on_one_table_the_later_commit_is_a_conflict(lake: Lake) -> None:
    with lake.begin("ingest") as one, lake.begin("ingest") as two, lake.begin("facts") as reader:
        for run in (one, two):
            stage(run, "records", rows(f"B.{run.id[-4:]}"))
            run.append("records")
        assert reader.base("records").number == 0
        one.commit()
        with pytest.raises(Conflict, match="is at manifest 1") as caught:
            two.commit()
        assert caught.value.retry
        reader.replace(KEYED)
        reader.commit()
    assert lake.manifest("records").run == one.id
    assert not any(two.id in path for path in everything(lake))


def test_a_refused_file_changes_nothing(lake: Lake) -> None:
    with lake.begin("ingest") as run:
        stage(run, "records", rows("B.a"))
        (Path(lake.location) / run.path("quarantine") / "part.parquet").write_bytes(b"no Parquet")
        run.append("records")
        run.append("quarantine")
        with pytest.raises(LakeError, match="no Parquet file"):
            run.commit()
    assert everything(lake) == ["lake.json"]


def test_a_run_that_was_taken_for_dead_commits_nothing(lake: Lake) -> None:
    put(lake, "B.a")
    with lake.begin("slow") as slow:
        stage(slow, "records", rows("B.b"))
        slow.append("records")
        slow._claim.release()  # as a lease ends that was not renewed
        put(lake, "B.c")
        assert not lake.files.exists(commits.staging_path("records", slow.id))
        with pytest.raises(LakeError, match="no sign of life") as caught:
            slow.commit(counts={"stored": 1})
        assert caught.value.retry
    assert [report.job for report in lake.reports()] == ["ingest", "ingest"]
    assert lake.manifest("records").rows == 2


def test_a_job_may_say_how_many_rows_there_must_be(lake: Lake) -> None:
    with lake.begin("ingest") as run:
        stage(run, "records", rows("B.a", "B.b"))
        run.append("records")
        run.append("quarantine")
        with pytest.raises(LakeError, match="has written 3 rows of the table records; its files have 2"):
            run.commit(rows={"records": 3})
        with pytest.raises(LakeError, match="its files have 0"):
            run.commit(rows={"records": 2, "quarantine": 1})
        assert lake.manifest("records").number == 0
        run.commit(rows={"records": 2, "quarantine": 0})
    assert lake.manifest("records").rows == 2


def test_a_commit_without_new_rows_leaves_current_what_was_made_from_them(lake: Lake) -> None:
    put(lake, "B.a")
    for cursor in ("1", "2"):
        with lake.begin("follow") as run:
            run.append("records", properties={"cursor": cursor})
            run.commit()
    current = lake.manifest("records")
    assert (current.number, current.properties) == (3, {"cursor": "2", "content": "1"})
    assert lake.is_current("records", 1)
    assert lake.is_current("records", 2)
    put(lake, "B.b")
    assert lake.manifest("records").properties == {"cursor": "2"}
    assert not lake.is_current("records", 3)


def test_a_commit_that_cannot_remove_what_it_does_not_need_is_one(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with lake.begin("ingest") as run:
        stage(run, "records", rows("B.a"))
        stage(run, "quarantine", [])
        run.append("records")
        delete = lake.files.delete

        def failing(path: str) -> None:
            if path.startswith("quarantine/"):
                raise OSError(errno.EIO, "broken")
            delete(path)

        monkeypatch.setattr(lake.files, "delete", failing)
        report = run.commit()
    assert lake.report(run.id) == report
    assert all(lake.files.exists(file.path) for file in lake.manifest("records").files)


def test_a_reader_keeps_what_it_opened(lake: Lake) -> None:
    put(lake, "B.a")
    opened = lake.manifest("records")
    with lake.begin("compact") as run:
        stage(run, "records", rows("B.b"))
        run.replace("records")
        run.commit()
    assert all(lake.files.size(file.path) == file.bytes for file in opened.files)
    assert lake.uri(opened.files[0]) == f"file://{lake.location}/{opened.files[0].path}"


def test_a_history_that_is_gone_or_another_is_damage(lake: Lake) -> None:
    put(lake, "B.a")
    put(lake, "B.b")
    history = Path(lake.location) / "records" / "history"
    (history / "00000001.json").write_bytes((history / "00000002.json").read_bytes())
    with pytest.raises(DamagedLake, match="holds the manifest 2"):
        list(lake.history("records"))


_KILLED = """
import os, sys
from bobbin.store.lake.lake import Lake, Run
from tests.support.lake_tables import stage
lake = Lake.open(sys.argv[1])
run = lake.begin("ingest")
stage(run, "records", [{"record": "B.z", "raw": b"raw"}])
run.append("records")
print(run.id, flush=True)
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_run_left_goes_when_the_next_begins_and_the_living_keep_theirs(lake: Lake) -> None:
    put(lake, "B.a")
    before = everything(lake)
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, lake.location], capture_output=True, text=True, check=False, cwd=Path.cwd()
    )
    dead = killed.stdout.strip()
    assert killed.returncode == -9, killed.stderr
    assert any(dead in path for path in everything(lake))
    with lake.begin("living") as living:
        assert not any(dead in path for path in everything(lake))
        stage(living, "records", rows("B.c"))
        with lake.begin("another"):
            pass
        living.append("records")
        living.commit()
    assert lake.manifest("records").rows == 2
    assert set(before) <= set(everything(lake))


_WRITER = """
import sys
from bobbin.store.lake.errors import Conflict
from bobbin.store.lake.lake import Lake
from tests.support.lake_tables import stage
lake = Lake.open(sys.argv[1])
conflicts = 0
for number in range(6):
    done = False
    while not done:
        with lake.begin("ingest") as run:
            stage(run, "records", [{"record": f"B.{sys.argv[2]}{number}", "raw": b"raw"}])
            run.append("records")
            try:
                run.commit()
                done = True
            except Conflict:
                conflicts += 1
print(conflicts)
"""


def test_of_many_writers_at_once_each_gets_its_rows_in_once(lake: Lake) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, lake.location, name], stdout=subprocess.PIPE, cwd=Path.cwd())
        for name in "abc"
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    for writer in writers:
        writer.communicate()
    current = lake.manifest("records")
    assert (current.number, current.rows) == (18, 18)
    assert sorted(file.low for file in current.files if file.low) == [
        f"B.{name}{n}" for name in "abc" for n in range(6)
    ]
    assert len(list(lake.reports())) == 18
    assert not any(path.endswith((".running", ".commit", ".tmp")) for path in everything(lake))
    assert sum(path.endswith(".parquet") for path in everything(lake)) == 18
