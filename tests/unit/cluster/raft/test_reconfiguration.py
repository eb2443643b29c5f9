"""Changes of who belongs (CL-037 to CL-041)."""

import pytest

from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.raft.effects import Accepted, Alarm, ConfigurationChanged, Refused, Role, Why
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.events import AddLearner, JointChange, PromoteLearner, RemoveNode
from bobbin.cluster.raft.messages import AppendEntries, PreVote, TimeoutNow
from bobbin.cluster.settings import RaftConfig
from tests.support.raft_cluster import PLAIN, RaftCluster, entry, names
from tests.support.raft_messages import append, pre_answer, vote

A, B, C, D, E = names("abcde")


def leading(letters: str = "abc", outside: str = "de", config: RaftConfig = PLAIN) -> RaftCluster:
    cluster = RaftCluster(letters, outside=outside, config=config)
    cluster.elect("a")
    cluster.beat()
    return cluster


def with_learners(letters: str = "de") -> RaftCluster:
    cluster = leading(outside="de")
    for letter in letters:
        cluster.step("a", AddLearner(1, NodeId(letter)))
        cluster.deliver()
        cluster.beat()
        cluster.beat()
    return cluster


def refused(cluster: RaftCluster, why: Why) -> bool:
    last = [effect for effect in cluster.members[A].effects if isinstance(effect, Refused)][-1]
    return last.why is why


# ---- in force from the log ------------------------------------------------------------------------------------------


def test_a_configuration_counts_from_the_moment_it_is_appended() -> None:
    cluster = with_learners("d")
    cluster.lost = lambda mail: isinstance(mail[2], AppendEntries)
    cluster.step("a", PromoteLearner(2, D))
    leader = cluster.machine("a")
    assert leader.configuration.voters == names("abcd")
    assert leader.commit_index < leader.last_index
    # Three of four are needed now.
    index = leader.last_index
    for node in "bd":
        progress = leader.progress[NodeId(node)]
        assert progress.match_index < index
    cluster.lost = lambda mail: mail[1] == C or mail[0] == C or mail[1] == D or mail[0] == D
    cluster.run(250)
    assert leader.commit_index < index, "two of four"
    cluster.lost = lambda mail: mail[1] == C or mail[0] == C
    cluster.run(300)
    assert leader.commit_index == index


def test_a_follower_counts_with_an_entry_that_is_not_committed_and_goes_back_when_it_is_cut() -> None:
    cluster = RaftCluster("abc")
    five = Configuration(names("abcde"))
    cluster.hear("b", "a", append("a", 1, (0, 0), (entry(1, 1, None), entry(1, 2, five))))
    machine = cluster.machine("b")
    assert machine.configuration == five
    cluster.wait("b")
    assert sorted(to for _, to, message in cluster.mail if isinstance(message, PreVote)) == ["a", "c", "d", "e"]
    cluster.hear("b", "c", pre_answer("c", 1, 1))
    assert cluster.role(machine.node) is Role.FOLLOWER, "two of five"
    cluster.hear("b", "c", append("c", 2, (1, 1), (entry(2, 2, None),)))
    assert machine.configuration == Configuration(names("abc"))
    changes = [e for e in cluster.members[B].effects if isinstance(e, ConfigurationChanged)]
    assert [(change.index, change.is_committed) for change in changes] == [(2, False), (0, True)]
    cluster.now_ns += 400 * MILLISECOND_NS
    cluster.wait("b")
    cluster.hear("b", "c", pre_answer("c", 2, 2))
    assert cluster.role(machine.node) is Role.CANDIDATE, "two of three"


def test_a_restart_finds_the_configuration_in_the_log() -> None:
    cluster = with_learners("d")
    cluster.step("a", PromoteLearner(2, D))
    cluster.deliver()
    cluster.crash("b")
    assert cluster.start("b").configuration.voters == names("abcd")


# ---- one at a time --------------------------------------------------------------------------------------------------


def test_a_second_change_waits_until_the_first_is_committed() -> None:
    cluster = leading()
    cluster.isolate("b", "c")
    cluster.step("a", AddLearner(1, D))
    cluster.step("a", AddLearner(2, E))
    assert refused(cluster, Why.CHANGE_PENDING)
    cluster.heal()
    cluster.run(200)
    assert any(isinstance(e, Accepted) for e in cluster.step("a", AddLearner(3, E)))


def test_a_new_leader_changes_nothing_before_an_entry_of_its_own_is_committed() -> None:
    cluster = RaftCluster("abc", outside="d")
    cluster.lost = lambda mail: isinstance(mail[2], AppendEntries)
    leader = cluster.elect("a")
    last_index = leader.last_index
    cluster.step("a", AddLearner(1, D))
    assert refused(cluster, Why.CHANGE_PENDING)
    assert leader.last_index == last_index
    cluster.lost = lambda _: False
    cluster.run(250)
    assert any(isinstance(e, Accepted) for e in cluster.step("a", AddLearner(2, D)))


def test_only_a_leader_in_contact_changes_anything() -> None:
    cluster = leading()
    assert Refused(1, Why.NOT_LEADER, A) in cluster.step("b", AddLearner(1, D))
    cluster.isolate("b", "c")
    cluster.now_ns += 400 * MILLISECOND_NS
    cluster.step("a", AddLearner(2, D))
    assert refused(cluster, Why.NO_QUORUM)


# ---- learners -------------------------------------------------------------------------------------------------------


def test_a_learner_gets_entries_and_no_vote() -> None:
    cluster = with_learners("d")
    leader = cluster.machine("a")
    assert leader.configuration == Configuration(names("abc"), names("d"))
    assert cluster.machine("d").last_index == leader.last_index
    assert cluster.machine("d").configuration == leader.configuration
    cluster.isolate("b", "c")
    before = leader.commit_index
    cluster.propose("a", b"x")
    cluster.deliver()
    assert leader.progress[D].match_index == leader.last_index
    assert leader.commit_index == before


@pytest.mark.parametrize(("behind", "is_promoted"), [(10, True), (11, False)])
def test_a_learner_is_promoted_within_ten_entries_of_commit(behind: int, *, is_promoted: bool) -> None:
    cluster = with_learners("d")
    cluster.isolate("d")
    cluster.propose("a", *[b"x"] * behind)
    cluster.deliver()
    leader = cluster.machine("a")
    assert leader.commit_index - leader.progress[D].match_index == behind
    effects = cluster.step("a", PromoteLearner(5, D))
    if is_promoted:
        assert any(isinstance(effect, Accepted) for effect in effects)
        assert leader.configuration == Configuration(names("abcd"))
    else:
        assert refused(cluster, Why.NOT_CAUGHT_UP)
        assert leader.configuration == Configuration(names("abc"), names("d"))


def test_an_even_number_of_voters_is_told() -> None:
    cluster = with_learners("d")
    effects = cluster.step("a", PromoteLearner(5, D))
    assert "even-voters" in [effect.code for effect in effects if isinstance(effect, Alarm)]


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (AddLearner(5, B), Why.IS_MEMBER),
        (AddLearner(5, D), Why.IS_MEMBER),
        (PromoteLearner(5, E), Why.UNKNOWN_NODE),
        (PromoteLearner(5, B), Why.IS_MEMBER),
        (RemoveNode(5, E), Why.UNKNOWN_NODE),
        (RemoveNode(5, A), Why.IS_LEADER),
        (JointChange(5, (E,), ()), Why.UNKNOWN_NODE),
        (JointChange(5, (B,), ()), Why.IS_MEMBER),
        (JointChange(5, (), (D,)), Why.UNKNOWN_NODE),
        (JointChange(5, (), ()), Why.UNKNOWN_NODE),
        (JointChange(5, (), (A, B, C)), Why.UNKNOWN_NODE),
    ],
)
def test_changes_that_make_no_sense_are_refused(event: AddLearner, why: Why) -> None:
    cluster = with_learners("d")
    leader = cluster.machine("a")
    before = leader.last_index
    cluster.step("a", event)
    assert refused(cluster, why)
    assert leader.last_index == before


# ---- leaving --------------------------------------------------------------------------------------------------------


def test_a_removed_node_hears_of_it_and_stands_no_more() -> None:
    cluster = leading(outside="")
    cluster.step("a", RemoveNode(1, C))
    cluster.deliver()
    assert cluster.machine("c").configuration.voters == names("ab")
    assert cluster.machine("c").commit_index == cluster.machine("a").commit_index
    assert C not in cluster.machine("a").progress
    said = len(cluster.said("c", PreVote))
    cluster.run(3_000)
    assert len(cluster.said("c", PreVote)) == said
    assert cluster.leaders() == [A]


def test_a_removed_node_that_never_heard_of_it_disturbs_nobody() -> None:
    cluster = leading("abcd", outside="")
    cluster.isolate("d")
    cluster.step("a", RemoveNode(1, D))
    cluster.deliver()
    cluster.run(1_000)
    term = cluster.machine("a").term
    cluster.heal()
    cluster.run(2_000)
    assert cluster.machine("d").stats.pre_votes_started > 3
    assert (cluster.leaders(), cluster.machine("a").term) == ([A], term)


def test_a_node_whose_removal_may_be_taken_back_is_still_served() -> None:
    cluster = leading("abcd", outside="")
    cluster.isolate("b", "c")
    cluster.step("a", RemoveNode(1, D))
    cluster.deliver()
    leader = cluster.machine("a")
    assert leader.configuration.voters == names("abc")
    assert leader.progress[D].match_index == leader.last_index
    assert leader.commit_index < leader.last_index


# ---- joint ----------------------------------------------------------------------------------------------------------


def joint(cluster: RaftCluster) -> None:
    """Replace b and c by d and e, with the new ones out of reach."""
    cluster.isolate("d", "e")
    cluster.step("a", JointChange(2, (D, E), (B, C)))
    cluster.deliver()


def test_a_joint_configuration_commits_by_both_majorities() -> None:
    cluster = with_learners()
    joint(cluster)
    leader = cluster.machine("a")
    assert leader.configuration == Configuration(names("ade"), (), names("abc"))
    index = leader.last_index
    cluster.run(200)
    assert leader.commit_index < index, "all of the old, one of the new"
    other = with_learners()
    other.isolate("b", "c")
    other.step("a", JointChange(2, (D, E), (B, C)))
    other.run(200)
    assert other.machine("a").commit_index < other.machine("a").last_index, "all of the new, one of the old"
    cluster.heal()
    cluster.run(200)
    assert leader.commit_index >= index


def test_a_joint_configuration_elects_by_both_majorities() -> None:
    cluster = RaftCluster("abc", outside="de")
    both = Configuration(names("ade"), (), names("abc"))
    cluster.hear("a", "b", append("b", 1, (0, 0), (entry(1, 1, None), entry(1, 2, both))))
    cluster.wait("a")
    for voter in "bc":
        cluster.hear("a", voter, pre_answer(voter, 1, 1))
    machine = cluster.machine("a")
    assert cluster.role(machine.node) is Role.FOLLOWER, "old majority only"
    cluster.hear("a", "d", pre_answer("d", 1, 1))
    assert cluster.role(machine.node) is Role.CANDIDATE
    for voter in "de":
        cluster.hear("a", voter, vote(voter, 2, 2))
    assert cluster.role(machine.node) is Role.CANDIDATE, "new majority only"
    cluster.hear("a", "b", vote("b", 2, 2))
    assert cluster.role(machine.node) is Role.LEADER


def test_the_joint_state_is_left_by_an_entry_of_its_own() -> None:
    cluster = with_learners()
    cluster.step("a", JointChange(2, (D, E), (B, C)))
    cluster.deliver()
    leader = cluster.machine("a")
    configurations = [
        entry.payload
        for entry in leader.log.entries(1, leader.last_index + 1)
        if isinstance(entry.payload, Configuration)
    ]
    assert configurations[-2:] == [
        Configuration(names("ade"), (), names("abc")),
        Configuration(names("ade")),
    ]
    cluster.beat()
    assert leader.commit_index == leader.last_index
    assert set(leader.progress) == {D, E}


def test_another_change_does_not_leave_the_joint_state() -> None:
    cluster = with_learners()
    joint(cluster)
    for event in (JointChange(3, (), (B,)), AddLearner(3, NodeId("z")), RemoveNode(3, D)):
        cluster.step("a", event)
        assert refused(cluster, Why.CHANGE_PENDING)
    assert cluster.machine("a").configuration.is_joint


def test_a_new_leader_leaves_a_joint_state_that_it_inherits() -> None:
    cluster = with_learners()
    cluster.lost = lambda mail: mail[0] in {D, E}
    cluster.step("a", JointChange(2, (D, E), (B, C)))
    cluster.deliver()
    assert cluster.machine("a").configuration.is_joint
    cluster.crash("a")
    cluster.lost = lambda _: False
    assert cluster.run(3_000, lambda: bool(cluster.leaders()))
    cluster.run(1_000)
    leader = cluster.machine(str(cluster.leader()))
    assert leader.configuration == Configuration(names("ade"))
    assert leader.commit_index == leader.last_index


def test_a_leader_that_goes_leads_until_the_change_is_over_and_then_hands_over() -> None:
    cluster = with_learners()
    leader = cluster.machine("a")
    cluster.step("a", JointChange(2, (D, E), (A, B)))
    cluster.deliver()
    assert leader.role is Role.FOLLOWER
    assert leader.configuration == Configuration(names("cde"))
    assert leader.commit_index == leader.last_index or leader.leader is not None
    assert any(isinstance(message, TimeoutNow) for message in cluster.said("a", TimeoutNow))
    cluster.run(100)
    assert cluster.leader() in {C, D, E}
    cluster.run(1_000)
    new = cluster.machine(str(cluster.leader()))
    assert new.commit_index == new.last_index
    said = len(cluster.said("a", PreVote))
    cluster.run(2_000)
    assert len(cluster.said("a", PreVote)) == said, "it stands no more"


def test_a_leader_that_goes_does_not_count_itself() -> None:
    cluster = with_learners()
    leader = cluster.machine("a")
    leave: list[int] = []

    def loses(mail: tuple[NodeId, NodeId, object]) -> bool:
        message = mail[2]
        if isinstance(message, AppendEntries):
            last = [e for e in message.entries if e.payload == Configuration(names("cde"))]
            leave.extend(e.index for e in last)
            return bool(last) and mail[1] in {D, E}
        return False

    cluster.lost = loses
    cluster.step("a", JointChange(2, (D, E), (A, B)))
    cluster.deliver()
    assert leave
    assert leader.role is Role.LEADER
    assert leader.commit_index == leave[0] - 1, "a and b hold the entry, and c alone of those who count"
    assert leader.configuration.voters == names("cde")


def test_who_accepts_a_change_says_where_it_stands() -> None:
    cluster = leading()
    assert Accepted(1, Index(2), 1, Term(1)) in cluster.step("a", AddLearner(1, D))
    cluster.deliver()
    changes = [e for e in cluster.members[A].effects if isinstance(e, ConfigurationChanged)]
    assert [(change.index, change.is_committed) for change in changes] == [(2, False), (2, True)]
