"""Who leads: asking for votes, first without obligation and then for good, and answering those who ask.

A pre-vote carries the present term and changes nothing on either side, so a node that was cut off cannot raise the
term of the others. Its dead ends in other implementations are closed as follows (U15): a grant counts whatever the
answerer's term; a refusal teaches a higher term; an answer names the round it belongs to; and a pre-candidate has no
leader any more. Votes, for good or not, are refused while a leader was heard within the minimum election timeout,
unless that leader itself has asked for the election.

A vote is in memory at once and on the disk before anybody hears of it, the candidate's own included: it counts when it
is durable.
"""

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import TERM_MAX, NodeId, Term
from bobbin.cluster.raft.effects import Role
from bobbin.cluster.raft.messages import PreVote, PreVoteAnswer, RequestVote, TimeoutNow, VoteAnswer
from bobbin.cluster.raft.quorum import is_quorum
from bobbin.cluster.raft.state import RaftState


class Elections:
    """The part of a machine that stands for election and votes."""

    def __init__(self, state: RaftState, embedding: Embedding | None) -> None:
        self._state = state
        self._embedding = embedding
        self._has_warned = False

    def tick(self) -> None:
        """Stand for election when no leader was heard for too long."""
        state = self._state
        assert state.election_deadline_ns is not None, "the first step draws it"
        if state.is_leader or state.now_ns < state.election_deadline_ns:
            return
        if state.disk.is_hard_pending or not state.may_stand:
            self._warn_of_last_term()
            if not state.disk.is_hard_pending:
                state.follow(None)
            state.reset_election_timer()
        elif state.config.enable_pre_vote:
            self._ask_first()
        else:
            self._stand(is_transfer=False)

    def _warn_of_last_term(self) -> None:
        state = self._state
        if state.term >= TERM_MAX and not self._has_warned:
            self._has_warned = True
            state.alarm("terms-used-up", f"no term comes after {state.term}: this node cannot stand for election")

    def count_own(self) -> None:
        """This node's own vote is durable."""
        state = self._state
        if state.role is Role.CANDIDATE and not state.is_pre_candidate and not state.disk.is_hard_pending:
            self._count(state.node)

    # ---- asking ---------------------------------------------------------------------------------------------------

    def _ask_first(self) -> None:
        state = self._state
        state.follow(None)
        state.is_pre_candidate = True
        state.request += 1
        state.granted = {state.node}
        state.stood_ns = state.now_ns if state.stood_ns is None else state.stood_ns
        state.stats.pre_votes_started += 1
        state.reset_election_timer()
        message = PreVote(
            term=state.term,
            candidate=state.node,
            last_index=state.log.last_index,
            last_term=state.log.last_term,
            request=state.request,
            embedding=self._embedding,
        )
        for voter in self._others():
            state.send(voter, message)
        self._end_pre_vote()

    def _end_pre_vote(self) -> None:
        state = self._state
        if is_quorum(state.configuration, state.granted, state.config.quorum_size):
            self._stand(is_transfer=False)

    def _stand(self, *, is_transfer: bool) -> None:
        state = self._state
        state.become_candidate()
        message = RequestVote(
            term=state.term,
            candidate=state.node,
            last_index=state.log.last_index,
            last_term=state.log.last_term,
            request=state.request,
            is_transfer=is_transfer,
            embedding=self._embedding,
        )
        for voter in self._others():
            state.send_when_durable(voter, message)

    def _count(self, voter: NodeId) -> None:
        state = self._state
        state.granted.add(voter)
        if is_quorum(state.configuration, state.granted, state.config.quorum_size):
            state.become_leader()

    def _others(self) -> list[NodeId]:
        configuration = self._state.configuration
        return sorted({*configuration.voters, *configuration.outgoing} - {self._state.node})

    # ---- answering ------------------------------------------------------------------------------------------------

    def hear_pre_vote(self, sender: NodeId, message: PreVote) -> None:
        """Would this node vote for the sender? Saying so binds it to nothing and changes nothing (R6)."""
        state = self._state
        state.tiebreak.learn(message.candidate, message.embedding)
        granted = (
            message.term >= state.term
            and not state.has_heard_leader
            and state.is_up_to_date(message.last_term, message.last_index)
        )
        state.send(sender, PreVoteAnswer(term=state.term, granted=granted, voter=state.node, request=message.request))

    def hear_request(self, sender: NodeId, message: RequestVote) -> None:
        """Vote once in a term, for a log that is not behind; the answer waits for the disk."""
        state = self._state
        state.tiebreak.learn(message.candidate, message.embedding)
        if message.term < state.term or (state.has_heard_leader and not message.is_transfer):
            # The term of a node that disturbs a living leader is not learnt; the leader will learn it from its answer.
            self._answer(sender, message, granted=False)
            return
        if state.has_heard_leader and not self._can_be_chosen(message):
            state.stats.strangers += 1
            self._answer(sender, message, granted=False)
            return
        before = state.term
        if message.term > state.term:
            state.become_follower(message.term)
        granted = state.voted_for in {None, message.candidate} and state.is_up_to_date(
            message.last_term, message.last_index
        )
        if granted:
            if state.voted_for is None:
                state.disk.set_hard_state(message.term, message.candidate)
            state.is_pre_candidate = False
            state.reset_election_timer()
        self._answer(sender, message, granted=granted, before=before)

    def _can_be_chosen(self, message: RequestVote) -> bool:
        """Whether the leader can have handed over to this candidate, as it says.

        A leader hands over to a voter that holds everything, and that one stands in the very next term. So a node that
        was removed, or fell behind, deposes nobody by claiming it.
        """
        state = self._state
        configuration = state.configuration
        return (
            message.term == state.term + 1
            and (message.candidate in configuration.voters or message.candidate in configuration.outgoing)
            and state.is_up_to_date(message.last_term, message.last_index)
        )

    def _answer(self, sender: NodeId, message: RequestVote, *, granted: bool, before: Term | None = None) -> None:
        state = self._state
        answer = VoteAnswer(term=state.term, granted=granted, voter=state.node, request=message.request)
        if before is None:
            state.send(sender, answer)
        else:
            refusal = VoteAnswer(term=before, granted=False, voter=state.node, request=message.request)
            state.send_when_durable(sender, answer, refusal)

    # ---- hearing answers ------------------------------------------------------------------------------------------

    def hear_pre_vote_answer(self, message: PreVoteAnswer) -> None:
        """Count a grant of this round, whatever its term; learn a higher term from a refusal (CL-019)."""
        state = self._state
        if message.term > state.term:
            if not message.granted:
                state.become_follower(message.term)
            return
        if not state.is_pre_candidate or message.request != state.request or not message.granted:
            return
        state.granted.add(message.voter)
        self._end_pre_vote()

    def hear_vote_answer(self, message: VoteAnswer) -> None:
        """Count a grant of this term and this round, once for each voter (CL-005)."""
        state = self._state
        if message.term > state.term:
            state.become_follower(message.term)
        elif (
            state.role is Role.CANDIDATE
            and not state.is_pre_candidate
            and message.granted
            and (message.term, message.request) == (state.term, state.request)
        ):
            self._count(message.voter)

    def hear_timeout_now(self, sender: NodeId, message: TimeoutNow) -> None:
        """The leader hands over: stand at once and for good. Nobody else may ask for that (CL-036)."""
        state = self._state
        is_asked = state.role is Role.FOLLOWER and message.term == state.term and sender == state.leader
        if is_asked and message.leader == sender and state.may_stand:
            self._stand(is_transfer=True)
