"""Reads of what is true now (CL-033)."""

from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId
from bobbin.cluster.raft.effects import ReadReady, Refused, Role, Why
from bobbin.cluster.raft.events import AddLearner, JointChange, Read, Tick
from bobbin.cluster.raft.messages import AppendAnswer, AppendEntries
from bobbin.cluster.raft.reads import ROUNDS_OPEN_MAX
from bobbin.cluster.settings import RaftConfig
from tests.support.raft_cluster import RaftCluster
from tests.support.raft_messages import answer

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def leading(letters: str = "abc", learners: str = "") -> RaftCluster:
    cluster = RaftCluster(letters, learners=learners)
    cluster.elect("a")
    cluster.beat()
    return cluster


def ready(cluster: RaftCluster) -> list[ReadReady]:
    return [effect for effect in cluster.members[A].effects if isinstance(effect, ReadReady)]


def rounds(cluster: RaftCluster, to: str) -> list[int]:
    return [m.round for _, receiver, m in cluster.mail if receiver == to and isinstance(m, AppendEntries)]


def test_a_read_waits_for_a_quorum_to_confirm_the_leader() -> None:
    cluster = leading()
    cluster.propose("a", b"x")
    cluster.deliver()
    cluster.step("a", Read(7))
    assert ready(cluster) == []
    cluster.deliver()
    assert ready(cluster) == [ReadReady(7, Index(2))]


def test_an_answer_to_what_was_sent_before_the_read_confirms_nothing() -> None:
    cluster = leading()
    cluster.now_ns += 50 * MILLISECOND_NS
    cluster.step("a", Tick())
    (before,) = rounds(cluster, "b")
    cluster.mail.clear()
    cluster.step("a", Read(1))
    (after,) = rounds(cluster, "b")
    assert after > before
    cluster.mail.clear()
    cluster.hear("a", "b", answer("b", 1, 1, before))
    assert ready(cluster) == []
    cluster.hear("a", "b", answer("b", 1, 1, after))
    assert ready(cluster) == [ReadReady(1, Index(1))]


def test_a_refusal_of_this_term_confirms_as_well() -> None:
    cluster = leading()
    cluster.step("a", Read(1))
    (round_,) = rounds(cluster, "b")
    cluster.mail.clear()
    cluster.hear("a", "b", answer("b", 1, 0, round_, success=False))
    assert ready(cluster) == [ReadReady(1, Index(1))]


def test_an_answer_of_an_older_term_confirms_nothing() -> None:
    cluster = leading()
    cluster.elect("b")
    cluster.elect("a")
    cluster.step("a", Read(1))
    (round_,) = rounds(cluster, "b")
    cluster.mail.clear()
    cluster.hear("a", "b", answer("b", 1, 1, round_))
    assert ready(cluster) == []


def test_a_deposed_leader_answers_no_read() -> None:
    cluster = leading()
    cluster.isolate("a")
    cluster.step("a", Read(1))
    cluster.run(2_000)
    assert cluster.leader() in {B, C}
    assert ready(cluster) == []
    assert Refused(1, Why.NOT_LEADER, None) in cluster.members[A].effects
    assert Refused(2, Why.NOT_LEADER, None) in cluster.step("a", Read(2))


def test_a_learner_confirms_nothing() -> None:
    cluster = leading(learners="l")
    cluster.isolate("b", "c")
    cluster.step("a", Read(1))
    cluster.deliver()
    assert cluster.machine("a").progress[NodeId("l")].last_contact_ns == cluster.now_ns
    assert ready(cluster) == []


def test_a_new_leader_answers_after_an_entry_of_its_own_term_is_committed() -> None:
    cluster = leading()
    cluster.propose("a", b"x")
    cluster.deliver()
    cluster.lost = lambda mail: isinstance(mail[2], AppendAnswer)
    cluster.now_ns += 400 * MILLISECOND_NS
    cluster.wait("b")
    cluster.deliver()
    leader = cluster.machine("b")
    assert (leader.role, leader.commit_index) == (Role.LEADER, 1), "it holds entry 2, and does not know that it counts"
    cluster.step("b", Read(5))
    cluster.deliver()
    assert [e for e in cluster.members[B].effects if isinstance(e, ReadReady)] == []
    cluster.lost = lambda _: False
    cluster.run(300)
    found = [e for e in cluster.members[B].effects if isinstance(e, ReadReady)]
    assert found == [ReadReady(5, Index(3))]


def test_many_reads_share_a_round_and_rounds_overlap_up_to_a_bound() -> None:
    cluster = leading()
    for request in range(20):
        cluster.step("a", Read(request))
    assert len(rounds(cluster, "b")) == ROUNDS_OPEN_MAX
    cluster.deliver()
    assert [note.request for note in ready(cluster)] == list(range(20))


def test_a_lost_round_is_confirmed_by_the_next_heartbeat() -> None:
    cluster = leading()
    cluster.step("a", Read(1))
    cluster.mail.clear()
    cluster.beat()
    assert ready(cluster) == [ReadReady(1, Index(1))]


def test_a_single_voter_confirms_itself() -> None:
    cluster = RaftCluster("a")
    cluster.elect("a")
    assert ReadReady(1, Index(1)) in cluster.step("a", Read(1))


def test_reads_that_wait_are_bounded() -> None:
    config = RaftConfig(reads_waiting_max=3, enable_geometric_tiebreak=False)
    cluster = RaftCluster(config=config)
    cluster.elect("a")
    for request in range(3):
        cluster.step("a", Read(request))
    assert Refused(3, Why.TOO_MUCH, A) in cluster.step("a", Read(3))
    cluster.deliver()
    assert len(ready(cluster)) == 3
    cluster.step("a", Read(4))
    cluster.deliver()
    assert len(ready(cluster)) == 4


def test_in_a_joint_configuration_both_sides_confirm() -> None:
    cluster = RaftCluster("abc", outside="de")
    cluster.elect("a")
    for node in "de":
        cluster.step("a", AddLearner(1, NodeId(node)))
        cluster.deliver()
        cluster.beat()
    cluster.isolate("d", "e")
    cluster.step("a", JointChange(2, (NodeId("d"), NodeId("e")), (B, C)))
    cluster.deliver()
    assert cluster.machine("a").configuration.is_joint
    cluster.step("a", Read(3))
    cluster.deliver()
    assert ready(cluster) == [], "only the old voters have answered"
    cluster.heal()
    cluster.beat()
    assert [note.request for note in ready(cluster)] == [3]
