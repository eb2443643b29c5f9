"""What happens to a transaction over two shards when one thing goes wrong at one moment."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from bobbin.cluster.operations import Put, ReadVersion, Transaction
from bobbin.cluster.settings import DeadlockDetectorConfig, DistributedTxConfig
from bobbin.cluster.shard.commands import Drop
from bobbin.cluster.shard.effects import Answer, Propose, WakeAt
from bobbin.cluster.shard.events import Commit, Heard, Tick
from bobbin.cluster.shard.placing import shard_of
from bobbin.cluster.transactions.messages import TxAbortMsg, TxQueryMsg
from bobbin.cluster.transactions.names import tx_id
from bobbin.cluster.transactions.phases import Ended, TxPhase
from bobbin.simulator import transaction_shard
from bobbin.simulator.transaction_shard import Chair
from tests.simulation.transaction_stage import ONE, OTHER, Stage

PATIENT = DistributedTxConfig(lock_wait=True, prepare_timeout_ms=20_000, prepare_handler_timeout_ms=300)


def until(stage: Stage, is_reached: Callable[[], object]) -> None:
    """Go on, one thing after the other."""
    for _ in range(2_000):
        if is_reached():
            return
        assert stage.world.timeline.step(), "nothing happens any more"
    pytest.fail("it never came to this")


def test_a_transaction_of_two_shards_is_done() -> None:
    stage = Stage()
    tx = stage.begin(1)
    stage.expect_rest()
    assert [answer.ended for answer in stage.answers[tx]] == [Ended.COMMITTED]
    assert stage.value(ONE) == stage.value(OTHER) == b"1"


def test_a_coordinator_that_is_lost_before_it_decided_leaves_an_abort_everywhere() -> None:
    stage = Stage()
    tx = stage.begin(1)
    until(stage, lambda: stage.promises(ONE) == stage.promises(OTHER) == {tx})
    assert tx not in stage.world.checker.written
    stage.replace_leader(ONE)
    assert stage.locked(OTHER) == {tx}, "it waits for a decision, with its keys"
    stage.expect_rest()
    assert stage.world.checker.decisions[tx] is False
    assert (stage.value(ONE), stage.value(OTHER)) == (None, None)


def test_a_coordinator_that_is_lost_after_it_decided_leaves_a_commit_everywhere() -> None:
    stage = Stage()
    tx = stage.begin(1)
    until(stage, lambda: stage.promises(ONE) == stage.promises(OTHER) == {tx})
    until(stage, lambda: tx in stage.world.checker.written)
    stage.world.network.cut([ONE], [ONE, OTHER])
    for turn in range(3):
        stage.replace_leader(ONE)
        stage.pass_ms(20_000)
        assert stage.promises(ONE) == stage.promises(OTHER) == stage.locked(OTHER) == {tx}, "nobody has told them"
        late = stage.begin(2 + turn, OTHER)
        stage.pass_ms(100)
        assert [answer.ended for answer in stage.answers[late]] == [Ended.BUSY], "its keys are held, however long"
        assert stage.world.shards[ONE].copies[1].state.recovery.open[tx].phase is TxPhase.COMMITTING
        assert stage.world.checker.decisions[tx] is True
    stage.world.network.heal()
    stage.expect_rest()
    assert stage.value(ONE) == stage.value(OTHER) == b"1"


def test_a_participant_that_is_lost_before_its_vote_comes_back_without_locks() -> None:
    stage = Stage(DistributedTxConfig(prepare_timeout_ms=1_000))
    tx = stage.begin(1)
    until(stage, lambda: stage.leader(OTHER).machine.leftovers().get("locks"))
    assert stage.promises(OTHER) == set(), "it is on its way to the log"
    stage.world.network.cut([ONE], [OTHER])
    stage.replace_leader(OTHER)
    assert stage.leader(OTHER).machine.leftovers() == {}
    assert stage.locked(OTHER) == set()
    stage.pass_ms(1_200)
    assert stage.world.checker.decisions[tx] is False
    assert [answer.ended for answer in stage.answers[tx]] == [Ended.BUSY]
    stage.world.network.heal()
    stage.expect_rest()
    assert (stage.value(ONE), stage.value(OTHER)) == (None, None)


def test_a_participant_that_is_lost_after_its_yes_comes_back_with_its_promise_and_its_locks() -> None:
    stage = Stage()
    stage.world.network.cut([OTHER], [ONE], one_way=True)
    tx = stage.begin(1)
    until(stage, lambda: stage.promises(OTHER) == {tx})
    shard = stage.world.shards[OTHER]
    for copy in shard.copies:
        shard.restart(copy)
        shard.elect()
    assert stage.promises(OTHER) == stage.locked(OTHER) == {tx}
    assert stage.leader(OTHER).machine.leftovers()["locks"] == 1
    other = stage.begin(2, OTHER)
    stage.pass_ms(200)
    assert [answer.ended for answer in stage.answers[other]] == [Ended.BUSY]
    stage.world.network.heal()
    stage.expect_rest()
    assert stage.value(ONE) == stage.value(OTHER) == b"1"


def test_after_a_cut_all_known_votes_are_not_all_votes() -> None:
    stage = Stage(DistributedTxConfig(prepare_timeout_ms=1_000))
    stage.world.network.cut([ONE], [OTHER])
    tx = stage.begin(1)
    until(stage, lambda: stage.promises(ONE) == {tx})
    stage.pass_ms(500)
    stage.world.network.heal()
    stage.world.network.cut([OTHER], [ONE], one_way=True)
    stage.pass_ms(4_000)
    assert stage.world.checker.decisions[tx] is False, "one yes is known, and the other is missing"
    assert tx not in stage.world.checker.written
    stage.world.network.heal()
    stage.expect_rest()
    assert (stage.value(ONE), stage.value(OTHER)) == (None, None)


@pytest.fixture
def heard_by_leaders(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent to a shard goes to whoever leads it, and to no other."""
    monkeypatch.setattr(transaction_shard, "HALF_HEARD", 0.0)


def depose(stage: Stage) -> Chair:
    """The leader of the first shard does not know that it is no more."""
    shard = stage.world.shards[ONE]
    shard.lose_leader(is_deposed=True)
    deposed = shard.deposed
    assert deposed is not None
    shard.elect(next(copy for copy in shard.copies if copy is not deposed.copy))
    return deposed


@pytest.mark.usefixtures("heard_by_leaders")
def test_a_deposed_leader_does_not_refuse_for_ever_what_its_successor_would_commit() -> None:
    stage = Stage()
    deposed = depose(stage)
    stage.begin(1)
    until(stage, lambda: stage.leader(ONE).copy.state.ledger.height == 1)
    read = ReadVersion(stage.key(ONE), 1)
    later = Transaction(id=tx_id(1, b"\x02" * 8), operations=(Put(stage.key(ONE), b"2"),), reads=(read,), since=1)
    copy = deposed.copy
    (answer,) = deposed.machine.step(Commit(1, later), now_ms=copy.now_ms, wall_ms=copy.wall_ms)
    assert isinstance(answer, Answer)
    assert answer.ended is Ended.BUSY, "it has not seen what was read, and that is all it knows"
    answers: list[Answer] = []
    assert stage.world.ask(ONE, lambda request: Commit(request, later), answers.append)
    stage.expect_rest()
    assert [one.ended for one in answers] == [Ended.COMMITTED]


@pytest.mark.usefixtures("heard_by_leaders")
def test_a_deposed_coordinator_does_not_deny_what_its_successor_has_begun() -> None:
    stage = Stage()
    deposed = depose(stage)
    tx = stage.begin(1)
    until(stage, lambda: stage.promises(OTHER) == {tx})
    question = TxQueryMsg(tx, ONE, OTHER, ONE)
    effects = deposed.machine.step(Heard(OTHER, question), now_ms=deposed.copy.now_ms, wall_ms=deposed.copy.wall_ms)
    assert not any(hasattr(effect, "message") for effect in effects), "it may only write, and that comes to nothing"
    stage.pass_ms(10_000)
    stage.expect_rest()
    assert stage.value(ONE) == stage.value(OTHER) == b"1"


@pytest.mark.usefixtures("heard_by_leaders")
def test_a_leader_whose_blocks_do_not_come_back_is_not_woken_again_and_again() -> None:
    """A finding of the worlds: who waited for a key too long was looked at only when a block could be made."""
    stage = Stage(DistributedTxConfig(lock_wait=True, prepare_timeout_ms=1_000))
    stage.world.network.cut([ONE], [OTHER])
    held = stage.begin(1, timeout_ms=1_000)
    until(stage, lambda: stage.promises(ONE) == {held})
    deposed = depose(stage)
    copy, machine = deposed.copy, deposed.machine
    key = next(key for key in map(b"free %d".__mod__, range(100)) if shard_of(key, 2) == ONE)
    free = Transaction(id=tx_id(0, b"\x02" * 8), operations=(Put(key, b""),))
    waits = Transaction(id=tx_id(0, b"\x03" * 8), operations=(Put(stage.key(ONE), b"3"),))
    now_ms, answers = copy.now_ms, list[Answer]()
    (block,) = machine.step(Commit(1, free), now_ms=now_ms, wall_ms=0)
    assert isinstance(block, Propose), "it is on its way, and will not come back"
    machine.step(Commit(2, waits), now_ms=now_ms, wall_ms=0)
    for later_ms in range(now_ms + 900, now_ms + 30_000, 100):
        effects = machine.step(Tick(), now_ms=later_ms, wall_ms=0)
        assert not [one for one in effects if isinstance(one, WakeAt) and one.at_ms <= later_ms]
        answers += [one for one in effects if isinstance(one, Answer) and one.request == 2]
    assert [one.ended for one in answers] == [Ended.BUSY]


@pytest.mark.parametrize("rows", [False, True])
def test_an_abort_leaves_the_store_as_if_the_transaction_had_never_been(*, rows: bool) -> None:
    stage = Stage(DistributedTxConfig(prepare_timeout_ms=1_000))
    stage.begin(1)
    stage.expect_rest()
    roots = stage.root(ONE), stage.root(OTHER)
    stage.world.network.cut([OTHER], [ONE], one_way=True)
    tx = stage.begin(2, since=1, rows=rows)
    until(stage, lambda: stage.promises(ONE) == stage.promises(OTHER) == {tx})
    assert (stage.root(ONE), stage.root(OTHER)) == roots, "what is promised is not done"
    assert (stage.row(ONE, 2), stage.row(OTHER, 2)) == (None, None)
    stage.pass_ms(1_500)
    stage.world.network.heal()
    stage.expect_rest()
    assert stage.world.checker.decisions[tx] is False
    assert (stage.root(ONE), stage.root(OTHER)) == roots
    assert (stage.row(ONE, 2), stage.row(OTHER, 2)) == (None, None)
    assert stage.value(ONE) == stage.value(OTHER) == b"1"


def test_an_abort_that_comes_again_does_not_touch_what_others_have_done_since() -> None:
    stage = Stage(DistributedTxConfig(prepare_timeout_ms=1_000))
    stage.begin(1)
    stage.expect_rest()
    stage.world.network.cut([OTHER], [ONE], one_way=True)
    dropped = stage.begin(2, since=1)
    until(stage, lambda: stage.promises(ONE) == stage.promises(OTHER) == {dropped})
    stage.pass_ms(1_500)
    stage.world.network.heal()
    stage.expect_rest()
    done = stage.begin(3, since=1)
    stage.expect_rest()
    assert [answer.ended for answer in stage.answers[done]] == [Ended.COMMITTED]
    roots = stage.root(ONE), stage.root(OTHER)
    for shard in (ONE, OTHER):
        for _ in range(2):
            stage.world.shards[shard].hear(ONE, TxAbortMsg(dropped, ONE, shard, "again"))
            # And what an earlier leader had proposed comes into the log late.
            stage.world.shards[shard].write(Drop(dropped))
            stage.pass_ms(10)
            stage.expect_rest()
            stage.replace_leader(shard)
    assert (stage.root(ONE), stage.root(OTHER)) == roots
    assert stage.value(ONE) == stage.value(OTHER) == b"3"


def test_of_two_blind_writes_the_second_is_refused_whatever_their_vectors_are() -> None:
    """Also when the first is long over, and their changes have nothing in common."""
    for optimistic_locking in (True, False):
        stage = Stage(DistributedTxConfig(optimistic_locking=optimistic_locking))
        stage.begin(1)
        stage.expect_rest()
        stage.pass_ms(60_000)
        late = stage.begin(2, since=0)
        stage.expect_rest()
        assert [answer.ended for answer in stage.answers[late]] == [Ended.CONFLICT]
        assert stage.value(ONE) == stage.value(OTHER) == b"1"


def begin_a_deadlock(stage: Stage) -> tuple[bytes, bytes]:
    """Each holds a key where it is coordinated, and wants the one of the other."""
    stage.world.network.cut([ONE], [OTHER])
    first, second = stage.begin(1, ONE, timeout_ms=20_000), stage.begin(2, OTHER, timeout_ms=20_000)
    until(stage, lambda: stage.promises(ONE) == {first} and stage.promises(OTHER) == {second})
    stage.world.network.heal()
    return first, second


def test_a_deadlock_across_two_coordinators_is_found() -> None:
    stage = Stage(PATIENT)
    first, second = begin_a_deadlock(stage)
    stage.pass_ms(2_000)
    ends = {tx: [answer.ended for answer in answers] for tx, answers in stage.answers.items()}
    assert ends == {first: [Ended.COMMITTED], second: [Ended.ABORTED]}, "the younger one has to go"
    stage.expect_rest()
    assert stage.value(ONE) == stage.value(OTHER) == b"1"


def test_without_a_search_the_same_deadlock_lasts_until_time_is_up() -> None:
    stage = Stage(PATIENT, DeadlockDetectorConfig(enabled=False))
    begin_a_deadlock(stage)
    stage.pass_ms(10_000)
    assert list(stage.answers.values()) == [[], []]
    stage.expect_rest()


def test_wounding_prevents_it() -> None:
    stage = Stage(replace(PATIENT, wound_wait=True), DeadlockDetectorConfig(enabled=False))
    first, second = begin_a_deadlock(stage)
    stage.pass_ms(3_000)
    ends = {tx: [answer.ended for answer in answers] for tx, answers in stage.answers.items()}
    assert ends == {first: [Ended.COMMITTED], second: [Ended.ABORTED]}
    stage.expect_rest()
