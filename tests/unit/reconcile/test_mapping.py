"""Where ids take part: the sequence is fixed for ever, and as dense as it is meant to be."""

from fractions import Fraction
from itertools import pairwise
from math import isqrt

import numpy as np

from bobbin.reconcile import mapping
from bobbin.reconcile.short_ids import Ids


def _places(ids: Ids, jumps: int) -> list[list[int]]:
    generators, places = mapping.begin(ids), np.zeros(len(ids), np.float64)
    rows = [places]
    for _ in range(jumps):
        generators, places = mapping.jump(generators, places)
        rows.append(places)
    columns: list[list[int]] = np.array(rows).T.astype(int).tolist()
    return columns


def _exact_places(id: int, jumps: int) -> list[int]:
    """The same by whole numbers and fractions: what the formula says, before any rounding."""
    generator = (id ^ id >> 29) * 0x9E3779B97F4A7C15 % 2**64
    place, places = 0, [0]
    for _ in range(jumps):
        generator = generator * 0xDA942042E4DD58B5 % 2**64
        draw = (generator >> 11) + 1
        # (2^26.5 / sqrt(draw) - 1) (place + 3/2), by a root with 80 bits behind the point
        root = Fraction(isqrt(2**53 * 2**160 // draw), 2**80)
        step = (root - 1) * (place + Fraction(3, 2))
        place += max(1, -(-step.numerator // step.denominator))
        places.append(place)
    return places


def test_the_first_places_of_some_ids_are_fixed_for_ever() -> None:
    assert _places(np.array([1, 2, 0xFEDCBA9876543210], np.uint64), 6) == [
        [0, 1, 2, 6, 12, 24, 28],
        [0, 1, 2, 4, 6, 9, 14],
        [0, 5, 19, 29, 37, 56, 63],
    ]


def test_places_are_those_of_the_formula() -> None:
    ids = np.random.default_rng(3).integers(1, 1 << 64, 300, dtype=np.uint64)

    places = _places(ids, 12)

    assert places == [_exact_places(int(id), 12) for id in ids]


def test_places_rise() -> None:
    ids = np.random.default_rng(4).integers(1, 1 << 64, 2_000, dtype=np.uint64)

    assert all(earlier < later for row in _places(ids, 8) for earlier, later in pairwise(row))


def test_symbol_i_has_one_in_one_plus_half_i_of_the_ids() -> None:
    count = 20_000
    ids = np.random.default_rng(5).integers(1, 1 << 64, count, dtype=np.uint64)
    inside = np.zeros(60)
    generators, places = mapping.begin(ids), np.zeros(count, np.float64)
    while (places < 60).any():
        np.add.at(inside, places[places < 60].astype(int), 1)
        generators, places = mapping.jump(generators, places)

    for number in (0, 1, 2, 5, 10, 20, 40, 59):
        share = 1 / (1 + number / 2)
        assert abs(inside[number] - count * share) <= 5 * (count * share) ** 0.5


def test_a_jump_never_passes_the_end() -> None:
    ids = np.array([7], np.uint64)
    _, places = mapping.jump(mapping.begin(ids), np.array([mapping.PLACE_MAX]))

    assert places.tolist() == [mapping.PLACE_MAX]


def test_a_jump_in_place_is_the_same_jump() -> None:
    ids = np.random.default_rng(6).integers(1, 1 << 64, 500, dtype=np.uint64)
    generators, places = mapping.begin(ids), np.zeros(len(ids), np.float64)
    for _ in range(10):
        after = mapping.jump(generators, places)
        mapping.advance(generators, places, np.full(len(ids), np.nan), np.full(len(ids), np.inf))
        assert (generators.tolist(), places.tolist()) == (after[0].tolist(), after[1].tolist())


def test_places_become_whole_numbers() -> None:
    places = [0.0, 1.0, 2.0**20 + 1, mapping.PLACE_MAX]

    assert mapping.numbers(np.array(places)).tolist() == [int(place) for place in places]
