"""Both ways to find a difference can do what a way has to."""

import numpy as np
import pytest

from bobbin.interlace.advertise import claim_digest
from bobbin.interlace.claim_index import Claim, ClaimIndex, Keyed
from bobbin.interlace.ranging import RangeFinding, RangeTelling
from bobbin.interlace.sketching import SketchFinding, SketchTelling
from bobbin.interlace.ways import Finding, Found, Telling

KEY = bytes(16)


def keyed(numbers: range) -> Keyed:
    """Claims that are made one after the other."""
    names = {number: f"P.{number:043d}.H3" for number in numbers}
    return ClaimIndex(Claim(name, claim_digest(name, ()), 10 + number) for number, name in names.items()).keyed(KEY)


def ways(ours: Keyed, theirs: Keyed, name: str) -> tuple[Telling, Finding]:
    if name == "sketch":
        return SketchTelling(theirs, 60, 1_000), SketchFinding(ours, symbols_max=1_000, turns_max=4)
    return RangeTelling(theirs, 0), RangeFinding(ours)


@pytest.mark.parametrize("name", ["sketch", "ranges"])
@pytest.mark.parametrize(
    ("ours", "theirs"), [(range(100), range(10, 130)), (range(50), range(50)), (range(0), range(40))]
)
def test_a_way_finds_what_only_one_side_has(name: str, ours: range, theirs: range) -> None:
    own, other = keyed(ours), keyed(theirs)
    telling, finding = ways(own, other, name)
    found = finding.hear(telling.tell())
    while found is None:
        found = finding.hear(telling.tell_more(finding.ask()))
    assert isinstance(found, Found)
    assert sorted(found.missing) == sorted(np.setdiff1d(other.ids, own.ids))
    assert sorted(found.extra) == sorted(np.setdiff1d(own.ids, other.ids))
