"""The estimate: good enough to ask for the right number of symbols, and safe against any counters."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.reconcile.estimate import COUNTERS, Bulk, MalformedBulk, estimate, measure
from bobbin.reconcile.short_ids import Ids


def _random_ids(generator: np.random.Generator, count: int) -> Ids:
    return generator.integers(1, 1 << 64, count, dtype=np.uint64)


@pytest.mark.parametrize("difference", [0, 10, 100, 1_000, 10_000])
def test_the_estimate_is_within_five_standard_errors(difference: int) -> None:
    generator = np.random.default_rng(difference)
    for _ in range(20):
        shared = _random_ids(generator, 20_000)
        ours = np.concatenate((shared, _random_ids(generator, difference // 2)))
        theirs = np.concatenate((shared, _random_ids(generator, difference - difference // 2)))

        guess = estimate(measure(ours), measure(theirs))

        assert abs(guess - difference) <= 5 * (2 / COUNTERS) ** 0.5 * difference


def test_the_estimates_are_right_on_average() -> None:
    generator = np.random.default_rng(8)
    shared = measure(_random_ids(generator, 1_000))
    guesses = []
    for _ in range(300):
        # As many on either side: the sizes alone say nothing, and cut off no guess that is too low.
        ours, theirs = (Bulk(1_100, shared.counters + measure(_random_ids(generator, 100)).counters) for _ in range(2))
        guesses.append(estimate(ours, theirs))

    assert abs(sum(guesses) / len(guesses) - 200) <= 8


def test_the_estimate_is_never_below_what_the_sizes_say_nor_above_their_sum() -> None:
    flat = np.zeros(COUNTERS, np.int64)

    assert estimate(Bulk(10, flat), Bulk(500, flat)) == 490
    assert estimate(Bulk(10, flat), Bulk(20, flat + 1_000)) == 30


def test_counters_are_seven_bits_at_a_time() -> None:
    counters = np.zeros(COUNTERS, np.int64)
    counters[:5] = [1, -1, 63, -64, 64]

    assert Bulk(1_000, counters).encode() == bytes.fromhex("02 01 7e 7f 8001") + bytes(COUNTERS - 5)


@given(st.lists(st.integers(-(2**50), 2**50), min_size=COUNTERS, max_size=COUNTERS))
def test_counters_come_back(counters: list[int]) -> None:
    bulk = Bulk(2**50, np.array(counters, np.int64))

    again = Bulk.decode(2**50, bulk.encode())

    assert again.size == 2**50
    assert again.counters.tolist() == counters


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "are no 128 counters"),
        (bytes(COUNTERS - 1), "are no 128 counters"),
        (bytes(COUNTERS + 1), "are no 128 counters"),
        (bytes(COUNTERS - 1) + b"\x80", "are no 128 counters"),
        (b"\x80\x00" + bytes(COUNTERS - 1), "more bytes than it needs"),
        (b"\xff" * 9 + b"\x01" + bytes(COUNTERS - 1), "too many bytes"),
        (b"\x7e" + bytes(COUNTERS - 1), "larger than the set"),
    ],
)
def test_bytes_that_are_no_counters_are_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(MalformedBulk, match=reason):
        Bulk.decode(10, raw)


@given(st.binary(max_size=400), st.integers(0, 2**40))
def test_any_bytes_are_counters_or_refused(raw: bytes, size: int) -> None:
    with suppress(MalformedBulk):
        assert Bulk.decode(size, raw).encode() == raw
