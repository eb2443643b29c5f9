"""A leader's log on its way to the others: what to send to whom, what their answers say, and what is committed by it.

Messages to one follower are pipelined up to a bound and taken for lost when they are not answered in time. Each has a
round of its own, so an answer is known for what it answers: a refusal of something that was sent before the last step
back says nothing, and a read is confirmed by answers to what was sent after it came. A heartbeat leaves only where
nothing else did within the interval, and names a place that is known to match, so it is not refused for messages that
are still on their way.
"""

from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId
from bobbin.cluster.raft.messages import AppendAnswer, AppendEntries, SnapshotOffer, TimeoutNow
from bobbin.cluster.raft.progress import Pace, Progress
from bobbin.cluster.raft.quorum import is_quorum, reached
from bobbin.cluster.raft.snapshot_transfer import SnapshotSender
from bobbin.cluster.raft.state import RaftState


class Replication:
    """The part of a machine that serves followers while it leads."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._is_beat_due = False
        """Somebody has heard nothing for a heartbeat interval; who it is shows when entries have been sent."""
        self.sender = SnapshotSender(state.config)

    def begin(self) -> None:
        """A term as leader begins."""
        self.sender = SnapshotSender(self._state.config)

    # ---- answers --------------------------------------------------------------------------------------------------

    def hear_answer(self, sender: NodeId, message: AppendAnswer) -> None:
        """An answer counts only in the term in which it was asked for, and only for a leader (CL-066)."""
        state = self._state
        if message.term > state.term:
            state.become_follower(message.term)
            return
        progress = self.contact(sender, message.term, message.round)
        if progress is None:
            return
        if message.success:
            if message.match_index > state.log.last_index:
                state.stats.malformed += 1
                return
            if progress.accepted(message.match_index, message.round, state.round):
                self.sender.matched(sender, message.match_index)
        elif progress.refused(
            message.round,
            message.match_index,
            state.round,
            power_max=state.config.backoff_power_max if state.config.adaptive_backoff else None,
            first_index=state.log.first_index,
        ):
            state.stats.backoffs += 1

    def contact(self, sender: NodeId, term: int, round_: int) -> Progress | None:
        """Somebody answered; None when it does not count."""
        state = self._state
        if term != state.term or not state.is_leader:
            state.stats.stale_answers += 1
            return None
        progress = state.progress.get(sender)
        if progress is None or round_ > state.round:
            state.stats.strangers += 1
            return None
        state.stats.heartbeats_answered += 1
        took_ns = progress.contact(round_, state.now_ns)
        if took_ns is not None:
            state.stats.heartbeat_times.add(took_ns)
        return progress

    def advance_commit(self) -> bool:
        """What a quorum holds durably, this node among them, is committed once it reaches this term (R12)."""
        state = self._state
        index = min(reached(state.configuration, self._match_of, state.config.quorum_size), state.disk.durable_index)
        if index <= state.commit_index or state.log.term_at(index) != state.term:
            return False
        state.known_commit = index
        return True

    def _match_of(self, node: NodeId) -> int:
        if node == self._state.node:
            return self._state.disk.durable_index
        progress = self._state.progress.get(node)
        return 0 if progress is None else progress.match_index

    # ---- time -----------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Give up what was lost, look for a quorum, and keep every follower from thinking that the leader is gone."""
        state = self._state
        if state.now_ns >= state.quorum_check_ns and not self._check_quorum():
            return
        if state.is_disk_hung and self._is_overtaken():
            state.alarm("storage", "the disk does not answer while others go on: another node has to lead")
            state.become_follower(state.term)
            return
        timeout_ns = state.config.rpc_timeout * MILLISECOND_NS
        interval_ns = state.config.heartbeat_interval * MILLISECOND_NS
        for node, progress in state.progress.items():
            if progress.give_up(state.now_ns, timeout_ns, state.round):
                state.stats.retries += 1
                self._warn(node, progress)
            if state.now_ns - progress.last_sent_ns >= interval_ns:
                if progress.note_silence(state.now_ns):
                    state.stats.heartbeats_failed += 1
                    self._warn(node, progress)
                self._is_beat_due = True

    def next_wake_ns(self) -> int:
        """When the next of these is due."""
        state = self._state
        wake = state.quorum_check_ns
        timeout_ns = state.config.rpc_timeout * MILLISECOND_NS
        interval_ns = state.config.heartbeat_interval * MILLISECOND_NS
        for progress in state.progress.values():
            if progress.flights:
                wake = min(wake, progress.flights[0].sent_ns + timeout_ns)
            if state.config.auto_heartbeat:
                wake = min(wake, progress.last_sent_ns + interval_ns)
        return wake

    def has_quorum_since(self, since_ns: int) -> bool:
        """Whether a quorum of voters, this node counted, was in contact from a moment on."""
        state = self._state
        near = {node for node, progress in state.progress.items() if progress.last_contact_ns >= since_ns}
        near.add(state.node)
        return is_quorum(state.configuration, near, state.config.quorum_size)

    def is_in_contact(self) -> bool:
        """Whether a quorum was in contact within an election timeout, or this leader is too new to say (CL-030)."""
        since_ns = self._state.now_ns - self._state.election_maximum_ns
        return self._state.led_since_ns >= since_ns or self.has_quorum_since(since_ns)

    def _check_quorum(self) -> bool:
        state = self._state
        state.stats.quorum_checks += 1
        if not self.has_quorum_since(state.quorum_since_ns):
            state.stats.quorum_losses += 1
            state.alarm("quorum-lost", f"too few voters answered within {state.config.election_timeout[1]} ms")
            state.become_follower(state.term)
            return False
        state.quorum_since_ns = state.now_ns
        state.quorum_check_ns = state.now_ns + state.election_maximum_ns
        return True

    def _is_overtaken(self) -> bool:
        """Whether the disk of another voter is ahead of this one's.

        Where all are equally slow nobody would lead better, and leaving office would only cost an election.
        """
        state = self._state
        durable = state.disk.durable_index
        voters = (*state.configuration.voters, *state.configuration.outgoing)
        return any(self._match_of(node) > durable for node in voters)

    def _warn(self, node: NodeId, progress: Progress) -> None:
        if progress.failures == self._state.config.max_heartbeat_failures:
            self._state.alarm("heartbeats-failed", f"{node} has not answered {progress.failures} times in a row")

    # ---- sending --------------------------------------------------------------------------------------------------

    def flow(self, confirm_round: int) -> None:
        """Send every follower what it lacks, as far as there is room; and something from ``confirm_round`` on."""
        state = self._state
        last_index = state.log.last_index
        room = state.config.appends_in_flight_max
        quiet_ns = state.now_ns - state.config.heartbeat_interval * MILLISECOND_NS
        for node, progress in state.progress.items():
            while progress.next_index <= last_index and progress.has_room(room) and not self._is_full(progress):
                if not self._send_entries(node, progress):
                    break
            if progress.sent_round < confirm_round or (self._is_beat_due and progress.last_sent_ns <= quiet_ns):
                self._send_heartbeat(node, progress)
        self._is_beat_due = False

    def _is_full(self, progress: Progress) -> bool:
        """Whether as many bytes travel to a follower as may; what was cut away meanwhile is not counted any more."""
        log = self._state.log
        last, after = progress.next_index - 1, max(progress.match_index, log.first_index - 1)
        if not progress.flights or last <= after:
            return False
        return log.bytes_between(after, last) >= self._state.config.append_in_flight_bytes_max

    def farewell(self, nodes: list[NodeId]) -> None:
        """Tell nodes whose removal is committed so, once and without waiting: they will not be served any more."""
        state = self._state
        for node in nodes:
            progress = state.progress[node]
            if progress.pace is Pace.SNAPSHOT:
                self._send_heartbeat(node, progress)
            elif progress.next_index <= state.log.last_index:
                self._send_entries(node, progress)
            else:
                self._send_empty(node, progress, Index(progress.next_index - 1))

    def hand_over(self) -> None:
        """A leader that no longer votes asks the voter that is furthest to stand at once."""
        state = self._state
        voters = [node for node in state.configuration.voters if node in state.progress]
        if voters:
            best = max(voters, key=lambda node: state.progress[node].held_index)
            state.send(best, TimeoutNow(term=state.term, leader=state.node))

    def _send_entries(self, node: NodeId, progress: Progress) -> bool:
        state = self._state
        log = state.log
        first = progress.next_index
        previous_term = log.term_at(first - 1) if first >= log.first_index else None
        if previous_term is None:
            progress.await_snapshot()
            self._send_offer(node, progress)
            return False
        entries_max = min(state.config.append_entries_max, progress.portion)
        end = log.batch_end(first, entries_max=entries_max, bytes_max=state.config.append_bytes_max)
        state.round += 1
        state.stats.appends_sent += 1
        state.stats.entries_sent += end - first
        message = AppendEntries(
            term=state.term,
            leader=state.node,
            previous_index=Index(first - 1),
            previous_term=previous_term,
            entries=log.entries(first, end),
            commit=state.commit_index,
            round=state.round,
        )
        state.send(node, message)
        progress.sent(state.round, end - 1, state.now_ns)
        return True

    def _send_heartbeat(self, node: NodeId, progress: Progress) -> None:
        state = self._state
        state.stats.heartbeats_sent += 1
        if progress.pace is Pace.SNAPSHOT:
            self._send_offer(node, progress)
            return
        # The place that is known to match; before any is known, the one that is being probed.
        probed = Index(progress.next_index - 1)
        self._send_empty(node, progress, min(progress.match_index, probed) or probed)

    def _send_empty(self, node: NodeId, progress: Progress, previous: Index) -> None:
        state = self._state
        previous_term = state.log.term_at(previous)
        if previous_term is None:
            progress.await_snapshot()
            self._send_offer(node, progress)
            return
        state.round += 1
        message = AppendEntries(
            term=state.term,
            leader=state.node,
            previous_index=previous,
            previous_term=previous_term,
            entries=(),
            commit=state.commit_index,
            round=state.round,
        )
        self._sent(node, progress, message)

    def _send_offer(self, node: NodeId, progress: Progress) -> None:
        state = self._state
        assert state.snapshot is not None, "what is cut away is under a snapshot"
        state.round += 1
        metadata = self.sender.offer(node, state.snapshot, state.now_ns)
        message = SnapshotOffer(term=state.term, leader=state.node, metadata=metadata, round=state.round)
        self._sent(node, progress, message)

    def _sent(self, node: NodeId, progress: Progress, message: AppendEntries | SnapshotOffer) -> None:
        self._state.send(node, message)
        progress.last_sent_ns = self._state.now_ns
        progress.sent_round = message.round
        progress.beat = (message.round, self._state.now_ns)
