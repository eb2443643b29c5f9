"""Charts are well-formed, to scale, and say their numbers."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.pipeline.report import charts
from bobbin.pipeline.report.charts import Column, Part
from bobbin.pipeline.report.words import short


def _columns(*values: float) -> list[Column]:
    return [Column(f"<{at}>", f"says {value}", (Part(value, "main"),)) for at, value in enumerate(values)]


def _drawn(text: str) -> ET.Element:
    found = ET.fromstring(text).find("svg")
    assert found is not None
    return found


@given(st.floats(min_value=1e-6, max_value=1e15))
def test_an_axis_goes_from_nothing_to_at_least_the_most(most: float) -> None:
    marks = charts.ticks(most)
    assert marks[0] == 0
    assert marks[-1] >= most * (1 - 1e-9)
    assert 2 <= len(marks) <= 8
    assert marks == sorted(set(marks))


def test_an_axis_of_nothing() -> None:
    assert charts.ticks(0) == [0, 1]


@given(st.lists(st.integers(0, 10**9), max_size=100))
def test_a_chart_of_anything_is_well_formed_and_inside_its_frame(values: list[int]) -> None:
    drawn = _drawn(charts.columns("t", "d", _columns(*values), axis=short, line=[float(value) for value in values]))
    bars = [rect for rect in drawn.iter("rect") if rect.get("class") == "main"]
    assert len(bars) == sum(value > 0 for value in values)
    for rect in bars:
        x, y, width, height = (float(rect.get(name) or "nan") for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + width <= charts.WIDTH + 0.1
        assert 0 <= y <= y + height <= charts.HEIGHT
        assert height >= 1
    labels = [text.text for text in drawn.iter("text") if text.text is not None and text.text.startswith("<")]
    assert bool(labels) == bool(values)


def test_heights_are_to_scale_and_parts_stand_on_one_another() -> None:
    stacked = Column("x", "x", (Part(10, "main"), Part(0, "second"), Part(30, "bad")))
    drawn = _drawn(charts.columns("t", "d", [stacked], axis=short))
    lower, upper = (
        (float(rect.get("y") or 0), float(rect.get("height") or 0))
        for rect in drawn.iter("rect")
        if rect.get("class") in {"main", "bad"}
    )
    assert upper[1] == pytest.approx(3 * lower[1], abs=0.2)
    assert upper[0] + upper[1] == pytest.approx(lower[0], abs=0.2)
    assert stacked.height == 40


def test_a_chart_has_a_title_a_description_and_a_word_for_each_column() -> None:
    drawn = _drawn(charts.columns("a <title>", "a & b", _columns(1, 2), axis=short))
    assert drawn.get("role") == "img"
    assert drawn.get("aria-label") == "a <title>"
    assert drawn.findtext("title") == "a <title>"
    assert drawn.findtext("desc") == "a & b"
    assert [group.findtext("title") for group in drawn.iter("g")] == ["says 1", "says 2"]


@pytest.mark.parametrize(
    ("part", "whole", "width"), [(0, 10, 0), (5, 10, 50), (1, 10**9, 0.5), (3, 0, 0.5), (20, 10, 100)]
)
def test_a_bar_is_never_too_long_and_never_invisible(part: float, whole: float, width: float) -> None:
    rect = ET.fromstring(charts.bar(part, whole)).find("rect")
    assert rect is not None
    assert float(rect.get("width") or "nan") == width
