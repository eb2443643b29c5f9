"""What two nodes owe each other, by brute force."""

from random import Random

from bobbin.simulator.tangle_keepers import SPAN, MemoryKeeper
from bobbin.simulator.tangle_people import FEED, SET, Pen, Person
from bobbin.simulator.tangle_promises import (
    Seen,
    _is_cut_off,
    _let_go,
    hears,
    needed_from,
    owed,
    top_of,
    unproven,
    view_of,
    wanted_from,
)
from bobbin.simulator.tangle_truth import Truth
from bobbin.tangles import compose
from bobbin.tangles.accounts import consent
from bobbin.tangles.goals import parse_goal
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.tangle import Tangle


def feed_of(count: int, domain: str = FEED) -> tuple[Person, MemoryKeeper, Truth, list[Message]]:
    person, keeper, truth = Person("alice", Random(0)), MemoryKeeper(), Truth()
    messages: list[Message] = []

    def take_down(message: Message, tangle: MessageId) -> None:
        assert keeper.put(message, tangle) is None
        truth.learn(message)
        messages.append(message)

    take_down(person.root, person.account)
    pen = Pen(Random(2), keeper, take_down)
    for _ in range(count):
        if domain == FEED:
            pen._append(person, person.keys[0], FEED, {"text": "x"})
        else:
            pen._update(person, person.keys[0], domain)
    return person, keeper, truth, messages


def test_who_has_nothing_is_owed_what_its_goal_asks_for() -> None:
    person, keeper, truth, messages = feed_of(8)
    feed, empty = person.feeds[FEED], MemoryKeeper()
    assert owed(empty, keeper, feed, truth) == [], "it has no goal"
    for goal, count in (("all", 9), ("newest-3", 3), ("none", 0), ("newest-0", 0)):
        empty.set_goal(feed, parse_goal(goal))
        assert len(owed(empty, keeper, feed, truth)) == count, goal
    empty.set_goal(feed, parse_goal("all"))
    for message in messages:
        empty.put(message, next(iter(message.places), message.id))
    assert owed(empty, keeper, feed, truth) == unproven(empty, keeper, feed, truth) == []
    empty.store.erase(messages[4].id)
    assert "has no data" in owed(empty, keeper, feed, truth)[0]
    empty.store.delete(messages[-1].id)
    assert "None" in unproven(empty, keeper, feed, truth)[0]


def test_the_newest_are_counted_as_the_reference_does_in_nine_phases() -> None:
    person, keeper, _, messages = feed_of(13)
    feed, behind = person.feeds[FEED], MemoryKeeper()
    for message in messages[:7]:
        behind.put(message, next(iter(message.places), message.id))
    own, other = (view_of(one, feed) for one in (behind, keeper))
    assert [top_of(view, modern=modern) for view in (own, other) for modern in (True, False)] == [5, 5, 13, 13]
    bare = {id: seen._replace(has_data=seen.depth < 9) for id, seen in other.items()}
    assert [top_of(bare, modern=modern) for modern in (True, False)] == [13, 8]
    goal = parse_goal("newest-3")
    assert wanted_from(behind, goal, own, other, modern=False) == 6
    assert wanted_from(behind, goal, own, other, modern=True) == 11
    assert wanted_from(keeper, goal, other, own, modern=False) == 11


def test_what_a_set_needs() -> None:
    person, keeper, _, messages = feed_of(12, SET)
    view = view_of(keeper, person.feeds[SET], Truth())
    least = needed_from(keeper, view)
    superseded = {id for message in messages[2:] for id in message.data["supersedes"]}  # type: ignore[index,union-attr,call-overload]
    assert least == min(view[message.id].depth for message in messages[2:] if message.id not in superseded)
    goal = parse_goal("set")
    assert wanted_from(keeper, goal, view, view, modern=True) == max(0, least - SPAN)
    assert wanted_from(keeper, goal, {}, view, modern=False) == 0
    root_only = {person.feeds[SET]: view[person.feeds[SET]]}
    assert wanted_from(keeper, goal, root_only, view, modern=False) is None
    assert wanted_from(keeper, goal, root_only, view, modern=True) == 0


def test_what_the_oldest_kept_message_claims_to_come_after_is_let_go_with_the_older_ones() -> None:
    view = {
        "root": Seen(0, (), has_data=False),
        "a backwards one": Seen(1, ("deeper", "root"), has_data=True),
        "beside": Seen(1, ("root",), has_data=True),
        "deeper": Seen(2, ("beside",), has_data=True),
    }
    assert _let_go(parse_goal("newest-3"), view) == {"root", "beside", "deeper"}
    assert _let_go(parse_goal("newest-1"), view) == {"root", "a backwards one", "beside"}
    assert _let_go(parse_goal("all"), view) == frozenset()


def _with_new_key() -> tuple[Person, MemoryKeeper, Truth, list[Message]]:
    """A feed of which the last message is signed with a key that was added in between: that is the last but one."""
    person, keeper, truth, messages = feed_of(2)

    def take_down(message: Message, tangle: MessageId) -> None:
        assert keeper.put(message, tangle) is None
        truth.learn(message)
        messages.append(message)

    pen = Pen(Random(3), keeper, take_down)
    pen.add_key(person)
    pen._append(person, person.keys[1], FEED, {"text": "signed anew"})
    return person, keeper, truth, messages


def test_what_neither_side_can_prove_the_account_of_is_not_owed() -> None:
    person, whole, truth, messages = _with_new_key()
    feed, key, last = person.feeds[FEED], messages[-2], messages[-1]
    waits, wants = MemoryKeeper(), MemoryKeeper()
    waits.store.load(message for message in messages if message is not key)
    for message in messages[:3]:
        wants.put(message, next(iter(message.places), message.id))
    wants.set_goal(feed, parse_goal("newest-1"))
    assert [last.id in line for line in owed(wants, whole, feed, truth)] == [True]
    lines = owed(wants, waits, feed, truth)
    assert not any(last.id in line for line in lines), "the neighbour took it in nine phases, and waits for the key"
    waits.store.load([key])
    assert [last.id in line for line in owed(wants, waits, feed, truth)] == [True]


def test_news_must_come_where_the_account_can_be_told() -> None:
    person, whole, truth, messages = _with_new_key()
    del person
    last = messages[-1]
    nothing, knows = MemoryKeeper(), MemoryKeeper()
    for message in messages[:-1]:
        knows.put(message, next(iter(message.places), message.id))
    assert hears([whole, nothing], [True], last, truth), "the account goes along"
    assert not hears([whole, nothing], [False], last, truth), "not in nine phases"
    assert hears([whole, knows], [False], last, truth)
    assert hears([whole, nothing, nothing], [True, True], last, truth)
    assert not hears([whole, nothing, knows], [False, True], last, truth), "it does not get as far as that"
    assert hears([whole, knows, nothing], [False, True], last, truth)
    assert not hears([nothing, nothing], [True], last, truth)


def test_news_in_nine_phases_must_come_only_where_their_key_is_known() -> None:
    person, whole, truth, messages = _with_new_key()
    key, last = messages[-2], messages[-1]
    assert last.account_tips == (key.id,)
    # Elsewhere a third key was added, and then the second one removed: a real peer reads that beside the tip.
    account, third = Tangle(person.account, [person.root]), Keypair.from_words("third")
    agreed = consent(third, person.account)
    added = compose.account_add(person.keys[0], account, key=third.public, consent=agreed)
    account.add(added)
    removed = compose.account_del(person.keys[0], account, key=last.sigkey)
    reader = MemoryKeeper()
    reader.store.load([*messages[:-1], added])
    assert hears([whole, reader], [False], last, truth)
    reader.store.load([removed])
    assert not hears([whole, reader], [False], last, truth)
    # What comes after the tip is not read.
    later = compose.account_del(person.keys[0], Tangle(person.account, [person.root, key]), key=last.sigkey)
    reader = MemoryKeeper()
    reader.store.load([*messages[:-1], later])
    assert hears([whole, reader], [False], last, truth)
    reader.store.erase(key.id)
    assert not hears([whole, reader], [False], last, truth), "the tip is there, and does not say which key it adds"


def test_what_was_proven_is_cut_off_when_all_that_leads_to_it_is_let_go() -> None:
    person, keeper, _, messages = feed_of(6)
    feed = person.feeds[FEED]
    *_, before, last = messages
    assert last.places[feed].prev == (before.id,), "no long way leads past it"
    assert not _is_cut_off(keeper, last.id)
    keeper.store.delete(before.id)
    assert _is_cut_off(keeper, last.id)
    assert not _is_cut_off(keeper, messages[2].id)
    assert not _is_cut_off(keeper, before.id), "it is not held"
    # What never was proven and hangs has to be kept back.
    hanging = MemoryKeeper()
    hanging.store.load([*messages[:2], last])
    assert not _is_cut_off(hanging, last.id)
    keeper.store.delete(feed)
    assert not _is_cut_off(keeper, last.id), "nothing of a tangle is offered without its root"
