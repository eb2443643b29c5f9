"""The tables of a lake: which columns each has, in which version, and how its files are sorted.

Files of a table hold exactly these columns. Whether a column may be null is this page's word, not the file's, since
writers differ in what they declare. A file with other columns or types is refused before a manifest names it.
"""

import re
from typing import Any, Final

import pyarrow as pa
from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.store.lake.keys import KEY


class Table(Struct, frozen=True):
    """One table, or one kind of table where the name takes a key."""

    name: str
    version: int
    schema: pa.Schema
    sorted_by: tuple[str, ...]
    """Within each file. Text sorts by its UTF-8 bytes."""
    keyed: bool = False
    payload_order: bool = False
    """Whether ``record`` sorts by its payload, without the letter of its kind."""


def _text(name: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, pa.string(), nullable=nullable)


_EXTRA: Final = pa.struct([_text("name"), pa.field("index", pa.int32(), nullable=False), _text("value")])
_LINK: Final = pa.struct([_text("name"), pa.field("index", pa.int32(), nullable=False), _text("data"), _text("target")])

RECORDS: Final = Table(
    "records", 1, pa.schema([_text("record"), pa.field("raw", pa.binary(), nullable=False)]), ("record",)
)
"""Valid records, each once."""

QUARANTINE: Final = Table(
    "quarantine",
    1,
    pa.schema(
        [
            pa.field("raw", pa.binary(), nullable=False),
            pa.field("size", pa.int64(), nullable=False),
            pa.field("digest", pa.binary(), nullable=False),
            _text("reason"),
            _text("detail"),
            _text("source"),
            pa.field("offset", pa.int64()),
            _text("run"),
        ]
    ),
    ("source", "offset"),
)
"""Bytes that are no record, with the reason, and the place they came from. ``digest`` is the BLAKE3 of ``raw``."""

FACTS: Final = Table(
    "facts",
    1,
    pa.schema(
        [
            _text("record"),
            _text("type"),
            *(_text(name, nullable=True) for name in ("group", "app", "name", "tai", "signer", "signature")),
            pa.field("data_length", pa.int64()),
            pa.field("extras", pa.list_(pa.field("element", _EXTRA, nullable=False)), nullable=False),
            pa.field("links", pa.list_(pa.field("element", _LINK, nullable=False)), nullable=False),
            _text("blob_hash", nullable=True),
            _text("plex_hash", nullable=True),
        ]
    ),
    ("record",),
)
"""What each record says, one row for each."""

SELECTIONS: Final = Table("selections", 1, pa.schema([_text("record"), _text("predicate")]), ("record",), keyed=True)
"""What a policy derives: ``SelectHave``, ``MaySend``, ``MayRequest``."""

ADVERTISEMENTS: Final = Table(
    "advertisements",
    1,
    pa.schema([_text("record"), pa.field("digest", pa.binary(), nullable=False)]),
    ("record",),
    keyed=True,
    payload_order=True,
)
"""The digest of the advertisement of each record that is offered."""

PARTITIONS: Final = Table(
    "partitions",
    1,
    pa.schema(
        [
            pa.field("k", pa.int32(), nullable=False),
            _text("prefix"),
            pa.field("count", pa.int64(), nullable=False),
            pa.field("root", pa.binary(), nullable=False),
        ]
    ),
    ("k", "prefix"),
    keyed=True,
)
"""Number and Merkle root of the advertisements of each prefix of ``k`` symbols."""

CONFLICTS: Final = Table(
    "conflicts",
    1,
    pa.schema(
        [
            pa.field("window", pa.int64(), nullable=False),
            pa.field("one", pa.binary(), nullable=False),
            pa.field("other", pa.binary(), nullable=False),
            _text("class"),
            pa.field("cosine", pa.float64(), nullable=False),
            pa.field("jaccard", pa.float64(), nullable=False),
            pa.field("keys", pa.list_(pa.field("element", pa.binary(), nullable=False)), nullable=False),
            _text("action"),
        ]
    ),
    ("window", "one", "other"),
    keyed=True,
)
"""Pairs of transactions of one window whose changes are not orthogonal; ``keys`` are those that both touch."""

WINDOWS: Final = Table(
    "windows",
    1,
    pa.schema(
        [
            pa.field(name, pa.int64(), nullable=False)
            for name in (
                "window",
                "deltas",
                "pairs",
                "orthogonal",
                "identical",
                "opposite",
                "conflicting",
                "ambiguous",
                "low_conflict",
            )
        ]
    ),
    ("window",),
    keyed=True,
)
"""How many changes each window has, and how many of its pairs are of each class."""

TABLES: Final = (RECORDS, QUARANTINE, FACTS, SELECTIONS, ADVERTISEMENTS, PARTITIONS, CONFLICTS, WINDOWS)
_BY_NAME: Final = {table.name: table for table in TABLES}
_NAME: Final = re.compile(rf"([a-z]+)(?:/({KEY.pattern}))?", re.ASCII)


def table(name: str) -> Table:
    """The table of this name, with or without its key. A table that needs one is also found by its kind alone."""
    match = _NAME.fullmatch(name)
    found = _BY_NAME.get(match[1]) if match else None
    if match is None or found is None or (match[2] is not None and not found.keyed):
        raise UsageError(f"a lake has no table {name!r}")
    return found


def check_name(name: str) -> Table:
    """The same, for a name that is to be a folder: one that takes a key must have it."""
    found = table(name)
    if found.keyed and "/" not in name:
        raise UsageError(f"the table {name} needs a key: {name}/<16 hex digits>")
    return found


def difference(found: pa.Schema, expected: pa.Schema) -> str | None:
    """What is other about a file's columns, or None. Nullability, metadata and names of list elements do not count."""
    names, wanted = list(found.names), list(expected.names)
    if names != wanted:
        return f"it has the columns {', '.join(names) or 'none'}, not {', '.join(wanted)}"
    for name in wanted:
        if _shape(found.field(name).type) != _shape(expected.field(name).type):
            return f"its column {name} is {found.field(name).type}, not {expected.field(name).type}"
    return None


def _shape(type_: pa.DataType) -> Any:  # noqa: ANN401 -- a tree of names and types, only compared
    """A type without what does not count."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return ("list", _shape(type_.value_type))
    if pa.types.is_struct(type_):
        fields = [type_.field(position) for position in range(type_.num_fields)]
        return ("struct", tuple((field.name, _shape(field.type)) for field in fields))
    if pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_large_binary(type_):
        return pa.binary()
    return type_
