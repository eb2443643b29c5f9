"""The configuration of a node: one TOML file, given on the command line, that says how to serve.

Whom to serve is in ``peers.toml`` (``config.peers``). Every key has a default; a node without a file serves on the
addresses of its command line, for the known peers that bring a policy of their own.
"""

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from bobbin.config.findings import Findings
from bobbin.config.keys import check_name
from bobbin.config.peers import Defaults, LimitsChoice, limits_of
from bobbin.config.policies import Policies
from bobbin.config.schema import convert, read_table
from bobbin.config.sources import Sources, UnusableFile
from bobbin.errors import UsageError
from bobbin.interlace.limits import Limits
from bobbin.policy.modules import deny_all_selector
from bobbin.runtime.node_settings import LinkBounds, Logging, Metrics, NodeSettings, Reconnecting, Telemetry
from bobbin.wire import address as addresses
from bobbin.wire.address import Address, AddressError, Scheme

LISTEN_MAX: Final = 64
_ENCRYPTED: Final = frozenset({Scheme.TLS, Scheme.WSS})
_LOCAL: Final = frozenset({Scheme.UNIX, Scheme.STDIO})


class TlsTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[tls]``: the certificate that ``tls`` and ``wss`` addresses show."""

    certificate: Annotated[str, Meta(description="Its file (PEM), with the chain if there is one; relative.")]
    key: Annotated[str, Meta(description="Its private key (PEM), readable by the node only; relative.")]


class DefaultTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[default]``: the terms of known peers that have none of their own."""

    policy: Annotated[str | None, Meta(description="File with our policy; relative to this file.")] = None
    query_policy: Annotated[
        str | None, Meta(description="File that says what a peer's rules may see here; relative to this file.")
    ] = None
    limits: LimitsChoice = None


class MetricsTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[metrics]``: `/healthz` and `/metrics` over HTTP. The socket in the lace's folder always has them."""

    listen: Annotated[str | None, Meta(description="A `tcp` address, as in `tcp:127.0.0.1:9790`.")] = None
    off_loopback: Annotated[bool, Meta(description="Let that address be reachable from other machines.")] = False
    links: Annotated[bool, Meta(description="Show `/links` there, too: the names and keys of peers.")] = False


class NodeTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    listen: Annotated[
        tuple[str, ...], Meta(description="Addresses to listen on; `--listen` on the command line replaces them.")
    ] = ()
    key: Annotated[
        str | None, Meta(description="Name of the key that the node proves itself with; else the lace's default key.")
    ] = None
    peers: Annotated[
        str | None, Meta(description="File of known peers, relative to this file; else `DIR/peers.toml`.")
    ] = None
    allow_insecure: Annotated[
        bool, Meta(description="Take part in links off this machine that are not encrypted, or with unproven peers.")
    ] = False
    tls: TlsTable | None = None
    default: DefaultTable = DefaultTable()
    links: LinkBounds = LinkBounds()
    reconnect: Reconnecting = Reconnecting()
    metrics: MetricsTable = MetricsTable()
    log: Logging = Logging()
    telemetry: Telemetry = Telemetry()


class Overrides(Struct, frozen=True, kw_only=True):
    """What the command line says; it goes before the file."""

    listen: tuple[Address, ...] = ()
    peers: Path | None = None
    allow_insecure: bool = False


class CertificateFiles(Struct, frozen=True, kw_only=True):
    """Where the certificate of a node is kept, and its private key."""

    certificate: Path
    key: Path


class NodeConfig(Struct, frozen=True, kw_only=True):
    """A configuration, checked, all paths resolved."""

    settings: NodeSettings = NodeSettings()
    key: str | None = None
    """The name of the node's key; None for the default key of the lace."""
    certificate: CertificateFiles | None = None
    """None where the node uses one of its own, in the folder of the lace."""
    peers: Path | None = None
    """None for the file in the folder of the lace."""
    defaults: Defaults = Defaults()


def read_node(file: Path | None, overrides: Overrides = Overrides()) -> NodeConfig:  # noqa: B008 (a frozen value)
    """A configuration from its file, or an error with everything that is wrong with it."""
    sources, findings = Sources(), Findings()
    config = parse_node(file, overrides, Policies(sources, findings), sources, findings)
    findings.raise_if_any()
    assert config is not None
    return config


def parse_node(
    file: Path | None, overrides: Overrides, policies: Policies, sources: Sources, findings: Findings
) -> NodeConfig | None:
    """A configuration as far as its file can be used, or None; what is wrong goes to the findings."""
    if file is None:
        settings = NodeSettings(listen=overrides.listen, allow_insecure=overrides.allow_insecure)
        _check_exposure(settings, Path("the command line"), "--listen", findings)
        return NodeConfig(settings=settings, peers=overrides.peers)
    table = read_table(file, sources, findings)
    content = None if table is None else convert(table, NodeTable, file, findings, partly=True)
    if table is None or content is None:
        return None
    lost_default = bool(table.get("default")) and content.default == DefaultTable()
    return _Reading(file, content, overrides, policies, sources, findings, lost_default=lost_default).config()


class _Reading:
    """One file on its way to a configuration."""

    def __init__(
        self,
        file: Path,
        content: NodeTable,
        overrides: Overrides,
        policies: Policies,
        sources: Sources,
        findings: Findings,
        *,
        lost_default: bool,
    ) -> None:
        """``lost_default``: the table of the default terms is wrong, and is not in the content."""
        self._sources: Final = sources
        self._lost_default: Final = lost_default
        self._file: Final = file
        self._content: Final = content
        self._overrides: Final = overrides
        self._policies: Final = policies
        self._findings: Final = findings

    def config(self) -> NodeConfig:
        content = self._content
        self._check_key()
        self._check_ranges()
        settings = NodeSettings(
            listen=self._overrides.listen or self._listen(),
            allow_insecure=content.allow_insecure or self._overrides.allow_insecure,
            links=content.links,
            reconnect=content.reconnect,
            metrics=self._metrics(),
            log=content.log,
            telemetry=content.telemetry,
        )
        _check_exposure(settings, self._file, "--listen" if self._overrides.listen else "listen", self._findings)
        peers = None if content.peers is None else self._file.parent / content.peers
        return NodeConfig(
            settings=settings,
            key=content.key,
            certificate=self._certificate(),
            peers=self._overrides.peers or peers,
            defaults=self._defaults(),
        )

    def _say(self, key: str, message: str) -> None:
        self._findings.add(self._file, key, message)

    def _check_key(self) -> None:
        if self._content.key is not None:
            try:
                check_name(self._content.key)
            except UsageError as error:
                self._say("key", str(error))

    def _check_ranges(self) -> None:
        reconnect, telemetry = self._content.reconnect, self._content.telemetry
        if reconnect.delay_seconds_min > reconnect.delay_seconds_max:
            self._say("reconnect.delay_seconds_min", "it is longer than reconnect.delay_seconds_max")
        if telemetry.endpoint is not None and not telemetry.endpoint.startswith(("http://", "https://")):
            self._say("telemetry.endpoint", "expected an address that begins with http:// or https://")

    def _address(self, key: str, text: str) -> Address | None:
        try:
            return addresses.parse(text, to_listen=True)
        except AddressError as error:
            self._say(key, str(error))
            return None

    def _listen(self) -> tuple[Address, ...]:
        texts = self._content.listen
        if len(texts) > LISTEN_MAX:
            self._say("listen", f"a node listens on at most {LISTEN_MAX} addresses")
        for number, text in enumerate(texts, start=1):
            if text in texts[: number - 1]:
                self._say(f"listen {number}", f"{text} stands there twice")
        parsed = (self._address(f"listen {number}", text) for number, text in enumerate(texts, start=1))
        return tuple(address for address in parsed if address is not None)

    def _metrics(self) -> Metrics:
        table = self._content.metrics
        address = None if table.listen is None else self._address("metrics.listen", table.listen)
        if address is not None and address.scheme is not Scheme.TCP:
            self._say("metrics.listen", f"expected a tcp address, not one of the scheme {address.scheme.value}")
        elif address is not None and not table.off_loopback and not is_local(address):
            self._say(
                "metrics.listen",
                f"{address} can be reached from other machines, without encryption or password; write "
                "metrics.off_loopback = true if that is meant",
            )
        return Metrics(listen=address, off_loopback=table.off_loopback, links=table.links)

    def _certificate(self) -> CertificateFiles | None:
        tls = self._content.tls
        if tls is None:
            return None
        folder = self._file.parent
        files = CertificateFiles(certificate=folder / tls.certificate, key=folder / tls.key)
        for key, path in (("tls.certificate", files.certificate), ("tls.key", files.key)):
            try:
                # Whether they fit is seen when they are used; that one is read has its changes noticed.
                self._sources.read(path)
            except UnusableFile as error:
                self._say(key, str(error))
        return files

    def _defaults(self) -> Defaults:
        table = self._content.default
        limits = Limits()
        if table.limits is not None:
            try:
                limits = limits_of(table.limits)
            except UsageError as error:
                self._say("default.limits", str(error))
        selector = query = None
        if table.policy is not None:
            selector = self._policies.selector(table.policy, file=self._file, key="default.policy")
        if table.query_policy is not None:
            query = self._policies.query(table.query_policy, file=self._file, key="default.query_policy")
        if selector is None and (table.policy is not None or self._lost_default):
            # It has been said, and is not said again for each peer that would need it. Nothing of this comes in force.
            selector = deny_all_selector()
        return Defaults(selector=selector, query=query, limits=limits)


def is_local(address: Address) -> bool:
    """Whether only this machine can reach an address, as far as its text can say."""
    if address.scheme in _LOCAL:
        return True
    try:
        return ip_address(address.host).is_loopback
    except ValueError:
        return address.host.lower() == "localhost"


def _check_exposure(settings: NodeSettings, file: Path, key: str, findings: Findings) -> None:
    if settings.allow_insecure:
        return
    for address in settings.listen:
        if address.scheme in _ENCRYPTED or is_local(address):
            continue
        findings.add(
            file,
            key,
            f"{address} can be reached from other machines without encryption; use a tls or wss address, or say that "
            "it is meant: allow_insecure = true, or --allow-insecure",
        )
