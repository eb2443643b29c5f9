"""``bobbin pipeline advertise``."""

from pathlib import Path

import pytest

from bobbin.pipeline import advertisement_file
from bobbin.store.lake.lake import Lake
from tests.support.described import KEY, stale_lake
from tests.support.lakes import some_records, store
from tests.unit.cli.command_line import Cli


@pytest.mark.usefixtures("spark")
def test_tables_and_a_file(cli: Cli, tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "x.lake")
    store(lake, some_records(12, 1))
    options = ("--source", "source:archive", "--field", "Name", "--field", "TAI", "--k", "1,2")
    answer = cli("pipeline", "advertise", tmp_path / "x.lake", *options, "--to", tmp_path / "o.parquet", "--json")
    assert answer.code == 0
    said = answer.json
    assert (said["source"], said["fields"], said["k"]) == ("source:archive", ["Name", "TAI"], "1,2")
    assert said["advertisements"] == lake.manifest(f"advertisements/{said['key']}").rows == 12
    assert said["partitions"] == lake.manifest(f"partitions/{said['key']}").rows > 12
    assert advertisement_file.check(tmp_path / "o.parquet").source == "source:archive"
    again = cli("pipeline", "advertise", tmp_path / "x.lake", *options)
    assert "12 advertisements" in again.text
    assert "as before" in again.text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--k", "two"), "prefix lengths are numbers"),
        (("--source", "archive"), "no origin"),
        (("--field", "A", "--no-fields"), "give one of them"),
        (("--to", "nowhere/out.parquet"), "there is no folder"),
    ],
)
def test_what_makes_no_sense_starts_no_spark(cli: Cli, tmp_path: Path, options: tuple[str, ...], reason: str) -> None:
    Lake.create(tmp_path / "x.lake")
    answer = cli("pipeline", "advertise", tmp_path / "x.lake", *options)
    assert answer.code in (2, 4)
    assert reason in answer.err


@pytest.mark.usefixtures("spark")
def test_a_stale_selection_needs_a_word(cli: Cli, tmp_path: Path) -> None:
    stale_lake(tmp_path / "x.lake")
    refused = cli("pipeline", "advertise", tmp_path / "x.lake", "--selection", KEY)
    assert refused.code == 2
    assert "say --allow-stale" in refused.err
    taken = cli("pipeline", "advertise", tmp_path / "x.lake", "--selection", KEY, "--allow-stale")
    assert taken.code == 0
    assert taken.lines[0].startswith("1 advertisement, ")
    assert "is stale, and was used" in taken.err
