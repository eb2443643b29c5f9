"""Frames that are kept until the other side says that it has them.

A frame is kept from before it is sent: a send that fails, or a connection that ends, loses nothing, and what was not
acknowledged is sent again, in order. The receiver takes a frame only if it is the next one, so sending again is
harmless. A mirror keeps its writes so, towards a graph that acknowledges them.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from bobbin.errors import UsageError
from bobbin.reactive.messages import Delta, Operation

ACKED_WRITES: Final = "bobbin-acked-writes"
"""The feature: an observer numbers the frames of its writes from 0 on each link, and the source acknowledges them."""

Aim: TypeAlias = Callable[[Delta], tuple[Operation, ...] | None]
"""What a frame says to another receiver; None where it has nothing to say to that one."""


class Outbox:
    """Frames in the order of their epochs, each following on the one before."""

    def __init__(self, *, first: int = 0, frames_max: int = 1024, retained: Iterable[Delta] = ()) -> None:
        """``first``: what the first frame is based on. ``retained``: what an earlier outbox has left."""
        self._frames: deque[Delta] = deque(retained)
        self._frames_max: Final = frames_max
        self._next = self._frames[-1].epoch if self._frames else first

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def frames(self) -> tuple[Delta, ...]:
        """What is kept."""
        return tuple(self._frames)

    def append(self, operations: tuple[Operation, ...]) -> Delta:
        """Keep a frame, and return it to be sent.

        Raises:
            UsageError: too many are kept already. Nothing was changed.
        """
        if len(self._frames) >= self._frames_max:
            raise UsageError(f"{self._frames_max} frames wait to be acknowledged, and there is no room for more")
        frame = Delta(self._next, self._next + 1, operations)
        self._next = frame.epoch
        self._frames.append(frame)
        return frame

    def acknowledge(self, through: int) -> None:
        """Forget the frames up to an epoch, and no more."""
        while self._frames and self._frames[0].epoch <= through:
            self._frames.popleft()

    def replay_from(self, cursor: int) -> tuple[Delta, ...]:
        """What somebody has not seen who has seen all up to an epoch."""
        return tuple(frame for frame in self._frames if frame.epoch > cursor)

    def readdress(self, aim: Aim) -> None:
        """Begin again at 0, with what the frames say to a receiver that does so, too."""
        operations = [aimed for frame in self._frames if (aimed := aim(frame)) is not None]
        self._frames = deque(Delta(number, number + 1, some) for number, some in enumerate(operations))
        self._next = len(self._frames)

    def check(self) -> None:
        """Assert what always holds."""
        expected = self._next - len(self._frames)
        for frame in self._frames:
            assert (frame.base_epoch, frame.epoch) == (expected, expected + 1)
            expected += 1
        assert len(self._frames) <= self._frames_max
