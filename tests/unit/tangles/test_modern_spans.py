"""Spans: cut alike by both sides, and what follows from what either side has in one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bobbin.tangles.message import moot_id
from bobbin.tangles.modern_frames import Form, Mark
from bobbin.tangles.modern_index import Item, digest_of
from bobbin.tangles.modern_spans import (
    Picture,
    both_shorts,
    count_above,
    cut,
    first_form,
    pack,
    symbols_for,
    unpack,
)
from bobbin.tangles.ranges import EMPTY, Range

_KEY = bytes(range(16))
_IDS = [moot_id(f"author {number}", "post") for number in range(12)]
_DEPTHS = st.integers(0, 15)
_RANGES = st.one_of(st.just(EMPTY), st.tuples(_DEPTHS, _DEPTHS).map(lambda pair: Range(*pair)))


@given(st.integers(0, 12), _RANGES, _RANGES)
def test_spans_cover_what_is_wanted_from_the_floor_on(floor: int, opener: Range, answerer: Range) -> None:
    spans = cut(floor, opener, answerer)
    assert len(spans) <= 3
    for depth in range(20):
        inside = [span for span in spans if span.low <= depth <= span.high]
        wanted = depth >= floor and (depth in opener or depth in answerer)
        assert len(inside) == wanted
        for span in inside:
            assert (span.opener_wants, span.answerer_wants) == (depth in opener, depth in answerer)


def test_two_sides_that_want_everything_share_a_span() -> None:
    (common, rest) = cut(4, Range(0, 20), Range(0, 10))
    assert (common.low, common.high, common.opener_wants, common.answerer_wants) == (4, 10, True, True)
    assert (rest.low, rest.high, rest.opener_wants, rest.answerer_wants) == (11, 20, True, False)
    assert cut(0, EMPTY, EMPTY) == ()


def test_counts_by_marks() -> None:
    marks = (Mark(40, 0, b""), Mark(39, 1, b""), Mark(36, 4, b""), Mark(24, 16, b""))
    assert [count_above(marks, depth) for depth in (41, 40, 39, 36, 30, 24)] == [0, 0, 1, 4, 10, 16]
    assert count_above(marks, 20) == 20
    assert count_above((), 3) == 0


def test_how_a_span_begins() -> None:
    assert first_form(10, 10_000, 32)[0] is Form.LISTED
    assert first_form(10_000, 10, 32)[0] is Form.LIST
    assert first_form(0, 50, 32)[0] is Form.LISTED
    assert first_form(40, 0, 32)[0] is Form.LISTED
    assert first_form(41, 0, 32)[0] is Form.LIST
    assert first_form(1000, 1000, 32) == (Form.SYMBOLS, 32)
    assert first_form(1000, 900, 32) == (Form.SYMBOLS, 186)
    assert symbols_for(0) == 16


def _items(ids: list[str], erased: set[str] = frozenset()) -> list[Item]:  # type: ignore[assignment]
    return [Item(id, digest_of(id, has_data=id not in erased)) for id in ids]


@given(st.sets(st.sampled_from(_IDS)), st.sets(st.sampled_from(_IDS)), st.sets(st.sampled_from(_IDS)), st.booleans())
def test_a_difference_is_what_is_lacking_on_either_side(
    ours: set[str],
    theirs: set[str],
    erased: set[str],
    ours_erased: bool,  # noqa: FBT001 -- drawn
) -> None:
    own_erased, peer_erased = (erased, set[str]()) if ours_erased else (set[str](), erased)
    own = Picture(_KEY, _items(sorted(ours), own_erased))
    peer = Picture(_KEY, _items(sorted(theirs), peer_erased))
    difference = own.difference(peer.ids, ())
    better = {id for id in ours & theirs if id in peer_erased and id not in own_erased}
    worse = {id for id in ours & theirs if id in own_erased and id not in peer_erased}
    assert set(difference.lacking) == (ours - theirs) | better
    assert set(peer.messages(difference.wanted)) == (theirs - ours) | worse


def test_ghosts_are_not_wanted() -> None:
    peer = Picture(_KEY, _items(_IDS, {_IDS[1]}))
    difference = Picture(_KEY, []).difference(peer.ids, _IDS[:2])
    assert set(peer.messages(difference.wanted)) == set(_IDS[2:])
    assert difference.declined
    assert not Picture(_KEY, []).difference(peer.ids[2:], _IDS[:2]).declined, "they are elsewhere, or nowhere"


def test_a_picture_tells_messages_by_their_short_ids() -> None:
    picture = Picture(_KEY, _items(_IDS))
    assert len(picture) == 12
    assert picture.all_messages() == _IDS
    assert picture.messages([int(picture.ids[3]), 12345]) == [_IDS[3]]
    assert Picture(bytes(16), _items(_IDS)).ids.tolist() != picture.ids.tolist()
    assert [with_data for with_data, _ in both_shorts(_KEY, _IDS)] == picture.ids.tolist()
    assert both_shorts(_KEY, [_IDS[0], _IDS[0]]) == 2 * both_shorts(_KEY, _IDS[:1])


def test_short_ids_as_bytes() -> None:
    assert unpack(pack([3, 1, 2**64 - 1, 3])).tolist() == [1, 3, 2**64 - 1]
    assert pack([]) == b""
    assert unpack(b"").dtype == np.uint64
