"""Every kind of damage to tangles is found."""

from pathlib import Path

import pytest

from bobbin.store.base import StoreRecordId
from bobbin.store.sqlite import SqliteStore, open_store
from bobbin.store.tangles import Level
from bobbin.tangles.plex import plex_of
from tests.support.tangle_messages import Author
from tests.unit.store.sqlite.conftest import NOW, Database
from tests.unit.store.sqlite.tangle_batches import put, write

ALICE = Author("alice")
MOOT, FIRST, SECOND, THIRD = ALICE.feed(3)
OTHER = Author("bob").account

PLANTED: dict[str, tuple[str, str, str]] = {
    "bytes": ("UPDATE message SET raw = CAST('{}' AS BLOB) WHERE number = 3", "message 3", "not a valid message"),
    "another message's bytes": (
        "UPDATE message SET raw = (SELECT raw FROM message WHERE number = 2) WHERE number = 3",
        "message 3",
        "the kept bytes are the message",
    ),
    "data": (
        "UPDATE message SET raw = CAST(replace(CAST(raw AS TEXT), 'post 0', 'post 9') AS BLOB) WHERE number = 3",
        "message 3",
        "not a valid message: dataHash mismatch",
    ),
    "signature": (
        'UPDATE message SET raw = CAST(replace(CAST(raw AS TEXT), \'"sig":"\', \'"sig":"2\') AS BLOB) WHERE number = 3',
        "message 3",
        "not a valid message: sig",
    ),
    "erased": ("UPDATE message SET erased = 1 WHERE number = 3", "message 3", "whether its data is here"),
    "no level": ("UPDATE message SET level = 9 WHERE number = 3", "message 3", "acceptance level 9"),
    "level": ("UPDATE message SET level = 2 WHERE number = 5", "message 5", "not the highest one of its places"),
    "provisional": (
        "UPDATE message SET provisional = 1 WHERE number = 3",
        "message 3",
        "still counts as one that waits",
    ),
    "depth": ("UPDATE member SET depth = 9 WHERE message = 3", "message 3", "its places are not those"),
    "missing place": ("DELETE FROM member WHERE message = 3", "message 3", "its places are not those"),
    "place of nobody": ("UPDATE member SET message = 99 WHERE message = 3", "member", "message 99, which is not kept"),
    "place nowhere": ("UPDATE member SET tangle = 99 WHERE message = 3", "tangle", "the tangle 99"),
    "missing record": (
        "UPDATE message SET record = NULL WHERE number = 3",
        "message 3",
        "it is not stored as a record",
    ),
    "record that is gone": ("UPDATE message SET record = 99 WHERE number = 3", "message 3", "record 99 is not stored"),
    "another record": ("UPDATE message SET record = 1 WHERE number = 3", "message 3", "its record 1 is P."),
    "record of a marked one": ("UPDATE message SET record = 3 WHERE number = 5", "message 5", "must not be"),
    "ghosts": ("UPDATE tangle SET ghosts = '[[1]]'", "tangle", "cannot be read"),
    "lacking": ("UPDATE lacking SET message = 99", "lacking", "message 99"),
    "waiting for nothing": ("INSERT INTO waiting VALUES (99, 'x')", "waiting", "record 99 waits, and is not stored"),
    "waiting though kept": ("INSERT INTO waiting VALUES (3, 'x')", "waiting", "record 3 waits, and is no message"),
    "count": ("UPDATE tangle_tally SET messages = 99", "tally of tangles", "messages is 99, counted are 5"),
    "bytes counted": ("UPDATE tangle_tally SET message_bytes = 1", "tally of tangles", "message_bytes is 1"),
    "seen": ("UPDATE tangle_tally SET seen = 99", "tally of tangles", "up to 99, which was never given"),
    "no tally": ("DELETE FROM tangle_tally", "tangles", "tally of tangles is missing"),
}


@pytest.fixture
def filled(store: SqliteStore) -> SqliteStore:
    put(store, ALICE.account, MOOT, FIRST, SECOND.erased())
    put(store, THIRD, level=Level.INTEROP)
    plex = plex_of(OTHER)
    assert plex is not None
    store.put_records([plex])
    write(store, lacking={THIRD.id: {SECOND.id}}, waiting={StoreRecordId(4): "x"}, goals={MOOT.id: "all"})
    return store


def test_what_is_in_order_is_in_order(filled: SqliteStore) -> None:
    assert list(filled.check()) == []


@pytest.mark.parametrize("name", PLANTED)
def test_damage_is_found(filled: SqliteStore, database: Database, path: Path, name: str) -> None:
    statement, where, what = PLANTED[name]
    filled.close()
    with database() as connection:
        connection.execute(statement)
        assert connection.total_changes() > 0
    with open_store(path, now=lambda: NOW) as damaged:
        found = list(damaged.check())
    assert any(finding.where.startswith(where) and what in finding.what for finding in found), found
