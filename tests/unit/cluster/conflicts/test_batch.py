"""Bulk classification is the pairwise call, whatever the tiles are."""

from collections import Counter
from random import Random

import numpy as np
import pytest

from bobbin.cluster.conflicts import batch, sides
from bobbin.cluster.conflicts.batch import CLASSES, compare, detect_conflicts
from bobbin.cluster.conflicts.classify import DEFAULT, ConflictClass, Thresholds, detect_conflict
from bobbin.cluster.conflicts.columns import columns_of
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.geometry import Embedding, combine

_SOME_THRESHOLDS = (
    DEFAULT,
    Thresholds(structural=0.01),
    Thresholds(orthogonal=0.5, conflicting=0.5, identical=0.5, opposite=-0.5),
    Thresholds(merges_shared_keys=True, structural=1.0),
)


def _world(chance: Random) -> list[DeltaVector]:
    """Changes of all sorts: repeated, turned, scaled, of several dimensions, zero, and too large for squares."""
    size, largest = chance.choice([2, 4, 8, 30, 200]), chance.choice([1, 2, 3, 8, 20])
    values = [chance.choice([1.0, -1.0, 0.5, 2.0, 3.0, chance.gauss(0, 1)]) for _ in range(20)]
    values += [1e200] * (chance.random() < 0.2)
    deltas: list[DeltaVector] = []
    for _ in range(chance.randrange(25)):
        if deltas and chance.random() < 0.3:
            like, factor = chance.choice(deltas), chance.choice([-1.0, 1.0, 3.0])
            deltas.append(DeltaVector(combine(like.delta, like.delta, factor, 0.0), like.keys))
            continue
        dimension = chance.randint(1, size)
        held = {chance.randrange(dimension): chance.choice(values) for _ in range(chance.randint(0, largest))}
        keys = {bytes([chance.randrange(6)]) for _ in range(chance.randrange(4))}
        deltas.append(DeltaVector(Embedding.of(dimension, held), tuple(sorted(keys))))
    return deltas


def _check(deltas: list[DeltaVector], thresholds: Thresholds) -> Counter[ConflictClass]:
    found = {(pair.one, pair.other): pair.result for pair in detect_conflicts(deltas, thresholds)}
    classes: Counter[ConflictClass] = Counter()
    for other in range(len(deltas)):
        for one in range(other):
            expected = detect_conflict(deltas[one], deltas[other], thresholds)
            classes[expected.conflict_class] += 1
            result = found.pop((one, other), None)
            if expected.conflict_class is ConflictClass.ORTHOGONAL:
                assert result is None
                continue
            assert result is not None
            assert result.conflict_class is expected.conflict_class
            assert result.action is expected.action
            assert result.jaccard == expected.jaccard
            assert result.overlapping_keys == expected.overlapping_keys
            assert result.cosine == pytest.approx(expected.cosine, abs=1e-12)
    assert not found
    return classes


@pytest.mark.parametrize("seed", range(40))
def test_every_pair_has_the_class_of_the_pairwise_call(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = Random(seed)
    monkeypatch.setattr(batch, "TILE_ROWS", chance.choice([1, 7, 512]))
    monkeypatch.setattr(batch, "TILE_COLUMNS", chance.choice([1, 5, 2_048]))
    monkeypatch.setattr(batch, "CELLS_MAX", chance.choice([1, 20, 1 << 24]))
    monkeypatch.setattr(batch, "_INDEX_ROWS", chance.choice([1, 7, 1 << 15]))
    monkeypatch.setattr(batch, "_DENSE_SHARE", chance.choice([0, 32, 10**9]))
    monkeypatch.setattr(sides, "LISTED_SHARE", chance.choice([1, 64]))
    monkeypatch.setattr(sides, "LISTED_MIN", chance.choice([0, 2, 100]))
    monkeypatch.setattr(sides, "MEETINGS_MAX", chance.choice([1, 10, 1 << 21]))
    _check(_world(chance), chance.choice(_SOME_THRESHOLDS))


def test_the_worlds_have_pairs_of_every_class() -> None:
    classes: Counter[ConflictClass] = Counter()
    for seed in range(100, 115):
        classes += _check(_world(Random(seed)), DEFAULT)
    assert set(classes) == set(ConflictClass)


@pytest.mark.parametrize("listed_min", [0, 100])
def test_pairs_at_a_threshold_are_told_apart_as_the_pairwise_call_does(
    monkeypatch: pytest.MonkeyPatch, listed_min: int
) -> None:
    monkeypatch.setattr(sides, "LISTED_MIN", listed_min)
    for bound in (0.1, -0.1, 0.7, 0.99, -0.95):
        steps = [bound + number * 1e-16 for number in range(-30, 31)]
        turned = [Embedding.dense((step, (1.0 - step * step) ** 0.5, 0.0)) for step in steps]
        deltas = [DeltaVector(vector, (b"k",)) for vector in (Embedding.dense((1.0, 0.0, 0.0)), *turned)]
        _check(deltas, DEFAULT)


@pytest.mark.parametrize("listed_min", [0, 100])
def test_whole_numbers_that_meet_a_threshold_are_told_apart_without_the_pairwise_call(
    monkeypatch: pytest.MonkeyPatch, listed_min: int
) -> None:
    monkeypatch.setattr(sides, "LISTED_MIN", listed_min)
    chance = Random(8)
    deltas = []
    for _ in range(40):
        held = dict.fromkeys(chance.sample(range(60), 10), 1.0)
        deltas.append(DeltaVector.of(Embedding.of(60, held), (b"%d" % chance.randrange(9),)))
    expected = {
        (one, other): detect_conflict(deltas[one], deltas[other]) for other in range(40) for one in range(other)
    }
    assert sum(result.cosine == 0.1 for result in expected.values()) > 50
    monkeypatch.setattr(batch, "cosine", None)
    found = {(pair.one, pair.other): pair.result for pair in detect_conflicts(deltas)}
    kept = {pair: one for pair, one in expected.items() if one.conflict_class is not ConflictClass.ORTHOGONAL}
    assert found.keys() == kept.keys()
    assert all(found[pair].conflict_class is one.conflict_class for pair, one in kept.items())


def test_all_pairs_are_compared_and_not_only_neighbours() -> None:
    east, north = Embedding.dense((1.0, 0.0)), Embedding.dense((0.0, 1.0))
    pairs = detect_conflicts([DeltaVector(vector, (b"k",)) for vector in (east, north, east, north)])
    assert [(pair.one, pair.other) for pair in pairs] == [(0, 2), (1, 3)]


@pytest.mark.parametrize("listed_min", [0, 100])
def test_two_sides_are_compared_row_by_row(monkeypatch: pytest.MonkeyPatch, listed_min: int) -> None:
    monkeypatch.setattr(sides, "LISTED_MIN", listed_min)
    deltas = [*_world(Random(3)), *_world(Random(4)), *_world(Random(9))]
    whole, _ = columns_of(deltas)
    cut = len(deltas) // 3
    found = list(compare(whole.slice(0, cut), whole.slice(cut, len(deltas)), DEFAULT))
    assert sum(one.pairs for one in found) == cut * (len(deltas) - cut)
    named = {
        (row, column + cut): CLASSES[number]
        for one in found
        for row, column, number in zip(one.rows.tolist(), one.columns.tolist(), one.classes.tolist(), strict=True)
    }
    assert len(named) == sum(len(one.rows) for one in found)
    for row in range(cut):
        for column in range(cut, len(deltas)):
            expected = detect_conflict(deltas[row], deltas[column]).conflict_class
            assert named.get((row, column), ConflictClass.ORTHOGONAL) is expected


@pytest.mark.parametrize("count", [0, 1, 2, 3, 700])
def test_every_pair_is_accounted_for(count: int) -> None:
    chance = np.random.default_rng(1)
    deltas = [
        DeltaVector.of(Embedding.of(64, {int(at): 1.0 for at in chance.integers(0, 64, 5)})) for _ in range(count)
    ]
    columns, _ = columns_of(deltas)
    found = list(compare(columns, None))
    assert sum(one.pairs for one in found) == count * (count - 1) // 2
    assert all(0 <= one.orthogonal <= one.pairs for one in found)
    assert sum(one.orthogonal + len(one.rows) for one in found) == count * (count - 1) // 2
