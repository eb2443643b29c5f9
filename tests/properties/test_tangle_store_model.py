"""The tangles of a store on the disk and those in memory are the same, whatever is done to both."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.sqlite import open_store
from bobbin.store.tangles import Level
from bobbin.tangles import accounts, compose
from bobbin.tangles.errors import InvalidMessage
from bobbin.tangles.goals import Goal, GoalKind
from bobbin.tangles.keys import Keypair
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message
from bobbin.tangles.tangle import Tangle
from tests.simulation.tangle_store_world import population
from tests.support.tangle_messages import Author, signed_again

STEPS = 25


def model_add(model: MemoryStore, message: Message, *, modern: bool) -> bool:
    tangle = message.id if message.is_root else min(message.places)
    known = [root for root in sorted(message.places) if model.tangle(root).root is not None]
    try:
        (model.add_modern if modern else model.add)(message, known[0] if known else tangle)
    except InvalidMessage:
        return False
    return True


def standings(model: MemoryStore, roots: set[str]) -> dict[str, set[str]]:
    return {root: {id for id in model.tangle(root) if model.standing.is_full(root, id)} for root in roots}


def check(model: MemoryStore, store: TangleStore, messages: list[Message]) -> None:
    kept = {row.id: row for row in store.kept()}
    assert {id: row.is_erased for id, row in kept.items()} == {
        message.id: not message.has_data and not message.is_moot for message in model
    }
    assert {id: row.raw for id, row in kept.items()} == {message.id: message.raw for message in model}
    roots = {message.id for message in messages if message.is_root}
    assert {root: set(store.proven(root)) for root in roots} == standings(model, roots)
    believed = {
        message.id
        for message in model
        if any(model.standing.is_full(root, message.id) for root in (message.id, *message.places))
    }
    assert {id for id, row in kept.items() if row.level is Level.MODERN} == believed
    for root in roots:
        sound = {
            id
            for id in model.tangle(root)
            if (judged := model.standing.judgement(root, id)) is None or judged.is_offered
        }
        assert set(store.shelf.sound(root)) == sound


def hostile(random: Random) -> list[Message]:
    """An account with several keys and a feed; copies of all that which others have signed; and posts at wrong depths.

    In any order, so that what is wrong often comes before what would show it.
    """
    alice = Author("alice")
    second, stranger = (Keypair.from_words(words) for words in ("second", "stranger"))
    account = Tangle(alice.account.id, [alice.account])
    consent = accounts.consent(second, account.id)
    changes = [compose.account_add(alice.key, account, key=second.public, consent=consent, powers=("add", "del"))]
    account.add(changes[-1])
    for words in ("third", "fourth"):
        changes.append(compose.account_del(alice.key, account, key=Keypair.from_words(words).public))
        account.add(changes[-1])
    alice.sees(*changes)
    moot, *posts = alice.feed(8)
    wrong = [
        alice.sign(
            {"text": f"wrong {depth}"},
            {
                "account": account.id,
                "accountTips": [*sorted(account.tips())],
                "tangles": {moot.id: {"depth": depth, "prev": [*sorted([posts[1].id, posts[at].id])]}},
                "domain": "post",
            },
        )
        for at, depth in ((2, 4), (2, 9), (4, 6), (4, 20))
    ]
    genuine = [*changes, *posts, *wrong]
    copies = [signed_again(key, message) for message in genuine for key in (second, stranger)]
    shuffled = [*genuine, *copies]
    random.shuffle(shuffled)
    return [alice.account, moot, *shuffled]


SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 20))]


@pytest.mark.parametrize("made", [population, hostile])
@pytest.mark.parametrize("seed", SEEDS)
def test_both_hold_the_same_and_believe_the_same(
    seed: int, made: Callable[[Random], list[Message]], tmp_path: Path
) -> None:
    random = Random(seed)
    messages = made(random)
    model = MemoryStore()
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as opened:
        store = TangleStore(opened.tangles)
        for _ in range(STEPS):
            if random.random() < 0.3:
                store = TangleStore(opened.tangles)
            if random.random() < 0.85:
                chosen = sorted(random.sample(range(len(messages)), random.randrange(1, 12)))
                some = [messages[at].erased() if random.random() < 0.1 else messages[at] for at in chosen]
                modern = random.random() < 0.5
                done = store.commit(some, level=Level.MODERN if modern else Level.INTEROP)
                taken = [model_add(model, message, modern=modern) for message in some]
                assert [one.message for one in done.refused] == [
                    message.id for message, was in zip(some, taken, strict=True) if not was
                ]
            elif held := [message.id for message in model if not message.is_account]:
                id = random.choice(held)
                store.erase(id)
                model.erase(id)
            check(model, store, messages)
        assert list(opened.check()) == []


def test_a_goal_leaves_the_same(tmp_path: Path) -> None:
    messages = population(Random(7))
    feed = next(message.id for message in messages if message.is_moot and message.domain == "post")
    model = MemoryStore()
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as opened:
        store = TangleStore(opened.tangles)
        store.commit(messages)
        for message in messages:
            assert model_add(model, message, modern=False)
        store.set_goal(feed, "newest-3")
        model.set_goal(feed, Goal(GoalKind.NEWEST, 3))
        swept, expected = store.collect(strict=True), model.sweep()
        assert (set(swept.deleted), set(swept.erased)) == (set(expected.deleted), set(expected.erased))
        assert {row.id for row in store.kept()} == {message.id for message in model}
        assert list(opened.check()) == []
