import pytest

from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.quorum import is_quorum, quorum_size, reached
from tests.support.raft_cluster import names

JOINT = Configuration(names("cde"), names("l"), names("abc"))


@pytest.mark.parametrize(("voters", "size"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)])
def test_a_quorum_is_a_majority(voters: int, size: int) -> None:
    assert quorum_size(voters) == size


def test_a_setting_may_ask_for_more_and_never_for_fewer() -> None:
    assert quorum_size(5, 4) == 4
    assert quorum_size(5, 1) == 3
    assert quorum_size(3, 9) == 3


def test_only_voters_count() -> None:
    configuration = Configuration(names("abc"), names("xyz"))
    assert is_quorum(configuration, {*names("ab")})
    assert not is_quorum(configuration, {*names("axyz")})


def test_half_is_not_enough() -> None:
    assert not is_quorum(Configuration(names("abcd")), {*names("ab")})


def test_without_voters_nobody_decides() -> None:
    assert not is_quorum(Configuration(()), {*names("abc")})
    assert reached(Configuration(()), lambda _: 9) == 0


def test_a_joint_configuration_needs_both_majorities() -> None:
    assert is_quorum(JOINT, {*names("bcd")})
    assert not is_quorum(JOINT, {*names("abd")}), "one of three new voters"
    assert not is_quorum(JOINT, {*names("cde")}), "one of three old voters"


def test_the_value_that_a_quorum_has_reached() -> None:
    values = dict(zip(names("abcdel"), (9, 7, 3, 5, 1, 99), strict=True))

    def value_of(node: NodeId) -> int:
        return values[node]

    assert reached(Configuration(names("abc")), value_of) == 7
    assert reached(Configuration(names("abcd")), value_of) == 5
    assert reached(Configuration(names("abcde")), value_of) == 5
    assert reached(Configuration(names("abc")), value_of, 3) == 3
    assert reached(JOINT, value_of) == 3
