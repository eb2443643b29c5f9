"""One node of a simulated cluster: the real machine, the real storage on a disk that fails, the real state machine.

What a driver does, as the runtime does it, but by the world's clock: effects in order, records to the disk in groups,
three attempts at a write, snapshots on the side while writes go on, answers to whoever asked. Each life begins with
what the disk holds. Whatever was planned in an earlier life does not happen.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from hashlib import sha256
from random import Random
from typing import Final, NoReturn, Protocol, TypeAlias, assert_never

from msgspec import Struct, structs

from bobbin.cluster.key_value import Item, KeyValue
from bobbin.cluster.names import Index, NodeId
from bobbin.cluster.raft.effects import (
    Accepted,
    Alarm,
    Apply,
    ConfigurationChanged,
    DropChunks,
    Effect,
    InstallSnapshot,
    LeaderChanged,
    Persist,
    ReadReady,
    ReadSnapshot,
    Refused,
    RoleChanged,
    Send,
    StoreChunk,
    TakeSnapshot,
    TransferDone,
    WakeAt,
)
from bobbin.cluster.raft.entries import SnapshotMetadata
from bobbin.cluster.raft.events import (
    Applied,
    Event,
    Persisted,
    PersistFailed,
    Propose,
    Read,
    Received,
    SnapshotBytes,
    SnapshotFailed,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    Tick,
)
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.cluster.raft.messages import RaftMessage
from bobbin.errors import IntegrityError, ResourceError
from bobbin.simulator.circumstances import MILLISECOND_NS
from bobbin.simulator.clock import SECOND_NS, NodeClock, Timeline
from bobbin.simulator.cluster_disk import ClusterDisk, PowerCut
from bobbin.simulator.raft_checker import RaftChecker
from bobbin.simulator.raft_clients import Answer, Book
from bobbin.simulator.raft_judge import RaftJudge
from bobbin.simulator.raft_shape import Build, JudgeShape, Speed
from bobbin.store.raft_storage import RaftStorage
from bobbin.wire.cluster.commands import key_value
from bobbin.wire.cluster.snapshot_stream import decode, encode

ATTEMPTS: Final = 3
PAUSES_NS: Final = (100 * MILLISECOND_NS, 200 * MILLISECOND_NS)
"""Between the attempts at a write."""

ReplyToWrite: TypeAlias = Callable[[Answer, bytes, NodeId | None], None]
ReplyToRead: TypeAlias = Callable[[int | None, Item | None, NodeId | None], None]


class Surroundings(Protocol):
    """What a node needs of its world."""

    @property
    def timeline(self) -> Timeline: ...

    @property
    def checker(self) -> RaftChecker: ...

    @property
    def book(self) -> Book: ...

    def send(self, sender: NodeId, to: NodeId, message: RaftMessage) -> None: ...

    def tell(self, line: str) -> None: ...

    @property
    def is_traced(self) -> bool: ...

    def went_down(self, node: "RaftNode") -> None:
        """The power of a node was cut, by its disk or by somebody."""
        ...

    def heard(self, effect: Effect) -> None:
        """An effect that is for people."""
        ...

    def fail(self, message: str) -> NoReturn:
        """A promise is broken."""
        ...


class _Waiting(Struct):
    """A proposal that has its places in the log."""

    term: int
    request: int
    reply: ReplyToWrite


class RaftNode:
    """One node, over all its lives."""

    def __init__(
        self, world: Surroundings, node: NodeId, build: Build, *, clock: NodeClock, disk: ClusterDisk, random: Random
    ) -> None:
        self.node: Final = node
        self.clock: Final = clock
        self.disk: Final = disk
        self.build: Final = build
        self.speed = Speed()
        self.life = 0
        self.machine: RaftMachine | None = None
        """None while it is down."""
        self.paused_until_ns = 0
        """Nothing happens before: the process stands still."""
        self.table: KeyValue = key_value(sessions_max=build.sessions_max)
        self.applied = 0
        self.judged: Final[Counter[str]] = Counter()
        """What its judges have done, over all lives."""
        self._judge: RaftJudge | None = None
        self._world: Final = world
        self._random: Final = random
        self._storage: RaftStorage | None = None
        self._requests = 0
        self._is_damaged = False
        self._begin()

    def _begin(self) -> None:
        """Nothing is under way."""
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._queue: list[Persist] = []
        self._is_writing = False
        self._attempt = 0
        self._wake_ns: int | None = None
        self._timer_ns: int | None = None
        self._gathered: list[tuple[bytes, ReplyToWrite]] = []
        self._proposed: dict[int, list[ReplyToWrite]] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._reads: dict[int, tuple[bytes, ReplyToRead]] = {}
        self._ready: list[tuple[int, bytes, ReplyToRead]] = []
        self._is_fetch_lost = False

    @property
    def is_up(self) -> bool:
        return self.machine is not None

    # ---- lives ----------------------------------------------------------------------------------------------------

    def start(self, *, is_damaged: bool = False) -> bool:
        """Begin a life with what the disk holds; whether it could. A damaged disk raises ``IntegrityError``.

        ``is_damaged``: a bit was flipped on purpose. Storage that begins all the same says what it has lost.
        """
        assert self.machine is None, "it lives"
        self.disk.restore_power()
        self.life += 1
        self._begin()
        # A life that could not begin may have set aside what it found damaged.
        was_damaged, self._is_damaged = self._is_damaged, self._is_damaged or is_damaged
        build = self.build
        try:
            storage = RaftStorage.open(
                self.disk,
                node=self.node,
                rotate_bytes=build.rotate_bytes,
                free_bytes_min=1 << 20,
                entropy=self._random.randbytes,
            )
            recovered = storage.recovered
            self.table = key_value(sessions_max=build.sessions_max)
            if recovered.snapshot is not None:
                self.table.restore(decode(_pieces(storage, recovered.snapshot)))
        except IntegrityError:
            self._is_damaged = was_damaged
            raise
        except PowerCut:
            self._world.went_down(self)
            return False
        except ResourceError as error:
            self._world.tell(f"{self.node} cannot begin: {error}")
            return False
        self._storage = storage
        may_lack = was_damaged or (is_damaged and bool(storage.notices))
        self._is_damaged = False
        if build.judge is not None:
            self._judge = RaftJudge(
                build.judge, random=self._random, machine=lambda: self.machine, fail=self._world.fail, tally=self.judged
            )
        self.machine = RaftMachine(
            build.config,
            node=self.node,
            recovered=recovered,
            bootstrap=build.bootstrap,
            random=self._random,
            embedding=build.embedding,
            checking=build.is_checking,
            judge=self._judge,
            judged_ahead_max=(build.judge or JudgeShape()).ahead_max,
        )
        self.applied = 0 if recovered.snapshot is None else recovered.snapshot.last_index
        self._world.tell(f"{self.node} begins life {self.life}, term {recovered.term}, last {self.machine.last_index}")
        self._world.checker.restarted(self.machine, recovered, may_lack=may_lack)
        if recovered.snapshot is not None:
            self._world.checker.ledger.root(self.node, self.applied, self.table.root)
        self.step(Tick())
        return True

    def crash(self) -> None:
        """The power goes: what was not synced may be gone."""
        if not self.disk.is_down:
            self.disk.cut_power()
        self.machine = None
        self._storage = None
        self.life += 1
        self._begin()
        self._world.checker.crashed(self.node)
        self._world.tell(f"{self.node} is down")

    # ---- steps ----------------------------------------------------------------------------------------------------

    def step(self, event: Event) -> None:
        """Give the machine an event, and do what it wants. Events of effects come after all effects of their step."""
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        life = self.life
        try:
            while self._events and self.life == life:
                self._step(self._events.popleft())
        except PowerCut:
            self._world.went_down(self)
        finally:
            if self.life == life:
                self._is_stepping = False

    def _step(self, event: Event) -> None:
        machine, checker, life = self.machine, self._world.checker, self.life
        assert machine is not None
        before = checker.before_step(machine, event)
        effects = machine.step(event, now_ns=self.now_ns())
        if self._world.is_traced:
            self._trace(event, effects)
        if self._judge is not None:
            self._judge.look(effects)
        checker.look(machine, event, effects)
        if before is not None:
            checker.after_step(machine, event, before)
        for effect in effects:
            self._do(effect)
            if self.life != life:
                return
        if self._queue and not self._is_writing:
            self._begin_to_write()

    def _do(self, effect: Effect) -> None:
        match effect:
            case Send():
                assert self.machine is not None
                self._world.checker.sent(self.machine, effect.to, effect.message)
                self._world.send(self.node, effect.to, effect.message)
            case WakeAt():
                self._wake(effect.at_ns)
            case Persist():
                self._queue.append(effect)
            case Apply():
                self._apply(effect)
            case Accepted():
                self._accepted(effect)
            case Refused():
                self._refused(effect)
            case ReadReady():
                key, reply_to_read = self._reads.pop(effect.request)
                self._ready.append((effect.index, key, reply_to_read))
                self._answer_reads()
            case TakeSnapshot():
                self._take_snapshot(effect)
            case ReadSnapshot():
                self._read_snapshot(effect)
            case StoreChunk():
                self._store_chunk(effect)
            case DropChunks():
                assert self._storage is not None
                self._storage.drop_fetch()
            case InstallSnapshot():
                self._install(effect)
            case TransferDone() | RoleChanged() | LeaderChanged() | ConfigurationChanged() | Alarm():
                self._world.heard(effect)
            case _:
                assert_never(effect)

    def receive(self, sender: NodeId, message: RaftMessage) -> None:
        """A message arrives; at a node that is down it is lost, at one that stands still it waits."""
        if self.machine is None:
            return
        now = self._world.timeline.now_ns
        if now < self.paused_until_ns:
            self._later(self.paused_until_ns - now, lambda: self.receive(sender, message))
            return
        self.step(Received(sender, message))

    def _later(self, delay_ns: int, action: Callable[[], None]) -> None:
        """Something that this life is going to do."""
        life = self.life

        def act() -> None:
            if self.life == life:
                try:
                    action()
                except PowerCut:
                    self._world.went_down(self)

        self._world.timeline.after(delay_ns, act)

    def now_ns(self) -> int:
        """By the clock that only goes forward."""
        return self.clock.read().monotonic_ns

    # ---- time -----------------------------------------------------------------------------------------------------

    def _wake(self, at_ns: int) -> None:
        self._wake_ns = at_ns
        if self._timer_ns is None or at_ns < self._timer_ns:
            self._set_timer(at_ns)

    def _set_timer(self, at_ns: int) -> None:
        self._timer_ns = at_ns
        self._later(self.clock.delay_until(at_ns), lambda: self._ring(at_ns))

    def _ring(self, at_ns: int) -> None:
        if self._timer_ns != at_ns:
            return
        now = self._world.timeline.now_ns
        if now < self.paused_until_ns:
            self._later(self.paused_until_ns - now, lambda: self._ring(at_ns))
            return
        self._timer_ns = None
        if self._wake_ns is None:
            return
        if self._wake_ns > self.now_ns():
            self._set_timer(self._wake_ns)
            return
        self._wake_ns = None
        self.step(Tick())

    # ---- the disk -------------------------------------------------------------------------------------------------

    def _begin_to_write(self) -> None:
        self._is_writing = True
        if self.speed.write_ns_max:
            self._later(self._random.randrange(self.speed.write_ns_max), self._write)
        else:
            self._write()

    def _write(self) -> None:
        """Everything that waits, in one group."""
        storage, checker = self._storage, self._world.checker
        assert storage is not None
        group, self._queue = self._queue, []
        records = [record for persist in group for record in persist.records]
        checker.handed(self.node, records)
        try:
            storage.append(records)
            storage.sync()
        except ResourceError as error:
            checker.not_synced(self.node)
            self._write_failed(group, error)
            return
        checker.synced(self.node)
        self._attempt = 0
        token = group[-1].token
        if self.speed.answer_ns_max:
            self._later(self._random.randrange(self.speed.answer_ns_max), lambda: self._written(token))
        else:
            self._written(token)

    def _written(self, token: int) -> None:
        self._is_writing = False
        self.step(Persisted(token))
        if self._queue and not self._is_writing and not self._is_stepping:
            self._begin_to_write()

    def _write_failed(self, group: list[Persist], error: ResourceError) -> None:
        self._attempt += 1
        self._world.tell(f"{self.node} could not write, attempt {self._attempt}: {error}")
        if self._attempt < ATTEMPTS:
            self._queue = [*group, *self._queue]
            self._later(PAUSES_NS[self._attempt - 1], self._write)
            return
        self._attempt = 0
        self._queue.clear()
        self._is_writing = False
        self.step(PersistFailed(group[0].token, str(error)))

    # ---- the state machine ----------------------------------------------------------------------------------------

    def _apply(self, effect: Apply) -> None:
        checker, book = self._world.checker, self._world.book
        checker.given(self.node, effect.entries)
        for entry in effect.entries:
            result: bytes | None = None
            if isinstance(entry.payload, bytes):
                result = self.table.apply(entry.index, entry.term, entry.payload)
                if entry.index >= len(checker.ledger.results):
                    book.applied(entry.index, entry.payload, result)
                checker.ledger.result(self.node, entry.index, result)
            waiting = self._waiting.pop(entry.index, None)
            if waiting is not None:
                if waiting.term == entry.term and result is not None:
                    waiting.reply(Answer.DONE, result, self.node)
                else:
                    waiting.reply(Answer.LOST, b"", None)
        self.applied = effect.entries[-1].index
        checker.ledger.root(self.node, self.applied, self.table.root)
        self._answer_reads()
        self.step(Applied(Index(self.applied)))

    def propose(self, payload: bytes, reply: ReplyToWrite) -> None:
        """A client's write."""
        if self.machine is None or self._world.timeline.now_ns < self.paused_until_ns:
            return
        self._gathered.append((payload, reply))
        if not self.build.gather_ns:
            self._propose_gathered()
        elif len(self._gathered) == 1:
            self._later(self.build.gather_ns, self._propose_gathered)

    def _propose_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._requests += 1
        self._proposed[self._requests] = [reply for _, reply in gathered]
        self.step(Propose(self._requests, tuple(payload for payload, _ in gathered)))

    def read(self, key: bytes, reply: ReplyToRead) -> None:
        """A client's read."""
        if self.machine is None or self._world.timeline.now_ns < self.paused_until_ns:
            return
        self._requests += 1
        self._reads[self._requests] = (key, reply)
        self.step(Read(self._requests))

    def ask(self, make: Callable[[int], Event]) -> None:
        """Something that an operator wants; ``make`` gets the number of the request."""
        if self.machine is not None and self._world.timeline.now_ns >= self.paused_until_ns:
            self._requests += 1
            self.step(make(self._requests))

    def _accepted(self, effect: Accepted) -> None:
        replies = self._proposed.pop(effect.request, None)
        if replies is None:
            self._world.heard(effect)
            return
        assert len(replies) == effect.count, "all or none"
        for place, reply in enumerate(replies):
            self._waiting[effect.first_index + place] = _Waiting(effect.term, effect.request, reply)

    def _refused(self, effect: Refused) -> None:
        if (replies := self._proposed.pop(effect.request, None)) is not None:
            for reply in replies:
                reply(Answer.REFUSED, b"", effect.leader)
            return
        if (read := self._reads.pop(effect.request, None)) is not None:
            read[1](None, None, effect.leader)
            return
        denied = [index for index, waiting in self._waiting.items() if waiting.request == effect.request]
        for index in denied:
            # It had a place, and now it is said that it will not be done.
            waiting = self._waiting.pop(index)
            self._world.checker.ledger.deny(self.node, index, waiting.term)
            waiting.reply(Answer.REFUSED, b"", effect.leader)
        if not denied:
            self._world.heard(effect)

    def _answer_reads(self) -> None:
        if not self._ready:
            return
        waiting = []
        for index, key, reply in self._ready:
            if index <= self.applied:
                reply(self.applied, self.table.get(key), self.node)
            else:
                waiting.append((index, key, reply))
        self._ready = waiting

    # ---- snapshots ------------------------------------------------------------------------------------------------

    def _take_snapshot(self, effect: TakeSnapshot) -> None:
        assert effect.index == self.applied, f"a snapshot at {effect.index} of a state at {self.applied}"
        capture = self.table.snapshot()
        if not self.speed.snapshot_ns_max:
            self._keep_snapshot(effect, encode(capture))
            return
        # Iterated only when it is written, while the table moves on.
        self._later(
            self._random.randrange(self.speed.snapshot_ns_max), lambda: self._keep_snapshot(effect, encode(capture))
        )

    def _keep_snapshot(self, effect: TakeSnapshot, stream: Iterator[bytes]) -> None:
        storage, checker = self._storage, self._world.checker
        assert storage is not None
        wanted = SnapshotMetadata(
            last_index=effect.index,
            last_term=effect.term,
            sha256=b"",
            size=0,
            configuration=effect.configuration,
            created_s=self.clock.read().tai_ns // SECOND_NS,
            epoch=effect.epoch,
        )
        pieces = b"".join(stream)
        whole = structs.replace(wanted, sha256=sha256(pieces).digest(), size=len(pieces))
        checker.snapshot_kept(self.node, whole)
        try:
            metadata = storage.write_snapshot((pieces,), wanted)
        except ResourceError as error:
            self.step(SnapshotFailed(str(error)))
            return
        assert metadata == whole, "a snapshot is what it was given"
        checker.snapshot_durable(self.node, metadata)
        self.step(SnapshotTaken(metadata))

    def _read_snapshot(self, effect: ReadSnapshot) -> None:
        assert self._storage is not None
        data: bytes | None = None
        try:
            reader = self._storage.open_snapshot(effect.sha256)
            if reader is not None:
                data = reader.read(effect.offset, effect.size)
                reader.close()
        except ResourceError as error:
            self._world.tell(f"{self.node} cannot read a snapshot: {error}")
        self.step(SnapshotBytes(effect.to, effect.sha256, effect.offset, data))

    def _store_chunk(self, effect: StoreChunk) -> None:
        assert self._storage is not None
        if effect.offset == 0:
            self._is_fetch_lost = False
        try:
            if effect.offset == 0:
                self._storage.begin_fetch(effect.metadata)
            if not self._is_fetch_lost:
                self._storage.write_chunk(effect.offset, effect.data)
        except ResourceError as error:
            self._world.tell(f"{self.node} cannot keep a chunk: {error}")
            self._is_fetch_lost = True

    def _install(self, effect: InstallSnapshot) -> None:
        storage, checker, metadata = self._storage, self._world.checker, effect.metadata
        assert storage is not None
        try:
            if self._is_fetch_lost:
                raise ResourceError("a chunk could not be kept", retry=True)
            checker.snapshot_kept(self.node, metadata)
            storage.finish_fetch(metadata)
            checker.snapshot_durable(self.node, metadata)
            self.table.restore(decode(_pieces(storage, metadata)))
        except (IntegrityError, ResourceError) as error:
            self._world.tell(f"{self.node} refuses a snapshot: {error}")
            self.step(SnapshotRefused(metadata, str(error)))
            return
        self.applied = metadata.last_index
        checker.ledger.root(self.node, self.applied, self.table.root)
        self._answer_reads()
        assert self.machine is not None
        self.machine.forget_judged()
        self.step(SnapshotInstalled(metadata))

    # ---- for people -----------------------------------------------------------------------------------------------

    def _trace(self, event: Event, effects: list[Effect]) -> None:
        self._world.tell(f"{self.node} {event} -> {effects}")


def _pieces(storage: RaftStorage, metadata: SnapshotMetadata) -> Iterator[bytes]:
    """The bytes of a durable snapshot."""
    reader = storage.open_snapshot(metadata.sha256)
    if reader is None:
        raise IntegrityError(f"the snapshot of {metadata.last_index} is gone")
    try:
        yield reader.read(0, metadata.size)
    finally:
        reader.close()
