import pytest

from bobbin.datalog.syntax import Atom, Constant, Literal, Place, Program, Rule, Variable, Wildcard
from bobbin.errors import UsageError

HAVE = Atom("Have", (Variable("P"),))
FIELD = Atom("Field", (Variable("P"), Constant("it's"), Wildcard(), Variable("P")))


@pytest.mark.parametrize(
    ("part", "spelling"),
    [
        (Constant(""), "''"),
        (Constant("a\n'b'\\"), r"'a\n\'b\'\\'"),
        (Variable("X_1"), "X_1"),
        (Wildcard(), "_"),
        (Atom("Flag", ()), "Flag()"),
        (FIELD, r"Field(P,'it\'s',_,P)"),
        (Literal(HAVE), "Have(P)"),
        (Literal(HAVE, negated=True), "not Have(P)"),
        (Rule(Atom("Fact", (Constant("a"),))), "Fact('a')."),
        (Rule(HAVE, (Literal(FIELD), Literal(HAVE, negated=True))), r"Have(P) :- Field(P,'it\'s',_,P), not Have(P)."),
        (Place(3, 14), "3:14"),
    ],
)
def test_every_part_prints_its_canonical_spelling(part: object, spelling: str) -> None:
    assert str(part) == spelling


def test_variables_come_left_to_right_and_repeat() -> None:
    assert list(FIELD.variables()) == ["P", "P"]
    assert FIELD.arity == 4


def test_the_heads_of_a_program() -> None:
    rules = (Rule(HAVE), Rule(Atom("A", ())), Rule(HAVE, (Literal(Atom("B", ())),)))
    assert Program(rules).heads() == {"Have", "A"}


def test_places_do_not_count_when_terms_compare() -> None:
    assert Literal(HAVE, place=Place(1, 1)) != Literal(HAVE, place=Place(2, 1))
    assert Literal(HAVE, place=Place(1, 1)).atom == Literal(HAVE, place=Place(2, 1)).atom


def test_a_constant_that_cannot_be_written_does_not_print() -> None:
    with pytest.raises(UsageError):
        str(Constant("\x00"))
