"""A live graph: making nodes, batches, taking nodes out, and driving what is computed elsewhere."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Final, TypeVar, final

from bobbin.errors import ResourceError, UsageError
from bobbin.reactive.graph.drain import DRAIN_MAX, Drain, Listener, Wanted
from bobbin.reactive.graph.errors import MutationInComputation
from bobbin.reactive.graph.journal import Journal
from bobbin.reactive.graph.later import AsyncSlot, Run
from bobbin.reactive.graph.links import link_also, release, relink, unlink
from bobbin.reactive.graph.marks import CHECK, CLEAN, DIRTY, DISPOSED, FAILED, WAITING, is_same
from bobbin.reactive.graph.node import Node
from bobbin.reactive.graph.nodes import Cell, Effect, Readable, Signal, Slot, SourceSlot
from bobbin.reactive.messages import U64_MAX, NodeId, is_key

T = TypeVar("T")
_N = TypeVar("_N", bound=Node)


@final
class Graph(Drain):
    """Cells, slots, signals and effects that know of each other. For one thread; see ``runtime`` for several.

    Every change of the graph is part of an operation: a call made at rest, or the outermost batch. When it is over, all
    effects have run that it concerns, all signals are computed, and listeners have had one report.
    """

    __slots__ = ("_batch", "_draw_id", "_keys", "_next_id", "_nodes", "_starts")

    def __init__(self, *, drain_max: int = DRAIN_MAX, draw_id: Callable[[], int] | None = None) -> None:
        """``draw_id`` makes up ids by chance, so that whoever sees some of the nodes cannot tell how many there are."""
        super().__init__(drain_max=drain_max)
        self._draw_id: Final = draw_id
        self._nodes: Final[dict[NodeId, Node]] = {}
        self._keys: Final[dict[str, Readable[object]]] = {}
        self._next_id = 0
        self._starts: Final[list[Run]] = []
        self._batch: Final = Batch(self)

    # ---- nodes ------------------------------------------------------------------------------------------------------

    def cell(self, value: T, *, tag: str | None = None, key: str | None = None, id: NodeId | None = None) -> Cell[T]:
        """A value that is written. ``tag`` says how it is serialised; without one it never leaves this process.

        ``id`` may be any that no node has at the moment. Without one, ids ascend or are drawn, so that none comes back.
        """
        return self._adopt(Cell(self, self._new_id(id, key), value, tag, key))

    def slot(
        self,
        compute: Callable[[], T],
        *,
        tag: str | None = None,
        key: str | None = None,
        id: NodeId | None = None,
    ) -> Slot[T]:
        """A value that is computed when it is read. See ``Slot``."""
        return self._adopt(Slot(self, self._new_id(id, key), compute, tag, key))

    memo = slot
    """The seed's word for a slot with an equality guard. All have it."""

    def source_slot(
        self,
        compute: Callable[[], T],
        *,
        tag: str | None = None,
        key: str | None = None,
        id: NodeId | None = None,
    ) -> SourceSlot[T]:
        """A value that is computed now and once, from nothing in the graph. If that raises, there is no slot."""
        return self._adopt_eager(SourceSlot(self, self._new_id(id, key), compute, tag, key))

    def signal(
        self,
        compute: Callable[[], T],
        *,
        tag: str | None = None,
        key: str | None = None,
        id: NodeId | None = None,
    ) -> Signal[T]:
        """A value that is kept computed. If computing it now raises, there is no signal."""
        signal = Signal(self, self._new_id(id, key), compute, tag, key)
        return self._adopt_eager(signal)

    def async_slot(
        self,
        begin: Callable[[], Coroutine[object, object, T]],
        *,
        eager: bool = False,
        tag: str | None = None,
        key: str | None = None,
        id: NodeId | None = None,
    ) -> AsyncSlot[T]:
        """A value that an ``async def`` function computes, driven from outside: see ``take_starts``."""
        slot = AsyncSlot(self, self._new_id(id, key), begin, tag, key, self._starts)
        return self._adopt_eager(slot) if eager else self._adopt(slot)

    def effect(self, act: Callable[[], object], *, id: NodeId | None = None) -> Effect:
        """A function to run now and whenever something it read has changed. If it raises now, there is no effect.

        It may return a function that is called before the next run and when the effect is disposed of.
        """
        return self._adopt_eager(Effect(self, self._new_id(id, None), act))

    def node(self, id: NodeId) -> Readable[object] | None:
        """The cell or slot of an id."""
        node = self._nodes.get(id)
        return node if isinstance(node, Readable) else None

    def keyed(self, key: str) -> Readable[object] | None:
        """The cell or slot of a key."""
        return self._keys.get(key)

    def nodes(self) -> Iterator[Readable[object]]:
        """All cells and slots, in the order in which they were made."""
        return (node for node in list(self._nodes.values()) if isinstance(node, Readable))

    def __len__(self) -> int:
        """How many nodes there are, effects included."""
        return len(self._nodes)

    def _new_id(self, id: NodeId | None, key: str | None) -> NodeId:
        if self.refreshing:
            raise MutationInComputation(f"{self.refreshing[-1][-1].name} is a computation, and may not make nodes")
        if key is not None and (not is_key(key) or key in self._keys):
            raise UsageError(f"the key {key!r} is taken" if is_key(key) else f"not a path of a node: {key!r}")
        if id is None:
            id = self._free_id()
        elif not 0 <= id <= U64_MAX:
            raise UsageError(f"an id is a number of 64 bits, not {id}")
        elif id in self._nodes:
            raise UsageError(f"the id {id} is that of {self._nodes[id].name}")
        return id

    def _free_id(self) -> NodeId:
        if self._draw_id is not None:
            while (id := self._draw_id()) in self._nodes:
                pass
            return NodeId(id)
        while self._next_id in self._nodes:
            self._next_id += 1
        self._next_id += 1
        return NodeId(self._next_id - 1)

    def _adopt(self, node: _N) -> _N:
        self._nodes[node.id] = node
        if isinstance(node, Readable) and node.key is not None:
            self._keys[node.key] = node
        if self.touched is not None:
            self.touched[node] = None
        if not self.depth and (node.is_eager or self.touched is not None):
            self.depth = 1
            try:
                self.flush()
            except ResourceError:
                # Whoever asked for it gets the error instead of the node.
                with suppress(ResourceError):
                    self.dispose(node)
                raise
        return node

    def _adopt_eager(self, node: _N) -> _N:
        node.is_eager = True
        node.live = 1
        self.due.append(node)
        return self._adopt(node)

    # ---- batches and listeners --------------------------------------------------------------------------------------

    def batch(self) -> "Batch":
        """Several changes as one: ``with graph.batch(): …``. What was written is there to be read at once."""
        return self._batch

    def on_flush(self, listener: Listener, *, wanted: Wanted | None = None) -> Callable[[], None]:
        """Tell ``listener`` of each operation that changed something, from now on; returns the undo.

        ``wanted`` says of a slot whether it is to be computed in each flush that reaches it. What it says may change;
        ``compute`` is for what has become wanted since.
        """
        if self.depth or self.refreshing:
            raise UsageError("listeners come and go at rest")
        if self._journal is None:
            self._journal = Journal(self.nodes())
            self.touched = self._journal.touched
        return self.listen(listener, wanted)

    def compute(self, ids: list[NodeId]) -> None:
        """Bring slots up to date as far as that is possible, as one operation."""
        with self._batch:
            for id in ids:
                node = self._nodes.get(id)
                if isinstance(node, Slot) and node.mark:
                    if self.written:
                        self.tell_written()
                    self.compute_quietly(node)

    # ---- taking nodes out -------------------------------------------------------------------------------------------

    def dispose(self, node: Node) -> None:
        if node.mark == DISPOSED:
            return
        if self.refreshing:
            self.refuse_mutation(node)
        with self._batch:
            self._leave_stale(node)
            unlink(node)
            node.mark = DISPOSED
            del self._nodes[node.id]
            if isinstance(node, Readable) and node.key is not None:
                del self._keys[node.key]
            if isinstance(node, AsyncSlot):
                node.end()
            if self._journal is not None:
                self._journal.remove(node)
            if isinstance(node, Effect):
                node.clean_up()

    def make_lazy(self, node: Signal[object]) -> None:
        if self.refreshing:
            self.refuse_mutation(node)
        if node.is_eager:
            node.is_eager = False
            release(node)

    def _leave_stale(self, node: Node) -> None:
        """All that was computed from a node must be computed again when read, and no effect runs for that."""
        reached: dict[Node, None] = {}
        for reader in node.readers:
            if isinstance(reader, Slot):
                if reader.mark < CHECK:
                    reader.mark = FAILED
                    reader.error = None
                    reached[reader] = None
                elif reader.mark == CHECK:
                    reader.mark = DIRTY
        below = list(reached)
        for stale in below:
            for reader in stale.readers:
                # One that had failed before may have readers that made do with that.
                if isinstance(reader, Slot) and reader.mark < CHECK and reader not in reached:
                    if reader.mark == CLEAN:
                        reader.mark = WAITING
                    reached[reader] = None
                    below.append(reader)
        if self.touched is not None:
            self.touched.update(reached)

    # ---- what is computed elsewhere ---------------------------------------------------------------------------------

    @property
    def has_starts(self) -> bool:
        """Whether runs have been asked for since they were last taken."""
        return bool(self._starts)

    def take_starts(self) -> list[Run]:
        """The runs of asynchronous slots that have been asked for since the last call, and still count."""
        starts = [run for run in self._starts if run.is_current]
        self._starts.clear()
        return starts

    def step(self, run: Run, resume: Callable[[], T]) -> T:
        """Let a run go on, and note what it reads. ``resume`` must return at the run's next pause."""
        if self.depth or self.refreshing:
            raise UsageError("runs go on at rest")
        self.depth = self.floor = 1
        self.refreshing.append([run.slot])
        self.reads = run.reads
        try:
            return resume()
        finally:
            self.reads = None
            self.refreshing.pop()
            self.floor = 0
            try:
                if run.is_current:
                    link_also(run.slot, run.reads)
            finally:
                self.flush()

    def resolve(self, run: Run, value: object) -> bool:
        """A run has given a value; whether it still counts."""
        slot = run.slot
        with self._batch:
            if not self._still_counts(run):
                return False
            relink(slot, run.reads)
            slot.end()
            is_new = not is_same(value, slot.last)
            slot.last = value
            slot.mark = CLEAN
            if self.touched is not None:
                self.touched[slot] = None
            if is_new:
                self.mark_readers((slot,))
            else:
                self._wake(slot)
        return True

    def fail(self, run: Run, error: Exception) -> bool:
        """A run has failed; whether it still counts. Effects that meet the error fail in this call."""
        slot = run.slot
        with self._batch:
            if not self._still_counts(run):
                return False
            slot.end()
            slot.lose()
            slot.mark = FAILED
            slot.error = error
            if self.touched is not None:
                self.touched[slot] = None
            self.mark_readers((slot,))
        return True

    def give_back(self, run: Run) -> None:
        """Nobody drives a run any longer. Where it still counts another one is asked for, which begins anew."""
        if run.is_current:
            run.slot.ask_again()

    def _still_counts(self, run: Run) -> bool:
        slot = run.slot
        if not run.is_current:
            return False
        if self.written:
            self.tell_written()
        if (slot.mark == CHECK or slot.is_doubtful) and self.is_concerned(slot) is None:
            slot.mark = FAILED
        if slot.mark == WAITING:
            return True
        # What it read has changed meanwhile, or may have. Whoever reads the slot next starts another run.
        slot.end()
        return False

    def _wake(self, node: Node) -> None:
        """The value that some waited for is what it was before. Let them, and all below, look again."""
        waiting = [reader for reader in node.readers if reader.mark == WAITING or reader.mark == FAILED]
        for reader in waiting:
            reader.mark = CHECK if reader.mark == WAITING else DIRTY
        self.spread(waiting)


@final
class Batch:
    """Several changes as one. There is one of these for a graph, and it counts how often it has been entered."""

    __slots__ = ("_graph",)

    def __init__(self, graph: Graph) -> None:
        self._graph: Final = graph

    def __enter__(self) -> None:
        graph = self._graph
        if graph.refreshing:
            raise MutationInComputation(f"{graph.refreshing[-1][-1].name} is a computation, and may not begin a batch")
        graph.depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        graph = self._graph
        if graph.depth > 1:
            graph.depth -= 1
        else:
            graph.flush()
