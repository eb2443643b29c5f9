from bobbin.cluster.conflicts.classify import ConflictClass
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.conflicts.ordering import Merged, joined, merge_all, merge_order, orthogonal_set
from bobbin.cluster.geometry import Embedding


def _delta(*values: float, key: bytes = b"") -> DeltaVector:
    return DeltaVector.of(Embedding.dense(values), (key,) if key else ())


def test_next_comes_what_is_least_like_the_last_chosen() -> None:
    east, north = _delta(1.0, 0.0), _delta(0.0, 1.0)
    assert merge_order([east, _delta(0.9, 0.1), north, _delta(-1.0, 0.01)]) == [0, 2, 3, 1]
    assert merge_order([]) == []
    assert merge_order([north]) == [0]


def test_size_of_the_cosine_counts_and_not_its_sign() -> None:
    assert merge_order([_delta(1.0, 0.0), _delta(-1.0, 0.1), _delta(0.5, 0.5)]) == [0, 2, 1]


def test_among_equals_the_earlier_comes_first() -> None:
    assert merge_order([_delta(1.0, 0.0, 0.0), _delta(0.0, 1.0, 0.0), _delta(0.0, 0.0, 1.0)]) == [0, 1, 2]


def test_no_two_of_an_orthogonal_set_conflict() -> None:
    east, like = _delta(1.0, 0.0, key=b"a"), _delta(1.0, 0.1, key=b"b")
    low = _delta(0.5, 0.0, 1.0, 1.0, 1.0, key=b"c")
    assert orthogonal_set([east, like, low, _delta(0.0, 0.0, 0.0, 0.0, 0.0, 1.0)]) == [0, 2, 3]
    assert orthogonal_set([like, east]) == [0]
    assert orthogonal_set([]) == []


def test_many_changes_are_joined_as_far_as_they_can_be() -> None:
    east, north, clash = _delta(1.0, 0.0, key=b"a"), _delta(0.0, 2.0, key=b"b"), _delta(1.0, 0.2, key=b"c")
    merged = merge_all([east, clash, north])
    assert merged == Merged(DeltaVector.of(Embedding.dense((1.0, 2.0)), (b"a", b"b")), (0, 2), (1,))
    assert merge_all([]).taken == ()


def test_classes_say_how_two_changes_are_joined() -> None:
    one, other = _delta(1.0, 2.0, key=b"a"), _delta(3.0, -1.0, key=b"b")
    assert joined(one, other, ConflictClass.IDENTICAL) == one
    assert joined(one, other, ConflictClass.OPPOSITE).is_zero
    assert joined(one, other, ConflictClass.OPPOSITE).keys == (b"a", b"b")
    assert joined(one, other, ConflictClass.LOW_CONFLICT) == one.add(other)
