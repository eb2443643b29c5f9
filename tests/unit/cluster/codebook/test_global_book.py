from random import Random

import pytest

from bobbin.cluster.codebook.global_book import EMPTY, GlobalCodebook
from bobbin.cluster.geometry import Embedding, combine, cosine
from bobbin.errors import IntegrityError, UsageError

_EAST, _NORTH = Embedding.dense((2.0, 0.0)), Embedding.dense((0.0, 1.0))
_BOOK = GlobalCodebook(3, (_EAST, _NORTH), ("east", "north"))
_BYTES = bytes.fromhex(
    "626f6262696e2d636f6465626f6f6b2f7631"
    "0200000002000000"
    "0400" "01000000" "65617374" "00000000" "0000000000000040"
    "0500" "01000000" "6e6f727468" "01000000" "000000000000f03f"
)  # fmt: skip


def _vector(chance: Random, dimension: int) -> Embedding:
    held = {chance.randrange(dimension): chance.gauss(0, 1) for _ in range(chance.randint(1, dimension))}
    return Embedding.of(dimension, held)


def test_the_nearest_is_the_one_of_highest_cosine_and_not_the_closest_point() -> None:
    far = Embedding.dense((100.0, 99.0))
    found = GlobalCodebook(1, (far, Embedding.dense((1.0, 0.1)))).quantize(Embedding.dense((1.0, 0.9)))
    assert found is not None
    assert found.code == 0
    assert found.similarity == cosine(far, Embedding.dense((1.0, 0.9)))


def test_the_residual_is_what_the_centroid_leaves() -> None:
    found = _BOOK.quantize(Embedding.dense((3.0, -1.0)))
    assert found is not None
    assert (found.code, found.residual) == (0, Embedding.dense((1.0, -1.0)))


def test_an_empty_book_another_dimension_and_the_zero_vector_have_no_code() -> None:
    assert EMPTY.quantize(_EAST) is None
    assert _BOOK.quantize(Embedding.dense((1.0, 0.0, 0.0))) is None
    assert _BOOK.quantize(Embedding.zero(2)) is None
    assert (EMPTY.version, EMPTY.dimension, EMPTY.centroids) == (0, 0, ())
    assert EMPTY.codes(_EAST) == ()


def test_codes_of_a_header_are_the_global_code_alone() -> None:
    assert _BOOK.codes(Embedding.dense((0.1, 1.0))) == (1,)


def test_among_equals_the_lower_code_is_taken() -> None:
    book = GlobalCodebook(1, tuple(Embedding.dense((size, 0.0)) for size in (1.0, 2.0, 3.0)) * 4)
    assert book.codes(Embedding.dense((5.0, 0.0))) == (0,)
    assert GlobalCodebook(1, (_NORTH, _EAST) * 8).codes(_EAST) == (1,)


def test_narrowing_the_choice_never_changes_it() -> None:
    chance = Random(11)
    centroids = [_vector(chance, 12) for _ in range(60)]
    centroids += [combine(one, one, 1.0, 1.0) for one in centroids[:20]]
    book = GlobalCodebook(1, centroids)
    for _ in range(60):
        vector = chance.choice([_vector(chance, 12), chance.choice(centroids)])
        found = book.quantize(vector)
        expected = max(range(len(centroids)), key=lambda code: (cosine(vector, centroids[code]), -code))
        assert found is not None
        assert (found.code, found.similarity) == (expected, cosine(vector, centroids[expected]))


def test_bytes_are_the_same_for_ever() -> None:
    assert _BOOK.encode() == _BYTES
    assert GlobalCodebook.decode(3, _BYTES) == _BOOK
    assert GlobalCodebook.decode(3, _BYTES).labels == ("east", "north")
    assert GlobalCodebook.decode(0, EMPTY.encode()) == EMPTY
    assert hash(GlobalCodebook.decode(3, _BYTES)) == hash(_BOOK)
    assert GlobalCodebook.decode(4, _BYTES) != _BOOK


def test_any_book_comes_back_from_its_bytes() -> None:
    chance = Random(2)
    for size in range(1, 12):
        book = GlobalCodebook(size, [_vector(chance, 5) for _ in range(size)], ["ä" * chance.randrange(4)] * size)
        assert GlobalCodebook.decode(size, book.encode()) == book


@pytest.mark.parametrize("cut", range(0, len(_BYTES), 3))
def test_bytes_that_end_early_are_refused(cut: int) -> None:
    with pytest.raises(IntegrityError, match="not a codebook"):
        GlobalCodebook.decode(3, _BYTES[:cut])


def test_changed_bytes_are_refused_or_give_a_book_with_exactly_these_bytes() -> None:
    for at in range(len(_BYTES)):
        for bit in range(8):
            changed = bytearray(_BYTES)
            changed[at] ^= 1 << bit
            try:
                book = GlobalCodebook.decode(3, bytes(changed))
            except IntegrityError:
                continue
            assert book.encode() == changed


@pytest.mark.parametrize("more", [b"\0", _BYTES])
def test_bytes_too_many_are_refused(more: bytes) -> None:
    with pytest.raises(IntegrityError, match="too many"):
        GlobalCodebook.decode(3, _BYTES + more)


def test_an_empty_book_has_one_form() -> None:
    written = bytearray(EMPTY.encode())
    written[-8] = 7
    with pytest.raises(IntegrityError, match="one form"):
        GlobalCodebook.decode(0, bytes(written))


@pytest.mark.parametrize(
    ("centroids", "labels"),
    [
        ((Embedding.zero(2),), ()),
        ((_EAST, Embedding.dense((1.0,))), ()),
        ((_EAST,), ("a", "b")),
        ((_EAST,), ("x" * 300,)),
        ((Embedding(2, (1, 0), (1.0, 1.0)),), ()),
        ((Embedding(2, (0, 2), (1.0, 1.0)),), ()),
        ((Embedding(2, (-1, 0), (1.0, 1.0)),), ()),
        ((Embedding(2, (0,), (1.0, 1.0)),), ()),
        ((Embedding(2, (0,), (float("nan"),)),), ()),
        ((Embedding(2, (0,), (float("inf"),)),), ()),
        ((Embedding(2, (0,), (1e-200,)),), ()),
        ((Embedding(0, (), ()),), ()),
        ((Embedding(70_000, (0,), (1.0,)),), ()),
    ],
)
def test_what_is_no_book_is_refused(centroids: tuple[Embedding, ...], labels: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        GlobalCodebook(1, centroids, labels)


def test_a_version_is_not_negative_and_codes_have_16_bits() -> None:
    with pytest.raises(UsageError, match="version"):
        GlobalCodebook(-1)
    with pytest.raises(UsageError, match="65536"):
        GlobalCodebook(1, (_EAST,) * 65_537)
