"""Frames on a stream of bytes: four bytes that say how long the frame is, little-endian, then the frame.

The frame itself says what it is, so there is no other tag. Where a transport keeps messages apart, as WebSocket and
data channels do, one message of it is one frame, and nothing of this is needed.

What always holds: the frames, and the fault if there is one, do not depend on how the bytes were cut into chunks; a
frame that would be too long is refused when its length is there; memory is one frame and what was fed beyond it.
"""

from typing import Final

from bobbin.errors import UsageError
from bobbin.wire.lazily.faults import FRAME_BYTES_MAX, Fault, Latch, OversizedFrame

HEAD_SIZE: Final = 4
LENGTH_MAX: Final = 2**32 - 1

_COMPACT_BYTES: Final = 64 * 1024


def frame(raw: bytes, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    """A frame as it goes on a stream."""
    if not raw:
        raise UsageError("a frame says something")
    if len(raw) > min(frame_bytes_max, LENGTH_MAX):
        raise OversizedFrame(len(raw), min(frame_bytes_max, LENGTH_MAX))
    return len(raw).to_bytes(HEAD_SIZE, "little") + raw


class Deframer:
    """Splits a stream. ``feed`` it bytes as they come, and take frames by ``next`` until there is none."""

    def __init__(self, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.frame_bytes_max = frame_bytes_max
        """May be changed between frames: the handshake settles it."""
        self._buffer = bytearray()
        self._at = 0
        self._latch: Final = Latch()

    @property
    def buffered(self) -> int:
        """Bytes that wait."""
        return len(self._buffer) - self._at

    def feed(self, data: bytes) -> None:
        """Take more bytes."""
        self._buffer += data

    def next(self) -> bytes | None:
        """The next frame, or None where it takes more bytes to say."""
        self._latch.check()
        if self.buffered < HEAD_SIZE:
            return None
        start = self._at + HEAD_SIZE
        length = int.from_bytes(self._buffer[self._at : start], "little")
        if length == 0:
            self._latch.fail(Fault.MALFORMED, "a frame of no bytes")
        if length > self.frame_bytes_max:
            self._latch.fail(Fault.OVERSIZED, f"a frame has at most {self.frame_bytes_max} bytes, not {length}")
        if len(self._buffer) < start + length:
            return None
        raw = bytes(memoryview(self._buffer)[start : start + length])
        self._at = start + length
        if self._at > _COMPACT_BYTES or self._at == len(self._buffer):
            del self._buffer[: self._at]
            self._at = 0
        return raw

    def finish(self) -> None:
        """There are no more bytes. Raises unless the last frame was whole."""
        self._latch.check()
        if self.buffered:
            self._latch.fail(Fault.TRUNCATED, f"{self.buffered} bytes wait for the rest of a frame")
