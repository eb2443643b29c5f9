import pytest

from bobbin.datalog.limits import DEFAULT, PEER, Limits


def test_the_defaults_of_the_protocol_page() -> None:
    assert DEFAULT.program_bytes_max == 262_144
    assert DEFAULT.rules_max == 1_024
    assert DEFAULT.literals_max == 32
    assert DEFAULT.variables_max == 64
    assert DEFAULT.arity_max == 16
    assert DEFAULT.constant_bytes_max == 4_096
    assert DEFAULT.strata_max == 64
    assert DEFAULT.derived_tuples_max == 1_000_000
    assert DEFAULT.rounds_max == 10_000


def test_what_the_page_leaves_open_is_bounded_too() -> None:
    for name in ("steps_max", "computed_values_max", "held_cells_max", "diagnostics_max"):
        assert 0 < getattr(DEFAULT, name) <= 10**9


def test_limits_can_be_set_and_do_not_change() -> None:
    limits = Limits(rules_max=3)
    assert limits.rules_max == 3
    assert limits.literals_max == DEFAULT.literals_max
    with pytest.raises(AttributeError):
        limits.rules_max = 4  # type: ignore[misc]


def test_what_a_peer_wrote_may_cost_less() -> None:
    lower = ("derived_tuples_max", "rounds_max", "steps_max", "computed_values_max", "held_cells_max")
    for name in Limits.__struct_fields__:
        own, peer = getattr(DEFAULT, name), getattr(PEER, name)
        assert peer < own if name in lower else peer == own, name
