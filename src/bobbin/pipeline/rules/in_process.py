"""The in-process engine on Arrow columns: the same evaluation on the driver and inside a worker.

Nothing here knows Spark. Texts become numbers once per distinct value, not once per row.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bobbin.datalog.algebra import Plan
from bobbin.datalog.limits import Limits
from bobbin.datalog.local.columns import unique
from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.database import Database
from bobbin.datalog.local.evaluate import Executable, State
from bobbin.datalog.local.relation import Relation, relation_of
from bobbin.datalog.local.table import Table
from bobbin.datalog.local.values import Values


def evaluate(
    plan: Plan, inputs: Mapping[str, Sequence[pa.ChunkedArray]], sizes: Mapping[str, int], limits: Limits
) -> dict[str, list[pa.Array]]:
    """What the rules derive, as columns of texts by predicate.

    ``inputs`` has the columns of each relation that the rules read, ``sizes`` its rows; rows may stand there twice.
    A derived relation without arguments comes as one column, with a row if it holds.
    """
    values = Values()
    database = Database({}, {name: len(columns) for name, columns in inputs.items()}, values)
    for name, columns in inputs.items():
        database.put(Source(name), _relation([_encode(column, values) for column in columns], sizes[name]))
    state = Executable(plan, limits).evaluate(database)
    return {
        union.predicate: _decode(state, union.predicate, values) for stratum in plan.strata for union in stratum.unions
    }


def _relation(columns: Sequence[NDArray[np.int32]], size: int) -> Relation:
    if not columns:
        return Table(0, [()] if size else [])
    return relation_of(unique(columns, size).columns)


def _encode(column: pa.ChunkedArray, values: Values) -> NDArray[np.int32]:
    parts = []
    for chunk in column.chunks:
        encoded = chunk.dictionary_encode()
        numbers = values.encode_many(encoded.dictionary.to_pylist())
        parts.append(numbers[encoded.indices.to_numpy(zero_copy_only=False)])
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)


def _decode(state: State, predicate: str, values: Values) -> list[pa.Array]:
    block = state.block(Source(predicate))
    if not block.columns:
        return [pa.array([""] * block.size, pa.string())]
    found = []
    for column in block.columns:
        numbers, places = np.unique(column, return_inverse=True)
        texts = pa.array([values.texts[number] for number in numbers.tolist()], pa.string())
        found.append(texts.take(pa.array(places.reshape(-1))))
    return found
