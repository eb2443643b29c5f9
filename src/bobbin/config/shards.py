"""The folder of a machine that serves one node of each shard of a set.

::

    DIR/
    ├── shards.toml     how many shards there are; its presence makes the folder complete
    ├── operator.key    0600, the private key by which this folder's owner, and its nodes, ask every shard
    ├── s0/             a node of the first shard: the folder of a node of a cluster, as ``config.cluster`` has it
    └── s1/             …

Each shard is a cluster of its own, with its own log and members. Which key belongs to which shard follows from the
number of shards, so that is fixed when the set is made.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from bobbin.config import durable
from bobbin.config.cluster import (
    SHARDS_FILE,
    ClusterLayout,
    NewNode,
    NodeFolder,
    create_cluster,
    create_key,
    prepare,
    read_folder,
)
from bobbin.config.findings import Findings
from bobbin.config.schema import convert, read_table
from bobbin.config.sources import Sources
from bobbin.errors import UsageError
from bobbin.runtime.shard_settings import SHARDS_MAX

FORMAT: Final = 1
_OPERATOR: Final = "operator.key"


class ShardsTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    format: Annotated[int, Meta(description="Of this folder: 1.")]
    shards: Annotated[int, Meta(description="How many shards there are. It never changes.", ge=1, le=SHARDS_MAX)]


class NewSet(Struct, frozen=True, kw_only=True):
    """A set of shards that was made."""

    clusters: tuple[bytes, ...]
    """The id of each shard's cluster."""
    nodes: tuple[tuple[NewNode, ...], ...]
    """Of each shard, one in each folder."""


def is_set(folder: Path) -> bool:
    """Whether a folder serves a set of shards."""
    return (folder / SHARDS_FILE).is_file()


def create_set(folders: Sequence[Path], places: Sequence[Sequence[str]], *, preset: str = "lan") -> NewSet:
    """Make the folders of a new set; ``places`` are, shard by shard, the addresses of its nodes.

    Every operator's key of the set may ask every shard. A creation that was cut off is done again, with the keys that
    are there; nothing is written over that is complete, or that a node has used.
    """
    shards = len(places)
    if not 1 <= shards <= SHARDS_MAX:
        raise UsageError(f"a set has 1 to {SHARDS_MAX} shards, not {shards}")
    for folder in folders:
        if is_set(folder):
            raise UsageError(f"there is already a set of shards in {folder}; nothing is written over")
    for folder in folders:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_key(folder / _OPERATOR)
    made = [
        tuple(_prepare(*one, shard) for one in zip(folders, some, strict=True)) for shard, some in enumerate(places)
    ]
    clusters = [
        create_cluster(list(nodes), preset=preset, more=f"shard = {shard}\nshards = {shards}\n")
        for shard, nodes in enumerate(made)
    ]
    for folder in folders:
        durable.write_new(folder / SHARDS_FILE, f"format = {FORMAT}\nshards = {shards}\n".encode())
    return NewSet(clusters=tuple(clusters), nodes=tuple(made))


def _prepare(folder: Path, place: str, shard: int) -> NewNode:
    """The keys of one node, that of its operator being the folder's."""
    layout = ClusterLayout(folder / f"s{shard}")
    layout.folder.mkdir(mode=0o700, exist_ok=True)
    if not layout.begun.exists():
        # Left by a creation that was cut off: it names a cluster that is not whole.
        layout.settings.unlink(missing_ok=True)
    if not layout.operator_key.exists():
        durable.write_private(layout.operator_key, (folder / _OPERATOR).read_bytes())
    return prepare(layout.folder, listen=place)


def read_set(folder: Path) -> tuple[NodeFolder, ...]:
    """The nodes of a folder, shard by shard, or an error with what is wrong."""
    if not is_set(folder):
        raise UsageError(f"there is no set of shards in {folder}; `bobbin cluster init --nodes N --shards S` makes one")
    file = folder / SHARDS_FILE
    findings = Findings()
    table = read_table(file, Sources(), findings)
    content = None if table is None else convert(table, ShardsTable, file, findings)
    findings.raise_if_any()
    assert content is not None, "what cannot be read was found to be wrong"
    if content.format != FORMAT:
        raise UsageError(f"{file}: this version knows format {FORMAT}, not {content.format}")
    found = tuple(read_folder(folder / f"s{shard}") for shard in range(content.shards))
    for shard, read in enumerate(found):
        if read.shard is None or (read.shard.shard, read.shard.shards) != (shard, content.shards):
            raise UsageError(f"{read.layout.settings} is not that of shard {shard} of {content.shards}")
    return found
