"""Listings cost what they answer."""

import apsw
import pytest

from bobbin.errors import UsageError
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.store.sqlite import SqliteStore, listing
from bobbin.tangles.plex import plex_of
from tests.conformance.samples import plex
from tests.support.tangle_messages import Author
from tests.unit.store.sqlite.conftest import Database
from tests.unit.store.sqlite.plans import scanned_tables, steps
from tests.unit.store.sqlite.tangle_batches import put

PLACES: list[Coordinate | Prefix] = [
    Coordinate(group="u", app="ding", name="wanted/3"),
    Prefix(group="u", app="ding", name="wanted/"),
    Prefix(group="small"),
]


def test_every_statement_walks_along_an_index(store: SqliteStore, database: Database) -> None:
    store.put_records([plex()])
    with database() as connection:
        assert scanned_tables(connection, listing.AT_NAME, (1, "n")) == set()
        assert scanned_tables(connection, listing.IN_RANGE, (1, "n/", b"n0")) == set()
        assert scanned_tables(connection, listing.FROM_NAME, (1, "n")) == set()
        assert scanned_tables(connection, listing.PLACE, ("g", "a")) == set()
        assert scanned_tables(connection, listing.PLACES, ("g",)) == set()


def _cost(database: Database, place: Coordinate | Prefix, *, tips: bool) -> tuple[int, int]:
    """How many lines a listing has, and how many steps it takes."""

    def walk(connection: apsw.Connection) -> list[object]:
        return list(listing.walk(connection, place, tips=tips, limit=None))

    with database() as connection:
        lines = len(walk(connection))
        return lines, steps(connection, lambda: walk(connection))


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_the_cost_does_not_grow_with_the_store(
    store: SqliteStore, database: Database, place: Coordinate | Prefix
) -> None:
    wanted = [plex(name=f"wanted/{number}", tai=number) for number in range(20)]
    store.put_records([*wanted, *(plex(number, group="small") for number in range(20))])
    small = _cost(database, place, tips=False), _cost(database, place, tips=True)
    store.put_records([plex(name=f"{word}/{number}") for number in range(1500) for word in ("aa", "zz")])
    store.put_records([plex(app=f"app{number}") for number in range(500)])
    large = _cost(database, place, tips=False), _cost(database, place, tips=True)
    for (lines_before, steps_before), (lines_after, steps_after) in zip(small, large, strict=True):
        assert lines_before == lines_after > 0
        assert steps_after <= 1.1 * steps_before + 50


def test_tips_jump_over_old_versions(store: SqliteStore, database: Database) -> None:
    place = Prefix(group="u", app="ding", name="n/")
    store.put_records([plex(name=f"n/{name}", tai=tai) for name in range(5) for tai in range(20)])
    lines, few = _cost(database, place, tips=True)
    store.put_records([plex(name=f"n/{name}", tai=tai) for name in range(5) for tai in range(20, 400)])
    lines_after, many = _cost(database, place, tips=True)
    assert lines == lines_after == 5
    assert many <= 1.1 * few + 50


def test_a_limit_ends_the_walk_early(store: SqliteStore, database: Database) -> None:
    store.put_records([plex(name=f"n/{number:04}") for number in range(1000)])
    with database() as connection:
        place = Prefix(group="u", app="ding")
        assert steps(connection, lambda: listing.walk(connection, place, tips=False, limit=5)) < 1000


def test_a_name_without_an_app_is_refused(store: SqliteStore) -> None:
    with pytest.raises(UsageError, match="no app"):
        list(store.list(Prefix(group="u", name="links/")))


def test_the_record_of_a_message_comes_first_at_the_cost_of_one_look(store: SqliteStore, database: Database) -> None:
    alice = Author("alice")
    feed = alice.feed(30)
    put(store, alice.account, *feed)
    place = Prefix(group=alice.account.id, app="pzp")
    lines, few = _cost(database, place, tips=True)
    assert lines == len(feed) + 1
    name = f"post/{feed[3].id}"
    later = [plex(group=alice.account.id, app="pzp", name=name, tai=1000 + number) for number in range(400)]
    store.put_records(later)
    lines_after, many = _cost(database, place, tips=True)
    assert lines_after == lines
    assert many <= 1.1 * few + 500
    genuine = plex_of(feed[3])
    assert genuine is not None
    at = Coordinate(group=alice.account.id, app="pzp", name=name)
    rows = [listed.hash for listed in store.list(at)]
    assert rows[0] == genuine.hash
    assert sorted(rows[1:]) == sorted(one.hash for one in later)
    assert [listed.hash for listed in store.list(at, tips=True)] == [genuine.hash]
    with database() as connection:
        assert scanned_tables(connection, listing.OF_MESSAGE, ("x", 1, "n")) == set()
