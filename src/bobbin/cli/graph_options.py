"""What the commands about graphs share: where one is served, and what is shown there of who asks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from bobbin.cli.sources import check_given
from bobbin.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from bobbin.runtime.graph_client import GraphMirror, TellLost
    from bobbin.wire.address import Address

Where = Annotated[
    str,
    typer.Argument(
        metavar="ADDRESS|LACE",
        help="Where it is served, or the folder of a lace whose graph is.",
        show_default=False,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="Our id and token, on one line.", show_default=False),
]
KeyOf = Annotated[
    Path | None,
    typer.Option("--key-of", metavar="DIR", help="Prove the default key of this lace.", show_default=False),
]


class Shown(Struct, frozen=True, kw_only=True):
    """What the options say of us, and of whoever is to answer."""

    token_file: Path | None = None
    key_of: Path | None = None
    verifier: str | None = None
    pin: str | None = None
    authorities: Path | None = None
    allow_insecure: bool = False


class NotServed(ResourceError):
    """Nobody serves the graph of a lace now."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"the graph of {folder} is not served now; `bobbin graph serve {folder}` does it", retry=True)


def parse_place(text: str, *, to_listen: bool = False, path: str = "/graph") -> "Address":
    """An address; also as the URL of a WebSocket, which is how a browser is told of one."""
    from bobbin.wire import address as addresses

    scheme, slashes, rest = text.partition("://")
    if slashes and scheme in ("ws", "wss"):
        text = f"{scheme}:{rest.removesuffix(path).removesuffix('/')}"
    return addresses.parse(text, to_listen=to_listen)


def find_graph(where: str) -> "Address":
    """The address that a text names: itself, or the socket in the folder of a lace. Raises ``NotServed``."""
    from bobbin.config.layout import Layout
    from bobbin.runtime.connection import is_address
    from bobbin.wire.address import Address, Scheme

    folder = Path(where)
    if is_address(where) and not folder.is_dir():
        return parse_place(where)
    if not Layout(folder).is_lace():
        raise UsageError(f"{where} is neither an address, such as ws:127.0.0.1:4794, nor the folder of a lace")
    socket = Layout(folder.resolve()).graph_socket
    if not socket.exists():
        raise NotServed(folder)
    return Address(scheme=Scheme.UNIX, path=str(socket))


def connect(address: "Address", shown: Shown, *, lost: "TellLost") -> "GraphMirror":
    """A mirror of the graph at an address. Everything that can be wrong before anybody is dialled is said here."""
    from bobbin.config.graph_access import read_token
    from bobbin.config.peers import parse_certificate, parse_verifier
    from bobbin.lace import Lace
    from bobbin.runtime.graph_client import connect_graph
    from bobbin.transport.tls import TlsClient
    from bobbin.wire.address import Scheme

    for file in (shown.token_file, shown.authorities):
        check_given(file)
    if shown.token_file is not None and shown.key_of is not None:
        raise UsageError("an observer is known by a token (--token-file) or by a key (--key-of): choose one")
    peer, token = (None, None) if shown.token_file is None else read_token(shown.token_file)
    key = None
    if shown.key_of is not None:
        with Lace.open(shown.key_of, read_only=True) as lace:
            key = lace.key()
    verifier = None if shown.verifier is None else parse_verifier(shown.verifier)
    demands = None
    if address.scheme in (Scheme.TLS, Scheme.WSS):
        pin = None if shown.pin is None else parse_certificate(shown.pin)
        unseen = verifier is not None and pin is None and shown.authorities is None
        demands = TlsClient(pin=pin, authorities=shown.authorities, unverified=unseen)
    elif shown.pin is not None or shown.authorities is not None:
        raise UsageError(f"{address} shows no certificate; --pin and --ca are for tls and wss addresses")
    return connect_graph(
        address,
        peer=peer,
        token=token,
        key=key,
        verifier=verifier,
        tls=demands,
        allow_insecure=shown.allow_insecure,
        lost=lost,
    )
