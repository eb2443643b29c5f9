"""What goes out: only what is lacking, each after its predecessors, in parcels of a bounded size."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from bobbin.tangles import modern_frames
from bobbin.tangles.message import decode
from bobbin.tangles.modern_frames import ModernLimits, Parcel
from bobbin.tangles.modern_parcels import PARCEL_BYTES, parcels_of, sort_accounts, with_trails
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author, closed, signed_again, thread
from tests.tangle_cases import ACCOUNT, AUTHOR
from tests.tangle_pairs import held, modern_pair, store_of, sync

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
    messages = _AUTHOR.line(30)
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
    messages = _AUTHOR.line(5)
    tangle = messages[0].id
    structure = Tangle(tangle, messages)
    large = []
    for _ in range(9):
        message = _AUTHOR.say("x" * (PARCEL_BYTES // 5), structure)
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


def test_account_messages_wait_until_they_are_needed_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob, carol = (Author(name) for name in ("alice", "bob", "carol"))
    alice.add_key("alice's second")
    roots = [bob.account_messages[0], carol.account_messages[0]]
    needed, later = sort_accounts([*roots, *alice.account_messages], {alice.account.id}.__contains__)
    assert (needed, later) == (alice.account_messages, roots)
    monkeypatch.setattr("bobbin.tangles.modern_parcels.EARLY_BYTES_MAX", len(roots[0].raw))
    assert sort_accounts(roots, lambda _: False) == ([], roots[:1])


def test_accounts_that_nobody_has_to_know_are_not_taken() -> None:
    """A peer could fill the disk with them: each is signed by its own key, and so is proven."""
    messages = AUTHOR.line(4)
    tangle = messages[0].id
    strangers = [Author(f"stranger {number}").account_messages[0] for number in range(5)]
    reader, writer = store_of([*ACCOUNT, *messages[:2]], {tangle: "all"}), store_of([*ACCOUNT, *messages], {})
    pair = modern_pair(reader, writer)

    def twisted(number: int, raw: bytes) -> bytes:
        frame = modern_frames.decode(raw, ModernLimits())
        if number != 1 or not isinstance(frame, Parcel):
            return raw
        return modern_frames.encode(structs.replace(frame, messages=(*(one.raw for one in strangers), *frame.messages)))

    pair.open(0, tangle)
    while pair.wire:
        number, raw = pair.wire.popleft()
        pair.deliver(1 - number, twisted(number, raw))
    assert set(held(reader, tangle)) == {message.id for message in messages}
    assert not any(reader.message(one.id) for one in strangers)
    assert pair.sides[0].finished[-1].received == 3 + len(strangers)


@pytest.mark.parametrize("opener", [0, 1])
def test_an_account_may_come_long_before_what_it_signs(opener: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message is a parcel of its own, and all account messages come first."""
    monkeypatch.setattr("bobbin.tangles.modern_parcels.PARCEL_BYTES", 1)
    authors = [Author(f"author {number}") for number in range(4)]
    for author in authors[2:]:
        author.add_key(f"second of {author.account.id}")
    messages = thread(Random(2), authors, 20)
    tangle = messages[0].id
    accounts = [one for author in authors for one in author.account_messages]
    reader = store_of([], {tangle: "all"})
    pair = modern_pair(reader, store_of([*accounts, *messages], {tangle: "all"}))
    sync(pair, tangle, opener)
    assert set(held(reader, tangle)) == {message.id for message in messages}
    assert [side.finished[-1].agreed for side in pair.sides] == [True, True]
    assert [len(side.finished) for side in pair.sides] == [1, 1], "nothing had to be asked for again"
    assert not any(one.refused for side in pair.sides for one in side.finished)


@pytest.mark.parametrize("room", [None, 1000])
def test_an_account_that_only_a_wrong_message_speaks_for_is_not_taken(
    room: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is signed by its own key, and what is said for it by somebody else."""
    if room is not None:
        monkeypatch.setattr("bobbin.tangles.modern_parcels.EARLY_BYTES_MAX", room)
    messages = AUTHOR.star(2)
    tangle = messages[0].id
    strangers = [Author(f"stranger {number}") for number in range(5)]
    place = Tangle(tangle, messages)
    forged = [signed_again(AUTHOR.key, one.say("hello", place)) for one in strangers]
    reader, writer = store_of([*ACCOUNT, *messages[:2]], {tangle: "all"}), store_of([*ACCOUNT, *messages], {})
    pair = modern_pair(reader, writer)
    pair.open(0, tangle)
    while pair.wire:
        number, raw = pair.wire.popleft()
        frame = modern_frames.decode(raw, ModernLimits())
        if number == 1 and isinstance(frame, Parcel):
            texts = [one.raw for one in (*(stranger.account for stranger in strangers), *forged)]
            raw = modern_frames.encode(structs.replace(frame, messages=(*texts, *frame.messages)))
        pair.deliver(1 - number, raw)
    assert set(held(reader, tangle)) == {message.id for message in messages}
    assert not any(reader.message(stranger.account.id) for stranger in strangers)
