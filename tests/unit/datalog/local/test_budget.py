import pytest

from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import OVERHEAD_FREE, Budget, LimitExceeded
from bobbin.errors import ProgramError


@pytest.mark.parametrize(
    ("limits", "spend", "limit"),
    [
        (Limits(steps_max=10), "spend_steps", "steps_max"),
        (Limits(derived_tuples_max=10), "spend_tuples", "derived_tuples_max"),
        (Limits(computed_values_max=10), "spend_values", "computed_values_max"),
    ],
)
def test_what_is_spent_adds_up_to_exactly_the_limit(limits: Limits, spend: str, limit: str) -> None:
    budget = Budget(limits)
    for _ in range(5):
        getattr(budget, spend)(2)
    with pytest.raises(LimitExceeded, match="more than 10") as caught:
        getattr(budget, spend)(1)
    assert caught.value.limit == limit
    assert isinstance(caught.value, ProgramError)


def test_plans_and_calls_are_charged_beyond_those_of_an_ordinary_program() -> None:
    budget = Budget(Limits(steps_max=100))
    budget.spend_overhead(OVERHEAD_FREE - 50)
    budget.spend_overhead(50)
    assert budget.steps == 0
    budget.spend_overhead(100)
    assert budget.steps == 100
    with pytest.raises(LimitExceeded) as caught:
        budget.spend_overhead(1)
    assert caught.value.limit == "steps_max"
    crossing = Budget(Limits())
    crossing.spend_overhead(OVERHEAD_FREE + 7)
    assert crossing.steps == 7


def test_rounds() -> None:
    budget = Budget(Limits(rounds_max=2))
    budget.spend_round()
    budget.spend_round()
    with pytest.raises(LimitExceeded, match="within 2 rounds") as caught:
        budget.spend_round()
    assert caught.value.limit == "rounds_max"


def test_what_waits_counts_but_is_not_spent() -> None:
    budget = Budget(Limits(derived_tuples_max=10, computed_values_max=10))
    budget.spend_tuples(7)
    budget.spend_values(7)
    for check in (budget.check_tuples, budget.check_values):
        check(3)
        check(3)
        with pytest.raises(LimitExceeded):
            check(4)
    assert (budget.tuples, budget.values) == (7, 7)


def test_tuples_that_go_make_room() -> None:
    budget = Budget(Limits(derived_tuples_max=10))
    budget.spend_tuples(10)
    budget.return_tuples(4)
    assert budget.tuples_left == 4
    budget.spend_tuples(4)
    with pytest.raises(LimitExceeded):
        budget.spend_tuples(1)


def test_held_rows_do_not_add_up() -> None:
    budget = Budget(Limits(held_cells_max=10))
    budget.check_held(10)
    budget.check_held(10)
    with pytest.raises(LimitExceeded, match="more than 10 values at once") as caught:
        budget.check_held(11)
    assert caught.value.limit == "held_cells_max"
