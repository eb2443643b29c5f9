import pytest

from bobbin.reactive.graph import CycleFound, Graph, Slot
from bobbin.reactive.graph.links import link_also, release, relink, relink_where_possible, retain, unlink


def _slots(count: int) -> list[Slot[int]]:
    graph = Graph()
    return [graph.slot(int) for _ in range(count)]


def test_edges_are_kept_at_both_ends() -> None:
    a, b, c = _slots(3)
    relink(c, [a, b, a])
    assert c.sources == [a, b]
    assert list(a.readers) == list(b.readers) == [c]
    relink(c, [b])
    assert (c.sources, a.readers, list(b.readers)) == ([b], {}, [c])
    link_also(c, [b, a])
    assert c.sources == [b, a]
    unlink(c)
    assert (c.sources, a.readers, b.readers) == ([], {}, {})


def test_taking_out_the_middle_detaches_both_sides() -> None:
    """RX-155."""
    a, b, c = _slots(3)
    relink(b, [a])
    relink(c, [b])
    unlink(b)
    assert (a.readers, b.sources, b.readers, c.sources) == ({}, [], {}, [])


def test_levels_rise_above_new_sources_all_the_way_down() -> None:
    a, b, c, d = _slots(4)
    relink(b, [a])
    relink(d, [c])
    relink(c, [b])
    assert a.level < b.level < c.level < d.level


def test_a_cycle_is_named_and_changes_nothing() -> None:
    a, b, c = _slots(3)
    relink(b, [a])
    relink(c, [b])
    levels = [node.level for node in (a, b, c)]
    with pytest.raises(CycleFound) as found:
        relink(a, [c])
    assert found.value.path == ("slot 0", "slot 2", "slot 1", "slot 0")
    with pytest.raises(CycleFound) as found:
        relink(b, [a, b])
    assert found.value.path == ("slot 1", "slot 1")
    assert (a.sources, b.sources, [node.level for node in (a, b, c)]) == ([], [a], levels)


def test_after_a_failure_what_closes_a_cycle_is_replaced_by_what_may_open_it() -> None:
    a, b, c, d, e = _slots(5)
    for node in (a, e):
        node.get()
    relink(b, [a])
    relink(d, [b, e])
    relink(c, [b, d])
    relink_where_possible(b, [a, c, b])
    assert b.sources == [a, e]
    relink_where_possible(b, [a])
    assert b.sources == [a]


def test_reasons_to_be_computed_are_counted_down_to_the_roots() -> None:
    a, b, c, d = _slots(4)
    relink(b, [a])
    relink(c, [b])
    relink(d, [b])
    retain(c)
    retain(d)
    assert [node.live for node in (a, b, c, d)] == [1, 2, 1, 1]
    relink(d, [a])
    assert [node.live for node in (a, b)] == [2, 1]
    release(c)
    assert [node.live for node in (a, b, c)] == [1, 0, 0]
    unlink(d)
    assert a.live == 0
