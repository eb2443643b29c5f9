"""What a leader sends, what answers tell it, and what is committed: CL-008, CL-009, CL-026 to CL-031, B2, L1 to L6."""

from itertools import pairwise

import pytest

from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.raft.effects import Accepted, Alarm, Apply, Persist, Refused, Role, Send, Why
from bobbin.cluster.raft.events import Propose, Tick
from bobbin.cluster.raft.messages import AppendAnswer, AppendEntries, SnapshotOffer
from bobbin.cluster.raft.progress import Pace
from bobbin.cluster.settings import RaftConfig
from tests.support.raft_cluster import PLAIN, RaftCluster, entries
from tests.support.raft_messages import answer, append, request_vote

B, C = NodeId("b"), NodeId("c")


def leading(letters: str = "abc", *, config: RaftConfig = PLAIN, learners: str = "") -> RaftCluster:
    """Node a leads and everybody has its first entry."""
    cluster = RaftCluster(letters, config=config, learners=learners)
    cluster.elect("a")
    cluster.beat()
    cluster.mail.clear()
    return cluster


def diverged(*, a: tuple[int, ...], b: tuple[int, ...], config: RaftConfig = PLAIN) -> RaftCluster:
    """Nodes with these logs; a is elected by c, and b has heard nothing yet."""
    cluster = RaftCluster(config=config)
    for node, terms in (("a", a), ("b", b), ("c", ())):
        cluster.crash(node)
        disk = cluster.members[NodeId(node)].disk
        disk.entries = list(entries(*terms))
        disk.term = Term(max((*a, *b)))
        cluster.start(node)
    cluster.isolate("b")
    cluster.elect("a")
    cluster.heal()
    return cluster


def sent(cluster: RaftCluster, to: str) -> list[AppendEntries]:
    return [m for _, receiver, m in cluster.mail if receiver == to and isinstance(m, AppendEntries)]


def last_sent(cluster: RaftCluster, to: str) -> AppendEntries:
    said = [
        effect.message
        for effect in cluster.members[NodeId("a")].effects
        if isinstance(effect, Send) and effect.to == to and isinstance(effect.message, AppendEntries)
    ]
    return said[-1]


# ---- entries on their way -------------------------------------------------------------------------------------------


def test_a_leader_begins_with_an_entry_of_its_own_term() -> None:
    cluster = RaftCluster()
    leader = cluster.elect("a")
    assert leader.log.entries(1, 2)[0].payload is None
    assert (leader.last_term, leader.commit_index) == (1, 1)


def test_a_proposal_is_one_entry_per_command_and_goes_to_every_follower_and_learner() -> None:
    cluster = leading(learners="l")
    leader = cluster.machine("a")
    effects = cluster.propose("a", b"x", b"y")
    assert Accepted(cluster.request, Index(2), 2, Term(1)) in effects
    assert [entry.payload for entry in leader.log.entries(2, 4)] == [b"x", b"y"]
    assert {entry.term for entry in leader.log.entries(2, 4)} == {1}
    assert sum(isinstance(effect, Persist) for effect in effects) == 1
    for node in "bcl":
        (message,) = sent(cluster, node)
        assert (message.previous_index, message.previous_term, message.commit) == (1, 1, 1)
        assert message.entries == leader.log.entries(2, 4)


def test_entries_travel_before_the_leaders_own_disk_is_done() -> None:
    cluster = leading()
    cluster.members[NodeId("a")].disk.is_slow = True
    cluster.propose("a", b"x")
    assert sent(cluster, "b")
    cluster.deliver()
    leader = cluster.machine("a")
    assert leader.progress[B].match_index == 2
    assert leader.commit_index == 1, "the leader itself does not hold it yet"
    cluster.flush("a")
    assert leader.commit_index == 2


def test_a_client_hears_of_success_only_after_a_quorum_holds_the_entry() -> None:
    cluster = leading()
    cluster.isolate("b", "c")
    cluster.propose("a", b"x")
    cluster.deliver()
    assert cluster.members[NodeId("a")].applied == []
    cluster.heal()
    cluster.run(300, lambda: bool(cluster.members[NodeId("a")].applied))
    assert cluster.members[NodeId("a")].applied == [b"x"]
    leader = cluster.machine("a")
    assert leader.commit_index == leader.applied_index == 2


def test_two_of_five_do_not_commit() -> None:
    cluster = leading("abcde")
    cluster.isolate("c", "d", "e")
    cluster.propose("a", b"x")
    cluster.deliver()
    assert cluster.machine("a").commit_index == 1


def test_the_side_without_a_quorum_commits_nothing() -> None:
    cluster = RaftCluster("abcde")
    leader = cluster.elect("a")
    committed = leader.commit_index
    cluster.isolate("c", "d", "e")
    cluster.propose("a", b"lost?")
    cluster.run(2_000)
    assert leader.commit_index == committed
    assert leader.role is Role.FOLLOWER
    assert leader.term == 1


def test_a_learner_does_not_count_for_commit() -> None:
    cluster = leading("abc", learners="lm")
    cluster.isolate("b", "c")
    cluster.propose("a", b"x")
    cluster.deliver()
    assert cluster.machine("a").progress[NodeId("l")].match_index == 2
    assert cluster.machine("a").commit_index == 1


def test_entries_of_earlier_terms_are_committed_only_together_with_one_of_the_own() -> None:
    cluster = RaftCluster()
    cluster.crash("a")
    disk = cluster.members[NodeId("a")].disk
    disk.entries, disk.term = list(entries(1, 2)), Term(2)
    cluster.start("a")
    cluster.lost = lambda mail: isinstance(mail[2], AppendEntries)
    leader = cluster.elect("a")
    assert (leader.term, leader.last_index) == (3, 3)
    cluster.hear("a", "b", answer("b", 3, 2, last_sent(cluster, "b").round))
    assert leader.progress[B].match_index == 2
    assert leader.commit_index == 0, "a quorum holds entry 2, which is of term 2"
    cluster.hear("a", "b", answer("b", 3, 3, last_sent(cluster, "b").round))
    assert leader.commit_index == 3


def test_messages_are_bounded_by_entries_and_by_bytes() -> None:
    config = RaftConfig(append_entries_max=3, append_bytes_max=1_000, appends_in_flight_max=2)
    cluster = leading(config=config)
    cluster.propose("a", *[b"x"] * 7)
    assert [len(message.entries) for message in sent(cluster, "b")] == [3, 3], "two messages may be on their way"
    cluster.deliver()
    assert cluster.machine("b").last_index == 8
    cluster.propose("a", b"y" * 900, b"y" * 900, b"y" * 5_000, b"y")
    assert [len(message.entries) for message in sent(cluster, "b")] == [1, 1]
    cluster.deliver()
    assert cluster.machine("b").last_index == 12


def test_no_message_leaves_while_as_many_bytes_are_on_their_way_as_may() -> None:
    config = RaftConfig(append_bytes_max=1_000, append_in_flight_bytes_max=2_500)
    cluster = leading(config=config)
    cluster.propose("a", *[b"x" * 1_000] * 7)
    assert [len(message.entries) for message in sent(cluster, "b")] == [1, 1, 1], "with the third it is enough"
    cluster.deliver()
    assert cluster.machine("b").last_index == 8, "and the rest follows the answers"
    cluster.propose("a", b"y" * 5_000, b"y")
    assert [len(message.entries) for message in sent(cluster, "b")] == [1], "what is too large travels alone"
    cluster.deliver()
    assert cluster.machine("b").last_index == 10


def test_messages_are_pipelined_without_waiting_for_answers() -> None:
    cluster = leading()
    for _ in range(10):
        cluster.propose("a", b"x")
    messages = sent(cluster, "b")
    assert len(messages) == PLAIN.appends_in_flight_max
    assert [message.previous_index for message in messages] == list(range(1, 9))
    cluster.deliver()
    assert cluster.machine("b").last_index == 11


def test_what_is_lost_is_sent_again_after_the_time_for_an_answer() -> None:
    cluster = leading()
    cluster.propose("a", b"x")
    cluster.mail.clear()
    cluster.now_ns += 99 * MILLISECOND_NS
    cluster.step("a", Tick())
    assert all(not message.entries for message in sent(cluster, "b"))
    cluster.now_ns += 1 * MILLISECOND_NS
    cluster.step("a", Tick())
    assert [len(message.entries) for message in sent(cluster, "b") if message.entries] == [1]
    cluster.deliver()
    assert cluster.machine("a").commit_index == 2


# ---- repair ---------------------------------------------------------------------------------------------------------


def test_after_refusals_in_a_row_it_goes_back_twice_as_far_each_time() -> None:
    cluster = leading()
    cluster.propose("a", *[b"x"] * 200)
    cluster.deliver()
    cluster.crash("b")
    leader = cluster.machine("a")
    cluster.propose("a", b"y")
    progress = leader.progress[B]
    before, seen = progress.next_index, []
    for _ in range(3):
        round_ = last_sent(cluster, "b").round
        cluster.hear("a", "b", answer("b", 1, 10_000, round_, success=False))
        seen.append(progress.next_index)
    # It has acknowledged 201, so it cannot be asked for less without saying so itself.
    assert (before, seen) == (203, [202, 202, 202])


def test_a_new_leader_finds_the_place_by_ever_longer_steps() -> None:
    cluster = diverged(a=(1,) * 60 + (3,), b=(1,) * 20)
    leader = cluster.machine("a")
    progress = leader.progress[B]
    cluster.mail.clear()
    seen = [progress.next_index]
    for _ in range(4):
        cluster.now_ns += 100 * MILLISECOND_NS
        cluster.step("a", Tick())
        cluster.mail.clear()
        # B refuses and gives no hint of its own.
        cluster.hear("a", "b", answer("b", leader.term, 10_000, last_sent(cluster, "b").round, success=False))
        seen.append(progress.next_index)
    assert [before - after for before, after in pairwise(seen)] == [2, 4, 8, 16]


def test_a_diverged_follower_is_repaired_and_keeps_what_is_committed() -> None:
    cluster = diverged(a=(1, 1, 3), b=(1, 2, 2, 2, 2))
    cluster.run(500)
    leader, follower = cluster.machine("a"), cluster.machine("b")
    assert follower.log.entries(1, follower.last_index + 1) == leader.log.entries(1, leader.last_index + 1)
    assert follower.commit_index == leader.commit_index == 4


@pytest.mark.parametrize("adaptive", [True, False])
def test_l6_a_leader_that_repairs_one_follower_through_many_refusals_stays_leader(*, adaptive: bool) -> None:
    config = RaftConfig(enable_geometric_tiebreak=False, adaptive_backoff=adaptive)
    cluster = leading("ab", config=config)
    leader = cluster.machine("a")
    cluster.crash("b")
    for _ in range(40):
        cluster.now_ns += 50 * MILLISECOND_NS
        cluster.step("a", Tick())
        cluster.mail.clear()
        cluster.hear("a", "b", answer("b", 1, 1_000, last_sent(cluster, "b").round, success=False))
    assert leader.role is Role.LEADER, "a refusal is an answer"
    assert leader.stats.quorum_checks > 3
    assert leader.progress[B].failures == 0


def test_a_stale_refusal_does_not_move_a_leader_back() -> None:
    cluster = leading()
    cluster.propose("a", b"x")
    cluster.deliver()
    leader = cluster.machine("a")
    before = leader.progress[B].next_index
    cluster.hear("a", "b", answer("b", 1, 0, 1, success=False))
    assert leader.progress[B].next_index >= leader.progress[B].match_index + 1 == before


def test_a_follower_that_lost_its_log_is_served_again() -> None:
    cluster = leading()
    cluster.propose("a", b"x", b"y")
    cluster.deliver()
    cluster.crash("b")
    cluster.members[B].disk.entries = []
    cluster.start("b")
    cluster.run(2_000, lambda: cluster.machine("b").last_index == 3)
    assert cluster.machine("b").last_index == 3
    assert cluster.role("a") is Role.LEADER


# ---- answers --------------------------------------------------------------------------------------------------------


def test_b2_an_older_answer_does_not_take_a_match_back() -> None:
    cluster = leading()
    cluster.propose("a", *[b"x"] * 4)
    cluster.mail.clear()
    leader = cluster.machine("a")
    round_ = last_sent(cluster, "b").round
    cluster.hear("a", "b", answer("b", 1, 5, round_))
    cluster.hear("a", "b", answer("b", 1, 3, round_ - 1))
    progress = leader.progress[B]
    assert progress.match_index == 5
    assert progress.next_index >= 6


def test_l3_answers_of_an_older_term_have_no_effect_at_all() -> None:
    cluster = leading()
    cluster.elect("b")
    cluster.elect("a")
    leader = cluster.machine("a")
    assert leader.term == 3
    cluster.isolate("b", "c")
    cluster.propose("a", *[b"x"] * 3)
    cluster.mail.clear()
    progress = leader.progress[B]
    before = (progress.match_index, progress.next_index, progress.last_contact_ns, progress.acknowledged_round)
    cluster.now_ns += 10 * MILLISECOND_NS
    effects = cluster.hear("a", "b", answer("b", 2, leader.last_index, last_sent(cluster, "b").round))
    after = (progress.match_index, progress.next_index, progress.last_contact_ns, progress.acknowledged_round)
    assert (effects, after) == ([], before)
    assert leader.stats.stale_answers == 1


def test_l3_an_answer_to_a_node_that_does_not_lead_is_dropped() -> None:
    cluster = leading()
    assert cluster.hear("b", "c", answer("c", 1, 1, 1)) == []
    assert cluster.role("b") is Role.FOLLOWER


@pytest.mark.parametrize("success", [True, False])
def test_an_answer_of_a_higher_term_only_makes_the_leader_step_down(*, success: bool) -> None:
    cluster = leading()
    cluster.propose("a", b"x")
    cluster.mail.clear()
    leader = cluster.machine("a")
    cluster.hear("a", "b", answer("b", 7, 2, last_sent(cluster, "b").round, success=success))
    assert (leader.role, leader.term, leader.leader, leader.commit_index) == (Role.FOLLOWER, 7, None, 1)
    assert cluster.members[NodeId("a")].disk.term == 7
    cluster.run(140)
    assert sent(cluster, "b") == sent(cluster, "c") == [], "no heartbeat after the office"
    assert cluster.members[NodeId("a")].applied == []


def test_a_match_beyond_the_log_is_a_lie() -> None:
    cluster = leading()
    cluster.propose("a", b"x")
    leader = cluster.machine("a")
    cluster.hear("a", "b", answer("b", 1, 99, last_sent(cluster, "b").round))
    assert leader.progress[B].match_index == 1
    assert leader.stats.malformed == 1


def test_an_answer_to_what_was_never_sent_is_a_lie() -> None:
    cluster = leading()
    leader = cluster.machine("a")
    cluster.propose("a", b"x")
    cluster.hear("a", "b", answer("b", 1, 2, 10_000))
    assert leader.progress[B].match_index == 1
    assert leader.stats.strangers == 1


def test_an_answer_of_a_stranger_counts_for_nothing() -> None:
    cluster = leading()
    cluster.hear("a", "z", answer("z", 1, 1, 1))
    assert NodeId("z") not in cluster.machine("a").progress


# ---- heartbeats and the quorum --------------------------------------------------------------------------------------


def test_a_leader_sends_heartbeats_to_every_peer_by_itself() -> None:
    cluster = leading(learners="l")
    start_ns = cluster.now_ns
    cluster.run(500)
    for node in "bcl":
        beats = [
            effect
            for effect in cluster.members[NodeId("a")].effects
            if isinstance(effect, Send) and effect.to == node and isinstance(effect.message, AppendEntries)
        ]
        assert len(beats) >= 10, "every 50 ms"
    assert cluster.now_ns - start_ns == 500 * MILLISECOND_NS
    assert cluster.leaders() == ["a"]


def test_heartbeats_begin_with_the_election_and_stop_with_the_office() -> None:
    cluster = RaftCluster()
    cluster.elect("a")
    first = len(cluster.said("a", AppendEntries))
    assert first >= 2
    cluster.hear("a", "b", append("b", 9))
    cluster.mail.clear()
    before = len(cluster.said("a", AppendEntries))
    cluster.now_ns += 60 * MILLISECOND_NS
    cluster.step("a", Tick())
    assert len(cluster.said("a", AppendEntries)) == before


def test_where_entries_were_sent_no_heartbeat_is_needed() -> None:
    cluster = leading()
    for _ in range(6):
        cluster.propose("a", b"x")
        cluster.deliver()
        cluster.now_ns += 40 * MILLISECOND_NS
        cluster.step("a", Tick())
    assert cluster.machine("a").stats.heartbeats_sent == 2, "only those before the first proposal"


def test_without_automatic_heartbeats_a_leader_asks_for_no_tick_for_them() -> None:
    config = RaftConfig(auto_heartbeat=False, enable_geometric_tiebreak=False)
    cluster = RaftCluster(config=config)
    cluster.elect("a")
    wake_ns = cluster.members[NodeId("a")].wake_ns
    assert wake_ns is not None
    assert wake_ns > cluster.now_ns + 50 * MILLISECOND_NS
    cluster.now_ns += 50 * MILLISECOND_NS
    cluster.step("a", Tick())
    assert len(sent(cluster, "b")) == 1, "a tick that somebody else makes still brings one"


def test_heartbeats_and_elections_are_timed() -> None:
    cluster = RaftCluster()
    leader = cluster.elect("a")
    assert (leader.stats.election_times.count, leader.stats.election_times.total_ns) == (1, 0)
    cluster.now_ns += 50 * MILLISECOND_NS
    cluster.step("a", Tick())
    cluster.now_ns += 7 * MILLISECOND_NS
    cluster.deliver()
    times = leader.stats.heartbeat_times
    assert (times.count, times.min_ns, times.max_ns) == (2, 7 * MILLISECOND_NS, 7 * MILLISECOND_NS)


def test_refusals_are_no_failed_heartbeats() -> None:
    cluster = leading()
    leader = cluster.machine("a")
    cluster.crash("b")
    for _ in range(6):
        cluster.now_ns += 50 * MILLISECOND_NS
        cluster.step("a", Tick())
        cluster.deliver()
        cluster.hear("a", "b", answer("b", 1, 1_000, last_sent(cluster, "b").round, success=False))
    assert leader.stats.heartbeats_failed == 0
    assert leader.stats.backoffs > 0


def test_a_leader_warns_after_three_silent_heartbeats() -> None:
    cluster = leading("abcde")
    cluster.isolate("e")
    cluster.run(400)
    alarms = [e for e in cluster.members[NodeId("a")].effects if isinstance(e, Alarm) and e.code == "heartbeats-failed"]
    assert len(alarms) == 1
    assert alarms[0].detail.startswith("e ")
    assert cluster.role("a") is Role.LEADER


def test_a_leader_without_a_quorum_steps_down_within_two_election_timeouts() -> None:
    cluster = leading()
    cluster.isolate("a")
    cluster.run(2 * 300)
    leader = cluster.machine("a")
    assert (leader.role, leader.leader) == (Role.FOLLOWER, None)
    assert leader.stats.quorum_losses == 1
    assert Refused(9, Why.NOT_LEADER, None) in cluster.step("a", Propose(9, (b"x",)))


def test_a_leader_counts_itself_and_stays_with_a_bare_majority() -> None:
    cluster = leading()
    cluster.crash("c")
    cluster.run(2_000)
    assert cluster.role("a") is Role.LEADER


def test_a_leader_with_too_few_in_contact_refuses_proposals_before_it_steps_down() -> None:
    cluster = leading()
    cluster.isolate("b", "c")
    leader = cluster.machine("a")
    contact_ns = max(leader.progress[node].last_contact_ns for node in (B, C))
    cluster.now_ns = contact_ns + 301 * MILLISECOND_NS
    last_index = leader.last_index
    assert leader.role is Role.LEADER
    assert Refused(cluster.request + 1, Why.NO_QUORUM, NodeId("a")) in cluster.propose("a", b"x")
    assert leader.last_index == last_index


def test_learners_do_not_count_for_contact() -> None:
    cluster = leading("abc", learners="lm")
    cluster.isolate("b", "c")
    cluster.run(600)
    assert cluster.role("a") is Role.FOLLOWER


def test_a_peer_that_seems_dead_still_gets_heartbeats_entries_and_votes() -> None:
    cluster = leading()
    cluster.isolate("b")
    cluster.run(1_000)
    leader = cluster.machine("a")
    assert leader.progress[B].failures >= 3
    cluster.mail.clear()
    cluster.propose("a", b"x")
    cluster.now_ns += 100 * MILLISECOND_NS
    cluster.step("a", Tick())
    assert any(message.entries for message in sent(cluster, "b"))
    cluster.now_ns += 1_000 * MILLISECOND_NS
    cluster.hear("c", "b", request_vote("b", 5, (9, 9)))
    assert cluster.machine("c").voted_for == "b"


# ---- compacted entries ----------------------------------------------------------------------------------------------


def test_l1_what_is_cut_away_is_offered_as_a_snapshot_and_never_sent_from_nothing() -> None:
    config = RaftConfig(
        snapshot_threshold=10,
        snapshot_trailing_logs=2,
        compaction_check_interval=1,
        enable_geometric_tiebreak=False,
    )
    cluster = RaftCluster(config=config)
    cluster.elect("a")
    cluster.isolate("b")
    for number in range(30):
        cluster.propose("a", b"%d" % number)
        cluster.deliver()
    cluster.run(100)
    leader = cluster.machine("a")
    assert leader.first_index > 5
    assert leader.role is Role.LEADER
    cluster.heal()
    before = len(cluster.mail)
    cluster.run(2_000, lambda: cluster.machine("b").commit_index == leader.commit_index)
    assert before == 0
    said = [m for m in cluster.said("a", AppendEntries) if isinstance(m, AppendEntries)]
    assert all(m.previous_index > 0 or not m.entries or m.entries[0].index == 1 for m in said)
    assert all((m.previous_index == 0) == (m.previous_term == 0) for m in said), "a previous entry has a term"
    assert any(isinstance(m, SnapshotOffer) for m in cluster.said("a", SnapshotOffer))
    assert cluster.members[B].applied == cluster.members[NodeId("a")].applied
    assert leader.progress[B].pace is Pace.PIPELINE


def test_nothing_is_given_out_for_a_term_that_is_over() -> None:
    cluster = leading()
    cluster.isolate("a")
    cluster.propose("a", b"lost")
    cluster.run(2_000, lambda: cluster.leader() in {"b", "c"})
    cluster.run(500)
    cluster.heal()
    cluster.run(1_000)
    for member in cluster.members.values():
        assert b"lost" not in member.applied
    refusals = [e for e in cluster.members[NodeId("a")].effects if isinstance(e, Refused) and e.request == 1]
    assert refusals == [], "it was accepted, so its fate is not known to the node that accepted it"
    given = [e for e in cluster.members[NodeId("a")].effects if isinstance(e, Apply)]
    assert sum(len(e.entries) for e in given) == cluster.machine("a").applied_index


def test_answers_say_the_term_and_round_of_what_they_answer() -> None:
    cluster = leading()
    cluster.propose("a", b"x")
    (message,) = sent(cluster, "b")
    cluster.deliver()
    assert AppendAnswer(
        term=Term(1), success=True, follower=B, match_index=Index(2), round=message.round
    ) in cluster.said("b", AppendAnswer)
