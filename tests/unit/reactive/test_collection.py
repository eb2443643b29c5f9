"""A collection in a graph: reading it is depending on it, and every change is told once."""

import doctest

import pytest

from bobbin.errors import UsageError
from bobbin.reactive import collection as module
from bobbin.reactive.collection import Collection, Moved
from bobbin.reactive.graph import DisposedNode, EffectsFailed, Graph, MutationInComputation


def test_the_example_of_the_module_holds() -> None:
    assert doctest.testmod(module).failed == 0


def test_keys_are_read_in_order() -> None:
    keys = Collection(Graph(), ["b", "a"])
    assert list(keys) == ["a", "b"]
    assert len(keys) == 2
    assert "a" in keys
    assert "c" not in keys
    assert 5 not in keys
    assert keys.page(1, 5) == ["b"]
    assert keys
    assert not Collection(Graph())
    with pytest.raises(UsageError, match="negative"):
        keys.page(-1, 5)


def test_a_change_tells_its_net_effect() -> None:
    keys = Collection(Graph(), ["a", "b"])
    assert keys.change(added=["c", "b"], removed=["a", "x"]) == Moved(("c",), ("a",))
    assert not keys.change(added=["b"], removed=["b"])
    assert keys.replace(["c", "d"]) == Moved(("d",), ("b",))
    assert list(keys) == ["c", "d"]


def test_what_reads_the_collection_is_computed_again_when_it_changes_and_only_then() -> None:
    graph = Graph()
    keys = Collection(graph, ["a"])
    runs: list[tuple[str, ...]] = []
    graph.effect(lambda: runs.append(tuple(keys)))
    keys.change(added=["b"])
    keys.change(added=["b"], removed=["x"])
    keys.change()
    assert runs == [("a",), ("a", "b")]


@pytest.mark.parametrize("how", ["member", "page"])
def test_every_way_of_reading_is_depending(how: str) -> None:
    graph = Graph()
    keys = Collection(graph)
    seen: list[object] = []
    graph.effect(lambda: seen.append("m" in keys if how == "member" else keys.page(0, 1)))
    keys.change(added=["m"])
    assert seen == ([False, True] if how == "member" else [[], ["m"]])


def test_the_number_of_keys_changes_only_with_the_number() -> None:
    graph = Graph()
    keys = Collection(graph, ["a"])
    counts: list[int] = []
    truths: list[bool] = []
    graph.effect(lambda: counts.append(len(keys)))
    graph.effect(lambda: truths.append(bool(keys)))
    keys.change(added=["b"], removed=["a"])
    assert (counts, truths) == ([1], [True])
    keys.change(added=["c"])
    assert (counts, truths) == ([1, 2], [True, True])


def test_dependents_and_subscribers_hear_once_of_a_batch() -> None:
    graph = Graph()
    keys = Collection(graph, ["a"])
    told: list[Moved] = []
    runs: list[int] = []
    keys.subscribe(told.append)
    graph.effect(lambda: runs.append(len(list(keys))))
    with graph.batch():
        keys.change(added=["b"])
        keys.change(removed=["a", "b"])
        keys.change(added=["c", "d"])
        assert "c" in keys
    assert told == [Moved(("c", "d"), ("a",))]
    assert runs == [1, 2]


def test_a_batch_that_comes_to_nothing_is_not_told() -> None:
    graph = Graph()
    keys = Collection(graph, ["a"])
    told: list[Moved] = []
    keys.subscribe(told.append)
    with graph.batch():
        keys.change(removed=["a"], added=["b"])
        keys.change(added=["a"], removed=["b"])
    assert told == []
    assert list(keys) == ["a"]


def test_who_subscribes_hears_only_of_what_comes_after() -> None:
    graph = Graph()
    keys = Collection(graph, ["a"])
    first: list[Moved] = []
    second: list[Moved] = []
    undo = keys.subscribe(first.append)
    keys.change(added=["b"])
    keys.subscribe(second.append)
    undo()
    undo()
    keys.change(removed=["b"])
    assert first == [Moved(("b",), ())]
    assert second == [Moved((), ("b",))]


def test_a_subscriber_that_fails_hears_of_the_same_again_and_the_others_hear_it_anyway() -> None:
    graph = Graph()
    keys = Collection(graph)
    told: list[Moved] = []
    other: list[Moved] = []

    def listen(moved: Moved) -> None:
        told.append(moved)
        if len(told) == 1:
            raise ValueError

    keys.subscribe(listen)
    keys.subscribe(other.append)
    with pytest.raises(EffectsFailed):
        keys.change(added=["a", "b"])
    assert list(keys) == ["a", "b"]
    keys.change(added=["c"], removed=["b"])
    assert told == [Moved(("a", "b"), ()), Moved(("a", "c"), ())]
    assert other == [Moved(("a", "b"), ()), Moved(("c",), ("b",))]


def test_a_subscriber_may_change_the_collection() -> None:
    graph = Graph()
    keys = Collection(graph)
    told: list[Moved] = []

    def listen(moved: Moved) -> None:
        told.append(moved)
        if "b" not in moved.added:
            keys.change(added=["b"])

    keys.subscribe(listen)
    keys.change(added=["a"])
    assert told == [Moved(("a",), ()), Moved(("b",), ())]
    assert list(keys) == ["a", "b"]


def test_a_failing_subscriber_that_changed_the_collection_loses_nothing() -> None:
    graph = Graph()
    keys = Collection(graph)
    told: list[Moved] = []

    def listen(moved: Moved) -> None:
        told.append(moved)
        if len(told) == 1:
            keys.change(added=["b"], removed=["a"])
            raise ValueError

    keys.subscribe(listen)
    with pytest.raises(EffectsFailed):
        keys.change(added=["a"])
    keys.change(added=["c"])
    heard: set[str] = set()
    for moved in told[1:]:
        heard = (heard - set(moved.removed)) | set(moved.added)
    assert heard == set(keys) == {"b", "c"}


def test_a_computation_may_not_change_it_and_then_nothing_is_changed() -> None:
    graph = Graph()
    keys = Collection(graph, ["a"])
    slot = graph.slot(lambda: keys.change(removed=["a"]))
    with pytest.raises(MutationInComputation):
        slot.get()
    assert list(keys) == ["a"]


def test_it_must_not_change_while_it_is_gone_through() -> None:
    keys = Collection(Graph(), ["a", "b"])
    reading = iter(keys)
    assert next(reading) == "a"
    keys.change(removed=["b"])
    with pytest.raises(UsageError, match="while"):
        next(reading)


def test_a_collection_that_is_disposed_of_leaves_nothing_in_the_graph() -> None:
    graph = Graph()
    keys = Collection(graph, ["a"])
    told: list[Moved] = []
    undo = keys.subscribe(told.append)
    keys.dispose()
    assert len(graph) == 0
    keys.dispose()
    undo()
    with pytest.raises(DisposedNode):
        list(keys)
    with pytest.raises(DisposedNode):
        len(keys)
