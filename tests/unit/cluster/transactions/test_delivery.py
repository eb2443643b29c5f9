"""When a decision is told again, and when not any more (CL-144, 162)."""

import pytest

from bobbin.cluster.settings import DistributedTxConfig
from bobbin.cluster.transactions.delivery import Delivery
from tests.unit.cluster.transactions.driven import DEFAULT, ONE, TWO


def _moments(delivery: Delivery, until_ms: int) -> list[int]:
    """When anybody is told again."""
    found = []
    for _ in range(1_000):
        if delivery.is_over or delivery.due_ms > until_ms:
            break
        now_ms = delivery.due_ms
        assert delivery.repeat(now_ms - 1) == ()
        if delivery.repeat(now_ms):
            found.append(now_ms)
    return found


def test_an_abort_is_told_again_after_1_2_4_8_and_16_seconds() -> None:
    delivery = Delivery((ONE, TWO), commits=False, config=DEFAULT, now_ms=100)
    assert _moments(delivery, 10**9) == [1_100, 2_100, 4_100, 8_100, 16_100]
    assert delivery.is_given_up
    assert delivery.due_ms == 30_100


@pytest.mark.parametrize(
    ("tries", "forget_ms", "moments", "over_ms"),
    [(2, 30_000, [1_000, 2_000], 4_000), (5, 5_000, [1_000, 2_000, 4_000], 5_000), (9, 100, [], 100)],
)
def test_an_abort_is_over_after_so_many_tries_or_so_long(
    tries: int, forget_ms: int, moments: list[int], over_ms: int
) -> None:
    config = DistributedTxConfig(abort_tries_max=tries, abort_forget_ms=forget_ms)
    delivery = Delivery((ONE,), commits=False, config=config, now_ms=0)
    assert _moments(delivery, 10**9) == moments
    assert (delivery.is_given_up, delivery.due_ms) == (True, over_ms)


def test_a_commit_is_never_given_up() -> None:
    delivery = Delivery((ONE,), commits=True, config=DEFAULT, now_ms=0)
    moments = _moments(delivery, 10_000_000)
    assert moments[:6] == [2_000, 6_000, 14_000, 30_000, 60_000, 90_000]
    assert len(moments) > 300
    assert (delivery.is_over, delivery.is_given_up) == (False, False)


@pytest.mark.parametrize("commits", [True, False])
def test_whoever_has_acknowledged_is_not_told_again(*, commits: bool) -> None:
    delivery = Delivery((ONE, TWO), commits=commits, config=DEFAULT, now_ms=0)
    delivery.acknowledge(ONE)
    assert (delivery.waiting, delivery.acknowledged) == ([TWO], [ONE])
    assert delivery.repeat(delivery.due_ms) == (TWO,)
    delivery.acknowledge(TWO)
    assert delivery.is_over
    assert delivery.repeat(10**9) == ()
    assert not delivery.is_given_up


def test_after_a_leap_of_the_clock_an_abort_is_told_once() -> None:
    delivery = Delivery((ONE,), commits=False, config=DEFAULT, now_ms=0)
    assert delivery.repeat(5_000) == (ONE,)
    assert delivery.due_ms == 8_000
    assert delivery.repeat(5_001) == ()


def test_nobody_to_tell_is_over_at_once() -> None:
    assert Delivery((), commits=True, config=DEFAULT, now_ms=0).is_over
