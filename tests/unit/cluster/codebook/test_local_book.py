from math import log

import pytest

from bobbin.cluster.codebook.local_book import LocalCodebook, LocalEntry, Pruning
from bobbin.cluster.geometry import Embedding
from bobbin.errors import UsageError


def _axis(number: int, size: float = 1.0) -> Embedding:
    return Embedding(400, (number,), (size,))


def _entry(book: LocalCodebook, code: int | None) -> LocalEntry:
    assert code is not None
    found = book.entry(code)
    assert found is not None
    return found


def test_a_match_moves_the_entry_a_tenth_of_the_way() -> None:
    book = LocalCodebook()
    code = book.learn(Embedding.dense((1.0, 0.0)), now_ms=1)
    assert book.learn(Embedding.dense((2.0, 0.5)), now_ms=7) == code
    entry = _entry(book, code)
    assert entry.centroid == Embedding.dense((0.1 * 2.0 + 0.9 * 1.0, 0.1 * 0.5))
    assert (entry.uses, entry.last_ms) == (2, 7)


def test_a_match_begins_at_its_bound() -> None:
    book = LocalCodebook(match=0.8)
    assert book.learn(Embedding.dense((1.0, 0.0)), now_ms=0) == 0
    assert book.learn(Embedding.dense((4.0, 3.0)), now_ms=0) == 0
    other = LocalCodebook()
    other.learn(Embedding.dense((1.0, 0.0)), now_ms=0)
    assert other.learn(Embedding.dense((4.0, 3.0)), now_ms=0) == 1


def test_a_book_has_256_entries_and_then_prunes() -> None:
    book = LocalCodebook()
    for number in range(257):
        book.learn(_axis(number), now_ms=number)
    assert (len(book), book.stats.refusals) == (256, 1)
    book.learn(_axis(5), now_ms=300)
    assert book.learn(_axis(300), now_ms=300) == 5
    assert (len(book), book.stats.prunes) == (256, 1)


def test_fresh_entries_are_not_pruned() -> None:
    book = LocalCodebook(capacity=3, pruning=Pruning.LEAST_FREQUENT)
    book.learn(_axis(0), now_ms=0)
    for _ in range(2):
        book.learn(_axis(1), now_ms=0)
    for _ in range(3):
        book.learn(_axis(2), now_ms=0)
    assert book.learn(_axis(3), now_ms=0) == 1
    assert _entry(book, 0).centroid == _axis(0)


def test_a_book_of_fresh_entries_takes_nothing_more() -> None:
    book = LocalCodebook(capacity=2)
    for number in range(2):
        book.learn(_axis(number), now_ms=0)
    assert book.learn(_axis(2), now_ms=0) is None
    assert (len(book), book.stats.refusals, book.stats.prunes) == (2, 1, 0)


@pytest.mark.parametrize(
    ("pruning", "gone"),
    [(Pruning.LEAST_RECENT, 0), (Pruning.LEAST_FREQUENT, 1), (Pruning.HYBRID, 1)],
)
def test_the_lowest_score_goes(pruning: Pruning, gone: int) -> None:
    book = LocalCodebook(capacity=2, pruning=pruning)
    for _ in range(5):
        book.learn(_axis(0), now_ms=1_000)
    for _ in range(2):
        book.learn(_axis(1), now_ms=2_000)
    assert book.learn(_axis(2), now_ms=2_000) == gone


def test_scores() -> None:
    entry = LocalEntry(_axis(0), 3, 30_000)
    assert entry.score(Pruning.LEAST_RECENT, 0) == 30_000
    assert entry.score(Pruning.LEAST_FREQUENT, 0) == 3
    assert entry.score(Pruning.HYBRID, 90_000) == 0.5 / (1 + 60 / 60) + 0.5 * log(4)
    assert entry.score(Pruning.HYBRID, 10_000) == 0.5 + 0.5 * log(4)


def test_age_counts_in_the_hybrid_score() -> None:
    book = LocalCodebook(capacity=2)
    for number, now_ms in ((0, 0), (1, 600_000)):
        for _ in range(2):
            book.learn(_axis(number), now_ms=now_ms)
    assert book.learn(_axis(2), now_ms=600_000) == 0


def test_likeness_can_be_asked_without_a_change() -> None:
    book = LocalCodebook()
    assert book.similarity(_axis(0)) == 0.0
    book.learn(_axis(0), now_ms=5)
    assert book.similarity(_axis(0, 7.0)) == 1.0
    assert (_entry(book, 0).uses, _entry(book, 0).last_ms) == (1, 5)


def test_what_happens_is_counted() -> None:
    book = LocalCodebook(capacity=1)
    for _ in range(3):
        book.learn(_axis(0), now_ms=0)
    book.learn(_axis(1), now_ms=0)
    book.similarity(_axis(1))
    stats = book.stats
    assert (len(book), stats.lookups, stats.updates, stats.insertions, stats.prunes) == (1, 5, 2, 2, 1)


def test_the_zero_vector_is_not_learnt() -> None:
    book = LocalCodebook()
    assert book.learn(Embedding.zero(3), now_ms=0) is None
    assert len(book) == 0


@pytest.mark.parametrize(
    ("capacity", "rate", "match"), [(0, 0.1, 0.9), (70_000, 0.1, 0.9), (4, 0.0, 0.9), (4, 0.1, 1.5)]
)
def test_bad_settings_are_refused(capacity: int, rate: float, match: float) -> None:
    with pytest.raises(UsageError):
        LocalCodebook(capacity=capacity, rate=rate, match=match)
