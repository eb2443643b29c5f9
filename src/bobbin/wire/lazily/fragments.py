"""Messages in pieces, for links on which a message is longer than a frame may be.

Both sides must have offered it in the handshake; it is off by default. The form is our own, since the protocol names
the flag and no form. A piece is a frame of its own, the same whatever codec the link has:

======  ==============================================================================
bytes   content
======  ==============================================================================
1       0xC1, with which neither JSON nor MessagePack begins
4       the number of the message, little-endian; each message cut has the next, modulo 2^32
4       how long the message is, little-endian
4       where this piece begins in it, little-endian
rest    the piece, at least one byte
======  ==============================================================================

The pieces of a message follow one another in order, with nothing between them. A message that fits goes whole.

What always holds: a message that would be too long is refused at its first piece; memory is one message.
"""

from struct import Struct as Layout
from typing import Final

from bobbin.errors import UsageError
from bobbin.wire.lazily.faults import Fault, FrameFault, OversizedFrame

MARK: Final = 0xC1
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024

_HEAD: Final = Layout("<BIII")
HEAD_SIZE: Final = _HEAD.size
LENGTH_MAX: Final = 2**32 - 1


def is_fragment(raw: bytes) -> bool:
    """Whether a frame is a piece of a message."""
    return raw[:1] == bytes([MARK])


def split(
    raw: bytes, *, frame_bytes_max: int, number: int, message_bytes_max: int = MESSAGE_BYTES_MAX
) -> tuple[bytes, ...]:
    """The frames of a message: itself where it fits, its pieces where it does not."""
    if len(raw) <= frame_bytes_max:
        return (raw,)
    if len(raw) > min(message_bytes_max, LENGTH_MAX):
        raise OversizedFrame(len(raw), min(message_bytes_max, LENGTH_MAX))
    room = frame_bytes_max - HEAD_SIZE
    if room < 1:
        raise UsageError(f"frames of {frame_bytes_max} bytes have no room for a piece")
    starts = range(0, len(raw), room)
    return tuple([_HEAD.pack(MARK, number, len(raw), at) + raw[at : at + room] for at in starts])


class Assembler:
    """Puts the pieces of one message after the other together again."""

    def __init__(self, *, message_bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self._message_bytes_max: Final = message_bytes_max
        self._number = 0
        self._length = 0
        self._pieces = bytearray()

    @property
    def waits(self) -> bool:
        """Whether a message is begun."""
        return bool(self._pieces)

    def take(self, raw: bytes) -> bytes | None:
        """A message, or None where pieces are missing. Raises ``FrameFault``, and then forgets what was begun."""
        try:
            return self._take(raw)
        except FrameFault:
            self._pieces = bytearray()
            raise

    def _take(self, raw: bytes) -> bytes | None:
        if not is_fragment(raw):
            if self.waits:
                raise FrameFault(Fault.FRAGMENT, "another frame between the pieces of a message")
            return raw
        if len(raw) <= HEAD_SIZE:
            raise FrameFault(Fault.FRAGMENT, "a piece without bytes")
        _, number, length, at = _HEAD.unpack_from(raw)
        if at != len(self._pieces) or (self.waits and (number, length) != (self._number, self._length)):
            raise FrameFault(Fault.FRAGMENT, f"a piece at {at} of the message {number} does not follow what was sent")
        if length > self._message_bytes_max:
            raise FrameFault(Fault.OVERSIZED, f"a message has at most {self._message_bytes_max} bytes, not {length}")
        if at + len(raw) - HEAD_SIZE > length:
            raise FrameFault(Fault.FRAGMENT, "a piece that goes beyond the end of its message")
        self._number, self._length = number, length
        self._pieces += memoryview(raw)[HEAD_SIZE:]
        if len(self._pieces) < length:
            return None
        message = bytes(self._pieces)
        self._pieces = bytearray()
        return message
