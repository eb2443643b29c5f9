"""The audit of a node: silent about an honest one, and loud about what should not be there."""

from random import Random

import pytest

from bobbin.simulator.tangle_audit import audit, audit_upkeep
from bobbin.simulator.tangle_keepers import MemoryKeeper
from bobbin.simulator.tangle_people import FEED, Pen, Person
from bobbin.simulator.tangle_truth import Truth
from bobbin.tangles import accounts, compose
from bobbin.tangles.goals import parse_goal
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message, MessageId, from_json
from bobbin.tangles.tangle import Tangle


def honest() -> tuple[Person, MemoryKeeper, Truth, list[Message]]:
    person, keeper, truth = Person("alice", Random(0)), MemoryKeeper(), Truth()
    messages: list[Message] = []

    def take_down(message: Message, tangle: MessageId) -> None:
        assert keeper.put(message, tangle) is None
        truth.learn(message)
        messages.append(message)

    take_down(person.root, person.account)
    pen = Pen(Random(2), keeper, take_down)
    for _ in range(6):
        pen._append(person, person.keys[0], FEED, {"text": "x"})
    return person, keeper, truth, messages


def test_an_honest_node_passes() -> None:
    person, keeper, truth, _ = honest()
    assert list(audit(keeper, truth, [person])) == []


def test_what_should_not_be_there_is_named() -> None:
    person, keeper, truth, messages = honest()
    stranger = Person("bob", Random(5))
    assert "never of its account" in next(audit(keeper, truth, [stranger]))
    assert any("is called proven" in wrong for wrong in audit(keeper, Truth(), [person]))
    last = messages[-1]
    value = {"data": {"text": "other"}, "metadata": last.metadata, "sigkey": last.sigkey, "sig": last.sig}
    keeper.store.delete(last.id)
    keeper.store.load([from_json(value)])  # type: ignore[arg-type]
    assert any("not what it names" in wrong for wrong in audit(keeper, truth, [person]))


def test_a_key_that_was_added_without_having_agreed_signs_in_nine_phases_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 6561: real peers do not ask whether a key has agreed, so what it signs is kept there."""
    person, keeper, truth, messages = honest()
    key, other = Keypair.from_words("never asked"), Keypair.from_words("never added")
    account, feed = Tangle(person.account, [person.root]), Tangle(messages[1].id, messages[1:])
    with monkeypatch.context() as careless:
        careless.setattr(accounts, "is_consent", lambda *_: True)
        agreed = accounts.consent(key, messages[1].id)
        added = compose.account_add(person.keys[0], account, key=key.public, consent=agreed)
    keyed = Tangle(person.account, [person.root, added])
    posts = [
        compose.post(one, {"text": one.public}, account=keyed, domain=FEED, tangles=[feed]) for one in (key, other)
    ]
    keeper.store.load([added, posts[0]])
    assert list(audit(keeper, truth, [person])) == []
    assert any("never of its account" in wrong for wrong in audit(keeper, truth, [person], modern=True))
    keeper.store.load([posts[1]])
    assert any("never of its account" in wrong for wrong in audit(keeper, truth, [person]))


def test_who_may_not_add_keys_adds_none_in_nine_phases_either() -> None:
    """Real peers ask whether the signer of an ``add`` holds the power, whoever else it was given by."""
    person, keeper, truth, messages = honest()
    trusted, plain = Keypair.from_words("may add"), Keypair.from_words("may not add")
    keyed = Tangle(person.account, [person.root])
    feed = Tangle(messages[1].id, messages[1:])

    def add(by: Keypair, key: Keypair, powers: tuple[str, ...] = ()) -> Message:
        agreed = accounts.consent(key, person.account)
        return compose.account_add(by, keyed, key=key.public, consent=agreed, powers=powers)

    def hold(*messages: Message) -> list[str]:
        for message in messages:
            truth.learn(message)
            keyed.add(message)
        keeper.store.load(messages)
        return list(audit(keeper, truth, [person]))

    later = [Keypair.from_words(f"later {number}") for number in range(2)]
    assert hold(add(person.keys[0], trusted, ("add",)), add(person.keys[0], plain)) == []
    assert hold(add(trusted, later[0])) == []
    assert hold(compose.post(later[0], {"text": "x"}, account=keyed, domain=FEED, tangles=[feed])) == []
    wrong = hold(add(plain, later[1]))
    assert [one.split(", and ")[1] for one in wrong] == ["adds a key by one that may not"]
    wrong = hold(compose.post(later[1], {"text": "y"}, account=keyed, domain=FEED, tangles=[feed]))
    assert any("never of its account" in one for one in wrong)


def test_upkeep_that_goes_too_far_is_found() -> None:
    person, keeper, _, messages = honest()
    feed = person.feeds[FEED]
    keeper.set_goal(feed, parse_goal("newest-2"))
    before = keeper.snapshot()
    keeper.collect()
    assert list(audit_upkeep(keeper, before)) == []
    keeper.store.erase(messages[-1].id)
    assert "asks for it" in next(audit_upkeep(keeper, before))
    keeper.store.delete(person.account)
    assert any("signed for was let go" in wrong for wrong in audit_upkeep(keeper, before))
