"""Keys in ascending order."""

from random import Random

import pytest

from bobbin.cluster import sorted_keys
from bobbin.cluster.sorted_keys import RUN_MAX, SortedKeys


@pytest.mark.parametrize("run_max", [2, 3, 8])
def test_it_is_a_sorted_set_whatever_comes_and_goes(monkeypatch: pytest.MonkeyPatch, run_max: int) -> None:
    monkeypatch.setattr(sorted_keys, "RUN_MAX", run_max)
    random = Random(run_max)
    begun = [b"%02d" % number for number in range(0, 60, 5)]
    keys, model = SortedKeys(begun), set(begun)
    for step in range(2_000):
        key = b"%02d" % random.randrange(100)
        # It grows, and then it empties.
        if key in model and (step > 1_000 or random.random() < 0.5):
            keys.remove(key)
            model.discard(key)
        elif key not in model and step <= 1_000:
            keys.add(key)
            model.add(key)
        first = b"%03d" % random.randrange(1_000)
        assert list(keys) == sorted(model)
        assert list(keys.since(first)) == sorted(known for known in model if known >= first)
        assert all(0 < len(run) <= run_max for run in keys._runs)
    assert len(model) < 5


def test_what_moves_for_one_key_does_not_grow_with_the_table() -> None:
    keys = SortedKeys(b"%06d" % number for number in range(0, 100_000, 2))
    for number in range(1, 20_001, 2):
        keys.add(b"%06d" % number)
    assert max(map(len, keys._runs)) <= RUN_MAX
    assert len(list(keys)) == 60_000
    assert next(keys.since(b"000001")) == b"000001"


def test_a_key_that_is_not_here_is_not_taken_away() -> None:
    keys = SortedKeys([b"a", b"c"])
    with pytest.raises(AssertionError, match="not here"):
        keys.remove(b"b")
    assert list(SortedKeys()) == list(SortedKeys().since(b"")) == []
