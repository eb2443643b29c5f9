"""What a follower does with entries, from the rows CL-003, CL-015, CL-028 and the scripts B1, B5, B6 and L2."""

import pytest

from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.raft.effects import Alarm, Append, Apply, Persist, Role, Send, Truncate
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.messages import AppendAnswer
from tests.support.raft_cluster import RaftCluster, entries, entry
from tests.support.raft_messages import answer, append, request_vote


def follower(*terms: int, term: int | None = None) -> RaftCluster:
    """Node b has this log, on its disk as well."""
    cluster = RaftCluster()
    disk = cluster.members[NodeId("b")].disk
    disk.entries = list(entries(*terms))
    disk.term = Term(max(terms, default=0) if term is None else term)
    cluster.start("b")
    return cluster


def log_of(cluster: RaftCluster, node: str = "b") -> tuple[Entry, ...]:
    log = cluster.machine(node).log
    return log.entries(log.first_index, log.last_index + 1)


def last_answer(cluster: RaftCluster, node: str = "b") -> AppendAnswer:
    said = cluster.said(node, AppendAnswer)[-1]
    assert isinstance(said, AppendAnswer)
    return said


# ---- heartbeats and the timer ---------------------------------------------------------------------------------------


def test_an_empty_message_of_the_leader_keeps_the_role_and_resets_the_timer() -> None:
    cluster = follower()
    machine = cluster.machine("b")
    cluster.now_ns = 100 * MILLISECOND_NS
    cluster.hear("b", "a", append("a", 1))
    assert (machine.role, machine.leader, machine.term) == (Role.FOLLOWER, "a", 1)
    assert (machine.election_deadline_ns or 0) >= cluster.now_ns + 150 * MILLISECOND_NS
    before = machine.election_deadline_ns
    cluster.now_ns += 40 * MILLISECOND_NS
    cluster.hear("b", "a", append("a", 1, (0, 0), entries(1)))
    assert machine.election_deadline_ns != before


def test_a_message_of_an_older_term_is_refused_and_resets_nothing() -> None:
    cluster = follower(term=5)
    machine = cluster.machine("b")
    before = machine.election_deadline_ns
    cluster.now_ns = 100 * MILLISECOND_NS
    cluster.hear("b", "a", append("a", 4, (0, 0), entries(4), round_=7))
    assert last_answer(cluster) == answer("b", 5, 0, 7, success=False)
    assert machine.election_deadline_ns == before
    assert (machine.leader, machine.last_index) == (None, 0)


def test_a_higher_term_is_durable_before_it_is_answered_in() -> None:
    cluster = follower(1)
    cluster.members[NodeId("b")].disk.is_slow = True
    cluster.hear("b", "a", append("a", 3, (1, 1)))
    assert cluster.said("b", AppendAnswer) == []
    cluster.flush("b")
    assert last_answer(cluster) == answer("b", 3, 1, 1)
    assert cluster.members[NodeId("b")].disk.term == 3


# ---- matching -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("previous", "at_most"),
    [((1, 3), 2), ((2, 2), 1), ((3, 9), 2)],
    ids=["past the end", "another term there", "far past the end"],
)
def test_without_the_previous_entry_it_refuses_and_says_where_logs_may_agree(
    previous: tuple[int, int], at_most: int
) -> None:
    cluster = follower(1, 1)
    before = log_of(cluster)
    cluster.hear("b", "a", append("a", 3, previous, entries(3, first=previous[1] + 1), round_=4))
    assert last_answer(cluster) == answer("b", 3, at_most, 4, success=False)
    assert log_of(cluster) == before


def test_entries_of_a_term_that_the_leader_cannot_have_there_are_skipped_at_once() -> None:
    cluster = follower(1, 1, 4, 4, 4, 4, 4)
    cluster.hear("b", "a", append("a", 6, (3, 6), entries(6, first=7)))
    assert last_answer(cluster).match_index == 2, "nothing after the entries of term 1 can agree with a log of term 3"


def test_a_previous_entry_of_another_term_is_never_passed_over() -> None:
    cluster = follower(1, 2)
    cluster.hear("b", "a", append("a", 3, (1, 2), entries(3, first=3)))
    assert not last_answer(cluster).success
    assert cluster.machine("b").last_index == 2


def test_a_diverged_log_is_overwritten_from_the_first_conflict() -> None:
    cluster = follower(1, 1, 2, 2, 2)
    leaders = entries(1, 1, 3, 3)
    effects = cluster.hear("b", "a", append("a", 3, (1, 1), leaders[1:]))
    assert log_of(cluster) == leaders
    persist = next(effect for effect in effects if isinstance(effect, Persist))
    assert persist.records[-2:] == (Truncate(Index(3)), Append(leaders[2:]))
    assert last_answer(cluster) == answer("b", 3, 4, 1)


def test_committed_entries_are_untouched_whatever_a_peer_says() -> None:
    cluster = follower(1, 1, 1)
    cluster.hear("b", "a", append("a", 1, (1, 3), commit=3))
    effects = cluster.hear("b", "c", append("c", 2, (1, 1), entries(2, 2, first=2)))
    assert log_of(cluster) == entries(1, 1, 1)
    assert any(isinstance(effect, Alarm) and effect.code == "committed-conflict" for effect in effects)
    assert cluster.machine("b").commit_index == 3


def test_entries_that_agree_are_not_cut() -> None:
    cluster = follower(1, 1, 1, 1)
    effects = cluster.hear("b", "a", append("a", 1, (1, 1), entries(1, 1, first=2)))
    assert log_of(cluster) == entries(1, 1, 1, 1)
    assert not any(isinstance(effect, Persist) for effect in effects)


def test_overlapping_entries_add_only_what_is_new() -> None:
    cluster = follower(1, 1)
    effects = cluster.hear("b", "a", append("a", 1, (0, 0), entries(1, 1, 1, 1)))
    assert log_of(cluster) == entries(1, 1, 1, 1)
    persist = next(effect for effect in effects if isinstance(effect, Persist))
    assert persist.records == (Append(entries(1, 1, first=3)),)


@pytest.mark.parametrize(
    "bad",
    [
        (entry(1, 2), entry(1, 4)),
        (entry(1, 3),),
        (entry(9, 2),),
    ],
    ids=["gap", "wrong place", "a term after the leader's"],
)
def test_entries_that_do_not_follow_one_another_are_dropped_and_counted(bad: tuple[Entry, ...]) -> None:
    cluster = follower(1)
    effects = cluster.hear("b", "a", append("a", 1, (1, 1), bad))
    assert effects == []
    assert cluster.machine("b").stats.malformed == 1
    assert cluster.machine("b").last_index == 1


# ---- scripts --------------------------------------------------------------------------------------------------------


def test_b1_a_follower_answers_for_what_was_compared_and_not_for_its_whole_log() -> None:
    """A leads term 1, all hold a b c. Cut off, A appends d e; B wins term 2 with C, and A comes back."""
    cluster = RaftCluster()
    cluster.elect("a")
    cluster.propose("a", b"b", b"c")
    cluster.deliver()
    cluster.beat()
    assert [cluster.machine(node).commit_index for node in "abc"] == [3, 3, 3]
    cluster.isolate("a")
    cluster.propose("a", b"d", b"e")
    cluster.deliver()
    assert cluster.machine("a").last_index == 5
    cluster.now_ns += 400 * MILLISECOND_NS
    cluster.wait("b")
    cluster.deliver()
    assert cluster.role("b") is Role.LEADER
    leader = cluster.machine("b")
    # A hears an empty message that ends at 3, although it holds five entries.
    cluster.hear("a", "b", append("b", leader.term, (1, 3), round_=leader.stats.heartbeats_sent))
    assert last_answer(cluster, "a").match_index == 3
    # X stands at 5 of B's log, after B's own first entry; C never gets it.
    cluster.lost = lambda mail: "c" in mail[:2]
    cluster.propose("b", b"X")
    cluster.hear("b", "a", answer("a", leader.term, 3, leader.stats.heartbeats_sent))
    assert leader.commit_index <= 4, "A has acknowledged 3 and nothing more"
    assert b"X" not in cluster.members[NodeId("b")].applied
    assert b"d" not in cluster.members[NodeId("a")].applied
    cluster.lost = lambda _: False
    cluster.heal()
    cluster.run(1_000)
    assert cluster.members[NodeId("a")].applied == cluster.members[NodeId("b")].applied == [b"b", b"c", b"X"]


def test_b5_a_heartbeat_before_the_first_entry_leaves_the_log_alone() -> None:
    cluster = follower(1, 1, 1)
    cluster.hear("b", "a", append("a", 1, (0, 0)))
    assert log_of(cluster) == entries(1, 1, 1)
    assert last_answer(cluster) == answer("b", 1, 0, 1)


def test_b6_a_delayed_message_does_not_cut_what_came_after_it() -> None:
    cluster = follower()
    cluster.hear("b", "a", append("a", 1, (0, 0), entries(1, 1, 1, 1, 1), round_=1))
    cluster.hear("b", "a", append("a", 1, (0, 0), entries(1, 1, 1), round_=2))
    assert log_of(cluster) == entries(1, 1, 1, 1, 1)
    assert last_answer(cluster) == answer("b", 1, 3, 2)


def test_l2_commit_goes_no_further_than_what_was_compared() -> None:
    cluster = follower(1, 1, 2, 2, 2)
    cluster.hear("b", "a", append("a", 3, (1, 2), commit=5))
    assert cluster.machine("b").commit_index == 2
    cluster.hear("b", "a", append("a", 3, (1, 2), entries(3, first=3), commit=5))
    assert cluster.machine("b").commit_index == 3


# ---- commit and apply -----------------------------------------------------------------------------------------------


def test_commit_is_learnt_from_an_empty_message_and_entries_are_given_out_in_order_and_once() -> None:
    cluster = follower(1, 1, 1)
    cluster.hear("b", "a", append("a", 1, (1, 3), commit=2))
    cluster.hear("b", "a", append("a", 1, (1, 3), commit=3))
    cluster.hear("b", "a", append("a", 1, (0, 0), entries(1, 1, 1), commit=3))
    given = [effect.entries for effect in cluster.members[NodeId("b")].effects if isinstance(effect, Apply)]
    assert given == [entries(1, 1), entries(1, first=3)]
    assert cluster.machine("b").applied_index == 3


def test_commit_never_falls() -> None:
    cluster = follower(1, 1, 1)
    cluster.hear("b", "a", append("a", 1, (1, 3), commit=3))
    cluster.hear("b", "a", append("a", 1, (1, 3), commit=1))
    assert cluster.machine("b").commit_index == 3


def test_nothing_above_commit_is_given_out() -> None:
    cluster = follower()
    cluster.hear("b", "a", append("a", 1, (0, 0), entries(1, 1, 1), commit=1))
    given = [effect.entries for effect in cluster.members[NodeId("b")].effects if isinstance(effect, Apply)]
    assert given == [entries(1)]


# ---- durability -----------------------------------------------------------------------------------------------------


def test_entries_are_acknowledged_and_committed_when_they_are_durable() -> None:
    cluster = follower(1)
    cluster.members[NodeId("b")].disk.is_slow = True
    cluster.hear("b", "a", append("a", 1, (1, 1), entries(1, first=2), commit=2))
    machine = cluster.machine("b")
    assert cluster.said("b", AppendAnswer) == []
    assert (machine.last_index, machine.durable_index, machine.commit_index) == (2, 1, 1)
    cluster.flush("b")
    assert last_answer(cluster) == answer("b", 1, 2, 1)
    assert machine.commit_index == 2


def test_a_heartbeat_is_answered_at_once_for_what_is_durable() -> None:
    cluster = follower(1)
    cluster.members[NodeId("b")].disk.is_slow = True
    cluster.hear("b", "a", append("a", 1, (1, 1), entries(1, first=2), round_=1))
    cluster.hear("b", "a", append("a", 1, (1, 2), round_=2))
    assert cluster.said("b", AppendAnswer) == [answer("b", 1, 1, 2)]


def test_a_repeated_message_is_acknowledged_no_sooner_than_the_first() -> None:
    cluster = follower(1)
    cluster.members[NodeId("b")].disk.is_slow = True
    for round_ in (1, 2):
        cluster.hear("b", "a", append("a", 1, (1, 1), entries(1, first=2), round_=round_))
    assert cluster.said("b", AppendAnswer) == []
    cluster.flush("b")
    assert cluster.said("b", AppendAnswer) == [answer("b", 1, 2, 1), answer("b", 1, 2, 2)]


def test_a_failed_write_brings_back_what_it_would_have_replaced() -> None:
    cluster = follower(1, 1, 2, 2)
    disk = cluster.members[NodeId("b")].disk
    cluster.hear("b", "a", append("a", 2, (2, 4)))
    disk.is_slow = True
    cluster.hear("b", "c", append("c", 3, (1, 1)))
    cluster.flush("b")
    cluster.hear("b", "c", append("c", 3, (1, 2), entries(3, 3, 3, first=3), commit=4))
    said = len(cluster.said("b", AppendAnswer))
    effects = cluster.fail_disk("b")
    machine = cluster.machine("b")
    assert log_of(cluster) == entries(1, 1, 2, 2)
    assert (machine.commit_index, machine.durable_index, machine.term) == (2, 4, 3)
    assert len(cluster.said("b", AppendAnswer)) == said, "the answer was never said"
    assert any(isinstance(effect, Alarm) and effect.code == "storage" for effect in effects)
    cluster.hear("b", "c", append("c", 3, (1, 2)))
    assert machine.commit_index == 2, "what was said of the lost entries does not count for those that are back"


def test_a_failed_write_that_held_a_new_term_takes_the_node_back_to_the_old_one() -> None:
    cluster = follower(1)
    cluster.members[NodeId("b")].disk.is_slow = True
    cluster.hear("b", "a", append("a", 4, (1, 1), entries(4, first=2)))
    cluster.fail_disk("b")
    machine = cluster.machine("b")
    assert (machine.term, machine.leader, machine.last_index) == (1, None, 1)
    assert cluster.mail == []


# ---- who may speak as leader ----------------------------------------------------------------------------------------


def test_a_second_leader_of_one_term_is_not_believed() -> None:
    cluster = follower(1)
    cluster.hear("b", "a", append("a", 1, (1, 1)))
    effects = cluster.hear("b", "c", append("c", 1, (1, 1), entries(1, first=2)))
    assert [effect.code for effect in effects if isinstance(effect, Alarm)] == ["two-leaders"]
    assert not any(isinstance(effect, Send) for effect in effects)
    assert (cluster.machine("b").leader, cluster.machine("b").last_index) == ("a", 1)


def test_a_follower_that_voted_follows_whoever_won() -> None:
    cluster = follower(1)
    cluster.now_ns += 200 * MILLISECOND_NS
    cluster.hear("b", "c", request_vote("c", 2, (1, 1)))
    cluster.hear("b", "a", append("a", 2, (1, 1)))
    assert cluster.machine("b").leader == "a"
