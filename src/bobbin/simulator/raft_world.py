"""A world of one cluster: three, five or seven nodes agree while everything that can fail does.

One world is one seed. Each node is the real raft machine with the real storage, on a disk that fails, and the real
key-value table; messages are lost, doubled, late, spoilt and cut off; nodes crash at any moment and at any write, stand
still, and have clocks that drift and jump; members come and go, leadership is handed over, logs are cut by snapshots.
In some worlds one member lies, in some every node has a judge that looks at what a leader sends (``raft_judge``).
Clients write and read all the while. After every step R1 to R14 are asserted (``raft_checker``), and every answer is
held to one order of all requests (``raft_clients``).

Then the troubles end. Within a bound there must be one leader, no joint configuration, the same log and state on every
member, and a fresh write must be acknowledged.
"""

from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import Final, NoReturn

from msgspec import structs

from bobbin.cluster.key_value import Item
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.raft.effects import (
    Accepted,
    Alarm,
    ConfigurationChanged,
    Effect,
    Refused,
    Role,
    RoleChanged,
    TransferDone,
)
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.events import (
    AddLearner,
    Event,
    JointChange,
    PromoteLearner,
    RemoveNode,
    SnapshotWanted,
    Transfer,
)
from bobbin.cluster.raft.messages import RaftMessage, RequestVote
from bobbin.errors import IntegrityError
from bobbin.simulator.clock import SECOND_NS, Action, NodeClock, Timeline
from bobbin.simulator.cluster_disk import ClusterDisk
from bobbin.simulator.raft_checker import RaftChecker
from bobbin.simulator.raft_clients import Answer, Book, Client, Verb
from bobbin.simulator.raft_hostile import Liar
from bobbin.simulator.raft_network import RaftNetwork
from bobbin.simulator.raft_node import RaftNode, ReplyToRead, ReplyToWrite
from bobbin.simulator.raft_shape import (
    TROUBLES,
    Build,
    Shape,
    Speed,
    draw_embedding,
    draw_judge,
    draw_jump_ns,
    draw_roughness,
    draw_shape,
    draw_speed,
    draw_weights,
)
from bobbin.simulator.world import Broken
from bobbin.wire.cluster import codec

STEPS_MAX: Final = 60_000
ELECTION_NS_MAX: Final = 10 * 300 * MILLISECOND_NS
"""Within which an undisturbed cluster must have its first leader: ten of the longest timeouts."""
CALM_NS_MAX: Final = 12 * SECOND_NS
"""Within which everything must be well after the troubles."""
LOOK_NS: Final = 40 * MILLISECOND_NS
"""Between two looks at whether it is."""


class _Coding:
    """The codec of the wire, which also knows messages of other machines."""

    def encode(self, message: RaftMessage) -> tuple[int, bytes]:
        return codec.encode(message)

    def decode(self, number: int, payload: bytes) -> RaftMessage:
        return codec.decode(number, payload)  # type: ignore[return-value]


class RaftWorld:
    """One seeded world."""

    def __init__(self, seed: int, *, is_traced: bool = False, shape: Shape | None = None) -> None:
        self.seed: Final = seed
        self.tally: Final[Counter[str]] = Counter()
        self.trace: Final[list[str]] = []
        self.timeline: Final = Timeline()
        self.is_traced: Final = is_traced
        self._random: Final = Random(f"raft {seed}")  # noqa: S311 (a seed is the point)
        # What came to be drawn later has a draw of its own: the worlds of all other seeds are what they were.
        apart = Random(f"raft judge {seed}")  # noqa: S311 (a seed is the point)
        self.shape: Final = shape or structs.replace(draw_shape(self._random), judge=draw_judge(apart))
        names = [NodeId(f"n{number}") for number in range(self.shape.voters + self.shape.spares)]
        self.bootstrap: Final = Configuration(tuple(sorted(names[: self.shape.voters])))
        self.checker: Final = RaftChecker(
            [(name, self.bootstrap if name in self.bootstrap.voters else None) for name in names], self.fail
        )
        self.book: Final = Book(self.fail)
        coding = _Coding() if self.shape.is_bytes else None
        self.network: Final = RaftNetwork(self.timeline, self._random, self._deliver, coding=coding)
        self.nodes: Final = {name: self._make_node(name) for name in names}
        self.clients: Final = [self._make_client(f"c{number}", names) for number in range(self.shape.clients)]
        self.liar: Final = self._make_liar(names[0]) if self.shape.is_hostile else None
        if self.liar is not None:
            self.checker.liars.add(self.liar.node)
        self.is_troubled = True
        self._is_over = False
        self._weights: Final = draw_weights(self._random, self.shape)
        self._steps = 0

    def run(self) -> Counter[str]:
        """Live through the world; raises ``Broken`` at the first broken promise."""
        try:
            self.dawn()
            self._trouble()
            self.calm_down()
        except AssertionError as error:
            if isinstance(error, Broken):
                raise
            self.fail(f"an invariant does not hold: {error}")
        self._count()
        return self.tally

    @property
    def digest(self) -> str:
        """Of the whole trace."""
        return sha256("\n".join(self.trace).encode()).hexdigest()

    # ---- dawn -----------------------------------------------------------------------------------------------------

    def _make_node(self, name: NodeId) -> RaftNode:
        random, shape = self._random, self.shape
        build = Build(
            config=shape.config,
            bootstrap=self.bootstrap if name in self.bootstrap.voters else None,
            embedding=draw_embedding(random) if shape.is_placed else None,
            is_checking=shape.is_checking,
            rotate_bytes=shape.rotate_bytes,
            sessions_max=shape.sessions_max,
            gather_ns=shape.gather_ns,
            judge=shape.judge,
        )
        drift = random.randint(-20_000, 20_000) if shape.is_drifting else 0
        clock = NodeClock(self.timeline, drift_ppm=drift, started_ns=random.randrange(SECOND_NS))
        disk = ClusterDisk(random)
        node = RaftNode(self, name, build, clock=clock, disk=disk, random=random)
        if shape.is_slow:
            node.speed = draw_speed(random)
        return node

    def _make_liar(self, name: NodeId) -> Liar:
        return Liar(name, self._random, is_judged=self.shape.judge is not None)

    def _make_client(self, name: str, nodes: list[NodeId]) -> Client:
        return Client(name, self._random, self.timeline, self, self.book, nodes)

    def dawn(self) -> None:
        """All nodes begin; in some worlds nothing else happens before there is a leader."""
        for node in self.nodes.values():
            node.start()
        if not self.shape.is_calm_dawn:
            return
        speeds = {name: node.speed for name, node in self.nodes.items()}
        for node in self.nodes.values():
            node.speed = Speed()
        self.run_until(lambda: self.leader() is not None, ELECTION_NS_MAX, "no leader was elected at the beginning")
        self.tally["cold starts"] += 1
        for name, node in self.nodes.items():
            node.speed = speeds[name]

    # ---- what nodes and clients ask for ---------------------------------------------------------------------------

    def send(self, sender: NodeId, to: NodeId, message: RaftMessage) -> None:
        if self.liar is not None and sender == self.liar.node and self.is_troubled:
            kind, message = self.liar.twist(to, message)
            if kind:
                self.tally[f"vice: {kind}"] += 1
                self._lie(to, message)
                return
        self.network.send(sender, to, message)

    def _lie(self, to: NodeId, message: RaftMessage) -> None:
        assert self.liar is not None
        ledger = self.checker.ledger
        ledger.highest_term = max(ledger.highest_term, message.term)
        if isinstance(message, RequestVote):
            ledger.asked.add((self.liar.node, message.term))
        self.network.send(self.liar.node, to, message)

    def _deliver(self, to: NodeId, sender: NodeId, message: RaftMessage) -> None:
        self.tally["messages"] += 1
        self.nodes[to].receive(sender, message)

    def propose(self, node: NodeId, payload: bytes, reply: ReplyToWrite) -> None:
        def answer(how: Answer, result: bytes, leader: NodeId | None) -> None:
            self.timeline.after(self._random.randrange(2 * MILLISECOND_NS), lambda: reply(how, result, leader))

        self.nodes[node].propose(payload, answer)

    def read(self, node: NodeId, key: bytes, reply: ReplyToRead) -> None:
        def answer(index: int | None, item: Item | None, leader: NodeId | None) -> None:
            self.timeline.after(self._random.randrange(2 * MILLISECOND_NS), lambda: reply(index, item, leader))

        self.nodes[node].read(key, answer)

    def went_down(self, node: RaftNode) -> None:
        """The power of a node is cut; it comes back after a while."""
        self.tally["crashes"] += 1
        node.crash()
        self.timeline.after(self._random.randrange(1, 400) * MILLISECOND_NS, lambda: self._bring_back(node))

    def _bring_back(self, node: RaftNode) -> None:
        if node.is_up or self._is_over:
            return
        flip_back = self._rot(node)
        try:
            began = node.start(is_damaged=flip_back is not None)
        except IntegrityError as error:
            if flip_back is None:
                self.fail(f"the disk of {node.node} is damaged, says its storage: {error}")
            # Somebody reads the message, and finds another copy of the file.
            self.tally["damage found"] += 1
            flip_back()
            began = node.start()
        if not began and not node.disk.is_down:
            self.timeline.after(100 * MILLISECOND_NS, lambda: self._bring_back(node))

    def _rot(self, node: RaftNode) -> Callable[[], None] | None:
        """A disk loses a bit; only one node of a world has such a disk, as one copy may be lost and not two."""
        if not self.shape.is_rotting or not self.is_troubled or node.node != self.bootstrap.voters[-1]:
            return None
        self.tally["bits flipped"] += 1
        return node.disk.rot()

    def heard(self, effect: Effect) -> None:
        match effect:
            case RoleChanged(after=Role.LEADER):
                self.tally["leaders"] += 1
            case ConfigurationChanged(is_committed=True):
                self.tally["configurations"] += 1
                self.tally["configurations: joint"] += effect.configuration.is_joint
            case TransferDone() if effect.leader is not None:
                self.tally["transfers done"] += 1
            case Alarm("entry-refused") if self.liar is None:
                self.fail(f"an entry is called wrong, and nobody lies: {effect.detail}")
            case Alarm():
                self.tally[f"alarm: {effect.code}"] += 1
            case Accepted():
                self.tally["operators' requests accepted"] += 1
            case Refused():
                self.tally[f"refused: {effect.why.value}"] += 1
            case _:
                pass

    # ---- the course of a world ------------------------------------------------------------------------------------

    def _trouble(self) -> None:
        random, shape = self._random, self.shape
        began = self.timeline.now_ns
        if shape.is_rough:
            self.network.roughness = draw_roughness(random)
        for client in self.clients:
            client.loss = random.choice((0.0, 0.05, 0.2))
            client.weights = random.choice(((8, 7, 2, 4), (8, 7, 2, 4), (1, 0, 0, 0)))
            self._go_on(client)
        for _ in range(shape.troubles):
            trouble = random.choices(TROUBLES, weights=self._weights)[0]
            self.timeline.after(random.randrange(shape.window_ns), self._troubles(trouble))
        if shape.is_changing:
            for moment in range(0, shape.window_ns, 90 * MILLISECOND_NS):
                self.timeline.after(moment, self._troubles("change"))
        self.pass_time(shape.window_ns - (self.timeline.now_ns - began))

    def _go_on(self, client: Client) -> None:
        """A client does one thing after the other as long as there is trouble."""
        if not self.is_troubled:
            return
        client.act()
        if self._random.random() < 0.01:
            self._propose_nonsense()
        self.timeline.after(self._random.randrange(1, self.shape.think_ns_max), lambda: self._go_on(client))

    def _propose_nonsense(self) -> None:
        """Bytes that are no command get a place in the log, and a refusal that is the same everywhere."""
        nonsense = b"\xff" + self._random.randbytes(8)
        self.book.nonsense.add(nonsense)
        node = self.leader()
        if node is not None:
            self.tally["nonsense proposed"] += 1
            node.propose(nonsense, lambda answer, result, leader: None)  # noqa: ARG005 (nobody waits for it)

    def _troubles(self, trouble: str) -> Action:
        def happen() -> None:
            if self.is_troubled:
                self.tell(f"trouble: {trouble}")
                self.tally[f"trouble: {trouble}"] += 1
                self._happen(trouble)

        return happen

    def _happen(self, trouble: str) -> None:
        random, names = self._random, list(self.nodes)
        node = self.nodes[random.choice(names)]
        leader = self.leader()
        if trouble in {"split", "isolate", "one way", "heal", "weather"}:
            self._trouble_network(trouble, leader or node)
        elif trouble in {"crash", "crash leader", "crash all"}:
            struck = {"crash": [node], "crash leader": [leader or node], "crash all": list(self.nodes.values())}
            for each in struck[trouble]:
                self._cut_power(each)
        elif trouble in {"cut at a write", "bad disk", "full disk"}:
            self._trouble_disk(trouble, node.disk)
        elif trouble == "jump":
            node.clock.jump(draw_jump_ns(random))
        elif trouble == "pause":
            node.paused_until_ns = self.timeline.now_ns + random.randrange(10, 500) * MILLISECOND_NS
        elif trouble == "vice":
            self._be_hostile()
        else:
            self._operate(trouble, leader or node)

    def _trouble_network(self, trouble: str, node: RaftNode) -> None:
        random, network, names = self._random, self.network, list(self.nodes)
        match trouble:
            case "split":
                some = random.sample(names, random.randint(1, len(names) - 1))
                network.cut(some, [name for name in names if name not in some])
            case "isolate":
                network.cut([node.node], [name for name in names if name != node.node])
            case "one way":
                network.cut([node.node], random.sample(names, random.randint(1, len(names))), one_way=True)
            case "heal":
                network.heal()
            case _:
                network.of_link[random.choice(names), random.choice(names)] = draw_roughness(random)

    def _trouble_disk(self, trouble: str, disk: ClusterDisk) -> None:
        match trouble:
            case "cut at a write":
                disk.cut_in = self._random.randint(1, 12)
            case "bad disk":
                disk.error_rate = self._random.choice((0.05, 0.3, 1.0))
                self._after_a_while(lambda: setattr(disk, "error_rate", 0.0))
            case _:
                disk.is_full = True
                self._after_a_while(lambda: setattr(disk, "is_full", False))

    def _after_a_while(self, action: Action) -> None:
        self.timeline.after(self._random.randrange(20, 700) * MILLISECOND_NS, action)

    def _cut_power(self, node: RaftNode) -> None:
        if node.is_up:
            self.went_down(node)

    def _be_hostile(self) -> None:
        assert self.liar is not None
        machine = self.nodes[self.liar.node].machine
        if machine is None:
            return
        others = [name for name in self.nodes if name != self.liar.node]
        kind, lies = self.liar.act(machine.term, machine.leader, others)
        self.tally[f"vice: {kind}"] += 1
        for to, message in lies:
            self._lie(to, message)

    def _operate(self, trouble: str, node: RaftNode) -> None:
        """What an operator asks of whoever is taken for the leader."""
        random, names = self._random, list(self.nodes)
        other = random.choice(names)
        make: Callable[[int], Event]
        match trouble:
            case "transfer":
                make = lambda request: Transfer(request, other)  # noqa: E731
            case "snapshot":
                make = SnapshotWanted
            case _:
                make = self._draw_change(node, other)
        node.ask(make)

    def _draw_change(self, node: RaftNode, other: NodeId) -> Callable[[int], Event]:
        random = self._random
        present = node.machine.configuration if node.machine is not None else self.bootstrap
        outside = [name for name in self.nodes if name not in present.members]
        removable = [name for name in present.voters if name != node.node] if len(present.voters) > 2 else []
        removed = random.sample(removable, min(len(removable), random.randint(0, 2)))
        options: list[Callable[[int], Event]] = []
        if outside:
            added = random.choice(outside)
            options += [lambda request: AddLearner(request, added)] * 3
        if present.learners:
            promoted = random.choice(present.learners)
            options += [lambda request: PromoteLearner(request, promoted)] * 3
            options += [lambda request: JointChange(request, (promoted,), tuple(sorted(removed)))] * 4
        if removable:
            gone = random.choice(removable)
            options.append(lambda request: RemoveNode(request, gone))
            options.append(lambda request: JointChange(request, (), tuple(sorted(removed))))
        return random.choice(options) if options else (lambda request: RemoveNode(request, other))

    # ---- calm -----------------------------------------------------------------------------------------------------

    def calm_down(self) -> None:
        """Nothing fails any more. In bounded time everything must be well."""
        self.is_troubled = False
        self.tell("the troubles end")
        self.network.calm()
        for client in self.clients:
            client.loss = 0.0
        for node in self.nodes.values():
            disk = node.disk
            disk.error_rate = disk.cut_rate = 0.0
            disk.is_full, disk.cut_in = False, None
            node.speed = Speed()
            node.paused_until_ns = 0
        for node in self.nodes.values():
            self._bring_back(node)
        began = self.timeline.now_ns
        self.run_until(self._is_well, CALM_NS_MAX, "the cluster does not recover")
        self._write_afresh()
        self.run_until(self._is_well, CALM_NS_MAX, "the cluster does not come to rest after a fresh write")
        took = (self.timeline.now_ns - began) // MILLISECOND_NS
        self.tally["ms until well"] += took
        self._expect_alike()
        self._is_over = True

    def _write_afresh(self) -> None:
        """A write of one who comes late, and begins anew when the table has no room for its first id."""
        client = self._make_client("fresh", list(self.nodes))
        client.whim, client.attempts_max = 0.0, 100
        for _ in range(2):
            request = client.act(Verb.PUT)
            assert request is not None
            self.run_until(lambda: not client.is_busy, CALM_NS_MAX, "a fresh write gets no answer")
            if request.returned_ns is not None:
                return
        self.fail("a fresh write is not acknowledged")

    def leader(self) -> RaftNode | None:
        """Whoever leads in the highest term, if anybody does."""
        leading = [
            node for node in self.nodes.values() if node.machine is not None and node.machine.role is Role.LEADER
        ]
        return max(leading, key=lambda node: node.machine.term if node.machine is not None else 0, default=None)

    def _is_well(self) -> bool:
        leader = self.leader()
        if leader is None or leader.machine is None:
            return False
        machine = leader.machine
        last = machine.last_index
        if machine.configuration.is_joint or machine.applied_index != last:
            return False
        for name in machine.configuration.members:
            member = self.nodes[name].machine
            if member is None or (member.last_index, member.applied_index) != (last, last):
                return False
            if name != leader.node and (member.role is Role.LEADER or member.leader != leader.node):
                return False
        return True

    def _expect_alike(self) -> None:
        """Logs and states are the same, and hold everything that was ever acknowledged."""
        leader = self.leader()
        assert leader is not None
        assert leader.machine is not None
        final = self.book.final()
        for name in leader.machine.configuration.members:
            node = self.nodes[name]
            assert node.machine is not None
            self.checker.compare_log(node.machine)
            chain = self.checker.views[name].memory.last_chain
            if chain != self.checker.views[leader.node].memory.last_chain:
                self.fail(f"the logs of {name} and {leader.node} differ in the end")
            if node.table.root != leader.table.root:
                self.fail(f"the states of {name} and {leader.node} differ in the end")
            if {item.key: item.value for item in node.table.scan()} != final:
                self.fail(f"the table of {name} is not what the requests make of it")

    # ---- small parts ----------------------------------------------------------------------------------------------

    def pass_time(self, for_ns: int) -> None:
        """Let so much time pass."""
        until = self.timeline.now_ns + max(for_ns, 0)
        self.timeline.after(max(for_ns, 0), lambda: None)
        while self.timeline.step(until_ns=until):
            self._steps += 1
            if self._steps > STEPS_MAX:
                self.fail(f"after {STEPS_MAX} steps there is no end")

    def run_until(self, is_reached: Callable[[], bool], for_ns_max: int, otherwise: str) -> None:
        """Let time pass until something is so; it must be within a bound."""
        end = self.timeline.now_ns + for_ns_max
        while not is_reached():
            if self.timeline.now_ns >= end:
                self.fail(f"{otherwise} within {for_ns_max // MILLISECOND_NS} ms")
            self.pass_time(LOOK_NS)

    def tell(self, line: str) -> None:
        if self.is_traced:
            self.trace.append(f"{self.timeline.now_ns / SECOND_NS:12.6f} {line}")

    def fail(self, message: str) -> NoReturn:
        self.tell(f"BROKEN: {message}")
        raise Broken(f"seed {self.seed}: {message}")

    def _count(self) -> None:
        tally, shape = self.tally, self.shape
        tally["worlds"] += 1
        tally[f"worlds: {shape.voters} nodes"] += 1
        for name in ("is_bytes", "is_slow", "has_bad_disks", "is_compacting", "is_changing", "is_hostile", "is_rough"):
            tally[f"worlds: {name.removeprefix('is_').removeprefix('has_')}"] += getattr(shape, name)
        tally["entries committed"] += self.checker.ledger.last
        tally["disk operations"] += sum(node.disk.operations for node in self.nodes.values())
        tally["disk errors"] += sum(node.disk.errors for node in self.nodes.values())
        tally["worlds: judging"] += shape.judge is not None
        for client in self.clients:
            tally.update(client.tally)
        tally.update(self.network.tally)
        tally["world steps"] += self._steps
        for node in self.nodes.values():
            if node.machine is not None:
                tally["snapshots taken"] += node.machine.stats.snapshots_taken
                tally["snapshots installed"] += node.machine.stats.snapshots_installed
            tally.update(node.judged)
