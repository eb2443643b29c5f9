"""Time as the machines of a node have it.

Machines live by the forward clock alone: a wall clock that is set, by however much, wakes nothing early or late
(CL-371). What leaves the node with a date on it (the signed envelope, which is refused when it is old) is dated by the
wall clock as it was when the node began, moved on by a forward clock that also counts the time for which a machine was
suspended. So nodes go on understanding each other when one of their clocks is set or one of them has slept. What is
still between two of their clocks is seen by the receiver at the beginning of each channel (``wire.cluster.replay``).
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from bobbin.cluster.names import MILLISECOND_NS

_SECOND_NS: Final = 1_000_000_000


def since_boot_ns() -> int:
    """A forward clock that goes on while the machine is suspended, where the system has one."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock)


class SteadyClock:
    """A date that only goes forward, at the speed of the forward clock."""

    def __init__(
        self, *, wall_ns: Callable[[], int] = time.time_ns, forward_ns: Callable[[], int] = since_boot_ns
    ) -> None:
        self._forward_ns: Final = forward_ns
        self._ahead_ns: Final = wall_ns() - forward_ns()

    def now_ms(self) -> int:
        """Milliseconds since 1970, as far as the wall clock was right when this began."""
        return (self._forward_ns() + self._ahead_ns) // MILLISECOND_NS


class Wake:
    """Has something called at a moment of the forward clock; each moment takes the place of the one before."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Final = call
        self._loop: Final = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._at_ns = 0
        self._armed_ns = 0
        """When the handle fires: at the moment, or before it. Moving a moment back is then cheap."""

    def at(self, at_ns: int) -> None:
        """Call then, and not before."""
        self._at_ns = at_ns
        if self._handle is None or at_ns < self._armed_ns:
            self._arm()

    def stop(self) -> None:
        """Call no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._armed_ns = self._at_ns
        wait_ns = max(0, self._at_ns - time.monotonic_ns())
        self._handle = self._loop.call_later(wait_ns / _SECOND_NS, self._fire)

    def _fire(self) -> None:
        self._handle = None
        if time.monotonic_ns() < self._at_ns:
            self._arm()
        else:
            self._call()
