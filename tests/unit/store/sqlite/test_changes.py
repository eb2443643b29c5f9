"""The log of removals. What it promises is in the conformance kit; here is what only this store can get wrong."""

import pytest

from bobbin.store.base import Mark, StoreRecordId
from bobbin.store.sqlite import SqliteStore, changes
from bobbin.store.sqlite.changes import What
from tests.conformance.samples import plex
from tests.unit.store.sqlite.conftest import Database


def test_a_removal_and_its_line_are_one_commit(
    store: SqliteStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_records([plex(1)])

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(changes, "add", fail)
        with pytest.raises(ZeroDivisionError):
            store.remove(plex(1).hash, reason="test")
    assert store.have(plex(1).hash)
    assert store.mark() == Mark(StoreRecordId(1), 0)
    store.remove(plex(1).hash, reason="test")
    with database() as connection:
        assert connection.execute("SELECT id, what FROM change").fetchall() == [(1, What.REMOVED)]


def test_a_lifted_refusal_that_was_none_leaves_no_line(store: SqliteStore) -> None:
    assert not store.lift(plex(1).hash)
    assert store.mark() == Mark()


def test_only_what_is_new_is_read(store: SqliteStore, database: Database) -> None:
    store.put_records([plex(1)])
    store.remove(plex(1).hash, reason="test")
    mark = store.mark()
    with database() as connection:
        connection.execute("UPDATE change SET what = 9")
        assert not changes.since(connection, mark)
        connection.execute("UPDATE change SET what = 1")
