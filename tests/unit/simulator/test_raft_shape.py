"""What is drawn for a world of a cluster: everything now and then, and nothing that cannot be."""

from random import Random

from msgspec import structs

from bobbin.cluster.raft.judging import AHEAD_MAX
from bobbin.simulator.raft_shape import (
    TROUBLES,
    JudgeShape,
    draw_embedding,
    draw_judge,
    draw_jump_ns,
    draw_roughness,
    draw_shape,
    draw_speed,
    draw_weights,
)


def test_shapes_are_of_every_kind() -> None:
    shapes = [draw_shape(Random(seed)) for seed in range(300)]
    for name in shapes[0].__struct_fields__:
        if name.startswith(("is_", "has_")):
            assert {getattr(shape, name) for shape in shapes} == {True, False}, name
    assert {shape.voters for shape in shapes} == {3, 5, 7}
    assert {shape.spares for shape in shapes} == {0, 1, 2}
    assert not any(shape.is_rotting and shape.is_changing for shape in shapes)
    assert {shape.config.enable_pre_vote for shape in shapes} == {True, False}


def test_troubles_have_their_weights() -> None:
    seen: set[str] = set()
    for seed in range(60):
        random = Random(seed)
        shape = draw_shape(random)
        weights = dict(zip(TROUBLES, draw_weights(random, shape), strict=True))
        seen.update(trouble for trouble, weight in weights.items() if weight)
        assert bool(weights["vice"]) == shape.is_hostile
        assert bool(weights["change"]) == shape.is_changing
        assert shape.has_bad_disks or not weights["bad disk"] + weights["full disk"]
        assert weights["heal"] > 0
    assert seen == set(TROUBLES)


def test_a_third_of_the_worlds_have_judges_mostly_with_little_room() -> None:
    judges = [judge for judge in (draw_judge(Random(seed)) for seed in range(600)) if judge is not None]
    assert 150 < len(judges) < 250
    assert {judge.ahead_max for judge in judges} == {1, 2, 3, 4, AHEAD_MAX}
    assert sum(judge.ahead_max <= 4 for judge in judges) > 0.7 * len(judges)
    assert {judge.blindness for judge in judges} == {0.0, 0.3, 1.0}
    assert all(judge.lag < 1 for judge in judges)


def test_all_nodes_of_a_world_with_judges_crash_at_once_more_often() -> None:
    shape = draw_shape(Random(1))
    judged = structs.replace(shape, judge=JudgeShape())
    at = TROUBLES.index("crash all")
    weights, more = draw_weights(Random(2), shape), draw_weights(Random(2), judged)
    assert more[at] == weights[at] + 2
    assert more[:at] + more[at + 1 :] == weights[:at] + weights[at + 1 :], "nothing else is drawn otherwise"


def test_the_rest_is_within_its_bounds() -> None:
    random = Random(1)
    for _ in range(50):
        rough = draw_roughness(random)
        assert 0 <= rough.loss <= 0.3
        assert rough.delay_ns_min <= rough.delay_ns_max
        assert draw_speed(random).write_ns_max > 0
        assert abs(draw_jump_ns(random)) <= 3_600 * 10**9
        assert draw_embedding(random).dimension == 4
