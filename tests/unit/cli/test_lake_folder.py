from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bobbin.cli import lake_folder
from bobbin.errors import UsageError
from bobbin.pipeline.hadoop_files import HadoopFiles
from bobbin.store.lake.errors import NoLake
from bobbin.store.lake.lake import Lake
from tests.support.lake_tables import ingest
from tests.support.lakes import some_records
from tests.unit.cli.command_line import Cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("90s", 90), ("15m", 900), ("12h", 43_200), ("7d", 604_800), ("2w", 1_209_600)]
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert lake_folder.parse_age(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1.5h", "7 d", "٣d"])
def test_other_texts_are_no_length_of_time(text: str) -> None:
    with pytest.raises(UsageError, match="as in 7d"):
        lake_folder.parse_age(text)


def test_a_time_of_the_lake_in_utc() -> None:
    assert lake_folder.when("1794808640:473900139") == "2026-11-16T05:56:43Z"


def test_a_lake_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NoLake), lake_folder.open_lake(str(tmp_path)):
        pass


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bobbin.cli.pipeline_run.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"bobbin\[spark\]"), lake_folder.open_lake(str(tmp_path)):
        pass


def test_a_lake_elsewhere_is_reached_through_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli, spark: "SparkSession"
) -> None:
    location = f"file://{tmp_path}/lake"
    monkeypatch.setattr("bobbin.store.lake.files.is_elsewhere", lambda _: True)
    monkeypatch.setattr("bobbin.pipeline.hadoop_files.is_elsewhere", lambda _: True)
    assert cli("lake", "init", location).code == 0
    lake = Lake.open(location, files=HadoopFiles(spark, location))
    for seed in (1, 2, 3):
        ingest(lake, some_records(5, seed))
    with lake_folder.open_lake(location) as opened:
        assert isinstance(opened.files, HadoopFiles)
    assert cli("lake", "stat", location, "--json").json["tables"][0]["rows"] == 15
    assert cli("lake", "compact", location, "--json").json["tables"][0]["files_after"] == 1
    assert cli("lake", "clean", location, "--older-than", "0", "--json").rows[-1]["files"] > 3
    assert cli("lake", "check", location, "--json").rows[-1]["findings"] == 0
    assert cli("lake", "history", location, "--json").rows[0]["job"] == "clean"


@pytest.mark.usefixtures("spark")
def test_an_address_that_hadoop_does_not_know(cli: Cli) -> None:
    assert cli("lake", "stat", "gopher://host/lake").code == 2
