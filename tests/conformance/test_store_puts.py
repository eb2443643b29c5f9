"""Putting: one answer per item, nothing twice, numbers that only rise."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bobbin import profile
from bobbin.errors import UsageError
from bobbin.records.ids import HashText
from bobbin.records.reasons import Reason
from bobbin.records.record import Record
from bobbin.store.base import Outcome, Put, Rejected, Store
from tests.conformance.conftest import Kit
from tests.conformance.samples import EMPTY_BLOB, plex, records, sealed


def test_a_record_that_is_put_can_be_got(store: Store) -> None:
    for record in (EMPTY_BLOB, plex(), sealed()):
        assert store.put_many([record.raw]) == [Put(Outcome.STORED, record.hash, store.high_water())]
        assert store.get(record.hash) == record.raw
        assert store.have(record.hash)


def test_storing_a_seal_does_not_store_what_is_inside(store: Store) -> None:
    seal = sealed()
    store.put_records([seal])
    assert not store.have(seal.plex_hash)
    assert store.get(seal.inner().blob_hash) is None


def test_answers_stand_in_the_order_of_the_items(store: Store) -> None:
    first, second = plex(1), plex(2)
    answers = store.put_many([first.raw, b"junk", second.raw, first.raw], source="a file")
    assert answers == [
        Put(Outcome.STORED, first.hash, answers[0].id),
        Put(Outcome.REJECTED, None, None, reason=Reason.NO_MARK, detail=answers[1].detail),
        Put(Outcome.STORED, second.hash, answers[2].id),
        Put(Outcome.DUPLICATE, first.hash, answers[0].id),
    ]
    assert answers[1].detail


def test_putting_again_changes_nothing(kit: Kit) -> None:
    batch: list[Record] = [plex(1), sealed(2), EMPTY_BLOB]
    with kit.open(create=True) as store:
        ids = [answer.id for answer in store.put_records(batch)]
        before = store.stat()
        assert store.put_records(batch) == [
            Put(Outcome.DUPLICATE, record.hash, number) for record, number in zip(batch, ids, strict=True)
        ]
        assert store.stat().records == before.records
    with kit.open() as again:
        assert [answer.outcome for answer in again.put_records(batch)] == [Outcome.DUPLICATE] * 3


def test_numbers_rise_in_the_order_of_the_items(store: Store) -> None:
    batch = [plex(number) for number in range(10)]
    ids = [answer.id or 0 for answer in store.put_records(batch)]
    assert ids == sorted(set(ids))
    assert store.high_water() == ids[-1]
    later = store.put_records([plex(11)])[0].id
    assert later is not None
    assert later > ids[-1]


def test_no_number_is_used_again_after_removal_and_reopening(kit: Kit) -> None:
    seen: list[int] = []
    for number in range(3):
        with kit.open(create=True) as store:
            (answer,) = store.put_records([plex(number)])
            assert answer.id is not None
            seen.append(answer.id)
            assert store.remove(plex(number).hash, reason="test")
            assert store.high_water() == answer.id
    assert seen == sorted(set(seen))


def test_an_empty_put_is_answered_with_nothing(store: Store) -> None:
    assert store.put_many([]) == []
    assert store.put_records([]) == []
    assert store.high_water() == 0


def test_a_record_over_the_limit_is_rejected_not_raised(store: Store) -> None:
    (answer,) = store.put_many([bytes(profile.RECORD_BYTES_MAX + 1)])
    assert (answer.outcome, answer.reason) == (Outcome.REJECTED, Reason.TOO_LARGE)
    assert [row.size for row in store.quarantined()] == [profile.RECORD_BYTES_MAX + 1]


def test_a_put_that_fails_while_items_are_made_stores_nothing(store: Store) -> None:
    def items() -> Iterator[bytes]:
        yield plex(1).raw
        yield b"junk"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.put_many(items())
    assert not store.have(plex(1).hash)
    assert list(store.quarantined()) == []


def test_records_and_rejected_bytes_go_in_one_commit(store: Store) -> None:
    commits: list[int] = []
    store.subscribe(commits.append)
    rejected = Rejected(raw=b"junk", reason=Reason.NO_MARK, detail="no mark", source="peer", offset=7)
    answers = store.put_records([plex()], rejected=[rejected])
    assert [answer.outcome for answer in answers] == [Outcome.STORED]
    assert [(row.raw, row.source, row.offset) for row in store.quarantined()] == [(b"junk", "peer", 7)]
    assert commits == [answers[0].id]


def test_a_store_opened_for_reading_refuses_to_write(kit: Kit) -> None:
    kit.open(create=True).close()
    with kit.open(read_only=True) as store:
        with pytest.raises(UsageError):
            store.put_records([plex()])
        with pytest.raises(UsageError):
            store.put_many([b"junk"])
        with pytest.raises(UsageError):
            store.remove(plex().hash, reason="test")
        assert list(store.scan()) == []
        assert list(store.quarantined()) == []


def test_opening_where_there_is_no_store_is_refused(kit: Kit) -> None:
    with pytest.raises(UsageError):
        kit.open()
    with pytest.raises(UsageError):
        kit.open(read_only=True)


def test_creating_an_existing_store_opens_it(kit: Kit) -> None:
    with kit.open(create=True) as store:
        store.put_records([plex()])
    with kit.open(create=True) as store:
        assert store.have(plex().hash)


def test_a_closed_store_refuses_to_work(kit: Kit) -> None:
    store = kit.open(create=True)
    store.close()
    store.close()
    for work in (lambda: store.get(plex().hash), lambda: store.put_records([plex()]), store.high_water, store.snapshot):
        with pytest.raises(UsageError):
            work()


@given(batches=st.lists(st.lists(records(), max_size=6), max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
def test_the_store_is_the_set_of_what_was_put(kit: Kit, batches: list[list[Record]]) -> None:
    expected: dict[str, bytes] = {}
    with kit.create_another() as store:
        for batch in batches:
            for record, answer in zip(batch, store.put_records(batch), strict=True):
                fresh = record.hash not in expected
                assert answer.outcome is (Outcome.STORED if fresh else Outcome.DUPLICATE)
                expected[record.hash] = record.raw
        scanned = list(store.scan())
        assert {line.hash: line.raw for line in scanned} == expected
        assert len(scanned) == len(expected)
        assert [line.hash for line in scanned] == list(expected)


def test_many_are_read_at_once_as_each_is(store: Store) -> None:
    batch = [plex(number) for number in range(6)]
    store.put_records(batch[:5])
    names = [record.hash for record in batch]
    assert store.get_many(names, bytes_max=10**6) == {record.hash: record.raw for record in batch[:5]}
    some = store.get_many(names, bytes_max=2 * len(batch[0].raw))
    assert 0 < len(some) < 5
    assert all(store.get(HashText(name)) == raw for name, raw in some.items())
