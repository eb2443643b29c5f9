from bobbin.cluster.settings import DeadlockDetectorConfig, DistributedTxConfig
from bobbin.cluster.shard.events import Heard
from bobbin.cluster.transactions.messages import Recheck, Rechecked, WaitReport
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.phases import Ended
from tests.unit.cluster.shard.driven import DrivenShards

WAITING = DistributedTxConfig(lock_wait=True)
LOOKING = DeadlockDetectorConfig()


def crossed(
    config: DistributedTxConfig = WAITING, detector: DeadlockDetectorConfig = LOOKING
) -> tuple[DrivenShards, int, int]:
    """Two transfers over the same keys, each of which has got one of them first."""
    world = DrivenShards(2, config=config, detector=detector)
    first, second = world.key(0), world.key(1)
    older = world.transfer(first, second, born_ms=1)
    younger = world.transfer(first, second, home=1, born_ms=2)
    for shard in world.shards:
        shard.apply_next()
    prepares = sorted(world.messages, key=lambda sent: sent[0] != sent[1])
    world.messages.clear()
    for sender, receiver, message in prepares:
        world[receiver].step(Heard(sender, message))
    return world, older, younger


def rest(world: DrivenShards, rounds: int = 20) -> None:
    for _ in range(rounds):
        world.run()
        world.pass_time(LOOKING.detection_interval_ms)
    world.run()


def test_a_deadlock_over_two_shards_costs_the_younger_one() -> None:
    world, older, younger = crossed()
    rest(world)
    assert (world.ended(older), world.ended(younger)) == (Ended.COMMITTED, Ended.ABORTED)
    deadlocks = world[0].leader.deadlocks
    assert deadlocks is not None
    assert (deadlocks.deadlocks_detected, deadlocks.victims) == (1, 1)
    assert world[1].leader.deadlocks is None
    rest(world, 3)
    world.check_quiet()


def test_nobody_is_aborted_where_that_is_switched_off_and_a_person_is_told() -> None:
    world, older, younger = crossed(detector=DeadlockDetectorConfig(auto_abort_victim=False))
    rest(world)
    assert older not in world.answers
    assert younger not in world.answers
    assert [alarm.code for alarm in world.alarms] == ["deadlock"]


def test_without_the_search_nothing_is_reported_and_time_ends_it() -> None:
    world, older, younger = crossed(detector=DeadlockDetectorConfig(enabled=False))
    world.run()
    world.pass_time(100)
    assert not any(isinstance(message, WaitReport) for _, _, message in world.messages)
    world.pass_time(5_000)
    world.run()
    assert {world.ended(older), world.ended(younger)} <= {Ended.BUSY, Ended.COMMITTED}


def test_with_wound_wait_the_younger_one_gives_way_without_a_search() -> None:
    config = DistributedTxConfig(lock_wait=True, wound_wait=True)
    world, older, younger = crossed(config, DeadlockDetectorConfig(enabled=False))
    world.run()
    assert (world.ended(older), world.ended(younger)) == (Ended.COMMITTED, Ended.ABORTED)
    world.check_quiet()


def reports(world: DrivenShards) -> list[WaitReport]:
    found = [message for _, _, message in world.messages if isinstance(message, WaitReport)]
    world.messages.clear()
    return found


def test_waits_are_reported_once_in_an_interval_and_once_more_when_there_are_none() -> None:
    world = DrivenShards(2, config=WAITING, detector=LOOKING)
    first, second = world.key(0), world.key(1)
    world.transfer(first, second)
    world[0].apply_next()
    world.deliver()
    world[0].apply_next()
    world.messages.clear()
    waiting = world.transfer(first, second)
    world[0].apply_next()
    world.deliver()
    world.messages.clear()
    world.pass_time(1)
    (report,) = reports(world)
    assert len(report.edges) == 1
    assert report.edges[0].coordinator == 0
    world.pass_time(LOOKING.detection_interval_ms - 1)
    assert reports(world) == []
    world.pass_time(1)
    (again,) = reports(world)
    assert again.round > report.round
    world.pass_time(world.config.prepare_timeout_ms)
    (last,) = reports(world)
    assert last.edges == ()
    world.pass_time(LOOKING.detection_interval_ms)
    assert reports(world) == []
    assert waiting is not None


def test_only_edges_that_stand_are_confirmed_and_only_to_the_one_who_searches() -> None:
    world, _, _ = crossed()
    graph = world[1].leader._leading.locks.waits
    ((waiter, holders),) = graph.edges.items()
    (holder,) = holders
    asked = Recheck(7, ShardId(1), ((waiter, holder), (holder, waiter), (TxId(bytes(16)), holder)))
    world.messages.clear()
    world[1].step(Heard(ShardId(1), asked))
    assert not world.messages
    world[1].step(Heard(ShardId(0), asked))
    assert list(world.messages) == [(1, 0, Rechecked(7, ShardId(1), ((waiter, holder),)))]


def test_reports_in_anothers_name_are_not_listened_to() -> None:
    world = DrivenShards(2, detector=LOOKING)
    world[0].step(Heard(ShardId(0), WaitReport(ShardId(1), 1, 1, ())))
    detection = world[0].leader.watching.detection
    assert detection is not None
    assert not detection._heard
    world[0].step(Heard(ShardId(1), WaitReport(ShardId(1), 1, 1, ())))
    assert list(detection._heard) == [1]
