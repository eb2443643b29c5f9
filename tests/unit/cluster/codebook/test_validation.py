import pytest

from bobbin.cluster.codebook.global_book import EMPTY, GlobalCodebook
from bobbin.cluster.codebook.local_book import LocalCodebook
from bobbin.cluster.codebook.validation import CodebookValidator
from bobbin.cluster.geometry import Embedding
from bobbin.errors import UsageError

_BOOK = GlobalCodebook(1, (Embedding.dense((1.0, 0.0)),))
_EAST = Embedding.dense((2.0, 0.0))
_AT_BOUND = Embedding.dense((4.0, 3.0))
"""Cosine 0.8 to the centroid."""
_BELOW = Embedding.dense((4.0, 3.001))
_NORTH = Embedding.dense((0.0, 1.0))


def test_a_state_is_valid_from_the_bound_on() -> None:
    assert CodebookValidator(_BOOK).are_valid([_EAST, _AT_BOUND, _BELOW, _NORTH]) == [True, True, False, False]
    assert not CodebookValidator(EMPTY).is_valid(_EAST)


def test_either_book_makes_a_state_valid_and_neither_is_changed() -> None:
    local = LocalCodebook()
    local.learn(_NORTH, now_ms=0)
    both = CodebookValidator(_BOOK, local)
    assert both.are_valid([_EAST, _NORTH]) == [True, True]
    assert both.similarity(_NORTH) == 1.0
    assert CodebookValidator(EMPTY, local).is_valid(_NORTH)
    entry = local.entry(0)
    assert entry is not None
    assert entry.uses == 1


def test_a_step_may_be_one_long_and_no_longer() -> None:
    validator = CodebookValidator(_BOOK)
    assert validator.fault(_EAST, Embedding.dense((3.0, 0.0))) is None
    fault = validator.fault(_EAST, Embedding.dense((3.001, 0.0)))
    assert fault is not None
    assert "1.001" in fault


def test_both_states_of_a_transition_must_be_valid() -> None:
    validator = CodebookValidator(_BOOK)
    assert "before" in (validator.fault(_BELOW, _AT_BOUND) or "")
    assert "after" in (validator.fault(_AT_BOUND, _BELOW) or "")
    assert CodebookValidator(_BOOK, strict=False).fault(_AT_BOUND, _BELOW) is None
    assert CodebookValidator(_BOOK, strict=False).fault(_EAST, _AT_BOUND) is not None


def test_a_path_is_tested_at_every_step() -> None:
    path = [_EAST, Embedding.dense((2.5, 0.0)), Embedding.dense((9.0, 0.0)), Embedding.dense((2.5, 0.5)), _EAST]
    report = CodebookValidator(_BOOK).path(path)
    assert [fault.step for fault in report.faults] == [1, 2]
    assert not report.is_valid
    assert CodebookValidator(_BOOK).path(path[:2]).is_valid


def test_drift_is_the_sum_of_steps_and_deviation_the_furthest_state() -> None:
    report = CodebookValidator(_BOOK).path([_EAST, Embedding.dense((2.0, 0.5)), _EAST, _NORTH])
    assert report.drift == pytest.approx(0.5 + 0.5 + 5**0.5)
    assert report.deviation == pytest.approx(1.0)
    assert CodebookValidator(_BOOK).path([]).drift == 0.0


def test_bad_settings_are_refused() -> None:
    with pytest.raises(UsageError):
        CodebookValidator(_BOOK, similarity_min=0.0)
    with pytest.raises(UsageError):
        CodebookValidator(_BOOK, step_max=0.0)
