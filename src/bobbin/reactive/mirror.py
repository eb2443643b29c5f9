"""A mirror of somebody's graph: fed by frames alone, asking for a snapshot whenever they do not fit.

``step(event)`` takes what happened and returns what to do; there is no clock, no socket and no thread. A mirror
outlives its connections: what it knows stays readable when one ends, and the snapshot of the next replaces it.

* A frame is applied whole or not at all. What does not follow on the last epoch, or names what is not there, changes
  nothing.
* By default the seed's rule holds: a delta must lead from the last epoch to the next one, and anything else is a gap.
  By the published rule (``EpochRule.PUBLISHED``) a delta may span several epochs, and an old one is ignored.
* A gap is asked about once. Until the snapshot comes, deltas are ignored (the published rule still takes one that
  fits). It is asked again when a frame came that could not be read, which may have been the snapshot, and when nothing
  came for a while.
* A stale mark keeps the old value: the node is ``DIRTY``.
* A write that waits for another link goes to the node that it was meant for, which is found by its key and tag: ids
  are given again. A node without a key is found by its id and tag, as long as the source says that it is the same one
  still (``RUN``). A write that finds none of its nodes is given up.
* Where the outbox has a name, a write is done at most once: what was sent and not acknowledged is sent again where the
  source has the same memory of it (``outbox``) as it had then, and given up elsewhere, since it may have been done.
* What is given up is told (``LOST_WRITE``), and its frame stays, without operations, so that numbers have no gap.

==============  ==========================================  ============================================
phase           event                                       becomes
==============  ==========================================  ============================================
``OFFLINE``     ``Opened``                                  ``GREETING``; ``AWAITING`` on a local link
``GREETING``    ``Greeted`` that fits                       ``AWAITING``
``GREETING``    anything else from the peer, or too late    ``CLOSED``
``AWAITING``    a snapshot                                  ``LIVE``
``AWAITING``    a delta                                     ``RESYNCING``: a request goes out
``LIVE``        what does not fit, or cannot be read        ``RESYNCING``: a request goes out
``RESYNCING``   a snapshot                                  ``LIVE``
linked          ``Greeted``, a snapshot that is none        ``CLOSED``
any             ``Lost``                                    ``OFFLINE``
==============  ==========================================  ============================================
"""

from enum import StrEnum, unique
from itertools import count
from typing import Final, assert_never

from msgspec import Struct, structs

from bobbin.errors import UsageError
from bobbin.reactive.handshake import Agreed, Capabilities, HandshakeRefused, agree
from bobbin.reactive.link_effects import (
    Ask,
    Close,
    Deliver,
    Greet,
    MirrorEffect,
    Notify,
    Refused,
    Send,
    Updated,
    Wake,
)
from bobbin.reactive.link_events import (
    Greeted,
    Lost,
    MirrorEvent,
    Opened,
    Received,
    TooLong,
    Trigger,
    Undecodable,
    Woke,
    WriteCells,
)
from bobbin.reactive.messages import (
    CellSet,
    CrdtSync,
    Delta,
    EdgeAdd,
    EdgeRemove,
    Message,
    NodeAdd,
    NodeId,
    NodeRemove,
    Operation,
    OutboxAck,
    PeerId,
    ResyncRequest,
    Snapshot,
)
from bobbin.reactive.outbox import ACKED_WRITES, NamedOutbox, Outbox, taken_in
from bobbin.reactive.permissions import OpKind, RemoteOp
from bobbin.reactive.replica import Replica

RUN: Final = "bobbin-run-"
"""How the feature begins by which a source names itself as long as its ids mean the same nodes."""
LOST_WRITE: Final = "lost-write"
"""The code of what tells that a write was given up."""


@unique
class MirrorPhase(StrEnum):
    """How far a mirror is."""

    OFFLINE = "offline"
    GREETING = "greeting"
    AWAITING = "awaiting"
    LIVE = "live"
    RESYNCING = "resyncing"
    CLOSED = "closed"


@unique
class EpochRule(StrEnum):
    """Which delta follows on an epoch."""

    STRICT = "strict"
    PUBLISHED = "published"


class MirrorConfig(Struct, frozen=True, kw_only=True):
    """How a mirror behaves, and its bounds."""

    capabilities: Capabilities | None = None
    """What this side says in the handshake; None for a local link, which has none."""
    required: frozenset[str] = frozenset()
    """Features without which there is no link."""
    source: PeerId | None = None
    """Who is to be at the other end; None: anybody."""
    rule: EpochRule = EpochRule.STRICT
    """Where the handshake settles nothing else."""
    outbox: str | None = None
    """A name that no other outbox has (``NamedOutbox``). Without one, a write may be done again on another link."""
    retry_ms: int = 5_000
    """How long an answer is waited for."""
    writes_max: int = 1_024
    """How many frames of writes may wait."""
    checking: bool = False
    """Check the invariants after every step."""


class _Aimed(Struct, frozen=True):
    """What a frame of writes was meant for."""

    run: str | None
    nodes: tuple[tuple[str | None, str] | None, ...]
    """Key and tag of each; None for an id that was not known when it was written to. None at all: it is given up."""
    sent_to: str | None = None
    """The memory that it was sent to, under no name where the source said none; None until it is sent."""


_LINKED: Final = frozenset({MirrorPhase.AWAITING, MirrorPhase.LIVE, MirrorPhase.RESYNCING})


class Mirror:
    """What is known of a graph, and the link over which more is learnt."""

    def __init__(self, config: MirrorConfig) -> None:
        self.config: Final = config
        self.replica: Final = Replica()
        """What was told. Only to be read."""
        self.phase = MirrorPhase.OFFLINE
        self.agreed: Agreed | None = None
        self.epoch: int | None = None
        """The last one that was applied; None before the first snapshot of all."""
        self._last: int | None = None
        """The same, on this connection: another counts anew."""
        self._rule = config.rule
        self._outbox: Final = Outbox(frames_max=config.writes_max)
        self._aims: dict[int, _Aimed] = {}
        """By the epoch of a frame that is kept."""
        self._settled = 0
        """How many frames were settled when this link began. Its frames are counted from there."""
        self._memory: str | None = None
        """By which the source on this link knows what it has of the outbox."""
        self._run: str | None = None
        """How the source called itself on the last link."""
        self._shown_run: str | None = None
        """How the one did whose graph is shown: there may be another link already, and no snapshot on it yet."""
        self._tokens: Final = count(1)
        self._answer_token: int | None = None
        """Of the timer for whatever answer is due."""
        self._ack_token: int | None = None
        self._effects: list[MirrorEffect] = []

    def step(self, event: MirrorEvent) -> tuple[MirrorEffect, ...]:
        """Take an event; returns what to do, in order. Whatever a peer does ends in effects."""
        match event:
            case Opened():
                self._open()
            case Greeted(capabilities):
                self._take_greeting(capabilities)
            case Received(message):
                self._receive(message)
            case Undecodable(code, detail):
                self._miss(code, detail)
            case Woke(token):
                self._wake(token)
            case Lost():
                self._become_offline()
            case WriteCells(writes):
                self._write(writes)
            case TooLong(epoch, detail):
                self._shorten(self._settled + epoch, detail)
            case Trigger(node):
                self._trigger(node)
            case _:
                assert_never(event)
        if self.config.checking:
            self.check()
        effects, self._effects = self._effects, []
        return tuple(effects)

    @property
    def is_current(self) -> bool:
        """Whether the mirror follows the graph, as far as anybody can know here."""
        return self.phase is MirrorPhase.LIVE

    @property
    def unacknowledged(self) -> int:
        """How many frames of writes are not known to have arrived."""
        return len(self._outbox)

    def check(self) -> None:
        """Assert what always holds."""
        self.replica.check()
        self._outbox.check()
        assert list(self._aims) == [frame.epoch for frame in self._outbox.frames]
        assert self._last in (None, self.epoch)
        assert self.phase is not MirrorPhase.LIVE or self._last is not None
        assert self.phase is not MirrorPhase.AWAITING or self._last is None
        waits = self.phase in {MirrorPhase.GREETING, MirrorPhase.AWAITING, MirrorPhase.RESYNCING}
        assert (self._answer_token is not None) == waits, "what is waited for is waited for with a timer"
        assert self._ack_token is None or (self.phase in _LINKED and len(self._outbox) > 0)

    # ---- phases ---------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self.phase not in {MirrorPhase.OFFLINE, MirrorPhase.CLOSED}:
            raise UsageError("this mirror has a connection already")
        self.agreed = None
        self._last = None
        self._rule = self.config.rule
        self._settled = self._outbox.settled
        self._memory = None
        own, name = self.config.capabilities, self.config.outbox
        if own is None:
            self._become(MirrorPhase.AWAITING)
        else:
            named = () if name is None else (NamedOutbox(name, self._settled).feature,)
            self._effects.append(Greet(structs.replace(own, features=(*own.features, *named))))
            self._become(MirrorPhase.GREETING)

    def _take_greeting(self, capabilities: Capabilities) -> None:
        own = self.config.capabilities
        if own is None or self.phase is not MirrorPhase.GREETING:
            self._close("handshake", "a handshake came where none was due")
            return
        if self.config.source is not None and capabilities.peer != self.config.source:
            self._close("peer_id", f"peer {self.config.source} is awaited, not {capabilities.peer}")
            return
        try:
            self.agreed = agree(own, capabilities, self.config.required)
        except HandshakeRefused as refused:
            self._close(refused.field, str(refused))
            return
        if self.agreed.multi_epoch:
            self._rule = EpochRule.PUBLISHED
        self._run = next((feature for feature in capabilities.features if feature.startswith(RUN)), None)
        taken = None if self.config.outbox is None else taken_in(capabilities.features)
        if taken is not None:
            self._memory = taken.memory
            self._forget(self._settled + taken.through)
        self._become(MirrorPhase.AWAITING)

    def _become(self, phase: MirrorPhase) -> None:
        """Enter a phase in which something is waited for."""
        self.phase = phase
        self._answer_token = next(self._tokens)
        self._effects.append(Wake(self._answer_token, self.config.retry_ms))

    def _become_live(self, epoch: int) -> None:
        assert self.phase in _LINKED
        is_first = self._last is None
        self.phase = MirrorPhase.LIVE
        self.epoch = self._last = epoch
        self._answer_token = None
        if is_first:
            self._send_again(anew=True)

    def _become_offline(self) -> None:
        self.phase = MirrorPhase.OFFLINE
        self._answer_token = self._ack_token = None

    def _close(self, code: str, detail: str) -> None:
        if self.phase in {MirrorPhase.OFFLINE, MirrorPhase.CLOSED}:
            return
        self._effects.append(Close(code, detail))
        self._become_offline()
        self.phase = MirrorPhase.CLOSED

    def _wake(self, token: int) -> None:
        if token == self._ack_token:
            self._send_again(anew=False)
        elif token != self._answer_token:
            return
        elif self.phase is MirrorPhase.GREETING:
            self._close("handshake", "there is no answer to the handshake")
        else:
            self._request()

    # ---- what the source says -------------------------------------------------------------------------------------

    def _receive(self, message: Message) -> None:
        if self.phase is MirrorPhase.GREETING:
            self._close("handshake", f"{type(message).__name__} came before the handshake")
            return
        if self.phase not in _LINKED:
            return
        match message:
            case Snapshot():
                self._take_snapshot(message)
            case Delta():
                self._take_delta(message)
            case CrdtSync():
                self._effects.append(Deliver(message))
            case OutboxAck(through):
                self._take_ack(through)
            case ResyncRequest():
                self._effects.append(Notify(Refused("not-a-source", "there is no snapshot to be had here")))
            case _:
                assert_never(message)

    def _take_snapshot(self, snapshot: Snapshot) -> None:
        wrong = self.replica.replace(snapshot)
        if wrong is not None:
            # To ask again would be to be told the same again.
            self._close("snapshot", wrong)
            return
        self._shown_run = self._run
        nodes = tuple(self.replica.nodes)
        self._effects.append(Updated(epoch=snapshot.epoch, nodes=nodes, structure=True, replaced=True))
        self._become_live(snapshot.epoch)

    def _take_delta(self, delta: Delta) -> None:
        wrong = self._judge(delta)
        if wrong is None:
            self.replica.apply(delta.operations)
            self.epoch = self._last = delta.epoch
            self._effects.append(_update(delta))
        elif wrong:
            self._gap(wrong)

    def _judge(self, delta: Delta) -> str | None:
        """None if a delta is to be applied, nothing if it is to be ignored, else why it does not fit."""
        last = self._last
        if last is None:
            return "a delta came before the snapshot"
        base, epoch = delta.base_epoch, delta.epoch
        if self._rule is EpochRule.PUBLISHED:
            if base < last or epoch <= base:
                return ""
        elif self.phase is MirrorPhase.RESYNCING:
            return ""
        elif epoch != last + 1:
            return f"a delta leads to epoch {epoch}, and {last + 1} is next"
        if base != last:
            return f"a delta follows on epoch {base}, and {last} is the last one"
        return self.replica.misfit(delta.operations)

    def _gap(self, detail: str) -> None:
        self._effects.append(Notify(Refused("gap", detail)))
        if self.phase is not MirrorPhase.RESYNCING:
            self._request()

    def _miss(self, code: str, detail: str) -> None:
        """A frame that cannot be read. It may have been anything, also the snapshot that is waited for."""
        if self.phase is MirrorPhase.GREETING:
            self._close(code, detail)
        elif self.phase in _LINKED:
            self._effects.append(Notify(Refused(code, detail)))
            self._request()

    def _request(self) -> None:
        self._effects.append(Send(ResyncRequest(self._last or 0)))
        self._become(MirrorPhase.RESYNCING)

    # ---- writing back ---------------------------------------------------------------------------------------------

    def _write(self, writes: tuple[CellSet, ...]) -> None:
        """Kept first, then sent, if there is somebody to send to."""
        if not writes:
            raise UsageError("a write without cells writes nothing")
        frame = self._outbox.append(writes)
        nodes = [self.replica.nodes.get(write.id) for write in writes]
        meant = [None if node is None else (node.key, node.tag) for node in nodes]
        self._aims[frame.epoch] = _Aimed(self._shown_run, tuple(meant))
        if self.phase in _LINKED and self._last is not None:
            self._send_write(frame)

    def _send_again(self, *, anew: bool) -> None:
        """Send what is kept. ``anew``: on a link that has seen none of it."""
        self._ack_token = None
        if anew:
            self._aim_again()
        for frame in self._outbox.frames:
            self._send_write(frame)

    def _aim_again(self) -> None:
        """Whoever is there now may be another source than the one that was written to, and an id another node's."""

        def aim(frame: Delta) -> tuple[Operation, ...]:
            aimed = self._aims[frame.epoch]
            found = self._find(frame, aimed)
            if not self._may_send(aimed):
                self._give_up(frame, "it may have been written or not, and the source does not know")
                return ()
            if found is None:
                self._give_up(frame, "it is no longer there, or some of it")
                return ()
            self._aims[frame.epoch] = structs.replace(aimed, run=self._run)
            return found

        self._outbox.readdress(aim)

    def _may_send(self, aimed: _Aimed) -> bool:
        """Whether a frame cannot have been taken elsewhere, or by somebody here who no longer knows."""
        return self.config.outbox is None or aimed.sent_to in (None, self._memory)

    def _find(self, frame: Delta, aimed: _Aimed) -> tuple[Operation, ...] | None:
        found: list[Operation] = []
        is_same = aimed.run is not None and aimed.run == self._run
        for write, meant in zip(frame.operations, aimed.nodes, strict=True):
            assert isinstance(write, CellSet), "only cells are written"
            if meant is None:
                return None
            key = meant[0]
            by_id = self.replica.nodes.get(write.id) if is_same else None
            node = by_id if key is None else self.replica.find(key)
            if node is None or (node.key, node.tag) != meant:
                return None
            found.append(CellSet(node.id, write.value))
        return tuple(found)

    def _shorten(self, epoch: int, detail: str) -> None:
        """A frame went out without its writes, and stays so."""

        def empty(frame: Delta) -> tuple[Operation, ...]:
            if frame.epoch != epoch:
                return frame.operations
            self._give_up(frame, f"it was not written: {detail}")
            return ()

        self._outbox.readdress(empty)

    def _give_up(self, frame: Delta, why: str) -> None:
        aimed = self._aims[frame.epoch]
        if not aimed.nodes:
            return
        ids = [write.id for write in frame.operations if isinstance(write, CellSet)]
        names = [meant[0] if meant and meant[0] else str(id) for id, meant in zip(ids, aimed.nodes, strict=True)]
        self._effects.append(Notify(Refused(LOST_WRITE, f"{', '.join(names)}: {why}")))
        self._aims[frame.epoch] = structs.replace(aimed, run=self._run, nodes=())

    def _forget(self, through: int) -> None:
        self._outbox.acknowledge(through)
        self._aims = {epoch: aimed for epoch, aimed in self._aims.items() if epoch > through}

    def _send_write(self, frame: Delta) -> None:
        if self.agreed is not None and ACKED_WRITES in self.agreed.features:
            aimed = self._aims[frame.epoch]
            if aimed.sent_to is None:
                self._aims[frame.epoch] = structs.replace(aimed, sent_to=self._memory or "")
            number = frame.base_epoch - self._settled
            self._effects.append(Send(Delta(number, number + 1, frame.operations)))
            if self._ack_token is None:
                self._ack_token = next(self._tokens)
                self._effects.append(Wake(self._ack_token, self.config.retry_ms))
            return
        last = self._last or 0
        if frame.operations:
            self._effects.append(Send(Delta(last, last + 1, frame.operations)))
        self._forget(frame.epoch)

    def _take_ack(self, through: int) -> None:
        self._forget(self._settled + through)
        if not self._outbox:
            self._ack_token = None

    def _trigger(self, node: NodeId) -> None:
        if self.phase not in _LINKED:
            raise UsageError("there is no link over which an effect could be triggered")
        self._effects.append(Ask(RemoteOp(OpKind.TRIGGER_EFFECT, node)))


def _update(delta: Delta) -> Updated:
    touched: dict[NodeId, None] = {}
    removed: dict[NodeId, None] = {}
    structure = False
    for operation in delta.operations:
        if isinstance(operation, EdgeAdd | EdgeRemove):
            structure = True
            continue
        if isinstance(operation, NodeRemove):
            touched.pop(operation.id, None)
            removed[operation.id] = None
        else:
            touched[operation.id] = None
        structure = structure or isinstance(operation, NodeAdd | NodeRemove)
    gone = tuple(id for id in removed if id not in touched)
    return Updated(epoch=delta.epoch, nodes=tuple(touched), removed=gone, structure=structure)
