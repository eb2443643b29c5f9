"""A tangle as a drawing in text, the root on top.

Each message has a line with a dot, and lines run down from it to what comes after it. Links that only shorten the way
back to the root say nothing that the others do not, so they are left out: of its predecessors a message is joined to
those alone that no other of them comes after.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from bobbin.tangles.tangle import Tangle

DOT: Final = "●"
HOLLOW: Final = "○"
"""A message without its data."""

_TURNED: Final = str.maketrans("╯╮╰╭", "╮╯╭╰")
"""The drawing is made from the tips up and then turned over."""


class Line(Struct, frozen=True):
    """One line of a drawing."""

    drawing: str
    message: str | None = None
    """The message whose dot stands in it; None for a line that only joins."""


def nearest(tangle: "Tangle") -> dict[str, list[str]]:
    """For each message those of its held predecessors that no other of them comes after."""
    joined: dict[str, list[str]] = {}
    for id in tangle.topological():
        before = [one for one in tangle.prev(id) if one in tangle]
        if len(before) > 1:
            further = tangle.ancestors(before)
            before = [one for one in before if one not in further]
        joined[id] = before
    return joined


def draw(order: Sequence[str], parents: Mapping[str, Sequence[str]], dot: Callable[[str], str]) -> list[Line]:
    """The lines of a drawing. ``order`` goes from the root to the tips; ``dot`` says how a message is drawn."""
    lines: list[Line] = []
    lanes: list[str | None] = []
    for id in reversed(order):
        columns = [at for at, waiting in enumerate(lanes) if waiting == id]
        if not columns:
            columns = [_free(lanes)]
            lanes[columns[0]] = id
        for column in reversed(columns[1:]):
            lines.append(Line(_join(lanes, columns[0], column, "╯")))
            lanes[column] = None
        lines.append(Line(_row(lanes, columns[0], dot(id)), id))
        lanes[columns[0]] = None
        lines += _descend(lanes, columns[0], list(parents.get(id, ())))
        while lanes and lanes[-1] is None:
            lanes.pop()
    return [Line(line.drawing.translate(_TURNED).rstrip(), line.message) for line in reversed(lines)]


def _descend(lanes: list[str | None], column: int, before: list[str]) -> Iterator[Line]:
    """On to the predecessors of a message: one goes on in its lane, the others get one, or join the one they have."""
    waiting = [one for one in before if one in lanes]
    fresh = [one for one in before if one not in lanes]
    if fresh:
        lanes[column] = fresh[0]
    elif waiting:
        lanes[column] = waiting[0]
        waiting = waiting[1:]
    for one in fresh[1:]:
        at = _free(lanes)
        lanes[at] = one
        yield Line(_join(lanes, column, at, "╮"))
    for one in waiting:
        yield Line(_join(lanes, column, lanes.index(one), "┤"))


def _free(lanes: list[str | None]) -> int:
    for at, waiting in enumerate(lanes):
        if waiting is None:
            return at
    lanes.append(None)
    return len(lanes) - 1


def _row(lanes: Sequence[str | None], column: int, dot: str) -> str:
    return " ".join(dot if at == column else "│" if waiting else " " for at, waiting in enumerate(lanes))


def _join(lanes: Sequence[str | None], first: int, second: int, corner: str) -> str:
    """A line from one lane to another, across those between."""
    left, right = sorted((first, second))
    symbols: list[str] = []
    for at, waiting in enumerate(lanes):
        if at == first:
            symbol = "├" if first < second else "┤"
        elif at == second:
            mirrored = {"╯": "╰", "╮": "╭", "┤": "├"}
            symbol = corner if first < second else mirrored[corner]
        elif left < at < right:
            symbol = "┼" if waiting else "─"
        else:
            symbol = "│" if waiting else " "
        symbols.append(symbol)
        if at + 1 < len(lanes):
            symbols.append("─" if left <= at < right else " ")
    return "".join(symbols)
