"""The stories of ``raft_scenarios``, and that each sees the faults that it is told of for."""

from collections.abc import Callable

import pytest

from tests.simulation import raft_log_stories as log_stories
from tests.simulation import raft_scenarios as stories
from tests.simulation.raft_story_mutants import STORIES, is_seen


@pytest.mark.parametrize("voters", [3, 5, 7])
def test_commits_with_a_minority_down(voters: int) -> None:
    stories.commits_with_a_minority_down(voters)


def test_four_nodes_are_no_better_than_three() -> None:
    stories.four_nodes_are_no_better_than_three()


def test_a_calm_cluster_stays_calm() -> None:
    stories.a_calm_cluster_stays_calm()


def test_clocks_that_jump_move_nothing() -> None:
    stories.clocks_that_jump_move_nothing()


def test_a_cold_start_elects_in_time() -> None:
    stories.a_cold_start_elects_in_time()


def test_a_node_that_was_cut_off_comes_back_in_its_term() -> None:
    stories.a_node_that_was_cut_off_comes_back_in_its_term()


def test_a_node_that_does_not_hear_its_leader_deposes_nobody() -> None:
    stories.a_node_that_does_not_hear_its_leader_deposes_nobody()


def test_a_leader_without_quorum_steps_down() -> None:
    stories.a_leader_without_quorum_steps_down()


def test_a_diverged_log_is_repaired() -> None:
    stories.a_diverged_log_is_repaired()


def test_everybody_restarts_at_once() -> None:
    stories.everybody_restarts_at_once()


def test_the_power_goes_at_each_write_of_a_node() -> None:
    stories.the_power_goes_at_each_write_of_a_node()


def test_a_disk_fails_at_each_write_of_a_node() -> None:
    stories.a_disk_fails_at_each_write_of_a_node()


def test_a_snapshot_goes_on_over_a_change_of_leader() -> None:
    stories.a_snapshot_goes_on_over_a_change_of_leader()


def test_a_spoilt_snapshot_is_refused() -> None:
    stories.a_spoilt_snapshot_is_refused()


def test_a_joint_change_needs_both_majorities() -> None:
    stories.a_joint_change_needs_both_majorities()


def test_a_transfer_waits_for_its_target() -> None:
    stories.a_transfer_waits_for_its_target()


def test_nobody_else_may_ask_for_an_election() -> None:
    stories.nobody_else_may_ask_for_an_election()


def test_grants_of_an_older_round_count_for_nothing() -> None:
    stories.grants_of_an_older_round_count_for_nothing()


def test_a_refusal_is_contact() -> None:
    stories.a_refusal_is_contact()


def test_the_term_of_a_log_counts_before_its_length() -> None:
    stories.the_term_of_a_log_counts_before_its_length()


@pytest.mark.parametrize(
    "story",
    [
        log_stories.a_torn_tail_is_left_behind,
        log_stories.rotation_keeps_term_and_vote,
        log_stories.a_checksum_of_zero_is_a_checksum,
        log_stories.a_node_that_lost_its_log_neither_votes_against_it_nor_stands,
        log_stories.a_read_is_confirmed_by_what_was_sent_after_it,
        log_stories.answers_of_an_older_term_count_for_nothing,
        log_stories.a_judge_does_not_rest_on_what_was_cut,
    ],
)
def test_a_node_by_itself(story: Callable[[], None]) -> None:
    story()


@pytest.mark.parametrize("fault", STORIES)
def test_a_story_sees_its_fault(fault: str) -> None:
    assert is_seen(fault)
