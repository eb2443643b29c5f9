"""Clients of a simulated cluster, who try again, give up and go on, and the book that knows what they may be told.

The book replays what was committed on a plain dictionary, each request where it was first done. That is one order of
all requests, so it proves a history linearizable if every answer is that of the dictionary at its place, and no place
comes before one that somebody had been told of when the request was made. It is the strict form: reads of one key never
go back behind what was seen at another.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from random import Random
from typing import Final, NoReturn, Protocol

from msgspec import Struct

from bobbin.cluster.key_value import CompareAndSwap, Delete, Item, Kind, Put, client_id
from bobbin.cluster.names import Index, NodeId
from bobbin.simulator.circumstances import MILLISECOND_NS
from bobbin.simulator.clock import Timeline
from bobbin.wire.cluster.commands import decode_outcome, encode_command

KEYS: Final = (b"apple", b"pear", b"plum")
ATTEMPTS_MAX: Final = 6


class Verb(Enum):
    """What a client asks for."""

    GET = "get"
    PUT = "put"
    DELETE = "delete"
    COMPARE_AND_SWAP = "compare and swap"


class Request(Struct, kw_only=True):
    """One request of a client, with all its repetitions."""

    client: str
    verb: Verb
    key: bytes
    called_ns: int
    floor: int
    """The last place that anybody had been told of when it was made."""
    payload: bytes = b""
    """The command; empty for a read."""
    value: bytes | None = None
    """What is to be written, or was read."""
    expected: bytes | None = None
    returned_ns: int | None = None
    """None as long as the outcome is not known to the client."""
    kind: Kind | None = None
    """Of the outcome of a write that is known."""
    is_void: bool = False
    """The client knows that it was not done, and never will be."""
    attempts: int = 0


class Answer(Enum):
    """How an attempt of a write ended."""

    DONE = "done"
    REFUSED = "refused"
    """This attempt has not been done, and will not be."""
    LOST = "lost"
    """Its place in the log was taken by something else."""


class Desk(Protocol):
    """Where requests are handed in."""

    def propose(self, node: NodeId, payload: bytes, reply: Callable[[Answer, bytes, NodeId | None], None]) -> None: ...

    def read(
        self, node: NodeId, key: bytes, reply: Callable[[int | None, Item | None, NodeId | None], None]
    ) -> None: ...


class Book:
    """What was done, in the order in which it was."""

    def __init__(self, fail: Callable[[str], NoReturn]) -> None:
        self.floor = 0
        """The last place that anybody was told of."""
        self.requests: Final[list[Request]] = []
        self.nonsense: Final[set[bytes]] = set()
        """Proposed, and no commands."""
        self._fail: Final = fail
        self._by_payload: Final[dict[bytes, Request]] = {}
        self._done: Final[dict[bytes, tuple[int, bytes]]] = {}
        """Where a command was first done, and what came of it."""
        self._times: Final[dict[bytes, list[int]]] = {}
        self._values: Final[dict[bytes, list[tuple[bytes | None, int]]]] = {}
        """By key and time of change: the value and its version."""

    def open(self, request: Request) -> None:
        """A client asks for something."""
        request.floor = self.floor
        self.requests.append(request)
        if request.payload:
            self._by_payload[request.payload] = request

    def applied(self, index: int, command: bytes, result: bytes) -> None:
        """The first node has applied a command; places come in order."""
        request = self._by_payload.get(command)
        if command in self.nonsense:
            if decode_outcome(result).kind is not Kind.NO_COMMAND:
                self._fail(f"entry {index} is no command, and gave {result!r}")
            return
        if request is None:
            self._fail(f"entry {index} has a command that nobody made: {command!r}")
        outcome = decode_outcome(result)
        if command in self._done:
            if result != self._done[command][1] and not outcome.kind.is_refusal:
                self._fail(f"entry {index} repeats entry {self._done[command][0]}, with another outcome: {outcome}")
            return
        if outcome.kind.is_refusal:
            return
        self._done[command] = (index, result)
        kind, version = self._do(index, request)
        if (outcome.kind, outcome.version) != (kind, version):
            self._fail(f"entry {index} gave {outcome}, and should have given {kind.name} at {version}")

    def _do(self, index: int, request: Request) -> tuple[Kind, int]:
        before, version = self.value_at(request.key, index)
        match request.verb:
            case Verb.PUT:
                return self._set(request.key, index, request.value)
            case Verb.COMPARE_AND_SWAP if before != request.expected:
                return Kind.DIFFERENT, version
            case Verb.COMPARE_AND_SWAP if request.value is not None:
                return self._set(request.key, index, request.value)
            case _ if before is None:
                return Kind.ABSENT, 0
            case _:
                self._set(request.key, index, None)
                return Kind.DELETED, 0

    def _set(self, key: bytes, index: int, value: bytes | None) -> tuple[Kind, int]:
        self._times.setdefault(key, []).append(index)
        self._values.setdefault(key, []).append((value, 0 if value is None else index))
        return Kind.WRITTEN, index

    def value_at(self, key: bytes, index: int) -> tuple[bytes | None, int]:
        """What a key holds after so many entries, and since when."""
        place = bisect_right(self._times.get(key, []), index)
        return self._values[key][place - 1] if place else (None, 0)

    def told_write(self, request: Request, result: bytes, now_ns: int) -> bool:
        """A client hears what came of a write; whether it now knows that it was done."""
        outcome = decode_outcome(result)
        done = self._done.get(request.payload)
        if outcome.kind.is_refusal:
            # An older repetition may have been done, before the table forgot the client.
            request.is_void = request.attempts == 1 and done is None
            return False
        if done is None or done[1] != result:
            self._fail(f"{request.client} is told {outcome} of a request of which {done} is known")
        if done[0] <= request.floor:
            self._fail(f"{request.client} is told of entry {done[0]}; its request came after {request.floor}")
        request.kind = outcome.kind
        request.returned_ns = now_ns
        self.floor = max(self.floor, done[0])
        return True

    def told_read(self, request: Request, index: int, item: Item | None, now_ns: int) -> None:
        """A client hears what a key holds, from a state that has applied so many entries."""
        if index < request.floor:
            self._fail(f"{request.client} reads at {index}, and {request.floor} had been told of before it asked")
        value, version = self.value_at(request.key, index)
        found = (None, 0) if item is None else (item.value, item.version)
        if found != (value, version):
            self._fail(f"{request.client} reads {found} of {request.key!r} at {index}, where it is {(value, version)}")
        request.value = value
        request.returned_ns = now_ns
        self.floor = max(self.floor, index)

    def final(self) -> dict[bytes, bytes]:
        """What a table holds that has applied everything."""
        newest = {key: values[-1][0] for key, values in self._values.items()}
        return {key: value for key, value in newest.items() if value is not None}


class Client:
    """One who does one thing after the other, and repeats each until an answer comes or patience ends."""

    def __init__(
        self, name: str, random: Random, timeline: Timeline, desk: Desk, book: Book, nodes: Iterable[NodeId]
    ) -> None:
        self.name: Final = name
        self.tally: Final[Counter[str]] = Counter()
        self.nodes: Final = list(nodes)
        """Of which it knows."""
        self.loss = 0.0
        """Chance that a request or an answer does not arrive."""
        self.patience_ns = 150 * MILLISECOND_NS
        self.attempts_max = ATTEMPTS_MAX
        self.whim = 0.3
        """Chance that it asks anybody instead of the one that it takes for the leader."""
        self.weights = (8, 7, 2, 4)
        """How often it gets, puts, deletes, and compares and swaps."""
        self._random: Final = random
        self._timeline: Final = timeline
        self._desk: Final = desk
        self._book: Final = book
        self._begin_anew(Index(book.floor))
        self._current: Request | None = None
        self._attempt = 0
        """Counts all attempts of all requests, so that a late answer is known for one."""
        self._target: NodeId | None = None

    @property
    def is_busy(self) -> bool:
        return self._current is not None

    def _begin_anew(self, since: Index) -> None:
        """Another id: the table may have forgotten the old one."""
        self._sequence = 0
        self._id = client_id(since, self._random.randbytes(8))

    def act(self, verb: Verb | None = None) -> Request | None:
        """Ask for something, unless an answer is awaited."""
        if self._current is not None:
            return None
        random = self._random
        verb = verb or random.choices(list(Verb), weights=self.weights)[0]
        request = self._draw(verb, random.choice(KEYS))
        self._book.open(request)
        self._current = request
        self._try(request)
        return request

    def _draw(self, verb: Verb, key: bytes) -> Request:
        request = Request(client=self.name, verb=verb, key=key, called_ns=self._timeline.now_ns, floor=0)
        if verb is Verb.GET:
            return request
        self._sequence += 1
        number = self._sequence
        value = f"{self.name}.{len(self._book.requests)}".encode()
        match verb:
            case Verb.PUT:
                request.value = value
                request.payload = encode_command(Put(self._id, number, key, value))
            case Verb.DELETE:
                request.payload = encode_command(Delete(self._id, number, key))
            case _:
                newest = self._book.value_at(key, self._book.floor)[0]
                request.expected = newest if self._random.random() < 0.7 else None
                request.value = value
                request.payload = encode_command(CompareAndSwap(self._id, number, key, request.expected, value))
        return request

    def _try(self, request: Request) -> None:
        """One attempt, at whoever is taken for the leader."""
        random = self._random
        request.attempts += 1
        self._attempt += 1
        attempt = self._attempt
        if self._target is None:
            self._target = random.choice(self.nodes)
        target = self._target
        if random.random() >= self.loss:
            delay = random.randrange(2 * MILLISECOND_NS)
            self._timeline.after(delay, lambda: self._hand_in(request, target, attempt))
        self._timeline.after(self.patience_ns, lambda: self._lose_patience(request, attempt))

    def _lose_patience(self, request: Request, attempt: int) -> None:
        if self._current is request and attempt == self._attempt:
            self._target = None
            self._wait_no_longer(request, attempt)

    def _hand_in(self, request: Request, target: NodeId, attempt: int) -> None:
        if request.verb is Verb.GET:
            self._desk.read(
                target, request.key, lambda index, item, leader: self._hear_read(request, attempt, index, item, leader)
            )
        else:
            self._desk.propose(
                target,
                request.payload,
                lambda answer, result, leader: self._hear(request, attempt, answer, result, leader),
            )

    def _hear(self, request: Request, attempt: int, answer: Answer, result: bytes, leader: NodeId | None) -> None:
        if self._current is not request or self._random.random() < self.loss:
            return
        if answer is Answer.DONE:
            # An answer to an earlier attempt is as good as one to this.
            if self._book.told_write(request, result, self._timeline.now_ns):
                self._finish("answered")
            else:
                self._begin_anew(Index(decode_outcome(result).version))
                self._finish("void" if request.is_void else "unknown")
        elif attempt == self._attempt:
            self._target = leader
            self._wait_no_longer(request, attempt)

    def _hear_read(
        self, request: Request, attempt: int, index: int | None, item: Item | None, leader: NodeId | None
    ) -> None:
        if self._current is not request or self._random.random() < self.loss:
            return
        if index is not None:
            self._book.told_read(request, index, item, self._timeline.now_ns)
            self._finish("answered")
        elif attempt == self._attempt:
            self._target = leader
            self._wait_no_longer(request, attempt)

    def _wait_no_longer(self, request: Request, attempt: int) -> None:
        """An attempt has ended without an answer: try again, or go on without ever knowing."""
        if self._current is not request or attempt != self._attempt:
            return
        if self._target is None or self._random.random() < self.whim:
            self._target = self._random.choice(self.nodes)
        if request.attempts >= self.attempts_max:
            self._finish("unknown")
            return
        self._attempt += 1
        pause = self._random.randrange(1, 20) * MILLISECOND_NS
        self._timeline.after(pause, lambda: self._try(request) if self._current is request else None)

    def _finish(self, how: str) -> None:
        self.tally[f"requests {how}"] += 1
        self._current = None
        if how == "unknown":
            self._target = None
