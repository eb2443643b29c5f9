"""The tangles of a store: two levels of acceptance, promotion, records that become messages, goals."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.errors import UsageError
from bobbin.records.record import Plex
from bobbin.runtime import tangle_store as module
from bobbin.runtime.tangle_store import Taken, TangleStore
from bobbin.store.base import StoreError
from bobbin.store.sqlite import SqliteStore, open_store
from bobbin.store.tangles import Level, StaleTangles, TangleBatch, TangleState
from bobbin.tangles import compose
from bobbin.tangles.errors import Rule
from bobbin.tangles.goals import MalformedGoal
from bobbin.tangles.judgement import Mark
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message, from_json
from bobbin.tangles.plex import plex_of
from bobbin.tangles.session_effects import Commit
from bobbin.tangles.tangle import Tangle
from tests.support.exchanges import record
from tests.support.tangle_messages import Author


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with open_store(path, create=True, now=lambda: 0) as opened:
        yield opened
        assert list(opened.check()) == []


@pytest.fixture
def tangles(store: SqliteStore) -> TangleStore:
    return TangleStore(store.tangles)


@pytest.fixture
def alice() -> Author:
    return Author("alice")


def plex(message: Message) -> Plex:
    made = plex_of(message)
    assert made is not None
    return made


def altered(message: Message, **fields: object) -> Message:
    """A copy with other data, which its metadata does not name."""
    return from_json({"data": fields, "metadata": message.metadata, "sigkey": message.sigkey, "sig": message.sig})  # type: ignore[dict-item]


def wrong_depth(author: Author, moot: Message, prev: list[str], depth: int, text: str = "wrong") -> Message:
    return author.sign(
        {"text": text},
        {
            "account": author.account.id,
            "accountTips": [author.account.id],
            "tangles": {moot.id: {"depth": depth, "prev": [*prev]}},
            "domain": moot.domain,
        },
    )


# ---- commits --------------------------------------------------------------------------------------------------------


def test_a_feed_is_stored_and_every_message_of_it_is_a_record(
    store: SqliteStore, tangles: TangleStore, alice: Author
) -> None:
    feed = alice.feed(5)
    done = tangles.commit([alice.account, *feed], tangle=feed[0].id)
    assert done.added == (alice.account.id, *(message.id for message in feed))
    assert done.refused == ()
    assert tangles.tangle(feed[0].id).topological() == [message.id for message in feed]
    assert tangles.proven(feed[0].id) is tangles.tangle(feed[0].id)
    assert all(store.have(plex(message).hash) for message in [alice.account, *feed])


def test_what_is_invalid_is_told_by_its_rule_and_does_not_stop_the_rest(tangles: TangleStore, alice: Author) -> None:
    moot, first, second = alice.feed(2)
    stranger = Author("stranger")
    foreign = wrong_depth(stranger, moot, [moot.id], 1)
    done = tangles.commit([alice.account, moot, foreign, altered(first, text="forged"), first, second], tangle=moot.id)
    assert done.added == (alice.account.id, moot.id, first.id, second.id)
    assert [(one.message, one.rule) for one in done.refused] == [
        (foreign.id, Rule.UNKNOWN_ACCOUNT),
        (first.id, Rule.DATA_HASH),
    ]


def test_a_known_message_changes_nothing(tangles: TangleStore, alice: Author) -> None:
    feed = alice.feed(2)
    tangles.commit([alice.account, *feed], tangle=feed[0].id)
    before = tangles.state()
    done = tangles.commit([*feed, feed[1].erased()], tangle=feed[0].id)
    assert (done.added, done.known, done.refused) == ((), 4, ())
    assert tangles.state() == before


def test_data_replaces_an_erased_copy(store: SqliteStore, tangles: TangleStore, alice: Author) -> None:
    moot, first, second = alice.feed(2)
    tangles.commit([alice.account, moot, first.erased(), second], tangle=moot.id)
    assert not store.have(plex(first).hash)
    assert store.have(plex(second).hash), "what an erased message says of its place is proven"
    assert not tangles.tangle(moot.id).has_data(first.id)
    assert tangles.commit([first], tangle=moot.id).added == (first.id,)
    assert tangles.tangle(moot.id).has_data(first.id)
    assert store.have(plex(first).hash)


def test_a_message_of_two_tangles_is_judged_in_each(store: SqliteStore, tangles: TangleStore, alice: Author) -> None:
    moot = alice.moot()
    thread = alice.root({"text": "topic"}, "thread")
    reply = alice.post([moot.id, thread.id], {"text": "reply"})
    tangles.commit([alice.account, thread, reply], tangle=thread.id)
    assert tangles.judgement(thread.id, reply.id) is not None
    assert reply.id in tangles.proven(thread.id)
    assert reply.id not in tangles.proven(moot.id), "nobody knows the feed yet"
    assert store.have(plex(reply).hash), "it is proven in the thread"
    assert tangles.commit([moot], tangle=moot.id).promoted == (reply.id,)
    assert reply.id in tangles.proven(moot.id)


def test_a_session_asks_for_a_commit(tangles: TangleStore, alice: Author) -> None:
    moot, first = alice.feed(1)
    done = tangles.perform(Commit(token=7, tangle=moot.id, messages=(alice.account, moot, first)))
    assert (done.token, done.added, done.refused) == (7, (alice.account.id, moot.id, first.id), ())
    stranger = Author("stranger").moot("chess")
    assert tangles.perform(Commit(token=8, tangle=moot.id, messages=(stranger,), modern=True)).added == (stranger.id,)


# ---- two levels -----------------------------------------------------------------------------------------------------


def test_what_only_interop_accepts_is_marked_and_is_no_evidence(
    store: SqliteStore, tangles: TangleStore, alice: Author
) -> None:
    moot, first = alice.feed(1)
    unknown = alice.post(moot.id, {"text": "unknown"})
    far = wrong_depth(alice, moot, sorted([first.id, unknown.id]), 9)
    done = tangles.commit([alice.account, moot, first, far], tangle=moot.id)
    assert far.id in done.added, "one unknown predecessor frees it from its depth, as a real peer has it"
    assert far.id in tangles.tangle(moot.id)
    assert far.id not in tangles.proven(moot.id)
    judgement = tangles.judgement(moot.id, far.id)
    assert judgement is not None
    assert judgement.mark is Mark.WAITING
    assert not store.have(plex(far).hash)
    assert tangles.state().interop == 1


def test_a_wrong_depth_is_found_out_once_the_predecessors_are_known(
    store: SqliteStore, tangles: TangleStore, alice: Author
) -> None:
    moot, first = alice.feed(1)
    unknown = alice.post(moot.id, {"text": "unknown"})
    far = wrong_depth(alice, moot, sorted([first.id, unknown.id]), 9)
    near = wrong_depth(alice, moot, sorted([first.id, unknown.id]), 3, "right")
    tangles.commit([alice.account, moot, first, far, near], tangle=moot.id)
    done = tangles.commit([unknown], tangle=moot.id)
    assert done.promoted == (near.id,)
    assert store.have(plex(near).hash)
    assert not store.have(plex(far).hash)
    judgement = tangles.judgement(moot.id, far.id)
    assert judgement is not None
    assert (judgement.mark, judgement.rule) == (Mark.INTEROP, Rule.DEPTH)


def test_the_modern_level_takes_what_breaks_no_rule_and_marks_it_until_it_is_proven(
    store: SqliteStore, tangles: TangleStore, alice: Author
) -> None:
    moot, first = alice.feed(1)
    unknown = alice.post(moot.id, {"text": "unknown"})
    near = wrong_depth(alice, moot, sorted([first.id, unknown.id]), 3)
    wrong = wrong_depth(alice, moot, [first.id], 9)
    done = tangles.commit([alice.account, moot, first, near, wrong], tangle=moot.id, level=Level.MODERN)
    assert [(one.message, one.rule) for one in done.refused] == [(wrong.id, Rule.DEPTH)]
    assert near.id not in tangles.proven(moot.id)
    assert near.id in tangles.shelf.sound(moot.id)
    assert not store.have(plex(near).hash)
    assert tangles.commit([unknown], tangle=moot.id, level=Level.MODERN).promoted == (near.id,)
    assert near.id in tangles.proven(moot.id)


def test_a_modern_session_does_not_see_what_breaks_its_rules(tangles: TangleStore, alice: Author) -> None:
    moot, first, second = alice.feed(2)
    far = wrong_depth(alice, moot, sorted([first.id, second.id]), 9)
    tangles.commit([alice.account, moot, first, far, second], tangle=moot.id)
    assert far.id in tangles.tangle(moot.id)
    assert far.id not in tangles.shelf.sound(moot.id)
    assert tangles.shelf.sound(moot.id).tips() == {second.id}
    assert tangles.shelf.sound(moot.id) is tangles.shelf.sound(moot.id), "it is kept until something changes"


def test_marks_outlive_the_process(store: SqliteStore, tangles: TangleStore, alice: Author) -> None:
    moot, first = alice.feed(1)
    unknown = alice.post(moot.id, {"text": "unknown"})
    near = wrong_depth(alice, moot, sorted([first.id, unknown.id]), 3)
    tangles.commit([alice.account, moot, first, near], tangle=moot.id)
    again = TangleStore(store.tangles)
    assert near.id not in again.proven(moot.id)
    assert near.id in again.tangle(moot.id)
    assert again.commit([unknown], tangle=moot.id).promoted == (near.id,)
    assert near.id in TangleStore(store.tangles).proven(moot.id)


# ---- records that become messages -----------------------------------------------------------------------------------


def test_records_become_messages_in_whatever_order_they_come(
    store: SqliteStore, tangles: TangleStore, alice: Author
) -> None:
    feed = alice.feed(3)
    everything = [alice.account, *feed]
    for message in reversed(everything[1:]):
        store.put_records([plex(message)])
        tangles.refresh()
        assert tangles.state().messages == int(message.is_moot)
    assert [reason for _, reason in tangles.waiting()] != []
    store.put_records([plex(alice.account)])
    assert set(tangles.refresh()) == {alice.account.id, *(message.id for message in feed[1:])}
    assert tangles.waiting() == []
    assert tangles.proven(feed[0].id).topological() == [message.id for message in feed]
    assert tangles.refresh() == ()


def test_what_waits_is_still_waiting_in_the_next_process(store: SqliteStore, alice: Author) -> None:
    feed = alice.feed(2)
    store.put_records([plex(feed[2]), plex(feed[0])])
    TangleStore(store.tangles).refresh()
    assert store.stat().messages_waiting == 1
    tangles = TangleStore(store.tangles)
    done = tangles.commit([alice.account, feed[1]], tangle=feed[0].id)
    assert done.added == (alice.account.id, feed[1].id, feed[2].id), "the record came along with what it waited for"
    assert store.stat().messages_waiting == 0


def test_a_record_that_breaks_a_rule_stays_a_record_and_no_message(
    store: SqliteStore, tangles: TangleStore, alice: Author
) -> None:
    moot, first = alice.feed(1)
    tangles.commit([alice.account, moot, first], tangle=moot.id)
    wrong = wrong_depth(alice, moot, [first.id], 5)
    store.put_records([plex(wrong)])
    assert tangles.refresh() == ()
    assert tangles.waiting() == []
    assert store.have(plex(wrong).hash)
    assert wrong.id not in tangles.tangle(moot.id)


def test_the_record_of_a_marked_message_waits_until_it_is_proven(
    store: SqliteStore, tangles: TangleStore, alice: Author
) -> None:
    moot, first = alice.feed(1)
    unknown = alice.post(moot.id, {"text": "unknown"})
    near = wrong_depth(alice, moot, sorted([first.id, unknown.id]), 3)
    tangles.commit([alice.account, moot, first, near], tangle=moot.id)
    store.put_records([plex(near)])
    tangles.refresh()
    assert len(tangles.waiting()) == 1
    assert tangles.commit([unknown], tangle=moot.id).promoted == (near.id,)
    assert tangles.waiting() == []


def test_a_few_records_at_a_time_end_like_all_at_once(
    store: SqliteStore, tangles: TangleStore, alice: Author, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = alice.feed(4)
    store.put_records([record(number) for number in range(6)])
    store.put_records([plex(message) for message in (*reversed(feed), alice.account)])
    store.put_records([record(number) for number in range(6, 9)])
    # Records that are no messages are passed over, and not all at once either.
    monkeypatch.setattr(module, "_PASSED_TOGETHER_MAX", 4)
    looks: list[Taken] = []
    while not looks or not looks[-1].is_all:
        looks.append(tangles.take_in_some(2))
        assert len(looks) < 20
    assert looks[0] == Taken(), "among the first four there is none"
    assert {id for taken in looks for id in taken.came} == {alice.account.id, *(message.id for message in feed)}
    assert set(tangles.refresh()) == {alice.account.id, *(message.id for message in feed)}
    assert tangles.take_in_some() == Taken(is_all=True)


def test_a_process_that_only_reads_takes_nothing_in(store: SqliteStore, path: Path, alice: Author) -> None:
    store.put_records([plex(alice.account)])
    with open_store(path, now=lambda: 0, read_only=True) as reader:
        tangles = TangleStore(reader.tangles)
        assert tangles.refresh() == ()
        assert tangles.take_in_some() == Taken(is_all=True)
        assert tangles.message(alice.account.id) is None


# ---- several processes ----------------------------------------------------------------------------------------------


def test_another_process_is_caught_up_with(store: SqliteStore, path: Path, alice: Author) -> None:
    moot, first, second, third = alice.feed(3)
    tangles = TangleStore(store.tangles)
    tangles.commit([alice.account, moot, first], tangle=moot.id)
    with open_store(path, now=lambda: 0) as elsewhere:
        other = TangleStore(elsewhere.tangles)
        other.commit([second], tangle=moot.id)
        assert tangles.refresh() == (second.id,)
        assert tangles.tangle(moot.id).tips() == {second.id}
        other.commit([third], tangle=moot.id)
        other.erase(first.id)
        tangles.refresh()
        assert tangles.proven(moot.id).topological() == [moot.id, first.id, second.id, third.id]
        assert not tangles.tangle(moot.id).has_data(first.id)


def test_what_a_commit_finds_to_have_come_is_told_by_the_next_look(
    path: Path, store: SqliteStore, tangles: TangleStore, alice: Author
) -> None:
    moot, first, second = alice.feed(2)
    tangles.commit([alice.account, moot], tangle=moot.id)
    with open_store(path, now=lambda: 0) as again:
        TangleStore(again.tangles).commit([first], tangle=moot.id)
    store.put_records([plex(second)])
    about = alice.moot("about")
    assert tangles.commit([about]).added == (about.id,)
    assert tangles.refresh() == (first.id, second.id)
    assert tangles.refresh() == ()
    with open_store(path, now=lambda: 0) as again:
        other = TangleStore(again.tangles)
        other.erase(first.id)
        other.commit([third := alice.post(moot.id, {"text": "third"})], tangle=moot.id)
    assert tangles.refresh() == (third.id,), "also where all that was remembered is forgotten"


class Overtaken:
    """Tables into which somebody else always writes first, so many times."""

    read_only = False

    def __init__(self, store: SqliteStore, times: int) -> None:
        self._store = store
        self.left = times
        self.reading = store.tangles.reading

    def write(self, batch: TangleBatch) -> TangleState:
        if self.left:
            self.left -= 1
            with self._store.tangles.reading() as view:
                version = view.state().version
            self._store.tangles.write(TangleBatch(version=version, goals={"1" * 32: f"newest-{self.left}"}))
        return self._store.tangles.write(batch)


def test_a_commit_is_decided_again_when_another_was_faster(store: SqliteStore, alice: Author) -> None:
    tables = Overtaken(store, 3)
    done = TangleStore(tables).commit([alice.account])
    assert done.added == (alice.account.id,)
    assert tables.left == 0


def test_a_commit_that_never_gets_its_turn_gives_up(store: SqliteStore, alice: Author) -> None:
    with pytest.raises(StoreError) as caught:
        TangleStore(Overtaken(store, 1000)).commit([alice.account])
    assert caught.value.retry
    assert not isinstance(caught.value, StaleTangles)


def test_nothing_of_a_failed_commit_is_believed_afterwards(store: SqliteStore, alice: Author) -> None:
    class Failing(Overtaken):
        def write(self, batch: TangleBatch) -> TangleState:
            if self.left:
                self.left -= 1
                raise StoreError("no space", retry=True)
            return super().write(batch)

    tangles = TangleStore(Failing(store, 1))
    moot, first = alice.feed(1)
    with pytest.raises(StoreError, match="no space"):
        tangles.commit([alice.account, moot, first], tangle=moot.id)
    assert len(tangles.tangle(moot.id)) == 0
    assert tangles.message(first.id) is None
    assert len(tangles.commit([alice.account, moot, first], tangle=moot.id).added) == 3


# ---- removal, erasure, goals ----------------------------------------------------------------------------------------


def test_what_somebody_removed_on_purpose_is_refused(store: SqliteStore, tangles: TangleStore, alice: Author) -> None:
    moot, first = alice.feed(1)
    store.remove(plex(first).hash, reason="unwanted")
    done = tangles.commit([alice.account, moot, first], tangle=moot.id)
    assert [(one.message, one.rule, one.detail) for one in done.refused] == [
        (first.id, None, "removed on purpose: unwanted")
    ]
    store.lift(plex(first).hash)
    assert tangles.commit([first], tangle=moot.id).added == (first.id,)


def test_an_erased_message_comes_back_only_as_a_message(
    store: SqliteStore, tangles: TangleStore, alice: Author
) -> None:
    moot, first = alice.feed(1)
    tangles.commit([alice.account, moot, first], tangle=moot.id)
    assert tangles.erase(first.id)
    assert not tangles.erase(first.id)
    store.put_records([plex(first)])
    tangles.refresh()
    assert not store.have(plex(first).hash)
    assert tangles.commit([first], tangle=moot.id).added == (first.id,)
    assert store.have(plex(first).hash)
    assert tangles.forget(first.id)
    assert not tangles.forget(first.id)
    assert not store.have(plex(first).hash)


def test_a_commit_may_keep_only_the_newest(tangles: TangleStore, alice: Author) -> None:
    feed = alice.feed(10)
    done = tangles.commit([alice.account, *feed], tangle=feed[0].id, newest=3)
    tangle = tangles.tangle(feed[0].id)
    assert [id for id in tangle.topological() if tangle.has_data(id)] == [message.id for message in feed[-3:]]
    assert feed[0].id in tangle
    assert set(done.deleted) | set(done.erased) <= {message.id for message in feed[:8]}
    assert tangles.message(alice.account.id) is not None


def test_the_newest_of_one_tangle_may_be_all_of_another(tangles: TangleStore, alice: Author) -> None:
    moot = alice.moot()
    thread = alice.root({"text": "topic"}, "thread")
    replies = [alice.post([moot.id, thread.id], {"text": f"{number}"}) for number in range(6)]
    tangles.set_goal(thread.id, "all")
    tangles.commit([alice.account, moot, thread, *replies], tangle=moot.id, newest=2)
    assert all(tangles.tangle(thread.id).has_data(reply.id) for reply in replies)


def test_the_newest_of_a_feed_do_not_cost_a_thread_its_root(tangles: TangleStore, alice: Author) -> None:
    moot, *posts = alice.feed(6)
    alice.tangles[posts[1].id] = Tangle(posts[1].id, [posts[1]])
    reply = alice.post(posts[1].id, {"text": "reply"}, "reply")
    tangles.set_goal(posts[2].id, "all")
    tangles.commit([alice.account, moot, *posts, reply], tangle=moot.id, newest=2)
    held = [tangles.message(post.id) for post in posts]
    assert [message is not None and message.has_data for message in held] == [False, True, True, False, True, True]


def test_the_newest_of_an_account_are_all_of_it(tangles: TangleStore, alice: Author) -> None:
    account = Tangle(alice.account.id, [alice.account])
    changes: list[Message] = []
    for number in range(4):
        key = Keypair.from_words(f"key {number}").public
        changes.append(compose.account_del(alice.key, account, key=key))
        account.add(changes[-1])
    done = tangles.commit([alice.account, *changes], tangle=account.id, newest=1)
    assert (done.deleted, done.erased) == ((), ())
    assert all(tangles.tangle(account.id).has_data(id) for id in account)
    moot, first = alice.feed(1)
    assert tangles.commit([moot, first], tangle=moot.id).refused == ()


def test_collection_keeps_what_goals_ask_for_and_the_keys_behind_it(
    store: SqliteStore, tangles: TangleStore, alice: Author
) -> None:
    feed, other = alice.feed(10), alice.feed(2, "chess")
    tangles.commit([alice.account, *feed, *other])
    tangles.set_goal(feed[0].id, "newest-3")
    planned = tangles.collect(dry_run=True)
    assert tangles.state().messages == 15
    assert tangles.collect() == planned
    tangle = tangles.tangle(feed[0].id)
    assert [id for id in tangle.topological() if tangle.has_data(id)] == [message.id for message in feed[-3:]]
    assert tangles.message(alice.account.id) is not None, "the kept messages were signed under it"
    assert len(tangles.tangle(other[0].id)) == 3, "it has no goal"
    assert not store.have(plex(feed[1]).hash)
    assert tangles.collect().deleted == ()
    tangles.collect(strict=True)
    assert len(tangles.tangle(other[0].id)) == 0
    assert tangles.message(alice.account.id) is not None
    assert len(tangles.commit([alice.post(feed[0].id, {"text": "later"})], tangle=feed[0].id).added) == 1


def test_ghosts_of_a_set_do_not_come_back(tangles: TangleStore, alice: Author) -> None:
    moot = alice.moot("set_v1__names")
    posts: list[Message] = []
    for number in range(6):
        gone = [message.id for message in posts[-1:]]
        data = {"add": [f"{number}"], "del": [], "supersedes": [*gone]}
        posts.append(alice.post(moot.id, data, "set_v1__names"))  # type: ignore[arg-type]
    tangles.commit([alice.account, moot, *posts], tangle=moot.id)
    tangles.set_goal(moot.id, "set")
    swept = tangles.collect()
    assert swept.ghosts != ()
    ghost = next(message for message in posts if message.id == swept.ghosts[0].id)
    assert list(tangles.shelf.ghosts(moot.id).depths) == [one.id for one in swept.ghosts]
    done = tangles.commit([ghost], tangle=moot.id)
    assert [(one.message, one.rule) for one in done.refused] == [(ghost.id, Rule.GHOST)]
    assert tangles.commit([ghost.erased()], tangle=moot.id).added == (ghost.id,)
    assert ghost.id not in tangles.shelf.ghosts(moot.id)


def test_roots(tangles: TangleStore, alice: Author) -> None:
    moot, first = alice.feed(1)
    thread = alice.root({"text": "topic"}, "thread")
    tangles.commit([alice.account, moot, first, thread])
    assert list(tangles.roots()) == [alice.account, moot, thread]


def test_ids_are_found_by_their_beginning(tangles: TangleStore, alice: Author) -> None:
    tangles.commit([alice.account])
    assert tangles.beginning(alice.account.id[:6]) == [alice.account.id]
    assert tangles.beginning("") == tangles.beginning("\0") == tangles.beginning("é") == []


def test_goals(tangles: TangleStore, alice: Author) -> None:
    moot = alice.moot()
    tangles.set_goal(moot.id, "newest-007")
    assert {root: goal.text for root, goal in tangles.goals().items()} == {moot.id: "newest-7"}
    with pytest.raises(MalformedGoal):
        tangles.set_goal(moot.id, "record")
    with pytest.raises(UsageError, match="not the id of a tangle"):
        tangles.set_goal("no id", "all")
    tangles.set_goal(moot.id, None)
    assert tangles.goals() == {}


def test_news_of_another_process_is_told_after_a_look_that_failed(
    path: Path, tangles: TangleStore, alice: Author, monkeypatch: pytest.MonkeyPatch
) -> None:
    moot, first = alice.feed(1)
    tangles.commit([alice.account, moot], tangle=moot.id)
    with open_store(path, now=lambda: 0) as again:
        TangleStore(again.tangles).commit([first], tangle=moot.id)

    def busy() -> tuple[str, ...]:
        raise StoreError("busy", retry=True)

    with monkeypatch.context() as patched:
        patched.setattr(tangles, "_take_in", busy)
        with pytest.raises(StoreError, match="busy"):
            tangles.refresh()
    assert tangles.refresh() == (first.id,)
