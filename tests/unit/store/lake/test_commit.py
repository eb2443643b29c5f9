"""A commit is one moment: cut the power after any step, and the next run finds all of it or nothing."""

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from bobbin.records.record import build_blob
from bobbin.store.lake import commit
from bobbin.store.lake.check import check
from bobbin.store.lake.errors import Conflict, DamagedLake, LakeError
from bobbin.store.lake.files import Claim, Files, LocalFiles
from bobbin.store.lake.lake import Lake
from tests.support.lake_tables import record_rows, stage

KEYED = "selections/0123456789abcdef"


class PowerCut(BaseException):
    """The machine is off: nothing after this happens, cleaning up neither."""


class CutFiles:
    """Files whose power goes before the change of this number; with an error, only that change fails."""

    def __init__(self, inner: LocalFiles, changes: int, error: BaseException | None = None) -> None:
        self._inner = inner
        self._left = changes
        self._error = error
        self.done: list[str] = []

    def _step(self, what: str) -> None:
        self._left -= 1
        if self._left < 0 and self._error is None:
            raise PowerCut
        if self._left == -1 and self._error is not None:
            raise self._error
        self.done.append(what)

    def write_new(self, path: str, content: bytes) -> None:
        self._step(f"write {path}")
        self._inner.write_new(path, content)

    def replace(self, path: str, content: bytes) -> None:
        self._step(f"replace {path}")
        self._inner.replace(path, content)

    def delete(self, path: str) -> None:
        self._step(f"delete {path}")
        self._inner.delete(path)

    def make_folder(self, folder: str) -> None:
        self._step(f"make {folder}")
        self._inner.make_folder(folder)

    def sync(self, paths: Iterable[str]) -> None:
        self._step("sync")
        self._inner.sync(paths)

    def claim(self, path: str, content: bytes) -> Claim:
        self._step(f"claim {path}")
        claim = self._inner.claim(path, content)
        # A machine without power holds nothing.
        claim.release()
        return claim

    def create(self, path: str) -> Any:  # noqa: ANN401
        self._step(f"create {path}")
        return self._inner.create(path)

    def read(self, path: str) -> bytes:
        return self._inner.read(path)

    def list(self, folder: str) -> list[str]:
        return self._inner.list(folder)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def size(self, path: str) -> int:
        return self._inner.size(path)

    def age_seconds(self, path: str) -> float:
        return self._inner.age_seconds(path)

    def open(self, path: str) -> Any:  # noqa: ANN401
        return self._inner.open(path)

    def uri(self, path: str) -> str:
        return self._inner.uri(path)

    def lock(self) -> AbstractContextManager[None]:
        return self._inner.lock()

    def is_claimed(self, path: str) -> bool:
        return self._inner.is_claimed(path)


def put(lake: Lake, name: str) -> None:
    """Change two tables, one of them written before."""
    record = build_blob(name.encode())
    with lake.begin("job") as run:
        stage(run, "records", record_rows([record]))
        stage(run, KEYED, [{"record": record.hash, "predicate": "MaySend"}])
        run.append("records")
        run.replace(KEYED)
        run.commit(counts={"in": 1})


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def steps_of_a_run(make: Callable[[], Path]) -> list[str]:
    folder = make()
    counting = CutFiles(LocalFiles(folder), 10**6)
    put(Lake(counting, str(folder)), "b")
    return counting.done


def test_after_a_power_cut_at_any_step_the_next_run_finds_all_or_nothing(tmp_path: Path) -> None:
    numbers = iter(range(10**6))

    def make() -> Path:
        folder = tmp_path / str(next(numbers))
        put(Lake.create(folder), "a")
        return folder

    steps = steps_of_a_run(make)
    assert sum(step.startswith("replace") for step in steps) == 2
    outcomes = []
    for cut in range(len(steps) + 1):
        folder = make()
        before = files_of(folder)
        lake = Lake(CutFiles(LocalFiles(folder), cut), str(folder))
        with suppress(PowerCut):
            put(lake, "b")
        after = Lake.open(folder)
        with after.begin("next"):
            numbers_now = {after.manifest(table).number for table in ("records", KEYED)}
            assert len(numbers_now) == 1, steps[:cut]
            reports = list(after.reports())
        (number,) = numbers_now
        outcomes.append(number)
        assert len(reports) == number
        if number == 1:
            assert files_of(folder) == before
        assert after.manifest("records").rows == number
        named = {
            file.path for table in ("records", KEYED) for manifest in after.history(table) for file in manifest.files
        }
        data = {path for path in files_of(folder) if path.endswith(".parquet")}
        assert named == data
        assert not any(path.endswith((".tmp", ".commit", ".running")) for path in files_of(folder))
        put(after, "c")
        assert after.manifest("records").rows == number + 1
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {1, 2}


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=type)
def test_where_one_step_fails_and_cleaning_up_works_no_file_of_a_table_is_lost(
    tmp_path: Path, error: BaseException
) -> None:
    numbers = iter(range(10**6))

    def make() -> Path:
        folder = tmp_path / str(next(numbers))
        put(Lake.create(folder), "a")
        return folder

    steps = steps_of_a_run(make)
    outcomes = []
    for failing in range(len(steps)):
        folder = make()
        with suppress(LakeError, OSError, KeyboardInterrupt):
            put(Lake(CutFiles(LocalFiles(folder), failing, error), str(folder)), "b")
        after = Lake.open(folder)
        with after.begin("next"):
            rows = after.manifest("records").rows
        assert rows == after.manifest(KEYED).number == len(list(after.reports())), steps[failing]
        outcomes.append(rows)
        assert list(check(after)) == [], steps[failing]
        assert not any(path.endswith((".tmp", ".commit", ".running")) for path in files_of(folder))
    assert set(outcomes) == {1, 2}
    decided = steps.index(next(step for step in steps if step.endswith(".commit") and step.startswith("write")))
    assert outcomes[: decided + 1] == [1] * (decided + 1)
    assert set(outcomes[decided + 1 :]) == {2}


class Unlocked(LocalFiles):
    """Files whose lock keeps nobody out, as a lease does that was lost."""

    @contextmanager
    def lock(self) -> Iterator[None]:
        yield


@pytest.mark.parametrize("first", ["records", KEYED])
def test_of_two_that_commit_the_same_number_one_has_a_conflict_and_nothing_of_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    folder = tmp_path / "lake"
    lake = Lake.create(folder, files=Unlocked(folder))
    put(lake, "a")
    (row,) = record_rows([build_blob(b"x")])
    rows = {"records": row, KEYED: {"record": row["record"], "predicate": "MaySend"}}
    decide = commit.decide

    def late(files: Files, intent: commit.Intent) -> None:
        monkeypatch.setattr(commit, "decide", decide)
        with lake.begin("quick") as quick:
            stage(quick, "records", record_rows([build_blob(b"q")]))
            quick.append("records")
            quick.commit()
        decide(files, intent)

    monkeypatch.setattr(commit, "decide", late)
    with lake.begin("slow") as slow:
        for table in (first, *(table for table in rows if table != first)):
            stage(slow, table, [rows[table]])
            slow.append(table)
        with pytest.raises(Conflict, match="has made the manifest 2 of the table records"):
            slow.commit()
    assert (lake.manifest("records").rows, lake.manifest(KEYED).number) == (2, 1)
    assert [report.job for report in lake.reports()] == ["quick", "job"]
    assert commit.intended(lake.files) == []
    with lake.begin("next"):
        pass
    assert list(check(lake)) == []
    assert not any(slow.id in path for path in files_of(folder))
    put(lake, "c")
    assert lake.manifest("records").rows == 3


def test_an_intent_that_came_second_and_died_stops_nobody(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    put(lake, "a")
    taken = lake.manifest("records")
    run = taken.run[:-4] + "ffff"
    report = structs.replace(next(lake.reports()), run=run)
    intent = commit.Intent((structs.replace(taken, run=run),), report)
    lake.files.write_new(commit.intent_path(run), msgspec.json.encode(intent))
    put(lake, "b")
    assert lake.manifest("records").rows == 2
    assert len(list(lake.reports())) == 2
    assert commit.intended(lake.files) == []


def test_the_mark_of_a_dead_run_goes_before_its_files(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    run = lake.begin("dead")
    stage(run, "records", [{"record": "B.x", "raw": b"raw"}])
    run._claim.release()
    assert commit.sweep(lake.files) == [commit.running_path(run.id), commit.staging_path("records", run.id)]


def test_temporary_files_go_with_the_next_run(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    put(lake, "a")
    left = [tmp_path / "lake" / place / ".manifest.json.0.tmp" for place in ("records", "records/history", "runs")]
    for path in left:
        path.write_bytes(b"")
    with lake.begin("next"):
        assert not any(path.exists() for path in left)


def test_files_that_a_manifest_names_stay_without_the_report_of_their_run(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    put(lake, "a")
    run = lake.manifest("records").run
    lake.files.delete(commit.report_path(run))
    put(lake, "b")
    assert all(lake.files.exists(file.path) for file in lake.manifest("records").files)
    assert all(lake.files.exists(file.path) for manifest in lake.history(KEYED) for file in manifest.files)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"manifests": [], "report": 1}'])
def test_an_intent_that_cannot_be_read_stops_writers_and_not_readers(tmp_path: Path, content: bytes) -> None:
    lake = Lake.create(tmp_path / "lake")
    put(lake, "a")
    lake.files.write_new(commit.intent_path(lake.manifest("records").run), content)
    with pytest.raises(DamagedLake, match="cannot be read"):
        lake.begin("next")
    assert lake.manifest("records").rows == 1


def test_names_that_are_no_runs_are_left_alone(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    put(lake, "a")
    for place in ("runs/notes.json", "runs/mine.running", "records/data/mine/part.parquet", "records/history/old.json"):
        lake.files.write_new(place, b"mine")
    put(lake, "b")
    assert lake.files.read("records/data/mine/part.parquet") == b"mine"
    assert lake.files.read("runs/mine.running") == b"mine"
    assert len(list(lake.reports())) == 2
    assert len(list(lake.history("records"))) == 2
