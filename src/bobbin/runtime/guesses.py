"""How many wrong tokens one address may show, so that nobody finds one by trying.

Each wrong one uses up some of what an address has, and time gives it back. Who has none left is told to come later,
whatever it shows: a right token would be found out otherwise. Addresses are remembered up to a number; those that were
wrong longest ago are forgotten first.

Where whoever comes can choose its address, as in a room, there is a larger bound for all of them together, too.
"""

from typing import Final

BURST: Final = 20
"""Wrong tokens at once."""
PER_SECOND: Final = 0.5
ADDRESSES_MAX: Final = 4_096
ROOM_BURST: Final = 1_000
"""Wrong tokens at once of all members of a room together."""
ROOM_PER_SECOND: Final = 25.0


class Guesses:
    """Wrong tokens, by address. ``now`` is in seconds, by a clock that only goes forward."""

    def __init__(
        self,
        *,
        burst: int = BURST,
        per_second: float = PER_SECOND,
        addresses_max: int = ADDRESSES_MAX,
        together: "Guesses | None" = None,
    ) -> None:
        """``together`` counts what all addresses have used up, as if they were one."""
        self._burst: Final = burst
        self._per_second: Final = per_second
        self._addresses_max: Final = addresses_max
        self._together: Final = together
        self._used: Final[dict[str, tuple[float, float]]] = {}
        """How much an address has used up, and when that was; in the order of that."""

    def may_try(self, address: str, now: float) -> bool:
        """Whether a token of this address is looked at."""
        has_left = self._left(address, now) >= 1
        return has_left and (self._together is None or self._together.may_try("", now))

    def note_wrong(self, address: str, now: float) -> None:
        """This address has shown a token that is none."""
        used = self._burst - self._left(address, now) + 1
        self._used.pop(address, None)
        self._used[address] = min(used, float(self._burst)), now
        if len(self._used) > self._addresses_max:
            del self._used[next(iter(self._used))]
        if self._together is not None:
            self._together.note_wrong("", now)

    def _left(self, address: str, now: float) -> float:
        used, since = self._used.get(address, (0.0, now))
        return self._burst - max(used - (now - since) * self._per_second, 0.0)


def in_room() -> Guesses:
    """For those who come from a room, by their ids there. Nobody but itself is shut out by one of them."""
    return Guesses(together=Guesses(burst=ROOM_BURST, per_second=ROOM_PER_SECOND))
