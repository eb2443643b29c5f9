"""A world of one graph and its observers: what it draws, that it is its seed, and that it says what was broken."""

from random import Random
from unittest.mock import patch

import pytest

from bobbin.reactive.mirror import Mirror
from bobbin.simulator.reactive_world import ReactiveWorld, draw_shape
from bobbin.simulator.world import Broken


def test_shapes_are_of_every_kind() -> None:
    shapes = [draw_shape(Random(seed)) for seed in range(200)]
    for name in ("is_lazy", "is_live", "is_hostile", "reuses"):
        assert {getattr(shape, name) for shape in shapes} == {True, False}, name
    assert not any(shape.is_lazy and shape.is_live for shape in shapes)


def test_one_seed_is_one_world() -> None:
    digests = set()
    for _ in range(2):
        world = ReactiveWorld(1, is_traced=True)
        assert world.run()["worlds"] == 1
        digests.add(world.digest)
    assert len(digests) == 1


def test_a_broken_promise_names_its_seed() -> None:
    def fail(self: Mirror) -> None:
        del self
        raise AssertionError("on purpose")

    with patch.object(Mirror, "check", fail), pytest.raises(Broken, match="seed 4: an invariant does not hold"):
        ReactiveWorld(4).run()
