"""How well this node itself is doing (Lifeguard): who misses answers, or is suspected, may be slow, and waits longer.

The score rises when a probe fails and those who were asked for help do not answer either, when somebody suspects this
node, and when it finds that it has slept. It falls with every probe that succeeds. All its timeouts are stretched by
one plus the score.
"""

from typing import Final


class LocalHealth:
    """A score from 0, which is good, to a bound."""

    def __init__(self, score_max: int) -> None:
        self._score_max: Final = score_max
        self.score = 0

    def worsen(self, by: int = 1) -> None:
        self.score = min(self.score + by, self._score_max)

    def improve(self) -> None:
        self.score = max(self.score - 1, 0)

    def stretch(self, duration_ns: int) -> int:
        return duration_ns * (1 + self.score)
