from itertools import permutations

import pytest

from bobbin.errors import PeerError, UsageError
from bobbin.reactive.crdt import states
from bobbin.reactive.crdt.clock import StampRefused
from bobbin.reactive.crdt.mv import Mv
from bobbin.reactive.crdt.plane import (
    FOREIGN_STAMP,
    PAST_MAX,
    TOMBSTONE,
    TOO_MANY_CELLS,
    CellName,
    Plane,
    ReservedState,
    filter_operations,
)
from bobbin.reactive.crdt.pn_counter import PnCounter
from bobbin.reactive.crdt.states import ENTRIES_MAX, PEERS_MAX, STATE_BYTES_MAX, Kind, MalformedState
from bobbin.reactive.messages import BlobRef, CrdtOperation, CrdtSync, NodeId, PeerId, Stamp, Value

A, B, C = PeerId(1), PeerId(2), PeerId(3)
NOW = 1_000_000
COUNTER, SEVERAL = NodeId(50), NodeId(60)


def _operation(
    wall: int, state: Value = b"x", *, node: int = 1, key: str | None = None, logical: int = 0, peer: PeerId = A
) -> CrdtOperation:
    return CrdtOperation(NodeId(node), key, Stamp(wall, logical, peer), state)


def _sync(*operations: CrdtOperation, frontier: tuple[tuple[PeerId, Stamp], ...] | None = None) -> CrdtSync:
    return CrdtSync(operations, frontier)


def _replica(own: PeerId) -> Plane:
    return Plane(own, members=(A, B, C))


def _states(plane: Plane) -> dict[CellName, Value | None]:
    return {name: plane.state(name) for name in plane.names()}


# ---- opaque cells -------------------------------------------------------------------------------------------------


def test_the_greatest_stamp_holds_in_every_order_of_delivery() -> None:
    """RX-103, RX-128: applied counts what was new, whether it prevailed or not."""
    operations = [_operation(10, b"a"), _operation(12, b"b", peer=B), _operation(11, b"c"), _operation(12, b"d")]
    for order in permutations(operations):
        plane = _replica(C)
        merged = [plane.ingest(_sync(one), sender=A, now_us=NOW) for one in order]
        assert plane.state(NodeId(1)) == b"b"
        assert [one.applied for one in merged] == [1, 1, 1, 1]
        assert [plane.ingest(_sync(one), sender=A, now_us=NOW).applied for one in order] == [0, 0, 0, 0]
        assert plane.state(NodeId(1)) == b"b"


def test_only_what_looks_different_has_changed() -> None:
    """RX-134: an equal state under a newer stamp is taken silently."""
    plane = _replica(C)
    assert plane.ingest(_sync(_operation(10, b"a")), sender=A, now_us=NOW).changed == (NodeId(1),)
    merged = plane.ingest(_sync(_operation(20, b"a")), sender=A, now_us=NOW)
    assert (merged.applied, merged.changed) == (1, ())
    assert plane.stamp(NodeId(1)) == Stamp(20, 0, A)
    late = plane.ingest(_sync(_operation(15, b"b")), sender=A, now_us=NOW)
    assert (late.applied, late.changed) == (1, ())


def test_foreign_bytes_are_not_read() -> None:
    """RX-133: not even if they look like a register of ours."""
    plane = _replica(C)
    low, high = states.encode(states.decode_counter(b'{"incr":{"1":9},"decr":{}}')), b"\x00 anything"
    plane.ingest(_sync(_operation(10, low), _operation(11, high, peer=B)), sender=A, now_us=NOW)
    assert plane.state(NodeId(1)) == high
    blob = BlobRef(0, 3, 1, 1, 9)
    plane.ingest(_sync(_operation(12, blob)), sender=A, now_us=NOW)
    assert plane.state(NodeId(1)) == blob


def test_a_key_names_a_cell_whatever_its_id_is() -> None:
    plane = _replica(C)
    plane.ingest(_sync(_operation(10, b"a", node=4, key="doc/title")), sender=A, now_us=NOW)
    plane.ingest(_sync(_operation(11, b"b", node=9, key="doc/title", peer=B)), sender=B, now_us=NOW)
    plane.ingest(_sync(_operation(11, b"other", node=4)), sender=A, now_us=NOW)
    assert _states(plane) == {"doc/title": b"b", NodeId(4): b"other"}


def test_two_states_under_one_stamp_do_not_keep_replicas_apart() -> None:
    states_under_one_stamp: list[Value] = [b"a", b"b", BlobRef(0, 3, 1, 1, 9), BlobRef(8, 3, 1, 1, 9)]
    for order in permutations(states_under_one_stamp):
        plane = _replica(C)
        for state in order:
            plane.ingest(_sync(_operation(10, state)), sender=A, now_us=NOW)
        assert plane.state(NodeId(1)) == b"b"


def test_our_own_writes_come_after_everything_seen() -> None:
    plane = _replica(C)
    plane.ingest(_sync(_operation(NOW + 500, b"a", logical=7)), sender=A, now_us=NOW)
    written = plane.set(NodeId(1), b"c", now_us=NOW)
    assert written.stamp > Stamp(NOW + 500, 7, A)
    assert plane.state(NodeId(1)) == b"c"


def test_the_past_of_a_cell_is_bounded_and_nothing_counts_twice() -> None:
    plane = _replica(C)
    stream = [_operation(wall, b"%d" % wall) for wall in range(1, 4 * PAST_MAX)]
    assert plane.ingest(_sync(*stream), sender=A, now_us=NOW).applied == len(stream)
    assert plane.ingest(_sync(*stream), sender=A, now_us=NOW).applied == 0
    assert len(plane._past[NodeId(1)]) <= PAST_MAX


# ---- refusals -----------------------------------------------------------------------------------------------------


def test_a_stamp_from_far_ahead_refuses_the_whole_frame() -> None:
    plane = Plane(C, members=(A,), ahead_us_max=100)
    before = plane.clock.last
    frames = [
        _sync(_operation(10), _operation(NOW + 101, node=2)),
        _sync(_operation(10), frontier=((B, Stamp(NOW + 101, 0, B)),)),
    ]
    for frame in frames:
        with pytest.raises(StampRefused):
            plane.ingest(frame, sender=A, now_us=NOW)
        assert len(plane) == 0
        assert plane.clock.last == before
        assert A not in plane.frontier
    assert plane.ingest(_sync(_operation(NOW + 100)), sender=A, now_us=NOW).applied == 1


def test_whoever_is_no_member_speaks_for_itself_alone() -> None:
    plane = Plane(C, members=(A,))
    with pytest.raises(PeerError) as refused:
        plane.ingest(_sync(_operation(9, peer=B), _operation(10, peer=A)), sender=B, now_us=NOW)
    assert refused.value.code == FOREIGN_STAMP
    assert len(plane) == 0
    frontier = ((A, Stamp(900, 0, A)), (B, Stamp(10, 0, B)))
    plane.ingest(_sync(_operation(10, peer=B), frontier=frontier), sender=B, now_us=NOW)
    assert A not in plane.frontier, "it says that we have seen everything of A"
    assert plane.frontier[B] == Stamp(10, 0, B)
    plane.ingest(_sync(_operation(11, peer=B), frontier=frontier), sender=A, now_us=NOW)
    assert plane.frontier[A] == Stamp(900, 0, A)


def test_there_are_no_more_cells_than_the_bound() -> None:
    plane = Plane(C, members=(A,), cells_max=2)
    plane.ingest(_sync(_operation(1, node=1), _operation(1, node=2)), sender=A, now_us=NOW)
    with pytest.raises(PeerError) as refused:
        plane.ingest(_sync(_operation(2, node=1), _operation(2, node=3)), sender=A, now_us=NOW)
    assert refused.value.code == TOO_MANY_CELLS
    assert plane.stamp(NodeId(1)) == Stamp(1, 0, A)
    assert plane.ingest(_sync(_operation(2, node=1), _operation(2, node=2)), sender=A, now_us=NOW).applied == 2


def test_what_the_sender_may_not_write_is_dropped_and_counted() -> None:
    plane = _replica(C)
    frame = _sync(_operation(5, node=1), _operation(NOW * 1000, node=2))
    merged = plane.ingest(frame, sender=A, now_us=NOW, allows=lambda one: one.id == 1)
    assert (merged.applied, merged.denied) == (1, 1)
    assert plane.names() == (NodeId(1),)


# ---- frontiers ----------------------------------------------------------------------------------------------------


def test_no_frontier_leaves_it_as_it_was_and_a_cold_receiver_asks_once() -> None:
    """RX-129."""
    plane = _replica(C)
    assert plane.ingest(_sync(_operation(5)), sender=A, now_us=NOW).asks_frontier
    assert not plane.ingest(_sync(_operation(6)), sender=A, now_us=NOW).asks_frontier
    known = ((A, Stamp(7, 0, A)), (B, Stamp(3, 0, B)))
    assert not plane.ingest(_sync(_operation(7), frontier=known), sender=A, now_us=NOW).asks_frontier
    for nothing in (None, ()):
        assert not plane.ingest(_sync(_operation(8), frontier=nothing), sender=A, now_us=NOW).asks_frontier
        assert {peer: plane.frontier[peer] for peer in (A, B)} == dict(known)


def test_a_link_that_ends_is_asked_anew_where_nothing_was_said() -> None:
    plane = Plane(C)
    assert plane.ingest(_sync(_operation(5)), sender=A, now_us=NOW).asks_frontier
    plane.forget(A)
    assert plane.ingest(_sync(_operation(6)), sender=A, now_us=NOW).asks_frontier
    plane.ingest(_sync(frontier=((A, Stamp(6, 0, A)),)), sender=A, now_us=NOW)
    plane.forget(A)
    assert plane.ingest(_sync(_operation(7)), sender=A, now_us=NOW).asks_frontier


def test_a_peer_gets_what_it_has_not_seen() -> None:
    a, b = _replica(A), _replica(B)
    a.set(NodeId(1), b"one", now_us=10)
    b.ingest(a.sync_for(B), sender=A, now_us=11)
    a.set(NodeId(2), b"two", now_us=20)
    a.ingest(b.sync_for(A), sender=B, now_us=21)
    frame = a.sync_for(B)
    assert [operation.id for operation in frame.operations] == [NodeId(2)]
    assert {operation.id for operation in a.sync_for(B, whole=True).operations} == {NodeId(1), NodeId(2)}
    b.ingest(frame, sender=A, now_us=22)
    a.ingest(b.sync_for(A), sender=B, now_us=23)
    assert a.sync_for(B).operations == ()


def test_a_report_says_what_its_sender_has_seen_and_no_more() -> None:
    """A frame without operations brings nothing, so nothing is taken for seen because of it."""
    a, b = _replica(A), _replica(B)
    a.set(NodeId(1), b"one", now_us=10)
    b.ingest(CrdtSync((), a.sync_for(B).frontier), sender=A, now_us=11)
    assert A not in b.frontier
    a.ingest(CrdtSync((), b.sync_for(A).frontier), sender=B, now_us=12)
    b.ingest(a.sync_for(B), sender=A, now_us=13)
    assert _states(b) == {NodeId(1): b"one"}
    assert b.frontier[A] >= Stamp(10, 0, A)
    a.ingest(_sync(_operation(9, peer=B), frontier=((B, Stamp(9, 0, B)),)), sender=B, now_us=14)
    a.ingest(_sync(frontier=((A, Stamp(10, 0, A)), (B, Stamp(9, 0, B)))), sender=B, now_us=15)
    a.ingest(_sync(_operation(9, peer=B), frontier=((B, Stamp(9, 0, B)),)), sender=B, now_us=16)
    assert [one.id for one in a.sync_for(B).operations] == [NodeId(1)], "the last report counts"


def test_an_operation_that_was_lost_is_sent_again() -> None:
    """The frontier comes from whole frames: a later operation that arrived alone does not hide the lost one."""
    a, b = _replica(A), _replica(B)
    a.set(NodeId(1), b"lost on the way", now_us=10)
    later = a.set(NodeId(2), b"arrives", now_us=20)
    b.ingest(CrdtSync((later,)), sender=A, now_us=21)
    a.ingest(b.sync_for(A), sender=B, now_us=22)
    b.ingest(a.sync_for(B), sender=A, now_us=23)
    assert _states(b) == {NodeId(1): b"lost on the way", NodeId(2): b"arrives"}


def test_a_peer_that_lost_everything_says_so_and_gets_it_again() -> None:
    a, b = _replica(A), _replica(B)
    a.set(NodeId(1), b"one", now_us=10)
    b.ingest(a.sync_for(B), sender=A, now_us=11)
    a.ingest(b.sync_for(A), sender=B, now_us=12)
    assert a.sync_for(B).operations == ()
    reborn = _replica(B)
    a.ingest(reborn.sync_for(A), sender=B, now_us=13)
    reborn.ingest(a.sync_for(B), sender=A, now_us=14)
    assert _states(reborn) == {NodeId(1): b"one"}
    a.ingest(reborn.sync_for(A), sender=B, now_us=15)
    again = _replica(B)
    a.forget(B)
    again.ingest(a.sync_for(B), sender=A, now_us=16)
    assert _states(again) == {NodeId(1): b"one"}, "nothing was said yet on this link"


def test_the_filter_drops_operations_and_keeps_the_frontier_whole() -> None:
    """RX-130."""
    a = _replica(A)
    a.ingest(_sync(_operation(5, peer=B), frontier=((B, Stamp(5, 0, B)),)), sender=B, now_us=NOW)
    a.set(NodeId(2), b"hidden", now_us=NOW)
    whole = a.sync_for(C)
    frame = a.sync_for(C, allows=lambda one: one.id == 1)
    assert [operation.id for operation in frame.operations] == [NodeId(1)]
    assert frame.frontier == whole.frontier == tuple(sorted(a.frontier.items()))
    assert {peer for peer, _ in frame.frontier or ()} == {A, B}
    assert filter_operations(whole, lambda one: one.id == 1) == frame


def _settle(a: Plane, b: Plane, *, operations_max: int, rounds: int) -> None:
    for _ in range(rounds):
        b.ingest(a.sync_for(B, operations_max=operations_max), sender=A, now_us=NOW)
        a.ingest(b.sync_for(A), sender=B, now_us=NOW)


def test_frames_of_a_few_operations_claim_no_more_than_they_bring() -> None:
    a, b = _replica(A), _replica(B)
    of_c = tuple(_operation(5, b"c", node=node, peer=C) for node in range(20, 24))
    a.ingest(_sync(*of_c, frontier=((C, Stamp(5, 0, C)),)), sender=C, now_us=NOW)
    for node in range(1, 8):
        a.set(NodeId(node), b"%d" % node, now_us=NOW + node)
    first = a.sync_for(B, operations_max=3)
    assert [operation.stamp.peer for operation in first.operations] == [C] * 4, "one stamp is not cut in two"
    assert dict(first.frontier or ()) == {C: Stamp(5, 0, C)}, "nothing of A is in it"
    _settle(a, b, operations_max=3, rounds=4)
    assert _states(b) == _states(a)
    assert a.sync_for(B).operations == ()


def test_what_nobody_vouches_for_does_not_keep_the_rest_from_being_sent() -> None:
    a, b = _replica(A), _replica(B)
    a.ingest(_sync(*(_operation(5, b"c", node=node, peer=C) for node in range(20, 40))), sender=C, now_us=NOW)
    for node in range(1, 8):
        a.set(NodeId(node), b"%d" % node, now_us=NOW + node)
    _settle(a, b, operations_max=3, rounds=10)
    assert _states(b) == _states(a)


# ---- watermark and tombstones -------------------------------------------------------------------------------------


def test_the_watermark_is_the_least_frontier_of_the_members() -> None:
    """RX-131."""
    plane = _replica(C)
    plane.set(NodeId(1), b"c", now_us=500)
    assert plane.watermark is None
    plane.ingest(_sync(frontier=((A, Stamp(40, 0, A)),)), sender=A, now_us=501)
    assert plane.watermark is None, "nothing was heard of B"
    plane.ingest(_sync(frontier=((B, Stamp(30, 2, B)), (PeerId(9), Stamp(1, 0, PeerId(9))))), sender=B, now_us=502)
    assert plane.watermark == Stamp(30, 2, B), "peer 9 is no member, and our own clock is far ahead"


def _exchange(*planes: Plane, now_us: int) -> None:
    """Two rounds of everybody with everybody, so that everybody knows what everybody has seen."""
    for _ in range(2):
        for one in planes:
            for other in planes:
                if one is not other:
                    other.ingest(one.sync_for(other.own), sender=one.own, now_us=now_us)


def test_a_removed_cell_is_forgotten_when_all_members_have_seen_it() -> None:
    """RX-131."""
    a, b, c = map(_replica, (A, B, C))
    old = a.set(NodeId(1), b"value", now_us=10)
    _exchange(a, b, c, now_us=20)
    gone = b.remove(NodeId(1), now_us=30)
    assert gone.state == TOMBSTONE
    assert b.state(NodeId(1)) is None
    assert b.names() == ()
    assert b.collect() == (), "nobody else has seen it"
    a.ingest(b.sync_for(A), sender=B, now_us=31)
    b.ingest(a.sync_for(B), sender=A, now_us=32)
    assert b.collect() == (), "C has not seen it"
    _exchange(a, b, c, now_us=40)
    assert b.collect() == (NodeId(1),)
    assert len(b) == 0
    late = b.ingest(CrdtSync((old,)), sender=A, now_us=50)
    assert (late.applied, late.changed) == (0, ())
    assert len(b) == 0, "what all have seen does not come back"
    fresh = a.set(NodeId(1), b"new", now_us=60)
    assert b.ingest(CrdtSync((fresh,)), sender=A, now_us=61).changed == (NodeId(1),)


def test_a_removal_is_no_state_that_can_be_set() -> None:
    plane = _replica(A)
    held = plane.set(NodeId(1), b"held", now_us=1)
    with pytest.raises(ReservedState, match="cell 1 "):
        plane.set(NodeId(1), TOMBSTONE, now_us=2)
    assert plane.stamp(NodeId(1)) == held.stamp
    assert plane.clock.last == held.stamp


def test_a_tombstone_above_the_watermark_stays() -> None:
    """RX-131: B has reported the write of A, but its own frontier lies before it."""
    a = Plane(A, members=(B,))
    a.set(NodeId(1), b"x", now_us=10)
    gone = a.remove(NodeId(1), now_us=100)
    report = ((A, gone.stamp), (B, Stamp(50, 0, B)))
    a.ingest(_sync(frontier=report), sender=B, now_us=200)
    assert a.watermark == Stamp(50, 0, B)
    assert a.collect() == ()
    a.ingest(_sync(frontier=((A, gone.stamp), (B, Stamp(100, 0, B)))), sender=B, now_us=201)
    assert a.collect() == (NodeId(1),)


def test_a_tombstone_that_a_member_has_not_seen_stays() -> None:
    """B writes on, so its own frontier passes the tombstone; but it has not said that it saw it."""
    a = Plane(A, members=(B,))
    a.set(NodeId(1), b"x", now_us=10)
    gone = a.remove(NodeId(1), now_us=100)
    a.ingest(_sync(frontier=((A, Stamp(10, 0, A)), (B, Stamp(500, 0, B)))), sender=B, now_us=500)
    assert a.watermark is not None
    assert a.watermark > gone.stamp
    assert a.collect() == ()
    a.ingest(_sync(frontier=((A, gone.stamp), (B, Stamp(500, 0, B)))), sender=B, now_us=501)
    assert a.collect() == (NodeId(1),)


def test_a_removal_of_what_was_never_seen_changes_nothing_to_be_seen() -> None:
    plane = _replica(C)
    merged = plane.ingest(_sync(_operation(5, TOMBSTONE)), sender=A, now_us=NOW)
    assert (merged.applied, merged.changed) == (1, ())
    assert plane.ingest(_sync(_operation(4, b"late")), sender=A, now_us=NOW).changed == ()
    assert plane.state(NodeId(1)) is None


def test_a_plane_alone_forgets_at_once() -> None:
    plane = Plane(A)
    plane.set(NodeId(1), b"x", now_us=10)
    plane.remove(NodeId(1), now_us=11)
    assert plane.collect() == (NodeId(1),)


# ---- merged cells -------------------------------------------------------------------------------------------------


def _pair(kind: Kind, node: NodeId) -> tuple[Plane, Plane]:
    a, b = _replica(A), _replica(B)
    a.declare(node, kind, now_us=1)
    b.declare(node, kind, now_us=1)
    return a, b


def test_a_counter_adds_up_what_both_sides_did() -> None:
    """RX-100, RX-136."""
    a, b = _pair(Kind.PN_COUNTER, COUNTER)
    first = a.add(COUNTER, 5, now_us=10)
    b.add(COUNTER, -2, now_us=10)
    assert b.ingest(CrdtSync((first,)), sender=A, now_us=11).changed == (COUNTER,)
    merged = b.ingest(CrdtSync((first,)), sender=A, now_us=12)
    assert (merged.applied, merged.changed) == (0, ())
    assert b.count(COUNTER) == 3
    _exchange(a, b, now_us=20)
    assert a.count(COUNTER) == b.count(COUNTER) == 3
    assert a.state(COUNTER) == b.state(COUNTER)
    assert a.stamp(COUNTER) == b.stamp(COUNTER)


def test_concurrent_values_stay_side_by_side_until_somebody_writes() -> None:
    """RX-099, RX-135."""
    a, b = _pair(Kind.MV, SEVERAL)
    a.put(SEVERAL, b"a", now_us=10)
    b.put(SEVERAL, b"b", now_us=10)
    _exchange(a, b, now_us=20)
    assert a.values(SEVERAL) == b.values(SEVERAL) == {b"a", b"b"}
    a.put(SEVERAL, b"c", now_us=30)
    _exchange(a, b, now_us=40)
    assert b.values(SEVERAL) == {b"c"}


def test_a_merged_state_reaches_whoever_has_seen_only_a_part_of_it() -> None:
    """A and B in one state, which C may not take for that of A alone, which it has."""
    a, b, c = map(_replica, (A, B, C))
    for plane in (a, b, c):
        plane.declare(COUNTER, Kind.PN_COUNTER, now_us=1)
    of_a, of_b = a.add(COUNTER, 1, now_us=20), b.add(COUNTER, 10, now_us=10)
    c.ingest(CrdtSync((of_a,), a.sync_for(C).frontier), sender=A, now_us=30)
    a.ingest(CrdtSync((of_b,), b.sync_for(A).frontier), sender=B, now_us=31)
    a.ingest(c.sync_for(A), sender=C, now_us=32)
    c.ingest(a.sync_for(C), sender=A, now_us=33)
    assert c.count(COUNTER) == 11


def test_a_cell_may_be_declared_after_a_state_came() -> None:
    b = _replica(B)
    operation = _operation(10, states.encode(states.decode_counter(b'{"incr":{"1":4},"decr":{}}')), node=COUNTER)
    b.ingest(CrdtSync((operation,)), sender=A, now_us=NOW)
    b.declare(COUNTER, Kind.PN_COUNTER, now_us=NOW)
    assert b.count(COUNTER) == 4
    b.ingest(_sync(_operation(10, b"text", node=9)), sender=A, now_us=NOW)
    with pytest.raises(MalformedState):
        b.declare(NodeId(9), Kind.MV, now_us=NOW)
    assert b.state(NodeId(9)) == b"text"


def test_a_state_of_no_such_kind_refuses_the_whole_frame() -> None:
    a, _ = _pair(Kind.PN_COUNTER, COUNTER)
    with pytest.raises(MalformedState):
        a.ingest(_sync(_operation(5, node=1, peer=B), _operation(5, b"?", node=COUNTER, peer=B)), sender=B, now_us=NOW)
    assert a.state(NodeId(1)) is None
    assert a.count(COUNTER) == 0


def test_a_register_keeps_a_bounded_number_of_concurrent_values() -> None:
    a, _ = _pair(Kind.MV, SEVERAL)

    def frame(*peers: int) -> CrdtSync:
        return _sync(
            *(
                _operation(5, states.encode(Mv([(frozenset({(PeerId(peer), 1)}), b"v")])), node=SEVERAL, peer=B)
                for peer in peers
            )
        )

    a.ingest(frame(*range(10, 10 + ENTRIES_MAX - 1)), sender=B, now_us=NOW)
    with pytest.raises(MalformedState, match="concurrent"):
        a.ingest(frame(1000, 1001), sender=B, now_us=NOW)
    assert a.ingest(frame(1000), sender=B, now_us=NOW).changed == ()
    a.put(SEVERAL, b"mine", now_us=NOW)
    assert a.values(SEVERAL) == {b"mine"}


def test_nothing_is_merged_or_written_that_others_could_not_read() -> None:
    """Two states that can be read become one that cannot; it would end every link on which it is sent."""
    a, _ = _pair(Kind.PN_COUNTER, COUNTER)

    def frame(first: int, stamp: int) -> CrdtSync:
        tallies = {PeerId(peer): 1 for peer in range(first, first + PEERS_MAX - 10)}
        return _sync(_operation(stamp, states.encode(PnCounter(tallies)), node=COUNTER, peer=B))

    a.ingest(frame(1000, 5), sender=B, now_us=NOW)
    with pytest.raises(MalformedState, match="peers"):
        a.ingest(frame(2000, 6), sender=B, now_us=NOW)
    assert a.count(COUNTER) == PEERS_MAX - 10
    a.declare(SEVERAL, Kind.MV, now_us=NOW)
    with pytest.raises(UsageError, match="read"):
        a.put(SEVERAL, b"x" * STATE_BYTES_MAX, now_us=NOW)
    assert a.values(SEVERAL) == frozenset()
    a.put(SEVERAL, b"x" * (STATE_BYTES_MAX // 2), now_us=NOW)
    state = a.state(SEVERAL)
    assert isinstance(state, bytes)
    assert states.decode_values(state).values == a.values(SEVERAL)


def test_cells_are_used_as_they_were_declared() -> None:
    a, _ = _pair(Kind.PN_COUNTER, COUNTER)
    for wrong in (
        lambda: a.put(COUNTER, b"x", now_us=1),
        lambda: a.values(COUNTER),
        lambda: a.set(COUNTER, b"x", now_us=1),
        lambda: a.remove(COUNTER, now_us=1),
        lambda: a.add(NodeId(1), 1, now_us=1),
        lambda: a.count(NodeId(1)),
        lambda: a.remove(NodeId(1), now_us=1),
        lambda: a.declare(COUNTER, Kind.MV, now_us=1),
    ):
        with pytest.raises(UsageError):
            wrong()
    assert a.count(COUNTER) == 0
