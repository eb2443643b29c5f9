"""What is durable, and what may be found after a crash."""

from typing import NoReturn

import pytest

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Append, DurableRecord, HardState, Reset, Truncate
from bobbin.cluster.raft.entries import Configuration, Entry, SnapshotMetadata
from bobbin.cluster.raft.events import Recovered
from bobbin.simulator.raft_disk_checker import DiskChecker
from bobbin.simulator.world import Broken

A = NodeId("a")
ENTRIES = tuple(Entry(Term(1), Index(index), b"%d" % index) for index in (1, 2, 3))


def fail(message: str) -> NoReturn:
    raise Broken(message)


def checker() -> DiskChecker:
    """A node whose disk holds term 1, a vote and one entry."""
    made = DiskChecker([(A, Configuration((A,)))], fail)
    chain = 0
    for entry in ENTRIES:
        chain = made.ledger.enter(entry, chain)
    made.handed(A, [HardState(Term(1), A), Append(ENTRIES[:1])])
    made.synced(A)
    return made


def found(term: int = 1, vote: NodeId | None = A, entries: int = 1) -> Recovered:
    return Recovered(term=Term(term), voted_for=vote, entries=ENTRIES[:entries])


def snapshot(index: int) -> SnapshotMetadata:
    return SnapshotMetadata(
        last_index=Index(index),
        last_term=Term(1),
        sha256=b"h",
        size=1,
        configuration=Configuration((A,)),
        created_s=0,
        epoch=1,
    )


def test_what_was_durable_is_found() -> None:
    view = checker().restart(A, found(), may_lack=False)
    assert (view.durable_term, view.durable.last_index, view.memory.last_index) == (1, 1, 1)


@pytest.mark.parametrize(
    "lost", [found(term=0, vote=None), found(vote=None), found(entries=0), found(entries=2), found(term=2)]
)
def test_anything_else_is_a_broken_promise(lost: Recovered) -> None:
    with pytest.raises(Broken, match="the disk of a held"):
        checker().restart(A, lost, may_lack=False)


RECORDS: list[DurableRecord] = [HardState(Term(2), None), Append(ENTRIES[1:])]


def test_what_was_being_written_is_there_or_not_and_not_in_part() -> None:
    for recovered, is_possible in ((found(), True), (found(2, None, 3), True), (found(2, None, 1), False)):
        made = checker()
        made.handed(A, RECORDS)
        if is_possible:
            made.restart(A, recovered, may_lack=False)
        else:
            with pytest.raises(Broken, match="the disk of a held"):
                made.restart(A, recovered, may_lack=False)


def test_a_group_that_failed_may_be_found_until_something_else_is_written() -> None:
    made = checker()
    made.handed(A, RECORDS)
    made.not_synced(A)
    assert made.restart(A, found(2, None, 3), may_lack=False).durable_term == 2
    made = checker()
    made.handed(A, RECORDS)
    made.not_synced(A)
    made.handed(A, [Append(ENTRIES[1:2])])
    made.synced(A)
    with pytest.raises(Broken, match="the disk of a held"):
        made.restart(A, found(2, None, 3), may_lack=False)


def test_a_term_on_a_disk_never_falls() -> None:
    made = checker()
    made.handed(A, [HardState(Term(0), None)])
    with pytest.raises(Broken, match="R8"):
        made.synced(A)


def test_a_snapshot_is_of_what_was_committed_and_is_found_again() -> None:
    made = checker()
    with pytest.raises(Broken, match="never committed"):
        made.snapshot_kept(A, snapshot(2))
    made.ledger.commit(A, ENTRIES[:2], ENTRIES[1].term)
    made.snapshot_kept(A, snapshot(2))
    made.snapshot_durable(A, snapshot(2))
    with pytest.raises(Broken, match="had a snapshot of 2"):
        made.restart(A, found(), may_lack=False)
    view = made.restart(A, Recovered(term=Term(1), voted_for=A, snapshot=snapshot(2)), may_lack=False)
    assert (view.commit, view.durable.last_index) == (2, 2)


def test_a_damaged_disk_may_lack_entries_but_no_vote() -> None:
    made = checker()
    assert made.restart(A, found(entries=0), may_lack=True).durable.last_index == 0
    with pytest.raises(Broken, match="R8"):
        checker().restart(A, found(term=0, vote=None), may_lack=True)


def test_entries_are_cut_and_replaced_on_the_disk_as_well() -> None:
    made = checker()
    made.handed(A, [Append(ENTRIES[1:])])
    made.synced(A)
    made.handed(A, [Truncate(Index(2))])
    made.synced(A)
    assert made.views[A].durable.last_index == 1
    made.ledger.commit(A, ENTRIES[:2], ENTRIES[1].term)
    made.snapshot_kept(A, snapshot(2))
    made.handed(A, [Reset(snapshot(2))])
    made.synced(A)
    assert (made.views[A].durable.last_index, made.views[A].durable.base) == (2, 2)
