"""What simulated worlds of tangles have found, each as the shortest case that shows it."""

from pathlib import Path
from random import Random

import pytest

from bobbin.runtime.tangle_store import TangleStore
from bobbin.simulator.tangle_forgery import Forger
from bobbin.simulator.tangle_keepers import MemoryKeeper
from bobbin.simulator.tangle_people import FEED, Pen, Person
from bobbin.store.sqlite import open_store
from bobbin.store.tangles import Level
from bobbin.tangles import compose
from bobbin.tangles.accounts import consent
from bobbin.tangles.errors import Rule
from bobbin.tangles.judgement import Mark
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author
from tests.tangle_pairs import held, modern_pair, store_of, sync


def two_tangles(author: Author) -> tuple[list[Message], Message, Message]:
    """A feed, the root of a thread, and an answer that stands in both."""
    feed, thread = author.line(2), author.say("topic")
    reply = author.say("answer", Tangle(feed[0].id, feed), Tangle(thread.id, [thread]))
    return feed, thread, reply


def test_a_later_message_of_an_account_is_no_root_in_the_next_process_either(tmp_path: Path) -> None:
    # In memory it was judged by its places. Read again from the store it counted as proven, for its place in the
    # account, also as the root of a tangle of its own: two nodes would have disagreed about what stands in that.
    author = Author()
    later = author.add_key("later")
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as store:
        TangleStore(store.tangles).commit(author.account_messages, tangle=author.account.id, level=Level.MODERN)
        again = TangleStore(store.tangles)
        marks = [again.judgement(root, later.id) for root in (author.account.id, later.id)]
    assert [found.mark for found in marks if found is not None] == [Mark.FULL, Mark.INTEROP]


def test_a_message_that_is_too_long_is_so_without_its_data() -> None:
    # A trail brings messages without data. Without, a message of any length was short enough, and was proven.
    person, keeper = Person("alice", Random(0)), MemoryKeeper()
    keeper.put(person.root, person.account)
    feed = Pen(Random(1), keeper, lambda message, tangle: _taken(keeper.put(message, tangle))).begin(person, FEED)
    long = Forger(Random(2), person, [person])._oversized(feed, keeper.tangle, [])
    for copy in (long, long.erased()):
        assert str(keeper.put(copy, feed.id)).startswith(Rule.TOO_LARGE)


def _taken(refused: str | None) -> None:
    assert refused is None


@pytest.mark.parametrize("opener", [0, 1])
def test_what_is_held_without_the_root_comes_with_it(opener: int) -> None:
    # The answer came by the thread. Of the feed nothing else was there, so that nobody could say anything about it; yet
    # for somebody who wants the newest message alone nothing seemed to be missing.
    author = Author()
    feed, thread, reply = two_tangles(author)
    whole = store_of([*author.account_messages, *feed, thread, reply], {})
    part = store_of([*author.account_messages, thread, reply], {feed[0].id: "newest-1"})
    sync(modern_pair(part, whole), feed[0].id, opener)
    structure = part.tangle(feed[0].id)
    assert structure.root is not None
    assert reply.id in structure.topological()


def test_what_is_let_go_during_a_run_is_not_sent_and_breaks_nothing() -> None:
    # Upkeep may come between the moment at which a side says what it has and the one at which it sends it.
    author = Author()
    star = author.star(6)
    tangle = star[0].id
    whole = store_of([*author.account_messages, *star], {tangle: "all"})
    part = store_of([*author.account_messages, star[0], star[1]], {tangle: "all"})
    pair = modern_pair(part, whole)
    pair.open(0, tangle)
    for _ in range(2):
        number, raw = pair.wire.popleft()
        pair.deliver(1 - number, raw)
    whole.delete(star[4].id)
    pair.run()
    assert all(side.session.is_idle for side in pair.sides)
    assert held(part, tangle).keys() == {message.id for message in star if message is not star[4]}


def test_data_that_comes_and_goes_in_one_commit(tmp_path: Path) -> None:
    # In nine phases what comes for the newest messages may be let go at once. Where that was the data of a message
    # that was kept without, the store was asked to keep it without data a second time, and refused the whole commit.
    author = Author()
    feed = author.line(8)
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as store:
        tangles = TangleStore(store.tangles)
        tangles.commit([*author.account_messages, *feed], tangle=feed[0].id, newest=2)
        erased = next(one for one in feed[1:] if one.id in tangles.tangle(feed[0].id))
        assert not tangles.tangle(feed[0].id).has_data(erased.id)
        later = author.say("later", Tangle(feed[0].id, feed))
        done = tangles.commit([erased, later], tangle=feed[0].id, newest=2)
        assert done.added == (later.id,)
        assert not tangles.tangle(feed[0].id).has_data(erased.id)
        assert list(store.check()) == []


@pytest.mark.parametrize("opener", [0, 1])
@pytest.mark.parametrize("goal", ["all", "newest-1"])
def test_a_key_of_another_branch_of_the_account_comes_along(opener: int, goal: str) -> None:
    # Two keys were added at two places. Who had a message from after the first was taken to have the second as well,
    # since a real peer reads an account with all its branches; it had not, refused what came from after both, and was
    # never sent more, because only the side that opens could ask for account messages.
    author = Author()
    account = author.account_messages[0]
    places = [Tangle(account.id, [account]) for _ in range(2)]
    keys = [Keypair.from_words(name) for name in ("first", "second")]
    added = [
        compose.account_add(author.keys[0], place, key=key.public, consent=consent(key, account.id))
        for place, key in zip(places, keys, strict=True)
    ]
    both = Tangle(account.id, [account, *added])
    data = {"text": "x"}
    root = compose.post(keys[0], data, account=Tangle(account.id, [account, added[0]]), domain="thread", tangles=[])
    reply = compose.post(keys[1], data, account=both, domain="thread", tangles=[Tangle(root.id, [root])])
    whole = store_of([account, *added, root, reply], {root.id: "all"})
    part = store_of([account, added[0], root], {root.id: goal})
    pair = modern_pair(part, whole)
    sync(pair, root.id, opener)
    assert part.standing.is_full(root.id, reply.id)
    assert not any(finished.refused for side in pair.sides for finished in side.finished)


@pytest.mark.parametrize("opener", [0, 1])
def test_a_run_that_is_repeated_sends_no_account_to_a_side_that_wants_nothing(opener: int) -> None:
    # What one side offers was written with a key of which neither has the message, so the other cannot take it. It
    # asked again and sent all its account messages along, as repeated runs do, to somebody who had no goal.
    author = Author()
    star = author.star(1)
    tangle = star[0].id
    known = [*author.account_messages]
    author.add_key("of which nobody was told")
    beside = author.say("beside", Tangle(tangle, star[:1]))
    giver = store_of([*known, *star, beside], {})
    taker = store_of([*known, *star], {tangle: "all"})
    pair = modern_pair(giver, taker)
    sync(pair, tangle, opener)
    assert len(pair.sides[1].finished) > 1
    assert all(finished.refused for finished in pair.sides[1].finished)
    assert [ignored.reason for ignored in pair.sides[0].ignored] == []
    assert all(finished.sent == 0 for finished in pair.sides[1].finished)


def test_pruning_spares_what_another_tangle_needs() -> None:
    # Seed 1062: with the newest of a feed to be kept, the answer in a thread was let go with the rest of the feed.
    author = Author()
    feed, thread, reply = two_tangles(author)
    later = author.say("later", Tangle(feed[0].id, [*feed, reply]))
    store = store_of([*author.account_messages, *feed, thread, reply, later], {})
    store.prune_newest(feed[0].id, 1)
    assert reply.id in {message.id for message in store if message.has_data}
