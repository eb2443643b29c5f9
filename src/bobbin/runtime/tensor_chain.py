"""Transactions from a program: over one shard or several, read at one moment, committed whole or not at all.

A workspace is made by ``begin`` and reads each shard as it was when it first touched it. Writes are buffered.
``commit`` sends what is to be done and what was read; versions decide, and whoever was first has won. Read-only
transactions are checked in the same way, so what they saw was true together.

A transaction has an id, and is sent again under it, to whoever leads, until there is an answer that is final. What is
still not known when time is up is said to be so (``OutcomeUnknown``).
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from random import Random, SystemRandom
from time import time_ns
from types import TracebackType
from typing import Final, Self, TypeVar

from msgspec import structs

from bobbin.cluster.chain.block import Block
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.operations import (
    Average,
    CompareAndSwap,
    CounterAdd,
    Operation,
    Put,
    SetAdd,
    TableUpdate,
    Transaction,
    Update,
    VectorAdd,
    affected_key,
    storage_key,
)
from bobbin.cluster.shard.placing import shard_of
from bobbin.cluster.transactions.names import CHANCE_BYTES, ShardId, TxId, tx_id
from bobbin.cluster.transactions.phases import Ended
from bobbin.errors import UsageError
from bobbin.runtime.chain_result import ChainCounts, NoMajority, Result, SetMetrics, TransactionFailed, total_of
from bobbin.runtime.chain_workspace import UNMADE, Workspace, check_operation
from bobbin.runtime.cluster_client import ClusterClient, NotAccepted, OutcomeUnknown
from bobbin.runtime.shard_silence import why_no_majority
from bobbin.transport.base import TransportError
from bobbin.wire.cluster.chain import (
    ChainAbort,
    ChainAnswer,
    ChainBegin,
    ChainBlocks,
    ChainChange,
    ChainChanges,
    ChainCommit,
    ChainEnded,
    ChainHistory,
    ChainItems,
    ChainNear,
    ChainNearest,
    ChainPage,
    ChainRead,
    ChainRequest,
    ChainValidate,
    ChainVerdict,
    ChainVerify,
)
from bobbin.wire.cluster.client import Report, Status

__all__ = [
    "ChainCounts",
    "NoMajority",
    "Result",
    "SetMetrics",
    "TensorChain",
    "TransactionFailed",
    "Workspace",
]

SECONDS: Final = 10.0
"""For a transaction, with all attempts under one id."""
TIMEOUT_MS: Final = 5_000
"""For the votes of a transaction over several shards."""
TRIES_MAX: Final = 50
_DRAWN: Final = 128
"""Ids for which there is chance at hand."""
_PAUSE_SECONDS: Final = 0.01
_PAUSE_SECONDS_MAX: Final = 1.0
_REFUSABLE: Final = (Update, CompareAndSwap, CounterAdd, SetAdd, VectorAdd, Average, TableUpdate)
_ALONE: Final = [ShardId(0)]

T = TypeVar("T")
A = TypeVar("A", bound=ChainAnswer | Report)


def _chances() -> Iterator[bytes]:
    """Eight bytes by chance, again and again. To ask the system for many at a time costs little more than for eight."""
    while True:
        drawn = secrets.token_bytes(_DRAWN * CHANCE_BYTES)
        for at in range(0, len(drawn), CHANCE_BYTES):
            yield drawn[at : at + CHANCE_BYTES]


class TensorChain(AbstractAsyncContextManager["TensorChain"]):
    """Transactions on a set of shards.

    ::

        async with TensorChain(clients) as chain:
            workspace = await chain.begin()
            await workspace.put(b"colour", b"green")
            result = await chain.commit(workspace)
    """

    def __init__(
        self,
        shards: Sequence[ClusterClient],
        *,
        seconds: float = SECONDS,
        random: Random | None = None,
        explains: bool = True,
    ) -> None:
        """``shards``: a client of each shard, in order. They are closed with this.

        Every question, and every commit, has so many ``seconds``, or those of the client where they are fewer. Without
        ``explains`` nodes are not asked, when time is up, why nobody has answered.
        """
        if not shards:
            raise UsageError("a chain has at least one shard")
        self.counts: Final = ChainCounts()
        self._clients: Final = tuple(shards)
        self._seconds: Final = seconds
        self._explains: Final = explains
        self._dimension: int | None = None
        self._random: Final = SystemRandom() if random is None else random
        self._chances: Final = _chances()
        self._loop: Final = asyncio.get_running_loop()
        self._seen: Final[dict[ShardId, tuple[int, int]]] = {}
        """Of each shard: the last height that was heard of, and from where ids are made."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        await self.close()

    async def __aenter__(self) -> Self:
        return self

    async def close(self) -> None:
        """Let go of every channel."""
        for client in self._clients:
            await client.close()

    @property
    def shards(self) -> int:
        return len(self._clients)

    def shard_of(self, key: bytes) -> ShardId:
        """Where an affected key is."""
        return shard_of(key, len(self._clients))

    # ---- transactions -----------------------------------------------------------------------------------------------

    async def begin(self, *, born_ms: int | None = None, priority: int = 0) -> Workspace:
        """A new transaction. ``born_ms`` is kept over retries: old ones are not chosen as victims for ever."""
        self.counts.begun += 1
        return Workspace(self, born_ms=time_ns() // MILLISECOND_NS if born_ms is None else born_ms, priority=priority)

    async def rollback(self, workspace: Workspace) -> None:
        """Forget a workspace. What others have committed stays."""
        workspace.forget()
        self.counts.rolled_back += 1

    async def commit(self, workspace: Workspace) -> Result:
        """Have everything done, or nothing; how it ended. Raises ``OutcomeUnknown``."""
        parts = workspace.ask()
        result: Result | None = None
        try:
            result = await self._commit(parts)
            return result
        finally:
            workspace.end(result)

    async def transact(self, work: Callable[[Workspace], Awaitable[T]], *, tries_max: int = TRIES_MAX) -> T:
        """Run ``work`` in a transaction, and again with fresh reads while somebody else is faster.

        Whatever ``work`` returns is returned once that is committed. Raises ``TransactionFailed``, ``OutcomeUnknown``,
        and what ``work`` raises, after which nothing is done.
        """
        born_ms = time_ns() // MILLISECOND_NS
        pause = _PAUSE_SECONDS
        for attempt in range(tries_max):
            workspace = await self.begin(born_ms=born_ms)
            try:
                found = await work(workspace)
            except BaseException:
                await self.rollback(workspace)
                raise
            result = await self.commit(workspace)
            if result.is_committed:
                return found
            if result.ended is Ended.REFUSED or attempt == tries_max - 1:
                raise TransactionFailed(result)
            await asyncio.sleep(self._random.uniform(0, pause))
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)
        raise UsageError("a transaction is tried at least once")

    async def write(self, *operations: Operation) -> Result:
        """Operations of one shard or several that rest on nothing that was read.

        It begins at the height that was last heard of, which saves a question; where that has turned out to be too old,
        or somebody else is in the way, it begins anew.
        """
        for operation in operations:
            check_operation(operation)
        self.counts.begun += 1
        shards = _ALONE if len(self._clients) == 1 else sorted({self.shard_of(affected_key(one)) for one in operations})
        for shard in [shard for shard in shards if shard not in self._seen]:
            await self._look(shard, operations)
        pause = _PAUSE_SECONDS
        for _ in range(TRIES_MAX - 1):
            result = await self._write(shards, operations)
            if result.ended not in (Ended.CONFLICT, Ended.ABORTED):
                return result
            await asyncio.sleep(self._random.uniform(0, pause))
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)
            for shard in shards:
                await self._look(shard, operations)
        return await self._write(shards, operations)

    def _write(self, shards: list[ShardId], operations: tuple[Operation, ...]) -> Coroutine[object, object, Result]:
        if len(shards) == 1:
            return self._commit_alone(shards[0], self._blind(shards[0], operations))
        return self._commit([(shard, self._blind(shard, operations)) for shard in shards])

    async def _look(self, shard: ShardId, operations: tuple[Operation, ...]) -> None:
        """How far a shard is, once nothing that is decided waits to be done to these keys."""
        keys = {storage_key(one) for one in operations if self.shard_of(affected_key(one)) == shard}
        self.note(shard, await self.ask(shard, ChainItems, lambda number: ChainRead(number, tuple(sorted(keys)))))

    def _blind(self, shard: ShardId, operations: tuple[Operation, ...]) -> Transaction:
        own = operations
        if len(self._clients) > 1:
            own = tuple(operation for operation in operations if self.shard_of(affected_key(operation)) == shard)
        return Transaction(UNMADE, own, (), self._seen[shard][0], time_ns() // MILLISECOND_NS)

    async def _commit(self, parts: list[tuple[ShardId, Transaction]]) -> Result:
        if not parts:
            self.counts.committed += 1
            return Result(ended=Ended.COMMITTED, tx=UNMADE)
        if len(parts) == 1:
            return await self._commit_alone(*parts[0])
        home = next((shard for shard, part in parts if part.operations), parts[0][0])
        tx = tx_id(self._seen[home][1], next(self._chances))
        named = tuple((shard, structs.replace(part, id=tx)) for shard, part in parts)
        answer = await self._settle(home, lambda number: ChainBegin(number, tx, named, TIMEOUT_MS))
        try:
            refusals = await self._refusals(tx, parts) if answer.ended is Ended.COMMITTED else ()
        except (TransportError, NotAccepted) as error:
            self.counts.unknown += 1
            why = f"it is committed, but a shard that can refuse an operation does not say if it did: {error}"
            raise OutcomeUnknown(why) from error
        return self._result(home, tx, answer, refusals)

    async def _commit_alone(self, shard: ShardId, part: Transaction) -> Result:
        """What one shard does by itself."""
        operations = part.operations
        tx = tx_id(self._seen[shard][1], next(self._chances))
        if operations:
            own = Transaction(tx, operations, part.reads, part.since, part.born_ms, part.priority)
            answer = await self._settle(shard, lambda number: ChainCommit(number, own))
        else:
            answer = await self._settle(shard, lambda number: ChainValidate(number, part.reads))
        refused = tuple((operations[at], reason) for at, reason in answer.refusals) if answer.refusals else ()
        return self._result(shard, tx, answer, refused)

    async def _refusals(self, tx: TxId, parts: list[tuple[ShardId, Transaction]]) -> tuple[tuple[Operation, str], ...]:
        """What the state of some shard has refused; asked for only where an operation can be refused."""
        found: list[tuple[Operation, str]] = []
        for shard, part in parts:
            keys = {storage_key(operation) for operation in part.operations if isinstance(operation, _REFUSABLE)}
            if not keys:
                continue
            # Answered when the part is done: until then it holds the keys.
            await self.ask(shard, ChainItems, lambda number: ChainRead(number, tuple(sorted(keys))))  # noqa: B023
            for key in sorted(keys):
                own = await self._changes_of(tx, shard, key, part.since)
                found += [(one.operation, one.refusal) for one in own if one.refusal]
        return tuple(found)

    async def _changes_of(self, tx: TxId, shard: ShardId, key: bytes, after: int) -> list[ChainChange]:
        """What a transaction has done to a key above a height. Pages end between blocks, so all of it is in one."""
        while True:
            height = after
            page = await self.ask(shard, ChainChanges, lambda number: ChainHistory(number, key, height))  # noqa: B023
            own = [one for one in page.changes if one.tx == tx]
            if own or page.is_whole or not page.changes:
                return own
            after = page.changes[-1].height

    async def _settle(
        self, shard: ShardId, make: Callable[[int], ChainBegin | ChainCommit | ChainValidate]
    ) -> ChainEnded:
        """Ask, under one id, until the answer is final."""
        deadline = self._loop.time() + self._seconds
        pause = _PAUSE_SECONDS
        first: ChainEnded | None = None
        while True:
            try:
                answer = await self._clients[shard].ask(ChainEnded, make, seconds=deadline - self._loop.time())
            except (TransportError, NotAccepted) as error:
                if isinstance(error, NotAccepted) and not error.retry and first is None:
                    raise
                self.counts.unknown += 1
                raise OutcomeUnknown(str(await self._explained(shard, error))) from error
            if answer.ended is Ended.FORGOTTEN:
                self.counts.unknown += 1
                raise OutcomeUnknown("the shard does not remember this transaction any more")
            if answer.ended is Ended.ABORTED and first is not None:
                # That it is over is all that is known of it now; what was in the way was said before.
                return structs.replace(answer, reason=first.reason, similarity=first.similarity, other=first.other)
            if answer.ended is not Ended.BUSY or self._loop.time() >= deadline:
                return answer
            first = first or answer
            await asyncio.sleep(self._random.uniform(0, pause))
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    def _result(
        self, shard: ShardId, tx: TxId, answer: ChainEnded, refusals: tuple[tuple[Operation, str], ...]
    ) -> Result:
        if answer.ended is Ended.BUSY:
            # Nothing is done as far as its leader knows; a copy that is on its way might be.
            self.counts.unknown += 1
            raise OutcomeUnknown(answer.reason or "the shard is busy")
        counts = self.counts
        if answer.ended is Ended.COMMITTED:
            counts.committed += 1
            height, horizon = self._seen.get(shard, (0, 0))
            self._seen[shard] = max(height, answer.height), horizon
        elif answer.ended is Ended.CONFLICT:
            counts.conflicts += 1
        else:
            counts.failed += 1
        return Result(
            ended=answer.ended,
            tx=tx,
            height=answer.height,
            reason=answer.reason,
            similarity=answer.similarity,
            other=answer.other,
            refusals=refusals,
        )

    async def abort(self, shard: ShardId, tx: TxId) -> ChainEnded:
        """Take back a transaction that a shard coordinates, if it is not decided."""
        return await self.ask(shard, ChainEnded, lambda number: ChainAbort(number, tx))

    # ---- what is there ----------------------------------------------------------------------------------------------

    async def get(self, key: bytes, *, stale: bool = False) -> bytes | None:
        """The bytes of one plain key, now. ``stale``: as any node has it."""
        like = Put(key, b"")
        check_operation(like)
        shard = self.shard_of(affected_key(like))
        where = storage_key(like)
        found = await self.ask(
            shard, ChainItems, lambda number: ChainRead(number, (where,), None, not stale), anywhere=stale
        )
        self.note(shard, found)
        return found.items[0].value

    async def history(self, key: bytes) -> AsyncIterator[ChainChange]:
        """Everything that was done to a key, the oldest first."""
        shard, after = self.shard_of(key), 0
        while True:
            height = after
            page = await self.ask(shard, ChainChanges, lambda number: ChainHistory(number, key, height))  # noqa: B023
            for change in page.changes:
                yield change
            if page.is_whole or not page.changes:
                return
            after = page.changes[-1].height

    async def blocks(self, shard: ShardId, first: int = 0, limit: int | None = None) -> AsyncIterator[Block]:
        """The blocks of a shard from a height on."""
        left = limit
        while left is None or left > 0:
            start, count = first, min(1_000, left or 1_000)
            page = await self.ask(shard, ChainPage, lambda number: ChainBlocks(number, start, count))  # noqa: B023
            for block in page.blocks:
                yield block
            if not page.blocks or page.blocks[-1].header.height >= page.height:
                return
            first = page.blocks[-1].header.height + 1
            left = None if left is None else left - len(page.blocks)

    async def verify(self) -> list[ChainVerdict]:
        """Have every shard's leader check its whole chain; what it found, shard by shard."""
        return [await self.ask(ShardId(shard), ChainVerdict, ChainVerify) for shard in range(self.shards)]

    async def verify_node(self, shard: ShardId, node: NodeId) -> ChainVerdict:
        """Have one node check its whole chain."""
        return await self._clients[shard].ask(ChainVerdict, ChainVerify, node=node, seconds=self._seconds)

    async def nearest(self, shard: ShardId, embedding: Embedding, limit: int = 10) -> list[tuple[int, float]]:
        """Heights of the blocks whose change was most like this one, with how like it was."""
        found = await self.ask(shard, ChainNear, lambda number: ChainNearest(number, embedding, limit))
        return [(near.height, near.similarity) for near in found.blocks]

    async def metrics(self) -> SetMetrics:
        """What the leaders count, by shard and in all, and what became of this client's own transactions."""
        shards = tuple([await self._figures(ShardId(shard)) for shard in range(self.shards)])
        return SetMetrics(shards=shards, total=total_of(shards), own=structs.replace(self.counts))

    async def _figures(self, shard: ShardId) -> dict[str, float]:
        """Of whoever leads; of another node, where nobody does or the leader cannot be asked."""
        report = await self.ask(shard, Report, Status, anywhere=True)
        if report.leader is not None and report.leader != report.node:
            with suppress(TransportError):
                client = self._clients[shard]
                report = await client.ask(Report, Status, node=report.leader, seconds=self._seconds)
        return dict(report.counters)

    async def dimension(self) -> int:
        """Of every vector of this chain, as its first block has it."""
        if self._dimension is None:
            page = await self.ask(ShardId(0), ChainPage, lambda number: ChainBlocks(number, 0, 1))
            self._dimension = page.blocks[0].header.delta_embedding.dimension
        return self._dimension

    # ---- asking -----------------------------------------------------------------------------------------------------

    def client(self, shard: ShardId) -> ClusterClient:
        """For what concerns a shard as a cluster: its members, its status."""
        return self._clients[shard]

    async def ask(
        self, shard: ShardId, kind: type[A], make: Callable[[int], ChainRequest | Status], *, anywhere: bool = False
    ) -> A:
        """Ask the leader of a shard, or any node, something that changes nothing. Raises ``NoMajority``."""
        try:
            return await self._clients[shard].ask(kind, make, anywhere=anywhere, seconds=self._seconds)
        except (TransportError, NotAccepted) as error:
            better = await self._explained(shard, error)
            if better is error:
                raise
            raise better from error

    async def _explained(self, shard: ShardId, error: TransportError | NotAccepted) -> TransportError | NotAccepted:
        """Why nobody has answered, where that can be found out; else the error as it is."""
        if not (self._explains and error.retry):
            return error
        why = await why_no_majority(self._clients[shard])
        return error if why is None else NoMajority(f"shard {shard}: {why} ({error})")

    def note(self, shard: ShardId, found: ChainItems) -> None:
        """Remember how far a shard is."""
        height, horizon = self._seen.get(shard, (0, 0))
        self._seen[shard] = max(height, found.height), max(horizon, found.horizon)
