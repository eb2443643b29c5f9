"""A lake read in slices: the files that the manifest of ``records`` names, one slice for each.

Inside a session ``pipeline.frames`` reads a lake faster, since Spark reads Parquet by itself. This way is for queries
that have a lake beside laces and bundles, and for those that want the wide columns without the table ``facts``.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from blake3 import blake3
from msgspec import Struct

from bobbin.pipeline.source import record_rows
from bobbin.pipeline.source.conditions import Condition, OneOf, StartsWith
from bobbin.records import ids
from bobbin.records.canonical import MARKLINE_SIZE
from bobbin.records.ids import IdentifierError
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import Record, read_trusted
from bobbin.store.lake import reading
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.manifest import DataFile
from bobbin.store.lake.tables import RECORDS


class LakeSlice(Struct, frozen=True, kw_only=True):
    """One file of one lake."""

    location: str
    file: DataFile


def plan(location: str, conditions: Sequence[Condition] = ()) -> list[LakeSlice]:
    """A slice for each file that can hold a record which meets the conditions."""
    lake = Lake.open(location)
    return [
        LakeSlice(location=location, file=file)
        for file in lake.manifest(RECORDS.name).files
        if all(_can_hold(file, condition) for condition in conditions)
    ]


def _can_hold(file: DataFile, condition: Condition) -> bool:
    if file.low is None or file.high is None or condition.column != "record":
        return True
    match condition:
        case OneOf(values=values):
            return any(file.low <= str(value) <= file.high for value in values)
        case StartsWith(prefix=prefix):
            return file.low[: len(prefix)] <= prefix <= file.high[: len(prefix)]
        case _:
            return True


def read(slice_: LakeSlice, schema: pa.Schema, *, verify: bool = True) -> Iterator[pa.RecordBatch]:
    """The rows of a slice. With ``verify`` every record is checked against its name."""
    yield from record_rows.batches(_records(slice_, verify=verify), schema)


def _records(slice_: LakeSlice, *, verify: bool) -> Iterator[Record]:
    lake = Lake.open(slice_.location)
    for batch in reading.pieces(lake.files, slice_.file, RECORDS):
        yield from map(_read, *(column.to_pylist() for column in batch.columns), [verify] * batch.num_rows)


def _read(name: str, raw: bytes, verify: bool) -> Record:  # noqa: FBT001 -- the third column of a map
    try:
        record = read_trusted(raw)
        is_it = record.hash == name
        if is_it and verify:
            is_it = blake3(memoryview(raw)[MARKLINE_SIZE:]).digest() == ids.parse_hash(name)[1]
    except (InvalidRecord, IdentifierError) as failure:
        raise DamagedLake(f"the bytes stored as {name} are no record any more: {failure}") from failure
    if not is_it:
        raise DamagedLake(f"the bytes stored as {name} are not those of that name; run `bobbin lake check`")
    return record
