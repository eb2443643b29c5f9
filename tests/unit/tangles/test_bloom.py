"""Filters: byte for byte as recorded, and bounded before anything is computed with what a peer sends."""

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.tangles.bloom import (
    SEED,
    Bloom,
    FilterLimits,
    MalformedFilter,
    WireBits,
    WireFilter,
    bits_for,
    hashes_for,
    items_of,
)
from bobbin.tangles.message import moot_id
from tests.vectors.load import load

_LIMITS = FilterLimits()


def _read(text: str | bytes) -> Bloom:
    return Bloom.read(msgspec.json.decode(text, type=WireFilter), _LIMITS)


def _wire(
    bits: int = 96,
    hashes: int = 17,
    *,
    size: int | None = None,
    content: str | None = None,
    seed: int = SEED,
) -> WireFilter:
    whole = -(-bits // 8)
    text = base64.b64encode(bytes(min(max(whole, 0), 64))).decode() if content is None else content
    return WireFilter("BloomFilter", bits, hashes, WireBits(8 * whole if size is None else size, text), seed)


def test_sizes_are_the_recorded_ones() -> None:
    for capacity, bits, hashes, whole in load("pzp/bloom/sizing.json")["rows"]:
        assert (bits_for(capacity), hashes_for(bits, capacity)) == (bits, hashes)
        made = msgspec.json.decode(Bloom.create(capacity, []).encode(), type=WireFilter)
        assert (made.bits, made.content.size) == (bits, whole)


def test_sizes_of_the_dossier() -> None:
    assert {n: bits_for(n) for n in (4, 10, 100, 2000)} == {4: 96, 10: 240, 100: 2397, 2000: 47926}


@pytest.mark.parametrize("number", range(len(load("pzp/bloom/filters.json")["filters"])))
def test_recorded_filters(number: int) -> None:
    recorded = load("pzp/bloom/filters.json")["filters"][number]
    made = Bloom.create(recorded["capacity"], [item.encode() for item in recorded["items"]])
    assert made.encode().decode() == recorded["json_text"]
    assert made.bits_set == recorded["bits_set"]
    answers = _read(recorded["json_text"]).has([item.encode() for item, _ in recorded["queries"]])
    assert answers == [answer for _, answer in recorded["queries"]]


def test_a_large_recorded_filter() -> None:
    recorded = load("pzp/bloom/filter-2000.json")
    ids = [moot_id(f"b{number}", "post") for number in range(1500)]
    items = items_of(0, ids)
    assert [item.decode() for item in items[:5]] == recorded["first_items"]
    made = msgspec.json.decode(Bloom.create(2000, items).encode())
    assert made == recorded["json"]


def test_the_wire_form_is_an_object_in_one_order() -> None:
    text = Bloom.create(10, []).encode().decode()
    assert text == (
        '{"type":"BloomFilter","_size":240,"_nbHashes":17,'
        f'"_filter":{{"size":240,"content":"{"A" * 40}"}},"_seed":78187493520}}'
    )


@given(st.lists(st.text(max_size=50), max_size=30), st.integers(1, 200))
def test_what_is_in_it_is_found_after_the_way_over_the_wire(words: list[str], capacity: int) -> None:
    items = [word.encode() for word in words]
    made = Bloom.create(capacity, items)
    read = _read(made.encode())
    assert read.content == made.content
    assert read.has(items) == [True] * len(items)
    assert read.has([b"another item"]) == made.has([b"another item"])


def test_an_item_is_the_round_and_the_id() -> None:
    assert items_of(2, ["abc", "d"]) == [b"2abc", b"2d"]


def test_an_overfull_filter_says_yes_to_everything() -> None:
    """The weak point that sizing by count repairs: 160 items in a filter for ten."""
    full = Bloom.create(10, items_of(0, [moot_id(f"b{n}", "post") for n in range(160)]))
    assert all(full.has(items_of(0, [moot_id(f"c{n}", "post") for n in range(50)])))


@pytest.mark.parametrize(
    "wire",
    [
        _wire(bits=2**31),
        _wire(bits=0),
        _wire(bits=-8),
        _wire(hashes=2**31),
        _wire(hashes=0),
        _wire(seed=-1),
        _wire(seed=2**60),
        _wire(size=104),
        _wire(content=""),
        _wire(content="A" * 12),
        _wire(content="A" * 20),
        _wire(content="!" * 16),
        _wire(content="AAAAAAAAAAAAAA=="),
        _wire(content="AAAAAAAAAAAAAAé="),
    ],
    ids=repr,
)
def test_absurd_filters_are_refused(wire: WireFilter) -> None:
    with pytest.raises(MalformedFilter) as refused:
        Bloom.read(wire, _LIMITS)
    assert refused.value.code == "malformed-filter"


def test_limits_are_the_callers() -> None:
    small = FilterLimits(bits_max=96, hashes_max=17)
    assert Bloom.read(_wire(), small).bits == 96
    with pytest.raises(MalformedFilter):
        Bloom.read(_wire(bits=104), small)
    with pytest.raises(MalformedFilter):
        Bloom.read(_wire(hashes=18), small)


def test_a_filter_is_for_something() -> None:
    with pytest.raises(UsageError):
        bits_for(0)
    with pytest.raises(UsageError):
        Bloom(96, 17, bytes(11))
