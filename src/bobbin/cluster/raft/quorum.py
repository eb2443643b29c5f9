"""How many are enough. In a joint configuration both the old voters and the new ones have to agree (CL-040)."""

from collections.abc import Callable, Container

from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.entries import Configuration


def quorum_size(voters: int, least: int | None = None) -> int:
    """A majority, or more where a setting asks for more; never fewer, and never more than there are."""
    majority = voters // 2 + 1
    return majority if least is None else max(majority, min(least, voters))


def is_quorum(configuration: Configuration, nodes: Container[NodeId], least: int | None = None) -> bool:
    """Whether these nodes may decide. Nodes that do not vote count for nothing; without voters nobody may."""
    voters = configuration.voters
    if sum(node in nodes for node in voters) < quorum_size(len(voters), least):
        return False
    outgoing = configuration.outgoing
    return not outgoing or sum(node in nodes for node in outgoing) >= quorum_size(len(outgoing), least)


def reached(configuration: Configuration, value_of: Callable[[NodeId], int], least: int | None = None) -> int:
    """The highest value that a quorum has reached, 0 where nobody votes."""
    value = _reached_by(configuration.voters, value_of, least)
    if configuration.outgoing:
        value = min(value, _reached_by(configuration.outgoing, value_of, least))
    return value


def _reached_by(voters: tuple[NodeId, ...], value_of: Callable[[NodeId], int], least: int | None) -> int:
    if not voters:
        return 0
    return sorted(map(value_of, voters))[len(voters) - quorum_size(len(voters), least)]
