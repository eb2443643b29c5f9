"""What sessions of either mode read of a store."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bobbin.runtime.tangle_library import StoreKeeper, StoreLibrary
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.sqlite import SqliteStore
from bobbin.tangles.ghosts import Ghosts
from bobbin.tangles.ranges import WantAll, WantFrom, WantNewest
from bobbin.tangles.session_effects import Commit
from tests.support.tangle_messages import Author
from tests.unit.runtime.tangle_stores import opened, placed

if TYPE_CHECKING:
    from bobbin.tangles.canonical import Json


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[SqliteStore, TangleStore]]:
    with opened(tmp_path / "records.db") as pair:
        yield pair


def test_the_modern_mode_does_not_see_what_breaks_its_rules(both: tuple[SqliteStore, TangleStore]) -> None:
    _, tangles = both
    alice = Author("alice")
    moot, first, second = alice.feed(2)
    broken = placed(alice, moot, [first.id, second.id], 9)
    tangles.commit([alice.account, moot, first, broken, second], tangle=moot.id)
    phases, modern = StoreLibrary(tangles), StoreLibrary(tangles, modern=True)
    for library, ids in ((phases, {moot.id, first.id, second.id, broken.id}), (modern, {moot.id, first.id, second.id})):
        tangle = library.tangle(moot.id)
        assert tangle is not None
        assert set(tangle) == ids
    assert len(modern.depths(moot.id)) == 3
    assert broken.id not in modern.depths(moot.id)
    assert phases.tangle("unknown") is None


def test_messages_and_credentials(both: tuple[SqliteStore, TangleStore]) -> None:
    _, tangles = both
    alice = Author("alice")
    moot, first = alice.feed(1)
    tangles.commit([alice.account, moot, first], tangle=moot.id)
    library = StoreLibrary(tangles)
    assert library.messages([first.id, "none"]) == [first, None]
    (credential,) = library.credentials([first.id])
    assert credential == (alice.account.id, (alice.account.id,))


def test_wishes_follow_goals_and_messages(both: tuple[SqliteStore, TangleStore]) -> None:
    _, tangles = both
    alice = Author("alice")
    moot = alice.moot("set_v1__names")
    posts = [alice.post(moot.id, {"add": ["0"], "del": [], "supersedes": []}, "set_v1__names")]
    for number in range(1, 40):
        data: dict[str, Json] = {"add": [f"{number}"], "del": [], "supersedes": [posts[-1].id]}
        posts.append(alice.post(moot.id, data, "set_v1__names"))
    tangles.commit([alice.account, moot], tangle=moot.id)
    phases, modern = StoreLibrary(tangles), StoreLibrary(tangles, modern=True)
    assert phases.wish(moot.id) is None
    tangles.set_goal(moot.id, "set")
    assert phases.wish(moot.id) == WantFrom(None), "of a set that is empty a real peer wants nothing"
    assert modern.wish(moot.id) == WantFrom(0)
    tangles.commit(posts, tangle=moot.id)
    assert phases.wish(moot.id) == modern.wish(moot.id) == WantFrom(40 - 32)
    assert phases.wish(moot.id) == WantFrom(8), "asked again"
    tangles.set_goal(moot.id, "newest-3")
    assert phases.wish(moot.id) == WantNewest(3)
    tangles.set_goal(moot.id, "all")
    assert phases.wish(moot.id) == WantAll()


def test_ghosts_keep_their_order(both: tuple[SqliteStore, TangleStore]) -> None:
    both[1].shelf.set_ghosts("t", Ghosts([("b", 2), ("a", 1)]))
    assert list(StoreLibrary(both[1]).ghosts("t")) == ["b", "a"]
    assert list(StoreLibrary(both[1]).ghosts("u")) == []


def test_a_keeper_commits(both: tuple[SqliteStore, TangleStore]) -> None:
    alice = Author("alice")
    keeper = StoreKeeper(both[1])
    done = keeper.commit(Commit(token=3, tangle=alice.account.id, messages=(alice.account,)))
    assert (done.token, done.added) == (3, (alice.account.id,))
    assert keeper.library.tangle(alice.account.id) is not None
    assert keeper.modern_library.tangle(alice.account.id) is not None
