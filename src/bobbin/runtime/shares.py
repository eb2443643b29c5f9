"""This side's share of the key of sketches: a number by chance, anew for each exchange."""

from secrets import randbelow
from typing import Final

_LEAST: Final = 10**18
"""From here to ten times as much, so that a hello has the same length each time."""


def draw_share() -> int:
    """A share that nobody can foresee."""
    return _LEAST + randbelow(9 * _LEAST)
