"""Values in the order of their texts."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bobbin.datalog.local import ordered as module
from bobbin.datalog.local.ordered import OrderedValues
from bobbin.datalog.local.values import Values

TEXT = st.text("abc", max_size=3)


def ordered_of(values: Values, texts: list[str]) -> OrderedValues:
    return OrderedValues(values, values.encode_many(texts))


@given(st.lists(TEXT, max_size=10), st.lists(TEXT, max_size=10), TEXT, TEXT)
def test_a_range_is_what_a_scan_would_find(first: list[str], later: list[str], low: str, high: str) -> None:
    values = Values()
    ordered = ordered_of(values, first)
    ordered.add([values.encode(text) for text in later])
    found = [values.texts[number] for number in ordered.between(low, high)]
    assert sorted(found) == sorted({text for text in [*first, *later] if low <= text <= high})


def test_many_later_values_are_merged() -> None:
    values = Values()
    ordered = OrderedValues(values, np.empty(0, dtype=np.int32))
    count = module._LATE_MAX + 10
    ordered.add([values.encode(f"{number:06d}") for number in reversed(range(count))])
    assert [values.texts[number] for number in ordered.between("000003", "000005")] == ["000003", "000004", "000005"]
    assert len(ordered.between("", "9")) == count


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_the_order_is_that_of_texts(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", chunk)

    @given(st.lists(st.text(max_size=12), max_size=12))
    @example(["a\0", "a", "a\0\0", "", "\0", "a\0b"])
    @example(["a" * 24 + "b", "a" * 24, "é" * 12, "\U0001f5a7", "￿", "z"])
    @example(["a" * 30, "a" * 29 + "\0", "b"])
    def law(texts: list[str]) -> None:
        values = Values()
        ordered = ordered_of(values, texts)
        assert [values.texts[number] for number in ordered.between("", "\U0010ffff" * 40)] == sorted(set(texts))

    law()
