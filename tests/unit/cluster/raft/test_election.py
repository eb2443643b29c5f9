"""Elections, from the rows CL-001 to CL-023 and what belongs to them."""

import pytest

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import MILLISECOND_NS, NodeId, Term
from bobbin.cluster.raft.effects import HardState, LeaderChanged, Persist, Refused, Role, Send, Why
from bobbin.cluster.raft.events import Persisted, Received, Tick
from bobbin.cluster.raft.messages import (
    AppendEntries,
    PreVote,
    PreVoteAnswer,
    RequestVote,
    VoteAnswer,
)
from bobbin.cluster.settings import RaftConfig
from tests.support.raft_cluster import RaftCluster, entries
from tests.support.raft_messages import append, pre_answer, pre_vote, request_vote, timeout_now, vote

DIRECT = RaftConfig(enable_pre_vote=False, enable_geometric_tiebreak=False)
LEAST_NS, MOST_NS = 150 * MILLISECOND_NS, 300 * MILLISECOND_NS


def put_log(cluster: RaftCluster, node: str, *terms: int, term: int | None = None) -> None:
    """A node begins again with this log."""
    cluster.crash(node)
    disk = cluster.members[NodeId(node)].disk
    disk.entries = list(entries(*terms))
    disk.term = Term(max(terms, default=0) if term is None else term)
    cluster.start(node)


def answered(cluster: RaftCluster, node: str) -> VoteAnswer:
    last = cluster.said(node, VoteAnswer)[-1]
    assert isinstance(last, VoteAnswer)
    return last


def pre_answered(cluster: RaftCluster, node: str) -> PreVoteAnswer:
    last = cluster.said(node, PreVoteAnswer)[-1]
    assert isinstance(last, PreVoteAnswer)
    return last


def stand(cluster: RaftCluster, node: str) -> int:
    """Make a node a candidate whose requests are under way; returns its request number."""
    cluster.wait(node)
    cluster.answer_disks(node)
    assert cluster.role(node) is Role.CANDIDATE
    last = cluster.said(node, RequestVote)[-1]
    assert isinstance(last, RequestVote)
    cluster.mail.clear()
    return last.request


# ---- how a node begins ----------------------------------------------------------------------------------------------


def test_a_node_begins_as_follower_and_says_nothing_before_its_first_timeout() -> None:
    cluster = RaftCluster()
    deadline_ns = cluster.machine("a").election_deadline_ns
    assert deadline_ns is not None
    cluster.now_ns = deadline_ns - 1
    for node in "abc":
        if (cluster.machine(node).election_deadline_ns or 0) > cluster.now_ns:
            cluster.step(node, Tick())
    assert cluster.mail == []
    assert cluster.role("a") is Role.FOLLOWER


@pytest.mark.parametrize("role", [Role.LEADER, Role.CANDIDATE])
def test_a_node_begins_as_follower_whatever_it_was_before(role: Role) -> None:
    cluster = RaftCluster()
    if role is Role.LEADER:
        cluster.elect("a")
    else:
        cluster.config = DIRECT
        cluster.start("a")
        stand(cluster, "a")
    assert cluster.role("a") is role
    term = cluster.machine("a").term
    cluster.crash("a")
    before = len(cluster.members[NodeId("a")].effects)
    machine = cluster.start("a")
    assert (machine.role, machine.leader, machine.term) == (Role.FOLLOWER, None, term)
    assert not any(isinstance(effect, Send) for effect in cluster.members[NodeId("a")].effects[before:])


def test_term_and_vote_bind_after_a_restart() -> None:
    cluster = RaftCluster()
    cluster.hear("b", "a", request_vote("a", 5))
    assert answered(cluster, "b").granted
    cluster.crash("b")
    machine = cluster.start("b")
    assert (machine.term, machine.voted_for) == (5, "a")
    cluster.hear("b", "c", request_vote("c", 5, (9, 9)))
    assert not answered(cluster, "b").granted
    cluster.hear("b", "a", request_vote("a", 5, request=2))
    assert answered(cluster, "b").granted


def test_the_term_of_the_log_is_not_that_of_the_node() -> None:
    cluster = RaftCluster()
    put_log(cluster, "a", 1, 1, term=7)
    assert cluster.machine("a").term == 7


# ---- standing -------------------------------------------------------------------------------------------------------


def test_a_candidate_has_a_new_term_a_durable_vote_for_itself_and_asks_every_other_voter() -> None:
    cluster = RaftCluster("abcde", config=DIRECT)
    cluster.wait("a")
    machine = cluster.machine("a")
    assert (machine.role, machine.term, machine.voted_for) == (Role.CANDIDATE, 1, "a")
    assert cluster.mail == [], "the vote is not durable yet"
    disk = cluster.members[NodeId("a")].disk
    assert (disk.term, disk.voted_for) == (1, "a")
    cluster.answer_disks("a")
    asked = [to for _, to, message in cluster.mail if isinstance(message, RequestVote)]
    assert sorted(asked) == ["b", "c", "d", "e"]
    assert all(message.term == 1 for _, _, message in cluster.mail)


def test_with_pre_vote_a_quorum_of_grants_comes_first() -> None:
    cluster = RaftCluster()
    cluster.wait("a")
    machine = cluster.machine("a")
    assert (machine.role, machine.term, machine.is_pre_candidate) == (Role.FOLLOWER, 0, True)
    asked = {to: message for _, to, message in cluster.mail}
    assert sorted(asked) == ["b", "c"]
    assert all(isinstance(message, PreVote) and message.term == 0 for message in asked.values())
    cluster.mail.clear()
    cluster.hear("a", "b", pre_answer("b", 0, 1))
    assert (machine.role, machine.term, machine.is_pre_candidate) == (Role.CANDIDATE, 1, False)
    assert sorted(to for _, to, message in cluster.mail if isinstance(message, RequestVote)) == ["b", "c"]


def test_nothing_is_asked_while_the_own_vote_is_not_durable_and_nothing_ever_if_it_never_is() -> None:
    cluster = RaftCluster(config=DIRECT)
    cluster.members[NodeId("a")].disk.is_slow = True
    cluster.isolate("a")
    cluster.wait("a")
    cluster.run(200)
    assert cluster.said("a", RequestVote) == []
    cluster.fail_disk("a")
    machine = cluster.machine("a")
    assert (machine.role, machine.term, machine.voted_for) == (Role.FOLLOWER, 0, None)
    assert cluster.said("a", RequestVote) == []


def test_grants_count_by_voter_and_a_quorum_is_exactly_enough() -> None:
    cluster = RaftCluster("abcde", config=DIRECT)
    request = stand(cluster, "a")
    machine = cluster.machine("a")
    cluster.hear("a", "b", vote("b", 1, request))
    cluster.hear("a", "b", vote("b", 1, request))
    cluster.hear("a", "c", vote("c", 1, request, granted=False))
    assert cluster.role(machine.node) is Role.CANDIDATE, "two of five, however often they say so"
    cluster.hear("a", "d", vote("d", 1, request))
    assert cluster.role(machine.node) is Role.LEADER


def test_a_vote_of_a_learner_or_a_stranger_does_not_count() -> None:
    cluster = RaftCluster("abc", config=DIRECT, learners="l")
    request = stand(cluster, "a")
    cluster.hear("a", "l", vote("l", 1, request))
    cluster.hear("a", "z", vote("z", 1, request))
    assert cluster.role("a") is Role.CANDIDATE


def test_a_single_voter_elects_itself_once_its_vote_is_durable() -> None:
    cluster = RaftCluster("a")
    cluster.members[NodeId("a")].disk.is_slow = True
    cluster.wait("a")
    assert cluster.role("a") is Role.CANDIDATE
    cluster.flush("a")
    assert cluster.role("a") is Role.LEADER


@pytest.mark.parametrize(
    "message",
    [vote("b", 9, 1, granted=False), pre_answer("b", 9, 1, granted=False), append("b", 9), request_vote("b", 9)],
    ids=["vote answer", "pre-vote answer", "append", "vote request"],
)
def test_a_higher_term_ends_a_candidacy_and_old_grants_have_no_effect(message: AppendEntries) -> None:
    cluster = RaftCluster(config=DIRECT)
    request = stand(cluster, "a")
    cluster.hear("a", "b", message)
    machine = cluster.machine("a")
    assert (machine.role, machine.term) == (Role.FOLLOWER, 9)
    cluster.hear("a", "c", vote("c", 1, request))
    assert cluster.role(machine.node) is Role.FOLLOWER


def test_a_leader_of_the_same_term_ends_a_candidacy() -> None:
    cluster = RaftCluster(config=DIRECT)
    request = stand(cluster, "a")
    cluster.hear("a", "b", append("b", 1))
    machine = cluster.machine("a")
    assert (machine.role, machine.leader) == (Role.FOLLOWER, "b")
    cluster.hear("a", "c", vote("c", 1, request))
    assert cluster.role(machine.node) is Role.FOLLOWER


def test_a_grant_of_an_older_term_does_not_count() -> None:
    cluster = RaftCluster(config=DIRECT)
    first = stand(cluster, "a")
    second = stand(cluster, "a")
    assert second > first
    machine = cluster.machine("a")
    assert machine.term == 2
    cluster.hear("a", "b", vote("b", 1, first))
    cluster.hear("a", "c", vote("c", 1, second))
    assert cluster.role(machine.node) is Role.CANDIDATE


# ---- split votes ----------------------------------------------------------------------------------------------------


def test_half_of_the_votes_elect_nobody_and_the_next_round_begins_from_nothing() -> None:
    cluster = RaftCluster("abcd", config=DIRECT)
    request = stand(cluster, "a")
    machine = cluster.machine("a")
    cluster.hear("a", "b", vote("b", 1, request))
    assert cluster.role(machine.node) is Role.CANDIDATE
    first_ns = (machine.election_deadline_ns or 0) - cluster.now_ns
    again = stand(cluster, "a")
    assert machine.term == 2
    assert (machine.election_deadline_ns or 0) - cluster.now_ns != first_ns, "drawn anew"
    cluster.hear("a", "c", vote("c", 2, again))
    assert cluster.role(machine.node) is Role.CANDIDATE, "the grant of b belonged to the last round"
    cluster.hear("a", "d", vote("d", 2, again))
    assert cluster.role(machine.node) is Role.LEADER


def test_a_new_round_with_pre_vote_asks_without_raising_the_term_first() -> None:
    cluster = RaftCluster("abcd")
    cluster.wait("a")
    for voter in "bc":
        cluster.hear("a", voter, pre_answer(voter, 0, 1))
    machine = cluster.machine("a")
    assert (machine.role, machine.term) == (Role.CANDIDATE, 1)
    cluster.wait("a")
    assert (machine.is_pre_candidate, machine.term) == (True, 1)
    cluster.hear("a", "b", vote("b", 1, 2))
    cluster.hear("a", "c", vote("c", 1, 2))
    assert machine.role is not Role.LEADER, "grants of the round before"
    for voter in "bc":
        cluster.hear("a", voter, pre_answer(voter, 1, 3))
    assert (machine.role, machine.term, machine.is_pre_candidate) == (Role.CANDIDATE, 2, False)


def test_candidates_that_divide_the_votes_come_to_a_leader() -> None:
    cluster = RaftCluster("abcd", config=DIRECT, seed=3)
    for node in "ab":
        stand(cluster, node)
    cluster.hear("c", "a", request_vote("a", 1))
    cluster.hear("d", "b", request_vote("b", 1))
    cluster.mail.clear()
    assert cluster.leaders() == []
    assert cluster.run(10 * 300, lambda: bool(cluster.leaders()))


# ---- timeouts -------------------------------------------------------------------------------------------------------


def test_a_timeout_is_drawn_when_the_timer_is_reset_and_stays_until_the_next_reset() -> None:
    cluster = RaftCluster()
    machine = cluster.machine("a")
    drawn = machine.election_deadline_ns
    assert drawn is not None
    assert LEAST_NS <= drawn <= MOST_NS
    for _ in range(5):
        cluster.now_ns += 10 * MILLISECOND_NS
        cluster.step("a", Tick())
        assert machine.election_deadline_ns == drawn
    timeouts = set()
    for _ in range(40):
        cluster.now_ns += 10 * MILLISECOND_NS
        cluster.hear("a", "b", append("b", 1))
        timeout_ns = (machine.election_deadline_ns or 0) - cluster.now_ns
        assert LEAST_NS <= timeout_ns <= MOST_NS
        timeouts.add(timeout_ns)
    assert len(timeouts) > 30


# ---- votes ----------------------------------------------------------------------------------------------------------


def test_a_higher_term_is_learnt_with_its_vote_open_and_durable_before_the_answer() -> None:
    cluster = RaftCluster()
    cluster.hear("b", "a", request_vote("a", 1))
    disk = cluster.members[NodeId("b")].disk
    disk.is_slow = True
    put = cluster.hear("b", "c", request_vote("c", 4))
    machine = cluster.machine("b")
    assert (machine.term, machine.voted_for, machine.role) == (4, "c", Role.FOLLOWER)
    assert not any(isinstance(effect, Send) for effect in put), "term 4 is not durable"
    assert disk.term == 1
    cluster.flush("b")
    assert (disk.term, disk.voted_for) == (4, "c")
    assert answered(cluster, "b") == vote("b", 4, 1)


def test_a_term_is_learnt_without_a_vote_when_the_log_is_older() -> None:
    cluster = RaftCluster()
    put_log(cluster, "b", 1, 1)
    cluster.hear("b", "a", request_vote("a", 1, (1, 2)))
    cluster.hear("b", "c", request_vote("c", 4, (1, 1)))
    machine = cluster.machine("b")
    assert (machine.term, machine.voted_for) == (4, None)
    assert answered(cluster, "b") == vote("b", 4, 1, granted=False)
    cluster.hear("b", "a", request_vote("a", 4, (1, 2)))
    assert answered(cluster, "b").granted, "the vote of term 4 was still open"


def test_a_vote_goes_to_one_candidate_of_a_current_term_and_again_to_the_same() -> None:
    cluster = RaftCluster()
    cluster.hear("b", "a", request_vote("a", 3))
    assert answered(cluster, "b").granted
    cluster.hear("b", "c", request_vote("c", 3))
    assert answered(cluster, "b") == vote("b", 3, 1, granted=False)
    cluster.hear("b", "a", request_vote("a", 3, request=2))
    assert answered(cluster, "b") == vote("b", 3, 2)
    cluster.hear("b", "c", request_vote("c", 2, (9, 9)))
    assert answered(cluster, "b") == vote("b", 3, 1, granted=False), "an old term, told the present one"


@pytest.mark.parametrize(
    ("last", "granted"),
    [((2, 3), True), ((2, 4), True), ((3, 1), True), ((2, 2), False), ((1, 9), False)],
    ids=["equal", "longer", "later term, shorter", "shorter", "earlier term, longer"],
)
def test_an_older_log_gets_no_vote_and_no_pre_vote(last: tuple[int, int], *, granted: bool) -> None:
    cluster = RaftCluster()
    put_log(cluster, "b", 1, 2, 2)
    cluster.hear("b", "a", pre_vote("a", 5, last))
    assert pre_answered(cluster, "b").granted is granted
    cluster.hear("b", "a", request_vote("a", 5, last))
    assert answered(cluster, "b").granted is granted


def test_a_vote_that_cannot_be_written_is_refused() -> None:
    cluster = RaftCluster()
    cluster.members[NodeId("b")].disk.is_slow = True
    cluster.hear("b", "a", request_vote("a", 3))
    assert cluster.said("b", VoteAnswer) == []
    cluster.fail_disk("b")
    assert cluster.said("b", VoteAnswer) == [vote("b", 0, 1, granted=False)]
    machine = cluster.machine("b")
    assert (machine.term, machine.voted_for) == (0, None)
    assert machine.stats.persist_failures == 1


def test_while_a_vote_is_on_its_way_to_the_disk_everything_else_waits() -> None:
    cluster = RaftCluster()
    cluster.members[NodeId("b")].disk.is_slow = True
    cluster.hear("b", "a", request_vote("a", 3))
    cluster.hear("b", "c", request_vote("c", 3))
    cluster.hear("b", "c", pre_vote("c", 3))
    assert cluster.mail == []
    cluster.flush("b")
    assert cluster.said("b", VoteAnswer) == [vote("b", 3, 1), vote("b", 3, 1, granted=False)]
    assert pre_answered(cluster, "b").term == 3


def test_nobody_votes_twice_in_a_term_whatever_the_order_of_writes_and_crashes() -> None:
    cluster = RaftCluster()
    disk = cluster.members[NodeId("b")].disk
    disk.is_slow = True
    cluster.hear("b", "a", request_vote("a", 3))
    cluster.crash("b")
    cluster.start("b")
    cluster.hear("b", "c", request_vote("c", 3))
    cluster.flush("b")
    assert cluster.said("b", VoteAnswer) == [vote("b", 3, 1)], "the vote for a was never said, the one for c is"
    assert (disk.term, disk.voted_for) == (3, "c")
    cluster.crash("b")
    cluster.start("b")
    cluster.hear("b", "a", request_vote("a", 3))
    assert cluster.said("b", VoteAnswer)[-1] == vote("b", 3, 1, granted=False)


# ---- pre-votes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("term", "granted"), [(3, False), (4, True), (5, True)])
def test_a_pre_vote_of_a_lower_term_is_refused(term: int, *, granted: bool) -> None:
    cluster = RaftCluster()
    put_log(cluster, "b", 1, term=4)
    cluster.hear("b", "a", pre_vote("a", term, (1, 1), request=6))
    assert pre_answered(cluster, "b") == pre_answer("b", 4, 6, granted=granted)


def test_a_pre_vote_is_refused_until_the_minimum_timeout_has_passed_since_the_leader() -> None:
    cluster = RaftCluster()
    cluster.hear("b", "c", append("c", 1))
    heard_ns = cluster.now_ns
    cluster.now_ns = heard_ns + LEAST_NS - 1
    cluster.hear("b", "a", pre_vote("a", 1))
    assert not pre_answered(cluster, "b").granted
    cluster.now_ns = heard_ns + LEAST_NS
    cluster.hear("b", "a", pre_vote("a", 1))
    assert pre_answered(cluster, "b").granted, "the request before was no sign of a leader"


def test_a_real_vote_is_refused_as_well_while_a_leader_is_there() -> None:
    cluster = RaftCluster()
    cluster.hear("b", "c", append("c", 1))
    cluster.now_ns += LEAST_NS - 1
    cluster.hear("b", "a", request_vote("a", 5, (9, 9)))
    machine = cluster.machine("b")
    assert answered(cluster, "b") == vote("b", 1, 1, granted=False)
    assert (machine.term, machine.leader) == (1, "c"), "a node that disturbs does not raise the term"
    cluster.hear("b", "a", request_vote("a", 2, (9, 9), is_transfer=True))
    assert answered(cluster, "b") == vote("b", 2, 1)


def test_a_leader_refuses_votes_of_a_node_that_was_cut_off() -> None:
    cluster = RaftCluster()
    leader = cluster.elect("a")
    cluster.hear("a", "c", pre_vote("c", 1, (9, 9)))
    assert not pre_answered(cluster, "a").granted
    cluster.hear("a", "c", request_vote("c", 8, (9, 9)))
    assert not answered(cluster, "a").granted
    assert (leader.role, leader.term) == (Role.LEADER, 1)


def test_a_pre_vote_changes_nothing_on_either_side() -> None:
    cluster = RaftCluster()
    for node in "ab":
        put_log(cluster, node, 1, term=2)
    effects = cluster.hear("b", "a", pre_vote("a", 7, (1, 1)))
    assert pre_answered(cluster, "b").granted
    assert not any(isinstance(effect, Persist) for effect in effects)
    machine = cluster.machine("b")
    assert (machine.term, machine.voted_for) == (2, None)
    deadline_ns = machine.election_deadline_ns
    cluster.wait("a")
    assert not cluster.members[NodeId("a")].disk.pending
    assert cluster.members[NodeId("a")].disk.term == cluster.machine("a").term == 2
    assert machine.election_deadline_ns == deadline_ns


def test_a_grant_counts_whatever_the_answerers_term() -> None:
    cluster = RaftCluster()
    put_log(cluster, "a", 1, term=5)
    cluster.wait("a")
    cluster.hear("a", "b", pre_answer("b", 3, 1))
    assert cluster.role("a") is Role.CANDIDATE


def test_an_answer_to_an_older_round_does_not_count() -> None:
    cluster = RaftCluster()
    cluster.wait("a")
    cluster.wait("a")
    cluster.hear("a", "b", pre_answer("b", 0, 1))
    assert cluster.role("a") is Role.FOLLOWER
    cluster.hear("a", "b", pre_answer("b", 0, 2))
    assert cluster.role("a") is Role.CANDIDATE


def test_a_refusal_teaches_the_higher_term() -> None:
    cluster = RaftCluster()
    cluster.wait("a")
    cluster.hear("a", "b", pre_answer("b", 6, 1, granted=False))
    machine = cluster.machine("a")
    assert (machine.term, machine.role, machine.is_pre_candidate) == (6, Role.FOLLOWER, False)
    assert cluster.members[NodeId("a")].disk.term == 6


def test_a_pre_candidate_has_no_leader_any_more() -> None:
    cluster = RaftCluster()
    cluster.hear("a", "c", append("c", 1))
    assert cluster.machine("a").leader == "c"
    cluster.wait("a")
    assert cluster.machine("a").leader is None
    assert cluster.members[NodeId("a")].all(LeaderChanged)[-1] == LeaderChanged(None, Term(1))
    refusal = cluster.propose("a", b"x")
    assert Refused(cluster.request, Why.NOT_LEADER, None) in refusal


def test_b3_late_grants_after_a_leader_was_heard_start_no_election() -> None:
    cluster = RaftCluster()
    cluster.wait("a")
    assert cluster.machine("a").is_pre_candidate
    cluster.hear("a", "c", append("c", 4))
    assert not cluster.machine("a").is_pre_candidate
    cluster.hear("a", "b", pre_answer("b", 0, 1))
    cluster.hear("a", "c", pre_answer("c", 0, 1))
    machine = cluster.machine("a")
    assert (machine.role, machine.term, machine.leader) == (Role.FOLLOWER, 4, "c")
    assert cluster.said("a", RequestVote) == []


def test_late_grants_after_a_leader_of_the_same_term_was_heard_start_no_election() -> None:
    cluster = RaftCluster()
    cluster.hear("a", "c", append("c", 1))
    cluster.wait("a")
    cluster.hear("a", "c", append("c", 1))
    cluster.hear("a", "b", pre_answer("b", 1, 1))
    assert cluster.machine("a").term == 1
    assert not cluster.machine("a").is_pre_candidate


def test_a_vote_given_away_ends_the_own_pre_vote() -> None:
    cluster = RaftCluster()
    put_log(cluster, "a", 1, term=2)
    cluster.wait("a")
    cluster.hear("a", "b", request_vote("b", 2, (1, 1)))
    assert not cluster.machine("a").is_pre_candidate
    cluster.hear("a", "c", pre_answer("c", 2, 1))
    assert cluster.role("a") is Role.FOLLOWER


def test_a_cut_off_node_keeps_its_term_until_the_cut_heals() -> None:
    cluster = RaftCluster()
    cluster.elect("a")
    cluster.isolate("c")
    term = cluster.machine("c").term
    cluster.run(3_000)
    assert cluster.machine("c").term == term
    assert cluster.machine("c").stats.pre_votes_started > 5
    assert all(m.term == term for m in cluster.said("c", PreVote) if isinstance(m, PreVote))
    cluster.heal()
    cluster.run(1_000)
    assert cluster.leaders() == ["a"]
    assert {cluster.machine(node).term for node in "abc"} == {term}


def test_a_far_candidate_with_an_equal_log_gets_its_vote() -> None:
    near, far = Embedding.dense((1.0, 0.0)), Embedding.dense((-1.0, 0.0))
    cluster = RaftCluster("abc", config=RaftConfig(), embeddings={"a": near, "b": far, "c": near})
    cluster.wait("a")
    cluster.deliver()
    assert cluster.machine("b").voted_for == "a", "far from the candidate and from the middle"
    assert cluster.machine("c").voted_for == "a"


# ---- told to stand --------------------------------------------------------------------------------------------------


def test_told_by_its_leader_a_node_stands_at_once_without_pre_vote_and_wins() -> None:
    cluster = RaftCluster()
    cluster.elect("a")
    cluster.beat()
    before = len(cluster.said("b", PreVote))
    cluster.hear("b", "a", timeout_now("a", 1))
    assert cluster.role("b") is Role.CANDIDATE
    assert len(cluster.said("b", PreVote)) == before
    asked = cluster.said("b", RequestVote)
    assert len(asked) == 2
    assert all(isinstance(message, RequestVote) and message.is_transfer for message in asked)
    cluster.deliver()
    assert cluster.leader() == "b"


@pytest.mark.parametrize(
    ("sender", "message"),
    [("c", timeout_now("c", 1)), ("a", timeout_now("a", 0)), ("a", timeout_now("a", 2)), ("c", timeout_now("a", 1))],
    ids=["not its leader", "an old term", "a later term", "in another's name"],
)
def test_told_by_anybody_else_it_does_nothing(sender: str, message: AppendEntries) -> None:
    cluster = RaftCluster()
    cluster.elect("a")
    cluster.beat()
    before = cluster.machine("b").term
    effects = cluster.hear("b", sender, message)
    assert effects == []
    assert (cluster.role("b"), cluster.machine("b").term) == (Role.FOLLOWER, before)


def test_a_learner_does_not_stand_even_when_told() -> None:
    cluster = RaftCluster("abc", learners="l")
    cluster.elect("a")
    cluster.beat()
    cluster.hear("l", "a", timeout_now("a", 1))
    assert cluster.role("l") is Role.FOLLOWER
    cluster.isolate("l")
    cluster.run(2_000)
    assert cluster.said("l", PreVote) == []
    assert cluster.machine("l").leader is None, "it knows that it has lost its leader"


def test_the_record_of_a_vote_is_written_before_the_answer_is_sent() -> None:
    cluster = RaftCluster()
    effects = cluster.step("b", Received(NodeId("a"), request_vote("a", 2)))
    persist = next(effect for effect in effects if isinstance(effect, Persist))
    assert persist.records == (HardState(Term(2), NodeId("a")),)
    assert not any(isinstance(effect, Send) for effect in effects)
    sent = cluster.step("b", Persisted(persist.token))
    assert Send(NodeId("a"), vote("b", 2, 1)) in sent
