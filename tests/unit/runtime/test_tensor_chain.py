"""Transactions of a program on a set of two shards, each of one node, in this process."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bobbin.cluster.chain.workspace import WorkspaceState
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import AMOUNT_MAX, CounterAdd, Put
from bobbin.cluster.transactions.names import ShardId
from bobbin.cluster.transactions.phases import Ended
from bobbin.errors import UsageError
from bobbin.runtime import shard_reads
from bobbin.runtime.cluster_client import ClusterClient, OutcomeUnknown
from bobbin.runtime.tensor_chain import TensorChain, TransactionFailed, Workspace
from bobbin.transport.base import TransportError
from tests.support.clusters import OPERATOR
from tests.support.shards import DIMENSION, Shards, shards


def _run(folder: Path, story: Callable[[TensorChain, Shards], Awaitable[None]], *, seconds: float = 30.0) -> None:
    async def run() -> None:
        async with shards(folder, nodes=1, shards=2) as made:
            clients = [ClusterClient(known, own=OPERATOR, seconds=seconds) for known in made.known]
            async with TensorChain(clients, seconds=seconds) as chain:
                await story(chain, made)

    asyncio.run(asyncio.wait_for(run(), 120))


def _keys(chain: TensorChain) -> tuple[bytes, bytes]:
    """One key on each shard."""
    names = [b"key-%d" % number for number in range(50)]
    return tuple(next(name for name in names if chain.shard_of(name) == shard) for shard in range(2))  # type: ignore[return-value]


def test_a_transaction_over_one_shard_and_over_two(tmp_path: Path) -> None:
    async def story(chain: TensorChain, made: Shards) -> None:
        del made
        one, other = _keys(chain)
        workspace = await chain.begin()
        assert await workspace.get(one) is None
        await workspace.put(one, b"1")
        assert await workspace.get(one) == b"1", "its own writes are read"
        assert await chain.get(one) is None, "nobody else's business yet"
        result = await chain.commit(workspace)
        assert result.is_committed
        assert result.height == 1
        assert workspace.state is WorkspaceState.COMMITTED

        async def move(both: Workspace) -> None:
            await both.put(other, await both.get(one) or b"")
            await both.delete(one)

        await chain.transact(move)
        assert (await chain.get(one), await chain.get(other)) == (None, b"1")
        assert [verdict.fault_height for verdict in await chain.verify()] == [None, None]
        assert [change.operation for change in [one async for one in chain.history(other)]] == [Put(other, b"1")]
        blocks = [block async for block in chain.blocks(ShardId(0))]
        assert [block.header.height for block in blocks] == list(range(len(blocks)))
        assert chain.counts.committed == 2

    _run(tmp_path, story)


def test_whoever_is_first_wins_and_the_other_reads_again(tmp_path: Path) -> None:
    async def story(chain: TensorChain, made: Shards) -> None:
        del made
        key, _ = _keys(chain)
        await chain.write(Put(key, b"0"))
        first, second = await chain.begin(), await chain.begin()
        for workspace in (first, second):
            await workspace.put(key, b"%d" % (int(await workspace.get(key) or b"") + 1))
        assert (await chain.commit(second)).is_committed
        lost = await chain.commit(first)
        assert lost.ended is Ended.CONFLICT
        assert lost.reason
        assert first.state is WorkspaceState.FAILED

        async def count(workspace: Workspace) -> None:
            await workspace.put(key, b"%d" % (int(await workspace.get(key) or b"") + 1))

        await asyncio.gather(*(chain.transact(count) for _ in range(10)))
        assert await chain.get(key) == b"11"

    _run(tmp_path, story)


def test_reads_are_of_one_moment_and_are_checked(tmp_path: Path) -> None:
    async def story(chain: TensorChain, made: Shards) -> None:
        del made
        one, other = _keys(chain)
        await chain.write(Put(one, b"a"), Put(other, b"a"))
        reader = await chain.begin()
        assert await reader.get(one) == b"a"
        assert (await chain.write(Put(one, b"b"), Put(other, b"b"))).is_committed
        assert await reader.get(one) == b"a", "as of the first look"
        await reader.get(other)
        assert (await chain.commit(reader)).ended in (Ended.CONFLICT, Ended.ABORTED), "one is old, the other new"

        async def both(workspace: Workspace) -> tuple[bytes | None, bytes | None]:
            return await workspace.get(one), await workspace.get(other)

        # The part of the one before may be dropped at this moment only, and be in the way once.
        assert await chain.transact(both) == (b"b", b"b")

    _run(tmp_path, story)


def test_a_commit_whose_refusals_cannot_be_learnt_is_not_passed_off_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision is there, but a shard that could have refused the addition has gone."""

    async def story(chain: TensorChain, made: Shards) -> None:
        del made
        names = [b"sum-%d" % number for number in range(50)]
        counters = [next(name for name in names if chain.shard_of(name) == shard) for shard in range(2)]
        workspace = await chain.begin()
        for counter in counters:
            await workspace.add(counter, 1)

        async def gone(*_: object) -> None:
            raise TransportError("refused; nothing listens there", retry=True)

        with monkeypatch.context() as patch:
            patch.setattr(chain, "ask", gone)
            with pytest.raises(OutcomeUnknown, match=r"it is committed, but .* nothing listens there"):
                await chain.commit(workspace)
        assert (chain.counts.unknown, chain.counts.committed) == (1, 0)
        again = await chain.begin()
        assert [await again.number(counter) for counter in counters] == [1, 1]

    _run(tmp_path, story)


def test_a_refusal_is_found_behind_many_changes_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done to a key since a transaction began may be more than one page of its history."""
    monkeypatch.setattr(shard_reads, "CHANGES_MAX", 2)

    async def story(chain: TensorChain, made: Shards) -> None:
        del made
        counters = _keys(chain)
        workspace = await chain.begin()
        for counter in counters:
            await workspace.add(counter, 1)
        for _ in range(5):
            await chain.write(CounterAdd(counters[0], 1))
        await chain.write(CounterAdd(counters[0], AMOUNT_MAX - 5))
        result = await chain.commit(workspace)
        assert result.is_committed
        assert result.refusals == ((CounterAdd(counters[0], 1), "the number would have more than 64 bits"),)

    _run(tmp_path, story)


def test_additions_stand_together_and_every_kind_is_read_back(tmp_path: Path) -> None:
    async def story(chain: TensorChain, made: Shards) -> None:
        del made
        key, _ = _keys(chain)
        results = await asyncio.gather(*(chain.write(CounterAdd(b"sum", 2)) for _ in range(20)))
        assert all(result.is_committed for result in results)
        workspace = await chain.begin()
        assert await workspace.number(b"sum") == 40
        await workspace.join(b"set", b"y")
        await workspace.join(b"set", b"x")
        assert await workspace.members(b"set") == [b"x", b"y"]
        vector = Embedding.of(DIMENSION, {1: 0.5})
        await workspace.embed(key, vector)
        assert await workspace.vector(key) == vector
        await workspace.move(key, vector)
        await workspace.compare_and_swap(key, b"no such value", b"never")
        await workspace.update(key, b"nothing is there")
        with pytest.raises(UsageError, match="no set"):
            await workspace.members(b"sum")
        await chain.commit(workspace)
        again = await chain.begin()
        assert await again.vector(key) == Embedding.of(DIMENSION, {1: 1.0})
        assert await again.get(key) is None, "the swap and the update found nothing, and were refused"
        await chain.rollback(again)
        assert again.state is WorkspaceState.ROLLED_BACK
        with pytest.raises(UsageError, match="rolled-back"):
            await again.put(key, b"")
        assert await chain.nearest(chain.shard_of(key), vector, 1)
        assert (await chain.metrics())["own_rolled_back"] == 1

    _run(tmp_path, story)


def test_what_makes_no_sense_is_refused_and_what_is_not_known_is_said(tmp_path: Path) -> None:
    async def story(chain: TensorChain, made: Shards) -> None:
        key, _ = _keys(chain)
        workspace = await chain.begin()
        with pytest.raises(UsageError):
            await workspace.put(b"", b"no key")
        with pytest.raises(TransactionFailed, match="refused"):
            await chain.transact(lambda space: space.embed(key, Embedding.of(DIMENSION + 1, {0: 1.0})))
        empty = await chain.begin()
        assert (await chain.commit(empty)).is_committed, "nothing is always possible"

        async def fail(space: Workspace) -> None:
            await space.put(key, b"1")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await chain.transact(fail)
        assert await chain.get(key) is None
        late = await chain.begin()
        await late.put(key, b"2")
        await made.stop(1)
        with pytest.raises(OutcomeUnknown):
            await chain.commit(late)
        assert late.state is WorkspaceState.FAILED
        assert chain.counts.unknown == 1

    _run(tmp_path, story, seconds=1.0)


def test_a_chain_has_a_shard() -> None:
    async def make() -> None:
        TensorChain([])

    with pytest.raises(UsageError, match="at least one shard"):
        asyncio.run(make())
