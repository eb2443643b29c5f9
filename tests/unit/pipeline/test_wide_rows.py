"""The relations as views of wide rows. What rules read of the same rows is in ``rules/test_wide.py``."""

from typing import TYPE_CHECKING

import pyarrow as pa

from bobbin import profile
from bobbin.facts import relations
from bobbin.facts.extract import extract
from bobbin.pipeline import frames, wide_rows
from bobbin.pipeline.batches.describe import FIXED_FIELDS
from bobbin.store.lake.describing import describe
from bobbin.store.lake.tables import FACTS
from tests.support.lakes import some_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_views_are_the_relations(spark: "SparkSession") -> None:
    records = some_records(25, 8)
    wide = spark.createDataFrame(pa.Table.from_batches([describe(records)]), frames.schema_of(FACTS))
    assert set(wide_rows.VIEWS) == set(relations.ARITY)
    found = []
    for name, view in wide_rows.VIEWS.items():
        frame = view(wide)
        assert len(frame.columns) == relations.ARITY[name]
        assert {kind for _, kind in frame.dtypes} == {"string"}
        found += [(name, tuple(row)) for row in frame.collect()]
    assert sorted(found) == sorted(fact for record in records for fact in extract(record))


def test_a_row_without_lists_has_no_such_facts(spark: "SparkSession") -> None:
    bare = spark.createDataFrame(
        [("P.x", None, None)], "record string, extras " + wide_rows._FIELD + ", links " + wide_rows._LINK
    )
    assert bare.select(wide_rows.extras().alias("a"), wide_rows.links().alias("b")).collect() == [([], [])]


def test_no_extra_header_can_have_the_name_of_a_fixed_field() -> None:
    for name in FIXED_FIELDS:
        assert name in profile.RESERVED_HEADERS or name.startswith(profile.RESERVED_HEADER_PREFIXES)
