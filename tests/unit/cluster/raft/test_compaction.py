import pytest
from msgspec.structs import replace

from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.raft.compaction import Compaction, first_kept, still_counts
from bobbin.cluster.raft.effects import Cut, Persist, TakeSnapshot
from bobbin.cluster.raft.entries import Configuration, SnapshotMetadata
from bobbin.cluster.raft.events import Tick
from bobbin.cluster.settings import RaftConfig
from tests.support.raft_cluster import PLAIN, RaftCluster, name

_SECOND_NS = 1_000 * MILLISECOND_NS


def _metadata(last_index: int, *, epoch: int = 1) -> SnapshotMetadata:
    return SnapshotMetadata(
        last_index=Index(last_index),
        last_term=Term(1),
        sha256=bytes(32),
        size=16,
        configuration=Configuration((NodeId("a"),)),
        created_s=0,
        epoch=epoch,
    )


def _ticks(
    compaction: Compaction,
    count: int,
    *,
    now_ns: int = 0,
    held: int = 10_000,
    size: int = 0,
    finalized: int = 10_000,
    snapshot: int = 0,
) -> list[bool]:
    return [
        compaction.is_due(
            now_ns,
            entries_held=held,
            bytes_since=size,
            finalized_index=Index(finalized),
            snapshot_index=Index(snapshot),
        )
        for _ in range(count)
    ]


def test_a_log_of_the_threshold_is_compacted_and_a_shorter_one_is_not() -> None:
    assert not any(_ticks(Compaction(RaftConfig()), 20, held=9_999))
    assert any(_ticks(Compaction(RaftConfig()), 10, held=10_000))


def test_the_threshold_is_the_setting() -> None:
    config = RaftConfig(snapshot_threshold=7)
    assert not any(_ticks(Compaction(config), 20, held=6))
    assert any(_ticks(Compaction(config), 10, held=7))


def test_few_entries_of_many_bytes_are_compacted_too() -> None:
    config = RaftConfig(snapshot_threshold_bytes=1_000)
    assert not any(_ticks(Compaction(config), 20, held=3, size=999))
    assert any(_ticks(Compaction(config), 10, held=3, size=1_000))
    assert not any(_ticks(Compaction(config), 20, held=3, size=1_000, finalized=500, snapshot=500))


def test_four_times_the_bytes_do_not_wait_for_the_cooldown_unless_the_last_one_failed() -> None:
    config = RaftConfig(snapshot_threshold_bytes=1_000)
    compaction = Compaction(config)
    compaction.begin()
    compaction.taken(0)
    assert not any(_ticks(compaction, 20, now_ns=1, size=3_999))
    assert any(_ticks(compaction, 10, now_ns=1, size=4_000))
    compaction.begin()
    assert not any(_ticks(compaction, 20, now_ns=1, size=10**9)), "one at a time"
    compaction.failed(0)
    assert not any(_ticks(compaction, 20, now_ns=1, size=10**9)), "a disk that is full is not asked again and again"
    assert any(_ticks(compaction, 10, now_ns=60 * _SECOND_NS, size=1_000))


def test_entries_count_from_the_last_cut_on() -> None:
    """The log ends at 10,050 but holds 150 entries: that is not a long log."""
    assert not any(_ticks(Compaction(RaftConfig()), 20, held=150, finalized=10_050, snapshot=10_000))


def test_every_tenth_tick_looks_and_no_other() -> None:
    assert _ticks(Compaction(RaftConfig()), 30) == ([False] * 9 + [True]) * 3


def test_the_interval_is_counted_in_ticks_whatever_the_time() -> None:
    compaction = Compaction(RaftConfig(compaction_check_interval=3))
    assert _ticks(compaction, 2, now_ns=3_600 * _SECOND_NS) == [False, False]
    assert _ticks(compaction, 1, now_ns=3_600 * _SECOND_NS) == [True]


def test_after_a_compaction_none_begins_before_the_cooldown_is_over() -> None:
    compaction = Compaction(RaftConfig())
    done_ns = 5 * _SECOND_NS
    compaction.begin()
    compaction.taken(done_ns)
    assert not any(_ticks(compaction, 100, now_ns=done_ns + 60 * _SECOND_NS - 1, held=10**9))
    assert any(_ticks(compaction, 10, now_ns=done_ns + 60 * _SECOND_NS))


def test_the_cooldown_is_the_setting() -> None:
    compaction = Compaction(RaftConfig(compaction_cooldown_ms=20))
    compaction.begin()
    compaction.taken(0)
    assert not any(_ticks(compaction, 20, now_ns=20 * MILLISECOND_NS - 1))
    assert any(_ticks(compaction, 10, now_ns=20 * MILLISECOND_NS))


def test_a_failed_compaction_rests_as_long() -> None:
    compaction = Compaction(RaftConfig(), epoch=4)
    assert compaction.begin() == 5
    compaction.failed(0)
    assert compaction.epoch == 4
    assert not any(_ticks(compaction, 20, now_ns=60 * _SECOND_NS - 1))
    assert any(_ticks(compaction, 10, now_ns=60 * _SECOND_NS))


def test_a_compaction_needs_something_finalized_since_the_last_snapshot() -> None:
    assert not any(_ticks(Compaction(RaftConfig()), 20, finalized=500, snapshot=500))
    assert any(_ticks(Compaction(RaftConfig()), 10, finalized=501, snapshot=500))


def test_one_compaction_at_a_time() -> None:
    compaction = Compaction(RaftConfig())
    compaction.begin()
    assert not any(_ticks(compaction, 100))


def test_epochs_rise_with_every_compaction_and_over_those_of_others() -> None:
    compaction = Compaction(RaftConfig(), epoch=3)
    assert compaction.begin() == 4
    compaction.taken(0)
    assert compaction.epoch == 4
    compaction.installed(_metadata(10, epoch=9))
    assert compaction.epoch == 9
    compaction.installed(_metadata(20, epoch=2))
    assert compaction.begin() == 10


def test_the_second_look_refuses_what_is_overtaken_or_not_final() -> None:
    taken = _metadata(100)
    assert still_counts(taken, snapshot=None, finalized_index=Index(100))
    assert still_counts(taken, snapshot=_metadata(99), finalized_index=Index(150))
    assert not still_counts(taken, snapshot=_metadata(100), finalized_index=Index(150))
    assert not still_counts(taken, snapshot=_metadata(120), finalized_index=Index(150))
    assert not still_counts(taken, snapshot=None, finalized_index=Index(99))


def test_exactly_the_trailing_entries_up_to_the_snapshot_stay() -> None:
    first = first_kept(Index(10_000), 100)
    assert len(range(first, 10_000 + 1)) == 100
    assert first_kept(Index(10_000), 0) == 10_001
    assert first_kept(Index(40), 100) == 1


# ---- in a running machine -------------------------------------------------------------------------------------------

_SMALL = replace(
    PLAIN,
    snapshot_threshold=20,
    snapshot_trailing_logs=5,
    compaction_check_interval=2,
    compaction_cooldown_ms=1_000,
)


def _cuts(cluster: RaftCluster, node: str) -> list[Cut]:
    persisted = [effect for effect in cluster.members[name(node)].effects if isinstance(effect, Persist)]
    return [record for persist in persisted for record in persist.records if isinstance(record, Cut)]


def _asked(cluster: RaftCluster, node: str) -> list[TakeSnapshot]:
    return [effect for effect in cluster.members[name(node)].effects if isinstance(effect, TakeSnapshot)]


def _commands(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_every_node_compacts_by_itself_and_keeps_the_trailing_entries() -> None:
    cluster = RaftCluster(config=_SMALL)
    cluster.elect("a")
    cluster.propose("a", *_commands(40))
    cluster.run(2_000)
    for node in "abc":
        machine = cluster.machine(node)
        assert machine.snapshot is not None
        assert machine.snapshot.last_index == machine.commit_index == 41
        assert (machine.first_index, machine.last_index) == (37, 41)
        assert len(machine.log.entries(Index(37), Index(42))) == 5
        assert len(_asked(cluster, node)) == 1
        assert [record.first_index for record in _cuts(cluster, node)] == [37]


_HEAVY = replace(_SMALL, snapshot_threshold=10_000, snapshot_trailing_logs=1_000, snapshot_threshold_bytes=1_000)


def test_a_log_of_few_large_entries_is_cut_by_its_bytes() -> None:
    """No more than half of the bytes stay, however many entries may; what stays asks for no second snapshot."""
    cluster = RaftCluster(config=_HEAVY)
    cluster.elect("a")
    cluster.propose("a", *[b"x" * 200] * 6)
    cluster.run(5_000)
    for node in "abc":
        machine = cluster.machine(node)
        assert machine.snapshot is not None
        assert machine.snapshot.last_index == machine.last_index == 7
        assert machine.first_index == 6, "two of 200 bytes"
        assert len(_asked(cluster, node)) == 1
    cluster.propose("a", b"x" * 2_000)
    cluster.run(5_000)
    machine = cluster.machine("a")
    assert (machine.first_index, machine.last_index) == (9, 8), "one that is too large alone goes as well"
    cluster.propose("a", b"y")
    cluster.run(500)
    assert {cluster.machine(node).commit_index for node in "abc"} == {9}


def test_a_cut_by_bytes_is_finished_at_the_start_as_well() -> None:
    cluster = RaftCluster("a", config=_HEAVY)
    cluster.elect("a")
    cluster.propose("a", *[b"x" * 200] * 6)
    cluster.deliver()
    member = cluster.members[name("a")]
    member.disk.is_slow = True
    while not _asked(cluster, "a"):
        cluster.step("a", Tick())
    cluster.crash("a")
    member.disk.is_slow = False
    assert cluster.start("a").first_index == 1
    cluster.run(100)
    assert cluster.machine("a").first_index == 6


def test_only_what_is_final_is_captured() -> None:
    cluster = RaftCluster(config=_SMALL)
    cluster.elect("a")
    cluster.propose("a", *_commands(9))
    cluster.deliver()
    machine = cluster.machine("a")
    assert machine.commit_index == 10
    cluster.isolate("b", "c")
    cluster.propose("a", *_commands(40))
    cluster.deliver()
    for _ in range(4):
        cluster.step("a", Tick())
    assert [effect.index for effect in _asked(cluster, "a")] == [10]
    cluster.deliver()
    assert machine.snapshot is not None
    assert (machine.snapshot.last_index, machine.last_index) == (10, 50)
    # Nothing more is final, however long the log has become.
    cluster.now_ns += 10 * _SECOND_NS
    fresh = Compaction(_SMALL)
    assert not any(_ticks(fresh, 20, held=50, finalized=10, snapshot=10))


def _crash_between(*, is_captured: bool, is_noted: bool) -> tuple[RaftCluster, list[bytes]]:
    """A node that was stopped between two steps of a compaction, and has begun again."""
    cluster = RaftCluster("a", config=_SMALL)
    cluster.elect("a")
    commands = _commands(40)
    cluster.propose("a", *commands)
    cluster.deliver()
    member = cluster.members[name("a")]
    member.disk.is_slow = True
    while not _asked(cluster, "a"):
        cluster.step("a", Tick())
    assert _cuts(cluster, "a") == [], "the log is not cut before the snapshot is durable"
    if is_noted:
        cluster.answer_disks("a")
        assert len(_cuts(cluster, "a")) == 1
        assert member.disk.entries[0].index == 1, "the cut is not durable yet"
    if not is_captured:
        member.disk.snapshot = None
    cluster.crash("a")
    member.disk.is_slow = False
    member.effects.clear()
    cluster.start("a")
    return cluster, commands


@pytest.mark.parametrize(
    ("is_captured", "is_noted"), [(False, False), (True, False), (True, True)], ids=["before", "durable", "cutting"]
)
def test_a_crash_between_two_steps_leaves_the_same_state_and_no_gap(*, is_captured: bool, is_noted: bool) -> None:
    cluster, commands = _crash_between(is_captured=is_captured, is_noted=is_noted)
    cluster.run(5_000)
    machine, member = cluster.machine("a"), cluster.members[name("a")]
    assert member.applied == commands
    assert machine.snapshot is not None
    first = machine.first_index
    assert first <= machine.snapshot.last_index + 1
    assert [entry.index for entry in member.disk.entries] == list(range(first, machine.last_index + 1))
    assert first == machine.snapshot.last_index - 4


def test_a_half_done_cut_is_finished_at_the_start_under_its_own_epoch() -> None:
    cluster, _ = _crash_between(is_captured=True, is_noted=False)
    machine = cluster.machine("a")
    cluster.deliver()
    snapshot = machine.snapshot
    assert snapshot is not None
    assert [(record.first_index, record.metadata) for record in _cuts(cluster, "a")] == [
        (snapshot.last_index - 4, snapshot)
    ]
    assert _asked(cluster, "a") == [], "it needs no second snapshot"
    cluster.run(500)
    cluster.propose("a", *_commands(40))
    cluster.run(5_000)
    assert [effect.epoch for effect in _asked(cluster, "a")] == [snapshot.epoch + 1]
