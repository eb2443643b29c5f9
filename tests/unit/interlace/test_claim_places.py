"""Numbers of records that several holders share: each sees its own changes and no other's."""

from hypothesis import given
from hypothesis import strategies as st

from bobbin.interlace.claim_places import Places


def test_a_record_has_the_number_that_it_was_given_last() -> None:
    places = Places({"a": 1})
    places.put("a", 2)
    places.put("b", 3)
    assert (places.get("a"), places.get("b"), places.get("c"), len(places)) == (2, 3, None, 2)
    places.discard("a")
    places.discard("a")
    assert (places.get("a"), len(places)) == (None, 1)


_STEPS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abcdef"), st.integers(0, 9) | st.none()), max_size=40)


@given(_STEPS, st.booleans())
def test_holders_of_one_origin_go_their_own_ways(steps: list[tuple[int, str, int | None]], joins: bool) -> None:  # noqa: FBT001
    first = Places({"a": 1, "b": 2})
    held = [first, first.copy(), first.copy()]
    models: list[dict[str, int]] = [{"a": 1, "b": 2} for _ in held]
    for number, record, value in steps:
        if value is None:
            held[number].discard(record)
            models[number].pop(record, None)
        elif value == 9 and joins:
            # A copy of a copy takes the changes of its origin along.
            held[number], models[number] = held[number - 1].copy(), dict(models[number - 1])
        else:
            held[number].put(record, value)
            models[number][record] = value
        for places, model in zip(held, models, strict=True):
            assert len(places) == len(model)
            assert {record: places.get(record) for record in "abcdef"} == {
                record: model.get(record) for record in "abcdef"
            }


def test_many_changes_are_joined_for_their_holder_alone() -> None:
    origin = Places({f"old {number}": number for number in range(100)})
    other = origin.copy()
    for number in range(100):
        other.discard(f"old {number}")
    for number in range(2000):
        other.put(f"new {number}", number)
    assert not other._is_lent, "they were joined"
    assert (len(origin), len(other)) == (100, 2000)
    assert (origin.get("old 5"), origin.get("new 5")) == (5, None)
    assert (other.get("old 5"), other.get("new 5")) == (None, 5)
    other.put("new 2000", 1)
    other.discard("new 5")
    assert (len(origin), len(other), origin.get("new 2000")) == (100, 2000, None)
