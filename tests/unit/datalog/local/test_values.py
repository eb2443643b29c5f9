"""Numbers for texts: given once, the same for ever, also when the texts have moved to the archive."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.local import values as module
from bobbin.datalog.local.values import Values


@pytest.fixture(autouse=True)
def _archive_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_YOUNG_MIN", 5)


def test_a_text_keeps_its_number_when_it_is_archived() -> None:
    values = Values()
    texts = [f"text {number}" for number in range(50)]
    numbers = [values.encode(text) for text in texts]
    assert numbers == list(range(50))
    assert [values.encode(text) for text in texts] == numbers
    assert [values.texts[number] for number in numbers] == texts
    assert len(values) == 50


def test_find_gives_no_numbers() -> None:
    values = Values()
    values.encode("a")
    assert values.find("a") == 0
    assert values.find("b") is None
    assert len(values) == 1


def test_rows_go_there_and_back() -> None:
    values = Values()
    row = ("é", "", "日本", "é", "\U0001f5a7")
    assert values.decode_row(values.encode_row(row)) == row


@given(st.lists(st.lists(st.text(max_size=3), max_size=20), max_size=8))
def test_many_at_once_is_one_after_the_other(batches: list[list[str]]) -> None:
    single, many = Values(), Values()
    for batch in batches:
        expected = [single.encode(text) for text in batch]
        assert many.encode_many(batch).tolist() == expected


def test_texts_with_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "hash", lambda _text: 7, raising=False)
    values = Values()
    texts = [str(number) for number in range(20)]
    numbers = [values.encode(text) for text in texts]
    assert numbers == list(range(20))
    assert values.encode_many(texts).tolist() == numbers
    assert values.find("nowhere") is None


def test_numbers_are_what_columns_hold() -> None:
    assert Values().encode_many(["a", "b", "a"]).dtype == np.int32


def test_a_very_long_archive_counts_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NARROW_MAX", 40)
    values = Values()
    texts = [f"text {number}" for number in range(50)]
    numbers = values.encode_many(texts).tolist()
    more = [values.encode(f"more {number}") for number in range(50)]
    assert [values.texts[number] for number in numbers] == texts
    assert [values.texts[number] for number in more] == [f"more {number}" for number in range(50)]


def test_texts_at_hand_are_bounded_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RECENT_MAX", 3)
    values = Values()
    texts = [str(number) for number in range(50)]
    values.encode_many(texts)
    for _ in range(2):
        assert [values.encode(text) for text in texts] == list(range(50))
        assert len(values._recent) <= 3


@pytest.mark.parametrize("young_min", [5, 1_000])
def test_many_are_spelled_at_once(young_min: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_YOUNG_MIN", young_min)
    values = Values()
    texts = [f"text {number % 40}" for number in range(90)]
    assert values.texts.spell(values.encode_many(texts)) == texts
    mixed = ["new", *texts[:3], "text 39", "newer", "new"]
    assert values.texts.spell(values.encode_many(mixed)) == mixed
    assert len(values) == 42
