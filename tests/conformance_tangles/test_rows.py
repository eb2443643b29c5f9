"""Rows of the conformance page of tangles that need a whole run: each test fails under the fault that its row names."""

from collections.abc import Callable
from unittest.mock import patch

import pytest

from bobbin.tangles import modern_frames, phases
from bobbin.tangles.bloom import Bloom, items_of
from bobbin.tangles.exchange import Exchange
from bobbin.tangles.goals import parse_goal
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import MessageId, decode
from bobbin.tangles.modern_frames import Answer, Ask, ModernLimits
from bobbin.tangles.phases import Frame, FrameLimits, HaveAndWant, IdsAndFilter, Messages, MessagesAndFilter
from bobbin.tangles.ranges import Range
from bobbin.tangles.session_effects import Commit, Effect, Finished, Notify
from bobbin.tangles.session_events import Committed, Event, OpenRuns
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author
from tests.tangle_pairs import Pair, modern_pair, phase_pair, store_of, sync


def frames(pair: Pair) -> list[Frame]:
    return [phases.decode(raw, FrameLimits()) for _, raw in pair.log]


def ids_of(frame: Frame) -> set[MessageId]:
    assert isinstance(frame, Messages | MessagesAndFilter)
    return {decode(text).id for text in frame.messages}


def test_a_want_is_of_what_the_other_side_has() -> None:
    """TG-004, TG-006: own have first, then the other's, with the own goal."""
    author = Author()
    feed = author.line(9)
    tangle = feed[0].id
    opener = store_of([*author.account_messages, *feed[:5]], {tangle: "newest-3"})
    answerer = store_of([*author.account_messages, *feed], {tangle: "newest-2"})
    pair = phase_pair(opener, answerer)
    sync(pair, tangle)
    second, third = frames(pair)[1:3]
    assert isinstance(second, HaveAndWant)
    assert (second.have, second.want) == (Range(0, 9), Range(8, 4))
    assert isinstance(third, phases.WantAndFilter)
    assert third.want == Range(5, 9)


def test_the_messages_sent_are_those_of_all_rounds() -> None:
    """TG-018, TG-022: what the first round found goes out, although later rounds find nothing more."""
    author = Author()
    star = author.star(12)
    tangle = star[0].id
    opener = store_of([*author.account_messages, *star[:9]], {tangle: "all"})
    answerer = store_of([*author.account_messages, star[0], *star[5:]], {tangle: "all"})
    pair = phase_pair(opener, answerer)
    sync(pair, tangle)
    fourth, fifth, sixth, seventh, eighth, ninth = frames(pair)[3:]
    listed = [frame.ids for frame in (fourth, fifth, sixth, seventh) if isinstance(frame, IdsAndFilter)]
    assert [len(ids) for ids in listed] == [4, 4, 0, 0]
    assert set(listed[0]) <= ids_of(eighth)
    assert set(listed[1]) <= ids_of(ninth)


def test_account_messages_go_out_in_the_last_phase() -> None:
    """TG-022: a key that the other side does not know comes with what it signed, before it."""
    author = Author()
    feed = author.line(3)
    key = author.add_key("later")
    tangle = feed[0].id
    structure = store_of(feed, {}).tangle(tangle)
    feed.append(author.say("by the new key", structure))
    opener = store_of([*author.account_messages, *feed], {tangle: "all"})
    answerer = store_of([author.account_messages[0], *feed[:-1]], {tangle: "all"})
    pair = phase_pair(opener, answerer)
    sync(pair, tangle)
    last = frames(pair)[-1]
    assert isinstance(last, Messages)
    sent = [decode(text).id for text in last.messages]
    assert sent.index(key.id) < sent.index(feed[-1].id)
    assert answerer.message(feed[-1].id) is not None


def test_a_want_is_decided_once_in_a_run() -> None:
    """TG-025: a goal that changes while a run is under way changes neither its filters nor what it takes."""
    author = Author()
    feed = author.line(8)
    tangle = feed[0].id
    opener = store_of([*author.account_messages, *feed[:5]], {tangle: "all"})
    answerer = store_of([*author.account_messages, *feed], {tangle: "all"})
    pair = phase_pair(opener, answerer)
    pair.open(0, tangle)
    while len(pair.log) < 3:
        number, raw = pair.wire.popleft()
        pair.deliver(1 - number, raw)
    opener.set_goal(tangle, None)
    pair.run()
    seventh = frames(pair)[6]
    assert isinstance(seventh, IdsAndFilter)
    assert all(seventh.bloom.has(items_of(2, [message.id for message in feed[:5]])))
    assert all(opener.message(message.id) is not None for message in feed)


def test_what_one_round_hides_another_shows() -> None:
    """TG-028: the round is part of an item, so a filter that hides a message in one round shows it in the next."""
    author = Author()
    feed = author.line(6)
    tangle = feed[0].id
    exchange = Exchange(store_of([*author.account_messages, *feed], {}))
    hidden = feed[3].id
    bloom = Bloom.create(20, items_of(0, [hidden]))
    depths = Range(0, 6)
    assert hidden not in exchange.missing(tangle, 0, depths, bloom)
    assert hidden in exchange.missing(tangle, 1, depths, bloom)
    assert hidden in exchange.missing(tangle, 2, depths, bloom)


def test_an_erased_message_does_not_raise_what_is_had() -> None:
    """TG-083: what is had reaches up to the deepest message with data, and begins at the root whatever that has."""
    author = Author()
    feed = author.line(6)
    tangle = feed[0].id
    store = store_of([*author.account_messages, *feed], {})
    exchange = Exchange(store)
    assert exchange.have(tangle) == Range(0, 6)
    for message in feed[5:]:
        store.erase(message.id)
    assert exchange.have(tangle) == Range(0, 4)
    assert Exchange(store_of(feed[1:], {})).have(tangle).is_empty


def test_account_messages_end_at_the_tips_that_are_named() -> None:
    """TG-036: what came into the account after a message was written is not needed to check it."""
    author = Author()
    feed = author.line(2)
    later = author.add_key("later")
    exchange = Exchange(store_of([*author.account_messages, *feed], {}))
    assert exchange.account_messages_for([feed[1].id]) == [author.account.id]
    last = author.say("by the new key", Tangle(feed[0].id, feed))
    exchange = Exchange(store_of([*author.account_messages, *feed, last], {}))
    assert exchange.account_messages_for([feed[1].id, last.id]) == [author.account.id, later.id]


def test_account_messages_are_missing_first_and_only_where_the_filter_lacks_them() -> None:
    """TG-043, TG-101: ids of accounts, then of the range, none that is in the filter; nothing of an empty range."""
    author = Author()
    author.add_key("later")
    feed = author.line(3)
    tangle = feed[0].id
    exchange = Exchange(store_of([*author.account_messages, *feed], {}))
    accounts, posts = ([message.id for message in some] for some in (author.account_messages, feed[1:]))
    nothing = Bloom.create(20, [])
    assert exchange.missing(tangle, 0, Range(1, 3), nothing) == [*accounts, *posts]
    known = Bloom.create(20, items_of(0, [accounts[0], posts[1]]))
    assert exchange.missing(tangle, 0, Range(1, 3), known) == [accounts[1], posts[0], posts[2]]
    assert exchange.missing(tangle, 0, Range(3, 1), nothing) == []


def test_phase_nine_is_of_before_phase_eight_was_stored() -> None:
    """TG-103: what has just come does not go back, though a slice has every branch beside what is asked for."""
    author = Author()
    star = author.star(9)
    tangle = star[0].id
    opener = store_of([*author.account_messages, *star[:6]], {tangle: "all"})
    answerer = store_of([*author.account_messages, star[0], *star[4:]], {tangle: "all"})
    pair = phase_pair(opener, answerer)
    sync(pair, tangle)
    *_, eighth, ninth = frames(pair)
    came = {message.id for message in star[6:]}
    assert came <= ids_of(eighth)
    assert not came & ids_of(ninth)
    assert {message.id for message in star[1:4]} <= ids_of(ninth)


@pytest.mark.parametrize("make", [phase_pair, modern_pair], ids=["nine phases", "modern"])
def test_done_is_said_after_the_commit(make: Callable[[MemoryStore, MemoryStore], Pair]) -> None:
    """TG-129: a run is finished only when what it brought is stored, and not in the step that wants it stored."""
    author = Author()
    feed = author.line(4)
    tangle = feed[0].id
    full = store_of([*author.account_messages, *feed], {tangle: "all"})
    pair = make(store_of(author.account_messages, {tangle: "all"}), full)
    session = pair.sides[0].session
    told: list[str] = []
    step = session.step

    def watched(event: Event) -> tuple[Effect, ...]:
        if isinstance(event, Committed):
            told.append("stored")
        effects = step(event)
        told.extend("commit" for effect in effects if isinstance(effect, Commit))
        told.extend("done" for one in effects if isinstance(one, Notify) and isinstance(one.notice, Finished))
        return effects

    with patch.object(session, "step", watched):
        sync(pair, tangle)
    assert told == ["commit", "stored", "done"]
    assert set(pair.sides[0].finished[0].added) == {message.id for message in feed}


def test_two_runs_on_one_stream_have_two_salts() -> None:
    """TG-117: neither side uses a nonce twice, so that the same sets look different in every run."""
    author = Author()
    star = author.star(40)
    tangle = star[0].id
    pair = modern_pair(
        store_of([*author.account_messages, *star[:38]], {}),
        store_of([*author.account_messages, *star[:1], *star[3:]], {}),
    )
    for side in pair.sides:
        side.store.set_goal(tangle, parse_goal("none"))
    for _ in range(3):
        sync(pair, tangle)
    said = [modern_frames.decode(raw, ModernLimits()) for _, raw in pair.log]
    nonces = [frame.nonce for frame in said if isinstance(frame, Ask | Answer)]
    assert len(set(nonces)) == len(nonces) == 6


def test_only_the_side_that_asks_opens() -> None:
    """TG-098: a session says nothing before it is told to open runs, and answers whoever does."""
    author = Author()
    feed = author.line(3)
    tangle = feed[0].id
    pair = phase_pair(store_of([*author.account_messages, *feed], {tangle: "all"}), store_of([], {tangle: "all"}))
    assert not pair.log
    pair.step(1, OpenRuns((tangle,)))
    pair.run()
    assert [number for number, _ in pair.log] == [1, 0, 1, 0]
