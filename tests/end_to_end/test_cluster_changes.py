"""Three real processes whose keys are changed and whose nodes are replaced, by the commands that an operator has."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from bobbin.cluster.names import NodeId
from bobbin.config.cluster import read_folder
from bobbin.config.rotation import next_file, prepare_key, prepared_key
from tests.end_to_end.cluster_processes import PATIENCE_SECONDS, join, processes, same_roots, settle
from tests.end_to_end.command import COMMAND, bobbin, environment

pytestmark = pytest.mark.slow


def _until_only(asked: Path, node: NodeId, certificate: bytes) -> None:
    """Wait until another node has it on its disk that this certificate alone counts for a node."""
    end = time.monotonic() + PATIENCE_SECONDS
    while read_folder(asked).known.directory.members[node].certificates != (certificate,):
        assert time.monotonic() < end, "the old key counts for ever"
        time.sleep(0.05)


def test_every_key_is_changed_while_the_cluster_goes_on(tmp_path: Path) -> None:
    """CL-366: node by node, the leader among them, one of them down meanwhile; and that of an operator."""
    with processes(tmp_path) as nodes:
        nodes.leader()
        assert bobbin("cluster", "put", nodes.folders[0], "a", "0").code == 0
        for number, folder in enumerate(nodes.folders):
            before = read_folder(folder)
            other = nodes.folders[number - 1]
            if number == 1:
                nodes.kill(folder)
            changed = bobbin("cluster", "rotate", folder, "--json", "--seconds", "60")
            assert changed.code == 0, changed.err
            after = read_folder(folder)
            assert json.loads(changed.out) == {"node": before.node, "key": after.own.identity.node}
            if number != 1:
                # It goes on with the old key, and others find it.
                nodes.until(same_roots)
                assert nodes.stop(folder) == 0
            nodes.start(folder)
            _until_only(other, before.node, after.own.certificate)
            nodes.until(lambda status: same_roots(status) and not status["problems"])
            assert bobbin("cluster", "put", folder, "a", str(number + 1)).code == 0
        assert bobbin("cluster", "rotate", nodes.folders[0], "--operator", "--seconds", "60").code == 0
        nodes.kill(nodes.folders[0])
        # By the network, with the new key of the operator.
        assert bobbin("cluster", "get", nodes.folders[0], "a", "--seconds", "60").out == b"3"


def test_a_rotation_that_is_killed_is_finished_by_the_next_one(tmp_path: Path) -> None:
    """CL-366: at moments drawn out by a cluster that is stopped, wherever they fall."""
    with processes(tmp_path) as nodes:
        leader = nodes.leader()
        folder = next(one for one in nodes.folders if one != leader)
        before = read_folder(folder)
        for process in nodes.running.values():
            process.send_signal(signal.SIGSTOP)
        command = [*COMMAND, "cluster", "rotate", str(folder), "--seconds", "60"]
        # As one leaves it that was killed after its first step; then one that finds this, and that nobody answers.
        made = prepare_key(folder / "node.key")
        killed = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        assert killed.poll() is None, "it waits for an answer"
        killed.kill()
        killed.wait()
        left = prepared_key(folder / "node.key")
        assert left is not None
        assert (left.certificate, read_folder(folder).own.certificate) == (made.certificate, before.own.certificate)
        for process in nodes.running.values():
            process.send_signal(signal.SIGCONT)
        for wait in (0.35, 0.45, 0.55, 0.65, 0.75):
            killed = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(wait)
            killed.kill()
            killed.wait()
            assert read_folder(folder).node == before.node
        finished = bobbin("cluster", "rotate", folder, "--json", "--seconds", "60")
        assert finished.code == 0, finished.err
        after = read_folder(folder)
        assert json.loads(finished.out)["key"] == after.own.identity.node == made.identity.node
        assert not os.path.lexists(next_file(folder / "node.key"))
        nodes.kill(folder)
        nodes.start(folder)
        _until_only(leader, before.node, after.own.certificate)
        nodes.until(lambda status: same_roots(status) and not status["problems"])


def test_a_lost_disk_is_replaced(tmp_path: Path) -> None:
    """CL-040: the old node is dead and stays so, and after the change any one of the three may be down again."""
    with processes(tmp_path) as nodes:
        leader = nodes.leader()
        asked = nodes.folders[0]
        dead = next(one for one in reversed(nodes.folders) if one != leader)
        assert bobbin("cluster", "put", asked, "a", "1").code == 0
        nodes.kill(dead)
        new = tmp_path / "n4"
        joined = join(nodes, new, "--learner")
        assert joined.code == 0, joined.err
        settle(new)
        nodes.start(new)
        old, fresh = read_folder(dead).node, read_folder(new).node
        replaced = bobbin("cluster", "replace", asked, old, fresh, "--json", "--seconds", "60")
        assert replaced.code == 0, replaced.err
        assert json.loads(replaced.out) == {"replaced": [{"old": old, "new": fresh}]}
        voters = sorted(read_folder(one).node for one in (*nodes.folders, new) if one != dead)
        status = nodes.until(lambda status: same_roots(status) and len(status["nodes"]) == 3)
        assert all(sorted(node["voters"]) == voters for node in status["nodes"])
        gone = next(one for one in nodes.folders if one not in (dead, asked))
        nodes.kill(gone)
        assert bobbin("cluster", "put", asked, "a", "2", "--seconds", "60").code == 0
        assert bobbin("cluster", "get", new, "a", "--seconds", "60").out == b"2"


def test_a_node_that_was_away_while_all_others_changed_their_keys_is_told_of_them(tmp_path: Path) -> None:
    """It knows nobody any more, and nobody whom it knows can tell it; the list of members of another folder can."""
    with processes(tmp_path) as nodes:
        # By the list of another node, one that has written nothing so far would have lost its log.
        nodes.until(lambda status: same_roots(status) and status["nodes"][0]["applied_index"] > 0)
        *others, away = nodes.folders
        nodes.kill(away)
        for folder in others:
            changed = bobbin("cluster", "rotate", folder, "--seconds", "60")
            assert changed.code == 0
            assert f"{read_folder(away).node} does not answer" in changed.err
            nodes.kill(folder)
            nodes.start(folder)
        for folder in others:
            read = read_folder(folder)
            _until_only(others[0], read.node, read.own.certificate)
            _until_only(others[1], read.node, read.own.certificate)
        shutil.copyfile(others[0] / "members.json", away / "members.json")
        nodes.start(away)
        nodes.until(lambda status: same_roots(status) and not status["problems"])
