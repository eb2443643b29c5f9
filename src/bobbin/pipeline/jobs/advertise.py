"""``advertise``: what a lake offers, as digests of advertisement records, and the summaries of their partitions.

Digests and roots are bit for bit those that the interlace machine computes for the same records under the same label
and field schema (Lace-050). All rows of a partition come to one task, in the order of their digests, and one pass over
them makes the summaries of several prefix lengths.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bobbin.interlace.epoch import STANDARD_PREFIX_LENGTH
from bobbin.pipeline import frames, interrupts
from bobbin.pipeline.batches import advertise as batches
from bobbin.pipeline.batches.advertise import Form
from bobbin.pipeline.batches.roots import summarise
from bobbin.pipeline.failures import PipelineError
from bobbin.pipeline.jobs import facts
from bobbin.pipeline.offer import (
    Offer,
    check_lengths,
    is_of,
    lengths_of,
    properties_of,
    selection_of,
    stale_notes,
)
from bobbin.pipeline.progress import Step, silent
from bobbin.pipeline.spark import parallelism
from bobbin.store.lake.built import LENGTHS
from bobbin.store.lake.lake import Lake, Run
from bobbin.store.lake.manifest import Manifest
from bobbin.store.lake.report import Report
from bobbin.store.lake.tables import ADVERTISEMENTS, FACTS, PARTITIONS

if TYPE_CHECKING:
    import pyarrow as pa

STANDARD_LENGTHS: Final = (STANDARD_PREFIX_LENGTH,)
_SPREAD_MAX: Final = 2
"""Lengths that differ by at most so much are made in one pass: below each shortest prefix, as many as 64 to that
power partitions are open at a time."""


def run(
    session: SparkSession,
    lake: Lake,
    offer: Offer,
    *,
    lengths: Sequence[int] = STANDARD_LENGTHS,
    allow_stale: bool = False,
    step: Step = silent,
) -> Report | None:
    """Make the two tables of an offer, after bringing ``facts`` up to date; None if both are there.

    Lengths that the table of partitions has already are kept, as long as it is made from the same. Raises
    ``StaleSelection`` for a selection that is behind the records, unless that is allowed; then the report says so.
    """
    check_lengths(tuple(lengths))
    facts.run(session, lake, step=step)
    chosen = selection_of(lake, offer)
    plan = None if chosen is None else chosen.properties.get("plan")
    with lake.begin("advertise", plan=plan) as run:
        properties = properties_of(offer, facts=run.base(FACTS.name), selection=chosen)
        notes = stale_notes(lake, chosen, allowed=allow_stale)
        made, summarised = run.base(offer.advertisements), run.base(offer.partitions)
        is_made = is_of(lake, made, properties)
        done = lengths_of(summarised) if is_made and is_of(lake, summarised, properties) else ()
        if is_made and set(lengths) <= set(done):
            return None
        counts = {"advertised": made.rows}
        if not is_made:
            step("advertising")
            counts = _advertise(session, run, offer, chosen)
            run.replace(offer.advertisements, properties=properties)
        step("summarising")
        wanted = tuple(sorted({*lengths, *done}))
        source = frames.read(session, lake, made) if is_made else frames.read_staged(session, run, offer.advertisements)
        counts |= _summarise(session, run, offer, source, wanted, counts["advertised"])
        run.replace(offer.partitions, properties=properties | {LENGTHS: ",".join(map(str, wanted))})
        step("committing")
        outputs = {"advertisements": counts["advertised"], "partitions": counts["partitions"]}
        written = {offer.partitions: counts["partitions"]}
        if not is_made:
            written[offer.advertisements] = counts["advertised"]
        interrupts.check()
        return run.commit(
            inputs={"facts": run.base(FACTS.name).rows}, outputs=outputs, counts=counts, notes=notes, rows=written
        )


def choose(facts: DataFrame, selections: DataFrame, predicate: str) -> DataFrame:
    """The rows of ``facts`` whose records a selection has."""
    return facts.join(selections.where(f.col("predicate") == predicate).select("record"), "record", "left_semi")


def by_digest(facts: DataFrame, form: Form) -> DataFrame:
    """Rows of ``advertisements`` for rows of ``facts``. Only the columns that are told are read."""
    wanted = facts.select(*form.columns)
    return wanted.mapInArrow(partial(batches.advertise, form=form), frames.schema_of(ADVERTISEMENTS))


def partition(advertisements: DataFrame, lengths: Sequence[int], partitions: int) -> DataFrame:
    """Rows of ``partitions`` for rows of ``advertisements``, for each of some prefix lengths."""
    passes = [_one_pass(advertisements, together, partitions) for together in _together(sorted(set(lengths)))]
    whole = passes[0]
    for more in passes[1:]:
        whole = whole.unionAll(more)
    return whole


def _one_pass(advertisements: DataFrame, lengths: Sequence[int], partitions: int) -> DataFrame:
    """One shuffle and one sort. A key of one column sorts in a third of the time that prefix and digest take."""
    shortest, longest = lengths[0], lengths[-1]
    prefix = f.encode(frames.payload(longest), "utf-8")
    key = f.concat(
        f.substring(prefix, 1, shortest), f.col("digest"), f.substring(prefix, shortest + 1, longest - shortest)
    )
    keys = advertisements.select(key.alias("key"))
    ordered = keys.repartition(partitions, f.substring("key", 1, shortest)).sortWithinPartitions("key")
    return ordered.mapInArrow(partial(_summarised, lengths=tuple(lengths)), frames.schema_of(PARTITIONS))


def _summarised(batches: "Iterable[pa.RecordBatch]", lengths: Sequence[int]) -> "Iterator[pa.RecordBatch]":
    return summarise(batches, lengths)


def _together(lengths: Sequence[int]) -> list[list[int]]:
    """Which lengths are made in one pass."""
    groups: list[list[int]] = []
    for length in lengths:
        if groups and length - groups[-1][0] <= _SPREAD_MAX:
            groups[-1].append(length)
        else:
            groups.append([length])
    return groups


def _advertise(session: SparkSession, run: Run, offer: Offer, chosen: Manifest | None) -> dict[str, int]:
    described = run.base(FACTS.name)
    offered = frames.read(session, run.lake, described)
    counts = {"facts": described.rows}
    if chosen is not None:
        selections = frames.read(session, run.lake, chosen)
        counts["selected"] = selections.where(f.col("predicate") == offer.predicate).count()
        offered = choose(offered, selections, offer.predicate)
    rows = frames.by_hash(by_digest(offered, offer.form), parallelism(session))
    frames.write(rows, run.folder(offer.advertisements), ADVERTISEMENTS)
    advertised = frames.staged_rows(run, offer.advertisements)
    if chosen is None and advertised != described.rows:
        raise PipelineError(
            f"{described.rows} records are offered, and {advertised} were advertised; nothing was committed", retry=True
        )
    if chosen is not None:
        counts["absent"] = counts["selected"] - advertised
    return counts | {"advertised": advertised}


def _summarise(
    session: SparkSession, run: Run, offer: Offer, rows: DataFrame, lengths: Sequence[int], advertised: int
) -> dict[str, int]:
    cores = parallelism(session)
    # Files of summaries are small, so there are few of them.
    frames.write(partition(rows, lengths, cores).coalesce(cores), run.folder(offer.partitions), PARTITIONS)
    staged = frames.read_staged(session, run, offer.partitions)
    sums = {row["k"]: (row["sum"], row["rows"]) for row in _sums(staged).collect()}
    wrong = [length for length in lengths if sums.get(length, (0, 0))[0] != advertised]
    if wrong:
        raise PipelineError(
            f"{advertised} records were advertised, and the partitions of k = {wrong[0]} hold another number; nothing "
            "was committed",
            retry=True,
        )
    return {"partitions": sum(rows for _, rows in sums.values())}


def _sums(partitions: DataFrame) -> DataFrame:
    return partitions.groupBy("k").agg(f.sum("count").alias("sum"), f.count("prefix").alias("rows"))
