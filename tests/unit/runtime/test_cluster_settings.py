"""What a node of a cluster is told."""

import pytest

from bobbin.cluster.settings import PRESETS, MessageValidationConfig, RaftConfig
from bobbin.errors import UsageError
from bobbin.runtime.cluster_settings import ClientBounds, ClusterSettings
from bobbin.wire import address

_LISTEN = address.parse("tls:127.0.0.1:0", to_listen=True)


def test_gossip_is_signed_unless_told_otherwise() -> None:
    settings = ClusterSettings(cluster=bytes(16), listen=_LISTEN, address="tls:127.0.0.1:1")
    assert settings.gossip.require_signatures


@pytest.mark.parametrize(
    ("cluster", "listen", "reached"),
    [
        (bytes(15), "tls:127.0.0.1:1", "tls:127.0.0.1:1"),
        (bytes(16), "tcp:127.0.0.1:1", "tls:127.0.0.1:1"),
        (bytes(16), "tls:127.0.0.1:1", "tcp:127.0.0.1:1"),
    ],
)
def test_what_cannot_work_is_refused(cluster: bytes, listen: str, reached: str) -> None:
    with pytest.raises(UsageError):
        ClusterSettings(cluster=cluster, listen=address.parse(listen), address=reached)


def test_bounds_are_above_zero() -> None:
    with pytest.raises(UsageError, match="in_flight_max"):
        ClientBounds(in_flight_max=0)
    with pytest.raises(UsageError, match="checkpoint_entries"):
        ClusterSettings(cluster=bytes(16), listen=_LISTEN, address="tls:127.0.0.1:1", checkpoint_entries=0)


@pytest.mark.parametrize(
    "raft",
    [
        RaftConfig(append_entries_max=1_001),
        RaftConfig(append_bytes_max=13 * 1024 * 1024),
        RaftConfig(command_bytes_max=15 * 1024 * 1024),
        RaftConfig(snapshot_chunk_size=1024 * 1024 + 1),
    ],
)
def test_nothing_is_sent_that_the_others_would_refuse(raft: RaftConfig) -> None:
    validation = MessageValidationConfig(max_snapshot_chunk_size=1024 * 1024)
    with pytest.raises(UsageError, match="at most"):
        ClusterSettings(cluster=bytes(16), listen=_LISTEN, address="tls:127.0.0.1:1", raft=raft, validation=validation)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_fits(preset: str) -> None:
    settings = ClusterSettings(cluster=bytes(16), listen=_LISTEN, address="tls:127.0.0.1:1", raft=PRESETS[preset])
    assert settings.raft is PRESETS[preset]
