"""One machine at one end of a simulated link: events go in, and what it wants done is done, later and not always.

Storing takes time, and a crash may come before it, or between it and the word that it is done. A timer fires when the
node's forward clock has come so far. Late timers are delivered as well; a machine has to know them.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

from bobbin.errors import PeerError, ResourceError
from bobbin.interlace.effects import Close, Effect, Ended, Notify, Persist, Remember, SaveCursor, Send, WakeAt
from bobbin.interlace.events import (
    Event,
    Fired,
    Flushed,
    LinkClosed,
    Now,
    Persisted,
    StoreChanged,
    Undecodable,
)
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Message, Transfer
from bobbin.interlace.result import Result
from bobbin.simulator.claim_model import Table
from bobbin.simulator.clock import Timeline
from bobbin.simulator.network import Direction, Link
from bobbin.simulator.node import LinkHoldings, Node
from bobbin.simulator.oracle import Witness
from bobbin.simulator.streams import Item, Stream
from bobbin.wire.interlace import reason_of

Tamper = Callable[[Message], list[Message]]


class Endpoint:
    """A machine, its node and its end of a link."""

    result: Result | None

    def __init__(
        self,
        machine: InterlaceMachine,
        node: Node,
        holdings: LinkHoldings,
        *,
        timeline: Timeline,
        random: Random,
        witness: Witness | None,
        trace: Callable[[str], None] | None,
        persist_ns_max: int,
        tamper: Tamper | None = None,
        on_failure: Callable[[Node], None] = lambda node: None,  # noqa: ARG005
    ) -> None:
        """``tamper`` changes what is said, at a node that is not honest. ``on_failure``: the node's disk has failed."""
        self.machine: Final = machine
        self.node: Final = node
        self.witness: Final = witness
        self.result = None
        self.is_dead = False
        self._holdings = holdings
        self._timeline = timeline
        self._random = random
        self._trace = trace
        self._persist_ns_max = persist_ns_max
        self._tamper = tamper
        self._on_failure = on_failure
        self._pending: deque[Event] = deque()
        self._lost = False
        self._told_lost = False
        self._stream: Stream | None = None
        self._out: Direction[Item] | None = None
        self._link: Link[Item] | None = None
        self._busy = False
        if witness is not None:
            witness.learned = self._learned
        node.listen(self._store_changed)

    @property
    def is_over(self) -> bool:
        return self.is_dead or self.result is not None

    def attach(self, link: Link[Item], end: int, stream: Stream) -> None:
        """Take an end of a link."""
        self._link, self._out, self._stream = link, link.directions[end], stream
        link.attach(end, self)

    def arrive(self, item: Item) -> None:
        """Something came over the link."""
        assert self._stream is not None
        if not self.is_dead:
            self._stream.take(item)
            self._pump()

    def lose(self) -> None:
        """Nothing more will come."""
        self._lost = True
        self._pump()

    def give(self, event: Event) -> None:
        """Something happened here."""
        if not self.is_dead and (self.result is None or isinstance(event, Persisted)):
            self._pending.append(event)
            self._pump()

    def crash(self) -> None:
        """The process is gone, and the link with it."""
        if not self.is_dead:
            self.is_dead = True
            self.node.unlisten(self._store_changed)
            if self._trace is not None:
                self._trace(f"{self.node.name} crashes")
            assert self._link is not None
            self._link.break_off()

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Take everything that can be taken now."""
        if self._busy:
            return
        self._busy = True
        try:
            while not self.is_dead and (event := self._next()) is not None:
                self._take(event)
        finally:
            self._busy = False

    def _next(self) -> Event | None:
        if self._pending:
            return self._pending.popleft()
        if self.result is not None or self._stream is None:
            return None
        event = self._stream.next()
        if event is None and self._lost and not self._told_lost:
            self._told_lost = True
            return LinkClosed()
        return event

    def _take(self, event: Event) -> None:
        reading = self.node.clock.read()
        now = Now(tai_ns=reading.tai_ns, monotonic_ns=reading.monotonic_ns)
        before = self.machine.phase
        effects = self.machine.step(event, now=now)
        if self._trace is not None:
            self._trace(_outline(self.node.name, before, event, effects))
        if self.witness is not None:
            self.witness.saw(event, effects, now)
        for effect in effects:
            # A disk that fails takes the process with it, and nothing more is done.
            if not self.is_dead:
                self._perform(effect)
        if self.result is not None and not self.is_dead:
            self._holdings.release()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Persist():
                self._timeline.after(self._random.randrange(self._persist_ns_max + 1), lambda: self._persist(effect))
            case SaveCursor():
                self._guarded(lambda: self._holdings.save(effect))
            case Remember():
                self._guarded(lambda: self._holdings.remember(effect))
            case Send(message):
                self._send(message)
            case Notify(notice):
                if isinstance(notice, Ended):
                    self.result = notice.result
                    self.node.unlisten(self._store_changed)
            case WakeAt(monotonic_ns=at, token=token):
                self._timeline.after(self.node.clock.delay_until(at), lambda: self.give(Fired(token)))
            case Close():
                assert self._out is not None
                self._out.close()

    def _send(self, message: Message) -> None:
        assert self._stream is not None
        assert self._out is not None
        try:
            for said in [message] if self._tamper is None else self._tamper(message):
                for item in self._stream.write(said):
                    self._out.send(item)
        except PeerError as error:
            self._pending.append(Undecodable(reason_of(error), str(error)))
            return
        if isinstance(message, Transfer) and not message.last:
            pause = self._random.choice((0, self._random.randrange(self._persist_ns_max + 1)))
            self._out.when_room(lambda: self._timeline.after(pause, lambda: self.give(Flushed())))

    def _persist(self, effect: Persist) -> None:
        if self.is_dead:
            return

        def work() -> None:
            settled = self.node.persist(self._holdings, effect)
            # The word that it is done may come later than the deed.
            delay = self._random.randrange(2) * self._random.randrange(self._persist_ns_max + 1)
            self._timeline.after(delay, lambda: self.give(Persisted(settled)))

        self._guarded(work)

    def _guarded(self, work: Callable[[], object]) -> None:
        """Do something to the store; when the disk fails, the process goes down with it.

        What only saves work may fail without a word. A power cut spares nobody for that.
        """
        try:
            work()
        except ResourceError as error:
            if self._trace is not None:
                self._trace(f"{self.node.name} disk: {error}")
            self._on_failure(self.node)
        else:
            if self.node.vault.is_down:
                self._on_failure(self.node)

    def _learned(self) -> Table:
        """What the machine holds of its peer's claims."""
        epoch = self.machine.epoch
        found = () if epoch is None else epoch.learned.advertisements()
        return {one.record: one.fields for one in found}

    def _store_changed(self) -> None:
        self._timeline.after(0, lambda: None if self.is_over else self.give(StoreChanged()))


def _outline(name: str, before: str, event: Event, effects: tuple[Effect, ...]) -> str:
    """One step in one line."""
    return f"{name} [{before}] {_brief(event)} → {', '.join(map(_brief, effects)) or 'nothing'}"


def _brief(thing: object) -> str:
    """What a value is, without its bulk."""
    fields: tuple[str, ...] = getattr(thing, "__struct_fields__", ())
    parts = [_value(name, getattr(thing, name)) for name in fields]
    return f"{type(thing).__name__}({' '.join(part for part in parts if part)})"


def _value(name: str, value: object) -> str:
    if value is None or value == () or value is False:
        return ""
    if isinstance(value, tuple | frozenset | dict | set):
        shown = sorted(map(_item, value)) if isinstance(value, frozenset | set) else list(map(_item, value))
        return f"{name}=[{' '.join(shown[:12])}{' …' if len(shown) > 12 else ''}]"
    if hasattr(value, "__struct_fields__"):
        return _brief(value) if name in ("message", "notice", "result") else f"{name}={type(value).__name__}"
    if isinstance(value, bytes):
        return f"{name}={len(value)}B"
    return f"{name}={value}" if name == "detail" else f"{name}={str(value)[:60]}"


def _item(value: object) -> str:
    if isinstance(value, str):
        return value[:8]
    record = getattr(value, "record", None)
    if isinstance(record, str):
        fate = getattr(value, "fate", "")
        mark = {"Unavailable": "-", "Settled": f":{fate}"}.get(type(value).__name__, "")
        return f"{record[:8]}{mark}"
    prefix = getattr(value, "prefix", None)
    if isinstance(prefix, str):
        return f"{prefix}×{getattr(value, 'count', '')}"
    return type(value).__name__
