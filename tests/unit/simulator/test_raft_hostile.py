"""A member that lies: only what raft can bear."""

from random import Random

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.messages import (
    AppendAnswer,
    AppendEntries,
    PreVoteAnswer,
    RaftMessage,
    RequestVote,
    SnapshotChunk,
    TimeoutNow,
    VoteAnswer,
)
from bobbin.simulator.raft_hostile import FAR, Liar
from bobbin.simulator.raft_judge import FORGED
from tests.support.raft_messages import append

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def twisted(message: RaftMessage, *, is_judged: bool = False) -> list[tuple[str, RaftMessage]]:
    liar = Liar(A, Random(1), is_judged=is_judged)
    liar.rate = 1.0
    return [liar.twist(B, message) for _ in range(40)]


def test_votes_are_kept_back_and_never_given_twice() -> None:
    for kind, message in twisted(VoteAnswer(term=Term(2), granted=True, voter=A, request=1)):
        assert (kind, message) == ("vote kept back", VoteAnswer(term=Term(2), granted=False, voter=A, request=1))
    refused = VoteAnswer(term=Term(2), granted=False, voter=A, request=1)
    assert all(message == refused for _, message in twisted(refused))


def test_entries_are_claimed_only_where_nobody_can_have_them() -> None:
    answer = AppendAnswer(term=Term(2), success=True, follower=A, match_index=Index(5), round=7)
    kinds = set()
    for kind, message in twisted(answer):
        kinds.add(kind)
        assert isinstance(message, AppendAnswer)
        assert (message.match_index, message.round) in {(5 + FAR, 7), (5, 7 + FAR)}
    assert kinds == {"match beyond the log", "answer to what was not sent"}


def test_terms_ahead_come_with_a_refusal() -> None:
    for _, message in twisted(PreVoteAnswer(term=Term(2), granted=True, voter=A, request=1)):
        assert isinstance(message, PreVoteAnswer)
        assert not message.granted
        assert message.term > 2


def test_chunks_are_spoilt_in_their_bytes_their_place_or_their_end() -> None:
    chunk = SnapshotChunk(
        term=Term(1),
        leader=A,
        sha256=b"h",
        last_index=Index(3),
        last_term=Term(1),
        offset=0,
        total=4,
        data=b"data",
        is_last=True,
    )
    messages = [message for _, message in twisted(chunk)]
    assert chunk not in messages
    assert (
        len({(one.data != b"data", one.offset, one.is_last) for one in messages if isinstance(one, SnapshotChunk)}) == 3
    )


def test_what_it_says_unasked_is_of_every_kind_and_has_no_entries() -> None:
    liar = Liar(A, Random(2))
    liar.rate = 0.0
    remembered = TimeoutNow(term=Term(1), leader=A)
    assert liar.twist(B, remembered) == ("", remembered)
    kinds = set()
    for _ in range(100):
        kind, lies = liar.act(Term(4), B, (B, C))
        kinds.add(kind)
        for to, message in lies:
            assert to in {B, C}
            if isinstance(message, AppendEntries):
                assert message.entries == ()
                assert to != B, "the leader itself would know"
            if isinstance(message, RequestVote):
                assert (message.last_index, message.last_term) == (0, 0)
    assert kinds == {"play the leader", "hand over", "long over", "far ahead", "again"}


def test_entries_are_forged_only_where_they_are_judged_and_of_its_own_term() -> None:
    old = [Entry(Term(1), Index(1), b"old"), Entry(Term(2), Index(2), None)]
    own = [Entry(Term(2), Index(index), b"new") for index in (3, 4)]
    message = append("a", 2, (0, 0), (*old, *own))
    assert twisted(message) == [("", message)] * 40
    places = set()
    for kind, lie in twisted(message, is_judged=True):
        assert isinstance(lie, AppendEntries)
        (forged,) = [one for one, honest in zip(lie.entries, message.entries, strict=True) if one != honest]
        assert isinstance(forged.payload, bytes)
        assert (kind, forged.term, forged.payload.startswith(FORGED)) == ("forged entry", 2, True)
        places.add(forged.index)
    assert places == {3, 4}
    nothing = append("a", 2, (0, 0), tuple(old))
    assert twisted(nothing, is_judged=True) == [("", nothing)] * 40
