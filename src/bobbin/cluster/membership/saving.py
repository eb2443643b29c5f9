"""When a node's own incarnation goes to the disk.

Whoever says that this node is suspected makes it raise its incarnation, and that is a durable write on the disk that
the log waits for. So one is under way at a time, and after one that others have caused, the next of that kind waits for
an interval of gossip. What was raised in the meantime is written once, as the highest.
"""

from typing import Final


class Saving:
    """Whether an incarnation waits for the disk, and when its turn is."""

    def __init__(self, interval_ns: int) -> None:
        self._interval_ns: Final = interval_ns
        self._is_wanted = False
        self._is_writing = False
        self._next_ns = -1

    @property
    def due_ns(self) -> int | None:
        """When one that waits may be written; None while none does, or the one before is under way."""
        return self._next_ns if self._is_wanted and not self._is_writing else None

    def want(self) -> None:
        """Others have caused a raise."""
        self._is_wanted = True

    def take(self, now_ns: int) -> bool:
        """Whether to write what others have caused, now."""
        due_ns = self.due_ns
        if due_ns is None or now_ns < due_ns:
            return False
        self._next_ns = now_ns + self._interval_ns
        return True

    def began(self) -> None:
        """The highest incarnation is on its way to the disk, whoever has caused it."""
        self._is_wanted = False
        self._is_writing = True

    def ended(self) -> None:
        """It is durable, or has failed."""
        self._is_writing = False
