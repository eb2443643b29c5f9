"""Membership machines with one fault each: what the simulated worlds must find.

A fault is planted by replacing one function for as long as a context lasts. Each is one that a row of the conformance
list names (the number stands beside it), or that the source had (L23 to L25, L28).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import islice
from random import Random
from typing import Final
from unittest.mock import patch

from bobbin.cluster.membership import admission, flapping, machine, suspicion, table
from bobbin.cluster.membership.admission import Hearing
from bobbin.cluster.membership.dissemination import Dissemination
from bobbin.cluster.membership.effects import Effect, Healed, Send
from bobbin.cluster.membership.events import IncarnationPersisted
from bobbin.cluster.membership.flapping import Flaps
from bobbin.cluster.membership.healing import HealProgress
from bobbin.cluster.membership.local_health import LocalHealth
from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.cluster.membership.messages import (
    Alive,
    GossipMessage,
    GossipNodeState,
    Health,
    Ping,
    PingAck,
)
from bobbin.cluster.membership.probing import Probe, Relay, Relays
from bobbin.cluster.membership.standing import Standing
from bobbin.cluster.membership.suspicion import Suspicion
from bobbin.cluster.membership.table import MemberTable, rank
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.settings import GossipConfig
from bobbin.simulator.membership_member import Disk, Member
from bobbin.simulator.membership_world import MembershipWorld

SEEDS_MAX: Final = 400
"""Within so many worlds each of the faults is found."""

_advance_probe = MembershipMachine._advance_probe
_answer_word = MembershipMachine._answer_word
_arrive = MembershipMachine._arrive
_become = MembershipMachine._become
_begin = MembershipMachine._begin
_begin_probe = MembershipMachine._begin_probe
_hear = MembershipMachine._hear
_init = MembershipMachine.__init__
_take_states = MembershipMachine._take_states
_take_suspect = MembershipMachine._take_suspect
_tell_suspect = MembershipMachine._tell_suspect
_write = MembershipMachine._write
_merge = MemberTable.merge
_next_states = Dissemination.next
_why_refused = admission.why_refused


def _nothing(*subjects: object) -> None:
    del subjects


# ---- the table -----------------------------------------------------------------------------------------------------


def _timestamp_first(one: GossipNodeState, other: GossipNodeState) -> bool:
    return (one.incarnation, one.timestamp, one.health) > (other.incarnation, other.timestamp, other.health)


def _keep_on_ties(one: GossipNodeState, other: GossipNodeState) -> bool:
    return (one.incarnation, one.timestamp) > (other.incarnation, other.timestamp)


def _without_writer(one: GossipNodeState, other: GossipNodeState) -> bool:
    return rank(one)[:3] > rank(other)[:3]


def _by_arrival(one: GossipNodeState, other: GossipNodeState) -> bool:
    return rank(one)[:3] >= rank(other)[:3] and one != other


def _overwrite(one: GossipNodeState, other: GossipNodeState) -> bool:
    return one != other


def _tell_all_as_changed(self: MemberTable, incoming: list[GossipNodeState]) -> list[NodeId]:
    _merge(self, incoming)
    return [state.node for state in incoming]


def _forget_plus_one(self: MemberTable, latest: int) -> None:
    self.time = max(self.time, latest)


def _set_without_max(self: MemberTable, latest: int) -> None:
    self.time = latest + 1


def _reset_from_empty(
    self: MembershipMachine, sender: NodeId, states: tuple[GossipNodeState, ...], sender_time: int
) -> None:
    if not states:
        self.table.time = sender_time
    _take_states(self, sender, states, sender_time)
    self.table.time = max(self.table.time, sender_time)


def _stamp_with_wall_time(self: MemberTable) -> int:
    """Each node by its own, which differ by hours."""
    owner = next(iter(self.states))
    return 3_600_000 * (1 + Random(owner).randrange(7)) + self.version


# ---- words ---------------------------------------------------------------------------------------------------------


def _write_healthy_for_sender(
    self: MembershipMachine, sender: NodeId, states: tuple[GossipNodeState, ...], sender_time: int
) -> None:
    _take_states(self, sender, states, sender_time)
    held = self.table.states[sender]
    if held.health <= Health.HEALTHY:
        self._write(sender, Health.HEALTHY, held.incarnation)


def _believe_every_leap(
    state: GossipNodeState, held: GossipNodeState | None, hearing: Hearing, incarnation_jump_max: int
) -> str | None:
    del incarnation_jump_max
    return _why_refused(state, held, hearing, 2**60)


def _drop_at_the_bound(
    state: GossipNodeState, held: GossipNodeState | None, hearing: Hearing, incarnation_jump_max: int
) -> str | None:
    return _why_refused(state, held, hearing, incarnation_jump_max - 1)


def _doubt_words_about_oneself(
    state: GossipNodeState, held: GossipNodeState | None, hearing: Hearing, incarnation_jump_max: int
) -> str | None:
    if held is not None and state.node == hearing.node and state.incarnation > held.incarnation + incarnation_jump_max:
        return "leap"
    return _why_refused(state, held, hearing, incarnation_jump_max)


def _take_any_suspect(self: MembershipMachine, sender: NodeId, suspect: NodeId, incarnation: int) -> None:
    held = self.table.states.get(suspect)
    if held is not None and suspect != self.node and incarnation <= held.incarnation:
        incarnation = held.incarnation
    _take_suspect(self, sender, suspect, incarnation)


def _take_equal_alive(self: MembershipMachine, sender: NodeId, incarnation: int) -> None:
    held = self.table.states[sender]
    if incarnation >= held.incarnation:
        self.table.states[sender] = GossipNodeState(sender, Health.HEALTHY, self.table.tick(), incarnation, self.node)
        self.table.version += 1
        self._arrive(sender)


def _believe_a_name(self: MembershipMachine, sender: NodeId, message: GossipMessage) -> None:
    claimed = message.node_id if isinstance(message, Alive) else sender
    if claimed in self.embeddings:
        self._take(claimed, message)


# ---- this node itself ----------------------------------------------------------------------------------------------


def _start_at_zero(self: MembershipMachine, config: GossipConfig, **others: object) -> None:
    _init(self, config, **{**others, "incarnation": 0})  # type: ignore[arg-type]


def _keep_in_memory(self: Disk, incarnation: int) -> object:
    del self
    return IncarnationPersisted(incarnation)


def _say_before_durable(self: MembershipMachine, health: Health, incarnation: int) -> None:
    before = self.incarnation
    _answer_word(self, health, incarnation)
    if self.incarnation > before:
        self._become(self.incarnation)


def _begin_before_durable(self: MembershipMachine) -> None:
    _begin(self)
    self._become(self.incarnation)


def _answer_suspects_only(
    self: MembershipMachine, sender: NodeId, states: tuple[GossipNodeState, ...], sender_time: int
) -> None:
    with patch.object(self, "_answer_word", _nothing):
        _take_states(self, sender, states, sender_time)


def _answer_syncs_only(self: MembershipMachine, sender: NodeId, suspect: NodeId, incarnation: int) -> None:
    if suspect != self.node:
        _take_suspect(self, sender, suspect, incarnation)


def _take_words_about_oneself(
    self: MembershipMachine, sender: NodeId, states: tuple[GossipNodeState, ...], sender_time: int
) -> None:
    _take_states(self, sender, states, sender_time)
    for state in states:
        if state.node == self.node and rank(state) > rank(self.table.states[self.node]):
            self.table.states[self.node] = state
            self.table.version += 1


def _leave_own_entry(self: MembershipMachine, incarnation: int) -> None:
    if self.spoken < incarnation <= self.incarnation:
        self.spoken = incarnation
        self._broadcast(Alive(node_id=self.node, incarnation=incarnation))


def _say_the_old_incarnation(self: MembershipMachine, incarnation: int) -> None:
    _become(self, incarnation)
    self._sends = [
        Send(one.to, Alive(node_id=self.node, incarnation=incarnation - 1))
        if isinstance(one, Send) and isinstance(one.message, Alive)
        else one
        for one in self._sends
    ]


def _fail_one_higher(self: MembershipMachine, node: NodeId, health: Health, incarnation: int) -> None:
    _write(self, node, health, incarnation + (health is Health.FAILED))


# ---- gossip --------------------------------------------------------------------------------------------------------


def _tell_oldest(self: Dissemination) -> tuple[GossipNodeState, ...]:
    states = sorted(self._table.states.values(), key=lambda state: state.timestamp)
    return tuple(states[: self._states_max])


def _tell_newest_only(self: Dissemination) -> tuple[GossipNodeState, ...]:
    states = sorted(self._table.states.values(), key=lambda state: -state.timestamp)
    return tuple(states[: self._states_max])


def _tell_all(self: Dissemination) -> tuple[GossipNodeState, ...]:
    return tuple(sorted(self._table.states.values(), key=lambda state: -state.timestamp))


def _tell_changes_only(self: Dissemination) -> tuple[GossipNodeState, ...]:
    """What was told three times is not told again."""
    counts: dict[GossipNodeState, int] = self.__dict__.setdefault("counts", {})
    states = [state for state in _next_states(self) if counts.get(state, 0) < 3]
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return tuple(states)


def _all_by_similarity(self: MembershipMachine) -> list[NodeId]:
    return (self._nearest or list(self.embeddings))[: self.config.fanout]


def _ignore_fanout(self: MembershipMachine) -> list[NodeId]:
    return [*islice(self.embeddings, self.config.fanout + 1)]


def _draw_who_is_probed(self: MembershipMachine) -> None:
    with patch.object(self._probe_order, "next", lambda: self._random.choice(list(self.embeddings))):
        _begin_probe(self)


def _probe_the_similar(self: MembershipMachine) -> None:
    """Everybody but the one that is least similar takes turns."""
    near = self._nearest[:-1] or self._nearest
    with patch.object(self._probe_order, "next", lambda: near[self._sequence % len(near)]):
        _begin_probe(self)


def _gossip_at_random(self: MembershipMachine) -> list[NodeId]:
    """Also to one peer in two messages of a round."""
    return self._random.choices(list(self.embeddings), k=self.config.fanout)


# ---- probes --------------------------------------------------------------------------------------------------------


def _suspect_at_once(self: MembershipMachine, probe: Probe) -> None:
    self._fail_probe(probe)


def _ask_one(self: MembershipMachine, probe: Probe) -> None:
    _advance_probe(self, probe)
    if probe.asked and len(probe.asked) > 1:
        self._sends = self._sends[: -(len(probe.asked) - 1)]
        probe.asked = probe.asked[:1]


def _match_acks_by_target(self: Probe, node: NodeId, target: NodeId, sequence: int) -> bool:
    del node, sequence
    return target == self.target and self.asked is not None


def _need_all_acks(self: MembershipMachine, sender: NodeId, ack: PingAck) -> None:
    probe = self.probe
    if probe is not None and probe.is_asked(sender, ack.target, ack.sequence):
        probe.failed.add(sender)
        if probe.has_failed:
            self._fail_probe(probe)


def _fail_at_the_first(self: Probe) -> bool:
    return bool(self.failed)


def _succeed_when_sent(self: MembershipMachine, sender: NodeId, target: NodeId, sequence: int) -> None:
    if target in self.embeddings:
        self._sends.append(Send(target, Ping(origin=self.node, sequence=self._number())))
        self._answer_relay(Relay(sender, target, sequence, 0), success=True)


def _answer_without_ping(self: MembershipMachine, sender: NodeId, target: NodeId, sequence: int) -> None:
    self._answer_relay(Relay(sender, target, sequence, 0), success=True)


def _take_any_pong(self: Relays, number: int, by: NodeId) -> Relay | None:
    del by
    return self._open.pop(number) if number in self._open else next(iter(self._open.values()), None)


def _take_any_pong_for_mine(self: MembershipMachine, sender: NodeId, sequence: int) -> None:
    del sequence
    if self.probe is not None and self.probe.target == sender:
        self._succeed(self.probe)


# ---- suspicion -----------------------------------------------------------------------------------------------------


def _fixed_time(self: Suspicion, reporter: NodeId) -> bool:
    if reporter in self.reporters:
        return False
    self.reporters.add(reporter)
    return True


def _count_twice(self: Suspicion, reporter: NodeId) -> bool:
    seen: set[NodeId] = {*self.reporters, NodeId(f"{reporter} {len(self.reporters)}")}
    self.reporters = seen
    self.due_ns = self.began_ns + int(self.full_ns * suspicion.share(self.confirmations, self.enough))
    return True


def _no_stretch(self: LocalHealth, duration_ns: int) -> int:
    del self
    return duration_ns


def _keep_timer(self: MembershipMachine, node: NodeId) -> None:
    kept = self.suspicions.get(node)
    _arrive(self, node)
    if kept is not None and self.table.states[node].health is Health.HEALTHY:
        self.suspicions[node] = kept


def _keep_timer_of_the_heard(self: MembershipMachine, sender: NodeId, message: GossipMessage) -> None:
    kept = self.suspicions.get(sender)
    _hear(self, sender, message)
    if kept is not None and sender in self._noted and self.health(sender) is Health.DEGRADED:
        self.suspicions.setdefault(sender, kept)


def _leave_degraded(self: MembershipMachine, node: NodeId, health: Health, incarnation: int) -> None:
    if health is Health.FAILED:
        self.suspicions.pop(node, None)
    else:
        _write(self, node, health, incarnation)


# ---- coming back ---------------------------------------------------------------------------------------------------


def _confirm_at_once(self: Standing, now_ns: int) -> list[Effect]:
    back = [node for node, progress in self.healing.items() if progress.successes]
    for node in back:
        del self.healing[node]
    return [Healed(node, (now_ns - self._failed_since.pop(node)) // MILLISECOND_NS) for node in back]


def _take_any_id(self: HealProgress, probe_id: int, now_ns: int) -> bool:
    del probe_id, now_ns
    self.probe_id = None
    self.successes += 1
    return True


def _forgive_failures(self: HealProgress) -> None:
    self.probe_id = None


def _one_way_is_enough(self: Standing, node: NodeId) -> None:
    progress = self.healing.get(node)
    if progress is not None:
        progress.succeed()


def _count_on_it_at_once(self: MembershipMachine, node: NodeId) -> bool:
    return self.health(node) is Health.HEALTHY


def _hold_nobody(self: Flaps, now_ns: int) -> bool:
    del self, now_ns
    return False


def _grow_without_bound(config: GossipConfig, transitions: int) -> int:
    beyond = transitions - config.flap_threshold
    return 0 if beyond < 0 else config.flap_backoff_ms << beyond


def _never_forget(self: Flaps, config: GossipConfig, now_ns: int) -> int:
    self.transitions += 1
    held = flapping.hold_ms(config, self.transitions)
    self.held_until_ns = now_ns + held * MILLISECOND_NS
    return held


# ---- around the machine --------------------------------------------------------------------------------------------


def _wall_clock(self: Member) -> int:
    return self.clock.read().tai_ns


def _no_audit_of_suspicion(self: MembershipMachine, node: NodeId) -> None:
    _arrive(self, node)
    self._notices = [one for one in self._notices if getattr(one, "after", None) is not Health.DEGRADED]


_Fault = tuple[object, str, Callable[..., object]]

MUTANTS: Final[Mapping[str, _Fault]] = {
    "CL-099 matches acks by target alone": (Probe, "is_asked", _match_acks_by_target),
    "CL-101 compares the timestamp before the severity": (table, "supersedes", _timestamp_first),
    "CL-101 leaves the writer out of ties": (table, "supersedes", _without_writer),
    "CL-102 writes healthy for whoever sends": (MembershipMachine, "_take_states", _write_healthy_for_sender),
    "CL-102 keeps its timer for a node that it hears": (MembershipMachine, "_hear", _keep_timer_of_the_heard),
    "CL-103 overwrites with what is older": (table, "supersedes", _overwrite),
    "CL-103 tells of all as changed": (MemberTable, "merge", _tell_all_as_changed),
    "CL-104 forgets the step of the clock": (MemberTable, "follow", _forget_plus_one),
    "CL-104 takes the sender's time": (MembershipMachine, "_take_states", _reset_from_empty),
    "CL-105 tells the oldest": (Dissemination, "next", _tell_oldest),
    "CL-105 tells everything": (Dissemination, "next", _tell_all),
    "CL-105 gossips to one more": (MembershipMachine, "_gossip_targets", _ignore_fanout),
    "CL-106 takes all targets by similarity": (MembershipMachine, "_gossip_targets", _all_by_similarity),
    "CL-106 draws targets with replacement": (MembershipMachine, "_gossip_targets", _gossip_at_random),
    "CL-107 draws who is probed": (MembershipMachine, "_begin_probe", _draw_who_is_probed),
    "CL-108 believes every leap": (machine, "why_refused", _believe_every_leap),
    "CL-108 drops at the bound": (machine, "why_refused", _drop_at_the_bound),
    "CL-108 ignores a high word about itself": (machine, "why_refused", _doubt_words_about_oneself),
    "CL-109 suspects after the direct ping": (MembershipMachine, "_advance_probe", _suspect_at_once),
    "CL-109 asks one other alone": (MembershipMachine, "_advance_probe", _ask_one),
    "CL-110 answers without pinging": (MembershipMachine, "_take_request", _answer_without_ping),
    "CL-110 needs all answers": (MembershipMachine, "_take_ack", _need_all_acks),
    "CL-111 suspects at the first failed answer": (Probe, "has_failed", property(_fail_at_the_first)),  # type: ignore[dict-item]
    "CL-112 keeps the timer after the refutation": (MembershipMachine, "_arrive", _keep_timer),
    "CL-112 leaves a node suspected for ever": (MembershipMachine, "_write", _leave_degraded),
    "CL-113 gives a fixed time": (Suspicion, "report", _fixed_time),
    "CL-113 counts a reporter twice": (Suspicion, "report", _count_twice),
    "CL-113 does not mind its own health": (LocalHealth, "stretch", _no_stretch),
    "CL-113 does not tell the suspect": (MembershipMachine, "_tell_suspect", _nothing),
    "CL-114 refutes with the old incarnation": (MembershipMachine, "_become", _say_the_old_incarnation),
    "CL-114 leaves its own entry as it was": (MembershipMachine, "_become", _leave_own_entry),
    "CL-115 takes a suspicion of an older incarnation": (MembershipMachine, "_take_suspect", _take_any_suspect),
    "CL-115 takes an equal alive": (MembershipMachine, "_take_alive", _take_equal_alive),
    "CL-116 confirms after one success": (Standing, "confirm", _confirm_at_once),
    "CL-116 takes an answer of another id": (HealProgress, "answer", _take_any_id),
    "CL-116 takes one way for both": (Standing, "hear", _one_way_is_enough),
    "CL-116 does not count failures": (HealProgress, "fail", _forgive_failures),
    "CL-116 counts on a node at once": (MembershipMachine, "is_counted_on", _count_on_it_at_once),
    "CL-117 holds nobody back": (Flaps, "is_held", _hold_nobody),
    "CL-117 holds back without bound": (flapping, "hold_ms", _grow_without_bound),
    "CL-117 never forgets": (Flaps, "note", _never_forget),
    "CL-122 fails a node one incarnation higher": (MembershipMachine, "_write", _fail_one_higher),
    "CL-123 sets the clock from the last message": (MemberTable, "follow", _set_without_max),
    "CL-124 keeps the incarnation in memory": (Disk, "write", _keep_in_memory),
    "CL-124 speaks before it is durable": (MembershipMachine, "_answer_word", _say_before_durable),
    "CL-124 begins before it is durable": (MembershipMachine, "_begin", _begin_before_durable),
    "CL-125 stops telling what is unchanged": (Dissemination, "next", _tell_changes_only),
    "CL-125 tells the newest alone": (Dissemination, "next", _tell_newest_only),
    "CL-126 probes those that are similar": (MembershipMachine, "_begin_probe", _probe_the_similar),
    "CL-127 breaks a tie by arrival": (table, "supersedes", _by_arrival),
    "CL-128 answers suspicions alone": (MembershipMachine, "_take_states", _answer_suspects_only),
    "CL-128 answers no suspicion": (MembershipMachine, "_take_suspect", _answer_syncs_only),
    "CL-129 L23 keeps its own on a tie": (table, "supersedes", _keep_on_ties),
    "CL-130 L24 takes others' word about itself": (MembershipMachine, "_take_states", _take_words_about_oneself),
    "CL-131 L25 succeeds when the send returns": (MembershipMachine, "_take_request", _succeed_when_sent),
    "CL-131 L25 takes any pong for others": (Relays, "answered", _take_any_pong),
    "CL-131 L25 takes any pong for its own": (MembershipMachine, "_take_pong", _take_any_pong_for_mine),
    "CL-132 L24 starts at 0": (MembershipMachine, "__init__", _start_at_zero),
    "CL-134 stamps with wall time": (MemberTable, "tick", _stamp_with_wall_time),
    "believes a claimed name": (MembershipMachine, "_hear", _believe_a_name),
    "CL-368 does not tell of suspicions": (MembershipMachine, "_arrive", _no_audit_of_suspicion),
    "CL-371 L28 lives by the wall clock": (Member, "now_ns", property(_wall_clock)),  # type: ignore[dict-item]
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """A fault, for as long as the context lasts."""
    owner, attribute, fault = MUTANTS[name]
    with ExitStack() as stack:
        stack.enter_context(patch.object(owner, attribute, fault))
        if (owner, attribute) == (table, "supersedes"):
            # The machine has the name as well.
            stack.enter_context(patch.object(machine, "supersedes", fault))
        yield


def is_found(seed: int) -> bool:
    """Whether a world breaks a promise, or anything else."""
    try:
        MembershipWorld(seed).run()
    except Exception:  # noqa: BLE001 (whatever it is, this seed has found it)
        return True
    return False


def seeds_to_find(name: str, seeds: range = range(SEEDS_MAX)) -> int | None:
    """The first seed whose world finds a fault; None if none of them does."""
    with planted(name):
        return next((seed for seed in seeds if is_found(seed)), None)
