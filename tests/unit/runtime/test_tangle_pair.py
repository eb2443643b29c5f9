"""Two stores in one process converge, in either mode."""

from pathlib import Path

import pytest

from bobbin.errors import ResourceError
from bobbin.runtime import tangle_pair
from bobbin.runtime.tangle_pair import frame_name, sync_pair
from bobbin.tangles.phases import Have
from bobbin.tangles.ranges import Range
from bobbin.tangles.session_effects import Finished, Notice
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author
from tests.unit.runtime.tangle_stores import opened, plex


@pytest.mark.parametrize("modern", [True, False])
def test_each_side_gets_what_it_lacks(tmp_path: Path, modern: bool) -> None:  # noqa: FBT001 - a parameter
    alice, bob = Author("alice"), Author("bob")
    thread = alice.root({"text": "topic"}, "thread")
    bob.sees(thread)
    ours = [alice.post(thread.id, {"text": f"a{number}"}) for number in range(5)]
    theirs = [bob.post(thread.id, {"text": f"b{number}"}) for number in range(3)]
    with opened(tmp_path / "a.db") as (_, own), opened(tmp_path / "b.db") as (_, other):
        own.commit([alice.account, thread, *ours], tangle=thread.id)
        other.commit([bob.account, alice.account, thread, *theirs], tangle=thread.id)
        for store in (own, other):
            store.set_goal(thread.id, "all")
        heard: list[Notice] = []
        report = sync_pair(own, other, [thread.id], modern=modern, watch=heard.append)
        assert report.modern is modern
        assert own.proven(thread.id).topological() == other.proven(thread.id).topological()
        assert len(own.proven(thread.id)) == 9
        (finished,) = [notice for notice in heard if isinstance(notice, Finished)]
        assert {message.id for message in theirs} <= set(finished.added)
        assert report.notices == tuple(heard)
        assert any(isinstance(notice, Finished) for notice in report.peer_notices)
        assert sum(passed.bytes_out for passed in report.traffic.values()) > 0
        names = {"ask", "answer", "turn", "parcel"} if modern else {f"phase {number}" for number in range(1, 10)}
        assert set(report.traffic) <= names
        again = sync_pair(own, other, [thread.id], modern=modern)
        (finished,) = [notice for notice in again.notices if isinstance(notice, Finished)]
        assert (finished.added, finished.refused) == ((), ())


def test_what_was_removed_here_keeps_nothing_else_of_its_author_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account comes in the first parcel, with nothing but what was removed, and is needed for the last one."""
    monkeypatch.setattr("bobbin.tangles.modern_parcels.PARCEL_BYTES", 4000)
    alice, bob = Author("alice"), Author("bob")
    root = alice.root({"text": "topic"}, "thread")
    place = Tangle(root.id, [root])
    removed = [bob.say(f"{number}" * 3000, place, domain="thread") for number in range(2)]
    middle = alice.say("middle", place, domain="thread")
    last = bob.say("last", Tangle(root.id, [root, middle]), domain="thread")
    with opened(tmp_path / "a.db") as (records, own), opened(tmp_path / "b.db") as (_, other):
        own.commit([alice.account, root], tangle=root.id)
        other.commit([alice.account, bob.account, root, *removed, middle, last], tangle=root.id)
        for store in (own, other):
            store.set_goal(root.id, "all")
        for message in removed:
            records.remove(plex(message).hash, reason="unwanted")
        sync_pair(own, other, [root.id])
        assert set(own.proven(root.id)) == {root.id, middle.id, last.id}


def test_a_pair_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tangle_pair, "STEPS_MAX", 2)
    alice = Author("alice")
    with opened(tmp_path / "a.db") as (_, own), opened(tmp_path / "b.db") as (_, other):
        own.commit([alice.account], tangle=alice.account.id)
        with pytest.raises(ResourceError, match="not come to an end"):
            sync_pair(own, other, [alice.account.id])


def test_names_of_frames() -> None:
    assert frame_name(Have("1" * 32, Range(0, 1))) == "phase 1"
