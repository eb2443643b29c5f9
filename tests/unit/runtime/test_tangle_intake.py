"""Records that become messages: in any order, once they are proven, and never otherwise.

How they come through a whole store is in ``test_tangle_store.py``.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from bobbin.runtime.tangle_draft import Draft
from bobbin.runtime.tangle_intake import Intake
from bobbin.runtime.tangle_store import Taken, TangleStore
from bobbin.store.base import StoredRecord, StoreRecordId
from bobbin.store.sqlite import SqliteStore
from bobbin.tangles.admission import Admission
from bobbin.tangles.message import Message, MessageId, from_json
from tests.conformance.samples import plex as sample
from tests.support.tangle_messages import Author
from tests.unit.runtime.tangle_stores import opened, placed, plex


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[SqliteStore, TangleStore]]:
    with opened(tmp_path / "records.db") as pair:
        yield pair


def records(*messages: Message) -> list[StoredRecord]:
    return [
        StoredRecord(StoreRecordId(number), plex(message).hash, plex(message).raw)
        for number, message in enumerate(messages, 1)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_order_everything_is_taken(both: tuple[SqliteStore, TangleStore], seed: int) -> None:
    alice = Author("alice")
    moot = alice.moot()
    thread = alice.root({"text": "topic"}, "thread")
    posts = [alice.post([moot.id, thread.id], {"text": f"{number}"}) for number in range(6)]
    everything = [alice.account, moot, thread, *posts]
    Random(seed).shuffle(everything)
    intake, draft = Intake(), Draft(both[1].shelf)
    intake.take(draft, both[1].shelf, records(*everything))
    intake.retry(draft, both[1].shelf)
    assert set(draft.came) == {message.id for message in everything}
    assert draft.waiting == {}


def test_what_lacks_something_waits_and_says_for_what(both: tuple[SqliteStore, TangleStore]) -> None:
    alice = Author("alice")
    moot, first, second = alice.feed(2)
    intake, draft = Intake(), Draft(both[1].shelf)
    intake.take(draft, both[1].shelf, records(second, first, moot))
    assert list(draft.came) == [moot.id]
    assert set(draft.waiting) == {1, 2}
    assert all(reason for reason in draft.waiting.values())
    intake.take(
        draft, both[1].shelf, [StoredRecord(StoreRecordId(9), plex(alice.account).hash, plex(alice.account).raw)]
    )
    intake.retry(draft, both[1].shelf)
    assert list(draft.came) == [moot.id, alice.account.id, first.id, second.id]
    assert draft.waiting == {}, "it never came to waiting"
    assert sorted(draft.settled) == [1, 2]


def test_what_the_store_says_is_waiting_is_tried_again(both: tuple[SqliteStore, TangleStore]) -> None:
    alice = Author("alice")
    moot, first = alice.feed(1)
    both[1].commit([alice.account], tangle=alice.account.id)
    intake, draft = Intake(), Draft(both[1].shelf)
    intake.restore(reversed(records(first, moot)))
    intake.retry(draft, both[1].shelf)
    assert draft.came == (moot.id, first.id)
    assert sorted(draft.settled) == [1, 2]


def test_what_is_no_message_is_nothing_to_it(both: tuple[SqliteStore, TangleStore]) -> None:
    other = sample(1, app="pzp")
    intake, draft = Intake(), Draft(both[1].shelf)
    intake.take(draft, both[1].shelf, [StoredRecord(StoreRecordId(1), other.hash, other.raw)])
    assert (draft.came, draft.waiting, draft.settled) == ((), {}, [])


def test_what_nobody_has_signed_does_not_wait(both: tuple[SqliteStore, TangleStore]) -> None:
    alice = Author("alice")
    _, first = alice.feed(1)
    forged = from_json({"data": first.data, "metadata": first.metadata, "sigkey": first.sigkey, "sig": "nothing"})
    stolen = from_json({"data": first.data, "metadata": first.metadata, "sigkey": first.sigkey, "sig": "1" * 64})
    intake, draft = Intake(), Draft(both[1].shelf)
    intake.take(draft, both[1].shelf, records(forged, first, stolen))
    assert set(draft.waiting) == {2}


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[MessageId]:
    """The messages that were tried, each as often as it was."""
    made: list[MessageId] = []
    admit = Draft.admit_proven

    def note(self: Draft, message: Message, tangle: MessageId) -> Admission:
        made.append(message.id)
        return admit(self, message, tangle)

    monkeypatch.setattr(Draft, "admit_proven", note)
    return made


def take_all(tangles: TangleStore, tried: list[MessageId], most: int) -> list[int]:
    """Take everything in, so many at a time; gives how many were tried in each step."""
    counts: list[int] = []
    taken = Taken()
    while not taken.is_all:
        tried.clear()
        taken = tangles.take_in_some(most)
        counts.append(len(tried))
        assert len(counts) < 200
    return counts


def test_what_waits_for_an_account_that_nobody_brings_is_not_tried_with_each_message_of_the_tangle(
    both: tuple[SqliteStore, TangleStore], tried: list[MessageId]
) -> None:
    store, tangles = both
    alice, bob = Author("alice"), Author("bob")
    root = alice.root({"text": "topic"})
    store.put_records([plex(alice.account), plex(root)])
    store.put_records([plex(placed(bob, root, [root.id], 1, f"{number}")) for number in range(30)])
    take_all(tangles, tried, 10)
    assert len(tangles.waiting()) == 30
    answer = alice.post(root.id, {"text": "answer"})
    store.put_records([plex(answer)])
    tried.clear()
    assert tangles.take_in_some(10).came == (answer.id,)
    assert tried == [answer.id]


def test_a_step_tries_no_more_again_than_it_may_and_the_next_ones_do_the_rest(
    both: tuple[SqliteStore, TangleStore], tried: list[MessageId]
) -> None:
    store, tangles = both
    alice, bob = Author("alice"), Author("bob")
    root = alice.root({"text": "topic"})
    store.put_records([plex(alice.account), plex(root)])
    store.put_records([plex(placed(bob, root, [root.id], 1, f"{number}")) for number in range(35)])
    assert max(take_all(tangles, tried, 10)) <= 20
    store.put_records([plex(bob.account)])
    counts = take_all(tangles, tried, 10)
    assert counts == [11, 10, 10, 5, 0]
    assert tangles.waiting() == []
    assert len(tangles.proven(root.id)) == 36


def test_an_order_in_which_each_comes_before_what_it_builds_on_makes_no_step_longer(
    both: tuple[SqliteStore, TangleStore], tried: list[MessageId]
) -> None:
    store, tangles = both
    alice = Author("alice")
    # Each is an answer to the one before as a tangle of its own, so their depths say nothing of their order.
    chain = [alice.root({"text": "topic"})]
    for number in range(12):
        chain.append(placed(alice, chain[-1], [chain[-1].id], 1, f"{number}"))
    store.put_records([plex(message) for message in reversed(chain)])
    store.put_records([plex(alice.account)])
    assert max(take_all(tangles, tried, 20)) <= 40
    assert tangles.state().messages == 14
    assert tangles.waiting() == []


def test_what_waits_for_a_predecessor_is_taken_when_that_comes_though_little_is_done_at_once(
    both: tuple[SqliteStore, TangleStore], tried: list[MessageId]
) -> None:
    store, tangles = both
    alice = Author("alice")
    moot, *posts = alice.feed(8)
    store.put_records([plex(alice.account), plex(moot), *map(plex, reversed(posts[1:]))])
    take_all(tangles, tried, 1)
    assert len(tangles.waiting()) == 7
    store.put_records([plex(posts[0])])
    assert max(take_all(tangles, tried, 1)) <= 2
    assert tangles.waiting() == []
    assert tangles.proven(moot.id).topological() == [moot.id, *(post.id for post in posts)]


@pytest.mark.parametrize("by_command", [False, True])
def test_what_was_due_when_a_node_stopped_is_taken_by_whoever_is_next(
    both: tuple[SqliteStore, TangleStore],
    tried: list[MessageId],
    by_command: bool,  # noqa: FBT001
) -> None:
    store, tangles = both
    alice, bob = Author("alice"), Author("bob")
    root = alice.root({"text": "topic"})
    store.put_records([plex(alice.account), plex(root)])
    store.put_records([plex(placed(bob, root, [root.id], 1, f"{number}")) for number in range(9)])
    take_all(tangles, tried, 2)
    store.put_records([plex(bob.account)])
    tangles.take_in_some(2)
    assert len(tangles.waiting()) == 7
    following = TangleStore(store.tangles)
    if by_command:
        following.set_goal(root.id, "all")
    else:
        take_all(following, tried, 2)
    assert following.waiting() == []


def test_what_another_process_has_changed_of_the_waiting_is_known(
    both: tuple[SqliteStore, TangleStore], tried: list[MessageId]
) -> None:
    store, tangles = both
    alice = Author("alice")
    moot, *posts = alice.feed(4)
    store.put_records([plex(alice.account), plex(moot), plex(posts[1])])
    take_all(tangles, tried, 5)
    other = TangleStore(store.tangles)
    store.put_records([plex(posts[3])])
    other.refresh()
    other.commit([posts[0]], tangle=moot.id)
    assert len(other.waiting()) == 1
    store.put_records([plex(posts[2])])
    take_all(tangles, tried, 5)
    assert tangles.waiting() == []
    assert len(tangles.proven(moot.id)) == 5


@pytest.mark.parametrize("bounds", [{"known_max": 2}, {"known_max": 99, "bytes_max": 2_000}])
def test_the_newest_are_kept_in_mind(both: tuple[SqliteStore, TangleStore], bounds: dict[str, int]) -> None:
    alice = Author("alice")
    _, *posts = alice.feed(9)
    intake, draft = Intake(**bounds), Draft(both[1].shelf)
    intake.take(draft, both[1].shelf, records(*posts))
    kept = len(intake)
    assert 1 < kept < 9
    assert len(draft.waiting) == 9, "all of them wait in the store"
    read: list[int] = []

    def newest_first() -> Iterator[StoredRecord]:
        for one in reversed(records(*posts)):
            read.append(one.id)
            yield one

    again = Intake(**bounds)
    again.restore(newest_first())
    assert len(again) == kept
    assert read == [*range(9, 8 - kept, -1)], "and one more, to find that it is too much"
    assert again._waiting.keys() == intake._waiting.keys()


def test_what_is_not_kept_in_mind_is_told_and_taken_by_a_command(
    both: tuple[SqliteStore, TangleStore], tried: list[MessageId]
) -> None:
    store, _ = both
    alice = Author("alice")
    moot, *posts = alice.feed(6)
    node = TangleStore(store.tangles, waiting_max=2)
    store.put_records([plex(moot), *map(plex, posts)])
    take_all(node, tried, 3)
    assert node.take_in_some(3) == Taken(is_all=True, unknown=4)
    store.put_records([plex(alice.account)])
    take_all(node, tried, 3)
    assert (len(node.waiting()), node.state().messages) == (6, 2), "what it knows lacks what it does not know"
    command = TangleStore(store.tangles)
    command.set_goal(moot.id, "all")
    assert (command.waiting(), command.state().messages) == ([], 8)
    assert node.take_in_some(3) == Taken(is_all=True)
