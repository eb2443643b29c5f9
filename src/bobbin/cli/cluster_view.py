"""A cluster as its operator sees it: every node that is known, asked for its own view, and what is wrong.

Each node is asked by itself and at the same time, so that one that is down, or cut off, hides nothing of the others.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from bobbin.cli.output import Json, Output
from bobbin.cli.text import printable
from bobbin.errors import BobbinError

if TYPE_CHECKING:
    from bobbin.cluster.names import NodeId
    from bobbin.config.cluster import NodeFolder
    from bobbin.runtime.cluster_members import KnownMembers
    from bobbin.wire.cluster.client import PeerReport, Report

_COLUMNS: Final = ("node", "address", "role", "term", "commit", "applied", "lag", "log", "health", "root")
_FIGURES: Final = frozenset({"term", "commit", "applied", "lag", "log"})
_ID_CHARACTERS: Final = 8


class NodeView(Struct, frozen=True, kw_only=True):
    """One node, as far as it answers."""

    node: str
    address: str
    report: "Report | None"
    why: str = ""
    """Why it does not answer."""
    is_shut: bool = False
    """Whether it runs, and has closed the channel: it stops, or does not know the key of this folder."""


class ClusterView(Struct, frozen=True, kw_only=True):
    """All of them, at about one moment."""

    cluster: str
    nodes: tuple[NodeView, ...]

    @property
    def reports(self) -> "list[Report]":
        return [view.report for view in self.nodes if view.report is not None]

    @property
    def leader(self) -> "Report | None":
        """Whoever says of itself that it leads, in the highest term."""
        leading = [report for report in self.reports if report.role == "leader"]
        return max(leading, key=lambda report: report.term, default=None)

    @property
    def problems(self) -> list[str]:
        """What is wrong: first what is seen from outside, then what the leader says, or everybody where none leads."""
        found = [f"{short(view.node)} does not answer: {view.why}" for view in self.nodes if view.report is None]
        leader = self.leader
        if leader is None:
            found.insert(0, "no node that answers leads")
        leading = [report for report in self.reports if report.role == "leader"]
        if len(leading) > 1:
            terms = ", ".join(f"{short(report.node)} in term {report.term}" for report in leading)
            found.append(f"two nodes think that they lead: {terms}; the one of the lower term has not heard yet")
        for report in self.reports if leader is None else [leader]:
            found += [problem for problem in report.problems if problem not in found]
        if leader is not None:
            # The leader does not speak of nodes that are none of its cluster; the first thing they say is that.
            found += [
                f"{short(report.node)} says: {report.problems[0]}"
                for report in self.reports
                if report.role == "no member" and report.problems
            ]
        roots = {(report.applied_index, report.root) for report in self.reports if report.root}
        if len(roots) > len({index for index, _ in roots}):
            found.append("two nodes have applied the same log and hold different data")
        return found

    def value(self) -> Json:
        """As JSON."""
        leader = self.leader
        return {
            "cluster": self.cluster,
            "leader": None if leader is None else leader.node,
            "term": max((report.term for report in self.reports), default=None),
            "nodes": [_value(view, leader) for view in self.nodes],
            "problems": self.problems,
        }


class Shown(Struct, frozen=True, kw_only=True):
    """What is shown of a folder: its cluster, or each shard of its set."""

    views: tuple[ClusterView, ...]
    is_set: bool

    @property
    def is_whole(self) -> bool:
        """Whether everybody answers, and in each cluster somebody leads."""
        return all(view.leader is not None and len(view.reports) == len(view.nodes) for view in self.views)

    @property
    def is_heard(self) -> bool:
        """Whether anybody answers."""
        return any(view.reports for view in self.views)

    def value(self) -> Json:
        """As JSON."""
        values = [view.value() for view in self.views]
        return {"shards": values} if self.is_set else values[0]

    def lines(self, out: Output) -> list[str]:
        """For people."""
        if not self.is_set:
            return lines(self.views[0], out)
        shown: list[str] = []
        for shard, view in enumerate(self.views):
            first, *rest = lines(view, out, f"shard {shard}, ")
            shown += [*([""] if shard else []), first, *rest]
        return shown


def look_at(folder: Path, *, seconds: float) -> Shown:
    """Ask everybody who is known in a folder: of a node, or of a machine with a node of each shard."""
    from bobbin.config.cluster import read_folder
    from bobbin.config.shards import is_set, read_set

    read = read_set(folder) if is_set(folder) else (read_folder(folder),)

    async def look_all() -> tuple[ClusterView, ...]:
        return tuple(await asyncio.gather(*(look(one, seconds=seconds) for one in read)))

    return Shown(views=asyncio.run(look_all()), is_set=is_set(folder))


async def look(folder: "NodeFolder", *, seconds: float, learns: bool = True) -> ClusterView:
    """Ask everybody who is known: to the cluster, or, where that is not asked first, to the folder."""
    from bobbin.runtime.cluster_client import ClusterClient
    from bobbin.runtime.cluster_connection import ClosedByNode

    def client(known: "KnownMembers", *, local: bool) -> ClusterClient:
        socket = folder.layout.socket if local else None
        return ClusterClient(known, own=folder.operator, socket=socket, here=folder.node, seconds=seconds)

    known = folder.known
    if learns:
        async with client(known, local=True) as anybody:
            with suppress(BobbinError):  # then those of the folder
                known = await anybody.members()

    async def ask(node: "NodeId") -> NodeView:
        view = NodeView(node=node, address=known.directory.members[node].address, report=None)
        try:
            async with asyncio.timeout(seconds), client(known, local=node == folder.node) as one:
                return structs.replace(view, report=await one.status(node))
        except TimeoutError:
            return structs.replace(view, why="no answer in time")
        except BobbinError as error:
            return structs.replace(view, why=str(error), is_shut=isinstance(error, ClosedByNode))

    nodes = sorted(known.directory.members, key=lambda node: known.directory.members[node].address)
    views = await asyncio.gather(*(ask(node) for node in nodes))
    return ClusterView(cluster=folder.settings.cluster.hex(), nodes=tuple(views))


def lines(view: ClusterView, out: Output, name: str = "") -> list[str]:
    """A table and what is wrong, for people; ``name`` stands before the first line."""
    rows = [_COLUMNS, *(_cells(one, view.leader) for one in view.nodes)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown = []
    for at, row in enumerate(rows):
        padded = [
            cell.rjust(width) if name in _FIGURES else cell.ljust(width)
            for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
        ]
        line = "  ".join(padded).rstrip()
        is_leader = at > 0 and row[2] == "leader"
        shown.append(out.style(line, bold=is_leader, dim=at == 0))
    leader = view.leader
    terms = Counter(report.term for report in view.reports)
    head = "no leader" if leader is None else f"{short(leader.node)} leads in term {leader.term}"
    if leader is None and terms:
        head += f"; the highest term is {max(terms)}"
    first = (
        f"{name}cluster {view.cluster[:_ID_CHARACTERS]}: {head}, {len(view.reports)} of {len(view.nodes)} nodes answer"
    )
    problems = [out.style(f"  ! {problem}", fg="yellow") for problem in view.problems]
    return [out.style(first, bold=True), "", *shown, *(["", *problems] if problems else [])]


def _cells(view: NodeView, leader: "Report | None") -> Sequence[str]:
    peer = _peer(view, leader)
    health = "" if peer is None else peer.health
    report, behind = view.report, _lag(view, leader)
    if report is None:
        lag = "" if peer is None else "?" if behind is None else f"{behind:,}"
        return (short(view.node), printable(view.address), "down", "", "", "", lag, "", health, "")
    lag = "" if behind is None else f"{behind:,}"
    return (
        short(view.node),
        printable(view.address),
        printable(report.role),
        str(report.term),
        f"{report.commit_index:,}",
        f"{report.applied_index:,}",
        lag,
        f"{report.last_index - report.first_index + 1:,}",
        health,
        report.root.hex()[:_ID_CHARACTERS] or "behind",
    )


def _peer(view: NodeView, leader: "Report | None") -> "PeerReport | None":
    """What the leader says of a node."""
    return None if leader is None else next((peer for peer in leader.peers if peer.node == view.node), None)


def _lag(view: NodeView, leader: "Report | None") -> int | None:
    """How many committed entries a node has not applied, or does not hold where it is down; None for not known.

    What a node holds that is down is what it has told its leader. One that has never answered this leader may hold
    everything, or nothing.
    """
    if leader is None:
        return None
    if view.report is not None:
        return max(0, leader.commit_index - view.report.applied_index)
    peer = _peer(view, leader)
    if peer is None or peer.contact_ms is None:
        return None
    return max(0, leader.commit_index - peer.match_index)


def _value(view: NodeView, leader: "Report | None") -> Json:
    report = view.report
    value: dict[str, Json] = {"node": view.node, "address": view.address, "answers": report is not None}
    if report is None:
        return value | {"why": view.why, "lag": _lag(view, leader)}
    return value | {
        "role": report.role,
        "term": report.term,
        "leader": report.leader,
        "commit_index": report.commit_index,
        "applied_index": report.applied_index,
        "first_index": report.first_index,
        "last_index": report.last_index,
        "snapshot_index": report.snapshot_index,
        "lag": _lag(view, leader),
        "voters": list(report.configuration.voters),
        "learners": list(report.configuration.learners),
        "root": report.root.hex() or None,
        "peers": [
            {
                "node": peer.node,
                "health": peer.health,
                "linked": peer.is_linked,
                "match_index": peer.match_index,
                "contact_ms": peer.contact_ms,
            }
            for peer in report.peers
        ],
        "problems": list(report.problems),
        "counters": report.counters,
    }


def short(node: str) -> str:
    """The beginning of an id, as people see it."""
    return node[:_ID_CHARACTERS]
