"""Commits on a store in memory, and what the modern mode sees of it."""

from bobbin.tangles import compose
from bobbin.tangles.errors import Rule
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message
from bobbin.tangles.ranges import WantFrom
from bobbin.tangles.session_effects import Commit
from bobbin.tangles.session_events import Committed
from bobbin.tangles.session_memory import ModernView, perform
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author, signed_again
from tests.tangle_pairs import held, store_of


def test_what_is_valid_is_stored_and_the_rest_is_named() -> None:
    author = Author()
    messages = author.line(3)
    stranger = Author("mallory").line(1)
    store = MemoryStore()
    commit = Commit(
        token=7, tangle=messages[0].id, messages=(*author.account_messages, *messages[:3], stranger[1], messages[3])
    )
    done = perform(store, commit)
    assert done.token == 7
    assert done.added == tuple(message.id for message in (*author.account_messages, *messages))
    assert [refused.message for refused in done.refused] == [stranger[1].id]
    assert done.refused[0].rule is not None
    again = perform(store, commit)
    assert again.added == ()


def test_the_newest_are_kept() -> None:
    author = Author()
    messages = author.line(9)
    store = store_of(author.account_messages, {})
    perform(store, Commit(token=1, tangle=messages[0].id, messages=tuple(messages), newest=3))
    assert {id for id, has_data in held(store, messages[0].id).items() if has_data} == {m.id for m in messages[-3:]}


def test_what_only_a_pzp_peer_takes_is_refused_by_modern_commits_and_hidden() -> None:
    author, stranger = Author(), Author("mallory")
    author.add_key("phone")
    removal = compose.account_del(stranger.keys[0], author.account_tangle, key=author.keys[1].public)
    account = author.account.id
    store = store_of(author.account_messages, {account: "all"})
    modern = perform(store, Commit(token=1, tangle=account, messages=(removal,), modern=True))
    assert [refused.rule for refused in modern.refused] == [Rule.POWER]
    assert perform(store, Commit(token=2, tangle=account, messages=(removal,))).added == (removal.id,)
    view = ModernView(store)
    assert removal.id in store.tangle(account)
    assert removal.id not in view.tangle(account)
    assert len(view.depths(account)) == 2


def test_the_view_follows_the_store() -> None:
    author = Author()
    messages = author.set_feed(4)
    tangle = messages[0].id
    store = store_of([*author.account_messages, *messages[:3]], {tangle: "set"})
    view = ModernView(store)
    first = view.depths(tangle).root
    assert view.depths(tangle).root == first
    store.add(messages[3], tangle)
    second = view.depths(tangle).root
    store.erase(messages[2].id)
    third = view.depths(tangle).root
    store.delete(messages[3].id)
    store.save_ghost(tangle, messages[3].id, 3)
    fourth = view.depths(tangle).root
    assert len({first, second, third, fourth}) == 4
    assert view.ghosts(tangle) == (messages[3].id,)
    view.depths(tangle).check()


def test_a_set_of_which_only_the_moot_is_held_wishes_for_everything() -> None:
    author = Author()
    messages = author.set_feed(2)
    store = store_of([*author.account_messages, messages[0]], {messages[0].id: "set"})
    assert store.wish(messages[0].id) == WantFrom(None)
    assert ModernView(store).wish(messages[0].id) == WantFrom(0)


def test_of_an_account_that_nothing_taken_speaks_for_nothing_is_taken() -> None:
    author, other = Author(), Author("bob")
    key = other.add_key("phone")
    thread = author.star(1)
    place = Tangle(thread[0].id, thread)
    right, wrong = other.say("right", place), signed_again(author.key, other.say("wrong", place))
    account = tuple(other.account_messages)

    def commit(store: MemoryStore, *messages: Message) -> Committed:
        vouched = frozenset({other.account.id})
        tangle = thread[0].id
        return perform(store, Commit(token=1, tangle=tangle, messages=messages, modern=True, vouched=vouched))

    store = store_of([*author.account_messages, *thread], {})
    done = commit(store, *account, wrong)
    assert done.added == ()
    assert {one.message: one.rule for one in done.refused} == {
        wrong.id: Rule.SIGKEY_UNAUTHORISED,
        other.account.id: None,
        key.id: None,
    }
    assert len(store) == 1 + len(thread)
    assert commit(store, *account, wrong, right).added == (other.account.id, key.id, right.id)
    # What is there already and waits for the account is reason enough.
    store = store_of([*author.account_messages, *thread, right], {})
    assert commit(store, *account, wrong).added == (other.account.id, key.id)
    assert store.standing.is_full(thread[0].id, right.id)
