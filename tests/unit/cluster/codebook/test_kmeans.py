from bisect import bisect_right
from hashlib import sha256
from itertools import accumulate
from math import fsum
from random import Random

import pytest

from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.codebook.kmeans import centroids_of, chances
from bobbin.cluster.geometry import Embedding, distance
from bobbin.errors import UsageError

_CENTRES = ((5.0, 0.0, 0.0), (0.0, 5.0, 0.0), (0.0, 0.0, -5.0))
_DIGEST = "f1319694df6bf4be1a1a08002ec10d799e17c82012891137150dc3486fc77d31"


def _points(seed: int, count: int) -> list[Embedding]:
    chance = Random(seed)
    return [
        Embedding.dense(tuple(value + (chance.random() - 0.5) / 2 for value in _CENTRES[int(chance.random() * 3)]))
        for _ in range(count)
    ]


def test_each_cluster_gets_a_centroid() -> None:
    found = centroids_of(_points(1, 60), 3, seed=4)
    assert len(found) == 3
    for centre in _CENTRES:
        assert min(distance(Embedding.dense(centre), one) for one in found) < 0.2


def test_the_same_data_and_seed_give_the_same_bytes_for_ever() -> None:
    book = GlobalCodebook(1, centroids_of(_points(2, 80), 7, seed=9))
    assert sha256(book.encode()).hexdigest() == _DIGEST


def _plain(points: list[Embedding], count: int, seed: int) -> list[Embedding]:
    """The same in plain numbers, one after the other."""
    rows = [[point.by_position().get(at, 0.0) for at in range(point.dimension)] for point in points]
    chance = chances(seed)

    def square(one: list[float], other: list[float]) -> float:
        whole = 0.0
        for here, there in zip(one, other, strict=True):
            whole += (here - there) * (here - there)
        return whole

    centres = [rows[int(next(chance) * len(rows))]]
    while len(centres) < count:
        weights = [min(square(row, centre) for centre in centres) for row in rows]
        until = list(accumulate(weights))
        centres.append(rows[bisect_right(until, next(chance) * until[-1])])
    for _ in range(100):
        labels = [min(range(count), key=lambda label: (square(row, centres[label]), label)) for row in rows]
        moved = []
        for label in range(count):
            members = [row for row, own in zip(rows, labels, strict=True) if own == label]
            columns = zip(*members, strict=True)
            moved.append([fsum(column) / len(members) for column in columns] if members else centres[label])
        furthest = max(square(one, other) for one, other in zip(moved, centres, strict=True))
        centres = moved
        if furthest <= 1e-4 * 1e-4:
            break
    return [Embedding.dense(tuple(centre)) for centre in centres]


@pytest.mark.parametrize("seed", range(4))
def test_bulk_arithmetic_gives_the_bits_of_plain_numbers(seed: int) -> None:
    points = _points(seed, 40)
    assert centroids_of(points, 5, seed=seed) == _plain(points, 5, seed)


def test_another_seed_begins_elsewhere() -> None:
    points = _points(3, 50)
    assert {tuple(centroids_of(points, 8, seed=seed, rounds_max=0)) for seed in range(5)} != {
        tuple(centroids_of(points, 8, seed=0, rounds_max=0))
    }


def test_means_do_not_depend_on_the_order_of_their_members() -> None:
    points = [Embedding.dense((value, 1.0)) for value in (1e16, 1.0, -1e16, 3.0)]
    (mean,) = centroids_of(points, 1, seed=0)
    (same,) = centroids_of(points[::-1], 1, seed=0)
    assert mean == same == Embedding.dense((1.0, 1.0))


def test_equal_points_give_no_more_centroids_than_there_are() -> None:
    assert centroids_of([Embedding.dense((1.0, 2.0))] * 9, 4, seed=0) == [Embedding.dense((1.0, 2.0))]


def test_what_has_no_direction_is_left_out() -> None:
    assert centroids_of([], 3, seed=0) == []
    assert centroids_of([Embedding.zero(3)] * 5, 3, seed=0) == []
    assert centroids_of([Embedding.dense((1.0,)), Embedding.dense((-1.0,))], 1, seed=0) == []


def test_rounds_end_when_nothing_moves_any_more() -> None:
    points = _points(5, 40)
    settled = centroids_of(points, 3, seed=1)
    assert centroids_of(points, 3, seed=1, rounds_max=1_000, tolerance=0.0) == settled
    assert centroids_of(points, 3, seed=1, rounds_max=1, tolerance=1e9) == centroids_of(
        points, 3, seed=1, rounds_max=5, tolerance=1e9
    )


def test_bad_requests_are_refused() -> None:
    with pytest.raises(UsageError, match="at least one"):
        centroids_of(_points(1, 3), 0, seed=0)
    with pytest.raises(UsageError, match="dimensions"):
        centroids_of([Embedding.dense((1.0,)), Embedding.dense((1.0, 1.0))], 1, seed=0)
