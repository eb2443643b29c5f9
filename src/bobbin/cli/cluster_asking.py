"""Asking a cluster from the command line, with what the folder of one of its nodes holds."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from bobbin.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from bobbin.cluster.names import NodeId
    from bobbin.config.cluster import NodeFolder
    from bobbin.runtime.cluster_client import ClusterClient
    from bobbin.runtime.cluster_members import Directory

T = TypeVar("T")

SECONDS: Final = 10.0

NodeDir = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a node.", show_default=False)]
Seconds = Annotated[
    float, typer.Option("--seconds", min=0.1, max=3600, metavar="SECONDS", help="How long to try.", show_default=False)
]


def ask(
    folder: Path,
    question: "Callable[[ClusterClient, NodeFolder], Awaitable[T]]",
    *,
    seconds: float = SECONDS,
    needs_majority: bool = True,
) -> T:
    """Put a question to the cluster: to the node of the folder if it runs, else to the others that it knows.

    Raises ``NoMajority`` where it is not answered since too few nodes are there, unless it needs no majority.
    """
    from bobbin.cli.cluster_majority import explained
    from bobbin.config.cluster import read_folder
    from bobbin.runtime.cluster_client import ClusterClient

    read = read_folder(folder)

    async def run() -> T:
        client = ClusterClient(
            read.known, own=read.operator, socket=read.layout.socket, here=read.node, seconds=seconds
        )
        async with client:
            try:
                return await question(client, read)
            except ResourceError as error:
                better = await explained(error, [read], folder) if needs_majority else None
                if better is None:
                    raise
                raise better from error

    return asyncio.run(run())


def ask_keys(
    folder: Path,
    question: "Callable[[ClusterClient, NodeFolder], Awaitable[T]]",
    *,
    instead: "Callable[[Path], str]",
    writes: bool = False,
    seconds: float = SECONDS,
    needs_majority: bool = True,
) -> T:
    """As ``ask``, about keys. A set of shards keeps its own in chains; ``instead`` is what asks a set for those.

    With ``writes``, a node of a shard and one of a replicated lace refuse, too: what is written there would be in a
    table beside the chain, or the lace, where nobody looks for it.
    """
    from bobbin.config.replicated import lace_of
    from bobbin.config.shards import is_set

    if is_set(folder):
        raise UsageError(
            f"{folder} is of a set of shards, which keeps its keys in a chain: bobbin chain {instead(folder)}"
        )
    if writes and is_of_set(folder):
        raise UsageError(
            f"{folder} is of a shard of a set, which keeps its keys in a chain: bobbin chain {instead(set_of(folder))}"
        )
    if writes and (lace := lace_of(folder)) is not None:
        raise UsageError(f"{folder} is of a replicated lace, which keeps records and no keys: bobbin put {lace}")
    return ask(folder, question, seconds=seconds, needs_majority=needs_majority)


def is_of_set(folder: Path) -> bool:
    """Whether a folder is of a set of shards: that of a machine, or in it that of a node of a shard."""
    from bobbin.config.cluster import read_folder
    from bobbin.config.shards import is_set

    return is_set(folder) or read_folder(folder).shard is not None


def set_of(shard: Path) -> Path:
    """The folder of a machine, by that of a node of a shard in it."""
    return shard.parent if shard.name not in {"", ".."} else shard.resolve().parent


def refuse_set(folder: Path) -> None:
    """Refuse what has another machine take part in a set of shards.

    A node that joined one shard alone would be of no use: a machine has a node of each shard, and the settings of a
    shard in the folder of each.
    """
    if is_of_set(folder):
        raise UsageError(
            f"{folder} is of a set of shards, whose machines are those that it was made with: none can join, or take "
            "the place of another, so far"
        )


def find_node(text: str, directory: "Directory") -> "NodeId":
    """The node that a text means: its id, the beginning of it, or its address."""
    found = [
        node for node, member in directory.members.items() if node.startswith(text.lower()) or member.address == text
    ]
    if not text or not found:
        known = ", ".join(f"{node[:8]} ({member.address})" for node, member in sorted(directory.members.items()))
        raise UsageError(f"there is no node {text!r}; there are {known or 'none'}")
    if len(found) > 1:
        raise UsageError(f"{text!r} begins the id of {len(found)} nodes; give more of it")
    return found[0]
