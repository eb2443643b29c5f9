"""An exchange with a peer in the same process: two holdings, two machines, and nothing between them but this process.

Whoever opened both stores is the owner of both, so a side with a key has proven itself by that, and nobody else can
read the link. Each side is proven only if both are: a link with one anonymous end has no name.

The values themselves are handed over, unless the bytes of a socket are wanted (``through_codec``): then every message
passes the encoder of one side and the decoder of the other, and its bytes are counted. Both ways have one outcome.
"""

from collections.abc import Iterable
from time import monotonic_ns
from typing import Final, Protocol

from msgspec import Struct, field, structs

from bobbin.interlace.choice import Strategy
from bobbin.interlace.config import Bounded, Config, Open
from bobbin.interlace.effects import Effect, Send
from bobbin.interlace.epoch import Epoch
from bobbin.interlace.events import Event, Now
from bobbin.interlace.ledger import Ledger
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Message
from bobbin.interlace.ports import Holdings
from bobbin.interlace.result import Result
from bobbin.interlace.setup import Party
from bobbin.policy.modules import Selector
from bobbin.records.ids import Verifier
from bobbin.runtime.clock import tai_now
from bobbin.runtime.codec_channel import CodecChannel
from bobbin.runtime.pair import Channel, Clock, DirectChannel, Observer, Pair, Performer, Side
from bobbin.runtime.recording import Forgetful, RecordedMachine, Recorder
from bobbin.runtime.shares import draw_share

PHASES: Final = ("setup", "hello", "advertise", "request", "transfer")
"""In the order in which they come; each is the name of its message."""


class Keeper(Holdings, Performer, Protocol):
    """What one side reads, and what performs its writes."""


class LocalSide(Struct, frozen=True, kw_only=True):
    """What one side brings."""

    holdings: Keeper
    selector: Selector
    verifier: Verifier | None = None
    """Its key is in the hands of whoever runs both sides."""
    peer_name: str = "local"
    """What this side remembers the other one under where nobody has proven anything."""


class Manner(Struct, frozen=True, kw_only=True):
    """How an exchange is run; none of it says what is exchanged."""

    limits: Limits = Limits()
    service: Service = Service()
    lifecycle: Bounded | Open = Bounded()
    through_codec: bool = False
    direct: bool = True
    """Let each side read the other's advertisements where they are, unless they become bytes anyway."""
    strategy: Strategy = Strategy.AUTO
    """How advertisements are reconciled, where each side does not read those of the other."""
    checking: bool = False
    workers: int = 0
    """Processes that check what a peer elsewhere sends. They start when there is much to check."""


class Figure(Struct, kw_only=True):
    """What went over the link in one phase, both directions together."""

    messages: int = 0
    bytes: int | None = None
    """Only where messages became bytes."""


class Books(Struct, frozen=True, kw_only=True):
    """One side when it is over."""

    result: Result
    ledger: Ledger
    config: Config
    epoch: Epoch | None
    """None if no plan was agreed."""

    def and_then(self, why: str) -> "Books":
        """The same, where ``why`` is what has kept another link from going on."""
        return structs.replace(self, result=structs.replace(self.result, detail=f"{self.result.detail}; {why}"))


class Ran(Struct, frozen=True, kw_only=True):
    """Both sides when it is over."""

    own: Books
    peer: Books
    figures: dict[str, Figure] = field(default_factory=dict)
    """By phase; only phases in which something was said."""


def now() -> Now:
    """Both clocks of this machine."""
    return Now(tai_ns=tai_now(), monotonic_ns=monotonic_ns())


def configure(own: LocalSide, peer: LocalSide, manner: Manner, *, initiator: bool) -> Config:
    """The configuration of one side of a link in this process."""
    proven = own.verifier is not None and peer.verifier is not None
    return Config(
        selector=own.selector,
        own=Party(verifier=own.verifier if proven else None),
        peer=Party(verifier=peer.verifier if proven else None),
        initiator=initiator,
        lifecycle=manner.lifecycle,
        limits=manner.limits,
        service=manner.service,
        encrypted=True,
        direct=manner.direct and not manner.through_codec,
        cursor_key=own.peer_name,
        strategy=manner.strategy,
        share=draw_share(),
        checking=manner.checking,
    )


def run_local(
    own: LocalSide,
    peer: LocalSide,
    manner: Manner = Manner(),  # noqa: B008 (a frozen value)
    *,
    clock: Clock = now,
    observers: Iterable[Observer] = (),
    recorder: Recorder | None = None,
) -> Ran:
    """One bounded exchange, from start to end. ``observers`` and ``recorder`` follow our side."""
    figures: dict[str, Figure] = {}
    if recorder is not None:
        # A recording holds values, and nothing that lives in the other side's memory.
        manner = structs.replace(manner, direct=False)
    ours = configure(own, peer, manner, initiator=True)
    theirs = configure(peer, own, manner, initiator=False)
    machine = make_machine(ours, own.holdings, recorder)
    other = InterlaceMachine(theirs, peer.holdings)
    ledgers = Ledger(machine), Ledger(other)
    count = _Counter(figures)
    performer = own.holdings if recorder is None else Forgetful(own.holdings)
    left = Side(machine, performer, [ledgers[0].observe, count.observe, *observers])
    right = Side(other, peer.holdings, [ledgers[1].observe, count.observe])

    def channel(sender: Side, receiver: Side) -> Channel:
        if not manner.through_codec:
            return DirectChannel()
        return CodecChannel(sender.machine, receiver.machine, tap=count.weigh)

    results = Pair(left, right, clock=clock, channel=channel).run()
    return Ran(
        own=Books(result=results[0], ledger=ledgers[0], config=ours, epoch=machine.epoch),
        peer=Books(result=results[1], ledger=ledgers[1], config=theirs, epoch=other.epoch),
        figures={phase: figures[phase] for phase in PHASES if phase in figures},
    )


def make_machine(config: Config, holdings: Holdings, recorder: Recorder | None = None) -> InterlaceMachine:
    """A machine, recorded or not."""
    return InterlaceMachine(config, holdings) if recorder is None else RecordedMachine(config, holdings, recorder)


class _Counter:
    """Counts what both sides say, by phase."""

    def __init__(self, figures: dict[str, Figure]) -> None:
        self._figures = figures

    def observe(self, event: Event, effects: tuple[Effect, ...]) -> None:
        del event
        for effect in effects:
            if isinstance(effect, Send):
                self._figure(effect.message).messages += 1

    def weigh(self, message: Message, size: int) -> None:
        figure = self._figure(message)
        figure.bytes = (figure.bytes or 0) + size

    def _figure(self, message: Message) -> Figure:
        return self._figures.setdefault(type(message).__name__.lower(), Figure())
