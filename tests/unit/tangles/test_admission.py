"""What a real peer lets into its database."""

from typing import Any

import pytest

from bobbin.tangles import compose
from bobbin.tangles.accounts import Accounts
from bobbin.tangles.admission import Admission, admit
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.keys import Keypair
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, MessageId, from_json
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author
from tests.vectors.load import load

CASES = [(writer, case) for writer in ("alice", "bob") for case in load(f"pzp/account/rules-{writer}.json")["cases"]]

REFUSED = {
    "key without add power adds a key": Rule.POWER,
    "stranger adds a key": Rule.POWER,
    "account msg with unknown account": Rule.UNKNOWN_ACCOUNT,
    "feed msg by added key but tips stop before it": Rule.SIGKEY_UNAUTHORISED,
    "feed msg by deleted key, tips include the del": Rule.SIGKEY_UNAUTHORISED,
    "feed msg by stranger": Rule.SIGKEY_UNAUTHORISED,
    "feed msg with unknown account": Rule.UNKNOWN_ACCOUNT,
    "feed msg without its moot": Rule.TANGLE_TYPE,
}


def refusal(store: MemoryStore, message: Message, tangle: MessageId) -> Rule | None:
    try:
        admit(store, Accounts(store), message, tangle)
    except InvalidMessage as error:
        return error.rule
    return None


@pytest.mark.parametrize(("writer", "case"), CASES, ids=[f"{writer}: {case['name']}" for writer, case in CASES])
def test_the_verdicts_of_a_real_peer(writer: str, case: dict[str, Any]) -> None:
    store = MemoryStore()
    for entry in case["preset"]:
        store.add(from_json(entry["msg"]), entry["tangleID"])
    message = from_json(case["msg"])
    assert message.id == case["msgID"], writer
    assert refusal(store, message, case["tangleID"]) == (None if case["accepted"] else REFUSED[case["name"]])


ALICE = Author("alice")
MOOT, FIRST, SECOND = ALICE.feed(2)


def world(*messages: Message) -> MemoryStore:
    store = MemoryStore()
    for message in (ALICE.account, MOOT, *messages):
        store.add(message, message.id if message.is_root else MOOT.id)
    return store


def test_what_becomes_of_a_message() -> None:
    store = world()
    accounts = Accounts(store)
    assert admit(store, accounts, FIRST, MOOT.id) is Admission.ADDED
    assert store.message(FIRST.id) is None
    store.add(FIRST.erased(), MOOT.id)
    assert admit(store, accounts, FIRST.erased(), MOOT.id) is Admission.KNOWN
    assert admit(store, accounts, FIRST, MOOT.id) is Admission.FILLED
    store.add(FIRST, MOOT.id)
    assert admit(store, accounts, FIRST, MOOT.id) is Admission.KNOWN
    assert admit(store, accounts, FIRST.erased(), MOOT.id) is Admission.KNOWN


def test_a_ghost_comes_back_only_without_its_data() -> None:
    store = world()
    store.save_ghost(MOOT.id, FIRST.id, 1)
    assert refusal(store, FIRST, MOOT.id) is Rule.GHOST
    assert refusal(store, FIRST.erased(), MOOT.id) is None
    store.add(FIRST.erased(), MOOT.id)
    assert FIRST.id not in store.ghosts(MOOT.id)


def test_anybody_may_remove_a_key_as_far_as_a_real_peer_cares() -> None:
    mallory = Keypair.from_words("mallory")
    stranger = compose.account_del(mallory, Tangle(ALICE.account.id, [ALICE.account]), key=ALICE.key.public)
    assert refusal(world(), stranger, ALICE.account.id) is None


def test_an_account_message_without_data_does_nothing_and_needs_no_power() -> None:
    mallory = Keypair.from_words("mallory")
    stranger = compose.account_del(mallory, Tangle(ALICE.account.id, [ALICE.account]), key=ALICE.key.public)
    assert refusal(world(), stranger.erased(), ALICE.account.id) is None


def test_the_moot_of_another_feed_is_refused_under_this_id_only_without_a_root() -> None:
    assert refusal(MemoryStore(), ALICE.moot("about"), MOOT.id) is Rule.TANGLE_TYPE
    assert refusal(MemoryStore(), MOOT, MOOT.id) is None


def test_any_key_may_sign_for_nobody() -> None:
    bob = Keypair.from_words("bob")
    root = compose.post(bob, {"text": "hi"}, account=None, domain="chat_room")
    assert refusal(MemoryStore(), root, root.id) is None
