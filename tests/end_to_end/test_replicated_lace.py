"""A lace on three processes: nothing that was acknowledged is lost, whoever is killed, and all nodes number alike."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from bobbin.lace import Lace
from bobbin.runtime.clock import tai_now
from bobbin.runtime.replicated_proposing import SECONDS
from bobbin.store.sqlite import open_store
from tests.conformance.samples import plex
from tests.end_to_end.cluster_processes import PATIENCE_SECONDS
from tests.end_to_end.command import COMMAND, bobbin, environment
from tests.end_to_end.replicated_processes import Lace as Nodes
from tests.end_to_end.replicated_processes import replicated_lace


@pytest.mark.slow
def test_the_leader_is_killed_during_an_import(tmp_path: Path) -> None:
    """What was acknowledged before is everywhere afterwards, the rest follows, and the killed one catches up."""
    records = [plex(number) for number in range(3_000)]
    raws = [record.raw for record in records]
    ledger = tmp_path / "acknowledged"
    # Snapshots are taken on the way, so that whoever was away gets one.
    with replicated_lace(tmp_path / "lace", threshold=5) as lace:
        leader = lace.leader()
        through = next(folder for folder in lace.folders if folder != leader)
        with subprocess.Popen(
            [*COMMAND, "import", str(through), "-", "--acknowledge", str(ledger), "--json", "--workers", "0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
        ) as importing:
            assert importing.stdin is not None
            assert importing.stdout is not None
            importing.stdin.write(b"".join(raws[:1_000]))
            importing.stdin.flush()
            acknowledged = _acknowledged(ledger, 1_000)
            lace.kill(leader)
            for begin in range(1_000, 3_000, 500):
                importing.stdin.write(b"".join(raws[begin : begin + 500]))
                importing.stdin.flush()
            importing.stdin.close()
            summary = json.loads(importing.stdout.read().splitlines()[-1])
        assert acknowledged == 1_000
        assert importing.returncode == 0
        assert summary["stored"] == 3_000, "each was stored once, whatever was sent again"
        assert lace.leader() != leader
        lace.start(leader)
        held = lace.settled()
        names = [name for _, name in held[0]]
        assert names[:1_000] == [record.hash for record in records[:1_000]]
        assert set(names) == {record.hash for record in records}, "all of them, in the order of commitment"
        assert [number for number, _ in held[0]] == list(range(1, 3_001))
        assert held[0] == held[1] == held[2], "the same numbers at every node"
        assert [lace.stop(folder) for folder in lace.folders] == [0, 0, 0]
    for folder in lace.folders:
        with open_store(folder / "records.db", now=tai_now, read_only=True) as store:
            assert list(store.check()) == [], "every byte, and the sum over all of it"


def _acknowledged(ledger: Path, enough: int) -> int:
    """How many records are said to be safe, once that many are."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        lines = ledger.read_text().splitlines() if ledger.exists() else []
        stored: int = json.loads(lines[-1])["stored"] if lines else 0
        if stored >= enough:
            return stored
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_snapshots_are_written_while_records_come(tmp_path: Path) -> None:
    """Each of them is of one moment, and takes long enough that more is stored before it ends."""
    bundle = tmp_path / "records.bundle"
    bundle.write_bytes(b"".join(plex(number).raw for number in range(12_000)))
    with replicated_lace(tmp_path / "lace", threshold=3) as lace:
        assert bobbin("import", lace.folders[0], bundle).code == 0
        bundle.write_bytes(b"".join(plex(number).raw for number in range(12_000, 24_000)))
        with subprocess.Popen(
            [*COMMAND, "import", str(lace.folders[0]), str(bundle)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(),
        ) as importing:
            while importing.poll() is None:
                for folder in lace.folders:
                    asked = bobbin("cluster", "snapshot", folder / "cluster")
                    # It may have nothing new to write.
                    assert asked.code in (0, 1), asked.err
            assert importing.stderr is not None
            assert (importing.returncode, importing.stderr.read()) == (0, b"")
        held = lace.settled()
        assert len(held[0]) == 24_000
        assert held[0] == held[1] == held[2]
        assert [lace.stop(folder) for folder in lace.folders] == [0, 0, 0]


@pytest.mark.slow
def test_commands_go_through_the_node_and_readings_say_when_they_are_old(tmp_path: Path) -> None:
    with replicated_lace(tmp_path / "lace") as lace:
        first, second, third = lace.folders
        put = bobbin("put", first, "-g", "u", "-a", "d", "-N", "x", "--sign", "-", stdin=b"one")
        assert put.code == 0, put.err
        got = bobbin("get", second, "//u//d//x")
        assert (got.out, got.err) == (b"one", ""), "what was acknowledged at one node is read at the next"
        lace.kill(second, third)
        old = bobbin("list", first)
        assert old.code == 0
        assert "stale: " in old.err, "without a majority nobody knows what is new"
        assert put.text.strip() in old.text
        assert lace.stop(first) == 0
    offline = bobbin("list", first)
    assert "stale: no node" in offline.err
    refused = bobbin("put", first, "-g", "u", "-a", "d", "-N", "z", "-", stdin=b"three")
    assert refused.code == 5
    assert f"bobbin serve {first}" in refused.err


@pytest.mark.slow
def test_a_peer_hears_that_a_node_without_a_majority_cannot_store(tmp_path: Path) -> None:
    """As soon as the node knows it, in words, and with the advice that fits."""
    policy, visitor = tmp_path / "all.policy", tmp_path / "visitor.lace"
    policy.write_text("SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n")
    with Lace.create(visitor) as made:
        key = made.new_key()
        made.put_record(plex(1))
    nodes = Nodes(tmp_path / "lace", 3, threshold=1_000)
    first, second, third = nodes.folders
    assert bobbin("peers", "add", first, "visitor", "--verifier", key.verifier, "--policy", policy).code == 0
    try:
        nodes.start(*nodes.folders)
        nodes.leader()
        hall = bobbin("key", "show", first).text.strip()
        nodes.kill(second, third)
        began = time.monotonic()
        done = bobbin("sync", visitor, nodes.addresses[first], "--verifier", hall, "--policy", policy)
        took = time.monotonic() - began
        assert done.code == 5, done
        assert "peer-store-failure: the peer ended the exchange, since it cannot store at the moment" in done.text
        assert "try again later" in done.text
        assert "--rounds" not in done.text
        assert took < 2 * SECONDS, "the node tries once to store what came, and says so before it tries anything else"
    finally:
        nodes.kill(*list(nodes.running))
