"""Exchanges for tests: two sides in one process, and one side whose peer says whatever a test lets it say."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import TypedDict, Unpack

from msgspec import structs

from bobbin.interlace.advertise import advertisement
from bobbin.interlace.choice import Strategy
from bobbin.interlace.config import Bounded, Config, Open
from bobbin.interlace.effects import Close, Effect, Ended, Notice, Notify, Persist, SaveCursor, Send, WakeAt
from bobbin.interlace.events import Event, Fired, Flushed, Now, Persisted, Received, Settled, Started
from bobbin.interlace.limits import SECOND_NS, Limits, Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import (
    Advertise,
    Advertisement,
    Delivered,
    Hello,
    Message,
    Request,
    Setup,
    Transfer,
)
from bobbin.interlace.ports import Evaluated, Question
from bobbin.interlace.result import Result
from bobbin.interlace.schema import Schema
from bobbin.interlace.setup import Party, own_setup
from bobbin.interlace.state import Phase
from bobbin.policy.claims import ClaimedField
from bobbin.policy.modules import Query, Selector, compile_selector
from bobbin.policy.operands import Origin
from bobbin.records import tai
from bobbin.records.ids import Verifier
from bobbin.records.record import Plex, Record, build_plex
from bobbin.runtime.codec_channel import CodecChannel
from bobbin.runtime.pair import Channel, DirectChannel, Pair, Side
from bobbin.simulator.holdings import MemoryHoldings, describe
from tests.policy_worlds import ALICE, BOB, EVERYTHING

START_NS = tai.parse("1640995200:000000000")
NOBODY = Party(verifier=None)

BY_GROUP = (
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u').\n"
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'u').\n"
)
"""Everything of the group ``u``."""
PULL = "SelectAdvertised(P,S) :- Advertised(P,S).\n"
PUSH = "SelectHave(P) :- Have(P).\n"


@cache
def selector(rules: str) -> Selector:
    """A compiled selector."""
    return compile_selector(rules)


def record(number: int, *, group: str = "u", app: str = "ding", name: str = "", size: int = 0) -> Plex:
    """One of many records; without ``size`` its data is a few bytes."""
    data = b"record %d" % number if not size else (b"%d " % number).ljust(size, b".")
    return build_plex(group=group, app=app, name=name or f"n/{number}", tai_ns=START_NS + number, data=data)


def records(count: int, *, first: int = 0, group: str = "u", size: int = 0) -> list[Plex]:
    """So many different records."""
    return [record(number, group=group, size=size) for number in range(first, first + count)]


def hashes(some: Iterable[Record]) -> frozenset[str]:
    """Their names."""
    return frozenset(one.hash for one in some)


class Changes(TypedDict, total=False):
    """What a test changes of a configuration."""

    own: Party
    peer: Party
    initiator: bool
    lifecycle: Bounded | Open
    limits: Limits
    service: Service
    formats: frozenset[str]
    schema: Schema | None
    parameters: Mapping[str, str]
    pinned: Verifier | None
    transport: str | None
    encrypted: bool
    cursor_key: str | None
    direct: bool
    strategy: Strategy
    share: int | None


def config(rules: str = EVERYTHING, **changes: Unpack[Changes]) -> Config:
    """An anonymous initiator that checks itself, but for the changes."""
    usual: Changes = {"own": NOBODY, "peer": NOBODY, "initiator": True}
    merged: Changes = {**usual, **changes}
    return Config(selector=selector(rules), checking=True, **merged)


class SetClock:
    """A clock that stands until it is moved, so that nothing depends on how fast a test runs."""

    def __init__(self, tai_ns: int = START_NS) -> None:
        self.tai_ns = tai_ns
        self.monotonic_ns = 0

    def __call__(self) -> Now:
        return Now(tai_ns=self.tai_ns, monotonic_ns=self.monotonic_ns)

    def move(self, seconds: float) -> None:
        """So much later."""
        self.tai_ns += round(seconds * SECOND_NS)
        self.monotonic_ns += round(seconds * SECOND_NS)


class Watched(MemoryHoldings):
    """Holdings that keep what they were asked, and let a test do something in between."""

    def __init__(self, some: Iterable[Record] = (), *, query: Query | None = None) -> None:
        super().__init__(some, query=query)
        self.questions: list[Question] = []
        self.answers: list[Evaluated] = []
        self.loaded: list[str] = []
        self.doings: list[str] = []
        self.before_load: Callable[[str], None] = lambda _: None
        self.before_evaluate: Callable[[], None] = lambda: None

    def evaluate(self, question: Question) -> Evaluated:
        self.before_evaluate()
        self.questions.append(question)
        self.doings.append("evaluate")
        self.answers.append(super().evaluate(question))
        return self.answers[-1]

    def load(self, record: str) -> bytes | None:
        self.before_load(record)
        self.loaded.append(record)
        return super().load(record)

    def persist(self, effect: Persist) -> tuple[Settled, ...]:
        self.doings.append("persist")
        return super().persist(effect)

    def save(self, effect: SaveCursor) -> bool:
        self.doings.append("save")
        return super().save(effect)


class Meeting:
    """Two sides of one exchange in this process, with everything that they said."""

    def __init__(
        self,
        left: Config,
        right: Config,
        here: MemoryHoldings,
        there: MemoryHoldings,
        *,
        clock: Callable[[], Now] | None = None,
        codec: bool = False,
    ) -> None:
        self.said: list[tuple[str, Message]] = []
        """By side, ``left`` or ``right``, in the order of the steps."""
        self.effects: list[tuple[str, Effect]] = []
        self.here = here
        self.there = there
        self.left = self._side("left", left, here)
        self.right = self._side("right", right, there)
        self.clock = clock or SetClock()
        self.pair = Pair(self.left, self.right, clock=self.clock, channel=_by_codec if codec else _direct)

    def _side(self, name: str, config: Config, holdings: MemoryHoldings) -> Side:
        def observe(event: Event, effects: tuple[Effect, ...]) -> None:
            del event
            self.effects += [(name, effect) for effect in effects]
            self.said += [(name, effect.message) for effect in effects if isinstance(effect, Send)]

        return Side(InterlaceMachine(config, holdings), holdings, [observe])

    def run(self) -> tuple[Result, Result]:
        """A bounded exchange from start to end."""
        return self.pair.run()

    def start(self) -> None:
        """An open exchange, up to its first fixed point."""
        self.pair.start()
        self.pair.settle()

    def give(self, name: str, event: Event) -> None:
        """Something happens on a side, and both go on as far as they can."""
        (self.left if name == "left" else self.right).give(event)
        self.pair.settle()

    def fire(self, name: str) -> None:
        """The timer of a side that was set last goes off."""
        wakes = [effect for side, effect in self.effects if side == name and isinstance(effect, WakeAt)]
        self.give(name, Fired(wakes[-1].token))

    def messages(self, name: str, kind: type[Message]) -> list[Message]:
        """What a side has said of one kind."""
        return [message for side, message in self.said if side == name and isinstance(message, kind)]

    def requested(self, name: str) -> list[tuple[str, ...]]:
        """The request lists of a side."""
        return [message.records for side, message in self.said if side == name and isinstance(message, Request)]

    def advertised(self, name: str) -> list[Advertise]:
        """The advertise blocks of a side."""
        return [message for side, message in self.said if side == name and isinstance(message, Advertise)]

    def transferred(self, name: str) -> list[Transfer]:
        """The parts of transfers of a side."""
        return [message for side, message in self.said if side == name and isinstance(message, Transfer)]


def _direct(sender: Side, receiver: Side) -> Channel:
    del sender, receiver
    return DirectChannel()


def _by_codec(sender: Side, receiver: Side) -> Channel:
    return CodecChannel(sender.machine, receiver.machine)


def meet(
    here: Iterable[Record] | MemoryHoldings,
    there: Iterable[Record] | MemoryHoldings,
    rules: str = EVERYTHING,
    other_rules: str | None = None,
    *,
    signed: bool = False,
    codec: bool = False,
    clock: Callable[[], Now] | None = None,
    right: Changes | None = None,
    **changes: Unpack[Changes],
) -> Meeting:
    """Two sides that have not started yet. ``changes`` are of both, ``right`` is of the right one alone."""
    mine = here if isinstance(here, MemoryHoldings) else Watched(here)
    theirs = there if isinstance(there, MemoryHoldings) else Watched(there)
    if signed:
        parties: Changes = {"own": Party(verifier=ALICE), "peer": Party(verifier=BOB)}
        swapped: Changes = {"own": Party(verifier=BOB), "peer": Party(verifier=ALICE)}
    else:
        parties = swapped = {"own": NOBODY, "peer": NOBODY}
    of_left: Changes = {**parties, **changes}
    of_right: Changes = {**swapped, **changes, **(right or {})}
    of_right["initiator"] = False
    return Meeting(
        config(rules, **of_left),
        config(rules if other_rules is None else other_rules, **of_right),
        mine,
        theirs,
        clock=clock,
        codec=codec,
    )


class Against:
    """One machine whose peer is the test."""

    def __init__(self, own: Config, holdings: MemoryHoldings | None = None, *, rules: str | None = None) -> None:
        """``rules``: the peer's; without, the same as the machine's."""
        self.config = own
        self.holdings = Watched() if holdings is None else holdings
        self.machine = InterlaceMachine(own, self.holdings)
        self.rules = own.selector if rules is None else selector(rules)
        self.clock = SetClock()
        self.said: list[Message] = []
        self.notices: list[Notice] = []
        self.effects: list[Effect] = []
        self.waiting: list[Event] = []
        """Answers to effects that a test holds back."""
        self.holds_back = False
        self.timer: WakeAt | None = None
        self.closed = False

    @property
    def result(self) -> Result | None:
        """How it ended, if it has."""
        ended = [notice.result for notice in self.notices if isinstance(notice, Ended)]
        assert len(ended) <= 1, "an end comes once"
        return ended[0] if ended else None

    def stands_in(self, phase: Phase) -> bool:
        """Whether this is where the machine is."""
        return self.machine.phase is phase

    def give(self, event: Event) -> list[Message]:
        """An event, and what follows from it on this side; returns what the machine says."""
        before = len(self.said)
        for effect in self.machine.step(event, now=self.clock()):
            self._perform(effect)
        while self.waiting and not self.holds_back:
            self.give(self.waiting.pop(0))
        return self.said[before:]

    def _perform(self, effect: Effect) -> None:
        self.effects.append(effect)
        match effect:
            case Persist():
                self.waiting.append(Persisted(self.holdings.persist(effect)))
            case SaveCursor():
                self.holdings.save(effect)
            case Send(message):
                self.said.append(message)
                if isinstance(message, Transfer) and not message.last:
                    self.waiting.append(Flushed())
            case Notify(notice):
                self.notices.append(notice)
            case WakeAt():
                self.timer = effect
            case Close():
                self.closed = True
            case _:
                pass

    def say(self, message: Message) -> list[Message]:
        """The peer says something; returns what the machine says next."""
        return self.give(Received(message))

    def fire(self) -> list[Message]:
        """The timer goes off."""
        assert self.timer is not None
        return self.give(Fired(self.timer.token))

    # ---- a peer that keeps to the protocol ------------------------------------------------------------------------

    def setup(self) -> Setup:
        """What an honest peer announces."""
        own = self.config
        return own_setup(self.rules, own=own.peer, peer=own.own, initiator=not own.initiator)

    def hello(self) -> Hello:
        """What an honest peer with the same wishes answers to the machine's last hello."""
        last = next(message for message in reversed(self.said) if isinstance(message, Hello))
        return structs.replace(last, signer=self.config.peer.verifier)

    def to_hello(self) -> Hello:
        """Up to the machine's hello."""
        self.give(Started())
        said = self.say(self.setup())[-1]
        assert isinstance(said, Hello)
        return said

    def to_loop(self) -> Advertise:
        """Up to the machine's first block."""
        self.to_hello()
        said = self.say(self.hello())[-1]
        assert isinstance(said, Advertise)
        return said

    def to_request(self, claims: Iterable[Advertisement] = ()) -> Request:
        """Up to the machine's request list, with these claims of the peer."""
        self.to_loop()
        return self.claiming(claims)

    def claiming(self, claims: Iterable[Advertisement] = ()) -> Request:
        """The peer's first block of an iteration is this listing; the machine's next word is its request list."""
        said = self.say(Advertise(records=tuple(sorted(claims, key=lambda one: one.record))))[-1]
        assert isinstance(said, Request)
        return said

    def to_transfer(self, wanted: Collection[Record], asked: Collection[str] = ()) -> list[Message]:
        """Into the transfer phase: the peer claims some records, the machine asks for them, the peer for others."""
        request = self.to_request(map(self.claim, wanted))
        assert set(request.records) == hashes(wanted)
        return self.say(Request(records=tuple(sorted(asked))))

    @property
    def source(self) -> Origin:
        """The peer's origin."""
        return self.config.peer.origin(self.setup().index)

    def claim(self, one: Record, fields: Iterable[tuple[str, str]] | None = None) -> Advertisement:
        """The peer's advertisement of a record: true, or with the fields that a test makes up."""
        epoch = self.machine.epoch
        schema = Schema(all=True) if epoch is None else epoch.terms.schema
        if fields is None:
            return advertisement(one.hash, self.source, describe(one, schema))
        made_up = [ClaimedField(name, "0", value) for name, value in fields]
        return advertisement(one.hash, self.source, made_up)


def delivered(*some: Record, last: bool = True) -> Transfer:
    """A part of a transfer with these records."""
    return Transfer(responses=tuple(Delivered(record=one.hash, raw=one.raw) for one in some), last=last)
