"""One shard of a world: leaders that die and are deposed, nodes that restart and are compared."""

from functools import partial
from random import Random

import pytest
from msgspec.structs import replace

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Put, Transaction
from bobbin.cluster.shard.commands import Prepare
from bobbin.cluster.shard.effects import Answer
from bobbin.cluster.shard.events import Commit, Validate
from bobbin.cluster.transactions.messages import TxPrepareMsg
from bobbin.cluster.transactions.names import ShardId, TxId, tx_id
from bobbin.cluster.transactions.phases import Ended
from bobbin.simulator.clock import SECOND_NS
from bobbin.simulator.transaction_shape import draw_shape
from bobbin.simulator.transaction_shard import SimulatedShard
from bobbin.simulator.transaction_world import TransactionWorld
from bobbin.simulator.world import Broken


def calm_shard(**changes: object) -> tuple[TransactionWorld, SimulatedShard]:
    shape = replace(
        draw_shape(Random(1)),
        shards=1,
        strikes=0.0,
        refusals=0.0,
        lag_ns_max=0,
        is_forgetful=False,
        is_bytes=False,
        turn_ns=0,
    )
    world = TransactionWorld(1, shape=replace(shape, **changes))
    world.dawn()
    return world, world.shards[0]


def commit(world: TransactionWorld, shard: SimulatedShard, number: int) -> list[Answer]:
    answers: list[Answer] = []
    height = shard.copies[0].state.ledger.height
    transaction = Transaction(
        id=tx_id(height, bytes([number]) * 8), operations=(Put(b"key %d" % number, b"value"),), since=height
    )
    assert shard.ask(lambda request: Commit(request, transaction), answers.append)
    world.pass_time(SECOND_NS)
    return answers


def has_leader(shard: SimulatedShard) -> bool:
    return shard.chair is not None


def commit_many(world: TransactionWorld, shard: SimulatedShard) -> None:
    for number in range(2, 12):
        commit(world, shard, number)
        world.pass_time(20 * SECOND_NS)


def test_both_nodes_have_what_was_committed() -> None:
    world, shard = calm_shard()
    assert [answer.ended for answer in commit(world, shard, 1)] == [Ended.COMMITTED]
    first, second = shard.copies
    assert first.state.root == second.state.root
    assert first.state.ledger.height == 1
    found = shard.read([b"key 1", b"key 2"])
    assert found is not None
    assert (found.items, found.height) == (((b"value", 1), (None, 0)), 1)


def wanted(number: int) -> Transaction:
    return Transaction(id=tx_id(0, bytes([number]) * 8), operations=(Put(b"key %d" % number, b"value"),))


def ask_for_several(shard: SimulatedShard, answers: list[Answer]) -> None:
    for number in range(3):
        assert shard.ask(partial(Commit, transaction=wanted(number)), answers.append)


@pytest.mark.parametrize(("turn_ns", "heights"), [(0, {1, 2}), (SECOND_NS // 10, {1})])
def test_what_comes_in_one_turn_shares_a_block(turn_ns: int, heights: set[int]) -> None:
    world, shard = calm_shard(turn_ns=turn_ns)
    answers: list[Answer] = []
    ask_for_several(shard, answers)
    world.pass_time(SECOND_NS)
    assert [answer.ended for answer in answers] == [Ended.COMMITTED] * 3
    assert {answer.height for answer in answers} == heights
    assert world.tally["turns with several commits"] == (turn_ns > 0)
    assert world.tally["blocks of several transactions"] == 1


def test_what_a_leader_has_not_heard_when_it_dies_comes_to_nothing() -> None:
    world, shard = calm_shard(turn_ns=SECOND_NS // 10)
    answers: list[Answer] = []
    ask_for_several(shard, answers)
    shard.lose_leader(is_deposed=False)
    world.pass_time(2 * SECOND_NS)
    assert answers == []
    assert shard.log.last == 0
    assert [answer.ended for answer in commit(world, shard, 4)] == [Ended.COMMITTED]


def test_another_one_leads_after_a_death() -> None:
    world, shard = calm_shard()
    shard.lose_leader(is_deposed=False)
    assert not has_leader(shard)
    assert shard.read([]) is None
    assert not shard.ask(lambda request: Validate(request, ()), lambda _: None)
    world.pass_time(SECOND_NS)
    assert has_leader(shard)
    assert shard.log.term == 2
    assert [answer.ended for answer in commit(world, shard, 1)] == [Ended.COMMITTED]


def test_a_deposed_leader_goes_on_and_comes_to_nothing() -> None:
    world, shard = calm_shard()
    assert [answer.ended for answer in commit(world, shard, 1)] == [Ended.COMMITTED]
    shard.lose_leader(is_deposed=True)
    deposed = shard.deposed
    assert deposed is not None
    # Nobody else leads yet, so it is the deposed one that hears this, and writes in vain.
    transaction = Transaction(id=tx_id(1, b"in vain."), operations=(Put(b"vain", b""),), since=1)
    answers: list[Answer] = []
    assert shard.ask(lambda request: Commit(request, transaction), answers.append)
    assert not shard.ask(lambda request: Validate(request, ()), answers.append), "who leads must be certain"
    world.pass_time(20 * SECOND_NS)
    assert answers == []
    assert (shard.deposed, deposed.is_alive, shard.log.last) == (None, False, 1)
    assert [answer.ended for answer in commit(world, shard, 2)] == [Ended.COMMITTED]
    assert {copy.applied for copy in shard.copies} == {2}


@pytest.mark.parametrize("from_snapshot", [True, False])
def test_a_node_that_restarts_is_what_it_was(*, from_snapshot: bool) -> None:
    world, shard = calm_shard()
    for number in range(3):
        commit(world, shard, number)
    copy = shard.copies[0]
    before, state = copy.state.root, copy.state
    copy.restart(shard.log.entries, from_snapshot=from_snapshot)
    assert copy.state is not state
    assert copy.state.root == before


def test_two_nodes_that_differ_are_found() -> None:
    world, shard = calm_shard(lag_ns_max=10 * SECOND_NS)
    assert shard.chair is not None
    other = next(copy for copy in shard.copies if shard.chair.copy is not copy)
    commit(world, shard, 1)
    other.state.participant.drop(tx_id(0, b"somebody"))
    with pytest.raises(Broken, match=r"differ after entry"):
        commit_many(world, shard)


def test_a_forged_block_comes_to_nothing() -> None:
    world, shard = calm_shard()
    commit(world, shard, 1)
    for _ in range(20):
        shard.forge()
        world.pass_time(SECOND_NS)
    assert world.tally["forged blocks"] == 20
    assert shard.copies[0].state.ledger.height == 1
    assert world.tally["applied: BAD_BLOCK"] + world.tally["applied: STALE_BLOCK"] == 20


@pytest.mark.parametrize("is_leap", [True, False])
def test_a_leader_makes_no_block_that_is_refused(*, is_leap: bool) -> None:
    """Unless it has given up the keys of a promise, because its clock said that it took too long."""
    world, shard = calm_shard()
    assert shard.chair is not None
    if is_leap:
        shard.chair.copy.leap_ms = 3_600_000
    part = wanted(1)
    message = TxPrepareMsg(
        tx=TxId(part.id),
        coordinator=ShardId(0),
        shard=ShardId(0),
        part=part,
        delta=Embedding.zero(world.shape.chain.embedding_dimension),
        timeout_ms=1_000,
        participants=(ShardId(0),),
    )
    shard.write(Prepare(message))
    other = replace(part, id=tx_id(0, b"somebody"))
    assert shard.ask(lambda request: Commit(request, other), lambda _: None)
    if is_leap:
        world.pass_time(SECOND_NS // 100)
        assert world.tally["applied: BAD_BLOCK"] == 1
    else:
        with pytest.raises(Broken, match="makes a block that is refused: a key is locked"):
            world.pass_time(SECOND_NS // 100)


def test_clocks_differ_leap_and_jump() -> None:
    _, shard = calm_shard()
    first, second = shard.copies
    assert first.now_ms != second.now_ms
    before = first.now_ms
    first.leap_ms += 3_600_000
    assert first.now_ms == before + 3_600_000
    assert first.delay_until(first.now_ms + 1_000) < 2 * SECOND_NS
    assert first.delay_until(first.now_ms - 1_000) > 0
    wall = first.wall_ms
    first.clock.jump(-SECOND_NS)
    assert first.wall_ms == wall - 1_000
