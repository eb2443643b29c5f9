"""What the records of a lake say, from the table of facts, read column by column.

Where the table has not been made, or is older than the records, what is missing is made from the records' bytes as it
is asked for: slower, and the same. A question about one record is always answered from its bytes.

There is no index but that by name. A question that binds anything else reads the columns that it is about, of all
records, and filters them: about as fast as reading, and never more than a piece of them in memory.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from bobbin.facts import relations
from bobbin.facts.extract import Fact, extract
from bobbin.facts.relations import Pattern, Tuple
from bobbin.records.record import read_trusted
from bobbin.store.lake import describing, reading
from bobbin.store.lake.files import Files
from bobbin.store.lake.lookup import Records
from bobbin.store.lake.manifest import DataFile
from bobbin.store.lake.tables import FACTS, RECORDS

WideRow = tuple[str | None, ...]
Item = TypeVar("Item")

_FIRST: Final = "0"
"""The index of a field that cannot be repeated."""

COLUMNS: Final = {
    "App": "app",
    "Data-Length": "data_length",
    "Group": "group",
    "Name": "name",
    "Signature": "signature",
    "Signed-By": "signer",
    "TAI": "tai",
    "Type": "type",
}
"""The fields that no record has more than once, and the columns that hold them."""

_INNER: Final = {relations.BLOB_HASH: "blob_hash", relations.PLEX_HASH: "plex_hash"}


class FactRows:
    """The rows of facts of one moment: those of the table, and those that are made from records it does not cover."""

    def __init__(self, files: Files, table: Sequence[DataFile], uncovered: Sequence[DataFile]) -> None:
        self._files = files
        self._table = table
        self._uncovered = uncovered

    def pieces(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of every row, a piece at a time, in no order."""
        for file in self._table:
            yield from reading.pieces(self._files, file, FACTS, columns=columns)
        for file in self._uncovered:
            for batch in reading.pieces(self._files, file, RECORDS, columns=["raw"]):
                raws: list[bytes] = batch.column(0).to_pylist()
                yield describing.describe(map(read_trusted, raws)).select(list(columns))


class LakeFacts:
    """The facts of one moment. Patterns are checked at once, tuples are read when they are asked for."""

    def __init__(self, rows: FactRows, records: Records, require_open: Callable[[], None]) -> None:
        self._rows = rows
        self._records = records
        self._require_open = require_open

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        """Every tuple of a predicate."""
        return self.match(predicate, (None,) * relations.ARITY.get(predicate, 0))

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        """The tuples of a predicate that agree with the pattern."""
        relations.check_pattern(predicate, pattern)
        return self._guarded(self._matching(predicate, pattern))

    def wide_fields(self) -> frozenset[str]:
        """The fields that ``wide`` can answer for."""
        return frozenset(COLUMNS)

    def wide(self, fields: tuple[str, ...]) -> Iterator[WideRow]:
        """One row for every record: its name, then its value of each of these fields, None where it has none."""
        columns = [COLUMNS[name] for name in fields]
        pieces = self._rows.pieces(list(dict.fromkeys(["record", *columns])))
        return chain.from_iterable(self._guarded(_wide_rows(piece, ("record", *columns)) for piece in pieces))

    def after(self, number: int, fields: frozenset[str] | None = None) -> Iterator[Fact]:
        """Every fact of the records above a number, from their bytes; with ``fields``, of their fields only these."""
        for _, _, raws in self._records.pieces(number):
            self._require_open()
            for raw in raws.to_pylist():
                for fact in extract(read_trusted(raw)):
                    if fields is None or fact[0] != relations.FIELD or fact[1][1] in fields:
                        yield fact

    def _guarded(self, found: Iterator[Item]) -> Iterator[Item]:
        self._require_open()
        for one in found:
            yield one
            self._require_open()

    def _matching(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        if not all(value is None or can_be_stored(value) for value in pattern):
            return
        subject = pattern[0]
        if subject is not None:
            raw = self._records.get(subject)
            facts = () if raw is None else extract(read_trusted(raw))
            found: Iterator[Tuple] = (values for name, values in facts if name == predicate)
        elif predicate == relations.HAVE:
            found = ((name,) for piece in self._rows.pieces(["record"]) for name in piece.column(0).to_pylist())
        elif predicate == relations.FIELD:
            found = self._fields(pattern)
        elif predicate == relations.RECORD_LINK:
            found = self._nested("links", {"name": pattern[1], "data": pattern[3], "target": pattern[4]})
        else:
            found = self._column_pairs(_INNER[predicate], pattern[1])
        yield from (values for values in found if relations.agrees(values, pattern))

    def _fields(self, pattern: Pattern) -> Iterator[Tuple]:
        _, name, index, value = pattern
        if name is None or name in COLUMNS:
            for field in COLUMNS if name is None else (name,):
                if index in {None, _FIRST}:
                    yield from (
                        (record, field, _FIRST, found) for record, found in self._column_pairs(COLUMNS[field], value)
                    )
        if name is None or name not in COLUMNS:
            yield from self._nested("extras", {"name": name, "value": value})

    def _column_pairs(self, column: str, value: str | None) -> Iterator[tuple[str, str]]:
        """Name and value of every record that has a value in a column, or this value."""
        for piece in self._rows.pieces(["record", column]):
            texts = _texts(piece.column(1))
            chosen = pc.is_valid(texts) if value is None else pc.equal(texts, value)
            yield from zip(piece.column(0).filter(chosen).to_pylist(), texts.filter(chosen).to_pylist(), strict=True)

    def _nested(self, column: str, bound: dict[str, str | None]) -> Iterator[Tuple]:
        """Name and texts of every entry of a column of lists that agrees with what is bound."""
        for piece in self._rows.pieces(["record", column]):
            lists = piece.column(1)
            entries = pc.list_flatten(lists)
            parents = pc.list_parent_indices(lists)
            for field, value in bound.items():
                if value is not None and len(entries):
                    chosen = pc.equal(pc.struct_field(entries, field), value)
                    entries, parents = entries.filter(chosen), parents.filter(chosen)
            if not len(entries):
                continue
            names = piece.column(0).take(parents).to_pylist()
            parts = [_texts(pc.struct_field(entries, field.name)).to_pylist() for field in entries.type]
            yield from zip(names, *parts, strict=True)


def _wide_rows(piece: pa.RecordBatch, columns: Sequence[str]) -> Iterator[WideRow]:
    if len(columns) == 1:
        return zip(piece.column(0).to_pylist(), strict=True)
    values = [_texts(piece.column(piece.schema.get_field_index(name))).to_pylist() for name in columns]
    return zip(*values, strict=True)


def _texts(column: pa.Array) -> pa.Array:
    """A column as texts: numbers are spelled."""
    return column if pa.types.is_string(column.type) else pc.cast(column, pa.string())


def can_be_stored(text: str) -> bool:
    """Whether a text can be in a table at all: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
