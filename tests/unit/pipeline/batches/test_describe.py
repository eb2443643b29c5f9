"""Wide rows say exactly what ``facts.extract`` says, whatever the records look like."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bobbin.facts import relations
from bobbin.facts.extract import extract
from bobbin.pipeline.batches.describe import describe, facts_of_rows, field_rows
from bobbin.records.record import Blob, Header, Record, build_blob, build_plex
from bobbin.store.lake.describing import describe as rows_of
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.tables import FACTS, RECORDS
from tests.properties.strategies import EXTRA_VALUES, records

HELLO = build_blob(b"hello")
FIXED = ["Type", "Signed-By", "Signature", "Group", "App", "Name", "TAI", "Data-Length"]
HEADERS = st.lists(st.tuples(st.sampled_from([*FIXED, "A", "+Link", "Chunk+Link"]), EXTRA_VALUES), max_size=6)


def stored(records: Sequence[Record]) -> pa.RecordBatch:
    rows = {"record": [record.hash for record in records], "raw": [record.raw for record in records]}
    return pa.RecordBatch.from_pydict(rows, schema=RECORDS.schema)


def extracted(records: Sequence[Record]) -> list[tuple[str, tuple[str, ...]]]:
    return sorted(fact for record in records for fact in extract(record))


@given(st.lists(records(), max_size=5))
def test_rows_say_what_the_records_say(drawn: list[Record]) -> None:
    rows = describe(stored(drawn))
    assert rows.schema.equals(FACTS.schema)
    assert rows.column("record").to_pylist() == [record.hash for record in drawn]
    assert sorted(facts_of_rows(rows)) == extracted(drawn)
    fields = [values for name, values in extracted(drawn) if name == relations.FIELD]
    assert sorted(field_rows(rows)) == fields


@given(records(letters="PS"), HEADERS)
def test_an_extra_header_takes_the_place_of_a_field_of_its_name(drawn: Record, extras: list[Header]) -> None:
    # No valid record has such headers. Should a later version allow them, rows must still say what ``extract`` says.
    assert not isinstance(drawn, Blob)
    changed = structs.replace(drawn, extras=tuple(extras))
    assert sorted(facts_of_rows(rows_of([changed]))) == extracted([changed])


def test_headers_of_one_name_are_counted_and_links_found() -> None:
    extras = [("A", "x"), ("A", "y"), ("+Link", f"part {HELLO.hash}"), ("+Link", "nothing")]
    plex = build_plex(group="u", app="a", name="n", tai_ns=0, data=b"", extras=extras)
    row = describe(stored([plex])).to_pylist()[0]
    assert [(one["name"], one["index"], one["value"]) for one in row["extras"]] == [
        ("+Link", 0, f"part {HELLO.hash}"),
        ("+Link", 1, "nothing"),
        ("A", 0, "x"),
        ("A", 1, "y"),
    ]
    assert row["links"] == [{"name": "+Link", "index": 0, "data": "part", "target": HELLO.hash}]
    assert row["blob_hash"] == plex.blob_hash


def test_bytes_that_have_lost_their_structure_are_damage() -> None:
    rows = {"record": [HELLO.hash], "raw": [HELLO.raw[:-1]]}
    with pytest.raises(DamagedLake, match=HELLO.hash):
        describe(pa.RecordBatch.from_pydict(rows, schema=RECORDS.schema))


def test_bytes_under_the_name_of_another_record_are_damage() -> None:
    other = build_blob(b"other")
    rows = {"record": [HELLO.hash], "raw": [other.raw]}
    with pytest.raises(DamagedLake, match=f"are those of {other.hash}"):
        describe(pa.RecordBatch.from_pydict(rows, schema=RECORDS.schema))
