"""Replays: the window, lives, times, and what a sweep may forget; against a plain model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.cluster.names import NodeId
from bobbin.errors import UsageError
from bobbin.wire.cluster import replay
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from bobbin.wire.cluster.replay import SWEEP_CALLS, WINDOW, SequenceTracker
from tests.support.cluster_wire import ALICE, NOW_MS, refusal_of

BOOT = 5


def take(
    tracker: SequenceTracker,
    sequence: int,
    *,
    sender: NodeId = ALICE.node,
    boot_id: int = BOOT,
    time_ms: int = NOW_MS,
    now_ms: int = NOW_MS,
) -> Refusal | None:
    """How a message fares."""
    return refusal_of(
        lambda: tracker.check_and_record(sender, boot_id=boot_id, sequence=sequence, time_ms=time_ms, now_ms=now_ms)
    )


def test_the_defaults_are_these() -> None:
    tracker = SequenceTracker()
    assert (tracker.max_age_ms, tracker.future_ms_max, tracker.senders_max) == (300_000, 60_000, 10_000)
    assert (WINDOW, SWEEP_CALLS) == (1_024, 100)


@pytest.mark.parametrize(("ahead_ms", "refusal"), [(60_000, None), (60_001, Refusal.FUTURE), (10**15, Refusal.FUTURE)])
def test_a_time_too_far_ahead_is_refused(ahead_ms: int, refusal: Refusal | None) -> None:
    """CL-255: exactly 60,000 ms ahead passes."""
    assert take(SequenceTracker(), 0, time_ms=NOW_MS + ahead_ms) is refusal


@pytest.mark.parametrize(("age_ms", "refusal"), [(300_000, None), (300_001, Refusal.STALE), (NOW_MS, Refusal.STALE)])
def test_a_message_that_is_too_old_is_refused(age_ms: int, refusal: Refusal | None) -> None:
    """CL-256: exactly 300,000 ms old passes."""
    assert take(SequenceTracker(), 0, time_ms=NOW_MS - age_ms) is refusal


@pytest.mark.parametrize(
    ("asked_ms", "age_ms", "refusal"), [(50, 50, None), (50, 51, Refusal.STALE), (200, 101, Refusal.STALE)]
)
def test_a_caller_may_ask_for_a_lower_age_and_never_for_a_higher_one(
    asked_ms: int, age_ms: int, refusal: Refusal | None
) -> None:
    tracker = SequenceTracker(max_age_ms=100)
    found = refusal_of(
        lambda: tracker.check_and_record(
            ALICE.node, boot_id=1, sequence=0, time_ms=NOW_MS - age_ms, now_ms=NOW_MS, max_age_ms=asked_ms
        )
    )
    assert found is refusal


def test_the_first_message_and_reordered_ones_are_taken_and_a_restart_at_once() -> None:
    """CL-258."""
    tracker = SequenceTracker()
    assert take(tracker, 0) is None
    assert take(tracker, 0) is Refusal.REPLAYED
    assert [take(tracker, sequence) for sequence in (3, 1, 2)] == [None, None, None]
    assert take(tracker, 0, boot_id=BOOT + 1) is None
    assert take(tracker, 0, boot_id=BOOT + 1) is Refusal.REPLAYED
    reordered = SequenceTracker()
    assert [take(reordered, sequence) for sequence in (5, 0, 4)] == [None, None, None]


def test_an_earlier_life_is_refused_once_a_later_one_has_spoken() -> None:
    tracker = SequenceTracker()
    assert take(tracker, 7) is None
    assert take(tracker, 0, boot_id=BOOT + 3) is None
    assert take(tracker, 8) is Refusal.OLD_BOOT
    assert take(tracker, 1, boot_id=BOOT + 2) is Refusal.OLD_BOOT
    assert take(tracker, 1, boot_id=BOOT + 3) is None


def test_a_sequence_is_taken_once_inside_a_window_of_1024() -> None:
    """CL-257: in any order; below the window nothing is taken."""
    tracker = SequenceTracker()
    assert take(tracker, 2_000) is None
    assert take(tracker, 2_000 - WINDOW) is Refusal.BELOW_WINDOW
    assert take(tracker, 2_000 - WINDOW + 1) is None
    assert take(tracker, 2_000 - WINDOW + 1) is Refusal.REPLAYED
    assert take(tracker, 1_999) is None
    assert take(tracker, 2_001) is None
    assert take(tracker, 2_000 - WINDOW + 1) is Refusal.BELOW_WINDOW
    assert take(tracker, 1_999) is Refusal.REPLAYED
    # Far ahead: the whole window is new.
    assert take(tracker, 2_001 + WINDOW) is None
    assert take(tracker, 2_001) is Refusal.BELOW_WINDOW
    assert take(tracker, 2_002) is None
    assert take(tracker, 2**64 - 1) is None
    assert take(tracker, 2**64 - 1) is Refusal.REPLAYED


SEQUENCES = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3_000) | st.integers(0, 40)), max_size=60)


@given(SEQUENCES)
def test_the_window_is_that_of_a_plain_set(said: list[tuple[int, int]]) -> None:
    """CL-257, CL-258: a set of everything that was taken says the same."""
    tracker = SequenceTracker()
    taken: set[int] = set()
    newest = 0
    for boot, sequence in said:
        if boot > newest:
            newest, taken = boot, set()
            expected = None
        elif boot < newest:
            expected = Refusal.OLD_BOOT
        elif sequence <= max(taken) - WINDOW:
            expected = Refusal.BELOW_WINDOW
        else:
            expected = Refusal.REPLAYED if sequence in taken else None
        if expected is None:
            taken.add(sequence)
        assert take(tracker, sequence, boot_id=boot) is expected


def test_senders_are_kept_apart() -> None:
    tracker = SequenceTracker()
    for sender in ("a", "b"):
        assert take(tracker, 0, sender=NodeId(sender)) is None
        assert take(tracker, 0, sender=NodeId(sender)) is Refusal.REPLAYED
    assert len(tracker) == 2


def test_a_refused_message_leaves_no_trace() -> None:
    """CL-259."""
    tracker = SequenceTracker()
    assert take(tracker, 9, time_ms=NOW_MS - 300_001) is Refusal.STALE
    assert take(tracker, 9, time_ms=NOW_MS + 60_001) is Refusal.FUTURE
    assert len(tracker) == 0
    assert take(tracker, 9) is None
    assert take(tracker, 10, time_ms=NOW_MS - 300_001) is Refusal.STALE
    assert take(tracker, 10) is None


def test_at_most_so_many_senders_are_heard_at_a_time() -> None:
    """CL-259: nobody who is still inside the age is forgotten for a new one."""
    tracker = SequenceTracker(senders_max=3)
    for sender in "abc":
        assert take(tracker, 0, sender=NodeId(sender)) is None
    assert take(tracker, 0, sender=NodeId("d")) is Refusal.TOO_MANY_SENDERS
    assert len(tracker) == 3
    for sender in "abc":
        assert take(tracker, 0, sender=NodeId(sender)) is Refusal.REPLAYED
    later = NOW_MS + 300_001
    assert take(tracker, 0, sender=NodeId("d"), time_ms=later, now_ms=later) is None
    assert len(tracker) == 1


def test_a_sweep_comes_every_100_calls_and_forgets_nothing_inside_the_age() -> None:
    """CL-259."""
    tracker = SequenceTracker()
    assert take(tracker, 0, sender=NodeId("early"), time_ms=NOW_MS) is None
    assert take(tracker, 0, sender=NodeId("late"), time_ms=NOW_MS + 1) is None
    later = NOW_MS + 300_001
    for call in range(3, SWEEP_CALLS + 1):
        assert len(tracker) == (2 if call == 3 else 3)
        assert take(tracker, call, sender=NodeId("busy"), time_ms=later, now_ms=later) is None
    # Of "early" everything is too old to be taken again; the message of "late" would still pass, so it is remembered.
    assert len(tracker) == 2
    assert take(tracker, 0, sender=NodeId("late"), time_ms=NOW_MS + 1, now_ms=later) is Refusal.REPLAYED


@pytest.mark.parametrize("ahead_ms", [0, 60_000])
def test_a_message_is_remembered_for_as_long_as_it_would_be_taken(ahead_ms: int) -> None:
    """CL-259, CL-135: by its own time, which may lie ahead."""
    tracker = SequenceTracker()
    time_ms = NOW_MS + ahead_ms
    assert take(tracker, 0, time_ms=time_ms) is None
    for now_ms in (time_ms + 299_999, time_ms + 300_000):
        tracker.sweep(now_ms)
        assert take(tracker, 0, time_ms=time_ms, now_ms=now_ms) is Refusal.REPLAYED
    tracker.sweep(time_ms + 300_001)
    assert take(tracker, 0, time_ms=time_ms, now_ms=time_ms + 300_001) is Refusal.STALE


def test_a_clock_that_is_set_back_makes_nothing_fresh() -> None:
    """CL-135: those who were put aside are known by their life and highest sequence."""
    tracker = SequenceTracker()
    for sequence in (0, 5, 9):
        assert take(tracker, sequence) is None
    tracker.sweep(NOW_MS + 3_600_000)
    assert (len(tracker), tracker.aside) == (0, 1)
    for sequence in (0, 5, 7, 9):
        assert take(tracker, sequence) is Refusal.BELOW_WINDOW
    assert take(tracker, 3, boot_id=BOOT - 1) is Refusal.OLD_BOOT
    assert (len(tracker), tracker.aside) == (0, 1)
    # It goes on where it was: what lies between is new, what was taken is not.
    assert take(tracker, 12) is None
    assert (len(tracker), tracker.aside) == (1, 0)
    assert [take(tracker, sequence) for sequence in (10, 11, 9, 0, 12)] == [
        None,
        None,
        Refusal.REPLAYED,
        Refusal.REPLAYED,
        Refusal.REPLAYED,
    ]


@pytest.mark.parametrize("sequence", [10 + WINDOW - 1, 10 + WINDOW, 10 + 5 * WINDOW])
def test_after_a_silence_the_window_is_right_wherever_it_begins(sequence: int) -> None:
    tracker = SequenceTracker()
    assert take(tracker, 10) is None
    tracker.sweep(NOW_MS + 3_600_000)
    assert take(tracker, sequence) is None
    lowest = sequence - WINDOW + 1
    assert take(tracker, lowest) is (None if lowest > 10 else Refusal.REPLAYED)
    assert take(tracker, lowest + 1) is None
    assert take(tracker, lowest - 1) is Refusal.BELOW_WINDOW


def test_a_new_life_after_a_silence_begins_anew() -> None:
    tracker = SequenceTracker()
    assert take(tracker, 10) is None
    tracker.sweep(NOW_MS + 3_600_000)
    assert take(tracker, 3, boot_id=BOOT + 1) is None
    assert take(tracker, 2, boot_id=BOOT + 1) is None
    assert take(tracker, 11) is Refusal.OLD_BOOT


def test_those_who_are_silent_are_bounded_too() -> None:
    tracker = SequenceTracker(senders_max=2)
    for number in range(5):
        now_ms = NOW_MS + number * 400_000
        assert take(tracker, 0, sender=NodeId(str(number)), time_ms=now_ms, now_ms=now_ms) is None
        tracker.sweep(now_ms + 300_001)
    assert tracker.aside == 2
    assert take(tracker, 0, sender=NodeId("4")) is Refusal.BELOW_WINDOW
    assert take(tracker, 0, sender=NodeId("2")) is None


def test_a_sender_that_was_let_go_does_not_say_the_same_again() -> None:
    """CL-259: not even when it is registered again a moment later."""
    tracker = SequenceTracker()
    assert take(tracker, 3) is None
    tracker.forget(ALICE.node)
    tracker.forget(ALICE.node)
    tracker.forget(NodeId("nobody"))
    assert (len(tracker), tracker.aside) == (0, 1)
    assert [take(tracker, sequence) for sequence in (2, 3)] == [Refusal.BELOW_WINDOW] * 2
    assert take(tracker, 4) is None
    assert (len(tracker), tracker.aside) == (1, 0)


@pytest.mark.parametrize("wrong", [{"max_age_ms": 0}, {"future_ms_max": -1}, {"senders_max": 0}])
def test_bounds_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        SequenceTracker(**wrong)


def test_the_bounds_of_the_module_are_those_of_the_tracker() -> None:
    assert (replay.MAX_AGE_MS, replay.FUTURE_MS_MAX, replay.SENDERS_MAX) == (300_000, 60_000, 10_000)


def test_a_time_is_judged_by_the_clock_of_its_sender_once_that_was_seen() -> None:
    hour = 3_600_000
    for ahead in (hour, -hour):
        tracker = SequenceTracker()
        assert take(tracker, 0, time_ms=NOW_MS + ahead) in {Refusal.FUTURE, Refusal.STALE}
        tracker.check_and_record(
            ALICE.node, boot_id=BOOT, sequence=0, time_ms=NOW_MS + ahead, now_ms=NOW_MS, sets_clock=True
        )
        assert take(tracker, 1, time_ms=NOW_MS + ahead + 60_000) is None
        assert take(tracker, 2, time_ms=NOW_MS + ahead + 60_001) is Refusal.FUTURE
        assert take(tracker, 3, time_ms=NOW_MS + ahead - 300_000) is None
        assert take(tracker, 4, time_ms=NOW_MS + ahead - 300_001) is Refusal.STALE
        # What a sweep keeps does not depend on how far apart the clocks are.
        tracker.sweep(NOW_MS + 300_000)
        assert len(tracker) == 1
        # Others have clocks of their own, and who has left is to show it anew.
        assert take(tracker, 0, sender=NodeId("other"), time_ms=NOW_MS) is None
        tracker.forget(ALICE.node)
        assert take(tracker, 5, time_ms=NOW_MS + ahead) in {Refusal.FUTURE, Refusal.STALE}


def test_a_clock_is_not_set_by_what_is_refused() -> None:
    tracker = SequenceTracker()
    assert take(tracker, 7) is None
    for boot_id, sequence in ((BOOT, 7), (BOOT - 1, 8)):
        with pytest.raises(MessageRefused):
            tracker.check_and_record(
                ALICE.node, boot_id=boot_id, sequence=sequence, time_ms=0, now_ms=NOW_MS, sets_clock=True
            )
    assert take(tracker, 8) is None
