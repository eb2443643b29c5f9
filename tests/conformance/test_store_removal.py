"""Removal and refusal: gone means gone, until the refusal is lifted."""

import pytest

from bobbin.errors import IntegrityError
from bobbin.records.ids import HashText, Kind, hash_text
from bobbin.store.base import Outcome, Put, Refusal, Store
from tests.conformance.conftest import Kit
from tests.conformance.samples import EMPTY_BLOB, plex, sealed


def test_a_removed_record_is_gone_from_every_view(store: Store) -> None:
    record = sealed(1)
    store.put_records([record, plex(2)])
    assert store.remove(record.hash, reason="obsolete")
    assert store.get(record.hash) is None
    assert not store.have(record.hash)
    assert [line.hash for line in store.scan()] == [plex(2).hash]
    assert list(store.list(record.coordinate)) == []


def test_a_removed_record_does_not_come_back_until_the_refusal_is_lifted(kit: Kit) -> None:
    record = plex(1)
    with kit.open(create=True) as store:
        (first,) = store.put_records([record])
        store.remove(record.hash, reason="obsolete")
        refused = Put(Outcome.REFUSED, record.hash, None, reason="obsolete")
        assert store.put_records([record, record]) == [refused, refused]
    with kit.open() as store:
        assert store.put_many([record.raw, plex(2).raw])[0] == refused
        assert not store.have(record.hash)
        assert store.have(plex(2).hash)
        assert store.lift(record.hash)
        assert not store.lift(record.hash)
        (again,) = store.put_records([record])
        assert again.outcome is Outcome.STORED
        assert first.id is not None
        assert again.id is not None
        assert again.id > first.id


def test_a_record_that_was_never_there_can_be_refused(store: Store) -> None:
    assert not store.remove(plex(1).hash, reason="unwanted")
    assert store.put_records([plex(1)])[0].outcome is Outcome.REFUSED
    assert store.high_water() == 0


def test_refusals_are_listed_with_reason_and_time_the_oldest_first(kit: Kit) -> None:
    with kit.open(create=True) as store:
        for number in range(3):
            kit.now = 10 + number
            store.remove(plex(number).hash, reason=f"reason {number}")
        assert list(store.refusals()) == [
            Refusal(hash=plex(number).hash, reason=f"reason {number}", tai=10 + number) for number in range(3)
        ]
        assert store.stat().refused == 3
        store.lift(plex(1).hash)
        assert [refusal.reason for refusal in store.refusals()] == ["reason 0", "reason 2"]
        assert store.stat().refused == 2


def test_refusing_again_keeps_one_refusal_with_the_newer_reason(kit: Kit) -> None:
    with kit.open(create=True) as store:
        store.remove(plex(1).hash, reason="old")
        store.remove(plex(2).hash, reason="other")
        kit.now += 5
        store.remove(plex(1).hash, reason="new")
        assert [(refusal.hash, refusal.reason) for refusal in store.refusals()] == [
            (plex(1).hash, "new"),
            (plex(2).hash, "other"),
        ]
        assert store.stat().refused == 2
        assert store.put_records([plex(1)])[0].reason == "new"


def test_refusing_one_kind_does_not_refuse_another_of_the_same_digest(store: Store) -> None:
    record = plex(1)
    store.remove(hash_text(Kind.BLOB, record.digest), reason="a name that no record has")
    assert store.put_records([record])[0].outcome is Outcome.STORED


def test_removing_the_wrong_kind_removes_nothing(store: Store) -> None:
    record = plex(1)
    store.put_records([record])
    assert not store.remove(hash_text(Kind.SEAL, record.digest), reason="a name that no record has")
    assert store.have(record.hash)


def test_removal_counts(store: Store) -> None:
    store.put_records([plex(1), sealed(2), EMPTY_BLOB])
    store.remove(sealed(2).hash, reason="test")
    assert store.stat().records == {Kind.BLOB: 1, Kind.PLEX: 1, Kind.SEAL: 0}
    assert store.stat().record_bytes == len(plex(1).raw) + len(EMPTY_BLOB.raw)


def test_a_text_that_is_no_name_can_be_neither_removed_nor_lifted(store: Store) -> None:
    with pytest.raises(IntegrityError):
        store.remove(HashText("nonsense"), reason="test")
    with pytest.raises(IntegrityError):
        store.lift(HashText("nonsense"))
    assert list(store.refusals()) == []
