"""Which index answers which pattern. That the answers are right is the conformance kit's part."""

import apsw
import pytest

from bobbin.facts.relations import Pattern
from bobbin.records import b64a, tai
from bobbin.records.record import seal
from bobbin.store.sqlite import SqliteStore, facts
from tests.conformance.samples import EMPTY_BLOB, KEYS, plex, sealed
from tests.unit.store.sqlite.conftest import Database
from tests.unit.store.sqlite.plans import scanned_tables, steps

INDEXED: dict[str, tuple[int | str | bytes, ...]] = {
    "HAVE_OF": (1,),
    "WIDE_OF": (1,),
    "HEADERS_OF": (1,),
    "HEADERS_BY_NAME": ("X",),
    "HEADERS_BY_NAME_AND_VALUE": ("X", "v"),
    "HEADERS_BY_VALUE": ("v",),
    "LINKS_OF": (1,),
    "LINKS_BY_TARGET": ("t",),
    "INNER_OF": (2, 1),
    "INNER_BY_KEY": (2, 1, b""),
}


@pytest.mark.parametrize("statement", INDEXED)
def test_bound_statements_do_not_scan(store: SqliteStore, database: Database, statement: str) -> None:
    store.put_records([plex()])
    with database() as connection:
        assert scanned_tables(connection, getattr(facts, statement), INDEXED[statement]) == set()


@pytest.mark.parametrize("name", ["Group", "App", "Name", "TAI", "Signed-By"])
def test_bound_fields_do_not_scan(store: SqliteStore, database: Database, name: str) -> None:
    store.put_records([plex()])
    with database() as connection:
        scanned = scanned_tables(connection, facts.COLUMNS[name].bound, (1 if name == "TAI" else "v",))
        # A name is only indexed within its place: the few places are walked through.
        assert scanned == ({"p"} if name == "Name" else set())


BOUND: dict[str, tuple[str, Pattern]] = {
    "P of Have": ("Have", (plex(7).hash,)),
    "P of Field": ("Field", (plex(7).hash, None, None, None)),
    "Group": ("Field", (None, "Group", None, "rare")),
    "App": ("Field", (None, "App", None, "rare")),
    "Name": ("Field", (None, "Name", None, "links/7")),
    "TAI": ("Field", (None, "TAI", None, tai.render(77))),
    "Signed-By": ("Field", (None, "Signed-By", None, KEYS[1].verifier)),
    "extra header": ("Field", (None, "X", None, "rare")),
    "extra header value": ("Field", (plex(7).hash, None, None, "rare")),
    "link target": ("RecordLink", (None, None, None, None, EMPTY_BLOB.hash)),
    "inner Plex": ("PlexHash", (None, sealed(7, signer=1).plex_hash)),
    "inner Blob": ("BlobHash", (None, plex(7).blob_hash)),
}


@pytest.mark.parametrize("case", BOUND)
def test_the_cost_of_a_bound_pattern_does_not_grow_with_the_store(
    store: SqliteStore, database: Database, case: str
) -> None:
    plexes = [
        plex(7),
        plex(8, group="rare", app="rare", tai=77, extras=[("X", "rare"), ("Y+Link", f"to {EMPTY_BLOB.hash}")]),
    ]
    store.put_records([*plexes, sealed(7, signer=1), sealed(9)])
    predicate, pattern = BOUND[case]
    found = set(store.facts.match(predicate, pattern))
    assert found or case == "extra header value"
    with database() as connection:
        few = steps(connection, lambda: facts.matching(connection, predicate, pattern))
    common = [("X", "common"), ("Z+Link", f"to {plex(1).hash}")]
    store.put_records(
        [plex(number, name=f"other/{number}", data=b"other %d" % number, extras=common) for number in range(1000)]
    )
    assert set(store.facts.match(predicate, pattern)) == found
    with database() as connection:
        many = steps(connection, lambda: facts.matching(connection, predicate, pattern))
    assert many <= few + 100


def test_enumerating_signatures_does_not_load_the_data(store: SqliteStore, database: Database) -> None:
    data = bytes(4_000_000)
    record = seal(plex(1, data=data), KEYS[0], auxiliary=b"\x01" * 32)
    store.put_records([record])
    with database() as connection:
        found = list(facts.matching(connection, "Field", (None, "Signature", None, None)))
        pages_read, _ = connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)
    assert found == [(record.hash, "Signature", "0", b64a.encode(record.signature))]
    assert pages_read < 10, "the data has 245 pages"


def test_header_names_are_found_by_jumps(store: SqliteStore, database: Database) -> None:
    store.put_records([plex(1, extras=[("A", "x"), ("B", "y"), ("C", "x")])])
    store.put_records([plex(number, extras=[("A", f"v{number}")]) for number in range(10, 500)])
    pattern: Pattern = (None, None, None, "x")
    with database() as connection:
        found = list(facts.matching(connection, "Field", pattern))
        assert {values[1] for values in found} == {"A", "C"}
        assert steps(connection, lambda: connection.execute(facts.HEADERS_BY_VALUE, ("x",))) < 500
