"""Bounds on how soon members agree, worked out from the settings."""

from bobbin.cluster.membership.bounds import detection_ms_max, dissemination_ms_max
from bobbin.cluster.settings import GossipConfig

CONFIG = GossipConfig()


def test_words_spread_in_four_times_log_n_rounds_for_each_message() -> None:
    assert dissemination_ms_max(CONFIG, 2) == 4 * 200
    assert dissemination_ms_max(CONFIG, 10) == 4 * 4 * 200
    assert dissemination_ms_max(CONFIG, 100) == 4 * 7 * 5 * 200
    assert dissemination_ms_max(GossipConfig(gossip_interval_ms=50), 16) == 4 * 4 * 50


def test_a_death_is_known_after_two_passes_of_probes_and_a_suspicion() -> None:
    assert detection_ms_max(CONFIG, 10) == 18_000 + 5_000 + 3_200
    assert detection_ms_max(CONFIG, 10, score=2) == 3 * 23_000 + 3_200
    assert detection_ms_max(CONFIG, 100) == 198_000 + 5_000 + 28_000
