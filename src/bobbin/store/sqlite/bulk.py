"""Many records at once: whether they are here, and what their fields say.

One query for thousands of keys costs a fraction of thousands of queries.
"""

import sys
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Final, TypeAlias

import apsw

from bobbin.records import b64a
from bobbin.records.ids import IdentifierError, Kind
from bobbin.store.base import Fields, FieldValue
from bobbin.store.sqlite import coding, facts, refusals, tally, wide

_CHUNK: Final = 8_192
_NUMBERS: Final = "SELECT id FROM record WHERE key IN carray(?)"
_HERE: Final = "SELECT f.kind, f.digest FROM record r CROSS JOIN fact f ON f.id = r.id WHERE r.key IN carray(?)"
_HEADERS: Final = (
    "SELECT h.record, n.value, h.position, v.value FROM header h CROSS JOIN text n ON n.id = h.name "
    "CROSS JOIN text v ON v.id = h.value WHERE h.record IN carray(?)"
)
_RAWS: Final = "SELECT r.key, r.raw FROM carray(?) wanted CROSS JOIN record r ON r.key = wanted.value"
_SIGNATURE: Final = "Signature"
_KEY_SYMBOLS: Final = slice(2, 14)
_KEY_SYMBOLS_SIZE: Final = 12
_Found: TypeAlias = list[FieldValue]


def absent(connection: apsw.Connection, records: Collection[str]) -> frozenset[str]:
    """Those that are neither stored nor refused. The connection's moment must be pinned."""
    counts = tally.read(connection)
    if not (counts.refused or any(counts.records().values())):
        # A new store. Whoever fetches everything into it asks about everything.
        return frozenset(records)
    left = set(records)
    supply = iter(records)
    while chunk := list(islice(supply, _CHUNK)):
        keys = _keys(chunk)
        if not keys:
            continue
        here = connection.execute(_HERE, (apsw.carray(keys),)).fetchall()
        if here:
            left.difference_update(wide.hash_texts(*zip(*here, strict=True)))
        if counts.refused:
            left.difference_update(refusals.reasons(connection, keys))
    return frozenset(left)


def get_many(connection: apsw.Connection, records: Sequence[str], *, bytes_max: int) -> dict[str, bytes]:
    """The bytes of those records that are stored and undamaged, in their order, until so many bytes are together."""
    keys = _keys(records)
    # Where some text can be no name, or two have one key, those are left to be asked for by themselves.
    wanted = dict(zip(keys, records, strict=True)) if len(keys) == len(records) else {}
    found: dict[str, bytes] = {}
    if not wanted:
        return found
    size = 0
    with closing(connection.execute(_RAWS, (apsw.carray(array("q", wanted)),))) as rows:
        for key, raw in rows:
            record = wanted[key]
            if raw[coding.NAME] == record.encode():
                found[record] = raw
                size += len(raw)
                if size >= bytes_max:
                    break
    return found


def fields(connection: apsw.Connection, records: Sequence[str], names: frozenset[str] | None) -> Fields:
    """For each record its fields of these names, by name and then by index as a number."""
    keys = _keys(records)
    if not keys:
        return [None] * len(records)
    # In commit order: neighbours in the table are then read together.
    numbers = sorted(number for (number,) in connection.execute(_NUMBERS, (apsw.carray(keys),)))
    is_plain = names is not None and names <= wide.COLUMNS.keys()
    found: dict[str, tuple[FieldValue, ...]] = {}
    for start in range(0, len(numbers), _CHUNK):
        chunk = array("q", numbers[start : start + _CHUNK])
        columns = _columns(connection, chunk, names)
        if is_plain:
            found.update([(record, tuple(told)) for _, record, told in columns])
        else:
            _gather(connection, columns, names, found)
    return [found.get(record) for record in records]


def _columns(
    connection: apsw.Connection, numbers: "array[int]", names: frozenset[str] | None
) -> Iterator[tuple[int, str, _Found]]:
    """Number, name and wide fields of some records."""
    columns = [name for name in wide.COLUMNS if names is None or name in names]
    decoders = [wide.COLUMNS[name].decode for name in columns]
    statement = f"{wide.statement('f.id, f.kind, f.digest', columns)} WHERE f.id IN carray(?)"
    hash_text = coding.hash_text
    for number, kind, digest, *values in connection.execute(statement, (apsw.carray(numbers),)):
        yield (
            number,
            hash_text(kind, digest),
            [
                (name, "0", value if decode is None else decode(value))
                for name, decode, value in zip(columns, decoders, values, strict=True)
                if value is not None
            ],
        )


def _gather(
    connection: apsw.Connection,
    columns: Iterable[tuple[int, str, _Found]],
    names: frozenset[str] | None,
    found: dict[str, tuple[FieldValue, ...]],
) -> None:
    """Take in the wide fields of some records together with the others."""
    of_number = {number: (record, told) for number, record, told in columns}
    if of_number:
        _add_others(connection, of_number, names)
    found.update([(record, tuple(told)) for record, told in of_number.values()])


def _add_others(
    connection: apsw.Connection, of_number: Mapping[int, tuple[str, _Found]], names: frozenset[str] | None
) -> None:
    """The extra headers and the signature, put in their places."""
    touched: dict[int, list[tuple[str, int, str]]] = {}
    numbers = apsw.carray(array("q", of_number))
    wanted = "" if names is None else " AND h.name IN (SELECT id FROM text WHERE value IN carray(?))"
    bindings = (numbers,) if names is None else (numbers, apsw.carray(tuple(names)))
    for number, name, position, value in connection.execute(_HEADERS + wanted, bindings):
        touched.setdefault(number, []).append((name, position, value))
    if names is None or _SIGNATURE in names:
        with facts.Signatures(connection) as signatures:
            for number, (record, _) in of_number.items():
                if record.startswith(f"{Kind.SEAL.letter}."):
                    touched.setdefault(number, []).append((_SIGNATURE, 0, signatures.of(number)))
    for number, others in touched.items():
        told = of_number[number][1]
        others += [(name, int(index), value) for name, index, value in told]
        told[:] = [(name, str(index), value) for name, index, value in sorted(others)]


def _keys(records: Sequence[str]) -> "array[int]":
    """The keys of those texts that can be names, all cut out in one go where each is one."""
    symbols = "".join([record[_KEY_SYMBOLS] for record in records])
    try:
        if not symbols or len(symbols) != len(records) * _KEY_SYMBOLS_SIZE:
            raise b64a.B64aError("some text is too short for a name")
        raw = bytearray(b64a.decode_counted(symbols.encode("ascii")))
    except (b64a.B64aError, UnicodeEncodeError):
        return array("q", [key for record in records if (key := _key(record)) is not None])
    # Twelve symbols are nine bytes, the key and one more.
    del raw[8::9]
    keys = array("q", bytes(raw))
    if sys.byteorder == "little":
        keys.byteswap()
    return keys


def _key(record: str) -> int | None:
    try:
        return coding.key_of_hash(record)
    except (IdentifierError, ValueError):
        return None
