"""Transactions of a program on a set of two shards, each of one node, in this process."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path

import pytest

from bobbin.cluster.chain.workspace import WorkspaceState
from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import AMOUNT_MAX, CounterAdd, Embed, Put
from bobbin.cluster.transactions.names import ShardId
from bobbin.cluster.transactions.phases import Ended
from bobbin.errors import UsageError
from bobbin.runtime import shard_reads
from bobbin.runtime.cluster_client import ClusterClient, OutcomeUnknown
from bobbin.runtime.tensor_chain import NoMajority, TensorChain, TransactionFailed, Workspace
from bobbin.transport.base import TransportError
from bobbin.wire.cluster.chain import ChainCodebook, ChainEnded, ChainItems, ChainRead
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
        metrics = await chain.metrics()
        assert (metrics.own.rolled_back, len(metrics.shards)) == (1, 2)
        assert metrics.total["transactions_committed"] == sum(one["transactions_committed"] for one in metrics.shards)
        assert metrics.total["healthy"] == 1
        assert "term" not in metrics.total
        assert all(one["term"] >= 1 for one in metrics.shards)

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


def test_what_the_codebook_refuses_on_one_shard_is_said_at_once(tmp_path: Path) -> None:
    async def story(chain: TensorChain, made: Shards) -> None:
        del made
        key, _ = _keys(chain)
        book = GlobalCodebook(1, [Embedding(DIMENSION, (at,), (1.0,)) for at in range(DIMENSION)]).encode()
        shard = chain.shard_of(key)
        await chain.client(shard).ask(ChainEnded, lambda number: ChainCodebook(number, book))
        await chain.write(Embed(key, Embedding.of(DIMENSION, {0: 1.0})))
        strange = await chain.begin()
        await strange.move(key, {1: 1.0})
        result = await asyncio.wait_for(chain.commit(strange), 5)
        assert result.ended is Ended.REFUSED
        assert "similarity of 0.707" in result.reason

    _run(tmp_path, story)


def test_a_wrong_type_is_named_at_once_and_others_go_on(tmp_path: Path) -> None:
    async def story(chain: TensorChain, made: Shards) -> None:
        del made
        key, _ = _keys(chain)
        workspace = await chain.begin()
        wrong: list[tuple[Coroutine[object, object, object], str]] = [
            (workspace.put(key, "v"), "the data of Put is bytes, not str"),  # type: ignore[arg-type]
            (workspace.put("k", b"v"), "the key of Put is bytes, not str"),  # type: ignore[arg-type]
            (workspace.add(key, 1.5), "the amount of CounterAdd is a whole number"),  # type: ignore[arg-type]
            (workspace.add(key, amount=True), "a whole number .int., not bool"),
            (workspace.move(key, [1.0, float("nan")]), "not finite"),
            (workspace.move(key, "vector"), "a vector is an Embedding, all its values"),  # type: ignore[arg-type]
            (workspace.embed(key, {"0": 1.0}), "positions of a vector are whole"),  # type: ignore[dict-item]
            (workspace.get("k"), "the key of Put is bytes"),  # type: ignore[arg-type]
            (chain.get("k"), "the key of Put is bytes"),  # type: ignore[arg-type]
            (chain.write(Put(key, 3)), "the data of Put is bytes, not int"),  # type: ignore[arg-type]
        ]
        for asked, text in wrong:
            with pytest.raises(UsageError, match=text):
                await asyncio.wait_for(asked, 1)
        await workspace.embed(key, [0.5] * DIMENSION)
        await workspace.move(key, {1: 1})
        assert (await chain.commit(workspace)).is_committed
        again = await chain.begin()
        assert await again.vector(key) == Embedding.of(DIMENSION, dict.fromkeys(range(DIMENSION), 0.5) | {1: 1.5})

    _run(tmp_path, story)


def test_a_request_that_cannot_be_read_ends_no_other(tmp_path: Path) -> None:
    async def story(chain: TensorChain, made: Shards) -> None:
        del made
        key, _ = _keys(chain)
        client = chain.client(chain.shard_of(key))
        await chain.get(key)
        found = await asyncio.gather(
            client.ask(ChainItems, lambda number: ChainRead(number, ("text",))),  # type: ignore[arg-type]
            client.ask(ChainItems, lambda number: ChainRead(number, (b"k",), "no height")),  # type: ignore[arg-type]
            client.ask(ChainItems, lambda number: ChainRead(number, (object(),))),  # type: ignore[arg-type]
            asyncio.wait_for(client.ask(ChainItems, lambda number: ChainRead(number, (key,))), 1.5),
            return_exceptions=True,
        )
        assert [type(one) for one in found] == [UsageError, UsageError, UsageError, ChainItems]

    _run(tmp_path, story)


def test_without_a_majority_it_is_said_so_within_the_seconds_of_the_chain(tmp_path: Path) -> None:
    async def run() -> None:
        async with shards(tmp_path, nodes=3, shards=1) as made:
            clients = [ClusterClient(known, own=OPERATOR) for known in made.known]
            async with TensorChain(clients, seconds=1.0) as chain:
                late = await chain.begin()
                await late.put(b"k", b"v")
                await made.stop(1)
                await made.stop(2)
                loop = asyncio.get_running_loop()
                for asked, error in ((chain.get(b"k"), NoMajority), (chain.commit(late), OutcomeUnknown)):
                    began = loop.time()
                    with pytest.raises(error, match=r"shard 0: no majority of the 3 voters answers: \w{8} does, "):
                        await asked
                    assert loop.time() - began < 4
                await made.stop(3)
                with pytest.raises(NoMajority, match="none of the 3 nodes of the shard answers"):
                    await chain.transact(lambda workspace: workspace.get(b"k"))

    asyncio.run(asyncio.wait_for(run(), 60))


def test_of_many_blind_writers_each_hears_what_was_in_its_way(tmp_path: Path) -> None:
    async def story(chain: TensorChain, made: Shards) -> None:
        del made
        one, other = _keys(chain)
        workspaces = [await chain.begin() for _ in range(10)]
        for workspace in workspaces:
            await workspace.put(one, b"v")
            await workspace.put(other, b"v")
        results = await asyncio.gather(*map(chain.commit, workspaces))
        lost = [result for result in results if not result.is_committed]
        assert len(lost) < len(results)
        assert [result.reason for result in lost if "it had been aborted" in result.reason] == []
        assert any("is locked by" in result.reason for result in lost)

    _run(tmp_path, story)


def test_geometry_refuses_changes_alike_that_the_versions_allow(tmp_path: Path) -> None:
    """Each counts at a key and moves its vector: all of it is commutative, and the vectors point the same way."""

    async def story(chain: TensorChain, made: Shards) -> None:
        del made
        key, _ = _keys(chain)
        first, second, third = [await chain.begin() for _ in range(3)]
        for workspace, vector in (
            (first, {0: 3.0, 1: 1.0}),
            (second, {0: 3.0, 2: 1.0}),
            (third, {3: 3.0, 4: 1.0, 5: 1.0}),
        ):
            await workspace.add(key, 1)
            await workspace.move(key, vector)
        assert (await chain.commit(first)).is_committed
        alike = await chain.commit(second)
        assert alike.ended is Ended.CONFLICT
        assert alike.reason.startswith("too much like")
        assert alike.similarity is not None
        assert alike.similarity >= 0.7
        assert (await chain.commit(third)).is_committed, "it points elsewhere"

    _run(tmp_path, story)


def test_a_chain_has_a_shard() -> None:
    async def make() -> None:
        TensorChain([])

    with pytest.raises(UsageError, match="at least one shard"):
        asyncio.run(make())
