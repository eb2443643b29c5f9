"""Nodes that come and go are held back for longer and longer, up to a bound, and forgiven after a calm."""

from bobbin.cluster.membership.flapping import Flaps, hold_ms
from bobbin.cluster.names import MILLISECOND_NS
from bobbin.cluster.settings import GossipConfig

CONFIG = GossipConfig()
SECOND_NS = 1_000 * MILLISECOND_NS


def test_from_the_fifth_transition_on_it_doubles_up_to_300_seconds() -> None:
    held = [hold_ms(CONFIG, count) // 1_000 for count in range(1, 16)]
    assert held == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert hold_ms(CONFIG, 10**9) == 300_000, "however often: no power is worked out"


def test_a_node_is_held_for_that_long() -> None:
    flaps = Flaps()
    held = [flaps.note(CONFIG, number * SECOND_NS) for number in range(1, 6)]
    assert held == [0, 0, 0, 0, 1_000]
    assert flaps.is_held(6 * SECOND_NS - 1)
    assert not flaps.is_held(6 * SECOND_NS)


def test_it_is_forgotten_after_300_seconds_of_calm_and_not_before() -> None:
    flaps = Flaps()
    for number in range(1, 6):
        flaps.note(CONFIG, number * SECOND_NS)
    assert flaps.note(CONFIG, 304 * SECOND_NS) == 2_000
    assert flaps.note(CONFIG, 604 * SECOND_NS) == 0
    assert flaps.transitions == 1
