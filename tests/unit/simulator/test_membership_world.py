"""A membership world: what it draws, that it is its seed, and that it says what was broken."""

from random import Random
from unittest.mock import patch

import pytest

from bobbin.cluster.membership.dissemination import Dissemination
from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.simulator import membership_world
from bobbin.simulator.membership_world import MembershipWorld, draw_config, draw_shape
from bobbin.simulator.world import Broken


def test_shapes_and_settings_are_of_every_kind() -> None:
    shapes = [draw_shape(Random(seed)) for seed in range(300)]
    for name in ("is_lied_to", "is_quiet", "dies_late"):
        assert {getattr(shape, name) for shape in shapes} == {True, False}, name
    assert (min(shape.members for shape in shapes), max(shape.members for shape in shapes)) == (2, 12)
    configs = [draw_config(Random(seed)) for seed in range(300)]
    for name in ("fanout", "geometric_routing", "require_bidirectional", "local_health_max", "max_states_per_message"):
        assert len({getattr(config, name) for config in configs}) > 1, name


def test_one_seed_is_one_world() -> None:
    digests = set()
    for _ in range(2):
        world = MembershipWorld(1, is_traced=True)
        assert world.run()["worlds"] == 1
        digests.add(world.digest)
    assert len(digests) == 1


def test_wall_clocks_hours_apart_make_no_difference() -> None:
    """A world whose clocks differ and jump by hours is, step for step, the one where they are right."""
    digests = set()
    for skew in (0, membership_world.HOUR_NS):
        with patch.object(membership_world, "SKEW_NS", skew):
            world = MembershipWorld(4, is_traced=True)
            world.run()
        digests.add(world.digest)
    assert len(digests) == 1


def test_a_broken_promise_names_its_seed() -> None:
    def fail(self: MembershipMachine) -> None:
        del self
        raise AssertionError("on purpose")

    with patch.object(MembershipMachine, "check", fail), pytest.raises(Broken, match="seed 4: an invariant does not"):
        MembershipWorld(4).run()


def test_views_that_never_become_equal_are_found() -> None:
    # Everybody tells of itself alone, and that does not reach who is told nothing of the dead.
    def next_states(self: Dissemination) -> tuple[object, ...]:
        return tuple(sorted(self._table.states.values(), key=lambda one: -one.timestamp)[: self._states_max])

    with patch.object(Dissemination, "next", next_states), pytest.raises(Broken, match="seed 1: M4"):
        MembershipWorld(1).run()
