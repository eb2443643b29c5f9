"""A world of 2 to 12 members that probe and gossip, while links and nodes fail, and one of them may lie.

One world is one seed. For a while messages are lost, doubled, spoilt, late and out of order, links are cut in one
direction or both, nodes crash and start again with what their disk has, stall, come and go, and set their wall clocks
by hours; disks refuse to write. Then the troubles end, the liar is honest, and some of the dead stay dead. Sometimes
one more node dies in the calm, and comes back. All the time:

* M1, M2, M3, M6 and M7 hold after every step (``membership_checker``), and every life of every node keeps the rules of
  probing, suspicion, gossip and coming back (``membership_witness``);
* M4: once the last probe of the troubles is over, all live views are equal in every field, with every live node healthy
  at its own incarnation, within ``dissemination_ms_max``: four times log2 N rounds for each message of the table;
* M5: a dead node is failed in every live view within ``detection_ms_max``, ``h (2 (N - 1) p + s)`` and the time of M4:
  ``p`` the probe interval, ``s`` the suspicion timeout, ``h`` one plus the worst local health in that time;
* who is back is counted on again, and once all of this is so it stays so.
"""

from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import Final, NoReturn, TypeAlias

from msgspec import Struct

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.membership.bounds import detection_ms_max, dissemination_ms_max
from bobbin.cluster.membership.effects import Effect, Flapping, Healed, HealthChanged, PersistIncarnation, Send
from bobbin.cluster.membership.events import Event, Heard
from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.cluster.membership.messages import GossipMessage, Health
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.settings import GossipConfig
from bobbin.simulator.clock import SECOND_NS, Action, NodeClock, Timeline
from bobbin.simulator.membership_checker import MembershipChecker
from bobbin.simulator.membership_liar import Liar
from bobbin.simulator.membership_member import Member
from bobbin.simulator.membership_network import GossipNetwork, LinkWeather
from bobbin.simulator.membership_witness import Witness
from bobbin.simulator.world import Broken

STEPS_MAX: Final = 100_000
LATE_MAX_NS: Final = 600 * MILLISECOND_NS
HOUR_NS: Final = 3_600 * SECOND_NS
SKEW_NS: Final = HOUR_NS
"""By how much wall clocks differ, and jump."""
_SIZES: Final = (2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 7, 9, 12)
Counts: TypeAlias = Callable[[NodeId], bool]


class Shape(Struct, frozen=True, kw_only=True):
    """What one world is like."""

    members: int
    window_ns: int
    troubles: int
    is_lied_to: bool
    is_quiet: bool
    """Nothing happens to messages: what happens is that nodes die and come back."""
    dies_late: bool
    """One node dies in the calm, and comes back."""


def draw_shape(random: Random) -> Shape:
    """Draw what a world is like."""
    members = random.choice(_SIZES)
    return Shape(
        members=members,
        window_ns=random.choice((1, 2, 3) if members > 5 else (2, 4, 6)) * SECOND_NS,
        troubles=random.choice((2, 6, 12, 20)),
        is_lied_to=members > 2 and random.random() < 0.3,
        is_quiet=random.random() < 0.15,
        dies_late=random.random() < 0.25,
    )


def draw_config(random: Random) -> GossipConfig:
    """Settings in the proportions of the defaults, and quicker: a world is not to last for minutes."""
    probe, indirect = random.choice(((100, 150), (150, 200), (100, 200)))
    return GossipConfig(
        fanout=random.choice((1, 2, 3, 3)),
        gossip_interval_ms=200,
        suspicion_timeout_ms=random.choice((600, 1_000, 1_400)),
        max_states_per_message=random.choice((3, 5, 20)),
        geometric_routing=random.random() < 0.8,
        indirect_ping_count=random.choice((1, 2, 3)),
        indirect_ping_timeout_ms=indirect,
        probe_interval_ms=probe + indirect + random.choice((0, 50)),
        probe_timeout_ms=probe,
        require_bidirectional=random.random() < 0.85,
        bidirectional_timeout_ms=random.choice((100, 400)),
        heal_confirmations=random.choice((2, 3)),
        max_incarnation_jump=random.choice((5, 100)),
        flap_threshold=random.choice((2, 3, 5)),
        flap_backoff_ms=random.choice((100, 700)),
        flap_backoff_max_ms=random.choice((900, 1_800)),
        flap_memory_ms=random.choice((900, 3_000)),
        local_health_max=random.choice((1, 3, 8)),
    )


class MembershipWorld:
    """One seeded world."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self.seed: Final = seed
        self.tally: Final[Counter[str]] = Counter()
        self.trace: Final[list[str]] = []
        self.timeline: Final = Timeline()
        self._is_traced: Final = is_traced
        self._random: Final = Random(f"membership {seed}")  # noqa: S311 (a seed is the point)
        self.shape: Final = draw_shape(self._random)
        self.config: Final = draw_config(self._random)
        self.network: Final = GossipNetwork(self.timeline, self._random, self._deliver)
        self.checker: Final = MembershipChecker(self._fail)
        self._witnesses: Final[dict[NodeId, Witness]] = {}
        self.members: Final = {node: self._member(node) for node in self._names()}
        self._liar = self._draw_liar()
        self._is_troubled = True
        self._steps = 0
        self._score_max = 0
        """The worst local health since this was last set to 0."""

    def run(self) -> Counter[str]:
        """Live through the world; raises ``Broken`` at the first broken promise."""
        try:
            self._trouble()
            self._calm_down()
            if self.shape.dies_late:
                self._die_late()
        except AssertionError as error:
            if isinstance(error, Broken):
                raise
            self._fail(f"an invariant does not hold: {error}")
        self._count()
        return self.tally

    @property
    def digest(self) -> str:
        """The hash of the trace."""
        return sha256("\n".join(self.trace).encode()).hexdigest()

    # ---- who is there -----------------------------------------------------------------------------------------------

    def _names(self) -> list[NodeId]:
        return [NodeId(f"{self._random.getrandbits(32):08x}{number:02x}") for number in range(self.shape.members)]

    def _member(self, node: NodeId) -> Member:
        random = self._random
        clock = NodeClock(
            self.timeline,
            skew_ns=random.randrange(-3, 4) * SKEW_NS,
            drift_ppm=random.choice((0, 0, 50, -50)),
            started_ns=random.randrange(HOUR_NS),
        )
        embedding = Embedding.dense(tuple(random.uniform(-1, 1) for _ in range(3)))
        return Member(
            self,
            node,
            self.config,
            random=Random(random.getrandbits(64)),  # noqa: S311 (a seed is the point)
            clock=clock,
            embedding=embedding,
        )

    def _draw_liar(self) -> Liar | None:
        if not self.shape.is_lied_to:
            return None
        liar, *others = self._random.sample(list(self.members.values()), self.shape.members)
        return Liar(liar, {other.node: other for other in others}, self.checker, self._random)

    def _start(self, member: Member) -> None:
        if member.machine is None:
            self.tell(f"{member.node} starts at {member.disk.incarnation}")
            self.tally["starts"] += 1
            member.start([(other.node, other.embedding) for other in self.members.values()])

    @property
    def live(self) -> dict[NodeId, MembershipMachine]:
        """The machines of the nodes that are up."""
        return {node: one.machine for node, one in self.members.items() if one.machine is not None}

    # ---- what members ask for ---------------------------------------------------------------------------------------

    def send(self, origin: NodeId, to: NodeId, message: GossipMessage) -> None:
        """A member sends something."""
        self.network.send(origin, to, message)

    def _deliver(self, to: NodeId, origin: NodeId, message: GossipMessage, is_spoilt: bool) -> None:  # noqa: FBT001
        if is_spoilt:
            self.tally["spoilt messages refused"] += 1
        else:
            self.members[to].give(Heard(origin, message))

    def look(self, member: Member, event: Event, effects: list[Effect]) -> None:
        """A member has made a step: hold it to every promise."""
        machine = member.machine
        assert machine is not None
        self._steps += 1
        if self._is_traced:
            self._write_trace(member, event, effects)
        if self._steps > STEPS_MAX:
            self._fail(f"after {STEPS_MAX} steps there is no end")
        self._score_max = max(self._score_max, machine.local_health.score)
        is_new = machine.table.version != getattr(self.checker.past.get(member.node), "version", None)
        self.checker.look(member, event, effects)
        witness = self._witnesses.get(member.node)
        if witness is None or not witness.is_of(machine):
            witness = self._witnesses[member.node] = Witness(machine, self._fail)
        witness.look(event, effects, member.now_ns)
        if is_new or not isinstance(event, Heard):
            machine.check()
        for effect in effects:
            self._count_effect(member, effect)

    def _count_effect(self, member: Member, effect: Effect) -> None:
        match effect:
            case Send():
                self.tally[f"sent: {type(effect.message).__name__}"] += 1
            case HealthChanged(node, _, after, incarnation):
                self.tally[f"became {after.name}"] += 1
                self.tell(f"{member.node} holds {node} as {after.name} at {incarnation}")
                if after is Health.FAILED and self.members[node].machine is not None:
                    self.checker.note_failure(node, incarnation)
            case Healed() | Flapping() | PersistIncarnation():
                self.tally[f"told: {type(effect).__name__}"] += 1
            case _:
                pass

    # ---- troubles ---------------------------------------------------------------------------------------------------

    def _trouble(self) -> None:
        random, shape = self._random, self.shape
        for member in self.members.values():
            self.timeline.after(random.randrange(300) * MILLISECOND_NS, lambda one=member: self._start(one))  # type: ignore[misc]
            member.disk.failing = random.choice((0.0, 0.0, 0.3))
        if not shape.is_quiet:
            self.network.weather = self._draw_weather()
        for _ in range(shape.troubles):
            self._later(random.randrange(shape.window_ns // MILLISECOND_NS), self._draw_trouble())
        if self._liar is not None:
            for _ in range(random.choice((5, 15, 40))):
                self.timeline.after(random.randrange(shape.window_ns), self._lie)
        self._pass(shape.window_ns)

    def _later(self, milliseconds: int, action: Action) -> None:
        """Something that happens only as long as there are troubles."""
        self.timeline.after(milliseconds * MILLISECOND_NS, lambda: action() if self._is_troubled else None)

    def _draw_weather(self) -> LinkWeather:
        random = self._random
        return LinkWeather(
            delay_ns_max=random.choice((2, 20, 60)) * MILLISECOND_NS,
            loss=random.choice((0.0, 0.05, 0.2, 0.4)),
            doubling=random.choice((0.0, 0.1)),
            spoiling=random.choice((0.0, 0.02)),
            lateness=random.choice((0.0, 0.05, 0.2)),
            late_ns=LATE_MAX_NS,
        )

    def _draw_trouble(self) -> Action:
        member = self._random.choice(list(self.members.values()))
        kind = self._random.choices(
            ("crash", "restart", "stall", "cut", "cut off", "heal", "clock", "flap"), weights=(4, 4, 3, 2, 3, 2, 1, 1)
        )[0]
        self.tally[f"trouble: {kind}"] += 1
        match kind:
            case "crash":
                return lambda: self._crash(member)
            case "restart":
                return lambda: self._restart(member)
            case "stall":
                return lambda: self._stall(member)
            case "cut":
                return self._cut
            case "cut off":
                return lambda: self._cut_off(member)
            case "heal":
                return self.network.links.clear
            case "clock":
                return lambda: member.clock.jump(self._random.choice((-1, 1)) * SKEW_NS)
            case _:
                return lambda: self._flap(member)

    def _crash(self, member: Member) -> None:
        if member.machine is not None and len(self.live) > 1:
            self.tell(f"{member.node} dies")
            self.tally["crashes"] += 1
            member.crash()

    def _restart(self, member: Member) -> None:
        self._crash(member)
        self._later(self._random.randrange(500), lambda: self._start(member))

    def _flap(self, member: Member) -> None:
        """It dies and comes back, again and again."""
        for beat in range(self._random.randint(2, 4)):
            self._later(beat * self._random.randrange(200, 1_500), lambda: self._restart(member))

    def _stall(self, member: Member) -> None:
        member.stall()
        self.tell(f"{member.node} stands still")
        self.timeline.after(self._random.choice((150, 500, 1_500)) * MILLISECOND_NS, member.resume)

    def _cut(self) -> None:
        """A partition: nothing passes between two parts, or only in one direction."""
        nodes = list(self.members)
        part = set(self._random.sample(nodes, self._random.randrange(1, len(nodes))))
        is_one_way = self._random.random() < 0.4
        cut = LinkWeather(is_cut=True)
        for one in nodes:
            for other in nodes:
                if one in part and other not in part:
                    self.network.links[one, other] = cut
                    if not is_one_way:
                        self.network.links[other, one] = cut
        self.tell(f"{sorted(part)} are cut off, one way: {is_one_way}")

    def _cut_off(self, member: Member) -> None:
        """One node hears nothing, or is not heard."""
        is_deaf = self._random.random() < 0.5
        for other in self.members:
            if other != member.node:
                link = (other, member.node) if is_deaf else (member.node, other)
                self.network.links[link] = LinkWeather(is_cut=True)
        self.tell(f"{member.node} {'hears nothing' if is_deaf else 'is not heard'}")

    def _lie(self) -> None:
        assert self._liar is not None
        kind, lies = self._liar.lie()
        self.tally[f"lie: {kind}"] += 1
        for to, message in lies:
            self.tell(f"{self._liar.member.node} lies to {to}: {message}")
            self.network.send(self._liar.member.node, to, message)

    # ---- calm -------------------------------------------------------------------------------------------------------

    def _calm_down(self) -> None:
        """Nothing is lost any more, nobody lies, and who is down starts again or is dead for good."""
        self.tell("the troubles end")
        self.network.calm_down()
        self._is_troubled = False
        for member in self.members.values():
            member.disk.failing = 0.0
            member.resume()
        # What was planned may still happen: late messages, restarts, stalls.
        self._pass(max(LATE_MAX_NS + 500 * MILLISECOND_NS, 2_000 * MILLISECOND_NS))
        down = [member for member in self.members.values() if member.machine is None]
        for member in down:
            if self._random.random() < 0.5:
                self._start(member)
        self._settle(f"M4 and M5: {len(self.live)} of {self.shape.members} are left, and do not agree")
        self._await_returns()

    def _settle(self, complaint: str) -> None:
        """All live views become equal, and true, in time."""
        members = self.shape.members
        dissemination = dissemination_ms_max(self.config, members)
        self._score_max = max(machine.local_health.score for machine in self.live.values())
        began = self.timeline.now_ns
        while not self._stays_agreed():
            self._pass(self.config.gossip_interval_ms * MILLISECOND_NS)
            # A probe that began in the troubles may fail for them; the round after it is the first that counts.
            lasting = (1 + self._score_max) * self.config.probe_interval_ms
            passed_ms = (self.timeline.now_ns - began) // MILLISECOND_NS
            if passed_ms > lasting + dissemination and not self._is_agreed(lambda node: node in self.live):
                self._fail(f"M4: {complaint} after {passed_ms} ms: {self._disagreement()}")
            if passed_ms > lasting + detection_ms_max(self.config, members, score=self._score_max):
                self._fail(f"M5: {complaint} after {passed_ms} ms: {self._disagreement()}")
        took = (self.timeline.now_ns - began) // (self.config.gossip_interval_ms * MILLISECOND_NS)
        self.tally["rounds to agree"] += took
        self.tally["agreements"] += 1

    def _stays_agreed(self) -> bool:
        if not self._is_agreed(self._is_dead_too):
            return False
        self._pass(2 * self.config.gossip_interval_ms * MILLISECOND_NS)
        return self._is_agreed(self._is_dead_too)

    @staticmethod
    def _is_dead_too(node: NodeId) -> bool:
        del node
        return True

    def _is_agreed(self, counts: Counts) -> bool:
        """Whether all live views are the same, and right, on the nodes that count."""
        live = self.live
        views = [machine.table.states for machine in live.values()]
        first = views[0]
        for node, state in first.items():
            if not counts(node):
                continue
            machine = live.get(node)
            is_right = (
                state.health is Health.FAILED
                if machine is None
                else state.health is Health.HEALTHY and state.incarnation == machine.incarnation
            )
            if not is_right or any(view[node] != state for view in views[1:]):
                return False
        return True

    def _disagreement(self) -> str:
        live = self.live
        for node in self.members:
            words = {holder: machine.table.states[node] for holder, machine in live.items()}
            if len(set(words.values())) > 1 or next(iter(words.values())).health is not (
                Health.HEALTHY if node in live else Health.FAILED
            ):
                return f"{node} ({'up' if node in live else 'dead'}) is {words}"
        return "nothing"

    def _await_returns(self) -> None:
        """Who is back is counted on again by everybody."""
        config = self.config
        probes = (config.heal_confirmations + 2) * (1 + config.local_health_max)
        # Where an ordinary pong is enough, every turn of the node's gives one.
        turns = 1 if config.require_bidirectional else 2 * self.shape.members
        patience = config.flap_backoff_max_ms + probes * turns * config.probe_interval_ms
        until = self.timeline.now_ns + patience * MILLISECOND_NS
        while waiting := [
            (holder, node)
            for holder, machine in self.live.items()
            for node in self.live
            if node != holder and not machine.is_counted_on(node)
        ]:
            if self.timeline.now_ns > until:
                self._fail(f"after {patience} ms of calm, {waiting[0][0]} does not count on {waiting[0][1]}")
            self._pass(config.probe_interval_ms * MILLISECOND_NS)

    def _die_late(self) -> None:
        """One more node dies while all is well; everybody notices, and takes it back."""
        if len(self.live) < 2:
            return
        node = self._random.choice(list(self.live))
        self._crash(self.members[node])
        self.tally["deaths in the calm"] += 1
        self._settle(f"{node} died")
        self._start(self.members[node])
        self._settle(f"{node} came back")
        self._await_returns()

    # ---- small parts ------------------------------------------------------------------------------------------------

    def _pass(self, for_ns: int) -> None:
        until = self.timeline.now_ns + for_ns
        self.timeline.after(for_ns, lambda: None)
        while self.timeline.step(until_ns=until):
            pass

    def tell(self, line: str) -> None:
        """Add to the trace."""
        if self._is_traced:
            self.trace.append(f"{self.timeline.now_ns / SECOND_NS:12.6f} {line}")

    def _write_trace(self, member: Member, event: Event, effects: list[Effect]) -> None:
        heard = event if not isinstance(event, Heard) else f"{event.message} from {event.sender}"
        self.tell(f"{member.node}: {heard} -> {effects}")

    def _count(self) -> None:
        tally = self.tally
        tally["worlds"] += 1
        tally["worlds: with a liar"] += self.shape.is_lied_to
        tally["steps"] += self._steps
        rounds = self.timeline.now_ns * len(self.members) // (self.config.gossip_interval_ms * MILLISECOND_NS)
        tally["node-rounds"] += rounds
        tally["live nodes called failed in the troubles"] += len(self.checker.false_failures)
        for name in ("sent", "lost", "doubled", "late"):
            tally[f"messages {name}"] += getattr(self.network, name)

    def _fail(self, message: str) -> NoReturn:
        self.tell(f"BROKEN: {message}")
        raise Broken(f"seed {self.seed}: {message}")
