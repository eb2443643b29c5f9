import pytest

from measurement.result import Comparison, MalformedResultError, Ratio, Result, read_result

_ROW = {"name": "records", "value": 3}


@pytest.mark.parametrize(
    ("value", "bar", "comparison", "stretch", "verdict"),
    [
        (1.0, None, ">=", None, "shown"),
        (0.65, 0.65, ">=", None, "pass"),
        (0.64, 0.65, ">=", None, "missed"),
        (0.64, 0.65, ">=", 0.75, "missed"),
        (0.70, 0.65, ">=", 0.75, "pass, stretch missed"),
        (0.75, 0.65, ">=", 0.75, "pass, stretch reached"),
        (1.5, 1.5, "<=", None, "pass"),
        (1.6, 1.5, "<=", None, "missed"),
        (1.2, 1.5, "<=", 1.3, "pass, stretch reached"),
        (1.4, 1.5, "<=", 1.3, "pass, stretch missed"),
    ],
)
def test_verdict(value: float, bar: float | None, comparison: Comparison, stretch: float | None, verdict: str) -> None:
    ratio = Ratio(name="r", value=value, bar=bar, comparison=comparison, stretch=stretch)
    assert ratio.verdict == verdict
    assert ratio.missed == (verdict == "missed")


def test_mapping_is_read() -> None:
    result = read_result({"question": "How many?", "rows": [_ROW], "ratios": [{"name": "r", "value": 2, "bar": 1}]})
    assert result.rows[0].value == 3
    assert result.ratios[0].verdict == "pass"
    assert read_result(result) is result


@pytest.mark.parametrize(
    "returned",
    [
        None,
        ["rows"],
        {},
        {"rows": [_ROW]},
        {"question": "q", "rows": []},
        {"question": "q", "rows": [_ROW], "ratio": []},
        {"question": "q", "rows": [{"name": "r", "value": 1, "units": "s"}]},
        {"question": "q", "rows": [{"name": "r", "value": float("nan")}]},
        {"question": "q", "rows": [], "ratios": [{"name": "r", "value": float("inf"), "bar": 1}]},
        {"question": "q", "rows": [], "ratios": [{"name": "r", "value": 1, "bar": 1, "comparison": ">"}]},
        {"question": "q", "rows": [], "ratios": [{"name": "r", "value": 1, "stretch": 1}]},
    ],
)
def test_what_is_not_a_result_is_refused(returned: object) -> None:
    with pytest.raises(MalformedResultError):
        read_result(returned)


def test_default_lists_are_not_shared() -> None:
    one = Result(question="q", rows=[])
    two = Result(question="q", rows=[])
    assert one.notes is not two.notes
