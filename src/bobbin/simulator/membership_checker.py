"""M1 to M7: what must hold in every membership world, after every step, with a memory that outlives restarts.

===  ==========================================================================================================
M1   a word that a node is suspected or failed is at an incarnation which that node has used; healthy, one it has said
M2   a node's Lamport time never falls in one life, and no word is stamped above the highest time of its writer
M3   a node's incarnation never falls, over however many lives, and none is said before it is durable
M6   after a message, every entry is the greatest of what stood there and of what the message had, whatever the order
M7   a word against a node itself, at its incarnation or above, raises its incarnation above it in the same step
===  ==========================================================================================================

M4 (views converge) and M5 (the dead are known) are about time, and are the world's. The checker works out what a step
should have done from the words alone, without asking the machine how; a lying peer's inventions are told to it before
they are sent, and excuse what follows from them and nothing else.
"""

from collections.abc import Callable
from typing import Final, NoReturn

from bobbin.cluster.membership.effects import Effect, HealthChanged, Send
from bobbin.cluster.membership.events import Event, Heard
from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.cluster.membership.messages import Alive, GossipNodeState, Health, Suspect, Sync
from bobbin.cluster.names import NodeId
from bobbin.simulator.membership_member import Member

HIGH: Final = 2**63
LEAP_MAX: Final = 2**32
"""Incarnations above the one, and as much as the other above the known one, are not believed."""
TIME_LEAP_MAX: Final = 2**40
"""Nor clocks that are so far ahead."""


def greater(one: GossipNodeState, other: GossipNodeState) -> GossipNodeState:
    """Of two words on one node, the one that stands: incarnation, then severity, then timestamp, then writer."""
    for left, right in (
        (one.incarnation, other.incarnation),
        (int(one.health), int(other.health)),
        (one.timestamp, other.timestamp),
    ):
        if left != right:
            return one if left > right else other
    return one if one.writer >= other.writer else other


class Past:
    """What is remembered of one node, over all its lives."""

    def __init__(self) -> None:
        self.life = 0
        self.time_max = 0
        self.time = 0
        self.spoken = 0
        self.incarnation = 0
        self.view: dict[NodeId, GossipNodeState] = {}
        self.version = -1
        self.audited: dict[NodeId, Health] = {}


class MembershipChecker:
    """Looks at every step of every node."""

    def __init__(self, fail: Callable[[str], NoReturn]) -> None:
        self._fail: Final = fail
        self.past: Final[dict[NodeId, Past]] = {}
        self.forged: Final[set[GossipNodeState]] = set()
        self.invented: Final[set[tuple[NodeId, int]]] = set()
        """Nodes and incarnations of which a liar speaks."""
        self.false_failures: Final[set[tuple[NodeId, int]]] = set()
        """Nodes, and incarnations at which they were called failed while they were up."""

    def forge(self, state: GossipNodeState) -> None:
        """A liar is about to say this."""
        self.forged.add(state)
        self.invented.add((state.node, state.incarnation))

    def look(self, member: Member, event: Event, effects: list[Effect]) -> None:
        """A step was made."""
        machine = member.machine
        assert machine is not None
        past = self.past.setdefault(member.node, Past())
        if past.life != member.lives:
            self._begin_life(member, machine, past)
        before = past.time
        if machine.table.time < past.time:
            self._fail(f"M2: the time of {member.node} falls from {past.time} to {machine.table.time}")
        past.time = machine.table.time
        past.time_max = max(past.time_max, past.time)
        self._look_at_incarnation(member, machine, past)
        if isinstance(event, Heard):
            self._look_at_words(machine, past, event, before)
        for effect in effects:
            if isinstance(effect, Send):
                self._look_at_message(member, effect)
            elif isinstance(effect, HealthChanged):
                self._audit(past, effect, member.node)
        if past.version != machine.table.version:
            self._look_at_view(member, machine, past)

    def _begin_life(self, member: Member, machine: MembershipMachine, past: Past) -> None:
        past.life = member.lives
        past.time = 0
        past.view = {}
        past.version = -1
        past.audited = dict.fromkeys(machine.embeddings, Health.UNKNOWN)
        if machine.incarnation <= past.spoken:
            self._fail(f"M3: {member.node} had said {past.spoken}, and starts again at {machine.incarnation}")
        past.incarnation = 0

    def _look_at_incarnation(self, member: Member, machine: MembershipMachine, past: Past) -> None:
        if machine.spoken < past.spoken or machine.incarnation < past.incarnation:
            self._fail(f"M3: the incarnation of {member.node} falls below {past.spoken}")
        if machine.spoken > member.disk.incarnation:
            self._fail(f"M3: {member.node} goes by {machine.spoken}, and {member.disk.incarnation} is durable")
        past.spoken, past.incarnation = machine.spoken, machine.incarnation

    def _look_at_view(self, member: Member, machine: MembershipMachine, past: Past) -> None:
        """Every entry that is another than before."""
        past.version = machine.table.version
        for node, state in machine.table.states.items():
            known = past.view.get(node)
            if known is state:
                continue
            if known is not None and greater(state, known) is known and state != known:
                self._fail(f"M6: {member.node} held {known}, and falls back to {state}")
            past.view[node] = state
            self._look_at_word(member.node, state)
            if past.audited.get(node, state.health) is not state.health:
                self._fail(f"{member.node} holds {state}, and has told of {past.audited[node].name}")

    def _look_at_word(self, holder: NodeId, state: GossipNodeState) -> None:
        if state.health is Health.UNKNOWN or state in self.forged:
            return
        subject, writer = self.past.get(state.node), self.past.get(state.writer)
        used = 0 if subject is None else subject.spoken
        if state.incarnation > used and (state.node, state.incarnation) not in self.invented:
            self._fail(f"M1: {holder} holds {state}, and {state.node} has never gone beyond {used}")
        if writer is None or state.timestamp > writer.time_max:
            self._fail(f"M2: {holder} holds {state}, later than any clock of its writer")

    def _look_at_words(self, machine: MembershipMachine, past: Past, event: Heard, before: int) -> None:
        """What a message said is in the view, as far as it may be, and nothing else is."""
        node, message = machine.node, event.message
        if event.sender not in machine.embeddings:
            return
        if isinstance(message, Suspect) and message.suspect == node and message.reporter == event.sender:
            self._expect_answer(machine, message.incarnation)
        if not isinstance(message, Sync) or message.sender != event.sender:
            return
        expected: dict[NodeId, GossipNodeState] = {}
        latest = -1
        for state in message.states:
            known = past.view.get(state.node)
            if known is None or not self._is_credible(machine, event.sender, message, state, known, before):
                continue
            latest = max(latest, state.timestamp)
            if state.node != node:
                expected[state.node] = greater(expected.get(state.node, known), state)
            elif state.health >= Health.DEGRADED:
                self._expect_answer(machine, state.incarnation)
        if machine.table.time != (before if latest < 0 else max(before, latest) + 1):
            self._fail(f"M2: {node} was at {before}, heard {latest}, and is at {machine.table.time}")
        for subject, state in past.view.items():
            if machine.table.states.get(subject) != expected.get(subject, state):
                held = machine.table.states.get(subject)
                self._fail(f"M6: {node} holds {held}, and should hold {expected.get(subject, state)}")

    @staticmethod
    def _is_credible(
        machine: MembershipMachine,
        sender: NodeId,
        message: Sync,
        state: GossipNodeState,
        known: GossipNodeState,
        before: int,
    ) -> bool:
        if state == known:
            return True
        if state.timestamp > message.sender_time or message.sender_time > before + TIME_LEAP_MAX:
            return False
        if state.incarnation > max(HIGH, known.incarnation + LEAP_MAX):
            return False
        is_leap = state.incarnation > known.incarnation + machine.config.max_incarnation_jump
        is_silent = known.health in (Health.UNKNOWN, Health.FAILED)
        return not is_leap or is_silent or state.node in (sender, machine.node)

    def _expect_answer(self, machine: MembershipMachine, incarnation: int) -> None:
        """``past`` is of before the step, where a word may have raised the incarnation already."""
        if machine.incarnation <= incarnation <= max(HIGH, machine.spoken + LEAP_MAX):
            self._fail(f"M7: {machine.node} was spoken against at {incarnation}, and stays at {machine.incarnation}")

    def _look_at_message(self, member: Member, effect: Send) -> None:
        message, said = effect.message, 0
        if isinstance(message, Alive):
            said = message.incarnation
            if said != self.past[member.node].spoken:
                self._fail(f"{member.node} says {message}, and goes by {self.past[member.node].spoken}")
        elif isinstance(message, Sync):
            said = next((state.incarnation for state in message.states if state.node == member.node), 0)
        if said > member.disk.incarnation:
            self._fail(f"M3: {member.node} says {said}, and {member.disk.incarnation} is durable")

    def _audit(self, past: Past, effect: HealthChanged, holder: NodeId) -> None:
        if past.audited.get(effect.node) is not effect.before or effect.before is effect.after:
            self._fail(f"{holder} tells of {effect}, and has told before of {past.audited.get(effect.node)}")
        past.audited[effect.node] = effect.after

    def note_failure(self, node: NodeId, incarnation: int) -> None:
        """A node that is up was called failed by somebody who believes it: no broken promise, but counted."""
        self.false_failures.add((node, incarnation))
