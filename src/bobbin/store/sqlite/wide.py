"""The wide rows of all records in one pass, with the columns that are asked for and no others.

A join per text that nobody wants, and spelling a record's name once per field, would double the time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

import apsw
from msgspec import Struct

from bobbin.records import tai
from bobbin.records.ids import Kind
from bobbin.store.base import DamagedStore
from bobbin.store.sqlite import coding

_PLACE: Final = "LEFT JOIN place p ON p.id = f.place"
_SIGNER: Final = "LEFT JOIN text t ON t.id = f.signer"

WideRow: TypeAlias = tuple[str | None, ...]


def _decode_tai(column: int) -> str:
    return tai.render(coding.tai_of_column(column))


def _decode_kind(column: int) -> str:
    try:
        return Kind(column).letter
    except ValueError as error:
        raise DamagedStore(f"the store is damaged: no record is of kind {column}") from error


class Column(Struct, frozen=True, kw_only=True):
    """Where a field of the wide row comes from."""

    column: str
    join: str = ""
    decode: Callable[[int], str] | None = None


COLUMNS: Final[Mapping[str, Column]] = MappingProxyType(
    {
        "App": Column(column="p.app", join=_PLACE),
        "Data-Length": Column(column="f.data_length", decode=str),
        "Group": Column(column="p.group_path", join=_PLACE),
        "Name": Column(column="f.name"),
        "Signed-By": Column(column="t.value", join=_SIGNER),
        "TAI": Column(column="f.tai", decode=_decode_tai),
        "Type": Column(column="f.kind", decode=_decode_kind),
    }
)
"""In the order of their names."""


def statement(first: str, names: Sequence[str]) -> str:
    """A query for some columns of the wide row and those of these fields."""
    columns = "".join(f", {COLUMNS[name].column}" for name in names)
    joins = " ".join(dict.fromkeys(COLUMNS[name].join for name in names))
    return f"SELECT {first}{columns} FROM fact f {joins}"  # noqa: S608 - our own words only


def wide(connection: apsw.Connection, names: Sequence[str]) -> Iterator[WideRow]:
    """One row for every record: its name, then its value of each of these fields, None where it has none."""
    hash_text = coding.hash_text
    decoders = [(place, COLUMNS[name].decode) for place, name in enumerate(names) if COLUMNS[name].decode]
    rows = connection.execute(statement("f.kind, f.digest", names))
    if not decoders:
        for kind, digest, *values in rows:
            yield hash_text(kind, digest), *values
        return
    for kind, digest, *values in rows:
        for place, decode in decoders:
            if decode is not None and values[place] is not None:
                values[place] = decode(values[place])
        yield hash_text(kind, digest), *values
