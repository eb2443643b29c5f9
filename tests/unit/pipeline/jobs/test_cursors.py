from pathlib import Path

import pytest

from bobbin.pipeline.jobs import cursors
from bobbin.pipeline.jobs.cursors import LaceCursor, LoadCursor
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.lake import Lake
from tests.support.lakes import some_records, store

CURSOR = LaceCursor(lace="1640995200:000000000", id=7, record="P.x", stream="k", batch=2)


def _note(lake: Lake, properties: dict[str, str], *, replace: bool = False) -> None:
    with lake.begin("test") as run:
        (run.replace if replace else run.append)("records", properties=properties)
        run.commit()


def test_no_cursor_in_a_new_lake(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    assert cursors.lace_cursor(lake, "k") is None
    assert cursors.load_cursor(lake, "k") is None


def test_the_newest_cursor_counts_and_outlives_other_runs(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    _note(lake, dict(cursors.encoded(cursors.follow_property("k"), LaceCursor(lace="l", id=3, record=None))))
    _note(lake, dict(cursors.encoded(cursors.follow_property("k"), CURSOR)))
    store(lake, some_records(3, 1))
    assert cursors.lace_cursor(lake, "k") == CURSOR
    assert cursors.lace_cursor(lake, "other") is None


def test_a_cursor_that_was_set_aside_is_found_in_the_history(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    _note(lake, dict(cursors.encoded(cursors.follow_property("k"), CURSOR)))
    store(lake, some_records(3, 1), replace=True)
    assert lake.manifest("records").properties == {}
    assert cursors.lace_cursor(lake, "k") == CURSOR


def test_loads_of_several_sources_in_turn(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    first, second = LoadCursor(key="a", at=5, spent=2), LoadCursor(key="b", at=9, done=True)
    _note(lake, dict(cursors.encoded(cursors.LOAD, first)))
    _note(lake, dict(cursors.encoded(cursors.LOAD, second)))
    assert cursors.load_cursor(lake, "a") == first
    assert cursors.load_cursor(lake, "b") == second
    assert cursors.load_cursor(lake, "c") is None


def test_a_property_that_is_no_cursor(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    _note(lake, {cursors.follow_property("k"): "{}"})
    with pytest.raises(DamagedLake, match=r"follow\.k"):
        cursors.lace_cursor(lake, "k")
