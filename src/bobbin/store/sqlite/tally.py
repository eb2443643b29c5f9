"""Counts and sizes in one row, so that asking for them costs the same for ten records and for ten million.

A write transaction reads the row, changes the value in memory, and writes it back with its other changes: the counts
are part of every commit and cannot drift from what they count. ``check`` counts again.
"""

from typing import Final

import apsw
from msgspec import Struct, structs

from bobbin.records.ids import Kind
from bobbin.store.base import DamagedStore, StoreRecordId

_READ: Final = (
    "SELECT blobs, plexes, seals, record_bytes, quarantined, quarantine_bytes, quarantine_overflow, refused, generation"
)
_WRITE: Final = (
    "UPDATE tally SET blobs = ?, plexes = ?, seals = ?, record_bytes = ?, quarantined = ?, quarantine_bytes = ?, "
    "quarantine_overflow = ?, refused = ?, generation = ?"
)
_HIGH_WATER: Final = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'record'), 0)"
_OF_KIND: Final = {Kind.BLOB: "blobs", Kind.PLEX: "plexes", Kind.SEAL: "seals"}


class Tally(Struct):
    """The row, as a value that a transaction may change. The fields stand in the order of the statements above."""

    blobs: int
    plexes: int
    seals: int
    record_bytes: int
    quarantined: int
    quarantine_bytes: int
    """Bytes that the quarantine holds; rows without bytes count nothing here."""
    quarantine_overflow: int
    """Rejections that found the quarantine full of rows and were only counted."""
    refused: int
    generation: int
    """Rises when compacting has dropped dictionary values."""

    def add(self, kind: Kind, count: int) -> None:
        """Count records of one kind that are added (or, negative, taken off)."""
        column = _OF_KIND[kind]
        setattr(self, column, getattr(self, column) + count)

    def records(self) -> dict[Kind, int]:
        """How many there are of each kind."""
        return {kind: getattr(self, column) for kind, column in _OF_KIND.items()}


def read(connection: apsw.Connection, *, of: str = "main") -> Tally:
    """The row as it is now, of the store itself or of one that is attached to it."""
    values = connection.execute(f"{_READ} FROM {of}.tally").fetchone()
    if values is None:
        raise DamagedStore("the store is damaged: its tally is missing")
    return Tally(*values)


def write(connection: apsw.Connection, tally: Tally) -> None:
    """Put the row back."""
    connection.execute(_WRITE, structs.astuple(tally))


def high_water(connection: apsw.Connection) -> StoreRecordId:
    """The highest ``StoreRecordId`` that was ever given."""
    highest: int = connection.execute(_HIGH_WATER).get
    return StoreRecordId(highest)
