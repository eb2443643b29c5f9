"""The reader as Spark uses it, without Spark: filters in, slices out, sent by pickle, rows back."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    In,
    InputPartition,
    IsNotNull,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegerType, StructField, StructType

from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.pipeline.source import columns
from bobbin.pipeline.source.conditions import meets
from bobbin.pipeline.source.filters import condition_of
from bobbin.pipeline.source.options import parse
from bobbin.pipeline.source.reader import Reader, schema_of
from bobbin.records import tai
from bobbin.records.record import Record
from bobbin.store.lake.lake import Lake
from tests.conformance import samples
from tests.support.lakes import store

Row = dict[str, Any]


def _reader(paths: list[Path], *names: str, **options: str) -> Reader:
    wanted = from_arrow_schema(columns.schema(names or columns.NAMES))
    given_ = {"paths": "[" + ",".join(f'"{path}"' for path in paths) + "]", **options}
    return Reader(parse(given_), wanted)


def _rows(reader: Reader) -> list[Row]:
    """As the workers do it: each gets a copy of the reader and of one partition."""
    partitions = reader.partitions() or [InputPartition(None)]
    sent = pickle.loads(pickle.dumps([(reader, one) for one in partitions]))
    return [row for copy, one in sent for made in copy.read(one) for row in made.to_pylist()]


def _lace(folder: Path, records: Sequence[Record]) -> Path:
    with Lace.create(folder) as lace:
        lace.store.put_records(records)
    return folder


def test_laces_bundles_and_lakes_in_one_query(tmp_path: Path) -> None:
    records = [samples.plex(number) for number in range(9)]
    lace = _lace(tmp_path / "x.lace", records[:3])
    bundle = tmp_path / "x.bundle"
    bundle.write_bytes(b"".join(record.raw for record in records[3:6]))
    store(Lake.create(tmp_path / "lake"), records[6:])
    rows = _rows(_reader([lace, bundle, tmp_path / "lake"], "id", "record"))
    assert {row["record"] for row in rows} == {record.hash for record in records}
    assert [row["id"] for row in rows] == [1, 2, 3] + [None] * 6


def test_nothing_to_read(tmp_path: Path) -> None:
    assert _rows(_reader([_lace(tmp_path / "x.lace", [])])) == []


def test_what_a_lace_answers_is_not_given_back(tmp_path: Path) -> None:
    reader = _reader([_lace(tmp_path / "x.lace", [])])
    answered: list[Filter] = [EqualTo(("group",), "u"), GreaterThan(("id",), 3), In(("tai",), ("x",))]
    left: list[Filter] = [
        EqualTo(("record",), "P.x"),
        StringStartsWith(("record",), "P.a"),
        GreaterThan(("record",), "P.a"),
        Not(EqualTo(("group",), "u")),
        IsNotNull(("group",)),
        EqualTo(("data_length",), 3),
    ]
    assert list(reader.pushFilters(answered + left)) == left


def test_a_bundle_answers_nothing(tmp_path: Path) -> None:
    bundle = tmp_path / "x.bundle"
    bundle.write_bytes(samples.plex(1).raw)
    filters: list[Filter] = [EqualTo(("group",), "nobody")]
    reader = _reader([bundle])
    assert list(reader.pushFilters(filters)) == filters
    assert len(_rows(reader)) == 1


_TEXTS = {
    "group": samples.GROUPS,
    "name": samples.NAMES,
    "tai": tuple(tai.render(time) for time in samples.TIMES),
    "record": tuple(samples.plex(number).hash for number in range(3)),
}


@st.composite
def _filters(draw: st.DrawFn) -> Filter:
    column = draw(st.sampled_from(sorted(_TEXTS)))
    value = draw(st.sampled_from(_TEXTS[column]))
    cut = value[: draw(st.integers(0, len(value)))]
    made: list[Filter] = [
        EqualTo((column,), value),
        In((column,), (value, None, cut)),
        GreaterThan((column,), cut),
        LessThanOrEqual((column,), cut),
        StringStartsWith((column,), cut),
    ]
    return draw(st.sampled_from(made))


@given(
    records=st.lists(st.one_of(samples.records(), st.integers(0, 2).map(samples.plex)), max_size=12),
    filters=st.lists(_filters(), max_size=3),
)
def test_pushed_filters_leave_the_rows_that_unpushed_ones_leave(
    records: list[Record], filters: list[Filter], tmp_path_factory: pytest.TempPathFactory
) -> None:
    lace = _lace(tmp_path_factory.mktemp("laces") / "x.lace", records)

    def kept(rows: list[Row], by: list[Filter]) -> list[Row]:
        conditions = [condition for one in by if (condition := condition_of(one)) is not None]
        assert len(conditions) == len(by)
        found = [row for row in rows if all(meets(one, row[one.column]) for one in conditions)]
        return sorted(found, key=lambda row: row["id"])

    pushing = _reader([lace])
    left = list(pushing.pushFilters(filters))
    assert kept(_rows(pushing), left) == kept(_rows(_reader([lace])), filters)


def test_columns_of_other_types_are_refused() -> None:
    with pytest.raises(UsageError, match="id is int64"):
        schema_of(StructType([StructField("id", IntegerType())]))
    with pytest.raises(UsageError, match="no column 'other'"):
        schema_of(StructType([StructField("other", IntegerType())]))
