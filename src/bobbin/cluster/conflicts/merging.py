"""What two transactions may really do together, whatever class their vectors fall into.

Cosine ignores size: adding 1 and adding 100 are one direction. So a class only suggests, and operations decide:

* One of two may stand for both only when their operations are the same to the byte, and doing them twice is the same
  as doing them once: they read nothing, touch each key once, and only set or take away. Two clients that each add 1
  have added 2; two that both swapped a value did not both find it. The same transaction sent again is always the same.
* Two cancel only when each operation of the one has its exact inverse in the other.
* Both take full effect, one after the other in any order, when they touch no key in common, or touch what they share
  with operations that are declared commutative and of one kind.
* Nothing is averaged here. ``Average`` is an operation that somebody has to ask for, and two of them on one key follow
  one another.

Versions decide above all of this: see the rules of a ledger.
"""

from collections import Counter
from typing import Final, assert_never

from bobbin.cluster.conflicts.classify import ConflictClass, ConflictResult, MergeAction
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import (
    Average,
    CompareAndSwap,
    CounterAdd,
    Operation,
    Transaction,
    VectorAdd,
    affected_key,
    commutative_tag,
    operation_digest,
    storage_key,
)

_NOT_REPEATABLE: Final = (CounterAdd, VectorAdd, Average, CompareAndSwap)
"""Doing one of them again does something again, or finds something else."""


def action_of(one: Transaction, other: Transaction, result: ConflictResult) -> MergeAction:
    """What may become of a pair that is to be committed together, by what was found of their vectors."""
    match result.conflict_class:
        case ConflictClass.IDENTICAL if may_deduplicate(one, other):
            return MergeAction.DEDUPLICATE
        case ConflictClass.OPPOSITE if may_cancel(one, other):
            return MergeAction.CANCEL
        case ConflictClass.ORTHOGONAL | ConflictClass.LOW_CONFLICT | ConflictClass.IDENTICAL | ConflictClass.OPPOSITE:
            return MergeAction.VECTOR_ADD if commute(one, other) else MergeAction.REJECT
        case ConflictClass.CONFLICTING | ConflictClass.AMBIGUOUS:
            shares = _touched(one).keys() & _touched(other).keys()
            return MergeAction.VECTOR_ADD if shares and commute(one, other) else MergeAction.REJECT
        case _:
            assert_never(result.conflict_class)


def may_deduplicate(one: Transaction, other: Transaction) -> bool:
    """Whether the first one being done answers the other, too."""
    if _digests(one) != _digests(other):
        return False
    if one.id == other.id:
        return True
    if one.reads or other.reads or any(isinstance(operation, _NOT_REPEATABLE) for operation in one.operations):
        return False
    return len({storage_key(operation) for operation in one.operations}) == len(one.operations)


def may_cancel(one: Transaction, other: Transaction) -> bool:
    """Whether the two undo one another exactly, so that neither needs to be done."""
    if one.reads or other.reads or not one.operations:
        return False
    inverses = [inverse(operation) for operation in one.operations]
    if None in inverses:
        return False
    wanted = Counter(operation_digest(operation) for operation in inverses if operation is not None)
    return wanted == Counter(_digests(other))


def inverse(operation: Operation) -> Operation | None:
    """What undoes an operation whatever the state is; None where nothing does."""
    match operation:
        case CounterAdd(key=key, amount=amount):
            return CounterAdd(key, -amount)
        case VectorAdd(key=key, vector=vector):
            return VectorAdd(
                key, Embedding(vector.dimension, vector.positions, tuple(-value for value in vector.values))
            )
        case _:
            return None


def commute(one: Transaction, other: Transaction) -> bool:
    """Whether both orders lead to the same: no key is in common but under commutative operations of one kind.

    Keys are those of storage and those by which operations are locked; a key that one has read counts as touched.
    """
    here, there = _touched(one), _touched(other)
    return all(
        0 not in here[key] | there[key] and len(here[key] | there[key]) == 1 for key in here.keys() & there.keys()
    )


def _touched(transaction: Transaction) -> dict[bytes, frozenset[int]]:
    """Each key with the commutative kinds by which it is touched; 0 stands for all that does not commute."""
    kinds: dict[bytes, frozenset[int]] = {read.key: frozenset({0}) for read in transaction.reads}
    for operation in transaction.operations:
        for key in {storage_key(operation), affected_key(operation)}:
            kinds[key] = kinds.get(key, frozenset()) | {commutative_tag(operation)}
    return kinds


def _digests(transaction: Transaction) -> list[bytes]:
    return [operation_digest(operation) for operation in transaction.operations]
