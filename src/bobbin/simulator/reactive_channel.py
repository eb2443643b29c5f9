"""A channel that keeps no promise: frames are lost, doubled, cut short, late and out of order, until it breaks.

Links between graphs and mirrors ask for an ordered, reliable channel. What they do on one that is neither shows whether
a mirror can be led astray; on a calm one they must do without it all.
"""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from bobbin.simulator.circumstances import MILLISECOND_NS
from bobbin.simulator.clock import Timeline

_DELAYS_MS: Final = (2, 20, 200, 2_000)
_LATENESS: Final = 8
"""How many times later than the first copy the second may come, in delays."""
LATE_MAX_NS: Final = _DELAYS_MS[-1] * _LATENESS * MILLISECOND_NS
"""Nothing is on its way for longer."""


class Turmoil(Struct, frozen=True, kw_only=True):
    """How a channel behaves. All rates are for one frame."""

    delay_ns_max: int = 2 * MILLISECOND_NS
    loss: float = 0.0
    doubling: float = 0.0
    cutting: float = 0.0
    breaking: float = 0.0
    is_ordered: bool = True


CALM: Final = Turmoil()


def draw_turmoil(random: Random) -> Turmoil:
    """How one channel behaves while there are troubles."""
    kind = random.random()
    delay = random.choice(_DELAYS_MS) * MILLISECOND_NS
    if kind < 0.3:
        return Turmoil(delay_ns_max=delay, breaking=random.choice((0.0, 0.02)))
    if kind < 0.5:
        return Turmoil(delay_ns_max=delay, cutting=0.05)
    rate = random.choice((0.02, 0.1, 0.3))
    return Turmoil(
        delay_ns_max=delay,
        loss=rate * random.randrange(2),
        doubling=rate * random.randrange(2),
        cutting=rate * random.randrange(2),
        breaking=random.choice((0.0, 0.01)),
        is_ordered=random.random() < 0.4,
    )


class Parcel(NamedTuple):
    """What travels, and what it is: a transport keeps the kinds apart."""

    kind: str
    """``greeting``, ``frame`` or ``wish``."""
    raw: bytes


class ChannelEnd(Protocol):
    """One end of a channel."""

    def arrive(self, parcel: Parcel) -> None: ...

    def lose(self) -> None:
        """Nothing more will arrive."""
        ...


class Channel:
    """Both directions between two ends, which are attached after it is made."""

    def __init__(self, timeline: Timeline, turmoil: Turmoil, random: Random) -> None:
        self.turmoil = turmoil
        self.is_up = True
        self.carried = 0
        self._timeline: Final = timeline
        self._random: Final = random
        self._ends: dict[int, ChannelEnd] = {}
        self._last_ns: Final = [0, 0]
        self._greeted_ns: Final = [0, 0]
        """When the greeting of an end arrives: what follows it seldom overtakes it."""

    def attach(self, number: int, end: ChannelEnd) -> None:
        self._ends[number] = end

    def send(self, number: int, parcel: Parcel, on_taken: Callable[[], None] | None = None) -> None:
        """Send from an end. ``on_taken``: when the frame is off this end's hands, whatever became of it."""
        if not self.is_up:
            return
        random = self._random
        if random.random() < self.turmoil.breaking:
            self.break_off()
            return
        # Without a greeting there is no link, and little to see.
        is_spared = parcel.kind == "greeting" and random.random() < 0.9
        turmoil = CALM if is_spared else self.turmoil
        if random.random() < turmoil.cutting:
            parcel = Parcel(parcel.kind, parcel.raw[: random.randrange(len(parcel.raw))])
        copies = 0 if random.random() < turmoil.loss else 2 if random.random() < turmoil.doubling else 1
        when = self._when(number)
        if is_spared:
            self._greeted_ns[number] = when
        for copy in range(copies):
            # The second copy may come when much else has come.
            late = copy * random.randrange(_LATENESS) * turmoil.delay_ns_max
            self._timeline.after(when - self._timeline.now_ns + late, lambda: self._deliver(1 - number, parcel))
        if on_taken is not None:
            self._timeline.after(when - self._timeline.now_ns, lambda: on_taken() if self.is_up else None)

    def break_off(self) -> None:
        """The channel is gone, with everything that is on its way; both ends hear of it a little later."""
        if self.is_up:
            self.is_up = False
            for end in self._ends.values():
                delay = self._random.randrange(2 * MILLISECOND_NS)
                self._timeline.after(delay, end.lose)

    def _when(self, number: int) -> int:
        when = self._timeline.now_ns + self._random.randrange(self.turmoil.delay_ns_max + 1)
        when = max(when, self._greeted_ns[number])
        if self.turmoil.is_ordered:
            when = self._last_ns[number] = max(when, self._last_ns[number])
        return when

    def _deliver(self, to: int, parcel: Parcel) -> None:
        if self.is_up:
            self.carried += 1
            self._ends[to].arrive(parcel)
