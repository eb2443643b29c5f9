"""``bobbin pipeline follow``."""

from pathlib import Path

import pytest

from bobbin.cli.commands import pipeline_follow
from bobbin.lace import Lace
from bobbin.pipeline.jobs import follow
from tests.conformance import samples
from tests.unit.cli.command_line import Cli


def test_the_defaults_are_those_of_the_job() -> None:
    assert pipeline_follow._EVERY_SECONDS == follow.EVERY_SECONDS
    assert pipeline_follow._BATCH_RECORDS_MAX == follow.RECORDS_PER_BATCH_MAX


@pytest.mark.usefixtures("spark")
def test_what_is_said_in_json_and_to_people(cli: Cli, tmp_path: Path) -> None:
    lace, lake = tmp_path / "x.lace", tmp_path / "x.lake"
    with Lace.create(lace) as made:
        made.store.put_records([samples.plex(number) for number in range(5)])
    answer = cli("pipeline", "follow", lake, lace, "--once", "--batch", "3", "--json")
    assert answer.code == 0
    first, second, summary = answer.rows
    assert [(row["event"], row["in"], row["stored"]) for row in (first, second)] == [("batch", 3, 3), ("batch", 2, 2)]
    assert (summary["event"], summary["read"], summary["runs"], summary["id"]) == ("summary", 5, 2, 5)
    assert cli("pipeline", "follow", lake, lace, "--once").lines == ["0 records in 0 runs, up to the id 5"]


def test_what_makes_no_sense_is_said_before_spark_starts(cli: Cli, tmp_path: Path) -> None:
    Lace.create(tmp_path / "x.lace").close()
    assert cli("pipeline", "follow", tmp_path / "x.lake", tmp_path / "x.lace", "--every", "0").code == 2
    assert cli("pipeline", "follow", tmp_path / "x.lake", tmp_path / "x.lace", "--batch", "0").code == 2
    missing = cli("pipeline", "follow", tmp_path / "x.lake", tmp_path / "nothing")
    assert missing.code == 2
    assert "there is nothing at" in missing.err
