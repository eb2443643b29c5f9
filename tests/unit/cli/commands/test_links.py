"""``bobbin links``."""

import time
from pathlib import Path

from bobbin.runtime.status import FORMAT
from tests.support.served import Served
from tests.unit.cli.command_line import Cli


def test_a_node_and_what_became_of_its_links(filled: Path, ding: Path, node: Served, cli: Cli) -> None:
    before = cli("links", node.folder)
    assert before.code == 0
    assert before.lines[-1] == "no links"
    assert before.lines[0].startswith("node        ok · up ")
    cli("sync", filled, node.addresses["tcp"], "--policy", ding)
    while (after := cli("links", node.folder, "--json").json)["links"]:
        time.sleep(0.002)  # the node may hear of the end of the link a moment later
    assert after["format"] == FORMAT
    assert (after["health"], after["records"], after["peers"]) == ("ok", 3, 1)
    assert [past["peer"] for past in after["past"]] == ["x"]
    assert "over:" in cli("links", node.folder).lines


def test_no_node(folder: Path, tmp_path: Path, cli: Cli) -> None:
    answer = cli("links", folder, "--json")
    assert (answer.code, answer.error["retry"]) == (5, True)
    assert f"no node serves {folder}" in answer.error["message"]
    assert cli("links", tmp_path / "nothing").code == 2
