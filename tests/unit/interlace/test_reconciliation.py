"""Parts of blocks are plain values: they compare, and a recording can hold them."""

import pytest

from bobbin.interlace.choice import Strategy
from bobbin.interlace.reconciliation import (
    Changed,
    Compared,
    Cut,
    Fallback,
    Lacking,
    More,
    Part,
    Plain,
    Probe,
    Ranged,
    Sketched,
    Standing,
    Supplied,
)
from bobbin.runtime.recording import pack, unpack

PARTS: list[Part] = [
    Standing(count=3, root=bytes(32), held=bytes(16), wish=Strategy.RANGES),
    Probe(bulk=b"12", cuts=(Cut(moment=1, sum=2),)),
    Sketched(first=0, raw=bytes(10)),
    Ranged(moment=5, ids=bytes(8)),
    More(symbols=16),
    Lacking(ids=bytes(16)),
    Supplied(),
    Changed(added=("00000000000",), removed=("00000000001",)),
    Compared(removed=("00000000001",)),
    Plain(),
    Fallback(why="no reason"),
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_a_recording_holds_every_part(part: Part) -> None:
    assert unpack(pack(part)) == part
    assert [part == other for other in PARTS].count(True) == 1
