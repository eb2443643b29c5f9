from collections.abc import Mapping

from bobbin.datalog.local.conjunction import Read, Source
from bobbin.datalog.local.order import bound_positions, choose_order, is_test
from bobbin.datalog.parse import parse


def reads(body: str) -> list[Read]:
    return [
        Read(Source(literal.atom.predicate), literal.atom.terms) for literal in parse(f"H() :- {body}.").rules[0].body
    ]


def order(body: str, sizes: Mapping[str, float], first: int | None = None) -> str:
    """The predicates of a body in the order in which they are read."""
    found = reads(body)

    def estimate(read: Read, bound: frozenset[str]) -> float:
        return sizes[read.source.predicate] / (10 if bound_positions(read, bound) else 1)

    chosen = choose_order(found, first=first, estimate=estimate)
    assert sorted(chosen) == list(range(len(found)))
    return "".join(found[number].source.predicate for number in chosen)


def test_the_smallest_comes_first() -> None:
    assert order("A(X,Y), B(Y,Z), C(Z,W)", {"A": 90, "B": 3, "C": 50}) == "BCA"


def test_a_mere_test_comes_as_soon_as_it_can() -> None:
    assert order("A(X,Y), B(Y,Z), C(X,Y)", {"A": 5, "B": 1000, "C": 1001}) == "ACB"
    assert order("A(X), B('c'), C(X,Y)", {"A": 5, "B": 10**9, "C": 1}) == "BCA"


def test_what_shares_a_variable_comes_before_what_multiplies_however_small() -> None:
    assert order("A(X), B(X,Y), C('c',Z)", {"A": 5, "B": 10**6, "C": 60}) == "ABC"
    assert order("A(X), B(Z), C(X,Z)", {"A": 5, "B": 6, "C": 10**6}) == "ACB"


def test_new_rows_come_first() -> None:
    assert order("A(X), B(X,Y), C(Y)", {"A": 1, "B": 100, "C": 2}, first=1)[0] == "B"
    assert order("A(X), B(X,Y), C(Y)", {"A": 1, "B": 100, "C": 2}, first=2) == "CBA"


def test_equal_scans_keep_the_order_of_the_text() -> None:
    assert order("A(X), B(X), C(X)", {"A": 5, "B": 5, "C": 5}) == "ABC"


def test_bound_positions() -> None:
    (read,) = reads("A('c',X,_,Y,X)")
    assert bound_positions(read, frozenset()) == (0,)
    assert bound_positions(read, frozenset({"X"})) == (0, 1, 4)
    assert bound_positions(read, frozenset({"X", "Y"})) == (0, 1, 3, 4)


def test_a_scan_that_binds_nothing_new_is_a_test() -> None:
    (read,) = reads("A('c',X,_)")
    assert is_test(read, frozenset({"X"}))
    assert not is_test(read, frozenset())
    assert is_test(reads("A('c',_)")[0], frozenset())
    assert is_test(reads("A()")[0], frozenset())
