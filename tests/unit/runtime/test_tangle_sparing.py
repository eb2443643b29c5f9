"""What a collection never takes: one's own accounts, and one's own last words."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.sqlite import SqliteStore, open_store
from bobbin.tangles import accounts, compose
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author

if TYPE_CHECKING:
    from bobbin.tangles.canonical import Json


@pytest.fixture
def alice() -> Author:
    return Author("alice")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as opened:
        yield opened
        assert list(opened.check()) == []


@pytest.fixture
def tangles(store: SqliteStore, alice: Author) -> TangleStore:
    """Tangles in a lace with alice's keys."""
    return TangleStore(store.tangles, own_keys=lambda: {key.public for key in alice.keys})


def test_ones_own_account_is_never_given_up(tangles: TangleStore, alice: Author) -> None:
    bob, feed = Author("bob"), alice.feed(2)
    alice.add_key("phone")
    tangles.commit([*alice.account_messages, bob.account, *feed], tangle=feed[0].id)
    assert set(tangles.collect(strict=True).deleted) == {bob.account.id, *(message.id for message in feed)}
    assert set(tangles.tangle(alice.account.id)) == {message.id for message in alice.account_messages}
    tangles.set_goal(alice.account.id, "none")
    assert tangles.collect(strict=True).deleted == ()
    assert tangles.collect(dry_run=True).deleted == ()


def test_an_account_that_one_was_added_to_is_ones_own(store: SqliteStore, alice: Author) -> None:
    alice.add_key("phone")
    phone = TangleStore(store.tangles, own_keys=lambda: [alice.keys[1].public])
    phone.commit(alice.account_messages)
    assert phone.collect(strict=True).deleted == ()


def _key_message(
    author: Author, action: str, public: str, *, purpose: str = "sig", consent: str | None = None
) -> Message:
    """A message of an account about a key of our choice."""
    key: Json = {"purpose": purpose, "algorithm": "ed25519", "bytes": public}
    data: dict[str, Json] = {"action": action, "key": key}
    if consent is not None:
        data["consent"] = consent
    place = author.account_tangle.next_place()
    return author.sign(
        data,
        {
            "account": "self",
            "accountTips": None,
            "tangles": {author.account.id: {"depth": place.depth, "prev": [*place.prev]}},
            "domain": author.account.domain,
        },
    )


def test_a_stranger_who_names_ones_key_is_still_a_stranger(tangles: TangleStore, alice: Author) -> None:
    mallory, own = Author("mallory"), alice.key.public
    elsewhere = accounts.consent(alice.key, alice.account.id)
    naming = [
        _key_message(mallory, "del", own),
        _key_message(mallory, "add", own, purpose="external-encryption"),
        _key_message(mallory, "add", own, consent=elsewhere),
    ]
    for message in naming:
        tangles.commit([alice.account, mallory.account, message])
    held = set(tangles.tangle(mallory.account.id))
    assert {mallory.account.id, naming[0].id, naming[1].id} <= held
    assert set(tangles.collect(strict=True).deleted) == held


def test_an_account_that_one_has_agreed_to_join_is_kept_before_that_is_proven(
    tangles: TangleStore, alice: Author
) -> None:
    """What it waits for may come with the next exchange."""
    bob = Author("bob")
    beginning = Tangle(bob.account.id, [bob.account])
    phone, laptop = (
        compose.account_add(bob.key, beginning, key=key.public, consent=accounts.consent(key, bob.account.id))
        for key in map(Keypair.from_words, ("phone", "laptop"))
    )
    consent = accounts.consent(alice.key, bob.account.id)
    whole = Tangle(bob.account.id, [bob.account, phone, laptop])
    invited = compose.account_add(bob.key, whole, key=alice.key.public, consent=consent)
    tangles.commit([bob.account, phone, invited])
    assert invited.id in tangles.tangle(bob.account.id)
    assert invited.id not in tangles.proven(bob.account.id)
    assert tangles.collect(strict=True).deleted == ()
    tangles.commit([laptop])
    assert invited.id in tangles.proven(bob.account.id)


def test_without_keys_only_goals_count(store: SqliteStore, alice: Author) -> None:
    tangles = TangleStore(store.tangles)
    tangles.commit([alice.account])
    assert tangles.collect(strict=True).deleted == (alice.account.id,)


def test_what_one_has_said_and_nobody_has_answered_stays(tangles: TangleStore, alice: Author) -> None:
    bob = Author("bob")
    root = bob.root({"text": "topic"}, "thread")
    alice.sees(root)
    reply = alice.post(root.id, {"text": "reply"}, "thread")
    others = [bob.post(root.id, {"text": f"m{number}"}, "thread") for number in range(6)]
    tangles.commit([alice.account, bob.account, root, reply, *others], tangle=root.id)
    tangles.set_goal(root.id, "newest-2")
    swept = tangles.collect()
    assert reply.id not in (*swept.deleted, *swept.erased)
    assert tangles.tangle(root.id).has_data(reply.id)
    assert tangles.tangle(root.id).shortest_path(reply.id) == [root.id]
    answer = bob.say("answer", tangles.tangle(root.id), domain="thread")
    tangles.commit([answer], tangle=root.id)
    assert reply.id in tangles.collect().deleted, "somebody else has it"


def test_what_leads_to_it_stays_without_its_data(store: SqliteStore, tangles: TangleStore, alice: Author) -> None:
    bob = Author("bob")
    root = bob.root({"text": "topic"}, "thread")
    first = bob.post(root.id, {"text": "first"}, "thread")
    alice.sees(root, first)
    reply = alice.post(root.id, {"text": "reply"}, "thread")
    others = [bob.post(root.id, {"text": f"m{number}"}, "thread") for number in range(12)]
    tangles.commit([alice.account, bob.account, root, first, reply, *others], tangle=root.id)
    tangles.set_goal(root.id, "newest-1")
    # Their way back does not lead over the first message, and this one's does.
    bare = TangleStore(store.tangles).collect(dry_run=True)
    assert {first.id, reply.id} <= set(bare.deleted)
    swept = tangles.collect()
    assert first.id in swept.erased
    assert tangles.tangle(root.id).has_data(reply.id)
    assert tangles.tangle(root.id).shortest_path(reply.id) == [first.id, root.id]


def test_a_goal_of_none_is_ones_own_will(tangles: TangleStore, alice: Author) -> None:
    root = alice.root({"text": "topic"}, "thread")
    tangles.commit([alice.account, root])
    tangles.set_goal(root.id, "none")
    assert tangles.collect().deleted == (root.id,)
