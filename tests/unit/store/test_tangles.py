"""What a store promises about tangles: the values that go in and out. ``sqlite/test_tangles.py`` holds it to them."""

import pytest

from bobbin.errors import ResourceError
from bobbin.store.base import StoreRecordId
from bobbin.store.tangles import Level, StaleTangles, TangleBatch


@pytest.mark.parametrize(
    "parts",
    [
        {"deleted": ["a"]},
        {"erased": [("a", b"{}")]},
        {"lacking": {"a": frozenset()}},
        {"goals": {"a": None}},
        {"ghosts": {"a": "[]"}},
        {"waiting": {StoreRecordId(1): "why"}},
        {"settled": [StoreRecordId(1)]},
    ],
)
def test_whatever_changes_something_makes_a_batch(parts: dict[str, object]) -> None:
    assert not TangleBatch(version=0, **parts).is_empty  # type: ignore[arg-type]


def test_to_have_looked_at_records_is_no_change() -> None:
    assert TangleBatch(version=0).is_empty
    assert TangleBatch(version=0, seen=StoreRecordId(7)).is_empty


def test_who_was_overtaken_may_try_again() -> None:
    error = StaleTangles("too late")
    assert isinstance(error, ResourceError)
    assert error.retry


def test_proven_is_more_than_let_in() -> None:
    assert max(Level) is Level.MODERN
