"""Replicated cells as cells of a live graph.

What a merge changed is set in the graph in one batch, through the cell's own equality guard: a merge that leaves a
value as it was invalidates nothing. A *family* is a set of cells under one key prefix of which nobody has a list: an
entry that only a peer has written appears here with the first operation that names it.

The graph is known by the two small protocols below, and values by what reads them out of the plane.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeVar

from msgspec import Struct

from bobbin.errors import BobbinError, UsageError
from bobbin.reactive.crdt.plane import Allows, CellName, Merged, Plane
from bobbin.reactive.messages import CrdtSync, PeerId

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class CellPort(Protocol[T_contra]):
    """A cell of a graph, as far as it is written here."""

    def set(self, value: T_contra, /) -> object: ...


class GraphPort(Protocol):
    """A graph, as far as it is written here."""

    def batch(self) -> AbstractContextManager[object]: ...


class Applied(Struct, frozen=True, kw_only=True):
    """What a frame did to the plane, and to the graph."""

    merged: Merged
    appeared: tuple[str, ...]
    """Entries of families that were made."""
    unread: tuple[tuple[CellName, BobbinError], ...]
    """Cells whose new state cannot be read here. The plane has it; the graph keeps the old value."""


class ReplicatedCells:
    """Which cell of a graph shows which cell of a plane."""

    def __init__(self, plane: Plane, graph: GraphPort) -> None:
        self.plane: Final = plane
        self._graph: Final = graph
        self._shows: Final[dict[CellName, Callable[[], None]]] = {}
        self._families: Final[dict[str, Callable[[str], None]]] = {}

    def bind(self, name: CellName, cell: CellPort[T], read: Callable[[], T]) -> None:
        """Show a cell of the plane in the graph. ``read`` gives its value, and raises ``BobbinError`` if it cannot."""
        if name in self._shows:
            raise UsageError(f"cell {name} is shown already")
        self._shows[name] = lambda: _show(cell, read)

    def family(self, prefix: str, appear: Callable[[str], None]) -> tuple[str, ...]:
        """Take every cell whose key begins with ``prefix`` and ``/``. ``appear`` makes the cell and binds it.

        Entries that the plane has already appear at once; returns their keys.
        """
        if prefix in self._families:
            raise UsageError(f"the family {prefix} is known already")
        self._families[prefix] = appear
        waiting = tuple(
            name
            for name in self.plane.names()
            if isinstance(name, str) and name not in self._shows and name.startswith(f"{prefix}/")
        )
        with self._graph.batch():
            for key in waiting:
                appear(key)
        return waiting

    def ingest(self, sync: CrdtSync, *, sender: PeerId, now_us: int, allows: Allows | None = None) -> Applied:
        """Merge a frame, and show what changed. Raises what ``Plane.ingest`` raises; nothing has changed then."""
        merged = self.plane.ingest(sync, sender=sender, now_us=now_us, allows=allows)
        appeared: list[str] = []
        unread: list[tuple[CellName, BobbinError]] = []
        with self._graph.batch():
            for name in merged.changed:
                if name not in self._shows and isinstance(name, str) and (appear := self._family_of(name)):
                    appear(name)
                    appeared.append(name)
                if (show := self._shows.get(name)) is None:
                    continue
                try:
                    show()
                except BobbinError as error:
                    unread.append((name, error))
        return Applied(merged=merged, appeared=tuple(appeared), unread=tuple(unread))

    def _family_of(self, key: str) -> Callable[[str], None] | None:
        """The family with the longest prefix of a key."""
        prefix = key
        while "/" in prefix:
            prefix = prefix.rpartition("/")[0]
            if prefix in self._families:
                return self._families[prefix]
        return None


def _show(cell: CellPort[T], read: Callable[[], T]) -> None:
    cell.set(read())
