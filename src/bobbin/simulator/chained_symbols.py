"""Symbols that come apart one id at a time, as nobody's set does: each id that is taken out uncovers just one other.

Where an id stands follows from the id alone, so anybody can look for ids that make such a chain, once and for all keys.
Whoever looks through all symbols again for each id that it finds does quadratic work over them, in one step. Added to
the symbols of a set, a chain stays in what is left when the receiver has taken its own out.
"""

from functools import cache
from typing import Final

import numpy as np
from msgspec import Struct

from bobbin.reconcile import mapping
from bobbin.reconcile.short_ids import Ids
from bobbin.reconcile.symbols import Symbols, checks_of

COUNT_MIN: Final = 16
_POOL_FACTOR: Final = 24
"""Ids to choose from, for each symbol."""
_DENSE_PART: Final = 8
"""The first part of all symbols has many ids in each; a chain goes through the others."""
_SEED: Final = 5


class Chain(Struct, frozen=True, eq=False):
    """A stretch of symbols from the first on."""

    symbols: Symbols
    links: int
    """How many ids there are, each found after the one before it."""


@cache
def chain(count: int) -> Chain:
    """A chain through so many symbols, as long as it can be made without much trouble."""
    generator = np.random.default_rng(_SEED)
    pool = np.unique(generator.integers(1, 1 << 64, _POOL_FACTOR * count, dtype=np.uint64))
    places, checks_of_pool = _places(pool, count), checks_of(pool).tolist()
    inside: dict[int, list[int]] = {}
    for number, some in enumerate(places):
        for place in some:
            inside.setdefault(place, []).append(number)
    sums = generator.integers(1, 1 << 64, count, dtype=np.uint64)
    checks = generator.integers(0, 1 << 16, count, dtype=np.uint16)
    dense = count // _DENSE_PART
    before: dict[int, list[int]] = {}
    visited: set[int] = set()
    links, place = 0, count // 2
    while True:
        fits = (
            number
            for number in inside.get(place, ())
            if visited.isdisjoint(places[number]) and any(one != place and one >= dense for one in places[number])
        )
        link = next(fits, None)
        if link is None:
            return Chain(Symbols(0, sums, checks), links)
        # Once all links before it are out, this symbol has just this id.
        there = [*before.get(place, ()), link]
        sums[place] = sum(int(pool[number]) for number in there) % 2**64
        checks[place] = sum(checks_of_pool[number] for number in there) % 2**16
        visited.add(place)
        links += 1
        onwards = [one for one in places[link] if one != place and one >= dense]
        for one in places[link]:
            before.setdefault(one, []).append(link)
        place = max(onwards, key=lambda one: len(inside[one]))


def chained(raw: bytes) -> bytes:
    """The symbols of a set with a chain added to them. Too few of them, or what is none, stay as they are."""
    symbols = Symbols.decode(0, raw)
    if len(symbols) < COUNT_MIN:
        return raw
    # Chains of a few lengths are made once, and serve for all.
    length = 1 << (len(symbols).bit_length() - 1)
    added = chain(length).symbols
    sums, checks = symbols.sums.copy(), symbols.checks.copy()
    sums[:length] += added.sums
    checks[:length] += added.checks
    # What is behind it must not show that the ids of the chain are not there.
    sums[length:] += np.random.default_rng(_SEED).integers(1, 1 << 64, len(symbols) - length, dtype=np.uint64)
    return Symbols(0, sums, checks).encode()


def _places(ids: Ids, end: int) -> list[list[int]]:
    """The symbols that each id takes part in."""
    places: list[list[int]] = [[] for _ in ids]
    generators, at, numbers = mapping.begin(ids), np.zeros(len(ids)), np.arange(len(ids))
    while len(numbers):
        for number, place in zip(numbers.tolist(), at.astype(int).tolist(), strict=True):
            places[number].append(place)
        generators, at = mapping.jump(generators, at)
        stay = at < end
        generators, at, numbers = generators[stay], at[stay], numbers[stay]
    return places
