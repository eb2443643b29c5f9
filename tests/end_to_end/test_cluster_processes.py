"""Three real processes that speak over TLS on loopback: elections, kills, restarts, members that come and go."""

import asyncio
import json
from pathlib import Path

import pytest

from bobbin.config.cluster import read_folder
from bobbin.runtime.cluster_client import ClusterClient
from tests.end_to_end.cluster_processes import join, processes, same_roots, settle
from tests.end_to_end.command import bobbin

pytestmark = pytest.mark.slow


def test_a_killed_leader_costs_no_acknowledged_write(tmp_path: Path) -> None:
    """Kill -9 of the leader, then of everybody (CL-305); what was acknowledged is there, and all hold the same."""
    with processes(tmp_path) as nodes:

        async def write(client: ClusterClient, name: str) -> None:
            await asyncio.gather(*(client.put(f"{name}/{at}".encode(), name.encode()) for at in range(50)))

        nodes.ask(lambda client: write(client, "first"))
        leader = nodes.leader()
        term = nodes.status()["term"]
        nodes.kill(leader)
        nodes.ask(lambda client: write(client, "second"))
        status = nodes.until(lambda status: sum(not node["answers"] for node in status["nodes"]) == 1)
        assert status["term"] > term
        (down,) = [node for node in status["nodes"] if not node["answers"]]
        assert any(down["node"][:8] in problem for problem in status["problems"])
        nodes.start(leader)
        nodes.until(same_roots)
        nodes.kill(*nodes.folders)
        nodes.start(*nodes.folders)

        async def read(client: ClusterClient) -> list[bytes]:
            return [row.key async for row in client.scan()]

        assert len(nodes.ask(read)) == 100
        nodes.until(lambda status: same_roots(status) and not status["problems"])
        assert nodes.stop(nodes.folders[0]) == 0


def test_a_follower_far_behind_gets_a_snapshot_and_one_more_node_comes_and_goes(tmp_path: Path) -> None:
    with processes(tmp_path) as nodes:
        leader = nodes.leader()
        away = next(folder for folder in nodes.folders if folder != leader)
        nodes.kill(away)

        async def write(client: ClusterClient) -> None:
            for step in range(3):
                await asyncio.gather(*(client.put(b"%d/%d" % (step, at), b"v") for at in range(200)))

        nodes.ask(write)
        nodes.until(lambda status: any(node.get("snapshot_index", 0) > 300 for node in status["nodes"]))
        nodes.start(away)
        status = nodes.until(same_roots)
        installed = [node["counters"]["snapshots_installed"] for node in status["nodes"]]
        assert sum(installed) >= 1

        new = tmp_path / "n4"
        joined = join(nodes, new)
        assert joined.code == 0, joined.err
        settle(new)
        nodes.start(new)
        status = nodes.until(lambda status: same_roots(status) and len(status["nodes"]) == 4)
        status = nodes.until(lambda status: all(len(node["voters"]) == 4 for node in status["nodes"]))
        assert any("4 voters" in problem for problem in status["problems"])
        member = json.loads(bobbin("cluster", "status", new, "--json").out)["nodes"]
        assert len(member) == 4
        # Not a node whose folder is asked from: its operator goes with it.
        kept = {status["leader"], read_folder(nodes.folders[0]).node, read_folder(new).node}
        gone = next(node["node"] for node in status["nodes"] if node["node"] not in kept)
        removed = bobbin("cluster", "remove", new, gone[:10], "--json")
        assert json.loads(removed.out) == {"removed": gone}
        nodes.until(lambda status: len(status["nodes"]) == 3)
        assert bobbin("cluster", "remove", new, status["leader"]).code == 1
