"""What has been said already: nothing that a node said is taken twice.

For each sender the newest life it has shown (its boot id) and a window over the sequence numbers of that life: inside
it messages may come in any order, each once; what lies below it is refused, for nobody remembers whether it came. An
earlier life is refused as soon as a later one has spoken.

Memory is bounded by the number of senders, who are all registered. A sender whose newest message is too old to be taken
again is moved aside: its window is dropped, and the highest sequence of its life kept, below which nothing is taken any
more. So a clock that is set back makes nothing fresh that was taken before.

The time of a message is judged by the clock of its sender, as far as that is known: what ``sets_clock`` says how far
that clock is ahead of this one. Clocks that differ by whatever amount then keep nobody apart, and a message that was
held back is told from a fresh one all the same.
"""

from typing import Final

from bobbin.cluster.names import NodeId
from bobbin.errors import UsageError
from bobbin.wire.cluster.faults import MessageRefused, Refusal

MAX_AGE_MS: Final = 300_000
FUTURE_MS_MAX: Final = 60_000
"""How far a sender's clock may be ahead."""
WINDOW: Final = 1_024
SENDERS_MAX: Final = 10_000
SWEEP_CALLS: Final = 100

_MASK: Final = (1 << WINDOW) - 1


class _Heard:
    """One life of one sender."""

    __slots__ = ("boot_id", "latest_ms", "seen", "top")

    def __init__(self, boot_id: int, *, top: int, seen: int, latest_ms: int) -> None:
        self.boot_id = boot_id
        self.top = top
        """The highest sequence that was taken."""
        self.seen = seen
        """Bit n is set when the sequence ``top - n`` was taken."""
        self.latest_ms = latest_ms
        """The latest time of what was taken, in any life of this sender."""


class SequenceTracker:
    """Remembers what was taken. It is asked about proven senders only, so that strangers leave no trace."""

    def __init__(
        self, *, max_age_ms: int = MAX_AGE_MS, future_ms_max: int = FUTURE_MS_MAX, senders_max: int = SENDERS_MAX
    ) -> None:
        if max_age_ms <= 0 or future_ms_max < 0 or senders_max <= 0:
            raise UsageError("max_age_ms and senders_max must be above 0, and future_ms_max not below")
        self.max_age_ms: Final = max_age_ms
        self.future_ms_max: Final = future_ms_max
        self.senders_max: Final = senders_max
        self._heard: Final[dict[NodeId, _Heard]] = {}
        self._aside: Final[dict[NodeId, tuple[int, int, int]]] = {}
        """Boot id, highest sequence and latest time of senders that have been silent; the oldest first."""
        self._ahead_ms: Final[dict[NodeId, int]] = {}
        """By how much the clock of a sender was ahead of this one when that was last seen; below 0 for behind."""
        self._calls = 0

    def __len__(self) -> int:
        """Senders with a window."""
        return len(self._heard)

    @property
    def aside(self) -> int:
        """Senders that have been silent."""
        return len(self._aside)

    def check_and_record(
        self,
        sender: NodeId,
        *,
        boot_id: int,
        sequence: int,
        time_ms: int,
        now_ms: int,
        max_age_ms: int | None = None,
        sets_clock: bool = False,
    ) -> None:
        """Take a message of a proven sender, once. Raises ``MessageRefused``, and then nothing has changed.

        ``sets_clock`` is for what is known to have been said just now: its time is not judged, and shows the sender's
        clock, by which the messages after it are judged.
        """
        self._calls += 1
        if not self._calls % SWEEP_CALLS:
            self.sweep(now_ms)
        ahead_ms = time_ms - now_ms if sets_clock else self._ahead_ms.get(sender, 0)
        self._record(sender, boot_id, sequence, time_ms - ahead_ms, now_ms, max_age_ms)
        if sets_clock:
            self._ahead_ms[sender] = ahead_ms

    def _record(
        self, sender: NodeId, boot_id: int, sequence: int, time_ms: int, now_ms: int, max_age_ms: int | None
    ) -> None:
        self._check_time(time_ms, now_ms, self.max_age_ms if max_age_ms is None else min(max_age_ms, self.max_age_ms))
        heard = self._heard.get(sender)
        if heard is None:
            self._begin(sender, boot_id, sequence, time_ms, now_ms)
            return
        if boot_id != heard.boot_id:
            self._check_boot(boot_id, heard.boot_id)
            heard.boot_id, heard.top, heard.seen = boot_id, sequence, 1
        elif sequence > heard.top:
            ahead = sequence - heard.top
            heard.seen = (heard.seen << ahead | 1) & _MASK if ahead < WINDOW else 1
            heard.top = sequence
        else:
            behind = heard.top - sequence
            if behind >= WINDOW:
                raise _below(sequence, heard.top)
            bit = 1 << behind
            if heard.seen & bit:
                raise _replayed(sequence)
            heard.seen |= bit
        heard.latest_ms = max(heard.latest_ms, time_ms)

    def forget(self, sender: NodeId) -> None:
        """A sender is no longer registered: put it aside. Should it come back, what it said before is not new."""
        self._ahead_ms.pop(sender, None)
        if sender in self._heard:
            self._put_aside(sender)

    def sweep(self, now_ms: int) -> None:
        """Put those aside of whom everything that was taken is too old to be taken again."""
        limit = now_ms - self.max_age_ms
        for sender in [sender for sender, heard in self._heard.items() if heard.latest_ms < limit]:
            self._put_aside(sender)

    def _put_aside(self, sender: NodeId) -> None:
        heard = self._heard.pop(sender)
        self._aside[sender] = heard.boot_id, heard.top, heard.latest_ms
        while len(self._aside) > self.senders_max:
            del self._aside[next(iter(self._aside))]

    def _begin(self, sender: NodeId, boot_id: int, sequence: int, time_ms: int, now_ms: int) -> None:
        """The first message of a sender, or the first after a long silence."""
        boot, top, latest = self._aside.get(sender, (0, -1, 0))
        if boot:
            self._check_boot(boot_id, boot)
            if boot_id == boot and sequence <= top:
                raise _below(sequence, top)
        if len(self._heard) >= self.senders_max:
            self.sweep(now_ms)
            if len(self._heard) >= self.senders_max:
                raise MessageRefused(
                    Refusal.TOO_MANY_SENDERS, f"{self.senders_max} senders are being heard", field="sender"
                )
        ahead = sequence - top
        # What the dropped window stood for is taken no more: everything up to the highest sequence of that life.
        before = _MASK << ahead & _MASK if boot_id == boot and ahead < WINDOW else 0
        self._aside.pop(sender, None)
        self._heard[sender] = _Heard(boot_id, top=sequence, seen=before | 1, latest_ms=max(latest, time_ms))

    def _check_time(self, time_ms: int, now_ms: int, max_age_ms: int) -> None:
        if time_ms > now_ms + self.future_ms_max:
            raise MessageRefused(Refusal.FUTURE, f"{time_ms - now_ms} ms ahead of this node's clock", field="time")
        if now_ms > time_ms + max_age_ms:
            raise MessageRefused(Refusal.STALE, f"{now_ms - time_ms} ms old; {max_age_ms} is the limit", field="time")

    @staticmethod
    def _check_boot(boot_id: int, newest: int) -> None:
        if boot_id < newest:
            raise MessageRefused(Refusal.OLD_BOOT, "of an earlier life of the sender", field="boot_id")


def _replayed(sequence: int) -> MessageRefused:
    return MessageRefused(Refusal.REPLAYED, f"{sequence} has come before", field="sequence")


def _below(sequence: int, top: int) -> MessageRefused:
    return MessageRefused(Refusal.BELOW_WINDOW, f"{sequence} lies too far below {top}", field="sequence")
