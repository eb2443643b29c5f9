"""The folder of a node of a cluster.

::

    DIR/
    ├── cluster.toml    which cluster, where the node listens, how it is set; its presence makes the folder complete
    ├── node.key        0600, one line: the private key of the node
    ├── operator.key    0600, one line: the private key by which this folder's owner asks other nodes
    ├── *.key.next      0600, while a key is being changed (``rotation``): the one that comes
    ├── members.json    who is known: certificates and addresses; the node keeps it up to date
    ├── log/            the log and the snapshots
    ├── begun           says that there is a log; the node does not start without it any more
    ├── audit.jsonl     0600, every change of role, health and configuration
    └── node.sock       0600, where the running node answers its operator

The keys are written first and ``cluster.toml`` last. A creation that was cut off is done again and uses the keys that
are there; a folder that is complete is never written over.
"""

import secrets
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, TypeVar

from msgspec import Meta, Struct, structs

from bobbin.cluster.identity import Identity
from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.settings import (
    PRESETS,
    ChainConfig,
    DeadlockDetectorConfig,
    DistributedTxConfig,
    GossipConfig,
    MessageValidationConfig,
    RaftConfig,
)
from bobbin.cluster.transactions.names import ShardId
from bobbin.config import durable
from bobbin.config.findings import Findings
from bobbin.config.keys import KeyFileError, read_private
from bobbin.config.schema import Table, convert, read_table
from bobbin.config.sources import Sources
from bobbin.errors import ResourceError, UsageError
from bobbin.runtime import cluster_certificate
from bobbin.runtime.cluster_certificate import Credentials
from bobbin.runtime.cluster_members import Caller, Directory, KnownMembers, Member, Rights, check_address
from bobbin.runtime.cluster_settings import CLUSTER_ID_SIZE, ClientBounds, ClusterSettings
from bobbin.runtime.node_settings import Logging, Metrics
from bobbin.runtime.shard_settings import ShardSettings
from bobbin.wire import address as addresses
from bobbin.wire.address import AddressError, Scheme

FORMAT: Final = 1
SETTINGS_FILE: Final = "cluster.toml"
SHARDS_FILE: Final = "shards.toml"
"""In the folder of a machine that serves several shards; each has a folder of its own in there."""
_PORT_MAX: Final = 65_535
_NAMED_MAX: Final = 5
"""Other folders, in one error."""
_BEGUN: Final = b"This node has a log. It does not start without it, for it would have forgotten how it voted.\n"
T = TypeVar("T", RaftConfig, GossipConfig, MessageValidationConfig, ClientBounds)

_OWN: Final = frozenset({"node.key", "operator.key", "members.json", "log", "audit.jsonl", "node.sock"})


class MetricsTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[metrics]``: `/healthz`, `/readyz` and `/metrics` over HTTP."""

    listen: Annotated[str | None, Meta(description="A `tcp` address, as in `tcp:127.0.0.1:9795`.")] = None
    off_loopback: Annotated[bool, Meta(description="Let that address be reachable from other machines.")] = False


class ClusterTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file, but for the settings of the machines, which begin with a preset."""

    format: Annotated[int, Meta(description="Of this folder: 1.")]
    cluster: Annotated[str, Meta(description="The id of the cluster: 32 hexadecimal digits.")]
    listen: Annotated[str, Meta(description="Where the node listens: `tls:host:port`.")]
    address: Annotated[str, Meta(description="Where the other nodes reach it: `tls:host:port`.")]
    seat: Annotated[str | None, Meta(description="The node that the log knows, where its key was changed.")] = None
    first: Annotated[
        tuple[str, ...], Meta(description="The voters of a new cluster; nobody for a node that joined.")
    ] = ()
    shard: Annotated[int | None, Meta(description="Of a set of shards: which one this node is of, from 0.")] = None
    shards: Annotated[int | None, Meta(description="Of a set of shards: how many there are. It never changes.")] = None
    preset: Annotated[
        str, Meta(description="Timeouts for round trips below 10 ms (`lan`), 50 ms (`region`), or longer (`world`).")
    ] = "lan"
    metrics: MetricsTable = MetricsTable()
    log: Logging = Logging()
    transactions: DistributedTxConfig = DistributedTxConfig()
    deadlock: DeadlockDetectorConfig = DeadlockDetectorConfig()
    chain: ChainConfig = ChainConfig()
    """The same at all nodes of a shard: what a block may be follows from it."""


class ClusterLayout(Struct, frozen=True):
    """The paths inside one folder."""

    folder: Path

    @property
    def settings(self) -> Path:
        return self.folder / SETTINGS_FILE

    @property
    def node_key(self) -> Path:
        return self.folder / "node.key"

    @property
    def operator_key(self) -> Path:
        return self.folder / "operator.key"

    @property
    def members(self) -> Path:
        return self.folder / "members.json"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def begun(self) -> Path:
        return self.folder / "begun"

    @property
    def audit(self) -> Path:
        return self.folder / "audit.jsonl"

    @property
    def socket(self) -> Path:
        return self.folder / "node.sock"

    def is_complete(self) -> bool:
        """Whether a node can be run here."""
        return self.settings.is_file()


class NodeFolder(Struct, frozen=True, kw_only=True):
    """What a folder holds, checked."""

    layout: ClusterLayout
    settings: ClusterSettings
    logging: Logging
    node: NodeId
    """As the log knows it."""
    own: Credentials
    operator: Credentials
    known: KnownMembers
    shard: ShardSettings | None = None
    """Of a node of a set of shards."""

    @property
    def has_begun(self) -> bool:
        """Whether the node has had a log."""
        return self.layout.begun.exists()

    def begin(self) -> None:
        """Note, durably and outside the log's own folder, that there is a log; before the node says its first word."""
        try:
            with suppress(FileExistsError):
                durable.write_new(self.layout.begun, _BEGUN)
        except OSError as error:
            raise ResourceError(f"cannot write {self.layout.begun}: {error.strerror or error}", retry=True) from error

    def remember(self, known: KnownMembers) -> None:
        """Keep who is known for the next start."""
        with durable.replacing(self.layout.members) as stream:
            stream.write(known.encode())


class NewNode(Struct, frozen=True, kw_only=True):
    """The identities of a node that is about to be."""

    layout: ClusterLayout
    own: Credentials
    operator: Credentials
    listen: str
    address: str

    @property
    def node(self) -> NodeId:
        return self.own.identity.node

    @property
    def member(self) -> Member:
        return Member(certificate=self.own.certificate, address=self.address)

    @property
    def caller(self) -> Caller:
        return Caller(certificate=self.operator.certificate, rights=Rights.OPERATOR, member=self.node)


def places_from(listen: str, count: int) -> list[str]:
    """Where so many nodes of one machine listen: at the port that is given, and those after it."""
    first = addresses.parse(listen, to_listen=True)
    _check_tls(first)
    last = first.port_number + count - 1
    if first.port_number == 0 or last > _PORT_MAX:
        raise UsageError(f"{count} nodes need the ports from {first.port_number} to {last}; there are 1 to {_PORT_MAX}")
    host = f"[{first.host}]" if ":" in first.host else first.host
    return [f"tls:{host}:{first.port_number + step}" for step in range(count)]


def _check_tls(place: addresses.Address) -> None:
    if place.scheme is not Scheme.TLS:
        raise UsageError(f"nodes of a cluster listen with TLS alone: tls:host:port, not {str(place)[:80]!r}")


def prepare(folder: Path, *, listen: str, address: str | None = None) -> NewNode:
    """Make the keys of a new node, or take those that a creation left that was cut off."""
    layout = ClusterLayout(folder)
    if layout.is_complete():
        raise UsageError(f"there is already a node in {folder}; nothing is written over")
    _check_tls(addresses.parse(listen, to_listen=True))
    reached = check_address(listen if address is None else address)
    if folder.is_dir() and (strangers := sorted({entry.name for entry in folder.iterdir()} - _OWN)):
        raise UsageError(f"{folder} is in use for something else: there is {strangers[0]} in it")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return NewNode(
        layout=layout,
        own=create_key(layout.node_key),
        operator=create_key(layout.operator_key),
        listen=listen,
        address=reached,
    )


def create_cluster(nodes: list[NewNode], *, preset: str = "lan", more: str = "") -> bytes:
    """Make the folders of the first nodes of a new cluster complete; returns its id. ``more``: more settings."""
    check_preset(preset)
    if len({node.address for node in nodes}) != len(nodes):
        raise UsageError("each node has an address of its own")
    cluster = secrets.token_bytes(CLUSTER_ID_SIZE)
    directory = Directory([node.member for node in nodes], [node.caller for node in nodes])
    first = sorted(node.node for node in nodes)
    for node in nodes:
        complete(node, cluster, KnownMembers(directory=directory), first=first, preset=preset, more=more)
    return cluster


def complete(
    node: NewNode,
    cluster: bytes,
    known: KnownMembers,
    *,
    first: list[NodeId] | None = None,
    preset: str = "lan",
    more: str = "",
) -> None:
    """Write what is left, the settings last."""
    check_preset(preset)
    with durable.replacing(node.layout.members) as stream:
        stream.write(known.encode())
    lines = [
        f"format = {FORMAT}",
        f'cluster = "{cluster.hex()}"',
        f'listen = "{node.listen}"',
        f'address = "{node.address}"',
        f'preset = "{preset}"',
    ]
    if first:
        quoted = [f'"{one}"' for one in first]
        lines.append(f"first = [{', '.join(quoted)}]")
    try:
        durable.write_new(node.layout.settings, "\n".join(lines).encode() + b"\n" + more.encode())
    except FileExistsError as error:
        raise UsageError(f"there is already a node in {node.layout.folder}; nothing is written over") from error


def read_folder(folder: Path) -> NodeFolder:
    """What a folder holds, or an error with everything that is wrong with its settings."""
    layout = ClusterLayout(folder)
    if (folder / SHARDS_FILE).is_file():
        raise UsageError(f"{folder} holds a node of each of several shards; name one of them, such as {folder / 's0'}")
    if not layout.is_complete():
        raise UsageError(f"there is no node of a cluster in {folder}; {_where_else(folder)}")
    own, operator = read_key(layout.node_key), read_key(layout.operator_key)
    known = KnownMembers.decode(layout.members.read_bytes())
    findings = Findings()
    table = read_table(layout.settings, Sources(), findings)
    read = None if table is None else _read_settings(table, layout.settings, findings)
    findings.raise_if_any()
    assert read is not None, "what cannot be read was found to be wrong"
    settings, content = read
    seat = own.identity.node if content.seat is None else NodeId(content.seat)
    return NodeFolder(
        layout=layout,
        settings=settings,
        logging=content.log,
        node=seat,
        own=own,
        operator=operator,
        known=known,
        shard=_shard_settings(content),
    )


def _shard_settings(content: ClusterTable) -> ShardSettings | None:
    if content.shard is None and content.shards is None:
        return None
    if content.shard is None or content.shards is None:
        raise UsageError("shard and shards are given together: which one of how many")
    return ShardSettings(
        shard=ShardId(content.shard),
        shards=content.shards,
        transactions=content.transactions,
        deadlock=content.deadlock,
        chain=content.chain,
    )


def _read_settings(table: Table, file: Path, findings: Findings) -> tuple[ClusterSettings, ClusterTable] | None:
    machines = {name: table.pop(name, {}) for name in ("raft", "gossip", "validation", "clients")}
    try:
        content = convert(table, ClusterTable, file, findings)
    except UsageError as error:
        # A table that cannot work, such as locks that end before their transaction does.
        findings.add(file, "", str(error))
        return None
    if content is None:
        return None
    if content.format != FORMAT:
        findings.add(file, "format", f"this version knows format {FORMAT}, not {content.format}")
    if content.preset not in PRESETS:
        findings.add(file, "preset", f"expected one of {', '.join(PRESETS)}")
        return None
    try:
        raft = _merged(machines["raft"], PRESETS[content.preset], file, findings, "raft")
        gossip = _merged(machines["gossip"], GossipConfig(require_signatures=True), file, findings, "gossip")
        validation = _merged(machines["validation"], MessageValidationConfig(), file, findings, "validation")
        clients = _merged(machines["clients"], ClientBounds(), file, findings, "clients")
        if raft is None or gossip is None or validation is None or clients is None:
            return None
        metrics = content.metrics
        settings = ClusterSettings(
            cluster=_cluster_id(content.cluster),
            listen=addresses.parse(content.listen, to_listen=True),
            address=content.address,
            bootstrap=Configuration(tuple(sorted(map(NodeId, content.first)))) if content.first else None,
            raft=raft,
            gossip=gossip,
            validation=validation,
            clients=clients,
            metrics=Metrics(
                listen=None if metrics.listen is None else _metrics_address(metrics.listen),
                off_loopback=metrics.off_loopback,
            ),
        )
    except UsageError as error:
        findings.add(file, "", str(error))
        return None
    return settings, content


def _merged(given: object, preset: T, file: Path, findings: Findings, at: str) -> T | None:
    """A preset with what the file says instead."""
    if not isinstance(given, dict):
        findings.add(file, at, "expected a table")
        return None
    values: Table = {**structs.asdict(preset), **given}
    return convert(values, type(preset), file, findings, at)


def _cluster_id(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise UsageError(f"the id of a cluster is 32 hexadecimal digits, not {text[:80]!r}") from error


def _metrics_address(text: str) -> addresses.Address:
    parsed = addresses.parse(text, to_listen=True)
    if parsed.scheme is not Scheme.TCP:
        raise AddressError(f"metrics are served at a tcp address, not at {text[:80]!r}")
    return parsed


def check_preset(preset: str) -> None:
    """Raise ``UsageError`` for one that is not there."""
    if preset not in PRESETS:
        raise UsageError(f"there is no preset {preset[:80]!r}; there are {', '.join(PRESETS)}")


def _where_else(folder: Path) -> str:
    """Where somebody may have meant to look: a replicated lace has its node inside, and nodes may stand together."""
    nodes = sorted(one.parent for one in folder.glob(f"*/{SETTINGS_FILE}")) if folder.is_dir() else []
    if not nodes:
        return f"`bobbin cluster init {folder}` makes one"
    return "there is " + ", ".join(map(str, nodes[:_NAMED_MAX])) + (" …" if len(nodes) > _NAMED_MAX else "")


def create_key(file: Path) -> Credentials:
    """A new key, durable; one that is there already is used."""
    if not file.exists():
        durable.write_private(file, secrets.token_hex(32).encode() + b"\n")
    return read_key(file)


def read_key(file: Path) -> Credentials:
    """The key of a file that nobody else can read. Raises ``KeyFileError``."""
    try:
        seed = bytes.fromhex(read_private(file).decode("ascii").strip())
        identity = Identity(seed)
    except FileNotFoundError as error:
        raise KeyFileError(f"{file} is missing; restore it from a backup") from error
    except (ValueError, UsageError) as error:
        raise KeyFileError(f"{file} does not hold a key (64 hexadecimal digits); restore it from a backup") from error
    return cluster_certificate.make(identity)
