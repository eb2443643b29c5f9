from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Embed, Put, Transaction, VectorAdd
from bobbin.cluster.shard.commands import Drop
from bobbin.cluster.transactions.phases import Ended
from tests.unit.cluster.shard.driven import DrivenShards, restored
from tests.unit.cluster.shard.test_operating import replace_codebook

KEY = b"g"


def _world() -> tuple[DrivenShards, Transaction]:
    """A key with a vector that the codebook knows, and a transaction that would move it to where it knows nothing."""
    world = DrivenShards()
    replace_codebook(world)
    world.run()
    request = world.commit(world.transaction(Embed(KEY, Embedding.of(16, {0: 1.0}))))
    world.run()
    assert world.ended(request) is Ended.COMMITTED
    return world, world.transaction(VectorAdd(KEY, Embedding.of(16, {1: 1.0})), Put(b"beside", b"v"))


def test_what_the_codebook_refuses_is_refused_at_once_with_the_reason() -> None:
    world, strange = _world()
    request = world.commit(strange)
    assert request not in world.answers, "not before it is in the log"
    world.run()
    answer = world.answers[request]
    assert answer.ended is Ended.REFUSED
    assert "similarity of 0.707" in answer.reason
    assert world.value(b"beside") is None
    world.check_quiet()


def test_what_was_refused_stays_so_under_another_codebook_and_another_leader() -> None:
    world, strange = _world()
    world.commit(strange)
    world.run()
    replace_codebook(
        world, GlobalCodebook(2, [Embedding.of(16, {0: 1.0}), Embedding.of(16, {0: 1.0, 1: 1.0})]).encode()
    )
    world.run()
    world[0].lead()
    again = world.commit(strange)
    world.run()
    assert world.ended(again) is Ended.REFUSED
    assert "it was refused" in world.answers[again].reason
    assert restored(world[0].state).participant.ended(strange.id) is not None  # type: ignore[arg-type]
    other = world.commit(world.transaction(*strange.operations))
    world.run()
    assert world.ended(other) is Ended.COMMITTED, "under an id of its own it is a new one"


def test_whoever_asks_again_meanwhile_is_told_with_the_first() -> None:
    world, strange = _world()
    requests = [world.commit(strange) for _ in range(3)]
    assert [type(proposal.command) for proposal in world[0].proposals] == [Drop]
    assert world[0].leader.leftovers()["refusals"] == 1
    assert world[0].leader.committing.is_local(strange.id)  # type: ignore[arg-type]
    world.run()
    assert {world.ended(request) for request in requests} == {Ended.REFUSED}
    world.check_quiet()


def test_a_refusal_that_never_came_to_the_log_is_not_final() -> None:
    world, strange = _world()
    request = world.commit(strange)
    world[0].lose_next()
    assert world.ended(request) is Ended.BUSY
    world.check_quiet()


def test_others_of_the_same_turn_are_committed() -> None:
    world, strange = _world()
    world.commit(world.transaction(Put(b"before", b"v")))
    request = world.commit(strange)
    beside = world.commit(world.transaction(Put(b"other", b"v")))
    world.run()
    assert (world.ended(request), world.ended(beside)) == (Ended.REFUSED, Ended.COMMITTED)
    world.check_quiet()
