"""Executor *partitioned*: a core that falls apart by a key, evaluated by the in-process engine inside Spark's workers.

The rows of all inputs are dealt out by key (see ``partition``), each partition holds everything that its keys need, and
one pass of ``mapInArrow`` computes the whole fixed point there, however many rounds it takes.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from bobbin.datalog.algebra import Plan
from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.pipeline.rules.core import Core
from bobbin.pipeline.rules.in_process import evaluate
from bobbin.pipeline.rules.inputs import Inputs
from bobbin.pipeline.rules.limits import CannotExecute, RuleLimits
from bobbin.pipeline.rules.partition import Deal, Partitioning, find_partitioning, name_of
from bobbin.pipeline.rules.relations import (
    TAG,
    Relation,
    column_names,
    listed,
    materialise_tagged,
    schema_of,
    untagged,
)
from bobbin.pipeline.spark import parallelism

_TARGET: Final = "target"
_BATCH_ROWS: Final = 10_000


class Work(Struct, frozen=True, kw_only=True):
    """What a worker is told."""

    plan: Plan
    inputs: tuple[tuple[str, int], ...]
    """Name and arity of each relation that it is sent, by number."""
    outputs: tuple[tuple[str, int], ...]
    """Name and arity of each relation that it is to send back, by number."""
    width: int
    limits: Limits


def check(core: Core) -> None:
    """Refuse a core that does not fall apart, before anything is computed for it."""
    if find_partitioning(core, {}) is None:
        raise CannotExecute(
            f"the rules for {' and '.join(sorted(core.arities))} have no argument that every recursive literal shares "
            "with the head: their facts cannot be evaluated apart from one another"
        )


def execute(session: SparkSession, core: Core, inputs: Inputs, limits: RuleLimits) -> dict[str, Relation]:
    """The relations of a core that falls apart, computed."""
    found = find_partitioning(core, inputs.rows)
    assert found is not None, "whoever asks for it has checked the core"
    if not found.deals:
        # Every rule reads the core itself, so there is nothing to begin with.
        return {name: listed(session, arity, ()) for name, arity in core.arities.items()}
    copied = sum(inputs.rows[name] for name in found.replicated())
    if copied > limits.replicated_rows_max:
        raise LimitExceeded(
            "replicated_rows_max",
            f"every partition would need a copy of {copied} rows, more than {limits.replicated_rows_max}",
        )
    partitions = parallelism(session)
    width = max(core.arities.values(), default=0)
    work = Work(
        plan=Core(core.arities, core.inputs, found.rules).plan(),
        inputs=tuple((name_of(deal), inputs.arities[deal.input]) for deal in found.deals),
        outputs=tuple(core.arities.items()),
        width=width,
        limits=limits.in_process,
    )
    dealt = _dealt(inputs, found, partitions).repartitionById(partitions, _TARGET).drop(_TARGET)
    answer = dealt.mapInArrow(partial(evaluate_partition, work), schema_of(width, tagged=True))
    kept, counts = materialise_tagged(answer, range(len(work.outputs) + 1))
    if counts[len(work.outputs)]:
        raise _read_excess(kept, len(work.outputs))
    return {
        name: Relation(frame=untagged(kept, number, arity), arity=arity, rows=counts[number])
        for number, (name, arity) in enumerate(work.outputs)
    }


def _dealt(inputs: Inputs, partitioning: Partitioning, partitions: int) -> DataFrame:
    """Every row with the partition that it goes to, once for each partition that needs it."""
    numbers = {name: number for number, name in enumerate(inputs.arities)}
    parts = []
    for number, deal in enumerate(partitioning.deals):
        frame = inputs.frame.where(f.col(TAG) == numbers[deal.input]).withColumn(TAG, f.lit(number))
        parts.append(frame.withColumn(_TARGET, _target(deal, partitions)))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionAll(part)
    return whole


def _target(deal: Deal, partitions: int) -> Column:
    if deal.place is None:
        return f.explode(f.sequence(f.lit(0), f.lit(partitions - 1)))
    return f.pmod(f.hash(f.col(f"_{deal.place}")), f.lit(partitions))


def evaluate_partition(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Everything that the rows of one partition derive."""
    table = _gathered(batches)
    if table is None:
        return
    columns: dict[str, list[pa.ChunkedArray]] = {}
    sizes: dict[str, int] = {}
    for number, (name, arity) in enumerate(work.inputs):
        own = table.filter(pc.equal(table[TAG], number))
        columns[name] = [own[place] for place in column_names(arity)] if arity else []
        sizes[name] = own.num_rows
    try:
        found = evaluate(work.plan, columns, sizes, work.limits)
    except LimitExceeded as excess:
        # A value, since what is raised here reaches the driver as a trace of Python inside one of Java.
        said = [pa.array([f"{excess.limit}:{excess}"], pa.string())]
        yield from _spread(len(work.outputs), said, 1, work.width)
        return
    for number, (name, arity) in enumerate(work.outputs):
        yield from _spread(number, found[name], arity, work.width)


def _read_excess(answer: DataFrame, number: int) -> LimitExceeded:
    """The error that the first of the partitions has met that went past a limit."""
    said = untagged(answer, number, 1).agg(f.min("_0")).collect()[0][0]
    limit, _, message = said.partition(":")
    return LimitExceeded(limit, f"{message}, in one partition")


def _gathered(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    kept = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(kept) if kept else None


def _spread(number: int, columns: list[pa.Array], arity: int, width: int) -> Iterator[pa.RecordBatch]:
    """The rows of one relation in the form of several in one frame."""
    size = len(columns[0])
    filled = [*columns, *[pa.array([""] * size, pa.string())] * (max(width, 1) - max(arity, 1))]
    tags = pa.array([number] * size, pa.int32())
    whole = pa.RecordBatch.from_arrays([tags, *filled], names=[TAG, *column_names(width)])
    for start in range(0, size, _BATCH_ROWS):
        yield whole.slice(start, _BATCH_ROWS)


def describe(partitioning: Partitioning, rows: Mapping[str, int]) -> str:
    """The key of each predicate, and what is copied, for the report."""
    keys = ", ".join(f"{name} by argument {place + 1}" for name, place in sorted(partitioning.keys.items()))
    copied = sum(rows[name] for name in partitioning.replicated())
    return f"{keys}; {copied} rows copied to each partition" if copied else keys
