"""Arrivals that are checked elsewhere while an exchange goes on, and stored here in the order in which they came.

Checking signatures is most of the work of receiving. Where somebody else can do it (worker processes), the driver reads
on meanwhile, as far as the machine lets it, and stores what has been checked when that is ready.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from bobbin.errors import ResourceError
from bobbin.interlace.effects import Persist
from bobbin.interlace.events import Persisted, PersistFailed, Settled
from bobbin.runtime.pair import failure


class Ahead(Protocol):
    """Has what has arrived checked while the exchange goes on."""

    def begin_persist(self, effect: Persist, ready: Callable[[], None]) -> Callable[[], tuple[Settled, ...]] | None:
        """Begin; returns what stores it, to be called after ``ready`` was, from whichever thread. None to do it now."""
        ...

    def help(self) -> bool:
        """Check a little of it here, for want of something else to do; false if there is nothing to check."""
        ...


class _Part:
    """One effect."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.finish: Callable[[], tuple[Settled, ...]] | None = None
        self.is_ready = False


class Storing:
    """What is being checked."""

    def __init__(self, ahead: Ahead | None, tell: Callable[[], None]) -> None:
        """``tell`` is called whenever something has become ready, from any thread."""
        self.size = 0
        """How many bytes have arrived that are being checked."""
        self._ahead = ahead
        self._tell = tell
        self._parts: deque[_Part] = deque()

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def is_ready(self) -> bool:
        """Whether the oldest can be stored now."""
        return bool(self._parts) and self._parts[0].is_ready

    def begin(self, effect: Persist) -> bool:
        """Have arrivals checked; false if nobody does it, so that they are to be stored at once."""
        if self._ahead is None:
            return False
        part = _Part(sum(len(arrival.raw) for arrival in effect.arrivals))

        def ready() -> None:
            part.is_ready = True
            self._tell()

        part.finish = self._ahead.begin_persist(effect, ready)
        if part.finish is None:
            return False
        self._parts.append(part)
        self.size += part.size
        return True

    def help(self) -> bool:
        """Check a little of what is being checked elsewhere; false if nothing waits."""
        return self._ahead is not None and bool(self._parts) and self._ahead.help()

    def finish(self) -> Persisted | PersistFailed:
        """Store the oldest, which is ready."""
        part = self._parts.popleft()
        self.size -= part.size
        # What stores a part knows, in a roundabout way, the part. Bytes are not to wait until such circles are found.
        finish, part.finish = part.finish, None
        assert finish is not None, "what is in the queue was begun"
        try:
            return Persisted(finish())
        except ResourceError as error:
            self.give_up()
            return failure(error)

    def give_up(self) -> None:
        """Finish nothing more: the machine has counted everything as lost that was on its way."""
        self._parts.clear()
        self.size = 0
