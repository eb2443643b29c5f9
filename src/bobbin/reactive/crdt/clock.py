"""The hybrid logical clock: wall time that people understand, and a counter for what wall time cannot tell apart.

A stamp is later than every stamp that its maker had seen, whatever the wall clocks say. Between peers only the order of
stamps means anything: other makes count differently.

A peer whose clock runs ahead drags the clocks of all others along, and its writes win until theirs catch up. So a stamp
further ahead than the bound is refused, and changes nothing here. The time of this machine comes in as an argument, in
microseconds.
"""

from typing import Final

from bobbin.errors import PeerError, UsageError
from bobbin.profile import STAMP_AHEAD_US_MAX
from bobbin.reactive.messages import U64_MAX, PeerId, Stamp

STAMP_AHEAD: Final = "stamp_ahead"


class StampRefused(PeerError):
    """A stamp claims a moment that is too far ahead. Nothing of the message that had it was kept."""

    def __init__(self, stamp: Stamp, now_us: int, ahead_us_max: int) -> None:
        ahead = stamp.wall_time - now_us
        super().__init__(
            STAMP_AHEAD, f"a stamp of peer {stamp.peer} is {ahead} µs ahead of the clock here; {ahead_us_max} are taken"
        )
        self.stamp = stamp


class HybridClock:
    """The clock of one peer. Its stamps only grow."""

    __slots__ = ("_logical", "_wall", "ahead_us_max", "peer")

    def __init__(self, peer: PeerId, *, since: Stamp | None = None, ahead_us_max: int = STAMP_AHEAD_US_MAX) -> None:
        """``since`` is the last moment of an earlier life, so that no stamp is given twice."""
        self.peer: Final = peer
        self.ahead_us_max: Final = ahead_us_max
        self._wall = 0 if since is None else since.wall_time
        self._logical = 0 if since is None else since.logical

    @property
    def last(self) -> Stamp:
        """The latest moment that this clock knows of."""
        return Stamp(self._wall, self._logical, self.peer)

    def tick(self, now_us: int) -> Stamp:
        """The stamp of a write of this peer."""
        if now_us > self._wall:
            self._wall, self._logical = now_us, 0
        else:
            self._logical += 1
        self._carry()
        return self.last

    def observe(self, remote: Stamp, now_us: int) -> Stamp:
        """Take notice of a stamp of somebody else, so that every later one of ours is greater."""
        self.check(remote, now_us)
        self.advance(remote.wall_time, remote.logical, now_us)
        return self.last

    def advance(self, remote_wall: int, remote_logical: int, now_us: int) -> None:
        """``observe`` for a stamp that was checked."""
        wall = self._wall
        if remote_wall > wall and remote_wall >= now_us:
            self._wall, self._logical = remote_wall, remote_logical + 1
        elif now_us > wall:
            # Theirs is behind the clock on the wall as well.
            self._wall, self._logical = now_us, 0
        elif remote_wall == wall:
            self._logical = max(self._logical, remote_logical) + 1
        else:
            self._logical += 1
        if self._logical > U64_MAX or self._wall > U64_MAX:
            self._carry()

    def check(self, remote: Stamp, now_us: int) -> None:
        """Raises ``StampRefused`` for one that is too far ahead."""
        if remote.wall_time - now_us > self.ahead_us_max:
            raise StampRefused(remote, now_us, self.ahead_us_max)

    def _carry(self) -> None:
        """A counter at its end, which a peer may claim in any stamp, goes on in the next microsecond."""
        if self._logical > U64_MAX:
            self._wall, self._logical = self._wall + 1, 0
        if self._wall > U64_MAX:
            raise UsageError("the clock of this machine is beyond what a stamp can say")
