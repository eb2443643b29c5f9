"""Texts in order, in blocks, are a sorted set."""

from random import Random

import pytest

from bobbin.reactive import sorted_keys
from bobbin.reactive.sorted_keys import BLOCK_MAX, SortedKeys


def test_keys_are_held_in_order_and_once() -> None:
    keys = SortedKeys(["b", "a", "b", "c"])
    keys.check()
    assert list(keys) == ["a", "b", "c"]
    assert len(keys) == 3
    assert "b" in keys
    assert "" not in keys
    assert "bb" not in keys


def test_putting_in_and_taking_out_say_whether_they_did() -> None:
    keys = SortedKeys()
    assert keys.add("m")
    assert not keys.add("m")
    assert keys.add("a")
    assert not keys.discard("")
    assert not keys.discard("b")
    assert not keys.discard("z")
    assert keys.discard("a")
    assert keys.discard("m")
    assert not keys.discard("m")
    assert list(keys) == []
    keys.check()


def test_a_page_is_a_part_of_the_order() -> None:
    every = [f"{number:05d}" for number in range(3 * BLOCK_MAX)]
    keys = SortedKeys(every)
    for begin, count in ((0, 3), (0, 0), (BLOCK_MAX // 2 - 2, 5), (BLOCK_MAX, 2 * BLOCK_MAX), (3 * BLOCK_MAX - 1, 9)):
        assert keys.page(begin, count) == every[begin : begin + count]
    assert keys.page(3 * BLOCK_MAX, 1) == []


def test_a_block_that_grows_is_divided_and_one_that_empties_goes() -> None:
    keys = SortedKeys()
    for number in range(2 * BLOCK_MAX):
        keys.add(f"{number:05d}")
    keys.check()
    assert len(keys._blocks) > 1
    for number in range(2 * BLOCK_MAX):
        assert keys.discard(f"{number:05d}")
        if number % 500 == 0:
            keys.check()
    assert keys._blocks == []


def test_a_change_tells_what_came_of_it() -> None:
    keys = SortedKeys(["a", "b", "c"])
    assert keys.change(added=["c", "d", "b"], removed=["a", "b", "x"]) == (["d"], ["a"])
    assert list(keys) == ["b", "c", "d"]


def test_many_changes_at_once_come_to_the_same_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_keys, "BLOCK_MAX", 4)
    random = Random(5)
    for _ in range(200):
        names = [f"{number:02d}" for number in range(40)]
        before = set(random.sample(names, random.randrange(40)))
        added, removed = (random.sample(names, random.choice((0, 1, 3, 30))) for _ in range(2))
        keys = SortedKeys(before)
        new, gone = keys.change(added=added, removed=removed)
        keys.check()
        after = (before - set(removed)) | set(added)
        assert list(keys) == sorted(after)
        assert new == sorted(after - before)
        assert gone == sorted(before - after)
