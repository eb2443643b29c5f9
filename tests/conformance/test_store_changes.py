"""What has changed since a mark, and what is known about many records at once."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.facts.extract import extract
from bobbin.facts.relations import FIELD
from bobbin.records.record import Record
from bobbin.store.base import Mark, Store, StoreChanges, StoreRecordId
from tests.conformance.conftest import Kit
from tests.conformance.samples import EMPTY_BLOB, EXTRAS, plex, records, sealed


@pytest.mark.reading
def test_a_new_store_has_no_past(store: Store) -> None:
    assert store.mark() == Mark()
    assert store.changes(Mark()) == StoreChanges(mark=Mark())
    assert not store.changes(Mark())


@pytest.mark.reading
def test_a_mark_tells_old_from_new(store: Store) -> None:
    store.put_records([plex(1), plex(2)])
    mark = store.mark()
    store.put_records([EMPTY_BLOB, plex(3)])
    changes = store.changes(mark)
    assert changes.stored == (EMPTY_BLOB.hash, plex(3).hash)
    assert changes.mark == store.mark() != mark
    assert store.changes(changes.mark) == StoreChanges(mark=changes.mark)


def test_what_is_removed_refused_and_lifted_is_told_once(store: Store) -> None:
    store.put_records([plex(1), plex(2)])
    mark = store.mark()
    store.remove(plex(1).hash, reason="test")
    store.remove(plex(9).hash, reason="test")
    store.lift(plex(9).hash)
    assert not store.lift(plex(2).hash)
    changes = store.changes(mark)
    assert changes.removed == {plex(1).hash}
    assert changes.refused == changes.lifted == {plex(9).hash}
    assert changes.stored == ()
    assert not store.changes(changes.mark)


def test_a_record_that_left_and_came_back_is_told_as_both(store: Store) -> None:
    store.put_records([plex(1)])
    mark = store.mark()
    store.remove(plex(1).hash, reason="test")
    store.lift(plex(1).hash)
    store.put_records([plex(1)])
    changes = store.changes(mark)
    assert changes.stored == (plex(1).hash,)
    assert changes.removed == changes.lifted == {plex(1).hash}


def test_marks_outlive_the_process_and_compacting(kit: Kit) -> None:
    with kit.open(create=True) as store:
        store.put_records([plex(1), plex(2)])
        mark = store.mark()
        store.remove(plex(2).hash, reason="test")
        store.compact()
    with kit.open(read_only=True) as store:
        assert store.changes(mark).removed == {plex(2).hash}


@pytest.mark.reading
def test_a_mark_that_lies_ahead_is_refused(store: Store) -> None:
    store.put_records([plex(1)])
    for ahead in (Mark(StoreRecordId(2), 0), Mark(StoreRecordId(1), 1)):
        with pytest.raises(UsageError):
            store.changes(ahead)


@pytest.mark.reading
def test_a_snapshot_knows_nothing_of_later_changes(kit: Kit, store: Store) -> None:
    store.put_records([plex(1)])
    with store.snapshot() as then:
        store.put_records([plex(2)])
        if kit.removes:
            store.remove(plex(1).hash, reason="test")
        store.keep("test", "a", b"later")
        assert then.changes(Mark()).stored == (plex(1).hash,)
        assert then.changes(Mark()).removed == frozenset()
        assert set(then.facts_after(StoreRecordId(0))) == set(extract(plex(1)))
        assert then.absent([plex(1).hash, plex(2).hash]) == {plex(2).hash}
        assert then.fields([plex(2).hash]) == [None]
        assert then.kept("test", "a") is None
        assert then.mark() == Mark(StoreRecordId(1), 0)
    with pytest.raises(UsageError):
        then.changes(Mark())


@pytest.mark.reading
@pytest.mark.slow
@given(
    first=st.lists(records(), max_size=5),
    second=st.lists(records(), max_size=5),
    fields=st.frozensets(
        st.sampled_from(["Type", "Group", "Name", "TAI", "Data-Length", "Signed-By", "Signature", "x"])
    ),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_facts_after_a_mark_are_those_of_the_new_records(
    kit: Kit, first: list[Record], second: list[Record], fields: frozenset[str]
) -> None:
    with kit.create_another() as store:
        store.put_records(first)
        mark = store.mark()
        store.put_records(second)
        known = {record.hash for record in first}
        expected = {fact for record in second if record.hash not in known for fact in extract(record)}
        found = list(store.facts_after(mark.high_water))
        assert len(found) == len(set(found))
        assert set(found) == expected
        present = fields | {values[1] for predicate, values in expected if predicate == FIELD and len(values[3]) % 2}
        for names in (fields, present):
            some = list(store.facts_after(mark.high_water, names))
            assert len(some) == len(set(some))
            assert set(some) == {fact for fact in expected if fact[0] != FIELD or fact[1][1] in names}


@pytest.mark.reading
def test_absent_is_neither_stored_nor_refused(kit: Kit, store: Store) -> None:
    store.put_records([plex(1)])
    asked = [plex(1).hash, plex(3).hash, "P.abc.K9", "no name", "P.é"]
    if kit.removes:
        store.remove(plex(2).hash, reason="test")
        asked.append(plex(2).hash)
    assert store.absent(asked) == {plex(3).hash, "P.abc.K9", "no name", "P.é"}
    assert store.absent([]) == frozenset()


@pytest.mark.reading
def test_fields_come_in_order_of_name_and_index(store: Store) -> None:
    links = tuple(("+Link", f"source{number} {EMPTY_BLOB.hash}") for number in range(12))
    record = sealed(1, extras=(*links, EXTRAS[5]))
    store.put_records([record, plex(2)])
    every, nothing = store.fields([record.hash, plex(9).hash])
    assert nothing is None
    assert every is not None
    assert set(every) == {values[1:] for predicate, values in extract(record) if predicate == "Field"}
    assert list(every) == sorted(every, key=lambda field: (field[0], int(field[1])))
    some = store.fields([plex(2).hash, record.hash], frozenset({"Name", "X-Custom", "Signature"}))
    assert some[0] == (("Name", "0", "links/2"),)
    assert some[1] == tuple(field for field in every if field[0] in {"Name", "X-Custom", "Signature"})
    assert store.fields([record.hash, plex(9).hash], frozenset()) == [(), None]


def test_a_value_is_kept_until_it_is_replaced_or_taken_out(kit: Kit) -> None:
    with kit.open(create=True) as store:
        assert store.kept("test", "a") is None
        store.keep("test", "a", b"first")
        store.keep("other", "a", b"another kind")
        store.keep("test", "a", b"second")
    with kit.open() as store:
        assert store.kept("test", "a") == b"second"
        store.keep("test", "a", None)
        store.keep("test", "never there", None)
        assert store.kept("test", "a") is None
        assert store.kept("other", "a") == b"another kind"
        assert list(store.check()) == []


@pytest.mark.reading
def test_keys_are_listed_by_kind_what_was_kept_longest_ago_first(store: Store) -> None:
    for key, value in (("a", b"1"), ("b", b""), ("c", b"333"), ("a", b"22"), ("b", None)):
        store.keep("test", key, value)
    store.keep("other", "a", b"another kind")
    assert list(store.kept_rows("test")) == [("c", 3), ("a", 2)]
    assert list(store.kept_rows("nothing")) == []


@pytest.mark.parametrize("number", [1, 2])
def test_a_removal_takes_out_what_was_kept_whether_the_record_was_there_or_not(store: Store, number: int) -> None:
    store.put_records([plex(1)])
    for kind in ("test", "other"):
        store.keep(kind, "a", b"what the record says")
    store.remove(plex(number).hash, reason="test")
    assert [list(store.kept_rows(kind)) for kind in ("test", "other")] == [[], []]
    store.keep("test", "a", b"made again")
    assert store.kept("test", "a") == b"made again"


def test_keeping_wakes_nobody_and_is_no_change(store: Store) -> None:
    woken: list[int] = []
    store.subscribe(woken.append)
    store.keep("test", "a", b"value")
    assert woken == []
    assert store.mark() == Mark()


def test_a_kept_value_has_a_name_and_a_bound(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("bobbin.store.sqlite.keeping", "tests.conformance.model"):
        monkeypatch.setattr(f"{place}.KEPT_BYTES_MAX", 3)
    store.keep("test", "a", b"123")
    for kind, key, value in (("", "a", b""), ("test", "", b""), ("test", "a", b"1234")):
        with pytest.raises(UsageError):
            store.keep(kind, key, value)
    assert store.kept("test", "a") == b"123"


def test_a_store_that_is_only_read_keeps_nothing(kit: Kit, tmp_path: Path) -> None:
    kit.open(create=True).close()
    with kit.open(read_only=True) as store, pytest.raises(UsageError):
        store.keep("test", tmp_path.name, b"value")
