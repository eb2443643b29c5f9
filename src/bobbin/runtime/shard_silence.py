"""Why a shard does not answer: whether a majority of its voters is there, by asking each node that is known.

Nothing is said that is not known. Where a node runs and does not let the client in, or cannot be asked from here, it
may belong to a majority; then there is no better word than the error that was heard.
"""

import asyncio
from collections.abc import Collection
from typing import Final

from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.quorum import is_quorum
from bobbin.errors import BobbinError, ResourceError
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.cluster_connection import ClosedByNode
from bobbin.wire.cluster.client import Report

LOOK_SECONDS: Final = 1.0
"""For every node to answer, all at once."""
_ID_CHARACTERS: Final = 8


async def why_no_majority(client: ClusterClient, *, seconds: float = LOOK_SECONDS) -> str | None:
    """Who answers and who does not, where those who do are too few or none of them leads; None where that is not so."""
    nodes = sorted(client.nodes)
    found = await asyncio.gather(*(_report(client, node, seconds) for node in nodes))
    reports = [one for one in found if isinstance(one, Report)]
    silent = {node for node, one in zip(nodes, found, strict=True) if one is None}
    if not nodes or len(reports) + len(silent) < len(nodes):
        return None
    if not reports:
        return f"none of the {len(nodes)} nodes of the shard answers: {_names(silent)}"
    # The configuration of whoever is ahead: the others may not have heard of the last change.
    configuration = max(reports, key=lambda report: (report.commit_index, report.last_index)).configuration
    voters = {*configuration.voters, *configuration.outgoing}
    answering = {report.node for report in reports} & voters
    if not voters <= silent | answering:
        return None
    if not is_quorum(configuration, answering):
        there = f"{_names(answering)} does" if len(answering) == 1 else f"{_names(answering) or 'none'} do"
        return f"no majority of the {len(voters)} voters answers: {there}, {_names(voters & silent)} not"
    if not any(report.role == "leader" for report in reports):
        return f"a majority of the {len(voters)} voters answers ({_names(answering)}), but none of them leads"
    return None


async def _report(client: ClusterClient, node: NodeId, seconds: float) -> Report | BobbinError | None:
    """What a node says; None for one that is not there; the error of one that may well be."""
    try:
        async with asyncio.timeout(seconds):
            return await client.status(node)
    except TimeoutError:
        return None
    except ClosedByNode as error:
        return error
    except ResourceError as error:
        return None if error.retry else error
    except BobbinError as error:
        return error


def _names(nodes: Collection[NodeId]) -> str:
    return ", ".join(node[:_ID_CHARACTERS] for node in sorted(nodes))
