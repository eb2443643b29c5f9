"""Messages of raft with everything that a test does not care about filled in."""

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.messages import (
    AppendAnswer,
    AppendEntries,
    PreVote,
    PreVoteAnswer,
    RequestVote,
    TimeoutNow,
    VoteAnswer,
)


def pre_vote(candidate: str, term: int, last: tuple[int, int] = (0, 0), request: int = 1) -> PreVote:
    """``last`` is (term, index), as logs are compared."""
    return PreVote(
        term=Term(term),
        candidate=NodeId(candidate),
        last_index=Index(last[1]),
        last_term=Term(last[0]),
        request=request,
    )


def request_vote(
    candidate: str, term: int, last: tuple[int, int] = (0, 0), request: int = 1, *, is_transfer: bool = False
) -> RequestVote:
    return RequestVote(
        term=Term(term),
        candidate=NodeId(candidate),
        last_index=Index(last[1]),
        last_term=Term(last[0]),
        request=request,
        is_transfer=is_transfer,
    )


def pre_answer(voter: str, term: int, request: int, *, granted: bool = True) -> PreVoteAnswer:
    return PreVoteAnswer(term=Term(term), granted=granted, voter=NodeId(voter), request=request)


def vote(voter: str, term: int, request: int, *, granted: bool = True) -> VoteAnswer:
    return VoteAnswer(term=Term(term), granted=granted, voter=NodeId(voter), request=request)


def append(
    leader: str,
    term: int,
    previous: tuple[int, int] = (0, 0),
    new: tuple[Entry, ...] = (),
    *,
    commit: int = 0,
    round_: int = 1,
) -> AppendEntries:
    """``previous`` is (term, index)."""
    return AppendEntries(
        term=Term(term),
        leader=NodeId(leader),
        previous_index=Index(previous[1]),
        previous_term=Term(previous[0]),
        entries=new,
        commit=Index(commit),
        round=round_,
    )


def answer(follower: str, term: int, match: int, round_: int, *, success: bool = True) -> AppendAnswer:
    return AppendAnswer(
        term=Term(term), success=success, follower=NodeId(follower), match_index=Index(match), round=round_
    )


def timeout_now(leader: str, term: int) -> TimeoutNow:
    return TimeoutNow(term=Term(term), leader=NodeId(leader))
