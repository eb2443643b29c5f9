import pytest

from bobbin.datalog.binding import compute, extend, narrowing_order, pattern_of, unify, written_order
from bobbin.datalog.parse import parse
from bobbin.datalog.syntax import Atom, Literal
from bobbin.facts.relations import Pattern


def _body(text: str) -> tuple[Literal, ...]:
    return parse(f"H(X) :- {text}.").rules[0].body


def _atom(text: str) -> Atom:
    return _body(text)[0].atom


@pytest.mark.parametrize(
    ("head", "pattern", "binding"),
    [
        ("A(X,Y)", ("1", "2"), {"X": "1", "Y": "2"}),
        ("A(X,Y)", ("1", None), {"X": "1"}),
        ("A(X,X)", ("1", "1"), {"X": "1"}),
        ("A(X,X)", ("1", "2"), None),
        ("A('c',X)", ("c", "2"), {"X": "2"}),
        ("A('c',X)", ("d", "2"), None),
        ("A('c',X)", (None, None), {}),
    ],
)
def test_a_head_agrees_with_a_pattern(head: str, pattern: Pattern, binding: dict[str, str] | None) -> None:
    assert unify(_atom(head), pattern) == binding


def test_a_tuple_gives_values_to_what_is_open() -> None:
    assert extend(_atom("A(X,Y,_)"), ("1", "2", "3"), {"X": "1"}) == {"X": "1", "Y": "2"}
    assert extend(_atom("A(X,Y,Y)"), ("1", "2", "3"), {"X": "1"}) is None
    assert extend(_atom("A(X,'c')"), ("1", "c"), {"X": "1"}) == {"X": "1"}


def test_the_pattern_of_a_literal_leaves_open_what_is_not_bound() -> None:
    assert pattern_of(_atom("A('c',X,Y,_)"), {"X": "1"}) == ("c", "1", None, None)


@pytest.mark.parametrize(
    ("literal", "found"),
    [
        ("Lt(X,'2')", {"X": "1"}),
        ("Lt(X,'1')", None),
        ("not Lt(X,'1')", {"X": "1"}),
        ("not Lt(X,'2')", None),
        ("TaiAdd('0000000001:000000000',X,R)", {"X": "1", "R": "0000000001:000000001"}),
        ("TaiAdd('0000000001:000000000',X,'0000000001:000000001')", {"X": "1"}),
        ("TaiAdd('0000000001:000000000',X,_)", {"X": "1"}),
        ("TaiAdd('0000000001:000000000',X,X)", None),
        ("TaiAdd('soon',X,R)", None),
        ("not TaiAdd('soon',X,_)", {"X": "1"}),
    ],
)
def test_built_ins_hold_or_yield(literal: str, found: dict[str, str] | None) -> None:
    assert compute(_body(literal)[0], {"X": "1"}) == found


def test_literals_stay_as_written_unless_they_must_wait() -> None:
    body = _body("not A(Y), Lt(Z,'c'), B(X,Y), TaiAdd(Y,'1',Z), C(X)")
    assert written_order(body, frozenset()) == [2, 0, 3, 1, 4]
    assert written_order(body, frozenset({"Y", "Z"})) == [0, 1, 2, 3, 4]


def test_the_narrow_literals_come_first() -> None:
    body = _body("Wide(Y,Z), Lone(W), Far(X,Y), Given(X,Y), not Gone(Y), Test(X)")
    assert narrowing_order(body, frozenset({"X"}), {"Far"}) == [5, 3, 4, 2, 0, 1]
