"""The books of one link of a node: what has moved, where it stands, what it waits for.

The books are kept by watching the steps of the link's machine. They are written in the thread that makes the steps and
read in the one that answers operators. Each figure is one value, so a reader sees a sound one, of this step or the one
before.
"""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

from bobbin.interlace.effects import Effect, FixedPoint, Looped, Negotiated, Notify, Send
from bobbin.interlace.events import Event, Fate, Persisted, PersistFailed, Received
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Delivered, Request, Transfer, Unavailable
from bobbin.interlace.state import Awaits, Phase
from bobbin.records import tai
from bobbin.runtime.clock import tai_now
from bobbin.runtime.metrics import Meter

_NOT_AVAILABLE: Final = "not-available"
FAILED_MAX: Final = 4_096
"""Records of one link that did not come and are remembered one by one."""

_WAITS: Final = {
    Awaits.SETUP: "for the peer's policy",
    Awaits.HELLO: "for the peer's hello",
    Awaits.ADVERTISE: "for the peer's advertisements",
    Awaits.REQUEST: "for the peer's request list",
    Awaits.TRANSFER: "for records of the peer",
    Awaits.NOTHING: "for this side's own work",
}


class LinkBooks:
    """Watches one machine."""

    def __init__(
        self, machine: InterlaceMachine, meter: Meter, absent: Callable[[Collection[str]], frozenset[str]]
    ) -> None:
        """``absent``: of some records, those that are neither stored nor refused here."""
        self._machine: Final = machine
        self._meter: Final = meter
        self._absent: Final = absent
        self._outstanding: set[str] = set()
        """Asked for, and neither here nor answered otherwise."""
        self._failed: dict[str, str] = {}
        """Asked for and not taken, with the reason code."""
        self._is_changed = False
        self.phase = machine.phase
        self.waits = _WAITS[Awaits.NOTHING]
        """In words: what has to happen before the exchange goes on."""
        self.records_in = 0
        self.records_out = 0
        self.rounds = 0
        self.iterations = 0
        self.fixed_point: str | None = None
        self.still_since: str | None = None
        """The first fixed point since which nothing has moved."""
        self._moved = -1
        """Records that had moved by the last fixed point."""
        self.plan: str | None = None
        self.offered = 0
        self.claimed = 0
        self.built: str | None = None
        """Where digests of what is offered were found, or why they were computed, where that was a question."""
        self.missing = 0
        self.missing_why: dict[str, int] = {}
        self.store_failure: PersistFailed | None = None
        """What the store said when it could not take what came."""

    def observe(self, event: Event, effects: tuple[Effect, ...]) -> None:
        """One step of the machine has been made."""
        match event:
            case Received(Transfer(responses=responses)):
                for response in responses:
                    if isinstance(response, Unavailable):
                        self._fail(response.record, _NOT_AVAILABLE)
            case Persisted(settled):
                for one in settled:
                    if one.fate is Fate.REJECTED or one.fate is Fate.REFUSED:
                        reason = one.reason or one.fate.value
                        self._meter.rejected.labels(reason).inc()
                        self._fail(one.record, reason)
                    else:
                        self._outstanding.discard(one.record)
                stored = sum(one.fate is Fate.STORED for one in settled)
                self.records_in += stored
                self._meter.records.labels("in").inc(stored)
            case PersistFailed():
                self.store_failure = event
            case _:
                pass
        for effect in effects:
            self._see(effect)
        self._count()

    def _see(self, effect: Effect) -> None:
        match effect:
            case Send(Request(records=records)):
                self._outstanding.update(records)
                self._forget(self._failed.keys() & records)
            case Send(Transfer(responses=responses)):
                sent = sum(isinstance(one, Delivered) for one in responses)
                self.records_out += sent
                self._meter.records.labels("out").inc(sent)
            case Notify(Negotiated(plan=plan)):
                self.plan = plan
                self._forget(list(self._failed))
            case Notify(Looped(iteration=iteration)):
                self.iterations = iteration
            case Notify(FixedPoint(result)):
                self.rounds += 1
                self.iterations = result.iterations
                self.fixed_point = tai.render(tai_now())
                if (moved := self.records_in + self.records_out) != self._moved:
                    self._moved, self.still_since = moved, self.fixed_point
                self._outstanding.clear()
                if self._failed:
                    self._forget(self._failed.keys() - self._absent(self._failed.keys()))
                self._meter.fixed_points.inc()
            case _:
                pass

    def _fail(self, record: str, reason: str) -> None:
        self._outstanding.discard(record)
        if len(self._failed) < FAILED_MAX:
            self._failed[record] = reason
            self._is_changed = True

    def _forget(self, records: Collection[str]) -> None:
        """These came after all, are asked for again, or are of no concern any more."""
        for record in records:
            self._failed.pop(record, None)
            self._is_changed = True

    def _count(self) -> None:
        # A machine can be asked only where its steps are made, so what others want to know is written down here.
        machine = self._machine
        self.waits = "at a fixed point, for anything new" if machine.phase is Phase.IDLE else _WAITS[machine.awaits]
        self.phase = machine.phase
        epoch = self._machine.epoch
        if epoch is not None:
            self.offered, self.claimed, self.built = len(epoch.offers), len(epoch.learned), epoch.built
        self.missing = len(self._outstanding) + len(self._failed)
        if self._is_changed:
            self._is_changed = False
            self.missing_why = dict(Counter(self._failed.values()))
