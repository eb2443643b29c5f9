"""What the commands about graphs share: where one is served, and what is shown there of who asks."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import Struct

from bobbin.cli.sources import check_given
from bobbin.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from bobbin.runtime.graph_calls import Room
    from bobbin.runtime.graph_client import GraphMirror, TellLost
    from bobbin.runtime.graph_peers import Credentials
    from bobbin.transport.tls import TlsClient
    from bobbin.wire.address import Address

_WHERE: Final = typer.Argument(
    metavar="ADDRESS|LACE",
    help="Where it is served, or the folder of a lace whose graph is.",
    show_default=False,
)
Where = Annotated[str, _WHERE]
WhereOrRoom = Annotated[str | None, _WHERE]
Signal = Annotated[
    str | None,
    typer.Option(
        "--signal", metavar="ADDRESS", help="Find it through this signaling server (WebRTC).", show_default=False
    ),
]
RoomName = Annotated[str, typer.Option("--room", metavar="NAME", help="With --signal: in this room.")]
SignalToken = Annotated[
    Path | None,
    typer.Option(
        "--signal-token",
        metavar="FILE",
        help="With --signal: our id and token in the room, on one line.",
        show_default=False,
    ),
]
Call = Annotated[
    int, typer.Option("--call", metavar="ID", help="With --signal: the id in the room of who serves the graph.")
]
SharedMemory = Annotated[
    bool,
    typer.Option(
        "--shared-memory",
        metavar="",
        help="Over a Unix socket: large values go in shared memory, where both sides want that.",
        show_default=False,
    ),
]
ROOM: Final = "graph"
CALLED: Final = 3
"""The id in a room of who serves a graph there, unless something else is said."""
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
    shared_memory: bool = False
    signal: str | None = None
    room: str = ROOM
    signal_token: Path | None = None
    call: int = CALLED


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


def reach(where: str | None, shown: Shown) -> "Address | Room":
    """What a command line names: an address, a lace, or a room of a signaling server."""
    if shown.signal is None:
        check_room(shown.signal_token)
        if where is None:
            raise UsageError("say where it is served: an address, the folder of a lace, or --signal ADDRESS")
        return find_graph(where)
    if where is not None:
        raise UsageError(f"a graph is found through a signaling server (--signal) or at {where}: choose one")
    if shown.shared_memory:
        raise UsageError("nobody shares memory with whoever is at the other end of a data channel")
    return find_room(shown.signal, shown.room, shown.signal_token, shown)


def check_room(token_file: Path | None) -> None:
    """Raise ``UsageError`` for what is shown in a room, where there is none."""
    if token_file is not None:
        raise UsageError("--signal-token is for a room, and --signal ADDRESS says where that is")


def find_room(signal: str, name: str, token_file: Path | None, shown: Shown, *, peer: int | None = None) -> "Room":
    """A room that options name. ``peer``: who we are there, where no token says otherwise."""
    require_webrtc()
    from bobbin.config.graph_access import read_token
    from bobbin.reactive.messages import PeerId
    from bobbin.runtime.graph_calls import Room

    check_given(token_file)
    address = parse_place(signal, path=f"/session/{name}")
    own, token = (peer, None) if token_file is None else read_token(token_file)
    return Room(
        address=address,
        name=name,
        peer=None if own is None else PeerId(own),
        token=token,
        tls=_demands(address, shown, proves=False),
        allow_insecure=shown.allow_insecure,
    )


def require_webrtc() -> None:
    """Fail where the packages of data channels are not installed."""
    if find_spec("aiortc") is None:
        raise UsageError("--signal needs aiortc, which is not installed: pip install 'bobbin[webrtc]'")


def connect(place: "Address | Room", shown: Shown, *, lost: "TellLost") -> "GraphMirror":
    """A mirror of the graph at a place. Everything that can be wrong before anybody is dialled is said here."""
    from bobbin.reactive.messages import PeerId
    from bobbin.runtime.graph_client import connect_graph
    from bobbin.runtime.graph_dial import ClientSettings
    from bobbin.wire.address import Address, Scheme

    credentials = _credentials(shown)
    if not isinstance(place, Address):
        from bobbin.runtime.graph_calls import call_graph

        return call_graph(place, callee=PeerId(shown.call), credentials=credentials, lost=lost)
    if shown.shared_memory and place.scheme is not Scheme.UNIX:
        raise UsageError(f"{place} may be another machine's; --shared-memory is for unix addresses")
    return connect_graph(
        place,
        peer=credentials.peer,
        token=credentials.token,
        key=credentials.key,
        verifier=credentials.verifier,
        settings=ClientSettings(shares_memory=shown.shared_memory),
        tls=_demands(place, shown, proves=credentials.verifier is not None),
        allow_insecure=shown.allow_insecure,
        lost=lost,
    )


def _credentials(shown: Shown) -> "Credentials":
    from bobbin.config.graph_access import read_token
    from bobbin.config.peers import parse_verifier
    from bobbin.lace import Lace
    from bobbin.runtime.graph_peers import Credentials

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
    return Credentials(peer=peer, token=token, key=key, verifier=verifier)


def _demands(address: "Address", shown: Shown, *, proves: bool) -> "TlsClient | None":
    """Of a certificate. ``proves``: whoever answers proves its key over the same channel, which will do."""
    from bobbin.config.peers import parse_certificate
    from bobbin.transport.tls import TlsClient
    from bobbin.wire.address import Scheme

    if address.scheme in (Scheme.TLS, Scheme.WSS):
        pin = None if shown.pin is None else parse_certificate(shown.pin)
        unseen = proves and pin is None and shown.authorities is None
        return TlsClient(pin=pin, authorities=shown.authorities, unverified=unseen)
    if shown.pin is not None or shown.authorities is not None:
        raise UsageError(f"{address} shows no certificate; --pin and --ca are for tls and wss addresses")
    return None
