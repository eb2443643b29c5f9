"""Which symbols an id takes part in: every id in symbol 0, and in symbol ``i`` with probability 1 / (1 + i / 2).

The sequence of an id follows from the id alone. Each jump to the next symbol is drawn from a generator that the id
seeds, so that an endless stream of symbols costs an id about 2 ln(n / 2) steps for the first n of them. The
distribution is that of rateless IBLTs (Yang, Gilad and Alizadeh, 2024): dense at the start, so that few symbols do for
a small difference, and thin later, so that each further symbol is worth as much.

Both sides must draw the same jumps. Every operation is one of IEEE 754 that has one right result (conversion, square
root, division, product, rounding up), or arithmetic modulo 2**64.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bobbin.reconcile.short_ids import Ids

Places = NDArray[np.float64]
"""Numbers of symbols. They are whole; as floating-point numbers they need no conversion between jumps."""

_MULTIPLIER: Final = np.uint64(0xDA942042E4DD58B5)
_MIXER: Final = np.uint64(0x9E3779B97F4A7C15)
_ROOT: Final = 2.0**26.5
"""The square root of how many values a draw of 53 bits has."""
_SHIFT: Final = 2.0**52
_LOW: Final = np.int64(2**52 - 1)
PLACE_MAX: Final = 2.0**40
"""No stream gets this far: jumps end here, so that places stay exact."""


def begin(ids: Ids) -> Ids:
    """The generators of ids, before their first jump."""
    return (ids ^ (ids >> np.uint64(29))) * _MIXER


def jump(generators: Ids, places: Places) -> tuple[Ids, Places]:
    """The next place of each id after ``places``, and its generator then."""
    generators, places = generators.copy(), places.copy()
    advance(generators, places, np.empty_like(places), np.empty_like(places))
    return generators, places


def advance(generators: Ids, places: Places, draws: Places, spare: Places) -> None:
    """The same in place. ``draws`` and ``spare`` are as long, and hold anything before and after."""
    generators *= _MULTIPLIER
    np.right_shift(generators, np.uint64(11), out=spare.view(np.uint64))
    # Numbers with a sign are converted faster; these have 53 bits, so the sign is never set.
    np.copyto(draws, spare.view(np.int64))
    draws += 1.0
    np.sqrt(draws, out=draws)
    np.divide(_ROOT, draws, out=draws)
    draws -= 1.0
    np.add(places, 1.5, out=spare)
    draws *= spare
    np.ceil(draws, out=draws)
    # A draw of exactly one would jump nowhere.
    np.maximum(draws, 1.0, out=draws)
    places += draws
    np.minimum(places, PLACE_MAX, out=places)


def numbers(places: Places) -> NDArray[np.int64]:
    """Places as whole numbers, in place. They have fewer than 52 bits: adding 2**52 leaves them in the lowest bits."""
    places += _SHIFT
    whole: NDArray[np.int64] = places.view(np.int64)
    whole &= _LOW
    return whole
