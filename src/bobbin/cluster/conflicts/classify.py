"""Which of six classes two changes fall into: seven tests, tried in order.

====  ============================================================  =============  =============
test  of cosine c, Jaccard j and shared keys                        class          action
====  ============================================================  =============  =============
1     c ≥ 0.99, and every key of both is shared                     Identical      deduplicate
2     c ≤ −0.95, and every key of both is shared                    Opposite       cancel
3     ``|c|`` < 0.1 and j < 0.5                                     Orthogonal     add
4     c ≥ 0.7                                                       Conflicting    reject
5     j ≥ 0.5                                                       Conflicting    reject
6     a key is shared, and merging shared keys is not allowed       Ambiguous      reject
7     whatever remains                                              LowConflict    add
====  ============================================================  =============  =============

A zero vector says nothing about a direction, so a pair with one is Orthogonal before any test.

The class is an opinion about vectors, and the action is what the opinion suggests. Cosine does not know sizes, so
``merging`` decides what may really be dropped or cancelled, and the versions of keys decide who may commit. LowConflict
is a sum, because half of each of two unrelated changes would be neither; only changes of registers that are declared as
averaged are averaged.
"""

from enum import Enum
from typing import Final

from msgspec import Struct

from bobbin.cluster.conflicts.delta import DeltaVector, jaccard, overlapping_keys
from bobbin.cluster.geometry import cosine
from bobbin.errors import UsageError


class ConflictClass(Enum):
    """How alike two changes are."""

    IDENTICAL = "identical"
    OPPOSITE = "opposite"
    ORTHOGONAL = "orthogonal"
    CONFLICTING = "conflicting"
    AMBIGUOUS = "ambiguous"
    LOW_CONFLICT = "low-conflict"

    @property
    def is_mergeable(self) -> bool:
        """Whether geometry alone has nothing against both standing together."""
        return self not in {ConflictClass.CONFLICTING, ConflictClass.AMBIGUOUS}


class MergeAction(Enum):
    """What a class suggests."""

    DEDUPLICATE = "deduplicate"
    CANCEL = "cancel"
    VECTOR_ADD = "vector-add"
    WEIGHTED_AVERAGE = "weighted-average"
    REJECT = "reject"


class Thresholds(Struct, frozen=True, kw_only=True):
    """Where the classes begin. What stands here is in order: the tests then mean what their names say."""

    identical: float = 0.99
    opposite: float = -0.95
    orthogonal: float = 0.1
    conflicting: float = 0.7
    structural: float = 0.5
    merges_shared_keys: bool = False
    """Take a shared key without other conflict for LowConflict."""

    def __post_init__(self) -> None:
        if not 0.0 < self.orthogonal <= self.conflicting <= self.identical <= 1.0:
            raise UsageError(
                f"thresholds of the cosine rise within (0, 1]: orthogonal ({self.orthogonal}), conflicting "
                f"({self.conflicting}), identical ({self.identical})"
            )
        if not -1.0 <= self.opposite <= -self.orthogonal:
            raise UsageError(f"opposite lies between -1 and -{self.orthogonal}, not at {self.opposite}")
        if not 0.0 < self.structural <= 1.0:
            raise UsageError(f"structural lies in (0, 1], not at {self.structural}")


DEFAULT: Final = Thresholds()
ACTIONS: Final = {
    ConflictClass.IDENTICAL: MergeAction.DEDUPLICATE,
    ConflictClass.OPPOSITE: MergeAction.CANCEL,
    ConflictClass.ORTHOGONAL: MergeAction.VECTOR_ADD,
    ConflictClass.CONFLICTING: MergeAction.REJECT,
    ConflictClass.AMBIGUOUS: MergeAction.REJECT,
    ConflictClass.LOW_CONFLICT: MergeAction.VECTOR_ADD,
}


class ConflictResult(Struct, frozen=True):
    """What was found of a pair."""

    conflict_class: ConflictClass
    cosine: float
    jaccard: float
    overlapping_keys: tuple[bytes, ...]
    action: MergeAction


def detect_conflict(
    one: DeltaVector, other: DeltaVector, thresholds: Thresholds = DEFAULT, *, averaged: bool = False
) -> ConflictResult:
    """Compare two changes. ``averaged``: both are of registers that are declared as averaged."""
    shared = overlapping_keys(one, other)
    near = cosine(one.delta, other.delta)
    alike = jaccard(one.delta, other.delta)
    if one.is_zero or other.is_zero:
        found = ConflictClass.ORTHOGONAL
    else:
        all_shared = len(shared) == len(one.keys) == len(other.keys)
        found = class_of(near, alike, thresholds, shares_all=all_shared, shares_any=bool(shared))
    action = ACTIONS[found]
    if averaged and found is ConflictClass.LOW_CONFLICT:
        action = MergeAction.WEIGHTED_AVERAGE
    return ConflictResult(found, near, alike, shared, action)


def class_of(near: float, alike: float, thresholds: Thresholds, *, shares_all: bool, shares_any: bool) -> ConflictClass:
    """The seven tests, of two vectors that are not zero."""
    if near >= thresholds.identical and shares_all:
        return ConflictClass.IDENTICAL
    if near <= thresholds.opposite and shares_all:
        return ConflictClass.OPPOSITE
    if abs(near) < thresholds.orthogonal and alike < thresholds.structural:
        return ConflictClass.ORTHOGONAL
    if near >= thresholds.conflicting or alike >= thresholds.structural:
        return ConflictClass.CONFLICTING
    if shares_any and not thresholds.merges_shared_keys:
        return ConflictClass.AMBIGUOUS
    return ConflictClass.LOW_CONFLICT
