"""``bobbin pipeline facts``."""

from pathlib import Path

import pytest

from bobbin.store.lake.lake import Lake
from tests.support.lakes import some_records, store
from tests.unit.cli.command_line import Cli


@pytest.mark.usefixtures("spark")
def test_what_is_said_the_first_time_and_the_second(cli: Cli, tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "x.lake")
    store(lake, some_records(12, 1))
    answer = cli("pipeline", "facts", tmp_path / "x.lake", "--json")
    assert answer.code == 0
    assert (answer.json["described"], answer.json["facts"]) == (12, 12)
    assert lake.report(answer.json["run"]) is not None
    again = cli("pipeline", "facts", tmp_path / "x.lake")
    assert (again.code, again.text) == (0, "0 records described, 12 rows in the table facts\n")


def test_a_folder_that_is_no_lake(cli: Cli, tmp_path: Path) -> None:
    answer = cli("pipeline", "facts", tmp_path)
    assert answer.code == 2
    assert "there is no lake" in answer.err
