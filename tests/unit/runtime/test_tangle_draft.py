"""A commit while it is being decided: what comes and goes within it leaves no trace."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.runtime.tangle_draft import Draft, tangle_for
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.base import StoreRecordId
from bobbin.store.sqlite import SqliteStore
from bobbin.store.tangles import Level, TangleBatch
from bobbin.tangles.admission import Admission
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.ghosts import Ghosts
from bobbin.tangles.goals import parse_goal
from tests.support.tangle_messages import Author
from tests.unit.runtime.tangle_stores import opened, placed, plex


@pytest.fixture
def alice() -> Author:
    return Author("alice")


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[SqliteStore, TangleStore]]:
    with opened(tmp_path / "records.db") as pair:
        yield pair


def batch(draft: Draft) -> TangleBatch:
    return draft.batch(0, None, lambda _: ())


def test_what_is_admitted_is_written_with_its_level(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    draft = Draft(both[1].shelf)
    moot, first = alice.feed(1)
    unknown = alice.post(moot.id, {"text": "unknown"})
    waits = placed(alice, moot, [first.id, unknown.id], 3)
    for message in (alice.account, moot, first, waits):
        tangle = tangle_for(both[1].shelf, message, moot.id)
        assert draft.admit(message, tangle, Level.INTEROP) is Admission.ADDED
    assert draft.admit(first, moot.id, Level.MODERN) is Admission.KNOWN
    written = batch(draft)
    assert [(one.id, one.level) for one in written.messages] == [
        (alice.account.id, Level.MODERN),
        (moot.id, Level.MODERN),
        (first.id, Level.MODERN),
        (waits.id, Level.INTEROP),
    ]
    assert [one.plex is not None for one in written.messages] == [True, True, True, False]
    assert written.lacking == {waits.id: {unknown.id}}
    assert draft.touched == {alice.account.id, moot.id, first.id, waits.id}
    assert draft.is_believed(first)
    assert not draft.is_believed(waits)


def test_what_comes_and_goes_leaves_no_trace(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    draft = Draft(both[1].shelf)
    moot, first = alice.feed(1)
    for message in (alice.account, moot, first):
        draft.admit(message, tangle_for(both[1].shelf, message, moot.id), Level.INTEROP)
    assert draft.erase(first.id)
    assert not draft.erase(first.id)
    assert [one.is_erased for one in batch(draft).messages] == [False, False, True]
    assert draft.delete(first.id)
    assert not draft.delete(first.id)
    written = batch(draft)
    assert [one.id for one in written.messages] == [alice.account.id, moot.id]
    assert (written.deleted, written.erased) == ([], [])
    assert not draft.shrinks_accounts
    draft.delete(alice.account.id)
    assert draft.shrinks_accounts


def test_what_was_stored_before_is_taken_out(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    tangles = both[1]
    moot, first, second = alice.feed(2)
    tangles.commit([alice.account, moot, first, second.erased()], tangle=moot.id)
    draft = Draft(tangles.shelf)
    draft.erase(first.id)
    draft.admit(second, moot.id, Level.INTEROP)
    draft.delete(second.id)
    written = batch(draft)
    assert written.deleted == [second.id], "its data had come, and what was left of it before goes as well"
    assert written.erased == [(first.id, first.erased().raw)]
    assert written.messages == []


def test_only_what_is_proven_may_come_as_a_record(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    tangles = both[1]
    moot, first, second = alice.feed(2)
    tangles.commit([alice.account, moot], tangle=moot.id)
    draft = Draft(tangles.shelf)
    with pytest.raises(InvalidMessage) as caught:
        draft.admit_proven(second, moot.id)
    assert caught.value.rule is Rule.PREV_UNKNOWN
    waits = placed(alice, moot, [moot.id, first.id], 2)
    with pytest.raises(InvalidMessage, match=f"it waits for {first.id}") as caught:
        draft.admit_proven(waits, moot.id)
    assert caught.value.rule is Rule.PREV_UNPROVEN
    assert draft.admit_proven(first, moot.id) is Admission.ADDED
    assert draft.admit_proven(waits, moot.id) is Admission.ADDED
    assert draft.came == (first.id, waits.id)


def test_a_promotion_does_not_bring_a_removed_record_back(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    store, tangles = both
    moot, first = alice.feed(1)
    unknown = alice.post(moot.id, {"text": "unknown"})
    waits = placed(alice, moot, [first.id, unknown.id], 3)
    tangles.commit([alice.account, moot, first, waits], tangle=moot.id)
    store.remove(plex(waits).hash, reason="unwanted")
    assert tangles.commit([unknown], tangle=moot.id).promoted == (waits.id,)
    assert waits.id in tangles.proven(moot.id)
    assert not store.have(plex(waits).hash)


def test_goals_ghosts_and_records(both: tuple[SqliteStore, TangleStore]) -> None:
    draft = Draft(both[1].shelf)
    draft.set_goal("a", parse_goal("newest-3"))
    draft.set_goal("b", None)
    draft.set_ghosts("a", Ghosts([("x", 1)]))
    draft.waiting[StoreRecordId(1)] = "why"
    draft.settled.append(StoreRecordId(2))
    written = batch(draft)
    assert written.goals == {"a": "newest-3", "b": None}
    assert written.ghosts == {"a": '[["x",1]]'}
    assert written.waiting == {1: "why"}
    assert written.settled == [2]


def test_the_tangle_that_a_message_came_for(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    shelf = both[1].shelf
    moot = alice.moot()
    thread = alice.root({"text": "topic"}, "thread")
    reply = alice.post([moot.id, thread.id], {"text": "reply"})
    assert tangle_for(shelf, alice.account, moot.id) == alice.account.id
    assert tangle_for(shelf, moot, None) == moot.id
    assert tangle_for(shelf, reply, thread.id) == thread.id
    assert tangle_for(shelf, reply, "another") == min(moot.id, thread.id)
    both[1].commit([alice.account, thread], tangle=thread.id)
    assert tangle_for(shelf, reply, None) == thread.id, "the one that is known"
