"""Durable writing, locks that die with their holder, and what a lake asks of a local folder."""

import multiprocessing
import os
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from bobbin.errors import UsageError
from bobbin.store.lake import files as files_module
from bobbin.store.lake.errors import LakeError
from bobbin.store.lake.files import LocalFiles, is_address, is_elsewhere, local_files, local_path, read_or_none


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    (tmp_path / "lake").mkdir()
    return LocalFiles(tmp_path / "lake")


def test_a_new_file_is_whole_and_is_not_written_twice(files: LocalFiles) -> None:
    files.write_new("a/b/c.json", b"one")
    with pytest.raises(FileExistsError):
        files.write_new("a/b/c.json", b"two")
    assert files.read("a/b/c.json") == b"one"
    assert files.list("a/b") == ["c.json"]


def test_a_file_is_replaced_at_one_moment(files: LocalFiles) -> None:
    files.replace("a/c.json", b"one")
    files.replace("a/c.json", b"two")
    assert files.read("a/c.json") == b"two"
    assert files.list("a") == ["c.json"]


def test_a_failed_replacement_leaves_what_was_there(files: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    files.replace("c.json", b"one")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        files.replace("c.json", b"two")
    monkeypatch.undo()
    assert files.read("c.json") == b"one"
    assert files.list("") == ["c.json"]


def test_without_hard_links_a_new_file_is_still_not_written_over(
    files: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    files.write_new("c.json", b"one")
    with pytest.raises(FileExistsError):
        files.write_new("c.json", b"two")
    assert files.read("c.json") == b"one"
    assert files.list("") == ["c.json"]


def test_names_are_sorted_and_folders_marked(files: LocalFiles) -> None:
    files.write_new("b", b"")
    files.write_new("a/x", b"")
    assert files.list("") == ["a/", "b"]
    assert files.list("nowhere") == []
    assert files.list("b") == []


def test_deleting_takes_a_folder_with_everything_and_nothing_quietly(files: LocalFiles) -> None:
    files.write_new("a/b/c", b"")
    files.delete("a")
    files.delete("a")
    assert not files.exists("a")
    files.write_new("d", b"")
    files.delete("d")
    assert files.list("") == []


def test_deleting_does_not_follow_a_link_out_of_the_lake(files: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_bytes(b"")
    files.make_folder("a")
    (tmp_path / "lake" / "a" / "link").symlink_to(tmp_path / "outside")
    files.delete("a")
    assert (tmp_path / "outside" / "kept").exists()


def test_sizes_ages_and_streams(files: LocalFiles) -> None:
    files.write_new("a", b"12345")
    assert files.size("a") == 5
    assert 0 <= files.age_seconds("a") < 3600
    with files.open("a") as stream:
        stream.seek(3)
        assert stream.read() == b"45"
    with files.create("b") as stream:
        stream.write(b"new")
    files.sync(["a", "b"])
    assert files.read("b") == b"new"
    for ask in (files.size, files.read, files.open):
        with pytest.raises(FileNotFoundError):
            ask("nowhere")


def test_the_name_for_spark_is_absolute_and_not_escaped(tmp_path: Path) -> None:
    assert LocalFiles(tmp_path / "with space%").uri("a/b") == f"file://{tmp_path}/with space%/a/b"


def test_a_location_is_a_path_or_a_file_address(tmp_path: Path) -> None:
    assert repr(local_files(tmp_path)) == repr(local_files(str(tmp_path))) == repr(local_files(f"file://{tmp_path}"))
    for elsewhere in ("hdfs://name/lake", "s3a://bucket/lake", "file://other.example/lake"):
        with pytest.raises(UsageError, match="folder of this machine"):
            local_files(elsewhere)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("notes:1.bundle", False),
        ("lake:prod", False),
        ("a/b://c", False),
        ("file:", False),
        ("hdfs://node/x", True),
        ("s3a://bucket/x", True),
        ("file:///x", True),
        ("file:/x", True),
    ],
)
def test_an_address_has_a_scheme_and_two_slashes(name: str, expected: bool) -> None:  # noqa: FBT001
    assert is_address(name) is expected


def test_a_name_with_a_colon_is_a_folder(tmp_path: Path) -> None:
    assert not is_elsewhere("lake:prod")
    assert not is_elsewhere("file:///lake")
    assert is_elsewhere("hdfs://node/lake")
    assert repr(local_files("lake:prod")) == str(Path("lake:prod").absolute())
    assert local_path(tmp_path.as_uri()) == str(tmp_path)
    assert local_path("file:///a%20b") == "/a b"
    for name in ("file:///a?b", "file:///a#b"):
        with pytest.raises(UsageError, match="no file or folder of this machine"):
            local_path(name)


def test_what_is_not_there_is_none_and_what_cannot_be_read_an_error(files: LocalFiles) -> None:
    assert read_or_none(files, "nowhere/at/all") is None
    files.make_folder("folder")
    with pytest.raises(LakeError):
        read_or_none(files, "folder")


def test_the_lock_is_one_for_all(files: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_new(files_module.LOCK, b"{}")
    monkeypatch.setattr(files_module, "LOCK_WAIT_SECONDS_MAX", 0.0)
    with files.lock():
        with pytest.raises(LakeError, match="too long") as caught, files.lock():
            pytest.fail("it is held")
        assert caught.value.retry
    with files.lock():
        pass


def test_a_claim_is_held_until_it_is_let_go(files: LocalFiles) -> None:
    claim = files.claim("runs/a.running", b"content")
    assert files.is_claimed("runs/a.running")
    with pytest.raises(FileExistsError):
        files.claim("runs/a.running", b"")
    claim.release()
    claim.release()
    assert not files.is_claimed("runs/a.running")
    assert files.read("runs/a.running") == b"content"
    assert not files.is_claimed("runs/b.running")


def _hold(folder: Path, ready: Connection) -> None:
    claim = LocalFiles(folder).claim("runs/a.running", b"")
    ready.send(b"held")
    ready.recv()
    claim.release()


def test_a_claim_ends_with_the_process_that_held_it(files: LocalFiles, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_hold, args=(tmp_path / "lake", theirs))
    process.start()
    try:
        assert ours.recv() == b"held"
        assert files.is_claimed("runs/a.running")
        assert process.pid is not None
        os.kill(process.pid, 9)
    finally:
        process.kill()
        process.join()
    assert not files.is_claimed("runs/a.running")
