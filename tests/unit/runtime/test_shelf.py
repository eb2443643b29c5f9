"""Rows that only save work: bounded, checksummed, never fatal."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.errors import ResourceError, UsageError
from bobbin.runtime.shelf import Bounds, Shelf
from bobbin.store.base import DamagedStore, Store
from bobbin.store.sqlite import open_store

BOUNDS = Bounds(per_peer_max=2, rows_max=3, row_bytes_max=100, bytes_max=200)
DIGEST_SIZE = 32


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as opened:
        yield opened


@pytest.fixture
def shelf(store: Store) -> Shelf:
    return Shelf(store, "test", BOUNDS)


def there(shelf: Shelf, *places: tuple[str, str]) -> list[bool]:
    return [shelf.get(*place) is not None for place in places]


def read(shelf: Shelf, peer: str, key: str) -> bytes | None:
    body = shelf.get(peer, key)
    return None if body is None else bytes(body)


def test_a_row_is_what_was_put_last_under_a_peer_and_a_key(shelf: Shelf, store: Store) -> None:
    assert shelf.get("alice", "a") is None
    for body in (b"first", b"", b"last"):
        assert shelf.put("alice", "a", body)
        assert read(shelf, "alice", "a") == body
    assert there(shelf, ("bob", "a"), ("alice", "b"), ("alice/a", "")) == [False, False, False]
    assert read(Shelf(store, "test", BOUNDS), "alice", "a") == b"last"
    assert Shelf(store, "other", BOUNDS).get("alice", "a") is None
    shelf.drop("alice", "a")
    assert shelf.get("alice", "a") is None


def test_a_row_is_found_by_its_key_alone(shelf: Shelf) -> None:
    for peer, key in (("b", "x/y"), ("a", "x/y"), ("a", "y")):
        shelf.put(peer, key, f"{peer} {key}".encode())
    assert bytes(shelf.find("x/y") or b"") == b"a x/y"
    assert bytes(shelf.find("y") or b"") == b"a y"
    assert shelf.find("x") is None


def test_a_bit_that_has_changed_makes_a_row_as_if_it_were_not_there(shelf: Shelf, store: Store) -> None:
    shelf.put("alice", "a", b"body")
    [(name, size)] = store.kept_rows("test")
    raw = store.kept("test", name)
    assert raw is not None
    assert len(raw) == size == DIGEST_SIZE + 4
    for place in range(size):
        store.keep("test", name, raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        assert shelf.get("alice", "a") is None
    for spoilt in (b"", b"short", raw[:-1], raw + b"!"):
        store.keep("test", name, spoilt)
        assert shelf.get("alice", "a") is None
    store.keep("test", name, raw)
    assert read(shelf, "alice", "a") == b"body"


def test_a_peer_that_invents_names_pushes_out_its_own(shelf: Shelf, store: Store) -> None:
    shelf.put("bob", "b", b"")
    for number in range(50):
        assert shelf.put("alice", f"link {number}", b"")
    assert there(shelf, ("alice", "link 47"), ("alice", "link 48"), ("alice", "link 49")) == [False, True, True]
    assert there(shelf, ("bob", "b")) == [True]
    assert len(list(store.kept_rows("test"))) == BOUNDS.rows_max


def test_the_row_that_was_written_longest_ago_goes_first(shelf: Shelf) -> None:
    for peer in ("a", "b", "c", "a", "d"):
        shelf.put(peer, "x", b"")
    assert there(shelf, ("a", "x"), ("b", "x"), ("c", "x"), ("d", "x")) == [True, False, True, True]


def test_bytes_are_bounded_for_one_row_and_in_all(shelf: Shelf, store: Store) -> None:
    most = BOUNDS.row_bytes_max - DIGEST_SIZE
    assert not shelf.put("a", "x", bytes(most + 1))
    assert list(store.kept_rows("test")) == []
    for peer in ("a", "b", "c"):
        assert shelf.put(peer, "x", bytes(most))
    assert there(shelf, ("a", "x"), ("b", "x"), ("c", "x")) == [False, True, True]
    assert sum(size for _, size in store.kept_rows("test")) <= BOUNDS.bytes_max


def test_what_somebody_else_left_is_counted(shelf: Shelf, store: Store) -> None:
    for number in range(9):
        store.keep("test", f"of another version {number}", b"")
    shelf.put("a", "x", b"")
    assert len(list(store.kept_rows("test"))) == BOUNDS.rows_max
    assert there(shelf, ("a", "x")) == [True]


def test_a_peer_is_forgotten_whole(shelf: Shelf) -> None:
    for place in (("a", "x"), ("a", "y/z"), ("b", "x")):
        shelf.put(*place, b"")
    shelf.forget("a")
    assert there(shelf, ("a", "x"), ("a", "y/z"), ("b", "x")) == [False, False, True]


@pytest.mark.parametrize("error", [ResourceError("full", retry=True), UsageError("read-only")])
def test_a_row_that_cannot_be_written_is_not(
    shelf: Shelf, store: Store, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    shelf.put("a", "x", b"before")
    with monkeypatch.context() as patch:
        patch.setattr(store, "kept_rows", fail)
        assert shelf.put("a", "y", b""), "what is too much goes with the next row"
        patch.setattr(store, "keep", fail)
        assert not shelf.put("a", "x", b"after")
    assert read(shelf, "a", "x") == b"before"


def test_a_damaged_page_is_as_if_there_were_no_row(shelf: Shelf, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise DamagedStore("the page is not readable")

    shelf.put("a", "x", b"body")
    monkeypatch.setattr(store, "kept", fail)
    assert shelf.get("a", "x") is None
    assert shelf.find("x") is None
    monkeypatch.setattr(store, "kept_rows", fail)
    assert shelf.find("x") is None
