"""The wide rows of all records in one pass, with the columns that are asked for and no others.

A join per text that nobody wants, and spelling a record's name once per field, would double the time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final, TypeAlias

import apsw
from msgspec import Struct

from bobbin.records import b64a, ids, tai
from bobbin.records.ids import HashText, Kind
from bobbin.store.base import DamagedStore
from bobbin.store.sqlite import coding

_PLACE: Final = "LEFT JOIN place p ON p.id = f.place"
_SIGNER: Final = "LEFT JOIN text t ON t.id = f.signer"

_CHUNK: Final = 4_096
_SYMBOLS: Final = b64a.length(ids.DIGEST_SIZE)
_STRIDE: Final = b64a.length(ids.DIGEST_SIZE + 1)

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


def wide(connection: apsw.Connection, names: Sequence[str]) -> Iterator[Iterator[WideRow]]:
    """One row for every record: its name, then its value of each of these fields, None where it has none.

    They come many at a time: handing on each by itself would cost more than reading it does.
    """
    decoders = [COLUMNS[name].decode for name in names]
    rows = connection.execute(statement("f.kind, f.digest", names))
    while chunk := list(islice(rows, _CHUNK)):
        kinds, digests, *columns = zip(*chunk, strict=True)
        spelled = [
            column if decode is None else [value if value is None else decode(value) for value in column]
            for decode, column in zip(decoders, columns, strict=True)
        ]
        yield zip(hash_texts(kinds, digests), *spelled, strict=True)


def hash_texts(kinds: Sequence[int], digests: Sequence[bytes]) -> list[HashText]:
    """The names of many records, from the columns that say their kinds and digests; all are spelled in one go."""
    if set(map(type, digests)) != {bytes} or set(map(len, digests)) != {ids.DIGEST_SIZE}:
        return list(map(coding.hash_text, kinds, digests))
    # With a zero byte after it, a digest ends where a symbol does.
    symbols = b64a.encode(b"\0".join((*digests, b"")))
    tail = f".{ids.SUFFIX}"
    heads = {kind: coding.hash_text(kind, b"").removesuffix(tail) for kind in set(kinds)}
    starts = range(0, len(symbols), _STRIDE)
    return [
        HashText(heads[kind] + symbols[start : start + _SYMBOLS] + tail)
        for kind, start in zip(kinds, starts, strict=True)
    ]
