"""The checker of histories against brute force, and on histories of a real size."""

from collections.abc import Sequence
from itertools import chain, combinations, permutations
from random import Random

import pytest
from msgspec import structs

from tests.oracle.linearizability import Kind, Operation, Value, find_violation

KEY = b"k"


def is_explained(history: Sequence[Operation]) -> bool:
    """Every order of every selection of the unknown ones, tried one after the other."""
    known = [one for one in history if one.returned is not None]
    unknown = [one for one in history if one.returned is None]
    selections = chain.from_iterable(combinations(unknown, size) for size in range(len(unknown) + 1))
    return any(_is_order(order) for selection in selections for order in permutations([*known, *selection]))


def _is_order(order: Sequence[Operation]) -> bool:
    value: Value = None
    for place, operation in enumerate(order):
        if any(later.returned is not None and later.returned < operation.called for later in order[place + 1 :]):
            return False
        fits, value = operation.applied_to(value)
        if not fits:
            return False
    return True


def draw_operation(random: Random, number: int) -> Operation:
    called = random.randrange(12)
    kind = random.choice([*Kind, Kind.GET])
    value = random.choice((None, b"a", b"b")) if kind is Kind.GET else random.choice((b"a", b"b"))
    return Operation(
        client=str(number),
        key=KEY,
        kind=kind,
        called=called,
        returned=None if random.random() < 0.25 else called + random.randrange(6),
        value=None if kind is Kind.DELETE else value,
        expected=random.choice((None, b"a", b"b")) if kind is Kind.COMPARE_AND_SWAP else None,
        is_swapped=random.random() < 0.5 if kind is Kind.COMPARE_AND_SWAP else None,
    )


def as_known(operation: Operation) -> Operation:
    """An outcome that nobody has heard of is not in a history."""
    return structs.replace(operation, is_swapped=None) if operation.returned is None else operation


def test_small_histories_are_judged_as_by_brute_force() -> None:
    random = Random(7)
    judged = {True: 0, False: 0}
    for _ in range(700):
        history = [as_known(draw_operation(random, number)) for number in range(random.randint(1, 6))]
        expected = is_explained(history)
        assert (find_violation(history) is None) == expected, history
        judged[expected] += 1
    assert min(judged.values()) > 100, "both verdicts must be common, or nothing is shown"


def live(random: Random, operations: int, clients: int, *, keys: int, unknown: float) -> list[Operation]:
    """What clients of a dictionary see, who call it at the same time."""
    held: dict[bytes, Value] = {}
    history: list[Operation] = []
    free = [0] * clients
    for number in range(operations):
        client = min(range(clients), key=free.__getitem__)
        called = free[client]
        returned = called + random.randint(1, 50)
        free[client] = returned + random.randint(1, 20)
        history.append(
            Operation(
                client=str(client),
                key=b"%d" % random.randrange(keys),
                kind=random.choice((Kind.GET, Kind.GET, Kind.PUT, Kind.COMPARE_AND_SWAP, Kind.DELETE)),
                called=called,
                returned=returned,
                value=b"%d" % number,
            )
        )
    # Each operation takes effect in the middle of its time.
    moments = sorted(range(operations), key=lambda at: (history[at].called + (history[at].returned or 0), at))
    for at in moments:
        history[at] = _take_effect(random, history[at], held)
    return [as_known(structs.replace(one, returned=None) if random.random() < unknown else one) for one in history]


def _take_effect(random: Random, one: Operation, held: dict[bytes, Value]) -> Operation:
    before = held.get(one.key)
    match one.kind:
        case Kind.GET:
            return structs.replace(one, value=before)
        case Kind.PUT:
            held[one.key] = one.value
            return one
        case Kind.DELETE:
            held[one.key] = None
            return structs.replace(one, value=None)
        case Kind.COMPARE_AND_SWAP:
            expected = before if random.random() < 0.7 else b"nobody wrote this"
            if expected == before:
                held[one.key] = one.value
            return structs.replace(one, expected=expected, is_swapped=expected == before)


@pytest.mark.parametrize("unknown", [0.0, 0.02])
def test_a_history_that_happened_is_explained(unknown: float) -> None:
    assert find_violation(live(Random(3), 2_000, 6, keys=4, unknown=unknown)) is None


def test_one_read_of_an_old_value_is_found_among_thousands() -> None:
    history = live(Random(5), 2_000, 4, keys=2, unknown=0.0)
    reads = [at for at, one in enumerate(history) if one.kind is Kind.GET and one.value is not None]
    for at in reads[len(reads) // 2 :: 40]:
        stale = structs.replace(history[at], value=b"0")
        violation = find_violation([*history[:at], stale, *history[at + 1 :]])
        assert violation is not None
        assert stale in violation.stuck_at
        assert str(violation.key) in str(violation)


def test_a_write_of_unknown_outcome_may_be_seen_late_or_never_and_not_undone() -> None:
    def operation(kind: Kind, called: int, returned: int | None, value: Value = None) -> Operation:
        return Operation(client="c", key=KEY, kind=kind, called=called, returned=returned, value=value)

    first = operation(Kind.PUT, 0, 1, b"a")
    unknown = operation(Kind.PUT, 2, None, b"b")
    assert find_violation([first, unknown, operation(Kind.GET, 5, 6, b"a")]) is None
    seen = [first, unknown, operation(Kind.GET, 50, 60, b"b")]
    assert find_violation(seen) is None
    assert find_violation([*seen, operation(Kind.GET, 61, 62, b"a")]) is not None
    assert find_violation([first, operation(Kind.GET, 5, 6, b"b")]) is not None, "nobody wrote it"


@pytest.mark.slow
def test_a_hundred_thousand_operations_are_explained() -> None:
    assert find_violation(live(Random(11), 100_000, 8, keys=10, unknown=0.001)) is None
    assert find_violation(live(Random(12), 20_000, 4, keys=1, unknown=0.0)) is None
