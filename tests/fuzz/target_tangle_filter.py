"""Filters of tangle peers: any bytes are a filter within bounds that is written alike, or are refused with a code."""

import msgspec

from bobbin.tangles.bloom import Bloom, FilterLimits, MalformedFilter, WireFilter, items_of

_LIMITS = FilterLimits(bits_max=1 << 16)
_ITEMS = items_of(0, ["9M85DvdBTnioZbs7m3PuUg4TDe3u54F6tMmm899iB4FQ", "4gEasc3J7rM2pWunYHKbRfX6ANdUL1THNP1wbvDqxkJN"])


def one_input(data: bytes) -> None:
    try:
        wire = msgspec.json.decode(data, type=WireFilter)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    try:
        bloom = Bloom.read(wire, _LIMITS)
    except MalformedFilter as refused:
        assert refused.code == "malformed-filter"  # noqa: PT017 -- no test of pytest's
        return
    assert len(bloom.content) * 8 <= _LIMITS.bits_max + 7
    again = Bloom.read(msgspec.json.decode(bloom.encode(), type=WireFilter), _LIMITS)
    assert again.content == bloom.content
    assert again.has(_ITEMS) == bloom.has(_ITEMS)
