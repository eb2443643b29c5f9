import pytest

from bobbin.cluster.names import Index
from bobbin.cluster.operations import Put, Transaction
from bobbin.cluster.shard.commands import Kind, Log
from bobbin.cluster.shard.events import Abort, Begin, Heard
from bobbin.cluster.transactions.effects import Mistake
from bobbin.cluster.transactions.messages import (
    No,
    TxAbortMsg,
    TxDecisionMsg,
    TxPrepareMsg,
    TxPrepareResponse,
    TxQueryMsg,
)
from bobbin.cluster.transactions.names import ShardId, TxId, tx_id
from bobbin.cluster.transactions.phases import Ended
from bobbin.cluster.transactions.tx_log import AbortIntent
from tests.unit.cluster.shard.driven import DrivenShards


def test_nothing_is_sent_before_the_beginning_is_in_the_log() -> None:
    world = DrivenShards(2)
    world.transfer(world.key(0), world.key(1))
    assert not world.messages
    assert [type(proposal.command) for proposal in world[0].proposals] == [Log]
    world[0].apply_next()
    assert [(receiver, type(message)) for _, receiver, message in world.messages] == [
        (0, TxPrepareMsg),
        (1, TxPrepareMsg),
    ]


def test_a_beginning_that_is_lost_is_busy() -> None:
    world = DrivenShards(2)
    request = world.transfer(world.key(0), world.key(1))
    world[0].lose_next()
    assert world.ended(request) is Ended.BUSY
    world.run()
    world.check_quiet()


def test_votes_that_are_double_unknown_or_late_are_counted_as_mistakes_and_change_nothing() -> None:
    world = DrivenShards(2)
    request = world.transfer(world.key(0), world.key(1))
    world[0].apply_next()
    prepare = next(message for _, _, message in world.messages if isinstance(message, TxPrepareMsg))
    world.deliver()
    world[0].apply_next()
    vote = next((sender, message) for sender, _, message in world.messages if isinstance(message, TxPrepareResponse))
    root = world[0].state.root
    mistakes = world[0].leader.stats.mistakes
    world[0].step(Heard(*vote))
    assert mistakes.total() == 0
    world[0].step(Heard(vote[0], TxPrepareResponse(prepare.tx, vote[0], No("another mind"))))
    assert mistakes[Mistake.DUPLICATE_VOTE] == 1
    world[0].step(Heard(ShardId(1), TxPrepareResponse(tx_id(0, b"unknown!"), ShardId(1), No("?"))))
    assert mistakes[Mistake.UNKNOWN_TRANSACTION] == 1
    assert world[0].state.root == root
    assert not world[0].proposals
    world.run()
    assert world.ended(request) is Ended.COMMITTED, "the first vote stands"
    open_ = world.transfer(world.key(0, "x"), world.key(1, "x"))
    while open_ not in world.answers:
        if any(shard.proposals for shard in world.shards):
            next(shard for shard in world.shards if shard.proposals).apply_next()
        else:
            world.deliver()
    late = TxPrepareResponse(world.answers[open_].tx, ShardId(1), No("too late"))
    before = mistakes.total()
    world[0].step(Heard(ShardId(1), late))
    assert mistakes.total() == before + 1
    world.run()
    assert world.value(world.key(1, "x"), 1) is not None


@pytest.mark.parametrize("fault", ["empty", "order", "foreign", "timeout", "id", "huge"])
def test_what_makes_no_sense_is_refused_and_nothing_is_written(fault: str) -> None:
    world = DrivenShards(2)
    tx = world.tx()
    mine, other = Transaction(tx, (Put(world.key(0), b""),)), Transaction(tx, (Put(world.key(1), b""),))
    parts, timeout_ms = ((ShardId(0), mine), (ShardId(1), other)), 1_000
    match fault:
        case "empty":
            parts = ()  # type: ignore[assignment]
        case "order":
            parts = (parts[1], parts[0])
        case "foreign":
            parts = ((ShardId(0), other), (ShardId(1), mine))
        case "timeout":
            timeout_ms = 0
        case "id":
            tx = TxId(bytes([9] * 16))
        case _:
            parts = ((ShardId(0), Transaction(tx, (Put(b"k" * 5_000, b""),))), parts[1])
    request = world.request()
    world[0].step(Begin(request, tx, parts, timeout_ms))
    assert world.ended(request) is Ended.REFUSED
    assert not world[0].proposals
    world.check_quiet()


def test_an_id_of_a_height_that_is_not_there_yet_has_to_wait() -> None:
    world = DrivenShards(2)
    tx = tx_id(5, bytes(8))
    request = world.begin((0, Transaction(tx, (Put(world.key(0), b""),))))
    assert world.ended(request) is Ended.BUSY


def test_a_repeated_begin_is_answered_with_the_first_ones_end() -> None:
    world = DrivenShards(2)
    tx = world.tx()
    parts = (
        (0, world.transaction(Put(world.key(0), b"1"), tx=tx)),
        (1, world.transaction(Put(world.key(1), b"1"), shard=1, tx=tx)),
    )
    first = world.begin(*parts)
    second = world.begin(*parts)
    world.run()
    world[0].lead()
    third = world.begin(*parts)
    world.run()
    assert {world.ended(request) for request in (first, second, third)} == {Ended.COMMITTED}
    assert (world[0].height, world[1].height) == (1, 1)


def test_a_client_takes_a_transaction_back_until_it_is_decided() -> None:
    world = DrivenShards(2)
    request = world.transfer(world.key(0), world.key(1))
    world[0].apply_next()
    back = world.request()
    (tx,) = world[0].state.recovery.open
    world[0].step(Abort(back, tx))
    world.run()
    assert (world.ended(request), world.ended(back)) == (Ended.ABORTED, Ended.ABORTED)
    assert world.value(world.key(0)) is None
    world.check_quiet()


def test_a_question_to_the_coordinator_is_the_coordinators_and_an_unknown_id_is_aborted_durably() -> None:
    world = DrivenShards(2)
    tx = world.tx()
    world[0].step(Heard(ShardId(1), TxQueryMsg(tx, ShardId(0), ShardId(1), ShardId(0))))
    assert not world.messages, "nothing is said before it is written"
    world[0].apply_next()
    assert list(world.messages) == [(0, 1, TxDecisionMsg(tx, ShardId(0), commits=False))]


def test_a_no_aborts_everywhere() -> None:
    world = DrivenShards(2)
    first, second = world.key(0), world.key(1)
    holder = world.transfer(first, second)
    world[0].apply_next()
    world.run()
    assert world.ended(holder) is Ended.COMMITTED
    late = world.tx()
    request = world.begin(
        (0, world.transaction(Put(first, b"2"), since=0, tx=late)),
        (1, world.transaction(Put(world.key(1, "free"), b"2"), shard=1, tx=late)),
    )
    world.run()
    assert world.ended(request) is Ended.CONFLICT
    assert world.answers[request].other == world.answers[holder].tx
    assert not any(isinstance(message, TxAbortMsg) for _, _, message in world.messages)
    assert world.value(world.key(1, "free"), 1) is None
    world.check_quiet()


def test_what_the_log_refuses_is_told_to_the_coordinator_and_to_a_person() -> None:
    world = DrivenShards(2)
    request = world.transfer(world.key(0), world.key(1))
    command = world[0].proposals[0].command
    world[0].write(command)  # It is there already, so that the same again is refused.
    world[0].apply_next()
    assert [alarm.code for alarm in world.alarms] == ["coordinator"]
    assert world.ended(request) is Ended.BUSY


def test_ids_of_the_future_are_neither_denied_nor_written_down() -> None:
    """Else made-up ids would push out what is remembered, and the horizon beyond every number.

    And a leader that does not know of its successor would call aborted what that one commits: world 26210.
    """
    world = DrivenShards(1)
    made_up = TxId(b"\xff" * 16)
    request = world.request()
    world[0].step(Abort(request, made_up))
    world.run()
    assert world.answers[request].ended is Ended.BUSY
    refused = world[0].state.do(Index(1_000), Log((AbortIntent(made_up, "by hand", ()),)))
    assert refused.kind is Kind.BAD_ENTRY
    assert world[0].state.recovery.horizon == 0
