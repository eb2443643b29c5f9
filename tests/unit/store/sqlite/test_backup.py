"""Backups, beyond what the conformance kit asks of them."""

from pathlib import Path

import pytest

from bobbin.errors import UsageError
from bobbin.store.base import StoreError
from bobbin.store.sqlite import SqliteStore, open_store
from tests.conformance.samples import plex


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_writes_during_a_backup_do_not_reach_it_and_do_not_start_it_again(store: SqliteStore, path: Path) -> None:
    store.put_records([plex(number, data=bytes(50_000)) for number in range(200)])
    target = path.with_name("copy.db")
    done: list[int] = []

    def write_meanwhile(pages: int, _: int) -> None:
        done.append(pages)
        store.put_records([plex(1000 + len(done))])

    store.backup(target, progress=write_meanwhile)
    assert len(done) > 2
    assert done == sorted(done)
    assert store.high_water() == 200 + len(done)
    with open_store(target, now=lambda: 0) as copy:
        assert copy.high_water() == 200
        assert list(copy.check()) == []


def test_one_file_appears_and_nothing_else(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    store.put_records([plex(1)])
    before = names(tmp_path)
    store.backup(path.with_name("copy.db"))
    assert names(tmp_path) == before | {"copy.db"}


def test_a_backup_that_fails_leaves_nothing(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    store.put_records([plex(1)])
    before = names(tmp_path)

    def fail(_: int, __: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.backup(path.with_name("copy.db"), progress=fail)
    assert names(tmp_path) == before


def test_the_target_must_be_free_and_its_folder_exist(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists already"):
        store.backup(path)
    with pytest.raises(UsageError, match="does not exist"):
        store.backup(tmp_path / "no" / "copy.db")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        store.backup(tmp_path / "folder")


def test_a_target_that_cannot_be_made_is_a_store_error(store: SqliteStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        store.backup(tmp_path / ("x" * 250))


def test_a_store_opened_for_reading_can_be_backed_up(store: SqliteStore, path: Path) -> None:
    store.put_records([plex(1)])
    target = path.with_name("copy.db")
    with open_store(path, now=lambda: 0, read_only=True) as reader:
        reader.backup(target)
    with open_store(target, now=lambda: 0) as copy:
        assert copy.have(plex(1).hash)
