"""How many wrong tokens one address may show, so that nobody finds one by trying.

Each wrong one uses up some of what an address has, and time gives it back. Who has none left is told to come later,
whatever it shows: a right token would be found out otherwise. Addresses are remembered up to a number; those that were
wrong longest ago are forgotten first.
"""

from typing import Final

BURST: Final = 20
"""Wrong tokens at once."""
PER_SECOND: Final = 0.5
ADDRESSES_MAX: Final = 4_096


class Guesses:
    """Wrong tokens, by address. ``now`` is in seconds, by a clock that only goes forward."""

    def __init__(
        self, *, burst: int = BURST, per_second: float = PER_SECOND, addresses_max: int = ADDRESSES_MAX
    ) -> None:
        self._burst: Final = burst
        self._per_second: Final = per_second
        self._addresses_max: Final = addresses_max
        self._used: Final[dict[str, tuple[float, float]]] = {}
        """How much an address has used up, and when that was; in the order of that."""

    def may_try(self, address: str, now: float) -> bool:
        """Whether a token of this address is looked at."""
        return self._left(address, now) >= 1

    def note_wrong(self, address: str, now: float) -> None:
        """This address has shown a token that is none."""
        used = self._burst - self._left(address, now) + 1
        self._used.pop(address, None)
        self._used[address] = min(used, float(self._burst)), now
        if len(self._used) > self._addresses_max:
            del self._used[next(iter(self._used))]

    def _left(self, address: str, now: float) -> float:
        used, since = self._used.get(address, (0.0, now))
        return self._burst - max(used - (now - since) * self._per_second, 0.0)
