"""What one outermost operation did to a graph."""

from msgspec import Struct

from bobbin.reactive.graph.nodes import Readable, Slot
from bobbin.reactive.messages import Edge, NodeId


class Flush(Struct, frozen=True):
    """The difference between two moments at rest; never empty. Each node is in at most one of the lists of nodes.

    Edges are between nodes that were there before or are there now; those of a removed node go with it unsaid.
    """

    removed: tuple[NodeId, ...] = ()
    """May be in ``added`` again: removed first, then added."""
    added: tuple[Readable[object], ...] = ()
    """With whatever value they have by now; those that are stale already have none yet, as far as anybody is told."""
    edges_removed: tuple[Edge, ...] = ()
    edges_added: tuple[Edge, ...] = ()
    cells: tuple[Readable[object], ...] = ()
    """Those with another value."""
    slots: tuple[Slot[object], ...] = ()
    """Those with another value, and those that were stale or unset and are no longer."""
    stale: tuple[Slot[object], ...] = ()
    """Those that had a value and are not computed again."""
