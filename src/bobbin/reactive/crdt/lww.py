"""The last writer wins: one value, and the stamp of the write that made it.

The order of stamps is total, the peer's id included, so replicas that merge in different orders end with the same
value. Two values under one stamp are a fault of whoever made them; the greater one is kept, everywhere alike.
"""

from typing import Generic, Protocol, Self, TypeVar

from bobbin.reactive.messages import Stamp


class Ordered(Protocol):
    """A value that can be told apart from others, and that comes before or after them."""

    def __lt__(self, other: Self, /) -> bool: ...


O = TypeVar("O", bound=Ordered)  # noqa: E741 (the usual letter, for an ordered value)


class Lww(Generic[O]):
    """A register of one value."""

    __slots__ = ("stamp", "value")

    def __init__(self, value: O, stamp: Stamp) -> None:
        self.value = value
        self.stamp = stamp

    def set(self, value: O, stamp: Stamp) -> bool:
        """Write. Returns whether the value changed: an older write does nothing, an equal one moves the stamp only."""
        if stamp < self.stamp or (stamp == self.stamp and not self.value < value):
            return False
        changed = value != self.value
        self.value, self.stamp = value, stamp
        return changed

    def merge(self, other: "Lww[O]") -> bool:
        """Take in the state of a replica. Returns whether the value changed."""
        return self.set(other.value, other.stamp)

    def fork(self) -> "Lww[O]":
        """A replica in this state."""
        return Lww(self.value, self.stamp)
