"""A relation in memory: an ordinary table while it is small, columns when it is large."""

from collections.abc import Iterable
from itertools import islice
from typing import Final, TypeAlias

import numpy as np

from bobbin.datalog.local.columns import ColumnTable, block_of, unique
from bobbin.datalog.local.table import Row, Table

Relation: TypeAlias = Table | ColumnTable

COLUMNS_MIN: Final = 50_000
"""From this many rows on, columns take over. Below, hash indexes are faster and memory does not matter."""


def relation(arity: int, rows: Iterable[Row]) -> Relation:
    """Rows in the form that fits their number."""
    supply = iter(rows)
    first = list(islice(supply, COLUMNS_MIN))
    if len(first) < COLUMNS_MIN or not arity:
        return Table(arity, [*first, *supply])
    chunks = [block_of(arity, first)]
    while chunk := list(islice(supply, COLUMNS_MIN)):
        chunks.append(block_of(arity, chunk))
    columns = [np.concatenate([chunk.columns[place] for chunk in chunks]) for place in range(arity)]
    return ColumnTable(arity, unique(columns, len(columns[0])))
