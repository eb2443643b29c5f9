"""Verifying a store against itself: every byte again, and everything that was derived from the bytes.

From the outside in: the file's structure, as SQLite sees it; the tables and indexes; then each record, in full with
its signature, and that its key, its wide row, its headers and its links say exactly what the record says; then what no
record answers for: rows without a record, counts, numbers, refusals; then the messages of tangles, and the sum of a
replicated lace. A finding names a
place and a fault; the walk goes on after it as far as the damage allows. Nothing is repaired.
"""

from collections.abc import Iterator
from typing import Final

import apsw
from blake3 import blake3

from bobbin.errors import BobbinError
from bobbin.facts import relations
from bobbin.facts.extract import extract
from bobbin.records import ids
from bobbin.records import record as records
from bobbin.records.ids import HashText, Kind
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import Blob, Record, Seal
from bobbin.store.base import Finding, Progress
from bobbin.store.sqlite import changes, coding, facts, lookup, migrations, replica, tally

_PROGRESS_EVERY: Final = 256
_DAMAGE: Final = (apsw.Error, BobbinError, AttributeError, TypeError, ValueError)
"""What reading damaged rows can raise: SQLite's own errors, or values that no column may hold."""

_ORPHANS: Final = {
    "fact": "SELECT id FROM fact WHERE id NOT IN (SELECT id FROM record)",
    "header": "SELECT DISTINCT record FROM header WHERE record NOT IN (SELECT id FROM record)",
    "link": "SELECT DISTINCT record FROM link WHERE record NOT IN (SELECT id FROM record)",
}
_COUNTED: Final = {
    "blobs": "SELECT count(*) FROM fact WHERE kind = 1",
    "plexes": "SELECT count(*) FROM fact WHERE kind = 2",
    "seals": "SELECT count(*) FROM fact WHERE kind = 3",
    "record_bytes": "SELECT coalesce(sum(length(raw)), 0) FROM record",
    "quarantined": "SELECT count(*) FROM quarantine",
    "quarantine_bytes": "SELECT coalesce(sum(length(raw)), 0) FROM quarantine",
    "refused": "SELECT count(*) FROM refusal",
}


def check(connection: apsw.Connection, *, progress: Progress | None) -> Iterator[Finding]:
    """Everything that is wrong with what this connection sees. Its moment must be pinned."""
    yield from _guarded("file", _check_file(connection))
    yield from _guarded("schema", _check_schema(connection))
    yield from _check_records(connection, progress)
    for table in _ORPHANS:
        yield from _guarded(table, _check_orphans(connection, table))
    yield from _guarded("tally", _check_tally(connection))
    yield from _guarded("numbers", _check_numbers(connection))
    yield from _guarded("refusals", _check_refusals(connection))
    yield from _guarded("quarantine", _check_quarantine(connection))
    yield from _guarded("changes", _check_changes(connection))
    yield from _guarded("tangles", _check_tangles(connection))
    yield from _guarded("replica", replica.check(connection))


def _guarded(where: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """A part that cannot be read to its end is a finding too."""
    try:
        yield from findings
    except _DAMAGE as error:
        yield Finding(where, f"cannot be read to the end: {error}")


def _check_file(connection: apsw.Connection) -> Iterator[Finding]:
    for (message,) in connection.execute("PRAGMA integrity_check"):
        if message != "ok":
            yield Finding("file", message)


def _check_tangles(connection: apsw.Connection) -> Iterator[Finding]:
    from bobbin.store.sqlite import tangle_check  # noqa: PLC0415 -- a check is rare, and what it needs here is slow

    yield from tangle_check.check(connection)


def _check_quarantine(connection: apsw.Connection) -> Iterator[Finding]:
    for number, key, raw in connection.execute("SELECT id, key, raw FROM quarantine WHERE raw IS NOT NULL"):
        if key != coding.key_of(blake3(raw).digest()):
            yield Finding(f"quarantine {number}", "its bytes are not those that were put there")


def _check_schema(connection: apsw.Connection) -> Iterator[Finding]:
    expected, found = migrations.expected_schema(), migrations.read_schema(connection)
    for kind, name, _, _ in sorted(expected - found, key=str):
        yield Finding("schema", f"the {kind} {name} is missing or differs")
    for kind, name, _, _ in sorted(found - expected, key=str):
        yield Finding("schema", f"the {kind} {name} does not belong there")


# ---- records ------------------------------------------------------------------------------------------------------


def _check_records(connection: apsw.Connection, progress: Progress | None) -> Iterator[Finding]:
    tell = progress or (lambda _done, _total: None)
    total, done = _count(connection), 0
    tell(0, total)
    unreadable: list[Finding] = []
    for number in _numbers(connection, unreadable):
        yield from _guarded(f"record {number}", _check_record(connection, number))
        done += 1
        if done % _PROGRESS_EVERY == 0:
            tell(done, max(total, done))
    tell(done, done)
    yield from unreadable


def _count(connection: apsw.Connection) -> int:
    try:
        return sum(tally.read(connection).records().values())
    except _DAMAGE:
        # Only the progress is poorer for it; what is wrong is found below.
        return 0


def _numbers(connection: apsw.Connection, unreadable: list[Finding]) -> Iterator[int]:
    """The number of each record, as far as the damage allows; where it stops is told in ``unreadable``."""
    last = -(2**63)
    while True:
        try:
            row = connection.execute("SELECT id FROM record WHERE id > ? ORDER BY id LIMIT 1", (last,)).fetchone()
        except _DAMAGE as error:
            unreadable.append(Finding("records", f"cannot be read to the end: {error}"))
            return
        if row is None:
            return
        if row[0] <= last:
            # A damaged tree can answer with what was asked to be behind it, again and again.
            unreadable.append(Finding("records", f"out of order after number {last}"))
            return
        last = row[0]
        yield last


def _check_record(connection: apsw.Connection, number: int) -> Iterator[Finding]:
    key, raw = connection.execute("SELECT key, raw FROM record WHERE id = ?", (number,)).get
    where = f"record {number}"
    try:
        record = records.validate(raw)
    except InvalidRecord as failure:
        yield Finding(where, f"the stored bytes are not a valid record: {failure}")
        return
    where = f"record {number} {record.hash}"
    if key != coding.key_of(record.digest):
        yield Finding(where, "its key is not that of its digest")
    yield from _check_duplicates(connection, number, key, record.hash, where)
    row = connection.execute("SELECT kind, digest, inner_key, inner FROM fact WHERE id = ?", (number,)).fetchone()
    if row is None:
        yield Finding(where, "its row of facts is missing")
    elif row[:2] != (record.kind, record.digest):
        yield Finding(where, "its row of facts belongs to another record")
    else:
        yield from _check_facts(connection, number, record, where)
        inner = None if isinstance(record, Blob) else record.plex if isinstance(record, Seal) else record.blob
        if row[2:] != (None if inner is None else coding.key_of(inner), inner):
            yield Finding(where, "its row of facts names another inner record")


def _check_facts(connection: apsw.Connection, number: int, record: Record, where: str) -> Iterator[Finding]:
    """In both directions: what the record says is in the tables, and nothing else is."""
    expected = set(extract(record))
    found = [
        (predicate, values)
        for predicate in relations.ARITY
        for values in facts.of_record(connection, predicate, number)
    ]
    for predicate, values in sorted(expected.difference(found)):
        yield Finding(where, f"the fact {predicate}{values} is missing")
    for predicate, values in sorted(set(found) - expected):
        yield Finding(where, f"the fact {predicate}{values} is not what the record says")


def _check_duplicates(
    connection: apsw.Connection, number: int, key: int, own: HashText, where: str
) -> Iterator[Finding]:
    for other, raw in connection.execute("SELECT id, raw FROM record WHERE key = ? AND id < ?", (key, number)):
        if coding.hash_of_raw(raw) == own:
            yield Finding(where, f"it is stored already, as record {other}")


# ---- what no record answers for -----------------------------------------------------------------------------------


def _check_orphans(connection: apsw.Connection, table: str) -> Iterator[Finding]:
    for (number,) in connection.execute(_ORPHANS[table]):
        yield Finding(table, f"a row belongs to record {number}, which is not stored")


def _check_tally(connection: apsw.Connection) -> Iterator[Finding]:
    kept = tally.read(connection)
    for column, statement in _COUNTED.items():
        counted = connection.execute(statement).get
        if getattr(kept, column) != counted:
            yield Finding("tally", f"{column} is {getattr(kept, column)}, counted are {counted}")


def _check_numbers(connection: apsw.Connection) -> Iterator[Finding]:
    highest_given = tally.high_water(connection)
    lowest, highest = connection.execute("SELECT coalesce(min(id), 1), coalesce(max(id), 0) FROM record").get
    if lowest < 1:
        yield Finding("numbers", f"record {lowest} has a number below 1")
    if highest > highest_given:
        yield Finding("numbers", f"record {highest} is stored, but the highest number given is {highest_given}")


def _check_refusals(connection: apsw.Connection) -> Iterator[Finding]:
    for number, key, hash_text in connection.execute("SELECT id, key, hash FROM refusal ORDER BY id"):
        where = f"refusal {number} {hash_text}"
        try:
            _, digest = ids.parse_hash(hash_text)
        except ids.IdentifierError as error:
            yield Finding(where, str(error))
            continue
        if key != coding.key_of(digest):
            yield Finding(where, "its key is not that of its digest")
        if (stored := lookup.locate(connection, hash_text)) is not None:
            yield Finding(where, f"the refused record is stored, as record {stored}")


def _check_changes(connection: apsw.Connection) -> Iterator[Finding]:
    """What was last written down about a record agrees with whether it is refused. Older refusals have no line."""
    last_given = changes.mark(connection).removal
    latest: dict[HashText, tuple[int, changes.What]] = {}
    for number, what, kind, digest in connection.execute("SELECT id, what, kind, digest FROM change ORDER BY id"):
        where = f"change {number}"
        try:
            latest[coding.hash_text(Kind(kind), digest)] = number, changes.What(what)
        except ValueError:
            yield Finding(where, "nothing that is written down reads like this")
            continue
        if len(digest) != ids.DIGEST_SIZE:
            yield Finding(where, f"a digest has {ids.DIGEST_SIZE} bytes, not {len(digest)}")
        if number > last_given:
            yield Finding(where, "its number was never given")
    for name, (number, what) in latest.items():
        is_refused = connection.execute("SELECT 1 FROM refusal WHERE hash = ?", (name,)).get is not None
        if is_refused == (what is changes.What.LIFTED):
            yield Finding(
                f"change {number} {name}", f"the last word is {what.name.lower()}, the refusals say otherwise"
            )
