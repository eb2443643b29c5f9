"""Accounts, feeds and threads, written with a key."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.errors import UsageError
from bobbin.runtime.tangle_writing import NoAccount, SeveralAccounts, Tangles, tables_of
from bobbin.store.sqlite import open_store
from bobbin.tangles.keys import Keypair
from bobbin.tangles.tangle import Kind

ALICE, SECOND = Keypair.from_words("alice"), Keypair.from_words("second")


@pytest.fixture
def tangles(tmp_path: Path) -> Iterator[Tangles]:
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as store:
        yield Tangles(tables_of(store))
        assert list(store.check()) == []


def test_an_account_a_feed_and_a_thread(tangles: Tangles) -> None:
    account = tangles.new_account(ALICE, nonce="n").id
    assert tangles.accounts() == [account]
    assert tangles.keys_of(account) == {ALICE.public}
    feed = tangles.feed(ALICE, "post")
    assert tangles.feed(ALICE, "post", account=account) == feed, "it is the same one"
    first = tangles.post(ALICE, {"text": "one"}, tangles=[feed])
    assert (first.account, first.domain, first.depth_in(feed)) == (account, "post", 1)
    thread = tangles.post(ALICE, {"text": "topic"}, domain="thread")
    reply = tangles.post(ALICE, {"text": "reply"}, tangles=[thread.id, feed, thread.id])
    assert (reply.depth_in(thread.id), reply.depth_in(feed), reply.domain) == (1, 2, "post")
    assert tangles.proven(feed).topological() == [feed, first.id, reply.id]
    assert tangles.tangle(thread.id).kind is Kind.WEAVE


def test_two_accounts_of_one_key_are_two(tangles: Tangles) -> None:
    one, two = tangles.new_account(ALICE), tangles.new_account(ALICE)
    assert one.id != two.id
    with pytest.raises(SeveralAccounts, match=f"belongs to 2 accounts here: {one.id}, {two.id}"):
        tangles.feed(ALICE, "post")
    assert tangles.feed(ALICE, "post", account=one.id) != tangles.feed(ALICE, "post", account=two.id)
    with pytest.raises(NoAccount, match="no account here has the key"):
        tangles.feed(SECOND, "post")


def test_an_account_is_found_by_the_key_that_began_it(tangles: Tangles) -> None:
    assert tangles.account_begun_by(ALICE) is None
    account = tangles.new_account(ALICE).id
    assert tangles.account_begun_by(ALICE) == account
    assert tangles.account_begun_by(ALICE, subdomain="device") is None
    tangles.add_key(ALICE, account, SECOND, powers=["add", "del"])
    assert tangles.account_begun_by(SECOND) is None, "it was added later"
    tangles.remove_key(SECOND, account, ALICE.public)
    assert tangles.account_begun_by(ALICE) is None, "it may not sign there any more"


def test_keys_of_an_account(tangles: Tangles) -> None:
    account = tangles.new_account(ALICE).id
    feed = tangles.feed(ALICE, "post")
    with pytest.raises(UsageError, match=f"the key {SECOND.public} may not sign for the account {account}"):
        tangles.post(SECOND, {"text": "mine?"}, tangles=[feed])
    with pytest.raises(UsageError, match="in an account stand only messages that add and remove keys"):
        tangles.post(ALICE, {"text": "hello"}, tangles=[account])
    tangles.add_key(ALICE, account, SECOND)
    assert tangles.keys_of(account) == {ALICE.public, SECOND.public}
    tangles.post(SECOND, {"text": "mine"}, tangles=[feed])
    with pytest.raises(UsageError, match="account power"):
        tangles.remove_key(SECOND, account, ALICE.public)
    tangles.remove_key(ALICE, account, SECOND.public)
    assert tangles.keys_of(account) == {ALICE.public}
    with pytest.raises(UsageError, match="cannot be stored"):
        tangles.post(SECOND, {"text": "still?"}, tangles=[feed])


def test_a_message_of_nobody_in_particular(tangles: Tangles) -> None:
    thread = tangles.post(SECOND, {"text": "hello"}, account="any", domain="thread")
    assert (thread.account, thread.account_tips) == ("any", None)


def test_what_makes_no_sense(tangles: Tangles) -> None:
    tangles.new_account(ALICE)
    with pytest.raises(UsageError, match="needs a domain"):
        tangles.post(ALICE, {"text": "x"})
    with pytest.raises(UsageError, match="is not known here"):
        tangles.post(ALICE, {"text": "x"}, tangles=["1" * 32])
    with pytest.raises(UsageError, match="domain"):
        tangles.feed(ALICE, "no domain")


def test_ids_by_their_beginning(tangles: Tangles) -> None:
    account = tangles.new_account(ALICE).id
    assert tangles.resolve(account[:6]) == account
    assert tangles.resolve("1" * 32) == "1" * 32, "a whole id need not be known"
    for text in ("zzzzzz", "no id at all"):
        with pytest.raises(UsageError, match="neither the id"):
            tangles.resolve(text)
    for text in (account[:3], ""):
        with pytest.raises(UsageError, match="at least its first 4 characters"):
            tangles.resolve(text)


def test_a_beginning_of_several(tangles: Tangles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tangles, "beginning", lambda _: ["abcd1", "abcd2"])
    with pytest.raises(UsageError, match="say more of it"):
        tangles.resolve("abcd")


def test_what_has_no_tables_has_no_tangles() -> None:
    with pytest.raises(UsageError, match="in a lake"):
        tables_of(object())  # type: ignore[arg-type]
