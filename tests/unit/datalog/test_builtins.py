import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog import builtins
from bobbin.datalog.builtins import BUILTINS, Function, holds
from bobbin.records import tai
from tests.oracle import naive

TEXTS = st.text(st.sampled_from("aAbé€𝄞￿\n0'19/ "), max_size=6)
DECIMALS = st.integers(0, 10**25).map(str) | st.sampled_from(
    ["", "00", "01", "-1", "+1", "1.0", "1e3", "٣", "１", " 1"]
)
TIMES = st.integers(0, tai.TAI_MAX).map(tai.render) | st.sampled_from(
    ["", "1640995200", "1640995200:00000000", "0000000000:000000000", "9999999999:999999999", "١640995200:000000000"]
)


def value(builtin: str, time: str, amount: str) -> str | None:
    function = BUILTINS[builtin]
    assert isinstance(function, Function)
    return function.value(time, amount)


def test_the_list_of_the_companion() -> None:
    assert {name: builtin.arity for name, builtin in BUILTINS.items()} == {
        **dict.fromkeys(naive.TESTS, 2),
        **dict.fromkeys(naive.FUNCTIONS, 3),
    }
    assert all(isinstance(BUILTINS[name], builtins.Test) for name in naive.TESTS)


@pytest.mark.parametrize(
    ("builtin", "left", "right", "truth"),
    [
        ("Eq", "a", "a", True),
        ("Eq", "a", "A", False),
        ("Eq", "1", "01", False),
        ("Ne", "1", "1.0", True),
        ("Ne", "", "", False),
        ("Lt", "9", "10", False),
        ("Lt", "", "a", True),
        ("Lt", "a", "a", False),
        ("Le", "a", "a", True),
        ("Gt", "b", "a", True),
        ("Gt", "a", "a", False),
        ("Ge", "a", "a", True),
        ("Lt", "Z", "a", True),
        # UTF-16 would put the second before the first: it begins with a surrogate.
        ("Lt", "￿", "𝄞", True),
        ("StartsWith", "links/1", "links/", True),
        ("StartsWith", "links/", "links/1", False),
        ("StartsWith", "x", "", True),
        ("StartsWith", "a.c", "a.", True),
        ("StartsWith", "abc", "a.", False),
        ("EndsWith", "a/b", "/b", True),
        ("EndsWith", "/b", "a/b", False),
        ("Contains", "a%b", "%", True),
        ("Contains", "ab", "%", False),
        ("Contains", "b", "abc", False),
        ("Contains", "", "", True),
        ("NumLt", "9", "10", True),
        ("NumLt", "10", "9", False),
        ("NumLt", "0", "0", False),
        ("NumLe", "0", "0", True),
        ("NumLe", "18446744073709551616", "18446744073709551615", False),
        ("NumLt", "09", "10", False),
        ("NumLe", "09", "09", False),
        ("NumLt", "1", "x", False),
        ("NumLt", "", "1", False),
        ("NumLt", "-1", "1", False),
        ("NumLe", "１", "2", False),
        ("NumLt", "1" * 4096, "2" * 4096, True),
        ("NumLt", "9" * 4095, "1" * 4096, True),
    ],
)
def test_tests(builtin: str, left: str, right: str, truth: bool) -> None:  # noqa: FBT001 -- a column of the table
    assert holds(builtin, (left, right)) is truth


@pytest.mark.parametrize(
    ("builtin", "time", "amount", "result"),
    [
        ("TaiAdd", "1640995200:000000000", "0", "1640995200:000000000"),
        ("TaiAdd", "1640995200:999999999", "1", "1640995201:000000000"),
        ("TaiAdd", "1640995200:000000001", "86400000000000", "1641081600:000000001"),
        ("TaiSub", "1640995200:000000000", "1", "1640995199:999999999"),
        ("TaiSub", "0000000000:000000000", "0", "0000000000:000000000"),
        ("TaiSub", "0000000000:000000000", "1", None),
        ("TaiAdd", "9999999999:999999999", "0", "9999999999:999999999"),
        ("TaiAdd", "9999999999:999999999", "1", None),
        ("TaiAdd", "0000000000:000000000", "9999999999999999999", "9999999999:999999999"),
        ("TaiAdd", "0000000000:000000000", "10000000000000000000", None),
        ("TaiAdd", "0000000000:000000000", "9" * 4096, None),
        ("TaiAdd", "0000000000:000000000", "01", None),
        ("TaiAdd", "0000000000:000000000", "-1", None),
        ("TaiAdd", "0000000000:000000000", "", None),
        ("TaiAdd", "0000000000:000000000", "１", None),
        ("TaiAdd", "1640995200:00000000", "1", None),
        ("TaiAdd", "1640995200.000000000", "1", None),
        ("TaiAdd", "1640995200:000000000\n", "1", None),
        ("TaiAdd", "١640995200:000000000", "1", None),
        ("TaiAdd", "", "1", None),
        ("TaiAdd", "1", "1640995200:000000000", None),
    ],
)
def test_sums_of_times(builtin: str, time: str, amount: str, result: str | None) -> None:
    assert value(builtin, time, amount) == result
    assert holds(builtin, (time, amount, None)) is (result is not None)
    assert not holds(builtin, (time, amount, "another"))
    if result is not None:
        assert holds(builtin, (time, amount, result))


@given(st.sampled_from(naive.TESTS), TEXTS | DECIMALS, TEXTS | DECIMALS)
def test_tests_agree_with_their_plain_definition(builtin: str, left: str, right: str) -> None:
    assert holds(builtin, (left, right)) is naive.is_true(builtin, left, right)


@given(st.sampled_from(naive.FUNCTIONS), TIMES | TEXTS, DECIMALS | TEXTS)
def test_functions_agree_with_their_plain_definition(builtin: str, time: str, amount: str) -> None:
    assert value(builtin, time, amount) == naive.function_value(builtin, time, amount)


@given(st.integers(0, tai.TAI_MAX).map(tai.render), st.integers(0, 10**19).map(str))
def test_subtracting_undoes_adding(time: str, amount: str) -> None:
    later = value("TaiAdd", time, amount)
    if later is not None:
        assert later >= time
        assert value("TaiSub", later, amount) == time


@given(TEXTS, TEXTS)
def test_order_is_total_and_the_order_of_the_bytes(left: str, right: str) -> None:
    assert holds("Lt", (left, right)) is (left.encode() < right.encode())
    assert holds("Lt", (left, right)) + holds("Eq", (left, right)) + holds("Gt", (left, right)) == 1
    assert holds("Le", (left, right)) is not holds("Gt", (left, right))
