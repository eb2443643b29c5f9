"""Snapshots inside the machine: taken to cut the log, sent to those who need what was cut, fetched and installed.

What a snapshot is and how it travels stands in ``snapshot_transfer``, when one is taken in ``compaction``; this part
joins both to the log. The log is cut only after the snapshot is durable and was looked at again, and from memory only
when the disk knows of the cut. An installed snapshot takes the log's place, unless the log goes on from it.
"""

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.compaction import Compaction, first_kept, still_counts
from bobbin.cluster.raft.effects import Accepted, Cut, Effect, InstallSnapshot, TakeSnapshot, Why
from bobbin.cluster.raft.entries import SnapshotMetadata
from bobbin.cluster.raft.events import SnapshotBytes, SnapshotInstalled, SnapshotRefused, SnapshotTaken
from bobbin.cluster.raft.following import Following
from bobbin.cluster.raft.messages import SnapshotChunk, SnapshotOffer, SnapshotRequest
from bobbin.cluster.raft.replication import Replication
from bobbin.cluster.raft.snapshot_transfer import SnapshotReceiver
from bobbin.cluster.raft.state import RaftState


class Snapshots:
    """The part of a machine that takes, sends, fetches and installs snapshots."""

    def __init__(self, state: RaftState, following: Following, replication: Replication) -> None:
        self._state = state
        self._following = following
        self._replication = replication
        self._compaction = Compaction(state.config, epoch=0 if state.snapshot is None else state.snapshot.epoch)
        self._wanted: int | None = None
        self._offered = (Term(0), 0)
        """Term and round of the latest offer, which the requests for its bytes repeat."""
        self.receiver = SnapshotReceiver(state.config)

    @property
    def index(self) -> Index:
        """Where the present snapshot ends; 0 without one."""
        snapshot = self._state.snapshot
        return Index(0) if snapshot is None else snapshot.last_index

    @property
    def wake_ns(self) -> int | None:
        """When something is due."""
        return self.receiver.wake_at_ns

    def tick(self) -> None:
        """See whether a snapshot is due, and whether one that is being fetched takes too long."""
        state = self._state
        is_due = self._compaction.is_due(
            state.now_ns,
            entries_held=len(state.log),
            bytes_since=state.log.bytes_after(self.index),
            finalized_index=state.applied_index,
            snapshot_index=self.index,
        )
        if is_due and not state.is_installing:
            self._capture()
        self._emit(self.receiver.expire(state.now_ns))
        state.stats.snapshots_expired = self.receiver.expired
        if state.leader is not None and not state.is_leader:
            self._request(state.leader)

    def finish_cut(self) -> None:
        """A crash came between a durable snapshot and its cut: cut now."""
        snapshot = self._state.snapshot
        if snapshot is not None and self._state.log.first_index < self._first_kept(snapshot):
            self._cut(snapshot)

    # ---- taking one -----------------------------------------------------------------------------------------------

    def want(self, request: int) -> None:
        """An operator asks for a snapshot now."""
        state = self._state
        if self._compaction.is_running or state.is_installing:
            state.refuse(request, Why.CHANGE_PENDING)
        elif state.given_index <= self.index:
            state.refuse(request, Why.NOTHING_NEW)
        else:
            self._wanted = request
            self._capture()

    def taken(self, event: SnapshotTaken) -> None:
        """A snapshot is durable: look again, then cut."""
        state = self._state
        if not self._compaction.is_running:
            return
        state.applied_index = max(state.applied_index, min(event.metadata.last_index, Index(state.given_index)))
        if not still_counts(event.metadata, snapshot=state.snapshot, finalized_index=state.applied_index):
            self.failed()
            return
        state.snapshot = event.metadata
        state.stats.snapshots_taken += 1
        self._cut(event.metadata)
        self._compaction.taken(state.now_ns)
        if self._wanted is not None:
            state.notes.append(Accepted(self._wanted, event.metadata.last_index, 0, event.metadata.last_term))
            self._wanted = None

    def failed(self) -> None:
        """A snapshot could not be made, or no longer counts."""
        if not self._compaction.is_running:
            return
        self._compaction.failed(self._state.now_ns)
        if self._wanted is not None:
            self._state.refuse(self._wanted, Why.STORAGE)
            self._wanted = None

    def _capture(self) -> None:
        state = self._state
        index = Index(state.given_index)
        term = state.log.term_at(index)
        assert term is not None, "what was given out is in the log"
        configuration = state.log.configuration_at(index)[1]
        state.notes.append(TakeSnapshot(index, term, configuration, self._compaction.begin()))

    def _cut(self, metadata: SnapshotMetadata) -> None:
        self._state.disk.cut(Cut(max(self._first_kept(metadata), self._state.log.first_index), metadata))

    def _first_kept(self, metadata: SnapshotMetadata) -> Index:
        """Few entries stay, and of large ones fewer: else they would hold as much as what is cut away."""
        config = self._state.config
        few = first_kept(metadata.last_index, config.snapshot_trailing_logs)
        return max(few, self._state.log.first_within(metadata.last_index, config.snapshot_threshold_bytes // 2))

    # ---- sending one ----------------------------------------------------------------------------------------------

    def hear_request(self, sender: NodeId, message: SnapshotRequest) -> None:
        """A follower asks for bytes of what was offered to it."""
        state = self._state
        if message.term > state.term:
            state.become_follower(message.term)
            return
        if self._replication.contact(sender, message.term, message.round) is None:
            return
        read = self._replication.sender.asked(message, state.now_ns)
        if read is not None:
            state.notes.append(read)

    def send_bytes(self, event: SnapshotBytes) -> None:
        """Bytes were read for a follower."""
        state = self._state
        if not state.is_leader or event.to not in state.progress:
            return
        chunk = self._replication.sender.chunk(event, term=state.term, leader=state.node)
        if chunk is not None:
            state.send(event.to, chunk)

    # ---- fetching one ---------------------------------------------------------------------------------------------

    def hear_offer(self, sender: NodeId, message: SnapshotOffer) -> None:
        """A leader offers what it no longer has as entries."""
        state = self._state
        metadata = message.metadata
        if not self._hear_leader(sender, message.term, message.round):
            return
        if metadata.last_index <= state.commit_index:
            # Everything in it is here already, as entries or under a snapshot.
            self._following.accept_up_to(sender, message.round, metadata.last_index)
            return
        self._offered = (message.term, message.round)
        self._emit(self.receiver.offer(metadata, state.now_ns))
        if not self._request(sender):
            # Something is under way already. The leader should know that this node lives, whatever that takes.
            self._following.answer_without_match(sender, message.round)

    def hear_chunk(self, sender: NodeId, message: SnapshotChunk) -> None:
        """Bytes of what is being fetched."""
        state = self._state
        if not self._hear_leader(sender, message.term, 0):
            return
        if self.receiver.metadata is not None and self.receiver.metadata.last_index <= state.commit_index:
            self._emit(self.receiver.refused())
            return
        self._emit(self.receiver.take(message, state.now_ns))
        self._request(sender)

    def installed(self, event: SnapshotInstalled) -> None:
        """The state machine is what the snapshot says; so is everything up to its end."""
        state = self._state
        metadata = event.metadata
        if not state.is_installing:
            return
        state.is_installing = False
        self.receiver.installed()
        state.stats.snapshots_installed += 1
        self._compaction.installed(metadata)
        state.snapshot = metadata
        # Entries that are not durable yet may still be taken back, so they do not carry a log over its snapshot.
        is_held = state.disk.durable_index >= metadata.last_index
        goes_on = is_held and state.log.term_at(metadata.last_index) == metadata.last_term
        state.known_commit = max(state.known_commit, metadata.last_index)
        state.given_index = metadata.last_index
        state.applied_index = metadata.last_index
        if goes_on:
            self._cut(metadata)
        else:
            state.disk.reset(metadata)
        state.commit_index = max(state.commit_index, metadata.last_index)
        if state.leader is not None and not state.is_leader:
            self._following.accept_up_to(state.leader, self._round, metadata.last_index)

    def refused(self, event: SnapshotRefused) -> None:
        """The bytes were not what they claimed to be; nothing has changed."""
        state = self._state
        if not state.is_installing:
            return
        state.is_installing = False
        state.stats.snapshots_refused += 1
        state.alarm("snapshot-refused", f"the snapshot up to {event.metadata.last_index}: {event.reason}")
        self._emit(self.receiver.refused())

    def _hear_leader(self, sender: NodeId, term: Term, round_: int) -> bool:
        state = self._state
        if term < state.term:
            self._following.refuse_stale(sender, round_)
            return False
        if term > state.term:
            state.become_follower(term, sender)
        return self._following.hear_leader(sender, term)

    @property
    def _round(self) -> int:
        """What an earlier leader counted is no answer to the present one."""
        term, round_ = self._offered
        return round_ if term == self._state.term else 0

    def _request(self, leader: NodeId) -> bool:
        state = self._state
        message = self.receiver.next_request(state.now_ns, term=state.term, requester=state.node, round=self._round)
        if message is not None:
            state.send_when_durable(leader, message)
        return message is not None

    def _emit(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, InstallSnapshot):
                self._state.is_installing = True
            self._state.notes.append(effect)
