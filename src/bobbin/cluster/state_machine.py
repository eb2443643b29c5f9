"""What a log is kept for: a state to which every node applies the same commands in the same order."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from bobbin.cluster.names import Index, Term


class Capture(Protocol):
    """A state as it was at one moment. It may be read later and elsewhere, while the state itself moves on."""

    def __len__(self) -> int:
        """How many entries there are; the head of a snapshot stream says it before the first."""
        ...

    def __iter__(self) -> Iterator[bytes]:
        """The entries, in an order that follows from the state alone."""
        ...


class StateMachine(Protocol):
    """What it holds and answers follows from the commands and their places alone, never from a clock or from chance."""

    def apply(self, index: Index, term: Term, command: bytes) -> bytes:
        """Do a committed command and give the answer for whoever asked.

        Never raises: a command that makes no sense is answered by a refusal, the same on every node.
        """
        ...

    @property
    def root(self) -> bytes:
        """32 bytes that are equal when two states are, and, by all that is known of the hash, only then."""
        ...

    def snapshot(self) -> Capture:
        """The state as it is now. Cheap: the work of writing it down is left to whoever iterates."""
        ...

    def restore(self, entries: Iterable[bytes]) -> None:
        """Become the state that a capture wrote down. ``IntegrityError`` leaves everything as it was."""
        ...
