"""Deadlocks are found exactly where a brute search finds them, and broken as if one went at a time."""

from random import Random

import pytest

from bobbin.cluster.settings import VictimSelectionPolicy
from bobbin.cluster.transactions.deadlock import DeadlockDetector, still_stands
from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.wait_graph import WaitForGraph

GRAPHS = 10_000
_NAMES = [TxId(Random(number).randbytes(16)) for number in range(16)]

Masks = list[int]
"""For each node the set of those that it waits for, as bits."""


def _reach(after: Masks, alive: int) -> Masks:
    """What each node reaches in one step or more, by Warshall's rule."""
    reach = [mask & alive if alive >> node & 1 else 0 for node, mask in enumerate(after)]
    for middle in range(len(reach)):
        through = reach[middle]
        for node, mask in enumerate(reach):
            if mask >> middle & 1:
                reach[node] = mask | through
    return reach


def _one_at_a_time(after: Masks, rank: list[int]) -> set[int]:
    """As long as there are circles, the worst of each component goes, and everything is looked at anew."""
    alive = (1 << len(after)) - 1
    gone: set[int] = set()
    while True:
        reach = _reach(after, alive)
        tangled = [node for node, mask in enumerate(reach) if mask >> node & 1]
        if not tangled:
            return gone
        for node in tangled:
            component = [one for one in tangled if reach[node] >> one & 1 and reach[one] >> node & 1]
            if node == max(component, key=rank.__getitem__):
                gone.add(node)
                alive &= ~(1 << node)


def _random_graph(random: Random) -> tuple[Masks, list[int]]:
    count = random.randint(2, 9)
    density = random.choice((0.05, 0.1, 0.15, 0.25, 0.6))
    after = [
        sum(1 << other for other in range(count) if other != node and random.random() < density)
        for node in range(count)
    ]
    return after, random.sample(range(count), count)


def _waiting(after: Masks, rank: list[int]) -> WaitForGraph:
    graph = WaitForGraph()
    for node, mask in enumerate(after):
        holders = [_NAMES[other] for other in range(len(after)) if mask >> other & 1]
        graph.wait(_NAMES[node], holders, started_ms=-rank[node], born_ms=rank[node])
    return graph


@pytest.mark.slow
def test_the_detector_agrees_with_a_brute_search_on_random_graphs() -> None:
    random = Random(184)
    detector = DeadlockDetector(VictimSelectionPolicy.YOUNGEST)
    tangled = several = 0
    for _ in range(GRAPHS):
        after, rank = _random_graph(random)
        graph = _waiting(after, rank)
        reach = _reach(after, (1 << len(after)) - 1)
        members = {_NAMES[node] for node, mask in enumerate(reach) if mask >> node & 1}
        assert {one for part in detector.components(graph) for one in part} == members
        infos = detector.detect(graph)
        expected = _one_at_a_time(after, rank)
        assert [info.victim for info in infos] == [
            _NAMES[node] for node in sorted(expected, key=rank.__getitem__, reverse=True)
        ]
        for info in infos:
            assert still_stands(graph, info)
            assert info.cycle[0] == info.victim
            assert max(info.cycle, key=graph.born.__getitem__) == info.victim
            assert len(set(info.cycle)) == len(info.cycle)
        for info in infos:
            graph.remove(info.victim)
        assert detector.detect(graph) == []
        tangled += bool(members)
        several += len(infos) > 1
    # Both answers must have been asked for often.
    assert 2_000 < tangled < GRAPHS - 2_000
    assert several > 1_000


def test_the_detector_agrees_on_larger_components() -> None:
    """Where many must go, who they are is found by halving."""
    random = Random(193)
    detector = DeadlockDetector(VictimSelectionPolicy.OLDEST)
    most = 0
    for _ in range(150):
        count = len(_NAMES)
        density = random.choice((0.1, 0.15, 0.3, 0.9))
        after = [
            sum(1 << other for other in range(count) if other != node and random.random() < density)
            for node in range(count)
        ]
        rank = random.sample(range(count), count)
        victims = {info.victim for info in detector.detect(_waiting(after, rank))}
        assert victims == {_NAMES[node] for node in _one_at_a_time(after, rank)}
        most = max(most, len(victims))
    assert most > 10
