"""Clients of a world of transactions, and the book of what each wanted, saw and was told.

A client reads, thinks, and asks for a transaction: money from one account to another, a value behind one or several
lists, one of two watches to end as long as somebody has the other, counters, pairs that are always alike, rows of a
table, vectors, marks that are the same for everybody, keys that come and go, what the state may refuse, keys of its
own, or only to look. What is not answered it asks again under the same id; after a while it gives up and does not know.

Most refusals are final for an id, whoever leads afterwards. That shards were busy is not: it is about one request, and
another one that is still on its way may come to something.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from random import Random
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import MILLISECOND_NS
from bobbin.cluster.operations import (
    CompareAndSwap,
    CounterAdd,
    Delete,
    Operation,
    Put,
    ReadVersion,
    TableInsert,
    Transaction,
    Update,
    VectorAdd,
    affected_key,
)
from bobbin.cluster.shard.effects import Answer
from bobbin.cluster.shard.events import Abort, Begin, Commit, Event, Validate
from bobbin.cluster.shard.placing import shard_of
from bobbin.cluster.transactions.names import ShardId, TxId, tx_id
from bobbin.cluster.transactions.phases import Ended
from bobbin.simulator.clock import Action, Timeline
from bobbin.simulator.transaction_shape import WISHES, Shape
from bobbin.simulator.transaction_shard import Reading

ACCOUNT_START: Final = 100
TIMEOUT_MS: Final = 1_500
"""Until a client asks again."""
ATTEMPTS_MAX: Final = 4
LOOK_NS_MAX: Final = 4 * MILLISECOND_NS
"""From reading to asking whether it stands, or to asking in a hurry."""
PLAIN_KEYS: Final = 40
"""Many, so that those who put something there seldom meet."""

FINAL: Final = frozenset({Ended.CONFLICT, Ended.ABORTED, Ended.REFUSED})
"""Whoever hears this knows that nothing of the transaction is done or ever will be, whoever leads."""

Seen: TypeAlias = tuple[bytes | None, int]
"""A value and its version."""


class Status(Enum):
    """What the client knows of its transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    REFUSED = "refused"
    """By a word that is final, or every request for it was answered, and none by a commit."""
    UNKNOWN = "unknown"


class Wanted(Struct, kw_only=True):
    """One transaction of one client."""

    number: int
    client: int
    wish: str
    tx: TxId
    parts: tuple[tuple[ShardId, Transaction], ...]
    seen: dict[bytes, bytes | None]
    """What was read."""
    called_ns: int
    coordinator: ShardId
    appended: tuple[tuple[bytes, int], ...] = ()
    """Values put behind lists."""
    status: Status = Status.OPEN
    returned_ns: int | None = None
    attempts: int = 0
    requests: int = 0
    """That were lost or will arrive, doubled ones each on their own."""
    refusals: int = 0
    """Of them, answered by anything but a commit."""
    answers: list[Ended] = []

    @property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(operation for _, part in self.parts for operation in part.operations)


class Shards(Protocol):
    """What a client asks of its world."""

    @property
    def timeline(self) -> Timeline: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def is_traced(self) -> bool: ...

    is_troubled: bool

    def read(self, shard: ShardId, keys: list[bytes]) -> Reading | None: ...

    def ask(self, shard: ShardId, make: Callable[[int], Event], reply: Callable[[Answer], None]) -> bool: ...

    def carry(self, arrive: Action) -> int:
        """Over a link that promises nothing. How often it will arrive, which only the book may know."""
        ...

    def tell(self, line: str) -> None: ...

    def ended(self, wanted: Wanted) -> None:
        """A client knows how its transaction ended, or has given up."""
        ...


def account(number: int) -> bytes:
    """Money; all accounts together hold what they held in the beginning."""
    return b"account %d" % number


def watch(pair: int, place: int) -> bytes:
    """One of two watches, not both of which may be off."""
    return b"watch %d %d" % (pair, place)


def twin(pair: int, place: int) -> bytes:
    """One of two that are always alike."""
    return b"twin %d %d" % (pair, place)


def written_list(values: Iterable[int]) -> bytes:
    """The values of a list, as it is stored."""
    return b",".join(b"%d" % value for value in values)


def read_list(stored: bytes | None) -> tuple[int, ...]:
    """And back."""
    return tuple(map(int, stored.split(b","))) if stored else ()


class Client:
    """One client, who does one thing after the other."""

    def __init__(self, number: int, world: Shards, random: Random, book: list[Wanted]) -> None:
        self.number: Final = number
        self.tally: Final[Counter[str]] = Counter()
        self.current: Wanted | None = None
        self._world: Final = world
        self._random: Final = random
        self._book: Final = book
        self._born_ms = 0
        self._token = 0

    def act(self, wish: str | None = None, *, crowded: ShardId | None = None) -> bool:
        """Begin a transaction; False if a shard that it would read has no leader, or one is under way.

        ``crowded``: many want something of this shard now, and all of them at once.
        """
        if self.current is not None:
            return False
        if crowded is not None and self._random.random() < 0.5:
            wish = "plain"
        wish = wish or self._random.choices(WISHES, weights=self._world.shape.wishes)[0]
        keys = self._keys(wish) if wish != "plain" else [self._draw_plain(crowded)]
        called_ns = self._world.timeline.now_ns
        found = self._read(keys)
        if found is None:
            return False
        readings, heights = found
        blind, operations, appended = self._plan(wish, keys, readings)
        reads = [] if blind else keys
        wanted = self._make(wish, reads, readings, heights, operations, appended, called_ns)
        self._book.append(wanted)
        self.current = wanted
        self._token += 1
        if self._world.is_traced:
            self._world.tell(f"client {self.number}: {wanted.number} wants {wish} {wanted.tx.hex()} {wanted.parts}")
        # Whoever only looks has nothing to think about.
        is_quick = wish == "audit" or crowded is not None
        think_ns_max = LOOK_NS_MAX if is_quick else self._world.shape.think_ns_max
        self._after(think_ns_max, self._token, self._send)
        return True

    # ---- what to do ------------------------------------------------------------------------------------------------

    def _keys(self, wish: str) -> list[bytes]:
        """What is read, or written blindly; the height of each one's shard is taken now."""
        random, keys = self._random, self._world.shape.keys
        match wish:
            case "transfer":
                return [account(number) for number in random.sample(range(keys + 1), 2)]
            case "append":
                return [b"list %d" % number for number in random.sample(range(keys + 1), random.randint(1, 2))]
            case "skew":
                pair = random.randrange(keys)
                return [watch(pair, 0), watch(pair, 1)]
            case "count":
                return [b"counter %d" % number for number in random.sample(range(keys + 1), random.randint(1, 2))]
            case "pair":
                pair = random.randrange(keys)
                return [twin(pair, 0), twin(pair, 1)]
            case "rows":
                return [b"rows %d" % number for number in random.sample(range(keys + 1), random.randint(1, 2))]
            case "vectors":
                return [b"vector %d" % random.randrange(keys + 1)]
            case "mark":
                return [b"mark %d" % random.randrange(keys)]
            case "odd":
                return [b"odd %d" % random.randrange(keys)]
            case "fleeting":
                return [b"fleeting %d" % number for number in random.sample(range(keys + 1), 2)]
            case _:
                return self._keys_of_audit()

    def _draw_plain(self, shard: ShardId | None) -> bytes:
        """A key that few others want, of a shard if it is to be of that one."""
        while True:
            key = b"plain %d" % self._random.randrange(PLAIN_KEYS)
            if shard is None or shard_of(key, self._world.shape.shards) == shard:
                return key

    def _keys_of_audit(self) -> list[bytes]:
        """Only to look: all accounts, both of a pair, or some lists."""
        random, keys = self._random, self._world.shape.keys
        what = random.choice(("accounts", "twins", "lists"))
        if what == "accounts":
            return [account(number) for number in range(keys + 1)]
        if what == "twins":
            pair = random.randrange(keys)
            return [twin(pair, 0), twin(pair, 1)]
        return [b"list %d" % number for number in range(keys + 1)]

    def _plan(
        self, wish: str, keys: list[bytes], readings: dict[bytes, Seen]
    ) -> tuple[bool, list[Operation], list[tuple[bytes, int]]]:
        """Whether it is blind, the operations, and what is put behind lists."""
        random, number = self._random, len(self._book) + 1
        held = {key: readings[key][0] for key in keys}
        match wish:
            case "transfer":
                amount = random.randint(1, 9)
                balances = [int(held[key] or ACCOUNT_START) for key in keys]
                moved = (balances[0] - amount, balances[1] + amount)
                return False, [Put(key, b"%d" % balance) for key, balance in zip(keys, moved, strict=True)], []
            case "append":
                chosen = [key for key in keys if random.random() < 0.75]
                operations: list[Operation] = [
                    Put(key, written_list((*read_list(held[key]), number))) for key in chosen
                ]
                return False, operations, [(key, number) for key in chosen]
            case "skew":
                on_watch = [key for key in keys if held[key] != b"off"]
                if len(on_watch) == len(keys):
                    return False, [Put(random.choice(keys), b"off")], []
                return False, [Put(key, b"on") for key in keys if key not in on_watch], []
            case "count":
                amount = random.choice((1, 1, 2, -1, 5))
                return True, [CounterAdd(key, amount) for key in keys], []
            case "pair":
                return True, [Put(key, b"%d" % number) for key in keys], []
            case "rows":
                return True, [TableInsert(key, (b"%d" % number, b"row")) for key in keys], []
            case "vectors":
                size = self._world.shape.chain.embedding_dimension
                vector = Embedding.dense(tuple(float(random.randint(-3, 3)) for _ in range(size)))
                return True, [VectorAdd(keys[0], vector)], []
            case "mark":
                # The same to the byte for everybody: one may stand for several.
                return True, [Put(keys[0], b"done")], []
            case "plain":
                return True, [Put(keys[0], b"%d" % number)], []
            case "odd":
                return True, [self._draw_odd(keys[0])], []
            case "fleeting":
                here = held[keys[0]] is not None
                return False, [Delete(keys[0]) if here else Put(keys[0], b"%d" % number)], []
            case _:
                return False, [], []

    def _draw_odd(self, key: bytes) -> Operation:
        """What the state may refuse, by what it meets, without the transaction being refused."""
        return self._random.choice(
            (Put(key, b"text"), CounterAdd(key, 1), Update(key, b"more"), CompareAndSwap(key, b"text", b"swapped"))
        )

    def _read(self, keys: list[bytes]) -> tuple[dict[bytes, Seen], dict[ShardId, Reading]] | None:
        shards = self._world.shape.shards
        by_shard: dict[ShardId, list[bytes]] = {}
        for key in keys:
            by_shard.setdefault(shard_of(key, shards), []).append(key)
        readings: dict[bytes, Seen] = {}
        heights: dict[ShardId, Reading] = {}
        for shard, of_shard in sorted(by_shard.items()):
            found = self._world.read(shard, of_shard)
            if found is None:
                return None
            readings.update(zip(of_shard, found.items, strict=True))
            heights[shard] = found
        return readings, heights

    def _make(
        self,
        wish: str,
        reads: list[bytes],
        readings: dict[bytes, Seen],
        heights: dict[ShardId, Reading],
        operations: list[Operation],
        appended: list[tuple[bytes, int]],
        called_ns: int,
    ) -> Wanted:
        random, shards = self._random, self._world.shape.shards
        involved = sorted(
            {shard_of(key, shards) for key in reads} | {shard_of(affected_key(one), shards) for one in operations}
        )
        # The coordinator may be one that takes no part.
        coordinator = ShardId(random.randrange(shards)) if random.random() < 0.2 else random.choice(involved)
        if coordinator not in heights:
            found = self._world.read(coordinator, [])
            if found is None:
                coordinator = involved[0]
            else:
                heights = {**heights, coordinator: found}
        home = heights[coordinator if len(involved) > 1 else involved[0]]
        tx = tx_id(home.newest_id, random.randbytes(8))
        parts = []
        for shard in involved:
            part = Transaction(
                id=tx,
                operations=tuple(one for one in operations if shard_of(affected_key(one), shards) == shard),
                reads=tuple(
                    ReadVersion(key, readings[key][1]) for key in sorted(reads) if shard_of(key, shards) == shard
                ),
                since=heights[shard].height,
                born_ms=self._born_ms or called_ns // MILLISECOND_NS,
                priority=self.number,
            )
            parts.append((shard, part))
        return Wanted(
            number=len(self._book) + 1,
            client=self.number,
            wish=wish,
            tx=tx,
            parts=tuple(parts),
            seen={key: readings[key][0] for key in reads},
            called_ns=called_ns,
            coordinator=coordinator,
            appended=tuple(appended),
        )

    # ---- asking ----------------------------------------------------------------------------------------------------

    def _after(self, ns_max: int, token: int, action: Action) -> None:
        def happen() -> None:
            if self._token == token:
                action()

        self._world.timeline.after(self._random.randrange(1, ns_max), happen)

    def _send(self) -> None:
        """Ask, and wait for a while."""
        wanted, world = self.current, self._world
        assert wanted is not None
        self._token += 1
        token = self._token
        if wanted.attempts >= ATTEMPTS_MAX:
            self._end(wanted, Status.UNKNOWN)
            return
        shard, make = self._event(wanted)
        wanted.attempts += 1

        def arrive() -> None:
            if not world.ask(shard, make, answer):
                world.carry(_once(lambda: self._hear_nobody(wanted)))

        def answer(said: Answer) -> None:
            world.carry(_once(lambda: self._hear(wanted, said)))

        wanted.requests += max(world.carry(arrive), 1)
        world.timeline.after(TIMEOUT_MS * MILLISECOND_NS, lambda: self._send() if self._token == token else None)
        if len(wanted.parts) > 1 and world.is_troubled and self._random.random() < 0.1:
            self._after(TIMEOUT_MS * MILLISECOND_NS, token, lambda: self._take_back(wanted))

    def _event(self, wanted: Wanted) -> tuple[ShardId, Callable[[int], Event]]:
        shard, part = wanted.parts[0]
        if len(wanted.parts) > 1:
            timeout_ms = self._world.shape.config.prepare_timeout_ms
            return wanted.coordinator, lambda request: Begin(request, wanted.tx, wanted.parts, timeout_ms)
        if not part.operations:
            return shard, lambda request: Validate(request, part.reads)
        return shard, lambda request: Commit(request, part)

    def _take_back(self, wanted: Wanted) -> None:
        self.tally["transactions taken back"] += 1
        self._world.ask(wanted.coordinator, lambda request: Abort(request, wanted.tx), lambda _: None)

    def _hear_nobody(self, wanted: Wanted) -> None:
        """There was no leader to take it: that request has come to nothing."""
        wanted.refusals += 1

    def _hear(self, wanted: Wanted, answer: Answer) -> None:
        wanted.answers.append(answer.ended)
        self._world.tell(f"client {self.number}: {wanted.number} hears {answer.ended.value} {answer.reason}")
        if answer.ended not in {Ended.COMMITTED, Ended.FORGOTTEN}:
            wanted.refusals += 1
        if self.current is not wanted:
            # Too late for the client; the book learns what was meant all the same.
            if answer.ended is Ended.COMMITTED and wanted.status is Status.UNKNOWN:
                wanted.status = Status.COMMITTED
                wanted.returned_ns = self._world.timeline.now_ns
            return
        if answer.ended is Ended.COMMITTED:
            self._end(wanted, Status.COMMITTED)
        elif answer.ended in FINAL or wanted.refusals == wanted.requests:
            self._end(wanted, Status.REFUSED)

    def _end(self, wanted: Wanted, status: Status) -> None:
        wanted.status = status
        if status is not Status.UNKNOWN:
            wanted.returned_ns = self._world.timeline.now_ns
        # Whoever was refused tries something again, and is as old as before.
        self._born_ms = wanted.parts[0][1].born_ms if status is Status.REFUSED else 0
        self.tally[f"transactions {status.value}"] += 1
        if status is Status.COMMITTED:
            self.tally[f"committed: {wanted.wish}"] += 1
            self.tally["committed over several shards"] += len(wanted.parts) > 1
        self.current = None
        self._token += 1
        self._world.ended(wanted)


def _once(hear: Callable[[], None]) -> Callable[[], None]:
    """For what may come doubled: it counts once."""
    is_new = True

    def hear_once() -> None:
        nonlocal is_new
        if is_new:
            is_new = False
            hear()

    return hear_once
