"""The checker of transactions: what is right passes, and each wrong thing has its name."""

from typing import NoReturn

import pytest
from msgspec import structs

from bobbin.cluster.chain.block import Block, genesis
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import CounterAdd, Put, ReadVersion, Transaction
from bobbin.cluster.shard.commands import Append, Drop, Kind, Log, Outcome, Prepare, Resolve
from bobbin.cluster.shard.effects import Answer
from bobbin.cluster.transactions.messages import (
    No,
    TxAbortMsg,
    TxAckMsg,
    TxCommitMsg,
    TxDecisionMsg,
    TxPrepareMsg,
    TxPrepareResponse,
    Yes,
)
from bobbin.cluster.transactions.names import ShardId, TxId, tx_id
from bobbin.cluster.transactions.phases import Ended, TxPhase
from bobbin.cluster.transactions.tx_log import (
    AbortIntent,
    AllLocksReleased,
    PhaseChange,
    TxBegin,
    TxComplete,
    TxWalEntry,
)
from bobbin.simulator.transaction_checker import TransactionChecker

ONE, OTHER = ShardId(0), ShardId(1)
NOTHING = Embedding.dense((0.0,) * 4)
YES = Yes(1, NOTHING, ())


class Wrong(AssertionError):
    """What the checker has found."""


def wrong(message: str) -> NoReturn:
    raise Wrong(message)


def name(number: int) -> TxId:
    return tx_id(0, bytes([number]) * 8)


def put(tx: TxId, key: bytes = b"x", *, since: int = 0, reads: tuple[ReadVersion, ...] = ()) -> Transaction:
    return Transaction(id=tx, operations=(Put(key, b"1"),), since=since, reads=reads)


class Story:
    """What happens to two shards."""

    def __init__(self) -> None:
        self.checker = TransactionChecker(2, wrong)
        self.heights = {ONE: 0, OTHER: 0}

    def block(self, shard: ShardId, *transactions: Transaction) -> None:
        self.heights[shard] += 1
        height = self.heights[shard]
        header = structs.replace(genesis(4).header, height=height)
        block = Block(header, transactions)
        self.checker.applied(shard, Append(block), Outcome(Kind.APPENDED, height))

    def promise(self, shard: ShardId, part: Transaction) -> None:
        message = TxPrepareMsg(TxId(part.id), ONE, shard, part, NOTHING, 5_000, (ONE, OTHER))
        self.checker.applied(shard, Prepare(message), Outcome(Kind.VOTED, 0, vote=YES))

    def log(self, *entries: TxWalEntry) -> None:
        self.checker.applied(ONE, Log(entries), Outcome(Kind.LOGGED, 0))

    def drop(self, shard: ShardId, tx: TxId) -> None:
        self.checker.applied(shard, Drop(tx), Outcome(Kind.DROPPED, 0))

    def begin(self, tx: TxId) -> None:
        """With the promises of both."""
        self.log(TxBegin(tx, ((ONE, put(tx)), (OTHER, put(tx))), 5_000, 0))
        self.promise(ONE, put(tx))
        self.promise(OTHER, put(tx))

    def decide(self, tx: TxId) -> None:
        self.log(
            PhaseChange(tx, TxPhase.PREPARING, TxPhase.PREPARED), PhaseChange(tx, TxPhase.PREPARED, TxPhase.COMMITTING)
        )


@pytest.fixture
def story() -> Story:
    return Story()


A, B = name(1), name(2)


def test_a_transaction_that_is_done_everywhere_is_well(story: Story) -> None:
    story.begin(A)
    story.checker.said(ONE, TxPrepareResponse(A, ONE, YES))
    story.decide(A)
    story.checker.said(ONE, TxCommitMsg(A, ONE, OTHER))
    story.checker.answered(ONE, Answer(1, Ended.COMMITTED, A), is_begun_here=True)
    for shard in (ONE, OTHER):
        story.block(shard, put(A))
        story.checker.said(shard, TxAckMsg(A, shard, success=True))
    story.log(TxComplete(A, commits=True), AllLocksReleased(A))
    story.checker.expect_rest()
    assert story.checker.committed[A] == {ONE: 1, OTHER: 1}


def test_one_that_is_dropped_everywhere_is_well_too(story: Story) -> None:
    story.begin(A)
    story.log(AbortIntent(A, "somebody said no", (ONE, OTHER)))
    story.checker.said(ONE, TxAbortMsg(A, ONE, OTHER, ""))
    for shard in (ONE, OTHER):
        story.drop(shard, A)
        story.drop(shard, A)
    story.log(TxComplete(A, commits=False))
    story.checker.expect_rest()
    story.promise(ONE, put(B))


def test_refused_commands_change_nothing(story: Story) -> None:
    story.checker.applied(ONE, Drop(A), Outcome(Kind.UNKNOWN_TRANSACTION, 0))
    message = TxPrepareMsg(A, ONE, ONE, put(A), NOTHING, 5_000, (ONE,))
    story.checker.applied(ONE, Prepare(message), Outcome(Kind.VOTED, 0, vote=No("busy")))
    assert story.checker.shards[ONE].promised == {}


def test_t1_done_here_and_dropped_there(story: Story) -> None:
    story.begin(A)
    story.decide(A)
    story.block(ONE, put(A))
    story.checker.decisions[A] = False  # T4 would see it first.
    with pytest.raises(Wrong, match=r"T1: .* done at one shard and dropped at another"):
        story.drop(OTHER, A)


def test_t1_done_without_a_promise_or_other_than_promised(story: Story) -> None:
    story.log(TxBegin(A, ((ONE, put(A)), (OTHER, put(A))), 5_000, 0))
    with pytest.raises(Wrong, match=r"T1: .* which has not promised it"):
        story.block(ONE, put(A))
    story = Story()
    story.begin(A)
    story.decide(A)
    with pytest.raises(Wrong, match=r"T1: .* is not what it has promised"):
        story.block(ONE, put(A, b"z"))


def test_t1_half_done_in_the_end(story: Story) -> None:
    story.begin(A)
    story.decide(A)
    story.block(ONE, put(A))
    with pytest.raises(Wrong, match=r"T1: .* is called complete, and shard 1 has not done it"):
        story.log(TxComplete(A, commits=True))
    with pytest.raises(Wrong, match="T2: in the end shard 1 still holds"):
        story.checker.expect_rest()
    story.checker.shards[OTHER].promised.clear()
    with pytest.raises(Wrong, match=r"T1: .* was to be done at \[0, 1\], and was at \[0\]"):
        story.checker.expect_rest()


def test_t2_an_acknowledgement_of_what_is_still_held(story: Story) -> None:
    story.begin(A)
    with pytest.raises(Wrong, match="T2"):
        story.checker.said(ONE, TxAckMsg(A, ONE, success=True))
    story.checker.said(ONE, TxAckMsg(A, ONE, success=False))


def test_t3_commit_is_said_or_done_before_it_is_written(story: Story) -> None:
    story.begin(A)
    for said in (TxCommitMsg(A, ONE, OTHER), TxDecisionMsg(A, ONE, commits=True)):
        with pytest.raises(Wrong, match="T3"):
            story.checker.said(ONE, said)
    with pytest.raises(Wrong, match="T3"):
        story.checker.answered(ONE, Answer(1, Ended.COMMITTED, A), is_begun_here=True)
    with pytest.raises(Wrong, match=r"T3: .* without a decision that was written"):
        story.block(OTHER, put(A))


def test_t3_a_decision_without_all_promises(story: Story) -> None:
    story.log(TxBegin(A, ((ONE, put(A)), (OTHER, put(A))), 5_000, 0))
    story.promise(ONE, put(A))
    with pytest.raises(Wrong, match=r"T3: .* shard 1 has not promised it"):
        story.decide(A)
    with pytest.raises(Wrong, match=r"T3: .* was never begun"):
        story.decide(B)


def test_t4_a_yes_that_was_not_written_and_a_promise_that_is_dropped(story: Story) -> None:
    with pytest.raises(Wrong, match=r"T4: .* says yes"):
        story.checker.said(ONE, TxPrepareResponse(A, ONE, YES))
    story.begin(A)
    with pytest.raises(Wrong, match=r"T4: .* nothing was decided"):
        story.drop(ONE, A)
    story.log(AbortIntent(A, "", (ONE, OTHER)))
    story.drop(ONE, A)
    with pytest.raises(Wrong, match=r"T4: shard 0 promises .* again"):
        story.promise(ONE, put(A))


def test_t4_does_not_speak_of_what_an_operator_has_ended(story: Story) -> None:
    story.begin(A)
    story.checker.applied(ONE, Resolve(A, commits=False, operator="o", reason="r"), Outcome(Kind.RESOLVED, 0))
    story.drop(OTHER, A)
    story.checker.expect_rest()


def test_t5_two_decisions(story: Story) -> None:
    story.begin(A)
    story.decide(A)
    for said in (TxAbortMsg(A, ONE, OTHER, ""), TxDecisionMsg(A, ONE, commits=False)):
        with pytest.raises(Wrong, match=r"T5: .* was to commit, and shard 0 says abort"):
            story.checker.said(ONE, said)
    with pytest.raises(Wrong, match="T5"):
        story.checker.answered(ONE, Answer(1, Ended.ABORTED, A), is_begun_here=True)
    with pytest.raises(Wrong, match="T5"):
        story.log(AbortIntent(A, "", (ONE, OTHER)))
    with pytest.raises(Wrong, match=r"T5: .* a second time"):
        story.log(TxBegin(A, ((ONE, put(A)),), 5_000, 0))


def test_t5_what_was_answered_by_abort_never_commits(story: Story) -> None:
    story.checker.said(ONE, TxDecisionMsg(A, ONE, commits=False))
    story.begin(A)
    with pytest.raises(Wrong, match=r"T5: .* was to abort, and the log says commit"):
        story.decide(A)


def test_t6_two_that_hold_one_key(story: Story) -> None:
    story.begin(A)
    with pytest.raises(Wrong, match=r"T6: .* is promised at shard 0"):
        story.promise(ONE, put(B))
    with pytest.raises(Wrong, match=r"T6: .* is committed at shard 0"):
        story.block(ONE, put(B))


def test_t6_reads_hold_their_keys_too(story: Story) -> None:
    story.promise(ONE, put(A, b"y", reads=(ReadVersion(b"x", 0),)))
    with pytest.raises(Wrong, match="T6"):
        story.block(ONE, put(B, b"x"))


def test_t7_first_committer_wins(story: Story) -> None:
    story.block(ONE, put(A))
    with pytest.raises(Wrong, match=r"T7: .* began at 0 and writes b'x' at 2, as somebody has at 1"):
        story.block(ONE, put(B, since=0))
    story = Story()
    story.block(ONE, put(A))
    story.block(ONE, put(B, since=1))


def test_t7_what_was_read_is_what_is_met(story: Story) -> None:
    story.block(ONE, put(A))
    stale = put(B, b"y", since=1, reads=(ReadVersion(b"x", 0),))
    with pytest.raises(Wrong, match=r"T7: .* has read version 0"):
        story.block(ONE, stale)


def test_additions_to_a_counter_do_not_meet(story: Story) -> None:
    for number in (1, 2, 3):
        story.block(ONE, Transaction(id=name(number), operations=(CounterAdd(b"n", 1),)))
    with pytest.raises(Wrong, match="T7"):
        story.block(ONE, put(name(4), b"n", since=2))


def test_nothing_is_done_twice_and_no_block_is_left_out(story: Story) -> None:
    story.block(ONE, put(A))
    with pytest.raises(Wrong, match="twice"):
        story.block(ONE, put(A, since=1))
    story = Story()
    story.heights[ONE] = 1
    with pytest.raises(Wrong, match="chain: block 2 stands on 0"):
        story.block(ONE, put(A))


def test_an_operation_that_the_state_has_refused_has_written_nothing(story: Story) -> None:
    story.block(ONE, put(A))
    refused = Outcome(Kind.APPENDED, 2, refusals=((0, 0, "not there"),))
    story.heights[ONE] = 2
    header = structs.replace(genesis(4).header, height=2)
    story.checker.applied(ONE, Append(Block(header, (put(B, b"y"),))), refused)
    assert story.checker.shards[ONE].version(b"y") == 0
    assert story.checker.committed[B] == {ONE: 2}
