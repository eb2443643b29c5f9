import pytest

from bobbin.store.lake import report
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.report import Report

REPORT = Report(
    run="20261116T055643Z-123456-ab12",
    job="ingest",
    plan=None,
    started="1794808640:473900139",
    seconds=0.5,
    inputs={"records": 2},
    outputs={"records": 1},
    counts={"in": 2, "stored": 1, "duplicate": 1, "quarantined": 0},
    tables={"records": 3},
    notes=("one twice",),
)


def test_a_report_is_read_as_it_was_written() -> None:
    assert report.decode(report.encode(REPORT), where="here") == REPORT


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        report.encode(REPORT).replace(b'"ingest"', b"1"),
        report.encode(REPORT).replace(b"20261116T", b"../61116T"),
        report.encode(REPORT).replace(b'"job"', b'"unknown": 1, "job"'),
        report.encode(REPORT).replace(b"ab12", b"ab12\\n"),
        b"[" * 100_000,
    ],
)
def test_anything_else_is_damage(raw: bytes) -> None:
    with pytest.raises(DamagedLake, match=r"^here is no report"):
        report.decode(raw, where="here")
