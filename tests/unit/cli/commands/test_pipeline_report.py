"""``bobbin pipeline report``."""

import json
from pathlib import Path

import pytest

from bobbin.store.lake.lake import Lake
from tests.support.lakes import some_records, store
from tests.unit.cli.command_line import Cli

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    path = tmp_path / "some.lake"
    store(Lake.create(path), some_records(12, 5))
    return path


def test_figures_for_people_and_a_page(cli: Cli, lake: Path, tmp_path: Path) -> None:
    answer = cli("pipeline", "report", lake, "--html", tmp_path / "page.html")
    assert answer.code == 0
    assert answer.lines[0].startswith("records     12 (0 Blobs, 0 Plexes, 0 Seals), ")
    assert answer.lines[-1] == f"facts are not up to date: bobbin pipeline facts {lake}"
    assert answer.err == f"the page is in {tmp_path / 'page.html'}\n"
    assert "some.lake" in (tmp_path / "page.html").read_text()


def test_the_same_as_json(cli: Cli, lake: Path) -> None:
    assert cli("pipeline", "facts", lake).code == 0
    answer = cli("pipeline", "report", lake, "--json")
    assert (answer.code, answer.err) == (0, "")
    assert answer.json["records"] == answer.json["described"] == 12
    assert answer.json["facts_current"] is True
    assert "facts are not" not in cli("pipeline", "report", lake).text


def test_what_is_no_lake_is_the_callers_mistake(cli: Cli, tmp_path: Path) -> None:
    answer = cli("pipeline", "report", tmp_path, "--json")
    assert answer.code == 2
    assert json.loads(answer.err)["message"].startswith("there is no lake at")
