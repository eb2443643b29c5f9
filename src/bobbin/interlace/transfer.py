"""One transfer phase: both request lists are answered, at the same time (Lace-050).

Serving: each requested record is looked at again at the moment of sending; one that may no longer be sent, or was
never announced, is not available. What exceeds the service budget is left out and so deferred. Receiving: every answer
must match an outstanding hash; bytes go to be validated and stored, and only their fate says what they were.

The phase is over when both sides have said their last part and everything received is settled.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import TypeAlias

from bobbin.interlace.events import Fate, Settled
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Delivered, Response, Transfer, Unavailable
from bobbin.interlace.reasons import Abort, LimitReached, Reason

LoadSendable: TypeAlias = Callable[[str], bytes | None]
"""The bytes of a record if it may be sent at this moment, else None."""


class Account:
    """Record bytes of one round, both directions, against the limit."""

    def __init__(self) -> None:
        self.received = 0
        self.sent = 0

    @property
    def total(self) -> int:
        return self.received + self.sent

    def has_room(self, size: int, limits: Limits) -> bool:
        return self.total + size <= limits.max_total_transferred_bytes


class TransferPhase:
    """The transfer phase of one iteration, on one side."""

    def __init__(self, wanted: tuple[str, ...], asked: tuple[str, ...], account: Account) -> None:
        """``wanted``: our request list. ``asked``: the peer's."""
        self._outstanding: set[str] = set(wanted)
        self._unsettled: set[str] = set()
        self._arrivals: list[Delivered] = []
        """Of those, what is not handed over yet."""
        self._asked = deque(asked)
        self._account = account
        self._served_records = 0
        self._served_bytes = 0
        self.sent: list[str] = []
        self.unavailable_there: list[str] = []
        """What the peer could not send."""
        self.stored: list[str] = []
        self.rejected: dict[str, str] = {}
        self.refused: list[str] = []
        self.said_last = False
        self.heard_last = False

    @property
    def deferred(self) -> frozenset[str]:
        """Requested, and neither delivered nor refused so far."""
        return frozenset(self._outstanding)

    @property
    def unsettled(self) -> int:
        """Received, and not yet known to be stored or rejected."""
        return len(self._unsettled)

    @property
    def over(self) -> bool:
        return self.said_last and self.heard_last and not self._unsettled

    def next_asked(self, service: Service) -> list[str]:
        """What the next part of our answer is about, unless it comes to some limit before."""
        return list(islice(self._asked, service.chunk_records_max))

    def serve(self, load: LoadSendable, limits: Limits, service: Service, *, stop: bool) -> Transfer:
        """The next part of our answer. With ``stop`` it is the last one, whatever is left."""
        responses: list[Response] = []
        size = 0
        assert not self.said_last, "nothing follows the last part"
        while self._asked and not stop:
            if len(responses) >= service.chunk_records_max or size >= service.chunk_bytes_max:
                return Transfer(responses=tuple(responses))
            if self._served_records >= service.serve_records_max or self._served_bytes >= service.serve_bytes_max:
                break
            record = self._asked[0]
            raw = load(record)
            if raw is not None and not self._account.has_room(len(raw), limits):
                if responses:
                    return Transfer(responses=tuple(responses))
                raise _too_much(limits)
            self._asked.popleft()
            self._served_records += 1
            if raw is None:
                responses.append(Unavailable(record=record))
                continue
            responses.append(Delivered(record=record, raw=raw))
            size += len(raw)
            self._served_bytes += len(raw)
            self._account.sent += len(raw)
            self.sent.append(record)
        self.said_last = True
        return Transfer(responses=tuple(responses), last=True)

    def take(self, message: Transfer, limits: Limits) -> None:
        """The peer's next part. Where it is at fault, what stands before the fault is taken all the same."""
        if self.heard_last:
            raise Abort(Reason.OUT_OF_PHASE, "the peer goes on after the last part of its transfer")
        for response in message.responses:
            if response.record not in self._outstanding:
                reason = Reason.UNREQUESTED_RECORD if isinstance(response, Delivered) else Reason.OUT_OF_PHASE
                raise Abort(reason, f"{response.record[:80]} is not an outstanding request")
            if isinstance(response, Unavailable):
                self._outstanding.remove(response.record)
                self.unavailable_there.append(response.record)
                continue
            if not self._account.has_room(len(response.raw), limits):
                raise _too_much(limits)
            self._outstanding.remove(response.record)
            self._unsettled.add(response.record)
            self._account.received += len(response.raw)
            self._arrivals.append(response)
        self.heard_last = message.last

    def hand_over(self) -> tuple[Delivered, ...]:
        """What has come since the last time, to be validated and stored."""
        arrivals, self._arrivals = tuple(self._arrivals), []
        return arrivals

    def settle(self, settled: tuple[Settled, ...]) -> None:
        """What became of bytes that were handed over for storing."""
        for one in settled:
            assert one.record in self._unsettled, "only what was received is settled, and once"
            self._unsettled.remove(one.record)
            match one.fate:
                case Fate.STORED:
                    self.stored.append(one.record)
                case Fate.REJECTED:
                    self.rejected[one.record] = one.reason
                case Fate.REFUSED:
                    self.refused.append(one.record)
                case Fate.DUPLICATE:
                    pass

    def lose(self) -> None:
        """What was received and not settled cannot be stored: it counts as not delivered."""
        self._outstanding |= self._unsettled
        self._unsettled.clear()

    def check(self) -> None:
        """Every requested record is in one place."""
        places = [self._outstanding, self._unsettled, set(self.stored), set(self.rejected), set(self.refused)]
        places.append(set(self.unavailable_there))
        assert len(set().union(*places)) == sum(map(len, places)), "a requested record is in one place"
        assert not (self.said_last and self.heard_last and self._asked and not self._served_records), "serving began"


def _too_much(limits: Limits) -> LimitReached:
    return LimitReached(
        Reason.TRANSFER_LIMIT,
        "max_total_transferred_bytes",
        f"one round moves at most {limits.max_total_transferred_bytes} record bytes",
    )
