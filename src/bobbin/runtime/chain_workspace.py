"""A transaction in the making, over whatever shards its keys are on.

It reads each shard as it was when it first touched it, and keeps its writes to itself. What could never be done is
refused when it is asked for: the wrong type of a value would otherwise be found by the node that cannot read it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from bobbin.cluster.chain.holdings import Holds, parts_of, vector_of
from bobbin.cluster.chain.versions import Item
from bobbin.cluster.chain.workspace import TransactionWorkspace, WorkspaceState
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import (
    CompareAndSwap,
    CounterAdd,
    Delete,
    Embed,
    Operation,
    Put,
    SetAdd,
    Transaction,
    Update,
    VectorAdd,
    affected_key,
    storage_key,
    why_mistyped,
    why_operation_invalid,
)
from bobbin.cluster.transactions.names import TX_ID_BYTES, ShardId, TxId
from bobbin.errors import UsageError
from bobbin.runtime.chain_result import Result
from bobbin.wire.cluster.chain import ChainAnswer, ChainItems, ChainRead, ChainRequest

UNMADE: Final = TxId(bytes(TX_ID_BYTES))
"""The id of a transaction that has none yet."""

A = TypeVar("A", bound=ChainAnswer)
Vector = Embedding | Sequence[float] | Mapping[int, float]
"""All values in order, or those at some positions, serve as well as an ``Embedding``."""


class Shards(Protocol):
    """Where a workspace reads."""

    def shard_of(self, key: bytes) -> ShardId: ...

    async def ask(self, shard: ShardId, kind: type[A], make: Callable[[int], ChainRequest]) -> A: ...

    def note(self, shard: ShardId, found: ChainItems) -> None: ...

    async def dimension(self) -> int: ...


class _Fetched:
    """What was read of a shard, at one height."""

    def __init__(self) -> None:
        self.items: Final[dict[bytes, Item | None]] = {}

    def get(self, key: bytes, at: int) -> Item | None:
        del at
        return self.items[key]


class Workspace:
    """A transaction in the making, over whatever shards its keys are on. Use it from one task at a time."""

    def __init__(self, chain: Shards, *, born_ms: int, priority: int) -> None:
        self.born_ms: Final = born_ms
        self._chain: Final = chain
        self._priority: Final = priority
        self._parts: Final[dict[ShardId, tuple[TransactionWorkspace, _Fetched]]] = {}
        self.state = WorkspaceState.ACTIVE

    # ---- reading ----------------------------------------------------------------------------------------------------

    async def get(self, key: bytes) -> bytes | None:
        """The bytes of a plain key, as of the beginning, with this workspace's own writes."""
        item = await self.read(Put(key, b""))
        return None if item is None else item.value

    async def number(self, key: bytes) -> int:
        """The number that ``add`` counts; 0 for none."""
        item = await self.read(CounterAdd(key, 0))
        if item is None:
            return 0
        if item.holds is not Holds.NUMBER:
            raise UsageError("the key holds no number")
        return int(item.value)

    async def members(self, key: bytes) -> list[bytes]:
        """The members of a set, ascending."""
        item = await self.read(SetAdd(key, b""))
        if item is None:
            return []
        if item.holds is not Holds.SET:
            raise UsageError("the key holds no set")
        return parts_of(item.value)

    async def vector(self, key: bytes) -> Embedding | None:
        """The vector of a key."""
        item = await self.read(Embed(key, Embedding.zero(1)))
        return None if item is None else vector_of(item.value)

    async def read(self, like: Operation) -> Item | None:
        """What an operation of this kind, on this key, would find."""
        self._expect_active()
        wrong = why_mistyped(like)
        if wrong is not None:
            raise UsageError(wrong)
        key = storage_key(like)
        workspace, fetched = await self._part(affected_key(like), key)
        if key not in fetched.items:
            shard = self._chain.shard_of(affected_key(like))
            found = await self._chain.ask(shard, ChainItems, lambda number: ChainRead(number, (key,), workspace.since))
            _keep(fetched, key, found)
        return workspace.get(key)

    # ---- writing ----------------------------------------------------------------------------------------------------

    async def put(self, key: bytes, data: bytes) -> None:
        """Set a key."""
        await self.do(Put(key, data))

    async def update(self, key: bytes, data: bytes) -> None:
        """Set a key that is there; else the operation is refused by the state, and the rest is done."""
        await self.do(Update(key, data))

    async def compare_and_swap(self, key: bytes, expected: bytes, data: bytes) -> None:
        """Set a key if it holds this; an absent key compares as empty bytes."""
        await self.do(CompareAndSwap(key, expected, data))

    async def delete(self, key: bytes) -> None:
        """Take a key away."""
        await self.do(Delete(key))

    async def add(self, key: bytes, amount: int) -> None:
        """Add to a number. Additions of others do not conflict with it."""
        await self.do(CounterAdd(key, amount))

    async def join(self, key: bytes, member: bytes) -> None:
        """Put a member into a set. Other members do not conflict with it."""
        await self.do(SetAdd(key, member))

    async def embed(self, key: bytes, vector: Vector) -> None:
        """Give a key a vector."""
        await self.do(Embed(key, await self._embedding(vector)))

    async def move(self, key: bytes, vector: Vector) -> None:
        """Add to the vector of a key."""
        await self.do(VectorAdd(key, await self._embedding(vector)))

    async def do(self, operation: Operation) -> None:
        """Buffer any operation. Raises ``UsageError`` for one that could never be done, before anybody is asked."""
        self._expect_active()
        check_operation(operation)
        workspace, _ = await self._part(affected_key(operation), None)
        workspace.add_operation(operation)

    # ---- for the chain ----------------------------------------------------------------------------------------------

    def ask(self) -> list[tuple[ShardId, Transaction]]:
        """Nothing is added from here on; the parts, by shard."""
        self._expect_active()
        self.state = WorkspaceState.COMMITTING
        parts = [(shard, self._parts[shard][0].ask()) for shard in sorted(self._parts)]
        return [(shard, part) for shard, part in parts if part.operations or part.reads]

    def end(self, result: Result | None) -> None:
        """It is committed, or failed, or nobody knows."""
        is_committed = result is not None and result.is_committed
        self.state = WorkspaceState.COMMITTED if is_committed else WorkspaceState.FAILED

    def forget(self) -> None:
        """Drop everything that is buffered."""
        self._expect_active()
        self.state = WorkspaceState.ROLLED_BACK
        self._parts.clear()

    async def _embedding(self, vector: Vector) -> Embedding:
        self._expect_active()
        if isinstance(vector, Embedding):
            return vector
        if isinstance(vector, Mapping):
            values = {check_position(at): check_value(value) for at, value in vector.items()}
            return Embedding.of(await self._chain.dimension(), values)
        if isinstance(vector, str | bytes) or not isinstance(vector, Sequence):
            kind = type(vector).__name__
            raise UsageError(f"a vector is an Embedding, all its values in order, or a dict by position, not {kind}")
        return Embedding.dense(tuple(check_value(value) for value in vector))

    async def _part(self, affected: bytes, key: bytes | None) -> tuple[TransactionWorkspace, _Fetched]:
        """The part of the shard of a key; a first look at a shard says at which height it is read."""
        shard = self._chain.shard_of(affected)
        known = self._parts.get(shard)
        if known is not None:
            return known
        keys = () if key is None else (key,)
        found = await self._chain.ask(shard, ChainItems, lambda number: ChainRead(number, keys))
        self._chain.note(shard, found)
        fetched = _Fetched()
        part = (
            TransactionWorkspace(UNMADE, fetched, since=found.height, born_ms=self.born_ms, priority=self._priority),
            fetched,
        )
        # Another task may have been here meanwhile; the first look counts.
        part = self._parts.setdefault(shard, part)
        if key is not None and part[1] is fetched:
            _keep(fetched, key, found)
        return part

    def _expect_active(self) -> None:
        if self.state is not WorkspaceState.ACTIVE:
            raise UsageError(f"the workspace is {self.state.value}")


def check_operation(operation: Operation) -> None:
    """Raise ``UsageError`` for an operation that could never be done."""
    wrong = why_mistyped(operation) or why_operation_invalid(operation)
    if wrong is not None:
        raise UsageError(wrong)


def check_position(at: object) -> int:
    """A position of a vector."""
    if type(at) is not int:
        raise UsageError(f"the positions of a vector are whole numbers, not {type(at).__name__}")
    return at


def check_value(value: object) -> float:
    """A value of a vector; a number of another library that is a float as well becomes a plain one."""
    if isinstance(value, bool) or not isinstance(value, float | int):
        raise UsageError(f"the values of a vector are floats, not {type(value).__name__}")
    return float(value)


def _keep(fetched: _Fetched, key: bytes, found: ChainItems) -> None:
    (item,) = found.items
    fetched.items[key] = None if item.value is None else Item(key, item.value, item.version, Holds(item.holds))
