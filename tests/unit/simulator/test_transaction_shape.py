"""Worlds of transactions are of every kind."""

from random import Random

from bobbin.simulator.transaction_shape import TROUBLES, WISHES, draw_roughness, draw_shape, draw_weights


def test_shapes_are_of_every_kind() -> None:
    shapes = [draw_shape(Random(seed)) for seed in range(300)]
    assert {shape.shards for shape in shapes} == {1, 2, 3, 4}
    for name in ("is_bytes", "is_rough", "is_judging"):
        assert {getattr(shape, name) for shape in shapes} == {True, False}, name
    for name in ("strikes", "refusals", "lag_ns_max", "keys", "troubles", "crowd", "bursts", "turn_ns"):
        assert len({getattr(shape, name) for shape in shapes}) > 2, name
    for name in ("lock_wait", "wound_wait", "optimistic_locking"):
        assert {getattr(shape.config, name) for shape in shapes} == {True, False}, name
    assert {(shape.crowd > 0, shape.turn_ns > 0) for shape in shapes} == {
        (a, b) for a in (True, False) for b in (True, False)
    }
    assert len({shape.detector.victim_policy for shape in shapes}) == 4


def test_some_worlds_are_about_one_wish() -> None:
    shapes = [draw_shape(Random(seed)) for seed in range(300)]
    assert all(len(shape.wishes) == len(WISHES) and sum(shape.wishes) > 0 for shape in shapes)
    only = {WISHES[shape.wishes.index(6)] for shape in shapes if 6 in shape.wishes}
    assert only >= {"transfer", "append", "skew", "count", "pair"}


def test_every_trouble_comes_somewhere_and_links_are_healed_everywhere() -> None:
    weights = [draw_weights(Random(seed)) for seed in range(100)]
    assert all(sum(column) > 0 for column in zip(*weights, strict=True))
    assert all(one[TROUBLES.index("heal")] > 0 for one in weights)
    assert {draw_roughness(Random(seed)).loss for seed in range(50)} == {0.0, 0.05, 0.2, 0.4}
