"""The hash of filters: every recorded value, and items of all lengths hashed together or alone."""

from hypothesis import given
from hypothesis import strategies as st

from bobbin.tangles.bloom import SEED
from bobbin.tangles.bloom_hash import pairs
from tests.vectors.load import load


def test_recorded_values() -> None:
    rows = load("pzp/bloom/hash.json")["rows"]
    first, second = pairs([row["item"].encode() for row in rows], SEED)
    assert first.tolist() == [row["first"] for row in rows]
    assert second.tolist() == [row["second"] for row in rows]


def test_only_the_low_half_of_the_seed_counts() -> None:
    items = [b"0" + bytes([65 + n]) * 43 for n in range(5)]
    low = pairs(items, SEED & 0xFFFFFFFF)
    assert [numbers.tolist() for numbers in pairs(items, SEED)] == [numbers.tolist() for numbers in low]


@given(st.lists(st.binary(max_size=80), max_size=12))
def test_items_do_not_influence_each_other(items: list[bytes]) -> None:
    first, second = pairs(items, SEED)
    alone = [pairs([item], SEED) for item in items]
    assert first.tolist() == [int(one[0][0]) for one in alone]
    assert second.tolist() == [int(one[1][0]) for one in alone]


def test_no_items() -> None:
    first, second = pairs([], SEED)
    assert len(first) == len(second) == 0
