from random import Random

import numpy as np
import pytest

from bobbin.cluster.conflicts import shared_keys as module
from bobbin.cluster.conflicts.columns import columns_of
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.conflicts.shared_keys import shared_keys
from bobbin.cluster.geometry import Embedding


@pytest.mark.parametrize("listed_max", [1, 7, 1 << 21])
def test_shared_keys_are_those_of_sets(monkeypatch: pytest.MonkeyPatch, listed_max: int) -> None:
    monkeypatch.setattr(module, "_LISTED_MAX", listed_max)
    chance = Random(5)
    kept = [frozenset(b"%d" % chance.randrange(90) for _ in range(chance.randrange(9))) for _ in range(40)]
    columns, keys = columns_of([DeltaVector.of(Embedding.zero(1), own) for own in kept])
    rows, others = (side.ravel() for side in np.meshgrid(np.arange(40), np.arange(40), indexing="ij"))
    found = shared_keys(columns, columns, rows, others)
    for pair, (row, other) in enumerate(zip(rows.tolist(), others.tolist(), strict=True)):
        assert [keys[number] for number in found.of(pair)] == sorted(kept[row] & kept[other])
    assert found.counts.sum() == len(found.numbers)


def test_without_keys_or_pairs_nothing_is_shared() -> None:
    bare, _ = columns_of([DeltaVector.of(Embedding.zero(1)), DeltaVector.of(Embedding.zero(1))])
    assert shared_keys(bare, bare, np.array([0]), np.array([1])).counts.tolist() == [0]
    nobody = np.empty(0, np.int64)
    assert shared_keys(bare, bare, nobody, nobody).counts.tolist() == []
