import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bobbin.errors import ResourceError
from bobbin.store.wal import files as files_module
from bobbin.store.wal.files import Files, RealFiles
from tests.support.crashing_files import CrashingFiles


@pytest.fixture(params=["real", "in memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """Both kinds of folder: what holds for the one must hold for the other, or tests prove nothing."""
    return RealFiles(tmp_path / "folder") if request.param == "real" else CrashingFiles()


def test_what_is_written_is_read(files: Files) -> None:
    appender = files.create("b")
    appender.write(b"one ")
    appender.write(b"")
    appender.write(b"two")
    appender.sync()
    files.create("a").close()
    assert files.names() == ["a", "b"]
    reader = files.open("b")
    assert reader.size() == 7
    assert reader.read(0, 100) == b"one two"
    assert reader.read(4, 2) == b"tw"
    assert reader.read(7, 1) == b""
    appender.write(b"!")
    assert reader.read(6, 10) == b"o!"
    reader.close()
    reader.close()
    appender.close()
    appender.close()
    files.close()


def test_handles_stay_with_their_file(files: Files) -> None:
    """A renamed file is still the one that is being written, a removed one the one that is being read."""
    appender = files.create("old")
    appender.write(b"1")
    files.create("new").close()
    replaced = files.open("new")
    files.rename("old", "new")
    appender.write(b"2")
    appender.sync()
    assert files.names() == ["new"]
    reader = files.open("new")
    assert (reader.read(0, 9), replaced.read(0, 9)) == (b"12", b"")
    files.remove("new")
    files.sync_folder()
    assert files.names() == []
    assert reader.read(0, 9) == b"12"
    assert reader.size() == 2


def test_names_that_are_there_or_not(files: Files) -> None:
    files.create("there").close()
    with pytest.raises(FileExistsError):
        files.create("there")
    for attempt in (files.open, files.remove):
        with pytest.raises(FileNotFoundError):
            attempt("elsewhere")
    with pytest.raises(FileNotFoundError):
        files.rename("elsewhere", "there")
    assert files.free_bytes() > 0


def test_a_folder_is_made_and_keeps_to_files(tmp_path: Path) -> None:
    files = RealFiles(tmp_path / "a" / "b")
    (tmp_path / "a" / "b" / "folder").mkdir()
    (tmp_path / "a" / "b" / "link").symlink_to("elsewhere")
    files.create("file").close()
    assert files.names() == ["file"]
    assert (tmp_path / "a" / "b" / "file").stat().st_mode & 0o777 == 0o600
    assert repr(files) == str(tmp_path / "a" / "b")
    files.close()
    files.close()


def test_one_folder_is_held_once(tmp_path: Path) -> None:
    held = RealFiles(tmp_path)
    with pytest.raises(ResourceError, match="in use by another process") as caught:
        RealFiles(tmp_path)
    assert caught.value.retry
    held.close()
    RealFiles(tmp_path).close()


def test_a_hold_ends_with_the_process(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from bobbin.store.wal.files import RealFiles; "
        "RealFiles(Path(sys.argv[1])); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False).returncode == 9
    RealFiles(tmp_path).close()


def test_short_writes_and_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may take or give less than it was asked for."""
    write, read = os.write, os.pread
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data[:3])))
    monkeypatch.setattr(os, "pread", lambda descriptor, size, offset: read(descriptor, min(size, 2), offset))
    files = RealFiles(tmp_path)
    appender = files.create("file")
    appender.write(b"0123456789")
    appender.close()
    assert (tmp_path / "file").read_bytes() == b"0123456789"
    assert files.open("file").read(1, 8) == b"12345678"
    assert files.open("file").read(5, 100) == b"56789"
    monkeypatch.setattr(files_module, "_AT_ONCE", 4)
    files.create("other").write(b"0123456789")
    assert (tmp_path / "other").read_bytes() == b"0123456789"
    files.close()


def test_a_full_disk_is_an_error_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space")

    appender = RealFiles(tmp_path).create("file")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="no space"):
        appender.write(b"data")
    appender.close()


def test_syncing_reaches_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(files_module, "_sync_data", lambda _: synced.append("data"))
    monkeypatch.setattr(os, "fsync", lambda _: synced.append("folder"))
    files = RealFiles(tmp_path)
    appender = files.create("file")
    appender.write(b"data")
    appender.sync()
    files.sync_folder()
    assert synced == ["data", "folder"]
    appender.close()
    files.close()
