import pytest
from msgspec.structs import replace

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import Index
from bobbin.cluster.operations import (
    CounterAdd,
    Put,
    ReadVersion,
    TableDelete,
    TableInsert,
    TableUpdate,
    Transaction,
    lock_names,
)
from bobbin.cluster.settings import DistributedTxConfig
from bobbin.cluster.shard.commands import Append, Drop, Kind, Log, Prepare
from bobbin.cluster.shard.events import Applied
from bobbin.cluster.transactions.messages import (
    Conflict,
    No,
    TxAckMsg,
    VictimMsg,
    Yes,
)
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.phases import Ended
from tests.unit.cluster.shard.driven import restored
from tests.unit.cluster.shard.participating import COORDINATOR, Participating

WAITING = DistributedTxConfig(lock_wait=True)
WOUNDING = DistributedTxConfig(lock_wait=True, wound_wait=True)


# ---- prepare -------------------------------------------------------------------------------------------------------


def test_all_keys_are_locked_under_one_handle_before_anything_is_voted() -> None:
    one = Participating()
    part = one.part(Put(one.key("a"), b"1"), CounterAdd(one.key("b"), 1), reads=(ReadVersion(b"read", 0),))
    one.prepare(part)
    assert one.said() == []
    locks = one.shard.leader._leading.locks
    held = locks.held(TxId(part.id))
    assert held is not None
    assert held.names == lock_names(part)
    one.settle()
    (vote,) = one.votes()
    assert isinstance(vote, Yes)
    assert vote.keys == lock_names(part)
    table = one.state.participant.locks
    assert {table.owner(name) for name in lock_names(part)} == {part.id}


def test_the_same_prepare_again_gets_the_same_vote_and_no_second_handle() -> None:
    one = Participating()
    part = one.part(Put(one.key(), b"1"))
    message = one.prepare(part)
    one.hear(message)
    assert len(one.shard.proposals) == 1, "it is on its way already"
    one.settle()
    one.hear(message)
    one.shard.lead()
    one.hear(message)
    votes = one.votes()
    assert len(votes) == 3
    assert len(set(votes)) == 1
    assert len(one.state.participant.locks.transactions) == 1
    # Even if two copies reach the log.
    assert one.shard.write(Prepare(message)).vote == votes[0]


def test_a_key_that_another_holds_is_a_no_with_a_reason_and_leaves_no_lock() -> None:
    one = Participating()
    holder = one.promise(one.part(Put(one.key("held"), b"1")))
    part = one.part(Put(one.key("free"), b"2"), Put(one.key("held"), b"2"))
    one.prepare(part)
    (vote,) = one.votes()
    assert isinstance(vote, No)
    assert holder.tx.hex() in vote.reason
    assert not vote.is_final
    assert one.shard.leader._leading.locks.owner(one.key("free")) is None
    assert one.world.put(one.key("free")).ended is Ended.COMMITTED
    # The state says the same, without the leader's table.
    outcome = one.shard.write(Prepare(one.message(part)))
    assert isinstance(outcome.vote, No)
    assert one.state.participant.locks.owner(one.key("free")) is None


def test_the_delta_of_a_yes_is_the_participants_own() -> None:
    one = Participating()
    part = one.part(CounterAdd(one.key(), 7))
    lie = Embedding(16, (1, 2, 3), (9.0, 9.0, 9.0))
    one.hear(one.message(part, delta=lie))
    one.settle()
    (vote,) = one.votes()
    assert isinstance(vote, Yes)
    assert vote.delta == one.state.delta(part) != lie
    assert vote.delta.values == (7.0,)


def test_a_version_that_has_moved_is_a_conflict_with_similarity_and_the_others_id() -> None:
    one = Participating()
    late = one.part(CounterAdd(one.key(), 3), since=0)
    answer = one.world.put(one.key())
    for hears in (one.prepare, lambda part: one.shard.write(Prepare(one.message(part)))):
        hears(late)
        vote = one.votes()[0] if one.world.messages else one.shard.log[-1][1].vote
        assert isinstance(vote, Conflict)
        assert vote.other == answer.tx
        assert vote.similarity == pytest.approx(1.0)
        one.check_nothing_left()


def test_a_read_that_has_moved_is_a_conflict() -> None:
    one = Participating()
    late = one.part(Put(one.key("w"), b"1"), reads=(ReadVersion(one.key("r"), 0),), since=0)
    one.world.put(one.key("r"))
    one.prepare(late)
    assert isinstance(one.votes()[0], Conflict)
    one.check_nothing_left()


def test_geometry_may_vote_against_a_part_and_not_for_it() -> None:
    for is_looked_at in (True, False):
        one = Participating(DistributedTxConfig(optimistic_locking=is_looked_at))
        table = one.key("table")
        rows = [TableInsert(table, (b"%d" % number,)) for number in range(100)]
        where = [one.state.delta(one.part(row)).positions for row in rows]
        twin = next(number for number in range(1, 100) if where[number] == where[0])
        late = one.part(rows[twin], Put(one.key("beside"), b"v"))
        one.world.commit(one.part(rows[0]))
        one.settle()
        one.prepare(late)
        one.settle()
        assert isinstance(one.votes()[0], Conflict if is_looked_at else Yes)


def test_after_a_no_or_a_conflict_nothing_of_the_transaction_remains() -> None:
    one = Participating(WAITING)
    holder = one.promise(one.part(Put(one.key(), b"1")))
    waiting = one.part(Put(one.key(), b"2"), Put(one.key("free"), b"2"))
    one.prepare(waiting)
    assert one.shard.leader.leftovers()["wait_edges"] == 1
    one.world.pass_time(5_000)
    (vote,) = one.votes()
    assert isinstance(vote, No)
    assert one.shard.leader.preparing.waiting == 0
    assert len(one.shard.leader._leading.locks.waits) == 0
    assert set(one.state.participant.locks.transactions) == {holder.tx}
    one.abort(holder.tx)
    one.settle()
    one.check_nothing_left()


def test_a_yes_is_said_only_when_the_promise_is_in_the_state_of_every_replica() -> None:
    one = Participating()
    part = one.part(Put(one.key(), b"1"))
    message = one.prepare(part)
    assert one.votes() == []
    one.settle()
    assert len(one.votes()) == 1
    for state in (one.state, one.shard.replica, restored(one.state)):
        promise = state.participant.promises[message.tx]
        assert promise.message == message
        assert state.participant.locks.owner(one.key()) == message.tx


def test_a_promise_that_is_lost_on_its_way_is_a_no() -> None:
    one = Participating()
    one.prepare(one.part(Put(one.key(), b"1")))
    one.shard.lose_next()
    assert isinstance(one.votes()[0], No)
    one.check_nothing_left()


@pytest.mark.parametrize("fault", ["shard", "coordinator", "participants", "timeout", "empty", "foreign", "id", "nan"])
def test_what_makes_no_sense_is_a_final_no_and_changes_nothing(fault: str) -> None:
    one = Participating()
    part = one.part(Put(one.key(), b"1"))
    message = one.message(part)
    root = one.state.root
    changes: dict[str, dict[str, object]] = {
        "shard": {"shard": ShardId(1)},
        "coordinator": {"coordinator": ShardId(7)},
        "participants": {"participants": (COORDINATOR,)},
        "timeout": {"timeout_ms": 0},
        "empty": {"part": Transaction(part.id, ())},
        "foreign": {"part": Transaction(part.id, (Put(one.world.key(1), b"1"),))},
        "id": {"part": one.part(Put(one.key(), b"1"))},
        "nan": {"part": Transaction(part.id, (CounterAdd(one.key(), 2**64),))},
    }
    one.hear(replace(message, **changes[fault]))
    votes = one.votes()
    # Nobody is told who is no shard; the sender of everything else is.
    assert [isinstance(vote, No) and vote.is_final for vote in votes] == ([] if fault == "coordinator" else [True])
    assert one.state.root == root
    assert not one.shard.proposals
    one.check_nothing_left()


# ---- decisions -----------------------------------------------------------------------------------------------------


def test_a_commit_is_done_once_and_acknowledged_as_often_as_it_is_said() -> None:
    one = Participating()
    message = one.promise(one.part(CounterAdd(one.key(), 1)))
    one.commit(message.tx)
    one.commit(message.tx)
    assert one.acks() == [], "nothing is acknowledged before it is applied"
    assert len(one.shard.proposals) == 1
    one.settle()
    assert one.acks() == [True]
    assert one.world.value(one.key()) == b"1"
    one.commit(message.tx)
    one.settle()
    assert one.acks() == [True]
    assert (one.world.value(one.key()), one.shard.height) == (b"1", 1)
    one.check_nothing_left()


def test_an_abort_drops_the_part_and_is_acknowledged_as_often_as_it_is_said() -> None:
    one = Participating()
    message = one.promise(one.part(Put(one.key(), b"1")))
    one.abort(message.tx)
    one.abort(message.tx)
    assert one.acks() == []
    one.settle()
    assert one.acks() == [True]
    one.abort(message.tx)
    one.settle()
    assert one.acks() == [True]
    assert one.world.value(one.key()) is None
    one.check_nothing_left()


def test_keys_are_free_only_after_the_part_is_in_the_store_and_all_of_it_at_once() -> None:
    one = Participating()
    first, second = one.key("a"), one.key("b")
    message = one.promise(one.part(Put(first, b"1"), Put(second, b"1")))
    one.commit(message.tx)
    meanwhile = one.world.commit(one.part(Put(one.key("c"), b"2"), reads=(ReadVersion(first, 0),)))
    assert meanwhile not in one.world.answers
    assert one.said() == []
    (proposal,) = one.shard.proposals
    assert len(one.state.participant.locks) == 2, "decided, on its way, and still locked"
    one.shard.write(proposal.command)
    assert len(one.state.participant.locks) == 0
    assert (one.world.value(first), one.world.value(second)) == (b"1", b"1")
    assert one.state.ledger.version(first) == one.state.ledger.version(second) == 1
    assert one.said() == [], "acknowledged last"
    one.shard.proposals.clear()
    one.shard.step(Applied(Index(2), proposal.command, one.shard.log[-1][1], proposal.proposal))
    assert one.acks() == [True]
    assert one.world.ended(meanwhile) is Ended.CONFLICT


def test_an_aborted_part_leaves_the_chain_and_the_store_as_they_were() -> None:
    one = Participating()
    table, row = one.key("table"), b"row"
    one.world.commit(one.part(TableInsert(table, (b"x",)), Put(one.key(), b"before")))
    one.settle()
    root, tip = one.state.ledger.root, one.state.ledger.tip
    message = one.promise(
        one.part(
            TableInsert(table, (b"y",)),
            TableUpdate(table, row, (b"z",)),
            TableDelete(table, row),
            Put(one.key(), b"mine"),
        )
    )
    one.abort(message.tx)
    one.settle()
    assert (one.state.ledger.root, one.state.ledger.tip) == (root, tip)
    assert one.world.value(one.key()) == b"before"
    one.check_nothing_left()


def test_rows_are_done_under_the_keys_they_were_locked_by() -> None:
    one = Participating()
    table = one.key("table")
    insert = TableInsert(table, (b"y",))
    message = one.promise(one.part(insert))
    locked = set(one.state.participant.locks.held(message.tx).names)  # type: ignore[union-attr]
    one.commit(message.tx)
    one.settle()
    written = {entry for entry, _ in one.state.ledger._versions.entries()}
    assert written
    assert written <= locked


def test_an_abort_never_writes_over_what_was_committed_since() -> None:
    one = Participating()
    part = one.part(Put(one.key(), b"mine"))
    one.prepare(part)
    one.shard.lose_next()
    one.world.put(one.key(), b"theirs")
    one.abort(part.id)
    one.settle()
    assert one.world.value(one.key()) == b"theirs"
    late = one.part(Put(one.key("other"), b"mine"))
    message = one.promise(late)
    one.world.put(one.key("third"), b"theirs")
    one.abort(message.tx)
    one.settle()
    assert one.world.value(one.key("third")) == b"theirs"
    assert one.world.value(one.key("other")) is None


def test_an_abort_that_overtakes_its_prepare_is_remembered() -> None:
    one = Participating()
    part = one.part(Put(one.key(), b"1"))
    one.abort(part.id)
    one.settle()
    assert one.acks() == [True]
    one.prepare(part)
    one.shard.lead()
    one.prepare(part)
    assert [isinstance(vote, No) and vote.is_final for vote in one.votes()] == [True, True]
    assert isinstance(one.shard.write(Prepare(one.message(part))).vote, No)
    one.check_nothing_left()


def test_an_abort_while_the_promise_is_on_its_way_drops_it_behind_it() -> None:
    one = Participating()
    part = one.part(Put(one.key(), b"1"))
    one.prepare(part)
    one.abort(part.id)
    one.settle()
    assert [type(command) for command, _ in one.shard.log] == [Prepare, Drop]
    said = one.said()
    assert [type(message) for message in said] == [TxAckMsg], "there is nothing to vote for any more"
    one.check_nothing_left()


def test_a_commit_of_an_unknown_part_is_acknowledged_only_by_one_who_leads() -> None:
    """A leader that was replaced without knowing it may not know of the promise."""
    one = Participating()
    tx = one.world.tx()
    one.commit(tx)
    one.commit(tx)
    assert one.acks() == []
    (proposal,) = one.shard.proposals
    assert proposal.command == Log(())
    one.settle()
    assert one.acks() == [True]
    one.commit(tx)
    one.shard.lose_next()
    assert one.acks() == []
    one.check_nothing_left()


def test_a_proof_counts_only_for_what_came_before_it() -> None:
    """It may be in a quorum's logs already, and a new leader may have made the promise behind it."""
    one = Participating()
    first, second, third = (one.world.tx() for _ in range(3))
    one.commit(first)
    one.commit(second)
    one.commit(second)
    one.commit(third)
    assert [proposal.command for proposal in one.shard.proposals] == [Log(())], "one at a time"
    one.shard.apply_next()
    assert [message.tx for message in one.said() if isinstance(message, TxAckMsg)] == [first]
    assert len(one.shard.proposals) == 1
    one.commit(first)
    one.shard.apply_next()
    assert [message.tx for message in one.said() if isinstance(message, TxAckMsg)] == [second, third]
    one.commit(second)
    one.shard.lose_next()
    assert [proposal.command for proposal in one.shard.proposals] == [Log(())], "for the next one"
    one.settle()
    assert [message.tx for message in one.said() if isinstance(message, TxAckMsg)] == [second]
    one.check_nothing_left()


def test_a_commit_that_the_state_learns_of_while_leadership_is_proven_is_done() -> None:
    one = Participating()
    message = one.message(one.part(Put(one.key(), b"1")))
    one.commit(message.tx)
    one.shard.write(Prepare(message))
    one.settle()
    assert one.world.value(one.key()) == b"1"
    assert one.acks() == [True]


def test_a_promise_comes_back_with_its_locks_when_the_leader_changes() -> None:
    one = Participating()
    message = one.promise(one.part(Put(one.key(), b"1")))
    one.shard.lead()
    request = one.world.commit(one.part(Put(one.key(), b"2")))
    assert one.world.ended(request) is Ended.BUSY
    one.commit(message.tx)
    one.settle()
    assert one.world.value(one.key()) == b"1"
    assert one.acks() == [True]
    one.check_nothing_left()


def test_the_locks_of_a_promise_never_expire_and_those_of_none_do() -> None:
    one = Participating()
    message = one.promise(one.part(Put(one.key("promised"), b"1")))
    one.prepare(one.part(Put(one.key("never"), b"1")))
    one.said()
    one.world.pass_time(31_000)
    locks = one.shard.leader._leading.locks
    assert locks.owner(one.key("never")) is None
    for _ in range(50):
        one.world.pass_time(3_600_000)
    assert locks.owner(one.key("promised")) == message.tx
    one.prepare(one.part(Put(one.key("promised"), b"2")))
    assert isinstance(one.votes()[-1], No)
    assert one.world.ended(one.world.commit(one.part(Put(one.key("promised"), b"3")))) is Ended.BUSY
    # Two that conflict never both hold a key, also when the first's promise comes to the log after all.
    other = one.part(Put(one.key("never"), b"2"))
    one.prepare(other)
    one.settle()
    holders = one.state.participant.locks.transactions
    assert len(holders) == 2
    assert set(locks.transactions) == set(holders), "the leader goes by the state"
    assert [isinstance(vote, Yes) for vote in one.votes()] == [True, False]


def test_a_block_may_not_touch_what_is_promised_whatever_its_leader_thinks() -> None:
    one = Participating()
    request = one.world.commit(one.part(Put(one.key(), b"1")))
    block = one.shard.proposals[0].command
    assert isinstance(block, Append)
    root_before = one.state.ledger.root
    one.shard.write(Prepare(one.message(one.part(Put(one.key(), b"2")))))
    assert one.shard.apply_next().kind is Kind.BAD_BLOCK
    assert one.state.ledger.root == root_before
    assert request not in one.world.answers


def test_a_commit_after_the_drop_and_an_abort_after_the_commit_are_alarms_and_change_nothing() -> None:
    one = Participating()
    dropped = one.promise(one.part(Put(one.key("a"), b"1")))
    one.abort(dropped.tx)
    one.settle()
    one.said()
    one.commit(dropped.tx)
    assert one.acks() == [False]
    done = one.promise(one.part(Put(one.key("b"), b"1")))
    one.commit(done.tx)
    one.abort(done.tx)
    one.settle()
    one.abort(done.tx)
    one.settle()
    assert one.acks() == [True]
    assert [alarm.code for alarm in one.world.alarms] == ["decision"] * 3
    assert (one.world.value(one.key("a")), one.world.value(one.key("b"))) == (None, b"1")


# ---- waiting -------------------------------------------------------------------------------------------------------


def test_who_waits_gets_the_keys_when_they_are_free_in_the_order_of_coming() -> None:
    one = Participating(WAITING)
    holder = one.promise(one.part(Put(one.key(), b"1")))
    second = one.prepare(one.part(Put(one.key(), b"2")))
    third = one.prepare(one.part(Put(one.key(), b"3")))
    assert one.said() == []
    one.abort(holder.tx)
    one.settle()
    assert list(one.state.participant.promises) == [second.tx]
    one.abort(second.tx)
    one.settle()
    assert list(one.state.participant.promises) == [third.tx]
    assert one.shard.leader.preparing.votes == {"yes": 3, "no": 0, "conflict": 0}


def test_who_waits_and_is_aborted_waits_no_more() -> None:
    one = Participating(WAITING)
    holder = one.promise(one.part(Put(one.key(), b"1")))
    waiting = one.prepare(one.part(Put(one.key(), b"2")))
    one.abort(waiting.tx)
    one.settle()
    assert one.acks() == [True]
    assert one.shard.leader.preparing.waiting == 0
    one.abort(holder.tx)
    one.settle()
    one.check_nothing_left()


def test_after_a_commit_who_waited_finds_the_version_moved() -> None:
    one = Participating(WAITING)
    holder = one.promise(one.part(Put(one.key(), b"1")))
    one.prepare(one.part(Put(one.key(), b"2")))
    one.commit(holder.tx)
    one.settle()
    assert isinstance(one.votes()[-1], Conflict)
    one.check_nothing_left()


def test_all_of_very_many_who_waited_for_one_key_are_voted_on_when_it_was_written() -> None:
    """Each releases the key when it is voted against; this went one call deeper each time, until Python stopped."""
    one = Participating(WAITING)
    holder = one.promise(one.part(Put(one.key(), b"1")))
    for number in range(1_000):
        one.prepare(one.part(Put(one.key(), b"%d" % number)))
    assert one.shard.leader.preparing.waiting == 1_000
    one.commit(holder.tx)
    one.settle()
    assert [type(vote) for vote in one.votes()] == [Conflict] * 1_000
    one.check_nothing_left()


def test_an_older_transaction_has_the_younger_one_in_its_way_aborted_and_a_younger_waits() -> None:
    one = Participating(WOUNDING)
    holder = one.promise(one.part(Put(one.key(), b"1"), born_ms=50))
    one.prepare(one.part(Put(one.key(), b"2"), born_ms=60))
    assert one.said() == []
    one.prepare(one.part(Put(one.key(), b"3"), born_ms=40))
    (victim,) = one.said()
    assert isinstance(victim, VictimMsg)
    assert (victim.tx, victim.coordinator) == (holder.tx, COORDINATOR)
    one.world.pass_time(500)
    assert one.said() == []
    one.world.pass_time(600)
    assert one.said() == [victim], "messages get lost"
