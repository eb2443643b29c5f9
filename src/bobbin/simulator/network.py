"""Links between nodes: ordered and slow, of bounded size, and gone at any moment.

A link has two directions. What is sent in one arrives in order, after a delay of its own, and only so much may be on
its way. Different links know nothing of each other, so what travels on two of them arrives in any order. A link ends in
good order (``close``: what is on its way arrives, then the end) or breaks: what is on its way is lost, and of the item
that broke a part may arrive (``truncate``). Both ends learn of an end exactly once.

What travels is whatever the ends understand: messages, or pieces of a byte stream.
"""

from collections.abc import Callable
from random import Random
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from bobbin.simulator.clock import Timeline

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Weather(Struct, frozen=True, kw_only=True):
    """How a link behaves."""

    delay_ns_max: int = 20_000_000
    drip_rate: float = 0.0
    """Chance that an item takes ``drip_ns`` instead."""
    drip_ns: int = 0
    break_rate: float = 0.0
    """Chance that the link breaks at an item."""
    items_max: int = 8
    """On their way in one direction, before the sender is asked to wait."""


class Receiver(Protocol[T_contra]):
    """One end of a link."""

    def arrive(self, item: T_contra) -> None: ...

    def lose(self) -> None:
        """Nothing more will arrive."""
        ...


class Link(Generic[T]):
    """Both directions between two ends, which are attached after it is made."""

    def __init__(
        self, timeline: Timeline, weather: Weather, random: Random, truncate: Callable[[T, Random], T | None]
    ) -> None:
        """``truncate``: what arrives of an item that is cut off, if anything does."""
        self._timeline: Final = timeline
        self.weather = weather
        self._random: Final = random
        self._truncate: Final = truncate
        self._ends: dict[int, Receiver[T]] = {}
        self.is_up = True
        self._told: set[int] = set()
        self.directions: Final = (Direction(self, 1), Direction(self, 0))
        """What end 0 sends on, and what end 1 sends on."""
        self.carried = 0

    def attach(self, end: int, receiver: Receiver[T]) -> None:
        self._ends[end] = receiver

    def break_off(self) -> None:
        """The link is gone at this moment, with everything that is on its way."""
        if not self.is_up:
            return
        self.is_up = False
        for end in (0, 1):
            self._timeline.after(self._delay(), lambda end=end: self.tell(end))  # type: ignore[misc]

    def tell(self, end: int) -> None:
        """Let an end know that nothing more comes."""
        if end not in self._told and end in self._ends:
            self._told.add(end)
            self._ends[end].lose()

    def dispatch(self, direction: "Direction[T]", item: T) -> None:
        """Put an item on its way."""
        arrives = max(direction.last_ns, self._timeline.now_ns + self._delay())
        direction.last_ns = arrives
        broken = self._random.random() < self.weather.break_rate
        self._timeline.after(arrives - self._timeline.now_ns, lambda: self._deliver(direction, item, broken=broken))

    def end_after(self, direction: "Direction[T]") -> None:
        """Nothing more is sent in a direction: the other end learns of it when everything has arrived."""
        arrives = max(direction.last_ns, self._timeline.now_ns + self._delay())
        direction.last_ns = arrives
        self._timeline.after(arrives - self._timeline.now_ns, lambda: self.tell(direction.to))

    def _deliver(self, direction: "Direction[T]", item: T, *, broken: bool) -> None:
        if not self.is_up:
            return
        if broken:
            rest = self._truncate(item, self._random)
            if rest is not None:
                self._ends[direction.to].arrive(rest)
            self.break_off()
            return
        self.carried += 1
        self._ends[direction.to].arrive(item)
        direction.landed()

    def _delay(self) -> int:
        if self._random.random() < self.weather.drip_rate:
            return self.weather.drip_ns
        return self._random.randrange(self.weather.delay_ns_max + 1)


class Direction(Generic[T]):
    """One way of a link."""

    def __init__(self, link: Link[T], to: int) -> None:
        self.to: Final = to
        self.last_ns = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self._link: Final = link
        self._closed = False
        self._waiting: Callable[[], None] | None = None

    @property
    def has_room(self) -> bool:
        return self.in_flight < self._link.weather.items_max

    def send(self, item: T) -> None:
        """Send an item. On a link that is gone, or after ``close``, it goes nowhere."""
        if self._closed or not self._link.is_up:
            return
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self._link.dispatch(self, item)

    def when_room(self, action: Callable[[], None]) -> None:
        """Call back when another item may be sent; never, if the link is gone before."""
        if self.has_room:
            action()
        else:
            self._waiting = action

    def close(self) -> None:
        """Nothing more is sent; what is on its way arrives."""
        if not self._closed:
            self._closed = True
            self._link.end_after(self)

    def landed(self) -> None:
        """An item has arrived."""
        self.in_flight -= 1
        if self._waiting is not None and self.has_room:
            action, self._waiting = self._waiting, None
            action()
