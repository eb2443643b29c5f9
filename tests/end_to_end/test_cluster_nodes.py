"""Clusters of real nodes under failures: how many may be down, what a cut leaves, who is let in, how members change."""

import asyncio
import json
import ssl
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from bobbin.cluster.identity import Identity
from bobbin.cluster.membership.messages import Health, Suspect
from bobbin.cluster.raft.effects import Role
from bobbin.errors import BobbinError
from bobbin.runtime import cluster_links
from bobbin.runtime.cluster_certificate import Credentials, client_context, make
from bobbin.runtime.cluster_client import ClusterClient, NotAccepted, OutcomeUnknown
from bobbin.runtime.cluster_contact import Contact
from bobbin.runtime.cluster_links import Purpose
from bobbin.runtime.cluster_node import ClusterNode
from bobbin.runtime.log import make_log
from bobbin.transport.base import TransportError
from bobbin.wire.cluster import codec
from bobbin.wire.cluster.envelope import Envelope, pack
from bobbin.wire.cluster.faults import Refusal
from bobbin.wire.cluster.frame import frame
from tests.support.clusters import (
    CLUSTER,
    GOSSIP,
    OPERATOR,
    RAFT,
    Nodes,
    Place,
    cluster,
    free_ports,
    until,
    with_timeouts,
)

pytestmark = pytest.mark.slow

_STRANGER = make(Identity(bytes([77]) * 32))


@pytest.mark.parametrize("count", [3, 5, 7])
def test_as_many_may_be_down_as_leave_a_majority_and_no_more(tmp_path: Path, count: int) -> None:
    """CL-363."""

    async def run() -> None:
        async with cluster(tmp_path, count) as nodes:
            await nodes.elected()
            async with nodes.client() as client:
                await client.put(b"a", b"0")
                for number in range(count // 2):
                    # The leader first, so that each time somebody else has to be elected.
                    leader = await nodes.elected()
                    await nodes.stop(nodes.place_of(leader))
                    await client.put(b"a", b"%d" % (number + 1))
                leader = await nodes.elected()
                await nodes.stop(nodes.place_of(leader))
            committed = max(node.machine.commit_index for node in nodes.running)
            async with nodes.client(seconds=1.5) as hasty:
                with pytest.raises(BobbinError):
                    await hasty.put(b"a", b"too much")
            assert max(node.machine.commit_index for node in nodes.running) == committed
            assert all(node.machine.role is not Role.LEADER for node in nodes.running)

    asyncio.run(run())


def test_an_even_number_draws_a_warning_and_half_of_it_commits_nothing(tmp_path: Path) -> None:
    """CL-364: four nodes bear one failure; cut in two halves, neither commits."""

    async def run() -> None:
        async with cluster(tmp_path, 4) as nodes:
            leader = await nodes.elected()
            for node in nodes.running:
                assert node.alarms.counts["even-voters"] == 1
                assert any("4 voters" in problem for problem in node.problems())
            async with nodes.client() as client:
                await client.put(b"a", b"1")
                ids = [place.id for place in nodes.places]
                mates = {leader.node, next(one for one in ids if one != leader.node)}
                await nodes.settled()
                nodes.cut(mates, set(ids) - mates)
                committed = max(node.machine.commit_index for node in nodes.running)
                async with nodes.client(seconds=2.0) as hasty:
                    with pytest.raises(BobbinError):
                        await hasty.put(b"a", b"2")
                await until(lambda: all(node.machine.role is not Role.LEADER for node in nodes.running))
                assert max(node.machine.commit_index for node in nodes.running) == committed
                nodes.heal()
                await nodes.elected()
                lost = next(place for place in nodes.places if place.node is not nodes.leader)
                await nodes.stop(lost)
                await client.put(b"a", b"3")

    asyncio.run(run())


def test_an_unsigned_message_changes_nothing_and_signed_gossip_works(tmp_path: Path) -> None:
    """CL-365, CL-376: an injected word about a node is counted and dropped; suspicion and refutation go on."""

    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            liar, victim = (place for place in nodes.places if place.node is not leader)
            await until(lambda: set(leader.healths()) == {"healthy"})
            incarnation = victim.running.gossip.machine.incarnation
            word = Suspect(reporter=liar.id, suspect=victim.id, incarnation=incarnation)
            number, payload = codec.encode(word)
            unsigned = Envelope(
                sender=liar.id,
                destination=leader.node,
                destination_boot=1,
                cluster=CLUSTER,
                type=number,
                boot_id=1,
                sequence=10_000,
                time_ms=time.time_ns() // 1_000_000,
                payload=payload,
            )
            place = nodes.place_of(leader)
            stream = await cluster_links.dial(liar.own, place.address, [place.own.certificate], Purpose.PEER)
            await stream.write(frame(pack(unsigned)) + frame(b"noise"))
            await until(lambda: leader.peers.gateway.refused[Refusal.UNSIGNED] == 1)
            await until(lambda: leader.peers.gateway.refused.total() == 2)
            assert leader.gossip.machine.health(victim.id) is Health.HEALTHY
            await stream.close()
            # A real suspicion, signed: the victim hears of it and refutes it.
            liar.running.gossip._say(victim.id, word)
            await until(lambda: victim.running.gossip.machine.incarnation > incarnation)
            await until(lambda: leader.gossip.machine.table.states[victim.id].incarnation > incarnation)
            assert set(leader.healths()) == {"healthy"}

    asyncio.run(run())


def test_nobody_gets_in_without_a_certificate_that_is_known(tmp_path: Path) -> None:
    """CL-367: plain TCP, TLS without a certificate, and a stranger's: none of them gets a byte to a decoder."""

    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            node = await nodes.elected()
            place = nodes.places[0]
            host, port = "127.0.0.1", node.address.port_number
            bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
            stranger = client_context(_STRANGER, [place.own.certificate])
            stranger.set_alpn_protocols([Purpose.PEER.value])
            for context in (None, bare, stranger):
                refused = node.channels.refused.total()
                with suppress(ssl.SSLError, ConnectionError):
                    reader, writer = await asyncio.open_connection(
                        host, port, ssl=context, server_hostname=None if context is None else ""
                    )
                    writer.write(frame(b"let me in"))
                    await reader.read()
                    writer.close()
                await until(lambda before=refused: node.channels.refused.total() == before + 1)  # type: ignore[misc]
            assert node.peers.gateway.refused.total() == 0
            assert node.peers.gateway.admitted == 0
            async with ClusterClient(nodes.known, own=_STRANGER, seconds=1.0) as client:
                with pytest.raises(TransportError):
                    await client.get(b"a")
            # An operator is let in as a client, not as a node.
            stream = await cluster_links.dial(OPERATOR, place.address, [place.own.certificate], Purpose.PEER)
            with suppress(TransportError):
                assert await stream.read() == b""

    asyncio.run(run())


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Hours by which every wall clock of the program is wrong."""
    hours = [0]
    real_ns, real = time.time_ns, time.time
    wrong_ns = lambda: real_ns() + hours[0] * 3_600_000_000_000  # noqa: E731
    wrong = lambda: real() + hours[0] * 3_600  # noqa: E731
    monkeypatch.setattr(time, "time_ns", wrong_ns)
    monkeypatch.setattr(time, "time", wrong)
    for name, module in list(sys.modules.items()):
        if name.startswith("bobbin."):
            for attribute, value in (("time_ns", wrong_ns), ("time", wrong)):
                if getattr(module, attribute, None) in (real_ns, real):
                    monkeypatch.setattr(module, attribute, value)
    return hours


def test_clocks_that_jump_by_an_hour_cause_nothing(tmp_path: Path, jump: list[int]) -> None:
    """CL-371."""

    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            await until(lambda: all(set(node.healths()) == {"healthy"} for node in nodes.running))
            term = leader.machine.term
            async with nodes.client() as client:
                for hours in (1, -1, 0):
                    jump[0] = hours
                    assert abs(time.time_ns() // 1_000_000 - leader.peers._clock.now_ms() - hours * 3_600_000) < 60_000
                    rounds = leader.machine.stats.heartbeats_answered
                    await client.put(b"hours", b"%d" % hours)
                    await until(lambda at=rounds: leader.machine.stats.heartbeats_answered > at + 20)  # type: ignore[misc]
            assert {node.machine.term for node in nodes.running} == {term}
            for node in nodes.running:
                assert node.peers.gateway.refused.total() == 0
                assert set(node.healths()) == {"healthy"}
                assert node.machine.stats.step_downs == 0

    asyncio.run(run())


async def _is_let_in(own: Credentials, place: Place) -> bool:
    """Whether a node takes a channel of another one, as it shows by leaving it open."""
    try:
        stream = await cluster_links.dial(own, place.address, [place.own.certificate], Purpose.PEER)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await stream.read()
                return False
    except TransportError:
        return False
    await stream.close()
    return True


async def _join(nodes: Nodes, folder: Path, number: int) -> Place:
    """One more node, invited and taken in."""
    place = Place(folder / f"n{number}", number, free_ports(1)[0])
    nodes.places.append(place)
    invited = make(Identity(bytes([200 + number]) * 32))
    async with nodes.client() as client:
        await client.invite(invited.certificate, time.time_ns() // 1_000_000 + 60_000)
    async with ClusterClient(nodes.known, own=invited, seconds=30) as guest:
        with pytest.raises(NotAccepted, match="for joining"):
            await guest.put(b"a", b"1")
        known = await guest.add(place.own.certificate, place.address)
    await nodes.start(place, known=known, joins=True)
    return place


def test_a_node_joins_listens_votes_and_is_put_out(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            await nodes.elected()
            async with nodes.client() as client:
                await asyncio.gather(*(client.put(b"key %d" % at, b"v") for at in range(100)))
                for number in (2, 3):
                    await _join(nodes, tmp_path, number)
                leader = await nodes.elected()
                ids = tuple(sorted(place.id for place in nodes.places))
                await until(lambda: all(node.configuration.voters == ids for node in nodes.running))
                await nodes.settled()
                assert len({node.state.table.root for node in nodes.running}) == 1
                # It has learnt of everybody by the log, and keeps it for its next start.
                joined = nodes.places[1]
                assert set(joined.running.directory.members) == set(ids)
                await until(lambda: len(_kept(joined)) == 3)
                gone = next(place for place in nodes.places if place.node is not leader)
                await client.remove(gone.id)
                await until(lambda: gone.id not in leader.directory.members)
                await until(lambda: gone.id not in leader.peers.links)
                await client.put(b"a", b"1")
                assert gone.id not in leader.configuration.members
                assert not await _is_let_in(gone.own, nodes.place_of(leader))
                changes = [
                    (line["from"], line["to"])
                    for line in map(json.loads, nodes.place_of(leader).audit.read_text("utf-8").splitlines())
                    if line["kind"] == "configuration" and line["committed"]
                ]
                assert changes[-1][1].count(" ") == 2
                assert gone.id not in changes[-1][1]

    asyncio.run(run())


def test_an_invitation_is_used_up_by_joining(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            leader = await nodes.elected()
            await _join(nodes, tmp_path, 2)
            used = make(Identity(bytes([202]) * 32))
            await until(lambda: used.certificate not in leader.directory.callers)
            async with ClusterClient(nodes.known, own=used, seconds=0.5) as again:
                with pytest.raises(TransportError):
                    await again.add(_STRANGER.certificate, "tls:127.0.0.1:1")

    asyncio.run(run())


def test_a_node_that_was_away_while_another_joined_and_took_over_finds_back(tmp_path: Path) -> None:
    """Its own log cannot tell it of the new leader, whom it refuses; the others do."""

    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            away = next(place for place in nodes.places if place.node is not leader)
            await nodes.stop(away)
            (away.folder / "members.json").unlink(missing_ok=True)
            new = await _join(nodes, tmp_path, 4)
            await until(lambda: new.id in leader.configuration.voters and leader.is_settled)
            async with nodes.client() as client:
                await client.members()
                await client.transfer(new.id)
                await until(lambda: new.running.machine.role is Role.LEADER)
                back = await nodes.start(away)
                contact = Contact(back, away.own, make_log(output=away.log), look_seconds=0.05)
                await until(lambda: back.machine.leader is not None)
                await client.put(b"a", b"1")
                await nodes.settled()
                await contact.close()
            assert new.id in back.directory.members

    asyncio.run(run())


def test_a_key_is_changed_while_the_cluster_goes_on(tmp_path: Path) -> None:
    """CL-366: the node keeps its seat; the new key counts, the old one does not any more."""

    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            place = next(place for place in nodes.places if place.node is not leader)
            new = make(Identity(bytes([99]) * 32))
            async with nodes.client() as client:
                await client.put(b"a", b"1")
                async with ClusterClient(nodes.known, own=place.own, seconds=30) as itself:
                    await itself.add(new.certificate, place.address)
                await until(lambda: leader.directory.member_of(new.certificate) == place.id)
                await nodes.stop(place)
                changed = await nodes.start(place, own=new)
                contact = Contact(changed, new, make_log(output=place.log), look_seconds=0.05)
                await until(lambda: all(_knows_only(node, place, new) for node in nodes.running))
                version = await client.put(b"a", b"2")
                await until(lambda: changed.state.index >= version)
                await contact.close()
                assert not await _is_let_in(place.own, nodes.place_of(leader))
                assert await _is_let_in(new, nodes.place_of(leader))
                assert leader.peers._registry.find(place.own.identity.node) is None

    asyncio.run(run())


def _kept(place: Place) -> list[object]:
    """The members in a node's folder."""
    found = json.loads((place.folder / "members.json").read_text("utf-8"))["members"]
    assert isinstance(found, list)
    return found


def _knows_only(node: ClusterNode, place: Place, new: Credentials) -> bool:
    return node.directory.members[place.id].certificates == (new.certificate,)


def test_all_stop_at_once_and_come_back_with_everything(tmp_path: Path) -> None:
    """CL-305, the scenario of a whole cluster that is started again."""

    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leaders: dict[int, str] = {}
            for life in range(3):
                leader = await nodes.elected()
                assert leaders.setdefault(leader.machine.term, leader.node) == leader.node
                async with nodes.client() as client:
                    for at in range(10):
                        await client.put(b"%d" % (10 * life + at), b"v")
                    rows = [row.key async for row in client.scan()]
                    assert len(rows) == 10 * (life + 1)
                before = {place.id: place.running.machine.term for place in nodes.places}
                for place in nodes.places:
                    await nodes.stop(place)
                for place in nodes.places:
                    node = await nodes.start(place)
                    assert node.machine.term >= before[place.id]
            await nodes.elected()
            async with nodes.client() as client:
                assert len([row async for row in client.scan()]) == 30

    asyncio.run(run())


def test_a_follower_that_lacks_too_much_is_brought_up_to_date_by_a_snapshot(tmp_path: Path) -> None:
    async def run() -> None:
        raft = with_timeouts(
            RAFT,
            snapshot_threshold=50,
            snapshot_trailing_logs=5,
            compaction_cooldown_ms=1,
            compaction_check_interval=1,
            snapshot_chunk_size=1_000,
        )
        async with cluster(tmp_path, raft=raft) as nodes:
            leader = await nodes.elected()
            away = next(place for place in nodes.places if place.node is not leader)
            async with nodes.client() as client:
                await client.put(b"a", b"1")
                await nodes.stop(away)
                for step in range(4):
                    await asyncio.gather(*(client.put(b"%d/%d" % (step, at), b"v" * 20) for at in range(60)))
                await until(lambda: leader.machine.first_index > 100)
                back = await nodes.start(away)
                await until(lambda: back.machine.stats.snapshots_installed >= 1)
                await client.put(b"a", b"2")
                await nodes.settled()
                # At once: the leader may write a checkpoint next, and applies it first.
                assert back.state.table.root == leader.state.table.root

    asyncio.run(run())


def test_what_nobody_can_confirm_is_said_to_be_unknown(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.elected()
            async with nodes.client(seconds=1.0) as client:
                await client.put(b"a", b"1")
                nodes.cut(*({place.id} for place in nodes.places))
                with pytest.raises(OutcomeUnknown):
                    await client.put(b"a", b"2")
                assert leader.requests.waiting

    asyncio.run(run())


def test_gossip_settings_are_signed_unless_told_otherwise() -> None:
    assert GOSSIP.require_signatures
