"""Random policies compile, and are what they say about themselves."""

from random import Random

from bobbin.policy.modules import compile_query, compile_selector
from bobbin.simulator.policies import Choice, choose
from bobbin.simulator.population import populate


def choices(count: int) -> list[Choice]:
    population = populate(Random(0), 8)
    names = [record.hash for record in population.records]
    return [choose(Random(seed), population.verifiers, names, proven=True) for seed in range(count)]


def test_every_policy_compiles() -> None:
    for choice in choices(150):
        assert compile_selector(choice.selector).identifier.startswith("R.")
        assert choice.query is None or compile_query(choice.query).identifier


def test_what_is_called_monotone_has_no_negation_in_its_selector() -> None:
    found = choices(150)
    assert {choice.is_monotone for choice in found} == {True, False}
    assert not any("not " in choice.selector for choice in found if choice.is_monotone)


def test_what_settles_offers_nothing_by_what_the_other_side_offers() -> None:
    found = choices(400)
    offering = [line for choice in found if choice.settles for line in choice.selector.splitlines()]
    assert not [line for line in offering if line.startswith("SelectHave") and "Advertised" in line]
    assert any(not choice.settles for choice in found)


def test_time_windows_are_marked() -> None:
    assert all(choice.is_timed == ("TAI(" in choice.selector) for choice in choices(150))
