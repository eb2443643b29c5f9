"""Settings of a cluster: the names and defaults of Tensor Chain, and the combinations that cannot work.

Times are in milliseconds, sizes in bytes; MB is 1,048,576 bytes throughout. A setting that exists is valid: wrong ones
raise ``UsageError`` where they are made.
"""

from enum import Enum
from typing import Final

from msgspec import Struct

from bobbin.cluster.names import TERM_MAX, NodeId
from bobbin.errors import UsageError

MB: Final = 1_048_576


class RaftConfig(Struct, frozen=True, kw_only=True):
    """Consensus."""

    election_timeout: tuple[int, int] = (150, 300)
    """Bounds of the random election timeout, both included."""
    heartbeat_interval: int = 50
    rpc_timeout: int = 100
    """After so long without an answer, what was sent to a peer is taken for lost."""
    similarity_threshold: float = 0.95
    enable_fast_path: bool = True
    enable_pre_vote: bool = True
    enable_geometric_tiebreak: bool = True
    geometric_tiebreak_threshold: float = 0.3
    """Least bias for the tie-break to have an effect. It shortens a timeout, and never refuses a vote."""
    snapshot_threshold: int = 10_000
    """Entries in the log that allow a compaction."""
    snapshot_threshold_bytes: int = 256 * MB
    """Bytes of entries after the last snapshot that allow one as well, however few they are. Half of it may stay."""
    snapshot_trailing_logs: int = 100
    snapshot_chunk_size: int = MB
    snapshot_max_memory: int = 256 * MB
    snapshot_transfer_timeout_ms: int = 300_000
    transfer_timeout_ms: int = 1_000
    compaction_check_interval: int = 10
    """In ticks."""
    compaction_cooldown_ms: int = 60_000
    auto_heartbeat: bool = True
    max_heartbeat_failures: int = 3
    adaptive_backoff: bool = True
    backoff_power_max: int = 10
    quorum_size: int | None = None
    """Instead of a majority, and never below it (``check_voters``)."""
    learner_lag_max: int = 10
    """Entries behind commit at which a learner may still be promoted."""
    append_entries_max: int = 1_000
    append_bytes_max: int = MB
    """Of one message; a single larger entry still travels alone."""
    appends_in_flight_max: int = 8
    """Messages with entries on their way to one follower."""
    append_in_flight_bytes_max: int = 8 * MB
    """Of their entries. While so much is on its way to one follower, no further message leaves for it."""
    command_bytes_max: int = 3 * MB
    """A compare-and-swap of the key-value table holds two values of up to 1 MB, a key and a session."""
    proposals_waiting_max: int = 100_000
    """Entries of a leader that are not committed."""
    reads_waiting_max: int = 100_000

    def __post_init__(self) -> None:
        least, most = self.election_timeout
        if not 0 < least <= most:
            raise UsageError(f"election_timeout must rise from above 0, not {least} to {most} ms")
        if self.rpc_timeout >= least:
            raise UsageError(
                f"rpc_timeout ({self.rpc_timeout} ms) must be below the least election timeout ({least} ms)"
            )
        if self.heartbeat_interval <= 0 or self.heartbeat_interval * 2 > least:
            raise UsageError(
                f"heartbeat_interval ({self.heartbeat_interval} ms) must be above 0 and at most half of the least "
                f"election timeout ({least} ms)"
            )
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                raise UsageError(f"{name} must be above 0, not {getattr(self, name)}")
        for name in ("similarity_threshold", "geometric_tiebreak_threshold"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UsageError(f"{name} must be between 0 and 1, not {getattr(self, name)}")
        if self.snapshot_trailing_logs < 0 or self.learner_lag_max < 0 or self.backoff_power_max < 0:
            raise UsageError("snapshot_trailing_logs, learner_lag_max and backoff_power_max must not be negative")
        if self.snapshot_chunk_size > 10 * MB:
            raise UsageError("snapshot_chunk_size must be at most 10 MB, which is all that a receiver takes")
        if self.quorum_size is not None and self.quorum_size <= 0:
            raise UsageError(f"quorum_size must be above 0, not {self.quorum_size}")

    def check_voters(self, voters: int) -> None:
        """Raise ``UsageError`` when ``quorum_size`` does not fit so many voters.

        Below a majority there could be two quorums that share nobody; above the number of voters there is none.
        """
        majority = voters // 2 + 1
        if self.quorum_size is not None and not majority <= self.quorum_size <= voters:
            raise UsageError(f"quorum_size ({self.quorum_size}) of {voters} voters must be {majority} to {voters}")


_POSITIVE: Final = (
    "rpc_timeout",
    "snapshot_threshold",
    "snapshot_threshold_bytes",
    "snapshot_chunk_size",
    "snapshot_max_memory",
    "snapshot_transfer_timeout_ms",
    "transfer_timeout_ms",
    "compaction_check_interval",
    "compaction_cooldown_ms",
    "max_heartbeat_failures",
    "append_entries_max",
    "append_bytes_max",
    "appends_in_flight_max",
    "append_in_flight_bytes_max",
    "command_bytes_max",
    "proposals_waiting_max",
    "reads_waiting_max",
)

LAN: Final = RaftConfig()
"""Round trips below 10 ms."""
REGION: Final = RaftConfig(election_timeout=(500, 1_000), heartbeat_interval=150, rpc_timeout=300)
"""Round trips of 10 to 50 ms."""
WORLD: Final = RaftConfig(election_timeout=(2_000, 4_000), heartbeat_interval=500, rpc_timeout=1_500)
"""Longer round trips."""
PRESETS: Final = {"lan": LAN, "region": REGION, "world": WORLD}


class GossipConfig(Struct, frozen=True, kw_only=True):
    """Membership."""

    fanout: int = 3
    gossip_interval_ms: int = 200
    suspicion_timeout_ms: int = 5_000
    """Before a suspected node counts as failed, at ordinary local health and without confirmations from others."""
    max_states_per_message: int = 20
    geometric_routing: bool = True
    """One of the gossip targets is chosen by similarity."""
    indirect_ping_count: int = 3
    indirect_ping_timeout_ms: int = 500
    probe_interval_ms: int = 1_000
    probe_timeout_ms: int = 500
    require_signatures: bool = False
    max_message_age_ms: int = 300_000
    require_bidirectional: bool = True
    bidirectional_timeout_ms: int = 1_000
    heal_confirmations: int = 3
    max_incarnation_jump: int = 100
    flap_threshold: int = 5
    flap_backoff_ms: int = 1_000
    flap_backoff_max_ms: int = 300_000
    flap_memory_ms: int = 300_000
    local_health_max: int = 8
    """Lifeguard: the worst a node may think of itself, by which it stretches its own timeouts."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not isinstance(value, bool) and value <= 0:
                raise UsageError(f"{name} must be above 0, not {value}")
        if self.probe_timeout_ms + self.indirect_ping_timeout_ms > self.probe_interval_ms:
            raise UsageError("a probe, direct and then indirect, must be over before the next one begins")


class MessageValidationConfig(Struct, frozen=True, kw_only=True):
    """Bounds on what a peer may say. Turning them off leaves authentication and decoding limits on."""

    enabled: bool = True
    max_term: int = TERM_MAX
    max_shard_id: int = 65_536
    max_tx_timeout_ms: int = 300_000
    max_node_id_len: int = 256
    max_key_len: int = 4_096
    max_embedding_dimension: int = 65_536
    max_embedding_magnitude: float = 1_000_000.0
    max_query_len: int = MB
    max_message_age_ms: int = 300_000
    max_blocks_per_request: int = 1_000
    max_snapshot_chunk_size: int = 10 * MB

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not isinstance(value, bool) and value <= 0:
                raise UsageError(f"{name} must be above 0, not {value}")


def _check_numbers(config: Struct) -> None:
    for name in config.__struct_fields__:
        value = getattr(config, name)
        if isinstance(value, int | float) and not isinstance(value, bool) and not value > 0:
            raise UsageError(f"{name} must be above 0, not {value}")


class DistributedTxConfig(Struct, frozen=True, kw_only=True):
    """Transactions over shards."""

    max_concurrent: int = 100
    """Open ones at one coordinator; the next is refused."""
    warn_share: float = 0.8
    """Of ``max_concurrent``, from which on a person should know."""
    prepare_timeout_ms: int = 5_000
    """For all votes."""
    commit_timeout_ms: int = 10_000
    """After so long a coordinator stops waiting for acknowledgements, and goes on delivering."""
    orthogonal_threshold: float = 0.1
    """Cosine from which the parts of one transaction count as alike. A warning, never a refusal."""
    optimistic_locking: bool = True
    """Let geometry add refusals. Versions decide either way."""
    lock_timeout_ms: int = 30_000
    """A lock whose transaction has not been promised is free after so long."""
    lock_wait: bool = False
    """Wait for keys that others hold, up to the timeout of the prepare. Otherwise the vote is no at once."""
    wound_wait: bool = False
    """With ``lock_wait``: an older transaction aborts a younger one in its way; the younger ones wait."""
    query_timeout_ms: int = 5_000
    """Between two questions of a prepared participant."""
    prepare_handler_timeout_ms: int = 3_000
    """Before a prepare that was not answered is sent again."""
    decision_handler_timeout_ms: int = 2_000
    """Before a commit that was not acknowledged is sent again, for the first time; then twice as long each time."""
    sweep_interval_ms: int = 30_000
    abort_retry_ms: int = 1_000
    """Before an abort is sent again, for the first time; then twice as long each time."""
    abort_tries_max: int = 5
    abort_forget_ms: int = 30_000

    def __post_init__(self) -> None:
        _check_numbers(self)
        if not self.warn_share <= 1:
            raise UsageError(f"warn_share is a share of 1, not {self.warn_share}")
        if self.lock_timeout_ms <= self.prepare_timeout_ms:
            raise UsageError(
                f"lock_timeout_ms ({self.lock_timeout_ms}) must exceed prepare_timeout_ms ({self.prepare_timeout_ms}): "
                "locks would go while their transaction is being prepared"
            )
        if self.wound_wait and not self.lock_wait:
            raise UsageError("wound_wait is about transactions that wait: it needs lock_wait")


class VictimSelectionPolicy(Enum):
    """Who of a circle of waiting transactions has to go."""

    YOUNGEST = "youngest"
    """The one that was first tried last."""
    OLDEST = "oldest"
    """The one whose wait began first."""
    LOWEST_PRIORITY = "lowest-priority"
    """The one with the highest value."""
    MOST_LOCKS = "most-locks"


class DeadlockDetectorConfig(Struct, frozen=True, kw_only=True):
    """The search for circles of waiting transactions."""

    enabled: bool = True
    detection_interval_ms: int = 100
    victim_policy: VictimSelectionPolicy = VictimSelectionPolicy.YOUNGEST
    max_cycle_length: int = 100
    """A longer one is broken like any other, and counted."""
    auto_abort_victim: bool = True
    """Off: circles are reported, and nobody is aborted."""

    def __post_init__(self) -> None:
        _check_numbers(self)


class AutoMergeConfig(Struct, frozen=True, kw_only=True):
    """Group commit: several workspaces that asked to commit share a block."""

    enabled: bool = True
    orthogonal_threshold: float = 0.1
    max_merge_batch: int = 10
    merge_window_ms: int = 100
    """How long a workspace that asked to commit may be taken along by another one."""

    def __post_init__(self) -> None:
        _check_numbers(self)


class ChainConfig(Struct, frozen=True, kw_only=True):
    """The chain of one shard."""

    node_id: NodeId | None = None
    """None: one by chance."""
    max_transactions: int = 1_000
    """Operations of a block that this node makes. It takes blocks of others with up to 1,000."""
    conflict_threshold: float = 0.7
    embedding_dimension: int = 128
    """Pinned: it is part of genesis, and so of every block."""
    auto_merge: AutoMergeConfig = AutoMergeConfig()

    def __post_init__(self) -> None:
        if not 0 < self.max_transactions <= 1_000:
            raise UsageError(f"a block has 1 to 1,000 operations, not {self.max_transactions}")
        if not 0 < self.conflict_threshold <= 1:
            raise UsageError(f"conflict_threshold lies in (0, 1], not at {self.conflict_threshold}")
        if not 0 < self.embedding_dimension <= 65_536:
            raise UsageError(f"an embedding has 1 to 65,536 dimensions, not {self.embedding_dimension}")
