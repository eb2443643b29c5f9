"""How two changes are compared, and which of them may stand together."""

from bobbin.cluster.conflicts.batch import ConflictPair, compare, detect_conflicts
from bobbin.cluster.conflicts.classify import ConflictClass, ConflictResult, MergeAction, Thresholds, detect_conflict
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.conflicts.embedding_state import Computed, EmbeddingState, Initial, compute
from bobbin.cluster.conflicts.merging import action_of
from bobbin.cluster.conflicts.of_operations import delta_of
from bobbin.cluster.conflicts.ordering import merge_all, merge_order, orthogonal_set

__all__ = [
    "Computed",
    "ConflictClass",
    "ConflictPair",
    "ConflictResult",
    "DeltaVector",
    "EmbeddingState",
    "Initial",
    "MergeAction",
    "Thresholds",
    "action_of",
    "compare",
    "compute",
    "delta_of",
    "detect_conflict",
    "detect_conflicts",
    "merge_all",
    "merge_order",
    "orthogonal_set",
]
