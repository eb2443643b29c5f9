"""What one outermost flush did to a graph, in full and before anybody's permissions are applied.

A graph's source makes one ``Change`` for each flush that changed something that can be serialised, and none for a
flush that did not. Whoever publishes cuts a delta out of it for each peer (see ``projection``), so a change never goes
on the wire itself.

``operations`` alone says everything, in the order in which it is to be applied: removals, additions, edges that went,
edges that came, cells that were written, slots with another value, and slots that are stale. The other fields are the
same facts sorted for whoever needs only a part of them.
"""

from msgspec import Struct

from bobbin.reactive.messages import Edge, Node, NodeId, Operation


class Change(Struct, frozen=True):
    """One flush."""

    operations: tuple[Operation, ...]
    """All of it, in order; never empty. An id that was freed and taken again is removed first, then added. The edges
    of a removed node go with it and have no ``EdgeRemove``."""
    added: tuple[Node, ...] = ()
    """The nodes of ``NodeAdd``, as they are after the flush."""
    removed: tuple[NodeId, ...] = ()
    """The ids of ``NodeRemove``."""
    edges_added: tuple[Edge, ...] = ()
    edges_removed: tuple[Edge, ...] = ()
    epoch: int = 0
    """Of the graph, after the flush. What a peer counts is its own: see ``projection``."""
