"""Which words may be true."""

import pytest

from bobbin.cluster.membership.admission import LEAP, TIME_LEAP_MAX, Hearing, why_refused
from bobbin.cluster.membership.messages import Health
from bobbin.cluster.names import NodeId
from tests.unit.cluster.membership.driven import A, B, C, word

HELD = word(B, Health.HEALTHY, 5)


def refused(incarnation: int, *, held: Health = Health.HEALTHY, sender: NodeId = C, node: NodeId = B) -> str | None:
    hearing = Hearing(A, 10, sender, 10)
    return why_refused(word(node, Health.FAILED, incarnation, by=C), word(node, held, 5), hearing, 100)


def test_a_leap_of_more_than_100_is_not_believed_and_100_is() -> None:
    assert refused(105) is None
    assert refused(106) == LEAP
    assert refused(106, held=Health.DEGRADED) == LEAP


def test_a_node_may_leap_by_its_own_word_and_words_about_oneself_are_heard() -> None:
    assert refused(10**6, sender=B) is None
    assert refused(10**6, node=A) is None


@pytest.mark.parametrize("held", [Health.UNKNOWN, Health.FAILED])
def test_of_a_node_that_is_not_there_one_has_to_learn(held: Health) -> None:
    assert refused(10**6, held=held) is None
    assert refused(2**63 + 1, held=held) == "incredible incarnation"


def test_no_word_is_later_than_the_clock_of_who_tells_it() -> None:
    hearing = Hearing(A, 10, C, 20)
    assert why_refused(word(B, Health.HEALTHY, 6, at=20), HELD, hearing, 100) is None
    assert why_refused(word(B, Health.HEALTHY, 6, at=21), HELD, hearing, 100) == "stamp ahead of the clock"


def test_no_clock_is_centuries_ahead() -> None:
    for ahead, reason in ((0, None), (1, "stamp ahead of the clock")):
        hearing = Hearing(A, 10, C, 10 + TIME_LEAP_MAX + ahead)
        assert why_refused(word(B, Health.HEALTHY, 6), HELD, hearing, 100) == reason


def test_strangers_are_not_spoken_of() -> None:
    assert why_refused(word(B, Health.HEALTHY, 6), None, Hearing(A, 10, C, 10), 100) == "not a member"
