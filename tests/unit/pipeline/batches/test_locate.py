import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.pipeline.batches.locate import LOCATED, is_at, locate
from bobbin.records import coordinate
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.record import Record
from bobbin.records.tai import render
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.tables import RECORDS
from tests.conformance import samples


def _batch(records: list[Record]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"record": one.hash, "raw": one.raw} for one in records], RECORDS.schema)


def test_times_of_records() -> None:
    records: list[Record] = [samples.EMPTY_BLOB, samples.plex(1, tai=7), samples.sealed(2, tai=9)]
    (made,) = locate([_batch(records)], None)
    assert made.schema == LOCATED
    assert made.column("tai").to_pylist() == ["", render(7), render(9)]
    assert made.column("raw").to_pylist() == [record.raw for record in records]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("//u//", [1, 2, 3, 4]),
        ("//u//a//", [1, 2, 3]),
        ("//u//a//x/", [1, 2]),
        ("//u//a//x/1", [1]),
        ("//u//a//x", [3]),
        ("//v//", []),
    ],
)
def test_records_at_a_place(place: str, expected: list[int]) -> None:
    records: list[Record] = [
        samples.EMPTY_BLOB,
        samples.plex(app="a", name="x/1"),
        samples.plex(app="a", name="x/2"),
        samples.plex(app="a", name="x"),
        samples.plex(app="b", name="x/1"),
        samples.plex(group="u/v", app="a", name="x/1"),
    ]
    at = coordinate.parse(place)
    assert isinstance(at, Coordinate | Prefix)
    (made,) = locate([_batch(records)], at)
    assert made.column("record").to_pylist() == [records[number].hash for number in expected]


@given(
    record=samples.records(), text=st.sampled_from(["//u//", "//u//ding//", "//u//ding//links/", "//u//ding//links/1"])
)
def test_a_place_means_what_a_listing_means(record: Record, text: str) -> None:
    """A record's coordinate begins with the text of a prefix exactly if it is below it."""
    place = coordinate.parse(text)
    assert isinstance(place, Coordinate | Prefix)
    own = "" if record.kind.letter == "B" else str(record.coordinate)  # type: ignore[union-attr]
    assert is_at(record, place) == (own == text if isinstance(place, Coordinate) else own.startswith(text))


def test_bytes_that_are_no_record() -> None:
    batch = pa.RecordBatch.from_pylist([{"record": "P.x", "raw": b"nothing"}], RECORDS.schema)
    with pytest.raises(DamagedLake, match=r"P\.x"):
        list(locate([batch], None))
