"""The memory of a checker: what contradicts it is found however long ago it was."""

from typing import NoReturn

import pytest

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.entries import Entry
from bobbin.simulator.raft_image import CHAIN_BEGIN
from bobbin.simulator.raft_ledger import Ledger
from bobbin.simulator.world import Broken

A, B = NodeId("a"), NodeId("b")


def fail(message: str) -> NoReturn:
    raise Broken(message)


def entry(index: int, term: int, payload: bytes = b"") -> Entry:
    return Entry(Term(term), Index(index), payload)


def test_a_term_has_one_leader_and_a_voter_one_vote() -> None:
    ledger = Ledger(fail)
    ledger.lead(A, Term(1))
    ledger.lead(A, Term(1))
    ledger.lead(B, Term(2))
    with pytest.raises(Broken, match="R1"):
        ledger.lead(B, Term(1))
    ledger.vote(A, Term(1), A)
    ledger.vote(A, Term(2), B)
    with pytest.raises(Broken, match="R5"):
        ledger.vote(A, Term(1), B)


def test_an_entry_is_known_by_its_place_and_term_with_everything_before() -> None:
    ledger = Ledger(fail)
    chain = ledger.enter(entry(1, 1, b"x"), CHAIN_BEGIN)
    assert ledger.enter(entry(1, 1, b"x"), CHAIN_BEGIN) == chain
    ledger.enter(entry(2, 1, b"y"), chain)
    with pytest.raises(Broken, match="R2"):
        ledger.enter(entry(1, 1, b"other"), CHAIN_BEGIN)
    with pytest.raises(Broken, match="R2"):
        ledger.enter(entry(2, 1, b"y"), chain + 1)


def test_what_is_committed_is_so_for_ever() -> None:
    ledger = Ledger(fail)
    chain = CHAIN_BEGIN
    for one in (entry(1, 1), entry(2, 1, b"x"), entry(3, 4)):
        chain = ledger.enter(one, chain)
        ledger.commit(A, [one], one.term)
    assert ledger.last == 3
    assert [ledger.last_before(term) for term in (1, 2, 4, 5)] == [0, 2, 2, 3]
    with pytest.raises(Broken, match="in the place of 4"):
        ledger.commit(A, [entry(3, 4)], 4)
    with pytest.raises(Broken, match="never appended"):
        ledger.commit(A, [entry(4, 4)], 4)
    ledger.enter(entry(4, 3), chain)
    with pytest.raises(Broken, match="terms fall"):
        ledger.commit(A, [entry(4, 3)], 4)


def test_what_a_later_leader_has_committed_binds_those_after_it_alone() -> None:
    """World 14058: a candidate of term 3 heard of its last vote when a leader of term 4 had committed an old entry."""
    ledger = Ledger(fail)
    chain = ledger.enter(entry(1, 2), CHAIN_BEGIN)
    ledger.enter(entry(2, 4), chain)
    ledger.commit(A, [entry(1, 2), entry(2, 4)], 4)
    assert [ledger.last_before(term) for term in (3, 4, 5)] == [0, 0, 2]


def test_a_request_that_was_refused_is_not_committed() -> None:
    ledger = Ledger(fail)
    one = entry(1, 1, b"x")
    ledger.enter(one, CHAIN_BEGIN)
    ledger.deny(A, 1, 1)
    with pytest.raises(Broken, match="said not to be done"):
        ledger.commit(A, [one], 1)
    other = Ledger(fail)
    other.enter(one, CHAIN_BEGIN)
    other.commit(A, [one], 1)
    with pytest.raises(Broken, match="will not be done"):
        other.deny(A, 1, 1)


def test_results_and_states_are_one() -> None:
    ledger = Ledger(fail)
    ledger.result(A, 2, b"r")
    ledger.result(B, 2, b"r")
    with pytest.raises(Broken, match="R3"):
        ledger.result(B, 2, b"other")
    ledger.root(A, 2, b"root")
    with pytest.raises(Broken, match="another state"):
        ledger.root(B, 2, b"other")
