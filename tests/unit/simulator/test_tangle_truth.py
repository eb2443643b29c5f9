"""What is true of a world's messages, whoever holds what."""

from random import Random

import pytest

from bobbin.simulator.tangle_forgery import Forger
from bobbin.simulator.tangle_keepers import MemoryKeeper
from bobbin.simulator.tangle_people import FEED, Pen, Person
from bobbin.simulator.tangle_truth import Truth, is_sound, size_of
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message, MessageId, from_json


def written(count: int) -> tuple[Person, MemoryKeeper, Truth, list[Message]]:
    person, keeper, truth = Person("alice", Random(0)), MemoryKeeper(), Truth()
    messages = [person.root]
    keeper.put(person.root, person.account)

    def take_down(message: Message, tangle: MessageId) -> None:
        keeper.put(message, tangle)
        messages.append(message)

    pen = Pen(Random(2), keeper, take_down)
    threads: list[MessageId] = []
    for _ in range(count):
        pen.write(person, threads)
    for message in messages:
        truth.learn(message)
    return person, keeper, truth, messages


def test_what_people_write_is_true() -> None:
    _, _, truth, messages = written(40)
    assert all(truth.is_true(message.id) for message in messages)
    assert all(truth.is_full(tangle, message.id) for message in messages for tangle in message.places)


def test_a_later_message_of_an_account_begins_no_tangle() -> None:
    _, _, truth, messages = written(40)
    later = next(message for message in messages if message.is_account and message.places)
    assert not truth.is_full(later.id, later.id)
    assert truth.is_true(later.id)


def test_what_lacks_something_is_not_true_until_it_is_there() -> None:
    _, _, truth, messages = written(10)
    last = next(one for one in reversed(messages) if one.places and not one.is_account)
    poor = Truth()
    poor.learn(last)
    assert last.id in poor
    assert not poor.is_true(last.id)
    for message in messages:
        poor.learn(message)
    assert poor.is_true(last.id)
    assert truth[last.id] == poor[last.id]


@pytest.mark.parametrize("kind", ["root", "account", "post"])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_copy_that_a_stranger_has_signed_is_not_true_and_hides_nothing(kind: str, *, is_late: bool) -> None:
    _, _, _, messages = written(40)
    fitting = [one for one in messages if one.has_data and one.is_account is (kind != "post")]
    right = next(one for one in fitting if bool(one.places) is (kind != "root"))
    stranger = Keypair.from_words("stranger")
    sig = stranger.sign(right.signed)
    copy = from_json({"data": right.data, "metadata": right.metadata, "sigkey": stranger.public, "sig": sig})
    assert copy.id == right.id
    truth = Truth()
    for message in [*messages, copy] if is_late else [copy, *messages]:
        truth.learn(message)
    for tangle in right.places or (right.id,):
        assert truth.is_full(tangle, right.id)
        assert truth.is_full(tangle, right.id, right.sigkey)
        assert not truth.is_full(tangle, right.id, stranger.public)


def test_an_altered_message_is_not_sound_and_never_known() -> None:
    _, _, truth, messages = written(10)
    message = next(one for one in messages if one.has_data and not one.is_account)
    assert is_sound(message.raw) is None
    value = {"data": {"text": "other"}, "metadata": message.metadata, "sigkey": message.sigkey, "sig": message.sig}
    altered = from_json(value)  # type: ignore[arg-type]
    assert is_sound(altered.raw) == "its data is not what it names"
    truth.learn(altered)
    assert truth[message.id].raw == message.raw
    assert is_sound(message.erased().raw) is None
    assert size_of(message.erased()) == size_of(message) == len(message.raw)


def test_an_oversized_message_is_never_proven() -> None:
    person, keeper, truth, _ = written(10)
    forger = Forger(Random(1), person, [person])
    feed = keeper.tangle(person.feeds[FEED])
    huge = forger._oversized(feed, keeper.tangle, [])
    truth.learn(huge)
    assert not truth.is_full(feed.id, huge.id)
