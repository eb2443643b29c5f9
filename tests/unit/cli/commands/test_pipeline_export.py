"""``bobbin pipeline export``."""

from pathlib import Path

import pytest

from bobbin.cli.commands.pipeline_export import OrderChoice
from bobbin.lace import Lace
from bobbin.pipeline.jobs.export import Order
from bobbin.store.lake.lake import Lake
from tests.support.described import KEY, stale_lake
from tests.support.lakes import some_records, store
from tests.unit.cli.command_line import Cli


def test_the_orders_are_those_of_the_job() -> None:
    assert [choice.value for choice in OrderChoice] == [order.value for order in Order]


@pytest.mark.usefixtures("spark")
def test_what_is_said_in_json_and_to_people(cli: Cli, tmp_path: Path) -> None:
    lake, target = tmp_path / "x.lake", tmp_path / "x.bundle"
    records = some_records(30, 1)
    store(Lake.create(lake), records)
    answer = cli("pipeline", "export", lake, "--to", target, "--json")
    assert answer.code == 0
    said = answer.json
    assert (said["form"], said["records"], said["bytes"]) == ("bundle", 30, target.stat().st_size)
    assert said["bytes"] == sum(len(record.raw) for record in records)
    assert (said["parts"], said["parts_reused"]) == (1, 0)
    assert len(said["digest"]) == 64
    assert Lake.open(lake).report(said["run"]) is not None

    some = cli("pipeline", "export", lake, "--to", target, "--at", "//u//é//n/", "--order", "tai")
    assert some.code == 0
    assert some.lines[0].endswith(" s)")
    assert f"→ {target}" in some.lines[0]

    into = cli("pipeline", "export", lake, "--to", tmp_path / "x.lace")
    assert into.code == 0
    assert into.lines[1] == "30 stored · 0 duplicate · 0 refused · 0 rejected"


@pytest.mark.usefixtures("spark")
def test_a_lace_that_refuses_a_record_ends_with_1(cli: Cli, tmp_path: Path) -> None:
    lake, target = tmp_path / "x.lake", tmp_path / "x.lace"
    records = some_records(3, 1)
    store(Lake.create(lake), records)
    with Lace.create(target) as lace:
        lace.store.remove(records[0].hash, reason="test")
    answer = cli("pipeline", "export", lake, "--to", target, "--json")
    assert answer.code == 1
    assert (answer.json["stored"], answer.json["refused"]) == (2, 1)


@pytest.mark.usefixtures("spark")
def test_a_lake_or_a_selection_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    assert cli("pipeline", "export", tmp_path / "x.lake", "--to", tmp_path / "x.bundle").code == 2
    Lake.create(tmp_path / "x.lake")
    missing = cli("pipeline", "export", tmp_path / "x.lake", "--to", tmp_path / "x.bundle", "--plan", "X")
    assert missing.code == 2
    assert "no selection" in missing.err
    assert not (tmp_path / "x.bundle").exists()


def test_what_makes_no_sense_is_said_before_spark_starts(cli: Cli, tmp_path: Path) -> None:
    both = ("--selection", "0123456789abcdef", "--plan", "X")
    assert cli("pipeline", "export", tmp_path, "--to", tmp_path / "x.bundle", *both).code == 2
    assert cli("pipeline", "export", tmp_path, "--to", tmp_path / "x.bundle", "--at", "nowhere").code == 2
    assert cli("pipeline", "export", tmp_path, "--to", tmp_path / "x.bundle", "--order", "size").code == 2
    assert cli("pipeline", "export", tmp_path).code == 2


@pytest.mark.usefixtures("spark")
def test_a_stale_selection_needs_a_word(cli: Cli, tmp_path: Path) -> None:
    stale_lake(tmp_path / "x.lake")
    asked = ("pipeline", "export", tmp_path / "x.lake", "--to", tmp_path / "x.bundle", "--selection", KEY)
    refused = cli(*asked)
    assert refused.code == 2
    assert "say --allow-stale" in refused.err
    assert not (tmp_path / "x.bundle").exists()
    taken = cli(*asked, "--allow-stale")
    assert taken.code == 0
    assert taken.lines[0].startswith("1 record, ")
    assert "is stale, and was used" in taken.err
