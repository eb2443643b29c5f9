from pathlib import Path

import pytest

from measurement.report import read_reports, render_page, render_table, show_number, write_report
from tests.measurement.reports import report


def test_reports_come_back_as_written(tmp_path: Path) -> None:
    written = [report("a"), report("b", value=0.1)]
    for one in reversed(written):
        write_report(one, tmp_path / "results")
    assert read_reports(tmp_path / "results") == written
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["a.json", "b.json"]


def test_page_shows_the_run() -> None:
    page = render_page("Benchmarks", "Introduction.", [report()])
    assert page.startswith("# Benchmarks\n\nIntroduction.\n\n**The one bar is met.**\n\n## ingest\n")
    assert "| records | 15,000 | 1/s |" in page
    assert "| against bare verification | 0.8 | ≥ 0.65, stretch ≥ 0.75 | pass, stretch reached |" in page
    assert "2026-01-02 03:04 UTC · 12 s · Example CPU, 2 cores" in page


def test_a_missed_bar_is_shown_twice_and_in_bold() -> None:
    page = render_page("Benchmarks", "", [report("a"), report("b", value=0.5)])
    assert "**1 of 2 bars missed:**\n\n- b: against bare verification, 0.5 (≥ 0.65" in page
    assert "| **MISSED** |" in page


def test_page_without_runs_says_so() -> None:
    assert "No run has been recorded yet." in render_page("Evidence", "", [])


def test_cells_cannot_break_the_table() -> None:
    table = render_table(["a", "b", "empty"], [["x|y", "two\nlines", ""]], numbers={1})
    assert table == "| a | b |\n| --- | ---: |\n| x\\|y | two lines |"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (2.0, "2"),
        (0.123456, "0.1235"),
        (1234.5, "1,234"),
        (1e-7, "1e-07"),
        ("P.x", "P.x"),
    ],
)
def test_numbers_are_readable(value: float | str, shown: str) -> None:
    assert show_number(value) == shown
