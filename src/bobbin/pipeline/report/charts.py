"""Plots as SVG, by hand: columns that stand beside or on one another, a line over them, and bars inside a table.

A chart is a picture with a title and a description for those who do not see it, and every column says its own value
when it is pointed at. Colours are names of classes, so that the page decides them, in light and in dark.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from bobbin.pipeline.report.words import escaped

WIDTH: Final = 960
HEIGHT: Final = 240
_LEFT: Final = 56
_RIGHT: Final = 8
_TOP: Final = 12
_BOTTOM: Final = 26
_LABEL_WIDTH: Final = 7
"""About how wide a character of an axis is."""
_TICKS: Final = 4
_COLUMN_MAX: Final = 72.0
"""How wide a column is at most, where there are few."""


class Part(Struct, frozen=True):
    """One colour of a column."""

    value: float
    style: str


class Column(Struct, frozen=True):
    """One column: what stands under it, what it says of itself, and its parts from the bottom up."""

    label: str
    says: str
    parts: tuple[Part, ...]

    @property
    def height(self) -> float:
        """The sum of its parts."""
        return sum(part.value for part in self.parts)


def ticks(most: float) -> list[float]:
    """Round values from 0 to at least ``most``, a handful."""
    if most <= 0:
        return [0.0, 1.0]
    step = 10 ** math.floor(math.log10(most / _TICKS))
    for factor in (1, 2, 5, 10):
        if most / (step * factor) <= _TICKS + 1:
            step *= factor
            break
    if most >= 1:
        step = max(1, step)
    return [step * at for at in range(math.ceil(most / step - 1e-9) + 1)]


def columns(
    title: str,
    description: str,
    data: Sequence[Column],
    *,
    axis: Callable[[float], str],
    line: Sequence[float] = (),
    height: int = HEIGHT,
) -> str:
    """Columns beside one another, with an axis of values, and perhaps a line over them."""
    most = max([column.height for column in data] + list(line), default=0)
    marks = ticks(most)
    top = marks[-1]
    inner = height - _TOP - _BOTTOM

    def at(value: float) -> float:
        return _TOP + inner * (1 - value / top)

    step = (WIDTH - _LEFT - _RIGHT) / max(1, len(data))
    drawn = [_grid(at(mark), axis(mark)) for mark in marks]
    drawn += [_column(column, _LEFT + step * number, step, at) for number, column in enumerate(data)]
    if line:
        points = " ".join(f"{_LEFT + step * (number + 0.5):.1f},{at(value):.1f}" for number, value in enumerate(line))
        drawn.append(f'<polyline class="line" points="{points}"/>')
    drawn += _labels([column.label for column in data], step, height)
    return (
        f'<div class="plot"><svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escaped(title)}">'
        f"<title>{escaped(title)}</title><desc>{escaped(description)}</desc>{''.join(drawn)}</svg></div>"
    )


def _grid(y: float, text: str) -> str:
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escaped(text)}</text>'
    )


def _column(column: Column, x: float, step: float, at: Callable[[float], float]) -> str:
    wide = min(step - min(4.0, step * 0.2), _COLUMN_MAX)
    left = x + (step - wide) / 2
    below = 0.0
    drawn = []
    for part in column.parts:
        if part.value > 0:
            high, low = at(below + part.value), at(below)
            # What is there is seen, however small it is.
            tall = max(low - high, 1.0)
            drawn.append(
                f'<rect class="{part.style}" x="{left:.1f}" y="{low - tall:.1f}" width="{wide:.1f}" '
                f'height="{tall:.1f}"/>'
            )
        below += part.value
    # The whole height listens, so that small columns can be pointed at.
    touch = f'<rect class="touch" x="{x:.1f}" y="{_TOP}" width="{step:.1f}" height="{at(0) - _TOP:.1f}"/>'
    return f"<g>{''.join(drawn)}{touch}<title>{escaped(column.says)}</title></g>"


def _labels(texts: Sequence[str], step: float, height: int) -> list[str]:
    """As many labels as there is room for, evenly spread."""
    widest = max((len(text) for text in texts), default=0) * _LABEL_WIDTH + 16
    every = max(1, math.ceil(widest / step))
    drawn: list[str] = []
    for number in range(0, len(texts), every):
        x = _LEFT + step * (number + 0.5)
        half = len(texts[number]) * _LABEL_WIDTH / 2
        anchor, x = ("end", WIDTH - _RIGHT) if x + half > WIDTH else ("middle", x)
        if anchor == "end" and drawn:
            break
        drawn.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="{anchor}">{escaped(texts[number])}</text>'
        )
    return drawn


def bar(part: float, whole: float, style: str = "main") -> str:
    """A bar for a cell of a table. The cell beside it says the number."""
    wide = 0.0 if whole <= 0 else max(0.0, min(100.0, 100 * part / whole))
    if part > 0:
        wide = max(wide, 0.5)
    return (
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{style}" x="0" y="0" width="{wide:.2f}" height="10"/></svg>'
    )
