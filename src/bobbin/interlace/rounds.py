"""What one round has moved: from the negotiation, or a wake-up, to the next fixed point."""

from msgspec import Struct

from bobbin.interlace.limits import Limits
from bobbin.interlace.negotiation import Agreement
from bobbin.interlace.reasons import LimitReached, Reason
from bobbin.interlace.result import Result
from bobbin.interlace.transfer import Account, TransferPhase


class Ending(Struct, frozen=True, kw_only=True):
    """Why an exchange ends before its fixed point."""

    reason: Reason
    detail: str
    limit: str | None = None


class Round:
    """The books of one round. A record has one fate in them: it was received, if it ever was, else the last one."""

    def __init__(self) -> None:
        self.iterations = 0
        self.account = Account()
        self._received: set[str] = set()
        self._rejected: dict[str, str] = {}
        self._not_available: set[str] = set()
        self._sent: set[str] = set()
        self._deferred: frozenset[str] = frozenset()
        self._strategies: list[str] = []
        self._fallbacks: list[str] = []

    def count_iteration(self, limits: Limits) -> None:
        """Another iteration begins."""
        if self.iterations >= limits.max_loop_iterations:
            raise LimitReached(
                Reason.LOOP_LIMIT,
                "max_loop_iterations",
                f"after {limits.max_loop_iterations} iterations there is still something to do",
            )
        self.iterations += 1

    def note_reconciled(self, strategy: str | None, fallback: str | None) -> None:
        """An advertise phase is over, and this is how it went."""
        if strategy is not None:
            self._strategies.append(strategy)
        if fallback is not None:
            self._fallbacks.append(fallback)

    def enter(self, transfer: TransferPhase) -> None:
        """Enter what a transfer phase has brought, whole or broken off."""
        for record in transfer.stored:
            self._forget(record)
            self._received.add(record)
        for record, reason in transfer.rejected.items():
            if record not in self._received:
                self._forget(record)
                self._rejected[record] = reason
        for record in transfer.unavailable_there:
            if record not in self._received:
                self._forget(record)
                self._not_available.add(record)
        self._sent.update(transfer.sent)
        self._deferred = transfer.deferred

    def result(self, agreement: Agreement | None, ending: Ending | None, *, cursor_updated: bool) -> Result:
        """The books as they are reported. Without ``ending`` this is a fixed point."""
        return Result(
            link=agreement.terms.link if agreement else None,
            plan=agreement.plan.identifier if agreement else None,
            peer=agreement.terms.peer if agreement else None,
            received=frozenset(self._received),
            rejected=dict(self._rejected),
            not_available=frozenset(self._not_available),
            deferred=self._deferred if ending else frozenset(),
            sent=frozenset(self._sent),
            bytes_received=self.account.received,
            bytes_sent=self.account.sent,
            iterations=self.iterations,
            strategies=tuple(self._strategies),
            fallbacks=tuple(self._fallbacks),
            cursor_updated=cursor_updated,
            fixed_point=ending is None,
            reason=ending.reason if ending else None,
            detail=ending.detail if ending else "",
            limit=ending.limit if ending else None,
        )

    def check(self, limits: Limits) -> None:
        """Assert what always holds."""
        fates = [self._received, set(self._rejected), self._not_available]
        assert len(set().union(*fates)) == sum(map(len, fates)), "a record has one fate"
        assert self.account.total <= limits.max_total_transferred_bytes, "the transfer limit holds"
        assert self.iterations <= limits.max_loop_iterations, "the loop limit holds"

    def _forget(self, record: str) -> None:
        self._rejected.pop(record, None)
        self._not_available.discard(record)
