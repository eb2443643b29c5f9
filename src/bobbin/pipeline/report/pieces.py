"""The pieces of which sections are made: tables, notes that open, legends. All text is escaped here.

What is markup already says so by its type, so a text cannot be taken for it.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from bobbin.pipeline.report import charts
from bobbin.pipeline.report.words import escaped


class Markup(Struct, frozen=True):
    """A piece of a page that was made here."""

    html: str


Cell: TypeAlias = str | Markup


def bar(part: float, whole: float, style: str = "main") -> Markup:
    """A cell that is a bar. The cell beside it says the number."""
    return Markup(charts.bar(part, whole, style))


def code(text: str) -> Markup:
    """A cell of bytes, shown as such."""
    return Markup(f"<code>{escaped(text)}</code>")


def tag(word: str, style: str) -> Markup:
    """A cell with a word in a colour."""
    return Markup(f'<span class="tag {style}">{escaped(word)}</span>')


def table(
    heads: Sequence[str], rows: Iterable[Sequence[Cell]], *, numbers: Sequence[int] = (), bars: Sequence[int] = ()
) -> str:
    """A table; ``numbers`` and ``bars`` are the columns that hold such."""

    def kind(at: int) -> str:
        return "number" if at in numbers else "wide" if at in bars else "name"

    head = "".join(
        "<td></td>" if at in bars else f'<th scope="col" class="{kind(at)}">{escaped(text)}</th>'
        for at, text in enumerate(heads)
    )
    body = "".join(
        "<tr>" + "".join(f'<td class="{kind(at)}">{_cell(cell)}</td>' for at, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(cell: Cell) -> str:
    return cell.html if isinstance(cell, Markup) else escaped(cell)


def details(content: str, summary: str = "The numbers") -> str:
    """Something that opens when it is asked for."""
    return f'<details><summary>{escaped(summary)}</summary><div class="scroll">{content}</div></details>'


def legend(*entries: tuple[str, str]) -> str:
    """What the colours of a chart mean."""
    items = "".join(f'<li><i class="{style}"></i>{escaped(word)}</li>' for style, word in entries)
    return f'<ul class="legend">{items}</ul>'


def section(title: str, lead: str, body: str = "") -> str:
    """A part of the page under a heading, with a sentence about it."""
    return f'<section><h2>{escaped(title)}</h2><p class="lead">{escaped(lead)}</p>{body}</section>'
