"""Tables and notes: everything that is not marked as markup is escaped."""

import xml.etree.ElementTree as ET

from bobbin.pipeline.report import pieces
from bobbin.pipeline.report.pieces import Markup
from tests.unit.pipeline.report.made_figures import HOSTILE


def test_cells_and_heads_are_text_and_markup_is_markup() -> None:
    rows = [(text, Markup("<b>x</b>"), "1") for text in HOSTILE]
    parsed = ET.fromstring(pieces.table(HOSTILE[:3], rows, numbers=(2,), bars=(1,)))
    assert {element.tag for element in parsed.iter()} == {"table", "thead", "tbody", "tr", "th", "td", "b"}
    assert next(cell.text for cell in parsed.iter("td") if cell.get("class") == "name") == HOSTILE[0]
    assert [cell.get("class") for cell in parsed.findall("tbody/tr")[0]] == ["name", "wide", "number"]
    assert [head.get("scope") for head in parsed.iter("th")] == ["col", "col"]


def test_other_pieces_escape_too() -> None:
    hostile = HOSTILE[1]
    for made in (
        pieces.code(hostile).html,
        pieces.tag(hostile, "good").html,
        pieces.details("", hostile),
        pieces.legend(("main", hostile)),
        pieces.section(hostile, hostile),
    ):
        assert "<img" not in made
        assert hostile in "".join(ET.fromstring(made).itertext())


def test_a_bar_is_markup() -> None:
    assert pieces.bar(1, 2, "bad").html.startswith("<svg")
