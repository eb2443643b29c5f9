import pytest

from bobbin.cluster.names import Index
from bobbin.cluster.raft.progress import Pace, Progress


def at(next_index: int) -> Progress:
    return Progress(Index(next_index), 0)


def test_one_probe_at_a_time_until_an_answer_comes() -> None:
    progress = at(6)
    assert progress.has_room(8)
    progress.sent(1, 9, 0)
    assert progress.next_index == 6, "a probe does not assume anything"
    assert not progress.has_room(8)
    assert progress.accepted(Index(9))
    assert (progress.pace, progress.match_index, progress.next_index) == (Pace.PIPELINE, 9, 10)


def test_a_pipeline_has_a_bound() -> None:
    progress = at(1)
    progress.accepted(Index(4))
    for round_ in range(1, 4):
        assert progress.has_room(3)
        progress.sent(round_, 4 + round_, 0)
    assert progress.next_index == 8
    assert not progress.has_room(3)
    progress.accepted(Index(5))
    assert progress.has_room(3)


def test_an_older_answer_takes_nothing_back() -> None:
    progress = at(1)
    assert progress.accepted(Index(5))
    assert not progress.accepted(Index(3))
    assert (progress.match_index, progress.next_index) == (5, 6)


def test_an_answer_to_a_heartbeat_does_not_pass_for_one_to_entries() -> None:
    progress = at(1)
    progress.accepted(Index(4))
    progress.sent(2, 9, 0)
    progress.contact(3, 1)
    progress.accepted(Index(4))
    assert progress.give_up(100, 100, 3), "what was lost is noticed"
    assert progress.next_index == 5


def test_what_was_taken_in_part_is_sent_on_at_once_one_message_at_a_time() -> None:
    progress = at(1)
    progress.accepted(Index(4))
    progress.sent(2, 9, 0)
    progress.sent(3, 12, 0)
    assert progress.accepted(Index(6), 2, 3)
    assert (progress.pace, progress.match_index, progress.next_index) == (Pace.PROBE, 6, 7)
    assert not progress.refused(3, 6, 3, power_max=4), "of what was sent before"
    progress.sent(4, 12, 0)
    assert not progress.has_room(8)
    assert not progress.accepted(Index(6), 4, 4), "nothing of it was taken"
    assert not progress.has_room(8)
    assert not progress.accepted(Index(6), 4, 4), "now it would be"
    assert (progress.has_room(8), progress.next_index) == (True, 7)
    progress.sent(5, 12, 0)
    assert progress.accepted(Index(12), 5, 5)
    assert (progress.pace, progress.next_index) == (Pace.PIPELINE, 13)


def test_what_was_put_off_behind_a_message_that_is_not_durable_yet_is_sent_again() -> None:
    """The answer that nothing was taken needs no disk, so it comes before the one to the message before it."""
    progress = at(1)
    progress.accepted(Index(4))
    progress.sent(2, 9, 0)
    progress.sent(3, 12, 0)
    assert not progress.accepted(Index(4), 3, 3)
    assert progress.accepted(Index(9), 2, 3)
    assert (progress.pace, progress.next_index) == (Pace.PIPELINE, 13)
    assert not progress.accepted(Index(5), 3, 3)
    assert (progress.has_room(8), progress.pace, progress.next_index) == (True, Pace.PROBE, 10)


def test_messages_have_about_as_many_entries_as_the_follower_takes_at_once() -> None:
    progress = at(1)
    progress.sent(1, 1_000, 0)
    progress.accepted(Index(64), 1, 1)
    assert (progress.portion, progress.next_index) == (64, 65)
    progress.sent(2, 128, 0)
    progress.accepted(Index(128), 2, 2)
    assert progress.portion == 128


def test_answers_to_one_message_that_change_places_take_nothing_back() -> None:
    progress = at(1)
    progress.sent(1, 9, 0)
    progress.accepted(Index(5), 1, 1)
    progress.accepted(Index(3), 1, 1)
    assert (progress.match_index, progress.next_index) == (5, 6)


def test_each_refusal_in_a_row_goes_back_twice_as_far() -> None:
    progress = at(5_000)
    seen = []
    for round_ in range(1, 13):
        assert progress.refused(round_, 10_000, round_, power_max=10)
        seen.append(progress.next_index)
    steps = [before - after for before, after in zip([5_000, *seen], seen, strict=False)]
    assert steps == [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]
    for round_ in range(13, 17):
        progress.refused(round_, 10_000, round_, power_max=10)
    assert progress.next_index == 1, "never below 1"


def test_without_adaptive_backoff_it_goes_back_by_one() -> None:
    progress = at(10)
    for round_ in (1, 2, 3):
        progress.refused(round_, 100, round_, power_max=None)
    assert progress.next_index == 7


def test_success_ends_the_row_of_refusals() -> None:
    progress = at(100)
    progress.refused(1, 100, 1, power_max=10)
    progress.refused(2, 100, 2, power_max=10)
    progress.accepted(Index(50))
    progress.refused(3, 100, 3, power_max=10)
    assert progress.refusals == 1


def test_a_follower_that_says_how_far_it_goes_is_believed() -> None:
    progress = at(1_000)
    progress.refused(1, 7, 1, power_max=10)
    assert progress.next_index == 8


def test_guessing_stops_at_what_the_log_holds() -> None:
    progress = at(103)
    progress.refused(1, 102, 1, power_max=10, first_index=100)
    progress.refused(2, 101, 2, power_max=10, first_index=100)
    assert progress.next_index == 100
    progress.refused(3, 98, 3, power_max=10, first_index=100)
    assert progress.next_index == 99, "now it is known that a snapshot is needed"


def test_refusals_of_what_was_sent_before_the_last_step_back_say_nothing() -> None:
    progress = at(100)
    progress.accepted(Index(60))
    for round_ in (1, 2, 3):
        progress.sent(round_, 99 + round_, 0)
    assert progress.refused(2, 100, 3, power_max=10)
    next_index = progress.next_index
    assert not progress.refused(3, 100, 3, power_max=10)
    assert (progress.next_index, progress.refusals) == (next_index, 1)


def test_a_refusal_does_not_go_behind_what_was_acknowledged_unless_it_is_said_twice() -> None:
    progress = at(1)
    progress.accepted(Index(50))
    progress.refused(1, 10, 1, power_max=10)
    assert progress.next_index == 51, "it may have crossed the acknowledgement"
    progress.refused(2, 10, 2, power_max=10)
    assert progress.next_index == 11, "the follower has lost what it had"
    progress.accepted(Index(20))
    assert (progress.match_index, progress.next_index) == (50, 21)


def test_what_is_not_answered_in_time_is_sent_again_from_the_last_match() -> None:
    progress = at(1)
    progress.accepted(Index(4))
    progress.sent(1, 9, 1_000)
    assert not progress.give_up(1_099, 100, 1)
    assert progress.give_up(1_100, 100, 1)
    assert (progress.pace, progress.next_index, progress.failures) == (Pace.PROBE, 5, 1)


def test_a_lost_probe_is_repeated_at_the_same_place() -> None:
    progress = at(500)
    progress.sent(1, 600, 0)
    progress.give_up(100, 100, 1)
    assert (progress.next_index, progress.has_room(8)) == (500, True)


def test_a_follower_that_awaits_a_snapshot_gets_no_entries_until_it_has_one() -> None:
    progress = at(5)
    progress.await_snapshot()
    assert not progress.has_room(8)
    assert not progress.refused(1, 0, 1, power_max=10)
    progress.accepted(Index(40))
    assert (progress.pace, progress.next_index) == (Pace.PIPELINE, 41)


@pytest.mark.parametrize(("contact_ns", "failures"), [(-1, 2), (5, 1), (12, 0)])
def test_heartbeats_without_contact_in_between_are_counted(contact_ns: int, failures: int) -> None:
    progress = at(1)
    if contact_ns == 5:
        progress.last_contact_ns = 5
    progress.note_silence(10)
    if contact_ns == 12:
        progress.contact(1, 12)
    progress.note_silence(20)
    assert progress.failures == failures


def test_a_snapshot_that_ends_before_what_the_follower_once_had_is_followed_by_entries() -> None:
    """CL-295: its disk was damaged, and it comes back with less than it has acknowledged."""
    progress = at(1)
    progress.accepted(Index(41))
    assert progress.held_index == 41
    progress.refused(1, 0, 1, power_max=10)
    progress.refused(2, 0, 2, power_max=10)
    progress.await_snapshot()
    assert progress.held_index == 0, "nobody says that it has everything"
    assert progress.accepted(Index(21)), "it has the snapshot: that is news"
    assert (progress.pace, progress.next_index, progress.has_room(8)) == (Pace.PROBE, 22, True)
    assert (progress.match_index, progress.held_index) == (41, 21), "what was acknowledged is not taken back (R11)"
    progress.sent(3, 41, 0)
    assert not progress.accepted(Index(41))
    assert (progress.next_index, progress.held_index, progress.has_room(8)) == (42, 41, True)


def test_an_old_answer_does_not_end_the_wait_for_a_snapshot() -> None:
    progress = at(1)
    progress.accepted(Index(41))
    progress.await_snapshot()
    assert not progress.accepted(Index(41))
    assert progress.pace is Pace.SNAPSHOT
