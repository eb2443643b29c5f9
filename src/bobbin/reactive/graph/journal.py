"""What listeners of a graph have been told, so that they can be told what is different now.

The graph notes which nodes an operation may have touched. Here each of them is compared with what was shown of it, so
a value that came back to what it was, or an edge that went and came again, is no news. The cost is that of what was
touched, not of the graph.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from bobbin.reactive.graph.flush import Flush
from bobbin.reactive.graph.marks import CHECK, CLEAN, DISPOSED, UNSET, WAITING, is_same
from bobbin.reactive.graph.node import Node
from bobbin.reactive.graph.nodes import Cell, Readable, Slot
from bobbin.reactive.messages import Edge, NodeId, NodeState


class _Shown(Struct):
    """How a node looked when listeners were last told."""

    state: NodeState
    value: object
    sources: list[Node]


class Journal:
    """The memory of one graph's listeners, from when the first of them came."""

    __slots__ = ("_removed", "_shown", "touched")

    def __init__(self, nodes: Iterable[Readable[object]]) -> None:
        self.touched: Final[dict[Node, None]] = {}
        self._removed: Final[dict[NodeId, None]] = {}
        settling = _Settling()
        self._shown: Final = {node: _show(node, settling) for node in nodes}

    @property
    def may_differ(self) -> bool:
        """Whether there is anything to compare."""
        return bool(self.touched or self._removed)

    def remove(self, node: Node) -> None:
        """A node has been disposed of."""
        self.touched.pop(node, None)
        if isinstance(node, Readable) and self._shown.pop(node, None) is not None:
            self._removed[node.id] = None

    def take(self) -> Flush | None:
        """What is different; from now on it is known. None if nothing is."""
        if not self.may_differ:
            return None
        report = _Report()
        settling = _Settling()
        waiting = list(self.touched)
        for node in waiting:
            if isinstance(node, Readable) and node.mark != DISPOSED:
                shown = self._shown.get(node)
                now = _show(node, settling)
                if shown is None:
                    self._shown[node] = now
                    report.added.append(node)
                    report.edges_added += (Edge(node.id, source.id) for source in now.sources)
                else:
                    self._compare(node, shown, now, report)
            # What was found fresh on the way may have been told to be stale.
            waiting += (one for one in settling.take_settled() if one not in self.touched)
        removed = tuple(self._removed)
        self._removed.clear()
        self.touched.clear()
        return report.close(removed)

    def _compare(self, node: Readable[object], shown: _Shown, now: _Shown, report: "_Report") -> None:
        if shown.sources != now.sources:
            before, after = set(shown.sources), set(now.sources)
            report.edges_removed += (
                Edge(node.id, source.id) for source in shown.sources if source not in after and source in self._shown
            )
            report.edges_added += (Edge(node.id, source.id) for source in now.sources if source not in before)
            shown.sources = now.sources
        if now.state == NodeState.RESOLVED:
            if shown.state == NodeState.RESOLVED and is_same(shown.value, now.value):
                return
            shown.state, shown.value = now.state, now.value
            if isinstance(node, Cell):
                report.cells.append(node)
            elif isinstance(node, Slot):
                report.slots.append(node)
        elif shown.state == NodeState.RESOLVED and isinstance(node, Slot):
            shown.state = NodeState.DIRTY
            report.stale.append(node)


class _Report:
    """A flush that is being written."""

    __slots__ = ("added", "cells", "edges_added", "edges_removed", "slots", "stale")

    def __init__(self) -> None:
        self.added: list[Readable[object]] = []
        self.edges_removed: list[Edge] = []
        self.edges_added: list[Edge] = []
        self.cells: list[Readable[object]] = []
        self.slots: list[Slot[object]] = []
        self.stale: list[Slot[object]] = []

    def close(self, removed: tuple[NodeId, ...]) -> Flush | None:
        flush = Flush(
            removed,
            tuple(self.added),
            tuple(self.edges_removed),
            tuple(self.edges_added),
            tuple(self.cells),
            tuple(self.slots),
            tuple(self.stale),
        )
        return flush if flush != Flush() else None


class _Settling:
    """Finds out, without computing, which nodes are stale after all. What it has found it does not ask again."""

    __slots__ = ("_settled", "_stale")

    def __init__(self) -> None:
        self._stale: Final[set[Node]] = set()
        self._settled: list[Node] = []

    def take_settled(self) -> list[Node]:
        """The nodes that turned out to be fresh since the last call."""
        settled, self._settled = self._settled, []
        return settled

    def settle(self, target: Node) -> None:
        """Mark a node, and what it needs for that, as clean if nothing it reads has changed."""
        if target in self._stale:
            return
        path = [target]
        checks = [iter(target.sources)]
        while path:
            for source in checks[-1]:
                if source.mark == CLEAN:
                    continue
                if source in self._stale or source.mark not in _OPEN:
                    self._stale.update(path)
                    return
                path.append(source)
                checks.append(iter(source.sources))
                break
            else:
                node = path[-1]
                node.mark = node.settled
                if node.mark != CLEAN:
                    self._stale.update(path)
                    return
                self._settled.append(node)
                path.pop()
                checks.pop()


def _show(node: Readable[object], settling: _Settling) -> _Shown:
    if node.mark in _OPEN:
        settling.settle(node)
    if node.mark == CLEAN and node.last is not UNSET:
        return _Shown(NodeState.RESOLVED, node.last, node.sources)
    # What nobody was given yet is unset for them, even if it is only stale here.
    return _Shown(NodeState.UNSET, UNSET, node.sources)


_OPEN: Final = frozenset({CHECK, WAITING})
