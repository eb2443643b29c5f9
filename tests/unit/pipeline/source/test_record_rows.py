from typing import TYPE_CHECKING
from unittest.mock import patch

from bobbin.pipeline.source import columns, record_rows
from bobbin.store.lake.describing import describe as rows_of
from tests.conformance import samples

if TYPE_CHECKING:
    from bobbin.records.record import Record


def test_rows_say_what_the_lake_says() -> None:
    records: list[Record] = [samples.EMPTY_BLOB, samples.plex(1, extras=samples.EXTRAS[:2]), samples.sealed(2)]
    (made,) = record_rows.batches(records, columns.schema())
    expected = [
        {"id": None, "raw": record.raw, **{name: row[name] for name in columns.NAMES if name in row}}
        for record, row in zip(records, rows_of(records).to_pylist(), strict=True)
    ]
    assert made.to_pylist() == expected


def test_what_is_not_asked_for_is_not_made() -> None:
    with patch.object(record_rows, "rows_of", side_effect=AssertionError):
        (made,) = record_rows.batches([samples.EMPTY_BLOB], columns.schema(("raw", "record", "id")))
    assert made.num_rows == 1


def test_batches_are_bounded() -> None:
    records = [samples.plex(number, data=bytes(500)) for number in range(10)]
    schema = columns.schema(("raw",))
    with patch.object(columns, "BATCH_ROWS_MAX", 3):
        assert [made.num_rows for made in record_rows.batches(records, schema)] == [3, 3, 3, 1]
    with patch.object(columns, "BATCH_BYTES_MAX", 1_600):
        assert [made.num_rows for made in record_rows.batches(records, schema)] == [2] * 5
    with patch.object(columns, "BATCH_BYTES_MAX", 1):
        assert [made.num_rows for made in record_rows.batches(records, schema)] == [1] * 10


def test_no_records_make_no_batch() -> None:
    assert list(record_rows.batches([], columns.schema())) == []
