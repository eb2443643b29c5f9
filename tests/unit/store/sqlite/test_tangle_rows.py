"""The rows of tangles."""

import apsw
import pytest

from bobbin.store.base import DamagedStore, StoreRecordId
from bobbin.store.sqlite import SqliteStore, migrations, tangle_rows
from bobbin.store.tangles import Level, StoredPlace
from tests.support.tangle_messages import Author
from tests.unit.store.sqlite.conftest import Database
from tests.unit.store.sqlite.tangle_batches import kept, put, write

ALICE = Author("alice")
MOOT, FIRST, SECOND = ALICE.feed(2)


@pytest.fixture
def connection() -> apsw.Connection:
    opened = apsw.Connection(":memory:")
    migrations.migrate(opened)
    return opened


def test_a_tally_that_is_gone_is_damage(connection: apsw.Connection) -> None:
    assert tangle_rows.read_tally(connection).version == 0
    connection.execute("DELETE FROM tangle_tally")
    with pytest.raises(DamagedStore, match="tally of tangles is missing"):
        tangle_rows.read_tally(connection)


def test_the_tally_comes_back_as_it_was_written(connection: apsw.Connection) -> None:
    tally = tangle_rows.TangleTally(1, 2, 3, 4, 5, 6, 7, StoreRecordId(8))
    tangle_rows.write_tally(connection, tally)
    assert tangle_rows.read_tally(connection) == tally
    state = tangle_rows.state_of(connection, tally)
    assert (state.version, state.rewrites, state.waiting, state.seen, state.messages_highest) == (1, 2, 7, 8, 0)


def test_a_level_that_is_none_is_damage(store: SqliteStore, database: Database) -> None:
    put(store, MOOT, FIRST)
    with database() as connection:
        connection.execute("UPDATE message SET level = 3")
        with pytest.raises(DamagedStore, match="acceptance level 3"):
            tangle_rows.find(connection, [FIRST.id])
        with pytest.raises(DamagedStore, match="acceptance level 3"):
            list(tangle_rows.members(connection, MOOT.id))


def test_what_is_lacking_leads_to_those_who_lack_it(store: SqliteStore) -> None:
    put(store, MOOT)
    put(store, FIRST, level=Level.INTEROP)
    put(store, ALICE.account, level=Level.INTEROP)
    write(store, lacking={FIRST.id: {"x", "y"}, ALICE.account.id: {"y"}})
    with store.tangles.reading() as view:
        assert view.lacking(["x"]) == {FIRST.id: {MOOT.id}}
        assert view.lacking(["y", "z"]) == {FIRST.id: {MOOT.id}, ALICE.account.id: {ALICE.account.id}}
        assert view.lacking([]) == {}
    write(store, lacking={FIRST.id: {"z"}})
    with store.tangles.reading() as view:
        assert view.lacking(["x"]) == {}
        assert view.lacking(["z"]) == {FIRST.id: {MOOT.id}}
    write(store, deleted=[FIRST.id])
    with store.tangles.reading() as view:
        assert view.lacking(["z"]) == {}


def test_places_and_names(store: SqliteStore) -> None:
    put(store, MOOT, FIRST)
    with store.tangles.reading() as view:
        number = kept(store, [FIRST.id])[FIRST.id].number
        assert view.places(number) == [StoredPlace(MOOT.id, 1, Level.MODERN)]
        assert view.named([MOOT.id, FIRST.id, "\ud800"]) == {MOOT.id}
        assert view.named([]) == frozenset()
        assert view.beginning(MOOT.id[:5], 3) == [MOOT.id]
        assert view.beginning(FIRST.id[:5], 3) == [FIRST.id]
        assert view.beginning("", 3) == []


def test_looking_for_records_that_may_be_messages_walks_no_table(store: SqliteStore, database: Database) -> None:
    put(store, MOOT, FIRST)
    with database() as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {tangle_rows.PLEXES}", (0, 9, "pzp"))]
    assert any("message_by_record" in step for step in plan), plan
    assert not any(step.startswith("SCAN") for step in plan), plan
