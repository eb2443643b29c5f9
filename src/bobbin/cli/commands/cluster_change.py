"""``bobbin cluster transfer``, ``remove``, ``promote`` and ``replace``: who leads, who votes, who belongs."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli.cluster_asking import SECONDS, NodeDir, Seconds, ask, find_node, refuse_set
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output, refused
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bobbin.cluster.names import NodeId
    from bobbin.cluster.raft.effects import Why
    from bobbin.config.cluster import NodeFolder
    from bobbin.runtime.cluster_client import ClusterClient
    from bobbin.runtime.cluster_members import Directory

_WHOLE_ID: Final = re.compile("[0-9a-fA-F]{32}")

TheNode = Annotated[
    str,
    typer.Argument(metavar="NODE", help="Node: its id, the beginning of it, or its address.", show_default=False),
]


def cluster_transfer(folder: NodeDir, node: TheNode, seconds: Seconds = SECONDS, as_json: AsJson = False) -> ExitCode:
    """Hand leadership to another node, when that one has everything. If it leads already, nothing is done.

    Example: bobbin cluster transfer here 5f1c
    """
    from bobbin.cluster.raft.effects import Why

    so = Why.IS_LEADER, "it leads already"
    return _change(Output(as_json=as_json), "leader", folder, node, lambda client: client.transfer, seconds, so=so)


def cluster_remove(folder: NodeDir, node: TheNode, seconds: Seconds = SECONDS, as_json: AsJson = False) -> ExitCode:
    """Put a node out of the cluster: it loses its vote, and its certificate opens no channel any more.

    The node that leads is not removed; hand leadership to another one first.

    Example: bobbin cluster remove here 5f1c
    """
    return _change(Output(as_json=as_json), "removed", folder, node, lambda client: client.remove, seconds)


def cluster_promote(folder: NodeDir, node: TheNode, seconds: Seconds = SECONDS, as_json: AsJson = False) -> ExitCode:
    """Let a node vote that joined with --learner and has caught up. If it votes already, nothing is done.

    Example: bobbin cluster promote here 5f1c
    """
    from bobbin.cluster.raft.effects import Why

    so = Why.IS_MEMBER, "it votes already"
    return _change(Output(as_json=as_json), "promoted", folder, node, lambda client: client.promote, seconds, so=so)


def cluster_replace(
    folder: NodeDir,
    nodes: Annotated[
        list[str],
        typer.Argument(
            metavar="OLD NEW …",
            help="Nodes by twos: one that votes, and one that joined with --learner.",
            show_default=False,
        ),
    ],
    seconds: Seconds = SECONDS,
    as_json: AsJson = False,
) -> ExitCode:
    """Put new nodes in the place of old ones, all in one step; as many vote after it as before.

    The old nodes need not run, and whoever leads may be one of them. It waits, for --seconds, until the new ones have
    caught up. Until it is done a majority of the old voters and one of the new ones are needed for every write, and
    afterwards the certificates of the old nodes open no channel any more. If this is cut off, do it again, and
    name an old node that is not known any more by its whole id.

    Example: bobbin cluster replace here 5f1c 9ab2
    """
    from bobbin.runtime.cluster_client import NotAccepted

    out = Output(as_json=as_json)
    refuse_set(folder)

    async def replace(client: "ClusterClient", _: "NodeFolder") -> "list[NodeId]":
        if len(nodes) % 2:
            raise UsageError("nodes are replaced by twos: OLD NEW, and perhaps another OLD NEW")
        directory = (await client.members()).directory
        found = [_meant(node, directory) for node in nodes]
        if len(set(found)) != len(found):
            raise UsageError("each node is named once")
        await client.replace(found[1::2], found[::2])
        return found

    try:
        found = ask(folder, replace, seconds=seconds)
    except NotAccepted as error:
        return refused(out, str(error))
    pairs = list(zip(found[::2], found[1::2], strict=True))
    out.result(
        {"replaced": [{"old": old, "new": new} for old, new in pairs]},
        *(f"replaced {old} by {new}" for old, new in pairs),
    )
    return ExitCode.OK


def _meant(text: str, directory: "Directory") -> "NodeId":
    """The node that a text means. A whole id may be that of one that is gone, as where this was done before."""
    from bobbin.cluster.names import NodeId

    return NodeId(text.lower()) if _WHOLE_ID.fullmatch(text) else find_node(text, directory)


def _change(
    out: Output,
    what: str,
    folder: Path,
    node: str,
    way: "Callable[[ClusterClient], Callable[[NodeId], Awaitable[None]]]",
    seconds: float,
    *,
    so: "tuple[Why, str] | None" = None,
) -> ExitCode:
    """Ask for one change of one node, and say what it is now.

    ``so``: the refusal which means that it was so before, and how to say that. What is wanted is so, then.
    """
    from bobbin.runtime.cluster_client import NotAccepted

    async def change(client: "ClusterClient", _: "NodeFolder") -> "tuple[NodeId, str]":
        target = find_node(node, (await client.members()).directory)
        try:
            await way(client)(target)
        except NotAccepted as error:
            if so is None or error.why != so[0].value:
                raise
            return target, so[1]
        return target, ""

    try:
        target, before = ask(folder, change, seconds=seconds)
    except NotAccepted as error:
        return refused(out, str(error))
    out.result({what: target}, f"{what} {target}")
    if before:
        out.note(before)
    return ExitCode.OK
