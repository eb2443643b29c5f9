from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.identity import Identity
from bobbin.cluster.names import Index, Term
from bobbin.cluster.operations import (
    CompareAndSwap,
    CounterAdd,
    Delete,
    Embed,
    Put,
    ReadVersion,
    TableInsert,
    Transaction,
)
from bobbin.cluster.settings import AutoMergeConfig
from bobbin.cluster.shard.commands import (
    Append,
    Command,
    Drop,
    Kind,
    Log,
    Outcome,
    Prepare,
    ReplaceCodebook,
    Resolve,
)
from bobbin.cluster.shard.machine import DRAFTS_MAX, Shard
from bobbin.cluster.transactions.messages import Conflict, No, TxPrepareMsg, Yes
from bobbin.cluster.transactions.names import ShardId, TxId, tx_id
from bobbin.cluster.transactions.tx_log import AbortIntent, TxBegin, TxComplete
from bobbin.errors import IntegrityError
from bobbin.wire.cluster.shard_commands import decode_outcome, encode_command, shard_machine
from tests.unit.cluster.shard.driven import CHAIN, DrivenShards, restored

IDENTITY = Identity(bytes(32))
NOWHERE = Embedding(16, (), ())


def empty() -> Shard:
    return shard_machine(shard=ShardId(0), config=CHAIN)


def block_of(shard: Shard, *transactions: Transaction, timestamp_ms: int = 1) -> Append:
    """A block that follows the tip."""
    draft = shard.ledger.draft(
        transactions, proposer=IDENTITY.node, timestamp_ms=timestamp_ms, promised=shard.participant.promises
    )
    assert not draft.clashes
    return Append(shard.ledger.seal(draft, IDENTITY))


def transaction(number: int, *operations: object, since: int = 0, **others: object) -> Transaction:
    return Transaction(tx_id(since, number.to_bytes(8, "big")), operations, since=since, **others)  # type: ignore[arg-type]


def prepare(part: Transaction) -> Prepare:
    return Prepare(TxPrepareMsg(TxId(part.id), ShardId(1), ShardId(0), part, NOWHERE, 1_000, (ShardId(0), ShardId(1))))


def do(shard: Shard, command: Command) -> Outcome:
    return shard.do(Index(1), command)


def refused(shard: Shard, command: Command, kind: Kind) -> str:
    """A command that is refused and changes nothing."""
    root = shard.root
    outcome = do(shard, command)
    assert (outcome.kind, outcome.kind.is_refusal) == (kind, True)
    assert outcome.reason
    assert shard.root == root
    return outcome.reason


# ---- blocks --------------------------------------------------------------------------------------------------------


def test_a_block_is_put_on_the_chain_and_its_transactions_are_known_by_their_ids() -> None:
    shard = empty()
    one = transaction(1, Put(b"a", b"1"), CompareAndSwap(b"b", b"x", b"y"))
    outcome = do(shard, block_of(shard, one, transaction(2, Put(b"c", b"1"))))
    assert (outcome.kind, outcome.height) == (Kind.APPENDED, 1)
    assert [(at, number) for at, number, _ in outcome.refusals] == [(0, 1)]
    assert shard.committed_at(TxId(one.id)) == 1
    assert [number for number, _ in shard.refusals(TxId(one.id))] == [1]
    assert shard.refusals(tx_id(0, b"12345678")) == ()


def test_a_block_that_does_not_follow_the_tip_is_stale() -> None:
    shard = empty()
    block = block_of(shard, transaction(1, Put(b"a", b"1")))
    do(shard, block)
    assert "tip" in refused(shard, block, Kind.STALE_BLOCK)


def spoilt(change: str) -> Callable[[Append], Append]:
    def spoil(append: Append) -> Append:
        block = append.block
        header = block.header
        match change:
            case "state root":
                return Append(replace(block, header=replace(header, state_root=bytes(32))))
            case "transactions":
                return Append(replace(block, transactions=(transaction(9, Put(b"z", b"9")),)))
            case "signature":
                return Append(replace(block, header=replace(header, signature=bytes(96))))
            case "timestamp":
                return Append(replace(block, header=replace(header, timestamp_ms=-1)))
            case _:
                return Append(replace(block, header=replace(header, codebook_version=7)))

    return spoil


@pytest.mark.parametrize("change", ["state root", "transactions", "signature", "timestamp", "codebook"])
def test_a_block_that_is_wrong_is_refused_before_it_is_acknowledged_and_when_it_is_applied(change: str) -> None:
    shard = empty()
    do(shard, block_of(shard, transaction(1, Put(b"a", b"1"))))
    bad = spoilt(change)(block_of(shard, transaction(2, Put(b"b", b"1"))))
    root = shard.root
    assert shard.judge(bad.block) is not None
    assert shard.root == root
    refused(shard, bad, Kind.BAD_BLOCK)
    refused(restored(shard), bad, Kind.BAD_BLOCK)


def test_no_transaction_is_committed_twice() -> None:
    shard = empty()
    one = transaction(1, CounterAdd(b"c", 1))
    do(shard, block_of(shard, one))
    assert "has been committed" in refused(shard, block_of(shard, one), Kind.BAD_BLOCK)
    part = prepare(one)
    assert isinstance(do(shard, part).vote, No)
    assert restored(shard).committed_at(TxId(one.id)) == 1


def test_ids_below_the_floor_are_forgotten_and_refused() -> None:
    shard = empty()
    shard.ledger._versions._keep_heights = 3
    for number in range(6):
        do(shard, block_of(shard, transaction(number, CounterAdd(b"c", 1), since=shard.ledger.height)))
    assert shard.ledger.floor == 3
    assert [shard.committed_at(tx_id(number, number.to_bytes(8, "big"))) for number in range(6)] == [
        None,
        None,
        None,
        4,
        5,
        6,
    ]
    old = Transaction(tx_id(2, bytes(8)), (CounterAdd(b"c", 1),), since=6)
    assert "too long ago" in refused(shard, block_of(shard, old), Kind.BAD_BLOCK)
    ahead = Transaction(tx_id(9, bytes(8)), (CounterAdd(b"c", 1),), since=6)
    assert "reach" in refused(shard, block_of(shard, ahead), Kind.BAD_BLOCK)


def test_a_part_that_has_ended_is_not_done_by_itself() -> None:
    shard = empty()
    dropped = transaction(1, Put(b"a", b"1"))
    block = block_of(shard, dropped)
    do(shard, Drop(TxId(dropped.id)))
    assert not shard.participant.promises
    assert len(shard.participant.locks) == 0
    assert "ended here as a part" in refused(shard, block, Kind.BAD_BLOCK)
    assert "ended here as a part" in refused(restored(shard), block, Kind.BAD_BLOCK)


def test_a_transaction_that_began_above_the_chain_is_refused_also_where_it_stands_among_others() -> None:
    shard = empty()
    do(shard, block_of(shard, transaction(1, Put(b"a", b"1"))))
    honest = transaction(2, Put(b"b", b"1"), since=1)
    block = block_of(shard, honest).block
    for since in (2, 9):
        ahead = replace(transaction(3, Put(b"c", b"1")), since=since)
        reason = refused(shard, Append(replace(block, transactions=(honest, ahead))), Kind.BAD_BLOCK)
        assert f"began at height {since}, above the chain" in reason


def test_a_promised_part_is_done_word_for_word_or_not_at_all() -> None:
    shard = empty()
    part = transaction(1, Put(b"a", b"1"))
    assert isinstance(do(shard, prepare(part)).vote, Yes)
    other = Transaction(part.id, (Put(b"a", b"2"),))
    assert "promised" in refused(shard, block_of(shard, other), Kind.BAD_BLOCK)
    assert "locked" in refused(shard, block_of(shard, transaction(2, Put(b"a", b"3"))), Kind.BAD_BLOCK)
    reader = transaction(3, Put(b"b", b"3"), reads=(ReadVersion(b"a", 0),))
    assert "locked" in refused(shard, block_of(shard, reader), Kind.BAD_BLOCK)
    assert do(shard, block_of(shard, part, transaction(4, Put(b"c", b"1")))).kind is Kind.APPENDED
    assert not shard.participant.promises
    assert len(shard.participant.locks) == 0
    assert shard.participant.decision(TxId(part.id)) is True


def test_a_draft_spares_the_work_and_decides_nothing() -> None:
    with_drafts, without = empty(), empty()
    for number in range(DRAFTS_MAX + 3):
        block = block_of(without, transaction(number, Put(b"%d" % number, b"")))
        assert with_drafts.judge(block.block) is None
        assert with_drafts.draft_of(without.ledger.tip) is None
        assert do(with_drafts, block) == do(without, block)
        assert with_drafts.root == without.root
    assert not with_drafts._drafts


def test_blocks_are_judged_on_those_that_were_judged_before_them() -> None:
    leader, follower = empty(), empty()
    blocks = []
    for number in range(3):
        blocks.append(block_of(leader, transaction(number, CounterAdd(b"c", 1))))
        do(leader, blocks[-1])
    assert follower.judge(blocks[1].block) is not None, "what it rests on is not known"
    assert [follower.judge(block.block) for block in blocks] == [None] * 3
    follower.drop_drafts()
    assert follower.judge(blocks[1].block) is not None
    for block in blocks:
        assert do(follower, block).kind is Kind.APPENDED
    assert follower.root == leader.root


# ---- the other commands --------------------------------------------------------------------------------------------


def test_parts_are_promised_refused_or_in_conflict() -> None:
    shard = empty()
    do(shard, block_of(shard, transaction(1, Put(b"a", b"1"))))
    late = do(shard, prepare(transaction(2, Put(b"a", b"2")))).vote
    assert isinstance(late, Conflict)
    assert late.other == transaction(1).id
    ahead = do(shard, prepare(transaction(3, Put(b"b", b"2"), since=9))).vote
    assert isinstance(ahead, No)
    wrong = do(shard, prepare(transaction(4, Put(b"", b"2")))).vote
    assert isinstance(wrong, No)
    assert wrong.is_final
    foreign = prepare(transaction(5, Put(b"c", b"2")))
    vote = do(shard, Prepare(replace(foreign.message, shard=ShardId(3)))).vote
    assert isinstance(vote, No)
    crooked = Embedding(16, (3, 1), (1.0, float("nan")))
    vote = do(shard, Prepare(replace(foreign.message, delta=crooked))).vote
    assert isinstance(vote, No)
    assert isinstance(do(shard, foreign).vote, Yes)
    assert list(shard.participant.promises) == [foreign.message.tx]


def test_dropping_is_noted_also_where_nothing_was_promised() -> None:
    shard = empty()
    part = transaction(1, Put(b"a", b"1"))
    root = shard.root
    assert do(shard, Drop(TxId(part.id))).kind is Kind.DROPPED
    assert shard.root != root
    vote = do(shard, prepare(part)).vote
    assert isinstance(vote, No)
    assert vote.is_final


def test_what_a_coordinator_writes_is_taken_in_whole_or_not_at_all() -> None:
    shard = empty()
    tx = tx_id(0, bytes(8))
    begin = TxBegin(tx, ((ShardId(0), transaction(0, Put(b"a", b"1"))),), 1_000, 0)
    assert do(shard, Log((begin,))).kind is Kind.LOGGED
    refused(shard, Log((AbortIntent(tx, "", (ShardId(0),)), TxComplete(tx, commits=True))), Kind.BAD_ENTRY)
    root = shard.root
    assert do(shard, Log(())).kind is Kind.LOGGED
    assert shard.root == root, "an empty one only proves that somebody leads"
    assert restored(shard).recovery.open.keys() == {tx}


def test_a_codebook_is_replaced_by_the_log_alone_and_lives_in_snapshots() -> None:
    world = DrivenShards()
    shard = world[0]
    book = GlobalCodebook(1, (Embedding(16, (1,), (1.0,)),), ("one",))
    outcome = shard.write(ReplaceCodebook(1, book.encode()))
    assert outcome.kind is Kind.REPLACED
    for state in (shard.state, shard.replica, restored(shard.state)):
        assert state.ledger.codebook == book
        assert state.root == shard.state.root
    refused(shard.state, ReplaceCodebook(1, book.encode()), Kind.BAD_CODEBOOK)
    refused(shard.state, ReplaceCodebook(3, book.encode()), Kind.BAD_CODEBOOK)
    refused(shard.state, ReplaceCodebook(2, b"no book"), Kind.BAD_CODEBOOK)
    other = GlobalCodebook(2, (Embedding(3, (1,), (1.0,)),))
    refused(shard.state, ReplaceCodebook(2, other.encode()), Kind.BAD_CODEBOOK)


def test_a_promise_can_be_ended_by_hand_and_that_is_kept() -> None:
    shard = empty()
    part = transaction(1, Put(b"a", b"1"))
    refused(shard, Resolve(TxId(part.id), commits=False, operator="o", reason="r"), Kind.UNKNOWN_TRANSACTION)
    do(shard, prepare(part))
    assert do(shard, Resolve(TxId(part.id), commits=False, operator="o", reason="r")).kind is Kind.RESOLVED
    assert [end.heuristic is not None for end in restored(shard).participant.heuristics] == [True]


# ---- the whole -----------------------------------------------------------------------------------------------------


def test_bytes_that_are_no_command_are_refused_and_change_nothing() -> None:
    shard = empty()
    root = shard.root
    for raw in (b"", b"\x00", b"\x92\x20\x00", b"\x91" * 5_000, encode_command(Log(()))[:-1]):
        assert decode_outcome(shard.apply(Index(1), Term(1), raw)).kind is Kind.NO_COMMAND
    assert shard.root == root


def test_the_root_covers_promises_and_what_the_coordinator_wrote_and_the_shard() -> None:
    parts = [transaction(1, Put(b"a", value)) for value in (b"1", b"2")]
    logs = [Log((TxBegin(tx_id(0, bytes(8)), ((ShardId(0), part),), 1_000, 0),)) for part in parts]
    pairs: list[Sequence[Command]] = [[prepare(part) for part in parts], logs]
    for commands in pairs:
        shards = [empty(), empty()]
        for shard, command in zip(shards, commands, strict=True):
            do(shard, command)
        assert shards[0].root != shards[1].root
    assert empty().root != shard_machine(shard=ShardId(1), config=CHAIN).root


COMMANDS = st.lists(
    st.tuples(
        st.sampled_from(["append", "stale", "prepare", "finish", "drop", "log", "resolve", "book", "snapshot"]),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
    max_size=25,
)


def made(shard: Shard, kind: str, number: int, key: int) -> Command:
    """A command that may or may not make sense by now."""
    since = max(0, shard.ledger.height - key)
    name = b"k%d" % key
    operation = (
        Put(name, b"%d" % number),
        CounterAdd(b"c" + name, number),
        Delete(name),
        TableInsert(name, (b"%d" % number,)),
        Embed(name, Embedding(16, (key,), (float(number),))),
        CompareAndSwap(name, b"1", b"2"),
    )[number]
    one = Transaction(tx_id(since, bytes([0] * 6 + [number, key])), (operation,), since=since)
    tx = TxId(one.id)
    match kind:
        case "append" | "stale":
            draft = shard.ledger.draft((one,), proposer=IDENTITY.node, timestamp_ms=number)
            if not draft.transactions:
                return Log(())
            block = shard.ledger.seal(draft, IDENTITY)
            return Append(block if kind == "append" else replace(block, transactions=()))
        case "prepare":
            return prepare(one)
        case "finish":
            parts = [promise.message.part for promise in shard.participant.promises.values()]
            return block_of(shard, *parts) if parts else Drop(tx)
        case "drop":
            return Drop(next(iter(shard.participant.promises), tx))
        case "log":
            return Log((TxBegin(tx, ((ShardId(0), one),), 1_000, number),))
        case "resolve":
            return Resolve(next(iter(shard.participant.promises), tx), bool(number % 2), "o", "r")
        case _:
            centroid = Embedding(16, (key,), (1.0,))
            return ReplaceCodebook(shard.ledger.codebook.version + number % 2, GlobalCodebook(1, (centroid,)).encode())


@settings(max_examples=40, deadline=None)
@given(COMMANDS)
def test_the_same_commands_give_the_same_answers_and_roots_also_over_snapshots(
    steps: list[tuple[str, int, int]],
) -> None:
    one, other = empty(), empty()
    for index, (kind, number, key) in enumerate(steps, start=1):
        if kind == "snapshot":
            other = restored(other)
            assert list(other.snapshot()) == list(one.snapshot())
            continue
        command = made(one, kind, number, key)
        raw = encode_command(command)
        assert other.apply(Index(index), Term(1), raw) == one.apply(Index(index), Term(1), raw)
        assert one.root == other.root
        one.participant.check()
    assert one.ledger.verify() is None
    assert restored(one).root == one.root


def snapshot_entries() -> list[bytes]:
    shard = empty()
    do(shard, block_of(shard, transaction(1, Put(b"a", b"1"))))
    do(shard, prepare(transaction(2, Put(b"b", b"1"))))
    return list(shard.snapshot())


def test_a_capture_is_what_the_shard_was_when_it_was_taken() -> None:
    shard = empty()
    do(shard, block_of(shard, transaction(1, Put(b"a", b"1"))))
    root, capture = shard.root, shard.snapshot()
    do(shard, block_of(shard, transaction(2, Put(b"a", b"2"), since=1)))
    entries = list(capture)
    assert len(capture) == len(entries)
    other = empty()
    other.restore(entries)
    assert other.root == root


@pytest.mark.parametrize("fault", ["no head", "two heads", "order", "missing", "bytes", "foreign", "unknown"])
def test_a_snapshot_that_makes_no_sense_leaves_everything_as_it_was(fault: str) -> None:
    entries = snapshot_entries()
    match fault:
        case "no head":
            entries = entries[1:]
        case "two heads":
            entries = [entries[0], *entries]
        case "order":
            entries = [*entries[:-3], entries[-1], *entries[-3:-1]]
        case "missing":
            entries = entries[:3]
        case "bytes":
            entries[-1] = entries[-1][:-1]
        case "unknown":
            entries.append(b"\x91\x7f")
        case _:
            entries[0] = next(iter(shard_machine(shard=ShardId(4), config=CHAIN).snapshot()))
    shard = empty()
    do(shard, block_of(shard, transaction(7, Put(b"z", b"1"))))
    root = shard.root
    with pytest.raises(IntegrityError):
        shard.restore(entries)
    assert shard.root == root
    assert shard.committed_at(tx_id(0, (7).to_bytes(8, "big"))) == 1


# ---- nodes that are set differently ---------------------------------------------------------------------------------


def test_what_a_command_does_follows_from_no_setting_that_nodes_may_have_of_their_own() -> None:
    """A node that makes smaller blocks takes the larger ones of others; else their states would part."""
    apart = replace(CHAIN, max_transactions=2, conflict_threshold=0.1, auto_merge=AutoMergeConfig(max_merge_batch=1))
    wide, narrow = empty(), shard_machine(shard=ShardId(0), config=apart)
    four = [Put(b"%d" % number, b"") for number in range(4)]
    part = transaction(2, *[Put(b"part-%d" % number, b"") for number in range(3)])
    block = block_of(wide, transaction(1, *four))
    for command in (block, prepare(part)):
        outcomes = [do(shard, command) for shard in (wide, narrow)]
        assert outcomes[0] == outcomes[1]
        assert outcomes[0].kind in {Kind.APPENDED, Kind.VOTED}
        assert wide.root == narrow.root
    assert TxId(part.id) in narrow.participant.promises
    # What was promised must be done, also where the node that leads now would not have made such a block itself.
    done = block_of(narrow, part)
    assert [do(shard, done).kind for shard in (wide, narrow)] == [Kind.APPENDED, Kind.APPENDED]
    assert wide.root == narrow.root
    assert not narrow.participant.promises


def test_a_leader_makes_no_block_that_is_longer_than_it_is_set_for() -> None:
    narrow = shard_machine(shard=ShardId(0), config=replace(CHAIN, max_transactions=2))
    long = transaction(1, *[Put(b"%d" % number, b"") for number in range(3)])
    clash = narrow.ledger.clash(long)
    assert clash is not None
    assert clash.is_final
    assert narrow.ledger.clash(long, bounded=False) is None
