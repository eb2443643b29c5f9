"""One observer of a graph, from the side of the graph: handshake, a snapshot, then a delta for each visible change.

``step(event)`` takes what happened and returns what to do. The publisher reads the graph as values (``Truth``) and the
permissions, speaks through ``Send``, and lets the observer's writes through as ``Write``; it has no clock, no socket
and no thread. One publisher is one connection: a new connection gets a new one.

* Nothing goes out and nothing is taken before the handshake, where one is needed; what fails in it closes the link.
* The peer is whoever the connection was authenticated as. A handshake that claims another id fails.
* At most ``in_flight_max`` messages are with the transport, one snapshot among them. What waits here is bounded, too:
  an observer that does not keep up loses what waits and gets one snapshot when it can take it, made at that moment.
  Who asks for one that is on its way gets that one.
* A frame of writes is taken once, where it is acknowledged: over all links, if the observer has named its outbox.
* An observer may write cells, by a delta of nothing else, and trigger effects; each needs its own grant. Whatever else
  it sends is dropped and changes nothing.

=============  =======================================  ==========================================
phase          event                                    becomes
=============  =======================================  ==========================================
``WAITING``    ``Opened`` where no handshake is needed  ``LIVE``: a snapshot goes out
``WAITING``    ``Greeted`` that fits                    ``LIVE``: the own handshake, a snapshot
``WAITING``    anything else from the peer              ``CLOSED``
``LIVE``       ``Greeted``, too many undecodable ones   ``CLOSED``
any            ``Lost``                                 ``CLOSED``
=============  =======================================  ==========================================
"""

from collections import deque
from collections.abc import Callable
from enum import StrEnum, unique
from typing import Final, TypeGuard, assert_never

from msgspec import Struct, structs

from bobbin.errors import UsageError
from bobbin.reactive.change import Change
from bobbin.reactive.handshake import Agreed, Capabilities, HandshakeRefused, agree
from bobbin.reactive.link_effects import (
    Behind,
    Close,
    Deliver,
    Denied,
    Fire,
    Greet,
    Notify,
    PublisherEffect,
    Refused,
    Send,
    Write,
)
from bobbin.reactive.link_events import (
    Asked,
    Changed,
    Greeted,
    Lost,
    Opened,
    PermissionsChanged,
    PublisherEvent,
    Received,
    Sent,
    Undecodable,
)
from bobbin.reactive.messages import (
    U64_MAX,
    CellSet,
    CrdtSync,
    Delta,
    Message,
    NodeId,
    NodeRemove,
    Operation,
    OutboxAck,
    PeerId,
    ResyncRequest,
    Snapshot,
)
from bobbin.reactive.outbox import ACKED_WRITES, NamedOutbox, Taken, TakenFrames, TakenWrites, named_in
from bobbin.reactive.permissions import OpKind, PeerPermissions, RemoteOp
from bobbin.reactive.projection import Projection, Truth
from bobbin.reactive.replica import Replica

_OPERATION_BYTES: Final = 64
"""What an operation costs while it waits, apart from its value."""


@unique
class PublisherPhase(StrEnum):
    """How far a link is."""

    WAITING = "waiting"
    LIVE = "live"
    CLOSED = "closed"


class PublisherConfig(Struct, frozen=True, kw_only=True):
    """How a publisher behaves, and its bounds."""

    capabilities: Capabilities | None = None
    """What this side says in the handshake; None for a local link, which has none."""
    required: frozenset[str] = frozenset()
    """Features without which there is no link."""
    first_epoch: int = 1
    """Of this link. Whoever starts again chooses one that the last start did not reach, so that an observer that has
    missed the start cannot take a new delta for the successor of an old one."""
    id_max: int = U64_MAX
    """The largest id that the observer can hold."""
    in_flight_max: int = 4
    outbox_frames_max: int = 256
    outbox_bytes_max: int = 4 * 1024 * 1024
    undecodable_max: int = 8
    """How many undecodable frames of an observer are borne."""
    checking: bool = False
    """Check the invariants after every step."""


class Publisher:
    """One observer."""

    def __init__(
        self,
        config: PublisherConfig,
        *,
        peer: PeerId,
        truth: Truth,
        permissions: PeerPermissions,
        taken: TakenWrites | None = None,
        is_cell: Callable[[NodeId], bool] | None = None,
    ) -> None:
        """``peer``: as whom the connection was authenticated. ``taken``: what all links know of writes.

        ``is_cell``: what can be written. By default what is a root, which a cell is as long as its value can be shown.
        """
        self.config: Final = config
        self.peer: Final = peer
        self.phase = PublisherPhase.WAITING
        self.agreed: Agreed | None = None
        self.acknowledged: int | None = None
        """The last epoch that the observer has said it has."""
        self._truth: Final = truth
        self._permissions: Final = permissions
        self._is_cell: Final = is_cell or truth.is_root
        self._view: Projection | None = None
        self._outbox: Final[deque[Delta]] = deque()
        self._outbox_bytes = 0
        self._owes_snapshot = False
        """While it does, nothing waits: the snapshot will have it all."""
        self._owes_ack: int | None = None
        self._in_flight: Final[deque[bool]] = deque()
        """What is with the transport, in order: of each message whether it is a snapshot."""
        self._snapshot_epoch: int | None = None
        """Of the last snapshot."""
        self._memories: Final = taken
        self._named: NamedOutbox | None = None
        """The observer's outbox, where it names one and that can be remembered."""
        self._taken = TakenFrames()
        """Which frames of writes were taken, where they are acknowledged: of the outbox, else of this link."""
        self._undecodable = 0
        self._effects: list[PublisherEffect] = []

    def step(self, event: PublisherEvent) -> tuple[PublisherEffect, ...]:
        """Take an event; returns what to do, in order. Whatever a peer does ends in effects."""
        if self.phase is PublisherPhase.CLOSED:
            return ()
        match event:
            case Opened():
                if self.config.capabilities is None:
                    self._become_live()
            case Greeted(capabilities):
                self._take_greeting(capabilities)
            case Received(message):
                self._receive(message)
            case Asked(op):
                self._take_wish(op)
            case Undecodable(code, detail):
                self._bear(code, detail)
            case Sent(count):
                self._settle(count)
            case Changed(change):
                self._tell(change.operations)
            case PermissionsChanged():
                self._tell(())
            case Lost():
                self._become_closed()
            case _:
                assert_never(event)
        self._pump()
        if self.config.checking:
            self.check()
        effects, self._effects = self._effects, []
        return tuple(effects)

    @property
    def epoch(self) -> int | None:
        """The epoch of what the observer may see now, whether or not it has it; None before it sees anything."""
        return None if self._view is None else self._view.epoch

    @property
    def is_behind(self) -> bool:
        """Whether the observer waits for a snapshot because it, or the link, was too slow."""
        return self._owes_snapshot

    def check(self) -> None:
        """Assert what always holds."""
        config = self.config
        assert (self._view is not None) == (self.phase is PublisherPhase.LIVE)
        assert len(self._in_flight) <= config.in_flight_max
        assert sum(self._in_flight) <= 1, "one snapshot at a time"
        assert len(self._outbox) <= config.outbox_frames_max
        assert self._outbox_bytes == sum(map(_cost, self._outbox))
        assert not (self._owes_snapshot and self._outbox), "what waits would come after a snapshot that has it"
        if self._view is not None:
            self._view.check()
            for earlier, later in zip(self._outbox, list(self._outbox)[1:], strict=False):
                assert earlier.epoch == later.base_epoch
            assert not self._outbox or self._outbox[-1].epoch == self._view.epoch

    # ---- phases ---------------------------------------------------------------------------------------------------

    def _take_greeting(self, capabilities: Capabilities) -> None:
        own = self.config.capabilities
        if own is None or self.phase is not PublisherPhase.WAITING:
            self._close("handshake", "a handshake came where none was due")
            return
        if capabilities.peer != self.peer:
            self._close("peer_id", f"this connection is peer {self.peer}'s, and says that it is {capabilities.peer}'s")
            return
        try:
            self.agreed = agree(own, capabilities, self.config.required)
        except HandshakeRefused as refused:
            self._close(refused.field, str(refused))
            return
        known = self._recognise(capabilities) if ACKED_WRITES in self.agreed.features else None
        # It must hear of it now: once it has a snapshot, it sends what it still has.
        told = own if known is None else structs.replace(own, features=(*own.features, known.feature))
        self._effects.append(Greet(told))
        self._become_live()

    def _recognise(self, capabilities: Capabilities) -> Taken | None:
        """What is remembered of the observer's outbox, from now on at the latest; None if it has named none."""
        named = None if self._memories is None else named_in(capabilities.features)
        if named is None or self._memories is None:
            return None
        self._named = named
        self._taken = self._memories.of(self.peer, named.name)
        self._taken.take(named.settled)
        return Taken(self._through(), self._taken.memory)

    def _become_live(self) -> None:
        assert self.phase is PublisherPhase.WAITING
        self.phase = PublisherPhase.LIVE
        self._view = Projection(
            self._truth,
            self._permissions,
            self.peer,
            first_epoch=self.config.first_epoch,
            id_max=self.config.id_max,
        )
        self._owes_snapshot = True

    def _become_closed(self) -> None:
        self.phase = PublisherPhase.CLOSED
        self._view = None
        self._outbox.clear()
        self._outbox_bytes = 0
        self._owes_snapshot = False
        self._owes_ack = None

    def _close(self, code: str, detail: str) -> None:
        self._effects.append(Close(code, detail))
        self._become_closed()

    # ---- what the observer says -----------------------------------------------------------------------------------

    def _receive(self, message: Message) -> None:
        if self.phase is PublisherPhase.WAITING:
            self._close("handshake", f"{type(message).__name__} came before the handshake")
            return
        match message:
            case ResyncRequest():
                if not self._is_coming():
                    self._owe_snapshot()
            case OutboxAck(through):
                self.acknowledged = max(through, self.acknowledged or 0)
            case Delta():
                self._take_writes(message)
            case CrdtSync():
                self._take_states(message)
            case Snapshot():
                self._refuse("snapshot-from-observer", "an observer does not say what the graph is")
            case _:
                assert_never(message)

    def _take_writes(self, delta: Delta) -> None:
        """All of a frame that may be written, in one go. What may not be is dropped, and the peer is not told."""
        if self.agreed is not None and ACKED_WRITES in self.agreed.features:
            through = self._through()
            if delta.base_epoch != through or delta.epoch != through + 1:
                # Sent again, or after one that was lost: the acknowledgement tells the peer where to go on.
                self._owes_ack = through
                return
            self._owes_ack = delta.epoch
            self._remember(delta.epoch)
        writes = tuple(operation for operation in delta.operations if self._may_write(operation))
        if writes:
            self._effects.append(Write(writes))

    def _through(self) -> int:
        """How many frames of this link were taken. An earlier link that is not over yet may still take some."""
        return self._taken.through - (self._named.settled if self._named is not None else 0)

    def _remember(self, through: int) -> None:
        """So many frames of this link were taken."""
        if self._named is None or self._memories is None:
            self._taken.take(through)
            return
        self._taken.take(self._named.settled + through)
        self._memories.use(self.peer, self._named.name)

    def _may_write(self, operation: Operation) -> TypeGuard[CellSet]:
        if not isinstance(operation, CellSet):
            self._refuse("not-a-write", f"an observer may only write cells; this is {type(operation).__name__}")
            return False
        return self._grants(RemoteOp(OpKind.WRITE, operation.id), is_cell=True)

    def _take_wish(self, op: RemoteOp) -> None:
        if self.phase is PublisherPhase.WAITING:
            self._close("handshake", "a wish came before the handshake")
        elif op.kind is not OpKind.TRIGGER_EFFECT:
            self._refuse("not-a-trigger", f"to {op.kind} a node takes no wish")
        elif self._grants(op, is_cell=False):
            self._effects.append(Fire(op.node))

    def _take_states(self, sync: CrdtSync) -> None:
        allowed = tuple(one for one in sync.operations if self._grants(RemoteOp(OpKind.WRITE, one.id), is_cell=False))
        # Who has dropped something has not seen all that the frontier would say.
        frontier = sync.frontier if len(allowed) == len(sync.operations) else None
        self._effects.append(Deliver(CrdtSync(allowed, frontier)))

    def _grants(self, op: RemoteOp, *, is_cell: bool) -> bool:
        if not self._permissions.allows(self.peer, op):
            self._effects.append(Notify(Denied(op, "there is no grant")))
            return False
        if is_cell and not self._is_cell(op.node):
            self._effects.append(Notify(Denied(op, "there is no such cell")))
            return False
        return True

    def _bear(self, code: str, detail: str) -> None:
        self._undecodable += 1
        if self.phase is PublisherPhase.WAITING or self._undecodable > self.config.undecodable_max:
            self._close(code, detail)
        else:
            self._refuse(code, detail)

    def _refuse(self, code: str, detail: str) -> None:
        self._effects.append(Notify(Refused(code, detail)))

    # ---- what goes out --------------------------------------------------------------------------------------------

    def _tell(self, operations: tuple[Operation, ...]) -> None:
        """The epoch grows with what can be seen, whether or not it can be sent now."""
        delta = None if self._view is None else self._view.project(operations)
        if delta is None or self._owes_snapshot:
            return
        self._outbox.append(delta)
        self._outbox_bytes += _cost(delta)
        config = self.config
        if len(self._in_flight) < config.in_flight_max and len(self._outbox) == 1:
            return
        if len(self._outbox) > config.outbox_frames_max or self._outbox_bytes > config.outbox_bytes_max:
            self._effects.append(Notify(Behind(len(self._outbox))))
            self._owe_snapshot()

    def _is_coming(self) -> bool:
        """Whether a snapshot is with the transport already, and nothing has changed since it was made."""
        return True in self._in_flight and self._snapshot_epoch == self.epoch

    def _owe_snapshot(self) -> None:
        """What waits is part of the snapshot, and would not fit behind it."""
        self._outbox.clear()
        self._outbox_bytes = 0
        self._owes_snapshot = True

    def _settle(self, count: int) -> None:
        if not 0 < count <= len(self._in_flight):
            raise UsageError(f"{count} messages were said to be sent, and {len(self._in_flight)} were to be")
        for _ in range(count):
            self._in_flight.popleft()

    def _pump(self) -> None:
        """Give the transport what it has room for. Whoever asks for snapshots without end gets one after the other."""
        while self._view is not None and len(self._in_flight) < self.config.in_flight_max:
            if self._owes_ack is not None:
                self._send(OutboxAck(self._owes_ack))
                self._owes_ack = None
            elif self._owes_snapshot and True not in self._in_flight:
                self._send(self._view.snapshot())
                self._owes_snapshot = False
            elif self._outbox:
                delta = self._outbox.popleft()
                self._outbox_bytes -= _cost(delta)
                self._send(delta)
            else:
                return

    def _send(self, message: Message) -> None:
        self._in_flight.append(isinstance(message, Snapshot))
        if isinstance(message, Snapshot):
            self._snapshot_epoch = message.epoch
        self._effects.append(Send(message))


def take_change(truth: Replica, permissions: PeerPermissions, change: Change) -> None:
    """Keep all that is known of a graph in step with it: before the publishers hear of a change.

    Grants go with the node that they were for. The next owner of its id has none until it is granted one, after the
    flush.

    Raises:
        UsageError: the change does not follow on what is known. Nothing was changed.
    """
    wrong = truth.misfit(change.operations)
    if wrong is not None:
        raise UsageError(f"a change does not fit what is known of the graph: {wrong}")
    truth.apply(change.operations)
    for operation in change.operations:
        if isinstance(operation, NodeRemove):
            permissions.forget_node(operation.id)


def _cost(delta: Delta) -> int:
    return sum(map(_operation_cost, delta.operations))


def _operation_cost(operation: Operation) -> int:
    value = getattr(operation, "value", None)
    return _OPERATION_BYTES + (len(value) if isinstance(value, bytes) else 0)
