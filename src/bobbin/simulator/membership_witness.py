"""The rules of probing, suspicion, gossip and coming back, held against one life of one node.

A witness sees what the node heard and what it sent, and keeps its own books: which probe is open and what came of it,
who has reported whom, which timers should run and until when, who was gossiped to, how far a failed node has come
back. It reads the machine's view, and none of its reasons.
"""

from collections.abc import Callable
from math import ceil, log
from typing import Final, NoReturn

from msgspec import Struct

from bobbin.cluster.membership.effects import Effect, Flapping, Healed, HealthChanged, Send
from bobbin.cluster.membership.events import Event, Heard, IncarnationPersisted, Tick
from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.cluster.membership.messages import (
    Alive,
    BidirectionalAck,
    BidirectionalProbe,
    GossipNodeState,
    Health,
    Ping,
    PingAck,
    PingReq,
    Pong,
    Suspect,
    Sync,
    speaker,
)
from bobbin.cluster.names import MILLISECOND_NS, NodeId

LEAST: Final = 0.5
"""Part of the suspicion time that is left however many confirm."""


class SeenProbe(Struct, kw_only=True):
    """A probe of the node, by what it sent and heard."""

    target: NodeId
    sequence: int
    at_ns: int
    asked: set[NodeId]
    asked_ns: int = 0
    failed: set[NodeId]
    is_answered: bool = False
    others_least: int
    """How many could have been asked, at the worst moment."""


class Timer(Struct, kw_only=True):
    """A suspicion of the node, by who reported it."""

    incarnation: int
    at_ns: int
    score_least: int
    score_most: int
    reporters: set[NodeId]


class Return(Struct, kw_only=True):
    """How far a failed node has come back."""

    since_ns: int
    is_back: bool = False
    """It is not held as failed any more."""
    open_id: int | None = None
    due_ns: int = 0
    successes: int = 0


class Witness:
    """Keeps the books of one life."""

    def __init__(self, machine: MembershipMachine, fail: Callable[[str], NoReturn]) -> None:
        self._machine: Final = machine
        self._node: Final = machine.node
        self._config: Final = machine.config
        self._fail: Final = fail
        self._peers: Final = len(machine.embeddings)
        self._view: dict[NodeId, GossipNodeState] = dict(machine.table.states)
        self._version = machine.table.version
        self._score = 0
        self._now = 0
        self._probe: SeenProbe | None = None
        self._ended: SeenProbe | None = None
        """The one before."""
        self._open: int | None = None
        """The number of the probe that was open after the last step."""
        self._probes = 0
        self._probed: dict[NodeId, int] = {}
        self._rounds = 0
        self._gossiped: dict[NodeId, int] = {}
        self._timers: dict[NodeId, Timer] = {}
        self._returns: dict[NodeId, Return] = {}
        self._flaps: dict[NodeId, tuple[int, int, int]] = {}
        """Transitions, when the last was, until when the node is held back."""
        self._relays: dict[tuple[NodeId, int], tuple[NodeId, NodeId, int]] = {}
        """By target and the number of the ping: origin, target, the origin's number."""

    def is_of(self, machine: MembershipMachine) -> bool:
        """Whether these are the books of that life."""
        return machine is self._machine

    def look(self, event: Event, effects: list[Effect], now_ns: int) -> None:
        """A step was made."""
        self._now = now_ns
        sends = [effect for effect in effects if isinstance(effect, Send)]
        if isinstance(event, Heard):
            self._hear(event, sends)
        elif isinstance(event, Tick):
            self._watch_rounds(sends)
        self._watch_notices(sends)
        if self._version != self._machine.table.version:
            self._version = self._machine.table.version
            self._watch_writes(event, effects)
        # In one step a probe may fail, and the next one begin.
        self._watch_probes(sends)
        if isinstance(event, Heard) and isinstance(event.message, Suspect):
            self._note_report(event.sender, event.message)
        self._watch_timers()
        self._watch_acks(event, sends)
        self._watch_returns(event, effects)
        self._score = self._machine.local_health.score
        self._watch_end()

    # ---- what came in -----------------------------------------------------------------------------------------------

    def _hear(self, event: Heard, sends: list[Send]) -> None:
        sender, message = event.sender, event.message
        if sender not in self._machine.embeddings:
            return
        self._timers.pop(sender, None)
        if speaker(message) not in (sender, None):
            if sends:
                self._fail(f"{self._node} answers {message}, which {sender} says in another's name")
            return
        probe = self._probe if self._probe and self._probe.sequence == self._open else None
        match message:
            case Pong(sequence=sequence) if probe and (sender, sequence) == (probe.target, probe.sequence):
                self._answer(probe)
            case PingAck(origin=origin, target=target, sequence=sequence, success=success) if (
                probe and origin == self._node and sender in probe.asked
            ):
                if (target, sequence) == (probe.target, probe.sequence):
                    if success:
                        self._answer(probe)
                    else:
                        probe.failed.add(sender)
            case PingReq(origin=origin, target=target, sequence=sequence) if target in self._machine.embeddings:
                pings = [one for one in sends if one.to == target and isinstance(one.message, Ping)]
                if origin != target and len(pings) != 1:
                    self._fail(f"{self._node} was asked to probe {target}, and sends {sends}")
                for one in pings:
                    assert isinstance(one.message, Ping)
                    self._relays[target, one.message.sequence] = (origin, target, sequence)
            case Ping(sequence=sequence):
                if [one.message for one in sends] != [Pong(responder=self._node, sequence=sequence)]:
                    self._fail(f"{self._node} answers a ping with {sends}")
            case _:
                pass

    def _answer(self, probe: SeenProbe) -> None:
        probe.is_answered = True
        self._timers.pop(probe.target, None)

    # ---- gossip -----------------------------------------------------------------------------------------------------

    def _watch_rounds(self, sends: list[Send]) -> None:
        syncs = [one for one in sends if isinstance(one.message, Sync)]
        if not syncs:
            return
        self._rounds += 1
        if len({one.to for one in syncs}) != min(self._config.fanout, self._peers) or len(syncs) > self._config.fanout:
            self._fail(f"{self._node} gossips to {[one.to for one in syncs]}")
        self._watch_sync(syncs[0])
        for one in syncs:
            self._gossiped[one.to] = self._rounds
        varied = max(1, self._config.fanout - 1)
        longest = ceil(2 * self._peers / varied) + 1
        for node in self._machine.embeddings:
            if self._rounds - self._gossiped.get(node, 0) > longest:
                self._fail(f"{self._node} has not gossiped to {node} for {longest} rounds")

    def _watch_sync(self, sent: Send) -> None:
        sync = sent.message
        assert isinstance(sync, Sync)
        states = self._machine.table.states
        stamps = [state.timestamp for state in sync.states]
        if len(stamps) != min(self._config.max_states_per_message, len(states)):
            self._fail(f"{self._node} tells {len(stamps)} states of {len(states)}")
        if stamps != sorted(stamps, reverse=True):
            self._fail(f"{self._node} tells states in the order of {stamps}")
        if sync.sender_time < max(stamps, default=0):
            self._fail(f"M2: {self._node} is at {sync.sender_time}, and tells {stamps}")

    # ---- probes -----------------------------------------------------------------------------------------------------

    def _watch_notices(self, sends: list[Send]) -> None:
        """Who is suspected is told by whoever contacts it."""
        told: set[NodeId] = set()
        for one in sends:
            held = self._view[one.to]
            if isinstance(one.message, Suspect):
                told.add(one.to)
            elif isinstance(one.message, Ping | Sync) and held.health >= Health.DEGRADED and one.to not in told:
                self._fail(f"{self._node} holds {held}, contacts it, and does not say so")

    def _watch_probes(self, sends: list[Send]) -> None:
        for one in sends:
            match one.message:
                case Suspect(suspect=suspect, incarnation=incarnation):
                    if self._machine.table.states[suspect].incarnation != incarnation:
                        self._fail(f"{self._node} suspects {suspect} at {incarnation}, which it does not hold")
                case PingReq(target=target, sequence=sequence):
                    self._watch_request(one.to, target, sequence)
                case Ping(sequence=sequence) if (one.to, sequence) not in self._relays:
                    self._begin(one.to, sequence)
                case _:
                    pass

    def _begin(self, target: NodeId, sequence: int) -> None:
        if self._probe is not None and self._now - self._probe.at_ns < self._config.probe_interval_ms * MILLISECOND_NS:
            self._fail(f"{self._node} probes again after {self._now - self._probe.at_ns} ns")
        self._ended = self._probe
        self._probe = SeenProbe(
            target=target, sequence=sequence, at_ns=self._now, asked=set(), failed=set(), others_least=self._peers
        )
        self._count_others()
        self._probes += 1
        self._probed[target] = self._probes
        for node in self._machine.embeddings:
            if self._probes - self._probed.get(node, 0) > 2 * (self._peers - 1) + 1:
                self._fail(f"{self._node} has not probed {node} in {2 * (self._peers - 1) + 1} probes")
        if self._probes == self._peers and len(self._probed) < self._peers:
            self._fail(f"{self._node} has made {self._probes} probes of {sorted(self._probed)} alone")

    def _watch_end(self) -> None:
        """A probe ends with an answer, or with a word against its target."""
        is_open = None if self._machine.probe is None else self._machine.probe.sequence
        if self._open is not None and is_open != self._open:
            probe = self._ended if self._ended and self._ended.sequence == self._open else self._probe
            if probe and not probe.is_answered and self._view[probe.target].health < Health.DEGRADED:
                self._fail(f"{self._node} has no answer from {probe.target}, and does not mind")
        self._open = is_open

    def _count_others(self) -> None:
        if self._probe is not None:
            apart = (self._node, self._probe.target)
            others = sum(one.health is not Health.FAILED for node, one in self._view.items() if node not in apart)
            self._probe.others_least = min(self._probe.others_least, others)

    def _watch_request(self, to: NodeId, target: NodeId, sequence: int) -> None:
        probe = self._probe
        if probe is None or (target, sequence) != (probe.target, probe.sequence) or to == target:
            self._fail(f"{self._node} asks {to} for {target}, which it does not probe")
        if self._now - probe.at_ns < self._config.probe_timeout_ms * MILLISECOND_NS:
            self._fail(f"{self._node} asks others before the time for the answer of {target} is over")
        probe.asked.add(to)
        probe.asked_ns = self._now

    def _watch_acks(self, event: Event, sends: list[Send]) -> None:
        """What is reported of a probe made for another is what came of it."""
        for one in sends:
            if not isinstance(one.message, PingAck):
                continue
            message = one.message
            asked = (message.origin, message.target, message.sequence)
            if asked not in self._relays.values() or one.to != message.origin:
                self._fail(f"{self._node} reports {message}, which nobody asked for")
            if message.success:
                answer = event.message if isinstance(event, Heard) else None
                if not isinstance(answer, Pong) or self._relays.get((message.target, answer.sequence)) != asked:
                    self._fail(f"{self._node} reports {message} without having heard {message.target}")

    # ---- what is written --------------------------------------------------------------------------------------------

    def _watch_writes(self, event: Event, effects: list[Effect]) -> None:
        for node, state in self._machine.table.states.items():
            before = self._view.get(node)
            if before is state:
                continue
            self._view[node] = state
            if node == self._node:
                if not isinstance(event, Tick | IncarnationPersisted):
                    self._fail(f"{node} writes {state} about itself on {event}")
                continue
            if before is not None and (state.health is not Health.DEGRADED or before.incarnation != state.incarnation):
                timer = self._timers.pop(node, None)
                if state.health is Health.FAILED and state.writer == self._node and isinstance(event, Tick):
                    self._watch_failure(state, timer)
                    continue
            if not (isinstance(event, Heard) and isinstance(event.message, Sync)):
                self._watch_own_word(event, effects, before, state)
            if state.health is Health.DEGRADED:
                self._start_timer(node, state.incarnation)
        self._count_others()

    def _watch_own_word(
        self, event: Event, effects: list[Effect], before: GossipNodeState | None, state: GossipNodeState
    ) -> None:
        """A word that the node writes by itself is one that it may write now."""
        if state.writer != self._node:
            self._fail(f"{self._node} writes {state} in another's name")
        message = event.message if isinstance(event, Heard) else None
        if state.health is Health.HEALTHY:
            if message != Alive(node_id=state.node, incarnation=state.incarnation):
                self._fail(f"{self._node} writes {state}, which {state.node} has not said")
        elif state.health is Health.DEGRADED:
            if isinstance(message, Suspect):
                if before is None or (message.suspect, message.incarnation) != (state.node, before.incarnation):
                    self._fail(f"{self._node} takes {message}, and holds {before}")
            else:
                self._watch_suspicion(effects, state)
        else:
            self._fail(f"{self._node} writes {state} on {event}")

    def _watch_suspicion(self, effects: list[Effect], state: GossipNodeState) -> None:
        probe = self._probe
        if probe is None or probe.target != state.node or probe.is_answered:
            self._fail(f"{self._node} suspects {state.node}, and no probe of it has failed")
        if len(probe.asked) < min(self._config.indirect_ping_count, probe.others_least):
            self._fail(f"{self._node} suspects {state.node} after asking {probe.asked} alone")
        is_unanimous = bool(probe.asked) and probe.failed == probe.asked
        wait_ns = self._config.indirect_ping_timeout_ms * MILLISECOND_NS
        direct_ns = self._config.probe_timeout_ms * MILLISECOND_NS
        if not is_unanimous and self._now - max(probe.asked_ns, probe.at_ns + direct_ns) < wait_ns:
            self._fail(f"{self._node} suspects {state.node} after {probe.failed} of {probe.asked} have answered")
        told = {one.to for one in effects if isinstance(one, Send) and isinstance(one.message, Suspect)}
        if told != set(self._machine.embeddings):
            self._fail(f"{self._node} suspects {state.node}, and tells {told} alone")

    def _watch_failure(self, state: GossipNodeState, timer: Timer | None) -> None:
        if timer is None or timer.incarnation != state.incarnation:
            self._fail(f"{self._node} fails {state.node} at {state.incarnation}, and the timer that runs is {timer}")
        if self._now - timer.at_ns < self._time_ns(timer, timer.score_least):
            self._fail(f"{self._node} fails {state.node} after {self._now - timer.at_ns} ns, {timer}")

    # ---- timers -----------------------------------------------------------------------------------------------------

    def _time_ns(self, timer: Timer, score: int) -> int:
        confirmations = min(max(0, len(timer.reporters) - 1), self._config.indirect_ping_count)
        part = 1.0 - (1.0 - LEAST) * log(confirmations + 1) / log(self._config.indirect_ping_count + 1)
        return int(self._config.suspicion_timeout_ms * MILLISECOND_NS * (1 + score) * part)

    def _start_timer(self, node: NodeId, incarnation: int) -> Timer:
        if node not in self._timers:
            scores = (self._score, self._machine.local_health.score)
            self._timers[node] = Timer(
                incarnation=incarnation,
                at_ns=self._now,
                score_least=min(scores),
                score_most=max(scores),
                reporters=set(),
            )
        return self._timers[node]

    def _note_report(self, sender: NodeId, message: Suspect) -> None:
        held = self._view.get(message.suspect)
        if message.reporter != sender or held is None or message.suspect == self._node:
            return
        if held.health is Health.DEGRADED and held.incarnation == message.incarnation:
            self._start_timer(message.suspect, message.incarnation).reporters.add(sender)

    def _watch_timers(self) -> None:
        """The timers that run are those that should, and are due when they should be."""
        running = self._machine.suspicions
        for node in running.keys() - self._timers.keys():
            # A probe of a node that is suspected already has failed: it runs again.
            held = self._view[node]
            failed = [one for one in (self._probe, self._ended) if one and one.target == node and not one.is_answered]
            if not failed or held.health is not Health.DEGRADED:
                self._fail(f"{self._node} suspects {node} without a reason")
            self._start_timer(node, held.incarnation)
        for node in self._timers.keys() - running.keys():
            self._fail(f"{self._node} holds {self._view[node]}, and no timer runs")
        for node, suspicion in running.items():
            timer = self._timers[node]
            if self._node in suspicion.reporters:
                timer.reporters.add(self._node)
            # Time in which the node stood still is left out, so that the machine's own beginning may be later.
            if suspicion.began_ns < timer.at_ns or suspicion.due_ns < timer.at_ns + self._time_ns(
                timer, timer.score_least
            ):
                self._fail(f"{self._node} gives {node} until {suspicion.due_ns}, too short for {timer}")
            if suspicion.due_ns > suspicion.began_ns + self._time_ns(timer, timer.score_most):
                self._fail(f"{self._node} gives {node} until {suspicion.due_ns}, too long for {timer}")

    # ---- coming back ------------------------------------------------------------------------------------------------

    def _watch_returns(self, event: Event, effects: list[Effect]) -> None:
        if isinstance(event, Heard) and isinstance(event.message, BidirectionalAck):
            self._note_return(event.sender, event.message)
        for effect in effects:
            match effect:
                case HealthChanged(node, before, after):
                    if Health.FAILED in (before, after):
                        self._note_transition(node, after)
                case Send(to, BidirectionalProbe(id=number)):
                    progress = self._returns.get(to)
                    if progress is None or not progress.is_back:
                        self._fail(f"{self._node} asks {to}, which has not come back")
                    if progress.open_id is not None:
                        progress.successes = 0
                    progress.open_id = number
                    progress.due_ns = self._now + self._config.bidirectional_timeout_ms * MILLISECOND_NS
                case Healed(node, away_ms):
                    self._watch_healed(node, away_ms)
                case Flapping(node, transitions, held_ms):
                    count, _, until = self._flaps[node]
                    if transitions != count or self._now + held_ms * MILLISECOND_NS != until:
                        self._fail(f"{self._node} tells of {effect}, at transition {count}")
                case _:
                    pass
        for node, progress in self._returns.items():
            if progress.is_back and self._machine.is_counted_on(node):
                self._fail(f"{self._node} counts on {node}, which has not proven that it is back")

    def _note_return(self, sender: NodeId, ack: BidirectionalAck) -> None:
        progress = self._returns.get(sender)
        if progress is None or ack.responder != sender or (ack.origin, ack.id) != (self._node, progress.open_id):
            return
        if self._now <= progress.due_ns or self._machine.stats["slept"]:
            progress.successes += 1
            progress.open_id = None

    def _note_transition(self, node: NodeId, after: Health) -> None:
        if after is Health.FAILED:
            progress = self._returns.setdefault(node, Return(since_ns=self._now))
            progress.is_back = False
        else:
            progress = self._returns[node]
            progress.is_back = True
        progress.successes, progress.open_id = 0, None
        count, last, _ = self._flaps.get(node, (0, 0, 0))
        if self._now - last >= self._config.flap_memory_ms * MILLISECOND_NS:
            count = 0
        count += 1
        held = 0
        if count >= self._config.flap_threshold:
            power = 2.0 ** min(count - self._config.flap_threshold, 64)
            held = int(min(self._config.flap_backoff_ms * power, self._config.flap_backoff_max_ms))
        self._flaps[node] = (count, self._now, self._now + held * MILLISECOND_NS)

    def _watch_healed(self, node: NodeId, away_ms: int) -> None:
        progress = self._returns.pop(node, None)
        if progress is None or not progress.is_back:
            self._fail(f"{self._node} tells that {node} is back, which was not away")
        if self._config.require_bidirectional and progress.successes < self._config.heal_confirmations:
            self._fail(f"{self._node} counts on {node} after {progress.successes} answers")
        if self._now < self._flaps[node][2]:
            self._fail(f"{self._node} counts on {node}, which is held back")
        if away_ms != (self._now - progress.since_ns) // MILLISECOND_NS:
            self._fail(f"{self._node} says that {node} was away for {away_ms} ms")
