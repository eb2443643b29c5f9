"""The checker of M1 to M7 sees what it is for: each broken promise by name."""

from random import Random
from typing import NoReturn

import pytest

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.membership.effects import Effect, HealthChanged, Send
from bobbin.cluster.membership.events import Event, Heard, Tick
from bobbin.cluster.membership.messages import Alive, GossipMessage, GossipNodeState, Health, Suspect, Sync
from bobbin.cluster.names import NodeId
from bobbin.cluster.settings import GossipConfig
from bobbin.simulator.clock import NodeClock, Timeline
from bobbin.simulator.membership_checker import MembershipChecker, greater
from bobbin.simulator.membership_member import Member
from bobbin.simulator.world import Broken

A, B, C = (NodeId(name) for name in "abc")


class Watched:
    """A member that is looked at, and one whose past is made up."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.checker = MembershipChecker(self._fail)
        self.member = Member(
            self,
            A,
            GossipConfig(),
            random=Random(2),
            clock=NodeClock(self.timeline),
            embedding=Embedding.dense((1.0,)),
        )
        self.member.start([(B, None), (C, None)])
        while self.timeline.now_ns < 20_000_000 and self.timeline.step(20_000_000):
            pass
        assert self.member.machine is not None
        self.machine = self.member.machine

    def _fail(self, message: str) -> NoReturn:
        raise Broken(message)

    def send(self, origin: NodeId, to: NodeId, message: GossipMessage) -> None:
        """Nobody is there."""

    def look(self, member: Member, event: Event, effects: list[Effect]) -> None:
        self.checker.look(member, event, effects)

    def again(self, event: Event | None = None, *effects: Effect) -> None:
        """As if a step had been made that did this."""
        self.checker.look(self.member, event or Tick(), list(effects))

    def put(self, state: GossipNodeState) -> None:
        self.machine.table.states[state.node] = state
        self.machine.table.version += 1


def word(node: NodeId, health: Health, incarnation: int, timestamp: int = 0, writer: NodeId = A) -> GossipNodeState:
    return GossipNodeState(node, health, timestamp, incarnation, writer)


def test_an_honest_node_breaks_nothing() -> None:
    watched = Watched()
    watched.again()
    assert watched.checker.past[A].spoken == 1


def test_m1_a_word_at_an_incarnation_that_nobody_used() -> None:
    watched = Watched()
    watched.put(word(B, Health.FAILED, 1))
    with pytest.raises(Broken, match="M1: a holds"):
        watched.again()


def test_what_a_liar_invents_is_excused() -> None:
    watched = Watched()
    watched.checker.forge(word(B, Health.DEGRADED, 1, 99, C))
    watched.put(word(B, Health.DEGRADED, 1, 99, C))
    watched.checker.past[A].audited[B] = Health.DEGRADED
    watched.again()


def test_m2_a_clock_that_falls_and_a_stamp_that_is_too_late() -> None:
    watched = Watched()
    watched.put(word(A, Health.HEALTHY, 1, watched.machine.table.time + 1))
    with pytest.raises(Broken, match="M2: a holds"):
        watched.again()
    watched = Watched()
    watched.machine.table.time -= 1
    with pytest.raises(Broken, match="M2: the time of a falls"):
        watched.again()


def test_m3_an_incarnation_that_falls_or_is_not_durable() -> None:
    watched = Watched()
    watched.machine.spoken = 2
    with pytest.raises(Broken, match="M3: a goes by 2, and 1 is durable"):
        watched.again()
    watched = Watched()
    watched.member.crash()
    watched.member.disk.incarnation = 0
    with pytest.raises(Broken, match="M3: a had said 1, and starts again at 1"):
        watched.member.start([(B, None), (C, None)])
    watched = Watched()
    sync = Sync(sender=A, states=(word(A, Health.HEALTHY, 3),), sender_time=9)
    with pytest.raises(Broken, match="M3: a says 3, and 1 is durable"):
        watched.again(None, Send(B, sync))
    with pytest.raises(Broken, match="goes by 1"):
        watched.again(None, Send(B, Alive(node_id=A, incarnation=0)))


def test_m6_a_view_that_is_not_the_greatest_of_what_was_heard() -> None:
    watched = Watched()
    heard = Heard(C, Sync(sender=C, states=(word(B, Health.HEALTHY, 0, 5, B),), sender_time=9))
    watched.machine.table.time = max(watched.machine.table.time, 5) + 1
    with pytest.raises(Broken, match="M6: a holds"):
        watched.again(heard)
    watched = Watched()
    watched.put(word(C, Health.UNKNOWN, 0, 0, A))
    with pytest.raises(Broken, match=r"M6: a held .* and falls back"):
        watched.again()


def test_m7_a_word_against_the_node_that_it_does_not_answer() -> None:
    watched = Watched()
    with pytest.raises(Broken, match="M7: a was spoken against at 1"):
        watched.again(Heard(C, Suspect(reporter=C, suspect=A, incarnation=1)))
    sync = Sync(sender=C, states=(word(A, Health.FAILED, 4, 1, C),), sender_time=9)
    with pytest.raises(Broken, match="M7: a was spoken against at 4"):
        watched.again(Heard(C, sync))


def test_a_change_that_is_not_told_and_one_that_is_told_twice() -> None:
    watched = Watched()
    watched.checker.past[B] = watched.checker.past[A]
    watched.put(word(B, Health.HEALTHY, 1, 1))
    with pytest.raises(Broken, match="has told of UNKNOWN"):
        watched.again()
    with pytest.raises(Broken, match="has told before of"):
        watched.again(None, HealthChanged(B, Health.HEALTHY, Health.DEGRADED, 1))


def test_the_checkers_own_order_is_the_right_one() -> None:
    low, high = word(B, Health.HEALTHY, 2, 9, C), word(B, Health.FAILED, 2, 1, A)
    assert greater(low, high) is greater(high, low) is high
    assert greater(word(B, Health.FAILED, 2, 1, C), high).writer == C
    assert greater(word(B, Health.UNKNOWN, 3), high).incarnation == 3
