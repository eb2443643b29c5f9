"""How a change goes through a graph: reached nodes are marked, and what is needed is brought up to date when asked.

A change of several cells goes in two movements. First every node below them is marked, each once: direct readers as
``DIRTY``, all others as ``CHECK``, and effects are scheduled. Then whoever is read, or due, asks its sources in the
order in which it read them; it is computed only if one of them has in fact changed. So a node is computed at most once,
never sees old and new values mixed, and not at all if what it reads turns out equal.

Where one cell with one reader is written, and that reader is kept computed anyway, marking says nothing that is not
known: the reader is computed at once, and so on along the line, until a value turns out equal or the line forks. That
is what makes long chains and changes that come to nothing cheap.

No part of this calls itself, so a chain may be as long as memory allows. Computations do nest when one reads what was
never computed; past ``NESTING_MAX`` they are unwound and begun again after that has been computed.

A failed computation leaves no value. Its error is given to everybody who asks within the same operation (a read, a
write, a flush) and forgotten then.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Final

from bobbin.reactive.graph.errors import (
    CycleFound,
    DisposedNode,
    MutationInComputation,
    StillPending,
)
from bobbin.reactive.graph.links import link_also, relink_where_possible
from bobbin.reactive.graph.marks import CHECK, CLEAN, DIRTY, DISPOSED, FAILED, RUNNING, WAITING, is_same
from bobbin.reactive.graph.node import Node, TooDeep
from bobbin.reactive.graph.nodes import Effect, Engine, Readable, Slot

NESTING_MAX: Final = 48
"""How deeply computations nest. Python's own stack takes about 1000 calls, and a computation may need a dozen."""


class Propagation(Engine):
    """An engine that marks and brings up to date; when effects run, its heirs say."""

    __slots__ = ("active", "failed", "floor", "is_ending", "is_retrying")

    def __init__(self) -> None:
        super().__init__()
        self.active: Effect | None = None
        """The effect that runs."""
        self.failed: list[Slot[object]] = []
        """Slots whose error is kept until the operation is over."""
        self.floor = 0
        """Which entry of ``refreshing`` is the lowest that may begin computations again."""
        self.is_ending = False
        """Whether the flush at the end of an operation is going on, in which what is kept computed is computed."""
        self.is_retrying = False
        """Whether somebody outside the graph reads, and so wants failed runs to be tried again."""

    @abstractmethod
    def flush(self) -> None:
        """End an operation that began at rest: run what is due, report, and raise what went wrong."""

    # ---- marking ----------------------------------------------------------------------------------------------------

    def mark_readers(self, changed: Iterable[Node]) -> None:
        """Let everything below some nodes know that their values are others."""
        reached: list[Node] = []
        for node in changed:
            for reader in node.readers:
                mark = reader.mark
                if mark == CHECK:
                    reader.mark = DIRTY
                elif mark < CHECK:
                    reader.mark = DIRTY
                    reached.append(reader)
                elif mark == RUNNING and isinstance(reader, Effect):
                    reader.is_due_again = True
        self.spread(reached)

    def spread(self, reached: list[Node]) -> None:
        """Mark what is below nodes that have just been marked, and schedule what is to be."""
        due = self.due
        for node in reached:
            if node.is_eager:
                due.append(node)
            for reader in node.readers:
                mark = reader.mark
                if not mark:
                    reader.mark = CHECK
                    reached.append(reader)
                elif mark < CHECK:
                    reader.mark = CHECK if mark == WAITING else DIRTY
                    reached.append(reader)
                elif mark == RUNNING and isinstance(reader, Effect):
                    reader.is_due_again = True
        if self.touched is not None:
            self.touched.update(dict.fromkeys(reached))

    def tell_written(self) -> None:
        written, self.written = self.written, {}
        changed = [cell for cell, before in written.items() if not is_same(cell.last, before) and cell.mark == CLEAN]
        if self.touched is not None:
            self.touched.update(dict.fromkeys(changed))
        if self.is_ending and len(changed) == 1:
            self._advance(changed[0])
        else:
            self.mark_readers(changed)

    def write(self, cell: Readable[object]) -> None:
        if self.touched is not None:
            self.touched[cell] = None
        if self.depth:
            # An effect writes. What it has read so far may be just this, and it must hear of it.
            assert self.active is not None
            assert self.reads is not None
            link_also(self.active, self.reads)
            self.mark_readers((cell,))
            return
        self.depth = 1
        try:
            self._advance(cell)
        except BaseException:
            self._break_off()
            raise
        self.flush()

    def _advance(self, cell: Readable[object]) -> None:
        """Tell of one cell, computing along the line while it has no fork and is kept computed anyway."""
        node: Node = cell
        place: list[Node] = [node]
        self.refreshing.append(place)
        try:
            while len(node.readers) == 1:
                (reader,) = node.readers
                if not reader.live or not reader.is_line or (reader.mark != CLEAN and reader.mark != FAILED):
                    break
                place[0] = node = reader
                if not reader.run():
                    return
        except TooDeep:
            node.mark = DIRTY
            self.spread([node])
            return
        except StillPending:
            self.spread([node])
            return
        except BaseException as error:
            if not isinstance(error, Exception):
                self.mark_readers((node,))
                raise
            # It is in the node now, for whoever asks. All below must ask, and who computes what is eager.
            if node.is_eager:
                self.due.append(node)
        finally:
            self.refreshing.pop()
        self.mark_readers((node,))

    # ---- bringing up to date ----------------------------------------------------------------------------------------

    def pull(self, node: Slot[object]) -> None:
        if self.reads is not None or self.refreshing or self.active is not None:
            try:
                self.refresh(node)
            except Exception:
                if self.reads is not None:
                    node.lose()
                raise
            return
        self.depth += 1
        self.is_retrying = True
        try:
            self.refresh(node)
        except BaseException as error:
            self.is_retrying = False
            self._end_read(broken=not isinstance(error, Exception))
            raise
        self.is_retrying = False
        self._end_read(broken=False)

    def _end_read(self, *, broken: bool) -> None:
        if self.depth > 1:
            # In a batch. Each read is tried anew all the same.
            self.depth -= 1
            self.forget_failures()
        elif broken:
            self._break_off()
        else:
            self.flush()

    def refresh(self, target: Node) -> None:
        """Bring one node up to date that is not. Raises what its computation raised, or ``StillPending``."""
        self._check_readable(target)
        refreshing = self.refreshing
        if len(refreshing) - self.floor >= NESTING_MAX:
            raise TooDeep(target)
        path = [target]
        checks = [iter(target.sources)]
        refreshing.append(path)
        try:
            while path:
                node = path[-1]
                mark = node.mark
                if mark == CHECK or mark == WAITING:  # noqa: SIM109 -- for every node of every update
                    if not self._ask(node, path, checks):
                        continue
                elif mark == DIRTY or mark == FAILED:  # noqa: SIM109 -- as above
                    wanted = self._run(node, path)
                    if wanted is not None:
                        path.append(wanted)
                        checks.append(iter(wanted.sources))
                        continue
                path.pop()
                checks.pop()
        except StillPending:
            # None of those that wait is wrong yet; they look again when the value has come.
            for waiting in path:
                if waiting.mark == CHECK:
                    waiting.doubt()
            raise
        finally:
            refreshing.pop()

    def _run(self, node: Node, path: list[Node]) -> Node | None:
        """Compute the last node of a path, or say what must be computed before that."""
        try:
            if node.run():
                self._tell_readers(node)
        except TooDeep as deeper:
            if len(self.refreshing) > self.floor + 1:
                raise
            return deeper.wanted
        except Exception as error:
            if len(path) == 1 or isinstance(error, StillPending):
                raise
            reader = path[-2]
            if reader.mark == CHECK or reader.mark == WAITING:
                reader.mark = DIRTY
        return None

    def _ask(self, node: Node, path: list[Node], checks: list[Iterator[Node]]) -> bool:
        """Go on asking the sources of a node; whether all are as they were. Else what is to be done is marked."""
        for source in checks[-1]:
            mark = source.mark
            if mark:
                error = self._error_of(source) if mark == FAILED else None
                if isinstance(error, StillPending):
                    raise error
                if mark == RUNNING or error is not None:
                    # Let the computation itself meet the error: it may know what to do.
                    node.mark = DIRTY
                    return False
                path.append(source)
                checks.append(iter(source.sources))
                return False
        node.mark = node.settled
        if node.mark == WAITING:
            node.trust()
            raise StillPending(node.name)
        if self.touched is not None:
            # It may have been told to be stale, before that was known.
            self.touched[node] = None
        return True

    def is_concerned(self, node: Node) -> bool | None:
        """Whether something that a node read has in fact changed; None if that cannot be known yet."""
        for source in node.sources:
            if source.mark:
                try:
                    self.refresh(source)
                except StillPending:
                    node.doubt()
                    return None
                except Exception:  # noqa: BLE001 -- the node itself will meet it
                    node.mark = DIRTY
            if node.mark == DIRTY:
                return True
        node.mark = node.settled
        return False

    def _check_readable(self, node: Node) -> None:
        mark = node.mark
        if mark == RUNNING:
            raise CycleFound(self._cycle(node))
        if mark == DISPOSED:
            raise DisposedNode(f"{node.name} was disposed of")
        if mark == FAILED:
            error = self._error_of(node)
            if error is not None:
                raise error

    def _error_of(self, node: Node) -> Exception | None:
        """What a failed node gives to whoever asks, without trying again."""
        if not isinstance(node, Slot) or (self.is_retrying and node.keeps_error):
            return None
        return node.error

    def _cycle(self, node: Node) -> tuple[str, ...]:
        """The names of what waits for each other."""
        waiting = [one for path in self.refreshing for one in path]
        start = next((place for place, one in enumerate(waiting) if one is node), 0)
        return tuple(one.name for one in [*waiting[start:], node])

    def _tell_readers(self, node: Node) -> None:
        """The value is another one. Who has been reached already need only know that it is certain."""
        late: list[Node] = []
        for reader in node.readers:
            mark = reader.mark
            if mark == CHECK:
                reader.mark = DIRTY
            elif mark < CHECK:
                # It had made do with the failure of this node, or was never told.
                reader.mark = DIRTY
                late.append(reader)
        if late:
            self.spread(late)

    # ---- what goes wrong --------------------------------------------------------------------------------------------

    def note_failure(self, node: Slot[object], reads: list[Node], error: BaseException) -> None:
        if isinstance(error, Exception):
            relink_where_possible(node, reads)
            node.mark = FAILED
            node.error = error
            self.failed.append(node)
        else:
            node.mark = FAILED
        if self.touched is not None:
            self.touched[node] = None

    def forget_failures(self) -> None:
        """The operation is over: whoever asks again gets another computation."""
        for node in self.failed:
            node.error = None
        self.failed.clear()

    def _break_off(self) -> None:
        """An interruption ends the operation. What is due runs at the end of the next one."""
        self.depth = 0
        self.forget_failures()

    def refuse_mutation(self, node: Node) -> None:
        if node.mark == DISPOSED:
            raise DisposedNode(f"{node.name} was disposed of")
        raise MutationInComputation(f"{self.refreshing[-1][-1].name} is a computation, and may not change {node.name}")
