"""The ledger of a node: what was promised is there after a crash, and a commit is whole or not at all."""

from contextlib import suppress
from random import Random
from typing import NoReturn

import pytest

from bobbin.errors import ResourceError
from bobbin.simulator.tangle_audit import audit
from bobbin.simulator.tangle_keepers import DiskKeeper, MemoryKeeper
from bobbin.simulator.tangle_node import TangleNode, after_commit
from bobbin.simulator.tangle_people import FEED, Pen, Person
from bobbin.simulator.tangle_truth import Truth
from bobbin.simulator.world import Broken
from bobbin.tangles.goals import parse_goal
from bobbin.tangles.session_effects import Commit
from tests.support.tangle_messages import Author


def fail(message: str) -> NoReturn:
    raise Broken(message)


def made(keeper: MemoryKeeper | DiskKeeper) -> tuple[TangleNode, Person]:
    person = Person("alice", Random(0))
    node = TangleNode("node", keeper, [person], fail)
    node.put(person.root, person.account)
    pen = Pen(Random(2), keeper, lambda message, tangle: fail("refused") if node.put(message, tangle) else None)
    for _ in range(10):
        pen.write(person, [])
    pen.begin(person, FEED)
    return node, person


def test_what_is_put_is_in_the_ledger() -> None:
    node, person = made(MemoryKeeper())
    node.check()
    assert person.account in node.ledger
    node.set_goal(person.feeds[FEED], parse_goal("newest-1"))
    node.collect()
    node.recover()
    node.check()


def test_a_message_that_vanishes_is_found_out() -> None:
    keeper = MemoryKeeper()
    node, person = made(keeper)
    keeper.store.erase(person.account)
    with pytest.raises(Broken, match="otherwise"):
        node.check()
    with pytest.raises(Broken, match="has lost"):
        node.set_goal(person.feeds[FEED], None)
    with pytest.raises(Broken, match="another stock"):
        node.recover()


def test_what_cannot_be_proven_may_go() -> None:
    keeper = MemoryKeeper()
    node = TangleNode("node", keeper, [], fail, lambda _: False)
    person = Person("alice", Random(0))
    node.put(person.root, person.account)
    keeper.store.delete(person.account)
    node.set_goal(person.account, None)
    assert node.ledger == {}


def test_a_commit_is_worked_out_in_memory() -> None:
    node, person = made(MemoryKeeper())
    other = Person("bob", Random(9))
    commit = Commit(token=1, tangle=other.account, messages=(other.root,))
    expected = after_commit(node.ledger, {}, commit)
    assert node.perform(commit).added == (other.account,)
    assert node.ledger == expected
    assert other.account in expected
    assert person.account in expected


def test_a_power_cut_in_a_commit_leaves_all_of_it_or_nothing() -> None:
    keeper = DiskKeeper("unit-node", Random(1))
    node, _ = made(keeper)
    other = Person("bob", Random(9))
    for rate in (0.05, 0.2, 0.5):
        keeper.set_faults(0.0, rate)
        with suppress(ResourceError):
            node.perform(Commit(token=1, tangle=other.account, messages=(other.root,)))
        keeper.set_faults(0.0, 0.0)
        node.recover()
    node.check()
    keeper.close()


def test_what_was_let_go_for_good_is_noted_beside_the_keeper() -> None:
    keeper, author = MemoryKeeper(), Author()
    node = TangleNode("node", keeper, [], fail)
    feed = author.set_feed(8)
    for message in [*author.account_messages, *feed]:
        node.put(message, author.account.id if message.is_account else feed[0].id)
    node.set_goal(feed[0].id, parse_goal("set"))
    node.collect()
    assert list(node.let_go[feed[0].id].depths) == list(keeper.ghosts(feed[0].id)) != []
    first, *others = (message for message in feed if message.id in keeper.ghosts(feed[0].id))
    for message, modern in ((first, True), (others[0], False)):
        commit = Commit(token=1, tangle=feed[0].id, messages=(message.erased(),), modern=modern)
        assert node.perform(commit).added == (message.id,)
        assert (message.id in node.let_go[feed[0].id]) is modern, "a real peer forgets a ghost that it holds"
    # A keeper that forgets as well is found out.
    keeper.store.load([first])
    keeper.store._ghosts.clear()
    wrong = f"{first.id} was let go for good, and is back with its data"
    assert wrong in list(audit(keeper, Truth(), [], let_go=node.let_go))
    assert wrong not in list(audit(keeper, Truth(), []))
