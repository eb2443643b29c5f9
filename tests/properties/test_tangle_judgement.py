"""Laws of the modern level: the order of arrival means nothing, and what is full is proven by full messages alone."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from bobbin.tangles import accounts, compose
from bobbin.tangles.canonical import Json, canonical
from bobbin.tangles.errors import InvalidMessage
from bobbin.tangles.judgement import Judgement, Mark, Spot
from bobbin.tangles.keys import Keypair
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import SIGNATURE_TAG, Message, MessageId, data_hash_and_size, from_json
from bobbin.tangles.tangle import Tangle
from tests.properties.effort import scaled

KEYS = [Keypair.from_words(words) for words in ("alice", "bob", "carol")]
ROOT = compose.account_root(KEYS[0], nonce="laws")
MOOT = compose.moot(KEYS[0], ROOT.id, "post")


def crafted(by: Keypair, tangle: MessageId, depth: int, prev: list[str], tips: Json, data: Json) -> Message:
    """Any message at all, properly signed."""
    hash_text, size = data_hash_and_size(data)
    of_account = tangle == ROOT.id
    metadata: dict[str, Json] = {
        "dataHash": hash_text,
        "dataSize": size,
        "account": "self" if of_account else ROOT.id,
        "accountTips": None if of_account else tips,
        "tangles": {tangle: {"depth": depth, "prev": [*prev]}},
        "domain": "account__person" if of_account else "post",
        "v": 4,
    }
    sig = by.sign(SIGNATURE_TAG + canonical(metadata))
    return from_json({"data": data, "metadata": metadata, "sigkey": by.public, "sig": sig})


def account_data(draw: st.DrawFn, number: int) -> Json:
    key = draw(st.sampled_from(KEYS))
    data: dict[str, Json] = {
        "action": draw(st.sampled_from(["add", "add", "del"])),
        "key": {"purpose": "sig", "algorithm": "ed25519", "bytes": key.public},
        "powers": [*draw(st.lists(st.sampled_from(["add", "del"]), max_size=2))],
        "number": number,
    }
    if draw(st.integers(0, 4)):
        data["consent"] = accounts.consent(key, ROOT.id)
    return data


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """An account and a feed, written by whoever holds a key, rightly and wrongly."""
    messages: dict[MessageId, list[Message]] = {ROOT.id: [ROOT], MOOT.id: [MOOT]}
    for number in range(draw(st.integers(1, 9))):
        tangle = draw(st.sampled_from([ROOT.id, MOOT.id]))
        structure = Tangle(tangle, messages[tangle])
        before = draw(st.lists(st.sampled_from(messages[tangle]), min_size=1, max_size=2, unique_by=lambda one: one.id))
        depth = 1 + max(structure.depth(one.id) or 0 for one in before)
        if draw(st.integers(0, 6)) == 0:
            depth += draw(st.integers(1, 2))
        tips: Json = [
            one.id
            for one in draw(
                st.lists(st.sampled_from(messages[ROOT.id]), min_size=1, max_size=2, unique_by=lambda one: one.id)
            )
        ]
        data: Json = {"text": f"post {number}"}
        if tangle == ROOT.id:
            data = account_data(draw, number)
        prev = sorted(one.id for one in before)
        messages[tangle].append(crafted(draw(st.sampled_from(KEYS)), tangle, depth, prev, tips, data))
    return messages[ROOT.id] + messages[MOOT.id]


@st.composite
def histories_with_copies(draw: st.DrawFn) -> list[Message]:
    """The same, with copies of some messages that others have signed."""
    messages = draw(histories())
    copies: list[Message] = []
    for message in draw(st.lists(st.sampled_from(messages), max_size=4)):
        by = draw(st.sampled_from(KEYS))
        sig = by.sign(message.signed)
        copies.append(from_json({"data": message.data, "metadata": message.metadata, "sigkey": by.public, "sig": sig}))
    return messages + copies


def judgements(store: MemoryStore, messages: list[Message]) -> dict[Spot, Judgement | None]:
    return {
        Spot(tangle, message.id): store.standing.judgement(tangle, message.id)
        for message in messages
        for tangle in (message.id, *message.places)
    }


def marks(store: MemoryStore, messages: list[Message]) -> dict[Spot, Mark | None]:
    return {spot: found.mark if found else None for spot, found in judgements(store, messages).items()}


@given(histories_with_copies(), st.data())
def test_the_order_of_arrival_means_nothing(messages: list[Message], data: st.DataObject) -> None:
    first, second = MemoryStore(), MemoryStore()
    first.load(messages * len(messages))
    for message in data.draw(st.permutations(messages)):
        if data.draw(st.booleans()):
            second.load([message.erased()])
        second.load([message])
    # A copy that could not be proven when it came, and was passed over for another, comes again.
    second.load(data.draw(st.permutations(messages)) * len(messages))
    found = marks(first, messages)
    # Of several faults, which one is named depends on what was known first.
    assert marks(second, messages) == found
    for message in messages:
        # What waits builds on something that nobody who may has signed.
        if found[Spot(message.id, message.id)] is Mark.WAITING:
            assert Mark.INTEROP in found.values()


@given(histories(), st.data())
def test_with_less_known_a_message_waits_or_is_judged_the_same(messages: list[Message], data: st.DataObject) -> None:
    whole, part = MemoryStore(), MemoryStore()
    whole.load(messages)
    known = [message for message in messages if data.draw(st.integers(0, 3))]
    part.load(known)
    for spot, judgement in judgements(part, known).items():
        assert judgement is not None
        expected = whole.standing.judgement(*spot)
        assert expected is not None
        # A fault of the message may be seen before a fault of what it builds on; that there is one is certain.
        assert judgement.mark in (Mark.WAITING, expected.mark)


@given(histories())
def test_what_is_full_builds_on_full_messages_and_on_nothing_else(messages: list[Message]) -> None:
    store = MemoryStore()
    store.load(messages)
    alone = MemoryStore()
    full = [
        message for message in messages if store.standing.is_full(next(iter(message.places), message.id), message.id)
    ]
    for message in full:
        for tangle, place in message.places.items():
            assert all(store.standing.is_full(tangle, before) for before in place.prev)
            depths = [store.tangle(tangle).depth(before) or 0 for before in place.prev]
            assert place.depth == 1 + max(depths)
    # Whoever holds the full ones alone comes to the same, and takes each of them from a modern peer.
    for message in full:
        alone.add_modern(message, next(iter(message.places), message.id))
    assert {message.id for message in alone} == {message.id for message in full}
    view = {tangle: set(store.standing.full_tangle(tangle)) for tangle in (ROOT.id, MOOT.id)}
    assert view == {tangle: set(alone.tangle(tangle)) for tangle in (ROOT.id, MOOT.id)}


@scaled(0.5)
@given(histories_with_copies(), st.data())
def test_what_comes_from_modern_peers_is_full_or_waits(messages: list[Message], data: st.DataObject) -> None:
    judged, modern = MemoryStore(), MemoryStore()
    judged.load(messages * len(messages))
    # Whoever is refused comes again, until nothing more is taken.
    for message in data.draw(st.permutations(messages)) * len(messages):
        tangle = next(iter(message.places), message.id)
        with suppress(InvalidMessage):
            modern.add_modern(message, tangle)
    for message in messages:
        tangle = next(iter(message.places), message.id)
        found = modern.standing.judgement(tangle, message.id)
        if judged.standing.is_full(tangle, message.id):
            assert found is not None
            assert found.mark is Mark.FULL
        else:
            assert found is None or found.mark is Mark.WAITING
    for tangle in (ROOT.id, MOOT.id):
        modern.tangle(tangle).check()
