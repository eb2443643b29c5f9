"""What simulated worlds of tangles have found, each as the shortest case that shows it."""

from pathlib import Path
from random import Random

import pytest
from msgspec import structs

from bobbin.runtime.tangle_store import TangleStore
from bobbin.simulator.tangle_forgery import Forger
from bobbin.simulator.tangle_keepers import DiskKeeper, MemoryKeeper
from bobbin.simulator.tangle_people import FEED, Pen, Person
from bobbin.simulator.tangle_promises import hears
from bobbin.simulator.tangle_truth import Truth
from bobbin.store.sqlite import open_store
from bobbin.store.tangles import Level
from bobbin.tangles import compose, modern_frames
from bobbin.tangles.accounts import consent
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.goals import parse_goal
from bobbin.tangles.judgement import Mark
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message
from bobbin.tangles.modern_frames import ModernLimits, Parcel
from bobbin.tangles.session_events import Added, OpenRuns, Received
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author
from tests.tangle_pairs import held, modern_pair, phase_pair, store_of, sync


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
    # What one side has proven was written with a key of which it has let the message go, so the other cannot take it.
    # It asked again and sent all its account messages along, as repeated runs do, to somebody who had no goal.
    author = Author()
    star = author.star(1)
    tangle = star[0].id
    known = [*author.account_messages]
    gone = author.add_key("of which nobody was told")
    beside = author.say("beside", Tangle(tangle, star[:1]))
    giver = store_of([*known, gone, *star, beside], {})
    giver.delete(gone.id)
    taker = store_of([*known, *star], {tangle: "all"})
    pair = modern_pair(giver, taker)
    sync(pair, tangle, opener)
    assert len(pair.sides[1].finished) > 1
    assert all(finished.refused for finished in pair.sides[1].finished)
    assert [ignored.reason for ignored in pair.sides[0].ignored] == []
    assert all(finished.sent == 0 for finished in pair.sides[1].finished)


@pytest.mark.parametrize("opener", [0, 1])
@pytest.mark.parametrize("count", [1, 6])
def test_what_hangs_in_the_air_is_not_asked_for_again_with_all_accounts(opener: int, count: int) -> None:
    # Seed 2326: somebody had let a feed go, all but an answer that stands in a thread as well. It was proven and is
    # still held, so it is offered; whoever has nothing of what it comes after must refuse it, and ran three times in
    # each session for it, with all accounts of the tangle. Whoever has what it comes after takes it.
    author = Author()
    feed, thread = author.line(3), author.say("topic")
    root = feed[0]
    reply = author.say("answer", Tangle(root.id, feed), Tangle(thread.id, [thread]))
    assert reply.places[root.id].prev == (feed[3].id,)
    giver = store_of([*author.account_messages, *feed, thread, reply], {root.id: "none", thread.id: "all"})
    giver.sweep()
    giver.load([root])
    assert held(giver, root.id) == {root.id: False, reply.id: True}
    # The answer lies above all that the other side has, and comes unasked; or below its top, and is asked for.
    branch = Tangle(root.id, [root])
    lacking = store_of([*author.account_messages, root], {root.id: "all"})
    for number in range(count):
        branch.add(beside := author.say(f"beside {number}", branch))
        lacking.load([beside])
    for seed in range(2):
        pair = modern_pair(lacking, giver, seed=seed)
        sync(pair, root.id, opener)
        refused = [[(one.message, one.rule) for one in run.refused] for run in pair.sides[0].finished]
        assert refused == [[(reply.id, Rule.PREV_UNKNOWN)]]
        assert pair.message_texts == 2, "it and its account, once"
    having = store_of([*author.account_messages, *feed], {root.id: "all"})
    sync(modern_pair(having, giver), root.id, opener)
    assert having.standing.is_full(root.id, reply.id)


def test_what_is_refused_twice_in_a_run_ends_nothing() -> None:
    # Seed 2980: a peer sent a message twice that comes after nothing that is here. The two refusals were taken for two
    # messages with one short id, a mistake of ours, and that ended the session with all its runs.
    author = Author()
    feed, thread = author.line(3), author.say("topic")
    root = feed[0]
    reply = author.say("answer", Tangle(root.id, feed), Tangle(thread.id, [thread]))
    giver = store_of([*author.account_messages, *feed, thread, reply], {root.id: "none", thread.id: "all"})
    giver.sweep()
    giver.load([root])
    branch = Tangle(root.id, [root])
    lacking = store_of([*author.account_messages, root], {root.id: "all"})
    for number in range(6):
        branch.add(beside := author.say(f"beside {number}", branch))
        lacking.load([beside])
    pair = modern_pair(lacking, giver)
    pair.open(0, root.id)
    while pair.wire:
        number, raw = pair.wire.popleft()
        frame = modern_frames.decode(raw, ModernLimits())
        if isinstance(frame, Parcel):
            frame = structs.replace(frame, messages=2 * frame.messages)
        pair.step(1 - number, Received(frame))
    (run,) = pair.sides[0].finished
    assert [one.message for one in run.refused if one.rule is Rule.PREV_UNKNOWN] == [reply.id, reply.id]
    assert pair.sides[0].session.is_idle


def test_pruning_spares_what_another_tangle_needs() -> None:
    # Seed 1062: with the newest of a feed to be kept, the answer in a thread was let go with the rest of the feed.
    author = Author()
    feed, thread, reply = two_tangles(author)
    later = author.say("later", Tangle(feed[0].id, [*feed, reply]))
    store = store_of([*author.account_messages, *feed, thread, reply, later], {})
    store.prune_newest(feed[0].id, 1)
    assert reply.id in {message.id for message in store if message.has_data}


@pytest.mark.parametrize("opener", [0, 1])
@pytest.mark.parametrize("goal", ["newest-1", "newest-2"])
def test_what_a_peer_lacks_and_does_not_want_is_no_ground_for_what_it_wants(opener: int, goal: str) -> None:
    # Seed 2298: one side wants everything, the other the newest alone. Of what lies below the other says nothing, and
    # it was taken to have all of that; what it then got came after something that it had never had, and was refused.
    author = Author()
    feed = author.line(3)
    left, right = (author.say(f"fork {number}", Tangle(feed[0].id, feed)) for number in range(2))
    after = [author.say("after", Tangle(feed[0].id, [*feed, fork])) for fork in (left, right)]
    whole = store_of([*author.account_messages, *feed, left, right, *after], {feed[0].id: "all"})
    part = store_of([*author.account_messages, feed[0]], {feed[0].id: goal})
    for message in (feed[3].erased(), left, after[0]):
        part.add(message, feed[0].id)
    pair = modern_pair(part, whole)
    sync(pair, feed[0].id, opener)
    assert held(part, feed[0].id)[after[1].id]
    assert not any(finished.refused for side in pair.sides for finished in side.finished)


@pytest.mark.parametrize("opener", [0, 1])
def test_a_ghost_of_the_peer_is_no_ground_for_what_it_wants(opener: int) -> None:
    # Found beside seed 2298: what a side has let go for good it does not ask for, and so it was taken to have it.
    author = Author()
    root = author.moot()
    left, right = (author.say(f"fork {number}", Tangle(root.id, [root])) for number in range(2))
    after = author.say("after", Tangle(root.id, [root, right]))
    giver = store_of([*author.account_messages, root, left, right, after], {root.id: "all"})
    taker = store_of([*author.account_messages, root, left], {root.id: "set"})
    taker.save_ghost(root.id, right.id, 1)
    pair = modern_pair(taker, giver)
    sync(pair, root.id, opener)
    expected = {root.id: False, left.id: True, right.id: False, after.id: True}
    assert held(taker, root.id) == expected
    # Held without its data it was a ghost no more, so that the next run wanted the data, and had it.
    later = author.say("later", Tangle(root.id, [root, right]))
    for news, texts in (([], 0), ([later], 1)):
        giver.load(news)
        pair = modern_pair(taker, giver)
        sync(pair, root.id, opener)
        assert held(taker, root.id) == {**expected, **{message.id: True for message in news}}
        assert taker.ghosts(root.id) == (right.id,)
        assert pair.message_texts == texts, "what it holds without data it is not sent again"
        assert [finished.missing for side in pair.sides for finished in side.finished] == [0, 0]


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_ghost_that_is_held_without_its_data_stays_one_in_the_modern_mode(on_disk: bool) -> None:  # noqa: FBT001
    keeper = DiskKeeper("ghosts", Random(0)) if on_disk else MemoryKeeper()
    author = Author()
    feed = author.set_feed(8)
    for message in [*author.account_messages, *feed]:
        _taken(keeper.put(message, author.account.id if message.is_account else feed[0].id))
    keeper.set_goal(feed[0].id, parse_goal("set"))
    keeper.collect()
    ghost = next(message for message in feed if message.id in keeper.ghosts(feed[0].id))
    _taken(keeper.put(ghost.erased(), feed[0].id))
    assert keeper.message(ghost.id) == ghost.erased()
    assert ghost.id in keeper.ghosts(feed[0].id)
    assert str(keeper.put(ghost, feed[0].id)).startswith(Rule.GHOST)
    assert keeper.findings() == []
    keeper.collect()
    assert ghost.id in keeper.ghosts(feed[0].id)
    assert keeper.findings() == []
    keeper.close()


def test_news_come_with_an_account_of_which_the_peer_has_nothing() -> None:
    # Seed 1867: somebody writes in a thread for the first time, whose account was there before the stream was opened.
    # Only account messages that came during the stream went along, so the first of theirs was refused, and for good.
    author, other = Author(), Author("bob")
    star = author.star(2)
    first = store_of([*author.account_messages, *other.account_messages, *star], {star[0].id: "all"})
    second = store_of([*author.account_messages, *star], {star[0].id: "all"})
    pair = modern_pair(first, second)
    sync(pair, star[0].id)
    before = pair.message_texts
    reply = other.say("hello", Tangle(star[0].id, star))
    pair.add(0, reply, star[0].id)
    pair.run()
    assert second.standing.is_full(star[0].id, reply.id)
    assert pair.message_texts == before + 2
    again = other.say("and again", Tangle(star[0].id, [*star, reply]))
    pair.add(0, again, star[0].id)
    more = author.say("welcome", Tangle(star[0].id, [*star, reply, again]))
    pair.add(0, more, star[0].id)
    pair.run()
    assert second.standing.is_full(star[0].id, more.id)
    assert pair.message_texts == before + 4, "an account that the peer has does not go out again"


def test_a_side_that_yields_a_run_that_was_answered_says_so() -> None:
    # Seed 3017: the dialler answers a run, and then begins one of its own because somebody wants one anew. The other
    # side gave its run up for that and said nothing, and the dialler waited for it as long as the stream lasted.
    author = Author()
    star = author.star(4)
    stores = [
        store_of([*author.account_messages, star[0], *some], {star[0].id: "all"}) for some in (star[1:3], star[3:])
    ]
    pair = modern_pair(*stores)
    pair.open(1, star[0].id)
    pair.deliver(0, pair.wire.popleft()[1])
    pair.step(0, OpenRuns((star[0].id,), anew=True))
    pair.run()
    assert all(side.session.is_idle for side in pair.sides)
    assert all(held(store, star[0].id).keys() == {message.id for message in star} for store in stores)
    reasons = [[ignored.reason for ignored in side.ignored] for side in pair.sides]
    assert reasons[1][0] == "yielded"
    assert "stopped" in reasons[0]


@pytest.mark.parametrize("on_disk", [False, True])
def test_who_may_not_sign_gets_no_place_to_wait_in(on_disk: bool, tmp_path: Path) -> None:  # noqa: FBT001
    # Seed 3875: a stranger wrote in somebody's feed, after one message that is there and one that is not. The account
    # was known, but nobody looked at the key before the predecessors were, so it was kept, passed on, and waited.
    author, stranger = Author(), Keypair.from_words("stranger")
    feed = author.line(1)
    unseen = author.say("of which nobody was told", Tangle(feed[0].id, feed[:1]))
    place = Tangle(feed[0].id, [*feed, unseen])
    forged, true = (
        compose.post(key, {"text": "x"}, account=author.account_tangle, domain="post", tangles=[place])
        for key in (stranger, author.key)
    )
    if not on_disk:
        store = store_of([*author.account_messages, *feed], {})
        with pytest.raises(InvalidMessage, match=Rule.SIGKEY_UNAUTHORISED):
            store.add_modern(forged, feed[0].id)
        store.add_modern(true, feed[0].id)
        assert store.standing.judgement(feed[0].id, true.id) is not None
        return
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as opened:
        tangles = TangleStore(opened.tangles)
        tangles.commit([*author.account_messages, *feed], tangle=feed[0].id, level=Level.MODERN)
        refused = tangles.commit([forged], tangle=feed[0].id, level=Level.MODERN).refused
        assert [one.rule for one in refused] == [Rule.SIGKEY_UNAUTHORISED]
        assert tangles.commit([true], tangle=feed[0].id, level=Level.MODERN).added == (true.id,)


def test_a_late_answer_is_not_taken_for_the_answer_to_a_second_opening() -> None:
    # Seed 4096: a side opens twice before the first answer has come, which says that the peer has nothing. It sent
    # everything, and was done. Meanwhile the peer had got something elsewhere and answered the second opening with
    # that, and waited for the next phase as long as the stream lasted; what it had got, nobody was told of.
    author = Author()
    feed = author.line(4)
    tangle = feed[0].id
    opener = store_of([*author.account_messages, *feed[:3]], {tangle: "all"})
    answerer = store_of([], {tangle: "all"})
    pair = phase_pair(opener, answerer)
    pair.open(0, tangle)
    pair.deliver(1, pair.wire.popleft()[1])
    pair.step(0, OpenRuns((tangle,), anew=True))
    answerer.load([*author.account_messages, *feed])
    pair.step(1, Added(tuple(message.id for message in feed)))
    pair.run()
    assert all(side.session.is_idle and not side.ignored for side in pair.sides)
    assert held(opener, tangle).keys() == {message.id for message in feed}


@pytest.mark.parametrize("opener", [0, 1])
def test_what_is_held_without_data_above_everything_else_comes(opener: int) -> None:
    # Seed 5363: somebody gave a message without its data, and nothing came after it. A side said that it has the depths
    # with data, so nobody asked for that one; yet it counted in the root, and every sync ran three times in vain.
    author = Author()
    feed = author.line(4)
    tangle = feed[0].id
    whole = store_of([*author.account_messages, *feed[:3], feed[3].erased()], {tangle: "all"})
    part = store_of([*author.account_messages, *feed[:2]], {tangle: "all"})
    pair = modern_pair(part, whole)
    sync(pair, tangle, opener)
    assert held(part, tangle) == held(whole, tangle)
    assert [finished.agreed for side in pair.sides for finished in side.finished] == [True, True]
    # Its data comes whenever somebody has it.
    author_store = store_of([*author.account_messages, *feed], {tangle: "all"})
    pair = modern_pair(part, author_store)
    sync(pair, tangle, opener)
    assert held(part, tangle)[feed[3].id]


def test_a_tip_of_an_account_in_nine_phases_is_no_proof_of_the_key_below_it() -> None:
    # Seed 9860: a feed has a message from before some keys were added, one from after. Real peers compare accounts by
    # the tips of all messages together and leave out what comes after any of them, so the last tip came and the keys
    # between did not. News that one of those has signed was promised to whoever has the tip; it had to be refused.
    author = Author()
    feed = [author.moot(), author.post(author.moot().id, {"text": "before"})]
    tangle = feed[0].id
    # The third of an account names its root as well, so it is taken without the others.
    *between, tip = (author.add_key(words) for words in ("first", "second", "third"))
    feed.append(author.post(tangle, {"text": "after"}))
    writer, reader = MemoryKeeper(), MemoryKeeper()
    for keeper, known in ((writer, [*author.account_messages, *feed]), (reader, [author.account, *feed[:2]])):
        keeper.store.load(known)
        keeper.set_goal(tangle, parse_goal("all"))
    pair = phase_pair(writer.store, reader.store)
    sync(pair, tangle)
    assert (feed[2].id in held(reader.store, tangle), reader.store.tangle(author.account.id).tips()) == (True, {tip.id})
    assert not any(reader.message(one.id) for one in between)
    truth = Truth()
    news = compose.post(
        author.keys[1], {"text": "x"}, account=author.account_tangle, domain="post", tangles=[author.tangles[tangle]]
    )
    for message in (*author.account_messages, *feed, news):
        truth.learn(message)
    assert truth.is_full(tangle, news.id)
    assert not hears([writer, reader], [False], news, truth)
    pair.add(0, news, tangle)
    pair.run()
    assert reader.message(news.id) is None
    # Whoever has the key takes it: the promise is not given up.
    reader.store.load(between[:1])
    assert hears([writer, reader], [False], news, truth)
    sync(phase_pair(writer.store, reader.store), tangle)
    assert news.id in held(reader.store, tangle)
