"""Circles of waiting transactions: found exactly where they are, and broken by as few as must go."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bobbin.cluster.settings import VictimSelectionPolicy
from bobbin.cluster.transactions import deadlock
from bobbin.cluster.transactions.deadlock import DeadlockDetector, DeadlockInfo, DeadlockStats, still_stands
from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.wait_graph import WaitForGraph
from tests.unit.cluster.transactions.graphs import A, B, C, D, tx, waiting

YOUNGEST = VictimSelectionPolicy.YOUNGEST


def ring(length: int, *, first: int = 0) -> list[tuple[TxId, TxId]]:
    return [(tx(first + at), tx(first + (at + 1) % length)) for at in range(length)]


def graph_of(
    edges: Sequence[tuple[TxId, TxId]],
    *,
    born: Mapping[TxId, int] | None = None,
    started: Mapping[TxId, int] | None = None,
    priority: Mapping[TxId, int] | None = None,
) -> WaitForGraph:
    graph = WaitForGraph()
    for waiter in dict.fromkeys(waiter for waiter, _ in edges):
        graph.wait(
            waiter,
            [holder for one, holder in edges if one == waiter],
            started_ms=(started or {}).get(waiter, 0),
            born_ms=(born or {}).get(waiter, 0),
            priority=(priority or {}).get(waiter, 0),
        )
    return graph


def victims(graph: WaitForGraph, policy: VictimSelectionPolicy = YOUNGEST) -> list[TxId]:
    infos = DeadlockDetector(policy).detect(graph)
    for info in infos:
        assert still_stands(graph, info)
        assert info.victim in info.cycle
        assert len(set(info.cycle)) == len(info.cycle)
    return [info.victim for info in infos]


def remove(graph: WaitForGraph, some: Sequence[TxId]) -> None:
    for one in some:
        graph.remove(one)


@pytest.mark.parametrize(
    "edges",
    [
        [],
        [(A, B), (B, C), (C, D)],
        [(tx(number), A) for number in range(1, 201)],
        [(A, tx(number)) for number in range(1, 201)],
        [(A, B), (A, C), (B, D), (C, D)],
    ],
    ids=["nothing", "chain", "star-in", "star-out", "diamond"],
)
def test_what_is_no_circle_is_no_deadlock(edges: list[tuple[TxId, TxId]]) -> None:
    graph = waiting(*edges)
    assert victims(graph) == []
    assert DeadlockDetector(YOUNGEST).components(graph) == []


def test_the_circle_lists_its_members_alone_each_waiting_for_the_next() -> None:
    """The way to the circle, and what hangs on it, do not belong to it."""
    tail = [(tx(20), tx(21)), (tx(21), A), (B, tx(30)), (tx(22), C)]
    graph = graph_of([*tail, (A, B), (B, C), (C, A)], born={A: 1, B: 9, C: 3, tx(20): 50, tx(22): 60})
    assert DeadlockDetector(YOUNGEST).detect(graph) == [DeadlockInfo((B, C, A), B)]
    assert DeadlockDetector(YOUNGEST).components(graph) == [(A, B, C)]


def test_every_circle_of_many_is_seen() -> None:
    edges = [edge for first in range(0, 60, 3) for edge in ring(3, first=first)]
    graph = waiting(*edges)
    assert victims(graph) == [tx(first + 2) for first in range(57, -1, -3)]


def test_youngest_is_the_one_first_tried_last_whenever_it_began_to_wait() -> None:
    graph = graph_of(ring(3), born={A: 100, B: 300, C: 200}, started={A: 9_000, B: 1, C: 5})
    assert victims(graph) == [B]


def test_oldest_is_the_one_whose_wait_began_first() -> None:
    graph = graph_of(ring(3), born={A: 1, B: 2, C: 3}, started={A: 20, B: 10, C: 30})
    assert victims(graph, VictimSelectionPolicy.OLDEST) == [B]


def test_lowest_priority_is_the_highest_value_and_none_is_0() -> None:
    policy = VictimSelectionPolicy.LOWEST_PRIORITY
    assert victims(graph_of(ring(3), priority={A: 4, B: 7, C: 5}), policy) == [B]
    assert victims(graph_of(ring(2), priority={A: -1}), policy) == [B]


def test_most_locks_goes_and_without_a_count_the_youngest() -> None:
    detector = DeadlockDetector(VictimSelectionPolicy.MOST_LOCKS)
    graph = graph_of(ring(3), born={A: 1, B: 2, C: 3})
    (found,) = detector.detect(graph, locks=lambda one: {A: 5, B: 9, C: 2}[one])
    assert found.victim == B
    (found,) = detector.detect(graph)
    assert found.victim == C


@pytest.mark.parametrize("policy", VictimSelectionPolicy)
def test_equal_ones_are_told_apart_by_birth_and_then_by_id(policy: VictimSelectionPolicy) -> None:
    assert victims(graph_of(ring(3), born={B: 1}), policy) == [B]
    assert victims(graph_of(ring(3)), policy) == [C]
    assert victims(graph_of(list(reversed(ring(3)))), policy) == [C]


def test_the_choice_and_the_circle_do_not_follow_the_order_of_a_set() -> None:
    """Sets of bytes are ordered otherwise in every process; what is found must not be."""
    text = (
        "from bobbin.cluster.transactions.deadlock import DeadlockDetector\n"
        "from bobbin.cluster.settings import VictimSelectionPolicy as P\n"
        "from bobbin.cluster.transactions.wait_graph import WaitForGraph\n"
        "graph = WaitForGraph()\n"
        "nodes = [bytes([number]) * 16 for number in range(30)]\n"
        "for at, node in enumerate(nodes):\n"
        "    holders = nodes[10:20] if at < 10 else nodes[20:] if at < 20 else nodes[:10]\n"
        "    graph.wait(node, holders, started_ms=0)\n"
        "print([[one[0] for one in info.cycle] for info in DeadlockDetector(P.YOUNGEST).detect(graph)])\n"
    )
    source = Path(deadlock.__file__).resolve().parents[3]
    said = {
        subprocess.run(
            [sys.executable, "-c", text],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(source)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1
    assert said != {b"[]\n"}


def test_circles_that_share_the_worst_cost_one_victim() -> None:
    """A star of 200 circles through one transaction: with it, all are gone."""
    hub = tx(1_000)
    edges = [edge for number in range(200) for edge in ((hub, tx(number)), (tx(number), hub))]
    graph = graph_of(edges, born={hub: 1})
    assert victims(graph) == [hub]
    remove(graph, [hub])
    assert victims(graph) == []


def test_circles_that_share_the_best_cost_one_victim_each() -> None:
    hub = tx(1_000)
    edges = [edge for number in range(200) for edge in ((hub, tx(number)), (tx(number), hub))]
    graph = graph_of(edges, born={hub: -1})
    found = victims(graph)
    assert sorted(found) == [tx(number) for number in range(200)]
    remove(graph, found)
    assert victims(graph) == []


def test_a_circle_that_a_victim_has_broken_costs_no_other() -> None:
    """Two circles that share B: the victim of the one is the victim of both."""
    edges = [(A, B), (B, A), (B, C), (C, B)]
    assert victims(graph_of(edges, born={B: 9})) == [B]
    assert victims(graph_of(edges, born={A: 9, B: 5, C: 1})) == [A, B]
    assert victims(graph_of(edges, born={A: 9, B: 1, C: 5})) == [A, C]


@pytest.mark.parametrize("length", [2, 100, 101, 1_000, 5_000])
def test_a_ring_of_any_length_is_broken_by_one_victim(length: int) -> None:
    """L22: no length is ignored, and none is too deep."""
    graph = WaitForGraph()
    for number, (waiter, holder) in enumerate(ring(length)):
        graph.wait(waiter, [holder], started_ms=0, born_ms=number * 7 % length)
    (info,) = DeadlockDetector(YOUNGEST).detect(graph)
    assert len(info.cycle) == length
    assert still_stands(graph, info)
    graph.remove(info.victim)
    assert victims(graph) == []


def test_edges_are_not_left_out_because_there_are_many() -> None:
    """L22: the only edge that closes the circle is one of 201."""
    edges = [(A, tx(number)) for number in range(100, 300)] + [(A, B), (B, A)]
    assert victims(graph_of(edges)) == [B]


def test_everybody_in_the_way_of_everybody_leaves_the_best() -> None:
    nodes = [tx(number) for number in range(60)]
    edges = [(one, other) for one in nodes for other in nodes if one != other]
    assert victims(graph_of(edges)) == nodes[:0:-1]


def test_what_is_too_much_to_show_is_left_to_the_next_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each component gets a victim in every pass, so all circles are broken in the end."""
    monkeypatch.setattr(deadlock, "EVIDENCE_STEPS_MIN", 0)
    monkeypatch.setattr(deadlock, "EVIDENCE_STEPS_PER_EDGE", 0)
    nodes = [tx(number) for number in range(10)]
    other = [(tx(50), tx(51)), (tx(51), tx(50))]
    graph = graph_of([(one, to) for one in nodes for to in nodes if one != to] + other)
    passes = []
    while found := victims(graph):
        passes.append(found)
        remove(graph, found)
    assert passes == [[tx(51), tx(9)], *([tx(number)] for number in range(8, 0, -1))]


def test_a_circle_stands_while_each_of_its_edges_does() -> None:
    graph = waiting(*ring(3))
    (info,) = DeadlockDetector(YOUNGEST).detect(graph)
    assert still_stands(graph, info)
    graph.wait(B, [D], started_ms=0)
    assert not still_stands(graph, info)
    graph.stop_waiting(B)
    assert not still_stands(graph, info)


def test_who_retries_keeps_its_age_and_finishes_at_last() -> None:
    """U27: against ever newer ones the one that came first is a victim no more, though it always waits last."""
    lost = []
    for attempt in range(6):
        other, retry = tx(100 + attempt), tx(200 + attempt)
        graph = graph_of(
            [(retry, other), (other, retry)],
            born={retry: 500, other: 499 + attempt},
            started={retry: 1_000 * (attempt + 1), other: 1},
        )
        lost.append(victims(graph) == [retry])
    assert lost == [True, True, False, False, False, False]


def test_figures_of_what_was_found() -> None:
    stats = DeadlockStats()
    stats.note(3, length_max=100, stood_ms=40)
    stats.note(101, length_max=100, stood_ms=10)
    assert (stats.deadlocks_detected, stats.over_length) == (2, 1)
    assert (stats.cycle_length_max, stats.cycle_length_total) == (101, 104)
    assert (stats.stood_ms_max, stats.stood_ms_total) == (40, 50)
