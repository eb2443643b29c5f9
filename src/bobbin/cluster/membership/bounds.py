"""How soon the members of a cluster agree, and know of a death: bounds that follow from the settings."""

from math import ceil, log2
from typing import Final

from bobbin.cluster.settings import GossipConfig

CONVERGENCE: Final = 4
"""Gossip rounds, times log2 of the members, in which a word is everywhere, and the answers to it."""


def dissemination_ms_max(config: GossipConfig, members: int) -> int:
    """M4: without faults, all live views are equal in every field after so long.

    That is ``CONVERGENCE`` times log2 n gossip rounds, for each message that the whole table takes.
    """
    messages = ceil(members / config.max_states_per_message)
    return CONVERGENCE * ceil(log2(max(2, members))) * messages * config.gossip_interval_ms


def detection_ms_max(config: GossipConfig, members: int, *, score: int = 0) -> int:
    """M5: from a death until it is in every live view, at most ``h (2 (n - 1) p + s) + d``.

    A peer's turn comes within ``2 (n - 1)`` probe intervals ``p``; then it is suspected for ``s``; then the word
    spreads for ``d``. ``h`` is one plus ``score``, the worst local health of the one that notices it first.
    """
    probing = 2 * (members - 1) * config.probe_interval_ms + config.suspicion_timeout_ms
    return (1 + score) * probing + dissemination_ms_max(config, members)
