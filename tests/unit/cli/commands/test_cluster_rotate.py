"""``bobbin cluster rotate``."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.config.cluster import create_cluster, prepare, read_folder
from bobbin.config.rotation import prepare_key
from tests.support.clusters import free_ports, served_folder, until
from tests.unit.cli.command_line import Cli


@pytest.fixture
def node(tmp_path: Path, cli: Cli) -> Iterator[Path]:
    """The folder of the one node of a cluster, which runs and leads."""
    folder = tmp_path / "here"
    assert cli("cluster", "init", folder, "--listen", f"tls:127.0.0.1:{free_ports(1)[0]}").code == 0
    with served_folder(folder) as running:
        asyncio.run(until(lambda: running.leader is not None))
        yield folder


@pytest.mark.slow
def test_the_key_of_a_node_is_changed_and_said(node: Path, cli: Cli) -> None:
    before = read_folder(node)
    first = cli("cluster", "rotate", node)
    after = read_folder(node)
    assert (first.code, first.text) == (0, f"{before.node} has the key {after.own.identity.node}\n")
    assert "start the node again" in first.err
    again = cli("cluster", "rotate", node, "--json")
    assert json.loads(again.out) == {"node": before.node, "key": after.own.identity.node}
    assert again.err == ""
    prepare_key(after.layout.node_key)
    refused = cli("cluster", "rotate", node)
    assert (refused.code, "not in use yet" in refused.err) == (1, True)


@pytest.mark.slow
def test_the_key_of_the_operator_is_changed_and_said(node: Path, cli: Cli) -> None:
    before = read_folder(node)
    told = cli("cluster", "rotate", node, "--operator", "--json")
    after = read_folder(node)
    assert json.loads(told.out) == {"operator": after.operator.identity.node}
    assert after.operator.certificate != before.operator.certificate
    assert after.own.certificate == before.own.certificate
    shown = cli("cluster", "rotate", node, "--operator")
    assert shown.text == f"the operator has the key {read_folder(node).operator.identity.node}\n"
    assert shown.err == "the old one opens nothing any more\n"


def test_a_replicated_lace_has_to_be_started_again(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said of such a folder alone."""
    lace, listen = tmp_path / "lace", f"tls:127.0.0.1:{free_ports(1)[0]}"
    assert cli("init", lace, "--cluster", "--listen", listen).code == 0
    monkeypatch.setattr("bobbin.cli.cluster_rotation.rotate_operator", lambda *_, **__: "f" * 32)
    shown = cli("cluster", "rotate", lace / "cluster", "--operator")
    assert shown.err.splitlines() == [
        "the old one opens nothing any more",
        f"start the replicated lace again, which asks the other nodes by it: bobbin serve {lace}",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--operator",)])
def test_without_a_majority_the_voters_are_named(tmp_path: Path, cli: Cli, more: tuple[str, ...]) -> None:
    places = [f"tls:127.0.0.1:{port}" for port in free_ports(2)]
    made = [prepare(tmp_path / f"n{at}", listen=place) for at, place in enumerate(places)]
    create_cluster(made)
    with served_folder(tmp_path / "n0"):
        answer = cli("cluster", "rotate", tmp_path / "n0", *more, "--seconds", "1")
    assert (answer.code, answer.out) == (5, b"")
    here, there = (one.node[:8] for one in made)
    assert f"no majority of the 2 voters answers: {here} does, {there} does not" in answer.err


def test_without_a_node_that_runs_nothing_is_changed(tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "here"
    cli("cluster", "init", folder, "--listen", f"tls:127.0.0.1:{free_ports(1)[0]}")
    keys = [(folder / name).read_bytes() for name in ("node.key", "operator.key", "cluster.toml")]
    assert cli("cluster", "rotate", folder, "--seconds", "0.2").code == 5
    assert cli("cluster", "rotate", folder, "--operator", "--seconds", "0.2").code == 5
    assert [(folder / name).read_bytes() for name in ("node.key", "operator.key", "cluster.toml")] == keys
    assert cli("cluster", "rotate", tmp_path).code == 2
