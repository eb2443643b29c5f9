"""What a node offers of what waits: only what another one would let wait as well."""

import itertools

import pytest

from bobbin.tangles import compose
from bobbin.tangles.errors import Rule
from bobbin.tangles.judgement import Mark
from bobbin.tangles.keys import Keypair
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author, signed_again
from tests.tangle_pairs import modern_pair, store_of, sync
from tests.unit.tangles.test_judgement import (
    ALICE,
    BOB,
    MOOT,
    POSTS,
    ROOT,
    account,
    adding,
    crafted,
    held,
    mark,
    signed_by,
)


def offered(store: MemoryStore, tangle: MessageId, *messages: Message) -> list[bool]:
    found = [store.standing.judgement(tangle, message.id) for message in messages]
    return [judgement is not None and judgement.is_offered for judgement in found]


def test_what_a_key_has_signed_that_may_not_is_not_offered_while_it_waits() -> None:
    forged = signed_by(Keypair.from_words("stranger"), POSTS[2])
    assert len(POSTS[2].places[MOOT.id].prev) > 1
    store = held(ROOT, MOOT, POSTS[0], forged)
    assert mark(store, MOOT.id, forged) == (Mark.WAITING, None)
    assert offered(store, MOOT.id, POSTS[0], forged) == [True, False]
    # A copy that may wait elsewhere takes its place, and not the other way round.
    store.load([POSTS[2]])
    assert (store.message(forged.id), offered(store, MOOT.id, forged)) == (POSTS[2], [True])
    store.load([forged])
    assert store.message(forged.id) == POSTS[2]
    store = held(ROOT, MOOT, POSTS[0], forged)
    store.load([POSTS[1]])
    assert mark(store, MOOT.id, forged) == (Mark.INTEROP, Rule.SIGKEY_UNAUTHORISED)


def test_what_another_node_would_refuse_is_not_offered() -> None:
    unknown = Keypair.from_words("nobody").public
    lonely = crafted(ALICE, MOOT.id, 3, [unknown])
    after = crafted(ALICE, MOOT.id, 4, [lonely.id])
    beside = crafted(ALICE, MOOT.id, 3, sorted([unknown, MOOT.id]))
    tipped = crafted(ALICE, MOOT.id, 1, [MOOT.id], accountTips=[unknown])
    reply = crafted(ALICE, MOOT.id, 2, [tipped.id])
    for messages in itertools.permutations([lonely, after, beside]):
        assert offered(held(ROOT, MOOT, *messages), MOOT.id, lonely, after, beside) == [False, False, True]
    assert offered(held(ROOT, MOOT, reply, tipped), MOOT.id, MOOT, tipped, reply) == [True, False, False]
    gap = adding(ALICE.key, BOB)
    later = compose.account_del(ALICE.key, account(gap), key=BOB.public)
    assert offered(held(ROOT, later), ROOT.id, ROOT, later) == [True, False]


def test_what_waits_is_offered_as_soon_as_it_could_be_taken() -> None:
    unknown = Keypair.from_words("nobody").public
    add = adding(ALICE.key, BOB)
    first = crafted(ALICE, MOOT.id, 3, sorted([unknown, MOOT.id]), accountTips=[add.id])
    second = crafted(ALICE, MOOT.id, 4, [first.id])
    third = crafted(ALICE, MOOT.id, 5, [second.id])
    store = held(ROOT, MOOT, third, second, first)
    assert offered(store, MOOT.id, first, second, third) == [False, False, False]
    store.load([add])
    assert offered(store, MOOT.id, first, second, third) == [True, True, True]


@pytest.mark.parametrize("opener", [0, 1])
@pytest.mark.parametrize("kind", ["signer", "tips", "after it"])
def test_what_a_peer_must_refuse_is_not_offered_in_every_run(kind: str, opener: int) -> None:
    """Real peers take it. It was offered again in every run, and all accounts of the thread went along each time."""
    authors = [Author(f"author {number}") for number in range(20)]
    accounts = [author.account for author in authors]
    unknown = Keypair.from_words("nobody").public
    root = authors[0].say("root")
    place = Tangle(root.id, [root])
    thread = [root, *(author.say("reply", place) for author in authors)]
    forged = _forged_reply(authors[0], root, unknown, kind)
    stores = [store_of([*accounts, *thread], {root.id: "all"}) for _ in range(2)]
    stores[0].load([*forged, thread[1]])
    assert len(stores[0].tangle(root.id)) == len(thread) + len(forged)
    for seed in range(2):
        pair = modern_pair(*stores, seed=seed)
        sync(pair, root.id, opener)
        assert (pair.message_texts, [finished.agreed for finished in pair.sides[opener].finished]) == (0, [True])
        assert sum(len(raw) for _, raw in pair.log) < 300


def _forged_reply(author: Author, root: Message, unknown: MessageId, kind: str) -> list[Message]:
    def reply(prev: list[MessageId], depth: int, tips: list[MessageId], key: Keypair) -> Message:
        entry = {root.id: {"depth": depth, "prev": [*prev]}}
        metadata = {"account": author.account.id, "accountTips": [*tips], "tangles": entry, "domain": "post"}
        message = author.sign({"text": kind}, metadata)  # type: ignore[arg-type]
        return signed_again(key, message)

    if kind == "signer":
        prev = sorted([root.id, unknown])
        return [reply(prev, 2, [author.account.id], Keypair.from_words("stranger"))]
    first = reply([root.id], 1, [unknown], author.key)
    return [first] if kind == "tips" else [first, reply([first.id], 2, [author.account.id], author.key)]
