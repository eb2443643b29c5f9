"""Drives the membership machine of a node."""

import asyncio
from random import Random
from typing import TYPE_CHECKING

from bobbin.cluster.membership.effects import Flapping, Healed, HealthChanged
from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.cluster.membership.messages import Alive, GossipMessage, Health, Ping, Pong
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
