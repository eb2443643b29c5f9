"""A node of a cluster: the raft machine, the membership machine, the disk, the state and the channels, put together.

Everything but the disk is done in one event loop. A machine hears one event at a time; what it wants is done in its
order. The disk has a thread (``cluster_disk``), snapshots have another (``cluster_snapshots``); both only post what
came of it. Ticks, applying, gossip, probes, checks of the quorum, compaction and tidying run by themselves (CL-376).

What always holds: nothing comes to a machine that did not come through the gateway; nothing that rests on a record
leaves before the record is durable; a node that finds its committed data to differ from the leader's, or that breaks a
rule of its own, stops and says why, and takes part in nothing from then on.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random, SystemRandom
from time import monotonic_ns, time_ns
from typing import Final, get_args

from structlog.typing import FilteringBoundLogger

from bobbin.cluster.composite import Source
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.identity import embedding_of
from bobbin.cluster.membership.effects import Flapping, Healed, HealthChanged
from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.cluster.membership.messages import GossipMessage
from bobbin.cluster.monitoring import ClusterMetrics, Reading
from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId
from bobbin.cluster.raft import effects, events
from bobbin.cluster.raft.effects import Effect, Role
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.judging import Judge
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.cluster.raft.messages import RaftMessage
from bobbin.errors import BobbinError, IntegrityError
from bobbin.runtime import cluster_figures, cluster_status
from bobbin.runtime.cluster_alarms import Alarms
from bobbin.runtime.cluster_attachment import Attachment, Attachments
from bobbin.runtime.cluster_audit import Audit, configuration_text
from bobbin.runtime.cluster_certificate import Credentials, public_key
from bobbin.runtime.cluster_channels import Channels
from bobbin.runtime.cluster_clock import Wake
from bobbin.runtime.cluster_disk import QUICK_NS_MAX, Disk
from bobbin.runtime.cluster_gossip import Gossip
from bobbin.runtime.cluster_kept import KeptMembers, Tell
from bobbin.runtime.cluster_members import Directory, KnownMembers
from bobbin.runtime.cluster_operations import Operations
from bobbin.runtime.cluster_peers import Peers
from bobbin.runtime.cluster_port import Port
from bobbin.runtime.cluster_requests import Requests
from bobbin.runtime.cluster_settings import ClusterSettings
from bobbin.runtime.cluster_snapshots import SnapshotWork
from bobbin.runtime.cluster_state import State
from bobbin.store.raft_storage import RaftStorage
from bobbin.wire.cluster.client import Answer, Operation, Report, Request

TIDY_SECONDS: Final = 0.5
_GOSSIP: Final = frozenset(get_args(GossipMessage))


class Halted(IntegrityError):
    """The node has stopped, since it cannot be trusted any more. Somebody has to look."""


class _Nobody:
    """Does not wait for an answer."""

    def answer(self, answer: Answer) -> None: ...


class ClusterNode:
    """One node, running. Made with what its folder holds; ``start`` and ``stop`` are each called once."""

    def __init__(
        self,
        settings: ClusterSettings,
        own: Credentials,
        node: NodeId,
        known: KnownMembers,
        storage: RaftStorage,
        *,
        audit: Audit,
        log: FilteringBoundLogger,
        remember: Callable[[KnownMembers], None] = lambda _: None,
        random: Random | None = None,
        checking: bool = False,
        sources: Sequence[Source] = (),
        attachments: Sequence[Attachment] = (),
        judge: Judge | None = None,
    ) -> None:
        """Made in an event loop. ``remember`` keeps who is known for the next start; it is called in another thread.

        ``sources`` are of the state machines beside the table. All nodes of a cluster have the same ones. ``judge``
        looks at what a leader sends before it is taken.
        """
        self.settings: Final = settings
        self.node: Final = node
        self.audit: Final = audit
        self.alarms: Final = Alarms(node, audit, log, monotonic_ns)
        self.metrics: Final = ClusterMetrics()
        self.address = settings.listen
        """Where it really listens, once it does."""
        self._storage: Final = storage
        self._log: Final = log
        self._loop: Final = asyncio.get_running_loop()
        self.over: Final[asyncio.Future[None]] = self._loop.create_future()
        """Fails with ``Halted`` when the node cannot go on."""
        self.over.add_done_callback(lambda over: over.cancelled() or over.exception())
        random = SystemRandom() if random is None else random
        embedding = own.identity.embedding
        self.state: Final = State(known=known, checkpoint_entries=settings.checkpoint_entries, sources=sources)
        self.machine: Final = RaftMachine(
            settings.raft,
            node=node,
            recovered=storage.recovered,
            bootstrap=settings.bootstrap,
            random=random,
            embedding=embedding,
            checking=checking,
            judge=judge,
        )
        self._directory: Directory = self.state.directory
        self._restored_index = Index(0)
        """What the snapshot that it started with stands in for."""
        self.disk: Final = self._make_disk()
        self._kept: Final = KeptMembers(known, remember, self.disk, log)
        self.requests: Final = Requests(
            self, settings.clients, clock=self._loop.time, command_bytes_max=settings.raft.command_bytes_max
        )
        self.operations: Final = Operations(
            self, self.requests, settings.clients, lag_max=settings.raft.learner_lag_max, now_ms=_wall_ms
        )
        self.peers: Final = self._make_peers(own, sources)
        self.channels: Final = self._make_channels(own)
        self.snapshots: Final = self._make_snapshots()
        self.gossip: Final = self._make_gossip(random, embedding, checking=checking)
        self._events: Final[deque[events.Event]] = deque()
        self._unapplied: Final[deque[effects.Apply]] = deque()
        """Committed, and to be applied when everything else is done that is at hand; empty between two feeds."""
        self._is_stepping = False
        self._wake: Final = Wake(partial(self.feed, events.Tick()))
        self._handlers: Final = self._make_handlers()
        self._changes_seen = 0
        self._configured: tuple[Configuration, Index, bool] = self.machine.configuration, Index(0), True
        self._is_out = False
        """Whether this node has seen itself removed, and not come back."""
        self._led_by: NodeId | None = None
        self._tidying: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self._attached: Final = Attachments(self, attachments)

    def _make_disk(self) -> Disk:
        return Disk(
            self._storage,
            post=self._loop.call_soon_threadsafe,
            hear=self.feed,
            broke=partial(self._broke, "the disk's thread"),
            took=partial(self.metrics.time, "sync"),
            quick_ns_max=QUICK_NS_MAX,
        )

    def _make_peers(self, own: Credentials, sources: Sequence[Source]) -> Peers:
        return Peers(
            self.settings,
            own,
            self.node,
            boot_id=self._storage.boot_id,
            hear=self._hear,
            log=self._log,
            own_term=lambda: self.machine.term,
            kinds=[tag for source in sources for tag in source.tags],
        )

    def _make_gossip(self, random: Random, embedding: Embedding, *, checking: bool) -> Gossip:
        machine = MembershipMachine(
            self.settings.gossip,
            node=self.node,
            incarnation=self._storage.incarnation,
            peers=self._gossip_peers(),
            random=random,
            embedding=embedding,
            checking=checking,
        )
        return Gossip(machine, say=self.peers.send, keep=self._keep_incarnation, notice=self._notice)

    def _make_channels(self, own: Credentials) -> Channels:
        return Channels(
            own,
            self._directory,
            self.requests,
            self.settings.clients,
            serve_peer=self.peers.serve,
            log=self._log,
            key_bytes_max=self.settings.validation.max_key_len,
        )

    def _make_snapshots(self) -> SnapshotWork:
        return SnapshotWork(
            self._storage,
            self.state,
            post=self._loop.call_soon_threadsafe,
            feed=self.feed,
            skipped=self._restored,
            broke=partial(self._broke, "the work with snapshots"),
        )

    # ---- starting and stopping --------------------------------------------------------------------------------------

    async def start(self, socket: Path | None = None) -> None:
        """Restore the state, listen, and take part. ``socket`` is where the operator of this machine asks.

        Raises ``TransportError`` where it cannot listen, and ``IntegrityError`` for a snapshot that cannot be read.
        """
        self.disk.start()
        try:
            if (snapshot := self.machine.snapshot) is not None:
                machines = await asyncio.to_thread(self.snapshots.read_machines, snapshot)
                self.state.restore(machines, snapshot.last_index)
            self._restored_index = self.state.index
            self._attached.restored(self.state.index)
            self.address = await self.channels.open(self.settings.listen, socket)
        except BaseException:
            await self.stop()
            raise
        for notice in self._storage.notices:
            self._log.warning("storage-notice", code=notice.code.value, detail=notice.detail)
        where, term = str(self.address), self.machine.term
        self._log.info("node-started", node=self.node, listening=where, term=term, boot=self._storage.boot_id)
        voters = len(self.machine.configuration.voters)
        if voters and voters % 2 == 0:
            self.alarm("even-voters", f"{voters} voters bear no more failures than one fewer would")
        self._take_directory()
        self.peers.know(self._directory)
        self.gossip.start()
        self.feed(events.Tick())
        self._tidying = self._loop.call_later(TIDY_SECONDS, self._tidy)

    async def stop(self) -> None:
        """Take no more, answer what is open, and let go of everything. A second call does nothing."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._log.info("node-stopping", node=self.node)
        if self._tidying is not None:
            self._tidying.cancel()
        await self.channels.shut()
        self._wake.stop()
        self.gossip.stop()
        await self._attached.close()
        await self.operations.close()
        self.requests.close()
        await asyncio.sleep(0)  # so that the answers are on their way
        await self.channels.close()
        await self.peers.close()
        await asyncio.to_thread(self.disk.stop)
        await asyncio.to_thread(self.snapshots.close)
        self.over.cancel()
        await asyncio.to_thread(self._storage.close)
        self.state.close()
        self._log.info("node-stopped", node=self.node)

    def halt(self, why: str) -> None:
        """Take part in nothing any more, and say so. What is open is answered when the node is stopped."""
        if self.over.done():
            return
        self.audit.note("halt", self.machine.role.value, "halted", detail=why)
        self._log.error("node-halted", node=self.node, detail=why)
        self.over.set_exception(Halted(why))
        self._events.clear()
        self._unapplied.clear()
        self._wake.stop()
        self.gossip.stop()
        self._attached.follow()

    def _broke(self, what: str, error: BaseException) -> None:
        """Something ended that the machine counts on: without it the node would lead or follow in name only."""
        self._log.error("node-crashed", node=self.node, detail=what, exc_info=error)
        self.halt(f"{what} broke: {type(error).__name__}: {error}")

    # ---- the raft machine -------------------------------------------------------------------------------------------

    def feed(self, event: events.Event) -> None:
        """Let the machine hear something, and do what it wants; in turn, if it is hearing something just now."""
        pending = self._events
        pending.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        machine, over, unapplied = self.machine, self.over, self._unapplied
        try:
            while (pending or unapplied) and not over.done():
                if pending:
                    self._do(machine.step(pending.popleft(), now_ns=monotonic_ns()))
                else:
                    self._apply(unapplied.popleft())
        except Exception as error:  # noqa: BLE001 -- whatever breaks here, its word is worth nothing any more
            if not isinstance(error, IntegrityError):
                self._log.exception("node-crashed", node=self.node)
            self.halt(str(error) or type(error).__name__)
        finally:
            self._is_stepping = False
        if self.state.changes != self._changes_seen:
            self._take_directory()

    def _do(self, wanted: Sequence[Effect]) -> None:
        """What one step wants, in its order, but for two things that others need not wait for.

        What a step sends does not rest on what it persists, so others may begin before our own disk. And what was
        committed is applied when everything else is done that is at hand: most often a follower hears of it together
        with what it has to acknowledge, and many wait for that. Whatever comes after it in the order and is more than
        writing, sending and a timer finds it applied.
        """
        handlers, unapplied = self._handlers, self._unapplied
        persist: effects.Persist | None = None
        for effect in wanted:
            kind = type(effect)
            if kind is effects.Persist:
                assert isinstance(effect, effects.Persist)
                persist = effect
                continue
            if kind is effects.Send:
                handlers[kind](effect)
                continue
            if persist is not None:
                self.disk.persist(persist)
                persist = None
            if kind is effects.Apply:
                assert isinstance(effect, effects.Apply)
                unapplied.append(effect)
                continue
            while unapplied and kind is not effects.WakeAt:
                self._apply(unapplied.popleft())
            handlers[kind](effect)
        if persist is not None:
            self.disk.persist(persist)

    def _make_handlers(self) -> dict[type[Effect], Callable[..., None]]:
        return {
            effects.Send: self._send,
            effects.Accepted: self.requests.accepted,
            effects.Refused: self.requests.refused,
            effects.ReadReady: self.requests.read_ready,
            effects.TransferDone: self.requests.transfer_done,
            effects.TakeSnapshot: self.snapshots.take,
            effects.ReadSnapshot: self.snapshots.read,
            effects.StoreChunk: self.snapshots.store,
            effects.DropChunks: self.snapshots.drop,
            effects.InstallSnapshot: self.snapshots.install,
            effects.RoleChanged: self._role_changed,
            effects.LeaderChanged: self._leader_changed,
            effects.ConfigurationChanged: self._configuration_changed,
            effects.Alarm: self._alarm,
            effects.WakeAt: self._wake_at,
        }

    def _wake_at(self, effect: effects.WakeAt) -> None:
        self._wake.at(effect.at_ns)

    def _send(self, effect: effects.Send) -> None:
        self.peers.send(effect.to, effect.message)

    def _apply(self, effect: effects.Apply) -> None:
        entries = effect.entries
        began = monotonic_ns()
        answers = self.state.apply(entries)
        self.metrics.time("apply", monotonic_ns() - began)
        self.requests.applied(entries, answers)
        self._attached.applied(entries, answers, self.machine.term if self.machine.role is Role.LEADER else None)
        self._events.append(events.Applied(entries[-1].index))
        checkpoints = self.state.take_checkpoints()
        if checkpoints and self.machine.role is Role.LEADER:
            self.requests.propose(_Nobody(), checkpoints)

    def _restored(self, index: Index) -> None:
        self.requests.skipped(index)
        self.machine.forget_judged()
        self._attached.restored(index)

    def _hear(self, sender: NodeId, message: RaftMessage | GossipMessage) -> None:
        if type(message) in _GOSSIP:
            assert isinstance(message, GossipMessage)
            self.gossip.hear(sender, message)
        else:
            assert isinstance(message, RaftMessage)
            self.feed(events.Received(sender, message))

    # ---- what people should know ------------------------------------------------------------------------------------

    def _role_changed(self, effect: effects.RoleChanged) -> None:
        if effect.after is not Role.LEADER:
            self._attached.follow()
        before, after = effect.before.value, effect.after.value
        self.audit.note("role", before, after, node=self.node, term=effect.term, leader=effect.leader)
        self._log.info("role-changed", node=self.node, before=before, after=after, term=effect.term)

    def _leader_changed(self, effect: effects.LeaderChanged) -> None:
        self.audit.note("leader", self._led_by, effect.leader, node=self.node, term=effect.term)
        self._led_by = effect.leader

    def _configuration_changed(self, effect: effects.ConfigurationChanged) -> None:
        before = self._configured[0]
        self._configured = effect.configuration, effect.index, effect.is_committed
        self.audit.note(
            "configuration",
            configuration_text(before),
            configuration_text(effect.configuration),
            node=self.node,
            index=effect.index,
            committed=effect.is_committed,
        )
        self._is_out = self._is_out and self.node not in effect.configuration.members
        if effect.is_committed and cluster_status.is_out(self.machine):
            self._is_out = True
            self.alarm("removed", "this node is no member of the cluster any more; it can be stopped")
        self.gossip.know(self._gossip_peers())

    def _notice(self, effect: HealthChanged | Healed | Flapping) -> None:
        match effect:
            case HealthChanged(member, before, after, incarnation):
                was, is_now = before.name.lower(), after.name.lower()
                self.audit.note("health", was, is_now, node=self.node, member=member, incarnation=incarnation)
                self._log.info("health-changed", member=member, before=was, after=is_now)
            case Healed(member, away_ms):
                self.audit.note("heal", "away", "back", node=self.node, member=member, away_ms=away_ms)
            case Flapping(member, transitions, held_ms):
                self._log.warning("member-flapping", member=member, transitions=transitions, held_ms=held_ms)

    def alarm(self, code: str, detail: str) -> None:
        """A person should know."""
        self.alarms.note(code, detail)

    def _alarm(self, effect: effects.Alarm) -> None:
        self.alarms.note(effect.code, effect.detail)

    # ---- members ----------------------------------------------------------------------------------------------------

    def _take_directory(self) -> None:
        """Who is known has, perhaps, changed: channels, links and the copy on the disk follow."""
        self._changes_seen = self.state.changes
        directory = self.state.directory
        if directory == self._directory:
            if self.state.says_who_is_known and not self._kept.tells_of_applied:
                self._kept.keep(self.operations.known())
            return
        self._directory = directory
        self.channels.know(directory)
        self.peers.know(directory)
        self.gossip.know(self._gossip_peers())
        self._kept.keep(self.operations.known())

    def learn(self, teller: NodeId, known: KnownMembers) -> None:
        """Another node says who is known; where it is ahead of this one, that helps to find a leader."""
        voters = self.configuration.voters
        others = len(voters) // 2 + (self.node not in voters)
        if self.state.learn(teller, known, enough=max(1, others)):
            self._take_directory()

    def settle_members(self, index: Index | None = None) -> None:
        """Whoever leads (this node, if none is given) has committed this: until it is applied, others are believed."""
        self.state.settle(self.machine.commit_index if index is None else index)
        if self.state.changes != self._changes_seen:
            self._take_directory()

    def tell_members(self, tell: Tell) -> None:
        """Say who is known, when that would be known after a crash as well; or what is wrong with the disk."""
        self._kept.tell(self.operations.known(), tell)

    def _gossip_peers(self) -> tuple[tuple[NodeId, Embedding | None], ...]:
        members = self._directory.members
        return tuple(
            (node, embedding_of(public_key(members[node].certificate)) if node in members else None)
            for node in self.machine.configuration.members
            if node != self.node
        )

    def _keep_incarnation(self, incarnation: int, done: Callable[[BobbinError | None], None]) -> None:
        self.disk.do(partial(self._storage.save_incarnation, incarnation), done)

    def _tidy(self) -> None:
        self._tidying = self._loop.call_later(TIDY_SECONDS, self._tidy)
        if not self.over.done():
            self.metrics.observe_raft(self.machine.stats, monotonic_ns())
            self.requests.sweep()
            self.operations.tidy()
            self._attached.sweep()

    # ---- what others look at ----------------------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        return self.machine.role

    @property
    def leader(self) -> NodeId | None:
        return self.machine.leader

    @property
    def directory(self) -> Directory:
        return self._directory

    @property
    def configuration(self) -> Configuration:
        return self.machine.configuration

    @property
    def is_settled(self) -> bool:
        """Whether the configuration is committed, and an entry of the present term is."""
        machine = self.machine
        return self._configured[2] and machine.log.term_at(machine.commit_index) == machine.term

    @property
    def has_learnt(self) -> bool:
        """Whether something was applied since the start, or the snapshot of the start is all that there is."""
        index = self.state.index
        return index > self._restored_index or 0 < index == self.machine.last_index

    def lag_of(self, node: NodeId) -> int | None:
        """How many committed entries a node lacks, as its leader knows; None where it has not answered lately."""
        progress = self.machine.progress.get(node)
        if progress is None or not progress.held_index or progress.failures:
            return None
        return max(0, self.machine.commit_index - progress.held_index)

    def address_of(self, node: NodeId | None) -> str | None:
        """Where a node is reached."""
        member = None if node is None else self._directory.members.get(node)
        return None if member is None else member.address

    def operate(self, port: Port, request: Operation) -> None:
        """What takes several steps."""
        self.operations.begin(port, request)

    def attend(self, port: Port, requests: Sequence[Request]) -> Sequence[Request]:
        """Let what is attached look at requests; those that nobody knows."""
        return self._attached.take_all(port, requests)

    def report(self, number: int) -> Report:
        """How this node sees the cluster."""
        return cluster_status.report(
            number,
            self.machine,
            self.gossip.machine,
            self.peers.links,
            self._directory,
            root=self._attached.root(self.state.machines.root, self.state.index),
            now_ns=monotonic_ns(),
            problems=self.problems(),
            counters=self.counters(),
        )

    @property
    def is_halted(self) -> bool:
        return self.over.done() and not self.over.cancelled()

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    def problems(self) -> list[str]:
        """What is wrong."""
        found = (
            [cluster_status.REMOVED]
            if self._is_out
            else cluster_status.problems_of(self.machine, self.gossip.machine, self.peers.links)
        )
        if self.is_halted:
            found.insert(0, f"this node has stopped: {self.over.exception()}")
        if self.disk.failures:
            found.append(f"the disk has failed {self.disk.failures} times")
        if self.audit.failures:
            found.append(f"{self.audit.failures} lines of the audit log could not be written")
        return found

    def readings(self) -> tuple[Reading, ...]:
        """The figures with a warning and a critical step."""
        return self.metrics.readings(monotonic_ns())

    def healths(self) -> Counter[str]:
        """How many other members are how, by gossip."""
        machine = self.gossip.machine
        return Counter(machine.health(node).name.lower() for node in machine.embeddings)

    def gauges(self) -> dict[str, float]:
        """Figures that rise and fall."""
        return cluster_figures.gauges_of(self, now_ns=monotonic_ns()) | self._attached.gauges()

    def counts(self) -> dict[str, int]:
        """What only rises, by name."""
        return cluster_figures.counts_of(self) | self._attached.counts()

    def counters(self) -> dict[str, float]:
        """All figures, for the report."""
        readings = {reading.metric.value: reading.value for reading in self.readings() if reading.value is not None}
        return {**self.gauges(), **self.counts(), **readings}


def _wall_ms() -> int:
    return time_ns() // MILLISECOND_NS
