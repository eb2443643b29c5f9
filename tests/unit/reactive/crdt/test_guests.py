"""Who is no member speaks for itself alone, also inside the state of a merged cell."""

import pytest

from bobbin.errors import PeerError
from bobbin.reactive.crdt import guests, states
from bobbin.reactive.crdt.guests import UNVOUCHED, Guest
from bobbin.reactive.crdt.mv import Mv
from bobbin.reactive.crdt.plane import Plane
from bobbin.reactive.crdt.pn_counter import PnCounter
from bobbin.reactive.crdt.states import Kind, MalformedState
from bobbin.reactive.messages import U64_MAX, CrdtOperation, CrdtSync, NodeId, PeerId, Stamp

A, B, GUEST = PeerId(1), PeerId(2), PeerId(9)
NOW = 10**6
VOTES, TITLE = NodeId(5), NodeId(6)


@pytest.fixture
def plane() -> Plane:
    plane = Plane(A, members=[B])
    plane.declare(VOTES, Kind.PN_COUNTER, now_us=NOW)
    plane.declare(TITLE, Kind.MV, now_us=NOW)
    return plane


def _counted(added: dict[int, int], taken: dict[int, int] | None = None, *, at: int = 1) -> CrdtOperation:
    tallies = [{PeerId(peer): count for peer, count in one.items()} for one in (added, taken or {})]
    return CrdtOperation(VOTES, None, Stamp(NOW + at, 0, GUEST), states.encode(PnCounter(*tallies)))


def _titled(*entries: tuple[dict[int, int], bytes], at: int = 1) -> CrdtOperation:
    made = [(frozenset((PeerId(peer), count) for peer, count in version.items()), value) for version, value in entries]
    return CrdtOperation(TITLE, None, Stamp(NOW + at, 0, GUEST), states.encode(Mv(made)))


def _take(plane: Plane, guest: Guest, *operations: CrdtOperation) -> None:
    frontier = ((GUEST, max(one.stamp for one in operations)),)
    plane.ingest(guest.admit(CrdtSync(operations, frontier)), sender=GUEST, now_us=NOW)


def test_of_a_counter_the_own_tallies_are_taken_and_no_others(plane: Plane) -> None:
    plane.add(VOTES, 3, now_us=NOW)
    guest = Guest(plane, GUEST)
    invented = dict.fromkeys(range(1000, 1200), 1)
    _take(plane, guest, _counted({A: U64_MAX, B: 77, GUEST: 4, **invented}, {B: 5, GUEST: 1}))
    assert plane.count(VOTES) == 3 + 4 - 1
    plane.add(VOTES, 1, now_us=NOW)
    assert plane.count(VOTES) == 7
    register = plane.register(VOTES)
    assert isinstance(register, PnCounter)
    assert set(register.added) == {A, GUEST}
    assert guest.held == 0
    assert plane.frontier[GUEST] == Stamp(NOW + 1, 0, GUEST)


def test_all_replicas_take_the_same_under_one_stamp(plane: Plane) -> None:
    """Whatever they know themselves: else each would think that the other has what it has not."""
    other = Plane(B, members=[A])
    other.declare(VOTES, Kind.PN_COUNTER, now_us=NOW)
    plane.add(VOTES, 3, now_us=NOW)
    said = CrdtSync((_counted({A: 3, GUEST: 1}),))
    assert Guest(plane, GUEST).admit(said) == Guest(other, GUEST).admit(said)


def test_a_value_is_taken_when_what_its_writer_had_seen_is_known(plane: Plane) -> None:
    guest = Guest(plane, GUEST)
    _take(plane, guest, _counted({GUEST: 1}), _titled(({B: 1, GUEST: 1}, b"after that of B")))
    assert (plane.count(VOTES), plane.values(TITLE), guest.held) == (1, frozenset(), 1)
    assert plane.frontier[GUEST] < Stamp(NOW + 1, 0, GUEST), "it is still on its way"
    assert guest.release() == CrdtSync(())
    of_b = Mv([(frozenset({(B, 1)}), b"B's")])
    operation = CrdtOperation(TITLE, None, Stamp(NOW, 0, B), states.encode(of_b))
    plane.ingest(CrdtSync((operation,)), sender=B, now_us=NOW)
    plane.ingest(guest.release(), sender=GUEST, now_us=NOW)
    assert plane.values(TITLE) == {b"after that of B"}
    assert guest.held == 0
    _take(plane, guest, _titled(({GUEST: 2}, b"without having seen it"), at=2))
    assert plane.values(TITLE) == {b"after that of B", b"without having seen it"}
    assert plane.frontier[GUEST] == Stamp(NOW + 2, 0, GUEST)


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([({A: U64_MAX}, b"x")], id="more than was ever written"),
        pytest.param([({A: U64_MAX, GUEST: 1}, b"x")], id="more than was ever seen"),
        pytest.param([({A: 1}, b"forged")], id="another value under a version of another"),
        pytest.param([({A: 1, GUEST: 1}, b"1"), ({GUEST: 2}, b"2")], id="two values at once"),
        pytest.param([({GUEST: 1}, b"1"), ({GUEST: 1}, b"2")], id="two values under one version"),
        pytest.param([({77: 1}, b"x")], id="somebody who is not there"),
    ],
)
def test_nobody_writes_in_the_name_of_another(plane: Plane, entries: list[tuple[dict[int, int], bytes]]) -> None:
    plane.put(TITLE, b"mine", now_us=NOW)
    guest = Guest(plane, GUEST)
    _take(plane, guest, _titled(*entries))
    assert guest.held == 1
    plane.put(TITLE, b"again", now_us=NOW)
    plane.ingest(guest.release(), sender=GUEST, now_us=NOW)
    assert plane.values(TITLE) == {b"again"}


def test_what_is_here_or_superseded_may_be_said_again(plane: Plane) -> None:
    guest = Guest(plane, GUEST)
    _take(plane, guest, _titled(({GUEST: 1}, b"1")))
    _take(plane, guest, _titled(({GUEST: 1}, b"1"), at=2))
    plane.put(TITLE, b"mine", now_us=NOW)
    _take(plane, guest, _titled(({GUEST: 1}, b"1"), at=3))
    assert (set(plane.values(TITLE)), guest.held) == ({b"mine"}, 0)


def test_the_first_and_the_last_operation_of_a_cell_wait(plane: Plane) -> None:
    """The first becomes known sooner, and the last says it all."""
    guest = Guest(plane, GUEST)
    for count in (1, 2, 3):
        _take(plane, guest, _titled(({B: count, GUEST: count}, b"%d" % count), at=count))
    _take(plane, guest, _titled(({B: 2, GUEST: 2}, b"late"), at=2))
    assert guest.held == 2

    def b_writes(count: int) -> None:
        state = states.encode(Mv([(frozenset({(B, count)}), b"B's")]))
        plane.ingest(CrdtSync((CrdtOperation(TITLE, None, Stamp(NOW, count, B), state),)), sender=B, now_us=NOW)
        plane.ingest(guest.release(), sender=GUEST, now_us=NOW)

    b_writes(1)
    assert (set(plane.values(TITLE)), guest.held) == ({b"1"}, 1)
    b_writes(3)
    assert (set(plane.values(TITLE)), guest.held) == ({b"3"}, 0)


def test_what_comes_later_and_can_be_taken_lets_go_what_waited(plane: Plane) -> None:
    guest = Guest(plane, GUEST)
    _take(plane, guest, _titled(({B: 1, GUEST: 1}, b"1")))
    _take(plane, guest, _titled(({GUEST: 2}, b"2"), at=2))
    assert (set(plane.values(TITLE)), guest.held) == ({b"2"}, 0)


def test_what_is_not_merged_passes(plane: Plane) -> None:
    operation = CrdtOperation(NodeId(1), "opaque", Stamp(NOW, 0, GUEST), b"?")
    sync = CrdtSync((operation,), ((GUEST, operation.stamp),))
    assert Guest(plane, GUEST).admit(sync) == sync


def test_what_is_no_state_is_refused(plane: Plane) -> None:
    wrong = CrdtOperation(VOTES, None, Stamp(NOW, 0, GUEST), b"?")
    with pytest.raises(MalformedState):
        Guest(plane, GUEST).admit(CrdtSync((wrong,)))


def test_only_so_much_waits(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "HELD_BYTES_MAX", 100)
    with pytest.raises(PeerError) as refused:
        Guest(plane, GUEST).admit(CrdtSync((_titled(({B: 1, GUEST: 1}, b"x" * 100)),)))
    assert refused.value.code == UNVOUCHED
    monkeypatch.undo()
    monkeypatch.setattr(guests, "HELD_MAX", 0)
    with pytest.raises(PeerError):
        Guest(plane, GUEST).admit(CrdtSync((_titled(({B: 1, GUEST: 1}, b"x")),)))
