"""Turns, medians and ratios within a round."""

import pytest

from benchmarks.rounds import rate_of, rate_row, ratio_row, setting, take_turns


def test_alternatives_take_turns_and_every_other_round_goes_backwards() -> None:
    order: list[str] = []

    def note(name: str) -> float:
        order.append(name)
        return float(len(order))

    rates = take_turns({"a": lambda: note("a"), "b": lambda: note("b")}, rounds=3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert rates == {"a": [1, 4, 5], "b": [2, 3, 6]}


def test_a_ratio_is_the_median_of_the_ratios_within_each_round() -> None:
    # The middle round was slow for both: by medians of the rates the ratio would be 10 / 100.
    rates = {"mine": [10.0, 1.0, 30.0], "theirs": [100.0, 2.0, 100.0]}
    ratio = ratio_row("mine / theirs", rates, "mine", "theirs", bar=0.25, stretch=0.5)
    assert ratio.value == 0.3
    assert ratio.verdict == "pass, stretch missed"
    assert "3 rounds, 0.1 to 0.5" in ratio.note


def test_a_rate_is_the_median_of_the_rounds() -> None:
    row = rate_row("mine", {"mine": [3.0, 1.0, 200.0]}, "mine", unit="things/s")
    assert (row.value, row.unit) == (3, "things/s")


def test_a_rate_counts_what_was_done() -> None:
    calls: list[int] = []
    assert rate_of(lambda: calls.append(1), 1000) > 0
    assert calls == [1]


def test_the_environment_may_change_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert setting("SOME_SIZE", 5) == 5
    monkeypatch.setenv("BOBBIN_BENCH_SOME_SIZE", "7")
    assert setting("SOME_SIZE", 5) == 7
