"""The table of phases: who says what, and what may follow."""

import pytest

from bobbin.tangles.ranges import Range
from bobbin.tangles.session_effects import Role
from bobbin.tangles.session_state import AWAITS, AWAITS_EMPTY, ROUND_OF, Channel, Run


def test_each_phase_is_answered_by_the_next() -> None:
    assert dict(AWAITS) == {said: (said + 1,) for said in range(1, 9)}


def test_a_side_that_has_nothing_gets_everything_at_once() -> None:
    assert {said: AWAITS_EMPTY[said][0] for said in (1, 2, 3)} == {1: 2, 2: 9, 3: 9}


def test_two_filters_belong_to_each_round() -> None:
    assert [ROUND_OF[phase] for phase in range(3, 9)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(("role", "first"), [(Role.OPENER, 1), (Role.ANSWERER, 2)])
def test_a_run_goes_through_its_phases(role: Role, first: int) -> None:
    run = Run(role)
    run.own_have = Range(0, 3)
    for said in range(first, 9, 2):
        run.said = said
        assert run.awaits == (said + 1,)
        run.check()
    run.said = 9
    assert run.awaits == ()
    run.check()


def test_invariants_are_noticed() -> None:
    run = Run(Role.OPENER)
    run.said = 2
    with pytest.raises(AssertionError, match="odd"):
        run.check()
    run.said = 1
    run.sendable["m"] = None
    with pytest.raises(AssertionError, match="filter"):
        run.check()
    wanting = Run(Role.ANSWERER)
    wanting.own_want = Range(0, 3)
    with pytest.raises(AssertionError, match="wanted"):
        wanting.check()
    superseded = Run(Role.OPENER)
    superseded.said, superseded.superseded = 1, True
    superseded.check()
    superseded.said = 3
    with pytest.raises(AssertionError, match="anew"):
        superseded.check()


def test_a_new_channel_has_nothing() -> None:
    channel = Channel()
    assert not channel.runs
    assert channel.own_want.is_empty
