"""Account messages wait until something needs them, and go again where what spoke for them was refused."""

from collections import deque

import pytest

from bobbin.tangles import modern_accounts
from bobbin.tangles.errors import Rule
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.modern_accounts import EarlyAccounts
from bobbin.tangles.session_effects import UNNEEDED, Commit, Notify, Send
from bobbin.tangles.session_events import Added, Event, Refused
from bobbin.tangles.session_memory import perform
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author, signed_again
from tests.tangle_pairs import Pair, held, modern_pair, store_of, sync

BOB = Author("bob")
BOB.add_key("bob's phone")
ACCOUNT = BOB.account_messages


def _nothing(_: MessageId) -> Tangle | None:
    return None


def _sorted(early: EarlyAccounts, *messages: Message) -> tuple[list[Message], frozenset[MessageId]]:
    """The account messages of what goes to a store that holds nothing, and the accounts in doubt."""
    stored, vouched = early.sort(messages, (), _nothing)
    return [one for one in stored if one.is_account], vouched


def test_what_nothing_speaks_for_waits_for_something_that_does() -> None:
    early = EarlyAccounts()
    assert _sorted(early, *ACCOUNT) == ([], frozenset())
    assert len(early) == 2
    assert _sorted(early, BOB.say("hello")) == (ACCOUNT, frozenset({BOB.account.id}))


def test_what_only_one_commit_speaks_for_goes_with_the_next_one_again() -> None:
    early = EarlyAccounts()
    for text in ("one", "two", "three"):
        assert _sorted(early, *(ACCOUNT if text == "one" else ()), BOB.say(text)) == (
            ACCOUNT,
            frozenset({BOB.account.id}),
        )
    assert _sorted(early, Author("alice").say("hello"))[0] == []
    assert len(early) == 2
    unneeded, wrong = Refused(BOB.account.id, None, UNNEEDED), Refused(ACCOUNT[1].id, Rule.POWER)
    assert early.refused([unneeded, wrong]) == [wrong], "the other one may still be taken"
    assert EarlyAccounts().refused([unneeded]) == [unneeded]


def test_what_was_taken_does_not_go_again() -> None:
    early = EarlyAccounts()
    _sorted(early, *ACCOUNT, BOB.say("one"))
    reply = BOB.say("two")
    assert early.sort([reply], (), lambda _: BOB.account_tangle) == ((reply,), frozenset())
    assert len(early) == 0


def test_what_is_needed_whatever_comes_does_not_wait() -> None:
    early = EarlyAccounts()
    assert early.sort(ACCOUNT, {BOB.account.id}, _nothing) == (tuple(ACCOUNT), frozenset())
    assert len(early) == 0


def test_so_much_goes_again_for_nothing_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(len(one.raw) for one in ACCOUNT)
    monkeypatch.setattr(modern_accounts, "AGAIN_BYTES_MAX", 3 * size)
    early = EarlyAccounts()
    gone = [_sorted(early, *(() if number else ACCOUNT), BOB.say(str(number)))[0] for number in range(6)]
    assert gone == [ACCOUNT] * 4 + [[]] * 2
    early = EarlyAccounts()
    for number in range(6):
        # Each time it is taken, so nothing was in vain.
        assert _sorted(early, *ACCOUNT, BOB.say(str(number)))[0] == ACCOUNT
        early.sort([BOB.say("more")], (), lambda _: BOB.account_tangle)


class _LatePair(Pair):
    """Two sides whose stores do nothing until everything has arrived."""

    def __init__(self, pair: Pair) -> None:
        super().__init__(*pair.sides)
        self.commits: deque[tuple[int, Commit]] = deque()

    def step(self, number: int, event: Event) -> None:
        side = self.sides[number]
        for effect in side.session.step(event):
            match effect:
                case Send(frame):
                    self._send(number, frame)
                case Notify(notice):
                    side.notices.append(notice)
                case Commit():
                    self.commits.append((number, effect))

    def run(self, frames_max: int = 10_000) -> None:
        super().run(frames_max)
        while self.commits:
            number, commit = self.commits.popleft()
            done = perform(self.sides[number].store, commit)
            self.step(number, done)
            self.step(number, Added(done.added))
            super().run(frames_max)


@pytest.mark.parametrize("opener", [0, 1])
@pytest.mark.parametrize("refused", [1, 3])
@pytest.mark.parametrize("late", [False, True])
def test_an_account_is_there_for_a_parcel_after_one_that_was_refused(
    opener: int,
    refused: int,
    *,
    late: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All account messages come first, then parcels that the reader does not take, and then one that it does."""
    monkeypatch.setattr("bobbin.tangles.modern_parcels.PARCEL_BYTES", 4000)
    alice = Author("alice")
    root = alice.say("root")
    place = Tangle(root.id, [root])
    unwanted = [BOB.say(f"{number}" * 3000, place) for number in range(refused)]
    middle = alice.say("middle", place)
    last = BOB.say("last", Tangle(root.id, [root, middle]))
    reader = store_of([alice.account, root], {root.id: "all"})
    writer = store_of([alice.account, *ACCOUNT, root, *unwanted, middle, last], {root.id: "all"})
    barred = {message.id for message in unwanted}
    add = reader.add_modern

    def picky(message: Message, tangle: MessageId) -> object:
        # As if it had been signed by somebody else: one way among several to be refused.
        return add(signed_again(alice.key, message) if message.id in barred else message, tangle)

    monkeypatch.setattr(reader, "add_modern", picky)
    pair = modern_pair(reader, writer)
    if late:
        pair = _LatePair(pair)
    sync(pair, root.id, opener)
    assert held(reader, root.id).keys() == {root.id, middle.id, last.id}
    assert all(reader.message(one.id) for one in ACCOUNT)
    first = pair.sides[0].finished[0]
    assert {one.message for one in first.refused} == barred, "what was taken in the end is not told as refused"
