"""Many relations from one pass: records with their single fields side by side.

A store that holds the fields of a record in one row would otherwise be walked once per field, and would spell the name
of every record each time. Here a row is the record's name and one value, or None, per field that was asked for.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np

from bobbin.datalog.local.columns import Column, gather
from bobbin.datalog.local.values import Values
from bobbin.facts.relations import FactSource

WideRow: TypeAlias = tuple[str | None, ...]

_CHUNK: Final = 50_000
_NONE: Final = -1


@runtime_checkable
class WideSource(FactSource, Protocol):
    """A fact source that can also answer for ``Have`` and many names of ``Field`` at once."""

    def wide_fields(self) -> frozenset[str]:
        """The names that ``wide`` can answer for: no record has such a field more than once, so its index is 0."""
        ...

    def wide(self, fields: tuple[str, ...]) -> Iterator[WideRow]:
        """One row for every record: its name, then its value of each of these fields, None where it has none."""
        ...


def is_wide(source: FactSource | None) -> TypeGuard[WideSource]:
    """Whether a source can do that. ``isinstance`` says the same and takes far longer, before every evaluation."""
    return hasattr(source, "wide_fields") and hasattr(source, "wide")


def read_wide(rows: Iterator[WideRow], width: int, values: Values) -> tuple[Column, list[tuple[Column, Column]]]:
    """(the records, (records, values) of each field): records that have every field are one column throughout."""
    chunks: list[list[Column]] = []
    while chunk := list(islice(rows, _CHUNK)):
        chunks.append([_encode(column, values) for column in zip(*chunk, strict=True)])
    if not chunks:
        empty = np.empty(0, dtype=np.int32)
        return empty, [(empty, empty)] * width
    subjects, *columns = (gather(parts) for parts in zip(*chunks, strict=True))
    return subjects, [_present(subjects, column) for column in columns]


def _encode(column: Sequence[str | None], values: Values) -> Column:
    if None not in column:
        return values.encode_many([text for text in column if text is not None])
    there = np.fromiter((text is not None for text in column), dtype=np.bool_, count=len(column))
    numbers = np.full(len(column), _NONE, dtype=np.int32)
    numbers[there] = values.encode_many([text for text in column if text is not None])
    return numbers


def _present(subjects: Column, column: Column) -> tuple[Column, Column]:
    there = column != _NONE
    return (subjects, column) if there.all() else (subjects[there], gather([column[there]]))
