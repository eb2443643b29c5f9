import pytest

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import (
    Average,
    CompareAndSwap,
    CounterAdd,
    Delete,
    Embed,
    Put,
    ReadVersion,
    SetAdd,
    TableInsert,
    Transaction,
    Update,
    VectorAdd,
)
from bobbin.cluster.settings import AutoMergeConfig, ChainConfig, DistributedTxConfig
from bobbin.cluster.shard import committing
from bobbin.cluster.shard.commands import Append, Kind
from bobbin.cluster.shard.committing import COMPARED_MAX, FLIGHTS_MAX, RETRY_MS, TRIES_MAX
from bobbin.cluster.shard.events import Commit, Commits
from bobbin.cluster.shard.rivals import shared_key
from bobbin.cluster.transactions.names import tx_id
from bobbin.cluster.transactions.phases import Ended
from tests.unit.cluster.shard.driven import DrivenShards

ALONE = ChainConfig(embedding_dimension=16, auto_merge=AutoMergeConfig(enabled=False))


def blocks(world: DrivenShards) -> list[int]:
    """How many transactions each block of the first shard has."""
    ledger = world[0].state.ledger
    return [len(block.transactions) for block in ledger.blocks(1, ledger.height)]


def test_a_transaction_is_answered_only_when_it_is_applied() -> None:
    world = DrivenShards()
    request = world.commit(world.transaction(Put(b"k", b"v")))
    assert request not in world.answers
    assert len(world[0].proposals) == 1
    world[0].apply_next()
    answer = world.answers[request]
    assert (answer.ended, answer.height) == (Ended.COMMITTED, 1)
    world.check_quiet()


def moving(world: DrivenShards, number: int) -> Transaction:
    """One whose change is merged with those of others."""
    return world.transaction(VectorAdd(b"k%d" % number, Embedding.of(16, {number % 16: 1.0})))


def test_the_first_goes_at_once_and_those_that_come_meanwhile_share_blocks_of_ten_at_most() -> None:
    world = DrivenShards()
    requests = [world.commit(moving(world, number)) for number in range(25)]
    assert len(world[0].proposals) == 3, "one alone, and two that are full; the rest waits for what is under way"
    world.run()
    assert blocks(world) == [1, 10, 10, 4]
    assert {world.ended(request) for request in requests} == {Ended.COMMITTED}


def test_those_that_come_at_once_share_blocks_from_the_first_on() -> None:
    world = DrivenShards()
    commits = tuple(Commit(world.request(), moving(world, number)) for number in range(25))
    world[0].step(Commits(commits))
    assert len(world[0].proposals) == 2, "the rest waits for what is under way"
    world.run()
    assert blocks(world) == [10, 10, 5]
    assert {world.ended(commit.request) for commit in commits} == {Ended.COMMITTED}
    few = tuple(Commit(world.request(), world.transaction(Put(b"k%d" % number, b"w"))) for number in range(3))
    world[0].step(Commits(few))
    assert len(world[0].proposals) == 1, "nothing is under way, so nobody waits for company"
    world.run()
    assert blocks(world) == [10, 10, 5, 3]


def test_who_has_nothing_to_merge_shares_a_block_with_as_many_as_it_has_room_for() -> None:
    world = DrivenShards()
    plain = [world.transaction(Put(b"p%d" % number, b"v")) for number in range(30)]
    mixed = [*plain[:20], *(moving(world, number) for number in range(12)), *plain[20:]]
    commits = tuple(Commit(world.request(), transaction) for transaction in mixed)
    world[0].step(Commits(commits))
    world.run()
    assert blocks(world) == [30, 12], "ten are merged, and nobody overtakes the eleventh"
    assert {world.ended(commit.request) for commit in commits} == {Ended.COMMITTED}


@pytest.mark.parametrize("own_keys", [False, True])
def test_a_key_that_many_want_costs_each_of_them_few_comparisons(
    monkeypatch: pytest.MonkeyPatch, *, own_keys: bool
) -> None:
    looked = 0

    def counted(one: dict[bytes, int], other: dict[bytes, int]) -> bytes | None:
        nonlocal looked
        looked += 1
        return shared_key(one, other)

    monkeypatch.setattr(committing, "shared_key", counted)
    world = DrivenShards()
    own = [[Put(b"own%d" % number, b"")] if own_keys else [] for number in range(300)]
    wanting = [world.transaction(Put(b"hot", b"%d" % number), *own[number]) for number in range(300)]
    commits = tuple(Commit(world.request(), transaction) for transaction in wanting)
    world[0].step(Commits(commits))
    world.run()
    assert looked <= 3 * COMPARED_MAX * len(commits)
    ended = [world.ended(commit.request) for commit in commits]
    assert ended == [Ended.COMMITTED] + [Ended.CONFLICT] * 299, "the first wins, and all others hear of it"
    world.check_quiet()


def test_rows_of_one_table_go_into_blocks_however_many_there_are() -> None:
    """They share the key by which they are compared, and no place at which they stand."""
    world = DrivenShards(config=DistributedTxConfig(optimistic_locking=False))
    rows = [world.transaction(TableInsert(b"t", (b"%d" % number,))) for number in range(100)]
    commits = tuple(Commit(world.request(), transaction) for transaction in rows)
    world[0].step(Commits(commits))
    world.run()
    assert {world.ended(commit.request) for commit in commits} == {Ended.COMMITTED}
    assert sum(blocks(world)) == 100
    assert max(blocks(world)) <= COMPARED_MAX + 1
    world.check_quiet()


def test_additions_to_one_counter_share_a_block_however_many_there_are() -> None:
    world = DrivenShards()
    commits = tuple(Commit(world.request(), world.transaction(CounterAdd(b"c", 1))) for _ in range(200))
    world[0].step(Commits(commits))
    world.run()
    assert (blocks(world), world.value(b"c")) == ([200], b"200")


def test_while_a_block_is_under_way_the_next_waits_for_company() -> None:
    world = DrivenShards()
    requests = [world.commit(world.transaction(Put(b"k%d" % number, b"v"))) for number in range(25)]
    assert len(world[0].proposals) == 3, "one alone, and each of the others when ten had come"
    world.run()
    assert blocks(world) == [1, 10, 10, 4]
    assert {world.ended(request) for request in requests} == {Ended.COMMITTED}


def test_nobody_is_taken_along_who_has_not_asked() -> None:
    """A transaction that a client still builds is not known to the leader; a refused one leaves the others alone."""
    world = DrivenShards()
    still_open = world.transaction(Put(b"open", b"v"))
    world.put(b"a")
    stale = world.commit(world.transaction(Put(b"a", b"2"), since=0))
    good = world.commit(world.transaction(Put(b"b", b"2")))
    world.run()
    assert (world.ended(stale), world.ended(good)) == (Ended.CONFLICT, Ended.COMMITTED)
    assert world.value(b"open") is None
    request = world.commit(still_open)
    world.run()
    assert world.ended(request) is Ended.COMMITTED


def test_without_merging_every_block_has_one_transaction() -> None:
    world = DrivenShards(chain=ALONE)
    for number in range(5):
        world.commit(world.transaction(Put(b"k%d" % number, b"v")))
    world.run()
    assert blocks(world) == [1] * 5


def test_no_more_blocks_are_under_way_than_allowed() -> None:
    world = DrivenShards(chain=ALONE)
    requests = [world.commit(world.transaction(Put(b"k%d" % number, b"v"))) for number in range(FLIGHTS_MAX + 3)]
    assert len(world[0].proposals) == FLIGHTS_MAX
    world.run()
    assert all(world.ended(request) is Ended.COMMITTED for request in requests)


def test_a_block_under_way_is_rested_upon_before_it_is_applied() -> None:
    world = DrivenShards(chain=ALONE)
    first = world.commit(world.transaction(CounterAdd(b"c", 1)))
    second = world.commit(world.transaction(CounterAdd(b"c", 2)))
    commands = [proposal.command for proposal in world[0].proposals]
    assert [command.block.header.height for command in commands if isinstance(command, Append)] == [1, 2]
    world.run()
    assert (world.ended(first), world.ended(second), world.value(b"c")) == (Ended.COMMITTED, Ended.COMMITTED, b"3")


# ---- once only -----------------------------------------------------------------------------------------------------


def test_a_repeated_commit_is_answered_and_not_done_again() -> None:
    world = DrivenShards()
    transaction = world.transaction(CounterAdd(b"c", 1))
    first, meanwhile = world.commit(transaction), world.commit(transaction)
    world.run()
    later = world.commit(transaction)
    world.run()
    assert [world.answers[request].height for request in (first, meanwhile, later)] == [1, 1, 1]
    assert world.value(b"c") == b"1"


def test_the_state_and_not_the_leader_remembers_what_was_committed() -> None:
    world = DrivenShards()
    transaction = world.transaction(CounterAdd(b"c", 1), CompareAndSwap(b"k", b"other", b"v"))
    world.commit(transaction)
    world[0].write(world[0].proposals.popleft().command)  # Applied, and the leader dies before it hears of it.
    world[0].lead()
    again = world.commit(transaction)
    assert (world.ended(again), world.value(b"c")) == (Ended.COMMITTED, b"1")
    assert [operation for operation, _ in world.answers[again].refusals] == [1], "the answer is the first one's"


def test_what_a_lost_leader_had_under_way_is_a_new_transaction() -> None:
    world = DrivenShards()
    transaction = world.transaction(CounterAdd(b"c", 1))
    world.commit(transaction)
    world[0].lead()
    request = world.commit(transaction)
    world.run()
    assert (world.ended(request), world.value(b"c")) == (Ended.COMMITTED, b"1")


def test_an_id_cannot_be_used_for_something_else() -> None:
    world = DrivenShards()
    tx = world.tx()
    world.commit(world.transaction(Put(b"a", b"1"), tx=tx))
    request = world.commit(world.transaction(Put(b"b", b"1"), tx=tx))
    assert world.ended(request) is Ended.REFUSED
    world.run()
    request = world.commit(world.transaction(Put(b"b", b"1"), tx=tx))
    assert world.ended(request) is Ended.REFUSED
    assert world.value(b"b") is None


def test_an_id_from_before_the_floor_is_forgotten_and_one_above_the_chain_is_asked_to_wait() -> None:
    world = DrivenShards()
    old = world.transaction(CounterAdd(b"c", 1))
    world.commit(old)
    world.run()
    world[0].state.ledger._versions.floor = world[0].height
    world[0].state._forget_below(world[0].height)
    request = world.commit(old)
    assert world.ended(request) is Ended.FORGOTTEN
    ahead = world.transaction(Put(b"k", b"v"), tx=tx_id(7, b"12345678"))
    assert world.ended(world.commit(ahead)) is Ended.BUSY
    ahead = world.transaction(Put(b"k", b"v"), since=7)
    assert world.ended(world.commit(ahead)) is Ended.BUSY
    ahead = world.transaction(Put(b"k", b"v"), reads=(ReadVersion(b"x", 9),))
    assert world.ended(world.commit(ahead)) is Ended.BUSY
    world.check_quiet()


# ---- blocks that come to nothing -----------------------------------------------------------------------------------


def test_a_lost_block_takes_those_that_rest_on_it_along_and_all_are_tried_again() -> None:
    world = DrivenShards(chain=ALONE)
    requests = [world.commit(world.transaction(CounterAdd(b"c", 1))) for _ in range(3)]
    world[0].lose_next()
    assert [world[0].apply_next().kind for _ in range(2)] == [Kind.STALE_BLOCK] * 2
    assert not world.answers
    assert not world[0].proposals
    world.pass_time(RETRY_MS)
    world.run()
    assert [world.ended(request) for request in requests] == [Ended.COMMITTED] * 3
    assert world.value(b"c") == b"3"


def test_after_so_many_tries_the_client_is_told_to_try_itself_and_nothing_has_changed() -> None:
    world = DrivenShards()
    world.put(b"k")
    root, tip = world[0].state.root, world[0].state.ledger.tip
    request = world.commit(world.transaction(Put(b"k", b"2")))
    for _ in range(TRIES_MAX):
        world[0].lose_next()
        world.pass_time(RETRY_MS)
    assert world.ended(request) is Ended.BUSY
    assert (world[0].state.root, world[0].state.ledger.tip) == (root, tip)
    world.check_quiet()


def test_whoever_is_in_the_way_of_a_block_under_way_hears_of_it_only_when_that_block_is_applied() -> None:
    world = DrivenShards(chain=ALONE)
    first = world.commit(world.transaction(Put(b"k", b"1")))
    second = world.commit(world.transaction(Put(b"k", b"2")))
    assert not world.answers, "the first block may still be lost"
    world.run()
    assert (world.ended(first), world.ended(second)) == (Ended.COMMITTED, Ended.CONFLICT)
    third = world.commit(world.transaction(Put(b"j", b"1")))
    fourth = world.commit(world.transaction(Put(b"j", b"2")))
    for _ in range(TRIES_MAX - 1):
        world[0].lose_next()
        world.pass_time(RETRY_MS)
    world.run()
    assert {world.ended(third), world.ended(fourth)} == {Ended.COMMITTED, Ended.CONFLICT}


# ---- versions decide -----------------------------------------------------------------------------------------------


def test_of_two_blind_writes_of_one_key_the_first_wins_whatever_their_vectors_are() -> None:
    world = DrivenShards()
    since = world[0].height
    one = Embedding(16, (1,), (1.0,))
    other = Embedding(16, (2,), (1.0,))
    first = world.commit(world.transaction(Embed(b"k", one), since=since))
    second = world.commit(world.transaction(Embed(b"k", other), since=since))
    world.run()
    third = world.commit(world.transaction(Embed(b"k", Embedding(16, (), ())), since=since))
    world.run()
    assert [world.ended(request) for request in (first, second, third)] == [
        Ended.COMMITTED,
        Ended.CONFLICT,
        Ended.CONFLICT,
    ]


def test_who_began_before_another_writer_and_commits_after_it_is_refused() -> None:
    """Also when the other one is long done, and nothing of it is active."""
    world = DrivenShards()
    since = world[0].height
    world.put(b"k", b"theirs")
    world[0].lead()
    request = world.commit(world.transaction(Put(b"k", b"mine"), since=since))
    world.run()
    assert (world.ended(request), world.value(b"k")) == (Ended.CONFLICT, b"theirs")


def test_write_skew_is_refused() -> None:
    world = DrivenShards()
    first = world.commit(world.transaction(Put(b"x", b"1"), reads=(ReadVersion(b"y", 0),)))
    second = world.commit(world.transaction(Put(b"y", b"1"), reads=(ReadVersion(b"x", 0),)))
    world.run()
    assert (world.ended(first), world.ended(second)) == (Ended.COMMITTED, Ended.CONFLICT)


def test_who_only_reads_is_checked_through_a_block() -> None:
    world = DrivenShards()
    world.put(b"k")
    good = world.commit(world.transaction(reads=(ReadVersion(b"k", 1),)))
    bad = world.commit(world.transaction(reads=(ReadVersion(b"k", 0),), since=1))
    assert good not in world.answers
    world.run()
    assert (world.ended(good), world.ended(bad)) == (Ended.COMMITTED, Ended.CONFLICT)


def test_an_operation_that_the_state_refuses_is_told_with_the_commit() -> None:
    world = DrivenShards()
    request = world.commit(world.transaction(Put(b"a", b"1"), Update(b"b", b"1"), Delete(b"c")))
    world.run()
    answer = world.answers[request]
    assert answer.ended is Ended.COMMITTED
    assert [operation for operation, _ in answer.refusals] == [1]
    assert (world.value(b"a"), world.value(b"b")) == (b"1", None)


# ---- merging -------------------------------------------------------------------------------------------------------


def commit_together(world: DrivenShards, *transactions: Transaction) -> list[Ended]:
    """All in one block, behind one that is under way."""
    world.commit(world.transaction(Put(b"before", b"v")))
    requests = [world.commit(transaction) for transaction in transactions]
    world.run()
    return [world.ended(request) for request in requests]


def test_equal_writes_of_two_clients_are_done_once_and_answered_with_one_height() -> None:
    world = DrivenShards()
    ended = commit_together(world, world.transaction(Put(b"k", b"v")), world.transaction(Put(b"k", b"v")))
    assert ended == [Ended.COMMITTED] * 2
    (block,) = world[0].state.ledger.blocks(2, 2)
    assert [len(one.operations) for one in block.transactions] == [1, 0]
    assert world.answers[2].height == world.answers[3].height == 2


def test_one_and_a_hundred_are_not_the_same_and_neither_are_two_ones() -> None:
    world = DrivenShards()
    ended = commit_together(
        world,
        world.transaction(CounterAdd(b"c", 1)),
        world.transaction(CounterAdd(b"c", 100)),
        world.transaction(CounterAdd(b"c", 1)),
    )
    assert ended == [Ended.COMMITTED] * 3
    assert (world.value(b"c"), blocks(world)) == (b"102", [1, 3])


def test_who_could_not_commit_by_itself_is_not_answered_by_an_equal_one() -> None:
    world = DrivenShards()
    world.put(b"k", b"other")
    stale = world.transaction(Put(b"k", b"v"), since=0)
    ended = commit_together(world, world.transaction(Put(b"k", b"v")), stale)
    assert ended == [Ended.COMMITTED, Ended.CONFLICT]
    later = world.commit(stale)
    world.run()
    assert world.ended(later) is Ended.CONFLICT, "what was said once stays said"


def test_only_exact_inverses_come_to_nothing() -> None:
    world = DrivenShards()
    ended = commit_together(
        world,
        world.transaction(CounterAdd(b"a", 5)),
        world.transaction(CounterAdd(b"a", -5)),
        world.transaction(CounterAdd(b"b", 5)),
        world.transaction(CounterAdd(b"b", -100)),
    )
    assert ended == [Ended.COMMITTED] * 4
    assert (world.value(b"a"), world.value(b"b")) == (b"0", b"-95")


def test_changes_of_different_keys_take_full_effect_and_only_an_averaged_register_is_averaged() -> None:
    world = DrivenShards()
    two = Embedding(16, (3,), (2.0,))
    ended = commit_together(
        world,
        world.transaction(VectorAdd(b"a", two)),
        world.transaction(VectorAdd(b"b", Embedding(16, (3, 4, 5), (2.0, 2.0, 2.0)))),
        world.transaction(Average(b"c", two)),
    )
    assert ended == [Ended.COMMITTED] * 3
    vector = world[0].state.vector
    assert vector(b"emb:a") == two
    assert vector(b"emb:b") == Embedding(16, (3, 4, 5), (2.0, 2.0, 2.0))
    assert vector(b"emb:c") == Embedding(16, (3,), (1.0,))


def test_additions_of_one_kind_merge_and_of_two_kinds_do_not() -> None:
    world = DrivenShards()
    ended = commit_together(
        world,
        world.transaction(SetAdd(b"s", b"a")),
        world.transaction(SetAdd(b"s", b"b")),
        world.transaction(CounterAdd(b"s", 1)),
    )
    assert ended == [Ended.COMMITTED, Ended.COMMITTED, Ended.CONFLICT]


def alike(world: DrivenShards) -> tuple[Transaction, Transaction]:
    """Two that insert rows into one table, in one direction; the second does something else besides."""
    found: dict[int, TableInsert] = {}
    number = 0
    while True:
        row = TableInsert(b"t", (b"%d" % number,))
        (position,) = world[0].state.delta(world.transaction(row)).positions
        if position in found:
            return world.transaction(found[position]), world.transaction(row, Put(b"beside", b"v"))
        found[position] = row
        number += 1


def test_geometry_adds_a_refusal_where_a_shared_key_is_changed_alike() -> None:
    world = DrivenShards()
    first, second = alike(world)
    assert commit_together(world, first, second) == [Ended.COMMITTED, Ended.CONFLICT]
    refused = world.answers[3]
    assert refused.similarity is not None
    assert refused.similarity > 0.7
    assert refused.other == first.id
    assert blocks(world) == [1, 1]
    again = world.commit(world.transaction(*second.operations))
    world.run()
    assert world.ended(again) is Ended.COMMITTED, "begun after the first, it is not compared with it"


def test_a_new_leader_refuses_what_the_one_before_refused() -> None:
    world = DrivenShards()
    first, second = alike(world)
    world.commit(first)
    world.run()
    world[0].lead()
    request = world.commit(second)
    world.run()
    assert world.ended(request) is Ended.CONFLICT


def test_without_optimistic_locking_only_the_versions_decide() -> None:
    world = DrivenShards(config=DistributedTxConfig(optimistic_locking=False))
    first, second = alike(world)
    stale = world.transaction(Put(b"before", b"x"))
    assert commit_together(world, first, second, stale) == [Ended.COMMITTED, Ended.COMMITTED, Ended.CONFLICT]


def test_changes_alike_wait_for_a_block_under_way_and_are_refused_after_it() -> None:
    world = DrivenShards(chain=ALONE)
    first, second = alike(world)
    one, other = world.commit(first), world.commit(second)
    assert len(world[0].proposals) == 1
    assert not world.answers
    world.run()
    assert (world.ended(one), world.ended(other)) == (Ended.COMMITTED, Ended.CONFLICT)


# ---- limits --------------------------------------------------------------------------------------------------------


def test_blocks_have_room_for_so_many_operations_and_the_rest_goes_into_the_next() -> None:
    world = DrivenShards(chain=ChainConfig(embedding_dimension=16, max_transactions=3))
    two = [world.transaction(Put(b"%d-a" % number, b""), Put(b"%d-b" % number, b"")) for number in range(3)]
    ended = commit_together(world, *two)
    assert ended == [Ended.COMMITTED] * 3
    assert blocks(world) == [1, 1, 1, 1]
    four = world.transaction(*[Put(b"%d" % number, b"") for number in range(4)])
    assert world.ended(world.commit(four)) is Ended.REFUSED


def test_blocks_have_room_for_so_many_bytes_and_whoever_is_larger_goes_alone() -> None:
    world = DrivenShards()
    large = [world.transaction(Put(b"%d" % number, bytes(400_000))) for number in range(5)]
    huge = world.transaction(*[Put(b"huge-%d" % number, bytes(600_000)) for number in range(2)])
    ended = commit_together(world, *large, huge)
    assert ended == [Ended.COMMITTED] * 6
    assert blocks(world) == [1, 2, 2, 1, 1]


def test_locked_keys_make_a_transaction_busy_or_wait_when_it_may() -> None:
    for waits in (False, True):
        world = DrivenShards(2, config=DistributedTxConfig(lock_wait=waits))
        first, second = world.key(0), world.key(1)
        world.transfer(first, second)
        world[0].apply_next()
        world.deliver()
        world[0].apply_next()
        assert world[0].state.participant.promises
        request = world.commit(world.transaction(Put(first, b"mine")))
        if not waits:
            assert world.ended(request) is Ended.BUSY
            continue
        assert request not in world.answers
        world.pass_time(world.config.prepare_timeout_ms)
        assert world.ended(request) is Ended.BUSY


# ---- ids and equal writes that meet ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_looked_at", [True, False])
def test_who_stands_in_for_an_equal_write_is_not_left_alone(*, is_looked_at: bool) -> None:
    """The equal one began before another write of the key and is left out: then this one is done itself."""
    world = DrivenShards(1, DistributedTxConfig(optimistic_locking=is_looked_at))
    old = world.transaction(Put(b"x", b"on"))
    world.put(b"x", b"off")
    world.commit(world.transaction(Put(b"z", b"1")))
    new = world.transaction(Put(b"x", b"on"))
    first, second = world.commit(old), world.commit(new)
    world.run()
    assert world.answers[first].ended is Ended.CONFLICT
    assert world.answers[second].ended is Ended.COMMITTED
    held = world[0].state.ledger.get(b"x")
    assert held is not None
    assert held.value == b"on"


def test_a_part_that_is_being_prepared_is_not_committed_by_itself() -> None:
    """One id, sent as a transaction of one shard while it is prepared as a part of a larger one."""
    world = DrivenShards(2)
    one, other = world.key(0), world.key(1)
    world.put(other, b"old", shard=1)
    tx = world.tx(0)
    part = world.transaction(Put(one, b"A"), shard=0, tx=tx)
    late = world.transaction(Put(other, b"A"), shard=1, tx=tx, since=0)
    whole = world.begin((0, part), (1, late), home=0)
    world[0].apply_next()
    while world.messages and not world[0].proposals:
        world.deliver()
    alone = world.commit(part, 0)
    world.run()
    assert world.answers[alone].ended is Ended.REFUSED
    assert world.answers[whole].ended is Ended.CONFLICT
    assert world[0].state.ledger.get(one) is None
