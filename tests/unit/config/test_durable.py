"""Files are whole or absent, private where they must be, and synced before anyone is told."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from bobbin.config import durable


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_replaced_file_has_the_new_content_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    with durable.replacing(target) as stream:
        stream.write(b"new")
        assert target.read_bytes() == b"old", "nothing changes before the block has ended"
    assert target.read_bytes() == b"new"
    assert _names(tmp_path) == ["file"]


def test_a_failed_block_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def interrupted() -> None:
        with durable.replacing(target) as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_bytes() == b"old"
    assert _names(tmp_path) == ["file"]


def test_file_and_folder_are_synced_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    real_fsync, real_replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        real_fsync(descriptor)

    def replace(self: Path, target: Path) -> Path:
        events.append("rename")
        return real_replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    with durable.replacing(tmp_path / "file") as stream:
        stream.write(b"x")
    assert events == ["file", "rename", "folder"]

    events.clear()
    durable.write_private(tmp_path / "secret", b"x")
    assert events == ["file", "folder"]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_a_private_file_has_mode_600_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        durable.write_private(tmp_path / "secret", b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert (tmp_path / "secret").read_bytes() == b"content"


def test_a_private_file_is_never_overwritten(tmp_path: Path) -> None:
    durable.write_private(tmp_path / "secret", b"first")
    with pytest.raises(FileExistsError):
        durable.write_private(tmp_path / "secret", b"second")
    assert (tmp_path / "secret").read_bytes() == b"first"


def test_a_private_file_that_could_not_be_written_leaves_its_name_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        durable.write_private(tmp_path / "secret", b"content")
    assert _names(tmp_path) == []


def test_a_new_file_never_has_its_name_before_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "secret"
    seen: list[bool] = []
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            seen.append(target.exists())
        real_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    durable.write_private(target, b"content")
    assert seen == [False], "a crash before this point must leave no empty key behind"
    assert _names(tmp_path) == ["secret"]


@pytest.mark.parametrize("write", [durable.write_private, durable.write_new])
def test_a_taken_name_stays_as_it_is_also_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, bytes], None]
) -> None:
    def no_links(_source: Path, _target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    write(tmp_path / "file", b"first")
    with pytest.raises(FileExistsError):
        write(tmp_path / "file", b"second")
    assert (tmp_path / "file").read_bytes() == b"first"
    assert _names(tmp_path) == ["file"]


def test_a_failed_link_is_an_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_source: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(OSError, match="No space"):
        durable.write_new(tmp_path / "file", b"content")
    assert _names(tmp_path) == []
