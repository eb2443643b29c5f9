"""What a peer that is no member may say of merged cells: its own part, and of others what is known here already.

The state of a merged cell has parts of many peers: tallies of a counter, counts in the versions of a register. Merging
believes all of them, since a member passes on what it has from others. Somebody who may write the cell and is no member
speaks for itself alone. What it says of others is looked at here, before anything is merged, so that merging stays the
same for everybody:

* Of a counter its own tallies are taken, and no others. Which these are depends on the state alone, so all replicas
  take the same under one stamp; the tallies of others come from these, or from members.
* A value of a register says in its version what its writer had seen. It is taken when all of that is known here. Until
  then the operation waits, as if it were still on its way, and the frontier does not rise above what was taken before.
* There is at most one new value in a state, and it counts one more write of its writer than is known: nobody writes
  several values at once, or under the version of another.

What waits is bounded, and is gone with the link. Whoever sends more than that is let go.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import structs

from bobbin.errors import PeerError
from bobbin.reactive.crdt import states
from bobbin.reactive.crdt.mv import Mv
from bobbin.reactive.crdt.plane import CellName, Plane
from bobbin.reactive.crdt.pn_counter import PnCounter
from bobbin.reactive.messages import CrdtOperation, CrdtSync, PeerId, Stamp

UNVOUCHED: Final = "unvouched"
HELD_MAX: Final = 256
"""Cells of which something waits."""
HELD_BYTES_MAX: Final = 4 * 1024 * 1024


class Guest:
    """One peer that speaks for itself alone, on one link."""

    def __init__(self, plane: Plane, peer: PeerId) -> None:
        self._plane: Final = plane
        self._peer: Final = peer
        self._held: Final[dict[CellName, list[CrdtOperation]]] = {}
        """The first operation that could not be taken, and the last one: the first is the sooner to be known whole."""

    @property
    def held(self) -> int:
        """How many operations wait."""
        return sum(map(len, self._held.values()))

    def admit(self, sync: CrdtSync) -> CrdtSync:
        """What of a frame may be merged now; the rest waits.

        Raises:
            PeerError: the frame has no states of the declared kinds, or too much waits. The link must end.
        """
        taken: list[CrdtOperation] = []
        for operation in sync.operations:
            own = self._own_part(operation)
            if own is None:
                self._hold(operation)
            else:
                taken.append(own)
                self._drop(operation)
        return CrdtSync(tuple(taken), self._vouched(sync.frontier) if self._held else sync.frontier)

    def release(self) -> CrdtSync:
        """What waited, and may be merged by now. There is no frontier with it."""
        taken: list[CrdtOperation] = []
        for waiting in list(self._held.values()):
            for operation in reversed(waiting):
                own = self._own_part(operation)
                if own is not None:
                    taken.append(own)
                    self._drop(operation)
                    break
        return CrdtSync(tuple(taken))

    def _own_part(self, operation: CrdtOperation) -> CrdtOperation | None:
        """What the peer says for itself; None if it speaks of what is not known here."""
        known = self._plane.register(_name(operation))
        if known is None:
            return operation
        said = states.like(known, operation.state)
        if isinstance(said, PnCounter):
            own = PnCounter(_only(said.added, self._peer), _only(said.taken, self._peer))
            return structs.replace(operation, state=states.encode(own))
        assert isinstance(known, Mv), "states are read as the register is"
        return operation if self._is_vouched(known, said) else None

    def _is_vouched(self, known: Mv[bytes], said: Mv[bytes]) -> bool:
        seen = known.seen()
        new = [entry for entry in said.entries if not known.has_seen(entry)]
        if len(new) > 1:
            return False
        for version, _ in new:
            counts = dict(version)
            if counts.pop(self._peer, 0) <= seen.get(self._peer, 0):
                return False
            if any(count > seen.get(peer, 0) for peer, count in counts.items()):
                return False
        return True

    def _hold(self, operation: CrdtOperation) -> None:
        waiting = self._held.setdefault(_name(operation), [])
        if any(one.stamp == operation.stamp for one in waiting):
            return
        if len(waiting) > 1:
            if operation.stamp < waiting[-1].stamp:
                return
            waiting.pop()
        waiting.append(operation)
        size = sum(len(one.state) for held in self._held.values() for one in held if isinstance(one.state, bytes))
        if len(self._held) > HELD_MAX or size > HELD_BYTES_MAX:
            raise PeerError(UNVOUCHED, f"peer {self._peer} says too much that nobody else has said")

    def _drop(self, taken: CrdtOperation) -> None:
        """Let go what came before an operation that is taken: its writer had all of that in mind."""
        name = _name(taken)
        left = [one for one in self._held.pop(name, ()) if one.stamp > taken.stamp]
        if left:
            self._held[name] = left

    def _vouched(self, frontier: tuple[tuple[PeerId, Stamp], ...] | None) -> tuple[tuple[PeerId, Stamp], ...] | None:
        """A frontier that claims no more of the peer itself than was taken from it before."""
        before = self._plane.frontier.get(self._peer, Stamp(0, 0, self._peer))
        return frontier and tuple(
            (peer, min(stamp, before) if peer == self._peer else stamp) for peer, stamp in frontier
        )


def _only(tallies: Mapping[PeerId, int], peer: PeerId) -> dict[PeerId, int]:
    return {peer: tallies[peer]} if peer in tallies else {}


def _name(operation: CrdtOperation) -> CellName:
    return operation.id if operation.key is None else operation.key
