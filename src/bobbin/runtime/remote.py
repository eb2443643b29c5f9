"""Exchanges with a peer at the other end of a stream, as the side that dials: bounded ones, and an open one that stays.

Each is the ordinary exchange, behind an introduction. The peer's books are not open to us: an account has our side of
everything, the bytes of each phase, and of the peer only what it has said.

A bounded exchange has a link of its own; several rounds have several. An open one dials again when its link is lost,
and goes on from the cursor.

A peer may have several addresses. They are one peer because the same key is demanded at each of them, and exchanges
with it have one cursor. So an exchange whose link is lost goes on at the next address.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, Self, TypeAlias

from msgspec import Struct, structs

from bobbin.errors import PeerError, ResourceError, UsageError
from bobbin.interlace.config import Bounded, Config, Open
from bobbin.interlace.effects import Effect, FixedPoint, Notify
from bobbin.interlace.events import Event
from bobbin.interlace.ledger import Ledger
from bobbin.interlace.limits import SECOND_NS
from bobbin.interlace.reasons import Reason
from bobbin.interlace.result import Result
from bobbin.policy.modules import Selector
from bobbin.records.ids import Verifier
from bobbin.records.record import Record
from bobbin.runtime import accounts, operations
from bobbin.runtime.accounts import SyncReport, told_at
from bobbin.runtime.address_rotation import Rotation
from bobbin.runtime.exchange import Exchange
from bobbin.runtime.following import OBSERVATIONS_MAX, Observations, ResultRule
from bobbin.runtime.holdings import StoreHoldings
from bobbin.runtime.introduction import TIMEOUT_SECONDS, Introduction, NotAdmitted, configure, introduce, proof_counts
from bobbin.runtime.local_peer import PHASES, Books, Figure, Manner, make_machine, now
from bobbin.runtime.operations import Participant, Wishes
from bobbin.runtime.pair import Clock, Observer, Performer
from bobbin.runtime.reaching import PassedOver
from bobbin.runtime.reaching import reach as reach_any
from bobbin.runtime.reconnect import Backoff, Lost, Once, keep
from bobbin.runtime.recording import Forgetful, Recorder
from bobbin.runtime.stream_link import StreamLink
from bobbin.runtime.workers import Validators
from bobbin.transport.base import ByteStream
from bobbin.wire.proof import Role

Dial: TypeAlias = Callable[[], Awaitable[ByteStream]]
"""Opens a new stream to the peer. Raises ``TransportError``."""
Admit: TypeAlias = Callable[[Introduction], None]
"""Raises ``NotAdmitted`` for a peer that will not do."""

WRONG_PEER: Final = "wrong-peer"
INSECURE: Final = "insecure-route"
UNKNOWN_PEER: Final = "unknown-key"

_GONE: Final = frozenset({Reason.LINK_LOST, Reason.PHASE_TIMEOUT, Reason.PEER_STORE})
"""Ends after which whoever is at another address may be able to go on."""


class Line(Struct, frozen=True, kw_only=True):
    """A further way to a peer."""

    dial: Dial
    address: str
    """For people to read."""


class RemotePeer(Struct, frozen=True, kw_only=True):
    """A peer that can be dialled, and what is demanded of whoever answers."""

    dial: Dial
    admit: Admit
    """Of whoever answers, by whichever way."""
    name: str
    """What it is remembered under where a side has proven nothing. Never sent to anyone."""
    allow_insecure: bool = False
    """Speak at all on a route where nobody's proof counts; what ``admit`` demands is demanded there too."""
    introduction_seconds_max: float = TIMEOUT_SECONDS
    address: str = ""
    """Where ``dial`` leads, for people to read."""
    otherwise: tuple[Line, ...] = ()
    """Further ways to the same peer, in the order in which they are tried."""
    passed_over: PassedOver = lambda _: None
    """Hears of each way that failed while there was another one."""

    @property
    def lines(self) -> tuple[Line, ...]:
        """All ways to it."""
        return Line(dial=self.dial, address=self.address), *self.otherwise


def expecting(verifier: Verifier | None, *, allow_insecure: bool = False) -> Admit:
    """Demand a peer with this key; with None, whoever the certificate of its server, or this machine, vouches for.

    Off this machine the link must be encrypted and the peer proven, unless ``allow_insecure``. A key that was expected
    is demanded in any case.
    """

    def admit(introduction: Introduction) -> None:
        found = introduction.peer
        if verifier is not None and found != verifier:
            answer = "whoever answers has proven nothing that counts here" if found is None else f"{found} answers"
            raise NotAdmitted(WRONG_PEER, f"the peer is to be {verifier}, and {answer}")
        route = introduction.route
        if route.loopback or allow_insecure:
            return
        if not introduction.encrypted or found is None:
            raise NotAdmitted(INSECURE, f"the link to {route.address} is not encrypted, or its peer has proven nothing")
        if verifier is None and not route.verified:
            raise NotAdmitted(UNKNOWN_PEER, f"{found} answers at {route.address}; nobody here knows that key")

    return admit


# ---- one link -------------------------------------------------------------------------------------------------------


class RemoteLink:
    """One link that is up, with one machine; ``run`` it once."""

    def __init__(
        self,
        own: Participant,
        introduction: Introduction,
        stream: ByteStream,
        config: Config,
        *,
        clock: Clock,
        observers: Iterable[Observer] = (),
        recorder: Recorder | None = None,
        workers: int = 0,
    ) -> None:
        store = own.decisions.store
        self.introduction: Final = introduction
        self._own = own
        self._config = config
        self._validators: Final = Validators(workers, at_once=False)
        self._holdings: Final = StoreHoldings(own.decisions, validators=self._validators if workers else None)
        self._machine: Final = make_machine(config, self._holdings, recorder)
        self._ledger: Final = Ledger(self._machine)
        performer: Performer = self._holdings if recorder is None else Forgetful(self._holdings)
        is_open = isinstance(config.lifecycle, Open)
        self.link: Final = StreamLink(stream, introduction.elements, self._machine)
        self.exchange: Final = Exchange(
            self._machine,
            performer,
            self.link,
            clock=clock,
            observers=[self._ledger.observe, *observers],
            subscribe=(lambda wake: store.subscribe(lambda _: wake())) if is_open else None,
            changed_elsewhere=store.changed_elsewhere if is_open else None,
            # A recording has what each step was told right then.
            ahead=self._holdings if recorder is None else None,
        )

    async def run(self) -> Books:
        """Run the exchange to its end."""
        try:
            result = await self.exchange.run(wind_up=self._wind_up)
        finally:
            self._holdings.release()
            self._validators.close()
        return Books(result=result, ledger=self._ledger, config=self._config, epoch=self._machine.epoch)

    def _wind_up(self) -> None:
        """Keep what was learnt for the next exchange."""
        self._holdings.release()
        self._own.decisions.flush()

    def figures(self) -> dict[str, Figure]:
        """What has gone over the link so far, by phase."""
        traffic = self.link.traffic
        return {
            phase: Figure(
                messages=traffic[phase].messages_in + traffic[phase].messages_out,
                bytes=traffic[phase].bytes_in + traffic[phase].bytes_out,
            )
            for phase in PHASES
            if phase in traffic
        }


async def connect(
    own: Participant,
    peer: RemotePeer,
    manner: Manner,
    *,
    clock: Clock = now,
    observers: Iterable[Observer] = (),
    recorder: Recorder | None = None,
) -> RemoteLink:
    """Dial the first way, and find out who answers; then nothing has been said yet but who we are.

    A route where no proof counts is left without a word, unless the peer's terms allow it. Raises ``TransportError``,
    ``NotIntroduced``, ``NotAdmitted`` or another ``PeerError``.
    """
    stream = await peer.dial()
    if not (peer.allow_insecure or proof_counts(stream.route)):
        stream.abort()
        raise NotAdmitted(INSECURE, f"{stream.route.address} is not on this machine, and the link is not encrypted")
    introduction, _ = await introduce(
        stream, role=Role.INITIATOR, key=own.key, admit=peer.admit, timeout_seconds=peer.introduction_seconds_max
    )
    try:
        config = configure(
            introduction,
            role=Role.INITIATOR,
            selector=own.selector,
            lifecycle=manner.lifecycle,
            limits=manner.limits,
            service=manner.service,
            cursor_key=peer.name,
            strategy=manner.strategy,
            checking=manner.checking,
        )
        return RemoteLink(
            own,
            introduction,
            stream,
            config,
            clock=clock,
            observers=observers,
            recorder=recorder,
            workers=manner.workers,
        )
    except BaseException:
        stream.abort()
        raise


async def reach(
    own: Participant,
    peer: RemotePeer,
    manner: Manner,
    rotation: Rotation,
    *,
    clock: Clock = now,
    observers: Iterable[Observer] = (),
    recorder: Recorder | None = None,
) -> RemoteLink:
    """The same by whichever way leads to the peer, of those that are left in this round of ``rotation``."""
    lines = peer.lines

    async def attempt(at: int) -> RemoteLink:
        by = structs.replace(peer, dial=lines[at].dial)
        return await connect(own, by, manner, clock=clock, observers=observers, recorder=recorder)

    return await reach_any(attempt, [line.address for line in lines], rotation, passed_over=peer.passed_over)


# ---- bounded --------------------------------------------------------------------------------------------------------


async def synchronise_remote(
    own: Participant,
    peer: RemotePeer,
    *,
    manner: Manner = Manner(),  # noqa: B008 (a frozen value)
    wishes: Wishes = Wishes(),  # noqa: B008 (a frozen value)
    clock: Clock = now,
    observers: Iterable[Observer] = (),
    recorder: Recorder | None = None,
) -> SyncReport:
    """Converge what both policies select, in rounds, each on a link of its own. ``recorder`` has the first one.

    A link that does not come up is an error in the first round; later the account says what was done, and its detail
    why there is no more. A link that is lost is followed by one to the next address, which is not another round.
    """
    if not isinstance(manner.lifecycle, Bounded):
        raise UsageError("an exchange that stays open is followed, and has no account")
    if (wishes.statement or wishes.receipts) and own.key is None:
        raise UsageError("statements and receipts are sealed by their issuer, and this lace has no key")
    demanded = structs.replace(peer, admit=_proven(peer.admit)) if wishes.receipts else peer
    followers = tuple(observers)
    rotation = Rotation(len(peer.lines))
    books: list[Books] = []
    figures: list[dict[str, Figure]] = []
    rounds, moved = 0, False
    while moved or (rounds < wishes.rounds and (rounds == 0 or _may_go_on(books[-1].result))):
        try:
            link = await reach(own, demanded, manner, rotation, clock=clock, observers=followers, recorder=recorder)
        except (PeerError, ResourceError) as error:
            if not books:
                raise
            books[-1] = books[-1].and_then(str(error))
            break
        recorder = None
        books.append(await link.run())
        figures.append(link.figures())
        moved = books[-1].result.reason in _GONE and rotation.move_on()
        rounds += not moved
    return _account(own, books, figures, wishes, clock)


def _account(
    own: Participant, books: list[Books], figures: list[dict[str, Figure]], wishes: Wishes, clock: Clock
) -> SyncReport:
    store, last = own.decisions.store, books[-1]
    describe = StoreHoldings(own.decisions).describe
    report = accounts.account(books, (), figures, describe=describe, look_for=wishes.look_for)
    report = structs.replace(report, refused=accounts.refused(store, last.epoch))
    places = wishes.explain_at
    asked = accounts.asked_about(wishes.explain, places, last.epoch, store, received=report.received)
    explained = tuple(accounts.explained(record, report, own=(last, store), peer=None) for record in asked)
    statement, standing = None, None
    if wishes.statement and report.fixed_point:
        statement, standing = operations.state(own, last, clock)
    sender = last.config.peer.verifier
    return structs.replace(
        report,
        explained=explained,
        untold=tuple(str(one) for one in places if last.epoch and not told_at(last.epoch, store, one)),
        places=accounts.places(report, store),
        statement=statement,
        standing_statement=standing,
        receipts=operations.receipts(own, sender, report.received, clock) if wishes.receipts and sender else (),
    )


def _proven(admit: Admit) -> Admit:
    def admit_proven(introduction: Introduction) -> None:
        admit(introduction)
        if introduction.peer is None or introduction.own is None:
            raise UsageError("a receipt names a proven sender, and on this link nobody is proven")

    return admit_proven


def _may_go_on(result: Result) -> bool:
    """Whether another round can do what this one could not: it came to an end by a limit, and moved something before.

    The peer may have come to its limit first; then all that can be seen from here is that it has closed the link.
    """
    return (result.limit is not None or result.reason is Reason.LINK_LOST) and bool(result.received or result.sent)


# ---- open -----------------------------------------------------------------------------------------------------------


class RemoteFollowing(AbstractAsyncContextManager["RemoteFollowing"]):
    """An open exchange with a peer elsewhere, and the stream of records that came in it and match a rule.

    ::

        async with follow_remote(own, peer, matches=matches_place(place)) as following:
            async for record in following:
                ...

    Entering raises whatever keeps the first link from coming up. A link that is lost later is dialled again, at the
    peer's next address if it has several; what trying again cannot mend ends the stream of records with that error.
    """

    def __init__(
        self,
        own: Participant,
        peer: RemotePeer,
        *,
        matches: ResultRule,
        manner: Manner,
        clock: Clock,
        waiting_max: int,
        backoff: Backoff,
        tell: Callable[[Lost], None],
        observers: Iterable[Observer],
    ) -> None:
        self._own = own
        self._peer = peer
        self._rotation = Rotation(len(peer.lines))
        self._manner = structs.replace(manner, lifecycle=Open())
        self._clock = clock
        self._backoff = backoff
        self._tell = tell
        self._observations = Observations(own.decisions.store, matches, waiting_max=waiting_max)
        self._observers = (self._observations.observe, self._watch, *observers)
        self._first: RemoteLink | None = None
        self._fixed_points = 0
        """Of the present link."""
        self._task: asyncio.Task[None] | None = None
        self._at_rest = asyncio.Event()
        """Set while no link is up."""
        self._at_rest.set()
        self._is_closing = False
        self.link: RemoteLink | None = None
        """The one that is up, if one is."""
        self.result: Result | None = None
        """How the last link ended."""

    async def __aenter__(self) -> Self:
        self._first = await self._connect()
        self._task = asyncio.create_task(
            keep(self._run_once, backoff=self._backoff, rotation=self._rotation, tell=self._lost)
        )
        self._task.add_done_callback(lambda _: self._observations.stir())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        await self.close()

    async def close(self) -> Result | None:
        """End the exchange; returns what became of the last link. What was observed and not taken yet is let go."""
        task, self._task = self._task, None
        if task is None:
            return self.result
        self._is_closing = True
        if self._first is None and self.link is not None:
            self.link.exchange.cancel()
            await self._at_rest.wait()
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # whoever iterates has heard of it, or does not want to any more
        if self._first is not None:
            await self._first.link.close()
        self._observations.stir()
        return self.result

    def change_policy(self, selector: Selector) -> None:
        """Go on under another selector, on this link and on those that come."""
        if self._task is None:
            raise UsageError("the exchange is not open")
        self._own = structs.replace(self._own, selector=selector)
        if self.link is not None:
            self.link.exchange.change_operand(selector)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        record = await self._observations.take(lambda: self._task is None or self._task.done())
        if record is not None:
            return record
        if self._task is not None:
            self._task.result()
        raise StopAsyncIteration

    async def _connect(self) -> RemoteLink:
        return await reach(
            self._own, self._peer, self._manner, self._rotation, clock=self._clock, observers=self._observers
        )

    async def _run_once(self) -> Once:
        link, self._first = self._first or await self._connect(), None
        self.link, self._fixed_points = link, 0
        self._at_rest.clear()
        since_ns = self._clock().monotonic_ns
        try:
            if self._is_closing:
                link.exchange.cancel()
            self.result = (await link.run()).result
        finally:
            self.link = None
            self._at_rest.set()
        why = "the peer has closed the link" if self.result.reason is None else self.result.detail
        # One that has moved records was of use, even if it was lost before the fixed point.
        moved = bool(self.result.received or self.result.sent)
        seconds = (self._clock().monotonic_ns - since_ns) / SECOND_NS
        return Once(was_good=self._fixed_points > 0 or moved, why=why, seconds=seconds)

    def _lost(self, lost: Lost) -> None:
        if not self._is_closing:
            self._tell(lost)

    def _watch(self, event: Event, effects: tuple[Effect, ...]) -> None:
        del event
        self._fixed_points += sum(isinstance(one, Notify) and isinstance(one.notice, FixedPoint) for one in effects)


def follow_remote(
    own: Participant,
    peer: RemotePeer,
    *,
    matches: ResultRule,
    manner: Manner = Manner(),  # noqa: B008 (a frozen value)
    clock: Clock = now,
    waiting_max: int = OBSERVATIONS_MAX,
    backoff: Backoff | None = None,
    tell: Callable[[Lost], None] = lambda _: None,
    observers: Iterable[Observer] = (),
) -> RemoteFollowing:
    """An open exchange, to be entered with ``async with``. ``tell`` hears of every link that is lost."""
    return RemoteFollowing(
        own,
        peer,
        matches=matches,
        manner=manner,
        clock=clock,
        waiting_max=waiting_max,
        backoff=backoff or Backoff(),
        tell=tell,
        observers=observers,
    )
