"""The rows of tangles: messages, who is in which tangle, and the counts of all of it.

Nothing here begins or ends a transaction, and nothing decides: ``tangles`` says what is done in one commit.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import apsw
from msgspec import Struct, structs

from bobbin import profile
from bobbin.records.ids import HashText
from bobbin.store.base import DamagedStore, StoredRecord, StoreRecordId
from bobbin.store.sqlite import coding, refusals
from bobbin.store.tangles import (
    TAKEN_OUT,
    Level,
    NewMessage,
    StoredMessage,
    StoredPlace,
    TangleRow,
    TangleState,
)

_MESSAGE: Final = "SELECT m.number, m.id, m.raw, m.erased, m.level, m.record, m.provisional FROM message m "
_FIND: Final = _MESSAGE + "WHERE m.id IN carray(?) ORDER BY m.number"
_NAMED: Final = "SELECT root FROM tangle WHERE root IN carray(?)"
_BEGINNING: Final = (
    "SELECT id FROM message WHERE id >= ?1 AND id < ?2 UNION SELECT root FROM tangle WHERE root >= ?1 AND root < ?2 "
    "ORDER BY 1 LIMIT ?3"
)
_MEMBERS: Final = """
SELECT m.number, m.id, m.raw, m.erased, m.level, m.record, m.provisional, b.level
FROM tangle t CROSS JOIN member b ON b.tangle = t.number CROSS JOIN message m ON m.number = b.message WHERE t.root = ?1
UNION ALL SELECT number, id, raw, erased, level, record, provisional, level FROM message WHERE id = ?1
ORDER BY 1
"""
_PLACES: Final = (
    "SELECT t.root, b.depth, b.level FROM member b CROSS JOIN tangle t ON t.number = b.tangle WHERE b.message = ? "
    "ORDER BY t.root"
)
_AFTER: Final = _MESSAGE + "WHERE m.number > ? ORDER BY m.number"
_PLACED_NUMBERS: Final = "SELECT message FROM member"
_ROOTS: Final = f"{_MESSAGE}WHERE m.number NOT IN ({_PLACED_NUMBERS}) ORDER BY m.number"
_MARKED_NUMBERS: Final = "SELECT message FROM member WHERE level = 1 UNION SELECT number FROM message WHERE level = 1"
_MARKED: Final = f"{_MESSAGE}WHERE m.number IN ({_MARKED_NUMBERS}) ORDER BY m.number"
_OF_RECORD: Final = _MESSAGE + "WHERE m.record = ?"
_LACKING: Final = """
SELECT m.id, t.root FROM lacking l CROSS JOIN message m ON m.number = l.message
LEFT JOIN member b ON b.message = m.number AND b.level = 1 LEFT JOIN tangle t ON t.number = b.tangle
WHERE l.id IN carray(?)
"""
_TANGLES: Final = """
SELECT t.root, t.goal, count(b.message), coalesce(max(b.depth), 0), json_array_length(t.ghosts)
FROM tangle t LEFT JOIN member b ON b.tangle = t.number GROUP BY t.number ORDER BY t.root
"""
PLEXES: Final = """
SELECT r.id, r.raw FROM fact f CROSS JOIN record r ON r.id = f.id
WHERE f.id > ? AND f.id <= ? AND f.kind = 2 AND f.place IN (SELECT id FROM place WHERE app = ?)
AND NOT EXISTS (SELECT 1 FROM message WHERE record = f.id) ORDER BY f.id
"""
_ALIKE: Final = """
SELECT r.id, r.raw FROM fact o CROSS JOIN fact f ON f.place = o.place AND f.name = o.name
CROSS JOIN record r ON r.id = f.id WHERE o.id = ? AND f.kind = 2 ORDER BY r.id
"""
_WAITING: Final = "SELECT r.id, r.raw, w.reason FROM waiting w CROSS JOIN record r ON r.id = w.record ORDER BY w.record"
_WAITING_NEWEST_FIRST: Final = f"{_WAITING} DESC"
_INSERT: Final = (
    "INSERT INTO message(id, raw, erased, level, record, provisional) VALUES (?, ?, ?, ?, ?, ?) RETURNING number"
)
_ERASE: Final = "UPDATE message SET raw = ?, erased = 1, record = NULL WHERE number = ?"
_PROMOTE: Final = "UPDATE message SET level = 2, provisional = 0, record = coalesce(?, record) WHERE number = ?"
_TANGLE: Final = "INSERT INTO tangle(root) VALUES (?) ON CONFLICT DO NOTHING"
_MEMBER: Final = "INSERT INTO member(tangle, depth, message, level) SELECT number, ?, ?, ? FROM tangle WHERE root = ?"
_PROMOTE_PLACE: Final = (
    "UPDATE member SET level = 2 WHERE message = ? AND tangle = (SELECT number FROM tangle WHERE root = ?)"
)
_TALLY: Final = "SELECT version, rewrites, messages, erased, interop, message_bytes, waiting, seen FROM tangle_tally"
_HIGHEST: Final = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'message'), 0)"
_WRITE_TALLY: Final = (
    "UPDATE tangle_tally SET version = ?, rewrites = ?, messages = ?, erased = ?, interop = ?, message_bytes = ?, "
    "waiting = ?, seen = ?"
)


class TangleTally(Struct):
    """The row of counts, as a value that a transaction may change. Its fields stand in the order of the statements."""

    version: int
    rewrites: int
    messages: int
    erased: int
    interop: int
    message_bytes: int
    waiting: int
    seen: StoreRecordId


def read_tally(connection: apsw.Connection) -> TangleTally:
    """The counts as they are now."""
    values = connection.execute(_TALLY).fetchone()
    if values is None:
        raise DamagedStore("the store is damaged: its tally of tangles is missing")
    return TangleTally(*values)


def state_of(connection: apsw.Connection, tally: TangleTally) -> TangleState:
    """The counts as they are told."""
    highest = connection.execute(_HIGHEST).get
    return TangleState(**structs.asdict(tally), messages_highest=highest)


def write_tally(connection: apsw.Connection, tally: TangleTally) -> None:
    """Put the counts back."""
    connection.execute(_WRITE_TALLY, structs.astuple(tally))


# ---- reading ------------------------------------------------------------------------------------------------------


def _level(column: int) -> Level:
    try:
        return Level(column)
    except ValueError as error:
        raise DamagedStore(f"the store is damaged: a message has the acceptance level {column}") from error


def message_of_row(row: Sequence[Any]) -> StoredMessage:
    """A message from its columns: number, id, bytes, erased, level, record, provisional."""
    number, id, raw, erased, level, record, provisional = row
    return StoredMessage(
        number=number,
        id=id,
        raw=raw,
        is_erased=bool(erased),
        level=_level(level),
        record=None if record is None else StoreRecordId(record),
        is_provisional=bool(provisional),
    )


def find(connection: apsw.Connection, ids: Iterable[str]) -> dict[str, StoredMessage]:
    """Those of these messages that are kept."""
    wanted = _spellable(ids)
    if not wanted:
        return {}
    return {row[1]: message_of_row(row) for row in connection.execute(_FIND, (apsw.carray(wanted),))}


def named(connection: apsw.Connection, ids: Iterable[str]) -> frozenset[str]:
    """Those of these ids that are tangles."""
    wanted = _spellable(ids)
    return frozenset(root for (root,) in connection.execute(_NAMED, (apsw.carray(wanted),))) if wanted else frozenset()


def beginning(connection: apsw.Connection, text: str, limit: int) -> list[str]:
    """Ids that begin with a text of ASCII characters."""
    if not text or not text.isascii() or "\0" in text:
        return []
    last = text[:-1] + chr(ord(text[-1]) + 1)
    return [id for (id,) in connection.execute(_BEGINNING, (text, last, limit))]


def _spellable(ids: Iterable[str]) -> tuple[str, ...]:
    """Those that the database can be asked for."""
    return tuple(id for id in ids if coding.can_be_stored(id) and "\0" not in id)


def members(connection: apsw.Connection, root: str) -> Iterator[tuple[StoredMessage, Level]]:
    """The root, if it is kept, and every message that names this tangle, in the order of arrival."""
    for *row, level in connection.execute(_MEMBERS, (root,)):
        yield message_of_row(row), _level(level)


def places(connection: apsw.Connection, number: int) -> list[StoredPlace]:
    """Where a message stands."""
    return [StoredPlace(root, depth, _level(level)) for root, depth, level in connection.execute(_PLACES, (number,))]


def after(connection: apsw.Connection, number: int) -> Iterator[StoredMessage]:
    """Every message that arrived after this number."""
    return map(message_of_row, connection.execute(_AFTER, (number,)))


def roots(connection: apsw.Connection) -> Iterator[StoredMessage]:
    """Every message that stands in no tangle but its own."""
    return map(message_of_row, connection.execute(_ROOTS))


def marked(connection: apsw.Connection) -> Iterator[StoredMessage]:
    """Every message that only interop rules accept in some tangle."""
    return map(message_of_row, connection.execute(_MARKED))


def lacking(connection: apsw.Connection, ids: Iterable[str]) -> dict[str, frozenset[str]]:
    """The messages that lack any of these, with the tangles in which they are not proven."""
    wanted = _spellable(ids)
    found: dict[str, set[str]] = {}
    for id, root in connection.execute(_LACKING, (apsw.carray(wanted),)) if wanted else ():
        # A root has no place in its own tangle.
        found.setdefault(id, set()).add(id if root is None else root)
    return {id: frozenset(roots) for id, roots in found.items()}


def count_lacking(connection: apsw.Connection) -> int:
    """How many messages lack something to be proven in some tangle. Counted along an index; it costs what it counts."""
    count: int = connection.execute("SELECT count(DISTINCT message) FROM lacking").get
    return count


def of_record(connection: apsw.Connection, record: int) -> StoredMessage | None:
    """The message whose Plex is this record."""
    row = connection.execute(_OF_RECORD, (record,)).fetchone()
    return None if row is None else message_of_row(row)


def tangles(connection: apsw.Connection) -> Iterator[TangleRow]:
    """Every tangle, by its root."""
    for root, goal, count, depth, ghosts in connection.execute(_TANGLES):
        if count or goal is not None or ghosts:
            yield TangleRow(root=root, goal=goal, members=count, depth_max=depth, ghosts=ghosts)


def goals(connection: apsw.Connection) -> dict[str, str]:
    """Every tangle that has a goal."""
    return dict(connection.execute("SELECT root, goal FROM tangle WHERE goal IS NOT NULL ORDER BY root"))


def ghosts(connection: apsw.Connection) -> dict[str, str]:
    """Every tangle that has ghosts."""
    return dict(connection.execute("SELECT root, ghosts FROM tangle WHERE ghosts <> '[]' ORDER BY root"))


def plexes(connection: apsw.Connection, after: StoreRecordId, last: StoreRecordId) -> Iterator[StoredRecord]:
    """The records above one number, up to another, that may be messages, in commit order."""
    for record, raw in connection.execute(PLEXES, (after, last, profile.TANGLE_APP)):
        yield StoredRecord(StoreRecordId(record), coding.hash_of_raw(raw), raw)


def alike(connection: apsw.Connection, record: int) -> list[StoredRecord]:
    """The Plexes of the same place and name as this one, itself included, in commit order."""
    return [
        StoredRecord(StoreRecordId(number), coding.hash_of_raw(raw), raw)
        for number, raw in connection.execute(_ALIKE, (record,))
    ]


def waiting(connection: apsw.Connection, *, newest_first: bool = False) -> Iterator[tuple[StoredRecord, str]]:
    """The records that wait, in commit order or the other way round."""
    for record, raw, reason in connection.execute(_WAITING_NEWEST_FIRST if newest_first else _WAITING):
        yield StoredRecord(StoreRecordId(record), coding.hash_of_raw(raw), raw), reason


def refused(connection: apsw.Connection, records: Iterable[HashText]) -> dict[HashText, str]:
    """Those of these records that somebody has refused on purpose."""
    return {record: reason for record, reason in _refusals(connection, records).items() if reason != TAKEN_OUT}


def taken_out(connection: apsw.Connection, records: Iterable[HashText]) -> list[HashText]:
    """Those of these records that a goal has taken out."""
    return [record for record, reason in _refusals(connection, records).items() if reason == TAKEN_OUT]


def _refusals(connection: apsw.Connection, records: Iterable[HashText]) -> dict[HashText, str]:
    wanted = frozenset(records)
    known = refusals.reasons(connection, array("q", map(coding.key_of_hash, wanted)))
    return {record: reason for record, reason in known.items() if record in wanted}


# ---- writing ------------------------------------------------------------------------------------------------------


def insert(connection: apsw.Connection, tally: TangleTally, message: NewMessage, record: StoreRecordId | None) -> None:
    """Keep a message that is not kept."""
    flags = int(message.is_erased), int(message.level), record, int(message.is_provisional)
    number = connection.execute(_INSERT, (message.id, message.raw, *flags)).get
    for place in message.places:
        connection.execute(_TANGLE, (place.tangle,))
        connection.execute(_MEMBER, (place.depth, number, int(place.level), place.tangle))
    tally.messages += 1
    tally.erased += message.is_erased
    tally.interop += message.level is Level.INTEROP
    tally.message_bytes += len(message.raw)


def delete(connection: apsw.Connection, tally: TangleTally, message: StoredMessage) -> None:
    """Keep a message no longer."""
    connection.execute("DELETE FROM member WHERE message = ?", (message.number,))
    connection.execute("DELETE FROM lacking WHERE message = ?", (message.number,))
    connection.execute("DELETE FROM message WHERE number = ?", (message.number,))
    tally.messages -= 1
    tally.erased -= message.is_erased
    tally.interop -= message.level is Level.INTEROP
    tally.message_bytes -= len(message.raw)


def erase(connection: apsw.Connection, tally: TangleTally, message: StoredMessage, raw: bytes) -> None:
    """Keep only what is left of a message without its data."""
    connection.execute(_ERASE, (raw, message.number))
    tally.erased += not message.is_erased
    tally.message_bytes += len(raw) - len(message.raw)


def unlink(connection: apsw.Connection, message: StoredMessage) -> None:
    """The record of a message is gone."""
    connection.execute("UPDATE message SET record = NULL WHERE number = ?", (message.number,))


def promote(
    connection: apsw.Connection,
    tally: TangleTally,
    message: StoredMessage,
    tangles: Iterable[str],
    record: StoreRecordId | None,
) -> None:
    """Take a message for one that modern rules accept in these tangles."""
    connection.execute(_PROMOTE, (record, message.number))
    connection.executemany(_PROMOTE_PLACE, [(message.number, root) for root in tangles])
    tally.interop -= message.level is Level.INTEROP


def set_lacking(connection: apsw.Connection, id: str, lacks: Iterable[str]) -> None:
    """Say anew what a message lacks."""
    number = connection.execute("SELECT number FROM message WHERE id = ?", (id,)).get
    connection.execute("DELETE FROM lacking WHERE message = ?", (number,))
    rows = [(coding.storable(one), number) for one in sorted(lacks)]
    connection.executemany("INSERT OR IGNORE INTO lacking(id, message) VALUES (?, ?)", rows)


def set_goal(connection: apsw.Connection, root: str, goal: str | None) -> None:
    """Set the goal of a tangle, whether or not anything of it is kept."""
    connection.execute(_TANGLE, (root,))
    connection.execute("UPDATE tangle SET goal = ? WHERE root = ?", (goal, root))


def set_ghosts(connection: apsw.Connection, root: str, text: str) -> None:
    """Set the ghost registry of a tangle."""
    connection.execute(_TANGLE, (root,))
    connection.execute("UPDATE tangle SET ghosts = ? WHERE root = ?", (text, root))


def wait(connection: apsw.Connection, tally: TangleTally, record: StoreRecordId, reason: str) -> None:
    """Let a record wait, or give the reason anew."""
    settle(connection, tally, record)
    connection.execute("INSERT INTO waiting(record, reason) VALUES (?, ?)", (record, coding.storable(reason)))
    tally.waiting += 1


def settle(connection: apsw.Connection, tally: TangleTally, record: int) -> None:
    """Let a record wait no longer."""
    connection.execute("DELETE FROM waiting WHERE record = ?", (record,))
    tally.waiting -= connection.changes()


def drop_unused(connection: apsw.Connection) -> None:
    """Drop tangles that nobody names, without goal and ghosts."""
    connection.execute(
        "DELETE FROM tangle WHERE goal IS NULL AND ghosts = '[]' "
        "AND NOT EXISTS (SELECT 1 FROM member WHERE tangle = tangle.number)"
    )
