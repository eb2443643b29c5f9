"""A live graph of values: cells that are written, slots computed from them, effects that follow.

>>> from bobbin.reactive.graph import Graph
>>> graph = Graph()
>>> price, count = graph.cell(3), graph.cell(2)
>>> total = graph.slot(lambda: price.get() * count.get())
>>> seen = []
>>> effect = graph.effect(lambda: seen.append(total.get()))
>>> with graph.batch():
...     price.set(4)
...     count.set(5)
>>> seen
[6, 20]

- A **cell** is written. A **slot** is computed when it is read, and kept until something it read has changed; ``memo``
  is another word for it. A **signal** is a slot that is kept computed. An **effect** is run after each change of what
  it read. Who reads what is found out by itself, at each run anew.
- Values are compared, by ``==`` and type; an equal one is no change, neither of a cell nor of a slot, and there is no
  way around that. A value must not be changed after it has been given to a graph.
- Computations only read. Effects may write; what they write is seen after them, in the same flush.
- An operation is a call made at rest, or the outermost batch. One flush ends it, and gives one report to listeners.
- A node that is disposed of is gone; reading it raises, and so does reading what needs it. Nodes live until then.

``source`` makes snapshots and changes of it for peers; ``runtime.reactive_context`` serves threads and coroutines.
"""

from bobbin.reactive.graph.drain import DRAIN_MAX, Listener, Wanted
from bobbin.reactive.graph.errors import (
    CycleFound,
    DisposedNode,
    DrainExhausted,
    EffectsFailed,
    IncomparableValue,
    MutationInComputation,
    ReadingSourceSlot,
    StillPending,
)
from bobbin.reactive.graph.flush import Flush
from bobbin.reactive.graph.graph import Batch, Graph
from bobbin.reactive.graph.later import AsyncSlot, Run
from bobbin.reactive.graph.nodes import Cell, Effect, Readable, Signal, Slot, SourceSlot

__all__ = [
    "DRAIN_MAX",
    "AsyncSlot",
    "Batch",
    "Cell",
    "CycleFound",
    "DisposedNode",
    "DrainExhausted",
    "Effect",
    "EffectsFailed",
    "Flush",
    "Graph",
    "IncomparableValue",
    "Listener",
    "MutationInComputation",
    "Readable",
    "ReadingSourceSlot",
    "Run",
    "Signal",
    "Slot",
    "SourceSlot",
    "StillPending",
    "Wanted",
]
