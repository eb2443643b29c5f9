"""What is at a place of a lake.

A lake has no index of places: the columns that say where records are are read, what is at the place is kept, and that
is sorted. A listing with a limit keeps no more than it needs of it; without one, memory grows with what is listed, by
about 200 bytes for each record.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bobbin.errors import UsageError
from bobbin.records import tai
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.ids import HashText
from bobbin.store.base import Listed, StoreRecordId
from bobbin.store.lake.facts import FactRows, can_be_stored
from bobbin.store.lake.lookup import Records
from bobbin.store.lake.tables import FACTS

_COLUMNS: Final = ("record", "group", "app", "name", "tai", "signer", "data_length")
_ORDER: Final = (("app", "ascending"), ("name", "ascending"), ("tai", "descending"), ("record", "descending"))
_CHUNK: Final = 1_024
_TRIMMED_MIN: Final = 65_536


def walk(
    rows: FactRows, records: Records, place: Coordinate | Prefix, *, tips: bool, limit: int | None
) -> Iterator[Listed]:
    """The records at a place, in order."""
    if place.app is None and place.name:
        raise UsageError(f"a prefix that names no app cannot go on with the name {place.name!r}")
    if not all(can_be_stored(text) for text in (place.group, place.app or "", place.name)):
        return
    found = _gather(rows, place, tips=tips, limit=limit)
    for start in range(0, found.num_rows, _CHUNK):
        chunk = found.slice(start, _CHUNK).to_pylist()
        numbers = records.locate_many([row["record"] for row in chunk])
        for row, number in zip(chunk, numbers.tolist(), strict=True):
            yield Listed(
                id=StoreRecordId(number),
                hash=HashText(row["record"]),
                group=row["group"],
                app=row["app"],
                name=row["name"],
                tai=tai.parse(row["tai"]),
                verifier=row["signer"],
                data_length=row["data_length"],
            )


def _gather(rows: FactRows, place: Coordinate | Prefix, *, tips: bool, limit: int | None) -> pa.Table:
    held: list[pa.RecordBatch] = []
    count = 0
    for piece in rows.pieces(_COLUMNS):
        at = piece.filter(_chosen(piece, place))
        if not at.num_rows:
            continue
        held.append(at)
        count += at.num_rows
        if limit is not None and count > max(_TRIMMED_MIN, 2 * limit):
            held = _sorted(held, tips=tips).slice(0, limit).to_batches()
            count = sum(batch.num_rows for batch in held)
    if not held:
        return FACTS.schema.empty_table().select(list(_COLUMNS))
    found = _sorted(held, tips=tips)
    return found if limit is None else found.slice(0, limit)


def _chosen(piece: pa.RecordBatch, place: Coordinate | Prefix) -> pa.Array:
    chosen = pc.equal(piece.column(1), place.group)
    if place.app is not None:
        chosen = pc.and_(chosen, pc.equal(piece.column(2), place.app))
    if isinstance(place, Coordinate):
        chosen = pc.and_(chosen, pc.equal(piece.column(3), place.name))
    elif place.name:
        chosen = pc.and_(chosen, pc.starts_with(piece.column(3), place.name))
    return chosen


def _sorted(held: list[pa.RecordBatch], *, tips: bool) -> pa.Table:
    found = pa.Table.from_batches(held).combine_chunks()
    found = found.take(pc.sort_indices(found, sort_keys=list(_ORDER)))
    if not tips or not found.num_rows:
        return found
    app, name = (found.column(column).combine_chunks() for column in ("app", "name"))
    is_first = np.ones(found.num_rows, dtype=np.bool_)
    is_first[1:] = ~(_equals_before(app) & _equals_before(name))
    return found.filter(pa.array(is_first))


def _equals_before(column: pa.Array) -> "np.typing.NDArray[np.bool_]":
    found: np.typing.NDArray[np.bool_] = pc.equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(
        zero_copy_only=False
    )
    return found
