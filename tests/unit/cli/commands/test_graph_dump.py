"""``bobbin graph dump``."""

from pathlib import Path

from tests.support.graphs import Sample, served_in_thread
from tests.unit.cli.command_line import PLEX_1, Cli


def test_the_graph_of_a_lace_is_read_from_it(filled: Path, cli: Cli) -> None:
    answer = cli("graph", "dump", filled, "--json")
    values = {node["key"]: node["value"] for node in answer.json["nodes"]}
    assert values["records/count"] == values["records/plex"] == 1
    assert values["records/newest"]["hash"] == PLEX_1
    ids = {node["key"]: node["id"] for node in answer.json["nodes"]}
    edges = [(edge["dependent"], edge["dependency"]) for edge in answer.json["edges"]]
    assert edges == [(ids["records/count"], ids[f"records/{kind}"]) for kind in ("blob", "plex", "seal")]
    assert ids["records/count"] not in answer.json["roots"]
    assert "records/count     1" in cli("graph", "dump", filled).lines


def test_one_that_is_served(tmp_path: Path, cli: Cli) -> None:
    with served_in_thread(Sample(), f"unix:{tmp_path}/s") as (place,):
        answer = cli("graph", "dump", place, "--json")
        assert answer.code == 0
        assert {node["key"] for node in answer.json["nodes"]} >= {"secret", "sums/all"}, "the owner's way"
        assert len(answer.json["edges"]) == 3
    assert cli("graph", "dump", place).code == 5


def test_what_is_neither(tmp_path: Path, cli: Cli) -> None:
    for text in ("nowhere", tmp_path):
        assert cli("graph", "dump", text).code == 2
