from bobbin.cluster.operations import Put
from bobbin.cluster.shard.commands import Log
from bobbin.cluster.shard.effects import Alarm, Propose
from tests.unit.cluster.shard.participating import Participating


def test_a_new_leader_has_the_locks_of_all_promises_and_nothing_else() -> None:
    one = Participating()
    message = one.promise(one.part(Put(one.key(), b"1")))
    one.prepare(one.part(Put(one.key("never"), b"1")))
    one.shard.lead()
    locks = one.shard.leader._leading.locks
    assert locks.transactions == (message.tx,)
    held = locks.held(message.tx)
    assert held is not None
    assert held.is_promised
    assert locks.save() == one.state.participant.locks.save()


def test_proposals_are_numbered_and_effects_are_given_once() -> None:
    leading = Participating().shard.leader._leading
    first, second = leading.propose(Log(())), leading.propose(Log(()))
    leading.alarm("code", "detail")
    assert second == first + 1
    assert leading.take_effects() == [Propose(first, Log(())), Propose(second, Log(())), Alarm("code", "detail")]
    assert leading.take_effects() == []
