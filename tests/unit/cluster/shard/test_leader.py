import pytest

from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import Index
from bobbin.cluster.operations import CounterAdd, Embed, Put, ReadVersion
from bobbin.cluster.settings import AutoMergeConfig, ChainConfig, DeadlockDetectorConfig, DistributedTxConfig
from bobbin.cluster.shard.commands import Append, Command, Drop, Log, Prepare, ReplaceCodebook
from bobbin.cluster.shard.events import Applied, Commit, Commits, Heard, Lost, Tick, Validate
from bobbin.cluster.transactions.messages import TxAckMsg, TxCommitMsg, VictimMsg
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.phases import Ended, TxPhase
from bobbin.cluster.transactions.tx_log import LockRelease, PhaseChange, TxBegin, TxComplete
from tests.unit.cluster.shard.chaos import Chaos
from tests.unit.cluster.shard.driven import DrivenShards

CONFIGS = (
    DistributedTxConfig(),
    DistributedTxConfig(lock_wait=True),
    DistributedTxConfig(lock_wait=True, wound_wait=True),
)
ALONE = ChainConfig(embedding_dimension=16, auto_merge=AutoMergeConfig(enabled=False))


def written(world: DrivenShards, shard: int = 0) -> list[Command]:
    return [command for command, _ in world[shard].log]


def test_a_transaction_over_two_shards_goes_through_the_logs_of_both() -> None:
    world = DrivenShards(2)
    first, second = world.key(0), world.key(1)
    request = world.transfer(first, second)
    world.run()
    assert world.ended(request) is Ended.COMMITTED
    assert world.value(first) == world.value(second, 1) is not None
    assert [type(command) for command in written(world)] == [Log, Prepare, Log, Append, Log]
    assert [type(command) for command in written(world, 1)] == [Prepare, Append]
    world.check_quiet()


def test_the_client_is_told_when_the_decision_is_durable_and_not_before() -> None:
    world = DrivenShards(2)
    request = world.transfer(world.key(0), world.key(1))
    while request not in world.answers:
        assert not any(isinstance(message, TxCommitMsg) for _, _, message in world.messages)
        if any(shard.proposals for shard in world.shards):
            next(shard for shard in world.shards if shard.proposals).apply_next()
        else:
            world.deliver()
    decided = [entry for command in written(world) if isinstance(command, Log) for entry in command.entries]
    assert any(isinstance(entry, PhaseChange) and entry.is_now is TxPhase.COMMITTING for entry in decided)


def test_completion_is_written_only_after_every_participant_has_acknowledged() -> None:
    world = DrivenShards(2)
    world.transfer(world.key(0), world.key(1))
    held: list[tuple[ShardId, ShardId, TxAckMsg]] = []
    while world.messages or any(shard.proposals for shard in world.shards):
        for shard in world.shards:
            while shard.proposals:
                shard.apply_next()
        if world.messages:
            sender, receiver, message = world.messages.popleft()
            if isinstance(message, TxAckMsg) and sender == 1:
                held.append((sender, receiver, message))
            else:
                world[receiver].step(Heard(sender, message))
    (tx,) = world[0].state.recovery.open
    entries = [entry for command in written(world) if isinstance(command, Log) for entry in command.entries]
    assert not any(isinstance(entry, TxComplete) for entry in entries)
    world[0].lead()
    assert tx in world[0].state.recovery.open
    for sender, receiver, message in held:
        world[receiver].step(Heard(sender, message))
    world.run()
    world.check_quiet()
    entries = [entry for command in written(world) if isinstance(command, Log) for entry in command.entries]
    ends = [entry for entry in entries if isinstance(entry, TxComplete | LockRelease)]
    assert isinstance(entries[0], TxBegin)
    assert isinstance(ends[-1], TxComplete)


def durable_points() -> list[tuple[int, int]]:
    return [(shard, number) for shard, writes in ((0, 5), (1, 2)) for number in range(writes + 1)]


@pytest.mark.parametrize(("shard", "number"), durable_points())
@pytest.mark.parametrize("is_kept", [True, False])
def test_whichever_leader_is_lost_at_whichever_write_it_is_all_or_nothing(
    shard: int, number: int, *, is_kept: bool
) -> None:
    world = DrivenShards(2)
    first, second = world.key(0), world.key(1)
    request = world.transfer(first, second)
    is_done = False
    while world.messages or any(one.proposals for one in world.shards):
        for one in world.shards:
            while one.proposals:
                if one.id == shard and len(one.log) == number and not is_done:
                    is_done = True
                    if is_kept:
                        one.write(one.proposals.popleft().command)
                    one.lead()
                    break
                one.apply_next()
        if world.messages:
            world.deliver()
    for _ in range(100):
        world.run()
        if all(not one.leader.leftovers() and not one.state.recovery.open for one in world.shards):
            break
        world.pass_time(1_000)
    world.check_quiet()
    values = (world.value(first), world.value(second, 1))
    assert values[0] == values[1]
    answer = world.answers.get(request)
    if answer is not None and answer.ended is not Ended.BUSY:
        assert (answer.ended is Ended.COMMITTED) == (values[0] is not None)


def test_time_aborts_what_is_preparing_and_never_what_is_decided() -> None:
    world = DrivenShards(2)
    request = world.transfer(world.key(0), world.key(1))
    while request not in world.answers:
        if any(shard.proposals for shard in world.shards):
            next(shard for shard in world.shards if shard.proposals).apply_next()
        else:
            world.deliver()
    world.messages.clear()
    for _ in range(50):
        world.pass_time(3_600_000)
        world.messages.clear()
        while world[0].proposals:
            world[0].apply_next()
    assert [record.phase for record in world[0].state.recovery.open.values()] == [TxPhase.COMMITTING]
    assert world[1].state.participant.promises
    world.pass_time(3_600_000)
    world.run()
    assert world.value(world.key(1), 1) is not None
    stuck = world.transfer(world.key(0, "x"), world.key(1, "x"))
    world[0].apply_next()
    world.messages.clear()
    world.pass_time(world.config.prepare_timeout_ms)
    world.run()
    assert world.ended(stuck) is Ended.BUSY
    assert world.value(world.key(0, "x")) is None


def test_write_skew_over_two_shards_is_refused() -> None:
    world = DrivenShards(2)
    first, second = world.key(0), world.key(1)
    requests = []
    for reads, writes in (((0, first), (1, second)), ((1, second), (0, first))):
        tx = world.tx()
        parts = [
            (reads[0], world.transaction(shard=reads[0], reads=(ReadVersion(reads[1], 0),), tx=tx)),
            (writes[0], world.transaction(Put(writes[1], b"1"), shard=writes[0], tx=tx)),
        ]
        requests.append(world.begin(*sorted(parts, key=lambda part: part[0])))
    world.run()
    ended = [world.ended(request) for request in requests]
    assert ended.count(Ended.COMMITTED) <= 1
    assert (world.value(first) is None) or (world.value(second, 1) is None)
    again = world.tx()
    stale = world.begin(
        (0, world.transaction(reads=(ReadVersion(first, 0),), since=0, tx=again)),
        (1, world.transaction(Put(second, b"2"), shard=1, since=0, tx=again)),
    )
    world.put(first)
    world.run()
    assert world.ended(stale) in {Ended.BUSY, Ended.CONFLICT}
    assert world.value(second, 1) != b"2"


# ---- reading -------------------------------------------------------------------------------------------------------


def test_what_was_read_is_validated_against_versions_and_promises() -> None:
    world = DrivenShards(2)
    first, second = world.key(0), world.key(1)
    world.put(first)

    def validate(version: int) -> Ended:
        request = world.request()
        world[0].step(Validate(request, (ReadVersion(first, version),)))
        return world.ended(request)

    assert validate(1) is Ended.COMMITTED
    assert validate(0) is Ended.CONFLICT
    world.transfer(first, second)
    world[0].apply_next()
    world.deliver()
    assert validate(1) is Ended.COMMITTED, "the promise is not in the state yet"
    world[0].apply_next()
    assert validate(1) is Ended.BUSY
    world.run()
    assert validate(1) is Ended.CONFLICT


# ---- what does not belong here -------------------------------------------------------------------------------------


def test_nobody_speaks_for_another_shard() -> None:
    world = DrivenShards(3)
    tx = world.tx()
    for sender, message in (
        (2, TxCommitMsg(tx, ShardId(1), ShardId(0))),
        (1, TxCommitMsg(tx, ShardId(1), ShardId(2))),
        (2, TxAckMsg(tx, ShardId(1), success=True)),
        (7, TxCommitMsg(tx, ShardId(7), ShardId(0))),
        (1, VictimMsg(tx, ShardId(2), "")),
    ):
        assert world[0].step(Heard(ShardId(sender), message)) == []
    assert world[0].leader.leftovers() == {}


def test_what_is_applied_or_lost_without_having_been_proposed_does_no_harm() -> None:
    world = DrivenShards(2)
    request = world.commit(world.transaction(Put(world.key(0), b"1")))
    command = world[0].proposals[0].command
    outcome = world[0].write(command)
    assert not any(effect for effect in world[0].step(Applied(Index(1), command, outcome, None)))
    world[0].step(Lost(99, ""))
    assert request not in world.answers


def test_the_clock_of_a_leader_never_goes_back_and_nothing_is_wanted_when_idle() -> None:
    world = DrivenShards(2, detector=DeadlockDetectorConfig())
    request = world.transfer(world.key(0), world.key(1))
    world.run()
    assert world.ended(request) is Ended.COMMITTED
    world.wakes.clear()
    world.pass_time(10)
    for _ in range(3):
        world.pass_time(100_000)
    assert world.wakes == []
    world[0].leader.step(Tick(), now_ms=0, wall_ms=0)
    assert world[0].leader._leading.now_ms == world.now_ms


# ---- disorder ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_a_disordered_life_leaves_all_or_nothing_and_no_trace(seed: int) -> None:
    life = Chaos(seed, config=CONFIGS[seed % len(CONFIGS)], detector=DeadlockDetectorConfig())
    life.live(150)
    life.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 150))
def test_many_disordered_lives(seed: int) -> None:
    life = Chaos(seed, config=CONFIGS[seed % len(CONFIGS)], detector=DeadlockDetectorConfig())
    life.live(250)
    life.check()


def test_transfers_in_order_all_commit() -> None:
    world = DrivenShards(2)
    for number in range(5):
        tx = world.tx()
        request = world.begin(
            (0, world.transaction(CounterAdd(world.key(0), number), tx=tx)),
            (1, world.transaction(CounterAdd(world.key(1), -number), shard=1, tx=tx)),
        )
        world.run()
        assert world.ended(request) is Ended.COMMITTED
        assert world[0].state.committed_at(TxId(tx)) == number + 1
    assert (world.value(world.key(0)), world.value(world.key(1), 1)) == (b"10", b"-10")
    world.check_quiet()


# ---- many commits at once, and what most of them are spared ----------------------------------------------------------


@pytest.mark.parametrize("together", [True, False])
def test_what_began_below_the_floor_or_above_the_chain_hears_so_at_once_though_a_block_is_under_way(
    *, together: bool
) -> None:
    """Whoever joins a block under way rests on it: it must not count as a state that anybody has seen."""
    world = DrivenShards(chain=ALONE)
    one, ledger = world[0], Ledger(config=ALONE, keep_heights=3)
    one.state.ledger = ledger
    one.replica.ledger = Ledger(config=ALONE, keep_heights=3)
    one.lead()
    for number in range(6):
        world.put(b"%d" % number)
    assert (ledger.floor, ledger.height) == (3, 6)
    world.commit(world.transaction(Put(b"under way", b"v")))
    below = world.transaction(Put(b"below", b"v"), since=2)
    above = world.transaction(Put(b"above", b"v"), since=7)
    if together:
        asked = [Commit(world.request(), transaction) for transaction in (below, above)]
        one.step(Commits(tuple(asked)))
        requests = [commit.request for commit in asked]
    else:
        requests = [world.commit(transaction) for transaction in (below, above)]
    answers = [world.answers[request] for request in requests]
    assert [answer.ended for answer in answers] == [Ended.FORGOTTEN, Ended.BUSY]
    assert "below height 3" in answers[0].reason
    assert "above height 6" in answers[1].reason
    assert len(one.proposals) == 1
    world.run()
    world.check_quiet()


@pytest.mark.parametrize("together", [True, False])
def test_what_has_ended_as_a_part_is_not_committed_by_itself(*, together: bool) -> None:
    """Nobody holds a key, and nothing is promised: the end alone is known."""
    world = DrivenShards(2)
    key = world.key(0)
    part = world.transaction(Put(key, b"v"))
    world[0].write(Drop(TxId(part.id)))
    one = world[0]
    assert not one.state.participant.promises
    commits = [Commit(world.request(), part), Commit(world.request(), world.transaction(Put(key, b"other")))]
    if together:
        one.step(Commits(tuple(commits)))
    else:
        one.step(commits[0])
        one.step(commits[1])
    assert world.ended(commits[0].request) is Ended.REFUSED
    assert "over several shards" in world.answers[commits[0].request].reason
    world.run()
    assert world.ended(commits[1].request) is Ended.COMMITTED
    assert world.value(key) == b"other"
    world.check_quiet()


@pytest.mark.parametrize("vector", [Embedding(16, (3,), (1.0,)), Embedding(16, (1,), (9.0,))])
def test_many_that_come_together_move_vectors_only_where_the_codebook_knows(vector: Embedding) -> None:
    world = DrivenShards()
    one = world[0]
    one.write(ReplaceCodebook(1, GlobalCodebook(1, (Embedding(16, (1,), (1.0,)),), ("one",)).encode()))
    world.commit(world.transaction(Embed(b"k", Embedding(16, (1,), (1.0,)))))
    world.run()
    good = [world.transaction(Put(b"%d" % number, b"v")) for number in range(3)]
    bad = world.transaction(Embed(b"k", vector))
    commits = tuple(Commit(world.request(), transaction) for transaction in (*good[:2], bad, good[2]))
    one.step(Commits(commits))
    world.run()
    ended = [world.ended(commit.request) for commit in commits]
    assert ended == [Ended.COMMITTED, Ended.COMMITTED, Ended.REFUSED, Ended.COMMITTED]
    assert one.state.vector(b"emb:k") == Embedding(16, (1,), (1.0,))
    assert [len(block.transactions) for block in one.state.ledger.blocks(1, one.height)] == [1, 3]
    world.check_quiet()
