from itertools import product

import pytest

from bobbin.cluster.chain.errors import SnapshotTooOld, WrongState
from bobbin.cluster.chain.holdings import Holds
from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.chain.versions import Item
from bobbin.cluster.chain.workspace import TRANSITIONS, TransactionWorkspace, WorkspaceState
from bobbin.cluster.operations import CompareAndSwap, CounterAdd, Delete, Embed, Put, ReadVersion, Update
from bobbin.cluster.settings import ChainConfig
from bobbin.errors import UsageError
from tests.support.chains import new_ledger, put_on, unit

S = WorkspaceState


def _workspace(ledger: Ledger) -> TransactionWorkspace:
    return TransactionWorkspace(bytes(16), ledger, since=ledger.height, born_ms=7, priority=2)


_STEPS = {
    S.COMMITTING: TransactionWorkspace.ask,
    S.ROLLED_BACK: TransactionWorkspace.rollback,
    S.COMMITTED: TransactionWorkspace.committed,
    S.FAILED: TransactionWorkspace.failed,
}
_WAY_TO = {
    S.ACTIVE: (),
    S.COMMITTING: (S.COMMITTING,),
    S.ROLLED_BACK: (S.ROLLED_BACK,),
    S.COMMITTED: (S.COMMITTING, S.COMMITTED),
    S.FAILED: (S.COMMITTING, S.FAILED),
}


@pytest.mark.parametrize(("state", "to"), list(product(S, _STEPS)))
def test_only_the_moves_of_the_table_are_made(state: WorkspaceState, to: WorkspaceState) -> None:
    allowed = {
        (S.ACTIVE, S.COMMITTING),
        (S.ACTIVE, S.ROLLED_BACK),
        (S.COMMITTING, S.COMMITTED),
        (S.COMMITTING, S.FAILED),
    }
    workspace = _workspace(new_ledger())
    for step in _WAY_TO[state]:
        _STEPS[step](workspace)
    if (state, to) in allowed:
        _STEPS[to](workspace)
        assert workspace.state is to
    else:
        with pytest.raises(WrongState):
            _STEPS[to](workspace)
        assert workspace.state is state
    assert {(one, other) for one, others in TRANSITIONS.items() for other in others} == allowed


@pytest.mark.parametrize("state", [state for state in S if state is not S.ACTIVE])
def test_operations_and_reads_are_for_active_workspaces(state: WorkspaceState) -> None:
    workspace = _workspace(new_ledger())
    workspace.add_operation(Put(b"k", b""))
    for step in _WAY_TO[state]:
        _STEPS[step](workspace)
    before = workspace.operations
    with pytest.raises(WrongState):
        workspace.add_operation(Put(b"x", b""))
    with pytest.raises(WrongState):
        workspace.get(b"k")
    assert workspace.operations == before


def test_reads_are_of_the_beginning_with_own_writes_on_top() -> None:
    ledger = new_ledger()
    put_on(ledger, Put(b"k", b"1"), Put(b"mine", b"1"))
    workspace = _workspace(ledger)
    put_on(ledger, Put(b"k", b"2"), Put(b"later", b""))
    assert workspace.get(b"k") == Item(b"k", b"1", 1)
    assert workspace.get(b"later") is None
    workspace.add_operation(Put(b"mine", b"own"))
    workspace.add_operation(CounterAdd(b"n", 5))
    workspace.add_operation(Embed(b"v", unit(1)))
    assert workspace.get(b"mine") == Item(b"mine", b"own", 0)
    assert workspace.get(b"n") == Item(b"n", b"5", 0, Holds.NUMBER)
    assert workspace.get(b"emb:v") is not None
    workspace.add_operation(Delete(b"mine"))
    assert workspace.get(b"mine") is None
    assert ledger.get(b"mine") == Item(b"mine", b"1", 1)


def test_own_writes_that_the_store_would_refuse_are_not_seen() -> None:
    ledger = new_ledger()
    put_on(ledger, Put(b"k", b"1"))
    workspace = _workspace(ledger)
    workspace.add_operation(CompareAndSwap(b"k", b"other", b"2"))
    workspace.add_operation(Update(b"absent", b"2"))
    assert workspace.get(b"k") == Item(b"k", b"1", 1)
    assert workspace.get(b"absent") is None
    workspace.add_operation(CompareAndSwap(b"k", b"1", b"2"))
    assert workspace.get(b"k") == Item(b"k", b"2", 1)


def test_what_was_read_from_the_store_goes_with_the_transaction() -> None:
    ledger = new_ledger()
    put_on(ledger, Put(b"b", b"1"), Put(b"blind", b""))
    workspace = _workspace(ledger)
    workspace.get(b"b")
    workspace.get(b"absent")
    workspace.add_operation(Put(b"blind", b"own"))
    workspace.get(b"blind")
    workspace.add_operation(CounterAdd(b"n", 1))
    workspace.get(b"n")
    asked = workspace.ask()
    assert asked.reads == (ReadVersion(b"absent", 0), ReadVersion(b"b", 1), ReadVersion(b"n", 0))
    assert (asked.since, asked.born_ms, asked.priority, asked.operations) == (1, 7, 2, workspace.operations)


def test_rollback_drops_the_buffer_and_touches_nobodys_commits() -> None:
    ledger = new_ledger()
    workspace = _workspace(ledger)
    workspace.add_operation(Put(b"k", b"mine"))
    workspace.get(b"other")
    put_on(ledger, Put(b"k", b"theirs"), Put(b"other", b"theirs"))
    root = ledger.root
    workspace.rollback()
    assert (workspace.operations, workspace.transaction().reads) == ((), ())
    assert ledger.root == root
    assert ledger.get(b"k") == Item(b"k", b"theirs", 1)


def test_operations_that_could_never_be_done_are_not_buffered() -> None:
    workspace = _workspace(new_ledger())
    with pytest.raises(UsageError):
        workspace.add_operation(Put(bytes(4_097), b""))
    for _ in range(1_000):
        workspace.add_operation(Put(b"k", b""))
    with pytest.raises(UsageError):
        workspace.add_operation(Put(b"k", b""))
    assert len(workspace.operations) == 1_000


def test_a_workspace_that_reads_too_far_back_is_told_so() -> None:
    ledger = Ledger(config=ChainConfig(embedding_dimension=8), keep_heights=2)
    workspace = _workspace(ledger)
    for number in range(4):
        put_on(ledger, Put(b"k", b"%d" % number))
    with pytest.raises(SnapshotTooOld):
        workspace.get(b"k")
