"""Replicated cells: the rows of the conformance list that are about them, and the shared fixtures."""

import gc
import json
import sys
import tracemalloc
from itertools import permutations
from types import FrameType
from typing import Any, TypeAlias

import pytest

from bobbin.reactive.crdt.binding import ReplicatedCells
from bobbin.reactive.crdt.clock import HybridClock
from bobbin.reactive.crdt.lww import Lww
from bobbin.reactive.crdt.mv import Mv
from bobbin.reactive.crdt.plane import TOMBSTONE, Plane, filter_operations
from bobbin.reactive.crdt.pn_counter import PnCounter
from bobbin.reactive.crdt.states import Kind
from bobbin.reactive.graph import Cell, Graph
from bobbin.reactive.messages import CrdtOperation, CrdtSync, NodeId, PeerId, Stamp, Value
from bobbin.reactive.permissions import OpKind, PeerPermissions, RemoteOp
from bobbin.wire.lazily import canonical_json
from tests.shared_fixtures import shared_fixture

A, B, C = PeerId(1), PeerId(2), PeerId(3)
NOW = 1_000_000
Register: TypeAlias = Lww[str] | Mv[str] | PnCounter


def _fixture(*parts: str) -> Any:  # noqa: ANN401 (whatever is in the file)
    return json.loads(shared_fixture("lazily", *parts).read_text(encoding="utf-8"))


def _operation(node: int, wall: int, state: Value, *, peer: PeerId = A, key: str | None = None) -> CrdtOperation:
    return CrdtOperation(NodeId(node), key, Stamp(wall, 0, peer), state)


def _replica(own: PeerId) -> Plane:
    return Plane(own, members=(A, B, C))


# ---- registers ------------------------------------------------------------------------------------------------------


def _seeded(scenario: Any) -> Register:  # noqa: ANN401
    seed = scenario["seed"]
    match scenario["register"]:
        case "lww":
            return Lww(seed["value"], Stamp(seed["wall"], seed["logical"], PeerId(seed["peer"])))
        case "mv":
            return Mv()
        case "pncounter":
            return PnCounter()
        case other:
            raise AssertionError(f"a register of another kind: {other}")


def _write(register: Register, step: Any) -> None:  # noqa: ANN401
    peer = PeerId(step["peer"])
    match register:
        case Lww():
            register.set(step["value"], Stamp(step["wall"], step["logical"], peer))
        case Mv():
            register.set(step["value"], peer)
        case PnCounter():
            register.add(step["amount"] if step["op"] == "incr" else -step["amount"], peer)


def _merge(into: Register, other: Register) -> bool:
    match into, other:
        case (Lww(), Lww()) | (Mv(), Mv()) | (PnCounter(), PnCounter()):
            return into.merge(other)  # type: ignore[arg-type]
        case _:
            raise AssertionError("registers of two kinds")


def _play(scenario: Any) -> tuple[dict[str, Register], bool | None]:  # noqa: ANN401
    replicas, changed = {"a": _seeded(scenario)}, None
    for step in scenario["steps"]:
        if "fork" in step:
            replicas[step["fork"]] = replicas["a"].fork()
        elif "merge" in step:
            changed = _merge(replicas[step["merge"]["into"]], replicas[step["merge"]["from"]])
        else:
            _write(replicas[step["on"]], step)
    return replicas, changed


def test_registers_converge_as_the_shared_fixture_says() -> None:
    """RX-098, RX-099, RX-100, RX-101, RX-134, RX-135, RX-136."""
    checked = 0
    for scenario in _fixture("collections", "registers_convergence.json")["scenarios"]:
        replicas, changed = _play(scenario)
        expected = {name: value for name, value in scenario["expect"].items() if name != "note"}
        for name, value in expected.pop("value_on", {}).items():
            register = replicas[name]
            assert not isinstance(register, Mv)
            assert register.value == value, scenario["id"]
        for name, values in expected.pop("values_on", {}).items():
            register = replicas[name]
            assert isinstance(register, Mv)
            assert register.values == set(values), scenario["id"]
        for name, stamp in expected.pop("stamp_on", {}).items():
            register = replicas[name]
            assert isinstance(register, Lww)
            assert register.stamp == Stamp(stamp["wall"], stamp["logical"], stamp["peer"]), scenario["id"]
        if "changed" in expected:
            assert changed is expected.pop("changed"), scenario["id"]
        assert expected == {}, "everything that is expected was looked at"
        checked += 1
    assert checked == 9


def test_the_default_is_that_the_greatest_stamp_wins() -> None:
    """RX-098: of a cell that nobody declared, whatever comes last."""
    early, late = _operation(1, 10, b"early"), _operation(1, 20, b"late", peer=B)
    for order in ((early, late), (late, early)):
        plane = _replica(C)
        for one in order:
            plane.ingest(CrdtSync((one,)), sender=A, now_us=NOW)
        assert plane.state(NodeId(1)) == b"late"


def test_wall_clocks_that_tie_are_told_apart_by_the_counter() -> None:
    """RX-101, RX-127: then by the peer."""
    stamps = [Stamp(10, 0, PeerId(9)), Stamp(10, 1, A), Stamp(10, 1, B)]
    for order in permutations(stamps):
        plane = _replica(C)
        for stamp in order:
            plane.ingest(CrdtSync((CrdtOperation(NodeId(1), None, stamp, repr(stamp).encode()),)), sender=A, now_us=NOW)
        assert plane.stamp(NodeId(1)) == stamps[-1]


def test_concurrent_writes_surface_as_a_set_and_counts_add_up() -> None:
    """RX-099, RX-100: on planes, over frames."""
    planes = [_replica(peer) for peer in (A, B, C)]
    for number, plane in enumerate(planes, start=1):
        plane.declare(NodeId(1), Kind.MV, now_us=NOW)
        plane.declare(NodeId(2), Kind.PN_COUNTER, now_us=NOW)
        plane.put(NodeId(1), b"%d" % number, now_us=NOW)
        plane.add(NodeId(2), 10**number, now_us=NOW)
        plane.add(NodeId(2), -1, now_us=NOW)
    for _ in range(2):
        for one in planes:
            for other in planes:
                if one is not other:
                    raw = canonical_json.encode(one.sync_for(other.own))
                    sync = canonical_json.decode(raw)
                    assert isinstance(sync, CrdtSync)
                    other.ingest(sync, sender=one.own, now_us=NOW)
    assert {plane.values(NodeId(1)) for plane in planes} == {frozenset({b"1", b"2", b"3"})}
    assert {plane.count(NodeId(2)) for plane in planes} == {1110 - 3}


# ---- clocks and stamps ----------------------------------------------------------------------------------------------


def test_each_peer_counts_for_itself_and_delivery_does_not_matter() -> None:
    """RX-103."""
    planes = {peer: _replica(peer) for peer in (A, B)}
    written = [planes[A].set(NodeId(1), b"a1", now_us=5), planes[B].set(NodeId(1), b"b1", now_us=5)]
    written += [planes[A].set(NodeId(1), b"a2", now_us=5)]
    assert [one.stamp for one in written] == [Stamp(5, 0, A), Stamp(5, 0, B), Stamp(5, 1, A)]
    for order in permutations(written):
        plane = _replica(C)
        for one in order:
            plane.ingest(CrdtSync((one,)), sender=A, now_us=NOW)
        assert plane.state(NodeId(1)) == b"a2"


@pytest.mark.parametrize(
    ("local", "remote", "now", "expected"),
    [
        ((5, 2), None, 9, (9, 0)),
        ((5, 2), None, 5, (5, 3)),
        ((5, 2), None, 1, (5, 3)),
        ((5, 2), (5, 8), 5, (5, 9)),
        ((5, 8), (5, 2), 1, (5, 9)),
        ((5, 2), (4, 8), 1, (5, 3)),
        ((5, 2), (7, 8), 6, (7, 9)),
        ((5, 2), (7, 8), 9, (9, 0)),
    ],
)
def test_the_clock_counts_by_the_rule(
    local: tuple[int, int], remote: tuple[int, int] | None, now: int, expected: tuple[int, int]
) -> None:
    """RX-132."""
    clock = HybridClock(A, since=Stamp(*local, A))
    moved = clock.tick(now) if remote is None else clock.observe(Stamp(*remote, B), now)
    assert moved == Stamp(*expected, A)


def test_a_frame_moves_the_clock_beyond_every_stamp_in_it() -> None:
    """RX-132: what is written next wins over what was seen."""
    plane = _replica(C)
    plane.ingest(CrdtSync((_operation(1, NOW + 7, b"theirs"), _operation(2, 3, b"old"))), sender=A, now_us=NOW)
    assert plane.clock.last == Stamp(NOW + 7, 1, C)
    assert plane.set(NodeId(1), b"ours", now_us=NOW).stamp == Stamp(NOW + 7, 2, C)


# ---- frames ---------------------------------------------------------------------------------------------------------


def test_frames_have_the_form_of_the_shared_fixture() -> None:
    """RX-126, RX-127: key always written, the peer of a stamp under `peer`, no frontier where there was none."""
    checked = 0
    for frame in _fixture("distributed", "crdt_sync_frames.json")["frames"]:
        sync = canonical_json.decode(json.dumps(frame["wire"]).encode())
        assert isinstance(sync, CrdtSync)
        expected = dict(frame["assertions"])
        assert len(sync.operations) == expected.pop("op_count")
        if expected.pop("frontier_omitted", False):
            assert not sync.frontier
        else:
            assert len(sync.frontier or ()) == expected.pop("frontier_len")
        if "has_keyed_op" in expected:
            assert any(one.key is not None for one in sync.operations) is expected.pop("has_keyed_op")
            assert any(one.key is None for one in sync.operations) is expected.pop("has_keyless_op")
        assert expected == {}
        again = json.loads(canonical_json.encode(sync))
        assert again["CrdtSync"]["ops"] == frame["wire"]["CrdtSync"]["ops"]
        assert again["CrdtSync"].get("frontier", []) == frame["wire"]["CrdtSync"].get("frontier", [])
        plane = Plane(C, members=(A,))
        assert plane.ingest(sync, sender=A, now_us=NOW).applied == len(sync.operations)
        assert plane.ingest(sync, sender=A, now_us=NOW).applied == 0
        checked += 1
    assert checked == 4


def test_redelivery_counts_as_nothing_in_any_order() -> None:
    """RX-128."""
    operations = (
        _operation(1, 10, b"A", key="doc/title"),
        _operation(1, 12, b"B", peer=B, key="doc/title"),
        _operation(1, 11, b"C", key="doc/title"),
        _operation(2, 5, b"\x09", key="doc/count"),
        _operation(2, 5, b"\x07", peer=B, key="doc/count"),
    )
    for order in permutations(operations):
        plane = _replica(C)
        assert plane.ingest(CrdtSync(order), sender=A, now_us=NOW).applied == 5
        assert {name: plane.state(name) for name in plane.names()} == {"doc/title": b"B", "doc/count": b"\x07"}
        for one in operations:
            assert plane.ingest(CrdtSync((one,)), sender=A, now_us=NOW).applied == 0


def test_no_frontier_means_unchanged_and_who_has_none_asks() -> None:
    """RX-129."""
    cold = _replica(C)
    assert cold.ingest(CrdtSync((_operation(1, 5, b"x"),), None), sender=A, now_us=NOW).asks_frontier
    answer = CrdtSync((_operation(1, 5, b"x"),), ((A, Stamp(5, 0, A)), (B, Stamp(4, 0, B))))
    assert not cold.ingest(answer, sender=A, now_us=NOW).asks_frontier
    for nothing in (None, ()):
        cold.ingest(CrdtSync((_operation(1, 6, b"y"),), nothing), sender=A, now_us=NOW)
        assert cold.frontier[A] == Stamp(5, 0, A)
        assert cold.frontier[B] == Stamp(4, 0, B)
        assert [one.stamp.peer for one in cold.sync_for(A).operations] == [A], "by its report it has not seen that"


def test_what_may_not_be_read_is_dropped_and_the_frontier_stays_whole() -> None:
    """RX-130: with the permissions of a peer."""
    permissions = PeerPermissions()
    permissions.grant(B, RemoteOp(OpKind.READ, NodeId(1)))
    plane = _replica(A)
    plane.ingest(CrdtSync((_operation(2, 5, b"of C", peer=C),), ((C, Stamp(5, 0, C)),)), sender=C, now_us=NOW)
    plane.set(NodeId(1), b"shown", now_us=NOW)

    def may_read(one: CrdtOperation) -> bool:
        return permissions.allows(B, RemoteOp(OpKind.READ, one.id))

    for frame in (plane.sync_for(B, allows=may_read), filter_operations(plane.sync_for(B), may_read)):
        assert [one.id for one in frame.operations] == [NodeId(1)]
        assert dict(frame.frontier or ()) == dict(plane.frontier)
        assert C in dict(frame.frontier or ()), "also of a peer of which nothing may be read"


def test_the_watermark_is_the_least_frontier_of_the_members() -> None:
    """RX-131."""
    plane = Plane(A, members=(B, C))
    plane.set(NodeId(1), b"x", now_us=10)
    gone = plane.remove(NodeId(1), now_us=500)
    report = ((A, gone.stamp), (B, Stamp(300, 0, B)), (C, Stamp(900, 0, C)))
    plane.ingest(CrdtSync((), report), sender=B, now_us=1000)
    plane.ingest(CrdtSync((), report), sender=C, now_us=1000)
    assert plane.watermark == Stamp(300, 0, B), "not the clock here, which is beyond 900"
    assert plane.collect() == (), "the tombstone is above it"
    plane.ingest(CrdtSync((), (*report[:1], (B, Stamp(500, 0, B)))), sender=B, now_us=1001)
    assert plane.watermark == Stamp(500, 0, B)
    assert plane.collect() == (NodeId(1),)
    assert TOMBSTONE not in {plane.state(name) for name in plane.names()}


def test_states_of_other_makes_are_opaque() -> None:
    """RX-133: also those that look like a register, and those that are no text at all."""
    smaller, greater = b'{"incr":{"1":99},"decr":{}}', b"\x00"
    plane = _replica(C)
    plane.ingest(CrdtSync((_operation(1, 20, greater, peer=B), _operation(1, 10, smaller))), sender=A, now_us=NOW)
    assert plane.state(NodeId(1)) == greater


# ---- in the graph ---------------------------------------------------------------------------------------------------


class _Shown:
    """Texts of a plane in a graph, with a count of what was computed for them."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.plane = Plane(A, members=(B,))
        self.cells = ReplicatedCells(self.plane, self.graph)
        self.cell = self.graph.cell("")
        self.cells.bind(NodeId(1), self.cell, lambda: self.text(NodeId(1)))
        self.runs: list[str] = []

    def text(self, name: NodeId | str) -> str:
        state = self.plane.state(name)
        assert isinstance(state, bytes)
        return state.decode()

    def hear(self, *operations: CrdtOperation) -> int:
        return self.cells.ingest(CrdtSync(operations), sender=B, now_us=NOW).merged.applied


def test_a_merge_that_leaves_the_value_equal_invalidates_nothing() -> None:
    """RX-102, RX-134: and a memo that is equal after a merge stops it there."""
    shown = _Shown()
    computed: list[str] = []

    def measure() -> int:
        computed.append(shown.cell.get())
        return len(shown.cell.get())

    length = shown.graph.memo(measure)
    shown.graph.effect(lambda: shown.runs.append(f"{length.get()} long"))
    shown.hear(_operation(1, 10, b"abc", peer=B))
    assert (computed, shown.runs) == (["", "abc"], ["0 long", "3 long"])
    assert shown.hear(_operation(1, 20, b"abc", peer=B)) == 1
    assert shown.plane.stamp(NodeId(1)) == Stamp(20, 0, B), "the newer stamp was taken"
    assert shown.hear(_operation(1, 15, b"lost", peer=B)) == 1
    assert computed == ["", "abc"], "nothing was invalidated"
    shown.hear(_operation(1, 30, b"xyz", peer=B))
    assert computed == ["", "abc", "xyz"]
    assert shown.runs == ["0 long", "3 long"], "the memo is equal, so nothing follows"


def test_a_frame_is_one_flush() -> None:
    """RX-102."""
    shown = _Shown()
    other = shown.graph.cell("")
    shown.cells.bind(NodeId(2), other, lambda: shown.text(NodeId(2)))
    shown.graph.effect(lambda: shown.runs.append(shown.cell.get() + other.get()))
    shown.hear(_operation(1, 10, b"a", peer=B), _operation(2, 10, b"b", peer=B), _operation(1, 11, b"c", peer=B))
    assert shown.runs == ["", "cb"]


def test_a_family_grows_by_what_others_write() -> None:
    """RX-137: by the shared fixture, with a count over the family that is derived in the graph."""
    fixture = _fixture("familysync", "materialize_on_ingest.json")
    namespace, checked = fixture["namespace"], 0
    for scenario in fixture["scenarios"]:
        origin = Plane(PeerId(scenario["origin_peer"]))
        target = _Family(PeerId(scenario["target_peer"]), origin.own, namespace)
        frames = [
            CrdtSync((origin.set(NodeId(index), value, key=f"{namespace}/{one['key']}", now_us=one["now"]),))
            for index, one in enumerate(scenario["origin_sets"])
            for value in [b"\x01" if one["value"] else b"\x00"]
        ]
        for frame in frames:
            target.cells.ingest(frame, sender=origin.own, now_us=NOW)
        expected = dict(scenario["expect"])
        assert sorted(target.values()) == expected.pop("target_keys")
        assert target.values() == expected.pop("target_values")
        assert len(target.values()) == expected.pop("target_present_count")
        assert target.count_true.get() == expected.pop("target_count_true")
        assert (target.appearances.get() > 0) is expected.pop("target_epoch_bumped")
        if scenario.get("reingest"):
            again = [target.cells.ingest(frame, sender=origin.own, now_us=NOW) for frame in frames]
            assert sum(one.merged.applied for one in again) == expected.pop("reingest_applied")
            assert all(one.appeared == () for one in again)
        assert expected == {}
        checked += 1
    assert checked == 3


class _Family:
    """A family of truths in a graph."""

    def __init__(self, own: PeerId, other: PeerId, namespace: str) -> None:
        self.graph = Graph()
        self.plane = Plane(own, members=(other,))
        self.cells = ReplicatedCells(self.plane, self.graph)
        self._namespace = namespace
        self._cells: dict[str, Cell[bool]] = {}
        self.appearances = self.graph.cell(0)
        self.count_true = self.graph.slot(self._count)
        self.cells.family(namespace, self._appear)

    def values(self) -> dict[str, bool]:
        return {key.removeprefix(f"{self._namespace}/"): cell.get() for key, cell in self._cells.items()}

    def _appear(self, key: str) -> None:
        cell = self.graph.cell(self.plane.state(key) == b"\x01", key=key)
        self._cells[key] = cell
        self.cells.bind(key, cell, lambda: self.plane.state(key) == b"\x01")
        self.appearances.update(lambda number: number + 1)

    def _count(self) -> int:
        self.appearances.get()
        return sum(cell.get() for cell in self._cells.values())


# ---- work -----------------------------------------------------------------------------------------------------------


class _Watched(tuple[tuple[PeerId, Stamp], ...]):
    """A frontier that counts how often it is gone through."""

    __slots__ = ()
    passes = 0

    def __iter__(self) -> Any:  # noqa: ANN401 (the iterator of a tuple)
        type(self).passes += 1
        return super().__iter__()


def test_the_work_for_a_frame_grows_with_its_operations_alone() -> None:
    """RX-170: the frontier is gone through once for a frame, and no function is called for each operation."""

    def work(count: int) -> tuple[int, int]:
        plane = _replica(C)
        permissions = PeerPermissions()
        permissions.grant(A, *(RemoteOp(OpKind.WRITE, NodeId(node)) for node in range(count)))
        granted = {one for one in range(count) if permissions.allows(A, RemoteOp(OpKind.WRITE, NodeId(one)))}
        operations = tuple(_operation(node, 10 + turn, b"%d" % turn) for turn in range(2) for node in range(count))
        frontier = _Watched((PeerId(peer), Stamp(9, 0, PeerId(peer))) for peer in range(8))
        calls = 0

        def count_calls(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            del argument
            # Not what runs in between, as a finaliser may, and not the filter's own.
            calls += event == "call" and str(frame.f_globals["__name__"]).startswith("bobbin.")

        _Watched.passes = 0
        sys.setprofile(count_calls)
        try:
            merged = plane.ingest(
                CrdtSync(operations, frontier), sender=A, now_us=NOW, allows=lambda one: one.id in granted
            )
        finally:
            sys.setprofile(None)
        assert merged.applied == 2 * count
        assert dict(plane.frontier)[PeerId(7)] == Stamp(9, 0, PeerId(7))
        return calls, _Watched.passes

    (few_calls, few_passes), (many_calls, many_passes) = work(10), work(1000)
    assert many_calls == few_calls
    assert few_passes == many_passes <= 4


def test_a_long_frontier_is_not_copied_for_operations() -> None:
    """RX-170: not even once, where it is the one of the frame before."""
    plane = _replica(C)
    frontier = tuple((PeerId(peer), Stamp(9, 0, PeerId(peer))) for peer in range(10_000))
    frames = [CrdtSync((_operation(node, 10 + node, b"x"),), frontier) for node in range(20)]
    plane.ingest(frames[0], sender=A, now_us=NOW)
    copy_bytes = sys.getsizeof(dict(frontier))
    gc.collect()
    tracemalloc.start()
    try:
        for frame in frames[1:]:
            plane.ingest(frame, sender=A, now_us=NOW, allows=lambda one: one.id < 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(plane) == len(frames)
    assert peak < copy_bytes / 4
