"""Who is there: one node's probes, suspicions and gossip (SWIM, with Lifeguard's care for slow nodes).

``step(event, now_ns=…)`` takes what happened and returns what to do, in the order persist, send, notify, wake. The time
is a forward clock's; wall time plays no part. The machine imports nothing of consensus, and consensus asks it nothing:
gossip informs.

What always holds (``check``, and the simulated worlds):

* An entry of the table is the greatest of all words heard about its node (``table``). Only a node itself says that it
  is healthy at a new incarnation; hearing from it clears one's own timer, and writes nothing in its name.
* Nobody's word about this node is taken. One that it is suspected or failed, at its incarnation or a higher one, is
  answered by a higher incarnation, which is said when it is durable and not before.
* A node that starts again begins one above the incarnation that it had made durable.
* A suspicion begins with a probe that failed directly and by way of others, or with another's word at the incarnation
  known here; it ends with a new incarnation, with a sign of life (of this node's own timer only), or as a failure.

===============  ==================================================  ============================================
held as          event                                               becomes
===============  ==================================================  ============================================
``UNKNOWN``      the node's word (``Alive``, or in a ``Sync``)       ``HEALTHY``
not ``FAILED``   own probe failed; ``Suspect`` at its incarnation    ``DEGRADED``, and a timer runs
``DEGRADED``     the timer is due                                    ``FAILED``, at the same incarnation
any              the node's word at a higher incarnation             ``HEALTHY``; from ``FAILED``, on probation
any              a word in a ``Sync`` that supersedes                what that word says
===============  ==================================================  ============================================

How soon a dead node is failed in every live view is in ``bounds``.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import islice
from random import Random
from typing import Final, TypeAlias, assert_never

from bobbin.cluster.geometry import Embedding, cosine
from bobbin.cluster.membership.admission import LEAP, Hearing, why_refused
from bobbin.cluster.membership.dissemination import Dissemination
from bobbin.cluster.membership.effects import (
    Effect,
    HealthChanged,
    PersistIncarnation,
    Send,
    WakeAt,
)
from bobbin.cluster.membership.events import (
    Event,
    Heard,
    IncarnationPersisted,
    PeersChanged,
    PersistFailed,
    Tick,
)
from bobbin.cluster.membership.local_health import LocalHealth
from bobbin.cluster.membership.messages import (
    Alive,
    BidirectionalAck,
    BidirectionalProbe,
    GossipMessage,
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
from bobbin.cluster.membership.partition import PartitionStatus, partition_status
from bobbin.cluster.membership.probing import Probe, Relay, Relays
from bobbin.cluster.membership.rotation import Rotation
from bobbin.cluster.membership.routing import route
from bobbin.cluster.membership.saving import Saving
from bobbin.cluster.membership.standing import Standing
from bobbin.cluster.membership.suspicion import Suspicion
from bobbin.cluster.membership.table import U64_MAX, MemberTable, is_plausible, next_incarnation, supersedes
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.settings import GossipConfig

SETTLED_MS: Final = 5_000
"""After so long a new node has had the time to hear of everybody."""

Members: TypeAlias = Iterable[tuple[NodeId, Embedding | None]]


class MembershipMachine:
    """One node's view of who is there."""

    def __init__(
        self,
        config: GossipConfig,
        *,
        node: NodeId,
        incarnation: int,
        peers: Members,
        random: Random,
        embedding: Embedding | None = None,
        checking: bool = False,
    ) -> None:
        """``incarnation``: the last one that is durable, 0 for a node that never ran; the machine goes on above it."""
        self.config: Final = config
        self.node: Final = node
        self.incarnation: int = next_incarnation(incarnation)
        """This node's own, as far as it has been raised."""
        self.spoken: int = incarnation
        """The last that is durable, which others may hear."""
        self.table: Final = MemberTable()
        self.local_health: Final = LocalHealth(config.local_health_max)
        self.probe: Probe | None = None
        self.suspicions: Final[dict[NodeId, Suspicion]] = {}
        """Timers that run here. Another node may hold the same suspicion, or none."""
        self.standing: Final = Standing(config)
        self.embeddings: Final[dict[NodeId, Embedding | None]] = {}
        """Of every peer, as far as known; its keys are the peers."""
        self.stats: Final[Counter[str]] = Counter()
        """What was refused or ignored, by reason, and how often which health became which."""
        self._embedding: Final = embedding
        self._random: Final = random
        self._checking: Final = checking
        self._probe_order: Final = Rotation(random)
        self._gossip_order: Final = Rotation(random)
        self._nearest: list[NodeId] = []
        """Peers by similarity, the most similar first."""
        self._relays: Final = Relays()
        self._dissemination: Final = Dissemination(self.table, config.max_states_per_message)
        self._noted: Final[dict[NodeId, GossipNodeState]] = {}
        """The state of each peer that timers, probation and audit have followed: the table's, after every step."""
        # A number of an earlier life is not taken for one of this.
        self._sequence = self._random.getrandbits(32)
        self._must_restamp = False
        self._began_ns = self._now = self._gossip_ns = self._probe_ns = self._wake_ns = -1
        self._retry_ns: int | None = None
        """When to ask again for what could not be made durable."""
        self._saving: Final = Saving(config.gossip_interval_ms * MILLISECOND_NS)
        self._is_rearmed = False
        self._persists: list[Effect] = []
        self._sends: list[Effect] = []
        self._notices: list[Effect] = []
        self.table.states[node] = GossipNodeState(node, Health.HEALTHY, 0, incarnation, node)
        self._take_members(peers)

    # ---- reading ----------------------------------------------------------------------------------------------------

    def health(self, node: NodeId) -> Health:
        """What the table says of a member."""
        return self.table.states[node].health

    def is_counted_on(self, node: NodeId) -> bool:
        """Healthy, not on probation after a failure, and not held back for coming and going."""
        return self.health(node) is Health.HEALTHY and self.standing.is_good(node, self._now)

    @property
    def reachable(self) -> set[NodeId]:
        """Who is there, this node among them. A suspected node is not lost yet; one on probation is not back yet."""
        lost, away = (Health.UNKNOWN, Health.FAILED), self.standing.healing
        return {self.node, *(node for node in self.embeddings if self.health(node) not in lost and node not in away)}

    def partition(self, voters: Collection[NodeId]) -> PartitionStatus:
        """Whether a majority of those who vote is there: a report, by which nothing is decided."""
        is_settled = self._began_ns >= 0 and self._now - self._began_ns >= SETTLED_MS * MILLISECOND_NS
        return partition_status(len(self.reachable.intersection(voters)), len(voters), is_settled=is_settled)

    def route(self, wanted: Embedding) -> NodeId:
        """The member to which a vector belongs; the same on every node with this view."""
        known = {**self.embeddings, self.node: self._embedding}
        healthy = {node: at for node, at in known.items() if self.health(node) is Health.HEALTHY}
        return route(wanted, healthy, otherwise=self.node, by_similarity=self.config.geometric_routing)

    # ---- step -------------------------------------------------------------------------------------------------------

    def step(self, event: Event, *, now_ns: int) -> list[Effect]:
        """Take what happened. A message that breaks a rule changes nothing but ``stats``."""
        self._now = max(self._now, now_ns)
        if self._began_ns < 0:
            self._begin()
        match event:
            case Heard(sender, message):
                self._hear(sender, message)
            case Tick():
                self._tick()
            case IncarnationPersisted(incarnation):
                self._saving.ended()
                self._become(incarnation)
            case PersistFailed():
                self._saving.ended()
                self._retry_ns = self._now + self.config.probe_interval_ms * MILLISECOND_NS
                self._arm(self._retry_ns)
            case PeersChanged(peers):
                self._take_members(peers)
            case _:
                assert_never(event)
        if self._saving.take(self._now):
            self._save()
        effects = [*self._persists, *self._sends, *self._notices]
        if effects:
            self._persists, self._sends, self._notices = [], [], []
        if self._is_rearmed:
            self._is_rearmed = False
            effects.append(WakeAt(self._wake_ns))
        if self._checking:
            self.check()
        return effects

    def check(self) -> None:
        """Assert what always holds."""
        own = self.table.states[self.node]
        assert own.writer == self.node, f"somebody else has written {own}"
        assert own.health is Health.HEALTHY, f"{own} is about this node itself"
        assert own.incarnation == self.spoken <= self.incarnation, f"{own}, but {self.spoken} is what may be said"
        assert self.table.states.keys() == {*self.embeddings, self.node}, "the table is not that of the members"
        assert self._noted == {node: self.table.states[node] for node in self.embeddings}, "a change was not dealt with"
        for state in self.table.states.values():
            assert state.timestamp <= self.table.time, f"{state} is later than the clock, {self.table.time}"
        for node, suspicion in self.suspicions.items():
            held = self.table.states[node]
            assert held.health is Health.DEGRADED, f"a timer runs for {held}"
            assert held.incarnation == suspicion.incarnation, f"a timer runs for another incarnation of {held}"
        for node in self.standing.healing:
            assert self.health(node) is not Health.FAILED, f"{node} heals, and is failed"
        assert self.probe is None or self.probe.target in self.embeddings, "a stranger is probed"

    def _begin(self) -> None:
        """The first step of a life. Rounds of different nodes do not keep step."""
        self._began_ns = self._wake_ns = self._now
        self._gossip_ns = self._now + self._random.randrange(self.config.gossip_interval_ms) * MILLISECOND_NS
        self._probe_ns = self._now + self._random.randrange(self.config.probe_interval_ms) * MILLISECOND_NS
        self._save()
        self._rearm()

    def _take_members(self, peers: Members) -> None:
        members = {node: embedding for node, embedding in peers if node != self.node}
        for node in [one for one in self.embeddings if one not in members]:
            self._leave(node)
        self.embeddings.clear()
        self.embeddings.update(members)
        for node in members:
            self.table.introduce(node)
            self._noted.setdefault(node, self.table.states[node])
        self._probe_order.replace(members)
        self._gossip_order.replace(members)
        own = self._embedding
        near = [] if own is None else [(cosine(own, at), node) for node, at in members.items() if at is not None]
        self._nearest = [node for _, node in sorted(near, key=lambda one: (-one[0], one[1]))]

    def _leave(self, node: NodeId) -> None:
        """A node is no member any more: everything about it goes."""
        self.table.forget(node)
        self.standing.forget(node)
        del self._noted[node]
        self.suspicions.pop(node, None)
        if self.probe is not None and self.probe.target == node:
            self.probe = None

    # ---- time -------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        now = self._now
        slept_ns = now - self._wake_ns
        if slept_ns > self.config.probe_timeout_ms * MILLISECOND_NS:
            self._excuse(slept_ns)
        if now >= self._gossip_ns:
            self._gossip()
            interval_ns = self.config.gossip_interval_ms * MILLISECOND_NS
            # A round that was missed is not made up for.
            is_behind = self._gossip_ns + interval_ns <= now
            self._gossip_ns = interval_ns + (now if is_behind else self._gossip_ns)
        for node in [one for one, suspicion in self.suspicions.items() if suspicion.due_ns <= now]:
            self._write(node, Health.FAILED, self.suspicions[node].incarnation)
        if self.probe is not None and now >= self.probe.due_ns:
            self._advance_probe(self.probe)
        if now >= self._probe_ns and self.probe is None:
            self._begin_probe()
            self._advance_heals()
        for relay in self._relays.expire(now):
            self._answer_relay(relay, success=False)
        if self._retry_ns is not None and now >= self._retry_ns:
            self._save()
        self._rearm()

    def _excuse(self, slept_ns: int) -> None:
        """This node has not been running: what did not come in that time is no sign of anything."""
        self.local_health.worsen()
        self.stats["slept"] += 1
        for suspicion in self.suspicions.values():
            suspicion.postpone(slept_ns)
        if self.probe is not None:
            self.probe.due_ns += slept_ns
        self.standing.postpone(slept_ns)

    def _arm(self, at_ns: int) -> None:
        """Wake by then at the latest. A wake that turns out needless does no harm."""
        if at_ns < self._wake_ns:
            self._wake_ns = at_ns
            self._is_rearmed = True

    def _rearm(self) -> None:
        """Wake for whatever comes first."""
        wake = min(self._gossip_ns, self._probe_ns if self.probe is None else self.probe.due_ns)
        for suspicion in self.suspicions.values():
            wake = min(wake, suspicion.due_ns)
        for other in (self._relays.due_ns, self._retry_ns, self._saving.due_ns):
            if other is not None:
                wake = min(wake, other)
        self._wake_ns = wake
        self._is_rearmed = True

    # ---- gossip -----------------------------------------------------------------------------------------------------

    def _gossip(self) -> None:
        """One round: the same states to a few peers."""
        if self._must_restamp:
            self._must_restamp = False
            self.table.write(self.node, Health.HEALTHY, self.spoken, writer=self.node)
        sync = Sync(sender=self.node, states=self._dissemination.next(), sender_time=self.table.time)
        for target in self._gossip_targets():
            self._tell_suspect(target)
            self._sends.append(Send(target, sync))

    def _gossip_targets(self) -> list[NodeId]:
        """At most one by similarity, and not of one: the others take turns, so that everybody hears everything."""
        near: list[NodeId] = []
        if self.config.geometric_routing and self.config.fanout > 1:
            near = [*islice((node for node in self._nearest if self.health(node) is Health.HEALTHY), 1)]
        return near + self._gossip_order.take(self.config.fanout - len(near), without=near)

    def _tell_suspect(self, node: NodeId) -> None:
        """Whoever contacts a node that is suspected or failed tells it (the buddy system)."""
        held = self.table.states[node]
        if held.health >= Health.DEGRADED:
            self._sends.append(Send(node, Suspect(reporter=self.node, suspect=node, incarnation=held.incarnation)))

    def _broadcast(self, message: GossipMessage) -> None:
        self._sends += [Send(node, message) for node in self.embeddings]

    # ---- probes -----------------------------------------------------------------------------------------------------

    def _number(self) -> int:
        self._sequence += 1
        return self._sequence

    def _begin_probe(self) -> None:
        self._probe_ns = self._now + self.local_health.stretch(self.config.probe_interval_ms * MILLISECOND_NS)
        target = self._probe_order.next()
        if target is None:
            return
        due = self._now + self.local_health.stretch(self.config.probe_timeout_ms * MILLISECOND_NS)
        self.probe = Probe(target=target, sequence=self._number(), began_ns=self._now, due_ns=due, failed=set())
        self._tell_suspect(target)
        self._sends.append(Send(target, Ping(origin=self.node, sequence=self.probe.sequence)))

    def _advance_probe(self, probe: Probe) -> None:
        """A time of the probe has come: for asking others, or for giving up."""
        if probe.asked is not None or self.health(probe.target) is Health.FAILED:
            self._fail_probe(probe)
            return
        others = [node for node in self.embeddings if node != probe.target and self.health(node) is not Health.FAILED]
        probe.asked = tuple(self._random.sample(others, min(self.config.indirect_ping_count, len(others))))
        for node in probe.asked:
            self._sends.append(
                Send(node, PingReq(origin=self.node, target=probe.target, sequence=probe.sequence)),
            )
        probe.due_ns = self._now + self.local_health.stretch(self.config.indirect_ping_timeout_ms * MILLISECOND_NS)

    def _succeed(self, probe: Probe) -> None:
        """The target is there: this node's own timer for it is cleared, and nothing is written."""
        self.probe = None
        self.local_health.improve()
        self.suspicions.pop(probe.target, None)

    def _fail_probe(self, probe: Probe) -> None:
        self.probe = None
        held = self.table.states[probe.target]
        if held.health is Health.FAILED:
            return
        # Who was asked and says nothing at all is out of reach as well, or this node is.
        self.local_health.worsen(len(probe.asked) - len(probe.failed) if probe.asked else 1)
        if held.health is not Health.DEGRADED:
            self._write(probe.target, Health.DEGRADED, held.incarnation)
        if self._suspicion(probe.target, held.incarnation).report(self.node):
            self._broadcast(Suspect(reporter=self.node, suspect=probe.target, incarnation=held.incarnation))

    def _suspicion(self, node: NodeId, incarnation: int) -> Suspicion:
        """The timer of a node that is held as suspected; it begins where none runs."""
        suspicion = self.suspicions.get(node)
        if suspicion is None:
            suspicion = Suspicion.begin(self.config, self.local_health, incarnation, self._now)
            self.suspicions[node] = suspicion
            self._arm(suspicion.due_ns)
        return suspicion

    # ---- coming back ------------------------------------------------------------------------------------------------

    def _advance_heals(self) -> None:
        for node in self.standing.expire(self._now):
            number = self._number()
            self.standing.ask(node, number, self._now)
            time_ms = self._now // MILLISECOND_NS
            self._sends.append(Send(node, BidirectionalProbe(origin=self.node, id=number, time_ms=time_ms)))
        self._notices += self.standing.confirm(self._now)

    # ---- what is written --------------------------------------------------------------------------------------------

    def _write(self, node: NodeId, health: Health, incarnation: int) -> None:
        """A word of this node on another one."""
        self.table.write(node, health, incarnation, writer=self.node)
        self._arrive(node)

    def _arrive(self, node: NodeId) -> None:
        """The state of a peer has changed: timers, probation and the audit follow it."""
        before, after = self._noted[node], self.table.states[node]
        self._noted[node] = after
        if after.health is not Health.DEGRADED or after.incarnation != before.incarnation:
            self.suspicions.pop(node, None)
        if after.health is Health.DEGRADED:
            self._suspicion(node, after.incarnation)
        if before.health is after.health:
            return
        self.stats[f"{before.health.name} to {after.health.name}"] += 1
        self._notices.append(HealthChanged(node, before.health, after.health, after.incarnation))
        flapping = self.standing.change(node, before.health, after.health, self._now)
        if flapping is not None:
            self._notices.append(flapping)

    # ---- this node itself -------------------------------------------------------------------------------------------

    def _become(self, incarnation: int) -> None:
        """An incarnation is durable: from now on it is said."""
        if not self.spoken < incarnation <= self.incarnation:
            return
        self.spoken = incarnation
        self._must_restamp = False
        self.table.write(self.node, Health.HEALTHY, incarnation, writer=self.node)
        self._broadcast(Alive(node_id=self.node, incarnation=incarnation))

    def _answer_word(self, health: Health, incarnation: int) -> None:
        """Somebody says something of this node: what must not stand is superseded by a higher incarnation."""
        is_bad = health >= Health.DEGRADED
        if incarnation < self.incarnation or (incarnation == self.incarnation and not is_bad):
            return
        if not is_plausible(incarnation, self.incarnation) or incarnation >= U64_MAX:
            self.stats["refused: leap of the own incarnation"] += 1
            return
        self.incarnation = next_incarnation(incarnation)
        if is_bad:
            self.local_health.worsen()
        self._saving.want()

    def _save(self) -> None:
        self._retry_ns = None
        self._saving.began()
        self._persists.append(PersistIncarnation(self.incarnation))

    # ---- what others say --------------------------------------------------------------------------------------------

    def _hear(self, sender: NodeId, message: GossipMessage) -> None:
        if sender not in self.embeddings:
            self.stats["refused: stranger"] += 1
            return
        # A sign of life clears this node's own timer, and no more.
        self.suspicions.pop(sender, None)
        if isinstance(message, Sync) and message.sender == sender:
            # The most frequent by far.
            self._take_states(sender, message.states, message.sender_time)
        elif speaker(message) in (sender, None):
            self._take(sender, message)
        else:
            self.stats["refused: in another's name"] += 1

    def _take(self, sender: NodeId, message: GossipMessage) -> None:
        match message:
            case Sync(states=states, sender_time=time):
                self._take_states(sender, states, time)
            case Ping(sequence=sequence):
                self._sends.append(Send(sender, Pong(responder=self.node, sequence=sequence)))
            case Pong(sequence=sequence):
                self._take_pong(sender, sequence)
            case PingReq(target=target, sequence=sequence):
                self._take_request(sender, target, sequence)
            case PingAck():
                self._take_ack(sender, message)
            case Suspect(suspect=suspect, incarnation=incarnation):
                self._take_suspect(sender, suspect, incarnation)
            case Alive(incarnation=incarnation):
                self._take_alive(sender, incarnation)
            case BidirectionalProbe(id=number):
                self._sends.append(
                    Send(sender, BidirectionalAck(origin=sender, id=number, responder=self.node)),
                )
            case BidirectionalAck(origin=origin, id=number):
                self._take_both_ways(sender, origin, number)
            case _:
                assert_never(message)

    def _take_states(self, sender: NodeId, states: tuple[GossipNodeState, ...], sender_time: int) -> None:
        """Merge what is new of it. What is known already only moves the clock on."""
        known = self.table.states
        fresh = [state for state in states if known.get(state.node) != state]
        if not fresh:
            if states:
                self.table.follow(0)
            return
        hearing = Hearing(self.node, self.table.time, sender, sender_time)
        admitted = [state for state in fresh if self._is_admitted(state, hearing)]
        # Words about this node move the clock like any other, but are answered and not taken.
        own = [state for state in admitted if state.node == self.node]
        others = [state for state in admitted if state.node != self.node]
        self.table.time = max(self.table.time, *(state.timestamp for state in own), 0)
        changed = self.table.merge(others)
        if not others and (own or len(fresh) < len(states)):
            self.table.follow(0)
        for state in own:
            self._answer_word(state.health, state.incarnation)
            if state.incarnation == self.spoken == self.incarnation and supersedes(state, known[self.node]):
                self._must_restamp = True
        if any(state.incarnation < self.spoken for state in own):
            # Who is behind hears it from the node itself.
            self._sends.append(Send(sender, Alive(node_id=self.node, incarnation=self.spoken)))
        for node in changed:
            self._arrive(node)

    def _is_admitted(self, state: GossipNodeState, hearing: Hearing) -> bool:
        """Whether a word is taken. One that leaps is not, and its node is asked, by showing it what is held of it."""
        held = self.table.states.get(state.node)
        reason = why_refused(state, held, hearing, self.config.max_incarnation_jump)
        if reason is None:
            return True
        self.stats[f"refused: {reason}"] += 1
        if reason is LEAP and held is not None:
            self._tell_suspect(state.node)
            self._sends.append(Send(state.node, Sync(sender=self.node, states=(held,), sender_time=self.table.time)))
        return False

    def _take_pong(self, sender: NodeId, sequence: int) -> None:
        probe = self.probe
        if probe is not None and probe.target == sender and probe.sequence == sequence:
            self._succeed(probe)
            self.standing.hear(sender)
            return
        relay = self._relays.answered(sequence, sender)
        if relay is not None and self._now <= relay.due_ns:
            self._answer_relay(relay, success=True)
        else:
            self.stats["ignored: pong"] += 1

    def _take_request(self, sender: NodeId, target: NodeId, sequence: int) -> None:
        if target not in self.embeddings or target == sender:
            self.stats["refused: request for a stranger"] += 1
            return
        number = self._number()
        # An answer must be back with the origin before its own time is over.
        due = self._now + self.config.indirect_ping_timeout_ms * MILLISECOND_NS * 3 // 4
        if not self._relays.add(number, Relay(sender, target, sequence, due)):
            self.stats["refused: too many requests"] += 1
            return
        self._arm(due)
        self._tell_suspect(target)
        self._sends.append(Send(target, Ping(origin=self.node, sequence=number)))

    def _answer_relay(self, relay: Relay, *, success: bool) -> None:
        ack = PingAck(origin=relay.origin, target=relay.target, sequence=relay.sequence, success=success)
        self._sends.append(Send(relay.origin, ack))

    def _take_ack(self, sender: NodeId, ack: PingAck) -> None:
        probe = self.probe
        if probe is None or ack.origin != self.node or not probe.is_asked(sender, ack.target, ack.sequence):
            self.stats["ignored: ack"] += 1
        elif ack.success:
            self._succeed(probe)
        else:
            probe.failed.add(sender)
            if probe.has_failed:
                self._fail_probe(probe)
                self._arm(self._probe_ns)

    def _take_suspect(self, sender: NodeId, suspect: NodeId, incarnation: int) -> None:
        if suspect == self.node:
            self._answer_word(Health.DEGRADED, incarnation)
            return
        held = self.table.states.get(suspect)
        if held is None or held.incarnation != incarnation or held.health is Health.FAILED:
            self.stats["ignored: suspect"] += 1
            return
        if held.health is not Health.DEGRADED:
            self._write(suspect, Health.DEGRADED, incarnation)
        suspicion = self._suspicion(suspect, incarnation)
        if suspicion.report(sender):
            self._arm(suspicion.due_ns)

    def _take_alive(self, sender: NodeId, incarnation: int) -> None:
        if incarnation > self.table.states[sender].incarnation:
            self._write(sender, Health.HEALTHY, incarnation)
        else:
            self.stats["ignored: alive"] += 1

    def _take_both_ways(self, sender: NodeId, origin: NodeId, number: int) -> None:
        if origin == self.node and self.standing.answer(sender, number, self._now):
            self._notices += self.standing.confirm(self._now)
        else:
            self.stats["ignored: both ways"] += 1
