"""``bobbin cluster transfer``, ``remove``, ``promote`` and ``replace``."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.config.cluster import create_cluster, prepare, read_folder
from bobbin.runtime.cluster_node import ClusterNode
from tests.support.clusters import free_ports, served_folder, until
from tests.unit.cli.command_line import Cli


@pytest.fixture
def running(tmp_path: Path) -> Iterator[ClusterNode]:
    """The one node of a cluster, in ``here``, which leads."""
    create_cluster([prepare(tmp_path / "here", listen=f"tls:127.0.0.1:{free_ports(1)[0]}")])
    with served_folder(tmp_path / "here") as node:
        asyncio.run(until(lambda: node.leader is not None))
        yield node


def _join(cli: Cli, folder: Path, *more: str) -> Path:
    """One more folder beside the first one."""
    token = json.loads(cli("cluster", "invite", folder / "here", "--json").out)["token"]
    place = f"tls:127.0.0.1:{free_ports(1)[0]}"
    joined = cli("cluster", "join", folder / "there", "--token", token, "--listen", place, *more)
    assert joined.code == 0, joined.err
    return folder / "there"


@pytest.mark.slow
def test_what_cannot_be_changed_is_refused(running: ClusterNode, tmp_path: Path, cli: Cli) -> None:
    here, own = tmp_path / "here", running.node
    assert cli("cluster", "transfer", here, "nobody").code == 2
    assert "leads; hand leadership" in cli("cluster", "remove", here, own[:6]).err
    assert cli("cluster", "replace", here, own).code == 2
    assert cli("cluster", "replace", here, own, own).code == 2
    assert cli("cluster", "replace", here, own, "nobody").code == 2
    there = read_folder(_join(cli, tmp_path, "--learner")).node
    late = cli("cluster", "promote", here, there)
    assert (late.code, "has not caught up" in late.err) == (1, True)
    # It does not run, so it is waited for in vain.
    late = cli("cluster", "replace", here, own, there, "--seconds", "0.5")
    assert (late.code, "has not caught up" in late.err) == (1, True)
    assert running.configuration.voters == (own,)
    assert json.loads(cli("cluster", "remove", here, there[:9], "--json").out) == {"removed": there}


@pytest.mark.slow
def test_what_is_so_already_is_done_and_said(running: ClusterNode, tmp_path: Path, cli: Cli) -> None:
    here, own = tmp_path / "here", running.node
    leads = cli("cluster", "transfer", here, own)
    assert (leads.code, leads.text, leads.err) == (0, f"leader {own}\n", "it leads already\n")
    votes = cli("cluster", "promote", here, own)
    assert (votes.code, votes.text, votes.err) == (0, f"promoted {own}\n", "it votes already\n")
    shown = cli("cluster", "transfer", here, own, "--json")
    assert (shown.code, json.loads(shown.out), shown.err) == (0, {"leader": own}, "")


@pytest.mark.slow
def test_a_node_that_listens_takes_the_place_of_the_one_that_leads(
    running: ClusterNode, tmp_path: Path, cli: Cli
) -> None:
    here, own = tmp_path / "here", running.node
    there = _join(cli, tmp_path, "--learner")
    new = read_folder(there).node
    with served_folder(there) as other:
        replaced = cli("cluster", "replace", there, own[:8], read_folder(there).settings.address, "--seconds", "30")
        assert (replaced.code, replaced.text) == (0, f"replaced {own} by {new}\n"), replaced.err
        asyncio.run(until(lambda: other.configuration.members == (new,)))
        asyncio.run(until(lambda: other.leader == new))
        asyncio.run(until(lambda: own not in other.directory.members))
        again = cli("cluster", "replace", there, own, new, "--seconds", "30")
        assert (again.code, again.text) == (0, f"replaced {own} by {new}\n"), again.err
        assert cli("cluster", "replace", there, own[:31], new).code == 2, "only a whole id says which one is meant"
        assert cli("cluster", "put", there, "colour", "green").code == 0
    assert here.is_dir()


@pytest.mark.slow
def test_a_node_that_listens_is_made_a_voter(running: ClusterNode, tmp_path: Path, cli: Cli) -> None:
    there = _join(cli, tmp_path, "--learner")
    new = read_folder(there).node
    with served_folder(there):
        asyncio.run(until(lambda: running.lag_of(new) == 0))
        promoted = cli("cluster", "promote", tmp_path / "here", new, "--json")
        assert json.loads(promoted.out) == {"promoted": new}
        assert running.configuration.voters == tuple(sorted((running.node, new)))
        half = cli("cluster", "replace", tmp_path / "here", new, running.node)
        assert (half.code, "votes already, by another change" in half.err) == (1, True)
        assert len(running.configuration.voters) == 2, "fewer would vote after it, which nobody has asked for"
