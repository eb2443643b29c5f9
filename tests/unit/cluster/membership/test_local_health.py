"""A node's opinion of itself: between nothing and a bound, and a factor of its timeouts."""

from bobbin.cluster.membership.local_health import LocalHealth


def test_the_score_stays_between_its_bounds() -> None:
    health = LocalHealth(3)
    health.improve()
    assert health.score == 0
    health.worsen(2)
    health.worsen(5)
    assert health.score == 3
    health.improve()
    assert health.score == 2


def test_timeouts_grow_with_the_score() -> None:
    health = LocalHealth(8)
    assert health.stretch(100) == 100
    health.worsen(8)
    assert health.stretch(100) == 900
