"""Clients that do transactions on a set of shards without a pause, and remember what they were told.

Four kinds of work, each with something that must hold whatever happens:

- a bank: money is moved between accounts of both shards; whoever reads all accounts in one transaction sees one total;
- counters: additions that rest on no read, and so may share a block; their sum is nought, and each client counts its
  own in the same transaction, so that one that was done twice, or not at all, is found;
- pairs of doctors on call, of whom either may leave if the other one stays: never are both gone;
- lists, which are read and appended to; `tests.oracle.serializability` judges what was seen.

A read counts once its transaction is committed. What was refused has not happened, and is kept for the judge as such.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from random import Random
from time import monotonic_ns
from typing import Final, TypeVar

from bobbin.cluster.operations import Put
from bobbin.runtime.cluster_client import NotAccepted, OutcomeUnknown
from bobbin.runtime.tensor_chain import Result, TensorChain, Workspace
from bobbin.transport.base import TransportError
from tests.oracle.serializability import Anomaly, Append, Outcome, Read, Step, Transaction, find_anomaly

OPENING: Final = 100
"""What each account holds in the beginning."""
ACCOUNTS_EACH: Final = 2
"""On each shard; so it is with counters."""
LISTS: Final = 4
"""That all clients use at a time."""
STEPS_MAX: Final = 4
ON: Final = b"on call"
OFF: Final = b"gone"
_AMOUNT_MAX: Final = 20
_PAUSE_SECONDS_MAX: Final = 0.01

T = TypeVar("T")


class Load:
    """The clients and what they saw."""

    def __init__(self, chains: Sequence[TensorChain], *, seed: int) -> None:
        self._chains: Final = chains
        self._seed: Final = seed
        self._is_over = False
        self._epoch = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._lists: Final[set[bytes]] = set()
        (first, *_) = chains
        self.accounts: Final = names(first, b"account", ACCOUNTS_EACH)
        self.counters: Final = names(first, b"counter", ACCOUNTS_EACH)
        doctors = names(first, b"doctor", 2)
        self.pairs: Final = ((doctors[0], doctors[-1]), (doctors[1], doctors[-2]), (doctors[0], doctors[1]))
        """Two of doctors on different shards, one of doctors on the same."""
        self.history: Final[list[Transaction]] = []
        self.counts: Final[Counter[str]] = Counter()
        self.counted: Final[Counter[bytes]] = Counter()
        """Additions that were said to be done, by the client's own counter."""
        self.uncertain: Final[Counter[bytes]] = Counter()
        """Additions of which nobody knows."""
        self.wrong_totals = 0
        self.abandoned_pairs = 0
        """How often both doctors of a pair were gone."""

    async def prepare(self, chain: TensorChain) -> None:
        """Fill the accounts, and call all doctors."""
        doctors = {doctor for pair in self.pairs for doctor in pair}

        async def fill(workspace: Workspace) -> None:
            for account in self.accounts:
                await workspace.put(account, b"%d" % OPENING)
            for doctor in sorted(doctors):
                await workspace.put(doctor, ON)

        await chain.transact(fill)

    def start(self) -> None:
        """Begin."""
        self._tasks = [
            asyncio.create_task(_Worker(self, chain, f"c{number}", Random(f"{self._seed} {number}")).run())
            for number, chain in enumerate(self._chains)
        ]

    def next_lists(self) -> None:
        """Go on with other lists: short ones are quicker to read."""
        self._epoch += 1

    async def stop(self) -> None:
        """Let every client finish what it has begun. Raises what a client has died of."""
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def look_at_all(self, chain: TensorChain) -> None:
        """See the end of every list, all accounts, counters and pairs once more."""
        last = _Worker(self, chain, "end", Random(self._seed))
        for key in sorted(self._lists):
            await last.until_done(partial(last.read_list, key))
        await last.until_done(last.audit)
        await last.until_done(last.sum_up)
        for pair in self.pairs:
            await last.until_done(partial(last.look, pair))

    async def found(self, chain: TensorChain) -> dict[bytes, int]:
        """What the clients' own counters say."""
        return {key: await _number(chain, key) for key in self._own_counters()}

    def lost(self, found: Mapping[bytes, int]) -> int:
        """Additions that were acknowledged and are not there."""
        return sum(max(0, self.counted[key] - count) for key, count in found.items())

    def invented(self, found: Mapping[bytes, int]) -> int:
        """Additions that are there though they were refused, or done twice."""
        return sum(max(0, count - self.counted[key] - self.uncertain[key]) for key, count in found.items())

    def anomaly(self) -> Anomaly | None:
        """Why no order of all transactions explains the lists; None if one does."""
        return find_anomaly(self.history)

    def _own_counters(self) -> list[bytes]:
        return [own_counter(f"c{number}") for number in range(len(self._chains))]

    # ---- for the workers --------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        return self._is_over

    def list_key(self, random: Random) -> bytes:
        """One of those that are in use."""
        key = f"list/{self._epoch}/{random.randrange(LISTS)}".encode()
        self._lists.add(key)
        return key

    def note_total(self, total: int, due: int) -> None:
        """Somebody has read everything in one transaction."""
        self.wrong_totals += total != due

    def note_pair(self, standing: Sequence[bytes | None]) -> None:
        """Somebody has looked at both of a pair in one transaction."""
        self.abandoned_pairs += ON not in standing


def names(chain: TensorChain, kind: bytes, each: int) -> tuple[bytes, ...]:
    """So many keys of each shard, those of the first shard first."""
    found: list[bytes] = []
    for shard in range(chain.shards):
        mine = (key for number in range(1_000) if chain.shard_of(key := b"%s/%d" % (kind, number)) == shard)
        found += [next(mine) for _ in range(each)]
    return tuple(found)


def own_counter(client: str) -> bytes:
    """The key at which a client counts what it has done."""
    return b"done/" + client.encode()


async def _number(chain: TensorChain, key: bytes) -> int:
    async def read(workspace: Workspace) -> int:
        return await workspace.number(key)

    return await chain.transact(read)


def _decode(data: bytes | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (data or b"").split())


class _Worker:
    """One client, which does one transaction after the other."""

    def __init__(self, load: Load, chain: TensorChain, name: str, random: Random) -> None:
        self._load: Final = load
        self._chain: Final = chain
        self._name: Final = name
        self._random: Final = random
        self._number = 0

    async def run(self) -> None:
        doings: tuple[Callable[[], Awaitable[object]], ...] = (
            self._transfer,
            self._transfer,
            self._count,
            self._count,
            self._leave_or_return,
            self._leave_or_return,
            self._lists,
            self._lists,
            self._lists,
            self.audit,
            self.sum_up,
            lambda: self.look(self._random.choice(self._load.pairs)),
        )
        while not self._load.is_over:
            await self._random.choice(doings)()
            await asyncio.sleep(self._random.uniform(0, _PAUSE_SECONDS_MAX))

    async def until_done(self, doing: Callable[[], Awaitable[bool]]) -> None:
        """Again and again, until it is committed."""
        while True:
            if await doing():
                return
            await asyncio.sleep(self._random.uniform(0, _PAUSE_SECONDS_MAX))

    async def _do(self, kind: str, work: Callable[[Workspace], Awaitable[T]]) -> tuple[Outcome, T | None]:
        """One attempt. What is not read in time is not asked for, so it has not happened."""
        workspace = await self._chain.begin()
        try:
            found = await work(workspace)
        except (NotAccepted, TransportError, OutcomeUnknown):
            await self._chain.rollback(workspace)
            self._load.counts["without an answer to a read"] += 1
            return Outcome.ABORTED, None
        try:
            result: Result = await self._chain.commit(workspace)
        except OutcomeUnknown:
            self._load.counts[f"{kind}: unknown"] += 1
            return Outcome.UNKNOWN, found
        self._load.counts[f"{kind}: {result.ended.value}"] += 1
        return Outcome.COMMITTED if result.is_committed else Outcome.ABORTED, found

    # ---- the bank ---------------------------------------------------------------------------------------------------

    async def _transfer(self) -> None:
        giver, taker = self._random.sample(self._load.accounts, 2)
        amount = self._random.randint(1, _AMOUNT_MAX)

        async def transfer(workspace: Workspace) -> None:
            held, other = [int(await workspace.get(key) or b"") for key in (giver, taker)]
            if held >= amount:
                await workspace.put(giver, b"%d" % (held - amount))
                await workspace.put(taker, b"%d" % (other + amount))

        await self._do("transfer", transfer)

    async def audit(self) -> bool:
        """All accounts in one transaction."""

        async def read(workspace: Workspace) -> list[int]:
            return [int(await workspace.get(key) or b"") for key in self._load.accounts]

        outcome, held = await self._do("audit", read)
        if outcome is not Outcome.COMMITTED or held is None:
            return False
        self._load.note_total(sum(held), OPENING * len(held))
        self._load.wrong_totals += min(held) < 0
        return True

    # ---- counters ---------------------------------------------------------------------------------------------------

    async def _count(self) -> None:
        giver, taker = self._random.sample(self._load.counters, 2)
        amount, own = self._random.randint(1, 2), own_counter(self._name)

        async def add(workspace: Workspace) -> None:
            await workspace.add(giver, -amount)
            await workspace.add(taker, amount)
            await workspace.add(own, 1)

        outcome, _ = await self._do("addition", add)
        if outcome is Outcome.COMMITTED:
            self._load.counted[own] += 1
        elif outcome is Outcome.UNKNOWN:
            self._load.uncertain[own] += 1

    async def sum_up(self) -> bool:
        """All counters in one transaction."""

        async def read(workspace: Workspace) -> list[int]:
            return [await workspace.number(key) for key in self._load.counters]

        outcome, found = await self._do("sum", read)
        if outcome is not Outcome.COMMITTED or found is None:
            return False
        self._load.note_total(sum(found), 0)
        return True

    # ---- doctors ----------------------------------------------------------------------------------------------------

    async def _leave_or_return(self) -> None:
        pair = self._random.choice(self._load.pairs)
        own = self._random.choice(pair)

        async def decide(workspace: Workspace) -> None:
            # A doctor of two pairs leaves only if neither is left alone.
            others = {doctor for some in self._load.pairs if own in some for doctor in some} - {own}
            are_there = [await workspace.get(doctor) == ON for doctor in sorted(others)]
            is_there = await workspace.get(own) == ON
            await workspace.do(Put(own, OFF if is_there and all(are_there) else ON))

        await self._do("on call", decide)

    async def look(self, pair: Sequence[bytes]) -> bool:
        """Both of a pair in one transaction."""

        async def read(workspace: Workspace) -> list[bytes | None]:
            return [await workspace.get(doctor) for doctor in pair]

        outcome, standing = await self._do("look", read)
        if outcome is not Outcome.COMMITTED or standing is None:
            return False
        self._load.note_pair(standing)
        return True

    # ---- lists ------------------------------------------------------------------------------------------------------

    async def _lists(self) -> None:
        plan = [
            (self._load.list_key(self._random), self._random.random() < 0.5)
            for _ in range(self._random.randint(1, STEPS_MAX))
        ]
        steps: list[Step] = []

        async def work(workspace: Workspace) -> None:
            for key, is_append in plan:
                seen = await workspace.get(key)
                steps.append(Read(key, _decode(seen)))
                if is_append:
                    value = self._value()
                    await workspace.put(key, (seen or b"") + b" %d" % value)
                    steps.append(Append(key, value))

        await self._noted("lists", work, steps)

    async def read_list(self, key: bytes) -> bool:
        """See one list."""
        steps: list[Step] = []

        async def work(workspace: Workspace) -> None:
            steps.append(Read(key, _decode(await workspace.get(key))))

        return await self._noted("lists", work, steps) is Outcome.COMMITTED

    async def _noted(self, kind: str, work: Callable[[Workspace], Awaitable[None]], steps: list[Step]) -> Outcome:
        """Do it, and keep it with what came of it."""
        called = monotonic_ns()
        outcome, _ = await self._do(kind, work)
        returned = None if outcome is Outcome.UNKNOWN else monotonic_ns()
        self._load.history.append(
            Transaction(client=self._name, steps=tuple(steps), outcome=outcome, called=called, returned=returned)
        )
        return outcome

    def _value(self) -> int:
        """One that nobody else appends: the client's number is in it."""
        self._number += 1
        return self._number * 1_000 + int(self._name[1:])
