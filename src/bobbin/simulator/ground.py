"""What a witness stands on: what is true at a node, and what one round has moved."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Protocol

from bobbin.interlace.cursor import Cursor
from bobbin.records.record import Record
from bobbin.simulator.claim_model import Table


class Ground(Protocol):
    """What is true at a node, whatever its machines think."""

    @property
    def records(self) -> Mapping[str, Record]: ...

    @property
    def refused(self) -> AbstractSet[str]: ...

    @property
    def version(self) -> int:
        """Another number after every change of the two above."""
        ...

    @property
    def kept(self) -> dict[tuple[str, str], Table]:
        """The claims that earlier witnesses left, by link and plan."""
        ...

    @property
    def modules(self) -> dict[str, bytes]:
        """Every module that was ever said or heard here, by its name."""
        ...

    def cursor(self, key: str) -> Cursor | None: ...


class Books:
    """What one round has moved."""

    def __init__(self) -> None:
        self.stored: Final[set[str]] = set()
        self.sent: Final[set[str]] = set()
        self.bytes_sent = 0
        self.bytes_received = 0
        self.summaries_said = 0
        self.summaries_heard = 0
