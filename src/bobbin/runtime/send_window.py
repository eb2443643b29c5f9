"""How much is on its way at once to whoever takes it, in bytes.

The others wait for their turn, in the order in which they came.

More on its way keeps the other side busy; too much of it only waits there, and what waits there for too long is taken
for lost and sent again. So the room grows by what comes back soon and shrinks by what comes back late. What is soon and
late is measured by how long the quickest of late has taken: a cluster whose nodes are far from each other is slow with
one thing as it is with many, and needs more of them on their way, not fewer. There is always room for ``bytes_min``,
and a failure leaves no more than that.
"""

import asyncio
from collections import deque
from typing import Final

SOON_SECONDS: Final = 0.5
LATE_SECONDS: Final = 1.0
"""Nothing is late before that, and whatever is back within ``SOON_SECONDS`` is back soon."""
_SOON_FACTOR: Final = 2
_LATE_FACTOR: Final = 4
"""Times what the quickest has taken: soon up to the first, late from the second on."""
_RECALLED: Final = 64
"""Of so many the quickest is known, and of those before them the quickest of so many."""


class SendWindow:
    """Used in one event loop. However small the room is, one may always go."""

    def __init__(self, *, bytes_min: int, bytes_max: int) -> None:
        self._bytes_min: Final = bytes_min
        self._bytes_max: Final = bytes_max
        self._room = bytes_min
        self._out = 0
        self._waiting: Final[deque[tuple[int, asyncio.Future[None]]]] = deque()
        self._pace: Final = _Pace()

    async def enter(self, size: int) -> None:
        """Wait for room. Whoever returns from this has to ``leave``."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        # Also where there is room: whoever was let in and has not gone yet goes first.
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._out -= size
            elif (size, turn) in self._waiting:
                self._waiting.remove((size, turn))
            self._let_in()
            raise

    def leave(self, size: int, seconds: float | None = None) -> None:
        """It is back, after so many seconds; None where that says nothing of the way."""
        self._out -= size
        if seconds is not None:
            quickest = self._pace.note(seconds)
            if seconds <= max(SOON_SECONDS, _SOON_FACTOR * quickest):
                self._room = min(self._bytes_max, self._room + size)
            elif seconds > max(LATE_SECONDS, _LATE_FACTOR * quickest):
                self._room = max(self._bytes_min, self._room - size)
        self._let_in()

    def fail(self, size: int) -> None:
        """Nothing came back."""
        self._room = self._bytes_min
        self.leave(size)

    def _has_room(self, size: int) -> bool:
        return not self._out or self._out + size <= self._room

    def _let_in(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._out += size
                turn.set_result(None)


class _Pace:
    """How long the quickest of late has taken."""

    def __init__(self) -> None:
        self._before = self._now = float("inf")
        self._count = 0

    def note(self, seconds: float) -> float:
        if self._count == _RECALLED:
            self._before, self._now, self._count = self._now, float("inf"), 0
        self._count += 1
        self._now = min(self._now, seconds)
        return min(self._before, self._now)
