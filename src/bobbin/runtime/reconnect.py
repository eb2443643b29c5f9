"""Keeping a link: dial again when it is lost, later after each failure, by chance within a bound (full jitter).

Many sides that lost one peer at the same moment must not all come back at the same moment, so the wait is a random part
of the bound. The bound doubles with each attempt up to a longest wait, and starts over after a good link: one that was
of use, and that has lasted. A peer that lets everybody in and ends the link soon after is not dialled faster for it.

A peer may have several addresses (``rotation``). Then a link that is lost is followed by the next address at once, and
there is a wait only when none of them has led to the peer.

What trying again cannot mend ends it: this side does not admit the peer, or asked for something that makes no sense. Of
several addresses all must have failed so, in one round.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random, SystemRandom
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.errors import BobbinError, PeerError, ResourceError, UsageError
from bobbin.runtime.address_rotation import Rotation
from bobbin.runtime.introduction import NotAdmitted

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 60.0
LASTING_SECONDS: Final = 60.0
"""A link that was up for so long, or for the longest wait if that is shorter, has lasted."""


class Backoff:
    """How long to wait before the next attempt."""

    def __init__(
        self,
        *,
        first_seconds: float = FIRST_SECONDS,
        longest_seconds: float = LONGEST_SECONDS,
        random: Random | None = None,
    ) -> None:
        if not 0 < first_seconds <= longest_seconds:
            raise UsageError("the first wait has a length, and the longest one is not shorter")
        self._first_seconds: Final = first_seconds
        self._longest_seconds: Final = longest_seconds
        self._random: Final = SystemRandom() if random is None else random
        self._bound_seconds = first_seconds

    def wait_seconds(self) -> float:
        """A wait up to the bound of this attempt; the next bound is twice as long."""
        wait = self._random.uniform(0.0, self._bound_seconds)
        self._bound_seconds = min(self._bound_seconds * 2, self._longest_seconds)
        return wait

    def settle(self, *, was_good: bool, seconds: float) -> bool:
        """A link is over that was up for ``seconds``; whether the waits start over."""
        if not was_good or seconds < min(self._longest_seconds, LASTING_SECONDS):
            return False
        self._bound_seconds = self._first_seconds
        return True


class Lost(Struct, frozen=True, kw_only=True):
    """A link is down, or did not come up, and will be tried again."""

    why: str
    wait_seconds: float
    attempts: int
    """Since the last good link."""
    is_next: bool = False
    """Whether another address is tried at once, without any wait."""
    at: int | None = None
    """The address whose link is lost, by its number among several; None where none of them has led to the peer."""


Sleep: TypeAlias = Callable[[float], Awaitable[None]]


class Once(Struct, frozen=True, kw_only=True):
    """How one link ended."""

    was_good: bool
    """Whether it was of use: it has reached a fixed point, or moved records."""
    why: str
    seconds: float = 0.0
    """How long it was up."""


def may_help(error: BobbinError) -> bool:
    """Whether trying again may end otherwise."""
    if isinstance(error, ResourceError):
        return error.retry
    return isinstance(error, PeerError) and not isinstance(error, NotAdmitted)


async def keep(
    once: Callable[[], Awaitable[Once]],
    *,
    backoff: Backoff,
    rotation: Rotation | None = None,
    tell: Callable[[Lost], None] = lambda _: None,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Run one link after the other, until cancelled; raises the error that trying again would not mend.

    ``once`` tries what is left of a round of ``rotation``, and raises when that was in vain; then the round is over. A
    link that came up and is lost has used up its own address only.
    """
    ways = Rotation() if rotation is None else rotation
    attempts = 0
    while True:
        is_next, at = False, None
        try:
            ended = await once()
        except BobbinError as error:
            if not may_help(error):
                raise
            ended = Once(was_good=False, why=str(error))
        else:
            if backoff.settle(was_good=ended.was_good, seconds=ended.seconds):
                attempts = 0
                ways.start_over()
            at = ways.at
            is_next = ways.move_on()
        attempts += 1
        wait = 0.0 if is_next else backoff.wait_seconds()
        tell(Lost(why=ended.why, wait_seconds=wait, attempts=attempts, is_next=is_next, at=at))
        await sleep(wait)
