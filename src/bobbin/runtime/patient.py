"""Reading a stream that may fall silent: whoever reads learns of the silence, and can settle what came before it.

A read from a pipe blocks until something comes. What was read before would then wait for its answer as long as the
writer says nothing. So a pipe is asked first whether it has anything. If it has not, and something has been read that
is not settled, the reader says so once, and only then blocks.

Saying so costs a commit, so it is not said at every gap: at most once in ``SECONDS`` after the first unsettled byte. A
stream that never runs dry is never interrupted. Files do not fall silent and are read as they are.
"""

import os
import select
import stat
from collections.abc import Callable
from time import monotonic
from typing import BinaryIO, Final

SECONDS: Final = 0.2
"""How long what was read may wait for more before it is settled."""


class PatientReader:
    """A stream, read in chunks."""

    def __init__(self, stream: BinaryIO, *, seconds: float = SECONDS, clock: Callable[[], float] = monotonic) -> None:
        self._stream: Final = stream
        self._seconds: Final = seconds
        self._clock: Final = clock
        self._read_some: Final[Callable[[int], bytes] | None] = getattr(stream, "read1", None)
        self._poll: Final = None if self._read_some is None else _watched(stream)
        self._since: float | None = None
        """When the first byte came that is not settled; None if everything is."""

    def read(self, size: int) -> bytes | None:
        """Up to ``size`` bytes, none at the end. None: nothing is there at the moment, so settle what came before."""
        if self._poll is None or self._read_some is None:
            return self._stream.read(size)
        chunk = bytearray()
        while len(chunk) < size and (self._since is None or self._is_ready(self._since)):
            piece = self._read_some(size - len(chunk))
            if not piece:
                return bytes(chunk)
            chunk += piece
            if self._since is None:
                self._since = self._clock()
        if chunk:
            return bytes(chunk)
        self._since = None
        return None

    def _is_ready(self, since: float) -> bool:
        assert self._poll is not None
        left = max(0.0, since + self._seconds - self._clock())
        return bool(self._poll.poll(int(left * 1_000)))


def _watched(stream: BinaryIO) -> "select.poll | None":
    """Something to ask whether the stream has anything; None for a file, and for what is none of the system's."""
    try:
        descriptor = stream.fileno()
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
    except (OSError, AttributeError):  # a stream without a descriptor under it
        return None
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return poll
