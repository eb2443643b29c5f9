"""The store in memory: what it holds after each change, and that it holds nothing invalid."""

import pytest

from bobbin.tangles.admission import Admission
from bobbin.tangles.errors import InvalidMessage, Rule, UnknownMessage
from bobbin.tangles.exchange import Credential
from bobbin.tangles.goals import parse_goal
from bobbin.tangles.judgement import Mark
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.ranges import WantAll, WantFrom
from tests.support.tangle_messages import Author

ALICE = Author("alice")
MOOT, *POSTS = ALICE.feed(4)


def filled() -> MemoryStore:
    store = MemoryStore()
    for message in (ALICE.account, MOOT, *POSTS):
        assert store.add(message, message.id if message.is_root else MOOT.id) is Admission.ADDED
    return store


def test_messages_and_tangles() -> None:
    store = filled()
    assert [message.id for message in store] == [ALICE.account.id, MOOT.id, *(post.id for post in POSTS)]
    assert len(store) == 6
    assert store.messages([POSTS[1].id, "unknown"]) == [POSTS[1], None]
    assert list(store.tangle(MOOT.id).topological()) == [MOOT.id, *(post.id for post in POSTS)]
    assert list(store.tangle(POSTS[2].id).topological()) == [POSTS[2].id]
    assert store.data(POSTS[0].id) == POSTS[0].data
    for tangle in (MOOT.id, ALICE.account.id, POSTS[2].id):
        store.tangle(tangle).check()
    with pytest.raises(UnknownMessage):
        store.data("unknown")


def test_credentials() -> None:
    store = filled()
    assert store.credentials([POSTS[0].id, ALICE.account.id, MOOT.id]) == [
        Credential(ALICE.account.id, (ALICE.account.id,)),
        Credential("self", None),
        Credential(ALICE.account.id, None),
    ]


def test_a_refused_message_changes_nothing() -> None:
    store = filled()
    stranger = Author("stranger")
    stranger.sees(MOOT)
    bad = stranger.post(MOOT.id, {"text": "hi"})
    for add in (store.add, store.add_modern):
        with pytest.raises(InvalidMessage):
            add(bad, MOOT.id)
    assert store.message(bad.id) is None
    assert bad.id not in store.tangle(MOOT.id)
    assert store.standing.judgement(MOOT.id, bad.id) is None


def test_modern_admission() -> None:
    store = MemoryStore()
    for message in (ALICE.account, MOOT, POSTS[0].erased()):
        assert store.add_modern(message, message.id if message.is_root else MOOT.id) is Admission.ADDED
    assert store.add_modern(POSTS[0].erased(), MOOT.id) is Admission.KNOWN
    assert store.add_modern(POSTS[0], MOOT.id) is Admission.FILLED
    assert store.add_modern(POSTS[0], MOOT.id) is Admission.KNOWN
    assert store.standing.is_full(MOOT.id, POSTS[0].id)


def test_data_comes_and_goes() -> None:
    store = filled()
    store.erase(POSTS[3].id)
    assert store.message(POSTS[3].id) == POSTS[3].erased()
    assert store.tangle(MOOT.id).max_depth_with_data() == 3
    assert store.add(POSTS[3].erased(), MOOT.id) is Admission.KNOWN
    assert store.add(POSTS[3], MOOT.id) is Admission.FILLED
    assert store.tangle(MOOT.id).max_depth_with_data() == 4
    store.erase(POSTS[0].id)
    store.add(POSTS[0], MOOT.id)
    assert [message.id for message in store][-1] == POSTS[0].id


def test_deleting() -> None:
    store = filled()
    store.delete(POSTS[3].id)
    assert store.message(POSTS[3].id) is None
    assert store.tangle(MOOT.id).tips() == {POSTS[2].id}
    assert store.add(POSTS[3], MOOT.id) is Admission.ADDED
    found = store.standing.judgement(MOOT.id, POSTS[3].id)
    assert found is not None
    assert found.mark is Mark.FULL
    with pytest.raises(UnknownMessage):
        store.delete("unknown")


def test_ghosts() -> None:
    store = MemoryStore(span=3)
    store.load([ALICE.account, MOOT])
    store.save_ghost(MOOT.id, POSTS[0].id, 1)
    store.save_ghost(MOOT.id, POSTS[2].id, 3)
    assert store.ghosts(MOOT.id) == (POSTS[0].id, POSTS[2].id)
    with pytest.raises(InvalidMessage) as caught:
        store.add(POSTS[0], MOOT.id)
    assert caught.value.rule is Rule.GHOST
    store.save_ghost(MOOT.id, POSTS[3].id, 4)
    assert store.ghosts(MOOT.id) == (POSTS[2].id, POSTS[3].id)
    assert store.ghosts("unknown") == ()


def test_goals_and_wishes() -> None:
    store = filled()
    assert store.goal(MOOT.id) is None
    assert store.wish(MOOT.id) is None
    store.set_goal(MOOT.id, parse_goal("all"))
    assert store.wish(MOOT.id) == WantAll()
    store.set_goal(MOOT.id, None)
    assert store.goal(MOOT.id) is None
    bare = ALICE.moot("set_v1__x")
    store.load([bare])
    store.set_goal(bare.id, parse_goal("set"))
    assert store.wish(bare.id) == WantFrom(None)
    assert store.wish(bare.id, modern=True) == WantFrom(0)


def test_pruning() -> None:
    store = filled()
    store.prune_newest(MOOT.id, 2)
    left = {message.id: message.has_data for message in store}
    assert left == {ALICE.account.id: True, MOOT.id: False, POSTS[2].id: True, POSTS[3].id: True}
    store.tangle(MOOT.id).check()


def test_what_waited_and_turns_out_wrong_goes_again() -> None:
    first = ALICE.sign(
        {"text": "first"},
        {
            "account": ALICE.account.id,
            "accountTips": [ALICE.account.id],
            "tangles": {MOOT.id: {"depth": 1, "prev": [MOOT.id]}},
            "domain": "post",
        },
    )
    wrong = ALICE.sign(
        {"text": "deep"},
        {
            "account": ALICE.account.id,
            "accountTips": [ALICE.account.id],
            "tangles": {MOOT.id: {"depth": 9, "prev": [*sorted([MOOT.id, first.id])]}},
            "domain": "post",
        },
    )
    store = MemoryStore()
    store.load([ALICE.account, MOOT])
    store.add_modern(wrong, MOOT.id)
    assert store.message(wrong.id) == wrong
    store.add_modern(first, MOOT.id)
    assert store.message(wrong.id) is None
    assert list(store.tangle(MOOT.id).topological()) == [MOOT.id, first.id]
    # A real peer keeps what it has once let in; so what came from one stays, marked.
    store.delete(first.id)
    store.add(wrong, MOOT.id)
    store.add_modern(first, MOOT.id)
    assert store.message(wrong.id) == wrong
    found = store.standing.judgement(MOOT.id, wrong.id)
    assert found is not None
    assert (found.mark, found.rule) == (Mark.INTEROP, Rule.DEPTH)
