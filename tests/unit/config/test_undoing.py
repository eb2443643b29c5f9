"""What was made in vain goes away, and nothing else does."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bobbin.config.undoing import undone_on_failure
from bobbin.errors import BobbinError, ResourceError, UsageError


def _fill(folder: Path) -> None:
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "key").write_text("secret")
    (folder / "link").symlink_to(folder / "deep")


def _fail(folders: Sequence[Path], error: BobbinError, *but_for: type[BobbinError]) -> None:
    with undone_on_failure(folders, but_for=but_for):
        for folder in folders:
            _fill(folder)
        raise error


def test_a_failure_leaves_nothing_that_was_not_there(tmp_path: Path) -> None:
    folders = [tmp_path / "new" / "n1", tmp_path / "old"]
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "mine").write_text("mine")
    with pytest.raises(UsageError):
        _fail(folders, UsageError("no"))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine", "old"]


def test_success_leaves_everything(tmp_path: Path) -> None:
    with undone_on_failure([tmp_path / "n1"]):
        _fill(tmp_path / "n1")
    assert (tmp_path / "n1" / "link" / "key").exists()


def test_what_is_still_needed_stays(tmp_path: Path) -> None:
    with pytest.raises(ResourceError):
        _fail([tmp_path / "n1"], ResourceError("perhaps", retry=True), ResourceError)
    assert (tmp_path / "n1" / "deep" / "key").exists()
