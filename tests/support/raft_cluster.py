"""Raft machines in one process, for tests: a network that is a list, a disk that obeys at once or when told to.

Nothing happens by itself. ``deliver`` lets messages and answers of disks run until nothing is left, ``run`` lets time
pass as well. Every machine checks itself after every step,
unless a test asks for speed.
"""

from collections import deque
from collections.abc import Callable, Iterable
from hashlib import sha256
from random import Random

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.raft.effects import (
    Append,
    Apply,
    Cut,
    DropChunks,
    DurableRecord,
    Effect,
    HardState,
    InstallSnapshot,
    Persist,
    ReadSnapshot,
    Reset,
    Role,
    Send,
    StoreChunk,
    TakeSnapshot,
    Truncate,
    WakeAt,
)
from bobbin.cluster.raft.entries import Configuration, Entry, SnapshotMetadata
from bobbin.cluster.raft.events import (
    Applied,
    Event,
    Persisted,
    PersistFailed,
    Propose,
    Received,
    Recovered,
    SnapshotBytes,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    Tick,
)
from bobbin.cluster.raft.judging import Judge
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.cluster.raft.messages import RaftMessage
from bobbin.cluster.settings import RaftConfig

Mail = tuple[NodeId, NodeId, RaftMessage]
"""Sender, receiver, message."""

ROUNDS_MAX = 100
"""Ticks at one moment."""

PLAIN = RaftConfig(enable_geometric_tiebreak=False)


def name(letter: str) -> NodeId:
    """A node of a test: its letter stands for its id."""
    return NodeId(letter)


def names(letters: str) -> tuple[NodeId, ...]:
    return tuple(NodeId(letter) for letter in letters)


class Disk:
    """What would survive a crash, and what is on its way there."""

    def __init__(self) -> None:
        self.term = Term(0)
        self.voted_for: NodeId | None = None
        self.entries: list[Entry] = []
        self.snapshot: SnapshotMetadata | None = None
        self.pending: list[Persist] = []
        self.is_slow = False
        """Nothing becomes durable before ``flush``."""

    def write(self, records: Iterable[DurableRecord]) -> None:
        for record in records:
            match record:
                case HardState(term, voted_for):
                    assert term >= self.term, "the durable term never falls"
                    assert term > self.term or self.voted_for in {None, voted_for}, "a durable vote stays"
                    self.term, self.voted_for = term, voted_for
                case Append(entries):
                    first = self.entries[0].index if self.entries else self._base + 1
                    assert entries[0].index == first + len(self.entries), "appended without a gap"
                    self.entries.extend(entries)
                case Truncate(from_index):
                    self.entries = [entry for entry in self.entries if entry.index < from_index]
                case Cut(first_index, metadata):
                    assert self.snapshot is not None
                    assert self.snapshot.last_index >= metadata.last_index, "cut by a snapshot that is durable"
                    self.entries = [entry for entry in self.entries if entry.index >= first_index]
                case Reset():
                    self.entries = []

    @property
    def _base(self) -> int:
        return 0 if self.snapshot is None else self.snapshot.last_index

    def recovered(self) -> Recovered:
        return Recovered(term=self.term, voted_for=self.voted_for, snapshot=self.snapshot, entries=tuple(self.entries))


class Member:
    """One node: its machine, its disk, its state machine, and everything it ever wanted done."""

    def __init__(self, node: NodeId, bootstrap: Configuration | None) -> None:
        self.node = node
        self.bootstrap = bootstrap
        self.disk = Disk()
        self.machine: RaftMachine | None = None
        self.effects: list[Effect] = []
        self.applied: list[bytes] = []
        """The state machine: the commands in order."""
        self.wake_ns: int | None = None
        self.snapshots: dict[bytes, bytes] = {}
        self.fetched = b""

    def all(self, kind: type[Effect]) -> list[Effect]:
        return [effect for effect in self.effects if isinstance(effect, kind)]


class RaftCluster:
    """Some nodes of one cluster, and a clock."""

    def __init__(
        self,
        letters: str = "abc",
        *,
        config: RaftConfig = PLAIN,
        learners: str = "",
        outside: str = "",
        seed: int = 0,
        embeddings: dict[str, Embedding] | None = None,
        checking: bool = True,
        judge: Judge | None = None,
    ) -> None:
        """``judge``: of every node, so a test with one has one node that hears."""
        self.config = config
        self.judge = judge
        self.checking = checking
        self.now_ns = 0
        self.mail: list[Mail] = []
        self.answers: deque[tuple[NodeId, Event]] = deque()
        self.cut_off: set[NodeId] = set()
        self.lost: Callable[[Mail], bool] = lambda _: False
        self.random = Random(seed)
        self.bootstrap = Configuration(names(letters), names(learners))
        self.embeddings = {NodeId(letter): place for letter, place in (embeddings or {}).items()}
        self.members: dict[NodeId, Member] = {}
        self.request = 0
        for node in names(letters + learners + outside):
            self.members[node] = Member(node, None if node in outside else self.bootstrap)
            self.start(node)

    # ---- one node -------------------------------------------------------------------------------------------------

    def start(self, node: str) -> RaftMachine:
        """Begin, or begin again, with what is on the disk."""
        member = self.members[NodeId(node)]
        member.machine = RaftMachine(
            self.config,
            node=member.node,
            recovered=member.disk.recovered(),
            bootstrap=member.bootstrap,
            random=Random(self.random.getrandbits(64)),
            embedding=self.embeddings.get(member.node),
            embeddings={other: place for other, place in self.embeddings.items() if other != member.node},
            checking=self.checking,
            judge=self.judge,
        )
        snapshot = member.disk.snapshot
        member.applied = [] if snapshot is None else unpacked(member.snapshots[snapshot.sha256])
        member.wake_ns = None
        self.step(node, Tick())
        return member.machine

    def crash(self, node: str) -> None:
        """The node is gone, with everything that was not durable."""
        member = self.members[NodeId(node)]
        member.machine = None
        member.wake_ns = None
        member.disk.pending.clear()
        member.fetched = b""
        self.answers = deque((to, event) for to, event in self.answers if to != node)

    def machine(self, node: str) -> RaftMachine:
        machine = self.members[NodeId(node)].machine
        assert machine is not None, f"{node} is down"
        return machine

    def role(self, node: str) -> Role:
        return self.machine(node).role

    def step(self, node: str, event: Event) -> list[Effect]:
        """One step of one node; messages are put into the mail, and disks answer when ``deliver`` is called."""
        member = self.members[NodeId(node)]
        if member.machine is None:
            return []
        effects = member.machine.step(event, now_ns=self.now_ns)
        member.effects += effects
        for effect in effects:
            self._perform(member, effect)
        return effects

    def hear(self, node: str, sender: str, message: RaftMessage) -> list[Effect]:
        """Give a node a message, whoever may have sent it; its disk answers at once unless it is slow."""
        member = self.members[NodeId(node)]
        before = len(member.effects)
        self.step(node, Received(NodeId(sender), message))
        self.answer_disks(node)
        return member.effects[before:]

    def answer_disks(self, node: str | None = None) -> None:
        """Let what disks and state machines have to say be heard."""
        while any(node is None or to == node for to, _ in self.answers):
            place = next(at for at, (to, _) in enumerate(self.answers) if node is None or to == node)
            to, event = self.answers[place]
            del self.answers[place]
            self.step(to, event)

    def said(self, node: str, kind: type[RaftMessage]) -> list[RaftMessage]:
        """Every message of one kind that a node has sent, oldest first."""
        effects = self.members[NodeId(node)].effects
        return [effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]

    # ---- disks ----------------------------------------------------------------------------------------------------

    def flush(self, node: str) -> None:
        """Make durable what waits."""
        member = self.members[NodeId(node)]
        for persist in member.disk.pending:
            member.disk.write(persist.records)
        if member.disk.pending:
            token = member.disk.pending[-1].token
            member.disk.pending.clear()
            self.step(node, Persisted(token))

    def fail_disk(self, node: str, token: int | None = None) -> list[Effect]:
        """What waits, from a token on, never becomes durable."""
        member = self.members[NodeId(node)]
        first = token if token is not None else member.disk.pending[0].token
        member.disk.pending = [persist for persist in member.disk.pending if persist.token < first]
        return self.step(node, PersistFailed(first, "no space left"))

    # ---- the network and time -------------------------------------------------------------------------------------

    def isolate(self, *nodes: str) -> None:
        self.cut_off.update(NodeId(node) for node in nodes)

    def heal(self) -> None:
        self.cut_off.clear()

    def deliver(self, steps_max: int = 10_000) -> None:
        """Let everything that is under way arrive, and what follows from it, without time passing."""
        for _ in range(steps_max):
            if self.answers:
                self.answer_disks()
            elif self.mail:
                sender, to, message = self.mail.pop(0)
                if not self.lost((sender, to, message)) and not {sender, to} & self.cut_off and to in self.members:
                    self.step(to, Received(sender, message))
            else:
                return
        raise AssertionError("the cluster does not come to rest")

    def run(self, milliseconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass; whether ``until`` came true."""
        end_ns = self.now_ns + int(milliseconds * MILLISECOND_NS)
        self.deliver()
        moved_ns, rounds = self.now_ns, 0
        while until is None or not until():
            rounds = 0 if self.now_ns > moved_ns else rounds + 1
            moved_ns = self.now_ns
            assert rounds < ROUNDS_MAX, "a node asks for tick after tick, and time does not pass"
            wakes = [m.wake_ns for m in self.members.values() if m.wake_ns is not None and m.machine is not None]
            due_ns = max(self.now_ns, min(wakes, default=end_ns + 1))
            if due_ns > end_ns:
                self.now_ns = end_ns
                return until is not None and until()
            self.now_ns = due_ns
            for member in list(self.members.values()):
                if member.machine is not None and member.wake_ns is not None and member.wake_ns <= due_ns:
                    self.step(member.node, Tick())
            self.deliver()
        return True

    def wait(self, node: str) -> None:
        """Time passes for one node alone, until it would stand for election."""
        deadline_ns = self.machine(node).election_deadline_ns
        assert deadline_ns is not None
        self.now_ns = max(self.now_ns, deadline_ns)
        self.step(node, Tick())

    def elect(self, node: str) -> RaftMachine:
        """Make a node the leader: it alone loses its patience."""
        self.now_ns += self.config.election_timeout[1] * MILLISECOND_NS
        self.wait(node)
        self.deliver()
        assert self.machine(node).role is Role.LEADER, f"{node} was not elected"
        return self.machine(node)

    def beat(self) -> None:
        """Time passes until the leaders have sent heartbeats, and they are answered."""
        self.now_ns += self.config.heartbeat_interval * MILLISECOND_NS
        for member in self.members.values():
            if member.machine is not None and member.machine.role is Role.LEADER:
                self.step(member.node, Tick())
        self.deliver()

    def leaders(self) -> list[NodeId]:
        return [m.node for m in self.members.values() if m.machine is not None and m.machine.role is Role.LEADER]

    def leader(self) -> NodeId | None:
        """The leader of the highest term, if there is one."""
        terms = {self.machine(node).term: node for node in self.leaders()}
        return terms[max(terms)] if terms else None

    def propose(self, node: str, *commands: bytes) -> list[Effect]:
        self.request += 1
        return self.step(node, Propose(self.request, commands))

    # ---- effects --------------------------------------------------------------------------------------------------

    def _perform(self, member: Member, effect: Effect) -> None:
        disk = member.disk
        match effect:
            case Persist(token):
                disk.pending.append(effect)
                if not disk.is_slow:
                    for persist in disk.pending:
                        disk.write(persist.records)
                    disk.pending.clear()
                    self.answers.append((member.node, Persisted(token)))
            case Send(to, message):
                self.mail.append((member.node, to, message))
            case Apply(entries):
                member.applied += [entry.payload for entry in entries if isinstance(entry.payload, bytes)]
                self.answers.append((member.node, Applied(entries[-1].index)))
            case WakeAt(at_ns):
                member.wake_ns = at_ns
            case _:
                self._perform_snapshot(member, effect)

    def _perform_snapshot(self, member: Member, effect: Effect) -> None:
        match effect:
            case TakeSnapshot(index, term, configuration, epoch):
                data = packed(member.applied)
                metadata = metadata_of(data, index=index, term=term, configuration=configuration, epoch=epoch)
                member.snapshots[metadata.sha256] = data
                member.disk.snapshot = metadata
                self.answers.append((member.node, SnapshotTaken(metadata)))
            case ReadSnapshot(to, digest, offset, size):
                found = member.snapshots.get(digest)
                chunk = None if found is None else found[offset : offset + size]
                self.answers.append((member.node, SnapshotBytes(to, digest, offset, chunk)))
            case StoreChunk(_, offset, chunk):
                member.fetched = chunk if offset == 0 else member.fetched + chunk
            case DropChunks():
                member.fetched = b""
            case InstallSnapshot(metadata):
                self.answers.append((member.node, self._install(member, metadata)))
            case _:
                pass

    @staticmethod
    def _install(member: Member, metadata: SnapshotMetadata) -> Event:
        data, member.fetched = member.fetched, b""
        if sha256(data).digest() != metadata.sha256:
            return SnapshotRefused(metadata, "wrong hash")
        member.snapshots[metadata.sha256] = data
        disk = member.disk
        disk.snapshot = metadata
        member.applied = unpacked(data)
        return SnapshotInstalled(metadata)


def packed(commands: list[bytes]) -> bytes:
    """A snapshot of the state machine of these tests."""
    return b"SNAP" + b"".join(len(command).to_bytes(4, "little") + command for command in commands)


def unpacked(data: bytes) -> list[bytes]:
    commands, at = [], 4
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        commands.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return commands


def metadata_of(
    data: bytes, *, index: int, term: int, configuration: Configuration, epoch: int = 1
) -> SnapshotMetadata:
    return SnapshotMetadata(
        last_index=Index(index),
        last_term=Term(term),
        sha256=sha256(data).digest(),
        size=len(data),
        configuration=configuration,
        created_s=0,
        epoch=epoch,
    )


def entry(term: int, index: int, payload: bytes | Configuration | None = b"x") -> Entry:
    return Entry(Term(term), Index(index), payload)


def entries(*terms: int, first: int = 1) -> tuple[Entry, ...]:
    """A log of these terms, with commands that name their place."""
    return tuple(entry(term, index, f"{term}.{index}".encode()) for index, term in enumerate(terms, first))
