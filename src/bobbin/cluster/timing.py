"""How long something takes, over many times."""

from msgspec import Struct


class Timing(Struct):
    """What is kept of durations; all in nanoseconds."""

    count: int = 0
    total_ns: int = 0
    min_ns: int = 0
    """0 before the first."""
    max_ns: int = 0

    def add(self, duration_ns: int) -> None:
        """One more."""
        self.min_ns = duration_ns if not self.count else min(self.min_ns, duration_ns)
        self.max_ns = max(self.max_ns, duration_ns)
        self.count += 1
        self.total_ns += duration_ns

    @property
    def mean_ns(self) -> float | None:
        """None before the first."""
        return self.total_ns / self.count if self.count else None
