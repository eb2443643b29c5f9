"""One link of a node, from a stream to its end.

The stream is greeted, the door decides, and if somebody is let in, an open exchange runs until one side closes. Every
link ends with a reason that has a name, whatever happens on it: what a peer does wrong, what the store cannot do, what
the operator wants, and mistakes of this program, which end the one link that they happen on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic_ns
from typing import Final

from msgspec import Struct, structs

from bobbin.errors import PeerError
from bobbin.interlace.config import Open
from bobbin.interlace.effects import Effect, FixedPoint, Notify
from bobbin.interlace.events import Event, PersistFailed
from bobbin.interlace.limits import SECOND_NS
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.reasons import Reason
from bobbin.interlace.result import Result
from bobbin.interlace.state import Phase
from bobbin.records import tai
from bobbin.runtime.admission import Refusal
from bobbin.runtime.clock import tai_now
from bobbin.runtime.exchange import Exchange
from bobbin.runtime.holdings import StoreHoldings
from bobbin.runtime.introduction import Introduction, NotAdmitted, configure, introduce
from bobbin.runtime.later_cursors import LaterCursors
from bobbin.runtime.link_books import LinkBooks
from bobbin.runtime.log import clean_text
from bobbin.runtime.node_settings import LinkBounds
from bobbin.runtime.pace import PacedLink
from bobbin.runtime.roster import ANONYMOUS, KnownPeer, Way
from bobbin.runtime.serving import Serving
from bobbin.runtime.status import Direction, End, Ended, LinkState, LinkStatus, PastLink
from bobbin.runtime.stream_link import StreamLink
from bobbin.runtime.tracing import Span, Value
from bobbin.transport.base import ByteStream, Route, TransportError
from bobbin.wire.proof import Role

_DETAIL_CHARACTERS_MAX: Final = 300


class _Wanted(Struct, frozen=True):
    """An end that this node wants."""

    end: End | Refusal
    detail: str


class NodeLink:
    """One link. ``run`` is its life."""

    def __init__(
        self,
        number: int,
        serving: Serving,
        direction: Direction,
        *,
        address: str,
        bounds: LinkBounds,
        way: Way | None = None,
    ) -> None:
        self.number: Final = number
        self.direction: Final = direction
        self.address: Final = address
        self.way: Final = way
        """Of the ways to the peer, where this node has dialled it."""
        self.known: KnownPeer | None = None
        """The terms that hold on this link; None as long as nobody has been let in."""
        self.past: PastLink | None = None
        """When it is over, if anybody was let in."""
        self._serving: Final = serving
        self._bounds: Final = bounds
        self._since_ns: Final = monotonic_ns()
        self._since: Final = tai.render(tai_now())
        self._state = LinkState.INTRODUCING
        self._route: Route | None = None
        self._introduction: Introduction | None = None
        self._books: LinkBooks | None = None
        self._stream: ByteStream | None = None
        self._stream_link: StreamLink | None = None
        self._exchange: Exchange | None = None
        self._task: asyncio.Task[object] | None = None
        self._loop: Final = asyncio.get_running_loop()
        self._wanted: _Wanted | None = None
        self._leaves_at_rest: _Wanted | None = None
        self._counted: Final[dict[tuple[str, str], int]] = {}
        self._slowed = 0
        self._built: str | None = None
        """What was last said of where digests came from."""
        self._tidy: Callable[[], Awaitable[object] | None] = lambda: None
        self._span: Span | None = None

    # ---- life -------------------------------------------------------------------------------------------------------

    async def run(self, stream: ByteStream, role: Role, admit: Callable[[Introduction], KnownPeer]) -> Ended:
        """Greet, be let in, exchange. Returns how it ended; raises only if it is cancelled from outside.

        ``admit`` raises ``NotAdmitted`` for whoever is not to come in.
        """
        self._task = asyncio.current_task()
        self._stream, self._route = stream, stream.route
        try:
            introduction, _ = await introduce(
                stream,
                role=role,
                key=self._serving.key,
                admit=lambda found: self._let_in(admit(found)),
                timeout_seconds=self._bounds.introduction_seconds_max,
            )
        except (PeerError, TransportError) as error:
            return self._refuse(error)
        except asyncio.CancelledError:
            stream.abort()
            if self._wanted is None or self._task is None:
                raise
            self._task.uncancel()
            return self._ended(self._wanted.end.value, self._wanted.detail)
        except Exception:  # a mistake of ours, on this link alone
            stream.abort()
            self._serving.log.exception("link-crashed", link=self.number)
            return self._ended(End.CRASHED.value, "a mistake of this program; the log has the place")
        return await self._serve(stream, role, introduction)

    def _let_in(self, known: KnownPeer) -> None:
        # From this moment: the terms may change again before the last word of the greeting is out.
        self.known = known

    async def _serve(self, stream: ByteStream, role: Role, introduction: Introduction) -> Ended:
        serving = self._serving
        self._introduction = introduction
        self._state = LinkState.EXCHANGING
        self._span = serving.tracing.link(self._words())
        serving.meter.links_open.labels(self.direction.value).inc()
        serving.log.info("link-up", **self._words())
        try:
            ended = await self._exchange_all(stream, role, introduction)
        except asyncio.CancelledError:
            stream.abort()
            if self._wanted is None or self._task is None:
                self._close_books(self._ended(End.NODE_STOPPED.value, "the node did not wait any longer"))
                raise
            # It was to end while it was being let in.
            self._task.uncancel()
            ended = self._ended(self._wanted.end.value, self._wanted.detail)
        except Exception as error:  # a mistake of ours, on this link alone
            stream.abort()
            serving.log.exception("link-crashed", link=self.number)
            ended = self._ended(End.CRASHED.value, f"a mistake of this program ({type(error).__name__})")
        finally:
            serving.meter.links_open.labels(self.direction.value).dec()
        self._close_books(ended)
        return ended

    async def _exchange_all(self, stream: ByteStream, role: Role, introduction: Introduction) -> Ended:
        serving, known = self._serving, self.known
        assert known is not None, "somebody was let in"
        turn = serving.steps.turn()
        decisions = serving.decisions(known)
        holdings = StoreHoldings(decisions, validators=serving.validators)
        cursors = LaterCursors(holdings)
        self._tidy = lambda: turn(cursors.write_due) if cursors.is_due else None
        config = configure(
            introduction,
            role=role,
            selector=known.selector,
            lifecycle=Open(),
            limits=known.limits,
            service=serving.service,
            # What an unproven stranger said is not remembered for the next one.
            cursor_key=None if known.name == ANONYMOUS else known.name,
            strategy=known.strategy,
        )
        machine = InterlaceMachine(config, holdings)
        link = self._stream_link = StreamLink(stream, introduction.elements, machine, work=turn)
        books = self._books = LinkBooks(machine, serving.meter, holdings.absent)
        paced = PacedLink(
            link,
            machine,
            serving.pace(known, self._bounds),
            used_ns=lambda: turn.used_ns,
            monotonic_ns=monotonic_ns,
            slowed=self._note_slowed,
        )
        exchange = self._exchange = Exchange(
            machine,
            cursors,
            paced,
            clock=serving.clock,
            observers=[books.observe, paced.observe, self._observe],
            subscribe=serving.wakes.subscribe,
            work=turn,
            ahead=holdings,
        )

        def wind_up() -> None:
            try:
                cursors.write()
            finally:
                holdings.release()
            decisions.flush()

        try:
            result = await exchange.run()
        finally:
            self._tidy = lambda: None
            await turn(wind_up)
        return self._ending(result, link)

    # ---- what the node wants of it ----------------------------------------------------------------------------------

    def end(self, end: End | Refusal, detail: str) -> None:
        """End soon. What has come is stored first; what has not is left for the next link."""
        if self._wanted is not None:
            return
        self._wanted = _Wanted(end, detail)
        if self._exchange is not None:
            self._state = LinkState.ENDING
            self._exchange.cancel()
        elif self._task is not None:
            self._task.cancel()

    def leave(self, end: End, detail: str) -> None:
        """End at the next fixed point; at once if this is one, or if nobody has been let in yet."""
        # Set before the books are looked at: a fixed point that they do not show yet will see it.
        self._leaves_at_rest = _Wanted(end, detail)
        if self._exchange is None or self._books is None or self._books.phase is Phase.IDLE:
            self.end(end, detail)

    def change_policy(self, known: KnownPeer) -> None:
        """Go on under another policy: a new epoch begins when the present phase allows it."""
        if self._exchange is not None and self._wanted is None:
            self._exchange.change_operand(known.selector)
        self.known = known

    def abort(self) -> None:
        """Let go at once."""
        if self._stream is not None:
            self._stream.abort()

    async def tidy(self) -> None:
        """Do what may be done now and then: whoever has the link calls this at intervals."""
        doing = self._tidy()
        if doing is not None:
            await doing

    def make_room(self) -> None:
        """End soon: another link of the same peer has come."""
        self.end(End.REPLACED, "the peer has opened another link, and this one was silent longest")

    def give_way(self) -> None:
        """End now: the peer has not said who it is, and another stream gets its place."""
        self.end(Refusal.TOO_MANY_INTRODUCING, "others waited, and this stream had not said who it is")

    @property
    def store_failure(self) -> PersistFailed | None:
        return None if self._books is None else self._books.store_failure

    # ---- what is told of it -----------------------------------------------------------------------------------------

    @property
    def heard_ns(self) -> int:
        return self._since_ns if self._stream_link is None else self._stream_link.heard_ns

    def status(self) -> LinkStatus:
        """This moment."""
        now_ns = monotonic_ns()
        books, link = self._books, self._stream_link
        state = self._state
        if state is LinkState.EXCHANGING and books is not None and books.phase is Phase.IDLE:
            state = LinkState.IDLE
        common = LinkStatus(
            id=self.number,
            direction=self.direction,
            state=state,
            address=self.address,
            remote="" if self._route is None else clean_text(self._route.remote),
            peer=None if self.known is None else self.known.name,
            verifier=None if self._introduction is None else self._introduction.peer,
            encrypted=self._introduction is not None and self._introduction.encrypted,
            since=self._since,
            age_seconds=_seconds(now_ns - self._since_ns),
            waits="for the peer to say who it is",
            slowed=self._slowed,
        )
        if books is None or link is None:
            return common
        return _filled(common, books, link, now_ns)

    def count_bytes(self) -> None:
        """Bring the figures of the meter up to what has gone over the stream."""
        if self._stream_link is None:
            return
        for phase, traffic in self._stream_link.traffic.items():
            for direction, total in (("in", traffic.bytes_in), ("out", traffic.bytes_out)):
                fresh = total - self._counted.get((direction, phase), 0)
                if fresh:
                    self._counted[direction, phase] = total
                    self._serving.meter.bytes.labels(direction, phase).inc(fresh)

    # ---- small parts ------------------------------------------------------------------------------------------------

    def _observe(self, event: Event, effects: tuple[Effect, ...]) -> None:
        """In the thread of the steps."""
        del event
        for effect in effects:
            if isinstance(effect, Notify) and isinstance(effect.notice, FixedPoint):
                result = effect.notice.result
                if self._span is not None:
                    moved = {"received": len(result.received), "sent": len(result.sent)}
                    self._span.event("fixed-point", moved)
                if result.received or result.sent:
                    self._serving.log.debug(
                        "fixed-point", link=self.number, received=len(result.received), sent=len(result.sent)
                    )
                self._tell_built()
                if self._leaves_at_rest is not None:
                    self._loop.call_soon_threadsafe(self.end, self._leaves_at_rest.end, self._leaves_at_rest.detail)

    def _tell_built(self) -> None:
        """Say once where the digests of what is offered came from, over a store for which jobs compute them."""
        built = None if self._books is None else self._books.built
        if built is not None and built != self._built:
            self._built = built
            self._serving.log.info("digests", link=self.number, found=built)

    def _note_slowed(self) -> None:
        self._slowed += 1
        self._serving.meter.slowed.inc()

    def _refuse(self, error: PeerError | TransportError) -> Ended:
        if self._wanted is not None:
            return self._ended(self._wanted.end.value, self._wanted.detail)
        if isinstance(error, NotAdmitted):
            return self._ended(error.code, str(error))
        return self._ended(error.code if isinstance(error, PeerError) else Reason.LINK_LOST.value, str(error))

    def _ending(self, result: Result, link: StreamLink) -> Ended:
        if self._wanted is not None and result.reason in (Reason.CANCELLED, Reason.LINK_LOST, None):
            return self._ended(self._wanted.end.value, self._wanted.detail)
        if result.reason is None:
            return self._ended(End.FIXED_POINT.value, "")
        detail = result.detail
        if result.reason is Reason.LINK_LOST and link.failure is not None:
            detail = f"{detail}: {link.failure}"
        return self._ended(result.reason.value, detail, result.limit)

    def _ended(self, reason: str, detail: str, limit: str | None = None) -> Ended:
        return Ended(
            at=tai.render(tai_now()), reason=reason, detail=clean_text(detail, _DETAIL_CHARACTERS_MAX), limit=limit
        )

    def _close_books(self, ended: Ended) -> None:
        self.count_bytes()
        status = self.status()
        self.past = PastLink(
            id=self.number,
            direction=self.direction,
            remote=status.remote,
            peer=status.peer,
            verifier=status.verifier,
            seconds=status.age_seconds,
            rounds=status.rounds,
            records_in=status.records_in,
            records_out=status.records_out,
            bytes_in=status.bytes_in,
            bytes_out=status.bytes_out,
            end=ended,
        )
        serving = self._serving
        serving.meter.links.labels(ended.reason).inc()
        figures: dict[str, Value] = {
            "records_in": status.records_in,
            "records_out": status.records_out,
            "bytes_in": status.bytes_in,
            "bytes_out": status.bytes_out,
            "rounds": status.rounds,
        }
        good = ended.reason in _GOOD_ENDS
        if self._span is not None:
            self._span.end({**figures, "end": ended.reason}, error=None if good else ended.reason)
        tell = serving.log.info if good else serving.log.warning
        tell("link-ended", **self._words(), reason=ended.reason, detail=ended.detail, **figures)

    def _words(self) -> dict[str, Value]:
        assert self.known is not None
        assert self._introduction is not None
        return {
            "link": self.number,
            "peer": self.known.name,
            "verifier": self._introduction.peer or "",
            "direction": self.direction.value,
            "remote": self._introduction.route.remote,
            "encrypted": self._introduction.encrypted,
        }


_GOOD_ENDS: Final = frozenset(
    {End.FIXED_POINT, End.NODE_STOPPED, End.REPLACED, End.PEER_CHANGED, End.PEER_REMOVED, Reason.LINK_LOST}
)
"""What needs nobody's attention. That a peer goes away is daily business."""


def _filled(common: LinkStatus, books: LinkBooks, link: StreamLink, now_ns: int) -> LinkStatus:
    return structs.replace(
        common,
        heard_seconds=_seconds(now_ns - link.heard_ns),
        phase=books.phase.value,
        waits=books.waits,
        plan=books.plan,
        fixed_point=books.fixed_point,
        still_since=books.still_since,
        rounds=books.rounds,
        iterations=books.iterations,
        records_in=books.records_in,
        records_out=books.records_out,
        bytes_in=link.bytes_in,
        bytes_out=link.bytes_out,
        bytes_by_phase={phase: one.bytes_in + one.bytes_out for phase, one in link.traffic.items()},
        offered=books.offered,
        claimed=books.claimed,
        missing=books.missing,
        missing_why=books.missing_why,
    )


def _seconds(ns: int) -> float:
    return round(max(ns, 0) / SECOND_NS, 3)
