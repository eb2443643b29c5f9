"""Executor *collected*: the inputs of a recursive core come to the driver, and the in-process engine does the rest.

What comes back is a frame again, so that the next stratum joins with it like with any other; small answers are
broadcast there. Nothing is fetched before it was counted.
"""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from bobbin.datalog.local.budget import LimitExceeded
from bobbin.pipeline.rules.core import Core
from bobbin.pipeline.rules.in_process import evaluate
from bobbin.pipeline.rules.inputs import Inputs
from bobbin.pipeline.rules.limits import RuleLimits
from bobbin.pipeline.rules.relations import TAG, Relation, column_names, schema_of


def execute(session: SparkSession, core: Core, inputs: Inputs, limits: RuleLimits) -> dict[str, Relation]:
    """The relations of a core, computed."""
    if inputs.total > limits.collected_rows_max:
        raise LimitExceeded(
            "collected_rows_max",
            f"the rules for {' and '.join(sorted(core.arities))} read {inputs.total} rows after all filters, and at "
            f"most {limits.collected_rows_max} may be brought to the driver",
        )
    columns = _fetch(inputs)
    found = evaluate(core.plan(), columns, inputs.rows, limits.in_process)
    return {predicate: _relation(session, found[predicate], arity) for predicate, arity in core.arities.items()}


def _fetch(inputs: Inputs) -> dict[str, list[pa.ChunkedArray]]:
    table = inputs.frame.toArrow()
    columns = {}
    for number, (name, arity) in enumerate(inputs.arities.items()):
        own = table.filter(pc.equal(table[TAG], number)) if len(inputs.arities) > 1 else table
        columns[name] = [own[place] for place in column_names(arity)] if arity else []
    return columns


def _relation(session: SparkSession, columns: list[pa.Array], arity: int) -> Relation:
    table = pa.table(columns, names=column_names(arity))
    return Relation(frame=session.createDataFrame(table, schema_of(arity)), arity=arity, rows=table.num_rows)
