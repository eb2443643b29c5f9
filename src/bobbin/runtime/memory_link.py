"""A link inside one process that hands messages over as they are: the trusted way, nothing is serialised."""

import asyncio
from typing import Final

from bobbin.interlace.messages import Message
from bobbin.interlace.reasons import Reason
from bobbin.interlace.state import Awaits
from bobbin.runtime.exchange import LinkEnded
from bobbin.wire import parting

_ROOM: Final = 4
"""Messages on their way. Both sides speak in step, so there are never many."""


class _Way:
    """One direction."""

    def __init__(self) -> None:
        self.messages: Final[asyncio.Queue[Message | None]] = asyncio.Queue()
        self.room: Final = asyncio.Semaphore(_ROOM)
        self.is_abandoned = False
        """Nobody reads here any more."""
        self.parting: Reason | None = None
        """Why there is no more, where that is told."""


class MemoryLink:
    """One end of a link in memory."""

    def __init__(self, incoming: _Way, outgoing: _Way) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._ended = False
        self._closed = False

    async def send(self, message: Message) -> None:
        await self._outgoing.room.acquire()
        if self._closed or self._outgoing.is_abandoned:
            self._outgoing.room.release()
            raise LinkEnded
        self._outgoing.messages.put_nowait(message)

    async def receive(self, awaits: Awaits) -> Message:
        del awaits
        message = None if self._ended else await self._incoming.messages.get()
        if message is None:
            self._ended = True
            if self._incoming.parting is not None:
                raise parting.ended(self._incoming.parting)
            raise LinkEnded
        self._incoming.room.release()
        return message

    async def close(self, why: Reason | None = None) -> None:
        if not self._closed:
            self._closed = True
            self._outgoing.parting = None if why is None else parting.TOLD.get(why)
            self._outgoing.messages.put_nowait(None)
            self._incoming.is_abandoned = True
            self._incoming.room.release()


def memory_link() -> tuple[MemoryLink, MemoryLink]:
    """Both ends of a new link."""
    one, other = _Way(), _Way()
    return MemoryLink(one, other), MemoryLink(other, one)
