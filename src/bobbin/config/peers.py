"""``peers.toml``: who is known, and on which terms. For people to write; read strictly.

::

    [[peer]]
    name = "lab"
    verifier = "V.….H3"
    address = "tls:lab.example:4791"
    policy = "policies/lab.policy"

A peer that several machines keep, as the nodes of a replicated lace do, has a list of addresses. One key holds for all
of them; a certificate may be pinned for each.

Reading has two steps. ``read_peers`` checks the file by itself, so that a list of peers can be shown and edited
whatever becomes of their policies. ``make_roster`` compiles the policies and gives each peer its terms; a peer that has
no policy, neither its own nor a default one, is an error: nothing is exchanged by accident.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final, TypeVar, cast

from msgspec import Meta, Struct, structs

from bobbin.config.findings import Findings
from bobbin.config.policies import Policies
from bobbin.config.schema import convert, read_table
from bobbin.config.sources import MissingFile, Sources, UnusableFile
from bobbin.errors import BobbinError, UsageError
from bobbin.interlace.choice import Strategy
from bobbin.interlace.limits import NAMES, PROFILES, Limits
from bobbin.policy.modules import Query, Selector
from bobbin.records import ids
from bobbin.records.ids import Verifier
from bobbin.runtime.roster import ANONYMOUS, KnownPeer, Roster, Way
from bobbin.wire import address as addresses
from bobbin.wire.address import Address, Scheme, same_place

T = TypeVar("T")

PEERS_MAX: Final = 10_000
ADDRESSES_MAX: Final = 16
"""Of one peer. All of them are tried in a row, so there are not many."""
NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)

_PIN_PREFIX: Final = "sha256:"
_PIN: Final = re.compile(rf"(?:{_PIN_PREFIX})?([0-9a-f]{{64}}|(?:[0-9a-f]{{2}}:){{31}}[0-9a-f]{{2}})", re.IGNORECASE)

LIMIT_MAX: Final = 2**63 - 1
"""The largest whole number of a TOML file."""

_Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX)] | None


class LimitsTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one exchange: those of a profile, some of them replaced."""

    profile: str = "default"
    max_fact_block_size: _Limit = None
    max_advertisement_records_listed: _Limit = None
    max_partition_summaries: _Limit = None
    max_narrowing_depth: _Limit = None
    max_total_transferred_bytes: _Limit = None
    max_loop_iterations: _Limit = None
    phase_timeout: _Limit = None


_POLICY: Final = "File with our policy towards it; relative to this file."
_QUERY: Final = "File that says what its rules may see here; relative to this file."
_LIMITS: Final = "How much an exchange may cost: a profile (`default`, `large`), or a table of single limits."

Policy = Annotated[str | None, Meta(description=_POLICY)]
QueryPolicy = Annotated[str | None, Meta(description=_QUERY)]
LimitsChoice = Annotated[str | LimitsTable | None, Meta(description=_LIMITS)]


class PeerTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[[peer]]``: one peer as it is written."""

    name: Annotated[str, Meta(description="What it is called here; nobody else hears of it.")]
    verifier: Annotated[str | None, Meta(description="The key that it proves itself with, `V.….H3`.")] = None
    unproven: Annotated[
        bool, Meta(description="Instead of `verifier`: exchange with whoever answers at `address`, without proof.")
    ] = False
    address: Annotated[
        str | tuple[str, ...] | None,
        Meta(description="Where it is dialled, as in `tls:lab.example:4791`; several are tried in their order."),
    ] = None
    certificate: Annotated[
        str | tuple[str, ...] | None,
        Meta(
            description="SHA-256 of the one certificate that its server may show, in hexadecimal digits; a list has "
            "one for each address."
        ),
    ] = None
    policy: Policy = None
    query_policy: QueryPolicy = None
    limits: LimitsChoice = None
    strategy: Annotated[
        Strategy | None, Meta(description="How the sides find out what the other offers. `auto`: what costs least.")
    ] = None
    follow: Annotated[bool, Meta(description="Keep an open link to it while the node runs.")] = False
    admit: Annotated[bool, Meta(description="Take links that it opens to us.")] = True


class AnonymousTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[anonymous]``: the terms for peers that prove nothing. Without this table they are turned away."""

    policy: Annotated[str, Meta(description="File with our policy towards them. The default policy never holds here.")]
    query_policy: QueryPolicy = None
    limits: LimitsChoice = None


class PeersTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    peer: tuple[PeerTable, ...] = ()
    anonymous: AnonymousTable | None = None


class PeerEntry(Struct, frozen=True, kw_only=True):
    """One peer of the file, checked, its policies not looked at."""

    key: str
    """Where it stands in the file, for messages."""
    name: str
    verifier: Verifier | None
    ways: tuple[Way, ...]
    """Its addresses in their order, with the pin of each."""
    policy: str | None
    """As written: relative to the file."""
    query_policy: str | None
    limits: Limits | None
    profile: str | None
    """The name of the limits, with a ``*`` where single ones are replaced; None where the default holds."""
    follow: bool
    admit: bool
    strategy: Strategy | None = None
    """None where nothing is written."""


class Peers(Struct, frozen=True, kw_only=True):
    """The file, checked by itself."""

    file: Path
    entries: tuple[PeerEntry, ...] = ()
    anonymous: PeerEntry | None = None

    def named(self, name: str) -> PeerEntry | None:
        return next((entry for entry in self.entries if entry.name == name), None)

    def find(self, verifier: Verifier) -> PeerEntry | None:
        return next((entry for entry in self.entries if entry.verifier == verifier), None)

    def at(self, is_there: Callable[[Address], bool]) -> tuple[PeerEntry, Way] | None:
        """The first peer one of whose addresses is the one that is meant, and the way by which it is."""
        return next(((one, way) for one in self.entries for way in one.ways if is_there(way.address)), None)


class Defaults(Struct, frozen=True, kw_only=True):
    """The terms of a peer that the file gives none."""

    selector: Selector | None = None
    query: Query | None = None
    limits: Limits = Limits()


def read_peers(file: Path) -> Peers:
    """The known peers of a file, or ``InvalidConfiguration`` with all that is wrong. Without a file nobody is known."""
    findings = Findings()
    peers = parse_peers(file, Sources(), findings)
    findings.raise_if_any()
    return peers


def read_roster(file: Path, defaults: Defaults = Defaults()) -> Roster:  # noqa: B008 (a frozen value)
    """The known peers of a file with their terms, or an error with all that is wrong."""
    sources, findings = Sources(), Findings()
    roster = make_roster(parse_peers(file, sources, findings), defaults, Policies(sources, findings), findings)
    findings.raise_if_any()
    return roster


def read_peer(file: Path, name: str, defaults: Defaults = Defaults()) -> KnownPeer | None:  # noqa: B008
    """One known peer with its terms, whatever is wrong with the policies of others; None if nobody has this name."""
    peers = read_peers(file)
    entry = peers.named(name)
    if entry is None:
        return None
    findings = Findings()
    peer = _known(peers.file, entry, defaults, Policies(Sources(), findings), findings)
    findings.raise_if_any()
    return peer


def parse_peers(file: Path, sources: Sources, findings: Findings, *, required: bool = False) -> Peers:
    """The peers of a file as far as it can be read; what is wrong goes to the findings."""
    if not required and _is_missing(file, sources):
        return Peers(file=file)
    table = read_table(file, sources, findings)
    content = None if table is None else convert(table, PeersTable, file, findings, partly=True)
    if content is None:
        return Peers(file=file)
    if len(content.peer) > PEERS_MAX:
        findings.add(file, "peer", f"there are {len(content.peer):,} peers; at most {PEERS_MAX:,} can be known")
        return Peers(file=file)
    entries = [
        _check(peer, f"peer {number} ({peer.name[:64]})", file, findings)
        for number, peer in enumerate(cast("tuple[PeerTable | None, ...]", content.peer), start=1)
        if peer is not None  # one that is wrong has been said; what is wrong with the others is said, too
    ]
    _check_twins(entries, file, findings)
    anonymous = None if content.anonymous is None else _check_anonymous(content.anonymous, file, findings)
    return Peers(file=file, entries=tuple(entries), anonymous=anonymous)


def _is_missing(file: Path, sources: Sources) -> bool:
    """Whether there is no such file, as opposed to one that cannot be read."""
    try:
        sources.read(file)
    except MissingFile:
        return file.parent.is_dir() and not file.is_symlink()
    except UnusableFile:
        return False
    return False


def make_roster(peers: Peers, defaults: Defaults, policies: Policies, findings: Findings) -> Roster:
    """Give every peer its terms. Empty after any finding: a roster is whole or not there."""
    known = [
        _known(peers.file, entry, defaults, policies, findings)
        for entry in peers.entries
        # A peer that is neither let in nor followed is there for commands, which name a policy themselves.
        if entry.admit or entry.follow or (entry.policy or defaults.selector) is not None
    ]
    anonymous = peers.anonymous
    unproven = None if anonymous is None else _known(peers.file, anonymous, defaults, policies, findings)
    if len(findings):
        return Roster()
    return Roster([peer for peer in known if peer is not None], anonymous=unproven)


def parse_certificate(text: str) -> bytes:
    """A pin as people write it: 64 hexadecimal digits, with or without colons and ``sha256:`` before them."""
    found = _PIN.fullmatch(text)
    if found is None:
        raise UsageError(f"not the SHA-256 of a certificate (64 hexadecimal digits): {text[:100]!r}")
    return bytes.fromhex(found[1].replace(":", ""))


def certificate_text(digest: bytes) -> str:
    """A pin as it is shown and written."""
    return _PIN_PREFIX + digest.hex()


def check_name(name: str) -> None:
    """Refuse what is no name of a peer: it could be taken for an address or a folder."""
    if name == ANONYMOUS:
        raise UsageError(f"no peer is called {ANONYMOUS!r}: that is the name for those who prove nothing")
    if not NAME.fullmatch(name):
        raise UsageError(
            f"not a name for a peer: {name[:80]!r}. A name is 1 to 64 of a-z, 0-9, '-' and '_', beginning with a "
            "letter or a digit"
        )


def parse_verifier(text: str) -> Verifier:
    """A verifier as people write it, or ``UsageError``."""
    try:
        ids.parse_verifier(text)
    except ids.IdentifierError as error:
        hint = "; that is a signing secret, which belongs into no other file" if text.startswith("&.") else ""
        shown = repr(text[:80]) if not hint else "what is written here"
        raise UsageError(f"{shown} is no verifier (V.<43 symbols>.{ids.SUFFIX}){hint}") from (None if hint else error)
    return Verifier(text)


def parse_address(text: str) -> Address:
    """The address of a peer: one that can be dialled."""
    address = addresses.parse(text)
    if address.scheme is Scheme.STDIO:
        raise UsageError("stdio is where this process is talked to; a peer has an address that can be dialled")
    return address


class WrongPin(UsageError):
    """The pins of certificates do not fit the addresses. Nothing was changed."""


def make_ways(addresses: Sequence[Address], pins: bytes | Sequence[bytes] = ()) -> tuple[Way, ...]:
    """The ways to a peer: its addresses, and no pin, one that holds at all of them, or one for each."""
    if len(addresses) > ADDRESSES_MAX:
        raise UsageError(f"there are {len(addresses)}; a peer has at most {ADDRESSES_MAX} addresses")
    for number, one in enumerate(addresses):
        if twin := next((other for other in addresses[:number] if same_place(one, other)), None):
            spelled = "" if twin == one else f", also as {twin}"
            raise UsageError(f"{one} is there twice{spelled}")
    if not pins:
        return tuple(Way(address=one) for one in addresses)
    if not addresses or any(one.scheme not in (Scheme.TLS, Scheme.WSS) for one in addresses):
        raise WrongPin("only a server that we dial shows one: name its tls or wss address")
    listed = [pins] * len(addresses) if isinstance(pins, bytes) else pins
    if len(listed) != len(addresses):
        raise WrongPin(
            f"for {len(addresses)} addresses there are {len(listed)} certificates; name one for each, in the same "
            "order, or a single one that all of them show"
        )
    return tuple(Way(address=one, certificate=pin) for one, pin in zip(addresses, listed, strict=True))


def limits_of(choice: str | LimitsTable) -> Limits:
    """The limits that a profile or a table stands for."""
    table = LimitsTable(profile=choice) if isinstance(choice, str) else choice
    profile = PROFILES.get(table.profile)
    if profile is None:
        raise UsageError(f"there are no limits called {table.profile[:80]!r}; there are {', '.join(PROFILES)}")
    single = {name: getattr(table, name) for name in NAMES}
    return structs.replace(profile, **{name: value for name, value in single.items() if value is not None})


class _Checker:
    """Turns the texts of one entry into values; what cannot be turned is None, and said."""

    def __init__(self, key: str, file: Path, findings: Findings) -> None:
        self._key: Final = key
        self._file: Final = file
        self._findings: Final = findings

    def say(self, name: str, message: str) -> None:
        self._findings.add(self._file, f"{self._key}, {name}" if name else self._key, message)

    def name(self, text: str) -> None:
        try:
            check_name(text)
        except UsageError as error:
            self.say("name", str(error))

    def verifier(self, text: str | None) -> Verifier | None:
        try:
            return None if text is None else parse_verifier(text)
        except BobbinError as error:
            self.say("verifier", str(error))
            return None

    def ways(self, peer: PeerTable) -> tuple[Way, ...]:
        """All ways to it; none after a finding."""
        before = len(self._findings)
        found = [self._parsed("address", parse_address, text) for text in _listed(peer.address)]
        pins = [self._parsed("certificate", parse_certificate, text) for text in _listed(peer.certificate)]
        if len(self._findings) > before:
            return ()
        known, listed = [one for one in found if one is not None], [pin for pin in pins if pin is not None]
        try:
            return make_ways(known, listed[0] if isinstance(peer.certificate, str) else listed)
        except UsageError as error:
            self.say("certificate" if isinstance(error, WrongPin) else "address", str(error))
            return ()

    def _parsed(self, name: str, parse: Callable[[str], T], text: str) -> T | None:
        try:
            return parse(text)
        except BobbinError as error:
            self.say(name, str(error))
            return None

    def limits(self, choice: str | LimitsTable | None) -> Limits | None:
        try:
            return None if choice is None else limits_of(choice)
        except UsageError as error:
            self.say("limits", str(error))
            return None


def _listed(written: str | tuple[str, ...] | None) -> tuple[str, ...]:
    match written:
        case None:
            return ()
        case str():
            return (written,)
        case _:
            return written


def _check(peer: PeerTable, key: str, file: Path, findings: Findings) -> PeerEntry:
    checker = _Checker(key, file, findings)
    checker.name(peer.name)
    entry = PeerEntry(
        key=key,
        name=peer.name,
        verifier=checker.verifier(peer.verifier),
        ways=checker.ways(peer),
        policy=peer.policy,
        query_policy=peer.query_policy,
        limits=checker.limits(peer.limits),
        profile=_profile(peer.limits),
        follow=peer.follow,
        admit=peer.admit,
        strategy=peer.strategy,
    )
    if peer.verifier is None and not peer.unproven:
        checker.say(
            "verifier",
            "it is missing. Its owner finds it with `bobbin key show`; to exchange with whoever answers at an "
            "address, without proof, write unproven = true instead",
        )
    if peer.unproven and peer.verifier is not None:
        checker.say("unproven", "a peer either proves a key or proves nothing; leave verifier or unproven out")
    if peer.unproven and len(_listed(peer.address)) > 1:
        checker.say(
            "address", "only a key makes several addresses one peer; a peer that proves nothing has one address"
        )
    if not _listed(peer.address):
        if peer.unproven:
            checker.say("address", "it is missing: a peer that proves nothing is known by its address only")
        elif not peer.admit:
            checker.say("admit", "its links are not taken and it has no address, so there is no way to it at all")
        if peer.follow:
            checker.say("follow", "there is no address to keep a link to")
    return entry


def _check_anonymous(table: AnonymousTable, file: Path, findings: Findings) -> PeerEntry:
    return PeerEntry(
        key=ANONYMOUS,
        name=ANONYMOUS,
        verifier=None,
        ways=(),
        policy=table.policy,
        query_policy=table.query_policy,
        limits=_Checker(ANONYMOUS, file, findings).limits(table.limits),
        profile=_profile(table.limits),
        follow=False,
        admit=True,
    )


def _check_twins(entries: list[PeerEntry], file: Path, findings: Findings) -> None:
    names: dict[str, PeerEntry] = {}
    verifiers: dict[Verifier, PeerEntry] = {}
    for entry in entries:
        if (other := names.setdefault(entry.name, entry)) is not entry:
            findings.add(file, f"{entry.key}, name", f"{other.key} has the same name")
        if entry.verifier is not None and (other := verifiers.setdefault(entry.verifier, entry)) is not entry:
            findings.add(file, f"{entry.key}, verifier", f"{other.key} has the same one; a key is one peer")


def _profile(choice: str | LimitsTable | None) -> str | None:
    match choice:
        case None | str():
            return choice
        case LimitsTable():
            return choice.profile + "*" * any(getattr(choice, name) is not None for name in NAMES)


def _known(
    file: Path, entry: PeerEntry, defaults: Defaults, policies: Policies, findings: Findings
) -> KnownPeer | None:
    before = len(findings)
    selector, query = defaults.selector, defaults.query
    if entry.policy is not None:
        selector = policies.selector(entry.policy, file=file, key=f"{entry.key}, policy")
    elif selector is None:
        findings.add(
            file,
            f"{entry.key}, policy",
            "it has no policy of its own and there is no default one, so nothing could be exchanged with it",
        )
    if entry.query_policy is not None:
        query = policies.query(entry.query_policy, file=file, key=f"{entry.key}, query_policy")
    if selector is None or len(findings) > before:
        return None
    return KnownPeer(
        name=entry.name,
        verifier=entry.verifier,
        ways=entry.ways,
        selector=selector,
        query=query,
        limits=defaults.limits if entry.limits is None else entry.limits,
        follow=entry.follow,
        admit=entry.admit,
        strategy=entry.strategy or Strategy.AUTO,
    )
