"""Asking a set of shards from the command line, with what the folder of one of its machines holds."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from bobbin.cli.cluster_asking import set_of
from bobbin.cli.output import Output
from bobbin.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from bobbin.config.cluster import NodeFolder
    from bobbin.runtime.tensor_chain import TensorChain

T = TypeVar("T")

SECONDS: Final = 10.0

SetDir = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="Folder of a machine, from `bobbin cluster init --shards`.", show_default=False),
]
Seconds = Annotated[
    float, typer.Option("--seconds", min=0.1, max=3600, metavar="SECONDS", help="How long to try.", show_default=False)
]


def ask(
    folder: Path,
    question: "Callable[[TensorChain, tuple[NodeFolder, ...]], Awaitable[T]]",
    *,
    seconds: float = SECONDS,
) -> T:
    """Put a question to a set of shards: to the nodes of the folder where they run, else to those that they know.

    Raises ``NoMajority`` where it is not answered since too few nodes of a shard are there.
    """
    from bobbin.cli.cluster_majority import explained
    from bobbin.config.shards import is_set, read_set
    from bobbin.runtime.cluster_client import ClusterClient
    from bobbin.runtime.tensor_chain import TensorChain

    if not is_set(folder) and is_set(machine := set_of(folder)):
        raise UsageError(f"{folder} is of one shard alone; ask the whole set, in {machine}")
    found = read_set(folder)

    async def run() -> T:
        clients = [
            ClusterClient(read.known, own=read.operator, socket=read.layout.socket, here=read.node, seconds=seconds)
            for read in found
        ]
        async with TensorChain(clients, seconds=seconds, explains=False) as chain:
            try:
                return await question(chain, found)
            except ResourceError as error:
                if (better := await explained(error, found, folder)) is None:
                    raise
                raise better from error

    return asyncio.run(run())


def key_of(text: str) -> bytes:
    """A key, as a transaction takes it."""
    from bobbin.cluster.operations import KEY_BYTES_MAX

    key = text.encode()
    if not 0 < len(key) <= KEY_BYTES_MAX:
        raise UsageError(f"a key has 1 to {KEY_BYTES_MAX:,} bytes, not {len(key):,}")
    return key


def pair(text: str, option: str) -> tuple[bytes, bytes]:
    """KEY=VALUE, cut at the first equals sign."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"{option} takes KEY=VALUE, not {text[:80]!r}")
    return key_of(key), value.encode()


def transaction_id(text: str) -> bytes:
    """32 hexadecimal digits."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) != 16:
        raise UsageError(f"the id of a transaction is 32 hexadecimal digits, not {text[:80]!r}")
    return raw


def head(out: Output, line: str) -> None:
    """What the columns of a listing are, for people."""
    if not out.as_json:
        out.row(None, out.style(line.rstrip(), dim=True))


def shown(value: bytes) -> str:
    """Bytes for people: as text where they are, else in hexadecimal digits."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
    return text if text.isprintable() else f"0x{value.hex()}"
