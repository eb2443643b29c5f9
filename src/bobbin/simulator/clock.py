"""World time, and the clocks by which the nodes of a world live.

A ``Timeline`` is a queue of what will happen. Time passes only from one entry to the next, so an hour of a world costs
no more than what happens in it, and two entries for one instant keep the order in which they were made: a world is a
function of its seed. A ``NodeClock`` is one node's opinion of the time: a forward clock that runs a little too fast or
too slow, and a wall clock that is off by a constant and can be set.
"""

import heapq
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

MILLION: Final = 1_000_000
SECOND_NS: Final = 1_000_000_000
EPOCH_TAI_NS: Final = 1_700_000_000 * SECOND_NS
"""What a wall clock without skew shows when a world begins."""

Action: TypeAlias = Callable[[], None]


class Timeline:
    """Everything that is going to happen in a world, in order."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._queue: list[tuple[int, int, Action]] = []
        self._made = 0

    def __len__(self) -> int:
        return len(self._queue)

    def after(self, delay_ns: int, action: Action) -> None:
        """Let something happen so much later; at once means after everything else that is due now."""
        self._made += 1
        heapq.heappush(self._queue, (self.now_ns + max(delay_ns, 0), self._made, action))

    def step(self, until_ns: int | None = None) -> bool:
        """Let the next thing happen, if there is one and its time is not after ``until_ns``."""
        if not self._queue or (until_ns is not None and self._queue[0][0] > until_ns):
            return False
        self.now_ns, _, action = heapq.heappop(self._queue)
        action()
        return True

    def forget(self) -> None:
        """Nothing that was planned will happen."""
        self._queue.clear()


class Reading(NamedTuple):
    """What a node's clocks show."""

    tai_ns: int
    monotonic_ns: int


class NodeClock:
    """The clocks of one node."""

    def __init__(self, timeline: Timeline, *, skew_ns: int = 0, drift_ppm: int = 0, started_ns: int = 0) -> None:
        """``drift_ppm``: by how many millionths the node's seconds are too short. ``started_ns``: already run."""
        self._timeline: Final = timeline
        self._skew_ns = skew_ns
        self._rate: Final = MILLION + drift_ppm
        self._started_ns: Final = started_ns

    def read(self) -> Reading:
        elapsed = self._timeline.now_ns * self._rate // MILLION
        # A wall clock that would show a time before its epoch stands there.
        return Reading(max(EPOCH_TAI_NS + self._skew_ns + elapsed, 0), self._started_ns + elapsed)

    def jump(self, by_ns: int) -> None:
        """Set the wall clock. The forward clock does not notice."""
        self._skew_ns += by_ns

    def set_right(self) -> None:
        """Let the wall clock show what it should."""
        self._skew_ns = 0

    def delay_until(self, monotonic_ns: int) -> int:
        """How much world time passes until the forward clock shows so much."""
        left = monotonic_ns - self.read().monotonic_ns
        return max(0, -(-left * MILLION // self._rate) + 1) if left > 0 else 0
