import pytest

from bobbin.cluster.conflicts.embedding_state import Computed, Initial, compute
from bobbin.cluster.geometry import Embedding
from bobbin.errors import UsageError

_BEFORE = Embedding.dense((1.0, 2.0, 0.0))
_AFTER = Embedding.dense((1.5, 2.0, -1.0))


def test_a_change_is_what_lies_between_before_and_after() -> None:
    state = compute(Initial(_BEFORE), _AFTER)
    assert state == Computed(_BEFORE, _AFTER, Embedding(3, (0, 2), (0.5, -1.0)))


def test_a_change_is_computed_once() -> None:
    with pytest.raises(UsageError, match="already"):
        compute(compute(Initial(_BEFORE), _AFTER), _AFTER)


def test_another_dimension_is_refused() -> None:
    with pytest.raises(UsageError, match="3 dimensions"):
        compute(Initial(_BEFORE), Embedding.dense((1.0, 2.0)))


def test_a_threshold_drops_differences_up_to_it_and_with_it() -> None:
    after = Embedding.dense((1.25, 1.75, 0.5))
    assert compute(Initial(_BEFORE), after, threshold=0.25).delta == Embedding(3, (2,), (0.5,))
    assert compute(Initial(_BEFORE), after, threshold=0.24).delta.positions == (0, 1, 2)


@pytest.mark.parametrize("threshold", [-0.1, float("nan")])
def test_a_threshold_is_not_negative(threshold: float) -> None:
    with pytest.raises(UsageError, match="threshold"):
        compute(Initial(_BEFORE), _AFTER, threshold=threshold)
