from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from bobbin.cluster.settings import (
    LAN,
    MB,
    PRESETS,
    REGION,
    WORLD,
    GossipConfig,
    MessageValidationConfig,
    RaftConfig,
)
from bobbin.errors import UsageError

_RAFT = {
    "election_timeout": (150, 300),
    "heartbeat_interval": 50,
    "rpc_timeout": 100,
    "similarity_threshold": 0.95,
    "enable_fast_path": True,
    "enable_pre_vote": True,
    "enable_geometric_tiebreak": True,
    "geometric_tiebreak_threshold": 0.3,
    "snapshot_threshold": 10_000,
    "snapshot_threshold_bytes": 256 * 1_048_576,
    "snapshot_trailing_logs": 100,
    "snapshot_chunk_size": 1_048_576,
    "snapshot_max_memory": 268_435_456,
    "snapshot_transfer_timeout_ms": 300_000,
    "transfer_timeout_ms": 1_000,
    "compaction_check_interval": 10,
    "compaction_cooldown_ms": 60_000,
    "auto_heartbeat": True,
    "max_heartbeat_failures": 3,
    "adaptive_backoff": True,
    "backoff_power_max": 10,
    "quorum_size": None,
    "learner_lag_max": 10,
    "append_entries_max": 1_000,
    "append_bytes_max": 1_048_576,
    "appends_in_flight_max": 8,
    "append_in_flight_bytes_max": 8 * 1_048_576,
    "command_bytes_max": 3_145_728,
    "proposals_waiting_max": 100_000,
    "reads_waiting_max": 100_000,
}
_GOSSIP = {
    "fanout": 3,
    "gossip_interval_ms": 200,
    "suspicion_timeout_ms": 5_000,
    "max_states_per_message": 20,
    "geometric_routing": True,
    "indirect_ping_count": 3,
    "indirect_ping_timeout_ms": 500,
    "probe_interval_ms": 1_000,
    "probe_timeout_ms": 500,
    "require_signatures": False,
    "max_message_age_ms": 300_000,
    "require_bidirectional": True,
    "bidirectional_timeout_ms": 1_000,
    "heal_confirmations": 3,
    "max_incarnation_jump": 100,
    "flap_threshold": 5,
    "flap_backoff_ms": 1_000,
    "flap_backoff_max_ms": 300_000,
    "flap_memory_ms": 300_000,
    "local_health_max": 8,
}
_VALIDATION = {
    "enabled": True,
    "max_term": 18_446_744_073_709_551_614,
    "max_shard_id": 65_536,
    "max_tx_timeout_ms": 300_000,
    "max_node_id_len": 256,
    "max_key_len": 4_096,
    "max_embedding_dimension": 65_536,
    "max_embedding_magnitude": 1_000_000.0,
    "max_query_len": 1_048_576,
    "max_message_age_ms": 300_000,
    "max_blocks_per_request": 1_000,
    "max_snapshot_chunk_size": 10_485_760,
}


_SHARES = ["similarity_threshold", "geometric_tiebreak_threshold"]
_MAY_BE_ZERO = ["snapshot_trailing_logs", "learner_lag_max", "backoff_power_max"]


def _names(values: Mapping[str, object]) -> list[str]:
    """Settings that are numbers above 0."""
    return [name for name, value in values.items() if isinstance(value, int | float) and not isinstance(value, bool)]


@pytest.mark.parametrize(("name", "value"), _RAFT.items(), ids=_RAFT)
def test_defaults_of_consensus(name: str, value: object) -> None:
    found = getattr(RaftConfig(), name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(("name", "value"), _GOSSIP.items(), ids=_GOSSIP)
def test_defaults_of_membership(name: str, value: object) -> None:
    found = getattr(GossipConfig(), name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(("name", "value"), _VALIDATION.items(), ids=_VALIDATION)
def test_defaults_of_the_bounds_on_messages(name: str, value: object) -> None:
    found = getattr(MessageValidationConfig(), name)
    assert found == value
    assert type(found) is type(value)


def test_no_setting_is_without_its_row_above() -> None:
    assert set(RaftConfig.__struct_fields__) == _RAFT.keys()
    assert set(GossipConfig.__struct_fields__) == _GOSSIP.keys()
    assert set(MessageValidationConfig.__struct_fields__) == _VALIDATION.keys()


def test_a_megabyte_is_one_number_of_bytes_throughout() -> None:
    assert MB == 1_048_576 == 2**20


@pytest.mark.parametrize(
    ("name", "preset", "election", "heartbeat"),
    [
        ("lan", LAN, (150, 300), 50),
        ("region", REGION, (500, 1_000), 150),
        ("world", WORLD, (2_000, 4_000), 500),
    ],
)
def test_the_presets_have_their_values_and_pass_the_tests(
    name: str, preset: RaftConfig, election: tuple[int, int], heartbeat: int
) -> None:
    assert PRESETS[name] is preset
    assert (preset.election_timeout, preset.heartbeat_interval) == (election, heartbeat)
    again = RaftConfig(
        election_timeout=preset.election_timeout,
        heartbeat_interval=preset.heartbeat_interval,
        rpc_timeout=preset.rpc_timeout,
    )
    assert again == preset


def test_there_are_three_presets() -> None:
    assert list(PRESETS) == ["lan", "region", "world"]


@pytest.mark.parametrize("wrong", [{"rpc_timeout": 150}, {"rpc_timeout": 151}, {"heartbeat_interval": 76}])
def test_timeouts_that_would_never_elect_a_leader_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        replace(RaftConfig(), **wrong)


def test_timeouts_at_the_edge_are_accepted() -> None:
    assert RaftConfig(rpc_timeout=149, heartbeat_interval=75).heartbeat_interval == 75


@pytest.mark.parametrize("bounds", [(300, 150), (0, 0), (-150, 300), (0, 300)])
def test_an_election_timeout_rises_from_above_zero(bounds: tuple[int, int]) -> None:
    with pytest.raises(UsageError):
        RaftConfig(election_timeout=bounds)


def test_an_election_timeout_may_be_one_value() -> None:
    assert RaftConfig(election_timeout=(200, 200)).election_timeout == (200, 200)


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize(
    "name",
    [name for name in _names(_RAFT) if name not in _SHARES and name not in _MAY_BE_ZERO],
)
def test_numbers_of_consensus_are_above_zero(name: str, value: int) -> None:
    with pytest.raises(UsageError, match=name):
        replace(RaftConfig(), **{name: value})


@pytest.mark.parametrize("name", _MAY_BE_ZERO)
def test_some_may_be_zero_and_none_is_negative(name: str) -> None:
    assert getattr(replace(RaftConfig(), **{name: 0}), name) == 0
    with pytest.raises(UsageError, match=name):
        replace(RaftConfig(), **{name: -1})


@pytest.mark.parametrize("name", _SHARES)
def test_thresholds_are_shares(name: str) -> None:
    for value in (0.0, 1.0):
        assert getattr(replace(RaftConfig(), **{name: value}), name) == value
    for value in (-0.01, 1.01, float("nan"), float("inf")):
        with pytest.raises(UsageError, match=name):
            replace(RaftConfig(), **{name: value})


def test_a_chunk_is_no_larger_than_what_a_receiver_takes() -> None:
    largest = MessageValidationConfig().max_snapshot_chunk_size
    assert RaftConfig(snapshot_chunk_size=largest).snapshot_chunk_size == largest
    with pytest.raises(UsageError):
        RaftConfig(snapshot_chunk_size=largest + 1)


@pytest.mark.parametrize(("voters", "least"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)])
def test_a_quorum_below_a_majority_is_refused(voters: int, least: int) -> None:
    RaftConfig().check_voters(voters)
    for size in range(1, voters + 2):
        config = RaftConfig(quorum_size=size)
        if least <= size <= voters:
            config.check_voters(voters)
        else:
            with pytest.raises(UsageError):
                config.check_voters(voters)


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize("name", _names(_GOSSIP))
def test_numbers_of_membership_are_above_zero(name: str, value: int) -> None:
    with pytest.raises(UsageError, match=name):
        replace(GossipConfig(), **{name: value})


def test_a_probe_is_over_before_the_next_begins() -> None:
    assert GossipConfig(probe_timeout_ms=300, indirect_ping_timeout_ms=700).probe_timeout_ms == 300
    with pytest.raises(UsageError):
        GossipConfig(probe_timeout_ms=501)


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize("name", _names(_VALIDATION))
def test_bounds_on_messages_are_above_zero(name: str, value: int) -> None:
    with pytest.raises(UsageError, match=name):
        replace(MessageValidationConfig(), **{name: value})
