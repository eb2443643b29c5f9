from random import Random

import numpy as np
import pytest

from bobbin.cluster.conflicts import sides
from bobbin.cluster.conflicts.columns import Columns, columns_of
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.conflicts.sides import meet, plan_of, side_of
from bobbin.cluster.geometry import Embedding, cosine


def _columns(seed: int, rows: int) -> Columns:
    chance = Random(seed)
    deltas = [
        DeltaVector.of(Embedding.of(50, {int(50 * chance.random() ** 3): chance.gauss(0, 1) for _ in range(6)}))
        for _ in range(rows)
    ]
    return columns_of(deltas)[0]


def test_frequent_positions_become_columns_and_rare_ones_do_not() -> None:
    common = [DeltaVector.of(Embedding.of(300, {7: 1.0, 100 + number: 1.0})) for number in range(100)]
    plan = plan_of(columns_of(common)[0], None)
    assert plan.width == 1
    assert plan.column_of[7] == 0
    assert (plan.column_of[100:200] == -1).all()


def test_nothing_needs_no_plan() -> None:
    assert plan_of(columns_of([])[0], None).width == 0
    assert plan_of(columns_of([DeltaVector.of(Embedding.zero(3))])[0], None).width == 0


@pytest.mark.parametrize("listed", [0, 3, 1_000])
@pytest.mark.parametrize("meetings_max", [1, 20, 1 << 21])
def test_columns_and_index_together_have_every_product_and_every_shared_position(
    monkeypatch: pytest.MonkeyPatch, listed: int, meetings_max: int
) -> None:
    monkeypatch.setattr(sides, "LISTED_MIN", listed)
    monkeypatch.setattr(sides, "MEETINGS_MAX", meetings_max)
    one, other = _columns(1, 25), _columns(2, 18)
    plan = plan_of(one, other)
    here, there = side_of(one, plan, 0, 25), side_of(other, plan, 3, 18)
    assert (plan.width == 0) == (listed == 1_000)
    products = here.directions @ there.directions.T
    shared = here.marks @ there.marks.T
    met = meet(here.index, there.index.by_position(), there.rows)
    products.ravel()[met.pairs] += met.products
    shared.ravel()[met.pairs] += met.shared
    assert (np.diff(met.pairs) > 0).all()
    for row in range(25):
        for column in range(15):
            ours, theirs = one.embedding(row), other.embedding(column + 3)
            assert products[row, column] == pytest.approx(cosine(ours, theirs), abs=1e-12)
            assert shared[row, column] == len(set(ours.positions) & set(theirs.positions))


def test_an_index_can_be_cut_to_some_rows() -> None:
    columns = _columns(3, 10)
    whole = side_of(columns, plan_of(columns_of([])[0], columns), 0, 10)
    assert whole.first == 0
    index = whole.index
    part = index.within(4, 7)
    assert part.rows.tolist() == [row - 4 for row in index.rows.tolist() if 4 <= row < 7]
    assert index.by_position().cut(8).rows.min() >= 0
    assert sorted(index.by_position().cut(8).values.tolist()) == sorted(index.within(8, 10).values.tolist())


def test_odd_rows_have_no_direction_and_say_so() -> None:
    columns, _ = columns_of([DeltaVector(Embedding.dense((1e200, 1.0)), ()), DeltaVector(Embedding.dense((1.0,)), ())])
    side = side_of(columns, plan_of(columns, None), 0, 2)
    assert side.is_odd.tolist() == [True, False]
    assert side.index.values.tolist() == [0.0, 0.0, 1.0]
