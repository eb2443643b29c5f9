"""Whether one order of all operations explains what every client saw.

A history is linearizable if each operation can be given one moment between its call and its return, such that the
results are those of a plain dictionary used at these moments one after the other. Keys do not touch each other, so each
is looked at alone. An operation whose outcome nobody knows has a call and no return: it may have happened at any moment
after its call, or never, and stays open for ever.

The search is that of Wing and Gong with the memory of Lowe: take any operation that no open one must precede, do it, go
on; come back when stuck; never look at the same (set of done operations, value) twice. Operations of one key stand in
the order of their calls and nearly all early ones are done, so a set is the place of the first one that is not and a
few bits after it. An operation that fits and can write nowhere can be done at once: whatever order there is, moving it
forward to here leaves it valid.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, TypeAlias

from msgspec import Struct

Value: TypeAlias = bytes | None
"""What a key holds; None if nothing."""

_BEFORE_ALL: Final = -1


class Kind(Enum):
    """What is done to a key."""

    GET = "get"
    PUT = "put"
    DELETE = "delete"
    COMPARE_AND_SWAP = "compare and swap"


class Operation(Struct, frozen=True, kw_only=True):
    """One request of one client, repetitions of it included."""

    client: str
    key: bytes
    kind: Kind
    called: int
    returned: int | None = None
    """None as long as nobody knows the outcome. One that is known not to have happened is left out of the history."""
    value: Value = None
    """What is written, or was read."""
    expected: Value = None
    is_swapped: bool | None = None
    """Of a compare and swap with a known outcome."""

    @property
    def is_read(self) -> bool:
        """A result that says that nothing was written."""
        return self.kind is Kind.GET or self.is_swapped is False

    def applied_to(self, value: Value) -> tuple[bool, Value]:
        """Whether the result fits a key that holds this value, and what it holds then."""
        match self.kind:
            case Kind.GET:
                return self.returned is None or self.value == value, value
            case Kind.PUT:
                return True, self.value
            case Kind.DELETE:
                return True, None
            case Kind.COMPARE_AND_SWAP:
                swaps = value == self.expected
                fits = self.is_swapped is None or self.is_swapped == swaps
                return fits, self.value if swaps else value


class Violation(Struct, frozen=True, kw_only=True):
    """No order explains what was seen at a key."""

    key: bytes
    stuck_at: tuple[Operation, ...]
    """In the longest order that was found, these could come next, and none of them fits."""
    explained: int
    """Operations in that order."""
    value: Value
    """What the key would hold after them."""

    def __str__(self) -> str:
        return (
            f"key {self.key!r}: after {self.explained} operations it holds {self.value!r}, and none of these fits: "
            f"{'; '.join(map(str, self.stuck_at))}"
        )


def find_violation(history: Iterable[Operation], initial: Value = None) -> Violation | None:
    """The first key, in order, whose operations no order explains."""
    by_key: dict[bytes, list[Operation]] = {}
    for operation in history:
        by_key.setdefault(operation.key, []).append(operation)
    for key in sorted(by_key):
        if (violation := _Search(key, by_key[key], initial).run()) is not None:
            return violation
    return None


class _Place(Struct):
    """Where the search stands: what is done, what the key holds, and what may be tried next."""

    first: int
    """Of the operations with a known outcome, in order of their calls, the first that is not done."""
    done_after: int
    """Bit n: the operation n + 1 places after the first one is done."""
    open_done: int
    """Bit n: the n-th operation of unknown outcome has been taken to be done."""
    value: Value
    choices: list[tuple[int, int, int, Value]]
    """Places that can be reached by one operation."""


class _Search:
    """All orders of the operations of one key, until one is found."""

    def __init__(self, key: bytes, operations: Sequence[Operation], initial: Value) -> None:
        ordered = sorted(operations, key=lambda one: one.called)
        self._key: Final = key
        self._known: Final = [one for one in ordered if one.returned is not None]
        self._returns: Final = [one.returned for one in ordered if one.returned is not None]
        # A read that nobody has seen the result of says nothing.
        self._open: Final = [one for one in ordered if one.returned is None and one.kind is not Kind.GET]
        self._seen: Final[set[tuple[int, int, int, Value]]] = set()
        self._furthest: tuple[int, int, int, Value] = (0, 0, 0, initial)
        self._furthest_done = _BEFORE_ALL

    def run(self) -> Violation | None:
        """Search; None if there is an order."""
        known = len(self._known)
        stack: list[_Place] = []
        at: tuple[int, int, int, Value] | None = self._furthest
        while True:
            if at is not None and at not in self._seen:
                self._seen.add(at)
                if at[0] == known:
                    return None
                self._note(at)
                stack.append(_Place(*at, choices=self._choices(*at)))
            while stack and not stack[-1].choices:
                stack.pop()
            if not stack:
                return self._violation()
            at = stack[-1].choices.pop()

    def _choices(self, first: int, done_after: int, open_done: int, value: Value) -> list[tuple[int, int, int, Value]]:
        """Where one further operation leads; the last of them is tried first."""
        taken: list[tuple[int, int, int, Value]] = []
        for place in self._candidates(first, done_after):
            fits, after = self._known[place].applied_to(value)
            if not fits:
                continue
            reached = (*_with(first, done_after, place), open_done, after)
            if self._known[place].is_read:
                return [reached]
            taken.append(reached)
        taken.reverse()
        limit = self._earliest_return(first, done_after)
        unknown: list[tuple[int, int, int, Value]] = []
        for number, operation in enumerate(self._open):
            if operation.called > limit:
                break
            if not open_done >> number & 1:
                after = operation.applied_to(value)[1]
                if after != value:
                    unknown.append((first, done_after, open_done | 1 << number, after))
        return unknown + taken

    def _candidates(self, first: int, done_after: int) -> list[int]:
        """Operations of known outcome that are not done, and that no other such one must precede."""
        known, returns = self._known, self._returns
        found = [first]
        limit = returns[first]
        place, bits = first + 1, done_after
        while place < len(known) and known[place].called <= limit:
            if not bits & 1:
                found.append(place)
                limit = min(limit, returns[place])
            bits >>= 1
            place += 1
        return found

    def _earliest_return(self, first: int, done_after: int) -> int:
        return min(self._returns[place] for place in self._candidates(first, done_after))

    def _note(self, at: tuple[int, int, int, Value]) -> None:
        done = at[0] + at[1].bit_count()
        if done > self._furthest_done:
            self._furthest_done, self._furthest = done, at

    def _violation(self) -> Violation:
        first, done_after, _, value = self._furthest
        stuck = tuple(self._known[place] for place in self._candidates(first, done_after))
        return Violation(key=self._key, stuck_at=stuck, explained=self._furthest_done, value=value)


def _with(first: int, done_after: int, place: int) -> tuple[int, int]:
    """The set of done operations with one more in it."""
    if place != first:
        return first, done_after | 1 << (place - first - 1)
    first += 1
    while done_after & 1:
        done_after >>= 1
        first += 1
    return first, done_after >> 1
