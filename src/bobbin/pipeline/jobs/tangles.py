"""``tangles``: every tangle of a lake at a glance, from the messages that are records in it.

For each tangle: how many messages, how deep, its tips, which predecessors are missing, the range of depths that a node
with these records would say it has, and what is wrong with it: messages whose depth is not one more than that of their
deepest predecessor, and messages that are *adrift*, from which no way of held messages leads back to the root.

All but the last are joins. The way back to the root is followed from the root, a round for each step, and what a round
has found is cut off from how it was computed. Messages name one far back besides the tips, so the number of rounds
grows with the logarithm of the depth; a tangle without such links may take more than are allowed, and then its
messages beyond count as adrift, and the answer says that it is not complete.

The job writes nothing.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from bobbin.pipeline import frames
from bobbin.pipeline.batches.places import PLACES, places
from bobbin.pipeline.progress import Step, silent
from bobbin.pipeline.rules.relations import materialise
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.tables import RECORDS

if TYPE_CHECKING:
    import pyarrow as pa

ROUNDS_MAX: Final = 64
SHOWN_MAX: Final = 10
"""Ids of tips, and of missing predecessors, that are told of each tangle; how many there are is told besides."""
_COMPACT_EVERY: Final = 8
_KEY: Final = ["tangle", "id"]


class SurveyedTangle(Struct, frozen=True, kw_only=True):
    """One tangle."""

    tangle: str
    messages: int
    depth: int
    """The greatest."""
    have: tuple[int, int] | None
    """The depths that are there, as a node says it; None without the root."""
    tips: tuple[str, ...]
    tip_count: int
    missing: tuple[str, ...]
    missing_count: int
    wrong_depth: int
    adrift: int


class Survey(Struct, frozen=True, kw_only=True):
    """All tangles of a lake, ready to be read while the session lasts."""

    frame: DataFrame
    rounds: int
    complete: bool
    """Whether the rounds came to an end by themselves."""

    def tangles(self) -> Iterator[SurveyedTangle]:
        """One after the other, by id."""
        for row in self.frame.orderBy("tangle").toLocalIterator():
            yield SurveyedTangle(
                tangle=row["tangle"],
                messages=row["messages"],
                depth=row["depth"],
                have=(0, row["have"]) if row["has_root"] else None,
                tips=tuple(row["tips"] or ()),
                tip_count=row["tip_count"] or 0,
                missing=tuple(row["missing"] or ()),
                missing_count=row["missing_count"] or 0,
                wrong_depth=row["wrong_depth"] or 0,
                adrift=row["messages"] - (row["grounded"] or 0),
            )


def run(session: SparkSession, lake: Lake, *, rounds_max: int = ROUNDS_MAX, step: Step = silent) -> Survey:
    """Look at every tangle of a lake."""
    step("reading messages")
    records = frames.read(session, lake, lake.manifest(RECORDS.name))
    return survey(records, rounds_max=rounds_max, step=step)


def survey(records: DataFrame, *, rounds_max: int = ROUNDS_MAX, step: Step = silent) -> Survey:
    """The same for rows of ``records``."""
    stated = records.mapInArrow(_places, from_arrow_schema(PLACES))
    # Two signatures of one message are two records; it stands in its tangle once.
    standing, _ = materialise(stated.dropDuplicates(_KEY))
    # A message that nobody replies to and that stands elsewhere is no tangle of its own.
    roots = standing.where("id = tangle").select("tangle")
    named = standing.where("id <> tangle").select("tangle").distinct()
    elsewhere = standing.where("id <> tangle").select(f.col("id").alias("tangle")).distinct()
    own = roots.join(named, "tangle", "leftsemi").union(roots.join(elsewhere, "tangle", "leftanti")).distinct()
    standing, _ = materialise(standing.join(own.union(named).distinct(), "tangle", "leftsemi"))
    edges, _ = materialise(standing.select(*_KEY, "depth", f.explode("prev").alias("before")))
    step("following ways to the root")
    grounded, rounds, complete = _grounded(standing, edges, rounds_max)
    return Survey(frame=_summary(standing, edges, grounded), rounds=rounds, complete=complete)


def _grounded(standing: DataFrame, edges: DataFrame, rounds_max: int) -> tuple[DataFrame, int, bool]:
    """The messages from which a way leads to the root; how many rounds that took, and whether they were enough."""
    reached, found = materialise(standing.where("id = tangle").select(*_KEY))
    frontier, rounds = reached, 0
    while found and rounds < rounds_max:
        rounds += 1
        behind = frontier.select("tangle", f.col("id").alias("before"))
        fresh = edges.join(behind, ["tangle", "before"]).select(*_KEY).distinct().join(reached, _KEY, "leftanti")
        frontier, found = materialise(fresh)
        reached = reached.union(frontier)
        if rounds % _COMPACT_EVERY == 0:
            reached, _ = materialise(reached)
    return reached, rounds, found == 0


def _summary(standing: DataFrame, edges: DataFrame, grounded: DataFrame) -> DataFrame:
    known = standing.select("tangle", f.col("id").alias("before"), f.col("depth").alias("depth_before"))
    joined = edges.join(known, ["tangle", "before"], "left")
    missing = (
        joined.where("depth_before IS NULL")
        .groupBy("tangle")
        .agg(f.count_distinct("before").alias("missing_count"), _some("before").alias("missing"))
    )
    wrong = (
        joined.groupBy(*_KEY, "depth")
        .agg(f.max("depth_before").alias("deepest"), f.count_if(f.isnull("depth_before")).alias("unknown"))
        .where("unknown = 0 AND depth <> deepest + 1")
        .groupBy("tangle")
        .agg(f.count(f.lit(1)).alias("wrong_depth"))
    )
    named = edges.select("tangle", f.col("before").alias("id")).distinct()
    tips = (
        standing.join(named, _KEY, "leftanti")
        .groupBy("tangle")
        .agg(f.count(f.lit(1)).alias("tip_count"), _some("id").alias("tips"))
    )
    whole = standing.groupBy("tangle").agg(
        f.count(f.lit(1)).alias("messages"),
        f.max("depth").alias("depth"),
        f.coalesce(f.max(f.when(f.col("has_data"), f.col("depth"))), f.lit(0)).alias("have"),
        f.bool_or(f.col("id") == f.col("tangle")).alias("has_root"),
    )
    reached = grounded.groupBy("tangle").agg(f.count(f.lit(1)).alias("grounded"))
    for part in (tips, missing, wrong, reached):
        whole = whole.join(part, "tangle", "left")
    return whole


def _some(column: str) -> Column:
    return f.slice(f.array_sort(f.collect_set(column)), 1, SHOWN_MAX)


def _places(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    return map(places, batches)
