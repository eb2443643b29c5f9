"""A follower's log is brought into line with its leader's, entry by entry, and never loses one that is committed.

An accepted message shows that both logs are the same up to its last entry, and no further: that is what is answered
(CL-058) and how far the leader's commit index is believed (CL-065). The answer waits until those entries are durable.
One without entries is answered at once, for what is durable, so that a slow disk is not taken for a dead node.
"""

from msgspec.structs import replace

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Role
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.judging import Judging
from bobbin.cluster.raft.log import follows
from bobbin.cluster.raft.messages import AppendAnswer, AppendEntries
from bobbin.cluster.raft.state import RaftState


class Following:
    """The part of a machine that listens to a leader."""

    def __init__(self, state: RaftState, judging: Judging | None = None) -> None:
        self._state = state
        self._judging = judging
        self._owed: tuple[NodeId, Term, int] | None = None
        """Leader, term and round of a message of which nothing was taken: answered once more when more is applied."""

    def hear_leader(self, sender: NodeId, term: int) -> bool:
        """Something came that only the leader of the present term says; whether it may be one."""
        state = self._state
        if state.is_leader or (state.leader is not None and state.leader != sender):
            state.stats.strangers += 1
            state.alarm("two-leaders", f"{sender} speaks as leader of term {term}, which {state.leader} leads")
            return False
        if state.role is not Role.FOLLOWER or state.is_pre_candidate or state.leader is None:
            state.become_follower(state.term, sender)
        state.heard_leader_ns = state.now_ns
        state.reset_election_timer()
        return True

    def hear_append(self, sender: NodeId, message: AppendEntries) -> None:
        """Take entries that follow what both logs have; refuse where that is not known."""
        state = self._state
        if message.term < state.term:
            self.refuse_stale(sender, message.round)
            return
        if not follows(message.entries, message.previous_index, message.previous_term, message.term):
            state.stats.malformed += 1
            return
        if message.term > state.term:
            state.become_follower(message.term, sender)
        if not self.hear_leader(sender, message.term):
            return
        previous = message.previous_index
        held = state.log.term_at(previous)
        # What is cut away is committed, and a leader's log holds everything that is.
        if held != message.previous_term and (held is not None or previous > state.commit_index):
            bound = state.log.last_at_most(previous - 1, message.previous_term)
            self._refuse(sender, message.round, max(bound, state.commit_index))
            return
        used_fast_path = False
        if self._judging is not None and message.entries:
            message, used_fast_path = self._judged(self._judging, message)
            self._owed = None if message.entries else (sender, message.term, message.round)
        match_index = Index(previous + len(message.entries))
        if not self._take(message):
            return
        state.known_commit = max(state.known_commit, min(message.commit, match_index))
        self._accept(
            sender, message.round, match_index, is_heartbeat=not message.entries, used_fast_path=used_fast_path
        )

    @property
    def owes_answer(self) -> bool:
        """Whether somebody waits for entries to be applied here."""
        return self._owed is not None

    def answer_owed(self) -> None:
        """More is applied: have the leader send again what was not taken, which may have come too early.

        The answer vouches for what is committed, and for no more: the log may have changed since the message came.
        """
        state, owed = self._state, self._owed
        self._owed = None
        if owed is not None and owed[:2] == (state.leader, state.term):
            leader, _, round_ = owed
            self._accept(leader, round_, state.commit_index, is_heartbeat=True)

    def accept_up_to(self, sender: NodeId, round_: int, match_index: Index) -> None:
        """Tell a leader that the log, a snapshot included, is as the leader's up to a committed place."""
        self._accept(sender, round_, match_index, is_heartbeat=False)

    def refuse_stale(self, sender: NodeId, round_: int) -> None:
        """Somebody speaks as leader of an older term, and learns the present one."""
        self._refuse(sender, round_, Index(0))

    def answer_without_match(self, sender: NodeId, round_: int) -> None:
        """Tell a leader that this node is here and cannot say yet that it has what was offered."""
        self._refuse(sender, round_, self._state.commit_index)

    def _judged(self, judging: Judging, message: AppendEntries) -> tuple[AppendEntries, bool]:
        """The message up to the first entry that must not be taken; and whether one before it had it easy."""
        state = self._state
        new = self._first_difference(message.entries)
        if new is None or new.index <= state.commit_index:
            return message, False
        held = new.index - message.previous_index - 1
        count, used_fast_path = judging.passing(message.entries[held:], message.leader, message.term)
        if held + count < len(message.entries):
            message = replace(message, entries=message.entries[: held + count])
        return message, used_fast_path

    def _take(self, message: AppendEntries) -> bool:
        """Append what is new and cut at the first conflict, if there is one (CL-055, CL-063)."""
        state = self._state
        log = state.log
        entries = message.entries
        if not entries:
            return True
        if message.previous_index == log.last_index:
            state.disk.append(entries)
            return True
        new = self._first_difference(entries)
        if new is None:
            return True
        index = new.index
        if index <= state.commit_index:
            state.stats.malformed += 1
            state.alarm("committed-conflict", f"{message.leader} contradicts committed entry {index}; it was refused")
            return False
        if index <= log.last_index:
            state.disk.truncate(index)
        state.disk.append(entries[index - message.previous_index - 1 :])
        return True

    def _first_difference(self, entries: tuple[Entry, ...]) -> Entry | None:
        log = self._state.log
        held_from = log.first_index
        for entry in entries:
            # What is cut away is committed and under a snapshot, so it cannot differ.
            if entry.index >= held_from and log.term_at(entry.index) != entry.term:
                return entry
        return None

    def _accept(
        self, sender: NodeId, round_: int, match_index: Index, *, is_heartbeat: bool, used_fast_path: bool = False
    ) -> None:
        state = self._state
        if is_heartbeat and not state.disk.is_hard_pending:
            match_index = min(match_index, state.disk.durable_index)
        answer = AppendAnswer(
            term=state.term,
            success=True,
            follower=state.node,
            match_index=match_index,
            round=round_,
            used_fast_path=used_fast_path,
        )
        if match_index <= state.disk.durable_index and not state.disk.is_hard_pending:
            state.send(sender, answer)
        else:
            state.send_when_durable(sender, answer)

    def _refuse(self, sender: NodeId, round_: int, agrees_at_most: Index) -> None:
        state = self._state
        answer = AppendAnswer(
            term=state.term, success=False, follower=state.node, match_index=agrees_at_most, round=round_
        )
        if state.disk.is_hard_pending:
            state.send_when_durable(sender, answer)
        else:
            state.send(sender, answer)
