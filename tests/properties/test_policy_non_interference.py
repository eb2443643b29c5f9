"""A peer's rules never feel a record outside their view: not in what they derive, not in where a budget stops them."""

from random import Random

import pytest

from tests.policy_worlds import random_interference

_CASES = 150


@pytest.mark.slow
def test_stores_that_differ_outside_the_view_look_the_same_to_the_peer() -> None:
    """The whole count is in `make evidence`. Most pairs must be ones that a leak would show in."""
    telling = 0
    for seed in range(_CASES):
        pair = random_interference(Random(seed))
        if pair.view_moved or not pair.changed:
            continue
        assert pair.same_results, f"seed {seed}: a hidden record changed what this module derives:\n{pair.program}"
        telling += not pair.same_results_unfiltered
    assert telling > _CASES // 3
