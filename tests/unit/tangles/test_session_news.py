"""News: what goes out after a run, once, and never to who sent it."""

import pytest

from bobbin.tangles import modern_parcels
from bobbin.tangles.accounts import consent
from bobbin.tangles.exchange import Exchange
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.modern_parcels import PARCEL_BYTES
from bobbin.tangles.session_news import News
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author
from tests.tangle_pairs import Pair, modern_pair, store_of


def test_nothing_is_news_where_nobody_listens() -> None:
    author = Author()
    messages = author.line(3)
    news = News(Exchange(store_of([*author.account_messages, *messages], {})), 100)
    assert news.came([messages[3].id]) == []
    news.follow(messages[0].id)
    assert news.came([messages[3].id]) == []
    assert news.serve(messages[0].id, listens=False) == []


def test_what_came_before_the_messages_of_a_run_went_out_waits_for_them() -> None:
    author = Author()
    messages = author.line(4)
    tangle = messages[0].id
    news = News(Exchange(store_of([*author.account_messages, *messages], {})), 100)
    news.follow(tangle)
    assert news.came([messages[3].id, messages[4].id]) == []
    news.tell(tangle, [messages[3].id])
    assert news.serve(tangle, listens=True) == [[messages[4].raw]]
    assert news.serve(tangle, listens=True) == []


def test_each_message_is_news_once_and_in_every_tangle_that_is_followed() -> None:
    author = Author()
    feed, thread = author.line(2), author.star(1)
    both = author.say("in both", Tangle(feed[0].id, feed), Tangle(thread[0].id, thread))
    news = News(Exchange(store_of([*author.account_messages, *feed, *thread, both], {})), 100)
    for tangle in (feed[0].id, thread[0].id):
        news.follow(tangle)
        news.serve(tangle, listens=True)
    assert {tangle for tangle, _ in news.came([both.id])} == {feed[0].id, thread[0].id}
    assert news.came([both.id]) == []
    assert news.came(["unknown"]) == []


def test_a_key_that_came_meanwhile_goes_along_once() -> None:
    author = Author()
    feed = author.line(1)
    added = author.add_key("other")
    structure = Tangle(feed[0].id, feed)
    first = author.say("first", structure)
    structure.add(first)
    second = author.say("second", structure)
    news = News(Exchange(store_of([*author.account_messages, *feed, first, second], {})), 100)
    news.serve(feed[0].id, listens=True)
    assert news.came([added.id]) == []
    assert news.came([first.id]) == [(feed[0].id, [added.raw, first.raw])]
    assert news.came([second.id]) == [(feed[0].id, [second.raw])]


def test_an_account_goes_along_once_where_the_peer_may_not_have_it() -> None:
    author, other = Author(), Author("bob")
    thread = author.star(0)
    key = other.add_key("later")
    first = other.say("first", Tangle(thread[0].id, thread))
    second = other.say("second", Tangle(thread[0].id, [*thread, first]))
    known = author.say("known", Tangle(thread[0].id, [*thread, first, second]))
    everything = [*author.account_messages, *other.account_messages, *thread, first, second, known]
    news = News(Exchange(store_of(everything, {})), 100, whole_accounts=True)
    news.serve(thread[0].id, listens=True)
    news.tell(thread[0].id, [author.account.id])
    assert news.came([first.id]) == [(thread[0].id, [other.account.raw, key.raw, first.raw])]
    assert news.came([second.id]) == [(thread[0].id, [second.raw])]
    assert news.came([known.id]) == [(thread[0].id, [known.raw])]


def test_an_account_goes_along_once_on_a_stream_whatever_the_tangle() -> None:
    author, other = Author(), Author("bob")
    threads = [[author.say(text)] for text in ("one", "two")]
    replies = [other.say("reply", Tangle(thread[0].id, thread)) for thread in threads]
    everything = [*author.account_messages, *other.account_messages, *replies]
    news = News(Exchange(store_of([*everything, *threads[0], *threads[1]], {})), 100, whole_accounts=True)
    for thread in threads:
        news.serve(thread[0].id, listens=True)
    first, second = (thread[0].id for thread in threads)
    assert news.came([replies[0].id]) == [(first, [other.account.raw, replies[0].raw])]
    assert news.came([replies[1].id]) == [(second, [replies[1].raw])]


def test_an_account_that_came_from_the_peer_does_not_go_back() -> None:
    author, other = Author(), Author("bob")
    threads = [[author.say(text)] for text in ("one", "two")]
    reply = other.say("reply", Tangle(threads[1][0].id, threads[1]))
    everything = [*author.account_messages, *other.account_messages, *threads[0], *threads[1], reply]
    news = News(Exchange(store_of(everything, {})), 100, whole_accounts=True)
    for thread in threads:
        news.serve(thread[0].id, listens=True)
    news.hear(threads[0][0].id, other.account_messages)
    assert news.came([reply.id]) == [(threads[1][0].id, [reply.raw])]


def test_what_is_remembered_is_bounded_over_all_tangles() -> None:
    author = Author()
    feeds = [author.line(4, domain) for domain in ("post", "chess", "go_moves")]
    news = News(Exchange(store_of([*author.account_messages, *feeds[0], *feeds[1], *feeds[2]], {})), 5)
    for feed in feeds:
        news.serve(feed[0].id, listens=True)
        news.tell(feed[0].id, [message.id for message in feed])
        news.tell_accounts([message.id for message in feed])
        news.check()
    assert len(news._told) == len(news._told_accounts) == 5


def test_memory_is_bounded() -> None:
    author = Author()
    messages = author.line(5)
    news = News(Exchange(store_of([*author.account_messages, *messages], {})), 2)
    tangle = messages[0].id
    news.serve(tangle, listens=True)
    news.tell(tangle, [message.id for message in messages])
    news.check()
    assert news.came([messages[5].id]) == []
    assert len(news.came([messages[1].id])) == 1, "what was forgotten is told again, and that does no harm"


def test_what_waits_is_bounded() -> None:
    author = Author()
    messages = author.line(5)
    tangle = messages[0].id
    news = News(Exchange(store_of([*author.account_messages, *messages], {})), 2)
    news.follow(tangle)
    news.came([message.id for message in messages])
    news.check()
    assert news.serve(tangle, listens=True) == [[messages[4].raw], [messages[5].raw]]


def test_what_came_from_the_peer_is_no_news_in_any_tangle_that_it_stands_in() -> None:
    author = Author()
    feed, thread = author.line(2), author.star(1)
    both = author.say("in both", Tangle(feed[0].id, feed), Tangle(thread[0].id, thread))
    news = News(Exchange(store_of([*author.account_messages, *feed, *thread, both], {})), 100)
    for tangle in (feed[0].id, thread[0].id):
        news.serve(tangle, listens=True)
    news.hear(feed[0].id, [both])
    assert news.came([both.id]) == []


def test_what_the_library_hides_is_no_news() -> None:
    author = Author()
    messages = author.line(3)
    tangle = messages[0].id
    store = store_of([*author.account_messages, *messages], {})
    hidden = messages[3].id

    class Hiding:
        """The library of the modern mode: it finds every message, and shows the structure without some of them."""

        messages, credentials, wish, ghosts = store.messages, store.credentials, store.wish, store.ghosts

        def tangle(self, id: MessageId) -> Tangle:
            return Tangle(id, [message for message in messages if message.id != hidden])

    news = News(Exchange(Hiding()), 100)
    news.follow(tangle)
    assert news.came([messages[2].id, hidden]) == []
    assert news.serve(tangle, listens=True) == [[messages[2].raw]]
    assert news.came([hidden]) == []


def long_account(author: Author, count: int, padding: int) -> None:
    """Give an account many messages, each of so many bytes and some more."""
    for number in range(count):
        key = Keypair.from_words(f"key {number}")
        place = author.account_tangle.next_place()
        data = {
            "action": "add",
            "key": {"purpose": "sig", "algorithm": "ed25519", "bytes": key.public},
            "consent": consent(key, author.account.id),
            "padding": "x" * padding,
        }
        entry = {author.account.id: {"depth": place.depth, "prev": [*place.prev]}}
        metadata = {"account": "self", "accountTips": None, "tangles": entry, "domain": author.account.domain}
        message = author.sign(data, metadata)  # type: ignore[arg-type]
        author.account_tangle.add(message)
        author.account_messages.append(message)


def told_of(count: int, padding: int) -> tuple[Pair, Author, list[Message]]:
    """Somebody with such an account writes in a thread, of which both sides had the same."""
    author, other = Author(), Author("bob")
    long_account(other, count, padding)
    thread = author.star(1)
    goals = {thread[0].id: "all"}
    first = store_of([*author.account_messages, *other.account_messages, *thread], goals)
    pair = modern_pair(first, store_of([*author.account_messages, *thread], goals))
    pair.open(1, thread[0].id)
    pair.run()
    thread.append(other.say("first", Tangle(thread[0].id, thread)))
    pair.add(0, thread[-1], thread[0].id)
    pair.run()
    return pair, other, thread


@pytest.mark.parametrize(
    ("count", "padding"), [(12, 60_000), pytest.param(285, 60_000, marks=pytest.mark.slow)], ids=["700 kB", "17 MB"]
)
def test_an_account_of_any_length_comes_in_frames_of_a_bounded_one(
    count: int, padding: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if count < 20:
        # As if there were no room at the other side for an account as long as this one.
        monkeypatch.setattr(modern_parcels, "EARLY_BYTES_MAX", count * padding // 2)
    pair, other, thread = told_of(count, padding)
    assert max(len(raw) for _, raw in pair.log) < 2 * PARCEL_BYTES
    assert pair.sides[1].store.standing.is_full(thread[0].id, thread[-1].id)
    # From then on it is told, and news are news again.
    before = len(pair.log)
    thread.append(other.say("second", Tangle(thread[0].id, thread)))
    pair.add(0, thread[-1], thread[0].id)
    pair.run()
    assert pair.sides[1].store.standing.is_full(thread[0].id, thread[-1].id)
    assert len(pair.log) == before + 1
    assert all(side.session.is_idle for side in pair.sides)


def test_what_is_too_long_for_news_is_not_told() -> None:
    author, other = Author(), Author("bob")
    long_account(other, 3, 1000)
    thread = author.star(0)
    reply = other.say("reply", Tangle(thread[0].id, thread))
    everything = [*author.account_messages, *other.account_messages, *thread, reply]
    news = News(Exchange(store_of(everything, {})), 100, whole_accounts=True, bytes_max=4000)
    news.serve(thread[0].id, listens=True)
    for _ in range(2):
        assert news.came([reply.id]) == []
        assert news.take_bulky() == [(thread[0].id, reply.id)]
        assert news.take_bulky() == []
    news.wait(thread[0].id, reply.id)
    news.tell_accounts([other.account_messages[0].id, other.account_messages[1].id])
    texts = [message.raw for message in (*other.account_messages[2:], reply)]
    assert news.serve(thread[0].id, listens=True) == [texts]
    assert news.came([reply.id]) == []


@pytest.mark.parametrize("opener", [0, 1])
def test_news_that_lack_an_account_are_asked_for_again_with_it(opener: int) -> None:
    """What was sent along counts as told on the whole stream, though nothing of it was kept there."""
    author, other = Author(), Author("bob")
    roots = [author.say(text) for text in ("one", "two")]
    threads = [[root, author.say("first", Tangle(root.id, [root]))] for root in roots]
    goals = {thread[0].id: "all" for thread in threads}
    whole = [*author.account_messages, *threads[0], *threads[1]]
    stores = store_of([*whole, *other.account_messages], goals), store_of(whole, goals)
    pair = modern_pair(*stores)
    pair.open(opener, *goals)
    pair.run()
    # The first reply comes after something that is not there any more, so it is refused, and its account with it.
    stores[1].delete(threads[0][1].id)
    for thread in threads:
        pair.add(0, other.say("reply", Tangle(thread[0].id, thread)), thread[0].id)
    pair.run()
    assert len(stores[1].tangle(roots[1].id)) == 3
    assert all(side.session.is_idle for side in pair.sides)
