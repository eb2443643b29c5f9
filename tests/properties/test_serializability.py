"""The checker of transactions: each anomaly by hand, small histories against brute force, and one of a real size."""

from collections.abc import Sequence
from itertools import chain, combinations, permutations
from random import Random

import pytest
from msgspec import structs

from tests.oracle.serializability import Anomaly, Append, Kind, Outcome, Read, Step, Transaction, find_anomaly

X, Y, Z = b"x", b"y", b"z"


def committed(*steps: Step, called: int = 0, returned: int = 1_000) -> Transaction:
    """One of many that run at the same time, unless it is said when."""
    return Transaction(client="c", steps=steps, outcome=Outcome.COMMITTED, called=called, returned=returned)


def unknown(*steps: Step, called: int = 0) -> Transaction:
    return Transaction(client="c", steps=steps, outcome=Outcome.UNKNOWN, called=called)


def aborted(*steps: Step) -> Transaction:
    return Transaction(client="c", steps=steps, outcome=Outcome.ABORTED, called=0, returned=9)


def kind_of(*history: Transaction, is_strict: bool = True) -> Kind | None:
    found = find_anomaly(history, is_strict=is_strict)
    return found.kind if found else None


ANOMALIES = {
    Kind.G0: [
        committed(Append(X, 1), Append(Y, 1)),
        committed(Append(X, 2), Append(Y, 2)),
        committed(Read(X, (1, 2))),
        committed(Read(Y, (2, 1))),
    ],
    Kind.G1A: [aborted(Append(X, 1)), committed(Read(X, (1,)))],
    Kind.G1B: [committed(Append(X, 1), Append(X, 2)), committed(Read(X, (1,)))],
    Kind.G1C: [committed(Append(X, 1), Read(Y, (1,))), committed(Append(Y, 1), Read(X, (1,)))],
    # A lost update: both read the empty list, and both wrote.
    Kind.G_SINGLE: [
        committed(Read(X, ()), Append(X, 1)),
        committed(Read(X, ()), Append(X, 2)),
        committed(Read(X, (1, 2))),
    ],
    # Write skew: each writes what the other has read, and neither has seen the other.
    Kind.G2: [
        committed(Read(X, ()), Append(Y, 1)),
        committed(Read(Y, ()), Append(X, 1)),
        committed(Read(X, (1,)), Read(Y, (1,))),
    ],
    Kind.INTERNAL: [committed(Append(X, 1), Read(X, ()))],
    Kind.GARBAGE: [committed(Read(X, (7,)))],
    Kind.DOUBLED: [committed(Append(X, 1)), committed(Read(X, (1, 1)))],
    Kind.FORKED: [
        committed(Append(X, 1)),
        committed(Append(X, 2)),
        committed(Read(X, (1, 2))),
        committed(Read(X, (2, 1))),
    ],
}


@pytest.mark.parametrize("kind", Kind)
def test_each_anomaly_has_its_name(kind: Kind) -> None:
    found = find_anomaly(ANOMALIES[kind])
    assert found is not None
    assert found.kind is kind
    assert found.kind.value in str(found)
    assert not found.is_only_of_time


def test_a_circle_is_shown_with_its_edges() -> None:
    assert find_anomaly(ANOMALIES[Kind.G_SINGLE]) == Anomaly(
        kind=Kind.G_SINGLE, transactions=(1, 0), edges=("rw", "ww")
    )
    found = find_anomaly(ANOMALIES[Kind.G2])
    assert found is not None
    assert set(found.edges) == {"rw"}
    assert set(found.transactions) == {0, 1}
    assert "-rw->" in str(found)


def test_write_skew_is_seen_though_nobody_reads_afterwards() -> None:
    assert kind_of(committed(Read(X, ()), Append(Y, 1)), committed(Read(Y, ()), Append(X, 1))) is Kind.G2


def test_a_lost_update_is_seen_though_nobody_reads_afterwards() -> None:
    both = [committed(Read(X, ()), Append(X, value)) for value in (1, 2)]
    assert kind_of(*both) is Kind.G2
    assert kind_of(both[0], structs.replace(both[1], outcome=Outcome.UNKNOWN, returned=None)) is None


def test_the_repeated_read_of_one_transaction_must_not_change() -> None:
    assert kind_of(committed(Append(X, 1)), committed(Read(X, ()), Read(X, (1,)))) is Kind.INTERNAL


def test_own_values_are_seen_behind_those_of_others() -> None:
    assert kind_of(committed(Append(X, 1)), committed(Append(X, 2), Read(X, (1, 2)))) is None
    assert kind_of(committed(Append(X, 1)), committed(Append(X, 2), Read(X, (2, 1)))) is Kind.INTERNAL


def test_one_that_ended_stands_before_one_that_is_called_later() -> None:
    early = committed(Append(X, 1), called=0, returned=10)
    stale = committed(Read(X, ()), called=11, returned=12)
    assert kind_of(early, stale, is_strict=False) is None
    found = find_anomaly([early, stale])
    assert found is not None
    assert (found.kind, found.is_only_of_time) == (Kind.G_SINGLE, True)
    assert kind_of(early, structs.replace(stale, called=10)) is None, "at the same moment either may be first"


def test_what_nobody_knows_may_have_happened_or_not() -> None:
    maybe = unknown(Append(X, 1), Read(Y, (1,)), called=5)
    assert kind_of(maybe, committed(Read(X, ()), called=100)) is None
    seen = committed(Read(X, (1,)), called=100)
    assert kind_of(maybe, seen) is Kind.GARBAGE, "it has happened, so what it read must have been there"
    wrote = committed(Append(Y, 1), called=50, returned=60)
    assert kind_of(maybe, seen, wrote) is None, "it may take effect long after it was called"
    late = structs.replace(wrote, called=5_000, returned=6_000)
    assert kind_of(maybe, seen, late) is Kind.G1C
    assert kind_of(unknown(Append(X, 1), called=50), committed(Read(X, (1,)), called=0, returned=49)) is Kind.G1C


def test_a_value_is_not_written_twice() -> None:
    with pytest.raises(ValueError, match="appended"):
        find_anomaly([committed(Append(X, 1)), committed(Append(X, 1))])


# ---- brute force -----------------------------------------------------------------------------------------------------


def is_explained(history: Sequence[Transaction], *, is_strict: bool) -> bool:
    """Every order of every selection of the unknown ones, tried one after the other."""
    known = [one for one in history if one.outcome is Outcome.COMMITTED]
    open_ones = [one for one in history if one.outcome is Outcome.UNKNOWN]
    selections = chain.from_iterable(combinations(open_ones, size) for size in range(len(open_ones) + 1))
    return any(
        is_order(order, is_strict=is_strict) for selection in selections for order in permutations([*known, *selection])
    )


def is_order(order: Sequence[Transaction], *, is_strict: bool) -> bool:
    lists: dict[bytes, tuple[int, ...]] = {}
    for place, transaction in enumerate(order):
        called = transaction.called
        if is_strict and any(one.returned is not None and one.returned < called for one in order[place + 1 :]):
            return False
        for step in transaction.steps:
            held = lists.get(step.key, ())
            if isinstance(step, Read):
                if step.seen != held:
                    return False
            else:
                lists[step.key] = (*held, step.value)
    return True


def draw_history(random: Random) -> list[Transaction]:
    """Small lists and times, so that some histories can be explained and others nearly."""
    count = random.randint(2, 5)
    values = dict.fromkeys((X, Y), 0)
    shells: list[list[tuple[bytes, int | None]]] = []
    for _ in range(count):
        steps: list[tuple[bytes, int | None]] = []
        for _ in range(random.randint(1, 3)):
            key = random.choice((X, Y))
            if random.random() < 0.5:
                values[key] += 1
                steps.append((key, values[key]))
            else:
                steps.append((key, None))
        shells.append(steps)
    # One order of some of them gives what is read; then a read or two may be spoilt.
    outcomes = [random.choices((Outcome.COMMITTED, Outcome.UNKNOWN, Outcome.ABORTED), (8, 2, 1))[0] for _ in shells]
    lists: dict[bytes, tuple[int, ...]] = {X: (), Y: ()}
    made: dict[int, tuple[Step, ...]] = {}
    for at in random.sample(range(count), count):
        steps_of: list[Step] = []
        held = dict(lists)
        for key, value in shells[at]:
            if value is None:
                seen = held[key]
                if random.random() < 0.15:
                    seen = random.choice((seen[:-1], (), tuple(range(1, values[key] + 1))))
                steps_of.append(Read(key, seen))
            else:
                held[key] = (*held[key], value)
                steps_of.append(Append(key, value))
        made[at] = tuple(steps_of)
        if outcomes[at] is Outcome.COMMITTED or (outcomes[at] is Outcome.UNKNOWN and random.random() < 0.5):
            lists = held
    history = []
    for at in range(count):
        called = random.randrange(8)
        returned = None if outcomes[at] is Outcome.UNKNOWN else called + random.randrange(8)
        history.append(
            Transaction(client=str(at), steps=made[at], outcome=outcomes[at], called=called, returned=returned)
        )
    return history


@pytest.mark.parametrize("is_strict", [True, False])
def test_small_histories_are_judged_as_by_brute_force(*, is_strict: bool) -> None:
    random = Random(5)
    judged = {True: 0, False: 0}
    for _ in range(1_500):
        history = draw_history(random)
        expected = is_explained(history, is_strict=is_strict)
        assert (find_anomaly(history, is_strict=is_strict) is None) == expected, history
        judged[expected] += 1
    assert min(judged.values()) > 200, "both verdicts must be common, or nothing is shown"


# ---- size ------------------------------------------------------------------------------------------------------------


def live(random: Random, transactions: int, *, clients: int, keys: int, reads_max: int) -> list[Transaction]:
    """What clients of one table of lists see, each of whose transactions takes effect in the middle of its time.

    Lists are begun anew after so many values, or what is read would grow with the square of the history.
    """
    shells: list[tuple[int, int]] = []
    free = [0] * clients
    for _ in range(transactions):
        client = min(range(clients), key=free.__getitem__)
        called = free[client]
        returned = called + random.randint(1, 50)
        free[client] = returned + random.randint(1, 20)
        shells.append((called, returned))
    lists: dict[int, tuple[int, ...]] = {}
    names = list(range(keys))
    history: dict[int, Transaction] = {}
    for at in sorted(range(transactions), key=lambda at: (sum(shells[at]), at)):
        steps: list[Step] = []
        for place in random.sample(range(keys), 2):
            name = names[place]
            held = lists.get(name, ())
            steps.append(Read(b"%d" % name, held))
            if random.random() < 0.7:
                lists[name] = (*held, at)
                steps.append(Append(b"%d" % name, at))
                if len(lists[name]) >= reads_max:
                    names[place] = max(names) + 1
        called, returned = shells[at]
        history[at] = committed(*steps, called=called, returned=returned)
    return [history[at] for at in range(transactions)]


def test_one_early_read_is_found_among_thousands() -> None:
    history = live(Random(3), 3_000, clients=6, keys=8, reads_max=40)
    assert find_anomaly(history) is None
    at, read = next(
        (at, step)
        for at, one in enumerate(history[1_500:], 1_500)
        for step in one.steps
        if isinstance(step, Read) and len(step.seen) > 5
    )
    steps = tuple(Read(step.key, step.seen[:-3]) if step is read else step for step in history[at].steps)
    found = find_anomaly([*history[:at], structs.replace(history[at], steps=steps), *history[at + 1 :]])
    assert found is not None
    assert at in found.transactions


@pytest.mark.slow
def test_a_hundred_thousand_operations_are_explained() -> None:
    history = live(Random(11), 30_000, clients=8, keys=10, reads_max=40)
    assert sum(len(one.steps) for one in history) > 100_000
    assert find_anomaly(history) is None
