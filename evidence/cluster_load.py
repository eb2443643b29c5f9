"""Clients that write, compare and read a few keys of a cluster without a pause, and remember what they saw.

Every value is written once only, so a read says which write it saw. What a client was told is kept with the moments of
the question and the answer. A write whose outcome is not known stays open for ever; one that was refused has not
happened, and if its value is ever seen, no order of the others explains it.

Besides, some keys are written once and never again: of these, every acknowledged one has to be there at the end.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Sequence
from random import Random
from time import monotonic_ns
from typing import Final

from msgspec import structs

from bobbin.runtime.cluster_client import ClusterClient, NotAccepted, OutcomeUnknown
from bobbin.transport.base import TransportError
from tests.oracle.linearizability import Kind, Operation, Value, Violation, find_violation

KEYS: Final = 3
"""That all clients use at a time."""
ONCE: Final = b"once/"
_PAUSE_SECONDS_MAX: Final = 0.01
_SEEN_MAX: Final = 8


class Load:
    """The clients and their history."""

    def __init__(self, clients: Sequence[ClusterClient], *, seed: int) -> None:
        self._clients: Final = clients
        self._seed: Final = seed
        self._is_over = False
        self._epoch = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._keys: Final[set[bytes]] = set()
        self.history: Final[list[Operation]] = []
        self.counts: Final[Counter[str]] = Counter()
        self.acknowledged: Final[set[bytes]] = set()
        """Keys of single writes that were said to be done."""
        self.open: Final[set[bytes]] = set()
        """Keys of single writes of which nobody knows."""

    def start(self) -> None:
        """Begin."""
        self._tasks = [
            asyncio.create_task(_Worker(self, client, f"c{number}", Random(f"{self._seed} {number}")).run())
            for number, client in enumerate(self._clients)
        ]

    def next_keys(self) -> None:
        """Go on with other keys: a history is searched key by key, and short ones are quicker to search."""
        self._epoch += 1

    async def stop(self) -> None:
        """Let every client finish what it has begun. Raises what a client has died of."""
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def look_at_all(self) -> None:
        """Read every key once more, so that the last write to each is seen."""
        (first, *_) = self._clients
        for key in sorted(self._keys):
            called = monotonic_ns()
            value = (await first.get(key)).value
            self.note(
                Operation(client="end", key=key, kind=Kind.GET, called=called, returned=monotonic_ns(), value=value)
            )

    async def lost(self) -> int:
        """Single writes that were acknowledged and are not there."""
        return len(self.acknowledged - await self._found())

    async def invented(self) -> int:
        """Single writes that are there though they were refused, or never made."""
        return len(await self._found() - self.acknowledged - self.open)

    async def _found(self) -> set[bytes]:
        (first, *_) = self._clients
        return {row.key async for row in first.scan(ONCE) if row.value == row.key}

    def violation(self) -> Violation | None:
        """Where no order of all operations explains what the clients saw; None if one always does."""
        return find_violation(self.history)

    # ---- for the workers --------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        return self._is_over

    def key(self, random: Random) -> bytes:
        """One of those that are in use."""
        key = f"key/{self._epoch}/{random.randrange(KEYS)}".encode()
        self._keys.add(key)
        return key

    def note(self, operation: Operation) -> None:
        """Keep what a client saw."""
        self.history.append(operation)
        self.counts["unknown" if operation.returned is None else operation.kind.value] += 1


class _Worker:
    """One client, which does one thing after the other."""

    def __init__(self, load: Load, client: ClusterClient, name: str, random: Random) -> None:
        self._load: Final = load
        self._client: Final = client
        self._name: Final = name
        self._random: Final = random
        self._number = 0
        self._seen: Final[dict[bytes, list[Value]]] = {}
        """Values that a compare and swap may expect."""

    async def run(self) -> None:
        doings = (
            self._put,
            self._put,
            self._swap,
            self._swap,
            self._get,
            self._get,
            self._get,
            self._delete,
            self._once,
        )
        while not self._load.is_over:
            await self._random.choice(doings)(self._load.key(self._random))
            await asyncio.sleep(self._random.uniform(0, _PAUSE_SECONDS_MAX))

    def _value(self) -> bytes:
        self._number += 1
        return f"{self._name}/{self._number}".encode()

    def _see(self, key: bytes, value: Value) -> None:
        seen = self._seen.setdefault(key, [None])
        seen.append(value)
        del seen[:-_SEEN_MAX]

    async def _put(self, key: bytes) -> None:
        value = self._value()
        put = Operation(client=self._name, key=key, kind=Kind.PUT, called=monotonic_ns(), value=value)
        await self._write(put, self._client.put(key, value))
        self._see(key, value)

    async def _delete(self, key: bytes) -> None:
        delete = Operation(client=self._name, key=key, kind=Kind.DELETE, called=monotonic_ns())
        await self._write(delete, self._client.delete(key))

    async def _swap(self, key: bytes) -> None:
        expected, value = self._random.choice(self._seen.get(key, [None])[-2:]), self._value()
        swap = Operation(
            client=self._name,
            key=key,
            kind=Kind.COMPARE_AND_SWAP,
            called=monotonic_ns(),
            value=value,
            expected=expected,
        )
        await self._write(swap, self._client.compare_and_swap(key, expected, value))
        self._see(key, value)

    async def _get(self, key: bytes) -> None:
        called = monotonic_ns()
        try:
            value = (await self._client.get(key)).value
        except (NotAccepted, TransportError):
            self._load.counts["reads without an answer"] += 1
            return
        self._see(key, value)
        self._load.note(
            Operation(client=self._name, key=key, kind=Kind.GET, called=called, returned=monotonic_ns(), value=value)
        )

    async def _once(self, _: bytes) -> None:
        key = ONCE + self._value()
        try:
            await self._client.put(key, key)
        except OutcomeUnknown:
            self._load.open.add(key)
        except (NotAccepted, TransportError):
            self._load.counts["refused"] += 1
        else:
            self._load.acknowledged.add(key)

    async def _write(self, operation: Operation, doing: Awaitable[object]) -> None:
        """Keep a write with what came of it. One that was refused has not happened, and is not kept."""
        try:
            result = await doing
        except OutcomeUnknown:
            self._load.note(operation)
        except (NotAccepted, TransportError):
            self._load.counts["refused"] += 1
        else:
            swapped = bool(result) if operation.kind is Kind.COMPARE_AND_SWAP else None
            self._load.note(structs.replace(operation, returned=monotonic_ns(), is_swapped=swapped))
