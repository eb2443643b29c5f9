"""Limits: the defaults of the protocol page, and the smaller value of two sides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bobbin.errors import UsageError
from bobbin.interlace.limits import NAMES, PROFILES, VALUE_MAX, Limits, Service

_VALUES = st.integers(1, VALUE_MAX)
_LIMITS = st.fixed_dictionaries(dict.fromkeys(NAMES, _VALUES)).map(lambda values: Limits(**values))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("max_fact_block_size", 64 * 2**20, id="IL-276"),
        pytest.param("max_advertisement_records_listed", 100_000, id="IL-277"),
        pytest.param("max_partition_summaries", 16_384, id="IL-278"),
        pytest.param("max_narrowing_depth", 12, id="IL-279"),
        pytest.param("max_total_transferred_bytes", 2**30, id="IL-280"),
        pytest.param("max_loop_iterations", 16, id="IL-281"),
        pytest.param("phase_timeout", 30, id="IL-282"),
    ],
)
def test_the_defaults_are_those_of_the_protocol_page(name: str, value: int) -> None:
    """IL-276, IL-277, IL-278, IL-279, IL-280, IL-281, IL-282: the values. Whoever counts makes them hold."""
    assert getattr(Limits(), name) == value
    assert PROFILES["default"] == Limits()


def test_ilc_117_exactly_these_names_are_told() -> None:
    """ILC-117: and each of them is one of the limits, in the same order."""
    assert Limits.__struct_fields__ == NAMES
    assert tuple(Limits().advertised()) == NAMES
    assert Limits(phase_timeout=7).advertised()["phase_timeout"] == 7


@given(_LIMITS, st.dictionaries(st.sampled_from([*NAMES, "max_patience"]), _VALUES))
def test_il_144_the_smaller_value_holds(local: Limits, told: dict[str, int]) -> None:
    """IL-144, IL-143: for each name by itself; a name that is not told, or not known, changes nothing."""
    agreed = local.negotiated(told)
    for name in NAMES:
        assert getattr(agreed, name) == min(getattr(local, name), told.get(name, VALUE_MAX))


@given(_LIMITS, _LIMITS)
def test_il_144_both_sides_reach_the_same_limits(one: Limits, another: Limits) -> None:
    """IL-144."""
    assert one.negotiated(another.advertised()) == another.negotiated(one.advertised())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [0, -1, 2**64])
def test_ilc_138_a_limit_has_a_range(name: str, value: int) -> None:
    """ILC-138."""
    with pytest.raises(UsageError, match=name):
        structs.replace(Limits(), **{name: value})
    assert getattr(structs.replace(Limits(), **{name: VALUE_MAX}), name) == 2**64 - 1


def test_the_large_profile_is_never_below_the_default() -> None:
    large = PROFILES["large"]
    assert all(getattr(large, name) >= getattr(Limits(), name) for name in NAMES)
    assert large.max_partition_summaries >= 64**3


@pytest.mark.parametrize("name", Service.__struct_fields__)
@pytest.mark.parametrize("value", [0, -1, 2**64])
def test_what_is_served_has_a_range(name: str, value: int) -> None:
    with pytest.raises(UsageError):
        structs.replace(Service(), **{name: value})


def test_a_tick_interval_that_nobody_would_accept_is_refused() -> None:
    with pytest.raises(UsageError):
        Service(tick_interval_ns=11, tick_interval_ns_max=10)
    assert Service(tick_interval_ns=10, tick_interval_ns_max=10).tick_interval_ns == 10


def test_ilc_144_five_minutes_of_skew_are_accepted() -> None:
    """ILC-144 (the default)."""
    assert Service().clock_skew_seconds_max == 300
