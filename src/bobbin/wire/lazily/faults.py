"""What can be wrong with the bytes of a peer of the reactive protocol, each under one name.

The protocol has no codes of its own: a receiver that meets any of these lets go, or asks for a snapshot. The names are
for our side, in logs and in what people read.
"""

from enum import StrEnum, unique
from typing import Final, NoReturn

from msgspec import MsgspecError

from bobbin.errors import PeerError, UsageError

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of a frame, where no link has agreed on less."""
DETAIL_CHARACTERS_MAX: Final = 200
"""Of what a decoder says of a peer's bytes, for it may quote them."""

UNREADABLE: Final = (MsgspecError, UnicodeDecodeError, RecursionError)
"""Everything that the decoders below raise for bytes they do not accept."""


@unique
class Fault(StrEnum):
    """Which rule was broken."""

    MALFORMED = "malformed"
    """Not of the codec, or not of the shape of any message."""
    OUT_OF_RANGE = "out-of-range"
    """A number that is no u64."""
    OVERSIZED = "oversized"
    TRUNCATED = "truncated"
    """The bytes end where something was still to come."""
    WRONG_FORM = "wrong-form"
    """A message in another form than the link has."""
    FRAGMENT = "fragment"
    """A piece that does not fit the pieces before it, or that was not agreed on."""
    BLOB = "blob"
    """A value that is elsewhere than in the frame, which was not agreed on, or that is not where it is said to be."""


class FrameFault(PeerError):
    """A peer broke a rule of the wire. Nothing of the frame was kept."""

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(fault.value, detail[:DETAIL_CHARACTERS_MAX])
        self.fault = fault


class OversizedFrame(UsageError):
    """A message that is longer than the link takes. Nothing was sent."""

    def __init__(self, size: int, frame_bytes_max: int) -> None:
        super().__init__(f"a frame has at most {frame_bytes_max} bytes on this link, and this one would have {size}")
        self.size = size


def malformed(error: Exception) -> FrameFault:
    """The fault for something of ``UNREADABLE``."""
    return FrameFault(Fault.MALFORMED, str(error) or type(error).__name__)


def check_size(raw: bytes, frame_bytes_max: int) -> None:
    """Refuse a frame by its length alone."""
    if len(raw) > frame_bytes_max:
        raise FrameFault(Fault.OVERSIZED, f"a frame has at most {frame_bytes_max} bytes, not {len(raw)}")


class Latch:
    """Holds the first fault of a decoder, and raises it again whenever the decoder is used after it."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: tuple[Fault, str] | None = None

    def check(self) -> None:
        """Raise the fault that was met before, if there was one."""
        if self._found is not None:
            raise FrameFault(*self._found)

    def fail(self, fault: Fault, detail: str) -> NoReturn:
        """Raise a fault, now and from now on."""
        self._found = fault, detail
        raise FrameFault(fault, detail)
