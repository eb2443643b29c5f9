"""The tangles of a store: a batch is one commit, with the records that say the same."""

from pathlib import Path

import apsw
import pytest

from bobbin.errors import UsageError
from bobbin.records.record import Plex
from bobbin.store.base import Outcome, StoreRecordId
from bobbin.store.sqlite import SqliteStore, open_store
from bobbin.store.tangles import TAKEN_OUT, Level, Promotion, StaleTangles, TangleBatch
from bobbin.tangles.message import Message
from bobbin.tangles.plex import plex_of
from tests.conformance.samples import plex as sample
from tests.support.tangle_messages import Author
from tests.unit.store.sqlite.conftest import NOW, Database
from tests.unit.store.sqlite.tangle_batches import kept, new, put, state, write

ALICE = Author("alice")
FEED = ALICE.feed(4)
MOOT, FIRST, SECOND, THIRD, FOURTH = FEED


def plex(message: Message) -> Plex:
    made = plex_of(message)
    assert made is not None
    return made


def ids(store: SqliteStore, root: str) -> list[str]:
    with store.tangles.reading() as view:
        return [message.id for message, _ in view.members(root)]


def test_a_message_and_its_record_come_together(store: SqliteStore) -> None:
    after = put(store, ALICE.account, *FEED)
    assert (after.version, after.messages, after.erased, after.interop) == (1, 6, 0, 0)
    assert after.message_bytes == sum(len(message.raw) for message in [ALICE.account, *FEED])
    for message in [ALICE.account, *FEED]:
        assert store.get(plex(message).hash) == plex(message).raw
    row = kept(store, [SECOND.id])[SECOND.id]
    assert (row.raw, row.is_erased, row.level) == (SECOND.raw, False, Level.MODERN)
    assert ids(store, MOOT.id) == [message.id for message in FEED], "the root is among them, in the order of arrival"
    assert list(store.check()) == []


def test_nothing_of_a_batch_is_there_when_it_fails(store: SqliteStore) -> None:
    put(store, MOOT)
    before = state(store)
    with pytest.raises(UsageError, match="kept already"):
        put(store, FIRST, MOOT)
    assert state(store) == before
    assert not store.have(plex(FIRST).hash)
    with pytest.raises(UsageError, match="is not kept here"):
        write(store, messages=[new(FIRST)], promoted=[Promotion(SECOND.id, (MOOT.id,), None)])
    assert state(store) == before
    assert list(store.check()) == []


def test_what_was_decided_at_another_version_is_refused(store: SqliteStore, path: Path) -> None:
    with open_store(path, now=lambda: NOW) as other:
        put(other, MOOT)
    with pytest.raises(StaleTangles) as caught:
        store.tangles.write(TangleBatch(version=0, messages=[new(FIRST)]))
    assert caught.value.retry
    assert ids(store, MOOT.id) == [MOOT.id]


def test_to_have_seen_records_is_no_new_version(store: SqliteStore) -> None:
    store.put_records([sample(1), sample(2)])
    assert write(store, seen=StoreRecordId(2)).version == 0
    assert state(store).seen == 2
    assert write(store, seen=StoreRecordId(1)).seen == 2, "it never goes back"


def test_what_interop_let_in_is_no_record_until_it_is_promoted(store: SqliteStore) -> None:
    put(store, MOOT)
    assert put(store, FIRST, level=Level.INTEROP).interop == 1
    assert not store.have(plex(FIRST).hash)
    with store.tangles.reading() as view:
        assert [message.id for message in view.marked()] == [FIRST.id]
        assert {message.id: level for message, level in view.members(MOOT.id)} == {
            MOOT.id: Level.MODERN,
            FIRST.id: Level.INTEROP,
        }
    assert list(store.check()) == []
    after = write(store, promoted=[Promotion(FIRST.id, (MOOT.id,), plex(FIRST))])
    assert (after.interop, after.rewrites) == (0, 1)
    assert store.have(plex(FIRST).hash)
    with store.tangles.reading() as view:
        assert list(view.marked()) == []
        assert [place.level for place in view.places(kept(store, [FIRST.id])[FIRST.id].number)] == [Level.MODERN]
    assert list(store.check()) == []


def test_erasing_takes_the_record_out_and_it_does_not_come_back(store: SqliteStore) -> None:
    put(store, *FEED)
    after = write(store, erased=[(SECOND.id, SECOND.erased().raw)])
    assert (after.erased, after.rewrites) == (1, 1)
    row = kept(store, [SECOND.id])[SECOND.id]
    assert (row.raw, row.is_erased, row.record) == (SECOND.erased().raw, True, None)
    (answer,) = store.put_records([plex(SECOND)])
    assert (answer.outcome, answer.reason) == (Outcome.REFUSED, TAKEN_OUT)
    assert list(store.check()) == []


def test_data_that_comes_back_with_the_message_lifts_what_the_goal_refused(store: SqliteStore) -> None:
    put(store, *FEED)
    write(store, erased=[(SECOND.id, SECOND.erased().raw)])
    before = kept(store, [SECOND.id])[SECOND.id].number
    assert put(store, SECOND).erased == 0
    row = kept(store, [SECOND.id])[SECOND.id]
    assert row.number > before, "it is a new arrival"
    assert row.raw == SECOND.raw
    assert store.get(plex(SECOND).hash) == plex(SECOND).raw
    assert list(store.refusals()) == []
    assert ids(store, MOOT.id) == [MOOT.id, FIRST.id, THIRD.id, FOURTH.id, SECOND.id]
    assert list(store.check()) == []


def test_an_erased_copy_is_no_record_and_its_data_replaces_it(store: SqliteStore) -> None:
    put(store, MOOT, FIRST.erased())
    assert not store.have(plex(FIRST).hash)
    with pytest.raises(UsageError, match="kept already"):
        put(store, FIRST.erased())
    put(store, FIRST)
    assert kept(store, [FIRST.id])[FIRST.id].raw == FIRST.raw
    with pytest.raises(UsageError, match="kept already"):
        put(store, FIRST.erased())
    assert list(store.check()) == []


def test_deleting_leaves_nothing_but_the_refusal(store: SqliteStore, database: Database) -> None:
    put(store, *FEED)
    after = write(store, deleted=[FIRST.id, SECOND.id])
    assert (after.messages, after.rewrites) == (3, 1)
    assert ids(store, MOOT.id) == [MOOT.id, THIRD.id, FOURTH.id]
    assert {refusal.hash for refusal in store.refusals()} == {plex(FIRST).hash, plex(SECOND).hash}
    with database() as connection:
        assert connection.execute("SELECT count(*) FROM member").get == 2
    assert put(store, FIRST).messages == 4
    assert store.have(plex(FIRST).hash)
    assert list(store.check()) == []


def test_what_somebody_removed_on_purpose_is_not_brought_back_by_a_message(store: SqliteStore) -> None:
    put(store, MOOT, FIRST)
    store.remove(plex(FIRST).hash, reason="sent by mistake")
    row = kept(store, [FIRST.id])[FIRST.id]
    assert (row.raw, row.is_erased, row.record) == (FIRST.erased().raw, True, None), "its data is gone as well"
    assert (state(store).rewrites, state(store).erased) == (1, 1)
    with store.tangles.reading() as view:
        assert view.refused([plex(FIRST).hash, plex(MOOT).hash]) == {plex(FIRST).hash: "sent by mistake"}
    with pytest.raises(StaleTangles, match="sent by mistake"):
        put(store, FIRST)
    assert kept(store, [FIRST.id])[FIRST.id].is_erased
    assert list(store.check()) == []


def test_a_moot_whose_record_is_removed_stays_for_those_who_stand_on_it(store: SqliteStore) -> None:
    put(store, MOOT, FIRST)
    store.remove(plex(MOOT).hash, reason="x")
    row = kept(store, [MOOT.id])[MOOT.id]
    assert (row.is_erased, row.record) == (False, None)
    assert list(store.check()) == []


def test_removing_another_record_is_nothing_to_the_tangles(store: SqliteStore) -> None:
    put(store, MOOT)
    store.put_records([sample(1)])
    before = state(store)
    store.remove(sample(1).hash, reason="x")
    assert state(store) == before


def test_goals_and_ghosts(store: SqliteStore) -> None:
    write(store, goals={MOOT.id: "newest-3"}, ghosts={MOOT.id: f'[["{FIRST.id}",1]]'})
    put(store, *FEED)
    with store.tangles.reading() as view:
        assert view.goals() == {MOOT.id: "newest-3"}
        assert view.ghosts() == {MOOT.id: f'[["{FIRST.id}",1]]'}
        (row,) = view.tangles()
        assert (row.root, row.goal, row.members, row.depth_max, row.ghosts) == (MOOT.id, "newest-3", 4, 4, 1)
    write(store, goals={MOOT.id: None}, ghosts={MOOT.id: "[]"})
    with store.tangles.reading() as view:
        assert view.goals() == view.ghosts() == {}


def test_records_that_may_be_messages_are_found_and_can_wait(store: SqliteStore) -> None:
    store.put_records([sample(1), plex(FIRST), sample(2, app="pzp")])
    with store.tangles.reading() as view:
        for first, last, found in ((0, 9, [2, 3]), (2, 9, [3]), (0, 2, [2]), (2, 2, [])):
            assert [record.id for record in view.plexes(StoreRecordId(first), StoreRecordId(last))] == found
    after = write(store, waiting={StoreRecordId(2): "no root"}, seen=StoreRecordId(3))
    assert (after.waiting, after.seen) == (1, 3)
    assert write(store, waiting={StoreRecordId(2): "still \ud800 none"}).waiting == 1
    with store.tangles.reading() as view:
        assert [(record.hash, reason) for record, reason in view.waiting()] == [
            (plex(FIRST).hash, "still \\ud800 none")
        ]
    assert list(store.check()) == []
    after = write(store, messages=[new(MOOT), new(FIRST)], settled=[StoreRecordId(2)])
    assert after.waiting == 0
    assert kept(store, [FIRST.id])[FIRST.id].record == 2, "the record was there already"
    assert list(store.check()) == []


def test_what_waits_is_told_in_either_order(store: SqliteStore) -> None:
    store.put_records([plex(FIRST), plex(SECOND)])
    write(store, waiting={StoreRecordId(2): "x", StoreRecordId(1): "y"})
    with store.tangles.reading() as view:
        assert [record.id for record, _ in view.waiting()] == [1, 2]
        assert [record.id for record, _ in view.waiting(newest_first=True)] == [2, 1]


def test_the_record_of_a_kept_message_waits_no_longer_though_nobody_says_so(store: SqliteStore) -> None:
    store.put_records([plex(FIRST), plex(SECOND)])
    write(store, waiting={StoreRecordId(1): "no root"})
    after = write(store, messages=[new(MOOT), new(FIRST), new(SECOND)], waiting={StoreRecordId(2): "found late"})
    assert after.waiting == 0
    assert list(store.check()) == []


def test_a_record_that_is_removed_waits_no_longer(store: SqliteStore) -> None:
    store.put_records([plex(FIRST)])
    write(store, waiting={StoreRecordId(1): "no root"})
    store.remove(plex(FIRST).hash, reason="x")
    assert state(store).waiting == 0
    assert list(store.check()) == []


def test_a_view_is_one_moment(store: SqliteStore) -> None:
    put(store, MOOT)
    with store.tangles.reading() as view:
        put(store, FIRST)
        assert view.state().messages == 1
        assert view.find([FIRST.id]) == {}
        assert [message.id for message in view.after(0)] == [MOOT.id]
    with pytest.raises(UsageError, match="closed"):
        view.state()


def test_texts_that_are_no_ids_are_simply_not_there(store: SqliteStore) -> None:
    put(store, MOOT)
    with store.tangles.reading() as view:
        assert view.find(["", "\ud800", "a\0b", "x" * 10_000]) == {}
        assert list(view.members("\ud800")) == []


def test_a_store_that_is_only_read_takes_no_batch(store: SqliteStore, path: Path) -> None:
    put(store, MOOT)
    with open_store(path, now=lambda: NOW, read_only=True) as reader:
        assert ids(reader, MOOT.id) == [MOOT.id]
        with pytest.raises(UsageError, match="reading only"):
            reader.tangles.write(TangleBatch(version=1, deleted=[MOOT.id]))


def test_subscribers_hear_of_messages(store: SqliteStore) -> None:
    heard: list[int] = []
    store.subscribe(heard.append)
    put(store, MOOT, FIRST)
    assert heard == [2]


def test_backup_and_compaction_keep_all_of_it(store: SqliteStore, tmp_path: Path) -> None:
    put(store, *FEED)
    write(store, deleted=[FOURTH.id], goals={"nobody": "all"})
    write(store, goals={"nobody": None})
    store.compact()
    store.backup(tmp_path / "copy.db")
    with open_store(tmp_path / "copy.db", now=lambda: NOW) as copy:
        assert ids(copy, MOOT.id) == [message.id for message in FEED[:4]]
        assert state(copy) == state(store)
        assert list(copy.check()) == []
    connection = apsw.Connection(str(tmp_path / "copy.db"))
    assert connection.execute("SELECT root FROM tangle").fetchall() == [(MOOT.id,)]
    connection.close()


def test_stat_counts_them(store: SqliteStore) -> None:
    put(store, MOOT, FIRST.erased())
    put(store, SECOND, level=Level.INTEROP)
    stat = store.stat()
    assert (stat.messages, stat.messages_erased, stat.messages_interop, stat.messages_waiting) == (3, 1, 1, 0)
    assert stat.message_bytes == len(MOOT.raw) + len(FIRST.erased().raw) + len(SECOND.raw)
    assert sum(stat.records.values()) == 1
