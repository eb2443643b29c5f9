"""What came after a stamp is found in order, and without looking at what came before."""

from collections.abc import Iterator, Mapping

from bobbin.reactive.crdt import stamp_index
from bobbin.reactive.crdt.plane import Plane
from bobbin.reactive.crdt.stamp_index import Name, StampIndex
from bobbin.reactive.messages import CrdtOperation, CrdtSync, NodeId, PeerId, Stamp

A, B = PeerId(1), PeerId(2)


class Cells(Mapping[Name, CrdtOperation]):
    """Counts how often it is looked at."""

    def __init__(self) -> None:
        self.held: dict[Name, CrdtOperation] = {}
        self.looks = 0

    def __getitem__(self, name: Name) -> CrdtOperation:
        self.looks += 1
        return self.held[name]

    def __iter__(self) -> Iterator[Name]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)

    def write(self, index: StampIndex, name: Name, wall: int, peer: PeerId = A) -> None:
        node, key = (NodeId(0), name) if isinstance(name, str) else (name, None)
        self.held[name] = CrdtOperation(node, key, Stamp(wall, 0, peer), b"")
        index.note([name])


def _walls(index: StampIndex, after: int | None, through: int | None, peer: PeerId = A) -> list[int]:
    bounds = [None if wall is None else Stamp(wall, 0, peer) for wall in (after, through)]
    return [one.stamp.wall_time for one in index.between(peer, *bounds)]


def test_operations_come_in_the_order_of_their_stamps_within_bounds() -> None:
    cells = Cells()
    index = StampIndex(cells)
    for wall in (5, 9, 7, 1, 3):
        cells.write(index, NodeId(wall), wall)
    cells.write(index, "other", 6, B)
    assert _walls(index, None, None) == [1, 3, 5, 7, 9]
    assert _walls(index, 3, 7) == [5, 7]
    assert _walls(index, 4, None) == [5, 7, 9]
    assert _walls(index, None, None, B) == [6]
    assert _walls(index, None, None, PeerId(3)) == []
    assert set(index.peers) == {A, B}


def test_a_cell_is_found_once_by_the_stamp_that_it_has() -> None:
    cells = Cells()
    index = StampIndex(cells)
    for wall in (1, 2, 2, 3):
        cells.write(index, "x", wall)
        cells.write(index, "y", wall)
    assert _walls(index, None, None) == [3, 3]
    cells.write(index, "x", 4, B)
    assert (_walls(index, None, None), _walls(index, None, None, B)) == ([3], [4])
    del cells.held["y"]
    index.note(["y"])
    assert _walls(index, None, None) == []


def test_what_says_nothing_any_more_is_dropped() -> None:
    cells = Cells()
    index = StampIndex(cells)
    for wall in range(3 * stamp_index.STALE_MIN):
        cells.write(index, NodeId(wall % 3), wall)
    assert len(index._entries[A]) <= stamp_index.STALE_MIN + 2 * 3
    last = 3 * stamp_index.STALE_MIN
    assert _walls(index, None, None) == [last - 3, last - 2, last - 1]


def test_to_find_what_is_new_costs_what_is_new() -> None:
    cells = Cells()
    index = StampIndex(cells)
    for wall in range(5_000):
        cells.write(index, NodeId(wall), wall)
    cells.looks = 0
    assert _walls(index, 4_997, None) == [4_998, 4_999]
    assert cells.looks == 2


def test_a_frame_of_a_plane_looks_at_what_it_has_and_no_more() -> None:
    plane = Plane(A, members=[B])
    for node in range(2_000):
        plane.set(NodeId(node), b"v", now_us=node)
    asked: list[NodeId] = []

    def allows(operation: CrdtOperation) -> bool:
        asked.append(operation.id)
        return True

    assert len(plane.sync_for(B, allows=allows, operations_max=10).operations) == 10
    assert len(asked) <= 11
    asked.clear()
    plane.ingest(CrdtSync((), tuple(plane.frontier.items())), sender=B, now_us=10_000)
    plane.set(NodeId(7), b"new", now_us=10_000)
    frame = plane.sync_for(B, allows=allows)
    assert [one.id for one in frame.operations] == asked == [NodeId(7)]
