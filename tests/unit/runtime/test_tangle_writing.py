"""Accounts, feeds and threads, written with a key."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.runtime.tangle_writing import NoAccount, SeveralAccounts, Tangles, _unfounded, tables_of
from bobbin.store.sqlite import open_store
from bobbin.store.tangles import Level
from bobbin.tangles.judgement import Mark
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message, MessageId, Place
from bobbin.tangles.tangle import Kind, Tangle
from tests.support.tangle_messages import Author
from tests.unit.runtime.tangle_stores import placed

if TYPE_CHECKING:
    from bobbin.tangles.canonical import Json

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


# ---- where a goal lets go of what came before -----------------------------------------------------------------------


def _newest(tangles: Tangles, count: int, *, level: Level = Level.MODERN) -> list[Message]:
    """A thread of somebody else, of which only the newest are here, with what leads from them to the root."""
    bob = Author("bob")
    messages = [bob.root({"text": "topic"}, "thread")]
    messages += [bob.post(messages[0].id, {"text": f"m{number}"}, "thread") for number in range(8)]
    root = messages[0].id
    kept = {piece.id: piece.erased for piece in bob.tangles[root].slice([messages[-count].id])}
    tangles.set_goal(root, f"newest-{count}")
    sent = [message.erased() if kept[message.id] else message for message in messages if message.id in kept]
    done = tangles.commit([bob.account, *sent], tangle=root, level=level)
    assert done.refused == ()
    assert tangles.proven(root).max_depth == 0, "what leads to the rest is not here"
    return messages


def test_a_reply_stands_after_the_newest_that_a_goal_keeps(tangles: Tangles) -> None:
    tangles.new_account(ALICE)
    messages = _newest(tangles, 3)
    root, tip = messages[0].id, messages[-1].id
    reply = tangles.post(ALICE, {"text": "reply"}, tangles=[root])
    assert reply.depth_in(root) == 9
    assert tip in reply.places[root].prev
    assert tangles.tangle(root).tips() == {reply.id}
    judged = tangles.judgement(root, reply.id)
    assert judged is not None
    assert judged.mark is Mark.WAITING, "it is proven where the whole thread is"
    tangles.collect()
    assert tangles.tangle(root).has_data(reply.id)
    more = [tangles.post(ALICE, {"text": text}, tangles=[root]) for text in ("two", "three")]
    assert [message.depth_in(root) for message in more] == [10, 11]
    bob = Author("bob")
    assert tangles.commit([bob.account, *messages], tangle=root).refused == ()
    assert tangles.proven(root).tips() == {more[-1].id}, "what was written meanwhile is proven with the rest"


def test_a_reply_of_ones_own_is_kept_even_if_what_it_answers_turns_out_wrong(tangles: Tangles) -> None:
    tangles.new_account(ALICE)
    messages = _newest(tangles, 3)
    root = messages[0].id
    stranger = Author("stranger")
    wrong = placed(stranger, messages[0], sorted([messages[1].id, messages[-1].id]), 12)
    assert tangles.commit([stranger.account, wrong], tangle=root, level=Level.MODERN).refused == ()
    reply = tangles.post(ALICE, {"text": "reply"}, tangles=[root])
    assert wrong.id in reply.places[root].prev, "nobody can tell yet"
    done = tangles.commit([Author("bob").account, *messages], tangle=root)
    assert [one.message for one in done.dropped] == [wrong.id]
    assert tangles.message(reply.id) == reply


def test_a_reply_stands_after_nothing_that_was_signed_by_somebody_who_may_not(tangles: Tangles) -> None:
    tangles.new_account(ALICE)
    messages = _newest(tangles, 3, level=Level.INTEROP)
    root = messages[0].id
    # A real peer counts the whole account where none of the tips is known.
    unknown = Author("stranger")
    foreign = unknown.sign(
        {"text": "foreign"},
        {
            "account": unknown.account.id,
            "accountTips": [messages[0].id],
            "tangles": {root: {"depth": 9, "prev": [messages[-1].id]}},
            "domain": "thread",
        },
    )
    assert tangles.commit([unknown.account, foreign], tangle=root).refused == ()
    reply = tangles.post(ALICE, {"text": "reply"}, tangles=[root])
    assert (reply.depth_in(root), messages[-1].id in reply.places[root].prev) == (9, True)
    assert foreign.id not in reply.places[root].prev


def test_a_long_line_of_what_is_wrong_is_left_out_in_one_go(tangles: Tangles, monkeypatch: pytest.MonkeyPatch) -> None:
    tangles.new_account(ALICE)
    messages = _newest(tangles, 3, level=Level.INTEROP)
    root = messages[0].id
    stranger = Author("stranger")
    above = placed(stranger, messages[0], [messages[1].id, messages[-1].id], 100)
    line: list[Message] = []
    for number in range(40):
        before = line[-1] if line else messages[-1]
        line.append(placed(stranger, messages[0], [before.id, above.id], 9 + number))
    # Each says that it stands below one of its predecessors, which shows when that one comes.
    assert tangles.commit([stranger.account, *line, above], tangle=root).refused == ()
    placed_ids: list[MessageId] = []
    asked: list[MessageId] = []
    place, is_signed = Tangle.place, Tangles._is_signed

    def counted(tangle: Tangle, id: MessageId, at: Place, *, has_data: bool) -> None:
        placed_ids.append(id)
        place(tangle, id, at, has_data=has_data)

    def asking(here: Tangles, tangle: MessageId, id: MessageId) -> bool:
        asked.append(id)
        return is_signed(here, tangle, id)

    tangles.tangle(root)
    monkeypatch.setattr(Tangle, "place", counted)
    monkeypatch.setattr(Tangles, "_is_signed", asking)
    reply = tangles.post(ALICE, {"text": "reply"}, tangles=[root])
    assert above.id in reply.places[root].prev
    assert not {one.id for one in line} & set(reply.places[root].prev)
    assert {one.id for one in line} <= set(asked)
    assert len(asked) == len(set(asked)), "nothing is asked about twice"
    assert len(placed_ids) <= len(tangles.tangle(root)), "the tangle is built once"


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_new_message_would_come_after_nothing_that_is_not_right(seed: int) -> None:
    random = Random(seed)
    messages = Author("bob").weave(random, 24)
    structure = Tangle(messages[0].id, messages)
    right = {message.id for message in messages if random.random() < 0.6} | {structure.id}
    gone = _unfounded(structure, right.__contains__)
    rest = Tangle(structure.id, [message for message in messages if message.id not in gone])
    assert right.issuperset(rest.next_place().prev)
    assert structure.descendants(gone) <= gone, "nothing hangs in the air"
    for id in gone & right:
        assert structure.ancestors([id]) & gone, "what is right goes only with what it comes after"


def test_without_such_a_goal_a_reply_stands_after_what_is_proven_alone(tangles: Tangles) -> None:
    tangles.new_account(ALICE)
    root = _newest(tangles, 3)[0].id
    tangles.set_goal(root, "all")
    assert tangles.post(ALICE, {"text": "reply"}, tangles=[root]).depth_in(root) == 1


# ---- sets and dicts ----------------------------------------------------------------------------------------------


def test_a_set_and_a_dict_take_what_they_can_hold(tangles: Tangles) -> None:
    tangles.new_account(ALICE)
    names, profile = tangles.feed(ALICE, "set_v1__names"), tangles.feed(ALICE, "dict_v1__profile")
    first = tangles.post(ALICE, {"add": ["a"], "del": [], "supersedes": []}, tangles=[names])
    tangles.post(ALICE, {"add": [], "del": ["a"], "supersedes": [first.id]}, tangles=[names])
    tangles.post(ALICE, {"update": {"name": "Alice"}, "supersedes": []}, tangles=[profile])
    wrong: list[dict[str, Json]] = [{"add": ["a"]}, {"add": "a", "del": [], "supersedes": []}, {"text": "hello"}]
    for data in wrong:
        with pytest.raises(UsageError, match=r'a message says \{"add":'):
            tangles.post(ALICE, data, tangles=[names])
    with pytest.raises(UsageError, match=r"not right: supersedes$"):
        tangles.post(ALICE, {"add": [], "del": [], "supersedes": ["no id"]}, tangles=[names])
    with pytest.raises(UsageError, match=r'a message says \{"update":.*not right: update, supersedes$'):
        tangles.post(ALICE, {"name": "Alice"}, tangles=[profile])
