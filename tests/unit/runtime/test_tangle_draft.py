"""A commit while it is being decided: what comes and goes within it leaves no trace."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.records.record import build_plex
from bobbin.runtime.tangle_draft import Draft, tangle_for
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.base import StoreRecordId
from bobbin.store.sqlite import SqliteStore
from bobbin.store.tangles import Level, TangleBatch
from bobbin.tangles import accounts, compose
from bobbin.tangles.admission import Admission
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.ghosts import Ghosts
from bobbin.tangles.goals import parse_goal
from bobbin.tangles.judgement import Mark
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.session_effects import Commit
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author, signed_again
from tests.unit.runtime.tangle_stores import opened, placed, plex

STRANGER = Keypair.from_words("stranger")


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


# ---- copies with another signature -----------------------------------------------------------------------------------


def removals(author: Author) -> tuple[Message, Message]:
    """Two keys that an account removes, one after the other."""
    account = Tangle(author.account.id, [author.account])
    made: list[Message] = []
    for words in ("bob", "carol"):
        made.append(compose.account_del(author.key, account, key=Keypair.from_words(words).public))
        account.add(made[-1])
    return made[0], made[1]


def mark(tangles: TangleStore, tangle: MessageId, message: Message) -> tuple[Mark, Rule | None] | None:
    found = tangles.judgement(tangle, message.id)
    return None if found is None else (found.mark, found.rule)


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("anew", [False, True])
def test_the_genuine_message_takes_the_place_of_a_copy_that_a_stranger_has_signed(
    both: tuple[SqliteStore, TangleStore], alice: Author, level: Level, *, anew: bool
) -> None:
    store, tangles = both
    removal, after = removals(alice)
    stolen = signed_again(STRANGER, removal)
    assert len(tangles.commit([alice.account, stolen, after], tangle=alice.account.id).added) == 3
    assert mark(tangles, alice.account.id, stolen) == (Mark.INTEROP, Rule.POWER)
    assert mark(tangles, alice.account.id, after) == (Mark.WAITING, None)
    if anew:
        tangles = TangleStore(store.tangles)
    done = tangles.commit([removal], tangle=alice.account.id, level=level)
    assert (done.added, done.promoted, done.refused) == ((removal.id,), (after.id,), ())
    for view in (tangles, TangleStore(store.tangles)):
        assert view.message(removal.id) == removal
        assert view.proven(alice.account.id).topological() == [alice.account.id, removal.id, after.id]
    assert store.have(plex(removal).hash)
    assert store.have(plex(after).hash)
    # And never the other way round.
    assert tangles.commit([stolen], tangle=alice.account.id).known == 1
    assert tangles.message(removal.id) == removal


def test_both_copies_in_one_commit(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    store, tangles = both
    removal, after = removals(alice)
    stolen = signed_again(STRANGER, removal)
    done = tangles.commit([alice.account, stolen, after, removal, stolen], tangle=alice.account.id)
    assert set(done.added) == {alice.account.id, removal.id, after.id}
    assert done.known == 1
    assert TangleStore(store.tangles).message(removal.id) == removal
    assert len(tangles.proven(alice.account.id)) == 3


def test_a_genuine_record_takes_the_place_of_a_stolen_message(
    both: tuple[SqliteStore, TangleStore], alice: Author
) -> None:
    store, tangles = both
    removal, _ = removals(alice)
    stolen = signed_again(STRANGER, removal)
    tangles.commit([alice.account, stolen], tangle=alice.account.id)
    store.put_records([plex(stolen), plex(removal)])
    assert tangles.refresh() == (removal.id,)
    held = tangles.message(removal.id)
    assert held is not None
    assert (held.sigkey, held.sig) == (removal.sigkey, removal.sig)
    assert tangles.waiting() == [], "the stolen one is a record that somebody has made, and no message"
    assert store.have(plex(stolen).hash)


@pytest.mark.parametrize("level", Level)
def test_data_for_a_proven_message_does_not_bring_another_signature(
    both: tuple[SqliteStore, TangleStore], alice: Author, level: Level
) -> None:
    store, tangles = both
    removal, _ = removals(alice)
    stolen = signed_again(STRANGER, removal)
    tangles.commit([alice.account, removal], tangle=alice.account.id)
    tangles.erase(removal.id)
    assert tangles.commit([stolen], tangle=alice.account.id, level=level).added == (removal.id,)
    assert tangles.message(removal.id) == removal
    assert store.have(plex(removal).hash)
    assert not store.have(plex(stolen).hash)


def test_a_record_with_another_signature_does_not_bring_erased_data_back(
    both: tuple[SqliteStore, TangleStore], alice: Author
) -> None:
    store, tangles = both
    moot, post = alice.feed(1)
    tangles.commit([alice.account, moot, post], tangle=moot.id)
    tangles.erase(post.id)
    store.put_records([plex(signed_again(STRANGER, post))])
    assert tangles.refresh() == ()
    assert tangles.message(post.id) == post.erased()
    assert tangles.waiting() == []


def test_what_was_removed_on_purpose_does_not_come_back_under_another_signature(
    both: tuple[SqliteStore, TangleStore], alice: Author
) -> None:
    store, tangles = both
    moot, post = alice.feed(1)
    tangles.commit([alice.account, moot, post], tangle=moot.id)
    store.remove(plex(post).hash, reason="unwanted")
    stolen = signed_again(STRANGER, post)
    for batch in ([stolen], [post.erased(), stolen]):
        done = tangles.commit(batch, tangle=moot.id, level=Level.MODERN)
        assert [(one.message, one.detail) for one in done.refused] == [(post.id, "removed on purpose: unwanted")]
    assert tangles.message(post.id) == post.erased()


def test_a_moot_from_a_record_is_as_good_as_any(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    store, tangles = both
    moot, post = alice.feed(1)
    tangles.commit([alice.account])
    store.put_records([plex(signed_again(STRANGER, moot)), plex(post)])
    assert tangles.refresh() == (moot.id, post.id)
    assert tangles.commit([moot], tangle=moot.id).known == 1
    assert store.have(plex(moot).hash)


def test_a_record_of_what_any_key_may_sign_is_no_message(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    store, tangles = both
    anybody = alice.sign({"text": "!"}, {"account": "any", "accountTips": None, "tangles": {}, "domain": "thread"})
    store.put_records([plex(anybody)])
    assert tangles.refresh() == ()
    assert (tangles.waiting(), tangles.message(anybody.id)) == ([], None)
    records = store.stat().records
    assert tangles.commit([signed_again(STRANGER, anybody)]).added == (anybody.id,)
    assert store.stat().records == records, "it is this very record"
    tangles.erase(anybody.id)
    assert tangles.message(anybody.id) == signed_again(STRANGER, anybody).erased()


@pytest.mark.parametrize("is_erased", [True, False])
def test_what_goes_takes_the_records_of_its_copies_along(
    both: tuple[SqliteStore, TangleStore], alice: Author, *, is_erased: bool
) -> None:
    store, tangles = both
    second = Keypair.from_words("second")
    account = Tangle(alice.account.id, [alice.account])
    agreed = accounts.consent(second, account.id)
    added = compose.account_add(alice.key, account, key=second.public, consent=agreed, powers=())
    alice.sees(added)
    moot, post = alice.feed(1)
    copy = signed_again(second, post)
    tangles.commit([alice.account, added, moot, post], tangle=moot.id)
    other = build_plex(group=plex(post).group, app="pzp", name=plex(post).name, tai_ns=1, data=b"no message")
    store.put_records([plex(copy), other])
    tangles.refresh()
    assert tangles.message(post.id) == post, "the one that came first is the message"
    assert tangles.erase(post.id) if is_erased else tangles.forget(post.id)
    assert [store.have(one.hash) for one in (plex(post), plex(copy), other)] == [False, False, True]
    if is_erased:
        assert tangles.commit([copy], tangle=moot.id).added == (post.id,)
        assert [store.have(one.hash) for one in (plex(post), plex(copy))] == [True, False]


# ---- what waited and turns out wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize("anew", [False, True])
def test_what_came_by_modern_rules_and_turns_out_wrong_goes(
    both: tuple[SqliteStore, TangleStore], alice: Author, *, anew: bool
) -> None:
    store, tangles = both
    moot, first, second = alice.feed(2)
    far = placed(alice, moot, [first.id, second.id], 9)
    beyond = placed(alice, moot, [far.id, first.id], 10)
    near = placed(alice, moot, [first.id, second.id], 3, "near")
    waits = [far, beyond, near]
    done = tangles.commit([alice.account, moot, first, *waits], tangle=moot.id, level=Level.MODERN)
    assert {message.id for message in waits} <= set(done.added)
    with store.tangles.reading() as view:
        assert all(row.is_provisional for row in view.find([message.id for message in waits]).values())
    if anew:
        tangles = TangleStore(store.tangles)
    done = tangles.commit([second], tangle=moot.id)
    assert (done.added, done.promoted) == ((second.id,), (near.id,))
    assert {one.message: one.rule for one in done.dropped} == {far.id: Rule.DEPTH, beyond.id: Rule.PREV_UNPROVEN}
    for view_of in (tangles, TangleStore(store.tangles)):
        assert view_of.message(far.id) is None
        assert set(view_of.tangle(moot.id)) == {moot.id, first.id, second.id, near.id}
    with store.tangles.reading() as view:
        assert not any(row.is_provisional for row in view.after(0))


def test_what_real_peers_bring_stays(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    _, tangles = both
    moot, first, second = alice.feed(2)
    far = placed(alice, moot, [first.id, second.id], 9)
    tangles.commit([alice.account, moot, first, far], tangle=moot.id)
    assert tangles.commit([second], tangle=moot.id, level=Level.MODERN).dropped == ()
    assert mark(tangles, moot.id, far) == (Mark.INTEROP, Rule.DEPTH)


def test_a_session_is_told_what_was_dropped(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    _, tangles = both
    moot, first, second = alice.feed(2)
    far = placed(alice, moot, [first.id, second.id], 9)
    messages = (alice.account, moot, first, far, second)
    done = tangles.perform(Commit(token=1, tangle=moot.id, messages=messages, modern=True))
    assert far.id not in done.added
    assert [(one.message, one.rule) for one in done.refused] == [(far.id, Rule.DEPTH)]
