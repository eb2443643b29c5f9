"""Drives the membership machine of a node."""

import asyncio
from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bobbin.cluster.membership.effects import Flapping, Healed, HealthChanged
from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.cluster.membership.merging import MergeConfig, MergePhase
from bobbin.cluster.membership.messages import (
    Alive,
    BidirectionalAck,
    BidirectionalProbe,
    GossipMessage,
    GossipNodeState,
    Health,
    Ping,
    Pong,
    Sync,
)
from bobbin.cluster.names import NodeId
from bobbin.errors import BobbinError, ResourceError
from bobbin.runtime.cluster_gossip import Gossip
from tests.support.clusters import GOSSIP, until

if TYPE_CHECKING:
    from collections.abc import Callable

_A, _B = NodeId("a"), NodeId("b")


def test_probes_answers_and_notices_come_by_themselves() -> None:
    async def run() -> None:
        said: list[tuple[NodeId, GossipMessage]] = []
        kept: list[tuple[int, Callable[[BobbinError | None], None]]] = []
        noticed: list[HealthChanged | Healed | Flapping] = []
        machine = MembershipMachine(GOSSIP, node=_A, incarnation=4, peers=[(_B, None)], random=Random(1))
        gossip = Gossip(
            machine,
            say=lambda to, message: said.append((to, message)),
            keep=lambda incarnation, done: kept.append((incarnation, done)),
            notice=noticed.append,
        )
        gossip.hear(_B, Ping(origin=_B, sequence=1))
        assert said == []
        gossip.start()
        assert [incarnation for incarnation, _ in kept] == [5]
        gossip.hear(_B, Ping(origin=_B, sequence=1))
        assert (_B, Pong(responder=_A, sequence=1)) in said
        # The incarnation is said when it is durable, and asked for again where it could not be made so.
        kept[0][1](ResourceError("full", retry=True))
        await until(lambda: len(kept) == 2)
        kept[1][1](None)
        assert machine.spoken == 5
        assert (_B, Alive(node_id=_A, incarnation=5)) in said
        # Nobody answers the probes that the timer sends.
        await until(lambda: any(isinstance(message, Ping) for _, message in said))
        await until(lambda: machine.health(_B) is Health.FAILED)
        assert [(one.before, one.after) for one in noticed if isinstance(one, HealthChanged)][-1][1] is Health.FAILED
        gossip.know(())
        assert machine.embeddings == {}
        gossip.stop()
        count = len(said)
        gossip.hear(_B, Ping(origin=_B, sequence=2))
        assert len(said) == count

    asyncio.run(run())


def test_a_member_that_comes_back_is_shown_the_whole_view_and_shows_its_own() -> None:
    """CL-372: the views are merged, and whoever waits for a decision is made to ask."""

    async def run() -> None:
        said: list[tuple[NodeId, GossipMessage]] = []
        noticed: list[HealthChanged | Healed | Flapping] = []
        asked: list[NodeId] = []
        others = [NodeId(f"n{number:02}") for number in range(30)]
        # Nobody fails by a timer of this node, however slow it is.
        patient = replace(GOSSIP, suspicion_timeout_ms=10**6)
        machine = MembershipMachine(
            patient, node=_A, incarnation=4, peers=[(_B, None), *((node, None) for node in others)], random=Random(1)
        )
        gossip = Gossip(
            machine,
            say=lambda to, message: said.append((to, message)),
            keep=lambda _, done: done(None),
            notice=noticed.append,
            merging=MergeConfig(heal_confirmations=2),
            ask=asked.append,
        )

        def told(node: NodeId, health: Health, incarnation: int) -> None:
            state = GossipNodeState(node, health, 1, incarnation, others[0])
            gossip.hear(others[0], Sync(sender=others[0], states=(state,), sender_time=1))

        gossip.start()
        told(_B, Health.FAILED, 1)
        gossip.hear(_B, Alive(node_id=_B, incarnation=2))
        answered: set[int] = set()

        def healed() -> bool:
            for to, message in tuple(said):
                if to == _B and isinstance(message, BidirectionalProbe) and message.id not in answered:
                    answered.add(message.id)
                    gossip.hear(_B, BidirectionalAck(origin=_A, id=message.id, responder=_B))
            return any(isinstance(one, Healed) for one in noticed)

        await until(healed)
        assert gossip.merges.phases == {_B: MergePhase.HEAL_DETECTION}
        said.clear()
        for number in (1, 2):
            gossip.hear(_B, Ping(origin=_B, sequence=number))
        shown = [message for to, message in said if to == _B and isinstance(message, Sync)]
        assert {state.node for message in shown for state in message.states} == {_A, _B, *others}
        assert all(len(message.states) <= GOSSIP.max_states_per_message for message in shown)
        theirs = GossipNodeState(others[1], Health.DEGRADED, 9, 3, _B)
        gossip.hear(_B, Sync(sender=_B, states=(theirs,), sender_time=9))
        assert machine.table.states[others[1]] == theirs
        gossip.hear(_B, Ping(origin=_B, sequence=3))
        assert gossip.merges.stats.completed == 1
        assert gossip.merges.stats.conflicts_auto == 1
        assert asked == [_B]
        # A node that fails while the next one is merged with ends that.
        gossip.merges.request(others[2], now_ms=0)
        assert gossip.merges.phases == {others[2]: MergePhase.HEAL_DETECTION}
        told(others[3], Health.FAILED, 1)
        assert gossip.merges.phases == {}
        assert gossip.merges.stats.aborted_by_split == 1
        gossip.know(((_B, None),))
        gossip.stop()

    asyncio.run(run())
