"""A world of tangles: what it draws, that it is its seed, and that it says what was broken."""

from random import Random
from unittest.mock import patch

import pytest

from bobbin.simulator.tangle_world import TangleWorld, draw_shape
from bobbin.simulator.world import Broken
from bobbin.tangles.session_news import News


def test_shapes_are_of_every_kind() -> None:
    shapes = [draw_shape(Random(seed)) for seed in range(200)]
    for name in ("is_hostile", "is_disk", "has_faults", "is_plain", "size_by_count"):
        assert {getattr(shape, name) for shape in shapes} == {True, False}, name
    assert {all(shape.modes) for shape in shapes} == {any(shape.modes) for shape in shapes} == {True, False}
    assert all(len(shape.modes) == shape.nodes - 1 for shape in shapes)


def test_one_seed_is_one_world() -> None:
    digests = set()
    for _ in range(2):
        world = TangleWorld(1, is_traced=True)
        assert world.run()["worlds"] == 1
        digests.add(world.digest)
    assert len(digests) == 1


def test_a_broken_promise_names_its_seed() -> None:
    def lose(self: News, messages: object) -> list[object]:
        del self, messages
        raise AssertionError("on purpose")

    with patch.object(News, "came", lose), pytest.raises(Broken, match="seed 4: an invariant does not hold"):
        TangleWorld(4).run()
