"""Locks and deadlocks: what a search costs as waits grow, whether one pass is enough, and what being refused costs.

All times are of the processor, in this process. The graph of 100,000 edges is compared with ten graphs of 10,000 that
take turns, so neither side finds its graph in the cache because it was just there.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Final, TypeAlias

from benchmarks.rounds import setting
from bobbin.cluster.settings import VictimSelectionPolicy
from bobbin.cluster.transactions.deadlock import DeadlockDetector, DeadlockInfo
from bobbin.cluster.transactions.locks import LockManager
from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.wait_graph import WaitForGraph
from measurement.result import Ratio, Result, Row

QUESTION: Final = (
    "Does one pass break every deadlock, does its cost grow with the edges and no faster, and what does a lock cost "
    "that somebody else holds, against one that is free?"
)
PARTS: Final = 10
"""Small graphs that together have as many edges as the large one."""
COST_RATIO_MAX: Final = 12.0

Edges: TypeAlias = list[tuple[int, int]]
Profile: TypeAlias = Callable[[int, Random], Edges]


def run() -> Result:
    """Measure."""
    rounds = setting("DEADLOCK_ROUNDS", 7)
    edges = setting("DEADLOCK_EDGES", 100_000)
    rows: list[Row] = []
    ratios: list[Ratio] = []
    for name, broken_by, shape in (("ring of 1,000", 1, ring(1_000)), ("star of 200", 1, star(200))):
        _one_pass(name, broken_by, shape, rounds, rows)
    for name, profile in PROFILES.items():
        _growth(name, profile, edges, rounds, rows, ratios)
    _locks(setting("DEADLOCK_LOCKS", 20_000), rounds, rows, ratios)
    return Result(question=QUESTION, rows=rows, ratios=ratios)


# ---- shapes --------------------------------------------------------------------------------------------------------


def ring(length: int) -> Edges:
    """Each waits for the next, and the last for the first."""
    return [(at, (at + 1) % length) for at in range(length)]


def star(points: int) -> Edges:
    """So many circles of two that have one transaction in common, which is the youngest."""
    return [edge for point in range(points) for edge in ((points, point), (point, points))]


def queues(edges: int, random: Random) -> Edges:
    """As it is mostly: everybody waits for some who came before, and a few of them in circles of two to five."""
    found: Edges = []
    count = 0
    while len(found) < edges:
        length = random.randint(2, 5) if random.random() < 0.02 else 1
        members = range(count, count + length)
        if length > 1:
            found += [(count + at, count + (at + 1) % length) for at in range(length)]
        for member in members:
            found += [(member, random.randrange(max(0, count - 500), count)) for _ in range(2) if count]
        count += length
    return list(dict.fromkeys(found))


def one_ring(edges: int, random: Random) -> Edges:
    """All of them in one circle."""
    order = random.sample(range(edges), edges)
    return [(one, order[at - 1]) for at, one in enumerate(order)]


def tangle(edges: int, random: Random) -> Edges:
    """One component in which very many have to go, more than one pass shows: three edges from each to anybody."""
    count = edges // 3
    return [(one, (one + random.randrange(1, count)) % count) for one in range(count) for _ in range(3)]


PROFILES: Final[dict[str, Profile]] = {"queues with circles": queues, "one ring": one_ring, "tangle": tangle}


def graph_of(edges: Iterable[tuple[int, int]], random: Random) -> WaitForGraph:
    """The waits as a graph; who comes later in the numbering is younger."""
    holders: dict[int, list[int]] = {}
    for waiter, holder in edges:
        holders.setdefault(waiter, []).append(holder)
    names: dict[int, TxId] = {}

    def name(number: int) -> TxId:
        return names.setdefault(number, TxId(random.randbytes(16)))

    graph = WaitForGraph()
    for waiter, some in holders.items():
        graph.wait(name(waiter), [name(holder) for holder in some], started_ms=waiter, born_ms=waiter)
    return graph


# ---- measurements --------------------------------------------------------------------------------------------------


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _one_pass(name: str, broken_by: int, edges: Edges, rounds: int, rows: list[Row]) -> None:
    graph = graph_of(edges, Random(1))
    detector = DeadlockDetector(VictimSelectionPolicy.YOUNGEST)
    found: list[DeadlockInfo] = []
    spent = [_seconds(lambda: found.__setitem__(slice(None), detector.detect(graph))) for _ in range(rounds)]
    victims = len(found)
    for info in found:
        graph.remove(info.victim)
    if victims != broken_by or detector.detect(graph):
        raise AssertionError(f"{name}: {victims} victims in one pass have not broken every circle")
    note = f"{victims} has to go, and no circle is left after one pass; median of {rounds} passes"
    rows.append(Row(name=name, value=round(statistics.median(spent) * 1_000, 3), unit="ms", note=note))


def _growth(name: str, profile: Profile, edges: int, rounds: int, rows: list[Row], ratios: list[Ratio]) -> None:
    random = Random(2)
    large = graph_of(profile(edges, random), random)
    small = [graph_of(profile(edges // PARTS, random), random) for _ in range(PARTS)]
    detector = DeadlockDetector(VictimSelectionPolicy.YOUNGEST)
    victims = len(detector.detect(large))
    spent: list[tuple[float, float]] = []
    for _ in range(rounds):
        of_small = sum(_seconds(partial(detector.detect, graph)) for graph in small) / PARTS
        spent.append((_seconds(partial(detector.detect, large)), of_small))
    per_edge = statistics.median(one for one, _ in spent) / len(large) * 1e6
    rows.append(
        Row(
            name=f"{name}, {len(large):,} edges",
            value=round(per_edge, 2),
            unit="µs per edge",
            note=f"{victims:,} to go in one pass; median of {rounds} passes",
        )
    )
    grown = sorted(one / other for one, other in spent)
    scale = len(large) / (sum(map(len, small)) / PARTS)
    ratios.append(
        Ratio(
            name=f"{name}: {edges:,} edges / {edges // PARTS:,} edges",
            value=round(statistics.median(grown), 2),
            bar=COST_RATIO_MAX,
            comparison="<=",
            note=f"{scale:.2f} times the edges; {rounds} rounds, {grown[0]:.3g} to {grown[-1]:.3g}",
        )
    )


def _locks(count: int, rounds: int, rows: list[Row], ratios: list[Ratio]) -> None:
    random = Random(3)
    owners = [TxId(random.randbytes(16)) for _ in range(count)]
    others = [TxId(random.randbytes(16)) for _ in range(count)]
    names = [(random.randbytes(12), random.randbytes(12)) for _ in range(count)]
    spent: list[tuple[float, float]] = []
    for _ in range(rounds):
        locks = LockManager(timeout_ms=30_000)
        free = _seconds(partial(_take, locks, owners, names))
        held = _seconds(partial(_wait, locks, others, names))
        if len(locks) != 2 * count or len(locks.waits) != count:
            raise AssertionError("not every lock was taken, or not every refusal has left its wait")
        spent.append((free, held))
    for at, what in enumerate(("free", "held by another one, with the wait")):
        each = statistics.median(pair[at] for pair in spent) / count * 1e6
        note = f"two names each, {count:,} times; median of {rounds} rounds"
        rows.append(Row(name=f"lock: {what}", value=round(each, 2), unit="µs", note=note))
    ratios.append(
        Ratio(
            name="lock: free / held by another one",
            value=round(statistics.median(free / held for free, held in spent), 3),
            bar=1.0,
            comparison="<=",
            note=f"{rounds} rounds",
        )
    )


def _take(locks: LockManager, owners: Sequence[TxId], names: Sequence[tuple[bytes, bytes]]) -> None:
    for owner, wanted in zip(owners, names, strict=True):
        locks.try_lock(owner, wanted, 0)


def _wait(locks: LockManager, others: Sequence[TxId], names: Sequence[tuple[bytes, bytes]]) -> None:
    for other, wanted in zip(others, names, strict=True):
        locks.lock_or_wait(other, wanted, 0)
