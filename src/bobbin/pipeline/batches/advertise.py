"""Rows of ``facts`` to advertisement records and their digests (Lace-050).

The bytes are those of ``interlace.advertise``. Most records have no extra header that is advertised, and values that
need no escape: for those the text is put together by whole columns. Every other row goes through the machine's own
functions, one by one.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from bobbin.facts.text import quote
from bobbin.interlace.advertise import canonical_fields, record_digest, render
from bobbin.interlace.schema import Schema
from bobbin.pipeline.batches.describe import FIXED_FIELDS, fields_of_row
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin
from bobbin.policy.vocabulary import ADVERTISED, ADVERTISED_FIELD
from bobbin.store.lake.tables import ADVERTISEMENTS

_WRITTEN: Final = ("group", "app", "name")
"""The columns in which a value may need an escape: people choose what stands there."""


class Form(Struct, frozen=True, kw_only=True):
    """What all advertisements of a table have in common."""

    source: Origin
    """Who advertises."""
    schema: Schema
    """Which fields are told."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of ``facts`` that say everything that is told."""
        wanted = [column for name, column in FIXED_FIELDS.items() if name in self.schema]
        if self.schema.all or not self.schema.names <= FIXED_FIELDS.keys():
            wanted.append("extras")
        return ("record", *wanted)


def advertise(batches: Iterable[pa.RecordBatch], form: Form) -> Iterator[pa.RecordBatch]:
    """The rows of ``advertisements`` for rows of ``facts``, of which the columns of the form are needed."""
    for batch in batches:
        digests = [record_digest(text) for text in canonical_records(batch, form).to_pylist()]
        columns = [batch.column("record"), pa.array(digests, pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, schema=ADVERTISEMENTS.schema)


def canonical_records(batch: pa.RecordBatch, form: Form) -> pa.Array:
    """The canonical advertisement record of each row."""
    texts = _by_columns(batch, form)
    irregular = _irregular(batch, form)
    if not pc.any(irregular).as_py():
        return texts
    rows = batch.filter(irregular).to_pylist()
    return pc.replace_with_mask(texts, irregular, pa.array([_by_row(row, form) for row in rows], pa.binary()))


def _by_columns(batch: pa.RecordBatch, form: Form) -> pa.Array:
    """The records of all rows, as if none had extra headers or values that need an escape."""
    source = quote(form.source)
    head = pc.binary_join_element_wise(f"{ADVERTISED_FIELD}('", batch.column("record"), f"',{source},'", "")
    parts: list[pa.Array | str] = [f"{ADVERTISED}('", batch.column("record"), f"',{source})\n"]
    for name, column in sorted(FIXED_FIELDS.items()):
        if name not in form.schema:
            continue
        value = batch.column(column)
        line = [head, f"{name}','0','", value if pa.types.is_string(value.type) else value.cast(pa.string()), "')\n"]
        # A record that has no such field has no such line.
        parts += [pc.coalesce(pc.binary_join_element_wise(*line, ""), "")] if value.null_count else line
    return pc.binary_join_element_wise(*parts, "").cast(pa.binary())


def _irregular(batch: pa.RecordBatch, form: Form) -> pa.Array:
    """Which rows have advertised extra headers, or values that need an escape."""
    found = [
        pc.match_substring_regex(batch.column(column), r"['\\]")
        for column in _WRITTEN
        if column in form.columns and batch.column(column).null_count < len(batch)
    ]
    if "extras" in form.columns:
        extras = batch.column("extras")
        if form.schema.all:
            found.append(pc.greater(pc.list_value_length(extras), 0))
        else:
            found.append(_have_extras(extras, form.schema.names))
    result = pa.repeat(pa.scalar(value=False), len(batch))
    for one in found:
        result = pc.or_(result, pc.coalesce(one, pa.scalar(value=False)))
    return result


def _have_extras(extras: pa.ListArray, names: frozenset[str]) -> pa.Array:
    """Which rows have an extra header of one of these names."""
    parents = pc.list_parent_indices(extras)
    meant = pc.is_in(pc.struct_field(pc.list_flatten(extras), "name"), pa.array(sorted(names), pa.string()))
    return pc.is_in(pa.array(range(len(extras)), parents.type), pc.filter(parents, meant))


def _by_row(row: dict[str, object], form: Form) -> bytes:
    """The record of one row, as the machine makes it."""
    record = row["record"]
    assert isinstance(record, str)
    fields = [ClaimedField(*field) for _, *field in fields_of_row(row) if field[0] in form.schema]
    return render(record, form.source, canonical_fields(fields))
