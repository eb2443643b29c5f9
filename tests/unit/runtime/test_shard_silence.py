"""What is said of a shard that does not answer, by what its nodes say."""

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.entries import Configuration
from bobbin.runtime.cluster_connection import ClosedByNode
from bobbin.runtime.shard_silence import why_no_majority
from bobbin.transport.base import TransportError
from bobbin.wire.cluster.client import Report

if TYPE_CHECKING:
    from bobbin.runtime.cluster_client import ClusterClient

_NODES = tuple(NodeId(letter * 64) for letter in "abc")
_GONE = TransportError("refused; nothing listens there", retry=True)


def _report(node: NodeId, role: str = "follower", voters: tuple[NodeId, ...] = _NODES) -> Report:
    configuration = Configuration(voters)
    return Report(1, node, role, 1, None, None, 1, 1, 1, 1, 0, configuration, b"", (), (), {})


def _why(*found: Report | TransportError | None) -> str | None:
    """``None`` stands for a node that never answers."""
    by_node = dict(zip(_NODES, found, strict=True))

    async def status(node: NodeId) -> Report:
        answer = by_node[node]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, TransportError):
            raise answer
        assert answer is not None
        return answer

    client = cast("ClusterClient", SimpleNamespace(nodes=_NODES, status=status))
    return asyncio.run(why_no_majority(client, seconds=0.05))


def test_too_few_nodes_are_named() -> None:
    one = _report(_NODES[0])
    said = "no majority of the 3 voters answers: aaaaaaaa does, bbbbbbbb, cccccccc not"
    assert _why(one, _GONE, None) == said
    assert _why(_GONE, _GONE, None) == "none of the 3 nodes of the shard answers: aaaaaaaa, bbbbbbbb, cccccccc"


def test_enough_nodes_without_a_leader_are_named() -> None:
    said = "a majority of the 3 voters answers (aaaaaaaa, bbbbbbbb), but none of them leads"
    assert _why(_report(_NODES[0]), _report(_NODES[1]), _GONE) == said
    assert _why(_report(_NODES[0], "leader"), _report(_NODES[1]), _GONE) is None


def test_what_is_not_known_is_not_said() -> None:
    one = _report(_NODES[0])
    assert _why(one, _GONE, ClosedByNode()) is None, "it runs, and may well have a majority with it"
    assert _why(one, _GONE, TransportError("no credentials to go there", retry=False)) is None
    assert _why(_report(_NODES[0], voters=(*_NODES, NodeId("d" * 64))), _GONE, _GONE) is None, "one is not known here"
