"""Bytes to rows, without a JVM."""

import json
from collections import Counter

import pyarrow as pa
import pytest
from blake3 import blake3

from bobbin.errors import UsageError
from bobbin.pipeline.batches.validate import CHECKED, NO_BYTES, Counts, Rows, check_column, tally_row
from bobbin.pipeline.reading.parts import Tally
from bobbin.records.bundle import BundleReader, Damage, Extent, Piece, Run
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import build_blob, validate
from tests.support.lakes import some_records

RECORDS = some_records(50, 3)
NULLS = ("reason", "detail", "source", "offset", "digest", "tally")


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    assert all(batch.schema == CHECKED for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_run_of_records_becomes_rows_with_their_names() -> None:
    rows = Rows(7, "a.bundle")
    raw = b"".join(record.raw for record in RECORDS)
    pieces = BundleReader(recognises=True).feed(raw)
    assert isinstance(pieces[0], Run)
    found = rows_of([*(batch for piece in pieces for batch in rows.add(piece)), *rows.rest()])
    assert [(row["record"], row["raw"]) for row in found] == [(record.hash, record.raw) for record in RECORDS]
    assert all(row[name] is None for row in found for name in NULLS)
    assert {row["part"] for row in found} == {7}
    assert (rows.counts.records, rows.counts.rejected) == (50, 0)
    assert rows.counts.record_bytes == len(raw)


def test_an_extent_is_checked_and_damage_keeps_its_reason() -> None:
    rows = Rows(0, "a.bundle")
    bad = RECORDS[0].raw[:-1] + b"?"
    with pytest.raises(InvalidRecord) as refusal:
        validate(bad)
    pieces: list[Piece] = [
        Extent(raw=RECORDS[1].raw, offset=5),
        Extent(raw=bad, offset=10),
        Damage(raw=b"noise", offset=99, reason="no-record-here", detail="no mark"),
    ]
    good, wrong, noise = rows_of([*(batch for piece in pieces for batch in rows.add(piece)), *rows.rest()])
    assert good["record"] == RECORDS[1].hash
    assert wrong == {
        "record": None,
        "raw": bad,
        "reason": refusal.value.reason.value,
        "detail": refusal.value.detail,
        "source": "a.bundle",
        "offset": 10,
        "digest": blake3(bad).digest(),
        "part": 0,
        "tally": None,
    }
    assert (noise["raw"], noise["reason"], noise["detail"], noise["offset"]) == (
        b"noise",
        "no-record-here",
        "no mark",
        99,
    )
    assert rows.counts == Counts(
        records=1,
        rejected=2,
        record_bytes=len(RECORDS[1].raw),
        rejected_bytes=len(bad) + 5,
        largest=max(len(bad), len(RECORDS[1].raw)),
        reasons={refusal.value.reason.value: 1, "no-record-here": 1},
        kinds={RECORDS[1].hash[0]: 1},
    )


def test_records_are_counted_by_the_letter_of_their_names_also_over_parts() -> None:
    halves = [Rows(0, "a"), Rows(1, "a")]
    for rows, records in zip(halves, (RECORDS[:20], RECORDS[20:]), strict=True):
        for record in records:
            assert list(rows.check(record.raw, 0)) == []
        assert len(list(rows.rest())) == 1
    both = Counts()
    for rows in halves:
        both.merge(rows.counts)
    assert both.kinds == Counter(record.hash[0] for record in RECORDS)
    column = Counts()
    check_column(pa.array([record.raw for record in RECORDS], pa.binary()), lambda _: ("", None), column, part=0)
    assert column.kinds == both.kinds


def test_a_batch_is_bounded_by_rows_and_by_bytes_and_a_large_record_is_one_alone() -> None:
    large = build_blob(b"x" * 5000)
    records = [*RECORDS[:4], large, *RECORDS[4:30]]
    rows = Rows(0, "", rows_max=10, bytes_max=4000)
    batches = [batch for record in records for batch in rows.check(record.raw, None)] + list(rows.rest())
    assert [row["record"] for row in rows_of(batches)] == [record.hash for record in records]
    assert all(len(batch) <= 10 for batch in batches)
    sizes = [sum(len(raw) for raw in batch.column("raw").to_pylist()) for batch in batches]
    assert [len(batch) for batch, size in zip(batches, sizes, strict=True) if size > 4000] == [1]


def test_runs_are_divided_where_they_do_not_fit() -> None:
    runs = [RECORDS[:5], RECORDS[5:9], RECORDS[9:40], RECORDS[40:]]
    rows = Rows(0, "", rows_max=10, bytes_max=4000)
    batches = [
        batch
        for records in runs
        for batch in rows.add(Run(records=records, offset=0, size=sum(len(record.raw) for record in records)))
    ] + list(rows.rest())
    assert [row["record"] for row in rows_of(batches)] == [record.hash for record in RECORDS]
    assert all(0 < len(batch) <= 10 for batch in batches)
    assert all(sum(len(raw) for raw in batch.column("raw").to_pylist()) <= 4000 for batch in batches)
    assert rows.counts.records == 50


def test_a_column_is_checked_in_place_and_places_are_asked_for_only_where_needed() -> None:
    asked: list[int] = []

    def place(row: int) -> tuple[str, int | None]:
        asked.append(row)
        return "x.parquet", 100 + row

    raws = pa.array([RECORDS[0].raw, b"nothing", RECORDS[1].raw, b""], pa.binary())
    counts = Counts()
    found = rows_of([check_column(raws, place, counts, part=-1)])
    assert asked == [1, 3]
    assert [row["record"] for row in found] == [RECORDS[0].hash, None, RECORDS[1].hash, None]
    assert [row["raw"] for row in found] == [RECORDS[0].raw, b"nothing", RECORDS[1].raw, b""]
    assert [(row["source"], row["offset"]) for row in found if row["reason"]] == [
        ("x.parquet", 101),
        ("x.parquet", 103),
    ]
    assert (counts.records, counts.rejected) == (2, 2)


def test_a_column_that_is_a_slice_of_another_is_read_from_its_own_begin() -> None:
    raws = pa.array([RECORDS[0].raw, b"bad", RECORDS[2].raw, b"worse"], pa.binary())[1:]
    found = rows_of([check_column(raws, lambda row: ("s", row), Counts(), part=0)])
    assert [row["raw"] for row in found] == [b"bad", RECORDS[2].raw, b"worse"]
    assert [row["digest"] for row in found] == [blake3(b"bad").digest(), None, blake3(b"worse").digest()]


def test_a_null_is_rejected_by_itself() -> None:
    raws = pa.array([RECORDS[0].raw, None, b"", None], pa.binary())
    counts = Counts()
    good, null, empty, other = rows_of([check_column(raws, lambda row: ("x.parquet", row), counts, part=0)])
    assert (good["record"], good["reason"]) == (RECORDS[0].hash, None)
    for row, place in ((null, 1), (other, 3)):
        assert (row["record"], row["raw"], row["source"], row["offset"]) == (None, b"", "x.parquet", place)
        assert (row["reason"], row["detail"]) == (NO_BYTES, "the column is null in this row")
        assert row["digest"] == blake3(b"").digest()
    assert empty["reason"] not in {None, NO_BYTES}
    assert (counts.records, counts.rejected, counts.rejected_bytes, counts.reasons[NO_BYTES]) == (1, 3, 0, 2)


@pytest.mark.parametrize(("offset", "where"), [(101, "row 101 of s3a://b/x.parquet"), (None, "s3a://b/x.parquet")])
def test_a_null_elsewhere_is_an_error_since_the_column_may_be_missing(offset: int | None, where: str) -> None:
    raws = pa.array([RECORDS[0].raw, None, None], pa.binary())
    counts = Counts()
    with pytest.raises(UsageError, match=f"^{where} has no bytes"):
        check_column(raws, lambda row: ("s3a://b/x.parquet", offset) if row == 1 else ("wrong", row), counts, part=0)
    assert counts == Counts()


def test_an_empty_column_is_an_empty_batch() -> None:
    assert rows_of([check_column(pa.array([], pa.binary()), lambda _: ("", None), Counts(), part=0)]) == []


def test_a_tally_is_a_row_without_bytes() -> None:
    (row,) = rows_of([tally_row(3, Tally(part=3, records=2, rejected=1, end=9))])
    assert (row["part"], row["raw"], row["record"], row["reason"]) == (3, None, None, None)
    assert json.loads(str(row["tally"]))["end"] == 9
