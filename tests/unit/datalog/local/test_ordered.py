"""Values in the order of their texts."""

from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.local import ordered as module
from bobbin.datalog.local.ordered import OrderedValues
from bobbin.datalog.local.values import Values

TEXT = st.text("abc", max_size=3)


@given(st.lists(TEXT, max_size=10), st.lists(TEXT, max_size=10), TEXT, TEXT)
def test_a_range_is_what_a_scan_would_find(first: list[str], later: list[str], low: str, high: str) -> None:
    values = Values()
    ordered = OrderedValues(values, [values.encode(text) for text in first])
    ordered.add([values.encode(text) for text in later])
    found = [values.texts[number] for number in ordered.between(low, high)]
    assert sorted(found) == sorted({text for text in [*first, *later] if low <= text <= high})


def test_many_later_values_are_merged() -> None:
    values = Values()
    ordered = OrderedValues(values, [])
    count = module._LATE_MAX + 10
    ordered.add([values.encode(f"{number:06d}") for number in reversed(range(count))])
    assert [values.texts[number] for number in ordered.between("000003", "000005")] == ["000003", "000004", "000005"]
    assert len(ordered.between("", "9")) == count
