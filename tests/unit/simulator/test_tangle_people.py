"""People who write: what they write is right where they write it, and follows from what is known there."""

from random import Random

from bobbin.simulator.tangle_keepers import MemoryKeeper
from bobbin.simulator.tangle_people import FEED, Pen, Person
from bobbin.tangles.judgement import Mark
from bobbin.tangles.message import Message, MessageId


def place_of(person: Person) -> tuple[MemoryKeeper, list[Message], Pen]:
    keeper = MemoryKeeper()
    assert keeper.put(person.root, person.account) is None
    written: list[Message] = []

    def take_down(message: Message, tangle: MessageId) -> None:
        assert keeper.put(message, tangle) is None
        written.append(message)

    return keeper, written, Pen(Random(1), keeper, take_down)


def test_everything_that_is_written_is_proven_where_it_is_written() -> None:
    person = Person("alice", Random(0))
    keeper, written, pen = place_of(person)
    threads: list[MessageId] = []
    kinds = {pen.write(person, threads) for _ in range(60)}
    assert kinds >= {"post", "set", "dict", "thread", "reply", "key", "revoke"}
    assert all(keeper.mark(tangle, one.id) is Mark.FULL for one in written for tangle in one.places)
    assert any(len(one.places) == 2 for one in written)


def test_a_key_that_was_taken_away_writes_no_more() -> None:
    person = Person("alice", Random(0))
    keeper, _, pen = place_of(person)
    pen.add_key(person)
    assert person.keys_at(keeper) == person.keys
    assert len(person.keys) == 2
    pen.revoke_key(person)
    assert person.keys_at(keeper) == person.keys[:1]


def test_nobody_writes_for_an_account_that_is_not_known() -> None:
    stranger = Person("bob", Random(1))
    _, written, pen = place_of(Person("alice", Random(0)))
    assert pen.write(stranger, []) is None
    assert written == []


def test_a_feed_is_begun_once() -> None:
    person = Person("alice", Random(0))
    _, written, pen = place_of(person)
    assert pen.begin(person, FEED).id == person.feeds[FEED] == pen.begin(person, FEED).id
    assert [message.id for message in written] == [person.feeds[FEED]]
