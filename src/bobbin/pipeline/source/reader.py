"""Batch reading for Spark: which slices there are, and the rows of each.

Spark makes the reader on the driver, tells it the filters, asks for the slices, and sends it to the workers with one
slice each. A filter that a lace answers fully is not looked at again; all others are, also where they have helped to
read less.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from bobbin.errors import UsageError
from bobbin.pipeline.source import bundle_slices, columns, lace_slices, lace_statement, lake_slices, locations
from bobbin.pipeline.source.bundle_slices import BundleSlice
from bobbin.pipeline.source.filters import condition_of
from bobbin.pipeline.source.lace_slices import LaceSlice
from bobbin.pipeline.source.lake_slices import LakeSlice
from bobbin.pipeline.source.locations import Kind
from bobbin.pipeline.source.options import Mode, Options
from bobbin.pipeline.source.plain_errors import plain_rows, plainly

if TYPE_CHECKING:
    from bobbin.pipeline.source.conditions import Condition

Slice = LaceSlice | BundleSlice | LakeSlice


def schema_of(wanted: StructType) -> pa.Schema:
    """The Arrow form of a schema that Spark asks for, if its columns are ours with our types."""
    schema = to_arrow_schema(wanted, timezone="UTC")
    for field in columns.schema(schema.names):
        found = schema.field(field.name).type
        if str(found).replace(" not null", "") != str(field.type).replace(" not null", ""):
            raise UsageError(f"the column {field.name} is {field.type}, and cannot be read as {found}")
    return schema


def read_slice(slice_: Slice, schema: pa.Schema, *, verify: bool) -> Iterator[pa.RecordBatch]:
    """The rows of a slice of whichever kind."""
    match slice_:
        case LaceSlice():
            return lace_slices.read(slice_, schema, verify=verify)
        case BundleSlice():
            return bundle_slices.read(slice_, schema)
        case LakeSlice():
            return lake_slices.read(slice_, schema, verify=verify)


class Reader(DataSourceReader):
    """Reads the paths of one query."""

    def __init__(self, options: Options, wanted: StructType) -> None:
        self._options: Final = options
        self._schema: Final = schema_of(wanted)
        self._conditions: list[Condition] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 -- Spark's name
        """Take what helps; give back what Spark is to look at."""
        return plain_rows(self._push(filters))

    def _push(self, filters: list[Filter]) -> Iterator[Filter]:
        is_lace = all(locations.find(path).kind is Kind.LACE for path in self._options.paths)
        for filter_ in filters:
            condition = condition_of(filter_)
            if condition is None or not lace_statement.narrows(condition):
                yield filter_
                continue
            self._conditions.append(condition)
            if not is_lace or not lace_statement.is_exact(condition):
                yield filter_

    @plainly
    def partitions(self) -> Sequence[InputPartition]:
        """A partition for each slice."""
        return [InputPartition(slice_) for path in self._options.paths for slice_ in self._plan(path)]

    def _plan(self, path: str) -> Sequence[Slice]:
        options = self._options
        location = locations.find(path)
        match location.kind:
            case Kind.LACE:
                return lace_slices.plan(location.path, self._conditions, records_per_slice=options.records_per_slice)
            case Kind.LAKE:
                return lake_slices.plan(str(location.path), self._conditions)
            case Kind.BUNDLE:
                lenient = options.mode is Mode.DROPMALFORMED
                return bundle_slices.plan(location.path, bytes_per_slice=options.bytes_per_slice, lenient=lenient)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one slice. Where there is no slice at all, Spark asks for the rows of nothing."""
        slice_: Slice | None = partition.value
        if slice_ is None:
            return iter(())
        return plain_rows(read_slice(slice_, self._schema, verify=self._options.verify))
