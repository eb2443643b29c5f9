"""What is in memory of the tangles of a store is what is in the store."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from bobbin.runtime import tangle_shelf
from bobbin.runtime.tangle_shelf import Shelf
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.base import DamagedStore
from bobbin.store.sqlite import SqliteStore, open_store
from bobbin.store.tangles import Level, NewMessage, StoredPlace, TangleBatch
from bobbin.tangles.exchange import Credential
from bobbin.tangles.judgement import Mark
from tests.support.tangle_messages import Author
from tests.unit.runtime.tangle_stores import opened, placed, plex


@pytest.fixture
def alice() -> Author:
    return Author("alice")


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[SqliteStore, TangleStore]]:
    with opened(tmp_path / "records.db") as pair:
        yield pair


def test_a_tangle_is_loaded_as_it_was_built(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    store, tangles = both
    feed = alice.feed(20)
    tangles.commit([alice.account, *feed], tangle=feed[0].id)
    built, loaded = tangles.tangle(feed[0].id), Shelf(store.tangles).tangle(feed[0].id)
    loaded.check()
    assert loaded.topological() == built.topological()
    assert [loaded.prev(id) for id in loaded.topological()] == [built.prev(id) for id in built.topological()]
    assert loaded.tips() == built.tips() == {feed[-1].id}
    assert loaded.kind == built.kind


def test_messages_come_in_the_order_asked_for(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    store, tangles = both
    moot, first, second = alice.feed(2)
    tangles.commit([alice.account, moot, first, second], tangle=moot.id)
    shelf = Shelf(store.tangles)
    found = shelf.messages([second.id, "nothing", moot.id, second.id])
    assert [None if message is None else message.id for message in found] == [second.id, None, moot.id, second.id]


def test_few_messages_are_kept_as_they_were_read(
    both: tuple[SqliteStore, TangleStore], alice: Author, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, tangles = both
    feed = alice.feed(12)
    tangles.commit([alice.account, *feed], tangle=feed[0].id)
    monkeypatch.setattr(tangle_shelf, "MESSAGES_KEPT_MAX", 3)
    shelf = Shelf(store.tangles)
    for message in [*feed, *feed]:
        assert shelf.message(message.id) == message
        assert len(shelf._messages) <= 4


def test_everything_is_forgotten_before_it_is_too_much(
    tmp_path: Path, both: tuple[SqliteStore, TangleStore], alice: Author, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, tangles = both
    moot, first, second = alice.feed(2)
    tangles.commit([alice.account, moot, first], tangle=moot.id)
    monkeypatch.setattr(tangle_shelf, "LOADED_MAX", 1)
    shelf = Shelf(store.tangles)
    shelf.refresh()
    before = shelf.tangle(moot.id)
    with open_store(tmp_path / "records.db", now=lambda: 0) as elsewhere:
        TangleStore(elsewhere.tangles).commit([second], tangle=moot.id)
    shelf.refresh()
    assert shelf.tangle(moot.id) is not before
    assert shelf.tangle(moot.id).tips() == {second.id}
    # Reading alone may become too much, too.
    before = shelf.tangle(moot.id)
    assert shelf.refresh() == ()
    assert shelf.tangle(moot.id) is not before


def test_credentials(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    store, tangles = both
    moot, first = alice.feed(1)
    tangles.commit([alice.account, moot, first], tangle=moot.id)
    ids = [first.id, moot.id, alice.account.id, "nothing"]
    expected = [
        Credential(alice.account.id, (alice.account.id,)),
        Credential(alice.account.id, None),
        Credential("self", None),
        Credential("", None),
    ]
    shelf = Shelf(store.tangles)
    assert shelf.credentials(ids) == expected, "read from the messages"
    shelf.tangle(moot.id)
    assert shelf.credentials(ids) == expected, "as they were loaded"


def test_parts_of_a_tangle(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    _, tangles = both
    moot, first, second = alice.feed(2)
    unknown = alice.post(moot.id, {"text": "unknown"})
    broken = placed(alice, moot, [second.id, unknown.id], 9)
    waits = placed(alice, moot, [second.id, unknown.id], 4)
    tangles.commit([alice.account, moot, first, second, waits, broken], tangle=moot.id)
    shelf = tangles.shelf
    assert {waits.id, broken.id} <= set(shelf.tangle(moot.id))
    assert set(shelf.sound(moot.id)) == {moot.id, first.id, second.id, waits.id, broken.id}, "nobody can tell yet"
    assert set(shelf.proven(moot.id)) == {moot.id, first.id, second.id}
    assert shelf.proven(moot.id).prev(second.id) == shelf.tangle(moot.id).prev(second.id)
    tangles.commit([unknown], tangle=moot.id)
    assert set(shelf.sound(moot.id)) == set(shelf.proven(moot.id))
    assert broken.id not in shelf.sound(moot.id)
    assert waits.id in shelf.proven(moot.id)


def test_a_marked_root_of_a_thread_is_judged_by_its_feed(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    store, tangles = both
    moot, first = alice.feed(1)
    alice.tangles[first.id] = type(alice.tangles[moot.id])(first.id, [first])
    reply = alice.post(first.id, {"text": "reply"}, "reply")
    tangles.commit([alice.account, first, reply], tangle=first.id)
    assert set(Shelf(store.tangles).proven(first.id)) == set(), "nobody knows where the root stands"
    fresh = TangleStore(store.tangles)
    assert set(fresh.commit([moot], tangle=moot.id).promoted) == {first.id, reply.id}
    assert set(Shelf(store.tangles).proven(first.id)) == {first.id, reply.id}


def test_a_message_that_cannot_be_read_is_damage(
    tmp_path: Path, both: tuple[SqliteStore, TangleStore], alice: Author
) -> None:
    store, tangles = both
    moot, first = alice.feed(1)
    tangles.commit([alice.account, moot, first], tangle=moot.id)
    connection = apsw.Connection(str(tmp_path / "records.db"))
    for raw in (b"{", b"{}", b'{"data":null,"metadata":{"tangles":{}}}'):
        connection.execute("UPDATE message SET raw = ? WHERE id = ?", (raw, first.id))
        with pytest.raises(DamagedStore, match=first.id):
            Shelf(store.tangles).tangle(moot.id)
        with pytest.raises(DamagedStore, match=first.id):
            Shelf(store.tangles).message(first.id)
    connection.execute("UPDATE message SET raw = ? WHERE id = ?", (first.raw, first.id))
    connection.close()


def test_the_version_says_what_it_is_of(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    store, tangles = both
    shelf = Shelf(store.tangles)
    versions = [shelf.version, shelf.state.version]
    assert versions == [None, 0]
    tangles.commit([alice.account])
    assert shelf.refresh() == (alice.account.id,)
    assert shelf.version == 1
    store.remove(plex(alice.account).hash, reason="x")
    assert shelf.refresh() == ()
    assert shelf.version == 2


def test_threads_that_hang_in_one_another_are_judged_however_deep(
    both: tuple[SqliteStore, TangleStore], alice: Author
) -> None:
    store, tangles = both
    moot, first, second = alice.feed(2)
    chain = [placed(alice, moot, [first.id, second.id], 9)]
    for number in range(1, 300):
        before = chain[-1].id
        chain.append(
            alice.sign(
                {"text": f"{number}"},
                {
                    "account": alice.account.id,
                    "accountTips": [alice.account.id],
                    "tangles": {
                        moot.id: {"depth": 9 + number, "prev": [before]},
                        before: {"depth": 1, "prev": [before]},
                    },
                    "domain": "post",
                },
            )
        )
    done = tangles.commit([alice.account, moot, first, *chain], tangle=moot.id)
    assert done.refused == ()
    shelf = Shelf(store.tangles)
    assert set(shelf.tangle(chain[-2].id)) == {chain[-2].id, chain[-1].id}
    assert set(shelf.proven(chain[-2].id)) == set()
    again = TangleStore(store.tangles)
    assert again.commit([second], tangle=moot.id).promoted == ()
    judgement = again.judgement(chain[-2].id, chain[-1].id)
    assert judgement is not None
    assert judgement.mark is Mark.INTEROP


def test_what_is_found_to_be_proven_is_promoted_by_the_next_commit(
    both: tuple[SqliteStore, TangleStore], alice: Author
) -> None:
    store, tangles = both
    moot, first, second = alice.feed(2)
    tangles.commit([alice.account, moot], tangle=moot.id)
    with store.tangles.reading() as view:
        version = view.state().version
    marked = [
        NewMessage(
            id=message.id,
            raw=message.raw,
            is_erased=False,
            level=Level.INTEROP,
            places=(StoredPlace(moot.id, message.places[moot.id].depth, Level.INTEROP),),
            plex=None,
        )
        for message in (first, second)
    ]
    store.tangles.write(TangleBatch(version=version, messages=marked))
    fresh = TangleStore(store.tangles)
    assert set(fresh.proven(moot.id)) == {moot.id, first.id, second.id}
    assert fresh.state().interop == 2
    done = fresh.commit([alice.post(moot.id, {"text": "later"})], tangle=moot.id)
    assert set(done.promoted) == {first.id, second.id}
    assert fresh.state().interop == 0
    assert store.have(plex(first).hash)
    assert store.have(plex(second).hash)


def test_an_id_that_nobody_has_is_not_remembered(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    _, tangles = both
    moot, first = alice.feed(1)
    assert [len(tangles.tangle(moot.id)), len(tangles.proven(moot.id)), len(tangles.shelf.sound(moot.id))] == [0, 0, 0]
    assert tangles.tangle(moot.id) is not tangles.tangle(moot.id)
    tangles.commit([alice.account, moot, first], tangle=moot.id)
    assert tangles.tangle(moot.id) is tangles.tangle(moot.id)
    assert len(tangles.tangle(moot.id)) == 2


def test_what_is_sound_is_kept_up_and_not_made_anew(both: tuple[SqliteStore, TangleStore], alice: Author) -> None:
    store, tangles = both
    moot, *posts = alice.feed(4)
    far = placed(alice, moot, [posts[0].id, posts[1].id], 9)
    tangles.commit([alice.account, moot, posts[0], far], tangle=moot.id)
    tangles.commit([posts[1]], tangle=moot.id)
    sound, proven = tangles.shelf.sound(moot.id), tangles.proven(moot.id)
    tangles.commit([posts[2], posts[3].erased()], tangle=moot.id)
    tangles.erase(posts[2].id)
    tangles.commit([posts[3]], tangle=moot.id)
    assert tangles.shelf.sound(moot.id) is sound
    assert tangles.proven(moot.id) is proven
    for part, loaded in ((sound, Shelf(store.tangles).sound(moot.id)), (proven, Shelf(store.tangles).proven(moot.id))):
        part.check()
        assert part.topological() == loaded.topological() == [moot.id, *(post.id for post in posts)]
        assert [part.has_data(id) for id in part] == [loaded.has_data(id) for id in part]
    tangles.forget(far.id)
    assert tangles.shelf.sound(moot.id) is tangles.tangle(moot.id)
