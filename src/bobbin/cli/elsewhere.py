"""PEER on the command line: the folder of another lace, an address, or the name of somebody who is known.

Whoever is elsewhere is dialled under what ``peers.toml`` notes of it: its key, the pin of its certificate, the policies
and limits for it. Options add to that, or stand in for what is not noted. A key that is noted is never set aside by an
option: whoever means another one changes the file.

A name may stand for several addresses, each with the pin of its own certificate. The key is the same at all of them. An
address on the command line means that one alone.
"""

from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import Struct, structs

from bobbin.cli.output import Output
from bobbin.cli.policy_files import load_query, load_selector, shown_name, texts_of
from bobbin.cli.sources import STDIN, MissingFile, check_given
from bobbin.errors import BobbinError, UsageError

if TYPE_CHECKING:
    from bobbin.config.peers import PeerEntry, Peers
    from bobbin.interlace.limits import Limits
    from bobbin.lace import Lace
    from bobbin.policy.executables import Budgets, Part
    from bobbin.policy.modules import Query, Selector
    from bobbin.records.ids import Verifier
    from bobbin.runtime.connection import Connection, Destination
    from bobbin.runtime.introduction import Introduction
    from bobbin.runtime.reaching import Failure
    from bobbin.runtime.reconnect import Lost
    from bobbin.runtime.remote import RemotePeer
    from bobbin.runtime.roster import Way
    from bobbin.wire.address import Address

_PASSED_OVER_MAX: Final = 16
"""Addresses that failed and that nobody was told of yet; a peer has no more of them."""

_FORMS: Final = "an address, such as tls:host:4791, or the name of a known peer"


def _text(name: str, metavar: str, words: str) -> object:
    return typer.Option(name, metavar=metavar, help=words, show_default=False)


Remote = Annotated[str, typer.Argument(metavar="PEER", help="Address, or name of a known peer.", show_default=False)]
Policy = Annotated[str | None, _text("--policy", "FILE", "Our policy. Default: the one noted for the peer.")]
QueryPolicy = Annotated[str | None, _text("--query-policy", "FILE", "What the peer's rules may see here.")]
ExpectedKey = Annotated[str | None, _text("--verifier", "V.….H3", "The key that the peer must prove.")]
Pin = Annotated[str | None, _text("--pin", "SHA256", "The only certificate that will do.")]
Authorities = Annotated[
    Path | None, _text("--ca", "FILE", "Authorities that vouch for the certificate, instead of the system's.")
]
TrustNew = Annotated[
    str | None,
    _text("--trust-new", "NAME", "Trust the key that answers, under this name from now on; it may not dial us."),
]
AllowInsecure = Annotated[
    bool,
    typer.Option(
        "--allow-insecure",
        metavar="",
        help="Off this machine, do without encryption and proof.",
        show_default=False,
    ),
]


class Demands(Struct, frozen=True, kw_only=True):
    """What the options say about whoever is to answer."""

    verifier: str | None = None
    pin: str | None = None
    authorities: Path | None = None
    trust_new: str | None = None
    allow_insecure: bool = False
    peers: Path | None = None
    """Another file of known peers."""

    @property
    def given(self) -> list[str]:
        """The options that were used."""
        values = {
            "--verifier": self.verifier,
            "--pin": self.pin,
            "--ca": self.authorities,
            "--trust-new": self.trust_new,
            "--allow-insecure": self.allow_insecure or None,
            "--peers": self.peers,
        }
        return [option for option, value in values.items() if value is not None]


class Chosen(Struct, frozen=True, kw_only=True):
    """Which policies and limits the options name."""

    policy: str | None = None
    query_policy: str | None = None
    limits: str | None = None
    strategy: str | None = None


class Terms(Struct, frozen=True, kw_only=True):
    """What an exchange is held under."""

    selector: "Selector | None"
    """None where nothing narrows what is asked for."""
    query: "Query | None"
    limits: "Limits"
    budgets: "Budgets"
    texts: "dict[Part, str]"
    """The files of the policies."""
    strategy: str = "auto"


class Elsewhere:
    """A peer that can be dialled, the terms for it, and who answered."""

    def __init__(
        self, *, address: "Address", name: str | None, key: "Verifier | None", terms: Terms, peer: "RemotePeer"
    ) -> None:
        """``address`` is where it is dialled first."""
        self._first: Final = address
        self.name: Final = name
        """None for an address that nobody is known at."""
        self.terms: Final = terms
        self._key: Final = key
        self._passed_over: Final[deque[Failure]] = deque(maxlen=_PASSED_OVER_MAX)
        self.peer: Final = structs.replace(peer, admit=self._admit, passed_over=self._passed_over.append)
        self._demand: Final = peer.admit
        self.introduction: Introduction | None = None
        """Of the last link that came up."""

    @property
    def verifier(self) -> "Verifier | None":
        """The key that was proven; before that, the one that is expected."""
        return self._key if self.introduction is None else self.introduction.peer

    @property
    def address(self) -> "Address":
        """Where it answered last; before that, where it is dialled first."""
        return self._first if self.introduction is None else self.introduction.route.address

    def lost_address(self, lost: "Lost") -> str | None:
        """The address whose link is lost; None where several were tried, and none has led to the peer."""
        lines = self.peer.lines
        if lost.at is not None:
            return lines[lost.at].address
        return lines[0].address if len(lines) == 1 else None

    def say_passed_over(self, out: Output) -> None:
        """Tell the user which addresses have failed although another one has not, each once."""
        while self._passed_over:
            failure = self._passed_over.popleft()
            # Nobody at an address is what the others are for; somebody else there is worth a look.
            text = f"passed over: {failure}"
            if failure.is_alarm:
                out.warn(text)
            else:
                out.event({"event": "passed-over", "address": failure.address, "reason": str(failure.error)}, text)

    def connect(self, lace: "Lace", *, needs_policy: bool) -> "Connection":
        """The lace and this peer. Nothing is dialled yet."""
        from bobbin.runtime.connection import Connection

        terms = self.terms
        if needs_policy and terms.selector is None:
            where = f"no policy is noted for {self.name}" if self.name else f"nobody is known at {self.address}"
            raise UsageError(f"{where}: say --policy FILE")
        return Connection(
            lace,
            self.peer,
            terms.selector,
            query_policy=terms.query,
            limits=terms.limits,
            budgets=terms.budgets,
            strategy=terms.strategy,
        )

    def __str__(self) -> str:
        """For people: name, key, address."""
        key = self.verifier or "has proven nothing"
        how = " · encrypted" if self.introduction is not None and self.introduction.encrypted else ""
        return f"{f'{self.name} · ' if self.name else ''}{key} · {self.address}{how}"

    def _admit(self, introduction: "Introduction") -> None:
        self._demand(introduction)
        self.introduction = introduction


def find_folder(folder: Path, peer: str, peers: Path | None = None) -> Path | None:
    """The folder that PEER names, or None if it names somebody elsewhere.

    A name that is known is that peer, also where a folder is called so; a slash, as in ``./lab``, makes it the folder.
    ``peers`` is another file of known peers.
    """
    from bobbin.runtime.connection import is_address

    path = Path(peer)
    if _is_known(peers, folder, peer):
        return None
    if path.is_dir():
        if folder.exists() and path.samefile(folder):
            raise UsageError(f"{peer} is the same lace; a lace has nothing to exchange with itself")
        return path
    return path if not is_address(peer) and ("/" in peer or path.exists()) else None


def find_elsewhere(folder: Path, peer: str, demands: Demands, chosen: Chosen) -> Elsewhere:
    """The peer that PEER names. Everything that can be wrong before anybody is dialled is said here."""
    from bobbin.config.layout import Layout
    from bobbin.config.peers import read_peers
    from bobbin.runtime.connection import is_address
    from bobbin.wire import address as addresses

    if peer.startswith("net:"):
        raise UsageError(
            f"{peer[:80]} is the address of a PZP peer, which `bobbin tangle sync` takes; PEER is {_FORMS}"
        )
    if demands.trust_new is None:
        check_given(demands.peers)
    elif demands.peers is not None and not demands.peers.parent.is_dir():
        raise MissingFile(f"there is no folder {demands.peers.parent}")
    known = read_peers(demands.peers or Layout(folder).peers)
    if is_address(peer):
        address = addresses.parse(peer)
        entry = known.named(demands.trust_new) if demands.trust_new is not None else _at(known, address)
        ways: tuple[Way, ...] = (_way(entry, address, demands),)
    else:
        if demands.trust_new is not None:
            raise UsageError("--trust-new goes with an address: a name that is known has its key already")
        entry = known.named(peer)
        if entry is None and Path(peer).is_dir():
            raise UsageError(f"{peer} is a folder, which only `bobbin sync` takes; PEER is {_FORMS}")
        if entry is None:
            raise UsageError(f"there is no folder {peer}, and {known.file} knows nobody of that name; PEER is {_FORMS}")
        if not entry.ways:
            raise UsageError(f"there is no address for {peer} in {known.file}; name the address itself")
        ways = entry.ways
    key = _expected_key(entry, demands)
    return Elsewhere(
        address=ways[0].address,
        name=demands.trust_new if entry is None else entry.name,
        key=key,
        terms=_terms(known, entry, chosen),
        peer=_peer(folder, ways, entry, key, demands, chosen),
    )


def _is_known(peers: Path | None, folder: Path, name: str) -> bool:
    from bobbin.config.layout import Layout
    from bobbin.config.peers import NAME, read_peers

    if not NAME.fullmatch(name):
        return False
    with suppress(BobbinError):  # whatever is wrong with the file, a folder is a folder
        return read_peers(peers or Layout(folder).peers).named(name) is not None
    return False


def _at(known: "Peers", address: "Address") -> "PeerEntry | None":
    from bobbin.wire.address import same_place

    found = known.at(lambda one: same_place(one, address))
    return None if found is None else found[0]


def _way(entry: "PeerEntry | None", address: "Address", demands: Demands) -> "Way":
    """An address of the command line, with the pin that is noted for it."""
    from bobbin.runtime.roster import Way
    from bobbin.wire.address import same_place

    noted = () if entry is None else entry.ways
    pins = {way.certificate for way in noted if same_place(way.address, address)} or {way.certificate for way in noted}
    if len(pins) > 1 and demands.pin is None and demands.authorities is None:
        assert entry is not None
        raise UsageError(
            f"{entry.name} shows another certificate at each of its addresses, and {address} is none of them; "
            "name the right one (--pin)"
        )
    return Way(address=address, certificate=next(iter(pins)) if len(pins) == 1 else None)


def _expected_key(entry: "PeerEntry | None", demands: Demands) -> "Verifier | None":
    from bobbin.config.peers import parse_verifier

    noted = None if entry is None else entry.verifier
    if demands.verifier is None:
        return noted
    if demands.trust_new is not None:
        raise UsageError("--verifier names the key, and --trust-new takes whichever answers: choose one")
    wanted = parse_verifier(demands.verifier)
    if noted is not None and noted != wanted:
        assert entry is not None
        raise UsageError(f"{entry.name} is known by another key, {noted}; change that in the file of known peers")
    return wanted


def _terms(known: "Peers", entry: "PeerEntry | None", chosen: Chosen) -> Terms:
    """What the options say, and where they say nothing, what is noted for the peer."""
    from bobbin.config.peers import Defaults, read_peer
    from bobbin.interlace.limits import PROFILES, Limits
    from bobbin.policy.executables import BUDGETS
    from bobbin.policy.modules import deny_all_selector

    selector = None if chosen.policy is None else load_selector(chosen.policy)
    query = None if chosen.query_policy is None else load_query(chosen.query_policy)
    limits = Limits() if chosen.limits is None else PROFILES[chosen.limits]
    files = {"own": chosen.policy, "query": chosen.query_policy}
    if entry is not None:
        # A peer without a policy of its own has that of the node; which one that is, no command here knows.
        noted = read_peer(known.file, entry.name, Defaults(selector=selector or deny_all_selector()))
        assert noted is not None, "it was in the file a moment ago"
        if selector is None and entry.policy is not None:
            selector, files["own"] = noted.selector, str(known.file.parent / entry.policy)
        if query is None and entry.query_policy is not None:
            query, files["query"] = noted.query, str(known.file.parent / entry.query_policy)
        if chosen.limits is None:
            limits = noted.limits
    profile = next((name for name, one in PROFILES.items() if one == limits), "default")
    own = files["own"]
    return Terms(
        selector=selector,
        query=query,
        limits=limits,
        budgets=BUDGETS[profile],
        texts={} if own is None else texts_of(own, query=files["query"]),
        strategy=chosen.strategy or (entry.strategy if entry is not None and entry.strategy else "auto"),
    )


def _peer(
    folder: Path,
    ways: "tuple[Way, ...]",
    entry: "PeerEntry | None",
    key: "Verifier | None",
    demands: Demands,
    chosen: Chosen,
) -> "RemotePeer":
    from bobbin.config.peers import parse_certificate
    from bobbin.runtime.connection import Destination
    from bobbin.wire.address import Scheme

    open_ways = [way.address for way in ways if way.address.scheme not in (Scheme.TLS, Scheme.WSS)]
    if open_ways and (demands.pin is not None or demands.authorities is not None):
        raise UsageError(f"{open_ways[0]} shows no certificate; --pin and --ca are for tls and wss addresses")
    if demands.pin is not None and demands.authorities is not None:
        raise UsageError("a certificate is the pinned one (--pin), or authorities vouch for it (--ca): choose one")
    check_given(demands.authorities)
    if demands.pin is not None or demands.authorities is not None:
        pin = None if demands.pin is None else parse_certificate(demands.pin)
        ways = tuple(structs.replace(way, certificate=pin) for way in ways)
    destination = structs.replace(
        Destination.by(ways, name="" if entry is None else entry.name, verifier=key),
        authorities=demands.authorities,
        allow_insecure=demands.allow_insecure,
    )
    if demands.trust_new is None:
        return _advising(destination)
    if STDIN in (chosen.policy, chosen.query_policy):
        raise UsageError(f"--trust-new notes the policies for the peer, and {shown_name(STDIN)} cannot be read again")
    if destination.address.scheme is Scheme.STDIO and entry is None:
        raise UsageError("--trust-new notes where the peer is dialled, and stdio is no such place")
    return _trusting(folder, destination, demands, chosen)


def _advising(destination: "Destination") -> "RemotePeer":
    """The peer; where nothing is known of it, a certificate that nobody vouches for comes with what can be done."""
    from bobbin.transport.base import ByteStream, TransportError

    peer = destination.peer()
    if destination.verifier or destination.certificate or destination.authorities:
        return peer

    async def dial() -> ByteStream:
        try:
            return await peer.dial()
        except TransportError as error:
            if "certificate" not in str(error):
                raise
            advice = "key (--verifier), its certificate (--pin), or trust who answers (--trust-new NAME)"
            raise TransportError(f"{error}. Name the peer's {advice}", retry=error.retry) from error

    return structs.replace(peer, dial=dial)


def _trusting(folder: Path, destination: "Destination", demands: Demands, chosen: Chosen) -> "RemotePeer":
    """The peer of whoever answers, as far as the name does not stand for somebody else already."""
    from bobbin.config.enrolment import NewPeer, trust_new
    from bobbin.config.layout import Layout
    from bobbin.runtime.introduction import NotAdmitted
    from bobbin.runtime.remote import UNKNOWN_PEER
    from bobbin.runtime.roster import Way
    from bobbin.transport.base import ByteStream
    from bobbin.transport.dial import dial
    from bobbin.transport.tls import TlsClient
    from bobbin.wire.address import Scheme

    name, address = demands.trust_new, destination.address
    assert name is not None
    # No certificate is known here: the proof that is bound to it is what is trusted, so a look at it is no use.
    is_unseen = (
        address.scheme in (Scheme.TLS, Scheme.WSS)
        and destination.certificate is None
        and destination.authorities is None
    )
    peer = structs.replace(destination, verifier=None).peer()

    async def dial_unseen() -> ByteStream:
        return await dial(address, tls=TlsClient(unverified=True))

    def admit(introduction: "Introduction") -> None:
        if introduction.peer is None:
            detail = f"whoever answers at {address} has proven no key that counts there, so there is none to trust"
            raise NotAdmitted(UNKNOWN_PEER, detail)
        new = NewPeer(
            name=name,
            verifier=introduction.peer,
            ways=() if address.scheme is Scheme.STDIO else (Way(address=address, certificate=destination.certificate),),
            policy=None if chosen.policy is None else Path(chosen.policy),
            query_policy=None if chosen.query_policy is None else Path(chosen.query_policy),
            limits=chosen.limits,
            # Whoever is dialled by this command is not thereby one who may come and ask.
            admit=False,
        )
        trust_new(demands.peers or Layout(folder).peers, new)

    return structs.replace(peer, dial=dial_unseen if is_unseen else peer.dial, admit=admit)
