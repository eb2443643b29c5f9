from bobbin.cluster.operations import Put
from bobbin.cluster.shard.events import Heard, ResolveWanted
from bobbin.cluster.transactions.messages import TxAckMsg, TxDecisionMsg, TxPrepareMsg, TxQueryMsg
from bobbin.cluster.transactions.names import ShardId, TxId
from tests.unit.cluster.shard.driven import DrivenShards
from tests.unit.cluster.shard.participating import COORDINATOR, NOWHERE, Participating

OTHERS = (ShardId(0), ShardId(1), ShardId(2), ShardId(3))


def promised_among_four() -> tuple[DrivenShards, TxPrepareMsg]:
    """Shard 0 has promised a part of a transaction of shards 0, 2 and 3 that shard 1 coordinates."""
    world = DrivenShards(4)
    part = world.transaction(Put(world.key(0), b"1"))
    message = TxPrepareMsg(TxId(part.id), ShardId(1), ShardId(0), part, NOWHERE, 5_000, OTHERS)
    world[0].step(Heard(ShardId(1), message))
    world[0].apply_next()
    world.messages.clear()
    return world, message


def asked(world: DrivenShards) -> list[ShardId]:
    found = [receiver for sender, receiver, said in world.messages if sender == 0 and isinstance(said, TxQueryMsg)]
    world.messages.clear()
    return found


def test_the_coordinator_is_asked_first_then_the_other_participants_and_so_on() -> None:
    world, message = promised_among_four()
    wait_ms = world.config.query_timeout_ms
    world.pass_time(wait_ms - 1)
    assert asked(world) == []
    world.pass_time(1)
    assert asked(world) == [ShardId(1)]
    world.pass_time(wait_ms)
    assert asked(world) == [ShardId(2), ShardId(3)]
    world.pass_time(wait_ms)
    assert asked(world) == [ShardId(1)]
    assert message.tx in world[0].state.participant.promises


def test_what_was_ended_by_hand_is_not_asked_about_and_wakes_nobody() -> None:
    """Its block may take its time; until then a moment in the past was due, and the leader was woken all the time."""
    world, message = promised_among_four()
    world[0].step(ResolveWanted(world.request(), message.tx, commits=True, operator="me", reason="a test"))
    world[0].apply_next()
    assert world[0].state.participant.promises[message.tx].resolution is not None
    world.pass_time(2 * world.config.query_timeout_ms)
    assert world[0].leader.asking.due_ms is None
    assert asked(world) == []
    while world[0].proposals:
        world[0].apply_next()
    assert message.tx not in world[0].state.participant.promises


def test_no_time_ends_a_promise() -> None:
    world, message = promised_among_four()
    for _ in range(100):
        world.pass_time(3_600_000)
        assert asked(world)
    assert not world[0].proposals
    assert world[0].state.participant.locks.owner(world.key(0)) == message.tx
    world[0].lead()
    world.pass_time(3_600_000)
    assert asked(world) == [ShardId(1)]
    assert message.tx in world[0].state.participant.promises


def test_a_decision_ends_it_whoever_tells_it_and_the_coordinator_is_told() -> None:
    for commits in (True, False):
        for teller in (ShardId(1), ShardId(3)):
            world, message = promised_among_four()
            world[0].step(Heard(teller, TxDecisionMsg(message.tx, teller, commits)))
            world[0].apply_next()
            assert not world[0].state.participant.promises
            assert world.value(world.key(0)) == (b"1" if commits else None)
            acks = [(receiver, said) for _, receiver, said in world.messages if isinstance(said, TxAckMsg)]
            assert acks == [(ShardId(1), TxAckMsg(message.tx, ShardId(0), success=True))]
            assert world[0].leader.leftovers() == {}


def test_who_does_not_know_or_cannot_know_ends_nothing() -> None:
    world, message = promised_among_four()
    world[0].step(Heard(ShardId(1), TxDecisionMsg(message.tx, ShardId(1), None)))
    world[0].step(Heard(ShardId(2), TxDecisionMsg(message.tx, ShardId(1), commits=False)))
    world[0].step(Heard(ShardId(9), TxDecisionMsg(message.tx, ShardId(9), commits=False)))
    assert not world[0].proposals
    one = Participating()
    lone = one.promise(one.part(Put(one.key(), b"1")))
    stranger = TxDecisionMsg(TxId(bytes(16)), COORDINATOR, commits=True)
    one.hear(stranger)
    assert not one.shard.proposals
    assert lone.tx in one.state.participant.promises


def test_a_participant_tells_what_it_has_seen_decided_and_nothing_else() -> None:
    one = Participating()
    done = one.promise(one.part(Put(one.key("done"), b"1")))
    one.commit(done.tx)
    dropped = one.promise(one.part(Put(one.key("dropped"), b"1")))
    one.abort(dropped.tx)
    one.settle()
    open_ = one.promise(one.part(Put(one.key("open"), b"1")))
    by_hand = one.promise(one.part(Put(one.key("hand"), b"1")))
    one.state.participant.resolve(by_hand.tx, commits=False, operator="o", reason="r")
    one.said()
    for tx in (done.tx, dropped.tx, open_.tx, by_hand.tx, TxId(bytes(16))):
        one.hear(TxQueryMsg(tx, ShardId(1), COORDINATOR, ShardId(0)))
    said = [message.commits for message in one.said() if isinstance(message, TxDecisionMsg)]
    assert said == [True, False, None, None, None]


def test_a_question_for_another_shard_or_in_anothers_name_is_not_answered() -> None:
    one = Participating()
    one.hear(TxQueryMsg(TxId(bytes(16)), ShardId(1), COORDINATOR, ShardId(1)))
    one.hear(TxQueryMsg(TxId(bytes(16)), ShardId(1), ShardId(0), ShardId(0)))
    assert one.said() == []
