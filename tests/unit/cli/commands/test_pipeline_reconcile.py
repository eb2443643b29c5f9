"""``bobbin pipeline reconcile``."""

from pathlib import Path

import pytest

from bobbin.lace import Lace
from bobbin.store.lake.lake import Lake
from tests.support.described import KEY, stale_lake
from tests.support.lakes import some_records, store
from tests.unit.cli.command_line import Cli

RECORDS = some_records(20, 3)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    store(Lake.create(tmp_path / "x.lake"), RECORDS[:15])
    return tmp_path / "x.lake"


@pytest.mark.usefixtures("spark")
def test_a_lace_that_has_less_and_more(cli: Cli, tmp_path: Path, lake: Path) -> None:
    with Lace.create(tmp_path / "x.lace") as lace:
        lace.store.put_many([record.raw for record in RECORDS[3:]])
    files = ("--bundle", tmp_path / "ship.bundle", "--wanted", tmp_path / "wanted.txt")
    answer = cli("pipeline", "reconcile", lake, tmp_path / "x.lace", *files, "--list", "2", "--json")
    assert answer.code == 1
    said = answer.json
    assert (said["here"], said["there"], said["common"]) == (15, 17, 12)
    assert (said["extra"], said["missing"], said["differing"], said["shipped"]) == (3, 5, 0, 3)
    assert said["listed"]["extra"] == sorted(record.hash for record in RECORDS[:3])[:2]
    assert sorted((tmp_path / "wanted.txt").read_text().split()) == sorted(record.hash for record in RECORDS[15:])
    text = cli("pipeline", "reconcile", lake, tmp_path / "x.lace", "--list", "2").text
    assert "15 records here = 12 in common + 0 with other claims + 3 only here" in text
    assert "… and 1 more" in text
    assert cli("import", tmp_path / "x.lace", tmp_path / "ship.bundle").code == 0
    assert cli("pipeline", "reconcile", lake, tmp_path / "x.lace", "--json").json["extra"] == 0


@pytest.mark.usefixtures("spark")
def test_sides_that_agree(cli: Cli, tmp_path: Path, lake: Path) -> None:
    cli("pipeline", "advertise", lake, "--to", tmp_path / "offer.parquet")
    answer = cli("pipeline", "reconcile", lake, tmp_path / "offer.parquet")
    assert answer.code == 0
    assert "15 records here = 15 in common" in answer.text


def test_what_makes_no_sense_starts_no_spark(cli: Cli, tmp_path: Path, lake: Path) -> None:
    Lace.create(tmp_path / "x.lace").close()
    nowhere = cli("pipeline", "reconcile", lake, tmp_path / "nowhere")
    assert (nowhere.code, "there is no lake, lace or file" in nowhere.err) == (4, True)
    unknown = cli("pipeline", "reconcile", lake, tmp_path / "x.lace", "--link", "L.1")
    assert (unknown.code, "remembers nothing of the link" in unknown.err) == (2, True)
    selected = cli("pipeline", "reconcile", lake, tmp_path / "x.lace", "--other-selection", "0123456789abcdef")
    assert (selected.code, "is about a lake" in selected.err) == (2, True)
    (tmp_path / "text").write_text("no advertisements")
    damaged = cli("pipeline", "reconcile", lake, tmp_path / "text")
    assert (damaged.code, "no Parquet file" in damaged.err) == (3, True)


@pytest.mark.usefixtures("spark")
def test_a_stale_selection_needs_a_word(cli: Cli, tmp_path: Path) -> None:
    stale_lake(tmp_path / "x.lake")
    Lake.create(tmp_path / "y.lake")
    asked = ("pipeline", "reconcile", tmp_path / "x.lake", tmp_path / "y.lake", "--bundle", tmp_path / "x.bundle")
    refused = cli(*asked, "--selection", KEY)
    assert refused.code == 2
    assert "say --allow-stale" in refused.err
    assert not (tmp_path / "x.bundle").exists()
    taken = cli(*asked, "--selection", KEY, "--allow-stale")
    assert taken.code == 1, "the sides differ by the one record that was selected"
    assert "1 record → " in taken.text
    assert "is stale, and was used" in taken.err
