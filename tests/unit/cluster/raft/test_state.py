from random import Random

import pytest
from msgspec.structs import replace

from bobbin.cluster.names import TERM_MAX, NodeId, Term
from bobbin.cluster.raft.durability import Durability
from bobbin.cluster.raft.effects import Alarm, Role, RoleChanged
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.log import RaftLog
from bobbin.cluster.raft.messages import PreVote, RequestVote
from bobbin.cluster.raft.state import TRANSITIONS, RaftState
from bobbin.cluster.settings import RaftConfig
from tests.support.raft_cluster import PLAIN, RaftCluster, entries, entry, names

ABC = Configuration(names("abc"))


def state_of(*terms: int) -> RaftState:
    log = RaftLog(ABC)
    log.append(entries(*terms))
    disk = Durability(log, Term(max(terms, default=0)), None)
    return RaftState(PLAIN, node=NodeId("a"), log=log, durability=disk, random=Random(0))


def test_the_table_of_roles_is_rafts() -> None:
    changes = {(before, after) for before, row in TRANSITIONS.items() for after in row if before is not after}
    assert changes == {
        (Role.FOLLOWER, Role.CANDIDATE),
        (Role.CANDIDATE, Role.LEADER),
        (Role.CANDIDATE, Role.FOLLOWER),
        (Role.LEADER, Role.FOLLOWER),
    }


def test_a_follower_never_becomes_leader_directly() -> None:
    state = state_of(1)
    with pytest.raises(AssertionError):
        state.become_leader()
    assert state.role is Role.FOLLOWER


def test_a_leader_does_not_stand() -> None:
    state = state_of(1)
    state.become_candidate()
    state.become_leader()
    with pytest.raises(AssertionError):
        state.become_candidate()


def test_a_term_never_falls() -> None:
    state = state_of(3)
    with pytest.raises(AssertionError):
        state.become_follower(Term(2))


def test_every_change_of_role_is_told_and_staying_is_not() -> None:
    state = state_of(1)
    state.become_candidate()
    state.become_candidate()
    state.become_leader()
    state.become_follower(Term(9))
    state.become_follower(Term(10))
    told = [(note.before, note.after) for note in state.notes if isinstance(note, RoleChanged)]
    assert told == [
        (Role.FOLLOWER, Role.CANDIDATE),
        (Role.CANDIDATE, Role.LEADER),
        (Role.LEADER, Role.FOLLOWER),
    ]


@pytest.mark.parametrize(
    ("last_term", "last_index", "is_up_to_date"),
    [(2, 3, True), (2, 4, True), (3, 1, True), (2, 2, False), (1, 9, False)],
)
def test_logs_are_compared_by_term_and_then_by_index(last_term: int, last_index: int, *, is_up_to_date: bool) -> None:
    state = state_of(1, 2, 2)
    assert state.is_up_to_date(Term(last_term), last_index) is is_up_to_date  # type: ignore[arg-type]


def test_a_node_that_lost_its_log_measures_by_what_it_had_and_does_not_stand() -> None:
    state = state_of(1)
    state.lost = (Term(2), 7)  # type: ignore[assignment]
    assert not state.is_up_to_date(Term(2), 6)  # type: ignore[arg-type]
    assert state.is_up_to_date(Term(2), 7)  # type: ignore[arg-type]
    assert not state.may_stand


def test_a_removal_that_is_not_committed_leaves_the_right_to_stand() -> None:
    state = state_of(1)
    state.log.append((entry(1, 2, Configuration(names("bc"))),))
    assert state.may_stand, "it may be taken back"
    state.commit_index = state.log.last_index
    assert not state.may_stand


def test_a_learner_does_not_stand() -> None:
    state = state_of(1)
    state.log.append((entry(1, 2, Configuration(names("bc"), names("a"))),))
    state.commit_index = state.log.last_index
    assert not state.may_stand


# ---- a disk that hangs, and the end of terms -------------------------------------------------------------------------


def hung(cluster: RaftCluster, *nodes: str) -> None:
    for node in nodes:
        cluster.members[NodeId(node)].disk.is_slow = True
    cluster.propose("a", b"x")
    cluster.deliver()


def storage_alarms(cluster: RaftCluster, node: str) -> list[str]:
    found = cluster.members[NodeId(node)].all(Alarm)
    return [alarm.detail for alarm in found if isinstance(alarm, Alarm) and alarm.code == "storage"]


def test_a_leader_whose_disk_hangs_leaves_office_and_the_others_go_on() -> None:
    cluster = RaftCluster(config=replace(PLAIN, heartbeat_interval=70))
    cluster.elect("a")
    cluster.beat()
    before = cluster.machine("b").commit_index
    hung(cluster, "a")
    cluster.run(599)
    assert cluster.leaders() == ["a"], "a slow disk is borne with for two election timeouts"
    cluster.run(1)
    assert cluster.role("a") is Role.FOLLOWER, "and no longer: the machine asked to be woken in time"
    assert len(storage_alarms(cluster, "a")) == 2
    assert cluster.run(2_000, until=lambda: cluster.machine("b").commit_index > before + 1)
    new = cluster.leader()
    assert new in {"b", "c"}
    cluster.run(10_000)
    assert cluster.leader() == new, "the node with the bad disk disturbs nobody"
    assert len(storage_alarms(cluster, "a")) == 2, "said once"
    cluster.members[NodeId("a")].disk.is_slow = False
    cluster.flush("a")
    cluster.run(1_000)
    assert cluster.machine("a").commit_index == cluster.machine(new).commit_index
    assert cluster.machine("a").term == cluster.machine(new).term


def test_where_all_disks_are_slow_the_leader_stays() -> None:
    cluster = RaftCluster()
    cluster.elect("a")
    cluster.beat()
    hung(cluster, "a", "b", "c")
    cluster.run(5_000)
    assert (cluster.leaders(), cluster.machine("a").term) == (["a"], 1)
    assert len(storage_alarms(cluster, "a")) == 1, "but it says so, once"
    for node in "abc":
        cluster.members[NodeId(node)].disk.is_slow = False
        cluster.flush(node)
    cluster.deliver()
    assert cluster.machine("a").commit_index == cluster.machine("a").last_index


def test_work_that_never_ends_is_not_a_disk_that_hangs() -> None:
    cluster = RaftCluster()
    cluster.elect("a")
    cluster.beat()
    cluster.members[NodeId("a")].disk.is_slow = True
    for number in range(40):
        cluster.propose("a", b"%d" % number)
        cluster.run(50)
        if number % 8 == 7:
            cluster.flush("a")
            cluster.propose("a", b"something waits always")
    assert (cluster.leaders(), storage_alarms(cluster, "a")) == (["a"], [])


def test_a_node_whose_disk_hangs_does_not_stand() -> None:
    cluster = RaftCluster()
    cluster.elect("a")
    cluster.beat()
    cluster.members[NodeId("b")].disk.is_slow = True
    cluster.propose("a", b"x")
    cluster.deliver()
    cluster.run(600)
    cluster.isolate("a")
    cluster.crash("c")
    cluster.run(3_000)
    assert cluster.said("b", PreVote) == cluster.said("b", RequestVote) == []
    assert cluster.role("b") is Role.FOLLOWER
    cluster.members[NodeId("b")].disk.is_slow = False
    cluster.flush("b")
    cluster.run(1_000)
    assert cluster.said("b", PreVote), "as soon as it answers"


@pytest.mark.parametrize("config", [PLAIN, replace(PLAIN, enable_pre_vote=False)])
def test_after_the_last_term_nobody_stands_and_it_is_said_once(config: RaftConfig) -> None:
    cluster = RaftCluster(config=config)
    for node in "abc":
        cluster.crash(node)
        cluster.members[NodeId(node)].disk.term = Term(TERM_MAX - 1)
        cluster.start(node)
    cluster.run(1_000, until=lambda: bool(cluster.leaders()))
    assert {cluster.machine(node).term for node in "abc"} == {TERM_MAX}, "the last one can be led in"
    leader = cluster.leader()
    assert leader is not None
    cluster.crash(leader)
    cluster.run(5_000)
    for node in {"a", "b", "c"} - {leader}:
        assert cluster.machine(node).term == TERM_MAX
        alarms = [alarm for alarm in cluster.members[NodeId(node)].all(Alarm) if isinstance(alarm, Alarm)]
        assert [alarm.code for alarm in alarms].count("terms-used-up") == 1
