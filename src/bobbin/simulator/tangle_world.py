"""A world of tangles: nodes that keep feeds, threads, sets and dicts, links that break, and a peer that wants harm.

One world is one seed. At dawn people write at places that know of each other by accident, so that the same tangles have
grown apart. Then there are troubles: sessions run over every link, in nine phases or in the modern mode, while people
write, goals change, what no goal asks for is let go, links break and nodes crash. Then the troubles end, and the world
is held to its promises:

* nothing is stored that no rule lets in, and nobody calls proven what is not (``tangle_truth``);
* nothing that was said to be stored is lost, and a commit is whole or not at all (``tangle_node``);
* calm sessions come to an end, in a bounded number of frames, and after a few of them nothing moves any more;
* then every goal is met: in the modern mode exactly, with nothing sent that was held; in nine phases as far as the
  rules of the reference go (``tangle_promises``);
* what is written from then on arrives without another run.
"""

from collections import Counter
from hashlib import sha256
from itertools import pairwise
from random import Random
from typing import Final, NoReturn

from msgspec import Struct

from bobbin.errors import ResourceError
from bobbin.simulator.circumstances import CALM, MILLISECOND_NS, draw_weather
from bobbin.simulator.clock import SECOND_NS, Timeline
from bobbin.simulator.network import Link, Weather
from bobbin.simulator.tangle_audit import audit, audit_upkeep
from bobbin.simulator.tangle_endpoint import Say, TangleEndpoint
from bobbin.simulator.tangle_forgery import Forger
from bobbin.simulator.tangle_hostile import Hostile, encode
from bobbin.simulator.tangle_keepers import DiskKeeper, Keeper, MemoryKeeper
from bobbin.simulator.tangle_node import TangleNode
from bobbin.simulator.tangle_people import DICT, FEED, SET, Pen, Person
from bobbin.simulator.tangle_promises import hears, owed, owed_in_phases, refused_in_vain, unproven, view_of
from bobbin.simulator.tangle_truth import Truth
from bobbin.simulator.world import Broken
from bobbin.tangles.errors import Rule
from bobbin.tangles.goals import Goal, GoalKind, parse_goal
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.modern import ModernConfig, ModernSession
from bobbin.tangles.modern_frames import ModernFrame
from bobbin.tangles.modern_parcels import PARCEL_BYTES
from bobbin.tangles.modern_turns import SpanLimits
from bobbin.tangles.phases import Frame
from bobbin.tangles.session import Session, SessionConfig
from bobbin.tangles.session_events import OpenRuns

STEPS_MAX: Final = 40_000
SESSIONS_MAX: Final = 4
"""On one link, in the troubled part."""
TROUBLES_MAX: Final = 20
COMMIT_NS_MAX: Final = 30 * MILLISECOND_NS
FRAMES_MAX: Final = 80
"""Of one tangle, in one calm session."""
WINDOW_NS: Final = 4 * SECOND_NS

_HONEST_IGNORED: Final = frozenset({"out-of-turn", "out-of-phase", "yielded", "unasked", "stopped"})
"""What an honest session may drop of what an honest peer said: both may begin at once, or change their mind."""

_HONEST_COLLISIONS: Final = frozenset({"out-of-turn", "yielded", "stopped"})
"""The same where nobody changes their mind."""


class Shape(Struct, frozen=True, kw_only=True):
    """What one world is like."""

    nodes: int
    writings: int
    is_hostile: bool
    is_disk: bool
    has_faults: bool
    is_plain: bool
    """Every goal is for everything, so that all must end up alike."""
    modes: tuple[bool, ...]
    """For each link, whether it speaks the modern mode."""
    size_by_count: bool


def draw_shape(random: Random) -> Shape:
    """Draw what a world is like."""
    nodes = random.choice((2, 2, 3, 3, 3, 4))
    mode = random.random()
    return Shape(
        nodes=nodes,
        writings=random.choice((3, 8, 20, 40)),
        is_hostile=nodes > 2 and random.random() < 0.5,
        is_disk=random.random() < 0.1,
        has_faults=random.random() < 0.75,
        is_plain=random.random() < 0.35,
        modes=tuple(mode < 0.45 or (mode > 0.8 and random.random() < 0.5) for _ in range(nodes - 1)),
        size_by_count=random.random() < 0.6,
    )


class _Stream:
    """Two sessions on one link."""

    def __init__(self, number: int, link: Link[bytes], ends: tuple[TangleEndpoint, TangleEndpoint]) -> None:
        self.number: Final = number
        self.link: Final = link
        self.ends: Final = ends

    @property
    def is_over(self) -> bool:
        return any(end.is_over for end in self.ends) or not self.link.is_up


class TangleWorld:
    """One seeded world."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self.seed: Final = seed
        self.tally: Final[Counter[str]] = Counter()
        self.trace: Final[list[str]] = []
        self._is_traced: Final = is_traced
        self._random: Final = Random(f"tangles {seed}")  # noqa: S311 (a seed is the point)
        self.shape: Final = draw_shape(self._random)
        self._timeline: Final = Timeline()
        self.truth: Final = Truth()
        self._people: Final = [
            Person(f"person {number} of {seed}", self._random) for number in range(self.shape.nodes + 1)
        ]
        self._threads: Final[list[MessageId]] = []
        self.nodes: Final[list[TangleNode]] = []
        self._streams: list[_Stream] = []
        self._begun = [0] * (self.shape.nodes - 1)
        self._is_troubled = True
        self._steps = 0
        self._troubles = 0
        for number in range(self.shape.nodes):
            self.nodes.append(self._make_node(number))
        self._tell(f"seed {seed}: {self.shape}")

    @property
    def digest(self) -> str:
        """The hash of the trace: the same for the same seed, everywhere."""
        return sha256("\n".join(self.trace).encode()).hexdigest()

    def run(self) -> Counter[str]:
        """Live through it; raises ``Broken`` at the first broken promise."""
        self.tally["worlds"] += 1
        self.tally["hostile worlds"] += self.shape.is_hostile
        self.tally["disk worlds"] += self.shape.is_disk
        self.tally["modern worlds"] += all(self.shape.modes)
        self.tally["nine-phase worlds"] += not any(self.shape.modes)
        try:
            self._dawn()
            self._be_troubled()
            self._end_troubles()
            self._calm_down()
            self._hear_news()
            self._audit()
        except Broken:
            raise
        except AssertionError as error:
            raise Broken(f"seed {self.seed}: an invariant does not hold: {error}") from error
        finally:
            for node in self.nodes:
                node.keeper.close()
        return self.tally

    # ---- making ---------------------------------------------------------------------------------------------------

    def _make_node(self, number: int) -> TangleNode:
        random, shape = self._random, self.shape
        honest = not (shape.is_hostile and number == shape.nodes - 1)
        on_disk = shape.is_disk and honest and (number == 0 or random.random() < 0.3)
        keeper: Keeper = MemoryKeeper()
        if on_disk:
            keeper = DiskKeeper(f"bobbin-tangles-{self.seed}-{number}", Random(random.getrandbits(64)))  # noqa: S311
        people = [self._people[number]]
        if random.random() < 0.4:
            # Somebody who writes at two places.
            people.append(random.choice(self._people))
        node = TangleNode(f"node{number}", keeper, people, self._fail, self.truth.is_true)
        node.honest = honest
        return node

    def _dawn(self) -> None:
        """Tangles grow at places that seldom know of each other."""
        random = self._random
        for node in self.nodes:
            for person in dict.fromkeys(node.people):
                self._give(node, person.root, person.account)
        for _ in range(self.shape.writings):
            if random.random() < 0.75:
                self._write(random.choice(self.nodes))
            else:
                self._carry(*random.sample(self.nodes, 2))
        for node in self.nodes:
            for tangle in self._tangles():
                goal = self._draw_goal(tangle)
                if goal is not None:
                    node.set_goal(tangle, goal)

    def _tangles(self) -> list[MessageId]:
        """Every tangle that a goal may be about."""
        begun = [feed for person in self._people for feed in person.feeds.values() if feed in self.truth]
        # One of which nothing exists, as far as it is not begun yet.
        feeds = dict.fromkeys([*begun, self._people[0].feeds[FEED]])
        return [*feeds, *self._threads, *(person.account for person in self._people)]

    def _draw_goal(self, tangle: MessageId) -> Goal | None:
        random = self._random
        if any(person.account == tangle for person in self._people):
            return parse_goal("all") if random.random() < 0.3 else None
        if self.shape.is_plain:
            return parse_goal("all")
        structured = {person.feeds[domain]: kind for person in self._people for domain, kind in _STRUCTURED}
        likely = structured.get(tangle, "all")
        text = random.choice((likely, likely, likely, "all", "all", "none", "newest-1", "newest-3", "newest-6", ""))
        return parse_goal(text) if text else None

    # ---- what happens at one node ----------------------------------------------------------------------------------

    def _give(self, node: TangleNode, message: Message, tangle: MessageId) -> None:
        self.truth.learn(message)
        refused = node.put(message, tangle)
        self._expect(refused in (None, "known"), f"{node.name} refuses {message.id}, which is right: {refused}")

    def _write(self, node: TangleNode) -> list[tuple[Message, MessageId]]:
        """Somebody writes something; all sessions of the node hear of it."""
        written: list[tuple[Message, MessageId]] = []

        def take_down(message: Message, tangle: MessageId) -> None:
            self._give(node, message, tangle)
            written.append((message, tangle))
            self._tell(f"{node.name} writes {message.id[:8]} in {tangle[:8]}")

        pen = Pen(self._random, node.keeper, take_down)
        kind = pen.write(self._random.choice(node.people), self._threads)
        self.tally[f"writes: {kind}"] += 1
        if written and not node.keeper.is_down:
            self._spread(node, tuple(message.id for message, _ in written))
        return written

    def _carry(self, one: TangleNode, other: TangleNode) -> None:
        """A part of what one node has comes to another by a way of its own, each message after those before it."""
        share = self._random.choice((0.3, 0.7, 1.0))
        stock = [message for id in one.ledger if (message := one.keeper.message(id)) is not None]
        for message in stock[: round(share * len(stock))]:
            tangle = next(iter(message.places), message.id)
            if message.id not in other.ledger:
                other.put(message, tangle)

    def _spread(self, node: TangleNode, messages: tuple[MessageId, ...]) -> None:
        for stream in self._streams:
            for end in stream.ends:
                if end.node is node and not stream.is_over:
                    end.hear(messages)

    def _crash(self, node: TangleNode) -> None:
        """The node's processes are gone; what was durable stays."""
        self._tell(f"{node.name} crashes")
        self.tally["crashes"] += 1
        for stream in self._streams:
            for end in stream.ends:
                if end.node is node and not end.is_over:
                    end.crash()
        node.recover()

    # ---- links ----------------------------------------------------------------------------------------------------

    def _connect(self, number: int, weather: Weather) -> _Stream:
        random = Random(self._random.getrandbits(64))  # noqa: S311 (a seed is the point)
        link: Link[bytes] = Link(self._timeline, weather, random, _truncate)
        pair = self.nodes[number], self.nodes[number + 1]
        ends = tuple(self._endpoint(node, number, random, dialler=not at) for at, node in enumerate(pair))
        for at, end in enumerate(ends):
            end.attach(link, at)
        stream = _Stream(number, link, (ends[0], ends[1]))
        self._streams.append(stream)
        self.tally["sessions"] += 1
        return stream

    def _endpoint(self, node: TangleNode, number: int, random: Random, *, dialler: bool) -> TangleEndpoint:
        session: Session | ModernSession
        if self.shape.modes[number]:
            spans = SpanLimits(more_max=random.choice((0, 4)), symbols_max=random.choice((40, 1 << 18)))
            # Room for one account message, or for more than there are.
            room = 1000 if spans.more_max else PARCEL_BYTES
            secret = random.randbytes(32)
            config = ModernConfig(secret=secret, dialler=dialler, spans=spans, news_bytes_max=room, checking=True)
            session = ModernSession(config, node.keeper.modern_library)
        else:
            phases = SessionConfig(size_by_count=self.shape.size_by_count, checking=True)
            session = Session(phases, node.keeper.library)
        say: Say = _plainly
        if not node.honest:
            forger = Forger(random, self._people[-1], self._people[:-1])
            say = Hostile(random, forger, node.keeper, self.truth.learn, self._tangles, self.tally).twist
        return TangleEndpoint(
            session,
            node,
            timeline=self._timeline,
            random=random,
            say=say,
            spread=self._spread,
            on_failure=self._crash,
            trace=self._tell if self._is_traced else None,
            commit_ns_max=COMMIT_NS_MAX,
        )

    def _goal_tangles(self, node: TangleNode) -> tuple[MessageId, ...]:
        return tuple(tangle for tangle in self._tangles() if node.keeper.goal(tangle) is not None)

    # ---- troubles -------------------------------------------------------------------------------------------------

    def _be_troubled(self) -> None:
        random = self._random
        if self.shape.has_faults:
            for node in self.nodes:
                node.keeper.set_faults(0.002, 0.002)
        for number in range(len(self.shape.modes)):
            self._timeline.after(random.randrange(MILLISECOND_NS), lambda number=number: self._reconnect(number))  # type: ignore[misc]
        for _ in range(random.randrange(8)):
            self._timeline.after(random.randrange(WINDOW_NS), self._trouble)
        while self._timeline.step(WINDOW_NS):
            self._count_step()
            if random.random() < 0.04 and self._troubles < TROUBLES_MAX:
                self._trouble()

    def _reconnect(self, number: int) -> None:
        current = [stream for stream in self._streams if stream.number == number and not stream.is_over]
        if not self._is_troubled or (not current and self._begun[number] >= SESSIONS_MAX):
            return
        if not current:
            self._begun[number] += 1
            stream = self._connect(number, draw_weather(self._random, has_faults=self.shape.has_faults))
            stream.ends[0].give(OpenRuns(self._goal_tangles(stream.ends[0].node)))
            if self._random.random() < 0.6:
                late = self._random.choice((0, 100)) * MILLISECOND_NS
                tangles = self._goal_tangles(stream.ends[1].node)
                self._timeline.after(late, lambda: stream.ends[1].give(OpenRuns(tangles)))
        self._timeline.after(self._random.randint(20, 400) * MILLISECOND_NS, lambda: self._reconnect(number))

    def _trouble(self) -> None:
        """Something happens, somewhere."""
        random = self._random
        self._troubles += 1
        node = random.choice(self.nodes)
        kinds = ["write"] * 5 + ["goal", "collect", "open", "open"]
        if self.shape.has_faults:
            kinds += ["break", "crash"]
        kind = random.choice(kinds)
        self.tally[kind] += 1
        self._tell(f"trouble: {kind} at {node.name}")
        try:
            self._happen(kind, node)
        except ResourceError:
            self._crash(node)
        if node.keeper.is_down:
            self._crash(node)

    def _happen(self, kind: str, node: TangleNode) -> None:
        random = self._random
        running = [stream for stream in self._streams if not stream.is_over]
        if kind == "write":
            self._write(node)
        elif kind == "goal":
            tangle = random.choice(self._tangles())
            node.set_goal(tangle, self._draw_goal(tangle))
        elif kind == "collect":
            if not self.shape.is_plain:
                node.collect()
        elif kind == "crash":
            self._crash(node)
        elif running and kind == "break":
            random.choice(running).link.break_off()
        elif running:
            end = random.choice(random.choice(running).ends)
            tangles = self._goal_tangles(end.node)
            some = tuple(random.sample(tangles, min(len(tangles), random.randint(1, 3))))
            end.give(OpenRuns(some, anew=random.random() < 0.3))

    def _end_troubles(self) -> None:
        """Nothing happens any more: links are gone, disks are sound."""
        self._is_troubled = False
        self._tell("the troubles end")
        for node in self.nodes:
            node.keeper.set_faults(0.0, 0.0)
        for stream in self._streams:
            stream.link.weather = CALM
            if not all(end.node.honest for end in stream.ends):
                stream.link.break_off()
        self._settle()
        for stream in self._streams:
            self._expect_honest(stream)
            for end in stream.ends:
                if not stream.is_over:
                    self._expect(end.session.is_idle, f"a session of {end.node.name} does not come to an end")
                end.is_over = True
            stream.link.break_off()
        self._streams.clear()
        self._settle()
        for node in self.nodes:
            node.check()

    def _expect_honest(self, stream: _Stream) -> None:
        """Nobody blames an honest peer."""
        for end in stream.ends:
            self.tally["runs"] += len(end.finished)
            self.tally["messages received"] += end.added
            self.tally["messages refused"] += len(end.refused)
            if not all(one.node.honest for one in stream.ends):
                continue
            for wrong in end.wrong_news(stream.ends[1 - stream.ends.index(end)]):
                self._fail(wrong)
            odd = set(end.ignored) - _HONEST_IGNORED
            if stream.link.is_up and not end.is_over:
                self._expect(not odd, f"{end.node.name} blames an honest peer: {sorted(odd)}")

    def _settle(self) -> None:
        """Let time pass until nothing is left to happen."""
        while self._timeline.step():
            self._count_step()

    # ---- calm -----------------------------------------------------------------------------------------------------

    def _honest_links(self) -> list[int]:
        return [
            number
            for number in range(len(self.shape.modes))
            if self.nodes[number].honest and self.nodes[number + 1].honest
        ]

    def _calm_down(self) -> None:
        """Calm sessions, one after the other, until nothing moves; then every promise holds."""
        honest = self._honest_links()
        last: dict[int, _Stream] = {}
        for _ in range(2 * len(self.nodes) + 2):
            before = [node.ledger for node in self.nodes]
            for number in honest:
                last[number] = self._sync_calmly(number)
            # In nine phases what is let go by number may come again by depth, and go again in the same commit.
            if before == [node.ledger for node in self.nodes]:
                break
        else:
            self._expect(not honest, "calm sessions go on for ever")
        for number, stream in last.items():
            self._expect_met(number, stream)
        self._expect_alike(honest)

    def _sync_calmly(self, number: int) -> _Stream:
        """One session to which nothing happens, on every tangle that one of the two has a goal for."""
        stream = self._connect(number, CALM)
        tangles = tuple(dict.fromkeys(tangle for end in stream.ends for tangle in self._goal_tangles(end.node)))
        opener = stream.ends[self._random.randrange(2)]
        # A message of two tangles comes twice where both runs are under way, and once where one follows the other.
        together = self._random.random() < 0.5
        for some in (tangles,) if together else [(tangle,) for tangle in tangles]:
            opener.give(OpenRuns(some))
            self._settle()
        self._expect_end(stream, tangles, together=together)
        stream.link.break_off()
        self._settle()
        self._streams.remove(stream)
        self.tally["calm sessions"] += 1
        return stream

    def _expect_end(self, stream: _Stream, tangles: tuple[MessageId, ...], *, together: bool) -> None:
        frames = stream.link.carried
        self._expect(frames <= FRAMES_MAX * max(len(tangles), 1), f"{frames} frames for {len(tangles)} tangles")
        for end in stream.ends:
            self._expect(end.session.is_idle, f"a calm session of {end.node.name} does not come to an end")
            # Whoever could not take something asks for what proves it, perhaps while the other side begins again too.
            odd = set(end.ignored) - _HONEST_COLLISIONS
            self._expect(not odd, f"{end.node.name} blames an honest peer: {sorted(odd)}")
            if self.shape.modes[stream.number]:
                vain = [id for id, why in end.refused.items() if why.startswith(Rule.GHOST)]
                self._expect(not vain, f"{end.node.name} was sent {vain[:3]}, which it had let go for good")
            if self.shape.modes[stream.number] and not together:
                self._expect(not end.useless, f"{end.node.name} was sent {end.useless[:3]}, which it had")
        self._expect_honest(stream)

    def _expect_met(self, number: int, stream: _Stream) -> None:
        """Every goal of both ends is met, as far as the other end can, and nothing is offered in vain for ever."""
        for end, other in (stream.ends, stream.ends[::-1]):
            vain = refused_in_vain(end, other) if self.shape.modes[number] else []
            self._expect(not vain, f"{end.node.name} was offered {vain[:3]} again, which it must refuse")
            for tangle in self._tangles():
                if self.shape.modes[number]:
                    wrong = owed(end.node.keeper, other.node.keeper, tangle, self.truth)
                    wrong += unproven(end.node.keeper, other.node.keeper, tangle, self.truth)
                else:
                    wrong = owed_in_phases(end, other, tangle, self.truth)
                self._expect(not wrong, f"{end.node.name} and {other.node.name}: {'; '.join(wrong[:3])}")
                self.tally["goals by brute force"] += 1

    def _expect_alike(self, honest: list[int]) -> None:
        """Where all want everything and all links are modern, all honest nodes have the same, and all that is true."""
        links = [number for number in honest if self.shape.modes[number]]
        if not self.shape.is_plain or len(links) != len(honest) or self.tally["collect"] or not honest:
            return
        nodes = [self.nodes[number] for number in range(honest[0], honest[-1] + 2)]
        for tangle in self._tangles():
            if not all(_wants_all(node, tangle) for node in nodes):
                continue
            held = [
                {id for id in view_of(node.keeper, tangle, self.truth) if self.truth.is_full(tangle, id)}
                for node in nodes
            ]
            self._expect(all(one == held[0] for one in held), f"the nodes have not the same of {tangle}")
            self.tally["tangles alike"] += 1

    def _hear_news(self) -> None:
        """With all links up, what is written goes everywhere by itself."""
        honest = self._honest_links()
        streams = [self._connect(number, CALM) for number in honest]
        for stream in streams:
            tangles = tuple(dict.fromkeys(tangle for end in stream.ends for tangle in self._goal_tangles(end.node)))
            stream.ends[0].give(OpenRuns(tangles))
        self._settle()
        for node in [self.nodes[number] for number in honest][:2]:
            self._expect_news(node, self._write(node), honest)
        for stream in streams:
            for end in stream.ends:
                self._expect(end.session.is_idle, f"a session of {end.node.name} does not come to rest")
            stream.link.break_off()
        self._settle()
        self._streams.clear()
        self._calm_down()

    def _expect_news(self, writer: TangleNode, written: list[tuple[Message, MessageId]], honest: list[int]) -> None:
        """Something was written at a node that is linked with all others."""
        numbers = range(honest[0], honest[-1] + 2)
        nodes = [self.nodes[number] for number in numbers]
        at = self.nodes.index(writer)
        expected: list[tuple[TangleNode, Message]] = []
        for message, tangle in written:
            if message.id == tangle or not all(_wants_all(node, tangle) for node in nodes):
                continue
            if not all(_follows(node, message.places[tangle].prev, tangle) for node in nodes):
                continue
            for number in numbers:
                way = range(at, number + 1) if number >= at else range(at, number - 1, -1)
                keepers = [self.nodes[one].keeper for one in way]
                modes = [self.shape.modes[min(link)] for link in pairwise(way)]
                if number != at and hears(keepers, modes, message, self.truth):
                    expected.append((self.nodes[number], message))
        self._settle()
        for node, message in expected:
            self._expect(node.keeper.message(message.id) is not None, f"news {message.id} did not reach {node.name}")
            self.tally["news"] += 1

    def _audit(self) -> None:
        """Every node holds what it was given, and nothing that should not be; then what no goal asks for may go."""
        for node in self.nodes:
            if not node.honest:
                continue
            node.check()
            modern = all(self.shape.modes)
            for wrong in audit(node.keeper, self.truth, self._people, modern=modern, let_go=node.let_go):
                self._fail(f"{node.name}: {wrong}")
            before = node.keeper.snapshot()
            node.collect()
            for wrong in audit_upkeep(node.keeper, before):
                self._fail(f"{node.name}: {wrong}")
            self.tally["messages audited"] += len(before)

    # ---- small parts ----------------------------------------------------------------------------------------------

    def _count_step(self) -> None:
        self._steps += 1
        self._expect(self._steps <= STEPS_MAX, f"after {STEPS_MAX} steps there is no end")

    def _tell(self, line: str) -> None:
        if self._is_traced:
            self.trace.append(f"{self._timeline.now_ns / SECOND_NS:12.6f} {line}")

    def _expect(self, condition: bool, message: str) -> None:  # noqa: FBT001 (reads like an assertion)
        if not condition:
            self._fail(message)

    def _fail(self, message: str) -> NoReturn:
        self._tell(f"BROKEN: {message}")
        raise Broken(f"seed {self.seed}: {message}")


_STRUCTURED: Final = ((SET, "set"), (DICT, "dict"))


def _plainly(frame: Frame | ModernFrame) -> list[bytes]:
    return [encode(frame)]


def _truncate(raw: bytes, random: Random) -> bytes | None:
    return raw[: random.randrange(len(raw) + 1)] if random.random() < 0.5 else None


def _wants_all(node: TangleNode, tangle: MessageId) -> bool:
    goal = node.keeper.goal(tangle)
    return goal is not None and goal.kind is GoalKind.ALL


def _follows(node: TangleNode, prev: tuple[MessageId, ...], tangle: MessageId) -> bool:
    structure = node.keeper.tangle(tangle)
    return structure.root is not None and all(id in structure for id in prev)
