"""Replicas converge, whatever is lost, doubled, delayed or restarted on the way; and to what was really written.

The slow way is ``_Book``: it has every write ever made, and says what the outcome is to be from these alone.
"""

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.reactive.crdt.clock import HybridClock, StampRefused
from bobbin.reactive.crdt.guests import Guest
from bobbin.reactive.crdt.lww import Lww
from bobbin.reactive.crdt.mv import Mv
from bobbin.reactive.crdt.plane import TOMBSTONE, Plane
from bobbin.reactive.crdt.pn_counter import PnCounter
from bobbin.reactive.crdt.states import Kind, decode_counter, decode_values, encode
from bobbin.reactive.messages import CrdtOperation, CrdtSync, NodeId, PeerId, Stamp, Value
from tests.properties.effort import scaled

_PEERS = st.integers(1, 4).map(PeerId)
_STAMPS = st.builds(Stamp, st.integers(0, 3), st.integers(0, 2), _PEERS)

# ---- registers ------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(_STAMPS, st.binary(max_size=1)), min_size=3, max_size=3))
def test_merging_opaque_states_is_a_join(written: list[tuple[Stamp, bytes]]) -> None:
    """RX-128: commutative, associative and idempotent, also where one stamp has two values."""
    a, b, c = (Lww(value, stamp) for stamp, value in written)

    def merged(*parts: Lww[bytes]) -> tuple[bytes, Stamp]:
        whole = parts[0].fork()
        for part in parts[1:]:
            before = whole.value
            assert whole.merge(part) is (whole.value != before)
        return whole.value, whole.stamp

    def both(one: Lww[bytes], other: Lww[bytes]) -> Lww[bytes]:
        return Lww(*merged(one, other))

    assert merged(a, b) == merged(b, a)
    assert merged(a, both(b, c)) == merged(both(a, b), c)
    assert merged(a, a) == (a.value, a.stamp)


_STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["write", "merge"]), st.integers(0, 2), st.integers(-3, 3)),
    max_size=25,
)


@given(_STEPS)
def test_merging_counters_is_a_join_and_counts_everything_once(steps: list[tuple[int, str, int, int]]) -> None:
    """RX-100, RX-136."""
    replicas = [PnCounter() for _ in range(3)]
    total = 0
    for place, kind, other, amount in steps:
        before = replicas[place].value
        if kind == "write":
            changed = replicas[place].add(amount, PeerId(place))
            total += amount
        else:
            changed = replicas[place].merge(replicas[other])
        assert changed is (replicas[place].value != before)
    _check_join(replicas)
    whole = replicas[0].fork()
    whole.merge(replicas[1])
    whole.merge(replicas[2])
    assert whole.value == total
    assert encode(decode_counter(encode(whole))) == encode(whole)


@given(_STEPS)
def test_merging_several_values_is_a_join_and_keeps_what_nobody_has_seen(
    steps: list[tuple[int, str, int, int]],
) -> None:
    """RX-099, RX-135: what is left is every write that no other write had seen."""
    replicas: list[Mv[bytes]] = [Mv() for _ in range(3)]
    known: list[set[bytes]] = [set() for _ in range(3)]
    superseded: set[bytes] = set()
    for number, (place, kind, other, _) in enumerate(steps):
        before = replicas[place].values
        if kind == "write":
            value = b"%d" % number
            superseded |= known[place]
            known[place].add(value)
            changed = replicas[place].set(value, PeerId(place))
        else:
            known[place] |= known[other]
            changed = replicas[place].merge(replicas[other])
        assert changed is (replicas[place].values != before)
    _check_join(replicas)
    whole = replicas[0].fork()
    whole.merge(replicas[1])
    whole.merge(replicas[2])
    assert whole.values == set().union(*known) - superseded
    assert decode_values(encode(whole)).entries == whole.entries


def _check_join(replicas: list[PnCounter] | list[Mv[bytes]]) -> None:
    def merged(*places: int) -> bytes:
        whole = replicas[places[0]].fork()
        for place in places[1:]:
            whole.merge(replicas[place].fork())  # type: ignore[arg-type]
        return encode(whole)

    assert merged(0, 1) == merged(1, 0)
    assert merged(0, 1, 2) == merged(2, 1, 0) == merged(1, 2, 0) == merged(0, 2, 1)
    assert merged(0, 0) == merged(0)
    assert merged(0, 1, 2, 0, 1, 2) == merged(0, 1, 2)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20), st.integers(0, 20), st.integers(0, 3)), max_size=40))
def test_stamps_grow_and_exceed_everything_that_was_seen(steps: list[tuple[bool, int, int, int]]) -> None:
    """RX-132."""
    clock = HybridClock(PeerId(1), ahead_us_max=10)
    latest = clock.last
    for is_write, now, wall, logical in steps:
        remote = Stamp(wall, logical, PeerId(2))
        if not is_write and wall > now + 10:
            with pytest.raises(StampRefused):
                clock.observe(remote, now)
            assert clock.last == latest
            continue
        moved = clock.tick(now) if is_write else clock.observe(remote, now)
        assert moved > latest
        assert is_write or moved > remote
        latest = moved


# ---- planes ---------------------------------------------------------------------------------------------------------

MEMBERS = (PeerId(1), PeerId(2), PeerId(3))
GUEST = PeerId(4)
STRANGER = PeerId(5)
"""May write the merged cells, and says what it likes of others' parts in them."""
COUNTER, SEVERAL = NodeId(100), NodeId(101)
_CELLS = 25


@dataclass
class _Book:
    """Everything that was ever written."""

    written: dict[NodeId, list[CrdtOperation]] = field(default_factory=dict)
    total: int = 0
    several: set[bytes] = field(default_factory=set)
    superseded: set[bytes] = field(default_factory=set)
    history: dict[bytes, set[bytes]] = field(default_factory=dict)
    """What each of the several values has in its past."""

    def cells(self) -> dict[NodeId, Value]:
        """The value of each cell that is not removed: that of the greatest stamp."""
        last = {node: max(operations, key=lambda one: one.stamp) for node, operations in self.written.items()}
        return {node: one.state for node, one in last.items() if one.state != TOMBSTONE}


class _World:
    """Planes, and frames on their way."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.book = _Book()
        self.now = 1_000
        self.planes: dict[PeerId, Plane] = {}
        self.guests: dict[PeerId, dict[PeerId, Guest]] = {}
        """By receiver, those whom it believes nothing but their own part."""
        self.flying: list[tuple[PeerId, PeerId, CrdtSync]] = []
        self.numbers = 0
        self.collected = False
        for peer in (*MEMBERS, GUEST):
            self._bear(peer, None)

    def _bear(self, peer: PeerId, since: Stamp | None) -> None:
        plane = Plane(peer, members=MEMBERS, since=since)
        plane.declare(COUNTER, Kind.PN_COUNTER, now_us=self.now)
        plane.declare(SEVERAL, Kind.MV, now_us=self.now)
        self.planes[peer] = plane
        self.guests[peer] = {one: Guest(plane, one) for one in (GUEST, STRANGER) if one != peer}

    def step(self) -> None:
        self.now += self.random.choice((0, 0, 1, 5))
        plane = self.planes[self.random.choice(tuple(self.planes))]
        match self.random.randrange(21):
            case 20:
                self._lie(plane.own)
            case 0 | 1:
                self._write(plane)
            case 2 | 3:
                self._remove(plane)
            case 4:
                self._meet()
            case 5:
                amount = self.random.randint(-5, 5)
                self.book.total += amount
                self._push(plane, plane.add(COUNTER, amount, now_us=self._time()))
            case 6:
                self._put(plane)
            case 7 if plane.own != GUEST:
                self.collected |= bool(plane.collect())
            case 8 if self.random.random() < 0.3 and plane.own != GUEST:
                self._restart(plane.own)
            case 9 | 10 | 11 | 12:
                self._send(plane)
            case _:
                self._deliver()

    def _time(self) -> int:
        """Clocks of machines differ, and go back."""
        return self.now + self.random.randint(-20, 20)

    def _write(self, plane: Plane) -> None:
        self.numbers += 1
        node = NodeId(self.random.randrange(_CELLS))
        value = b"%d" % (self.numbers if self.random.random() < 0.7 else 0)
        self._note(plane, plane.set(node, value, now_us=self._time()))

    def _remove(self, plane: Plane) -> None:
        cells = [name for name in plane.names() if isinstance(name, int) and name < _CELLS]
        if cells:
            self._note(plane, plane.remove(self.random.choice(cells), now_us=self._time()))

    def _note(self, plane: Plane, operation: CrdtOperation) -> None:
        self.book.written.setdefault(operation.id, []).append(operation)
        self._push(plane, operation)

    def _put(self, plane: Plane) -> None:
        self.numbers += 1
        value, book = b"value %d" % self.numbers, self.book
        seen = plane.values(SEVERAL)
        book.history[value] = set(seen).union(*(book.history[one] for one in seen))
        book.superseded |= book.history[value]
        book.several.add(value)
        self._push(plane, plane.put(SEVERAL, value, now_us=self._time()))

    def _push(self, plane: Plane, operation: CrdtOperation) -> None:
        """A write may go out at once, alone and without a frontier."""
        for peer in self.planes:
            if peer != plane.own and self.random.random() < 0.3:
                self.flying.append((plane.own, peer, CrdtSync((operation,))))

    def _meet(self) -> None:
        """Two speak with each other undisturbed."""
        one, other = self.random.sample(tuple(self.planes.values()), 2)
        for _ in range(2):
            self._take(one.own, other.own, self._frame(one, other.own))
            self._take(other.own, one.own, self._frame(other, one.own))

    def _send(self, plane: Plane) -> None:
        peer = self.random.choice([one for one in self.planes if one != plane.own])
        self.flying.append((plane.own, peer, self._frame(plane, peer)))

    def _frame(self, plane: Plane, peer: PeerId, *, bounded: bool = True) -> CrdtSync:
        """A guest sends only what it wrote itself: nobody believes it anything else."""
        own_only = plane.own == GUEST
        return plane.sync_for(
            peer,
            allows=(lambda one: one.stamp.peer == GUEST) if own_only else None,
            operations_max=self.random.choice((None, 1, 3)) if bounded else None,
            whole=self.random.random() < 0.1,
        )

    def _deliver(self) -> None:
        if not self.flying:
            return
        place = self.random.randrange(len(self.flying))
        fate = self.random.random()
        sender, receiver, frame = self.flying[place] if fate < 0.2 else self.flying.pop(place)
        if fate < 0.85:
            self._take(sender, receiver, frame)

    def _lie(self, receiver: PeerId) -> None:
        """What was never written is said to have been, by others, and by nobody."""
        claimed = {PeerId(self.random.randint(1, 9)): 2**40 for _ in range(3)} | {MEMBERS[0]: 2**41}
        claimed.pop(STRANGER, None)
        counter = encode(PnCounter(claimed, {MEMBERS[1]: 2**42}))
        several = encode(Mv([(frozenset(claimed.items()), b"a lie"), (frozenset({(MEMBERS[2], 1)}), b"another")]))
        stamp = Stamp(self.now, self.random.randrange(3), STRANGER)
        lies = CrdtOperation(COUNTER, None, stamp, counter), CrdtOperation(SEVERAL, None, stamp, several)
        frontier = ((MEMBERS[0], Stamp(self.now, 2**20, MEMBERS[0])), (STRANGER, stamp))
        self._take(STRANGER, receiver, CrdtSync(lies, frontier))

    def _take(self, sender: PeerId, receiver: PeerId, frame: CrdtSync) -> None:
        guest = self.guests[receiver].get(sender)
        self._merge(sender, receiver, frame if guest is None else guest.admit(frame))
        for peer, waiting in self.guests[receiver].items():
            self._merge(peer, receiver, waiting.release())

    def _merge(self, sender: PeerId, receiver: PeerId, frame: CrdtSync) -> None:
        plane = self.planes[receiver]
        before = {name: plane.state(name) for name in plane.names()}
        merged = plane.ingest(frame, sender=sender, now_us=self._time())
        after = {name: plane.state(name) for name in plane.names()}
        opaque = {name for name in {*before, *after} - {COUNTER, SEVERAL} if before.get(name) != after.get(name)}
        assert opaque <= set(merged.changed), "what looks different was told"
        assert plane.ingest(frame, sender=sender, now_us=self.now).applied == 0, "a second time there is nothing new"

    def _restart(self, peer: PeerId) -> None:
        """A member comes back with its clock and nothing else; another one, to which all was sent, gives it back."""
        old = self.planes[peer]
        keeper = next(one for one in MEMBERS if one != peer)
        self.planes[keeper].forget(peer)
        old.forget(keeper)
        self._take(peer, keeper, self._frame(old, keeper, bounded=False))
        self.flying = [one for one in self.flying if peer not in one[:2]]
        self._bear(peer, old.clock.last)
        for plane in self.planes.values():
            plane.forget(peer)
        self._take(keeper, peer, self.planes[keeper].sync_for(peer))

    def settle(self) -> None:
        """Everything that flies is lost, and links work from now on."""
        self.flying.clear()
        for _ in range(4):
            for one in self.planes.values():
                for peer in self.planes:
                    if one.own != peer:
                        self._take(one.own, peer, self._frame(one, peer, bounded=False))


def _cells(plane: Plane) -> dict[NodeId, Value | None]:
    return {name: plane.state(name) for name in plane.names() if isinstance(name, int) and name < _CELLS}


def _run(seed: int, steps: int) -> None:
    world = _World(seed)
    for _ in range(steps):
        world.step()
    world.settle()
    book = world.book
    for peer, plane in world.planes.items():
        if peer == GUEST and world.collected:
            # Members do not wait for guests before they forget what was removed.
            continue
        assert _cells(plane) == book.cells(), (seed, peer)
        assert plane.count(COUNTER) == book.total, (seed, peer)
        assert plane.values(SEVERAL) == book.several - book.superseded, (seed, peer)
    members = [world.planes[peer] for peer in MEMBERS]
    assert len({one.state(SEVERAL) for one in members}) == len({one.state(COUNTER) for one in members}) == 1
    for plane in members:
        for other in MEMBERS:
            # The stranger has never said how much of what it says there is.
            due = [one for one in plane.sync_for(other).operations if one.stamp.peer != STRANGER]
            assert other == plane.own or due == [], seed
        plane.collect()
        assert set(_cells(plane)) == {name for name in plane._cells if name not in (COUNTER, SEVERAL)}, (
            "all is forgotten"
        )


@scaled(0.5)
@given(st.integers(0, 2**32), st.integers(1, 120))
def test_replicas_converge_to_what_was_written(seed: int, steps: int) -> None:
    """RX-103, RX-128, RX-131: through loss, reordering, doubling, restarts, removal and forgetting."""
    _run(seed, steps)


@pytest.mark.slow
@scaled(2)
@given(st.integers(0, 2**32))
def test_replicas_converge_after_long_histories(seed: int) -> None:
    """RX-103, RX-128, RX-131."""
    _run(seed, 400)
