"""A relation in memory: an ordinary table while it is small or changes much, columns when it is large or at rest."""

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Final, TypeAlias

import numpy as np

from bobbin.datalog.local.columns import Block, Column, ColumnTable, gather, sorted_block
from bobbin.datalog.local.table import Table
from bobbin.datalog.local.values import Values
from bobbin.facts.relations import Tuple

Relation: TypeAlias = Table | ColumnTable

COLUMNS_MIN: Final = 50_000
"""From this many rows on, columns take over at once. Below, hash indexes are faster."""
RESTING_MIN: Final = 128
"""From this many rows on, what is kept for later is kept as columns: a node has a relation for each of many links."""


def relation(arity: int, rows: Iterable[Tuple], values: Values) -> Relation:
    """Facts, none of them twice, in the form that fits their number."""
    supply = iter(rows)
    chunk = list(islice(supply, COLUMNS_MIN))
    if len(chunk) < COLUMNS_MIN or not arity:
        return Table(arity, map(values.encode_row, chain(chunk, supply)))
    chunks: list[list[Column]] = []
    while chunk:
        chunks.append([values.encode_many(column) for column in zip(*chunk, strict=True)])
        chunk = list(islice(supply, COLUMNS_MIN))
    return ColumnTable(arity, Block([gather(parts) for parts in zip(*chunks, strict=True)]))


def relation_of(columns: Sequence[Column]) -> Relation:
    """Rows that are columns already, none of them twice, in the form that fits their number."""
    block = Block(columns)
    if block.size < COLUMNS_MIN:
        return Table(len(columns), block.rows())
    return ColumnTable(len(columns), block)


def settled(table: Relation) -> Relation:
    """The same rows in the form that they are kept in until something changes."""
    if isinstance(table, ColumnTable):
        table.settle()
        return table
    if len(table) < RESTING_MIN or not table.arity:
        return table
    block = sorted_block(table.arity, table.rows)
    block.share()
    return ColumnTable(table.arity, block)


def constant(number: int, size: int) -> Column:
    """A column that has one value throughout."""
    return np.broadcast_to(np.array([number], dtype=np.int32), (size,))
