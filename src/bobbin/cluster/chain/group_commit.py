"""Which of the transactions that asked to commit share the next block.

The one that has waited longest leads. Of the others that asked within the window, those whose changes are orthogonal
to all that was chosen go along, the most orthogonal to the leader first, and so does one that shares keys only by
additions of the same declared commutative kind. Whoever is not chosen stays as it is and may be in the next block.
Geometry only sorts here; whether a transaction may commit is decided by versions, when the block is drafted.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from bobbin.cluster.chain.draft import kinds_of_writes
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.geometry import cosine
from bobbin.cluster.operations import Transaction, lock_names
from bobbin.cluster.settings import AutoMergeConfig

LOOKED_AT_MAX: Final = 100
"""Of those that wait, how many are compared for one block."""


class Waiting(Struct, frozen=True):
    """A transaction whose owner asked to commit."""

    transaction: Transaction
    delta: DeltaVector
    asked_ms: int


def choose(
    waiting: Sequence[Waiting], *, now_ms: int, config: AutoMergeConfig, operations_max: int
) -> tuple[Waiting, ...]:
    """Those for the next block, the leader first. ``waiting`` is in the order of asking; empty for nobody."""
    if not waiting:
        return ()
    leader = waiting[0]
    chosen = [leader]
    if not config.enabled:
        return (leader,)
    room = operations_max - len(leader.transaction.operations)
    candidates = [
        (abs(cosine(leader.delta.delta, one.delta.delta)), place, one)
        for place, one in enumerate(islice(waiting, 1, LOOKED_AT_MAX), start=1)
        if now_ms - one.asked_ms <= config.merge_window_ms
    ]
    candidates.sort(key=lambda candidate: candidate[:2])
    names = [set(lock_names(leader.transaction))]
    for _, _, one in candidates:
        if len(chosen) == config.max_merge_batch:
            break
        size = len(one.transaction.operations)
        own = set(lock_names(one.transaction))
        pairs = zip(chosen, names, strict=True)
        if size <= room and all(_go_together(one, own, other, theirs, config) for other, theirs in pairs):
            chosen.append(one)
            names.append(own)
            room -= size
    return tuple(chosen)


def _go_together(one: Waiting, own: set[bytes], other: Waiting, theirs: set[bytes], config: AutoMergeConfig) -> bool:
    shared = own & theirs
    if not shared:
        return abs(cosine(one.delta.delta, other.delta.delta)) < config.orthogonal_threshold
    return all_commute(one.transaction, other.transaction, shared)


def all_commute(one: Transaction, other: Transaction, shared: set[bytes]) -> bool:
    """Whether all that two transactions share are keys to which both only add, in the same declared way."""
    if shared & {read.key for read in (*one.reads, *other.reads)}:
        return False
    here, there = kinds_of_writes(one.operations), kinds_of_writes(other.operations)
    kinds = [(here[key], there[key]) for key in shared if key in here and key in there]
    return bool(kinds) and all(mine == theirs != 0 for mine, theirs in kinds)
