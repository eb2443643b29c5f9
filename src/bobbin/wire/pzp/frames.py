"""The frames of muxrpc: a head of nine bytes, then a body.

======  ==========================================================================================================
bytes   content
======  ==========================================================================================================
1       flags: 8 of a stream, 4 the end or an error, and what the body is: 0 bytes, 1 text in UTF-8, 2 JSON
4       how long the body is, big-endian
4       the request, signed, big-endian: positive from whoever asked, negative from whoever answers; 0 for neither
======  ==========================================================================================================

Nine zero bytes are the goodbye; nothing comes after it. A real peer writes head and body apart, so each begins a block
of its own in the stream below; we do the same.

What always holds: the frames, and the error if there is one, do not depend on how the bytes were cut into chunks; a
body that would be too long is refused when its head is there; memory is one frame and what was fed beyond it.
"""

from enum import IntEnum
from struct import Struct as Layout
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.wire.pzp.faults import Fault, Latch

HEAD_SIZE: Final = 9
BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""A peer that lacks a whole tangle gets it in one frame."""
REQUEST_MAX: Final = 2**31 - 1

GOODBYE: Final = bytes(HEAD_SIZE)

_HEAD: Final = Layout(">BIi")
_STREAM: Final = 8
_END: Final = 4
_KIND: Final = 3
_FLAGS: Final = _STREAM | _END | _KIND
_COMPACT_BYTES: Final = 64 * 1024


class Kind(IntEnum):
    """What a body is."""

    BYTES = 0
    TEXT = 1
    JSON = 2


class Frame(Struct, frozen=True, kw_only=True):
    """One frame. Text is known to be UTF-8; whether JSON is JSON is for whoever reads it."""

    request: int
    kind: Kind
    body: bytes
    stream: bool = False
    end: bool = False


class Goodbye(Struct, frozen=True):
    """The other side has nothing more to say."""


Packet: TypeAlias = Frame | Goodbye


def encode(packet: Packet) -> tuple[bytes, ...]:
    """The writes of a frame: its head, and its body."""
    if isinstance(packet, Goodbye):
        return (GOODBYE,)
    if not packet.body:
        # A real peer takes any head without a body for the goodbye.
        raise UsageError("a frame has a body")
    if len(packet.body) > BODY_BYTES_MAX:
        raise UsageError(f"the body of a frame has at most {BODY_BYTES_MAX} bytes, not {len(packet.body)}")
    flags = packet.kind | (_STREAM if packet.stream else 0) | (_END if packet.end else 0)
    return _HEAD.pack(flags, len(packet.body), packet.request), packet.body


class Decoder:
    """Splits a stream into frames. ``feed`` it bytes as they come, and take frames by ``next`` until there is none."""

    def __init__(self, *, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        self.ended = False
        """Whether the goodbye has come."""
        self.body_bytes_max = body_bytes_max
        """May be changed between frames: who has said little so far is not to be waited for at length."""
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

    def next(self) -> Packet | None:
        """The next frame, or None where it takes more bytes to say."""
        self._latch.check()
        if self.ended:
            if self.buffered:
                self._latch.fail(Fault.AFTER_END, "there are bytes behind the goodbye")
            return None
        if self.buffered < HEAD_SIZE:
            return None
        flags, length, request = _HEAD.unpack_from(self._buffer, self._at)
        if not flags and not length and not request:
            self._advance(HEAD_SIZE)
            self.ended = True
            return Goodbye()
        if flags & ~_FLAGS or flags & _KIND == _KIND:
            self._latch.fail(Fault.MALFORMED, f"no frame has the flags {flags:02x}")
        if length > self.body_bytes_max:
            self._latch.fail(Fault.OVERSIZED, f"a body has at most {self.body_bytes_max} bytes, not {length}")
        if request == -REQUEST_MAX - 1:
            self._latch.fail(Fault.MALFORMED, "this request cannot have an answer")
        end = self._at + HEAD_SIZE + length
        if len(self._buffer) < end:
            return None
        body = bytes(memoryview(self._buffer)[self._at + HEAD_SIZE : end])
        kind = Kind(flags & _KIND)
        self._check_body(kind, body)
        self._advance(HEAD_SIZE + length)
        return Frame(request=request, kind=kind, body=body, stream=bool(flags & _STREAM), end=bool(flags & _END))

    def finish(self) -> None:
        """There are no more bytes. Raises unless the goodbye was the last thing said."""
        self._latch.check()
        if not self.ended:
            self._latch.fail(Fault.TRUNCATED, f"no goodbye; {self.buffered} bytes wait for the rest of a frame")

    def drop(self) -> None:
        """Let go of what waits."""
        self._buffer = bytearray()
        self._at = 0

    def _check_body(self, kind: Kind, body: bytes) -> None:
        if kind is Kind.JSON and not body:
            self._latch.fail(Fault.MALFORMED, "a body of JSON that is empty")
        if kind is Kind.TEXT:
            try:
                body.decode()
            except UnicodeDecodeError:
                self._latch.fail(Fault.MALFORMED, "a body of text that is not UTF-8")

    def _advance(self, size: int) -> None:
        self._at += size
        if self._at > _COMPACT_BYTES or self._at == len(self._buffer):
            del self._buffer[: self._at]
            self._at = 0
