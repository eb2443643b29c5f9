"""New messages: what a real peer would write, and what cannot be written."""

import pytest

from bobbin.errors import UsageError
from bobbin.tangles import accounts, compose
from bobbin.tangles.errors import UnknownMessage
from bobbin.tangles.keys import Keypair
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import from_json, moot_id
from bobbin.tangles.tangle import Tangle
from tests.vectors.load import load

ALICE, BOB = Keypair.from_words("alice"), Keypair.from_words("bob")


def account_and_key(writer: str) -> tuple[Keypair, Tangle]:
    keypair = Keypair.from_words(writer)
    root = compose.account_root(keypair, nonce=f"nonce-{writer}")
    return keypair, Tangle(root.id, [root])


@pytest.mark.parametrize("writer", ["alice", "bob", "carol"])
def test_the_messages_of_a_real_peer_byte_for_byte(writer: str) -> None:
    entries = load(f"pzp/msgs/msgs-{writer}.json")["msgs"]
    keypair, account = account_and_key(writer)
    feed = Tangle("")
    compared = 0
    for entry in entries:
        expected = from_json(entry["msg"])
        if entry["kind"] == "account root":
            made = account.root
        elif entry["kind"] == "moot":
            made = compose.moot(keypair, account.id, "post")
            feed = Tangle(made.id, [made])
        elif entry["kind"] == "feed msg":
            made = compose.post(keypair, entry["msg"]["data"], account=account, domain="post", tangles=[feed])
            feed.add(made)
        elif entry["kind"] == "weave root":
            made = compose.post(keypair, entry["msg"]["data"], account=account, domain="post")
        else:
            continue
        assert made == expected, entry["kind"]
        compared += 1
    assert compared == 17


def test_a_post_in_two_tangles() -> None:
    keypair, account = account_and_key("alice")
    moot = compose.moot(keypair, account.id, "post")
    thread = compose.post(keypair, {"text": "thread"}, account=account, domain="post")
    both = compose.post(
        keypair,
        {"text": "both"},
        account=account,
        domain="post",
        tangles=[Tangle(moot.id, [moot]), Tangle(thread.id, [thread])],
    )
    assert {tangle: place.prev for tangle, place in both.places.items()} == {
        moot.id: (moot.id,),
        thread.id: (thread.id,),
    }
    assert both.account_tips == (account.id,)


def test_tips_of_an_account_are_sorted() -> None:
    keypair, account = account_and_key("alice")
    for words in ("bob", "carol", "dave", "erin"):
        other = Keypair.from_words(words)
        consent = accounts.consent(other, account.id)
        # All of them right after the root, so that all of them are tips.
        root_only = Tangle(account.id, [account.root] if account.root else [])
        account.add(compose.account_add(keypair, root_only, key=other.public, consent=consent))
    post = compose.post(keypair, {"text": "x"}, account=account, domain="post")
    assert post.account_tips == tuple(sorted(account.tips()))
    assert len(post.account_tips) == 4


def test_everything_that_is_written_is_taken_and_full() -> None:
    keypair, account = account_and_key("alice")
    store = MemoryStore()
    assert account.root is not None
    store.add(account.root, account.id)
    consent = accounts.consent(BOB, account.id)
    for message in (
        compose.account_add(keypair, store.tangle(account.id), key=BOB.public, consent=consent, powers=["add", "del"]),
    ):
        store.add(message, account.id)
    store.add(compose.account_del(BOB, store.tangle(account.id), key=keypair.public), account.id)
    moot = compose.moot(BOB, account.id, "post")
    store.add(moot, moot.id)
    for number in range(15):
        post = compose.post(
            BOB,
            {"text": str(number)},
            account=store.tangle(account.id),
            domain="post",
            tangles=[store.tangle(moot.id)],
        )
        store.add(post, moot.id)
    assert len(store) == 19
    for message in store:
        assert all(store.standing.is_full(tangle, message.id) for tangle in message.places or (message.id,))


def test_the_moot_is_the_one_that_anybody_can_name() -> None:
    assert compose.moot(BOB, "account", "post").id == moot_id("account", "post")


def test_what_cannot_be_written() -> None:
    keypair, account = account_and_key("alice")
    consent = accounts.consent(BOB, account.id)
    with pytest.raises(UsageError, match="domain"):
        compose.post(keypair, {}, account=account, domain="no")
    with pytest.raises(UsageError, match="domain"):
        compose.moot(keypair, account.id, "not a domain")
    with pytest.raises(UsageError, match="agreed"):
        compose.account_add(keypair, account, key=keypair.public, consent=consent)
    with pytest.raises(UsageError, match="power is one of"):
        compose.account_add(keypair, account, key=BOB.public, consent=consent, powers=["fly"])
    with pytest.raises(UsageError, match="cannot be sent"):
        compose.post(keypair, {"text": "\ud800"}, account=account, domain="post")
    with pytest.raises(UsageError, match="65535 bytes at most"):
        compose.post(keypair, {"text": "x" * 65_535}, account=account, domain="post")
    with pytest.raises(UnknownMessage):
        compose.post(keypair, {}, account=account, domain="post", tangles=[Tangle("nowhere")])
    with pytest.raises(UsageError, match="root of the account"):
        compose.account_del(keypair, Tangle(account.id), key=BOB.public)
