"""The order of scans: tests first, then what shares a bound variable, then by size; a product comes last."""

from bobbin.datalog.local.conjunction import Read, Source
from bobbin.datalog.local.order import Estimate, bound_positions, choose_order, is_test
from bobbin.datalog.syntax import Constant, Variable, Wildcard

X, Y, Z = map(Variable, "XYZ")
C, ANY = Constant("c"), Wildcard()


def by_size(sizes: dict[str, float]) -> Estimate:
    return lambda read, _bound: sizes[read.source.predicate]


def read(name: str, *terms: Variable | Constant | Wildcard) -> Read:
    return Read(Source(name), terms)


def test_the_smallest_comes_first_and_a_mere_test_as_soon_as_it_is_one() -> None:
    reads = [read("Big", X, Y), read("Small", X), read("Check", Y)]
    order = choose_order(reads, first=None, estimate=by_size({"Big": 1000, "Small": 3, "Check": 10**6}))
    assert order == (1, 0, 2)


def test_sharing_a_variable_beats_constants() -> None:
    # The scan with two constants looks cheap, but it multiplies; this mistake once made 0.4 s into 26 s.
    reads = [read("Start", X), read("Constants", Y, C, C), read("Shares", X, Y)]
    order = choose_order(reads, first=None, estimate=by_size({"Start": 5, "Constants": 50, "Shares": 10_000}))
    assert order == (0, 2, 1)


def test_given_rows_come_first_whatever_their_size() -> None:
    reads = [read("Small", X), read("Given", X, Y)]
    assert choose_order(reads, first=1, estimate=by_size({"Small": 1, "Given": 10**9})) == (1, 0)


def test_what_is_bound_before_a_scan() -> None:
    scan = read("P", X, C, ANY, Y)
    assert bound_positions(scan, frozenset()) == (1,)
    assert bound_positions(scan, frozenset({"Y"})) == (1, 3)
    assert not is_test(scan, frozenset({"X"}))
    assert is_test(scan, frozenset({"X", "Y"}))
    assert is_test(read("P", C, ANY), frozenset())
