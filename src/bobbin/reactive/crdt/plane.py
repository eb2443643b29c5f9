"""All replicated cells of one peer, and how far it and the others have seen each other's writes.

A cell is named by its key where it has one, since ids differ from peer to peer, and by its id otherwise. Of an opaque
cell, which is the default, the operation with the greatest stamp is kept. Cells that were declared to be counters or
registers of several values are merged; a state that nobody had before is a write of whoever merged it, with a stamp of
its own, so that one stamp always names one state. Either way operations may come in any order, any number of times.

The *frontier* of a peer says, for each peer, up to which stamp it has seen everything. ``sync_for`` gives what a peer
has not seen by its own report; so whoever takes such a frame has seen what the sender has, and its frontier rises with
the frame's. It never rises with single operations: one that was lost on the way is sent again. A frame without
operations is a report and no more. Only *members*, full replicas that are trusted with the writes of others, may vouch
for these: what anybody else says of third peers, by stamp or by frontier, does not count. What it says of them inside
the state of a merged cell is looked at by whoever has the link (``guests``).

A cell is removed by a write, the tombstone. It can be forgotten when it lies at or below the *watermark*, the least
of what all members say of themselves, and every member has said that it saw it; then nobody has anything older to send.

A frame is taken whole or not at all. Nothing here knows the time: it comes as an argument, in microseconds.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Final, TypeAlias

from msgspec import Struct, structs

from bobbin.errors import PeerError, UsageError
from bobbin.profile import STAMP_AHEAD_US_MAX
from bobbin.reactive.crdt import states
from bobbin.reactive.crdt.clock import HybridClock, StampRefused
from bobbin.reactive.crdt.mv import Mv
from bobbin.reactive.crdt.pn_counter import PnCounter
from bobbin.reactive.crdt.stamp_index import StampIndex
from bobbin.reactive.crdt.states import Kind, MalformedState, Register
from bobbin.reactive.messages import CrdtOperation, CrdtSync, NodeId, PeerId, Stamp, Value

CellName: TypeAlias = NodeId | str
Allows: TypeAlias = Callable[[CrdtOperation], bool]
"""Whether somebody may read, or write, what an operation is about."""

TOMBSTONE: Final = b"\xff\xfegone"
"""The state of a removed cell. It is no UTF-8, so no text and no JSON can be mistaken for it."""

CELLS_MAX: Final = 1_000_000
PAST_MAX: Final = 64
"""Stamps remembered for each cell besides the one that holds. Older ones count as seen."""

FOREIGN_STAMP: Final = "foreign_stamp"
TOO_MANY_CELLS: Final = "too_many_cells"


class ReservedState(UsageError):
    """A state that says that a cell is removed cannot be written otherwise than by removing it. Nothing has changed."""


class Merged(Struct, frozen=True, kw_only=True):
    """What a frame did."""

    applied: int
    """Operations that were new here, whether they prevailed or not."""
    changed: tuple[CellName, ...]
    """Cells where there is something else to see now."""
    denied: int = 0
    """Operations dropped because the sender may not write there."""
    asks_frontier: bool = False
    """The sender has never said what it has seen: it is to be asked for everything, once."""


class Plane:
    """The replica of one peer."""

    def __init__(
        self,
        own: PeerId,
        *,
        members: Iterable[PeerId] = (),
        since: Stamp | None = None,
        ahead_us_max: int = STAMP_AHEAD_US_MAX,
        cells_max: int = CELLS_MAX,
    ) -> None:
        """``members`` are the full replicas besides this one. ``since``: see ``HybridClock``."""
        self.own: Final = own
        self.members: Final = frozenset(members) | {own}
        self.clock: Final = HybridClock(own, since=since, ahead_us_max=ahead_us_max)
        self._cells_max: Final = cells_max
        self._cells: Final[dict[CellName, CrdtOperation]] = {}
        """The operation that holds, of each cell; of a merged one, its present state."""
        self._index: Final = StampIndex(self._cells)
        self._fresh: Final[dict[CellName, None]] = {}
        """Cells that were written since the index was used."""
        self._registers: Final[dict[CellName, Register]] = {}
        """Of the merged cells."""
        self._past: Final[dict[CellName, list[Stamp]]] = {}
        """Stamps of operations that were seen and do not hold, ascending. What held until now is the last of them."""
        self._floors: Final[dict[CellName, Stamp]] = {}
        """Up to here a cell's past is no longer told apart."""
        self._frontier: Final[dict[PeerId, Stamp]] = {}
        self._reported: Final[dict[PeerId, dict[PeerId, Stamp]]] = {}
        """The frontier of each peer, as it said itself."""
        self._heard: Final[dict[PeerId, tuple[tuple[PeerId, Stamp], ...]]] = {}
        """The same, as it came with operations. Most frames have the one of the frame before."""
        self._asked: Final[set[PeerId]] = set()
        self._turns: Final[dict[PeerId, int]] = {}
        """How much was sent to a peer of what it cannot acknowledge."""
        self._collected: Final[dict[PeerId, Stamp]] = {}
        """Everything up to here was seen by all members when cells were last forgotten."""

    # ---- reading ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._cells)

    def state(self, name: CellName) -> Value | None:
        """The state of a cell; None if there is none, or if it was removed."""
        held = self._cells.get(name)
        return None if held is None or held.state == TOMBSTONE else held.state

    def stamp(self, name: CellName) -> Stamp | None:
        """The greatest stamp of a cell."""
        held = self._cells.get(name)
        return None if held is None else held.stamp

    def names(self) -> tuple[CellName, ...]:
        """All cells that were not removed."""
        return tuple(name for name, held in self._cells.items() if held.state != TOMBSTONE)

    def count(self, name: CellName) -> int:
        """The value of a counter."""
        return self._counter(name).value

    def values(self, name: CellName) -> frozenset[bytes]:
        """The values of a register of several."""
        return self._several(name).values

    @property
    def frontier(self) -> Mapping[PeerId, Stamp]:
        """Up to which stamp everything of each peer has been seen here."""
        return {**self._frontier, self.own: self.clock.last}

    @property
    def watermark(self) -> Stamp | None:
        """The least of what all members say of themselves; None while one of them has said nothing."""
        least = self.clock.last
        for member in self.members - {self.own}:
            said = self._reported.get(member, {}).get(member)
            if said is None:
                return None
            least = min(least, said)
        return least

    # ---- writing ----------------------------------------------------------------------------------------------------

    def set(self, node: NodeId, state: bytes, *, now_us: int, key: str | None = None) -> CrdtOperation:
        """Write an opaque cell; returns what is to be sent. Raises ``ReservedState`` for the tombstone."""
        name = _name(node, key)
        if name in self._registers:
            raise UsageError(f"cell {name} is merged; it is not set")
        if state == TOMBSTONE:
            raise ReservedState(f"this state of cell {name} would say that it is removed")
        return self._write(name, CrdtOperation(node, key, self.clock.tick(now_us), state))

    def remove(self, name: CellName, *, now_us: int) -> CrdtOperation:
        """Remove an opaque cell; returns what is to be sent."""
        held = self._cells.get(name)
        if held is None or held.state == TOMBSTONE or name in self._registers:
            raise UsageError(f"there is no cell {name} that can be removed")
        return self._write(name, structs.replace(held, stamp=self.clock.tick(now_us), state=TOMBSTONE))

    def declare(self, node: NodeId, kind: Kind, *, key: str | None = None, now_us: int) -> None:
        """Say that a cell is merged: from now on its states are read, and not only compared by stamp.

        To be said before there are links: what peers have sent for it is merged whole, whoever it was. Raises
        ``MalformedState`` if that is of no such kind.
        """
        name = _name(node, key)
        if name in self._registers:
            raise UsageError(f"cell {name} is declared already")
        register = states.empty(kind)
        held = self._cells.get(name)
        if held is not None:
            states.join(register, states.like(register, held.state))
        self._registers[name] = register
        if held is None:
            self._cells[name] = CrdtOperation(node, key, self.clock.tick(now_us), states.encode(register))
            self._fresh[name] = None

    def register(self, name: CellName) -> Register | None:
        """A copy of what a merged cell has; None for one that is not merged."""
        register = self._registers.get(name)
        return None if register is None else register.fork()

    def add(self, name: CellName, amount: int, *, now_us: int) -> CrdtOperation:
        """Raise or lower a counter; returns what is to be sent."""
        counter = self._counter(name).fork()
        counter.add(amount, self.own)
        return self._restate(name, counter, now_us)

    def put(self, name: CellName, value: bytes, *, now_us: int) -> CrdtOperation:
        """Write a register of several values in place of all that are seen; returns what is to be sent."""
        several = self._several(name).fork()
        several.set(value, self.own)
        return self._restate(name, several, now_us)

    def _counter(self, name: CellName) -> PnCounter:
        register = self._registers.get(name)
        if not isinstance(register, PnCounter):
            raise UsageError(f"cell {name} is not declared to be a counter")
        return register

    def _several(self, name: CellName) -> Mv[bytes]:
        register = self._registers.get(name)
        if not isinstance(register, Mv):
            raise UsageError(f"cell {name} is not declared to have several values")
        return register

    def _restate(self, name: CellName, register: Register, now_us: int) -> CrdtOperation:
        if (wrong := states.excess(register)) is not None:
            raise UsageError(f"nobody could read cell {name} any more: {wrong}")
        stamp, state = self.clock.tick(now_us), states.encode(register)
        self._registers[name] = register
        return self._write(name, structs.replace(self._cells[name], stamp=stamp, state=state))

    def _write(self, name: CellName, operation: CrdtOperation) -> CrdtOperation:
        held = self._cells.get(name)
        if held is not None:
            assert held.stamp < operation.stamp, "the clock has seen every stamp that is held"
            self._remember(name, held.stamp)
        self._cells[name] = operation
        self._fresh[name] = None
        return operation

    # ---- taking frames ----------------------------------------------------------------------------------------------

    def ingest(self, sync: CrdtSync, *, sender: PeerId, now_us: int, allows: Allows | None = None) -> Merged:
        """Merge a frame of an authenticated sender. Raises ``PeerError``, and has changed nothing then."""
        operations = sync.operations if allows is None else tuple(filter(allows, sync.operations))
        latest = self._check(operations, sync.frontier or (), sender, now_us)
        read = self._read(operations) if self._registers else {}
        if latest is not None:
            self.clock.advance(latest.wall_time, latest.logical, now_us)
        applied, changed = self._merge(operations, read, now_us)
        asks = False
        if sync.frontier:
            if not sync.operations:
                self._reported[sender] = dict(sync.frontier)
                self._heard.pop(sender, None)
            elif sync.frontier != self._heard.get(sender):
                self._take_frontier(sync.frontier, sender)
        elif sender not in self._reported and sender not in self._asked:
            self._asked.add(sender)
            asks = True
        denied = len(sync.operations) - len(operations)
        return Merged(applied=applied, changed=tuple(changed), denied=denied, asks_frontier=asks)

    def _check(
        self,
        operations: tuple[CrdtOperation, ...],
        frontier: tuple[tuple[PeerId, Stamp], ...],
        sender: PeerId,
        now_us: int,
    ) -> Stamp | None:
        """The greatest wall time and counter in the frame, if all of its stamps may be taken."""
        wall_max = now_us + self.clock.ahead_us_max
        vouches = sender in self.members
        latest: Stamp | None = None
        wall, logical = -1, -1
        for operation in operations:
            stamp = operation.stamp
            if stamp.peer != sender and not vouches:
                raise PeerError(FOREIGN_STAMP, f"peer {sender} sends a write of peer {stamp.peer}, and is no member")
            if stamp.wall_time > wall or (stamp.wall_time == wall and stamp.logical > logical):
                latest, wall, logical = stamp, stamp.wall_time, stamp.logical
        for peer, stamp in frontier:
            if (vouches or peer == sender) and (stamp.wall_time, stamp.logical) > (wall, logical):
                latest, wall, logical = stamp, stamp.wall_time, stamp.logical
        if latest is not None and wall > wall_max:
            raise StampRefused(latest, now_us, self.clock.ahead_us_max)
        if len(self._cells) + len(operations) > self._cells_max:
            fresh = {name for one in operations if (name := _name(one.id, one.key)) not in self._cells}
            if len(self._cells) + len(fresh) > self._cells_max:
                raise PeerError(TOO_MANY_CELLS, f"the frame would make more than {self._cells_max} cells")
        return latest

    def _read(self, operations: tuple[CrdtOperation, ...]) -> dict[int, Register]:
        """The states of merged cells, by the place of their operation. Raises ``MalformedState``."""
        read: dict[int, Register] = {}
        trials: dict[CellName, Register] = {}
        for place, operation in enumerate(operations):
            name = _name(operation.id, operation.key)
            register = self._registers.get(name)
            if register is None:
                continue
            read[place] = states.like(register, operation.state)
            trial = trials.setdefault(name, register.fork())
            states.join(trial, read[place])
            if (wrong := states.excess(trial)) is not None:
                # What is merged here is sent to others, who must be able to read it.
                raise MalformedState(f"cell {name} would have {wrong}")
        return read

    def _merge(
        self, operations: tuple[CrdtOperation, ...], read: dict[int, Register], now_us: int
    ) -> tuple[int, dict[CellName, None]]:
        cells, pasts, fresh, applied = self._cells, self._past, self._fresh, 0
        changed: dict[CellName, None] = {}
        for place, operation in enumerate(operations):
            name: CellName = operation.id if operation.key is None else operation.key
            if read and place in read:
                news, differs = self._join(name, operation, read[place], now_us)
                applied += news
                if differs:
                    changed[name] = None
                continue
            held = cells.get(name)
            if held is None:
                if self._collected and self._is_collected(operation.stamp):
                    continue
                cells[name] = operation
                fresh[name] = None
                applied += 1
                if operation.state != TOMBSTONE:
                    changed[name] = None
            elif operation.stamp > held.stamp:
                cells[name] = operation
                fresh[name] = None
                past = pasts.get(name)
                if past is None:
                    pasts[name] = [held.stamp]
                else:
                    past.append(held.stamp)
                    if len(past) > PAST_MAX:
                        self._trim(name, past)
                applied += 1
                if operation.state != held.state:
                    changed[name] = None
            elif operation.stamp == held.stamp:
                # Two states under one stamp: a fault of its maker, that must not keep replicas apart.
                if _rank(operation.state) > _rank(held.state):
                    cells[name] = operation
                    changed[name] = None
            elif self._remember(name, operation.stamp):
                applied += 1
        return applied, changed

    def _join(self, name: CellName, operation: CrdtOperation, incoming: Register, now_us: int) -> tuple[bool, bool]:
        """Merge a state; returns whether its stamp was new, and whether there is something else to see."""
        register, held = self._registers[name], self._cells[name]
        self._fresh[name] = None
        differs = states.join(register, incoming)
        ours, theirs, both = held.state, states.encode(incoming), states.encode(register)
        stamp = operation.stamp
        if both == theirs and (both != ours or stamp > held.stamp):
            self._cells[name] = structs.replace(held, stamp=stamp, state=both)
            self._remember(name, held.stamp)
            return stamp != held.stamp, differs
        news = stamp != held.stamp and self._remember(name, stamp)
        if both != ours:
            self._cells[name] = structs.replace(held, stamp=self.clock.tick(now_us), state=both)
            self._remember(name, held.stamp)
        return news, differs

    def _remember(self, name: CellName, stamp: Stamp) -> bool:
        """Keep a stamp that does not hold; returns whether it was new."""
        past = self._past.setdefault(name, [])
        place = bisect_left(past, stamp)
        if place < len(past) and past[place] == stamp:
            return False
        floor = self._floors.get(name)
        if floor is not None and stamp <= floor:
            return False
        past.insert(place, stamp)
        if len(past) > PAST_MAX:
            self._trim(name, past)
        return True

    def _trim(self, name: CellName, past: list[Stamp]) -> None:
        half = len(past) // 2
        self._floors[name] = past[half - 1]
        del past[:half]

    def _is_collected(self, stamp: Stamp) -> bool:
        through = self._collected.get(stamp.peer)
        return through is not None and stamp <= through

    def _take_frontier(self, frontier: tuple[tuple[PeerId, Stamp], ...], sender: PeerId) -> None:
        vouches = sender in self.members
        # The newest report counts, even if it says less: the peer may have lost what it had.
        self._reported[sender] = dict(frontier)
        self._heard[sender] = frontier
        for peer, stamp in frontier:
            if peer != self.own and (vouches or peer == sender):
                known = self._frontier.get(peer)
                if known is None or stamp > known:
                    self._frontier[peer] = stamp

    # ---- sending ----------------------------------------------------------------------------------------------------

    def sync_for(
        self, peer: PeerId, *, allows: Allows | None = None, operations_max: int | None = None, whole: bool = False
    ) -> CrdtSync:
        """What a peer has not seen by its own report, or with ``whole`` everything.

        Of more operations than ``operations_max`` the earliest are sent, under a frontier that claims no more than
        that. The filter drops operations and leaves the frontier whole: a peer need not learn later what it may not
        read.
        """
        self._index.note(self._fresh)
        self._fresh.clear()
        seen = {} if whole else self._reported.get(peer, {})
        frontier = dict(self.frontier)
        vouched, others = self._wanted(seen, frontier, allows)
        some = _earliest(vouched, operations_max, seen, frontier)
        room = len(others) if operations_max is None else max(0, operations_max - len(some))
        if room < len(others):
            # What lies beyond our own frontier is never acknowledged, so it is sent by turns.
            turn = self._turns.get(peer, 0) % len(others)
            self._turns[peer] = turn + room
            others = (others[turn:] + others[:turn])[:room]
        return CrdtSync((*some, *others), tuple(sorted(frontier.items())))

    def _wanted(
        self, seen: Mapping[PeerId, Stamp], frontier: Mapping[PeerId, Stamp], allows: Allows | None
    ) -> tuple[list[Iterator[CrdtOperation]], list[CrdtOperation]]:
        """What is not seen: up to our own frontier by peer and in order, to be looked at when needed; and the rest."""
        vouched: list[Iterator[CrdtOperation]] = []
        others: list[CrdtOperation] = []
        for one in self._index.peers:
            known, bound = seen.get(one), frontier.get(one)
            if bound is not None:
                vouched.append(filter(allows, self._index.between(one, known, bound)))
            beyond = bound if known is None or (bound is not None and bound > known) else known
            others += filter(allows, self._index.between(one, beyond, None))
        return vouched, others

    def forget(self, peer: PeerId) -> None:
        """The link to a peer is over. What it has seen is asked for anew: it may come back without it."""
        self._asked.discard(peer)
        self._turns.pop(peer, None)
        self._reported.pop(peer, None)
        self._heard.pop(peer, None)

    def collect(self) -> tuple[CellName, ...]:
        """Forget removed cells that no member can bring back; returns their names."""
        mark = self.watermark
        if mark is None:
            return ()
        stable = self._seen_by_all()
        gone = tuple(
            name
            for name, held in self._cells.items()
            if held.state == TOMBSTONE
            and held.stamp <= mark
            and (seen := stable.get(held.stamp.peer)) is not None
            and held.stamp <= seen
        )
        for name in gone:
            del self._cells[name]
            self._past.pop(name, None)
            self._floors.pop(name, None)
        if gone:
            self._collected.update(stable)
        return gone

    def _seen_by_all(self) -> dict[PeerId, Stamp]:
        """The frontier that every member has reached, by their own reports."""
        reports = [self._reported.get(member, {}) for member in self.members if member != self.own]
        return {
            peer: min(stamp, *(report[peer] for report in reports)) if reports else stamp
            for peer, stamp in self.frontier.items()
            if all(peer in report for report in reports)
        }


def filter_operations(sync: CrdtSync, allows: Allows) -> CrdtSync:
    """A frame without the operations that its receiver may not read; the frontier stays whole."""
    return structs.replace(sync, operations=tuple(filter(allows, sync.operations)))


def _name(node: NodeId, key: str | None) -> CellName:
    return node if key is None else key


def _rank(state: Value) -> tuple[bool, bytes, str]:
    """An order of states that all replicas share. Bytes come last: what lies in an arena may be gone tomorrow."""
    return (True, state, "") if isinstance(state, bytes) else (False, b"", repr(state))


def _earliest(
    queues: list[Iterator[CrdtOperation]],
    count_max: int | None,
    seen: Mapping[PeerId, Stamp],
    frontier: dict[PeerId, Stamp],
) -> list[CrdtOperation]:
    """About so many operations, each queue in its order, and the frontier lowered to what they leave out."""
    heads = [(first.stamp, first, queue) for queue in queues if (first := next(queue, None)) is not None]
    heapify(heads)
    taken: list[CrdtOperation] = []
    reached: dict[PeerId, Stamp] = {}
    # Operations of one stamp go together: a frontier cannot stand between them.
    while heads and (count_max is None or len(taken) < count_max or (taken and heads[0][0] == taken[-1].stamp)):
        stamp, operation, queue = heads[0]
        taken.append(operation)
        reached[stamp.peer] = stamp
        following = next(queue, None)
        if following is None:
            heappop(heads)
        else:
            heapreplace(heads, (following.stamp, following, queue))
    for stamp, _, _ in heads:
        # Claim only what lies before the first operation that is left out.
        bound = reached.get(stamp.peer, seen.get(stamp.peer))
        if bound is None:
            frontier.pop(stamp.peer, None)
        else:
            frontier[stamp.peer] = bound
    return taken
