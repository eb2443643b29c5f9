"""Frames that wait to be acknowledged: bounded, in order, and none lost before its time."""

import pytest

from bobbin.errors import UsageError
from bobbin.reactive.messages import CellSet, NodeId
from bobbin.reactive.outbox import Outbox

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


def test_for_another_receiver_the_numbers_begin_again() -> None:
    outbox = Outbox()
    for operations in (ONE, TWO, THREE):
        outbox.append(operations)
    outbox.acknowledge(1)
    outbox.readdress(lambda frame: frame.operations)
    assert epochs(outbox) == [(0, 1), (1, 2)]
    assert [frame.operations for frame in outbox.frames] == [TWO, THREE]
    outbox.check()


def test_there_is_only_so_much_room() -> None:
    outbox = Outbox(frames_max=2)
    outbox.append(ONE)
    outbox.append(TWO)
    with pytest.raises(UsageError, match="no room"):
        outbox.append(THREE)
    assert epochs(outbox) == [(0, 1), (1, 2)]
    outbox.check()
