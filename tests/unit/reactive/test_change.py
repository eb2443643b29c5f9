"""A change is a value, and says everything in its operations."""

from bobbin.reactive.change import Change
from bobbin.reactive.messages import CellSet, NodeId


def test_two_that_say_the_same_are_the_same() -> None:
    operations = (CellSet(NodeId(1), b"x"),)
    assert Change(operations) == Change(operations, (), (), (), (), 0)
    assert Change(operations) != Change(operations, epoch=1)
