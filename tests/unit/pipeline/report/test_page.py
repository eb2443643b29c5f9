"""The page is one file that asks for nothing, and no name in it can do anything."""

import re
from html.parser import HTMLParser

import pytest

from bobbin.pipeline.report.figures import Figures
from bobbin.pipeline.report.page import render
from tests.unit.pipeline.report.made_figures import HOSTILE, empty_figures, figures

_VOID = {"meta", "br", "img", "link", "input", "hr"}
_TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "p", "code", "main", "footer", "dl",
    "div", "dt", "dd", "small", "section", "svg", "desc", "line", "text", "g", "rect", "polyline", "details", "summary",
    "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "i", "span",
}  # fmt: skip
_ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "viewbox", "role", "aria-label", "aria-hidden",
    "preserveaspectratio", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "points", "text-anchor", "scope",
}  # fmt: skip


class _Reader(HTMLParser):
    """Collects elements and text, and checks that what opens closes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("shown", [figures(), empty_figures()], ids=["full", "empty"])
def test_only_known_elements_and_all_of_them_closed(shown: Figures) -> None:
    reader = _Reader()
    reader.feed(render(shown))
    assert reader.open == []
    assert reader.tags <= _TAGS
    assert reader.attributes <= _ATTRIBUTES


def test_hostile_names_are_shown_and_nothing_else() -> None:
    page = render(figures())
    reader = _Reader()
    reader.feed(page)
    shown = "".join(reader.text)
    assert "script" not in reader.tags
    assert "img" not in reader.tags
    for name in (HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[3], HOSTILE[5]):
        assert name in shown
    assert "left\\u{202e}right\\u{0000}\\n&amp;" in shown
    assert "\u202e" not in page
    assert "\x00" not in page


def test_the_page_asks_for_nothing() -> None:
    page = render(figures())
    assert "Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'" in page
    assert not re.search(r"https?://|\bsrc=\"|\bhref=|url\(|@import|\bstyle=\"", page.replace("&quot;", ""))


def test_the_title_is_the_name_of_the_lake() -> None:
    assert "<title>Lake report: archive</title>" in render(figures(lake="/lakes/archive/"))
    assert "<code>/lakes/archive/</code>" in render(figures(lake="/lakes/archive/"))


def test_tables_are_shown_once_with_or_without_a_reconciliation() -> None:
    assert render(figures()).count("<h2>Tables</h2>") == 1
    assert render(empty_figures()).count("<h2>Tables</h2>") == 1
