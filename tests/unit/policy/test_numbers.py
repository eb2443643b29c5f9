"""Numbers in common: for whom, and until when."""

import pytest

from bobbin.policy import numbers as module
from bobbin.policy.numbers import Numbers


def test_decisions_that_begin_get_the_same_numbers() -> None:
    numbers = Numbers()
    values = numbers.begin()
    values.encode("text")
    assert numbers.begin() is values


def test_when_most_texts_occur_nowhere_new_ones_are_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_TEXTS_MAX", 3)
    numbers = Numbers()
    values = numbers.begin()
    for number in range(6):
        values.encode(str(number))
    numbers.note(values, 2)
    assert numbers.begin() is values, "three, and twice two"
    values.encode("6")
    values.encode("7")
    later = numbers.begin()
    assert later is not values
    assert len(later) == 0
    numbers.note(values, 1_000)
    for number in range(4):
        later.encode(str(number))
    assert numbers.begin() is not later, "what older ones are used for says nothing"
