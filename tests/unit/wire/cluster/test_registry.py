"""The registry: keys, seats, and the change of a key."""

import pytest

from bobbin.cluster.identity import InvalidKey
from bobbin.cluster.names import NodeId
from bobbin.errors import UsageError
from bobbin.wire.cluster import registry as module
from bobbin.wire.cluster.registry import Registry
from tests.support.cluster_wire import ALICE, BOB, CAROL, MALLORY


def test_a_key_speaks_for_the_seat_of_its_own_id() -> None:
    registry = Registry()
    assert registry.find(ALICE.node) is None
    assert registry.register(ALICE.public) == ALICE.node
    found = registry.find(ALICE.node)
    assert found is not None
    assert (found.identity, found.seat) == (ALICE.public_identity, ALICE.node)
    assert len(registry) == 1


def test_a_new_key_takes_over_a_seat() -> None:
    """CL-366."""
    registry = Registry()
    registry.register(ALICE.public)
    registry.register(BOB.public)
    registry.register(CAROL.public, seat=ALICE.node)
    assert registry.keys_of(ALICE.node) == (ALICE.public_identity, CAROL.public_identity)
    registry.remove(ALICE.node)
    assert registry.find(ALICE.node) is None
    found = registry.find(CAROL.node)
    assert found is not None
    assert found.seat == ALICE.node
    assert registry.keys_of(ALICE.node) == (CAROL.public_identity,)
    assert registry.seats() == tuple(sorted((ALICE.node, BOB.node)))


def test_registering_again_changes_nothing_and_for_another_seat_is_refused() -> None:
    registry = Registry()
    registry.register(ALICE.public, seat=BOB.node)
    registry.register(ALICE.public, seat=BOB.node)
    with pytest.raises(UsageError, match="already"):
        registry.register(ALICE.public)
    found = registry.find(ALICE.node)
    assert found is not None
    assert found.seat == BOB.node
    assert len(registry) == 1


def test_removing_what_is_not_there_changes_nothing() -> None:
    registry = Registry()
    registry.remove(MALLORY.node)
    registry.remove(NodeId(""))
    assert len(registry) == 0
    assert registry.seats() == ()


@pytest.mark.parametrize("public", [b"", bytes(32), b"\xff" * 32, bytes(33)])
def test_bytes_that_are_no_key_are_not_registered(public: bytes) -> None:
    registry = Registry()
    with pytest.raises(InvalidKey):
        registry.register(public)
    assert len(registry) == 0


def test_the_number_of_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEYS_MAX", 2)
    registry = Registry()
    registry.register(ALICE.public)
    registry.register(BOB.public)
    with pytest.raises(UsageError, match="at most 2"):
        registry.register(CAROL.public)
    registry.register(BOB.public)
    registry.remove(BOB.node)
    registry.register(CAROL.public)
