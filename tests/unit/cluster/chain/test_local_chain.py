from random import Random

import pytest
from msgspec.structs import replace

import bobbin.cluster.chain as chain_package
from bobbin.cluster.chain.co_signatures import BadCoSignature, co_sign
from bobbin.cluster.chain.draft import ClashKind
from bobbin.cluster.chain.errors import AlreadyCoSigned, ChainError, CommitFailed
from bobbin.cluster.chain.local_chain import Committed, LocalChain, Refused
from bobbin.cluster.chain.workspace import TransactionWorkspace, WorkspaceState
from bobbin.cluster.conflicts.classify import ConflictClass
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.identity import Identity
from bobbin.cluster.names import NodeId
from bobbin.cluster.operations import CompareAndSwap, CounterAdd, Embed, Operation, Put, VectorAdd
from bobbin.cluster.settings import AutoMergeConfig, ChainConfig
from tests.support.chains import ALICE, BOB, fingerprint, unit


def _chain(config: ChainConfig | None = None, *, geometry: bool = True) -> LocalChain:
    return LocalChain(
        config or ChainConfig(embedding_dimension=8), chance=Random(1), identity=ALICE, optimistic_locking=geometry
    )


def _begun(chain: LocalChain, *operations: Operation) -> TransactionWorkspace:
    workspace = chain.begin()
    for operation in operations:
        workspace.add_operation(operation)
    return workspace


def _done(chain: LocalChain, *operations: Operation, now_ms: int = 1_000) -> Committed:
    result = chain.commit(_begun(chain, *operations), now_ms=now_ms)
    assert isinstance(result, Committed)
    return result


def test_begin_commit_read_history_verify() -> None:
    chain = _chain()
    workspace = chain.begin()
    assert workspace.get(b"k") is None
    workspace.add_operation(Put(b"k", b"1"))
    result = chain.commit(workspace, now_ms=5)
    assert result == Committed(1, chain.ledger.tip)
    assert workspace.state is WorkspaceState.COMMITTED
    item = chain.get(b"k")
    assert item is not None
    assert (item.value, item.version) == (b"1", 1)
    assert [touch.transaction for touch in chain.history(b"k")] == [workspace.id]
    assert chain.verify() is None
    header = chain.ledger.tip_block.header
    assert (header.proposer, header.timestamp_ms) == (ALICE.node, 5)


def test_refused_operations_are_told_to_whose_they_are() -> None:
    chain = _chain()
    result = _done(chain, Put(b"a", b""), CompareAndSwap(b"b", b"x", b"y"))
    assert [number for number, _ in result.refusals] == [1]


def test_the_first_committer_wins() -> None:
    chain = _chain()
    one, other = _begun(chain, Put(b"k", b"1")), _begun(chain, Put(b"k", b"2"))
    assert isinstance(chain.commit(other, now_ms=0), Committed)
    before = fingerprint(chain.ledger)
    refused = chain.commit(one, now_ms=0)
    assert isinstance(refused, Refused)
    assert refused.clash is not None
    assert refused.clash.kind is ClashKind.OVERTAKEN
    assert refused.reason
    assert one.state is WorkspaceState.FAILED
    assert fingerprint(chain.ledger) == before
    assert chain.metrics.clashes[ClashKind.OVERTAKEN] == 1


def test_geometry_only_adds_refusals_and_can_be_left_out() -> None:
    for geometry in (True, False):
        chain = _chain(geometry=geometry)
        late = _begun(chain, VectorAdd(b"k", unit(1)), Put(b"x", b""))
        _done(chain, VectorAdd(b"k", unit(1)))
        before = fingerprint(chain.ledger)
        result = chain.commit(late, now_ms=0)
        if geometry:
            assert isinstance(result, Refused)
            assert result.alike is not None
            assert result.clash is None
            assert result.reason
            assert fingerprint(chain.ledger) == before
            assert late.state is WorkspaceState.FAILED
        else:
            assert isinstance(result, Committed)
        blind = _begun(chain, Put(b"y", b"1"))
        _done(chain, Put(b"y", b"2"))
        assert isinstance(chain.commit(blind, now_ms=0), Refused), "no setting lets a version conflict pass"


def test_rollback_forgets_the_workspace_alone() -> None:
    chain = _chain()
    workspace = _begun(chain, Put(b"k", b"mine"))
    _done(chain, Put(b"k", b"theirs"))
    root = chain.ledger.root
    chain.rollback(workspace)
    assert (chain.ledger.root, workspace.state) == (root, WorkspaceState.ROLLED_BACK)
    with pytest.raises(ChainError):
        chain.commit(workspace, now_ms=0)


def test_those_that_asked_go_along_and_active_ones_never() -> None:
    chain = _chain(ChainConfig(embedding_dimension=8))
    asked = [_begun(chain, Embed(b"%d" % number, unit(number))) for number in range(3)]
    active = _begun(chain, Embed(b"active", unit(5)))
    for workspace in asked[1:]:
        chain.ask(workspace, now_ms=950)
    first = chain.commit(asked[0], now_ms=1_000)
    assert isinstance(first, Committed)
    assert [workspace.state for workspace in asked] == [WorkspaceState.COMMITTED] * 3
    assert active.state is WorkspaceState.ACTIVE
    assert len(chain.ledger.tip_block.transactions) == 3
    assert chain.commit(asked[1], now_ms=1_001) == first
    with pytest.raises(ChainError):
        chain.commit(asked[1], now_ms=1_001)
    assert (chain.metrics.blocks, chain.metrics.committed, chain.metrics.merged) == (1, 3, 2)
    active.add_operation(Put(b"more", b""))
    assert isinstance(chain.commit(active, now_ms=1_002), Committed)


def test_a_candidate_that_may_not_go_along_stays_as_it_was() -> None:
    chain = _chain()
    lead = _begun(chain, Embed(b"a", unit(1)))
    overtaken = _begun(chain, Put(b"k", b"mine"))
    alike = _begun(chain, Embed(b"b", unit(1)))
    old = _begun(chain, Embed(b"c", unit(2)))
    _done(chain, Put(b"k", b"theirs"))
    chain.ask(overtaken, now_ms=990)
    chain.ask(alike, now_ms=990)
    chain.ask(old, now_ms=800)
    assert isinstance(chain.commit(lead, now_ms=1_000), Committed)
    assert [one.state for one in (overtaken, alike, old)] == [WorkspaceState.COMMITTING] * 3
    assert chain.waiting == 3
    assert isinstance(chain.commit(overtaken, now_ms=1_000), Refused)
    assert isinstance(chain.commit(alike, now_ms=1_000), Committed)
    assert isinstance(chain.commit(old, now_ms=1_000), Committed)
    assert chain.waiting == 0


def test_merging_can_be_turned_off() -> None:
    chain = _chain(ChainConfig(embedding_dimension=8, auto_merge=AutoMergeConfig(enabled=False)))
    one, other = (_begun(chain, Embed(b"%d" % number, unit(number))) for number in range(2))
    chain.ask(one, now_ms=0)
    assert isinstance(chain.commit(other, now_ms=0), Committed)
    assert one.state is WorkspaceState.COMMITTING
    assert isinstance(chain.commit(one, now_ms=0), Committed)
    assert [len(block.transactions) for block in chain.ledger] == [0, 1, 1]


def test_additions_of_one_kind_share_a_block() -> None:
    chain = _chain()
    one, other = (_begun(chain, CounterAdd(b"n", amount)) for amount in (5, -100))
    chain.ask(one, now_ms=0)
    assert isinstance(chain.commit(other, now_ms=0), Committed)
    item = chain.get(b"n")
    assert item is not None
    assert item.value == b"-95"
    assert chain.metrics.merged == 1


def test_a_commit_over_the_limit_is_refused() -> None:
    chain = _chain(ChainConfig(embedding_dimension=8, max_transactions=2))
    before = fingerprint(chain.ledger)
    workspace = _begun(chain, *[Put(b"%d" % number, b"") for number in range(3)])
    refused = chain.commit(workspace, now_ms=0)
    assert isinstance(refused, Refused)
    assert workspace.state is WorkspaceState.FAILED
    assert fingerprint(chain.ledger) == before


@pytest.mark.parametrize("step", ["draft", "seal", "append", "append refuses"])
def test_a_commit_that_fails_at_any_step_leaves_everything_as_it_was(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = _chain()
    _done(chain, Put(b"k", b"1"))
    before = fingerprint(chain.ledger)
    workspace, waiting = _begun(chain, Embed(b"a", unit(1))), _begun(chain, Embed(b"b", unit(2)))
    chain.ask(waiting, now_ms=0)

    def broken(*_: object, **__: object) -> str:
        if step == "append refuses":
            return "the root is another one"
        raise ChainError("it broke")

    with monkeypatch.context() as patched:
        patched.setattr(type(chain.ledger), step.split(maxsplit=1)[0], broken)
        with pytest.raises(CommitFailed):
            chain.commit(workspace, now_ms=0)
    assert fingerprint(chain.ledger) == before
    assert (workspace.state, waiting.state) == (WorkspaceState.FAILED, WorkspaceState.COMMITTING)
    assert isinstance(chain.commit(waiting, now_ms=0), Committed)


def test_an_identity_that_was_closed_signs_no_block() -> None:
    identity = Identity(b"c" * 32)
    chain = LocalChain(ChainConfig(embedding_dimension=8), chance=Random(1), identity=identity)
    identity.close()
    workspace = _begun(chain, Put(b"k", b""))
    with pytest.raises(CommitFailed):
        chain.commit(workspace, now_ms=0)
    assert (workspace.state, chain.ledger.height) == (WorkspaceState.FAILED, 0)


def test_the_conflict_of_two_workspaces_is_told() -> None:
    chain = _chain()
    one, other = _begun(chain, Embed(b"a", unit(1)), Put(b"x", b"")), _begun(chain, Embed(b"a", unit(1)))
    result = chain.conflict(one, other)
    assert result.overlapping_keys == (b"a",)
    assert result.conflict_class is ConflictClass.CONFLICTING
    assert chain.conflict(chain.begin(), chain.begin()).conflict_class is ConflictClass.ORTHOGONAL


def test_the_threshold_of_the_configuration_counts() -> None:
    """These two have a cosine of 0.72 and share one position of five."""
    one = Embed(b"a", Embedding(8, (0, 1, 2), (1.0, 0.44, 0.44)))
    other = Embed(b"b", Embedding(8, (0, 3, 4), (1.0, 0.44, 0.44)))
    for threshold, expected in ((0.7, ConflictClass.CONFLICTING), (0.75, ConflictClass.LOW_CONFLICT)):
        chain = _chain(ChainConfig(embedding_dimension=8, conflict_threshold=threshold))
        assert chain.conflict(_begun(chain, one), _begun(chain, other)).conflict_class is expected


def test_the_defaults_are_those_of_the_protocol() -> None:
    config = ChainConfig()
    assert (config.conflict_threshold, config.max_transactions) == (0.7, 1_000)
    merge = config.auto_merge
    assert (merge.enabled, merge.orthogonal_threshold, merge.max_merge_batch, merge.merge_window_ms) == (
        True,
        0.1,
        10,
        100,
    )


def test_a_node_without_a_name_gets_one_by_chance() -> None:
    one, other = (LocalChain(chance=Random(seed)) for seed in (1, 2))
    assert one.identity.node != other.identity.node
    assert LocalChain(chance=Random(1)).identity.node == one.identity.node
    assert ChainConfig().node_id is None
    LocalChain(ChainConfig(node_id=ALICE.node), chance=Random(1), identity=ALICE)
    with pytest.raises(ChainError):
        LocalChain(ChainConfig(node_id=NodeId("somebody")), chance=Random(1), identity=ALICE)


def test_others_stand_by_blocks_of_this_chain() -> None:
    chain = _chain()
    done = _done(chain, Put(b"k", b""))
    chain.co_sign(1, co_sign(BOB, done.hash))
    assert chain.co_signatures(1) == (co_sign(BOB, done.hash),)
    with pytest.raises(AlreadyCoSigned):
        chain.co_sign(1, co_sign(BOB, done.hash))
    with pytest.raises(BadCoSignature):
        chain.co_sign(1, replace(co_sign(ALICE, done.hash), validator=BOB.node))
    for height, hash in ((0, done.hash), (1, bytes(32)), (2, done.hash)):
        with pytest.raises(ChainError):
            chain.co_sign(height, co_sign(ALICE, hash))
    assert len(chain.co_signatures(1)) == 1
    assert chain.co_signatures(0) == chain.co_signatures(9) == ()


def test_what_a_program_needs_is_named_in_one_place() -> None:
    assert {chain_package.LocalChain, chain_package.Committed, chain_package.Refused} == {
        LocalChain,
        Committed,
        Refused,
    }
