"""Two random stores converge to what their goals ask for, whatever the shape of the tangle and whoever begins."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, MessageId, decode
from bobbin.tangles.modern_frames import ModernLimits, Parcel
from bobbin.tangles.modern_frames import decode as decode_modern
from bobbin.tangles.modern_turns import SpanLimits
from bobbin.tangles.session import SessionConfig
from tests.properties.effort import scaled
from tests.support.tangle_messages import Author, accounts_of, closed, thread
from tests.tangle_pairs import Pair, held, modern_pair, phase_pair, store_of, sync

_GOALS = ("all", "newest-1", "newest-3", "newest-8", "none")
_TURNS_MAX = 12


def _shape(random: Random, author: Author) -> list[Message]:
    count = random.choice((0, 1, 3, 12, 40))
    kind = random.randrange(4)
    if kind == 0:
        return author.line(count)
    if kind == 1:
        return author.star(count)
    return author.weave(random, count, moot=kind == 2)


def _part(random: Random, messages: list[Message], author: Author) -> list[Message]:
    """A causally closed part, sometimes nothing, often the most of it; with the account as far as it needs it."""
    form = random.randrange(5)
    if form == 0:
        return []
    share = (1.0, 0.9, 0.5, 0.05)[form - 1]
    kept = [number for number in range(len(messages)) if random.random() < share]
    return [*author.account_messages, *closed(messages, messages[0].id, kept)]


def _world(seed: int, goals: tuple[str, ...] = _GOALS) -> tuple[Random, MessageId, list[MemoryStore]]:
    random = Random(seed)
    author = Author()
    messages = _shape(random, author)
    tangle = messages[0].id
    stores = [store_of(_part(random, messages, author), {tangle: random.choice(goals)}) for _ in range(2)]
    return random, tangle, stores


def _spans(random: Random) -> SpanLimits:
    """Small bounds bring out in small worlds what large ones do: sketches, their continuation, and lists instead."""
    return SpanLimits(first_symbols=random.choice((1, 2, 6, 32)), more_max=random.choice((0, 1, 4)))


def _sent(pair: Pair, number: int) -> list[Message]:
    """The messages that one side of the modern mode has sent."""
    frames = [decode_modern(raw, ModernLimits()) for who, raw in pair.log if who == number]
    return [decode(text) for frame in frames if isinstance(frame, Parcel) for text in frame.messages]


@given(st.integers(0, 2**32))
@scaled(0.25)
def test_the_modern_mode_gives_everybody_the_union(seed: int) -> None:
    random, tangle, stores = _world(seed, ("all",))
    before = [held(store, tangle) for store in stores]
    pair = modern_pair(stores[0], stores[1], seed=seed, spans=_spans(random))
    sync(pair, tangle, random.randrange(2))
    union = {id: before[0].get(id, False) or before[1].get(id, False) for id in before[0].keys() | before[1].keys()}
    assert held(stores[0], tangle) == held(stores[1], tangle) == union
    for number, side in enumerate(pair.sides):
        (finished,) = side.finished
        assert finished.agreed is True
        assert finished.missing == 0
        assert finished.refused == ()
        assert finished.turns <= _TURNS_MAX
        assert not side.ignored
        assert side.session.is_idle
        sent = [message.id for message in _sent(pair, number) if not message.is_account]
        assert sorted(sent) == sorted(id for id in before[number] if id not in before[1 - number])


@given(st.integers(0, 2**32))
@scaled(0.25)
def test_the_modern_mode_meets_all_goals(seed: int) -> None:
    random, tangle, stores = _world(seed)
    before = [held(store, tangle) for store in stores]
    tops = [max((store.tangle(tangle).depth(id) or 0 for id in held(store, tangle)), default=-1) for store in stores]
    top = max(tops)
    depths = {id: store.tangle(tangle).depth(id) for store in stores for id in held(store, tangle)}
    pair = modern_pair(stores[0], stores[1], seed=seed, spans=_spans(random))
    sync(pair, tangle, random.randrange(2))
    for number, (store, side) in enumerate(zip(stores, pair.sides, strict=True)):
        goal = store.goal(tangle)
        assert goal is not None
        after = held(store, tangle)
        low = {"all": 0, "none": top + 1}.get(goal.text, top - goal.count + 1)
        wanted = {id for id in before[1 - number] if (depths[id] or 0) >= low}
        assert wanted <= after.keys()
        assert all(after[id] or not before[1 - number][id] for id in wanted)
        assert before[number].items() <= after.items()
        if goal.text == "none":
            assert after == before[number]
        assert all(finished.missing == 0 and not finished.refused for finished in side.finished)
        assert len(side.finished) == 1
        assert not side.ignored


@given(st.integers(0, 2**32))
@scaled(0.25)
def test_a_second_run_of_the_modern_mode_sends_nothing(seed: int) -> None:
    random, tangle, stores = _world(seed)
    pair = modern_pair(stores[0], stores[1], seed=seed, spans=_spans(random))
    sync(pair, tangle, random.randrange(2))
    state, texts = [list(store) for store in stores], pair.message_texts
    sync(pair, tangle, random.randrange(2))
    assert [list(store) for store in stores] == state
    assert pair.message_texts == texts


@given(st.integers(0, 2**32))
@scaled(0.25)
def test_data_that_either_side_has_erased_is_filled_again(seed: int) -> None:
    """Both want everything, and nothing is missing but data."""
    random = Random(seed)
    author = Author()
    messages = author.weave(random, 15)
    tangle = messages[0].id
    stores = [store_of([*author.account_messages, *messages], {tangle: "all"}) for _ in range(2)]
    for message in messages:
        if random.random() < 0.5:
            random.choice(stores).erase(message.id)
    pair = modern_pair(stores[0], stores[1], seed=seed, spans=_spans(random))
    sync(pair, tangle, random.randrange(2))
    assert all(held(store, tangle) == {message.id: True for message in messages} for store in stores)
    assert all(finished.agreed for side in pair.sides for finished in side.finished)


@given(st.integers(0, 2**32))
@scaled(0.25)
def test_the_nine_phases_give_everybody_the_union(seed: int) -> None:
    """With filters for as many messages as there are. One miss in 10**15 is left."""
    random, tangle, stores = _world(seed, ("all",))
    before = [held(store, tangle) for store in stores]
    pair = phase_pair(stores[0], stores[1], SessionConfig(size_by_count=True, checking=True))
    sync(pair, tangle, random.randrange(2))
    assert held(stores[0], tangle).keys() == held(stores[1], tangle).keys() == before[0].keys() | before[1].keys()
    assert all(side.session.is_idle and len(side.finished) == 1 for side in pair.sides)


def _thread_world(seed: int) -> tuple[Random, MessageId, list[MemoryStore], list[list[Message]]]:
    """A thread of several accounts, of which each side has those that its part needs."""
    random = Random(seed)
    authors = [Author(name) for name in ("ann", "ben", "cid")]
    messages = thread(random, authors, random.choice((2, 8, 20)))
    tangle = messages[0].id
    parts = [
        closed(messages, tangle, [n for n in range(len(messages)) if random.random() < random.choice((0.0, 0.5, 0.9))])
        for _ in range(2)
    ]
    parts = [part if random.random() < 0.9 else [] for part in parts]
    stores = [store_of([*accounts_of(authors, part), *part], {tangle: "all"}) for part in parts]
    return random, tangle, stores, [accounts_of(authors, part) for part in parts]


@given(st.integers(0, 2**32))
@scaled(0.25)
def test_threads_come_with_the_accounts_of_those_who_wrote_them(seed: int) -> None:
    random, tangle, stores, accounts = _thread_world(seed)
    before = [held(store, tangle) for store in stores]
    pair = modern_pair(stores[0], stores[1], seed=seed, spans=_spans(random))
    sync(pair, tangle, random.randrange(2))
    assert held(stores[0], tangle) == held(stores[1], tangle)
    assert held(stores[0], tangle).keys() == before[0].keys() | before[1].keys()
    known = {message.id for store in stores for message in store if message.is_account}
    for number, (store, side) in enumerate(zip(stores, pair.sides, strict=True)):
        assert {message.id for message in store if message.is_account} == known
        assert all(store.standing.is_full(tangle, id) for id in held(store, tangle))
        assert [finished.agreed for finished in side.finished] == [True]
        sent = [message.id for message in _sent(pair, number) if message.is_account]
        lacking = known - {message.id for message in accounts[1 - number]}
        assert lacking <= set(sent)
        assert len(sent) == len(set(sent)), "nothing goes out twice"


@given(st.integers(0, 2**32))
@scaled(0.25)
def test_threads_in_nine_phases_come_with_the_accounts_of_those_who_wrote_them(seed: int) -> None:
    random, tangle, stores, _ = _thread_world(seed)
    before = [held(store, tangle) for store in stores]
    pair = phase_pair(stores[0], stores[1], SessionConfig(size_by_count=True, checking=True))
    sync(pair, tangle, random.randrange(2))
    assert held(stores[0], tangle).keys() == held(stores[1], tangle).keys() == before[0].keys() | before[1].keys()


@pytest.mark.slow
@given(st.integers(0, 2**32))
@scaled(1)
def test_larger_worlds_converge_by_sketches(seed: int) -> None:
    """Enough messages at one depth that they are not just listed."""
    random = Random(seed)
    author = Author()
    messages = author.star(random.choice((60, 90, 150)))
    tangle = messages[0].id
    share = random.choice((0.5, 0.9, 0.98))
    parts = [[messages[0], *(m for m in messages[1:] if random.random() < share)] for _ in range(2)]
    stores = [store_of([*author.account_messages, *part], {tangle: "all"}) for part in parts]
    pair = modern_pair(stores[0], stores[1], seed=seed, spans=_spans(random))
    sync(pair, tangle, random.randrange(2))
    union = {message.id: True for part in parts for message in part}
    assert held(stores[0], tangle) == held(stores[1], tangle) == union
    assert all(side.finished[-1].agreed for side in pair.sides)
    lacking = [len(union) - len(part) for part in parts]
    assert pair.message_texts == sum(lacking)
