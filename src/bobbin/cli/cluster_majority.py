"""Why a cluster does not answer: whether a majority of its voters is there, by asking each of them.

A command that is not answered has heard the word of one node, or of none: that this one does not lead, that nothing
listens there. That says little about the cluster. So when time is up every node is asked for its own view, and where
too few answer, or none of them leads, that is what the command says, with the nodes by name.

What always holds: nothing is said that is not known. A voter that could not be asked, or one that runs and does not let
this folder in, may well belong to a majority; then the first error stands as it is.
"""

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bobbin.cli.cluster_view import ClusterView, look, short
from bobbin.errors import ResourceError

if TYPE_CHECKING:
    from bobbin.config.cluster import NodeFolder

_LOOK_SECONDS: Final = 2.0
"""For every node to answer, all at once."""


class NoMajority(ResourceError):
    """Too few of the voters answer, or none of them leads."""

    def __init__(self, why: str) -> None:
        super().__init__(why, retry=True)


async def explained(error: ResourceError, folders: "Sequence[NodeFolder]", asked: Path) -> ResourceError | None:
    """A better error for a question that nobody has answered in time; None where there is none to be had.

    What was said first is repeated in it: it may be of another shard, or tell that something is committed already.
    ``folders``: of the cluster, or of each shard of the set in the folder ``asked``.
    """
    from bobbin.runtime.cluster_client import OutcomeUnknown

    if not error.retry:
        return None
    views = await asyncio.gather(*(look(folder, seconds=_LOOK_SECONDS, learns=False) for folder in folders))
    why = why_of_set(views, is_set=folders[0].shard is not None and len(folders) > 1)
    if why is None:
        return None
    why = f"{why}; see `bobbin cluster status {asked}`"
    if isinstance(error, OutcomeUnknown):
        return OutcomeUnknown(f"{error.why}; {why}")
    return NoMajority(f"{why} ({error})")


def why_of_set(views: Sequence[ClusterView], *, is_set: bool) -> str | None:
    """What is wrong with the first cluster that has no majority, and how many others have none either."""
    found = [(shard, why) for shard, view in enumerate(views) if (why := why_no_majority(view)) is not None]
    if not found:
        return None
    shard, why = found[0]
    if not is_set:
        return why
    others = f", and so it is with {len(found) - 1} more of {len(views)} shards" if len(found) > 1 else ""
    return f"shard {shard}: {why}{others}"


def why_no_majority(view: ClusterView) -> str | None:
    """Who answers and who does not, where those who do are too few or none of them leads; None where that is not so."""
    from bobbin.cluster.raft.quorum import is_quorum

    silent = {one.node for one in view.nodes if one.report is None}
    if any(one.is_shut for one in view.nodes):
        out = {report.node for report in view.reports if report.role == "no member"}
        return f"{_names(out)} is no member of the cluster, whose nodes do not let this folder in" if out else None
    reports = [report for report in view.reports if report.role != "no member"]
    # The configuration of whoever is ahead: the others may not have heard of the last change.
    newest = max(reports, key=lambda report: (report.commit_index, report.last_index), default=None)
    if newest is None:
        return _none(silent)
    configuration = newest.configuration
    voters = {*configuration.voters, *configuration.outgoing}
    answering = {report.node for report in reports} & voters
    if not voters <= silent | answering:
        return None
    if not is_quorum(configuration, answering):
        there = _doing(answering) if answering else "none does"
        return f"no majority of the {len(voters)} voters answers: {there}, {_doing(voters & silent)} not"
    if view.leader is None:
        return f"a majority of the {len(voters)} voters answers ({_names(answering)}), but none of them leads"
    return None


def _none(silent: Collection[str]) -> str | None:
    if len(silent) == 1:
        return f"the only node of the cluster, {_names(silent)}, does not answer"
    return f"none of the {len(silent)} nodes of the cluster answers: {_names(silent)}" if silent else None


def _doing(nodes: Collection[str]) -> str:
    return f"{_names(nodes)} {'do' if len(nodes) > 1 else 'does'}"


def _names(nodes: Collection[str]) -> str:
    return ", ".join(map(short, sorted(nodes)))
