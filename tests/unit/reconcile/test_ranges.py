"""Stretches of an ordered set: their fingerprints are sums, and cutting loses nothing."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.reconcile.ranges import KEY_MAX, Fingerprint, Interval, Ordered

keys_of = st.one_of(st.integers(0, 20), st.integers(0, KEY_MAX))
items_of = st.dictionaries(st.integers(1, KEY_MAX), keys_of, max_size=60)
intervals = st.tuples(keys_of, keys_of).map(lambda pair: Interval(min(pair), max(pair)))


def _ordered(items: dict[int, int]) -> Ordered:
    return Ordered(np.array(list(items.values()), np.uint64), np.array(list(items), np.uint64))


@given(items_of, intervals)
def test_a_fingerprint_counts_and_adds_the_ids_inside(items: dict[int, int], interval: Interval) -> None:
    inside = [id for id, key in items.items() if interval.low <= key <= interval.high]

    ordered = _ordered(items)

    assert ordered.fingerprint(interval) == Fingerprint(interval, len(inside), sum(inside) % 2**64)
    assert sorted(ordered.ids(interval).tolist()) == sorted(inside)
    assert ordered.agrees(Fingerprint(interval, len(inside), sum(inside) % 2**64))
    assert not ordered.agrees(Fingerprint(interval, len(inside), (sum(inside) + 1) % 2**64))


@given(items_of, intervals, st.integers(1, 12))
def test_a_cut_interval_is_covered_once(items: dict[int, int], interval: Interval, parts: int) -> None:
    ordered = _ordered(items)

    pieces = ordered.split(interval, parts)

    assert 1 <= len(pieces) <= parts
    assert pieces[0].low == interval.low
    assert pieces[-1].high == interval.high
    assert all(later.low == earlier.high + 1 for earlier, later in pairwise(pieces))
    assert sum(ordered.fingerprint(piece).count for piece in pieces) == ordered.fingerprint(interval).count


@given(items_of, st.lists(intervals, max_size=6))
def test_what_was_asked_before_changes_no_answer(items: dict[int, int], asked: list[Interval]) -> None:
    """Ids are sorted as far back as was asked."""
    together = _ordered(items)

    for interval in asked:
        alone = _ordered(items)
        assert together.fingerprint(interval) == alone.fingerprint(interval)
        assert together.ids(interval).tolist() == alone.ids(interval).tolist()
        assert together.split(interval, 3) == alone.split(interval, 3)
        assert together.recent((7, 2)) == alone.recent((7, 2))


def test_ids_of_one_key_stay_in_the_order_in_which_they_came() -> None:
    ids = [9, 3, 7, 1, 5]
    ordered = Ordered(np.array([4, 8, 4, 8, 4], np.uint64), np.array(ids, np.uint64))

    assert ordered.ids(Interval()).tolist() == [9, 7, 5, 3, 1]


def test_parts_hold_about_equally_many() -> None:
    ordered = _ordered({id: id for id in range(1, 1_001)})

    assert [ordered.fingerprint(piece).count for piece in ordered.split(Interval(), 4)] == [250, 250, 250, 250]


def test_the_recent_ids_are_cut_off_by_their_number() -> None:
    ordered = _ordered({id: id * 10 for id in range(1, 101)})

    pieces = ordered.recent((500, 50, 10, 1))

    assert [piece.low for piece in pieces] == [0, 510, 910, 1_000]
    assert [ordered.fingerprint(piece).count for piece in pieces] == [50, 40, 9, 1]


def test_equal_keys_stay_together() -> None:
    ordered = _ordered(dict.fromkeys(range(1, 101), 7))

    assert ordered.split(Interval(), 4) == (Interval(0, 6), Interval(7, KEY_MAX))
    assert ordered.recent((3,)) == (Interval(0, 6), Interval(7, KEY_MAX))


def test_an_empty_set_has_one_empty_stretch() -> None:
    ordered = _ordered({})

    assert ordered.recent((4, 2)) == (Interval(),)
    assert ordered.split(Interval(), 4) == (Interval(),)
    assert ordered.fingerprint(Interval()) == Fingerprint(Interval(), 0, 0)
    assert len(ordered) == 0


@pytest.mark.parametrize(("low", "high"), [(2, 1), (-1, 4), (0, 2**64)])
def test_an_interval_that_is_none_is_refused(low: int, high: int) -> None:
    with pytest.raises(UsageError, match="there are no keys"):
        Interval(low, high)


def test_an_id_without_a_key_is_refused() -> None:
    with pytest.raises(UsageError, match="one key"):
        Ordered(np.zeros(1, np.uint64), np.zeros(2, np.uint64))
