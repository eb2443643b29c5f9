"""Which of several ways to one peer is tried next.

The ways stand in an order and are tried one after the other, from the one that worked last. A *round* is every way
once. Within a round the next way is tried at once: a node that is lost is no reason to wait, for another one may be up.
After a round there is a wait, since nobody was there.

A link that comes up does not begin a new round by itself; only one that has lasted does (``start_over``). Else two ways
that let everybody in and end each link soon after would be dialled in turns without any pause.

What always holds: no way is tried twice in a round, and a round has as many attempts as there are ways. There is no
clock here: whoever waits decides for how long.
"""

from typing import Final

from bobbin.errors import UsageError


class Rotation:
    """The way that is to be tried, of ``count`` that are known by their numbers, from 0; the first one is ``at``."""

    __slots__ = ("_count", "_left", "_worked", "at")

    def __init__(self, count: int = 1, *, at: int = 0) -> None:
        if not 0 <= at < count:
            raise UsageError(f"there is no way {at} among {count}")
        self._count: Final = count
        self._worked = at
        """The way that led to the peer last; before any has, the one to begin with."""
        self._left = count
        """Attempts of this round that are not over, the present one included."""
        self.at = at
        """The way that is to be tried, or that is in use."""

    def work(self) -> None:
        """The present way has led to the peer: rounds begin with it from now on."""
        self._worked = self.at

    def start_over(self) -> None:
        """The link of the present way has lasted: what failed before it says nothing about what is up now."""
        self._left = self._count

    def move_on(self) -> bool:
        """The present way has failed, or its link is lost; whether another one is to be tried at once.

        If not, the round is over, and the next one, after a wait, begins with the way that worked last.
        """
        self._left -= 1
        if self._left == 0:
            self.at, self._left = self._worked, self._count
            return False
        self.at = (self.at + 1) % self._count
        return True

    def check(self) -> None:
        """What always holds."""
        assert 0 <= self.at < self._count
        assert 0 <= self._worked < self._count
        assert 1 <= self._left <= self._count
