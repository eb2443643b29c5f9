"""Slots whose computations take their time: ``async def`` functions that somebody else drives.

A graph has no event loop. When such a slot is read and stale, the graph asks for a ``Run``: whoever drives it takes the
run, steps the coroutine through ``Graph.step``, so that what it reads is noticed across its pauses, and hands in what
came of it. Until then reading the slot raises ``StillPending``.

What always holds: only the last run of a slot counts, an older one's result is dropped. A run goes on while what it
read stays the same, and is given up for another one when that has changed and somebody reads the slot.

A failure is not kept for readers outside the graph: their next read starts another run. Computations, effects and runs
meet it until then, or until what the failed run had read has changed; else they would keep each other trying for ever.
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar, final

from bobbin.reactive.graph.errors import StillPending
from bobbin.reactive.graph.marks import CLEAN, FAILED, WAITING
from bobbin.reactive.graph.nodes import Engine, Slot
from bobbin.reactive.messages import NodeId

if TYPE_CHECKING:
    from bobbin.reactive.graph.node import Node

T_co = TypeVar("T_co", covariant=True)


class AsyncSlot(Slot[T_co]):
    """A slot that is computed elsewhere. Its value is the last one that came, if nothing it read has changed since."""

    __slots__ = ("begin", "current", "is_doubtful", "settled", "starts")

    kind = "asynchronous slot"
    is_line = False
    keeps_error = True

    def __init__(
        self,
        graph: Engine,
        id: NodeId,
        begin: Callable[[], Coroutine[object, object, T_co]],
        tag: str | None,
        key: str | None,
        starts: "list[Run]",
    ) -> None:
        super().__init__(graph, id, _computed_elsewhere, tag, key)
        self.begin: Final = begin
        self.starts: Final = starts
        self.current: Run | None = None
        """The run that counts."""
        self.is_doubtful = False
        """Whether something that the run has read may have changed, and could not be asked."""
        self.settled = CLEAN

    @property
    def is_pending(self) -> bool:
        """Whether a run is on its way."""
        return self.current is not None

    def run(self) -> bool:
        """Ask for a run."""
        self.error = None
        self.is_doubtful = False
        self.ask_again()
        self.mark = self.settled = WAITING
        if self.graph.touched is not None:
            self.graph.touched[self] = None
        raise StillPending(self.name)

    def ask_again(self) -> None:
        """Let another run count, in place of one that nobody drives, if there was one."""
        self.current = Run(self)
        self.starts.append(self.current)

    def end(self) -> None:
        """No run counts any longer."""
        self.current = None
        self.is_doubtful = False
        self.settled = CLEAN

    def doubt(self) -> None:
        super().doubt()
        self.is_doubtful = self.is_pending

    def trust(self) -> None:
        self.is_doubtful = False

    def lose(self) -> None:
        super().lose()
        if self.mark == FAILED and self.is_pending:
            # What is on its way still counts.
            self.mark = WAITING


@final
class Run:
    """One computation of an asynchronous slot, from the side of whoever drives it."""

    __slots__ = ("reads", "slot")

    def __init__(self, slot: AsyncSlot[object]) -> None:
        self.slot: Final = slot
        self.reads: list[Node] = []
        """What it has read so far."""

    @property
    def is_current(self) -> bool:
        """Whether the slot still waits for this one."""
        return self.slot.current is self

    def begin(self) -> Coroutine[object, object, object]:
        """The coroutine to be stepped."""
        return self.slot.begin()


def _computed_elsewhere() -> NoReturn:
    raise AssertionError("an asynchronous slot asks for a run instead")
