"""One node of a membership world: its machine, its clocks, its disk, and a process that stalls and dies."""

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.membership.effects import Effect, PersistIncarnation, Send, WakeAt
from bobbin.cluster.membership.events import Event, IncarnationPersisted, PersistFailed, Tick
from bobbin.cluster.membership.machine import Members, MembershipMachine
from bobbin.cluster.membership.messages import GossipMessage
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.settings import GossipConfig
from bobbin.simulator.clock import NodeClock, Timeline


class Stage(Protocol):
    """What a member needs of its world."""

    @property
    def timeline(self) -> Timeline: ...

    def send(self, origin: NodeId, to: NodeId, message: GossipMessage) -> None: ...

    def look(self, member: "Member", event: Event, effects: list[Effect]) -> None:
        """A step has been made."""
        ...


class Disk:
    """Where a node keeps its incarnation. What was asked for and is not written when the node dies is lost."""

    def __init__(self, random: Random) -> None:
        self._random: Final = random
        self.incarnation = 0
        self.failing = 0.0
        self.delay_ns_max = 5 * MILLISECOND_NS

    def write(self, incarnation: int) -> Event:
        if self._random.random() < self.failing:
            return PersistFailed("the disk says no")
        self.incarnation = max(self.incarnation, incarnation)
        return IncarnationPersisted(incarnation)

    def delay_ns(self) -> int:
        return int(self._random.random() * self.delay_ns_max)


class Member:
    """A node that lives several lives on one disk."""

    def __init__(
        self,
        stage: Stage,
        node: NodeId,
        config: GossipConfig,
        *,
        random: Random,
        clock: NodeClock,
        embedding: Embedding,
    ) -> None:
        self._stage: Final = stage
        self.node: Final = node
        self.config: Final = config
        self.embedding: Final = embedding
        self.clock: Final = clock
        self.disk: Final = Disk(random)
        self._random: Final = random
        self.machine: MembershipMachine | None = None
        """None while the node is down."""
        self.lives = 0
        self._wakes = 0
        self._waiting: list[Event] | None = None
        """What has come while the process stands still; None while it runs."""

    @property
    def now_ns(self) -> int:
        return self.clock.read().monotonic_ns

    @property
    def is_stalled(self) -> bool:
        return self._waiting is not None

    def start(self, peers: Members) -> None:
        assert self.machine is None
        self.lives += 1
        self.machine = MembershipMachine(
            self.config,
            node=self.node,
            incarnation=self.disk.incarnation,
            peers=peers,
            random=self._random,
            embedding=self.embedding,
        )
        self.give(Tick())

    def crash(self) -> None:
        self.machine = None
        self._waiting = None
        self.lives += 1

    def stall(self) -> None:
        if self.machine is not None and self._waiting is None:
            self._waiting = []

    def resume(self) -> None:
        waiting, self._waiting = self._waiting, None
        for event in waiting or ():
            self.give(event)

    def give(self, event: Event) -> None:
        """Something happens to the node: at once, or when its process runs again."""
        if self.machine is None:
            return
        if self._waiting is not None:
            self._waiting.append(event)
            return
        effects = self.machine.step(event, now_ns=self.now_ns)
        self._stage.look(self, event, effects)
        for effect in effects:
            match effect:
                case Send(to, message):
                    self._stage.send(self.node, to, message)
                case WakeAt(at_ns):
                    self._wakes += 1
                    self._plan(self.clock.delay_until(at_ns), self._wakes)
                case PersistIncarnation(incarnation):
                    self._persist(incarnation)
                case _:
                    pass

    def _plan(self, delay_ns: int, wake: int) -> None:
        """A later wish to be woken replaces this one."""
        life = self.lives
        self._stage.timeline.after(delay_ns, lambda: self._wake(life, wake))

    def _wake(self, life: int, wake: int) -> None:
        if life == self.lives and wake == self._wakes:
            self.give(Tick())

    def _persist(self, incarnation: int) -> None:
        """It is durable after a while, and the machine hears of it after another; a crash may come before either."""

        def write() -> None:
            answer = self.disk.write(incarnation)
            self._in_this_life(self.disk.delay_ns(), lambda: self.give(answer))

        self._in_this_life(self.disk.delay_ns(), write)

    def _in_this_life(self, delay_ns: int, action: Callable[[], None]) -> None:
        life = self.lives
        self._stage.timeline.after(delay_ns, lambda: action() if life == self.lives else None)
