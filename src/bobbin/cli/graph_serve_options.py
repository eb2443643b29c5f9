"""What ``bobbin graph serve`` takes, and what its texts mean."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.config.peers import Peers
    from bobbin.records.ids import Verifier
    from bobbin.wire.address import Address

Listen = Annotated[
    list[str] | None,
    typer.Option("--listen", metavar="ADDRESS", help="Where, besides DIR/graph.sock.", show_default=False),
]
Tokens = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="Ids and tokens, one peer a line.", show_default=False),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="PEER:KIND=KEYS",
        help="Allow a peer something, as in 7:read=records/*.",
        show_default=False,
    ),
]
Views = Annotated[
    list[str] | None,
    typer.Option("--view", metavar="NAME=PLACE", help="Show the records at a place as a view.", show_default=False),
]
Cells = Annotated[
    list[str] | None,
    typer.Option(
        "--cell", metavar="KEY=TAG", help="A cell that peers can write, as in board/text=string.", show_default=False
    ),
]
ReplicateWith = Annotated[
    list[str] | None,
    typer.Option(
        "--replicate-with",
        metavar="PEER[=ADDRESS]",
        help="Keep the cells in step with those of this known peer: dial it, or wait for it.",
        show_default=False,
    ),
]
ReplicateAt = Annotated[
    list[str] | None,
    typer.Option("--replicate-at", metavar="ADDRESS", help="Where replicas come.", show_default=False),
]
Origins = Annotated[
    list[str] | None,
    typer.Option("--origin", metavar="URL", help="Take browsers on pages of this origin.", show_default=False),
]
Certificate = Annotated[
    Path | None, typer.Option("--certificate", metavar="FILE", help="Certificate (PEM).", show_default=False)
]
PrivateKey = Annotated[
    Path | None, typer.Option("--private-key", metavar="FILE", help="Its private key (PEM).", show_default=False)
]
Insecure = Annotated[
    bool,
    typer.Option("--allow-insecure", metavar="", help="Let links off this machine be unencrypted.", show_default=False),
]
SignalAt = Annotated[
    str | None,
    typer.Option(
        "--signal",
        metavar="ADDRESS",
        help="Take calls through this signaling server, too (WebRTC).",
        show_default=False,
    ),
]


class Replica(Struct, frozen=True):
    """Another server that has the cells."""

    verifier: "Verifier"
    address: "Address | None"
    """Where it is dialled; None where it is waited for."""


def read_view(text: str) -> tuple[str, str]:
    """``NAME=PLACE``. Raises ``UsageError``."""
    from bobbin.config.peers import NAME

    name, equals, place = text.partition("=")
    if not equals or not NAME.fullmatch(name) or not place.startswith("//"):
        raise UsageError(f"a view is NAME=PLACE, as in links=//u//ding//links/, not {text[:80]!r}")
    return name, place


def read_cells(texts: Iterable[str]) -> dict[str, str]:
    """``KEY=TAG`` of each, as tags by key. Raises ``UsageError``."""
    from bobbin.reactive.messages import is_key
    from bobbin.runtime.graph_cells import ZEROS

    found: dict[str, str] = {}
    for text in texts:
        key, _, tag = text.rpartition("=")
        if tag not in ZEROS or not is_key(key):
            raise UsageError(f"a cell is KEY=TAG, as in board/text=string, not {text[:80]!r}; TAG: {', '.join(ZEROS)}")
        if key in found:
            raise UsageError(f"the cell {key} is named twice")
        found[key] = tag
    return found


def read_replicas(texts: Iterable[str], peers: "Peers") -> list[Replica]:
    """``PEER[=ADDRESS]`` of each. Raises ``UsageError`` for who is not known by a key."""
    from bobbin.cli.graph_options import parse_place

    found: dict[Verifier, Replica] = {}
    for text in texts:
        name, equals, place = text.partition("=")
        entry = peers.named(name)
        if entry is None or entry.verifier is None:
            raise UsageError(f"{name[:64]!r} is not known by a key in {peers.file}, so nobody can be it")
        if entry.verifier in found:
            raise UsageError(f"{name} is named twice")
        found[entry.verifier] = Replica(entry.verifier, parse_place(place) if equals else None)
    return list(found.values())
