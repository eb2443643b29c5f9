"""One peer's replica kept in step over one link that loses nothing and keeps the order.

``step`` takes what happened and says what to send; the time, in microseconds, comes in with it.

* Both sides begin with a report: a frame of nothing but their frontier. Whoever hears one sends what the other lacks.
* A frame with operations is always answered, be it by a report alone: so the sender knows what was taken, and what did
  not fit into one frame follows. A report is answered only by operations; two replicas that are equal fall silent.
* Each operation is sent once on a link. What came without a frontier cannot be acknowledged, and would go out for ever.
* A side that is no member for its peer sends only what it wrote itself: nothing else would be believed.
* A frame that is refused ends the link. Nothing of it was kept, so nothing that follows would fit.

A link that ends is forgotten whole: the peer may come back without what it had.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.errors import PeerError
from bobbin.reactive.crdt.plane import Allows, CellName, Merged, Plane
from bobbin.reactive.link_effects import Close, Send
from bobbin.reactive.link_events import Lost, Opened, PermissionsChanged, Received
from bobbin.reactive.messages import CrdtOperation, CrdtSync, PeerId, ResyncRequest, Stamp

OPERATIONS_MAX: Final = 512
"""Of one frame, unless more have one stamp."""
UNEXPECTED: Final = "unexpected-message"


class Wrote(Struct, frozen=True):
    """There is something new in the plane, from here or from another peer."""


SessionEvent: TypeAlias = Opened | Received | Wrote | PermissionsChanged | Lost
SessionEffect: TypeAlias = Send | Close
Merge: TypeAlias = Callable[[CrdtSync, PeerId, int], Merged]
"""Takes a frame of a peer at a time. Raises ``PeerError``; nothing has changed then."""


class SessionConfig(Struct, frozen=True, kw_only=True):
    """How a session behaves, and its bounds."""

    is_member: bool = True
    """Whether the peer takes this side for a full replica, and believes what it passes on."""
    reads: Allows | None = None
    """What the peer may read; None is everything."""
    operations_max: int = OPERATIONS_MAX


class SyncSession:
    """One link."""

    def __init__(self, plane: Plane, peer: PeerId, merge: Merge, config: SessionConfig = SessionConfig()) -> None:  # noqa: B008
        """``peer``: as whom the connection was authenticated."""
        self.peer: Final = peer
        self.config: Final = config
        self._plane: Final = plane
        self._merge: Final = merge
        self._sent: Final[dict[CellName, Stamp]] = {}
        """What went out on this link and is not acknowledged."""
        self._is_open = False
        self._is_heard = False
        """The peer has said what it has."""
        self._owes_all = False
        """Everything is to be sent, whatever the peer has said."""

    @property
    def unacknowledged(self) -> int:
        """How many operations the peer has not said it has."""
        return len(self._sent)

    def step(self, event: SessionEvent, *, now_us: int) -> tuple[SessionEffect, ...]:
        """What to do, in order."""
        match event:
            case Opened():
                self._is_open = True
                return (Send(CrdtSync((), tuple(sorted(self._plane.frontier.items())))),)
            case Lost():
                self._end()
                return ()
            case _ if not self._is_open:
                return ()
            case Wrote():
                return self._offer(answer=False) if self._is_heard else ()
            case PermissionsChanged() | Received(ResyncRequest()):
                self._sent.clear()
                self._owes_all = True
                return self._offer(answer=False)
            case Received(CrdtSync() as sync):
                return self._take(sync, now_us)
            case Received():
                return self._close(UNEXPECTED, "there are only replicated cells on this link")

    def _take(self, sync: CrdtSync, now_us: int) -> tuple[SessionEffect, ...]:
        try:
            merged = self._merge(sync, self.peer, now_us)
        except PeerError as error:
            return self._close(error.code, str(error))
        if merged.asks_frontier:
            return (Send(ResyncRequest(0)), *self._offer(answer=True))
        if sync.frontier:
            self._is_heard = True
            self._acknowledge(dict(sync.frontier))
        return self._offer(answer=bool(sync.operations))

    def _offer(self, *, answer: bool) -> tuple[SessionEffect, ...]:
        frame = self._plane.sync_for(
            self.peer, allows=self._is_due, operations_max=self.config.operations_max, whole=self._owes_all
        )
        if len(frame.operations) < self.config.operations_max:
            self._owes_all = False
        for operation in frame.operations:
            self._sent[_name(operation)] = operation.stamp
        return (Send(frame),) if frame.operations or answer else ()

    def _is_due(self, operation: CrdtOperation) -> bool:
        if not self.config.is_member and operation.stamp.peer != self._plane.own:
            return False
        if self._sent.get(_name(operation)) == operation.stamp:
            return False
        return self.config.reads is None or self.config.reads(operation)

    def _acknowledge(self, seen: dict[PeerId, Stamp]) -> None:
        if self._owes_all:
            # It has seen what it is sent again, and is sent it all the same.
            return
        taken = [name for name, stamp in self._sent.items() if stamp.peer in seen and stamp <= seen[stamp.peer]]
        for name in taken:
            del self._sent[name]

    def _close(self, code: str, detail: str) -> tuple[SessionEffect, ...]:
        self._end()
        return (Close(code, detail),)

    def _end(self) -> None:
        self._is_open = self._is_heard = self._owes_all = False
        self._sent.clear()
        self._plane.forget(self.peer)


def _name(operation: CrdtOperation) -> CellName:
    return operation.id if operation.key is None else operation.key
