"""The search over all shards: what is reported, asked again, and told to go."""

from dataclasses import dataclass, field

import pytest

from bobbin.cluster.settings import DeadlockDetectorConfig, VictimSelectionPolicy
from bobbin.cluster.transactions import detection
from bobbin.cluster.transactions.deadlock import DeadlockInfo, DeadlockStats
from bobbin.cluster.transactions.detection import (
    ANSWER_INTERVALS,
    SILENT_INTERVALS,
    Detection,
    DetectionEffect,
    Found,
    Say,
    recheck,
    wait_report,
)
from bobbin.cluster.transactions.locks import LockManager, LockRefused
from bobbin.cluster.transactions.messages import Recheck, Rechecked, VictimMsg, WaitEdge, WaitReport
from bobbin.cluster.transactions.names import ShardId, TxId
from tests.unit.cluster.transactions.graphs import A, B, C, tx

ZERO, ONE, TWO = ShardId(0), ShardId(1), ShardId(2)
INTERVAL_MS = DeadlockDetectorConfig().detection_interval_ms


def edge(waiter: TxId, holder: TxId, **given: int) -> WaitEdge:
    said = {"started_ms": 0, "born_ms": 0, "priority": 0, "locks": 0} | given
    return WaitEdge(
        waiter,
        holder,
        said["started_ms"],
        said["born_ms"],
        said["priority"],
        said["locks"],
        ShardId(said.get("coordinator", waiter[-1])),
    )


@dataclass
class Watched:
    """A detection, and shards that answer by what they are said to hold."""

    config: DeadlockDetectorConfig = field(default_factory=DeadlockDetectorConfig)
    now_ms: int = 0
    rounds: dict[ShardId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.machine = Detection(self.config, shards=3, stats=DeadlockStats())

    @property
    def stats(self) -> DeadlockStats:
        return self.machine.stats

    def report(self, shard: ShardId, *edges: WaitEdge, term: int = 1) -> bool:
        self.rounds[shard] = self.rounds.get(shard, 0) + 1
        return self.machine.report(WaitReport(shard, self.rounds[shard], term, edges), now_ms=self.now_ms)

    def tick(self, after_ms: int = INTERVAL_MS) -> list[DetectionEffect]:
        self.now_ms += after_ms
        return self.machine.tick(now_ms=self.now_ms)

    def answer(self, effect: DetectionEffect, *standing: tuple[TxId, TxId]) -> list[DetectionEffect]:
        assert isinstance(effect, Say)
        assert isinstance(effect.message, Recheck)
        said = Rechecked(effect.message.number, effect.shard, standing)
        return self.machine.rechecked(said, now_ms=self.now_ms)


def two_shards(watched: Watched, **given: int) -> None:
    """A waits for B on the one, and B for A on the other."""
    watched.report(ZERO, edge(A, B, **given))
    watched.report(ONE, edge(B, A, **given))


def broken(victim: TxId, coordinator: int, length: int = 2) -> Say:
    reason = f"deadlock: a circle of {length} transactions that wait for each other"
    return Say(ShardId(coordinator), VictimMsg(victim, ShardId(coordinator), reason))


def test_a_circle_over_two_shards_is_asked_for_again_and_then_broken() -> None:
    watched = Watched()
    two_shards(watched)
    asked = watched.tick()
    assert asked == [Say(ZERO, Recheck(1, ZERO, ((A, B),))), Say(ONE, Recheck(1, ONE, ((B, A),)))]
    assert watched.answer(asked[0], (A, B)) == []
    told = watched.answer(asked[1], (B, A))
    assert told == [broken(B, 1), Found(DeadlockInfo((B, A), B), INTERVAL_MS, is_aborted=True)]
    assert (watched.stats.deadlocks_detected, watched.stats.victims, watched.stats.passes) == (1, 1, 1)
    assert (watched.stats.cycle_length_total, watched.stats.stood_ms_total) == (2, INTERVAL_MS)


@pytest.mark.parametrize("gone", [0, 1])
def test_a_circle_that_has_dissolved_costs_nobody(gone: int) -> None:
    watched = Watched()
    two_shards(watched)
    asked = watched.tick()
    standing: list[tuple[tuple[TxId, TxId], ...]] = [((A, B),), ((B, A),)]
    standing[gone] = ()
    assert watched.answer(asked[0], *standing[0]) == []
    assert watched.answer(asked[1], *standing[1]) == []
    assert (watched.stats.dissolved, watched.stats.deadlocks_detected) == (1, 0)


def test_an_answer_counts_once_for_its_own_question_and_for_no_other_edge() -> None:
    watched = Watched()
    two_shards(watched)
    zero, one = watched.tick()
    assert watched.answer(zero, (A, B)) == []
    assert watched.answer(zero, (A, B), (B, A)) == [], "the same shard again"
    assert watched.machine.rechecked(Rechecked(99, ONE, ((B, A),)), now_ms=0) == []
    assert watched.machine.rechecked(Rechecked(1, TWO, ((B, A),)), now_ms=0) == [], "a shard that was not asked"
    assert watched.answer(one, (C, A)) == [], "not the edge that was asked for"
    assert watched.stats.dissolved == 1
    assert watched.answer(one, (B, A)) == [], "the question is over"


def test_an_edge_that_two_shards_report_stands_while_one_of_them_has_it() -> None:
    watched = Watched()
    watched.report(ZERO, edge(A, B))
    watched.report(ONE, edge(B, A))
    watched.report(TWO, edge(A, B))
    asked = watched.tick()
    assert [one.shard for one in asked if isinstance(one, Say)] == [ZERO, ONE, TWO]
    assert watched.answer(asked[0]) == []
    assert watched.answer(asked[1], (B, A)) == []
    assert watched.answer(asked[2], (A, B))[0] == broken(B, 1)


def test_older_reports_of_a_shard_are_dropped() -> None:
    watched = Watched()
    machine = watched.machine
    assert machine.report(WaitReport(ZERO, 5, 2, (edge(A, B),)), now_ms=0)
    assert machine.report(WaitReport(ONE, 7, 2, ()), now_ms=0)
    for number, term in ((7, 2), (6, 2), (8, 1)):
        assert not machine.report(WaitReport(ONE, number, term, (edge(B, A),)), now_ms=0)
    assert watched.tick() == []
    assert machine.report(WaitReport(ONE, 1, 3, (edge(B, A),)), now_ms=0), "a new leader counts from the start"
    assert len(watched.tick()) == 2


def test_a_report_replaces_what_the_shard_said_before() -> None:
    watched = Watched()
    two_shards(watched)
    watched.report(ONE)
    assert watched.tick() == []
    watched.report(ZERO)
    assert watched.machine.is_quiet


def test_a_silent_shard_says_nothing_and_what_it_said_does_not_come_back() -> None:
    watched = Watched()
    two_shards(watched)
    watched.tick(0)
    for _ in range(SILENT_INTERVALS - 1):
        watched.report(ZERO, edge(A, B))
        watched.tick()
    assert not watched.machine.is_quiet
    watched.report(ZERO, edge(A, B))
    watched.now_ms += INTERVAL_MS
    assert watched.machine.tick(now_ms=watched.now_ms) == []
    assert not watched.machine.report(WaitReport(ONE, 1, 1, (edge(B, A),)), now_ms=watched.now_ms)
    assert watched.tick() == []
    assert watched.report(ONE, edge(B, A))
    assert len(watched.tick()) == 2


def test_an_edge_lives_as_long_as_its_wait() -> None:
    """L22: one that is a minute old still closes a circle."""
    watched = Watched()
    while watched.now_ms < 60_000:
        watched.report(ZERO, edge(A, B, started_ms=0))
        assert watched.tick() == []
    two_shards(watched)
    assert len(watched.tick()) == 2


def test_strange_reports_are_not_listened_to() -> None:
    watched = Watched()
    assert not watched.report(ShardId(3), edge(A, B))
    assert not watched.report(ShardId(-1), edge(A, B))
    assert watched.report(ZERO, edge(A, A))
    assert watched.tick() == [], "nobody waits for itself"


def test_the_settings_begin_as_the_seed_has_them() -> None:
    assert DeadlockDetectorConfig() == DeadlockDetectorConfig(
        enabled=True,
        detection_interval_ms=100,
        victim_policy=VictimSelectionPolicy.YOUNGEST,
        max_cycle_length=100,
        auto_abort_victim=True,
    )
    assert {policy.name for policy in VictimSelectionPolicy} == {"YOUNGEST", "OLDEST", "LOWEST_PRIORITY", "MOST_LOCKS"}


def test_a_search_is_made_once_in_an_interval() -> None:
    watched = Watched(DeadlockDetectorConfig(detection_interval_ms=250))
    two_shards(watched)
    assert watched.machine.due_ms == 0
    assert len(watched.tick(1)) == 2
    assert watched.machine.due_ms == 251
    watched.report(TWO, edge(tx(5), tx(6)), edge(tx(6), tx(5)))
    assert watched.tick(249) == []
    assert len(watched.tick(1)) == 1


def test_with_the_search_off_nothing_is_kept_and_nothing_is_wanted() -> None:
    watched = Watched(DeadlockDetectorConfig(enabled=False))
    assert not watched.report(ZERO, edge(A, B), edge(B, A))
    assert watched.machine.due_ms is None
    assert watched.tick() == []
    assert watched.stats == DeadlockStats()


def test_without_auto_abort_a_circle_is_reported_once_and_nobody_goes() -> None:
    watched = Watched(DeadlockDetectorConfig(auto_abort_victim=False))
    two_shards(watched)
    zero, one = watched.tick()
    watched.answer(zero, (A, B))
    assert watched.answer(one, (B, A)) == [Found(DeadlockInfo((B, A), B), INTERVAL_MS, is_aborted=False)]
    assert (watched.stats.deadlocks_detected, watched.stats.victims) == (1, 0)
    for _ in range(3 * ANSWER_INTERVALS):
        two_shards(watched)
        assert watched.tick() == []
    watched.report(ONE)
    watched.tick()
    two_shards(watched)
    assert len(watched.tick()) == 2, "another wait is another deadlock"


@pytest.mark.parametrize(
    ("policy", "victim"),
    [
        (VictimSelectionPolicy.YOUNGEST, 0),
        (VictimSelectionPolicy.OLDEST, 1),
        (VictimSelectionPolicy.LOWEST_PRIORITY, 2),
        (VictimSelectionPolicy.MOST_LOCKS, 3),
    ],
)
def test_the_policy_of_the_settings_decides(policy: VictimSelectionPolicy, victim: int) -> None:
    watched = Watched(DeadlockDetectorConfig(victim_policy=policy))
    # Three waits on one shard, the fourth on another one, on which it has more locks; clocks of two shards differ.
    watched.report(
        ZERO,
        edge(tx(0), tx(1), born_ms=90, started_ms=1_300, priority=1, locks=2),
        edge(tx(1), tx(2), born_ms=80, started_ms=1_100, priority=2, locks=1),
        edge(tx(2), tx(3), born_ms=70, started_ms=1_200, priority=9, locks=3),
        edge(tx(3), tx(9), born_ms=60, started_ms=1_250, priority=0, locks=2),
    )
    watched.report(ONE, edge(tx(3), tx(0), born_ms=60, started_ms=5, priority=0, locks=2))
    asked = watched.tick()
    assert isinstance(asked[0], Say)
    assert isinstance(asked[0].message, Recheck)
    first = asked[0].message.edges[0]
    edges = [(tx(at), tx((at + 1) % 4)) for at in range(4)]
    effects = [effect for one in asked for effect in watched.answer(one, *edges)]
    assert effects[0] == broken(tx(victim), victim, 4)
    assert first in edges


def test_the_victims_coordinator_is_told_wherever_it_is() -> None:
    watched = Watched()
    watched.report(ZERO, edge(A, B, coordinator=2), edge(B, A, coordinator=2))
    (asked,) = watched.tick()
    assert watched.answer(asked, (A, B), (B, A))[0] == broken(B, 2)


def test_a_victim_that_was_told_counts_as_gone_until_it_was_told_in_vain() -> None:
    """Two circles over A and B, of which each has a victim: A must not go as well while these are on their way."""
    watched = Watched()
    both = (edge(A, B), edge(B, A), edge(B, C), edge(C, A))
    watched.report(ZERO, *both)
    asked = watched.tick()
    pairs = [(one.waiter, one.holder) for one in both]
    told = [effect for one in asked for effect in watched.answer(one, *pairs)]
    victims = [one.message.tx for one in told if isinstance(one, Say) and isinstance(one.message, VictimMsg)]
    assert victims == [C, B]
    for _ in range(ANSWER_INTERVALS - 1):
        watched.report(ZERO, *both)
        assert watched.tick() == []
    watched.report(ZERO, *both)
    assert len(watched.tick()) == 2, "the messages were lost, for both still wait"


def test_a_question_without_an_answer_is_asked_again() -> None:
    watched = Watched()
    two_shards(watched)
    first = watched.tick()
    for _ in range(ANSWER_INTERVALS - 1):
        two_shards(watched)
        assert watched.tick() == []
    two_shards(watched)
    second = watched.tick()
    assert watched.stats.unanswered == 1
    for late in first:
        assert watched.answer(late, (A, B), (B, A)) == []
    assert watched.answer(second[0], (A, B)) == []
    assert len(watched.answer(second[1], (B, A))) == 2


def test_long_circles_are_broken_and_counted() -> None:
    watched = Watched(DeadlockDetectorConfig(max_cycle_length=100))
    for first, length in ((0, 100), (200, 1_000)):
        edges = [edge(tx(first + at), tx(first + (at + 1) % length), coordinator=1) for at in range(length)]
        watched.report(ShardId(min(first, 1)), *edges)
    effects = [
        effect
        for one in watched.tick()
        if isinstance(one, Say) and isinstance(one.message, Recheck)
        for effect in watched.answer(one, *one.message.edges)
    ]
    assert [one.message.tx for one in effects if isinstance(one, Say) and isinstance(one.message, VictimMsg)] == [
        tx(1_199),
        tx(99),
    ]
    assert (watched.stats.over_length, watched.stats.cycle_length_max) == (1, 1_000)


def test_what_is_too_much_for_one_interval_waits_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "CHECKS_MAX", 2)
    watched = Watched()
    pairs = [(tx(at), tx(at ^ 1)) for at in range(10)]
    told: list[TxId] = []
    for _ in range(5):
        gone = set(told)
        watched.report(ZERO, *(edge(one, other) for one, other in pairs if not {one, other} & gone))
        asked = watched.tick()
        assert len(asked) <= 2
        for one in asked:
            told += [
                effect.message.tx
                for effect in watched.answer(one, *pairs)
                if isinstance(effect, Say) and isinstance(effect.message, VictimMsg)
            ]
    assert told == [tx(9), tx(7), tx(5), tx(3), tx(1)]


def test_a_shard_reports_all_its_waits_and_says_which_still_stand() -> None:
    locks = LockManager(timeout_ms=None)
    homes = {A: ONE, C: TWO}
    locks.try_lock(A, [b"a"], 0)
    locks.try_lock(B, [b"b", b"more"], 0)
    assert isinstance(locks.lock_or_wait(C, [b"a", b"b"], 30, born_ms=4, priority=5), LockRefused)
    assert isinstance(locks.lock_or_wait(A, [b"b"], 40, born_ms=3), LockRefused)
    said = wait_report(locks, shard=TWO, number=8, term=3, coordinator_of=homes.__getitem__)
    assert said == WaitReport(
        TWO,
        8,
        3,
        (WaitEdge(A, B, 40, 3, 0, 2, ONE), WaitEdge(C, A, 30, 4, 5, 1, TWO), WaitEdge(C, B, 30, 4, 5, 2, TWO)),
    )
    locks.release(B)
    asked = Recheck(4, TWO, ((C, A), (A, B), (C, B), (B, C)))
    assert recheck(locks.waits, asked) == Rechecked(4, TWO, ((C, A),))
