"""Writing the cursor of an open link now and then, instead of at each of its fixed points.

A cursor only saves work, and may be old; each one that is written costs a commit. On a node with many links, every new
record would cost as many commits as there are links. So the first one is written at once, then at most one in
``PAUSE_SECONDS``, and the last one when the link ends. After a crash the next link starts from one that is somewhat
older, and finds the difference.
"""

from collections.abc import Callable
from time import monotonic_ns
from typing import Final

from bobbin.interlace.effects import Persist, Remember, SaveCursor
from bobbin.interlace.events import Settled
from bobbin.interlace.limits import SECOND_NS
from bobbin.runtime.pair import Performer

PAUSE_SECONDS: Final = 30


class LaterCursors:
    """Performs the writes of one link; cursors may wait. Used in one thread at a time."""

    def __init__(self, performer: Performer, *, clock: Callable[[], int] = monotonic_ns) -> None:
        self._performer: Final = performer
        self._clock: Final = clock
        self._due_ns = clock()
        self._waiting: SaveCursor | None = None

    def persist(self, effect: Persist) -> tuple[Settled, ...]:
        return self._performer.persist(effect)

    def remember(self, effect: Remember) -> None:
        self._performer.remember(effect)

    def save(self, effect: SaveCursor) -> bool:
        """Keep a cursor, and write it if it is time; whether that failed is known only then."""
        self._waiting = effect
        return self.write_due()

    @property
    def is_due(self) -> bool:
        """Whether a cursor waits that may be written."""
        return self._waiting is not None and self._clock() >= self._due_ns

    def write_due(self) -> bool:
        """Write what waits, if it is time; False if that was tried and could not be done."""
        return self.write() if self.is_due else True

    def write(self) -> bool:
        """Write what waits; False if there is something and it could not be written."""
        if self._waiting is None:
            return True
        effect, self._waiting = self._waiting, None
        self._due_ns = self._clock() + PAUSE_SECONDS * SECOND_NS
        return self._performer.save(effect)
