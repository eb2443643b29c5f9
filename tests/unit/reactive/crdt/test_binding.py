from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bobbin.errors import PeerError, UsageError
from bobbin.reactive.crdt.binding import ReplicatedCells
from bobbin.reactive.crdt.plane import Plane
from bobbin.reactive.messages import CrdtOperation, CrdtSync, NodeId, PeerId, Stamp

A, B = PeerId(1), PeerId(2)


class FakeGraph:
    """Counts batches, and what was set in each."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    @contextmanager
    def batch(self) -> Iterator[None]:
        self.batches.append([])
        yield


class FakeCell:
    """A cell of it."""

    def __init__(self, graph: FakeGraph, name: str) -> None:
        self._graph = graph
        self._name = name
        self.value: str | None = None

    def set(self, value: str, /) -> None:
        self._graph.batches[-1].append(self._name)
        self.value = value


class World:
    """A plane, shown in a graph."""

    def __init__(self) -> None:
        self.graph = FakeGraph()
        self.plane = Plane(A, members=(B,))
        self.cells = ReplicatedCells(self.plane, self.graph)
        self.made: dict[str, FakeCell] = {}

    def text(self, name: NodeId | str) -> str:
        state = self.plane.state(name)
        if not isinstance(state, bytes):
            raise PeerError("unreadable", "the cell has no text")
        try:
            return state.decode()
        except UnicodeDecodeError as error:
            raise PeerError("unreadable", "the cell has no text") from error

    def bind(self, name: NodeId | str) -> FakeCell:
        cell = FakeCell(self.graph, str(name))
        self.cells.bind(name, cell, lambda: self.text(name))
        return cell

    def appear(self, key: str) -> None:
        self.made[key] = self.bind(key)


def _frame(*written: tuple[int, str | None, bytes], wall: int = 10) -> CrdtSync:
    return CrdtSync(tuple(CrdtOperation(NodeId(node), key, Stamp(wall, 0, B), state) for node, key, state in written))


def test_what_a_merge_changed_is_set_in_one_batch() -> None:
    world = World()
    one, two = world.bind(NodeId(1)), world.bind(NodeId(2))
    world.cells.ingest(_frame((1, None, b"a"), (2, None, b"b"), (3, None, b"c")), sender=B, now_us=100)
    assert (one.value, two.value) == ("a", "b")
    assert world.graph.batches == [["1", "2"]]


def test_a_merge_that_leaves_a_value_as_it_was_sets_nothing() -> None:
    """RX-102, RX-134."""
    world = World()
    world.bind(NodeId(1))
    world.cells.ingest(_frame((1, None, b"a")), sender=B, now_us=100)
    applied = world.cells.ingest(_frame((1, None, b"a"), wall=20), sender=B, now_us=100)
    assert applied.merged.applied == 1
    assert world.graph.batches == [["1"], []]


def test_an_entry_of_a_family_appears_with_the_first_operation_that_names_it() -> None:
    """RX-137."""
    world = World()
    world.cells.family("live", world.appear)
    frame = _frame((7, "live/2", b"yes"), (8, "live/3", b"no"), (9, "other/1", b"x"), (10, "live", b"no entry"))
    applied = world.cells.ingest(frame, sender=B, now_us=100)
    assert applied.appeared == ("live/2", "live/3")
    assert {key: cell.value for key, cell in world.made.items()} == {"live/2": "yes", "live/3": "no"}
    again = world.cells.ingest(frame, sender=B, now_us=100)
    assert (again.merged.applied, again.appeared) == (0, ())
    later = world.cells.ingest(_frame((7, "live/2", b"changed"), wall=20), sender=B, now_us=100)
    assert later.appeared == ()
    assert world.made["live/2"].value == "changed"


def test_the_longest_prefix_decides() -> None:
    world = World()
    inner: list[str] = []
    world.cells.family("a", world.appear)
    world.cells.family("a/b", inner.append)
    world.cells.ingest(_frame((1, "a/b/c", b"x"), (2, "a/c/b", b"y")), sender=B, now_us=100)
    assert inner == ["a/b/c"]
    assert list(world.made) == ["a/c/b"]


def test_entries_that_came_before_the_family_was_known_appear_with_it() -> None:
    world = World()
    world.cells.ingest(_frame((7, "live/2", b"yes"), (8, "lively/2", b"no")), sender=B, now_us=100)
    assert world.cells.family("live", world.appear) == ("live/2",)
    assert list(world.made) == ["live/2"]


def test_a_state_that_cannot_be_read_leaves_the_value_and_is_told() -> None:
    world = World()
    one, two = world.bind(NodeId(1)), world.bind(NodeId(2))
    world.cells.ingest(_frame((1, None, b"old")), sender=B, now_us=100)
    applied = world.cells.ingest(_frame((1, None, b"\xff"), (2, None, b"new"), wall=20), sender=B, now_us=100)
    assert [name for name, _ in applied.unread] == [NodeId(1)]
    assert (one.value, two.value) == ("old", "new")
    assert world.plane.state(NodeId(1)) == b"\xff"


def test_names_are_used_once() -> None:
    world = World()
    world.bind(NodeId(1))
    world.cells.family("live", world.appear)
    with pytest.raises(UsageError):
        world.bind(NodeId(1))
    with pytest.raises(UsageError):
        world.cells.family("live", world.appear)
