"""What all nodes have: a place in the graph, and a mark that says how far it can be trusted."""

from typing import ClassVar

from bobbin.reactive.graph.marks import CLEAN, WAITING
from bobbin.reactive.messages import NodeId


class Node:
    """A cell, a slot or an effect. No abstract class by name: ``isinstance`` takes its time with those."""

    __slots__ = ("id", "is_eager", "level", "live", "mark", "readers", "sources")

    kind: ClassVar[str]
    is_line: ClassVar = True
    """Whether it is computed along a line of single readers."""
    settled = CLEAN
    """The mark it takes when nothing that it reads has changed."""

    def __init__(self, id: NodeId) -> None:
        self.id = id
        """Its name on the wire, as long as it lives. Where it is stored has nothing to do with it."""
        self.mark = CLEAN
        self.sources: list[Node] = []
        """What it read when it last ran, each once, in that order."""
        self.readers: dict[Node, None] = {}
        """Who has it among ``sources``."""
        self.level = 0
        """Greater than that of all its sources. So a reader of lower level cannot be below it, and no cycle hides."""
        self.live = 0
        """How many reasons there are to keep it computed: being eager, and readers that have a reason."""
        self.is_eager = False
        """Whether a change that reaches it schedules it."""

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.kind} {self.id}"

    def run(self) -> bool:
        """Compute or act, and note what was read."""
        raise NotImplementedError

    def doubt(self) -> None:
        """Something that it reads could not be asked. Look again when read."""
        self.mark = WAITING

    def trust(self) -> None:
        """All that it reads has been asked, and is as it was."""


class TooDeep(BaseException):
    """Unwinds computations that are nested too deeply, down to where ``wanted`` can be computed on a flat stack.

    It never leaves the graph, and it is no ``Exception``, so that no computation catches it by accident.
    """

    def __init__(self, wanted: Node) -> None:
        super().__init__()
        self.wanted = wanted
