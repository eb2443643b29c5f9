"""What can be wrong with the bytes of a PZP peer, each under one name.

The published wire has no codes of its own: a peer that meets any of these lets go. The names are for our side, in logs
and in what people read.
"""

from enum import StrEnum
from typing import NoReturn

from bobbin.errors import PeerError


class Fault(StrEnum):
    """Which rule of the wire was broken."""

    TRUNCATED = "truncated"
    """The bytes end where something was still to come: inside a message, or without the block that says the end."""
    WRONG_NETWORK = "wrong-network"
    """A challenge that was not made with the key of this network, or whose key nobody could have."""
    NOT_PROVEN = "not-proven"
    """A side of the handshake did not show that it has the key it claims."""
    NOT_ADMITTED = "not-admitted"
    """Whoever it is has shown so, and is not wanted here."""
    HANDSHAKE_TIMEOUT = "handshake-timeout"
    FORGED_BLOCK = "forged-block"
    """A block that was altered, repeated, left out or put elsewhere: the cipher cannot tell which."""
    WRONG_TAG = "wrong-tag"
    """A block that is genuine, and of a kind that this stream does not have."""
    PADDING = "padding"
    AFTER_END = "after-end"
    """Bytes behind the block or the frame that says the end."""
    OVERSIZED = "oversized"
    MALFORMED = "malformed"
    TOO_MANY_CALLS = "too-many-calls"


class WireFault(PeerError):
    """A PZP peer broke a rule of the wire. Nothing more is read from it."""

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(fault.value, detail)
        self.fault = fault


class Latch:
    """Holds the first fault of a decoder, and raises it again whenever the decoder is used after it."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: tuple[Fault, str] | None = None

    def check(self) -> None:
        """Raise the fault that was met before, if there was one."""
        if self._found is not None:
            raise WireFault(*self._found)

    def fail(self, fault: Fault, detail: str) -> NoReturn:
        """Raise a fault, now and from now on."""
        self._found = fault, detail
        raise WireFault(fault, detail)
