"""Advertisement records made from columns are byte for byte those of the interlace machine."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bobbin.facts import relations
from bobbin.facts.extract import extract
from bobbin.interlace.advertise import advertisement, canonical_fields, render
from bobbin.interlace.schema import Schema
from bobbin.pipeline.batches.advertise import Form, advertise, canonical_records
from bobbin.pipeline.batches.describe import FIXED_FIELDS
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import label_origin
from bobbin.records.record import Blob, Header, Record, build_blob, build_plex
from bobbin.store.lake.describing import describe as rows_of
from bobbin.store.lake.tables import ADVERTISEMENTS
from tests.properties.strategies import EXTRA_VALUES, records

SOURCE = label_origin("lab")
NAMES = [*FIXED_FIELDS, "+Link", "A", "X-Custom", "é", "nowhere"]
SCHEMAS = st.just(Schema(all=True)) | st.frozensets(st.sampled_from(NAMES)).map(lambda names: Schema(names=names))
SOURCES = st.sampled_from([SOURCE, label_origin("it's a \\ label"), label_origin("é")])


def told(record: Record, schema: Schema) -> list[ClaimedField]:
    facts = [values for name, values in extract(record) if name == relations.FIELD]
    return [ClaimedField(*field) for _, *field in facts if field[0] in schema]


@given(st.lists(records(), max_size=6), SCHEMAS, SOURCES)
def test_records_and_digests_are_those_of_the_machine(drawn: list[Record], schema: Schema, source: str) -> None:
    form = Form(source=label_origin(source.removeprefix("source:")), schema=schema)
    rows = rows_of(drawn).select(form.columns)
    expected = [render(one.hash, form.source, canonical_fields(told(one, schema))) for one in drawn]
    assert canonical_records(rows, form).to_pylist() == expected
    (made,) = advertise([rows], form)
    assert made.schema.equals(ADVERTISEMENTS.schema)
    assert made.column("record").to_pylist() == [one.hash for one in drawn]
    machine = [advertisement(one.hash, form.source, told(one, schema)).digest for one in drawn]
    assert made.column("digest").to_pylist() == machine


@given(records(letters="PS"), st.lists(st.tuples(st.sampled_from(NAMES), EXTRA_VALUES), max_size=4))
def test_an_extra_header_of_a_fixed_name_is_told_in_its_place(drawn: Record, extras: list[Header]) -> None:
    assert not isinstance(drawn, Blob)
    changed = structs.replace(drawn, extras=tuple(extras))
    form = Form(source=SOURCE, schema=Schema(all=True))
    expected = render(changed.hash, SOURCE, canonical_fields(told(changed, form.schema)))
    assert canonical_records(rows_of([changed]), form).to_pylist() == [expected]


@pytest.mark.parametrize("name", ["it's", "back\\slash", "combining \u0301 mark", "é"])
def test_values_that_need_care(name: str) -> None:
    plex = build_plex(group="u", app="a", name=name, tai_ns=0, data=b"")
    form = Form(source=SOURCE, schema=Schema(names=frozenset({"Name"})))
    rows = rows_of([plex, build_blob(b"")]).select(form.columns)
    expected = [render(one.hash, SOURCE, tuple(told(one, form.schema))) for one in (plex, build_blob(b""))]
    assert canonical_records(rows, form).to_pylist() == expected


def test_only_the_columns_that_are_told_are_needed() -> None:
    def columns(*names: str) -> tuple[str, ...]:
        return Form(source=SOURCE, schema=Schema(names=frozenset(names))).columns

    assert columns() == ("record",)
    assert columns("TAI", "Signed-By") == ("record", "signer", "tai")
    assert columns("TAI", "X-Custom") == ("record", "tai", "extras")
    assert Form(source=SOURCE, schema=Schema(all=True)).columns == ("record", *FIXED_FIELDS.values(), "extras")


def test_no_rows() -> None:
    form = Form(source=SOURCE, schema=Schema(all=True))
    (made,) = advertise([rows_of([])], form)
    assert made.num_rows == 0
    assert isinstance(canonical_records(rows_of([]), form), pa.Array)
