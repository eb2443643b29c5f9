"""Frames that wait to be acknowledged: bounded, in order, and none lost before its time."""

import pytest

from bobbin.errors import UsageError
from bobbin.reactive.messages import CellSet, NodeId, PeerId
from bobbin.reactive.outbox import NamedOutbox, Outbox, Taken, TakenWrites, named_in, taken_in

ONE, TWO, THREE = ((CellSet(NodeId(number), b"x"),) for number in (1, 2, 3))


def epochs(outbox: Outbox) -> list[tuple[int, int]]:
    return [(frame.base_epoch, frame.epoch) for frame in outbox.frames]


def test_each_frame_follows_on_the_one_before() -> None:
    outbox = Outbox(first=7)
    frames = [outbox.append(operations) for operations in (ONE, TWO)]
    assert epochs(outbox) == [(7, 8), (8, 9)]
    assert outbox.frames == tuple(frames)
    outbox.check()


def test_an_acknowledgement_takes_what_it_names_and_no_more() -> None:
    outbox = Outbox()
    for operations in (ONE, TWO, THREE):
        outbox.append(operations)
    outbox.acknowledge(0)
    assert len(outbox) == 3
    outbox.acknowledge(2)
    assert epochs(outbox) == [(2, 3)]
    outbox.acknowledge(1)
    assert epochs(outbox) == [(2, 3)]
    outbox.acknowledge(9)
    assert len(outbox) == 0
    assert outbox.append(ONE).base_epoch == 3, "numbers are not given twice"
    outbox.check()


def test_what_somebody_has_not_seen() -> None:
    outbox = Outbox()
    for operations in (ONE, TWO, THREE):
        outbox.append(operations)
    assert [frame.epoch for frame in outbox.replay_from(1)] == [2, 3]
    assert outbox.replay_from(3) == ()
    again = Outbox(retained=outbox.replay_from(1))
    assert again.append(ONE).base_epoch == 3
    again.check()


def test_what_frames_say_to_another_receiver_goes_under_their_numbers() -> None:
    outbox = Outbox()
    for operations in (ONE, TWO, THREE):
        outbox.append(operations)
    outbox.acknowledge(1)
    assert outbox.settled == 1
    outbox.readdress(lambda frame: () if frame.operations == TWO else ONE)
    assert epochs(outbox) == [(1, 2), (2, 3)]
    assert [frame.operations for frame in outbox.frames] == [(), ONE]
    outbox.acknowledge(3)
    assert outbox.settled == 3
    outbox.check()


def test_there_is_only_so_much_room() -> None:
    outbox = Outbox(frames_max=2)
    outbox.append(ONE)
    outbox.append(TWO)
    with pytest.raises(UsageError, match="no room"):
        outbox.append(THREE)
    assert epochs(outbox) == [(0, 1), (1, 2)]
    outbox.check()


def test_an_outbox_is_named_in_the_handshake() -> None:
    named = NamedOutbox("0123456789abcdef", 7)
    assert named_in(["other", named.feature]) == named
    for wrong in (
        "0123-7",
        "0123456789abcdef",
        "0123456789abcdeg-7",
        "0123456789abcdef--1",
        "0123456789abcdef-" + "9" * 16,
    ):
        assert named_in([f"bobbin-outbox-{wrong}"]) is None


def test_a_source_says_how_much_it_has_and_by_which_memory() -> None:
    taken = Taken(12, "0a1b.3")
    assert taken.feature == "bobbin-taken-12-0a1b.3"
    assert taken_in(["other", taken.feature]) == taken
    for wrong in ("", "12", "12-", "x-0a", "-1-0a", "12-0g", "12-" + "0" * 65, "9" * 16 + "-0a"):
        assert taken_in([f"bobbin-taken-{wrong}"]) is None


def test_what_was_taken_is_remembered_for_each_outbox_of_each_peer() -> None:
    taken = TakenWrites("a")
    one, two = PeerId(1), PeerId(2)
    taken.of(one, "a").take(3)
    taken.of(one, "a").take(2)
    taken.of(two, "a").take(1)
    memories = [taken.of(one, "a"), taken.of(two, "a"), taken.of(one, "b")]
    assert [memory.through for memory in memories] == [3, 1, 0]
    assert len({memory.memory for memory in memories}) == 3


def test_the_memory_of_what_was_taken_is_bounded_and_nobody_uses_up_that_of_another() -> None:
    taken = TakenWrites("a", per_peer_max=2, peers_max=2)
    kept = taken.of(PeerId(1), "kept")
    for number in range(9):
        taken.of(PeerId(2), f"{number}")
    assert [number for number in range(9) if taken.use(PeerId(2), f"{number}") is not None] == [7, 8]
    assert taken.use(PeerId(1), "kept") is kept
    taken.of(PeerId(3), "new")
    assert taken.use(PeerId(1), "kept") is kept
    assert taken.use(PeerId(2), "8") is None


def test_what_was_forgotten_begins_anew_under_another_name() -> None:
    taken = TakenWrites("a", per_peer_max=1)
    first = taken.of(PeerId(1), "a")
    first.take(7)
    taken.of(PeerId(1), "b")
    again = taken.of(PeerId(1), "a")
    assert (again.through, first.through) == (0, 7)
    assert again.memory != first.memory
    assert TakenWrites("b").of(PeerId(1), "a").memory not in {again.memory, first.memory}, "nor is it after a restart"
