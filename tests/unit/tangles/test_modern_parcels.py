"""What goes out: only what is lacking, each after its predecessors, in parcels of a bounded size."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from bobbin.tangles.message import decode
from bobbin.tangles.modern_parcels import PARCEL_BYTES, parcels_of, with_trails
from bobbin.tangles.tangle import Tangle
from tests.tangle_messages import Author, closed
from tests.tangle_pairs import store_of

_AUTHOR = Author()


@given(st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_to_a_side_that_has_a_closed_part_exactly_the_rest_goes_in_order(seed: int) -> None:
    random = Random(seed)
    messages = _AUTHOR.weave(random, 20)
    tangle = messages[0].id
    structure = Tangle(tangle, messages)
    has = {m.id for m in closed(messages, tangle, [n for n in range(21) if random.random() < 0.5])}
    lacking = [message.id for message in messages if message.id not in has]
    random.shuffle(lacking)
    pieces = with_trails(structure, lacking, has.__contains__)
    assert sorted(id for id, _ in pieces) == sorted(lacking)
    assert not any(erased for _, erased in pieces)
    known = set(has)
    for id, _ in pieces:
        assert set(structure.prev(id)) <= known
        known.add(id)


def test_what_would_hang_in_the_air_comes_with_a_trail() -> None:
    messages = _AUTHOR.feed(30)
    structure = Tangle(messages[0].id, messages)
    top = [message.id for message in messages[-3:]]
    pieces = with_trails(structure, top, lambda _: False)
    assert [id for id, erased in pieces if not erased] == top
    trail = structure.shortest_path(top[0])
    assert {id for id, erased in pieces if erased} == set(trail)
    depths = [structure.depth(id) for id, _ in pieces]
    assert depths == sorted(depths, key=lambda depth: depth or 0)
    shorter = with_trails(structure, top, trail[-2:].__contains__)
    assert {id for id, erased in shorter if erased} == set(trail[:-2])
    assert with_trails(structure, [messages[0].id], lambda _: False) == [(messages[0].id, False)]


def test_parcels_hold_so_much_and_no_more() -> None:
    messages = _AUTHOR.feed(5)
    tangle = messages[0].id
    structure = Tangle(tangle, messages)
    large = []
    for _ in range(9):
        message = _AUTHOR.post("x" * (PARCEL_BYTES // 5), structure)
        structure.add(message)
        large.append(message)
    store = store_of([*_AUTHOR.account_messages, *messages, *large], {})
    account = _AUTHOR.account.id
    pieces = [(message.id, False) for message in [*messages, *large]] + [("gone", False)]
    parcels = list(parcels_of(store, [account], pieces))
    assert [decode(text).id for parcel in parcels for text in parcel] == [account, *(id for id, _ in pieces[:-1])]
    assert len(parcels) == 3
    assert all(sum(map(len, parcel)) <= PARCEL_BYTES for parcel in parcels)
    (erased,) = parcels_of(store, [], [(messages[2].id, True)])
    assert erased == (messages[2].erased().raw,)
    assert list(parcels_of(store, [], [])) == []
