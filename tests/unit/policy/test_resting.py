"""A set with a base that others share: as a set, and as one that nobody else feels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.policy import resting
from bobbin.policy.resting import RestingSet

_MEMBERS = st.frozensets(st.sampled_from("abcdefgh"))


@given(_MEMBERS, st.lists(st.tuples(_MEMBERS, _MEMBERS), max_size=8), st.integers(0, 3))
def test_it_is_a_set(
    first: frozenset[str], changes: list[tuple[frozenset[str], frozenset[str]]], rest_min: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resting, "_REST_MIN", rest_min)
        held, model = RestingSet(first), first
        other = RestingSet(first)
        for added, removed in changes:
            held.change(added, removed)
            model = (model - removed) | added
            assert (held.frozen(), len(held), sorted(held)) == (model, len(model), sorted(model))
            assert [letter in held for letter in "abcdefghi"] == [letter in model for letter in "abcdefghi"]
            assert frozenset(held) == model
            assert held.common(added | removed) == model & (added | removed)
            assert (held - added, added - held, added & held) == (model - added, added - model, added & model)
        assert frozenset(other) == first


def test_equal_bases_are_one_object() -> None:
    names = [f"name {number}" for number in range(100)]
    one, other = RestingSet(names), RestingSet(reversed(names))
    assert one.frozen() is other.frozen()


def test_few_changes_lie_beside_the_base_and_many_make_a_new_one() -> None:
    names = [f"name {number}" for number in range(100)]
    held = RestingSet(names)
    base = held._base
    held.change(frozenset({"new"}), frozenset({names[0]}))
    assert held._base is base
    more = frozenset(f"more {number}" for number in range(resting._REST_MIN))
    held.change(more, frozenset())
    assert held._base == (frozenset(names) - {names[0]}) | {"new"} | more
    assert held.frozen() is held._base
    later = RestingSet(held)
    assert later._base is held._base
