"""One node of a raft cluster: a pure machine.

``step(event, now_ns=…)`` takes what happened and returns what to do, in the order persist, send, notify, wake. The
machine has no clock, no disk and no network. An event changes the state; what follows from it (what is committed, given
out, confirmed, sent) is drawn once, at the end of the step, whatever the event was.

What must be durable before what is said: term and vote before anything is said or counted in that term, and while they
are not, messages wait; entries before they are acknowledged, and before the node counts them as committed itself. A
leader's entries travel to the others before its own disk is done. So whatever a failed write takes back, nobody has
been told of, and nothing was applied.
"""

from collections.abc import Mapping
from random import Random
from typing import Final, TypeAlias, assert_never

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.durability import Durability
from bobbin.cluster.raft.effects import Accepted, Apply, Effect, Role, WakeAt, Why
from bobbin.cluster.raft.election import Elections
from bobbin.cluster.raft.entries import Configuration, SnapshotMetadata
from bobbin.cluster.raft.events import (
    AddLearner,
    Applied,
    Event,
    JointChange,
    Persisted,
    PersistFailed,
    PromoteLearner,
    Propose,
    Read,
    Received,
    Recovered,
    RemoveNode,
    SnapshotBytes,
    SnapshotFailed,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    SnapshotWanted,
    Tick,
    Transfer,
)
from bobbin.cluster.raft.following import Following
from bobbin.cluster.raft.inbox import Inbox
from bobbin.cluster.raft.judging import AHEAD_MAX, Judge, Judging
from bobbin.cluster.raft.log import RaftLog
from bobbin.cluster.raft.messages import (
    AppendAnswer,
    AppendEntries,
    PreVote,
    PreVoteAnswer,
    RaftMessage,
    RequestVote,
    SnapshotChunk,
    SnapshotOffer,
    SnapshotRequest,
    TimeoutNow,
    VoteAnswer,
)
from bobbin.cluster.raft.progress import Progress
from bobbin.cluster.raft.reads import Reads
from bobbin.cluster.raft.reconfiguration import Reconfiguration
from bobbin.cluster.raft.replication import Replication
from bobbin.cluster.raft.snapshots import Snapshots
from bobbin.cluster.raft.state import DISK_PATIENCE, RaftState
from bobbin.cluster.raft.stats import RaftStats
from bobbin.cluster.raft.tiebreak import TieBreak
from bobbin.cluster.raft.transfer import Transfers
from bobbin.cluster.settings import MB, RaftConfig
from bobbin.errors import UsageError

WAITING_BYTES_MAX: Final = 256 * MB
"""Of commands that are not committed yet: they are in memory, whatever their number."""

_SnapshotEvent: TypeAlias = (
    SnapshotWanted | SnapshotTaken | SnapshotFailed | SnapshotBytes | SnapshotInstalled | SnapshotRefused
)


class RaftMachine:
    """One node, from its recovery to its end."""

    def __init__(
        self,
        config: RaftConfig,
        *,
        node: NodeId,
        recovered: Recovered,
        bootstrap: Configuration | None,
        random: Random,
        embedding: Embedding | None = None,
        embeddings: Mapping[NodeId, Embedding] | None = None,
        checking: bool = False,
        judge: Judge | None = None,
        judged_ahead_max: int = AHEAD_MAX,
    ) -> None:
        """Begin as a follower with what was on the disk.

        ``judge`` looks at a leader's entries before they are taken; without one, every well-formed entry is.
        ``judged_ahead_max`` of those that it has judged may wait to be applied.
        ``bootstrap`` counts only where neither log nor snapshot names a configuration; a ``quorum_size`` that does not
        fit it is a ``UsageError``. ``embeddings`` is where other nodes are, as far as it is known from elsewhere.
        """
        if bootstrap is not None:
            config.check_voters(len(bootstrap.voters))
        log, gave_way = RaftLog.recovered(recovered.snapshot, recovered.entries, bootstrap)
        disk = Durability(log, recovered.term, recovered.voted_for, recovered.snapshot)
        if gave_way:
            disk.owes_reset = recovered.snapshot
        self._state: Final = RaftState(config, node=node, log=log, durability=disk, random=random)
        self._state.tiebreak = TieBreak(config, embedding, embeddings or {})
        self._state.snapshot = recovered.snapshot
        self._state.lost = recovered.lost
        if recovered.snapshot is not None:
            index = recovered.snapshot.last_index
            self._state.commit_index = self._state.applied_index = index
            self._state.known_commit = self._state.given_index = index
        self._inbox: Final = Inbox()
        self._elections: Final = Elections(self._state, embedding)
        self._judging: Final = None if judge is None else Judging(self._state, judge, ahead_max=judged_ahead_max)
        self._following: Final = Following(self._state, self._judging)
        self._replication: Final = Replication(self._state)
        self._reads: Final = Reads(self._state)
        self._transfers: Final = Transfers(self._state)
        self._reconfiguration: Final = Reconfiguration(self._state, self._replication)
        self._snapshots: Final = Snapshots(self._state, self._following, self._replication)
        self._led_term = Term(-1)
        self._wake_ns: int | None = None
        self._was_hung = False
        self._checking = checking

    # ---- what may be read from outside ----------------------------------------------------------------------------

    @property
    def config(self) -> RaftConfig:
        return self._state.config

    @property
    def node(self) -> NodeId:
        return self._state.node

    @property
    def role(self) -> Role:
        return self._state.role

    @property
    def term(self) -> Term:
        return self._state.term

    @property
    def voted_for(self) -> NodeId | None:
        return self._state.voted_for

    @property
    def leader(self) -> NodeId | None:
        """Whom this node takes for the leader."""
        return self._state.leader

    @property
    def commit_index(self) -> Index:
        return self._state.commit_index

    @property
    def applied_index(self) -> Index:
        return self._state.applied_index

    @property
    def log(self) -> RaftLog:
        """To be read only."""
        return self._state.log

    @property
    def first_index(self) -> Index:
        return self._state.log.first_index

    @property
    def last_index(self) -> Index:
        return self._state.log.last_index

    @property
    def last_term(self) -> Term:
        return self._state.log.last_term

    @property
    def durable_index(self) -> Index:
        """Up to here the log in memory would survive a crash."""
        return self._state.disk.durable_index

    @property
    def configuration(self) -> Configuration:
        """In force: the latest of the log, committed or not."""
        return self._state.log.configuration

    @property
    def snapshot(self) -> SnapshotMetadata | None:
        return self._state.snapshot

    @property
    def progress(self) -> Mapping[NodeId, Progress]:
        """What a leader knows of the others; empty on everybody else."""
        return self._state.progress

    @property
    def is_pre_candidate(self) -> bool:
        return self._state.is_pre_candidate

    @property
    def transfer_target(self) -> NodeId | None:
        """To whom this leader is handing over; None for nobody."""
        return self._transfers.target

    @property
    def election_deadline_ns(self) -> int | None:
        """When a follower or candidate loses its patience; None before the first step."""
        return self._state.election_deadline_ns

    @property
    def is_hard_state_pending(self) -> bool:
        """Whether term and vote are not durable yet."""
        return self._state.disk.is_hard_pending

    @property
    def stats(self) -> RaftStats:
        return self._state.stats

    @property
    def inbox_dropped(self) -> int:
        return self._inbox.dropped

    # ---- stepping -------------------------------------------------------------------------------------------------

    def step(self, event: Event, *, now_ns: int) -> list[Effect]:
        """Take an event; returns what to do, in order.

        An event of ours that makes no sense raises ``UsageError`` and changes nothing. Whatever a peer does ends in
        effects, or in nothing.
        """
        state = self._state
        state.now_ns = max(state.now_ns, now_ns)
        if isinstance(event, Applied):
            self._applied(event.index)
            if not self._following.owes_answer:
                return []
        if state.election_deadline_ns is None:
            state.reset_election_timer()
            self._snapshots.finish_cut()
        self._take(event)
        self._settle()
        effects: list[Effect] = []
        persist = state.disk.close(state.now_ns)
        if persist is not None:
            effects.append(persist)
        effects += state.sends
        effects += state.notes
        state.sends.clear()
        state.notes.clear()
        self._wake(effects)
        if self._checking:
            self.check()
        return effects

    def check(self) -> None:
        """Assert what always holds."""
        self._state.check()
        self._state.log.check()
        self._snapshots.receiver.check()
        assert self._state.is_installing == self._snapshots.receiver.is_installing
        assert self._state.is_leader or not len(self._reads), "only a leader keeps reads waiting"
        assert self._state.disk.is_hard_pending or not len(self._inbox), "messages wait only for term and vote"

    def _take(self, event: Event) -> None:
        match event:
            case Received(sender, message):
                self._receive(sender, message)
            case Persisted(token):
                self._confirm(token)
            case Propose(request, commands):
                self._propose(request, commands)
            case Tick():
                self._tick()
            case Applied():
                self._following.answer_owed()
            case Read(request):
                self._reads.ask(request)
            case PersistFailed(token, reason):
                self._lose(token, reason)
            case Transfer(request, target):
                self._transfers.ask(request, target)
            case AddLearner() | PromoteLearner() | RemoveNode() | JointChange():
                self._reconfiguration.ask(event, is_transferring=self._transfers.target is not None)
            case _:
                self._take_snapshot_event(event)

    def _take_snapshot_event(self, event: _SnapshotEvent) -> None:
        match event:
            case SnapshotWanted(request):
                self._snapshots.want(request)
            case SnapshotTaken():
                self._snapshots.taken(event)
            case SnapshotFailed():
                self._snapshots.failed()
            case SnapshotBytes():
                self._snapshots.send_bytes(event)
            case SnapshotInstalled():
                self._snapshots.installed(event)
            case SnapshotRefused():
                self._snapshots.refused(event)
            case _:
                assert_never(event)

    def _tick(self) -> None:
        self._watch_disk()
        if self._state.is_leader:
            self._replication.tick()
        else:
            self._elections.tick()
        self._transfers.tick()
        self._snapshots.tick()

    def _watch_disk(self) -> None:
        """Say once that the disk hangs."""
        state = self._state
        is_hung = state.is_disk_hung
        if is_hung and not self._was_hung:
            patience_ms = DISK_PATIENCE * state.config.election_timeout[1]
            state.alarm("storage", f"the disk has neither written nor failed for {patience_ms:,} ms")
        self._was_hung = is_hung

    def forget_judged(self) -> None:
        """The state to which entries are applied is another one: those after it are judged again when it matters."""
        if self._judging is not None:
            self._judging.forget()

    # ---- messages -------------------------------------------------------------------------------------------------

    def _receive(self, sender: NodeId, message: RaftMessage) -> None:
        if sender == self._state.node:
            self._state.stats.strangers += 1
        elif self._state.disk.is_hard_pending:
            self._inbox.put(sender, message)
        else:
            self._hear(sender, message)

    def _drain(self) -> None:
        while len(self._inbox) and not self._state.disk.is_hard_pending:
            self._hear(*self._inbox.take())

    def _hear(self, sender: NodeId, message: RaftMessage) -> None:
        match message:
            case AppendAnswer():
                self._replication.hear_answer(sender, message)
            case AppendEntries():
                self._following.hear_append(sender, message)
            case PreVote():
                self._elections.hear_pre_vote(sender, message)
            case PreVoteAnswer():
                self._elections.hear_pre_vote_answer(message)
            case RequestVote():
                self._elections.hear_request(sender, message)
            case VoteAnswer():
                self._elections.hear_vote_answer(message)
            case TimeoutNow():
                self._elections.hear_timeout_now(sender, message)
            case SnapshotOffer():
                self._snapshots.hear_offer(sender, message)
            case SnapshotRequest():
                self._snapshots.hear_request(sender, message)
            case SnapshotChunk():
                self._snapshots.hear_chunk(sender, message)
            case _:
                assert_never(message)

    # ---- requests -------------------------------------------------------------------------------------------------

    def _propose(self, request: int, commands: tuple[bytes, ...]) -> None:
        if not commands:
            raise UsageError("a proposal has at least one command")
        state = self._state
        why = self._proposal_refusal(commands)
        if why is not None:
            state.stats.proposals_refused += 1
            state.refuse(request, why)
            return
        first = Index(state.log.last_index + 1)
        state.disk.append_commands(state.term, commands)
        state.stats.commands_accepted += len(commands)
        state.notes.append(Accepted(request, first, len(commands), state.term))

    def _proposal_refusal(self, commands: tuple[bytes, ...]) -> Why | None:
        state = self._state
        if not state.is_leader:
            return Why.NOT_LEADER
        if self._transfers.target is not None:
            return Why.TRANSFERRING
        if not self._replication.is_in_contact():
            return Why.NO_QUORUM
        waiting = state.log.last_index - state.commit_index + len(commands)
        if waiting > state.config.proposals_waiting_max or max(map(len, commands)) > state.config.command_bytes_max:
            return Why.TOO_MUCH
        if state.log.bytes_after(state.commit_index) + sum(map(len, commands)) > WAITING_BYTES_MAX:
            return Why.TOO_MUCH
        return None

    def _applied(self, index: Index) -> None:
        state = self._state
        if index > state.given_index:
            raise UsageError(f"entry {index} was never given out to be applied")
        state.applied_index = max(state.applied_index, index)

    # ---- the disk ------------------------------------------------------------------------------------------

    def _confirm(self, token: int) -> None:
        """Say what rested on it, unless the node has gone on to a later term by now: then nobody needs to hear it."""
        state = self._state
        said = state.disk.confirm(token)
        self._elections.count_own()
        self._drain()
        state.sends[:0] = [send for send in said if send.message.term >= state.term]

    def _lose(self, token: int, reason: str) -> None:
        """Back to what is durable; whatever rested on the rest was never said, or is refused."""
        state = self._state
        term = state.term
        failed, said = state.disk.fail(token)
        if not failed:
            return
        state.stats.persist_failures += 1
        state.alarm("storage", reason)
        # What a leader said of entries that are gone says nothing of those that are back in their place.
        state.known_commit = state.commit_index
        if state.role is not Role.FOLLOWER or state.term != term or state.is_pre_candidate:
            state.become_follower(state.term)
        state.sends += said
        self._drain()

    # ---- what follows from a step ---------------------------------------------------------------------------------

    def _settle(self) -> None:
        state = self._state
        self._reconfiguration.note_changes()
        if state.is_leader:
            if state.term != self._led_term:
                self._led_term = state.term
                self._replication.begin()
            self._replication.advance_commit()
        self._advance()
        self._reconfiguration.note_commit()
        if state.is_leader:
            self._reconfiguration.lead_on()
        self._transfers.advance()
        if state.is_leader:
            self._replication.flow(self._reads.open_round())
            self._reads.confirm()
        else:
            self._reads.abandon()

    def _advance(self) -> None:
        """What a leader called committed counts here once it is durable here; then it is given out, once."""
        state = self._state
        durable = state.disk.durable_index
        index = min(state.known_commit, durable)
        if index > state.commit_index:
            state.commit_index = Index(index)
        if state.commit_index > state.given_index and not state.is_installing:
            state.notes.append(Apply(state.log.entries(state.given_index + 1, state.commit_index + 1)))
            state.given_index = state.commit_index
        if state.lost is not None:
            term = state.log.term_at(durable)
            if term is not None and (term, durable) >= state.lost:
                state.lost = None

    def _wake(self, effects: list[Effect]) -> None:
        """Ask for the next tick. One that comes too early does no harm, so a later moment is not told until then."""
        state = self._state
        assert state.election_deadline_ns is not None, "drawn at the first step"
        wake = self._replication.next_wake_ns() if state.is_leader else state.election_deadline_ns
        hangs_ns = None if self._was_hung else state.disk_deadline_ns
        for other in (self._transfers.wake_ns, self._snapshots.wake_ns, hangs_ns):
            if other is not None and other < wake:
                wake = other
        if self._wake_ns is None or wake < self._wake_ns or self._wake_ns <= state.now_ns:
            self._wake_ns = wake
            effects.append(WakeAt(wake))
