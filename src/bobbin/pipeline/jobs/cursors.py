"""How far jobs have come that take a source in several runs.

A cursor is a property of the manifest of ``records``, so it changes in the same moment as the records do that it speaks
of. Whatever happens to a process, the two agree: what a cursor covers is in the lake, and is not taken again; what it
does not cover is not in the lake by this job. Properties go on from manifest to manifest, through compaction, too, so
only the current one is read. Each followed lace has a cursor of its own; of loads, which may be of any number of files,
the last ones are remembered.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.tables import RECORDS

LOADS: Final = "loads"
"""The property that says how far loads have come, the last one first."""

LOADS_MAX: Final = 64
"""So many loads are remembered. An older one would begin anew, and find its records in the lake."""

_FOLLOW: Final = "follow."
_SHOWN_MAX: Final = 200


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
    rejected: dict[str, int] = {}
    """How many of these records went to the quarantine instead, for each reason."""


class LoadCursor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file up to a place, or a lake up to one of its files."""

    key: str
    """Stands for the source, as it was when the load began."""
    at: int
    spent: int = 0
    """In a bundle: what was spent on failed proofs before."""
    done: bool = False
    rejected: dict[str, int] = {}
    """How much of it went to the quarantine, for each reason."""


_Value = TypeVar("_Value", LaceCursor, list[LoadCursor])


def added(rejected: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """What a cursor says of the quarantine after a further run."""
    return dict(Counter(rejected) + Counter(more))


def follow_property(key: str) -> str:
    """The name of the property that says how far a lace was taken in, by following or loading."""
    return f"{_FOLLOW}{key}"


def lace_cursor(lake: Lake, key: str) -> LaceCursor | None:
    """How far a lace was taken in; None if it never was."""
    return _read(lake, follow_property(key), LaceCursor)


def load_cursor(lake: Lake, key: str) -> LoadCursor | None:
    """How far the load of a source has come; None if it never began, or that many others have begun since."""
    return next((cursor for cursor in _loads(lake) if cursor.key == key), None)


def lace_property(key: str, cursor: LaceCursor) -> Mapping[str, str]:
    """The property by which a commit says how far a lace was taken in."""
    return {follow_property(key): msgspec.json.encode(cursor).decode()}


def load_property(lake: Lake, cursor: LoadCursor) -> Mapping[str, str]:
    """The property by which a commit says how far a load has come, and those before it. For one that is going on."""
    others = [one for one in _loads(lake) if one.key != cursor.key]
    return {LOADS: msgspec.json.encode([cursor, *others][:LOADS_MAX]).decode()}


def _loads(lake: Lake) -> list[LoadCursor]:
    return _read(lake, LOADS, list[LoadCursor]) or []


def _read(lake: Lake, name: str, kind: type[_Value]) -> _Value | None:
    """What a property of the current manifest says; None where it has none."""
    manifest = lake.manifest(RECORDS.name)
    text = manifest.properties.get(name)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DamagedLake(
            f"the property {name} of the manifest {manifest.number} of records says {text[:_SHOWN_MAX]!r}, and that is "
            "no cursor"
        ) from error
