"""A world of transactions: that it is its seed, what moves it, and that it says what was broken."""

from unittest.mock import patch

import pytest

from bobbin.cluster.shard.leader import ShardLeader
from bobbin.simulator import transaction_world
from bobbin.simulator.transaction_world import TransactionWorld
from bobbin.simulator.world import Broken


def test_one_seed_is_one_world() -> None:
    first, second = TransactionWorld(2, is_traced=True), TransactionWorld(2, is_traced=True)
    for world in (first, second):
        assert world.run()["worlds"] == 1
    assert first.digest == second.digest
    assert first.trace


def test_a_broken_promise_names_its_seed() -> None:
    def fail(self: ShardLeader) -> dict[str, int]:
        del self
        raise AssertionError("on purpose")

    with (
        patch.object(ShardLeader, "leftovers", fail),
        pytest.raises(Broken, match="seed 2: an invariant does not hold"),
    ):
        TransactionWorld(2).run()


def test_what_never_ends_is_found() -> None:
    with (
        patch.object(transaction_world, "CALM_NS_MAX", 1),
        patch.object(ShardLeader, "leftovers", lambda _: {"locks": 1}),
        pytest.raises(Broken, match="T2: after the troubles this does not end"),
    ):
        TransactionWorld(2).run()
