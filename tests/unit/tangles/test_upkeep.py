"""What may go: purposes as a real peer gives them, what a sweep does, and what it never takes."""

from typing import Any

import pytest

from bobbin.tangles import accounts, compose
from bobbin.tangles.goals import parse_goal
from bobbin.tangles.keys import Keypair
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, MessageId, from_json
from bobbin.tangles.ranges import EMPTY, Range
from bobbin.tangles.upkeep import Ghost, Plan, Purpose, goal_range, prune_newest, sweep
from tests.support.tangle_messages import Author
from tests.vectors.load import load

FEEDS = ["feed-all", "feed-newest20", "feed-newest3", "feed-none"]
DICTS = ["dict-basic", "dict-span4"]
SETS = ["set-basic", "set-one", "set-span32"]


def recorded(name: str) -> tuple[dict[str, Any], MemoryStore]:
    case = load(f"pzp/goals/purpose-{name}.json")
    store = MemoryStore(span=case["ghostSpan"])
    messages = {id: from_json(value) for id, value in case["messages"].items()}
    store.load(messages[id] if state == "dataful" else messages[id].erased() for id, state in case["records_before"])
    store.set_goal(case["tangleID"], parse_goal(case["goal"]))
    return case, store


def records(store: MemoryStore, *, accounts_too: bool = True) -> list[list[str]]:
    return [
        [message.id, "dataful" if message.has_data else "dataless"]
        for message in store
        if accounts_too or not message.is_account
    ]


@pytest.mark.parametrize("name", FEEDS + DICTS + SETS)
def test_the_purposes_of_a_real_peer(name: str) -> None:
    case, store = recorded(name)
    plan = Plan(parse_goal(case["goal"]), store.tangle(case["tangleID"]), store.data, span=case["ghostSpan"])
    assert [[id, plan.purpose(id)] for id, _, _ in case["purposes"]] == [[id, why] for id, why, _ in case["purposes"]]


@pytest.mark.parametrize("name", [*FEEDS, *DICTS, "set-one"])
def test_a_sweep_leaves_what_a_real_peer_leaves_and_the_account(name: str) -> None:
    case, store = recorded(name)
    store.sweep()
    assert records(store, accounts_too=False) == case["records_after_gc"]
    found = {case["tangleID"]: [[id, depth] for id, depth in ghosts_of(store, case["tangleID"])]}
    assert found[case["tangleID"]] == case["ghosts_after_gc"].get(case["tangleID"], [])
    kept_accounts = [message.id for message in store if message.is_account]
    assert bool(kept_accounts) == bool(case["records_after_gc"])


@pytest.mark.parametrize("name", SETS)
def test_a_sweep_of_a_set_follows_the_purposes_to_the_end(name: str) -> None:
    """A real peer stops half way through a set, so what it leaves is more."""
    case, store = recorded(name)
    store.sweep()
    why = {id: purpose for id, purpose, _ in case["purposes"]}
    expected = [
        [id, "dataful" if state == "dataful" and why[id] == "goal" else "dataless"]
        for id, state in case["records_before"]
        if why[id] in ("goal", "trail")
    ]
    assert records(store, accounts_too=False) == expected
    assert {id for id, _ in expected} <= {id for id, _ in case["records_after_gc"]}
    assert {id for id, _ in ghosts_of(store, case["tangleID"])} == {id for id in why if why[id] == "ghost"}
    assert store.sweep().deleted == ()


def ghosts_of(store: MemoryStore, tangle: MessageId) -> list[tuple[MessageId, int]]:
    registry = store._ghosts.get(tangle)
    return [] if registry is None else list(registry.depths.items())


@pytest.mark.parametrize("number", ["31", "32", "34", "35", "37", "38"])
def test_pruning_to_the_newest_as_a_real_peer_does(number: str) -> None:
    state = load(f"pzp/algo/state-{number}.json")
    messages = {id: from_json(value) for id, value in state["messages"].items()}
    assert state["pruneNewest"]
    store = MemoryStore()
    store.load(messages[id] if kept == "dataful" else messages[id].erased() for id, kept in state["alice_records"])
    for case in state["pruneNewest"]:
        store.prune_newest(state["tangleID"], case["count"])
        assert sorted(records(store)) == sorted(case["records_after"])


def test_pruning_keeps_the_trail() -> None:
    alice = Author("alice")
    moot, *posts = alice.feed(9)
    store = MemoryStore()
    store.load([alice.account, moot, *posts])
    tangle = store.tangle(moot.id)
    assert prune_newest(tangle, 99) == ([], [])
    assert prune_newest(tangle, 10) == ([], [])
    assert prune_newest(tangle, 0) == ([], [])
    removable = prune_newest(tangle, 3)
    # The seventh of nine is the oldest to stay; it also comes after the third, and that after the root.
    assert removable.erasables == [posts[2].id, moot.id]
    assert set(removable.deletables) == {posts[number].id for number in (0, 1, 3, 4, 5)}


def test_ranges_of_goals() -> None:
    alice = Author("alice")
    moot, *posts = alice.feed(5)
    store = MemoryStore()
    store.load([moot, *posts])
    tangle = store.tangle(moot.id)
    expected = {
        "all": Range(0, 5),
        "none": EMPTY,
        "newest-2": Range(4, 5),
        "newest-0": Range(6, 5),
        "newest-9": Range(0, 5),
    }
    assert {goal: goal_range(parse_goal(goal), tangle, store.data) for goal in expected} == expected
    assert goal_range(parse_goal("all"), store.tangle("unknown"), store.data) == EMPTY
    bare = Author("alice").moot("set_v1__x")
    store.load([bare])
    assert goal_range(parse_goal("set"), store.tangle(bare.id), store.data) == EMPTY


def test_branches_keep_their_own_trails() -> None:
    """Two branches of different height: what is kept of the higher one can still be checked."""
    alice = Author("alice")
    moot, *line = alice.feed(6)
    tangle_alone = Author("alice")
    tangle_alone.moot()
    branch = [tangle_alone.post(moot.id, {"text": f"branch {number}"}) for number in range(7)]
    store = MemoryStore()
    store.load([alice.account, moot, *line, *branch])
    store.set_goal(moot.id, parse_goal("newest-2"))
    store.sweep()
    left = {message.id for message in store}
    assert {branch[6].id, branch[5].id, line[5].id} <= left
    for id in (branch[6].id, branch[5].id, line[5].id):
        assert store.tangle(moot.id).shortest_path(id)[-1] == moot.id


def test_accounts_of_what_is_kept_are_kept_whole() -> None:
    alice, bob, carol = (Keypair.from_words(words) for words in ("alice", "bob", "carol"))
    root, other = compose.account_root(alice, nonce="1"), compose.account_root(carol, nonce="2")
    store = MemoryStore()
    store.load([root, other])
    consent = accounts.consent(bob, root.id)
    add = compose.account_add(alice, store.tangle(root.id), key=bob.public, consent=consent)
    store.load([add])
    moot = compose.moot(alice, root.id, "post")
    store.load([moot])
    post = compose.post(
        bob, {"text": "x"}, account=store.tangle(root.id), domain="post", tangles=[store.tangle(moot.id)]
    )
    store.load([post])
    removal = compose.account_del(alice, store.tangle(root.id), key=bob.public)
    store.load([removal])
    store.set_goal(moot.id, parse_goal("all"))
    result = store.sweep()
    # The removal is not needed to check the post, but without it the key would count again.
    assert [message.id for message in store] == [root.id, add.id, moot.id, post.id, removal.id]
    assert result.deleted == (other.id,)
    assert result.erased == ()


def test_the_trail_of_an_account_is_not_erased_while_somebody_speaks_for_it() -> None:
    alice, bob = Keypair.from_words("alice"), Keypair.from_words("bob")
    root = compose.account_root(alice, nonce="1")
    store = MemoryStore()
    store.load([root])
    consent = accounts.consent(bob, root.id)
    add = compose.account_add(alice, store.tangle(root.id), key=bob.public, consent=consent)
    thread = compose.post(alice, {"text": "x"}, account=store.tangle(root.id), domain="post")
    store.load([add, thread])
    store.set_goal(root.id, parse_goal("newest-1"))
    assert sweep(store, store, {root.id: parse_goal("newest-1")}).erased == (root.id,)
    goals = {root.id: parse_goal("newest-1"), thread.id: parse_goal("all")}
    assert sweep(store, store, goals).erased == ()


def test_a_message_stays_while_any_of_its_tangles_asks_for_it() -> None:
    alice = Author("alice")
    moot, *_ = alice.feed(2)
    thread = alice.root({"text": "thread"})
    both = alice.post([moot.id, thread.id], {"text": "both"})
    store = MemoryStore()
    store.load([alice.account, moot, thread, both])
    store.set_goal(thread.id, parse_goal("all"))
    store.set_goal(moot.id, parse_goal("none"))
    store.sweep()
    assert {message.id for message in store} == {alice.account.id, thread.id, both.id}


def test_ghosts_are_named_with_their_tangle_and_depth() -> None:
    alice = Author("alice")
    moot = alice.moot("dict_v1__x")
    written: list[Message] = []
    for number in range(8):
        superseded = [message.id for message in written[-1:]]
        written.append(alice.post(moot.id, {"update": {"a": number}, "supersedes": [*superseded]}, "dict_v1__x"))
    store = MemoryStore(span=2)
    store.load([alice.account, moot, *written])
    plan = Plan(parse_goal("dict"), store.tangle(moot.id), store.data, span=2)
    assert [str(plan.purpose(message.id)) for message in written] == [
        "none", "none", "trail", "none", "none", "ghost", "trail", "goal"
    ]  # fmt: skip
    assert plan.purpose("unknown") is Purpose.NONE
    result = sweep(store, store, {moot.id: parse_goal("dict")}, span=2)
    assert result.deleted == tuple(written[number].id for number in (0, 1, 3, 4, 5))
    assert result.erased == (written[2].id, written[6].id)
    assert result.ghosts == (Ghost(moot.id, written[5].id, 6),)
