"""Accounts as a real peer reads them, consent, and what is needed to check messages."""

import json
from typing import Any

import pytest

from bobbin.tangles import accounts, compose
from bobbin.tangles.accounts import Accounts, Act, Action, KeyRing, account_messages, account_of, action_of
from bobbin.tangles.keys import Keypair
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, from_json
from bobbin.tangles.tangle import Tangle
from tests.vectors.load import load

ALICE, BOB, CAROL = (Keypair.from_words(words) for words in ("alice", "bob", "carol"))
ROOT = compose.account_root(ALICE, nonce="1")


def tangle_of(*messages: Message) -> Tangle:
    return Tangle(ROOT.id, [ROOT, *messages])


def adding(by: Keypair, new: Keypair, *before: Message, powers: tuple[str, ...] = ()) -> Message:
    consent = accounts.consent(new, ROOT.id)
    return compose.account_add(by, tangle_of(*before), key=new.public, consent=consent, powers=powers)


ADD_BOB = adding(ALICE, BOB, powers=("add",))
ADD_CAROL = adding(BOB, CAROL, ADD_BOB)
DEL_CAROL = compose.account_del(ALICE, tangle_of(ADD_BOB, ADD_CAROL), key=CAROL.public)


def stored(*messages: Message) -> MemoryStore:
    store = MemoryStore()
    store.load([ROOT, *messages])
    return store


@pytest.mark.parametrize("case", load("pzp/keys/consent.json")["cases"], ids=lambda case: case["added_key"]["seed"])
def test_consent_of_a_real_peer(case: dict[str, Any]) -> None:
    account, text, consent = (case[key] for key in ("account", "signable_utf8", "consent"))
    assert from_json(case["account_root"]).id == account
    assert accounts.consent_text(account).decode() == text
    keypair = Keypair.from_words(case["added_key"]["seed"])
    assert accounts.consent(keypair, account) == consent
    assert accounts.is_consent(consent, keypair.public, account)


def test_other_consent_is_none() -> None:
    consent = accounts.consent(BOB, ROOT.id)
    assert not accounts.is_consent(consent, CAROL.public, ROOT.id)
    assert not accounts.is_consent(consent, BOB.public, ADD_BOB.id)
    assert not accounts.is_consent(BOB.sign(f":account-add:{ROOT.id}".encode()), BOB.public, ROOT.id)
    assert not accounts.is_consent("0", BOB.public, ROOT.id)
    assert not accounts.is_consent(consent, "0", ROOT.id)
    assert not accounts.is_consent(consent, BOB.public, "no id")


def test_whose_account() -> None:
    feed = Tangle(ROOT.id, [ROOT])
    post = compose.post(ALICE, {"text": "x"}, account=feed, domain="post")
    anyone = compose.post(ALICE, {"text": "x"}, account=None, domain="post")
    assert [account_of(one) for one in (ROOT, ADD_BOB, post, anyone)] == [ROOT.id, ROOT.id, ROOT.id, None]


def test_keys_at_tips() -> None:
    answers = Accounts(stored(ADD_BOB, ADD_CAROL, DEL_CAROL))
    at_root = {ALICE.public}
    at_bob = at_root | {BOB.public}
    assert answers.interop_keys(ROOT.id, (ROOT.id,)) == at_root
    assert answers.interop_keys(ROOT.id, (ADD_BOB.id,)) == at_bob
    assert answers.interop_keys(ROOT.id, (ADD_CAROL.id,)) == at_bob | {CAROL.public}
    assert answers.interop_keys(ROOT.id, (DEL_CAROL.id,)) == at_bob


def test_unknown_tips_are_ignored_and_none_known_is_the_whole_account() -> None:
    answers = Accounts(stored(ADD_BOB))
    whole = {ALICE.public, BOB.public}
    assert answers.interop_keys(ROOT.id, (ROOT.id, "unknown")) == {ALICE.public}
    assert answers.interop_keys(ROOT.id, ("unknown",)) == whole
    assert answers.interop_keys(ROOT.id, ()) == whole
    assert answers.interop_keys(ROOT.id, None) == whole
    assert answers.interop_keys("unknown", None) == frozenset()


def test_answers_follow_the_store() -> None:
    store = stored()
    answers = Accounts(store)
    assert answers.interop_keys(ROOT.id, None) == {ALICE.public}
    store.add(ADD_BOB, ROOT.id)
    assert answers.interop_keys(ROOT.id, None) == {ALICE.public, BOB.public}
    store.erase(ADD_BOB.id)
    assert answers.interop_keys(ROOT.id, None) == {ALICE.public}
    assert answers.interop_powers(ROOT.id, BOB.public) == frozenset()
    store.add(ADD_BOB, ROOT.id)
    assert answers.interop_keys(ROOT.id, None) == {ALICE.public, BOB.public}


def test_powers() -> None:
    answers = Accounts(stored(ADD_BOB, ADD_CAROL, DEL_CAROL))
    assert answers.interop_powers(ROOT.id, ALICE.public) == set(compose.POWERS)
    assert answers.interop_powers(ROOT.id, BOB.public) == {"add"}
    assert answers.interop_powers(ROOT.id, CAROL.public) == frozenset()


def test_a_ring_of_keys() -> None:
    ring = KeyRing()
    add = Action(act=Act.ADD, key="k", signs=True, powers=frozenset({"add"}), consent=None)
    ring.apply(add)
    assert ring.keys == {"k"}
    assert ring.has_power("k", Act.ADD)
    assert not ring.has_power("k", Act.DEL)
    assert not ring.has_power("other", Act.ADD)
    ring.apply(Action(act=Act.ADD, key="k", signs=True, powers=frozenset({"del"}), consent=None))
    assert ring.has_power("k", Act.ADD)
    assert ring.has_power("k", Act.DEL)
    ring.apply(Action(act=Act.ADD, key="box", signs=False, powers=frozenset(), consent=None))
    ring.apply(Action(act=Act.ADD, key=None, signs=True, powers=frozenset(), consent=None))
    assert ring.keys == {"k"}
    ring.apply(Action(act=Act.DEL, key="k", signs=True, powers=frozenset(), consent=None))
    assert ring.keys == frozenset()
    ring.apply(add)
    assert not ring.has_power("k", Act.DEL)


@pytest.mark.parametrize(
    ("data", "key", "signs"),
    [
        ({"action": "add", "key": {"purpose": "sig", "algorithm": "ed25519", "bytes": "k"}}, "k", True),
        ({"action": "del", "key": {"purpose": "shs-and-sig", "algorithm": "ed25519", "bytes": "k"}}, "k", True),
        ({"action": "add", "key": {"purpose": "box", "algorithm": "ed25519", "bytes": "k"}}, "k", False),
        ({"action": "add", "key": {"purpose": ["sig"], "algorithm": "ed25519", "bytes": "k"}}, "k", False),
        ({"action": "add", "key": {"purpose": "sig", "algorithm": "x25519", "bytes": "k"}}, None, True),
        ({"action": "add", "key": {"purpose": "sig", "algorithm": "ed25519", "bytes": 7}}, None, True),
        ({"action": "add", "key": 7, "powers": "add", "consent": 7}, None, False),
        ({"action": "add"}, None, False),
    ],
)
def test_actions(data: dict[str, object], key: str | None, signs: bool) -> None:  # noqa: FBT001 -- a column of the table
    action = action_of(from_json(json.loads(ROOT.raw) | {"data": data}))
    assert action is not None
    assert (action.act, action.key, action.signs) == (data["action"], key, signs)
    assert (action.powers, action.consent) == (frozenset(), None)


@pytest.mark.parametrize("data", [None, "sealed", {}, {"action": "ADD"}, {"action": ["add"]}, {"action": None}])
def test_what_does_nothing(data: object) -> None:
    assert action_of(from_json(json.loads(ROOT.raw) | {"data": data})) is None


def test_account_messages_that_are_needed() -> None:
    other = compose.account_root(CAROL, nonce="2")
    store = stored(ADD_BOB, ADD_CAROL, DEL_CAROL, other)
    alice_then = compose.post(ALICE, {"text": "1"}, account=tangle_of(), domain="post")
    alice_later = compose.post(ALICE, {"text": "2"}, account=tangle_of(ADD_BOB), domain="post")
    carol = compose.post(CAROL, {"text": "3"}, account=Tangle(other.id, [other]), domain="post")
    anyone = compose.post(ALICE, {"text": "4"}, account=None, domain="post")
    assert account_messages(store, [alice_then]) == [ROOT.id]
    assert account_messages(store, [alice_later]) == [ROOT.id, ADD_BOB.id]
    assert account_messages(store, [anyone, ROOT, ADD_BOB, compose.moot(ALICE, ROOT.id, "post")]) == []
    assert account_messages(store, [carol, alice_later, alice_later]) == [other.id, ROOT.id, ADD_BOB.id]
    # Cut at the union of the tips: what comes after either of them is left out.
    assert account_messages(store, [alice_later, alice_then]) == [ROOT.id, ADD_BOB.id]
    assert account_messages(MemoryStore(), [alice_then]) == []
