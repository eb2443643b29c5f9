from bobbin.cluster.codebook.global_book import EMPTY, GlobalCodebook
from bobbin.cluster.codebook.hierarchy import RESIDUAL_MIN, Codes, Hierarchy
from bobbin.cluster.geometry import Embedding

_BOOK = GlobalCodebook(1, (Embedding.dense((1.0, 0.0)), Embedding.dense((0.0, 1.0))))


def _codes(vector: tuple[float, ...], domain: str = "d") -> Codes | None:
    return Hierarchy(_BOOK).quantize(Embedding.dense(vector), domain=domain, now_ms=0)


def test_a_small_residual_has_no_code_of_its_own() -> None:
    assert _codes((1.0, 0.0)) == Codes(0, None)
    assert _codes((1.0, 0.04)) == Codes(0, None)


def test_a_residual_of_exactly_the_bound_has_none_and_a_longer_one_has() -> None:
    exact = Embedding.dense((0.0, 1.0 + 0.125))
    at_bound, below = Hierarchy(_BOOK, residual_min=0.125), Hierarchy(_BOOK, residual_min=0.124)
    assert at_bound.quantize(exact, domain="d", now_ms=0) == Codes(1, None)
    assert below.quantize(exact, domain="d", now_ms=0) == Codes(1, 0)
    assert RESIDUAL_MIN == 0.05
    assert _codes((1.0, 0.06)) == Codes(0, 0)


def test_each_domain_learns_by_itself() -> None:
    both = Hierarchy(_BOOK)
    for domain, vector in (("a", (1.0, 0.5)), ("b", (1.5, 0.0)), ("a", (1.0, -0.5))):
        assert both.quantize(Embedding.dense(vector), domain=domain, now_ms=0) is not None
    assert (len(both.domain("a")), len(both.domain("b")), len(both.domain("c"))) == (2, 1, 0)


def test_codes_have_16_bits() -> None:
    found = _codes((3.0, 1.0))
    assert found is not None
    assert found.local_code is not None
    assert 0 <= found.global_code < 65_536
    assert 0 <= found.local_code < 65_536


def test_without_a_global_code_there_is_none_at_all() -> None:
    assert Hierarchy(EMPTY).quantize(Embedding.dense((1.0,)), domain="d", now_ms=0) is None
    assert _codes((1.0, 0.0, 0.0)) is None
