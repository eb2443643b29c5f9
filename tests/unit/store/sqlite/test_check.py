"""Every kind of damage is found."""

from itertools import islice
from pathlib import Path
from random import Random

import apsw
import pytest

from bobbin.errors import BobbinError
from bobbin.facts.relations import ARITY
from bobbin.store.base import Finding
from bobbin.store.sqlite import SqliteStore, open_store
from tests.conformance.samples import EMPTY_BLOB, EXTRAS, plex, sealed
from tests.unit.store.sqlite.conftest import NOW, Database

DATA = b"data that is easy to find in the file"


def fill(store: SqliteStore) -> None:
    store.put_records([sealed(1, extras=EXTRAS[:3]), plex(2, extras=EXTRAS), plex(3, data=DATA), EMPTY_BLOB])
    store.put_many([b"junk"])
    store.remove(plex(4).hash, reason="test")


def findings(path: Path) -> list[Finding]:
    with open_store(path, now=lambda: NOW) as store:
        return list(store.check())


PLANTED: dict[str, tuple[str, str, str]] = {
    "bytes": ("UPDATE record SET raw = CAST(raw || x'00' AS BLOB) WHERE id = 3", "record 3", "not a valid record"),
    "empty bytes": ("UPDATE record SET raw = x'' WHERE id = 3", "record 3", "not a valid record"),
    "key": ("UPDATE record SET key = key + 1 WHERE id = 2", "record 2", "key"),
    "another record's bytes": (
        "UPDATE record SET raw = (SELECT raw FROM record WHERE id = 2) WHERE id = 3",
        "record 3",
        "belongs to another record",
    ),
    "missing record": ("DELETE FROM record WHERE id = 2", "fact", "record 2, which is not stored"),
    "missing row of facts": ("DELETE FROM fact WHERE id = 1", "record 1", "row of facts is missing"),
    "kind": ("UPDATE fact SET kind = 2 WHERE id = 4", "record 4", "belongs to another record"),
    "digest": ("UPDATE fact SET digest = zeroblob(32) WHERE id = 4", "record 4", "belongs to another record"),
    "place": ("UPDATE place SET group_path = 'v'", "record 1", "'Group', '0', 'u') is missing"),
    "missing place": ("DELETE FROM place", "record 2", "'Group', '0', 'u') is missing"),
    "name": ("UPDATE fact SET name = 'x' WHERE id = 2", "record 2", "'Name', '0', 'x') is not what"),
    "time": ("UPDATE fact SET tai = tai + 1 WHERE id = 2", "record 2", "'TAI'"),
    "time beyond its range": ("UPDATE fact SET tai = 9223372036854775807 WHERE id = 2", "record 2", "beyond the end"),
    "data length": ("UPDATE fact SET data_length = 7 WHERE id = 4", "record 4", "'Data-Length', '0', '7') is not"),
    "signer": ("UPDATE fact SET signer = NULL WHERE id = 1", "record 1", "'Signed-By'"),
    "inner record": ("UPDATE fact SET inner = zeroblob(32) WHERE id = 3", "record 3", "another inner record"),
    "inner key": ("UPDATE fact SET inner_key = 5 WHERE id = 3", "record 3", "another inner record"),
    "inner record of a Blob": ("UPDATE fact SET inner_key = 5 WHERE id = 4", "record 4", "another inner record"),
    "missing header": ("DELETE FROM header WHERE record = 2 AND position = 1", "record 2", "is missing"),
    "added header": ("INSERT INTO header VALUES (3, 1, 0, 1)", "record 3", "is not what the record says"),
    "header position": ("UPDATE header SET position = 9 WHERE position = 1", "record 1", "'9'"),
    "header text": ("UPDATE text SET value = value || '!'", "record 2", "!"),
    "missing text": ("DELETE FROM text", "record 2", "is missing"),
    "missing link": ("DELETE FROM link WHERE record = 2", "record 2", "RecordLink"),
    "link target": ("UPDATE link SET target = data", "record 2", "RecordLink"),
    "stray header": ("INSERT INTO header VALUES (99, 1, 0, 1)", "header", "record 99, which is not stored"),
    "stray link": ("INSERT INTO link VALUES (99, 1, 0, 1, 1)", "link", "record 99, which is not stored"),
    "stored twice": (
        "INSERT INTO record SELECT 9, key, raw FROM record WHERE id = 2",
        "record 9",
        "stored already, as record 2",
    ),
    "count of Blobs": ("UPDATE tally SET blobs = 7", "tally", "blobs is 7, counted are 1"),
    "count of Plexes": ("UPDATE tally SET plexes = 7", "tally", "plexes is 7, counted are 2"),
    "count of Seals": ("UPDATE tally SET seals = 7", "tally", "seals is 7, counted are 1"),
    "bytes of records": ("UPDATE tally SET record_bytes = 0", "tally", "record_bytes is 0"),
    "count of quarantine": ("UPDATE tally SET quarantined = 0", "tally", "quarantined is 0, counted are 1"),
    "quarantined bytes": ("UPDATE quarantine SET raw = x'00000000'", "quarantine 1", "not those that were put there"),
    "bytes of quarantine": ("UPDATE tally SET quarantine_bytes = 0", "tally", "quarantine_bytes is 0, counted are 4"),
    "count of refusals": ("UPDATE tally SET refused = 0", "tally", "refused is 0, counted are 1"),
    "missing tally": ("DELETE FROM tally", "tally", "missing"),
    "highest number": ("UPDATE sqlite_sequence SET seq = 2 WHERE name = 'record'", "numbers", "highest number given"),
    "lost sequence": ("DELETE FROM sqlite_sequence", "numbers", "highest number given is 0"),
    "number below one": ("UPDATE record SET id = -1 WHERE id = 4", "numbers", "below 1"),
    "unknown change": ("UPDATE change SET what = 9", "change 1", "reads like this"),
    "change of another kind": ("UPDATE change SET kind = 9", "change 1", "reads like this"),
    "digest of a change": ("UPDATE change SET digest = x'00'", "change 1", "not 1"),
    "number of a change": ("UPDATE change SET id = 9", "change 9", "never given"),
    "lifted, it says": ("UPDATE change SET what = 3", "change 1", "the last word is lifted"),
    "refused, it says": ("DELETE FROM refusal", "change 1", "the last word is refused"),
    "refused and stored": (
        f"UPDATE refusal SET hash = '{plex(3, data=DATA).hash}', key = (SELECT key FROM record WHERE id = 3)",
        "refusal 1",
        "stored, as record 3",
    ),
    "refusal's key": ("UPDATE refusal SET key = 0", "refusal 1", "key"),
    "refusal's name": ("UPDATE refusal SET hash = 'nonsense'", "refusal 1", "not a record hash"),
    "missing index": ("DROP INDEX fact_by_tai", "schema", "fact_by_tai is missing"),
    "added trigger": (
        "CREATE TRIGGER planted AFTER INSERT ON record BEGIN SELECT 1; END",
        "schema",
        "trigger planted does not belong",
    ),
}


@pytest.mark.parametrize("damage", PLANTED)
def test_planted_damage_is_found(path: Path, database: Database, damage: str) -> None:
    statements, where, what = PLANTED[damage]
    with open_store(path, create=True, now=lambda: NOW) as store:
        fill(store)
        assert list(store.check()) == []
    with database() as connection:
        connection.execute(statements)
    found = findings(path)
    assert any(finding.where.startswith(where) and what in finding.what for finding in found), found


def test_a_flipped_bit_in_the_data_is_found(path: Path) -> None:
    with open_store(path, create=True, now=lambda: NOW) as store:
        fill(store)
    content = bytearray(path.read_bytes())
    content[content.index(DATA) + 5] ^= 1
    path.write_bytes(bytes(content))
    (finding,) = findings(path)
    assert finding.where == "record 3"
    assert "blob-digest" in finding.what


def test_an_index_that_lost_an_entry_is_found(path: Path, database: Database) -> None:
    with open_store(path, create=True, now=lambda: NOW) as store:
        fill(store)
    with database() as connection:
        # Without its index, a row goes; with the index back, an entry points nowhere.
        connection.execute("PRAGMA writable_schema=ON")
        row = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'fact_by_tai'").get
        connection.execute("DELETE FROM sqlite_schema WHERE name = 'fact_by_tai'")
        connection.execute("PRAGMA writable_schema=RESET")
        connection.execute("UPDATE fact SET tai = tai + 1 WHERE id = 2")
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "INSERT INTO sqlite_schema VALUES ('index', 'fact_by_tai', 'fact', ?, "
            "'CREATE INDEX fact_by_tai ON fact(tai) WHERE tai IS NOT NULL')",
            (row,),
        )
    assert any(finding.where == "file" and "fact_by_tai" in finding.what for finding in findings(path))


def _said(store: SqliteStore) -> list[object]:
    return [
        list(store.scan()),
        [sorted(store.facts.enumerate(predicate)) for predicate in ARITY],
        [list(store.list(record.coordinate)) for record in (plex(1), plex(2), plex(3))],
        [refusal.hash for refusal in store.refusals()],
        store.stat().records,
        store.high_water(),
    ]


@pytest.mark.slow
def test_a_flipped_byte_anywhere_is_found_or_changes_nothing(path: Path) -> None:
    with open_store(path, create=True, now=lambda: NOW) as store:
        fill(store)
        expected = _said(store)
    sound = path.read_bytes()
    used = [offset for offset, byte in enumerate(sound) if byte]
    random = Random(0)
    caught = 0
    for offset in random.sample(used, 200):
        content = bytearray(sound)
        content[offset] ^= random.randrange(1, 256)
        path.write_bytes(bytes(content))
        try:
            with open_store(path, now=lambda: NOW) as store:
                if list(store.check()):
                    caught += 1
                else:
                    assert _said(store) == expected, f"offset {offset}"
        except BobbinError:
            caught += 1
    assert caught > 100


def test_a_damaged_tree_does_not_keep_the_check_for_ever(path: Path) -> None:
    # With this byte changed, SQLite answers "what comes after n" with n itself.
    with open_store(path, create=True, now=lambda: NOW) as store:
        fill(store)
    content = bytearray(path.read_bytes())
    content[16397] ^= 21
    path.write_bytes(bytes(content))
    with open_store(path, now=lambda: NOW) as store:
        found = list(islice(store.check(), 1000))
    assert 0 < len(found) < 1000


def test_damaged_pages_do_not_stop_the_check(path: Path) -> None:
    with open_store(path, create=True, now=lambda: NOW) as store:
        store.put_records([plex(number, data=bytes([number]) * 3000) for number in range(100)])
    connection = apsw.Connection(str(path))
    page_size = connection.pragma("page_size")
    leaf = connection.execute(
        "SELECT pageno FROM dbstat WHERE name = 'record' AND pagetype = 'leaf' ORDER BY pageno LIMIT 1 OFFSET 5"
    ).get
    connection.close()
    content = bytearray(path.read_bytes())
    content[(leaf - 1) * page_size : leaf * page_size] = bytes(page_size)
    path.write_bytes(bytes(content))
    found = findings(path)
    assert {finding.where for finding in found} >= {"file", "records"}
    assert any("cannot be read to the end" in finding.what for finding in found)


def test_progress_is_told(store: SqliteStore) -> None:
    store.put_records([plex(number) for number in range(600)])
    told: list[tuple[int, int]] = []
    assert list(store.check(progress=lambda done, total: told.append((done, total)))) == []
    assert told == [(0, 600), (256, 600), (512, 600), (600, 600)]


def test_a_progress_that_raises_ends_the_check(store: SqliteStore) -> None:
    def stop(_: int, __: int) -> None:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        list(store.check(progress=stop))
