"""The benchmark of locks and deadlocks, at a small size: its shapes are what they are called, and it runs."""

from random import Random

import pytest

from benchmarks import deadlock
from bobbin.cluster.settings import VictimSelectionPolicy
from bobbin.cluster.transactions.deadlock import DeadlockDetector


def test_the_shapes_have_the_circles_that_their_names_say() -> None:
    random = Random(1)
    detector = DeadlockDetector(VictimSelectionPolicy.YOUNGEST)

    def parts(edges: deadlock.Edges) -> list[int]:
        return sorted(map(len, detector.components(deadlock.graph_of(edges, random))))

    assert parts(deadlock.ring(1_000)) == [1_000]
    assert parts(deadlock.star(200)) == [201]
    assert parts(deadlock.one_ring(500, random)) == [500]
    small = parts(deadlock.queues(5_000, random))
    assert 20 < len(small) < 100
    assert set(small) <= {2, 3, 4, 5}
    assert parts(deadlock.tangle(3_000, random))[-1] > 800


def test_it_measures_every_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also CL-378: a lock that is free costs less than one that somebody holds, and there is a benchmark of both."""
    for name, value in (("ROUNDS", "3"), ("EDGES", "1000"), ("LOCKS", "2000")):
        monkeypatch.setenv(f"BOBBIN_BENCH_DEADLOCK_{name}", value)
    result = deadlock.run()
    names = [ratio.name for ratio in result.ratios]
    assert names == [
        "queues with circles: 1,000 edges / 100 edges",
        "one ring: 1,000 edges / 100 edges",
        "tangle: 1,000 edges / 100 edges",
        "lock: free / held by another one",
    ]
    assert [ratio.bar for ratio in result.ratios] == [12.0, 12.0, 12.0, 1.0]
    assert all(ratio.value > 0 for ratio in result.ratios)
