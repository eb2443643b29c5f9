"""Files that appear whole or not at all."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bobbin.errors import UsageError
from bobbin.store.base import StoreError
from bobbin.store.sqlite.publish import published


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(target: Path, *, meanwhile: Callable[[Path], object]) -> None:
    with published(target) as temporary:
        temporary.write_bytes(b"mine")
        meanwhile(temporary)


def fail_with_a_log(temporary: Path) -> None:
    temporary.with_name(f"{temporary.name}-wal").write_bytes(b"log")
    raise ZeroDivisionError


def test_the_file_appears_when_the_block_ends_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with published(target) as temporary:
        temporary.write_bytes(b"content")
        assert not target.exists()
        assert temporary.parent == tmp_path
    assert target.read_bytes() == b"content"
    assert names(tmp_path) == ["target"]


def test_nothing_appears_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "target", meanwhile=fail_with_a_log)
    assert names(tmp_path) == []


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"old")
    with pytest.raises(FileExistsError), published(target):
        pytest.fail("the block must not run")
    assert target.read_bytes() == b"old"


def test_a_file_that_appears_meanwhile_is_not_replaced_either(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with pytest.raises(FileExistsError):
        write(target, meanwhile=lambda _: target.write_bytes(b"theirs"))
    assert target.read_bytes() == b"theirs"
    assert names(tmp_path) == ["target"]


def test_a_dangling_link_counts_as_existing(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError), published(target):
        pytest.fail("the block must not run")


def test_without_hard_links_the_file_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    target = tmp_path / "target"
    with published(target) as temporary:
        temporary.write_bytes(b"content")
    assert target.read_bytes() == b"content"
    other = tmp_path / "other"
    with pytest.raises(FileExistsError):
        write(other, meanwhile=lambda _: other.write_bytes(b"theirs"))
    assert names(tmp_path) == ["other", "target"]


def test_a_folder_that_does_not_exist_is_the_callers_fault(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"), published(tmp_path / "no" / "target"):
        pytest.fail("the block must not run")


def test_a_failure_of_the_file_system_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written") as caught, published(tmp_path / "target"):
        raise OSError(28, "No space left on device")
    assert caught.value.retry
