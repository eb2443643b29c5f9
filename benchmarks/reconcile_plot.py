"""Bytes against differences, as a picture: one panel for each kind of difference, a line for each strategy."""

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import Final, TypeAlias
from xml.sax.saxutils import escape

Line: TypeAlias = Sequence[tuple[int, int]]
"""Points: differences and bytes."""

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM, _GAP, _LEGEND = 420, 330, 64, 40, 44, 30, 130
_COLOURS: Final = ("#1f77b4", "#d62728", "#9467bd", "#ff7f0e", "#7f7f7f", "#2ca02c")
_UNITS: Final = ((10**6, "MB"), (10**3, "kB"), (1, "B"))


def draw(panels: Mapping[str, Mapping[str, Line]], *, emphasised: str) -> str:
    """An SVG. Both axes are logarithmic, and the same in all panels; ``emphasised`` is drawn thick, and last."""
    points = [point for lines in panels.values() for line in lines.values() for point in line]
    across = _Axis([x for x, _ in points], _WIDTH)
    upward = _Axis([y for _, y in points], _HEIGHT)
    names = [name for name in next(iter(panels.values())) if name != emphasised] + [emphasised]
    colours = dict(zip(names, _COLOURS, strict=False))
    width = _LEFT + len(panels) * (_WIDTH + _GAP) + _LEGEND
    height = _TOP + _HEIGHT + _BOTTOM
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12" role="img"',
        f'viewBox="0 0 {width} {height}">',
        "<title>Bytes of the advertise phase against differences, by strategy</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (title, lines) in enumerate(panels.items()):
        parts += _panel(
            title, lines, names, colours, _LEFT + number * (_WIDTH + _GAP), across, upward, first=not number
        )
    parts += _legend(names, colours, width - _LEGEND)
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Axis:
    """Whole powers of ten around some values, on so many pixels."""

    def __init__(self, values: Sequence[int], length: int) -> None:
        self._low = floor(log10(min(values)))
        self._high = max(self._low + 1, ceil(log10(max(values))))
        self._length = length

    def at(self, value: float) -> float:
        return self._length * (log10(value) - self._low) / (self._high - self._low)

    def ticks(self) -> list[int]:
        return [10**power for power in range(self._low, self._high + 1)]


def _panel(
    title: str,
    lines: Mapping[str, Line],
    names: Sequence[str],
    colours: Mapping[str, str],
    left: int,
    across: _Axis,
    upward: _Axis,
    *,
    first: bool,
) -> list[str]:
    bottom = _TOP + _HEIGHT
    parts = [
        f'<text x="{left + _WIDTH / 2}" y="{_TOP - 14}" text-anchor="middle" font-size="14">{escape(title)}</text>'
    ]
    for tick in across.ticks():
        x = left + across.at(tick)
        parts.append(f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:,}</text>')
    for tick in upward.ticks():
        y = bottom - upward.at(tick)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + _WIDTH}" y2="{y:.1f}" stroke="#e4e4e4"/>')
        if first:
            parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{_bytes(tick)}</text>')
    parts.append(f'<text x="{left + _WIDTH / 2}" y="{bottom + 36}" text-anchor="middle">differences</text>')
    for name in names:
        spots = [(left + across.at(x), bottom - upward.at(y)) for x, y in lines.get(name, ())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        thick = 4 if name == names[-1] else 2
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colours[name]}" stroke-width="{thick}" '
            f'stroke-opacity="0.75"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{thick}" fill="{colours[name]}"/>' for x, y in spots]
    return parts


def _legend(names: Sequence[str], colours: Mapping[str, str], left: int) -> list[str]:
    parts: list[str] = []
    for number, name in enumerate(names):
        y = _TOP + 14 + 22 * number
        thick = 4 if name == names[-1] else 2
        parts.append(
            f'<line x1="{left}" y1="{y}" x2="{left + 24}" y2="{y}" stroke="{colours[name]}" stroke-width="{thick}"/>'
        )
        parts.append(f'<text x="{left + 30}" y="{y + 4}">{escape(name)}</text>')
    return parts


def _bytes(value: int) -> str:
    size, unit = next((size, unit) for size, unit in _UNITS if value >= size)
    return f"{value // size:,} {unit}"
