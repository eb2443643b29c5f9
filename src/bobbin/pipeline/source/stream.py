"""A lace as a stream: records in the order in which they were stored, from a ``StoreRecordId`` on.

An offset says after which record a batch ends: the lace (by the moment of its creation), the id, and the name of the
record that has it. When a stream goes on, both are compared with the lace, so a lace that was put back from an older
backup, or another one in its place, is noticed before a record is missed. A record that was removed since cannot be
compared, and its id alone counts.

Removals are not part of the stream. A record that was removed before its batch was read never appears; one that was
removed later has appeared, and stays in whatever was made from it.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from bobbin.errors import UsageError
from bobbin.pipeline.source import lace_slices, locations
from bobbin.pipeline.source.lace_slices import Moment
from bobbin.pipeline.source.locations import Kind
from bobbin.pipeline.source.options import Options, parse
from bobbin.pipeline.source.plain_errors import plain_rows, plainly
from bobbin.pipeline.source.reader import read_slice, schema_of
from bobbin.store.base import StoreError

Offset = dict[str, Any]
"""``lace``, ``id`` and ``record``, as Spark writes them into its checkpoint."""


class OtherLace(StoreError):
    """The lace is not the one that the stream has read so far, or an older state of it. Nothing was read."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retry=False)


def offset_at(now: Moment, id_: int) -> Offset:
    """The offset after the record with this id."""
    return {"lace": now.created, "id": id_, "record": lace_slices.name_at(Path(now.folder), id_) if id_ else None}


def check(now: Moment, offset: Offset) -> int:
    """The id that an offset stands at, if it is one of this lace."""
    if offset["lace"] != now.created:
        raise OtherLace(
            f"the stream was begun on the lace created at {offset['lace']}, and {now.folder} is the one of "
            f"{now.created}; begin another stream"
        )
    id_: int = offset["id"]
    if id_ > now.high_water:
        raise OtherLace(
            f"the stream has read {now.folder} up to the id {id_}, and the lace has given out only {now.high_water}: "
            "it is an older state of it, put back from a backup perhaps; begin another stream"
        )
    found = lace_slices.name_at(Path(now.folder), id_) if id_ else None
    if found is not None and offset["record"] is not None and found != offset["record"]:
        raise OtherLace(
            f"the stream has read {offset['record']} under the id {id_}, and {now.folder} has {found} there: its "
            "history is another one; begin another stream"
        )
    return id_


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one lace as it grows.

    Nothing is looked at before the first offset is asked for: an error of a reader that is only being made is lost in
    Spark, behind one about a reader that it does not have.
    """

    def __init__(self, given: Mapping[str, str], wanted: StructType) -> None:
        self._given: Final = dict(given)
        self._wanted: Final = wanted
        self._target: int | None = None
        """Where a stream of what is there now ends."""

    @cached_property
    def _options(self) -> Options:
        return parse(self._given)

    @cached_property
    def _schema(self) -> pa.Schema:
        return schema_of(self._wanted)

    @cached_property
    def _folder(self) -> Path:
        paths = self._options.paths
        if len(paths) != 1:
            raise UsageError(f"a stream reads one lace, not {len(paths)} paths; begin one for each")
        location = locations.find(paths[0])
        if location.kind is not Kind.LACE:
            raise UsageError(f"a stream reads a lace; {location.path} is a {location.kind.value}")
        return location.path

    @plainly
    def initialOffset(self) -> Offset:  # noqa: N802 -- Spark's names, here and below
        """Where a new stream begins."""
        now = lace_slices.moment(self._folder)
        start = now.high_water if self._options.starting_id is None else self._options.starting_id
        if start > now.high_water:
            raise UsageError(f"startingId is {start}, and {self._folder} has given out ids up to {now.high_water}")
        return offset_at(now, start)

    @plainly
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """How many records a batch takes."""
        limit = self._options.records_per_batch_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    @plainly
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Where the next batch ends."""
        now = lace_slices.moment(self._folder)
        begin = check(now, start)
        end = now.high_water if self._target is None else min(now.high_water, self._target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, lace_slices.last_of(self._folder, begin, limit.max_rows))
        return start if end <= begin else offset_at(now, end)

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take what is there now for all that there will be."""
        self._target = lace_slices.moment(self._folder).high_water

    @plainly
    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Where the lace is, for whoever watches the stream."""
        now = lace_slices.moment(self._folder)
        return offset_at(now, now.high_water)

    @plainly
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """A partition for each slice of a batch."""
        now = lace_slices.moment(self._folder)
        low, high = check(now, start), check(now, end)
        slices = lace_slices.between(now, low, high, records_per_slice=self._options.records_per_slice)
        return [InputPartition(slice_) for slice_ in slices]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one slice."""
        return plain_rows(read_slice(partition.value, self._schema, verify=self._options.verify))

    def commit(self, end: Offset) -> None:
        """A lace keeps its records whether or not somebody has read them."""

    def stop(self) -> None:
        """Nothing is held open."""
