"""Verifying what is kept of tangles: every message again, and everything that was derived from it.

A message must be the one that its id names, with the data that it names and a signature that holds; its places must be
those that it states; and it must be a record exactly where it should be one, byte for byte. Whether its signer was
entitled to sign is a question about the whole tangle, and was answered when it was accepted.
"""

from collections.abc import Iterator
from typing import Final

import apsw

from bobbin.errors import BobbinError
from bobbin.store.base import Finding
from bobbin.store.sqlite import coding, tally, tangle_rows
from bobbin.store.tangles import Level, StoredMessage
from bobbin.tangles import message as messages
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.ghosts import DamagedGhosts, Ghosts
from bobbin.tangles.message import Message
from bobbin.tangles.plex import APP, is_whole, plex_of
from bobbin.tangles.validation import check_signature

_NUMBERS: Final = "SELECT number FROM message ORDER BY number"
_ONE: Final = "SELECT number, id, raw, erased, level, record, provisional FROM message WHERE number = ?"
_ORPHANS: Final = {
    "member": "SELECT message FROM member WHERE message NOT IN (SELECT number FROM message)",
    "tangle": "SELECT DISTINCT tangle FROM member WHERE tangle NOT IN (SELECT number FROM tangle)",
    "lacking": "SELECT DISTINCT message FROM lacking WHERE message NOT IN (SELECT number FROM message)",
    "waiting": "SELECT record FROM waiting WHERE record NOT IN (SELECT id FROM record)",
}
_ORPHAN_WORDS: Final = {
    "member": "a place belongs to message {}, which is not kept",
    "tangle": "a place is in the tangle {}, which does not exist",
    "lacking": "something is lacking for message {}, which is not kept",
    "waiting": "record {} waits, and is not stored",
}
_COUNTED: Final = {
    "messages": "SELECT count(*) FROM message",
    "erased": "SELECT count(*) FROM message WHERE erased",
    "interop": "SELECT count(*) FROM message WHERE level = 1",
    "message_bytes": "SELECT coalesce(sum(length(raw)), 0) FROM message",
    "waiting": "SELECT count(*) FROM waiting",
}
_NOT_PLEXES: Final = """
SELECT w.record FROM waiting w CROSS JOIN fact f ON f.id = w.record LEFT JOIN place p ON p.id = f.place
WHERE f.kind <> 2 OR p.app IS NOT ? OR w.record IN (SELECT record FROM message WHERE record IS NOT NULL)
"""


def check(connection: apsw.Connection) -> Iterator[Finding]:
    """Everything that is wrong with what this connection sees of tangles. Its moment must be pinned."""
    for (number,) in connection.execute(_NUMBERS):
        try:
            yield from _check_message(connection, number)
        except (apsw.Error, BobbinError, AttributeError, TypeError, ValueError) as error:
            yield Finding(f"message {number}", f"cannot be read: {error}")
    for table, statement in _ORPHANS.items():
        for (number,) in connection.execute(statement):
            yield Finding(table, _ORPHAN_WORDS[table].format(number))
    yield from _check_tangles(connection)
    for (number,) in connection.execute(_NOT_PLEXES, (APP,)):
        yield Finding("waiting", f"record {number} waits, and is no message or one that is kept already")
    yield from _check_tally(connection)


def _check_message(connection: apsw.Connection, number: int) -> Iterator[Finding]:
    kept = tangle_rows.message_of_row(connection.execute(_ONE, (number,)).get)
    where = f"message {number} {kept.id}"
    try:
        message = messages.decode(kept.raw)
        _check_content(message)
    except InvalidMessage as error:
        yield Finding(where, f"the kept bytes are not a valid message: {error}")
        return
    if message.id != kept.id:
        yield Finding(where, f"the kept bytes are the message {message.id}")
        return
    if kept.is_erased == is_whole(message):
        yield Finding(where, "whether its data is here is not what its row says")
    places = tangle_rows.places(connection, number)
    if {place.tangle: place.depth for place in places} != {
        tangle: place.depth for tangle, place in message.places.items()
    }:
        yield Finding(where, "its places are not those that it states")
    if places and not message.is_root and kept.level != max(place.level for place in places):
        yield Finding(where, "its level is not the highest one of its places")
    if kept.is_provisional and kept.level is Level.MODERN:
        yield Finding(where, "it is proven, and still counts as one that waits to be")
    yield from _check_record(connection, kept, message, where)


def _check_content(message: Message) -> None:
    if message.is_moot:
        return
    if message.has_data:
        found = messages.data_hash_and_size(message.data)
        if found != (message.data_hash, message.data_size):
            raise InvalidMessage(Rule.DATA_HASH, "the data is not the one that the metadata names")
    check_signature(message)


def _check_record(connection: apsw.Connection, kept: StoredMessage, message: Message, where: str) -> Iterator[Finding]:
    plex = plex_of(message) if kept.level is Level.MODERN else None
    if kept.record is None:
        if plex is not None and not tangle_rows.refused(connection, [plex.hash]):
            yield Finding(where, "it is not stored as a record, though it should be")
        return
    if plex is None:
        yield Finding(where, "it is stored as a record, though it must not be")
        return
    raw = connection.execute("SELECT raw FROM record WHERE id = ?", (kept.record,)).get
    if raw is None:
        yield Finding(where, f"its record {kept.record} is not stored")
    elif raw != plex.raw:
        yield Finding(where, f"its record {kept.record} is {coding.hash_of_raw(raw)}, not {plex.hash}")


def _check_tangles(connection: apsw.Connection) -> Iterator[Finding]:
    for root, ghosts in connection.execute("SELECT root, ghosts FROM tangle ORDER BY number"):
        try:
            Ghosts.decode(ghosts)
        except DamagedGhosts as error:
            yield Finding(f"tangle {root}", str(error))


def _check_tally(connection: apsw.Connection) -> Iterator[Finding]:
    kept = tangle_rows.read_tally(connection)
    for column, statement in _COUNTED.items():
        counted = connection.execute(statement).get
        if getattr(kept, column) != counted:
            yield Finding("tally of tangles", f"{column} is {getattr(kept, column)}, counted are {counted}")
    if kept.seen > tally.high_water(connection):
        yield Finding("tally of tangles", f"records were looked at up to {kept.seen}, which was never given")
