"""Shared time of an open exchange: both sides move on at aligned ticks, when both have reached them (Lace-050).

Ticks lie at the agreed start and every interval after it. Each side says which tick its own clock has reached; the time
that rules see is the smaller of the two, so it is the same on both sides and neither can push it ahead of the other's
clock. It never goes back: a clock that is set back, or a peer that says less than before, changes nothing.
"""

from typing import Final

from bobbin.errors import UsageError
from bobbin.records import tai


class Ticks:
    """The ticks of one negotiation."""

    def __init__(self, start_tai: str, interval_ns: int) -> None:
        if interval_ns < 1:
            raise UsageError(f"a tick interval has at least one nanosecond, not {interval_ns}")
        self._start_ns: Final = tai.parse(start_tai)
        self._interval_ns: Final = interval_ns
        self._local_ns = self._start_ns
        self._peer_ns = self._start_ns

    @property
    def tick(self) -> str:
        """``TickTAI``: what both sides have reached."""
        return tai.render(min(self._local_ns, self._peer_ns))

    @property
    def local_ready(self) -> str:
        """The latest tick that this side's clock has reached."""
        return tai.render(self._local_ns)

    @property
    def peer_ready(self) -> str:
        """The latest tick that the peer says it has reached. It proves nothing about the time."""
        return tai.render(self._peer_ns)

    @property
    def passed(self) -> int:
        """How many ticks the shared time has gone on since the start."""
        return (min(self._local_ns, self._peer_ns) - self._start_ns) // self._interval_ns

    def reach(self, now_tai_ns: int) -> bool:
        """This side's clock says ``now_tai_ns``. True if it has reached a further tick."""
        # After the last instant that has a text there are no more ticks.
        elapsed = min(now_tai_ns, tai.TAI_MAX) - self._start_ns
        reached = self._start_ns + elapsed // self._interval_ns * self._interval_ns
        if reached <= self._local_ns:
            return False
        self._local_ns = reached
        return True

    def accept(self, tick: str) -> str | None:
        """Take the peer's readiness. None if it is valid; otherwise why it was ignored."""
        try:
            ready = tai.parse(tick)
        except tai.TaiError as error:
            return str(error)
        if ready < self._start_ns:
            return f"the tick {tick} lies before the start {tai.render(self._start_ns)}"
        if (ready - self._start_ns) % self._interval_ns:
            return f"the tick {tick} is not a whole number of intervals of {self._interval_ns} ns after the start"
        if ready < self._peer_ns:
            return f"the tick {tick} goes back behind {self.peer_ready}"
        self._peer_ns = ready
        return None

    def next_at(self) -> int:
        """When this side's clock reaches its next tick, in TAI nanoseconds."""
        return self._local_ns + self._interval_ns

    def check(self) -> None:
        """Assert what always holds."""
        for ready in (self._local_ns, self._peer_ns):
            assert self._start_ns <= ready <= tai.TAI_MAX
            assert (ready - self._start_ns) % self._interval_ns == 0
        assert self.tick == min(self.local_ready, self.peer_ready)
