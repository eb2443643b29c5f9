"""``bobbin pipeline ingest``."""

from pathlib import Path

import pytest

from bobbin.cli.commands.pipeline_ingest import FormatChoice
from bobbin.pipeline.reading.sources import Format
from bobbin.store.lake.lake import Lake
from tests.unit.cli.command_line import Cli
from tests.unit.cli.damaged import write_damaged


def test_the_formats_are_those_of_the_job() -> None:
    assert [choice.value for choice in FormatChoice] == [form.value for form in Format]


@pytest.mark.usefixtures("spark")
def test_what_is_said_in_json_and_to_people(cli: Cli, tmp_path: Path) -> None:
    path, lake = tmp_path / "x.bundle", tmp_path / "x.lake"
    damaged = write_damaged(path, good=40, bad=10)
    answer = cli("pipeline", "ingest", lake, path, "--json")
    assert answer.code == 1
    summary = answer.json
    assert summary["event"] == "summary"
    assert (summary["in"], summary["stored"], summary["duplicate"], summary["quarantined"]) == (50, 40, 0, 10)
    assert (summary["sources"], summary["bytes"]) == (1, path.stat().st_size)
    assert sum(summary["reasons"].values()) == 10
    assert set(summary["reasons"]) == {reason for _, reason in damaged.bad}
    assert Lake.open(lake).report(summary["run"]) is not None

    again = cli("pipeline", "ingest", lake, path)
    assert again.code == 1
    *reasons, counts, known, run = again.lines
    assert all(line.startswith("quarantined") for line in reasons)
    assert counts.startswith("0 stored · 40 duplicate · 10 quarantined  (50 records of 1 source, ")
    assert known == "10 of the quarantined were in the quarantine before"
    assert run.startswith("run 2")


@pytest.mark.usefixtures("spark")
def test_a_clean_source_ends_well(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.bundle"
    write_damaged(path, good=5, bad=0)
    assert cli("pipeline", "ingest", tmp_path / "x.lake", path).code == 0


def test_what_makes_no_sense_is_said_before_spark_starts(cli: Cli, tmp_path: Path) -> None:
    missing = cli("pipeline", "ingest", tmp_path / "x.lake", tmp_path / "nothing")
    assert missing.code == 4
    assert "there is no source" in missing.err
    assert cli("pipeline", "ingest", tmp_path / "x.lake", "-").code == 2
    assert cli("pipeline", "ingest", tmp_path / "x.lake", tmp_path, "--form", "bundle").code == 2
    assert cli("pipeline", "ingest", tmp_path / "x.lake", tmp_path, "--form", "csv").code == 2
    assert not (tmp_path / "x.lake").exists()


def test_the_older_name_of_the_form_is_taken_and_not_shown(cli: Cli, tmp_path: Path) -> None:
    old = cli("pipeline", "ingest", tmp_path / "x.lake", tmp_path, "--format", "bundle")
    assert (old.code, "--form files reads the files in it" in old.err) == (2, True)
    both = cli("pipeline", "ingest", tmp_path / "x.lake", tmp_path, "--format", "bundle", "--form", "bundle")
    assert (both.code, "give one of them" in both.err) == (2, True)
    assert "--format" not in cli("pipeline", "ingest", "--help").text
