import pytest

from bobbin.pipeline.source.conditions import Condition, OneOf, StartsWith, Value, Within, meets


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        (OneOf("name", ("a", "b")), "b", True),
        (OneOf("name", ("a", "b")), "c", False),
        (OneOf("name", ()), "c", False),
        (OneOf("id", (1, 2)), 2, True),
        (StartsWith("name", "li"), "links", True),
        (StartsWith("name", "li"), "l", False),
        (StartsWith("name", ""), "", True),
        (Within("id", low=2), 2, True),
        (Within("id", low=2, low_included=False), 2, False),
        (Within("id", high=2), 3, False),
        (Within("id", high=2, high_included=False), 1, True),
        (Within("id", low=1, high=2), 3, False),
        (Within("name"), "x", True),
    ],
)
def test_values_that_meet_a_condition(condition: Condition, value: Value, expected: bool) -> None:  # noqa: FBT001
    assert meets(condition, value) is expected


def test_null_meets_nothing() -> None:
    assert not meets(Within("name"), None)
    assert not meets(OneOf("name", ()), None)
    assert not meets(StartsWith("name", ""), None)


def test_texts_compare_by_their_bytes() -> None:
    """UTF-16 would sort the first one last."""
    assert meets(Within("name", high="\U00010000"), "\uffff")
