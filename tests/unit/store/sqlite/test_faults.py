"""Errors of SQLite as errors of ours."""

from pathlib import Path

import apsw
import pytest

from bobbin.errors import BobbinError, UsageError
from bobbin.store.base import FullStore, StoreError
from bobbin.store.sqlite import faults

PATH = Path("x.db")


@pytest.mark.parametrize(
    ("error", "retry", "words"),
    [
        (apsw.BusyError, True, "another writer"),
        (apsw.LockedError, True, "another writer"),
        (apsw.FullError, True, "no space"),
        (apsw.NoMemError, True, "memory"),
        (apsw.InterruptError, True, "interrupted"),
        (apsw.ReadOnlyError, False, "read-only"),
        (apsw.CantOpenError, False, "cannot be opened"),
        (apsw.NotADBError, False, "not a SQLite database"),
        (apsw.CorruptError, False, "damaged"),
        (apsw.IOError, False, "failed"),
        (apsw.SQLError, False, "not built as expected"),
    ],
)
def test_each_fault_is_a_sentence_with_the_path_and_advice(error: type[apsw.Error], retry: object, words: str) -> None:
    translated = faults.translate(error("in SQLite's words"), PATH)
    assert isinstance(translated, StoreError)
    assert translated.retry is retry
    assert words in str(translated)
    assert "x.db" in str(translated)
    assert "in SQLite's words" in str(translated)


@pytest.mark.parametrize("error", [apsw.ConnectionClosedError, apsw.CursorClosedError, apsw.ThreadingViolationError])
def test_using_what_is_closed_or_not_ours_is_the_callers_fault(error: type[apsw.Error]) -> None:
    assert isinstance(faults.translate(error(), PATH), UsageError)


def test_every_class_of_apsw_becomes_one_of_ours() -> None:
    classes = [kind for kind in vars(apsw).values() if isinstance(kind, type) and issubclass(kind, apsw.Error)]
    assert len(classes) > 30
    for kind in classes:
        assert isinstance(faults.translate(kind("x"), PATH), BobbinError)


def test_a_text_that_is_not_utf8_is_damage() -> None:
    with pytest.raises(StoreError, match="not UTF-8"), faults.translated(PATH):
        b"\xff".decode()


def test_other_exceptions_pass_and_the_cause_is_kept() -> None:
    with pytest.raises(ZeroDivisionError), faults.translated(PATH):
        raise ZeroDivisionError
    with pytest.raises(FullStore) as caught, faults.translated(PATH):
        raise apsw.FullError("full")
    assert isinstance(caught.value.__cause__, apsw.FullError)
