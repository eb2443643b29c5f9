from bobbin.reactive.crdt.lww import Lww
from bobbin.reactive.messages import PeerId, Stamp


def _stamp(wall: int, logical: int = 0, peer: int = 1) -> Stamp:
    return Stamp(wall, logical, PeerId(peer))


def test_the_greatest_stamp_is_the_value_whatever_comes_last() -> None:
    """RX-098, RX-101: the counter decides where wall clocks tie, the peer where both do."""
    register = Lww("first", _stamp(1))
    assert register.set("later", _stamp(10, 1))
    assert not register.set("earlier by its counter", _stamp(10, 0, peer=9))
    assert not register.set("earlier", _stamp(9, 5))
    assert register.value == "later"
    assert register.set("same moment, greater peer", _stamp(10, 1, peer=2))
    assert register.stamp == _stamp(10, 1, peer=2)


def test_an_equal_value_moves_the_stamp_silently() -> None:
    """RX-134."""
    register = Lww("a", _stamp(1))
    assert not register.set("a", _stamp(7))
    assert register.stamp == _stamp(7)
    assert not register.set("b", _stamp(5)), "a write before that moment has lost"


def test_two_values_under_one_stamp_end_alike() -> None:
    one, other = Lww("a", _stamp(3)), Lww("b", _stamp(3))
    first, second = one.fork(), other.fork()
    assert first.merge(other)
    assert not second.merge(one)
    assert first.value == second.value == "b"


def test_a_fork_is_a_replica_of_its_own() -> None:
    register = Lww("a", _stamp(1))
    fork = register.fork()
    fork.set("b", _stamp(2))
    assert (register.value, fork.value) == ("a", "b")
