"""One side of an interlace exchange: a pure machine (Lace-050).

``step(event, now=…)`` takes what happened and returns what to do. The machine reads through ``Holdings``, speaks
through ``Send`` and writes through ``Persist`` and ``SaveCursor``; it has no clock, no socket and no thread. Both sides
run the same machine and speak in step: each phase is one block of either side (a transfer may have several parts), and
the next phase begins when both are out.

One iteration of the loop: evaluate the send set, advertise it, bring the peer's advertisements up to date, evaluate
again, request, transfer, validate. When neither side has anything to request, each opens the next iteration with what
that last evaluation says of its send set; if both have nothing new to say, this is the fixed point. So a machine never
declares one while the other still has something to tell.

What must be durable before what is said: records before the block that follows their transfer; records before the
cursor that counts them. An end is final and comes exactly once, after everything received has met its fate.
"""

from itertools import pairwise
from typing import Final, assert_never

from msgspec import structs

from bobbin.datalog.local.budget import LimitExceeded
from bobbin.errors import PeerError, ResourceError, UsageError
from bobbin.interlace.config import Bounded, Config
from bobbin.interlace.effects import (
    Arrived,
    Close,
    Effect,
    Ended,
    FixedPoint,
    Looped,
    Negotiated,
    Notice,
    Notify,
    Persist,
    Remember,
    SaveCursor,
    Send,
    TickIgnored,
    WakeAt,
)
from bobbin.interlace.epoch import Epoch
from bobbin.interlace.events import (
    Cancelled,
    Event,
    Fired,
    Flushed,
    LinkClosed,
    Now,
    OperandChanged,
    Persisted,
    PersistFailed,
    Received,
    Settled,
    Started,
    StoreChanged,
    Undecodable,
    Unsendable,
)
from bobbin.interlace.limits import SECOND_NS
from bobbin.interlace.messages import Advertise, Hello, Message, Request, Setup, Transfer
from bobbin.interlace.negotiation import Negotiation
from bobbin.interlace.ports import Holdings
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.interlace.result import Result
from bobbin.interlace.rounds import Ending, Round
from bobbin.interlace.state import AWAITS, MAY_COME, Awaits, Phase, may_follow
from bobbin.interlace.transfer import TransferPhase
from bobbin.policy.modules import Selector

_ORDER: Final = (Persist, SaveCursor, Remember, Send, Notify, WakeAt, Close)


class InterlaceMachine:
    """One side of one exchange on one link."""

    def __init__(self, config: Config, holdings: Holdings) -> None:
        self.config: Final = config
        self.phase = Phase.READY
        self._holdings = holdings
        self._selector = config.selector
        self._new_selector = False
        self._negotiation = Negotiation(config, self._selector, holdings)
        self._epoch: Epoch | None = None
        self._round = Round()
        self._own_block = Advertise()
        self._block_number = 0
        self._confirming = False
        self._old_block_dropped = False
        self._own_request: tuple[str, ...] = ()
        self._transfer: TransferPhase | None = None
        self._store_changed = False
        self._ending: Ending | None = None
        self._token = 0
        self._phase_began_ns = 0
        self._now = Now(tai_ns=0, monotonic_ns=0)
        self._effects: list[Effect] = []

    @property
    def awaits(self) -> Awaits:
        """What the peer's next bytes are to be read as; ``NOTHING`` while this side has something to finish."""
        if self.phase is Phase.TRANSFER:
            assert self._transfer is not None
            busy = self._transfer.unsettled > self.config.service.unsettled_records_max
            return Awaits.NOTHING if self._transfer.heard_last or busy else Awaits.TRANSFER
        return AWAITS[self.phase]

    @property
    def epoch(self) -> Epoch | None:
        """What was agreed on, and what is offered and claimed under it; None before."""
        return self._epoch

    def step(self, event: Event, *, now: Now) -> tuple[Effect, ...]:
        """Take an event; returns what to do, in order.

        An event of ours that makes no sense in this phase raises ``UsageError`` and changes nothing. Whatever a peer
        does ends in effects.
        """
        self._now = now
        try:
            self._take(event)
        except (Abort, LimitReached) as error:
            limit = error.limit if isinstance(error, LimitReached) else None
            self._end(Ending(reason=error.reason, detail=str(error), limit=limit))
        except PeerError as error:
            self._end(Ending(reason=Reason(error.code), detail=str(error)))
        except LimitExceeded as error:
            self._end(Ending(reason=Reason.EVALUATION, detail=str(error)))
        except ResourceError as error:
            self._end(Ending(reason=Reason.STORE, detail=str(error)))
        if self.config.checking:
            self.check()
        effects, self._effects = self._effects, []
        return tuple(sorted(effects, key=lambda effect: _ORDER.index(type(effect))))

    def check(self) -> None:
        """Assert what always holds (Lace-050, state-machine invariants)."""
        looping = (Phase.ADVERTISE, Phase.REQUEST, Phase.TRANSFER, Phase.IDLE)
        assert self.phase not in looping or self._epoch is not None, "no loop before the plan is agreed"
        if self._epoch is None:
            return
        self._epoch.check()
        self._round.check(self._epoch.terms.limits)
        if self._transfer is not None:
            self._transfer.check()
            assert self._transfer.deferred <= set(self._own_request), "only what was requested is outstanding"

    # ---- events ---------------------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        if isinstance(event, Persisted):
            self._settle(event.settled)
        elif isinstance(event, PersistFailed):
            self._lose_arrivals(event.detail)
        elif isinstance(event, Started):
            if self.phase is not Phase.READY:
                raise UsageError("an exchange starts once")
            self._become_setup()
        elif self.phase not in (Phase.ENDING, Phase.ENDED):
            self._take_while_running(event)

    def _take_while_running(self, event: Event) -> None:
        match event:
            case Received(message):
                self._receive(message)
            case Undecodable(reason, detail):
                raise Abort(reason, detail)
            case Unsendable(reason=reason, detail=detail, limit=limit):
                self._end(Ending(reason=reason, detail=detail, limit=limit))
            case Flushed():
                if self._transfer is not None and not self._transfer.said_last:
                    self._serve()
            case StoreChanged():
                self._store_changed = True
                self._wake()
            case Fired(token):
                if token == self._token:
                    self._fire()
            case OperandChanged(selector):
                self._change_operand(selector)
            case Cancelled():
                self._end(Ending(reason=Reason.CANCELLED, detail="this side ended the exchange"))
            case LinkClosed():
                self._lose_link()
            case Started() | Persisted() | PersistFailed():
                raise AssertionError("taken before")
            case _:
                assert_never(event)

    def _receive(self, message: Message) -> None:
        if self.awaits is Awaits.NOTHING or not isinstance(message, MAY_COME[self.phase]):
            raise Abort(
                Reason.OUT_OF_PHASE, f"{type(message).__name__} came in the phase {self.phase}, where it has no place"
            )
        match message:
            case Setup():
                self._hear_setup(message)
            case Hello():
                self._hear_hello(message)
            case Advertise():
                self._hear_advertise(message)
            case Request():
                self._hear_request(message)
            case Transfer():
                self._hear_transfer(message)
            case _:
                assert_never(message)

    def _fire(self) -> None:
        if self.phase is Phase.IDLE:
            self._wake()
        else:
            timeout = self._phase_timeout_ns // SECOND_NS
            raise Abort(Reason.PHASE_TIMEOUT, f"the phase {self.phase} was not over after {timeout} seconds")

    def _lose_link(self) -> None:
        if self.phase is Phase.IDLE:
            self._finish(self._result())
        else:
            self._end(Ending(reason=Reason.LINK_LOST, detail=f"the link ended in the phase {self.phase}"))

    # ---- setup and hello ------------------------------------------------------------------------------------------

    def _become_setup(self) -> None:
        self._enter(Phase.SETUP)
        self._send(self._negotiation.setup())

    def _become_setup_again(self) -> None:
        self._old_block_dropped = False
        self._negotiate_anew()
        self._enter(Phase.SETUP_AGAIN)

    def _negotiate_anew(self) -> None:
        self._new_selector = False
        self._negotiation = Negotiation(self.config, self._selector, self._holdings)
        self._send(self._negotiation.setup())

    def _hear_setup(self, message: Setup) -> None:
        if self.phase in (Phase.ADVERTISE, Phase.IDLE):
            if isinstance(self.config.lifecycle, Bounded) or self._block_number:
                raise Abort(Reason.OUT_OF_PHASE, "a new operand came where the exchange keeps the old ones")
            self._negotiate_anew()
        self._negotiation.hear_setup(message)
        self._become_hello()

    def _become_hello(self) -> None:
        self._enter(Phase.HELLO)
        self._send(self._negotiation.hello(self._now.tai_ns))

    def _hear_hello(self, message: Hello) -> None:
        agreement = self._negotiation.hear_hello(message)
        if agreement is None:
            self._become_hello()
            return
        self._epoch = Epoch(agreement, self.config, self._holdings)
        self._round = Round()
        terms = agreement.terms
        self._notify(Negotiated(plan=terms.plan, link=terms.link, start_tai=terms.start_tai))
        self._open_iteration()

    def _change_operand(self, selector: Selector) -> None:
        if isinstance(self.config.lifecycle, Bounded):
            raise UsageError("a bounded exchange keeps its operand")
        self._selector = selector
        self._new_selector = True
        if self.phase is Phase.IDLE:
            self._become_setup_again()

    # ---- advertise ------------------------------------------------------------------------------------------------

    def _open_iteration(self) -> None:
        """Begin an iteration: evaluate the send set, and say what is offered."""
        if self._new_selector:
            self._become_setup_again()
            return
        epoch = self._in_epoch()
        self._round.count_iteration(epoch.terms.limits)
        self._evaluate()
        self._open_block(confirming=False)

    def _confirm(self) -> None:
        """Nobody requests anything: say what the evaluation behind that says of the send set."""
        if self._new_selector:
            self._become_setup_again()
        elif self._in_epoch().is_outdated:
            # The shared time has moved since, on both sides alike.
            self._open_iteration()
        else:
            self._open_block(confirming=True)

    def _open_block(self, *, confirming: bool) -> None:
        epoch = self._in_epoch()
        self._confirming = confirming
        self._block_number = 0
        block = epoch.reconciling.opening()
        self._enter(Phase.ADVERTISE)
        self._say_block(block)

    def _say_block(self, block: Advertise) -> None:
        self._own_block = structs.replace(block, tick=self._in_epoch().tick(self._now))
        self._send(self._own_block)

    def _hear_advertise(self, block: Advertise) -> None:
        if self.phase is Phase.SETUP_AGAIN:
            # It was on its way when our new operand went out. The peer will answer the operand.
            if self._old_block_dropped:
                raise Abort(Reason.OUT_OF_PHASE, "the peer goes on although a new operand was announced")
            self._old_block_dropped = True
            return
        if self.phase is Phase.IDLE:
            self._begin_round()
            self._open_iteration()
        epoch = self._in_epoch()
        self._hear_tick(block.tick)
        if self._block_number:
            epoch.reconciling.hear(block)
        elif self._confirming and self._own_block.says_nothing and block.says_nothing:
            self._reach_fixed_point()
            return
        else:
            self._hear_opening(block, epoch)
        if epoch.reconciling.is_over:
            self._become_request()
        else:
            self._block_number += 1
            self._say_block(epoch.reconciling.next_block())

    def _hear_opening(self, block: Advertise, epoch: Epoch) -> None:
        if self._confirming:
            # Somebody has news after all: what was to be the end is another iteration.
            self._round.count_iteration(epoch.terms.limits)
            self._confirming = False
        epoch.claims_are_whole = False
        epoch.reconciling.hear_opening(block)

    # ---- request --------------------------------------------------------------------------------------------------

    def _become_request(self) -> None:
        epoch = self._in_epoch()
        epoch.reconciling.end_phase()
        self._round.note_reconciled(*epoch.reconciling.account())
        epoch.claims_are_whole = True
        self._evaluate()
        self._own_request = epoch.choose(self.config.service.request_records_max)
        self._enter(Phase.REQUEST)
        self._send(Request(records=self._own_request))

    def _hear_request(self, message: Request) -> None:
        asked = message.records
        if any(one >= other for one, other in pairwise(asked)):
            raise Abort(Reason.MALFORMED_BLOCK, "a request list ascends and names no record twice")
        self._hear_tick(message.tick)
        if asked or self._own_request:
            self._transfer = TransferPhase(self._own_request, asked, self._round.account)
            self._enter(Phase.TRANSFER)
            self._serve()
        else:
            self._confirm()

    # ---- transfer -------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Send the next part of what the peer has requested and may have at this moment."""
        epoch = self._in_epoch()
        assert self._transfer is not None
        self._evaluate()
        # Half of the time belongs to the other side, which has to store what it gets.
        late = 2 * (self._now.monotonic_ns - self._phase_began_ns) > self._phase_timeout_ns
        epoch.expect(self._transfer.next_asked(self.config.service))
        part = self._transfer.serve(epoch.load_sendable, epoch.terms.limits, self.config.service, stop=late)
        self._send(part)
        self._end_transfer_if_over()

    def _hear_transfer(self, message: Transfer) -> None:
        epoch = self._in_epoch()
        assert self._transfer is not None
        self._hear_tick(message.tick)
        known = len(self._transfer.unavailable_there)
        try:
            self._transfer.take(message, epoch.terms.limits)
        finally:
            # What stands before a fault in the same part was asked for, and is kept.
            for record in self._transfer.unavailable_there[known:]:
                epoch.wants.pass_over(record, epoch.learned)
            if arrivals := self._transfer.hand_over():
                self._effects.append(Persist(arrivals))
        self._end_transfer_if_over()

    def _settle(self, settled: tuple[Settled, ...]) -> None:
        if self._transfer is None or self.phase is Phase.ENDED:
            raise UsageError("nothing is being stored")
        epoch = self._in_epoch()
        known = len(self._transfer.stored)
        self._transfer.settle(settled)
        stored = tuple(self._transfer.stored[known:])
        epoch.wants.settle(stored)
        for one in settled:
            if one.record in self._transfer.rejected:
                epoch.wants.pass_over(one.record, epoch.learned)
        if stored:
            self._notify(Arrived(stored))
        if self.phase is Phase.TRANSFER:
            self._end_transfer_if_over()
        elif not self._transfer.unsettled:
            self._finish(self._result())

    def _lose_arrivals(self, detail: str) -> None:
        if self._transfer is None or self.phase is Phase.ENDED:
            raise UsageError("nothing is being stored")
        self._transfer.lose()
        self._ending = self._ending or Ending(reason=Reason.STORE, detail=detail)
        self._finish(self._result())

    def _end_transfer_if_over(self) -> None:
        if self._transfer is None or not self._transfer.over:
            return
        epoch, transfer = self._in_epoch(), self._transfer
        self._transfer = None
        self._round.enter(transfer)
        self._notify(
            Looped(
                iteration=self._round.iterations,
                advertised=len(epoch.offers),
                claimed=len(epoch.learned),
                received=len(transfer.stored),
                sent=len(transfer.sent),
                deferred=len(transfer.deferred),
            )
        )
        self._open_iteration()

    # ---- fixed point and end --------------------------------------------------------------------------------------

    def _reach_fixed_point(self) -> None:
        result = self._result()
        self._notify(FixedPoint(result))
        if self._in_epoch().may_close:
            self._finish(result)
            return
        self._enter(Phase.IDLE)
        self._wake()

    def _wake(self) -> None:
        """At a fixed point: see whether the peer should hear of something, or something can be asked for."""
        if self.phase is not Phase.IDLE:
            return
        if self._new_selector:
            self._become_setup_again()
            return
        epoch = self._in_epoch()
        # The shared time may have moved with the very blocks that made the fixed point.
        ticked = epoch.is_ticking and (epoch.is_outdated or epoch.ticks.next_at() <= self._now.tai_ns)
        if self._store_changed or ticked:
            self._evaluate()
            if ticked or epoch.offers.has_news or epoch.choose(1):
                self._begin_round()
                self._open_iteration()
                return
        if epoch.is_ticking:
            until = max(epoch.ticks.next_at() - self._now.tai_ns, 0)
            self._set_timer(self._now.monotonic_ns + until)

    def _begin_round(self) -> None:
        self._round = Round()
        self._in_epoch().begin_round()

    def _end(self, ending: Ending) -> None:
        """End before the fixed point. What is still being stored is waited for."""
        if self.phase in (Phase.ENDING, Phase.ENDED):
            return
        if self.phase is Phase.ADVERTISE and not self._in_epoch().claims_are_whole:
            # What was given up in a phase that does not come to its end may be why it does not.
            _, fallback = self._in_epoch().reconciling.account()
            self._round.note_reconciled(None, fallback)
        self._ending = ending
        if self._transfer is not None and self._transfer.unsettled:
            self._enter(Phase.ENDING)
            self._effects.append(Close())
        else:
            self._finish(self._result())

    def _finish(self, result: Result) -> None:
        if self.phase is not Phase.ENDING:
            self._effects.append(Close())
        self._enter(Phase.ENDED)
        self._notify(Ended(result))
        epoch = self._epoch
        if result.fixed_point and epoch is not None and epoch.key is not None:
            self._effects.append(Remember(key=epoch.key, memory=epoch.memory()))

    def _result(self) -> Result:
        """The books of this round as they stand, and the cursor saved if there is news for it."""
        if self._transfer is not None:
            self._round.enter(self._transfer)
        epoch = self._epoch
        cursor = None if epoch is None else epoch.cursor()
        if cursor is not None:
            self._effects.append(SaveCursor(cursor))
        agreement = None if epoch is None else epoch.agreement
        return self._round.result(agreement, self._ending, cursor_updated=cursor is not None)

    # ---- small parts ----------------------------------------------------------------------------------------------

    def _evaluate(self) -> None:
        self._store_changed = False
        self._in_epoch().evaluate()

    def _hear_tick(self, tick: str | None) -> None:
        why = self._in_epoch().hear_tick(tick)
        if why is not None and tick is not None:
            self._notify(TickIgnored(tick, why))

    def _enter(self, phase: Phase) -> None:
        assert may_follow(self.phase, phase), f"{phase} does not follow {self.phase}"
        self.phase = phase
        self._phase_began_ns = self._now.monotonic_ns
        if phase in (Phase.IDLE, Phase.ENDING, Phase.ENDED):
            # A timer that was set for the phase before is of no concern any more.
            self._token += 1
        else:
            self._set_timer(self._now.monotonic_ns + self._phase_timeout_ns)

    def _set_timer(self, monotonic_ns: int) -> None:
        self._token += 1
        self._effects.append(WakeAt(monotonic_ns=monotonic_ns, token=self._token))

    @property
    def _phase_timeout_ns(self) -> int:
        limits = self.config.limits if self._epoch is None else self._epoch.terms.limits
        return limits.phase_timeout * SECOND_NS

    def _in_epoch(self) -> Epoch:
        assert self._epoch is not None, "a plan is agreed"
        return self._epoch

    def _send(self, message: Message) -> None:
        self._effects.append(Send(message))

    def _notify(self, notice: Notice) -> None:
        self._effects.append(Notify(notice))
