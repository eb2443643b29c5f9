"""What was taken out, refused or let in again, written down in order, so that a reader can catch up.

Records that are stored need no such log: their numbers rise. A removal leaves nothing behind, so it is written down in
the commit that removes, in about 50 bytes. The log is never cut, not by ``compact`` either: nobody knows which reader
has seen how much of it, and whoever removes a million records pays 50 MB for it. It holds names only, and no name that
a refusal does not or did not hold.
"""

from collections.abc import Iterator
from enum import IntEnum
from itertools import chain, islice
from typing import Final

import apsw

from bobbin.errors import UsageError
from bobbin.records import ids
from bobbin.records.ids import HashText
from bobbin.store.base import Mark, StoreChanges, StoreRecordId
from bobbin.store.sqlite import coding, tally, wide

_CHUNK: Final = 4_096
_LAST: Final = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'change'), 0)"
_ADD: Final = "INSERT INTO change(what, kind, digest) VALUES (?, ?, ?)"
_SINCE: Final = "SELECT what, kind, digest FROM change WHERE id > ?"
_STORED: Final = "SELECT kind, digest FROM fact WHERE id > ? ORDER BY id"


class What(IntEnum):
    """What was done to a record."""

    REMOVED = 1
    REFUSED = 2
    """Refused while it was not stored."""
    LIFTED = 3


def add(connection: apsw.Connection, what: What, hash_text: HashText) -> None:
    """Write down what is done in this transaction."""
    kind, digest = ids.parse_hash(hash_text)
    connection.execute(_ADD, (int(what), int(kind), digest))


def mark(connection: apsw.Connection) -> Mark:
    """This moment."""
    return Mark(tally.high_water(connection), _last(connection))


def since(connection: apsw.Connection, after: Mark) -> StoreChanges:
    """What has happened since a mark. The connection's moment must be pinned."""
    now = mark(connection)
    if after.high_water > now.high_water or after.removal > now.removal:
        raise UsageError(f"the mark {after.high_water}/{after.removal} is not of this store, or of a later moment")
    told: dict[What, set[HashText]] = {what: set() for what in What}
    if after.removal < now.removal:
        for what, kind, digest in connection.execute(_SINCE, (after.removal,)):
            told[What(what)].add(coding.hash_text(kind, digest))
    return StoreChanges(
        mark=now,
        stored=tuple(chain.from_iterable(_stored(connection, after.high_water)))
        if after.high_water < now.high_water
        else (),
        removed=frozenset(told[What.REMOVED]),
        refused=frozenset(told[What.REFUSED]),
        lifted=frozenset(told[What.LIFTED]),
    )


def _stored(connection: apsw.Connection, number: StoreRecordId) -> Iterator[list[HashText]]:
    rows = connection.execute(_STORED, (number,))
    while chunk := list(islice(rows, _CHUNK)):
        yield wide.hash_texts(*zip(*chunk, strict=True))


def _last(connection: apsw.Connection) -> int:
    last: int = connection.execute(_LAST).get
    return last
