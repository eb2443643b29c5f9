"""What a form cannot carry is told in other words, and never as something else."""

import pytest
from hypothesis import given

from bobbin.errors import UsageError
from bobbin.reactive.messages import (
    Delta,
    Edge,
    Invalidate,
    Message,
    Node,
    NodeAdd,
    NodeId,
    NodeState,
    QueueClose,
    QueuePop,
    QueuePush,
    Snapshot,
)
from bobbin.wire.lazily import canonical_json, message_pack, seed_json
from bobbin.wire.lazily.conversions import to_canonical, to_seed
from tests.support.lazily_messages import ANY, CANONICAL, DIRTY, RESOLVED, UNSET_NODES, snapshots

FRESH = Node(NodeId(1), "a", NodeState.RESOLVED, b"1", "key")
STALE = Node(NodeId(2), "a", NodeState.DIRTY, b"2")
NEVER = Node(NodeId(3), "a", NodeState.DIRTY)
EMPTY = Node(NodeId(4), "a", NodeState.UNSET)
EDGES, ROOTS = (Edge(NodeId(2), NodeId(1)),), (NodeId(1),)


def test_a_stale_value_is_followed_by_its_invalidation() -> None:
    """RX-119: and both ends are at the epoch of the snapshot afterwards."""
    first, second = to_canonical(Snapshot(7, (FRESH, STALE, NEVER, EMPTY), EDGES, ROOTS))
    told = Node(NodeId(2), "a", NodeState.RESOLVED, b"2")
    assert first == Snapshot(6, (FRESH, told, Node(NodeId(3), "a", NodeState.UNSET), EMPTY), EDGES, ROOTS)
    assert second == Delta(6, 7, (Invalidate(NodeId(2)),))


def test_at_epoch_0_there_is_no_earlier_one_and_a_stale_value_is_left_out() -> None:
    """RX-119."""
    assert to_canonical(Snapshot(0, (STALE,), (), ())) == (
        Snapshot(0, (Node(NodeId(2), "a", NodeState.UNSET),), (), ()),
    )


def test_a_node_that_never_had_a_value_needs_no_invalidation() -> None:
    assert to_canonical(Snapshot(7, (NEVER,), (), ())) == (
        Snapshot(7, (Node(NodeId(3), "a", NodeState.UNSET),), (), ()),
    )


@given(snapshots(RESOLVED | UNSET_NODES | DIRTY))
def test_published_peers_take_every_snapshot(snapshot: Snapshot) -> None:
    """RX-119: nothing is told as fresh that is not, and nothing else changes."""
    told = to_canonical(snapshot)
    for message in told:
        assert canonical_json.decode(canonical_json.encode(message)) == message
        assert message_pack.decode(message_pack.encode(message)) == message
    first = told[0]
    assert isinstance(first, Snapshot)
    invalidated = {
        one.id
        for delta in told[1:]
        if isinstance(delta, Delta)
        for one in delta.operations
        if isinstance(one, Invalidate)
    }
    for before, after in zip(snapshot.nodes, first.nodes, strict=True):
        assert (after.id, after.tag, after.key) == (before.id, before.tag, before.key)
        if before.state is NodeState.DIRTY:
            assert after.value is None or before.id in invalidated
        else:
            assert after == before
    assert (first.edges, first.roots) == (snapshot.edges, snapshot.roots)
    last = told[-1]
    assert isinstance(last, Snapshot | Delta)
    assert last.epoch == snapshot.epoch


@given(CANONICAL)
def test_what_published_peers_can_be_told_is_told_as_it_is(message: Message) -> None:
    """RX-119: everything else survives."""
    assert to_canonical(message) == (message,)


def test_keys_are_dropped_towards_the_seed() -> None:
    """RX-119."""
    assert to_seed(Snapshot(7, (FRESH, STALE), EDGES, ROOTS)) == (
        Snapshot(7, (Node(NodeId(1), "a", NodeState.RESOLVED, b"1"), STALE), EDGES, ROOTS),
    )
    assert to_seed(Delta(0, 1, (NodeAdd(NodeId(1), "a", b"1", "key"), Invalidate(NodeId(2))))) == (
        Delta(0, 1, (NodeAdd(NodeId(1), "a", b"1"), Invalidate(NodeId(2)))),
    )


@given(ANY)
def test_the_seed_takes_every_message(message: Message) -> None:
    """RX-119."""
    (told,) = to_seed(message)
    assert seed_json.decode(seed_json.encode(told)) == told


@pytest.mark.parametrize("operation", [QueuePush(NodeId(1), b""), QueuePop(NodeId(1)), QueueClose(NodeId(1))])
def test_a_queue_cannot_be_told_in_the_seeds_form(operation: QueuePush | QueuePop | QueueClose) -> None:
    for refuse in (to_seed, seed_json.encode):
        with pytest.raises(UsageError, match="queues"):
            refuse(Delta(0, 1, (operation,)))
