"""The two ends of a simulated link: a publisher with its witness, and a mirror that outlives its connections."""

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol, assert_never

from bobbin.errors import PeerError
from bobbin.reactive.handshake import Agreed
from bobbin.reactive.link_effects import (
    Ask,
    Close,
    Deliver,
    Fire,
    Greet,
    MirrorEffect,
    Notify,
    PublisherEffect,
    Send,
    Updated,
    Wake,
    Write,
)
from bobbin.reactive.link_events import (
    Asked,
    Greeted,
    Lost,
    MirrorEvent,
    Opened,
    PublisherEvent,
    Received,
    Sent,
    Undecodable,
    Woke,
)
from bobbin.reactive.messages import CellSet, Delta, Message, NodeId, PeerId, Snapshot
from bobbin.reactive.mirror import Mirror
from bobbin.reactive.publisher import Publisher, PublisherPhase
from bobbin.simulator.circumstances import MILLISECOND_NS
from bobbin.simulator.clock import Timeline
from bobbin.simulator.reactive_channel import Channel, Parcel
from bobbin.simulator.reactive_witness import Witness, sight_of
from bobbin.wire.lazily import handshake, remote_op
from bobbin.wire.lazily.conversation import Conversation
from bobbin.wire.lazily.forms import Form


class Owner(Protocol):
    """The world, as the ends see it."""

    @property
    def timeline(self) -> Timeline: ...

    @property
    def tally(self) -> Counter[str]: ...

    @property
    def starts(self) -> int:
        """How often the source has begun."""
        ...

    def tell(self, line: str) -> None: ...

    def write(self, end: "SourceEnd", writes: tuple[CellSet, ...]) -> None:
        """A peer's writes have got through."""
        ...

    def fire(self, end: "SourceEnd", node: NodeId) -> None:
        """A peer's trigger has got through."""
        ...

    def begin(self, end: "SourceEnd") -> None:
        """Let the witness of a link see what is now."""
        ...

    def meet(self, end: "SourceEnd", agreed: Agreed) -> None:
        """A link has an agreement."""
        ...


class SourceEnd:
    """One observer, at the side of the graph."""

    def __init__(self, owner: Owner, publisher: Publisher, witness: Witness, channel: Channel, form: Form) -> None:
        self.publisher: Final = publisher
        self.witness: Final = witness
        self.peer: Final[PeerId] = publisher.peer
        self.channel: Final = channel
        self.is_over = False
        self._owner: Final = owner
        self._form: Final = form
        self._conversation: Conversation | None = None
        channel.attach(0, self)

    @property
    def is_live(self) -> bool:
        return not self.is_over and self.publisher.phase is PublisherPhase.LIVE

    def arrive(self, parcel: Parcel) -> None:
        try:
            event = self._read(parcel)
        except PeerError as error:
            event = Undecodable(error.code, str(error))
        self.give(event)

    def lose(self) -> None:
        self.give(Lost())
        self.is_over = True

    def give(self, event: PublisherEvent) -> None:
        """Something happened here."""
        if self.is_over:
            return
        if self.publisher.phase is PublisherPhase.WAITING:
            self._owner.begin(self)
        effects = self.publisher.step(event)
        self._owner.tell(f"source of {self.peer}: {event} → {effects or 'nothing'}")
        if self.publisher.agreed is not None and self._conversation is None:
            self._conversation = conversation(self.publisher.agreed, self._form)
            self._owner.meet(self, self.publisher.agreed)
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: PublisherEffect) -> None:
        match effect:
            case Greet(capabilities):
                self.channel.send(0, Parcel("greeting", handshake.encode(capabilities)))
            case Send(message):
                self._send(message)
            case Write(writes):
                self._owner.write(self, writes)
            case Fire(node):
                self._owner.fire(self, node)
            case Close(code):
                self._owner.tally[f"closed: {code}"] += 1
                self.channel.break_off()
            case Notify(notice):
                self._owner.tally[f"source: {type(notice).__name__}"] += 1
            case Deliver():
                pass
            case _:
                assert_never(effect)

    def _send(self, message: Message) -> None:
        if isinstance(message, Snapshot):
            self.witness.hear_snapshot(message)
        elif isinstance(message, Delta):
            self.witness.hear_delta(message)
        self._owner.tally[f"sent: {type(message).__name__}"] += 1
        assert self._conversation is not None
        frames = self._conversation.write(message)
        for number, raw in enumerate(frames, 1):
            is_last = number == len(frames)
            self.channel.send(0, Parcel("frame", raw), (lambda: self.give(Sent())) if is_last else None)

    def _read(self, parcel: Parcel) -> PublisherEvent:
        if parcel.kind == "greeting":
            return Greeted(handshake.decode(parcel.raw))
        if parcel.kind == "wish":
            return Asked(remote_op.decode(parcel.raw))
        if self._conversation is None:
            return Undecodable("handshake", "a frame came before the handshake")
        message = self._conversation.read(parcel.raw)
        assert message is not None, "there are no fragments in these worlds"
        return Received(message)


class ObserverEnd:
    """A mirror, and the connection that it has, if it has one."""

    def __init__(self, owner: Owner, peer: PeerId, form: Form, make: Callable[[], Mirror]) -> None:
        self.peer: Final = peer
        self.form: Final = form
        self.mirror = make()
        self.source: SourceEnd | None = None
        """The other end."""
        self.updates = 0
        self.seen_start = 0
        """Which start of the source the mirror shows."""
        self._make: Final = make
        self._owner: Final = owner
        self._life = 0
        """Connections and restarts so far: what was meant for an earlier one comes too late."""
        self._conversation: Conversation | None = None

    def connect(self, source: SourceEnd) -> None:
        """There is a connection."""
        self._life += 1
        self.source = source
        self._conversation = None
        source.channel.attach(1, _Life(self, self._life))
        source.give(Opened())
        self.give(Opened())

    def restart(self) -> None:
        """The process is gone, with all that it knew, and another begins."""
        if self.source is not None:
            self.source.channel.break_off()
        self.source = None
        self._life += 1
        self.mirror = self._make()

    def arrive(self, parcel: Parcel, life: int) -> None:
        if life != self._life:
            return
        try:
            event = self._read(parcel)
        except PeerError as error:
            event = Undecodable(error.code, str(error))
        self.give(event)

    def lose(self, life: int) -> None:
        if life == self._life:
            self.source = None
            self.give(Lost())

    def give(self, event: MirrorEvent) -> None:
        """Something happened here."""
        effects = self.mirror.step(event)
        self._owner.tell(f"mirror of {self.peer}: {event} → {effects or 'nothing'}")
        if self.mirror.agreed is not None and self._conversation is None:
            self._conversation = conversation(self.mirror.agreed, self.form)
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: MirrorEffect) -> None:
        match effect:
            case Greet(capabilities):
                self._put("greeting", handshake.encode(capabilities))
            case Send(message):
                self._owner.tally[f"said: {type(message).__name__}"] += 1
                assert self._conversation is not None
                for raw in self._conversation.write(message):
                    self._put("frame", raw)
            case Ask(op):
                self._put("wish", remote_op.encode(op))
            case Close(code):
                self._owner.tally[f"closed: {code}"] += 1
                assert self.source is not None
                self.source.channel.break_off()
            case Wake(token, after_ms):
                life = self._life
                self._owner.timeline.after(after_ms * MILLISECOND_NS, lambda: self._wake(token, life))
            case Updated():
                self._judge()
            case Notify(notice):
                self._owner.tally[f"mirror: {type(notice).__name__}"] += 1
            case Deliver():
                pass
            case _:
                assert_never(effect)

    def _judge(self) -> None:
        self.updates += 1
        self.seen_start = self._owner.starts
        assert self.source is not None
        replica = self.mirror.replica
        sight = sight_of(replica.nodes.values(), replica.edges, replica.roots)
        self.source.witness.judge(sight, self.mirror.epoch, has_keys=self.form is not Form.SEED_JSON)

    def _wake(self, token: int, life: int) -> None:
        if life == self._life:
            self.give(Woke(token))

    def _put(self, kind: str, raw: bytes) -> None:
        assert self.source is not None
        self.source.channel.send(1, Parcel(kind, raw))

    def _read(self, parcel: Parcel) -> MirrorEvent:
        if parcel.kind == "greeting":
            return Greeted(handshake.decode(parcel.raw))
        if self._conversation is None:
            return Undecodable("handshake", "a frame came before the handshake")
        message = self._conversation.read(parcel.raw)
        assert message is not None, "there are no fragments in these worlds"
        return Received(message)


class _Life:
    """One connection of an observer."""

    def __init__(self, end: ObserverEnd, life: int) -> None:
        self._end: Final = end
        self._life: Final = life

    def arrive(self, parcel: Parcel) -> None:
        self._end.arrive(parcel, self._life)

    def lose(self) -> None:
        self._end.lose(self._life)


def conversation(agreed: Agreed, form: Form) -> Conversation:
    """How the two of a link write and read."""
    return Conversation(agreed, form=form)
