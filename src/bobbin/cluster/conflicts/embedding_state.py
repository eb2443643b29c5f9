"""The vector of a workspace: first only where it began, then, once, where it ended and what lies between."""

from msgspec import Struct

from bobbin.cluster.geometry import Embedding, combine
from bobbin.errors import UsageError


class Initial(Struct, frozen=True, array_like=True, tag=1):
    """Nothing is known of the change."""

    before: Embedding


class Computed(Struct, frozen=True, array_like=True, tag=2):
    """The last state: what others were compared with must not change under them."""

    before: Embedding
    after: Embedding
    delta: Embedding
    """``after`` minus ``before``."""


EmbeddingState = Initial | Computed


def compute(state: EmbeddingState, after: Embedding, *, threshold: float = 0.0) -> Computed:
    """The change to ``after``, without differences whose size is at most the threshold.

    0.001 leaves out noise, 0.01 what is minor, 0.1 all that is not coarse. Raise ``UsageError`` for a second change of
    the same state, another dimension, or a negative threshold.
    """
    if isinstance(state, Computed):
        raise UsageError("the change of this state is computed already")
    if after.dimension != state.before.dimension:
        raise UsageError(f"a vector of {state.before.dimension} dimensions cannot become one of {after.dimension}")
    if not threshold >= 0.0:
        raise UsageError(f"a threshold of differences is 0 or more, not {threshold}")
    difference = combine(after, state.before, 1.0, -1.0)
    return Computed(state.before, after, difference.mapped(lambda value: value if abs(value) > threshold else 0.0))
