"""Frames of a cluster on a stream of bytes, between nodes and from clients alike.

======  ==========================================================================================================
bytes   content
======  ==========================================================================================================
4       how long the payload is, high byte first; at most 16 MB
1       flags: none is defined, and a frame with any is refused
n       the payload: an envelope between nodes, requests or answers with a client
======  ==========================================================================================================

What always holds: the payloads, and the refusal if there is one, do not depend on how the bytes were cut into chunks; a
payload that would be too long is refused when its head is there; memory is one frame and what was fed beyond it.
"""

from struct import Struct as Layout
from typing import Final

from bobbin.errors import UsageError
from bobbin.wire.cluster.faults import MessageRefused, Refusal

HEAD_SIZE: Final = 5
PAYLOAD_BYTES_MAX: Final = 16 * 1024 * 1024

_HEAD: Final = Layout(">IB")


def frame(payload: bytes, *, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> bytes:
    """A payload as it goes on a stream."""
    if not 0 < len(payload) <= payload_bytes_max:
        raise UsageError(f"a frame has 1 to {payload_bytes_max} bytes, not {len(payload)}")
    return _HEAD.pack(len(payload), 0) + payload


class Deframer:
    """Splits a stream. ``feed`` it bytes as they come, and ``drain`` what is whole."""

    def __init__(self, *, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> None:
        self.payload_bytes_max = payload_bytes_max
        """May be changed between frames: who has not shown who it is, is not to be waited for at length."""
        self._buffer = bytearray()
        self._refusal: tuple[Refusal, str] | None = None

    @property
    def buffered(self) -> int:
        """Bytes that wait."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take more bytes."""
        if self._refusal is None:
            self._buffer += data

    def drain(self) -> list[bytes]:
        """Every payload that is whole. What came before a bad frame is given out; after that the refusal is raised."""
        self._check()
        found: list[bytes] = []
        at = 0
        buffer = self._buffer
        available = len(buffer)
        with memoryview(buffer) as view:
            while available - at >= HEAD_SIZE:
                length, flags = _HEAD.unpack_from(view, at)
                end = at + HEAD_SIZE + length
                if self._refuses(length, flags) or end > available:
                    break
                found.append(bytes(view[at + HEAD_SIZE : end]))
                at = end
        if at:
            del buffer[:at]
        if not found:
            self._check()
        return found

    def finish(self) -> None:
        """There are no more bytes, and everything was drained. Raises unless the last frame was whole."""
        self._check()
        if self._buffer:
            raise MessageRefused(Refusal.TRUNCATED, f"{len(self._buffer)} bytes wait for the rest of a frame")

    def _check(self) -> None:
        if self._refusal is not None:
            self._buffer = bytearray()
            raise MessageRefused(*self._refusal)

    def _refuses(self, length: int, flags: int) -> bool:
        if flags:
            self._refusal = Refusal.MALFORMED, f"no frame has the flags {flags:02x}"
        elif not length:
            self._refusal = Refusal.MALFORMED, "a frame of no bytes"
        elif length > self.payload_bytes_max:
            self._refusal = Refusal.OVERSIZED, f"a frame has at most {self.payload_bytes_max} bytes, not {length}"
        return self._refusal is not None
