"""How much is on its way at once to whoever takes it, in bytes.

The others wait for their turn, in the order in which they came.
More on its way keeps the other side busy; too much of it only waits there, and what waits there for too long is taken
for lost and sent again. So the room grows by what comes back soon and shrinks by what comes back late, and begins anew
after a failure. At first there is room for one: what goes ahead alone finds the way for all that follow.
"""

import asyncio
from collections import deque
from typing import Final

SOON_SECONDS: Final = 0.5
"""What is back by then makes room for as much again."""
LATE_SECONDS: Final = 1.0
"""What is back after that takes away as much room."""


class SendWindow:
    """Used in one event loop. However small the room is, one may always go."""

    def __init__(self, *, bytes_max: int) -> None:
        self._bytes_max: Final = bytes_max
        self._room = 0
        self._out = 0
        self._waiting: Final[deque[tuple[int, asyncio.Future[None]]]] = deque()

    async def enter(self, size: int) -> None:
        """Wait for room. Whoever returns from this has to ``leave``."""
        if not self._waiting and self._has_room(size):
            self._out += size
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
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
        """It is back, after so many seconds; None if nothing came of it."""
        self._out -= size
        if seconds is None:
            self._room = 0
        elif seconds <= SOON_SECONDS:
            self._room = min(self._bytes_max, max(self._room, size) + size)
        elif seconds > LATE_SECONDS:
            self._room = max(0, self._room - size)
        self._let_in()

    def _has_room(self, size: int) -> bool:
        return not self._out or self._out + size <= self._room

    def _let_in(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._out += size
                turn.set_result(None)
