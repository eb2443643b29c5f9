"""The edges between nodes, kept at both ends, and what follows from them: levels, and who must be kept computed.

Edges change only when a computation reads something else than in its last run, so none of this is on the way of an
ordinary update.
"""

from collections.abc import Sequence

from bobbin.reactive.graph.errors import CycleFound
from bobbin.reactive.graph.marks import CHECK, DISPOSED
from bobbin.reactive.graph.node import Node


def relink(reader: Node, reads: Sequence[Node]) -> None:
    """Make ``reads`` the sources of a node. Raises ``CycleFound``, and changes nothing, where it is among their own."""
    wanted = {node: None for node in reads if node.mark != DISPOSED}
    sources = list(wanted)
    if sources == reader.sources:
        return
    level = 1 + max((source.level for source in sources), default=0)
    if level > reader.level:
        _raise_level(reader, level, wanted)
    before = reader.sources
    reader.sources = sources
    for source in before:
        if source not in wanted:
            del source.readers[reader]
            if reader.live:
                release(source)
    for source in sources:
        if reader not in source.readers:
            source.readers[reader] = None
            if reader.live:
                retain(source)


def relink_where_possible(reader: Node, reads: Sequence[Node]) -> None:
    """As ``relink``, after a computation has failed, for a node that may be part of a cycle.

    An edge that would close the cycle is left out. Instead the node hears of what the others in the cycle read: that is
    what may open it again. What is stale has said all that it will say, so what that reads takes its place too.
    """
    try:
        relink(reader, reads)
    except CycleFound:
        reached = dict.fromkeys(reads)
        possible: list[Node] = []
        waiting = list(reached)
        for node in waiting:
            if node is reader:
                continue
            if node.mark < CHECK and (node.level < reader.level or not node.sources):
                possible.append(node)
            else:
                waiting += [source for source in node.sources if source not in reached]
                reached.update(dict.fromkeys(node.sources))
        relink(reader, possible)


def link_also(reader: Node, reads: Sequence[Node]) -> None:
    """Add what has been read so far to the sources, for those who must hear of changes before a run is over."""
    relink(reader, [*reader.sources, *reads])


def unlink(node: Node) -> None:
    """Take a node out from between its sources and its readers."""
    for source in node.sources:
        del source.readers[node]
        if node.live:
            release(source)
    node.sources = []
    for reader in node.readers:
        reader.sources = [source for source in reader.sources if source is not node]
    node.readers = {}


def retain(node: Node) -> None:
    """One more reason to keep a node computed; with the first, all it is computed from gets one too."""
    reached = [node]
    for one in reached:
        one.live += 1
        if one.live == 1:
            reached.extend(one.sources)


def release(node: Node) -> None:
    """The counterpart of ``retain``."""
    reached = [node]
    for one in reached:
        one.live -= 1
        if not one.live:
            reached.extend(one.sources)


def _raise_level(reader: Node, level: int, wanted: dict[Node, None]) -> None:
    """Put a node above its new sources, and its readers above it. A source that is met on the way is a cycle."""
    if reader in wanted:
        raise CycleFound((reader.name, reader.name))
    levels = {reader: level}
    towards: dict[Node, Node] = {}
    reached = [reader]
    for node in reached:
        above = levels[node]
        for next_reader in node.readers:
            if levels.get(next_reader, next_reader.level) > above:
                continue
            towards[next_reader] = node
            if next_reader in wanted:
                raise CycleFound(_path(reader, next_reader, towards))
            levels[next_reader] = above + 1
            reached.append(next_reader)
    for node, raised in levels.items():
        node.level = raised


def _path(reader: Node, source: Node, towards: dict[Node, Node]) -> tuple[str, ...]:
    names = [reader.name]
    node = source
    while node is not reader:
        names.append(node.name)
        node = towards[node]
    return (*names, reader.name)
