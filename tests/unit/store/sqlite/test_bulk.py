"""Many records at once, in chunks."""

from typing import TYPE_CHECKING

import pytest

from bobbin.facts.relations import FIELD
from bobbin.store.sqlite import SqliteStore, bulk, coding
from tests.conformance.samples import EMPTY_BLOB, EXTRAS, plex, sealed

if TYPE_CHECKING:
    from bobbin.records.record import Record


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_chunks_change_nothing(store: SqliteStore, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_CHUNK", chunk)
    batch: list[Record] = [
        plex(1, extras=EXTRAS),
        EMPTY_BLOB,
        sealed(2),
        plex(3),
        sealed(4, extras=EXTRAS[:3]),
        plex(5),
    ]
    store.put_records(batch)
    store.remove(plex(3).hash, reason="test")
    asked = [record.hash for record in reversed(batch)] + [plex(9).hash, "P.x.H3", batch[0].hash]
    described = store.fields(asked)
    for name, answer in zip(asked, described, strict=True):
        assert (answer is None) == (name in {plex(3).hash, plex(9).hash, "P.x.H3"})
        told = answer or ()
        assert {(name, *field) for field in told} == set(store.facts.match(FIELD, (name, None, None, None)))
        assert list(told) == sorted(told, key=lambda field: (field[0], int(field[1])))
    some = frozenset({"Signature", "+Link", "App"})
    expected = [told and tuple(field for field in told if field[0] in some) for told in described]
    assert store.fields(asked, some) == expected
    assert store.absent(asked) == {plex(9).hash, "P.x.H3"}


def test_in_a_new_store_everything_is_absent_but_what_is_refused(store: SqliteStore) -> None:
    asked = [plex(1).hash, plex(2).hash, "no name", plex(1).hash]
    assert store.absent(asked) == set(asked)
    store.remove(plex(1).hash, reason="test")
    assert store.absent(asked) == {plex(2).hash, "no name"}
    store.lift(plex(1).hash)
    assert store.absent(asked) == set(asked)
    store.put_records([plex(2)])
    assert store.absent(asked) == {plex(1).hash, "no name"}


def test_names_that_share_a_key_are_told_apart(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_records([plex(1), plex(2)])
    key = coding.key_of_hash(plex(1).hash)
    monkeypatch.setattr(coding, "key_of_hash", lambda _: key)
    assert store.absent([plex(1).hash, plex(2).hash, plex(3).hash]) >= {plex(3).hash}
    assert store.fields([plex(3).hash, plex(1).hash], frozenset({"Name"})) == [None, (("Name", "0", "links/1"),)]


def test_keys_are_cut_out_of_many_names_as_of_each() -> None:
    names: list[str] = [plex(number).hash for number in range(5)]
    keys = [coding.key_of_hash(name) for name in names]
    assert bulk._keys(names).tolist() == keys
    assert bulk._keys([]).tolist() == []
    for odd in ("", "P.short", "P.é" + "0" * 60, "P.!" + "0" * 60):
        assert bulk._keys([*names, odd]).tolist() == keys


def test_the_bytes_of_many_records(store: SqliteStore) -> None:
    batch: list[Record] = [plex(1, extras=EXTRAS), EMPTY_BLOB, sealed(2), plex(3)]
    store.put_records(batch)
    store.remove(plex(3).hash, reason="test")
    asked = [record.hash for record in reversed(batch)] + [plex(9).hash]
    found = store.get_many(asked, bytes_max=10**6)
    assert found == {record.hash: record.raw for record in batch[:3]}
    assert list(found) == [record.hash for record in reversed(batch[:3])], "in the order of the question"
    assert store.get_many([], bytes_max=1) == {}
    assert store.get_many([*asked, "P.x.H3"], bytes_max=10**6) == {}, "left to be asked for one by one"


def test_no_more_bytes_are_read_at_once_than_are_wanted(store: SqliteStore) -> None:
    batch = [plex(number) for number in range(10)]
    store.put_records(batch)
    names = [record.hash for record in batch]
    assert list(store.get_many(names, bytes_max=1)) == names[:1]
    assert list(store.get_many(names, bytes_max=len(batch[0].raw) + 1)) == names[:2]
    store.put_records([plex(10)])
    assert store.get(plex(10).hash) == plex(10).raw, "what was not read to its end holds up nothing"


def test_damaged_bytes_and_keys_that_collide_are_left_out(store: SqliteStore) -> None:
    store.put_records([plex(1), plex(2)])
    other = plex(1).raw.replace(plex(1).hash.encode(), plex(2).hash.encode(), 1)
    store._connection.execute("UPDATE record SET raw = ? WHERE raw = ?", (other, plex(1).raw))
    assert store.get_many([plex(1).hash, plex(2).hash], bytes_max=10**6) == {plex(2).hash: plex(2).raw}
    near = plex(2).hash[:20] + "0" * 25 + ".H3"
    assert store.get_many([plex(2).hash, near], bytes_max=10**6) == {}
