"""A node that had failed says that it is back: whether it may be counted on again.

It is counted on when it has answered so many probes in a row, each within its time, and each proving both directions. A
probe without an answer in time sets the count back to nothing. What others are told does not wait for this: the member
table has the node's own word at once.
"""

from msgspec import Struct


class HealProgress(Struct, kw_only=True):
    """How far one node has come back."""

    away_since_ns: int
    """Since it was first held as failed."""
    successes: int = 0
    probe_id: int | None = None
    """Of the probe that is not answered yet."""
    due_ns: int = 0
    """For its answer."""

    def ask(self, probe_id: int, due_ns: int) -> None:
        """A probe goes out."""
        self.probe_id, self.due_ns = probe_id, due_ns

    def answer(self, probe_id: int, now_ns: int) -> bool:
        """An answer came. False: to no probe that is open, or too late."""
        if probe_id != self.probe_id or now_ns > self.due_ns:
            return False
        self.probe_id = None
        self.successes += 1
        return True

    def succeed(self) -> None:
        """The node was heard; where both directions need no proof, that is enough."""
        self.successes += 1

    def expire(self, now_ns: int) -> None:
        """An answer that has not come by its time is a failure."""
        if self.probe_id is not None and now_ns > self.due_ns:
            self.fail()

    def fail(self) -> None:
        self.probe_id = None
        self.successes = 0
