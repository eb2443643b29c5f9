"""A member that lies: about others, about whoever it speaks to, about itself, and about what it was asked to do.

It is a member in good standing: what it sends is signed by it and well formed. In a calm world it is honest again.
"""

from collections.abc import Mapping
from random import Random
from typing import Final, TypeAlias

from bobbin.cluster.membership.messages import (
    Alive,
    BidirectionalAck,
    GossipMessage,
    GossipNodeState,
    Health,
    PingAck,
    Pong,
    Suspect,
    Sync,
)
from bobbin.cluster.names import NodeId
from bobbin.simulator.membership_checker import MembershipChecker
from bobbin.simulator.membership_member import Member

Lie: TypeAlias = tuple[NodeId, GossipMessage]


class Liar:
    """Draws lies of one member."""

    def __init__(
        self, member: Member, others: Mapping[NodeId, Member], checker: MembershipChecker, random: Random
    ) -> None:
        self.member: Final = member
        self._members: Final = others
        self._others: Final = list(others)
        self._checker: Final = checker
        self._random: Final = random

    def lie(self) -> tuple[str, list[Lie]]:
        """What it says, and to whom."""
        machine = self.member.machine
        if machine is None:
            return "silence", []
        kinds = {
            "about another": self._about_another,
            "about the hearer": self._about_hearer,
            "about itself": self._about_itself,
            "for another": self._for_another,
            "suspicion": self._suspicion,
            "answers": self._answers,
        }
        name = self._random.choice(list(kinds))
        return name, kinds[name]()

    def _sync(self, to: list[NodeId], *states: GossipNodeState, ahead: int = 0) -> list[Lie]:
        assert self.member.machine is not None
        for state in states:
            self._checker.forge(state)
        time = self.member.machine.table.time + ahead
        return [(node, Sync(sender=self.member.node, states=states, sender_time=time)) for node in to]

    def _word(self, node: NodeId, *, writer: NodeId | None = None) -> GossipNodeState:
        assert self.member.machine is not None
        table, random = self.member.machine.table, self._random
        bound = self.member.config.max_incarnation_jump
        jump = random.choice((0, 0, 1, 7, bound, bound, bound + 1, 10_000, 2**33))
        return GossipNodeState(
            node,
            random.choice((Health.HEALTHY, Health.DEGRADED, Health.FAILED, Health.FAILED)),
            max(0, table.time + random.choice((0, 0, -3, 5, 2**41))),
            table.states[node].incarnation + jump,
            writer or random.choice((*self._others, self.member.node)),
        )

    def _some(self) -> list[NodeId]:
        return self._random.sample(self._others, self._random.randint(1, len(self._others)))

    def _about_another(self) -> list[Lie]:
        return self._sync(
            self._some(), self._word(self._random.choice(self._others)), ahead=self._random.choice((0, 0, 9, 2**41))
        )

    def _about_hearer(self) -> list[Lie]:
        return [lie for node in self._some() for lie in self._sync([node], self._word(node))]

    def _about_itself(self) -> list[Lie]:
        return self._sync(self._some(), self._word(self.member.node, writer=self.member.node))

    def _for_another(self) -> list[Lie]:
        """In the name of somebody else, whose signature it does not have."""
        node = self._random.choice(self._others)
        forged = self._random.choice(
            (
                Alive(node_id=node, incarnation=self._random.randrange(50)),
                Suspect(reporter=node, suspect=self.member.node, incarnation=1),
                Sync(sender=node, states=(GossipNodeState(node, Health.FAILED, 1, 9, node),), sender_time=9),
                Pong(responder=node, sequence=self._random.randrange(9)),
            )
        )
        return [(to, forged) for to in self._some()]

    def _suspicion(self) -> list[Lie]:
        assert self.member.machine is not None
        suspect = self._random.choice(self._others)
        incarnation = self.member.machine.table.states[suspect].incarnation + self._random.choice((0, 0, 0, 1, -1))
        self._checker.invented.add((suspect, incarnation))
        return [
            (to, Suspect(reporter=self.member.node, suspect=suspect, incarnation=max(0, incarnation)))
            for to in self._some()
        ]

    def _answers(self) -> list[Lie]:
        """Answers to what nobody asked, or with a number that was not asked for."""
        to, about = self._random.choice(self._others), self._random.choice(self._others)
        machine = self._members[to].machine
        if machine is not None and machine.probe is not None:
            about = machine.probe.target
        number = self._random.randrange(2**32)
        return [
            (to, PingAck(origin=to, target=about, sequence=number, success=True)),
            (to, Pong(responder=self.member.node, sequence=number)),
            (to, BidirectionalAck(origin=to, id=number, responder=self.member.node)),
        ]
