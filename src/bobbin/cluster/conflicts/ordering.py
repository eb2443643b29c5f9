"""In which order changes are joined, and which of them can be joined at all."""

from collections.abc import Sequence

from msgspec import Struct

from bobbin.cluster.conflicts.classify import DEFAULT, ConflictClass, MergeAction, Thresholds, detect_conflict
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.geometry import Embedding, cosine


def merge_order(deltas: Sequence[DeltaVector]) -> list[int]:
    """From the first on, next always the one least like the last chosen, by absolute cosine; the earlier of equals."""
    left = list(range(1, len(deltas)))
    order = [0] if deltas else []
    while left:
        last = deltas[order[-1]].delta
        chosen = min(left, key=lambda place: (abs(cosine(last, deltas[place].delta)), place))
        left.remove(chosen)
        order.append(chosen)
    return order


def orthogonal_set(deltas: Sequence[DeltaVector], thresholds: Thresholds = DEFAULT) -> list[int]:
    """Changes of which no two are Conflicting or Ambiguous: in the order given, each that fits those taken before."""
    taken: list[int] = []
    for place, delta in enumerate(deltas):
        found = (detect_conflict(deltas[earlier], delta, thresholds).conflict_class for earlier in taken)
        if all(one.is_mergeable for one in found):
            taken.append(place)
    return taken


class Merged(Struct, frozen=True):
    """Changes joined into one."""

    delta: DeltaVector
    taken: tuple[int, ...]
    """In the order in which they were joined; together with ``left`` all that were given."""
    left: tuple[int, ...]


def merge_all(deltas: Sequence[DeltaVector], thresholds: Thresholds = DEFAULT) -> Merged:
    """Join in merge order whatever can be joined with what has been joined so far.

    For looking at changes, not for doing them: an Identical one adds nothing, and an Opposite one takes away what was
    there, by the vectors alone. Which transactions may do so is said in ``merging``.
    """
    whole: DeltaVector | None = None
    taken: list[int] = []
    left: list[int] = []
    for place in merge_order(deltas):
        if whole is None:
            whole = deltas[place]
            taken.append(place)
            continue
        result = detect_conflict(whole, deltas[place], thresholds)
        if result.action is MergeAction.REJECT:
            left.append(place)
            continue
        taken.append(place)
        whole = joined(whole, deltas[place], result.conflict_class)
    return Merged(whole or DeltaVector.of(Embedding.zero(0)), tuple(taken), tuple(left))


def joined(one: DeltaVector, other: DeltaVector, found: ConflictClass) -> DeltaVector:
    """Two changes of a class that can be joined, as one."""
    match found:
        case ConflictClass.IDENTICAL:
            return one
        case ConflictClass.OPPOSITE:
            return DeltaVector.of(Embedding.zero(one.delta.dimension), {*one.keys, *other.keys})
        case _:
            return one.add(other)
