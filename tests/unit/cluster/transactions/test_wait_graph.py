"""Who waits for whom: edges from both ends, no trace of who is over, and no circle overlooked."""

from itertools import pairwise
from random import Random

import pytest

from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.wait_graph import WaitForGraph
from bobbin.errors import UsageError
from tests.unit.cluster.transactions.graphs import A, B, C, D, image, tx, waiting


def test_an_edge_leads_from_the_waiter_to_the_holder_and_back_in_the_reverse_edges() -> None:
    graph = WaitForGraph()
    graph.wait(A, [B, C], started_ms=7, born_ms=3, priority=9)
    assert image(graph) == ({A: {B, C}}, {B: {A}, C: {A}}, {A: 7}, {A: 3}, {A: 9})
    assert len(graph) == 2


def test_a_new_wait_takes_the_place_of_the_old_one() -> None:
    graph = waiting((A, B), (A, C), (D, B))
    graph.wait(A, [C], started_ms=10, born_ms=5)
    graph.check()
    assert set(graph.reverse_edges[B]) == {D}
    assert set(graph.edges[A]) == {C}
    graph.wait(A, [], started_ms=10)
    graph.check()
    assert A not in graph.edges


@pytest.mark.parametrize("gone", [A, B])
def test_removing_either_side_of_an_edge_leaves_no_trace(gone: TxId) -> None:
    graph = waiting((A, B))
    graph.remove(gone)
    graph.check()
    assert image(graph) == ({}, {}, {}, {}, {})


def test_removing_one_leaves_what_others_wait_for() -> None:
    graph = waiting((A, B), (A, C), (C, B), (B, D))
    graph.remove(B)
    graph.check()
    assert image(graph)[:2] == ({A: {C}}, {C: {A}})
    assert set(graph.wait_started) == {A}


def test_who_stops_waiting_is_still_waited_for() -> None:
    graph = waiting((A, B), (B, C))
    graph.stop_waiting(B)
    graph.check()
    assert image(graph)[:2] == ({A: {B}}, {B: {A}})


def test_nobody_waits_for_itself() -> None:
    graph = waiting((A, B))
    with pytest.raises(UsageError, match="cannot wait for itself"):
        graph.wait(A, [C, A], started_ms=0)
    assert image(graph)[0] == {A: {B}}


def test_a_wait_lasts_as_long_as_it_lasts() -> None:
    """No edge goes by its age, nor for being one of many."""
    graph = WaitForGraph()
    graph.wait(A, map(tx, range(1, 202)), started_ms=0)
    graph.wait(B, [C], started_ms=10**12)
    assert len(graph.edges[A]) == 201


def test_would_create_cycle_is_true_exactly_for_an_edge_that_closes_one_and_changes_nothing() -> None:
    random = Random(11)
    closing = 0
    for _ in range(300):
        nodes = [tx(number) for number in range(random.randint(2, 7))]
        graph = waiting(*_acyclic(nodes, random))
        before = image(graph)
        for waiter in nodes:
            for holder in nodes:
                expected = waiter == holder or waiter in _reached(graph, holder)
                assert graph.would_create_cycle(waiter, holder) is expected
                closing += expected
        assert image(graph) == before
    assert closing > 1_000


def test_would_create_cycle_of_a_long_chain_needs_no_recursion() -> None:
    chain = [tx(number) for number in range(5_000)]
    graph = waiting(*pairwise(chain))
    assert graph.would_create_cycle(chain[-1], chain[0])
    assert not graph.would_create_cycle(chain[0], chain[-1])


def _acyclic(nodes: list[TxId], random: Random) -> list[tuple[TxId, TxId]]:
    order = random.sample(nodes, len(nodes))
    return [(one, other) for at, one in enumerate(order) for other in order[at + 1 :] if random.random() < 0.4]


def _reached(graph: WaitForGraph, node: TxId) -> set[TxId]:
    """By the plainest rule: add what is one edge further until nothing is added."""
    found = {node}
    while True:
        more = found | {to for one in found for to in graph.edges.get(one, ())}
        if more == found:
            return found
        found = more
