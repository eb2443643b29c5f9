"""A node that fails and comes back again and again is held back, each time for longer.

A transition is a change to failed, or from it. From the fifth on (``flap_threshold``) the node is held back for 1, 2, 4
and so on seconds, at most 300; after 300 seconds without one the count begins anew.
"""

from msgspec import Struct

from bobbin.cluster.names import MILLISECOND_NS
from bobbin.cluster.settings import GossipConfig


class Flaps(Struct):
    """What is remembered of one node."""

    transitions: int = 0
    last_ns: int = 0
    held_until_ns: int = 0

    def note(self, config: GossipConfig, now_ns: int) -> int:
        """A transition; for how many milliseconds the node is held back from now on."""
        if now_ns - self.last_ns >= config.flap_memory_ms * MILLISECOND_NS:
            self.transitions = 0
        self.transitions += 1
        self.last_ns = now_ns
        held = hold_ms(config, self.transitions)
        self.held_until_ns = now_ns + held * MILLISECOND_NS
        return held

    def is_held(self, now_ns: int) -> bool:
        return now_ns < self.held_until_ns


def hold_ms(config: GossipConfig, transitions: int) -> int:
    """For how long a node is held back at its so many-th transition."""
    beyond = transitions - config.flap_threshold
    if beyond < 0:
        return 0
    # A power beyond the bound is not worked out.
    doublings = min(beyond, config.flap_backoff_max_ms.bit_length())
    return min(config.flap_backoff_ms << doublings, config.flap_backoff_max_ms)
