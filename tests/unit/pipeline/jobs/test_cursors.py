import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from bobbin.pipeline.jobs import cursors
from bobbin.pipeline.jobs.cursors import LaceCursor, LoadCursor
from bobbin.store.lake.compact import compact
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.files import LocalFiles
from bobbin.store.lake.lake import Lake
from tests.support.lakes import some_records, store

CURSOR = LaceCursor(lace="1640995200:000000000", id=7, record="P.x", stream="k", batch=2)


def _note(lake: Lake, properties: Mapping[str, str]) -> None:
    with lake.begin("test") as run:
        run.append("records", properties=properties)
        run.commit()


def test_no_cursor_in_a_new_lake(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    assert cursors.lace_cursor(lake, "k") is None
    assert cursors.load_cursor(lake, "k") is None


def test_the_newest_cursor_counts_and_outlives_other_runs(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    _note(lake, cursors.lace_property("k", LaceCursor(lace="l", id=3, record=None)))
    _note(lake, cursors.lace_property("k", CURSOR))
    _note(lake, cursors.load_property(lake, LoadCursor(key="a", at=5)))
    store(lake, some_records(3, 1))
    store(lake, some_records(3, 2))
    compact(lake)
    assert len(lake.manifest("records").files) == 1
    assert cursors.lace_cursor(lake, "k") == CURSOR
    assert cursors.lace_cursor(lake, "other") is None
    assert cursors.load_cursor(lake, "a") == LoadCursor(key="a", at=5)


def test_only_the_current_manifest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every manifest names all files of its time: a long history is not to be read for a cursor that is not there."""
    lake = Lake.create(tmp_path / "lake")
    for number in range(5):
        _note(lake, cursors.load_property(lake, LoadCursor(key="a", at=number)))
    read: list[str] = []
    real = LocalFiles.read

    def noting(files: LocalFiles, path: str) -> bytes:
        read.append(path)
        return real(files, path)

    monkeypatch.setattr(LocalFiles, "read", noting)
    assert cursors.load_cursor(lake, "b") is None
    assert cursors.lace_cursor(lake, "k") is None
    assert set(read) == {"records/manifest.json"}


def test_loads_of_several_sources_in_turn(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    first, second = LoadCursor(key="a", at=5, spent=2), LoadCursor(key="b", at=9, done=True, rejected={"x": 2})
    _note(lake, cursors.load_property(lake, first))
    _note(lake, cursors.load_property(lake, LoadCursor(key="b", at=1)))
    _note(lake, cursors.load_property(lake, second))
    assert cursors.load_cursor(lake, "a") == first
    assert cursors.load_cursor(lake, "b") == second
    assert cursors.load_cursor(lake, "c") is None


def test_the_last_loads_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursors, "LOADS_MAX", 3)
    lake = Lake.create(tmp_path / "lake")
    for key in "abcad":
        _note(lake, cursors.load_property(lake, LoadCursor(key=key, at=1)))
    assert [key for key in "abcd" if cursors.load_cursor(lake, key) is not None] == ["a", "c", "d"]


def test_what_was_rejected_adds_up() -> None:
    assert cursors.added({"a": 1, "b": 2}, {"b": 3, "c": 4}) == {"a": 1, "b": 5, "c": 4}
    assert cursors.added({}, {}) == {}


@pytest.mark.parametrize("name", [cursors.follow_property("k"), cursors.LOADS])
def test_a_property_that_is_no_cursor(tmp_path: Path, name: str) -> None:
    lake = Lake.create(tmp_path / "lake")
    _note(lake, {name: "7"})
    with pytest.raises(DamagedLake, match=re.escape(f"the property {name} of")):
        (cursors.load_cursor if name == cursors.LOADS else cursors.lace_cursor)(lake, "k")
