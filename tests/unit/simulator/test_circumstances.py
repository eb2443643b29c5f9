"""What is drawn is valid, and everything is drawn sooner or later."""

from random import Random

from bobbin.interlace.config import Bounded, Open
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.setup import Party
from bobbin.policy.modules import compile_selector
from bobbin.simulator.circumstances import (
    calm_config,
    draw_circumstances,
    draw_config,
    draw_limits,
    draw_service,
    draw_weather,
)

SELECTOR = compile_selector("SelectHave(P) :- Have(P).\n")
NOBODY = Party(verifier=None)


def test_worlds_differ() -> None:
    drawn = [draw_circumstances(Random(seed)) for seed in range(300)]
    for name in ("is_hostile", "is_bytes", "is_disk", "has_faults", "is_tight", "is_clustered", "one_policy"):
        assert {getattr(one, name) for one in drawn} == {True, False}, name
    assert {one.nodes for one in drawn} == {2, 3}


def test_limits_and_budgets_are_small_now_and_then_and_always_valid() -> None:
    limits = [draw_limits(Random(seed)) for seed in range(100)]
    services = [draw_service(Random(seed)) for seed in range(100)]
    for name in Limits.__struct_fields__:
        assert any(getattr(one, name) < getattr(Limits(), name) for one in limits), name
    assert any(one.chunk_records_max < Service().chunk_records_max for one in services)


def test_an_exchange_is_drawn_with_every_lifecycle_and_always_checked() -> None:
    configs = [
        draw_config(
            Random(seed), SELECTOR, own=NOBODY, peer=NOBODY, initiator=True, is_tight=seed % 2 == 0, cursor_key="x"
        )
        for seed in range(60)
    ]
    assert all(config.checking for config in configs)
    assert {type(config.lifecycle) for config in configs} == {Bounded, Open}
    assert any(config.parameters for config in configs)


def test_a_calm_exchange_is_bounded_and_has_room() -> None:
    config = calm_config(SELECTOR, own=NOBODY, peer=NOBODY, initiator=True, cursor_key=None, list_outright_max=3)
    assert config.lifecycle == Bounded()
    assert config.limits.max_loop_iterations >= 64
    assert config.checking


def test_weather_without_faults_breaks_nothing() -> None:
    fair = [draw_weather(Random(seed), has_faults=False) for seed in range(30)]
    foul = [draw_weather(Random(seed), has_faults=True) for seed in range(30)]
    assert all(one.break_rate == one.drip_rate == 0.0 for one in fair)
    assert any(one.break_rate for one in foul)
    assert any(one.drip_rate for one in foul)
