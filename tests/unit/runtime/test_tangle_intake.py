"""Records that become messages: in any order, once they are proven, and never otherwise.

How they come through a whole store is in ``test_tangle_store.py``.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from bobbin.runtime.tangle_draft import Draft
from bobbin.runtime.tangle_intake import Intake
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.base import StoredRecord, StoreRecordId
from bobbin.store.sqlite import SqliteStore
from bobbin.tangles.message import Message, from_json
from tests.conformance.samples import plex as sample
from tests.support.tangle_messages import Author
from tests.unit.runtime.tangle_stores import opened, plex


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
    intake.restore(records(first, moot))
    draft.touched.add(moot.id)
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
