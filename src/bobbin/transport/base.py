"""A way for bytes to one peer, whatever carries them, and what is known of it before the peer has said anything.

A stream is read and written at the same time, by one reader and one writer. Writing waits while the other end does not
read, so nothing piles up here.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from bobbin.errors import ResourceError
from bobbin.wire.address import Address

READ_BYTES_MAX: Final = 256 * 1024
"""What one read gives at most."""
WRITE_BYTES_MAX: Final = 1024 * 1024
"""What may wait to be sent before a writer has to wait too."""


class TransportError(ResourceError):
    """The way to a peer failed, or there is none. ``retry`` says whether trying again later makes sense."""


class WrongCertificate(TransportError):
    """Whoever answers shows another certificate than the pinned one. Nothing was said to it."""

    def __init__(self, why: str) -> None:
        super().__init__(why, retry=False)


class EndedByPeer(TransportError):
    """The other end has let go of the link, in order or by a reset, which is what becomes of bytes it did not read."""

    def __init__(self, why: str = "the other end has closed the link") -> None:
        super().__init__(why, retry=True)


class Route(Struct, frozen=True, kw_only=True):
    """What the transport itself knows of a stream. Nothing here was said by the peer."""

    address: Address
    """What was dialled, or where this side listens."""
    remote: str
    """The other end as its socket names it, for people to read."""
    origin: str
    """What limits per address count by: the other end's IPv4 address or IPv6 network (/64), or ``local``."""
    loopback: bool
    """Whether the other end is on this machine."""
    binding: bytes | None = None
    """32 bytes that only the two ends of this encrypted channel share: the SHA-256 of the server's certificate."""
    verified: bool = False
    """Whether this side has checked that certificate, against an authority or a pin. A server never has."""


class ByteStream(Protocol):
    """A stream of bytes both ways."""

    @property
    def route(self) -> Route: ...

    async def read(self) -> bytes:
        """Some bytes, at most ``READ_BYTES_MAX``; none when the other end has ended. Raises ``TransportError``."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes; returns when there is room for more. Raises ``TransportError``."""
        ...

    async def close(self) -> None:
        """Send what was written, for a bounded time, and let go. Never raises; may be called again."""
        ...

    def abort(self) -> None:
        """Let go at once. What was not sent is lost."""
        ...


class Listener(Protocol):
    """Takes streams from peers that dial."""

    @property
    def address(self) -> Address:
        """Where it really listens: with the port that the system chose, if it was to choose."""
        ...

    async def close(self) -> None:
        """Take no more streams. Those that were taken go on."""
        ...


Accept: TypeAlias = Callable[[ByteStream], Awaitable[None]]
"""What becomes of a stream that was taken. It owns the stream and closes it; it runs as a task of its own."""
