"""Leadership handed over (CL-034 to CL-036, CL-030)."""

import pytest

from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.raft.effects import Accepted, Refused, Role, TransferDone, Why
from bobbin.cluster.raft.events import AddLearner, Tick, Transfer
from bobbin.cluster.raft.messages import TimeoutNow, VoteAnswer
from tests.support.raft_cluster import RaftCluster, entries
from tests.support.raft_messages import answer, append, request_vote, vote

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def leading(letters: str = "abc", learners: str = "") -> RaftCluster:
    cluster = RaftCluster(letters, learners=learners)
    cluster.elect("a")
    cluster.beat()
    return cluster


def told(cluster: RaftCluster) -> list[NodeId]:
    return [to for _, to, message in cluster.mail if isinstance(message, TimeoutNow)]


def test_leadership_goes_to_the_target() -> None:
    cluster = leading()
    cluster.propose("a", b"x")
    cluster.deliver()
    cluster.step("a", Transfer(5, B))
    cluster.deliver()
    assert cluster.leaders() == [B]
    assert TransferDone(5, B) in cluster.members[A].effects
    assert cluster.role("a") is Role.FOLLOWER


def test_the_target_is_told_only_once_it_holds_everything() -> None:
    cluster = leading()
    cluster.isolate("b")
    cluster.propose("a", b"x")
    cluster.deliver()
    cluster.step("a", Transfer(5, B))
    assert told(cluster) == [], "it lacks an entry"
    leader = cluster.machine("a")
    round_ = leader.progress[B].sent_round
    cluster.hear("a", "b", answer("b", 1, leader.last_index - 1, round_))
    assert told(cluster) == []
    cluster.hear("a", "b", answer("b", 1, leader.last_index, round_))
    assert told(cluster) == [B]


@pytest.mark.parametrize(
    ("target", "why"),
    [("z", Why.UNKNOWN_NODE), ("l", Why.UNKNOWN_NODE), ("a", Why.IS_LEADER)],
    ids=["a stranger", "a learner", "itself"],
)
def test_only_another_voter_can_be_the_target(target: str, why: Why) -> None:
    cluster = leading(learners="l")
    assert Refused(5, why, A) in cluster.step("a", Transfer(5, NodeId(target)))
    assert cluster.machine("a").transfer_target is None


def test_a_follower_hands_nothing_over() -> None:
    cluster = leading()
    assert Refused(5, Why.NOT_LEADER, A) in cluster.step("b", Transfer(5, C))


def test_one_transfer_at_a_time_and_no_proposals_meanwhile() -> None:
    cluster = leading()
    cluster.isolate("b")
    cluster.propose("a", b"x")
    cluster.step("a", Transfer(5, B))
    leader = cluster.machine("a")
    last_index = leader.last_index
    assert leader.transfer_target == B
    assert Refused(6, Why.TRANSFERRING, A) in cluster.step("a", Transfer(6, C))
    assert Refused(cluster.request + 1, Why.TRANSFERRING, A) in cluster.propose("a", b"y")
    assert Refused(8, Why.TRANSFERRING, A) in cluster.step("a", AddLearner(8, NodeId("d")))
    assert leader.last_index == last_index


def test_after_its_time_a_transfer_is_given_up_and_proposals_are_taken_again() -> None:
    cluster = leading()
    cluster.isolate("b")
    cluster.propose("a", b"x")
    start_ns = cluster.now_ns
    cluster.step("a", Transfer(5, B))
    cluster.run(999)
    leader = cluster.machine("a")
    assert leader.transfer_target == B
    cluster.run(1)
    assert cluster.now_ns - start_ns == 1_000 * MILLISECOND_NS
    assert cluster.machine("a").transfer_target is None
    assert TransferDone(5, A) in cluster.members[A].effects
    effects = cluster.propose("a", b"y")
    assert any(isinstance(effect, Accepted) for effect in effects)
    assert leader.stats.transfers_expired == 1


def test_a_lost_word_to_the_target_is_repeated() -> None:
    cluster = leading()
    cluster.step("a", Transfer(5, B))
    assert told(cluster) == [B]
    cluster.mail.clear()
    cluster.now_ns += 100 * MILLISECOND_NS
    cluster.step("a", Tick())
    assert told(cluster) == [B]
    cluster.deliver()
    assert cluster.leaders() == [B]


def test_a_transfer_to_a_node_that_heard_its_leader_just_now_works() -> None:
    cluster = leading("abcde")
    cluster.beat()
    cluster.step("a", Transfer(5, B))
    cluster.deliver()
    assert cluster.leaders() == [B], "the others do not protect the leader against its own wish"


def test_an_office_lost_otherwise_ends_the_transfer_with_whoever_leads() -> None:
    cluster = leading()
    cluster.isolate("a")
    cluster.step("a", Transfer(5, B))
    cluster.run(800, lambda: cluster.leader() in {B, C})
    cluster.heal()
    cluster.run(100)
    done = [e for e in cluster.members[A].effects if isinstance(e, TransferDone)]
    assert [note.leader for note in done] == [cluster.leader()]


def test_a_node_that_leads_again_has_no_transfer_left_over() -> None:
    cluster = leading()
    cluster.lost = lambda mail: isinstance(mail[2], TimeoutNow)
    cluster.step("a", Transfer(5, B))
    cluster.deliver()
    cluster.hear("a", "c", answer("c", 4, 0, 1, success=False))
    cluster.lost = lambda _: False
    cluster.isolate("b")
    cluster.now_ns += 200 * MILLISECOND_NS
    cluster.wait("a")
    cluster.deliver()
    leader = cluster.machine("a")
    assert leader.role is Role.LEADER
    assert leader.transfer_target is None
    assert TransferDone(5, A) in cluster.members[A].effects


@pytest.mark.parametrize(
    ("candidate", "term", "last"),
    [("x", 2, (1, 9)), ("a", 3, (1, 9)), ("a", 1, (1, 9)), ("a", 2, (1, 1))],
    ids=["no member", "later term", "this term", "behind"],
)
def test_nobody_is_deposed_by_a_claim_that_the_leader_hands_over(
    candidate: str, term: int, last: tuple[int, int]
) -> None:
    cluster = RaftCluster()
    cluster.hear("b", "c", append("c", 1, (0, 0), entries(1, 1)))
    cluster.hear("b", candidate, request_vote(candidate, term, last, is_transfer=True))
    machine = cluster.machine("b")
    assert cluster.said("b", VoteAnswer)[-1] == vote("b", 1, 1, granted=False)
    assert (machine.term, machine.leader) == (1, "c")
    cluster.hear("b", "a", request_vote("a", 2, (1, 2), is_transfer=True))
    assert cluster.said("b", VoteAnswer)[-1] == vote("b", 2, 1), "one who can have been chosen"
