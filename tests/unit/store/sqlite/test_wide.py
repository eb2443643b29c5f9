"""One pass over the wide rows says what the fields say one by one."""

from itertools import combinations

import pytest

from bobbin.facts.relations import FIELD, HAVE
from bobbin.store.base import DamagedStore
from bobbin.store.sqlite import SqliteStore, wide
from tests.conformance.samples import EMPTY_BLOB, EXTRAS, plex, sealed
from tests.unit.store.sqlite.conftest import Database


def test_wide_rows_are_the_fields(store: SqliteStore) -> None:
    store.put_records([plex(1, extras=EXTRAS), sealed(2, tai=5), EMPTY_BLOB])
    with store.snapshot() as now:
        assert now.facts.wide_fields() == {"App", "Data-Length", "Group", "Name", "Signed-By", "TAI", "Type"}
        for names in (*combinations(sorted(now.facts.wide_fields()), 2), tuple(wide.COLUMNS), ()):
            rows = list(now.facts.wide(names))
            assert {(row[0],) for row in rows} == set(now.facts.enumerate(HAVE))
            for place, name in enumerate(names, 1):
                told = {(row[0], name, "0", row[place]) for row in rows if row[place] is not None}
                assert told == set(now.facts.match(FIELD, (None, name, None, None)))


def test_a_statement_asks_for_nothing_else() -> None:
    assert wide.statement("f.id", ["Name"]).split() == ["SELECT", "f.id,", "f.name", "FROM", "fact", "f"]
    assert "text" not in wide.statement("f.id", ["App", "Group"])
    assert wide.statement("f.id", ["App", "Group"]).count("JOIN") == 1


def test_a_kind_that_is_none_is_damage(store: SqliteStore, database: Database) -> None:
    store.put_records([plex(1)])
    with database() as connection:
        connection.execute("UPDATE fact SET kind = 9")
    with store.snapshot() as now, pytest.raises(DamagedStore):
        list(now.facts.wide(("Type",)))


def test_many_names_are_spelled_as_each_one_is() -> None:
    records = [EMPTY_BLOB, plex(1), sealed(2), plex(3)]
    kinds, digests = [record.kind for record in records], [record.digest for record in records]
    assert wide.hash_texts(kinds, digests) == [record.hash for record in records]
    assert wide.hash_texts([], []) == []
    with pytest.raises(DamagedStore):
        wide.hash_texts([9], digests[:1])
    with pytest.raises(DamagedStore):
        wide.hash_texts(kinds[:2], [digests[0], None])  # type: ignore[list-item]
