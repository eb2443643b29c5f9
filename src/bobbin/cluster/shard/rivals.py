"""Whether a change looks too much like another one that came first. Geometry only adds refusals; versions decide.

Two transactions are compared when they touch an affected key in common and not all that both do to it is declared
commutative of one kind. What was committed since a transaction began is compared in the order of the chain, and no more
than ``RIVALS_MAX`` of it: the answer follows from the chain, and what once refused a transaction refuses it for ever.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from bobbin.cluster.chain.block import Block
from bobbin.cluster.conflicts.classify import ConflictClass, Thresholds, detect_conflict
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.conflicts.of_operations import delta_of
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Put, Transaction, affected_key, commutative_tag
from bobbin.cluster.transactions.names import TxId

RIVALS_MAX: Final = 64

Before = Callable[[bytes, int], Embedding | None]
"""The vector at a storage key as of a height."""


class Rival(Struct, frozen=True):
    """A change that is in the way."""

    similarity: float
    other: TxId
    key: bytes
    """An affected key that both touch."""


def kinds(transaction: Transaction) -> dict[bytes, int]:
    """By affected key: the tag of the one declared commutative kind of operation on it; 0 for anything else."""
    found: dict[bytes, int] = {}
    for operation in transaction.operations:
        if type(operation) is Put:
            found[operation.key] = 0
            continue
        key, tag = affected_key(operation), commutative_tag(operation)
        found[key] = tag if found.get(key, tag) == tag else 0
    return found


def shared_key(one: dict[bytes, int], other: dict[bytes, int]) -> bytes | None:
    """A key by which two transactions are to be compared, from their ``kinds``; the first in order."""
    if len(other) < len(one):
        one, other = other, one
    both = [key for key, tag in one.items() if key in other and (not tag or other[key] != tag)]
    return min(both) if both else None


def compare(one: DeltaVector, other: DeltaVector, key: bytes, thresholds: Thresholds) -> Rival | None:
    """Whether the first is refused for the sake of the other, which came first."""
    found = detect_conflict(one, other, thresholds)
    if found.conflict_class is not ConflictClass.CONFLICTING:
        return None
    return Rival(found.cosine, TxId(other.tx), key)


def find_rival(
    transaction: Transaction,
    own: dict[bytes, int],
    heights_of: Callable[[bytes], Sequence[int]],
    block: Callable[[int], Block],
    before: Before,
    *,
    dimension: int,
    thresholds: Thresholds,
) -> Rival | None:
    """The first committed change since the transaction began that is too much like it; ``own`` are its ``kinds``."""
    heights: set[int] = set()
    for key in own:
        touched = heights_of(key)
        if touched and touched[-1] > transaction.since:
            first = bisect_right(touched, transaction.since)
            heights.update(touched[first : first + RIVALS_MAX])
    if not heights:
        return None
    delta = delta_of(transaction.operations, _at(before, transaction.since), dimension, tx=transaction.id)
    looked_at = 0
    for at in sorted(heights):
        for other in block(at).transactions:
            shared = shared_key(own, kinds(other))
            if shared is None:
                continue
            looked_at += 1
            if looked_at > RIVALS_MAX:
                return None
            theirs = delta_of(other.operations, _at(before, at - 1), dimension, tx=other.id)
            rival = compare(delta, theirs, shared, thresholds)
            if rival is not None:
                return rival
    return None


def _at(before: Before, height: int) -> Callable[[bytes], Embedding | None]:
    return lambda key: before(key, height)
