"""The quarantine: rejected bytes with their reason, never taken for records."""

from bobbin.records.reasons import Reason
from bobbin.store.base import Quarantined, Rejected, Store
from tests.conformance.conftest import Kit
from tests.conformance.samples import plex, sealed


def test_rejected_bytes_are_kept_with_reason_source_and_time(kit: Kit) -> None:
    damaged = bytearray(sealed(1).raw)
    damaged[-1] ^= 1
    with kit.open(create=True) as store:
        kit.now = 77
        (answer,) = store.put_many([bytes(damaged)], source="bundle.lace")
    with kit.open() as store:
        assert list(store.quarantined()) == [
            Quarantined(
                id=1,
                raw=bytes(damaged),
                size=len(damaged),
                reason=Reason.BLOB_DIGEST,
                detail=answer.detail or "",
                source="bundle.lace",
                offset=None,
                tai=77,
            )
        ]
        assert store.stat().quarantined == 1


def test_nothing_in_the_quarantine_is_a_record_or_a_fact(store: Store) -> None:
    # The bytes hold a whole valid Plex, inside a Seal whose signature is wrong.
    damaged = bytearray(sealed(1).raw)
    damaged[150] ^= 1
    store.put_many([bytes(damaged)])
    assert [row.size for row in store.quarantined()] == [len(damaged)]
    assert not store.have(sealed(1).hash)
    assert not store.have(plex(1).hash)
    assert list(store.scan()) == []
    assert list(store.facts.enumerate("Have")) == []
    assert store.high_water() == 0


def test_rows_stand_in_the_order_of_arrival_and_can_be_released(store: Store) -> None:
    rejected = [Rejected(raw=bytes([number]), reason="r", detail="d", offset=number) for number in range(3)]
    store.put_records([], rejected=rejected)
    first, second, third = store.quarantined()
    assert [row.offset for row in (first, second, third)] == [0, 1, 2]
    assert store.release(second.id)
    assert not store.release(second.id)
    assert list(store.quarantined()) == [first, third]
    assert store.stat().quarantined == 2


def test_the_same_rejection_again_is_one_row(store: Store) -> None:
    item = Rejected(raw=b"noise", reason="no-mark", detail="d", source="a.bundle", offset=7)
    store.put_records([], rejected=[item, item])
    store.put_records([], rejected=[item])
    store.put_many([b"noise"], source="b.bundle")
    store.put_many([b"noise"], source="b.bundle")
    assert [(row.source, row.offset) for row in store.quarantined()] == [("a.bundle", 7), ("b.bundle", None)]
    assert store.stat().quarantined == 2


def test_the_same_bytes_elsewhere_are_another_row(store: Store) -> None:
    for offset, reason in ((1, "r"), (2, "r"), (2, "s")):
        rejected = Rejected(raw=b"noise", reason=reason, detail="d", offset=offset)
        store.put_records([], rejected=[rejected])
    assert [(row.offset, row.reason) for row in store.quarantined()] == [(1, "r"), (2, "r"), (2, "s")]


def test_rows_come_without_bytes_one_by_one_and_all_go_at_once(store: Store) -> None:
    rejected = [Rejected(raw=bytes([number]), reason="r", detail="d", offset=number) for number in range(3)]
    store.put_records([], rejected=rejected)
    whole = list(store.quarantined())
    assert [(row.raw, row.size) for row in store.quarantined(with_bytes=False)] == [(None, 1)] * 3
    assert store.quarantined_row(whole[1].id) == whole[1]
    assert store.quarantined_row(10**6) is None
    assert store.release_all() == 3
    assert store.release_all() == 0
    assert list(store.quarantined()) == []
    assert store.stat().quarantined == 0
    assert list(store.check()) == []


def test_a_released_number_is_not_given_again(store: Store) -> None:
    store.put_many([b"one"])
    (row,) = store.quarantined()
    store.release(row.id)
    store.put_many([b"two"])
    assert [other.id > row.id for other in store.quarantined()] == [True]


def test_texts_from_outside_do_not_break_it(store: Store) -> None:
    # A file name that is not UTF-8 reaches Python as half a surrogate pair.
    store.put_records([], rejected=[Rejected(raw=b"", reason="r", detail="nul \x00 inside", source="a\udcff\x00b")])
    store.put_many([b""], source="\ud800")
    assert [row.size for row in store.quarantined()] == [0, 0]
    assert next(row.detail for row in store.quarantined()) == "nul \x00 inside"
