"""``bobbin pipeline select``."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bobbin.cli.commands.pipeline_select import ExecutorChoice
from bobbin.pipeline.jobs import facts
from bobbin.pipeline.rules.planner import Executor
from bobbin.policy.executables import make_policy
from bobbin.policy.modules import compile_selector
from bobbin.policy.operands import Origin
from bobbin.store.lake.lake import Lake
from tests.policy_worlds import ALICE, BOB
from tests.support.lakes import some_records, store
from tests.unit.cli.command_line import Cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN = "SelectHave(P) :- Field(P,'Group',_,'u').\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
PEER = "SelectHave(P) :- Field(P,'Type',_,'S').\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
PROGRAM = "Near(P,Q) :- PlexHash(P,Q).\nNear(P,Q) :- Near(P,R), RecordLink(R,_,_,_,Q).\nSeal(P) :- Near(P,_).\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with two policies, their plan and a program."""
    (tmp_path / "own.policy").write_text(OWN)
    (tmp_path / "peer.policy").write_text(PEER)
    (tmp_path / "rules.lacegram").write_text(PROGRAM)
    made = make_policy(compile_selector(OWN), compile_selector(PEER), own_origin=Origin(ALICE), peer_origin=Origin(BOB))
    (tmp_path / "plan").write_bytes(made.plan.canonical)
    (tmp_path / "same.plan").write_bytes(
        make_policy(
            compile_selector(OWN), compile_selector(OWN), own_origin=Origin(ALICE), peer_origin=Origin(BOB)
        ).plan.canonical
    )
    return tmp_path


def test_the_executors_are_those_of_the_planner() -> None:
    assert [choice.value for choice in ExecutorChoice] == ["auto", *(executor.value for executor in Executor)]


def test_a_plan_and_a_program_in_json_and_for_people(cli: Cli, files: Path, spark: "SparkSession") -> None:
    lake, other = files / "x.lake", files / "y.lake"
    records = some_records(20, 1)
    store(Lake.create(lake), records)
    store(Lake.create(other), some_records(4, 2))
    facts.run(spark, Lake.open(other))
    policies = ("--policy", files / "own.policy", "--peer-policy", files / "peer.policy")
    answer = cli("pipeline", "select", lake, *policies, "--plan", files / "plan", "--peer-lake", other, "--json")
    assert answer.code == 0
    said = answer.json
    seals = [record for record in records if record.kind.letter == "S"]
    blobs = [record for record in records if record.kind.letter == "B"]
    assert said["counts"] == {
        "visible": 20 - len(blobs),
        "SelectHave": 20 - len(blobs),
        "MaySend": len(seals),
        "MayRequest": 4,
    }
    assert Lake.open(lake).manifest(said["table"]).properties["plan"] == said["plan"]
    assert said["facts"] == 20

    people = cli("pipeline", "select", lake, *policies, "--peer", "source:lab")
    assert people.code == 0
    assert people.lines[2].split() == ["MaySend", str(len(seals))]
    assert any(line.startswith("own-selector: SelectHave: frames") for line in people.lines)

    program = ("--program", files / "rules.lacegram", "--predicate", "Seal")
    rules = cli("pipeline", "select", lake, *program, "--executor", "partitioned", "--json")
    assert rules.code == 0
    assert rules.json["counts"] == {"Seal": len(seals)}
    assert rules.json["executors"][0].startswith("Near: partitioned (asked for")
    refused = cli("pipeline", "select", lake, *program, "--executor", "frames")
    assert refused.code == 2
    assert "recursive" in refused.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "what shall be selected"),
        (("--policy", "own.policy"), "--peer V"),
        (("--program", "rules.lacegram", "--policy", "own.policy"), "stands alone"),
        (("--policy", "own.policy", "--plan", "plan"), "not about these two policies"),
        (("--policy", "own.policy", "--plan", "same.plan"), "--here says which one is ours"),
        (("--policy", "own.policy", "--plan", "same.plan", "--here", ALICE, "--peer", ALICE), "the plan is with"),
        (("--policy", "own.policy", "--peer", "source:x", "--predicate", "SelectHave"), "--predicate chooses"),
        (("--policy", "own.policy", "--peer", "source:x", "--offer", "0" * 16), "--peer-lake is missing"),
    ],
)
def test_what_makes_no_sense_is_said_before_spark_starts(
    cli: Cli, files: Path, options: tuple[str, ...], said: str
) -> None:
    given = [files / one if (files / one).exists() else one for one in options]
    answer = cli("pipeline", "select", files / "no.lake", *given)
    assert (answer.code, "no.lake" in answer.err) == (2, True), "that comes first"
    Lake.create(files / "x.lake")
    answer = cli("pipeline", "select", files / "x.lake", *given)
    assert answer.code == 2
    assert said in answer.err


def test_a_mistake_in_a_program_is_named_by_its_place(cli: Cli, files: Path) -> None:
    (files / "wrong").write_text("P(X) :- not Have(X).\n")
    Lake.create(files / "x.lake")
    answer = cli("pipeline", "select", files / "x.lake", "--program", files / "wrong")
    assert answer.code == 7
    assert "wrong:1:" in answer.err
