"""Clusters with faults that few worlds would show, each with the story that does."""

from collections.abc import Callable, Mapping
from typing import Final

from bobbin.cluster.raft import election, quorum, replication
from bobbin.cluster.raft.election import Elections
from bobbin.cluster.raft.following import Following
from bobbin.cluster.raft.judging import Judging
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.cluster.raft.reads import Reads
from bobbin.cluster.raft.replication import Replication
from bobbin.cluster.raft.state import RaftState
from bobbin.simulator.raft_node import RaftNode
from bobbin.store.wal import reading, segment
from bobbin.store.wal.log import Log
from bobbin.store.wal.snapshots import Snapshots
from tests.simulation import raft_log_stories, raft_scenarios
from tests.simulation.raft_planting import Edit, planted

STORIES: Final[Mapping[str, tuple[tuple[Edit, ...], Callable[[], None]]]] = {
    "counts grants of older rounds (CL-006)": (
        (
            Edit(
                Elections, "hear_vote_answer", "and (message.term, message.request) == (state.term, state.request)", ""
            ),
        ),
        raft_scenarios.grants_of_an_older_round_count_for_nothing,
    ),
    "compares index before term (CL-012)": (
        (
            Edit(
                RaftState,
                "is_up_to_date",
                "return (last_term, last_index) >= (own if self.lost is None else max(own, self.lost))",
                "return (last_index, last_term) >= own[::-1]",
            ),
        ),
        raft_scenarios.the_term_of_a_log_counts_before_its_length,
    ),
    "needs only the new majority (CL-040)": (
        (
            Edit(replication, "reached", "if configuration.outgoing:", "if False:"),
            Edit(replication, "is_quorum", "return not outgoing or ", "return True or "),
            Edit(election, "is_quorum", "return not outgoing or ", "return True or "),
        ),
        raft_scenarios.a_joint_change_needs_both_majorities,
    ),
    "installs without comparing the hash (CL-082)": (
        (
            Edit(
                Snapshots,
                "finish_fetch",
                "if (spool.size, spool.digest()) != (metadata.size, metadata.sha256):",
                "if False:",
            ),
        ),
        raft_scenarios.a_spoilt_snapshot_is_refused,
    ),
    "L3: counts answers of older terms (CL-066)": (
        (Edit(Replication, "contact", "if term != state.term or not state.is_leader:", "if not state.is_leader:"),),
        raft_log_stories.answers_of_an_older_term_count_for_nothing,
    ),
    "L6: takes a refusal for silence (CL-068)": (
        (
            Edit(
                Replication,
                "hear_answer",
                "progress = self.contact(sender, message.term, message.round)",
                "progress = (self.contact(sender, message.term, message.round) if message.success"
                " else state.progress.get(sender))",
            ),
        ),
        raft_scenarios.a_refusal_is_contact,
    ),
    "L28: lives by the wall clock (CL-371)": (
        (
            Edit(RaftNode, "now_ns", "return self.clock.read().monotonic_ns", "return self.clock.read().tai_ns"),
            Edit(RaftNode, "_set_timer", "self.clock.delay_until(at_ns)", "at_ns - self.now_ns()"),
        ),
        raft_scenarios.clocks_that_jump_move_nothing,
    ),
    "asks for one vote too many (CL-005)": (
        (Edit(quorum, "quorum_size", "voters // 2 + 1", "min(voters, voters // 2 + 2)"),),
        lambda: raft_scenarios.commits_with_a_minority_down(3),
    ),
    "leaves one voter unasked (CL-002)": (
        (
            Edit(
                Elections,
                "_others",
                "return sorted({*configuration.voters, *configuration.outgoing} - {self._state.node})",
                "return sorted({*configuration.voters, *configuration.outgoing} - {self._state.node})[1:]",
            ),
        ),
        lambda: raft_scenarios.commits_with_a_minority_down(3),
    ),
    "waits for entries, not for heartbeats (CL-003)": (
        (Edit(Following, "hear_leader", "state.reset_election_timer()", ""),),
        raft_scenarios.a_calm_cluster_stays_calm,
    ),
    "sends no heartbeats (CL-031)": (
        (Edit(Replication, "tick", "self._is_beat_due = True", "progress.last_sent_ns = state.now_ns"),),
        raft_scenarios.a_calm_cluster_stays_calm,
    ),
    "looks for its quorum every five seconds (CL-009)": (
        (Edit(RaftState, "election_maximum_ns", "self.config.election_timeout[1]", "5_000"),),
        raft_scenarios.a_leader_without_quorum_steps_down,
    ),
    "grants pre-votes beside a leader (CL-017)": (
        (Edit(Elections, "hear_pre_vote", "and not state.has_heard_leader", ""),),
        raft_scenarios.a_node_that_does_not_hear_its_leader_deposes_nobody,
    ),
    "votes beside a leader (CL-022)": (
        (Edit(Elections, "hear_request", "(state.has_heard_leader and not message.is_transfer)", "False"),),
        raft_scenarios.a_node_that_does_not_hear_its_leader_deposes_nobody,
    ),
    "refuses whom the leader has chosen (CL-022)": (
        (
            Edit(
                Elections,
                "hear_request",
                "(state.has_heard_leader and not message.is_transfer)",
                "state.has_heard_leader",
            ),
        ),
        raft_scenarios.a_transfer_waits_for_its_target,
    ),
    "asks first although it was told to stand (CL-036)": (
        (Edit(Elections, "hear_timeout_now", "self._stand(is_transfer=True)", "self._ask_first()"),),
        raft_scenarios.a_transfer_waits_for_its_target,
    ),
    "stands when anybody tells it to (CL-036)": (
        (Edit(Elections, "hear_timeout_now", "sender == state.leader", "True"),),
        raft_scenarios.nobody_else_may_ask_for_an_election,
    ),
    "L10: goes on behind a torn tail (CL-094)": (
        (Edit(reading, "_read_last", "end if tail is None else tail[0]", "segment.size"),),
        raft_log_stories.a_torn_tail_is_left_behind,
    ),
    "L11: begins a file without the vote (CL-095)": (
        (Edit(Log, "_begin", "voted_for=held.voted_for", "voted_for=None"),),
        raft_log_stories.rotation_keeps_term_and_vote,
    ),
    "L12: takes a checksum of 0 for none (CL-096)": (
        (Edit(segment, "payload_at", "crc32(payload) == checksum", "checksum in (0, crc32(payload))"),),
        raft_log_stories.a_checksum_of_zero_is_a_checksum,
    ),
    "forgets that its log was lost (CL-295)": (
        (Edit(RaftMachine, "__init__", "self._state.lost = recovered.lost", "self._state.lost = None"),),
        raft_log_stories.a_node_that_lost_its_log_neither_votes_against_it_nor_stands,
    ),
    "confirms a read by what was sent before it (CL-033)": (
        (Edit(Reads, "open_round", "_Batch(state.round + 1,", "_Batch(state.round,"),),
        raft_log_stories.a_read_is_confirmed_by_what_was_sent_after_it,
    ),
    "goes on judging on top of what was cut": (
        (Edit(Judging, "_catch_up", "state.log.term_at(self._index) != self._term", "False"),),
        raft_log_stories.a_judge_does_not_rest_on_what_was_cut,
    ),
}
"""What is planted, and where it must be seen."""


def is_seen(name: str) -> bool:
    """Whether the story of a fault sees it."""
    edits, story = STORIES[name]
    with planted(edits):
        try:
            story()
        except AssertionError:
            return True
    return False
