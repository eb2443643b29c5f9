"""Peers that a node dials by itself, and keeps dialling: each has one open link, or a moment at which to try again.

Between two attempts the node waits (``reconnect.Backoff``). A link that has reached a fixed point was good: if it has
lasted as well, the waits start over after it. A peer with several addresses is tried at each of them, one right after
the other, before there is a wait (``rotation.Rotation``). Unlike a single client, a node never gives up: what is wrong
today may be mended tomorrow, on either side, and until then the status and the log say what it is.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct, structs

from bobbin.errors import UsageError
from bobbin.interlace.limits import SECOND_NS
from bobbin.records import tai
from bobbin.runtime.address_rotation import Rotation
from bobbin.runtime.clock import tai_now
from bobbin.runtime.connection import Destination
from bobbin.runtime.log import clean_text
from bobbin.runtime.node_settings import Reconnecting
from bobbin.runtime.reconnect import Backoff
from bobbin.runtime.roster import KnownPeer, Way
from bobbin.runtime.status import Direction, End, Ended, LinkState, LinkStatus
from bobbin.transport.base import ByteStream

if TYPE_CHECKING:
    from bobbin.runtime.node_link import NodeLink

Dial: TypeAlias = Callable[[KnownPeer, Way], Awaitable[ByteStream]]
"""Opens a stream to a known peer by one of its ways. Raises ``TransportError``, ``UsageError`` for what cannot be
dialled, ``NotAdmitted`` for a way that nothing may be said on."""


_DETAIL_CHARACTERS_MAX: Final = 300


class Attempt(Struct, frozen=True):
    """What became of one attempt."""

    ended: Ended
    was_good: bool
    """Whether the link has reached a fixed point."""
    seconds: float = 0.0
    """How long it was up."""
    was_up: bool = False
    """Whether the peer was let in at all."""


Try: TypeAlias = Callable[["Follow"], Awaitable[Attempt]]
"""One attempt, and the link if it comes up. Whoever does it sets and clears ``Follow.link``."""


class Lost(Struct, frozen=True, kw_only=True):
    """A followed peer has no link now."""

    known: KnownPeer
    way: Way
    """Where it was tried."""
    ended: Ended
    was_up: bool
    """Whether there was a link, as opposed to an attempt that led to none."""
    attempts: int
    """Since the last good link."""
    next_seconds: float
    """How long until the next attempt; 0 where another address is tried at once."""


async def dial_known(peer: KnownPeer, way: Way, *, allow_insecure: bool = False) -> ByteStream:
    """A stream to a known peer. ``NotAdmitted`` for a way that is open to others, unless allowed."""
    destination = Destination(
        address=way.address,
        verifier=peer.verifier,
        certificate=way.certificate,
        allow_insecure=allow_insecure,
    )
    return await destination.dial()


class Follow:
    """One peer that is dialled."""

    def __init__(
        self,
        number: int,
        known: KnownPeer,
        attempt: Try,
        pauses: Reconnecting,
        *,
        tell: Callable[[Lost], None] = lambda _: None,
    ) -> None:
        """``tell`` hears of every attempt that is over, before the wait for the next one."""
        if not known.ways:
            raise UsageError(f"{known.name} has no address")
        self.number: Final = number
        self.known = known
        self._rotation = Rotation(len(known.ways))
        self.way = known.ways[0]
        """The one that is tried, or in use."""
        self._backoff = _backoff(pauses)
        self.link: NodeLink | None = None
        """While there is a stream."""
        self.is_over = False
        """Set when the peer is not to be dialled again after the present link."""
        self.attempts = 0
        self.last_end: Ended | None = None
        self._attempt: Final = attempt
        self._tell: Final = tell
        self._since_ns = monotonic_ns()
        self._due_ns: int | None = None
        """When the next attempt comes; None while one is going on."""
        self._hurry: Final = asyncio.Event()

    async def run(self) -> None:
        """Dial, again and again, until cancelled."""
        while True:
            self._since_ns, self._due_ns = monotonic_ns(), None
            way = self.way
            attempt = await self._attempt(self)
            if self._backoff.settle(was_good=attempt.was_good, seconds=attempt.seconds):
                self.attempts = 0
                self._rotation.start_over()
            self.attempts += 1
            self.last_end = attempt.ended
            if self.is_over:
                return
            delay = 0.0 if self._move_on(way, was_up=attempt.was_up) else self._backoff.wait_seconds()
            self._due_ns = monotonic_ns() + int(delay * SECOND_NS)
            self._tell(
                Lost(
                    known=self.known,
                    way=way,
                    ended=attempt.ended,
                    was_up=attempt.was_up,
                    attempts=self.attempts,
                    next_seconds=round(delay, 1),
                )
            )
            try:
                async with asyncio.timeout(delay):
                    await self._hurry.wait()
            except TimeoutError:
                pass
            self._hurry.clear()

    def _move_on(self, way: Way, *, was_up: bool) -> bool:
        """Whether another way is to be tried at once, now that an attempt at this one is over."""
        if way != self.way:
            return True  # the ways have changed meanwhile, and the new ones are untried
        if was_up:
            self._rotation.work()
        is_next = self._rotation.move_on()
        self.way = self.known.ways[self._rotation.at]
        return is_next

    def change(self, known: KnownPeer, pauses: Reconnecting) -> None:
        """Other terms, or other pauses, hold from now on. A peer that has moved is tried at once.

        One that is still to be found where it is tried, or linked, has not moved, whatever other addresses it has.
        """
        has_moved = not self.leads_by(self.way, known)
        if known.ways != self.known.ways:
            self._rotation = Rotation(len(known.ways), at=0 if has_moved else known.ways.index(self.way))
            self.way = known.ways[self._rotation.at]
        self.known, self._backoff = known, _backoff(pauses)
        if not has_moved:
            return
        if self.link is not None and self.link.known is None:
            self.link.end(End.PEER_CHANGED, f"{known.name} has moved")
        self.hurry()

    def leads_by(self, way: Way, known: KnownPeer) -> bool:
        """Whether a way leads to the same peer under some terms as under those that hold now."""
        return known.verifier == self.known.verifier and way in known.ways and way in self.known.ways

    @property
    def why_unlinked(self) -> str | None:
        """Why there is no link, by the name of the last end; None while there is one, or before the first attempt."""
        is_linked = self.link is not None and self.link.known is not None
        return None if is_linked or self.last_end is None else self.last_end.reason

    def hurry(self) -> None:
        """Try now."""
        self.attempts = 0
        self._hurry.set()

    def status(self) -> LinkStatus:
        """The link, or what stands in its place."""
        if self.link is not None:
            return structs.replace(self.link.status(), attempts=self.attempts, last_end=self.last_end)
        now_ns = monotonic_ns()
        waits, state = "for the address to answer", LinkState.CONNECTING
        if self._due_ns is not None:
            left = max(self._due_ns - now_ns, 0) / SECOND_NS
            waits, state = f"{left:.0f} seconds until the next attempt", LinkState.WAITING
        age_ns = now_ns - self._since_ns
        return LinkStatus(
            id=self.number,
            direction=Direction.OUT,
            state=state,
            address=str(self.way.address),
            peer=self.known.name,
            verifier=None,
            since=tai.render(tai_now() - age_ns),
            age_seconds=round(age_ns / SECOND_NS, 3),
            waits=waits,
            attempts=self.attempts,
            last_end=self.last_end,
        )


def _backoff(pauses: Reconnecting) -> Backoff:
    return Backoff(first_seconds=pauses.delay_seconds_min, longest_seconds=pauses.delay_seconds_max)


def ended_by(reason: str, detail: str) -> Ended:
    """How an attempt ended that led to no link."""
    return Ended(at=tai.render(tai_now()), reason=reason, detail=clean_text(detail, _DETAIL_CHARACTERS_MAX))
