"""The five relations, and patterns over them."""

import pytest

from bobbin.errors import UsageError
from bobbin.facts import relations
from bobbin.facts.relations import agrees, check_pattern


def test_the_five_relations() -> None:
    assert dict(relations.ARITY) == {"Have": 1, "Field": 4, "RecordLink": 5, "BlobHash": 2, "PlexHash": 2}


def test_the_arities_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        relations.ARITY["Have"] = 2  # type: ignore[index]


@pytest.mark.parametrize("predicate", list(relations.ARITY))
def test_patterns_have_the_arity_of_their_predicate(predicate: str) -> None:
    arity = relations.ARITY[predicate]
    check_pattern(predicate, (None,) * arity)
    check_pattern(predicate, ("x",) * arity)
    for wrong in (arity - 1, arity + 1):
        with pytest.raises(UsageError):
            check_pattern(predicate, (None,) * wrong)


@pytest.mark.parametrize("predicate", ["", "have", "Advertised", "Have "])
def test_other_predicates_are_refused(predicate: str) -> None:
    with pytest.raises(UsageError, match="Have, Field"):
        check_pattern(predicate, (None,))


def test_what_agrees_with_a_pattern() -> None:
    row = ("P", "Name", "0", "v")
    assert agrees(row, (None, None, None, None))
    assert agrees(row, ("P", "Name", "0", "v"))
    assert agrees(row, (None, "Name", None, "v"))
    assert not agrees(row, (None, "Name", "1", None))
    assert not agrees(row, ("", None, None, None))
    with pytest.raises(ValueError, match="zip"):
        agrees(row, (None,))
