"""How far jobs have come that take a source in several runs.

A cursor is a property of the manifest of ``records``, so it changes in the same moment as the records do that it speaks
of. Whatever happens to a process, the two agree: what a cursor covers is in the lake, and is not taken again; what it
does not cover is not in the lake by this job. Properties go on from manifest to manifest; where a later run has set
them aside (compaction writes the table anew), the history still has them.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.tables import RECORDS

LOAD: Final = "load"
"""The property that says how far the last load has come."""

_FOLLOW: Final = "follow."


class LaceCursor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All records of a lace up to an id."""

    lace: str
    """When the lace was created, in TAI."""
    id: int
    record: str | None
    """The name of the record that has this id, where it was there."""
    stream: str | None = None
    """Of a follow: the stream."""
    batch: int | None = None
    """Of a follow: the number that the stream gave to the batch."""


class LoadCursor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file up to a place, or a lake up to one of its files."""

    key: str
    """Stands for the source, as it was when the load began."""
    at: int
    spent: int = 0
    """In a bundle: what was spent on failed proofs before."""
    done: bool = False


_Cursor = TypeVar("_Cursor", LaceCursor, LoadCursor)


def follow_property(key: str) -> str:
    """The name of the property that says how far a lace was taken in, by following or loading."""
    return f"{_FOLLOW}{key}"


def lace_cursor(lake: Lake, key: str) -> LaceCursor | None:
    """How far a lace was taken in; None if it never was."""
    return _find(lake, follow_property(key), LaceCursor)


def load_cursor(lake: Lake, key: str) -> LoadCursor | None:
    """How far the load of a source has come; None if it never began."""
    return _find(lake, LOAD, LoadCursor, key)


def encoded(name: str, cursor: LaceCursor | LoadCursor) -> Mapping[str, str]:
    """The property that a commit takes along."""
    return {name: msgspec.json.encode(cursor).decode()}


def _find(lake: Lake, name: str, kind: type[_Cursor], key: str | None = None) -> _Cursor | None:
    seen = None
    for manifest in lake.history(RECORDS.name):
        text = manifest.properties.get(name)
        if text is None or text == seen:
            continue
        seen = text
        try:
            cursor = msgspec.json.decode(text, type=kind)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise DamagedLake(
                f"the property {name} of the manifest {manifest.number} of records says {text!r}, and that is no cursor"
            ) from error
        if key is None or getattr(cursor, "key", None) == key:
            return cursor
    return None
