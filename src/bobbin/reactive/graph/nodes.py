"""The nodes of a graph: cells that are written, slots that are computed, and effects that act.

Nodes hold what the update of a graph looks at for each of them, and the few lines that run for each of them; what goes
from node to node is in ``propagation``. Attributes without a word in the package's own description are for the graph.

How reads are noticed: while a computation runs, every ``get`` adds its node to one list of the graph. Afterwards the
list is compared with that of the run before, which costs next to nothing while both are the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, TypeVar, final

from bobbin.reactive.graph.errors import DisposedNode, IncomparableValue, ReadingSourceSlot
from bobbin.reactive.graph.links import relink
from bobbin.reactive.graph.marks import CLEAN, DIRTY, DISPOSED, FAILED, RUNNING, UNSET, Lost, Unset
from bobbin.reactive.graph.node import Node
from bobbin.reactive.messages import NodeId, NodeState

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Engine(ABC):
    """What nodes need of the graph they are in."""

    __slots__ = ("depth", "due", "reads", "refreshing", "touched", "written")

    def __init__(self) -> None:
        self.reads: list[Node] | None = None
        """What the computation or effect that runs has read so far; None while none does."""
        self.refreshing: list[list[Node]] = []
        """What is being brought up to date, outermost first: each a path of nodes that wait for the one behind them."""
        self.depth = 0
        """How many batches are open, flushes included. At rest it is 0."""
        self.written: dict[Readable[object], object] = {}
        """Cells written since the batch began, with the value before, as long as nobody has been told."""
        self.due: list[Node] = []
        """Effects and eager slots that have been reached by a change, some of them twice."""
        self.touched: dict[Node, None] | None = None
        """What may look different after the flush; None while nobody listens."""

    @abstractmethod
    def pull(self, node: "Slot[object]") -> None:
        """Bring a slot up to date, or raise what keeps it from being so."""

    @abstractmethod
    def tell_written(self) -> None:
        """Let the readers of written cells know."""

    @abstractmethod
    def write(self, cell: "Readable[object]") -> None:
        """A cell outside a batch, or inside an effect, has been given another value."""

    @abstractmethod
    def refuse_mutation(self, node: Node) -> None:
        """Raise what is wrong with changing this node, now."""

    @abstractmethod
    def note_failure(self, node: "Slot[object]", reads: list[Node], error: BaseException) -> None:
        """A computation raised."""

    @abstractmethod
    def make_lazy(self, node: "Signal[object]") -> None:
        """Keep a signal computed no longer."""

    @abstractmethod
    def dispose(self, node: Node) -> None:
        """Take a node out of the graph. Whoever has been disposed of before stays so."""


class Readable(Node, Generic[T_co]):
    """A node with a value."""

    __slots__ = ("graph", "key", "last", "tag")

    is_root = False
    """Whether it is an input of the graph: never computed from other nodes."""

    def __init__(self, graph: Engine, id: NodeId, last: T_co | Unset, tag: str | None, key: str | None) -> None:
        super().__init__(id)
        self.graph: Final = graph
        self.last = last
        """The value, right or stale. ``get`` knows which."""
        self.tag: Final = tag
        self.key: Final = key

    @property
    def name(self) -> str:
        """For messages."""
        return super().name if self.key is None else f"{super().name} ({self.key})"

    @property
    def state(self) -> NodeState:
        """How far the value is known, without computing anything."""
        if self.last is UNSET:
            return NodeState.UNSET
        return NodeState.RESOLVED if self.mark == CLEAN else NodeState.DIRTY

    @property
    def last_value(self) -> object:
        """The value or, where it is stale, what it was before; ``UNSET`` where there never was one."""
        return self.last.before if isinstance(self.last, Lost) else self.last

    def get(self) -> T_co:
        """The value, up to date. A computation or effect that calls this depends on it."""
        raise NotImplementedError

    def peek(self) -> T_co:
        """The value, up to date, without depending on it."""
        graph = self.graph
        reads, graph.reads = graph.reads, None
        try:
            return self.get()
        finally:
            graph.reads = reads

    def dispose(self) -> None:
        """Take it out of the graph. Whoever reads it fails when next computed; no effect runs for that. Idempotent."""
        self.graph.dispose(self)


@final
class Cell(Readable[T]):
    """A value that is written."""

    __slots__ = ()

    kind = "cell"
    is_root = True

    def get(self) -> T:
        reads = self.graph.reads
        if reads is not None:
            reads.append(self)
        if self.mark:
            raise DisposedNode(f"{self.name} was disposed of")
        return self.last  # type: ignore[return-value]  # a cell always has one

    def set(self, value: T) -> None:
        """Write. An equal value changes nothing; another one is seen by all effects when this returns.

        In a batch, and in an effect, effects run later: when the outermost batch ends, or after this effect.
        """
        graph = self.graph
        if self.mark or graph.refreshing:
            graph.refuse_mutation(self)
        before = self.last
        try:
            if value is before or (type(value) is type(before) and value == before):
                return
        except Exception as error:
            raise IncomparableValue(self.name) from error
        self.last = value
        if graph.depth and graph.reads is None:
            if self not in graph.written:
                graph.written[self] = before
        else:
            graph.write(self)

    def update(self, change: Callable[[T], T]) -> None:
        """Write what a function makes of the value."""
        self.set(change(self.peek()))


class Slot(Readable[T_co]):
    """A value that is computed when it is read, and again only after something it read has changed.

    An equal result is no change: nothing that reads this slot is computed again for it. The seed calls a slot with that
    guard a memo; here there is no other.
    """

    __slots__ = ("compute", "error")

    kind = "slot"
    keeps_error = False
    """Whether ``error`` outlives the operation, for all but readers outside the graph."""

    def __init__(
        self, graph: Engine, id: NodeId, compute: Callable[[], T_co], tag: str | None, key: str | None
    ) -> None:
        super().__init__(graph, id, UNSET, tag, key)
        self.compute: Final = compute
        self.error: Exception | None = None
        """What the computation raised, until the operation that ran it is over: it is not tried twice in one."""
        self.mark = DIRTY

    def get(self) -> T_co:
        graph = self.graph
        reads = graph.reads
        if reads is not None:
            reads.append(self)
        elif graph.written:
            graph.tell_written()
        if self.mark:
            graph.pull(self)
        return self.last  # type: ignore[return-value]  # it is up to date, so there is one

    def run(self) -> bool:
        """Compute; whether that gave another value."""
        graph = self.graph
        outer = graph.reads
        reads: list[Node] = []
        graph.reads = reads
        self.mark = RUNNING
        try:
            value = self.compute()
            if reads != self.sources:
                relink(self, reads)
            last = self.last
            try:
                is_new = value is not last and bool(type(value) is not type(last) or value != last)
            except Exception as error:
                raise IncomparableValue(self.name) from error
        except BaseException as error:
            graph.note_failure(self, reads, error)
            raise
        finally:
            graph.reads = outer
        self.mark = CLEAN
        if is_new:
            self.last = value
        if graph.touched is not None:
            graph.touched[self] = None
        return is_new

    def lose(self) -> None:
        """A computation has seen that there is no value now, so the next value is another one for it."""
        if self.mark in {CLEAN, RUNNING, DISPOSED}:
            return
        if self.last is not UNSET and not isinstance(self.last, Lost):
            self.last = Lost(self.last)  # type: ignore[assignment]  # nobody is given it: see ``Readable.last_value``
        self.mark = FAILED


@final
class SourceSlot(Slot[T_co]):
    """A slot that reads nothing: computed once, when it is made, and a root of the graph."""

    __slots__ = ()

    kind = "source slot"
    is_root = True

    def run(self) -> bool:
        is_new = super().run()
        if self.sources:
            relink(self, [])
            self.last = UNSET
            self.mark = FAILED
            raise ReadingSourceSlot(f"{self.name} is a root of the graph, and reads other nodes")
        return is_new


@final
class Signal(Slot[T_co]):
    """A slot that is kept computed: when it is created, and once in each flush that changes what it reads."""

    __slots__ = ()

    kind = "signal"

    def dispose(self) -> None:
        """Keep it computed no longer. It stays in the graph, as a slot that is computed when read. Idempotent."""
        self.graph.make_lazy(self)

    def remove(self) -> None:
        """Take it out of the graph."""
        self.graph.dispose(self)


@final
class Effect(Node):
    """A function that is run when it is created, and after each flush that changed something it read."""

    __slots__ = ("cleanup", "compute", "graph", "is_due_again")

    kind = "effect"
    is_line = False

    def __init__(self, graph: Engine, id: NodeId, compute: Callable[[], object]) -> None:
        super().__init__(id)
        self.graph: Final = graph
        self.compute: Final = compute
        self.cleanup: Callable[[], object] | None = None
        """What the last run returned, to be called before the next one."""
        self.is_due_again = False
        """Whether it has written, while running, what it reads."""
        self.is_eager = True
        self.live = 1
        self.mark = DIRTY

    def dispose(self) -> None:
        """Run no more. The last run is cleaned up after. Idempotent."""
        self.graph.dispose(self)

    def clean_up(self) -> None:
        """Undo the last run, if it said how."""
        cleanup, self.cleanup = self.cleanup, None
        if cleanup is not None:
            cleanup()

    def run(self) -> bool:
        """Act; whether it must act again. Only the drain of a flush calls this, where nothing else runs."""
        graph = self.graph
        reads: list[Node] = []
        graph.reads = reads
        self.mark = RUNNING
        self.is_due_again = False
        try:
            cleanup = self.compute()
        finally:
            graph.reads = None
            if self.mark != DISPOSED:
                self.mark = CLEAN
                if reads != self.sources:
                    relink(self, reads)
        if callable(cleanup):
            self.cleanup = cleanup
            if self.mark == DISPOSED:
                self.clean_up()
        return self.is_due_again
