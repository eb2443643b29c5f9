"""What an evaluation may spend, and which limit it names when that is not enough."""

from collections.abc import Callable

import pytest

from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import Budget, LimitExceeded
from bobbin.errors import ProgramError


def test_up_to_the_limit_all_is_well_and_one_more_is_an_error() -> None:
    budget = Budget(Limits(steps_max=10, derived_tuples_max=5, rounds_max=2, held_rows_max=7))
    budget.spend_steps(10)
    budget.spend_tuples(5)
    budget.spend_round()
    budget.spend_round()
    budget.check_held(7)
    spends: list[tuple[Callable[[], None], str]] = [
        (lambda: budget.spend_steps(1), "steps_max"),
        (lambda: budget.spend_tuples(1), "derived_tuples_max"),
        (lambda: budget.check_tuples(1), "derived_tuples_max"),
        (budget.spend_round, "rounds_max"),
        (lambda: budget.check_held(8), "held_rows_max"),
    ]
    for spend, name in spends:
        with pytest.raises(LimitExceeded) as caught:
            spend()
        assert caught.value.limit == name
        assert isinstance(caught.value, ProgramError)


def test_tuples_that_wait_are_checked_but_not_spent() -> None:
    budget = Budget(Limits(derived_tuples_max=5))
    budget.check_tuples(5)
    budget.check_tuples(5)
    assert budget.tuples == 0
