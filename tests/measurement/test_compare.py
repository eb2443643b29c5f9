from pathlib import Path

import pytest

from benchmarks.compare import main, read_run, render_comparison
from measurement.report import write_report
from tests.measurement.reports import report


def test_two_runs_stand_side_by_side() -> None:
    text = render_comparison({"a": report("a", value=0.5, rate=100)}, {"a": report("a", value=0.8, rate=150)})
    assert "| records (1/s) | 100 | 150 | 1.5 |" in text
    assert "| against bare verification | 0.5 | 0.8 | 1.6 | missed → pass, stretch reached |" in text


def test_a_question_only_one_run_answered_is_said() -> None:
    text = render_comparison({}, {"new": report("new")})
    assert "Only in the run after." in text
    assert "| records (1/s) | – | 15,000 |" in text


def test_other_machines_are_marked() -> None:
    text = render_comparison({"a": report("a", cpu="Old")}, {"a": report("a", cpu="New")})
    assert "Different machines: Old, then New." in text


def test_runs_are_read_from_folders_and_files(tmp_path: Path) -> None:
    path = write_report(report("a"), tmp_path)
    assert read_run(str(tmp_path)) == read_run(str(path)) == {"a": report("a")}


def test_a_run_that_is_not_there_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), str(tmp_path)]) == 1
    assert main(["no-such-revision", str(tmp_path)]) == 1
    assert main(["--", "--output=x", str(tmp_path)]) == 1
    assert "neither a file, a folder nor a revision with results" in capsys.readouterr().err
