"""Both keepers answer alike; one of them survives a power cut."""

from collections.abc import Iterator
from random import Random

import pytest

from bobbin.simulator.tangle_keepers import DiskKeeper, Keeper, MemoryKeeper
from bobbin.simulator.tangle_people import FEED, SET, Pen, Person
from bobbin.tangles.goals import parse_goal
from bobbin.tangles.judgement import Mark
from bobbin.tangles.session_effects import Commit


@pytest.fixture(params=["memory", "disk"])
def keeper(request: pytest.FixtureRequest) -> Iterator[Keeper]:
    made: Keeper = MemoryKeeper() if request.param == "memory" else DiskKeeper("unit-keeper", Random(0))
    yield made
    made.close()


def fill(keeper: Keeper, person: Person, count: int = 12) -> None:
    keeper.put(person.root, person.account)

    def put(message: object, tangle: str) -> None:
        assert keeper.put(message, tangle) is None  # type: ignore[arg-type]

    pen = Pen(Random(3), keeper, put)
    for _ in range(count):
        pen.write(person, [])
    pen.begin(person, FEED)


def test_what_is_put_is_held_and_read_back(keeper: Keeper) -> None:
    person = Person("alice", Random(0))
    fill(keeper, person)
    stock = keeper.snapshot()
    assert len(stock) > 12
    for id, raw in stock.items():
        message = keeper.message(id)
        assert message is not None
        assert message.raw == raw
    assert keeper.put(person.root, person.account) == "known"
    assert keeper.mark(person.account, person.account) is Mark.FULL
    assert keeper.proven(person.feeds[FEED]).root is not None
    assert keeper.findings() == []
    assert not keeper.is_down


def test_a_commit_is_performed_and_survives(keeper: Keeper) -> None:
    person = Person("alice", Random(0))
    done = keeper.perform(Commit(token=3, tangle=person.account, messages=(person.root,)))
    assert (done.token, done.added) == (3, (person.account,))
    keeper.restart()
    assert keeper.snapshot() == {person.account: person.root.raw}
    assert keeper.library.tangle(person.account) is not None
    assert keeper.modern_library.depths(person.account).top == 0


def test_goals_let_go_what_was_planned(keeper: Keeper) -> None:
    person = Person("alice", Random(0))
    fill(keeper, person, 30)
    for domain, goal in ((FEED, "newest-1"), (SET, "set")):
        keeper.set_goal(person.feeds[domain], parse_goal(goal))
    assert keeper.goal(person.feeds[FEED]) == parse_goal("newest-1")
    before, plan = keeper.snapshot(), keeper.plan()
    assert plan.deleted or plan.erased
    keeper.collect()
    assert keeper.snapshot().keys() == before.keys() - set(plan.deleted)
    assert {ghost.id for ghost in plan.ghosts} >= set(keeper.ghosts(person.feeds[SET]))
    keeper.set_goal(person.feeds[FEED], None)
    assert keeper.goal(person.feeds[FEED]) is None


def test_a_disk_loses_what_was_not_durable() -> None:
    keeper = DiskKeeper("unit-keeper-down", Random(5))
    person = Person("alice", Random(0))
    keeper.put(person.root, person.account)
    keeper.set_faults(0.0, 1.0)
    with pytest.raises(Exception, match=r"records\.db"):
        fill(keeper, person)
    assert keeper.is_down
    keeper.set_faults(0.0, 0.0)
    keeper.restart()
    assert set(keeper.snapshot()) == {person.account}
    keeper.close()
