"""Taking turns: everybody once in a pass, whatever changes."""

from random import Random

from bobbin.cluster.membership.rotation import Rotation
from bobbin.cluster.names import NodeId

NODES = [NodeId(f"{number:02}") for number in range(10)]


def rotation(seed: int = 0) -> Rotation:
    made = Rotation(Random(seed))
    made.replace(NODES)
    return made


def test_everybody_has_one_turn_in_a_pass_and_passes_differ() -> None:
    turns = rotation()
    passes = [[turns.next() for _ in NODES] for _ in range(3)]
    assert all(set(one) == set(NODES) for one in passes)
    assert len({tuple(one) for one in passes}) == 3


def test_nobody_waits_for_longer_than_two_passes() -> None:
    turns, last = rotation(), dict.fromkeys(NODES, 0)
    for number in range(1, 500):
        node = turns.next()
        assert node is not None
        last[node] = number
        assert number - min(last.values()) <= 2 * (len(NODES) - 1) + 1


def test_who_comes_and_goes_takes_nobodys_turn() -> None:
    turns = rotation(3)
    had = {turns.next() for _ in range(4)}
    new = NodeId("new")
    turns.replace([*NODES[2:], new])
    rest = [turns.next() for _ in range(len(turns) - len(had & set(NODES[2:])))]
    assert len(set(rest)) == len(rest)
    assert set(rest) | (had & set(NODES[2:])) == {*NODES[2:], new}


def test_some_are_taken_each_once_and_without_those_left_out() -> None:
    turns = rotation()
    for _ in range(50):
        taken = turns.take(3, without=[NODES[0]])
        assert len(set(taken)) == 3
        assert NODES[0] not in taken
    assert set(turns.take(99)) == set(NODES)


def test_nobody_is_nobody() -> None:
    turns = Rotation(Random(0))
    assert turns.next() is None
    assert turns.take(3) == []
