"""Relations as data frames.

A relation of arity n has the columns ``_0`` to ``_{n-1}``, all of them texts, no row twice, no null. A relation without
arguments has one column, ``_``, and at most one row: Spark cannot tell apart rows that have no columns.

A relation whose few tuples are known here also carries them. What one side of an exchange says about itself is such a
relation, of a single row: a rule that reads it needs no join, only a literal.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from bobbin.datalog.local.budget import LimitExceeded
from bobbin.facts.relations import Tuple
from bobbin.pipeline.rules.limits import RuleLimits

UNIT: Final = "_"
"""The column of a relation without arguments."""

TAG: Final = "relation"
"""In a frame that holds several relations: the number of the one that a row belongs to."""

_COUNT: Final = "n"


class Relation(Struct, frozen=True, kw_only=True):
    """The tuples of a predicate."""

    frame: DataFrame
    arity: int
    rows: int | None = None
    """How many there are, where that was counted."""
    weight: int = 1
    """How many scans it takes to compute the frame again: what reading it twice would cost twice."""
    tuples: frozenset[Tuple] | None = None
    """The tuples themselves, where they are known here."""


def column_names(arity: int) -> list[str]:
    """The columns of a relation."""
    return [f"_{place}" for place in range(arity)] if arity else [UNIT]


def listed(session: SparkSession, arity: int, tuples: Iterable[Tuple]) -> Relation:
    """A small relation, from its tuples."""
    kept = frozenset(tuples)
    ordered = sorted(kept)
    columns = zip(*ordered, strict=True) if arity and ordered else ([] for _ in range(arity))
    arrays = [pa.array(column, pa.string()) for column in columns] if arity else [pa.array([""] * len(ordered))]
    frame = session.createDataFrame(pa.table(arrays, names=column_names(arity)), schema_of(arity))
    return Relation(frame=frame, arity=arity, rows=len(ordered), tuples=kept)


def schema_of(arity: int, *, tagged: bool = False) -> StructType:
    """The schema of a relation, or of several in one frame, the widest of which has this arity."""
    fields = [StructField(name, StringType()) for name in column_names(arity)]
    return StructType([StructField(TAG, IntegerType(), nullable=False), *fields] if tagged else fields)


# ---- several relations in one frame --------------------------------------------------------------------------------


def tagged(frames: Sequence[tuple[int, DataFrame, int]], width: int) -> DataFrame:
    """Relations (number, frame, arity) one below the other, each filled up with empty texts to the same width."""
    parts = [
        frame.select(f.lit(number).alias(TAG), *padded(column_names(arity), width)) for number, frame, arity in frames
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionAll(part)
    return whole


def padded(names: Sequence[str], width: int) -> list[Column]:
    """These columns under the names of a frame this wide."""
    fill = [f.lit("")] * (width - len(names))
    columns = [*(f.col(name) for name in names), *fill]
    return [column.alias(name) for column, name in zip(columns, column_names(width), strict=True)]


def untagged(frame: DataFrame, number: int, arity: int) -> DataFrame:
    """One of several relations."""
    names = column_names(arity)
    wide = [f.col(frame.columns[1 + place]).alias(name) for place, name in enumerate(names)]
    return frame.where(f.col(TAG) == number).select(*wide)


# ---- materialising ---------------------------------------------------------------------------------------------------


def materialise(frame: DataFrame) -> tuple[DataFrame, int]:
    """The rows as they are now, cut off from how they were computed, and their number."""
    seen = Observation()
    kept = frame.observe(seen, f.count(f.lit(1)).alias(_COUNT)).localCheckpoint()
    return kept, int(seen.get[_COUNT])


def materialise_tagged(frame: DataFrame, numbers: Sequence[int]) -> tuple[DataFrame, Mapping[int, int]]:
    """The same for several relations in one frame, with the rows of each."""
    seen = Observation()
    counts = [f.count_if(f.col(TAG) == number).alias(f"{_COUNT}{number}") for number in numbers]
    kept = frame.observe(seen, *counts).localCheckpoint()
    return kept, {number: int(seen.get[f"{_COUNT}{number}"]) for number in numbers}


def check_rows(rows: int, limits: RuleLimits) -> None:
    """Stop when the rules have derived too much."""
    if rows > limits.derived_rows_max:
        raise LimitExceeded("derived_rows_max", f"the rules derive more than {limits.derived_rows_max} rows")
