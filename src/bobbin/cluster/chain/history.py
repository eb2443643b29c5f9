"""Which blocks have touched a key."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from bobbin.cluster.chain.block import Block
from bobbin.cluster.chain.draft import Refusals
from bobbin.cluster.operations import Operation, Put, affected_key, storage_key


class Touch(Struct, frozen=True):
    """An operation on a key that has become history."""

    height: int
    timestamp_ms: int
    transaction: bytes
    operation: Operation
    refusal: str = ""
    """Why the state refused it; empty if it was done."""


class History:
    """By affected and by storage key, the heights of the blocks with operations on it, ascending."""

    def __init__(self) -> None:
        self._heights: dict[bytes, int | list[int]] = {}
        """Most keys are touched once, and a number takes less room than a list."""

    def add(self, block: Block) -> None:
        """Take in the next block."""
        height = block.header.height
        heights = self._heights
        for name in names_of([operation for one in block.transactions for operation in one.operations]):
            known = heights.get(name)
            if known is None:
                heights[name] = height
            elif isinstance(known, list):
                known.append(height)
            else:
                heights[name] = [known, height]

    def is_touched(self, names: Iterable[bytes], since: int) -> bool:
        """Whether one of these keys was touched above a height."""
        heights = self._heights
        for name in names:
            known = heights.get(name)
            if known is not None and (known[-1] if isinstance(known, list) else known) > since:
                return True
        return False

    def heights(self, name: bytes) -> Sequence[int]:
        """Where a key was touched."""
        known = self._heights.get(name, ())
        return (known,) if isinstance(known, int) else known


def names_of(operations: Iterable[Operation]) -> set[bytes]:
    """All keys under which operations are found again."""
    names = set()
    for operation in operations:
        names.add(affected_key(operation))
        if type(operation) is not Put:  # for which both are the same
            names.add(storage_key(operation))
    return names


def touches(block: Block, refusals: Refusals, name: bytes) -> Iterator[Touch]:
    """What a block did to a key, in order."""
    header = block.header
    why = {(place, number): reason for place, number, reason in refusals}
    for place, transaction in enumerate(block.transactions):
        for number, operation in enumerate(transaction.operations):
            if name in (affected_key(operation), storage_key(operation)):
                refusal = why.get((place, number), "")
                yield Touch(header.height, header.timestamp_ms, transaction.id, operation, refusal)
