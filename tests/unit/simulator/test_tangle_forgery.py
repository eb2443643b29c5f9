"""Forgeries: each kind is made, decodes, and none of those that nobody may take is true."""

from random import Random

from bobbin.simulator.tangle_forgery import Forger
from bobbin.simulator.tangle_keepers import MemoryKeeper
from bobbin.simulator.tangle_people import FEED, Pen, Person
from bobbin.simulator.tangle_truth import Truth
from bobbin.tangles.message import Message, MessageId, decode


def test_every_kind_is_made_and_most_are_wrong() -> None:
    random = Random(4)
    victim, mallory, keeper, truth = Person("alice", random), Person("mallory", random), MemoryKeeper(), Truth()
    known: list[Message] = []

    def take_down(message: Message, tangle: MessageId) -> None:
        assert keeper.put(message, tangle) is None
        truth.learn(message)
        known.append(message)

    for person in (victim, mallory):
        take_down(person.root, person.account)
    pen = Pen(random, keeper, take_down)
    for _ in range(20):
        pen.write(victim, [])
    pen.add_key(victim)
    forger = Forger(random, mallory, [victim])
    made: list[tuple[MessageId, Message]] = []
    for _ in range(200):
        tangle = random.choice((victim.feeds[FEED], victim.account))
        forged = forger.forge(keeper.tangle(tangle), keeper.tangle, known)
        if forged is not None:
            assert decode(forged.raw).id == forged.id
            truth.learn(forged)
            made.append((tangle, forged))
    assert len(forger.made) >= 13
    right = {message.id: message for message in known if not message.is_moot}
    copies = [(tangle, one) for tangle, one in made if one.id in right and one.sigkey != right[one.id].sigkey]
    assert copies
    assert not any(truth.is_full(tangle, one.id, one.sigkey) for tangle, one in copies)
    assert all(truth.is_full(tangle, one.id) for tangle, one in copies), "the genuine ones are there as well"
    wrong = [one for tangle, one in made if not truth.is_full(tangle, one.id, one.sigkey)]
    assert len(wrong) > len(made) / 2


def test_nothing_is_forged_in_a_tangle_that_is_not_known() -> None:
    random = Random(0)
    person, keeper = Person("alice", random), MemoryKeeper()
    assert Forger(random, person, [person]).forge(keeper.tangle(person.account), keeper.tangle, []) is None
