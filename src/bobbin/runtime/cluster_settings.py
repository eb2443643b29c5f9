"""Everything that a node of a cluster is told. ``config.cluster`` makes these values from the node's folder."""

from typing import Final

from msgspec import Struct

from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.settings import GossipConfig, MessageValidationConfig, RaftConfig
from bobbin.errors import UsageError
from bobbin.runtime.cluster_members import check_address
from bobbin.runtime.node_settings import Metrics
from bobbin.wire.address import Address, Scheme
from bobbin.wire.cluster.envelope import ENVELOPE_BYTES_MAX

CLUSTER_ID_SIZE: Final = 16
PORT: Final = 4795
"""Where a node listens unless told otherwise."""
_MESSAGE_BYTES_MAX: Final = ENVELOPE_BYTES_MAX - 1024 * 1024
"""Of the commands in one message; the rest is for what stands around them."""


class ClientBounds(Struct, frozen=True, kw_only=True):
    """What one client may ask for at a time."""

    connections_max: int = 256
    in_flight_max: int = 10_000
    """Requests of one connection that are not answered. Beyond it the connection is not read."""
    answer_seconds_max: float = 10.0
    """After so long a write that is neither done nor refused is answered with: unknown."""
    scan_keys_max: int = 10_000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise UsageError(f"{name} must be above 0, not {getattr(self, name)}")


class ClusterSettings(Struct, frozen=True, kw_only=True):
    """One node of one cluster."""

    cluster: bytes
    """16 bytes that no other cluster has. They stand in every signature."""
    listen: Address
    address: str
    """Where the others reach it."""
    bootstrap: Configuration | None = None
    """The first configuration of a new cluster. A node that joins has none."""
    raft: RaftConfig = RaftConfig()
    gossip: GossipConfig = GossipConfig(require_signatures=True)
    validation: MessageValidationConfig = MessageValidationConfig()
    clients: ClientBounds = ClientBounds()
    metrics: Metrics = Metrics()
    checkpoint_entries: int = 4_096
    """After so many entries the leader writes the root of its state into the log, and everybody compares."""

    def __post_init__(self) -> None:
        if len(self.cluster) != CLUSTER_ID_SIZE:
            raise UsageError(f"the id of a cluster has {CLUSTER_ID_SIZE} bytes, not {len(self.cluster)}")
        if self.listen.scheme is not Scheme.TLS:
            raise UsageError(f"nodes of a cluster listen with TLS alone: tls:host:port, not {self.listen}")
        if self.checkpoint_entries <= 0:
            raise UsageError(f"checkpoint_entries must be above 0, not {self.checkpoint_entries}")
        check_address(self.address)
        self._check_sizes()

    def _check_sizes(self) -> None:
        """Whether the others take what this node would send: else whoever lacks something would never catch up."""
        raft, validation = self.raft, self.validation
        if raft.append_entries_max > validation.max_blocks_per_request:
            raise UsageError(
                f"append_entries_max ({raft.append_entries_max:,}) must be at most max_blocks_per_request "
                f"({validation.max_blocks_per_request:,}), which is all that a receiver takes"
            )
        if raft.append_bytes_max + raft.command_bytes_max > _MESSAGE_BYTES_MAX:
            raise UsageError(
                f"append_bytes_max and command_bytes_max together must be at most {_MESSAGE_BYTES_MAX:,} bytes, "
                f"which fit into one message, not {raft.append_bytes_max + raft.command_bytes_max:,}"
            )
        if raft.snapshot_chunk_size > validation.max_snapshot_chunk_size:
            raise UsageError(
                f"snapshot_chunk_size ({raft.snapshot_chunk_size:,}) must be at most max_snapshot_chunk_size "
                f"({validation.max_snapshot_chunk_size:,}), which is all that a receiver takes"
            )
