"""The end of a world: what is wrong with it is found, each by its name."""

from collections.abc import Callable
from random import Random
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from bobbin.cluster.chain import ledger
from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Put, Transaction, VectorAdd
from bobbin.cluster.shard.events import Commit, ReplaceCodebookWanted
from bobbin.cluster.transactions.names import ShardId, tx_id
from bobbin.simulator.clock import SECOND_NS
from bobbin.simulator.transaction_audit import expect_all_well
from bobbin.simulator.transaction_clients import Status, Wanted, account
from bobbin.simulator.transaction_order import Write
from bobbin.simulator.transaction_shape import draw_shape
from bobbin.simulator.transaction_world import TransactionWorld
from bobbin.simulator.world import Broken

SEED = 5


def audit(spoil: Callable[[TransactionWorld], None]) -> None:
    """A world that was well, and is looked at again after something was spoilt."""
    world = TransactionWorld(SEED)
    world.run()
    spoil(world)
    expect_all_well(world.shards, world.checker, world.book, keys=world.shape.keys, is_thorough=True, fail=world.fail)


def test_a_world_that_is_well_stays_so() -> None:
    audit(lambda _: None)


def committed(world: TransactionWorld) -> Wanted:
    return next(one for one in world.book if one.status is Status.COMMITTED and one.operations)


def test_what_was_acknowledged_and_is_not_there_is_lost() -> None:
    def spoil(world: TransactionWorld) -> None:
        del world.checker.committed[committed(world).tx]

    with pytest.raises(Broken, match=r"lost|T1"):
        audit(spoil)


def test_what_was_refused_and_is_there_is_found() -> None:
    def spoil(world: TransactionWorld) -> None:
        committed(world).status = Status.REFUSED

    with pytest.raises(Broken, match="refused"):
        audit(spoil)


def test_money_that_was_not_there_is_found() -> None:
    def spoil(world: TransactionWorld) -> None:
        world.book.append(
            Wanted(
                number=999,
                client=0,
                wish="audit",
                tx=tx_id(0, b"12345678"),
                parts=(),
                seen={account(0): b"1", account(1): b"2"},
                called_ns=0,
                coordinator=ShardId(0),
                status=Status.COMMITTED,
                returned_ns=1,
            )
        )

    with pytest.raises(Broken, match="T7: 999 saw 3 in 2 accounts"):
        audit(spoil)


def test_a_promise_or_a_lock_that_is_left_is_found() -> None:
    def spoil(world: TransactionWorld) -> None:
        world.shards[0].copies[0].state.participant.locks.try_lock(tx_id(0, b"12345678"), (b"key",), 0)

    with pytest.raises(Broken, match="T2: a node of shard 0 holds locks"):
        audit(spoil)


def test_a_store_that_does_not_follow_from_its_blocks_is_found() -> None:
    def spoil(world: TransactionWorld) -> None:
        for shard in world.shards:
            versions = shard.copies[0].state.ledger._versions
            for key, version in list(versions._present.items()):
                versions._present[key] = replace(version, value=version.value + b"0")

    with pytest.raises(Broken, match=r"chain: shard . holds|lost|T1"):
        audit(spoil)


def test_a_vector_that_was_let_go_where_the_codebook_knows_nothing_is_found() -> None:
    shape = replace(draw_shape(Random(1)), shards=1, strikes=0.0, refusals=0.0, is_forgetful=False)
    size = shape.chain.embedding_dimension
    world = TransactionWorld(SEED, shape=shape)
    world.dawn()
    (shard,) = world.shards
    book = GlobalCodebook(1, [Embedding(size, (0,), (1.0,))]).encode()
    assert shard.ask(lambda request: ReplaceCodebookWanted(request, book), lambda _: None)
    world.pass_time(SECOND_NS)
    unknown = VectorAdd(b"vector 0", Embedding(size, (1,), (1.0,)))
    moved = Transaction(id=tx_id(0, b"12345678"), operations=(unknown,))
    with patch.object(ledger, "transition_fault", lambda *_: None):
        assert shard.ask(lambda request: Commit(request, moved), lambda _: None)
        world.pass_time(SECOND_NS)
    assert shard.copies[0].state.ledger.height == 1
    with pytest.raises(Broken, match="chain: block 1 of shard 0 is against its codebook"):
        world.calm_down()


def test_nodes_with_different_chains_are_found() -> None:
    def spoil(world: TransactionWorld) -> None:
        chain = world.shards[0].copies[1].state.ledger
        identity = world.shards[0].copies[1].identity
        transaction = Transaction(
            id=tx_id(chain.height, b"12345678"), operations=(Put(b"more", b""),), since=chain.height
        )
        draft = chain.draft([transaction], proposer=identity.node, timestamp_ms=0)
        assert not isinstance(chain.append(chain.seal(draft, identity)), str)

    with pytest.raises(Broken, match="chain: the nodes of shard 0 end with different chains"):
        audit(spoil)


def test_a_circle_is_found() -> None:
    def spoil(world: TransactionWorld) -> None:
        one, other = [one for one in world.book if one.status is Status.COMMITTED and one.operations][:2]
        for key, first, second in (("a", one, other), ("b", other, one)):
            world.checker.order.read(key, second.tx, 1)
            world.checker.order.wrote(key, Write(first.tx, 1, None))

    with pytest.raises(Broken, match="T7: each of these must stand before the next"):
        audit(spoil)
