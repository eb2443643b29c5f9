"""A node of a cluster, put together: several of them in one process, with real sockets and disks."""

import asyncio
import json
from itertools import pairwise
from pathlib import Path

import pytest

from bobbin.cluster.key_value import KEY_BYTES_MAX, VALUE_BYTES_MAX
from bobbin.cluster.membership.messages import Health
from bobbin.cluster.names import Index, Term
from bobbin.cluster.raft.effects import Role
from bobbin.cluster.raft.messages import AppendEntries
from bobbin.runtime.cluster_alarms import ALARMS_PER_MINUTE
from bobbin.runtime.cluster_client import ClusterClient, NotAccepted
from bobbin.runtime.cluster_node import ClusterNode, Halted
from tests.support.clusters import OPERATOR, RAFT, Place, cluster, until, with_timeouts


def _audit(place: Place) -> list[dict[str, object]]:
    return [json.loads(line) for line in place.audit.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("count", [3, 5])
def test_a_cold_start_elects_and_replicates_through_the_gateway(tmp_path: Path, count: int) -> None:
    """From term 0, with every extension on (CL-067, CL-271)."""

    async def run() -> None:
        async with cluster(tmp_path, count) as nodes:
            leader = await nodes.elected()
            assert leader.machine.config.enable_pre_vote
            assert leader.machine.stats.pre_votes_started
            async with nodes.client() as client:
                version = await client.put(b"colour", b"green")
                found = await client.get(b"colour")
                assert (found.value, found.version) == (b"green", version)
            await nodes.settled()
            assert len({node.state.table.root for node in nodes.running}) == 1
            for node in nodes.running:
                assert node.peers.gateway.admitted
                assert not node.peers.gateway.refused.total()

    asyncio.run(run())


def test_a_leader_beats_by_itself_and_no_more_when_it_has_stepped_down(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            old = await nodes.elected()
            before = old.machine.stats.heartbeats_sent
            # Nobody asks for anything: what is sent is sent by a timer.
            await until(lambda: old.machine.stats.heartbeats_sent >= before + 4)
            other = next(node for node in nodes.running if node is not old)
            async with nodes.client() as client:
                await client.transfer(other.node)
            await until(lambda: old.machine.role is Role.FOLLOWER and other.machine.role is Role.LEADER)
            sent, beats = old.machine.stats.heartbeats_sent, other.machine.stats.heartbeats_sent
            await until(lambda: other.machine.stats.heartbeats_sent >= beats + 4)
            assert old.machine.stats.heartbeats_sent == sent
            # The election began at once, by the word of the leader, and its votes really were asked for.
            assert other.machine.stats.elections_won == 1

    asyncio.run(run())


@pytest.mark.slow
def test_a_node_that_dies_is_noticed_and_noted_by_itself(tmp_path: Path) -> None:
    """CL-119, CL-368: the probe runs in the node's own loop, and the audit log has each step."""

    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            dead = next(place for place in nodes.places if place.node is not leader)
            await until(lambda: leader.gossip.machine.health(dead.id) is Health.HEALTHY)
            await nodes.stop(dead)
            await until(lambda: leader.gossip.machine.health(dead.id) is Health.FAILED)
            lines = _audit(nodes.place_of(leader))
            health = [
                (line["from"], line["to"])
                for line in lines
                if line["kind"] == "health" and line["member"] == dead.id and line["from"] != "unknown"
            ]
            assert health[0][0] == "healthy"
            assert health[-1] == ("degraded", "failed")
            assert all(before[1] == after[0] for before, after in pairwise(health))
            roles = [(line["from"], line["to"]) for line in lines if line["kind"] == "role"]
            assert roles == [("follower", "candidate"), ("candidate", "leader")]
            assert [line["number"] for line in lines] == list(range(1, len(lines) + 1))
            assert any("has failed" in problem for problem in leader.problems())
            await until(lambda: leader.alarms.counts["heartbeats-failed"] == 1)

    asyncio.run(run())


@pytest.mark.slow
def test_gossip_that_takes_everybody_for_dead_gates_nothing(tmp_path: Path) -> None:
    """CL-032, CL-120: votes, heartbeats, entries and writes go on; the status says what gossip thinks."""

    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            for node in nodes.running:
                # Nobody hears any gossip from here on.
                node.gossip.hear = lambda *_: None  # type: ignore[method-assign]
            await until(
                lambda: (
                    all(set(node.healths()) == {"failed"} for node in nodes.running)
                    and leader.gossip.machine.partition(nodes.first.voters).value in ("quorum-lost", "unknown")
                )
            )
            async with nodes.client() as client:
                version = await client.put(b"a", b"1")
                await until(lambda: all(node.state.index >= version for node in nodes.running))
                other = next(node for node in nodes.running if node is not leader)
                await client.transfer(other.node)
                assert other.machine.role is Role.LEADER
                await client.put(b"a", b"2")
            assert all(set(node.healths()) == {"failed"} for node in nodes.running)

    asyncio.run(run())


@pytest.mark.slow
def test_compaction_and_checkpoints_run_by_themselves(tmp_path: Path) -> None:
    """CL-072, CL-376: nobody asks for a snapshot, and one is taken of what is applied."""

    async def run() -> None:
        raft = with_timeouts(
            RAFT, snapshot_threshold=60, snapshot_trailing_logs=5, compaction_cooldown_ms=1, compaction_check_interval=1
        )
        async with cluster(tmp_path, 1, raft=raft) as nodes:
            node = await nodes.elected()
            async with nodes.client() as client:
                await asyncio.gather(*(client.put(b"key %d" % at, b"v") for at in range(200)))
            await until(lambda: node.machine.snapshot is not None and node.machine.first_index > 60)
            assert node.machine.snapshot is not None
            assert node.machine.snapshot.last_index <= node.machine.commit_index
            await nodes.stop(nodes.places[0])
            again = await nodes.start(nodes.places[0])
            await until(lambda: len(again.state.table) >= 200)
            async with nodes.client() as client:
                assert (await client.get(b"key 199")).value == b"v"

    asyncio.run(run())


def test_committed_data_that_differ_stop_the_node(tmp_path: Path) -> None:
    """CL-374: a halt and an alarm; nothing is merged, and the others go on."""

    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            wrong = next(node for node in nodes.running if node is not leader)
            place = nodes.place_of(wrong)
            async with nodes.client() as client:
                await client.put(b"a", b"1")
                await nodes.settled()
                # As if a bit had been flipped in memory.
                wrong.state.table._put(wrong.state.index, b"a", b"2")
                for at in range(60):
                    await client.put(b"key %d" % at, b"v")
                await until(lambda: wrong.is_halted)
                with pytest.raises(Halted, match="committed data differ"):
                    wrong.over.result()
                assert _audit(place)[-1]["to"] == "halted"
                index = wrong.machine.last_index
                await client.put(b"b", b"1")
                assert wrong.machine.last_index == index
                assert wrong.problems()[0].startswith("this node has stopped")

    asyncio.run(run())


@pytest.mark.slow
def test_a_leader_cut_off_reports_that_it_is_not_well(tmp_path: Path) -> None:
    """CL-290, CL-292: the check of the quorum runs by itself, is counted, and the node is not healthy then."""

    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            assert leader.gauges()["healthy"] == 1
            for place in [place for place in nodes.places if place.node is not leader]:
                await nodes.stop(place)
            await until(lambda: leader.machine.role is Role.FOLLOWER)
            await until(lambda: leader.gauges()["healthy"] == 0)
            counts = leader.counts()
            assert counts["quorum_losses"] == 1
            assert counts["step_downs"] == 1
            assert counts["alarm_quorum-lost"] == 1
            assert counts["heartbeats_failed"] > 0
            assert leader.metrics.timings["sync"].count == leader.disk.syncs

    asyncio.run(run())


@pytest.mark.slow
def test_a_node_that_is_removed_while_it_runs_says_so(tmp_path: Path) -> None:
    """By the last word of its leader; nobody talks to it afterwards."""

    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            gone = next(node for node in nodes.running if node is not leader)
            await nodes.settled()
            async with nodes.client() as client:
                await client.remove(gone.node)
            await until(lambda: gone.alarms.counts["removed"] == 1)
            assert gone.problems() == ["this node is no member of the cluster any more: it was removed"]
            assert gone.report(1).role == "no member"
            async with nodes.client() as client:
                await client.snapshot(gone.node)
            assert gone.problems() == ["this node is no member of the cluster any more: it was removed"]
            assert "no member of the cluster any more" in nodes.place_of(gone).log.getvalue()
            audited = [json.loads(line) for line in nodes.place_of(gone).audit.read_text("utf-8").splitlines()]
            assert [line["to"] for line in audited if line["kind"] == "alarm"].count("removed") == 1
            assert not any(node.alarms.counts["removed"] for node in nodes.running if node is not gone)

    asyncio.run(run())


def test_one_node_is_a_cluster(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            node = await nodes.elected()
            async with ClusterClient(nodes.known, socket=tmp_path / "n1" / "node.sock") as client:
                await client.put(b"a", b"1")
                with pytest.raises(NotAccepted, match="leads; hand leadership to another one first"):
                    await client.remove(node.node)
                with pytest.raises(NotAccepted, match="leads already"):
                    await client.transfer(node.node)
                with pytest.raises(NotAccepted, match="votes already"):
                    await client.promote(node.node)
                report = await client.status()
                assert report.role == "leader"
                assert report.problems == ()

    asyncio.run(run())


def test_stopping_twice_and_a_port_that_is_taken(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            node = await nodes.elected()
            await node.stop()
            await node.stop()
            assert isinstance(node, ClusterNode)
            assert OPERATOR.certificate in node.directory.callers

    asyncio.run(run())


def test_a_member_that_lies_about_who_leads_stops_nobody(tmp_path: Path) -> None:
    """It is refused, counted and shown, and what it makes a node write down is bounded."""

    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            liar, other = (node for node in nodes.running if node is not leader)
            for victim in (leader, other):
                await until(lambda victim=victim: liar.peers._sealer.knows(victim.node))  # type: ignore[misc]
                lie = AppendEntries(
                    term=Term(victim.machine.term),
                    leader=liar.node,
                    previous_index=Index(0),
                    previous_term=Term(0),
                    entries=(),
                    commit=Index(0),
                    round=1,
                )
                for _ in range(ALARMS_PER_MINUTE + 5):
                    liar.peers.send(victim.node, lie)
                await until(lambda victim=victim: victim.alarms.counts["two-leaders"] == ALARMS_PER_MINUTE + 5)  # type: ignore[misc]
                assert not victim.is_halted
                lines = [line for line in _audit(nodes.place_of(victim)) if line["to"] == "two-leaders"]
                assert len(lines) == ALARMS_PER_MINUTE
            async with nodes.client() as client:
                await client.put(b"a", b"1")

    asyncio.run(run())


def test_a_thread_that_breaks_halts_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no memory left")

    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            node = await nodes.elected()
            monkeypatch.setattr(node._storage, "save_incarnation", fail)
            node._keep_incarnation(1_000, lambda _: None)
            await until(lambda: node.is_halted)
            with pytest.raises(Halted, match="the disk's thread broke: MemoryError: no memory left"):
                node.over.result()
            assert _audit(nodes.places[0])[-1]["to"] == "halted"
        async with cluster(tmp_path, 1) as nodes:
            node = await nodes.elected()
            monkeypatch.setattr(node._storage, "write_snapshot", fail)
            async with nodes.client() as client:
                await client.put(b"a", b"1")
                asking = asyncio.create_task(client.snapshot())
                await until(lambda: node.is_halted)
                asking.cancel()
            with pytest.raises(Halted, match="the work with snapshots broke"):
                node.over.result()

    asyncio.run(run())


def test_the_largest_values_reach_every_node(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            await nodes.elected()
            key, before, after = b"k" * KEY_BYTES_MAX, bytes(VALUE_BYTES_MAX), b"\x01" * VALUE_BYTES_MAX
            async with nodes.client() as client:
                await client.put(key, before)
                assert await client.compare_and_swap(key, before, after)
            await nodes.settled()
            for node in nodes.running:
                item = node.state.table.get(key)
                assert item is not None
                assert item.value == after

    asyncio.run(run())


def test_a_node_alone_after_a_restart_refuses_a_stale_read_until_it_has_heard_a_leader(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            await nodes.elected()
            async with nodes.client() as client:
                await client.put(b"a", b"1")
                assert (await client.get(b"none", stale=True)).value is None
            for place in nodes.places:
                await nodes.stop(place)
            alone = await nodes.start(nodes.places[0])
            assert not alone.has_learnt
            socket = tmp_path / "n1" / "node.sock"
            async with ClusterClient(nodes.known, socket=socket, here=alone.node, seconds=0.5) as client:
                with pytest.raises(NotAccepted, match="not yet learnt what is committed") as caught:
                    await client.get(b"a", stale=True)
                assert caught.value.retry
                await nodes.start(nodes.places[1])
                await until(lambda: alone.has_learnt)
                assert (await client.get(b"a", stale=True)).index > 0

    asyncio.run(run())
