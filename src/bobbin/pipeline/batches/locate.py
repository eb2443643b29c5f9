"""Where and when records are, for jobs that order or choose them by that."""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import Blob, Record, read_trusted
from bobbin.store.lake.errors import DamagedLake

LOCATED: Final = pa.schema([("record", pa.string()), ("raw", pa.binary()), ("tai", pa.string())])
"""``tai`` is empty for a Blob, which has no time and so comes before all that have one."""


def locate(batches: Iterable[pa.RecordBatch], at: Coordinate | Prefix | None) -> Iterator[pa.RecordBatch]:
    """Rows of ``records`` with their times; with ``at``, only those at that place."""
    for batch in batches:
        names, raws, times = [], [], []
        for name, raw in zip(batch.column("record").to_pylist(), batch.column("raw").to_pylist(), strict=True):
            record = _read(name, raw)
            if at is None or is_at(record, at):
                names.append(name)
                raws.append(raw)
                times.append("" if isinstance(record, Blob) else record.tai_text)
        columns = [pa.array(names, pa.string()), pa.array(raws, pa.binary()), pa.array(times, pa.string())]
        yield pa.RecordBatch.from_arrays(columns, schema=LOCATED)


def is_at(record: Record, place: Coordinate | Prefix) -> bool:
    """Whether a record is at a coordinate, or below a prefix. A Blob is nowhere."""
    if isinstance(record, Blob) or record.group != place.group or (place.app is not None and record.app != place.app):
        return False
    return record.name == place.name if isinstance(place, Coordinate) else record.name.startswith(place.name)


def _read(name: str, raw: bytes) -> Record:
    try:
        return read_trusted(raw)
    except InvalidRecord as failure:
        raise DamagedLake(f"the bytes stored as {name} are no record any more: {failure.detail}") from failure
