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
