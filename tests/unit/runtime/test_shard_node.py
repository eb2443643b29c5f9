"""Nodes of shards, put together: real sockets, real disks."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.monitoring import Metric
from bobbin.cluster.operations import CounterAdd, Put, ReadVersion, Transaction
from bobbin.cluster.settings import DeadlockDetectorConfig, DistributedTxConfig
from bobbin.cluster.shard.commands import Append
from bobbin.cluster.transactions.messages import ShardMessage, TxAckMsg, TxPrepareResponse, TxQueryMsg
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.phases import Ended
from bobbin.runtime.cluster_requests import Gathered
from bobbin.runtime.shard_courier import Courier
from bobbin.runtime.shard_node import ShardNode
from bobbin.wire.cluster.chain import (
    ChainAbort,
    ChainBegin,
    ChainBook,
    ChainCodebook,
    ChainEnded,
    ChainOpen,
    ChainPending,
    ChainResolve,
    ChainVerdict,
    ChainVerify,
)
from bobbin.wire.cluster.shard_commands import encode_command
from tests.support.clusters import until
from tests.support.shards import DIMENSION, Asker, Shards, asking, shards

_WAITING: Final = DistributedTxConfig(lock_wait=True)
_BOOK: Final = GlobalCodebook(1, [Embedding.of(DIMENSION, {at: 1.0}) for at in range(DIMENSION)]).encode()


def _run(tmp_path: Path, story: Callable[[Shards, Asker], Awaitable[None]], **settings: object) -> None:
    async def run() -> None:
        async with shards(tmp_path, **settings) as made, asking(made) as ask:
            await story(made, ask)

    asyncio.run(run())


def _leader(made: Shards, shard: int) -> ShardNode:
    seat = made.leader(shard)
    assert seat is not None
    return seat.running


def test_a_transaction_over_two_shards_goes_through_real_participants(tmp_path: Path) -> None:
    """CL-165: the participant locks, votes, hears the decision and acknowledges it; its vote counts.

    And CL-291: what has started has been committed or aborted, or is open.
    """

    async def story(made: Shards, ask: Asker) -> None:
        (here,), (there, read) = ask.keys(0, 1), ask.keys(1, 2)
        done = await ask.commit(Put(here, b"1"), Put(there, b"2"))
        assert done.ended is Ended.COMMITTED
        await until(lambda: _is_quiet(made))
        assert [(await ask.get(key)).value for key in (here, there)] == [b"1", b"2"]
        participant = _leader(made, 1).driver
        assert participant.shard.participant.ended(TxId(done.tx)) is not None
        block = participant.shard.ledger.tip_block
        assert [one.id for one in block.transactions] == [done.tx]
        # What a participant finds in the way counts, and nothing remains of it anywhere.
        stale = await ask.commit(Put(here, b"3"), Put(there, b"4"), reads=[ReadVersion(read, 7)])
        assert stale.ended is not Ended.COMMITTED
        await until(lambda: _is_quiet(made))
        late_tx, late_parts = await ask.prepare(Put(here, b"5"), Put(there, b"6"))
        assert (await ask.commit(Put(there, b"first"))).ended is Ended.COMMITTED
        late = await ask.finish(late_tx, late_parts)
        assert late.ended is Ended.CONFLICT
        await until(lambda: _is_quiet(made))
        assert [(await ask.get(key)).value for key in (here, there)] == [b"1", b"first"]
        counts = _leader(made, 0).driver.counts()
        started, committed, aborted = (counts[f"coordinator_{name}"] for name in ("started", "committed", "aborted"))
        assert (started, committed, aborted, counts["coordinator_conflicts"]) == (3, 1, 2, 1)
        rates = [_figure(_leader(made, 0), metric) for metric in (Metric.COMMIT_RATE, Metric.CONFLICT_RATE)]
        assert rates == [1 / 3, 1 / 3]

    _run(tmp_path, story, nodes=1, shards=2)


def _is_quiet(made: Shards) -> bool:
    """Whether nothing is promised, pending or locked anywhere."""
    return all(
        not one.driver.shard.participant.promises
        and not one.driver.shard.recovery.open
        and (one.driver._leader is None or not one.driver._leader.leftovers())
        for one in made.running
    )


class _Held:
    """Messages between shards, of some kinds or of all, that wait until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *kinds: type) -> None:
        self._monkeypatch = monkeypatch
        self._send = Courier.send
        self._waiting: list[tuple[Courier, ShardId, ShardMessage]] = []
        self._kinds = kinds or (object,)

        def send(courier: Courier, shard: ShardId, message: ShardMessage) -> None:
            self._hold(courier, shard, message)

        monkeypatch.setattr(Courier, "send", send)

    def _hold(self, courier: Courier, shard: ShardId, message: ShardMessage) -> None:
        if isinstance(message, self._kinds):
            self._waiting.append((courier, shard, message))
        else:
            self._send(courier, shard, message)

    def let_go(self) -> None:
        self._monkeypatch.setattr(Courier, "send", self._send)
        for courier, shard, message in self._waiting:
            courier.send(shard, message)


async def _deadlock(
    made: Shards, ask: Asker, monkeypatch: pytest.MonkeyPatch, timeout_ms: int
) -> tuple[TxId, list["asyncio.Future[ChainEnded]"]]:
    """Two transactions, each of which holds what the other one wants: the second one's id, and how both will end."""
    here, there = ask.keys(0, 1)[0], ask.keys(1, 1)[0]
    held = _Held(monkeypatch)
    asked: list[asyncio.Future[ChainEnded]] = []
    ids = []
    for home, born_ms in ((0, 1), (1, 2)):
        tx, parts = await ask.prepare(Put(here, b"%d" % home), Put(there, b"%d" % home), born_ms=born_ms)
        ids.append(tx)
        asked.append(asyncio.ensure_future(_begin(ask, home, tx, parts, timeout_ms)))
    await until(lambda: all(len(one.driver.shard.participant.promises) == 1 for one in made.running))
    held.let_go()
    return ids[1], asked


async def _begin(ask: Asker, home: int, tx: TxId, parts: dict[int, Transaction], timeout_ms: int) -> ChainEnded:
    pairs = tuple((ShardId(shard), parts[shard]) for shard in sorted(parts))
    return await ask.clients[home].ask(ChainEnded, lambda number: ChainBegin(number, tx, pairs, timeout_ms))


def test_a_deadlock_is_found_and_broken_and_the_other_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CL-192: the search runs by itself, and aborts the younger one."""

    async def story(made: Shards, ask: Asker) -> None:
        _, asked = await _deadlock(made, ask, monkeypatch, 60_000)
        older, younger = await asyncio.gather(*asked)
        assert (older.ended, younger.ended) == (Ended.COMMITTED, Ended.ABORTED)
        await until(lambda: _is_quiet(made))
        assert [(await ask.get(key)).value for key in (ask.keys(0, 1)[0], ask.keys(1, 1)[0])] == [b"0", b"0"]
        node = _leader(made, 0)
        await until(lambda: node.driver.counts()["deadlocks_found"] == 1)
        await until(lambda: _figure(node, Metric.DEADLOCKS_DETECTED) == 1)
        assert node.driver.counts()["deadlock_victims"] == 1

    _run(tmp_path, story, nodes=1, shards=2, transactions=_WAITING)


def _figure(node: ShardNode, metric: Metric) -> float | None:
    return {one.metric: one.value for one in node.node.readings()}[metric]


def test_a_deadlock_is_only_reported_where_it_is_set_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CL-192: with ``auto_abort_victim`` off."""

    async def story(made: Shards, ask: Asker) -> None:
        tx, asked = await _deadlock(made, ask, monkeypatch, 60_000)
        driver = _leader(made, 0).driver
        await until(lambda: driver.counts()["deadlocks_found"] > 0)
        assert driver.counts()["deadlock_victims"] == 0
        assert not any(one.done() for one in asked)
        await ask.clients[1].ask(ChainEnded, lambda number: ChainAbort(number, tx))
        older, younger = await asyncio.gather(*asked)
        assert (older.ended, younger.ended) == (Ended.COMMITTED, Ended.ABORTED)

    detector = DeadlockDetectorConfig(auto_abort_victim=False)
    _run(tmp_path, story, nodes=1, shards=2, transactions=_WAITING, deadlock=detector)


@pytest.mark.slow
def test_a_deadlock_is_not_looked_for_where_it_is_set_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CL-192: with ``enabled`` off; time ends it."""

    async def story(made: Shards, ask: Asker) -> None:
        _, asked = await _deadlock(made, ask, monkeypatch, 400)
        ended = {one.ended for one in await asyncio.gather(*asked)}
        assert Ended.BUSY in ended
        assert Ended.ABORTED not in ended
        assert _leader(made, 0).driver.counts()["deadlocks_found"] == 0

    _run(tmp_path, story, nodes=1, shards=2, transactions=_WAITING, deadlock=DeadlockDetectorConfig(enabled=False))


def test_an_abort_that_has_to_be_said_again_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CL-291: what has started is committed, aborted or open, at any time."""

    def counted(made: Shards) -> tuple[int, int, int, float]:
        driver = _leader(made, 0).driver
        counts = driver.counts()
        names = ("started", "committed", "aborted")
        started, committed, aborted = (counts[f"coordinator_{name}"] for name in names)
        return started, committed, aborted, driver.gauges()["transactions_coordinated"]

    async def story(made: Shards, ask: Asker) -> None:
        here, there = ask.keys(0, 1)[0], ask.keys(1, 1)[0]
        held = _Held(monkeypatch, TxPrepareResponse, TxAckMsg)
        tx, parts = await ask.prepare(Put(here, b"1"), Put(there, b"1"))
        assert (await ask.commit(Put(here, b"first"))).ended is Ended.COMMITTED
        asked = asyncio.ensure_future(_begin(ask, 0, tx, parts, 60_000))
        driver = _leader(made, 0).driver
        assert (await asked).ended is Ended.CONFLICT
        await until(lambda: driver.counts()["coordinator_abort_retries"] >= 2)
        assert counted(made)[:3] == (1, 0, 1)
        held.let_go()
        await until(lambda: _is_quiet(made))
        assert counted(made) == (1, 0, 1, 0)
        held = _Held(monkeypatch, TxPrepareResponse)
        other, parts = await ask.prepare(Put(here, b"2"), Put(there, b"2"))
        asked = asyncio.ensure_future(_begin(ask, 0, other, parts, 60_000))
        await until(lambda: counted(made)[3] == 1)
        assert counted(made) == (2, 0, 1, 1)
        held.let_go()
        assert (await asked).ended is Ended.COMMITTED
        assert counted(made)[:3] == (2, 1, 1)

    _run(tmp_path, story, nodes=1, shards=2, transactions=DistributedTxConfig(abort_retry_ms=20, abort_tries_max=100))


def test_a_codebook_is_replaced_by_the_log_and_kept_by_a_snapshot(tmp_path: Path) -> None:
    """CL-224: through the log alone, from there on for every block, and over a snapshot and a restart."""

    async def story(made: Shards, ask: Asker) -> None:
        client = ask.clients[0]
        assert (await ask.commit(Put(b"a", b"1"))).ended is Ended.COMMITTED
        done = await client.ask(ChainEnded, lambda number: ChainCodebook(number, _BOOK))
        assert done.ended is Ended.COMMITTED
        wrong = await client.ask(ChainEnded, lambda number: ChainCodebook(number, b"no book"))
        assert wrong.ended is Ended.REFUSED
        assert (await ask.commit(Put(b"a", b"2"))).ended is Ended.COMMITTED
        await client.snapshot()
        assert (await ask.commit(Put(b"a", b"3"))).ended is Ended.COMMITTED
        ledger = made.running[0].driver.shard.ledger
        assert [block.header.codebook_version for block in ledger] == [0, 0, 1, 1]
        root = made.running[0].driver.shard.root
        await made.stop(1)
        await made.start(1)
        await made.led()
        assert made.running[0].driver.shard.ledger.codebook.version == 1
        assert made.running[0].driver.shard.root == root
        book = await client.ask(ChainBook, ChainCodebook)
        assert (book.version, book.centroids) == (1, _BOOK)
        assert (await ask.get(b"a")).value == b"3"
        verdict = await client.ask(ChainVerdict, ChainVerify)
        assert (verdict.height, verdict.fault_height) == (3, None)

    _run(tmp_path, story, nodes=1, shards=1)


def test_a_promised_part_is_ended_by_hand_where_its_coordinator_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(made: Shards, ask: Asker) -> None:
        here, there = ask.keys(0, 1)[0], ask.keys(1, 1)[0]
        held = _Held(monkeypatch, TxPrepareResponse, TxQueryMsg)
        tx, parts = await ask.prepare(Put(here, b"1"), Put(there, b"1"))
        asked = asyncio.ensure_future(_begin(ask, 1, tx, parts, 60_000))
        participant = _leader(made, 0).driver.shard.participant
        await until(lambda: tx in participant.promises)
        pending = await ask.clients[0].ask(ChainOpen, ChainPending)
        assert [(one.role, one.tx, one.coordinator) for one in pending.transactions] == [("participates", tx, 1)]
        assert (await ask.commit(Put(here, b"2"))).ended is Ended.BUSY
        done = await ask.clients[0].ask(ChainEnded, _resolve(tx))
        assert done.ended is Ended.COMMITTED
        assert participant.promises == {}
        assert (await ask.clients[0].ask(ChainEnded, _resolve(tx))).ended is Ended.REFUSED
        ended = participant.ended(tx)
        assert ended is not None
        assert ended.heuristic is not None
        assert (await ask.commit(Put(here, b"2"))).ended is Ended.COMMITTED
        aborted = await ask.clients[1].ask(ChainEnded, lambda number: ChainAbort(number, tx))
        assert aborted.ended is Ended.ABORTED
        assert (await asked).ended is Ended.ABORTED
        held.let_go()

    _run(tmp_path, story, nodes=1, shards=2)


def _resolve(tx: TxId) -> Callable[[int], ChainResolve]:
    return lambda number: ChainResolve(number, tx, commits=False, reason="its coordinator burnt down")


@pytest.mark.parametrize(("reason", "way"), [(None, "C"), ("the C library cannot be used: a test", "Python")])
def test_the_log_of_a_node_says_how_it_hashes(tmp_path: Path, reason: str | None, way: str) -> None:
    """A library that is there and of no use would otherwise go unnoticed, at half the speed."""

    async def story(made: Shards, _: Asker) -> None:
        said = [json.loads(line) for seats in made.seats for seat in seats for line in seat.log.getvalue().splitlines()]
        chosen = [one for one in said if one["event"] == "hashing-chosen"]
        assert [(one["shard"], one["way"], one["reason"]) for one in chosen] == [(0, way, reason), (1, way, reason)]

    with patch("bobbin.runtime.shard_node.why_plain", lambda: reason):
        _run(tmp_path, story, nodes=1, shards=2)


@pytest.mark.slow
def test_three_nodes_agree_and_no_bad_block_is_committed(tmp_path: Path) -> None:
    """CL-243 and CL-224: what a follower finds wrong it does not acknowledge, whoever sends it; the others go on."""

    async def story(made: Shards, ask: Asker) -> None:
        for number in range(5):
            assert (await ask.commit(CounterAdd(b"n", 1), Put(b"%d" % number, b""))).ended is Ended.COMMITTED
        done = await ask.clients[0].ask(ChainEnded, lambda number: ChainCodebook(number, _BOOK))
        assert done.ended is Ended.COMMITTED
        assert (await ask.commit(CounterAdd(b"n", 1))).ended is Ended.COMMITTED
        await until(lambda: {one.driver.shard.ledger.height for one in made.running} == {6})
        assert {one.driver.shard.ledger.codebook.version for one in made.running} == {1}
        assert len({one.driver.shard.root for one in made.running}) == 1
        followers = [one for one in made.running if not one.driver.is_leading]
        assert all(one.driver.judge is not None and one.driver.judge.stats.refused == 0 for one in followers)
        await until(lambda: all(_figure(one, Metric.FAST_PATH_RATE) is not None for one in followers))
        await _lie(made)
        # The liar is stopped: what it said is nowhere, and the others go on.
        seat = made.leader(0)
        assert seat is not None
        await until(lambda: all(one.node.alarms.counts["entry-refused"] for one in followers))
        await made.stop(seat.number)
        assert (await ask.commit(CounterAdd(b"n", 1))).ended is Ended.COMMITTED
        assert (await ask.get(b"n")).value == b"7"
        await until(lambda: {one.driver.shard.ledger.height for one in made.running} == {7})
        await made.start(seat.number)
        await until(lambda: len({one.driver.shard.root for one in made.running}) == 1)
        for one in made.running:
            assert one.driver.shard.ledger.verify() is None
            assert not one.node.is_halted

    _run(tmp_path, story, nodes=3, shards=1)


async def _lie(made: Shards) -> None:
    """The leader puts a block into its log that claims another state than its operations lead to."""
    leader = _leader(made, 0)
    shard, identity = leader.driver.shard, leader.driver._identity
    transaction = Transaction(bytes(15) + b"\x01", (CounterAdd(b"n", 1_000),), (), shard.ledger.height)
    draft = shard.ledger.draft([transaction], proposer=identity.node, timestamp_ms=2**41)
    block = shard.ledger.seal(draft, identity)
    wrong = replace(block, header=replace(block.header, state_root=bytes(32)))
    leader.node.requests.propose(Gathered(1), [encode_command(Append(wrong))])
    await asyncio.sleep(0)
