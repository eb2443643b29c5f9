"""Stretches: what is older and equal is passed over, what is younger is told by its ids."""

from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from bobbin.interlace import ranging
from bobbin.interlace.advertise import claim_digest
from bobbin.interlace.claim_index import Claim, ClaimIndex
from bobbin.interlace.ranging import RangeFinding, RangeTelling
from bobbin.interlace.reconciliation import Cut, More, Ranged, Sketched
from bobbin.interlace.ways import Unusable
from bobbin.reconcile.ranges import Keys
from tests.unit.interlace.test_ways import KEY, keyed


def test_cuts_ascend_and_leave_the_youngest_out() -> None:
    cuts = ranging.cuts_of(keyed(range(1_000)))
    assert [cut.moment for cut in cuts] == [10 + 1_000 - count for count in (512, 256, 128)]
    older = keyed(range(1_000 - 128))
    assert cuts[-1].sum == sum(older.ids.tolist()) % 2**64


def test_few_claims_have_no_cuts() -> None:
    assert ranging.cuts_of(keyed(range(100))) == ()
    timeless = [f"P.{number:043d}.H3" for number in range(300)]
    index = ClaimIndex(Claim(name, claim_digest(name, ()), 0) for name in timeless)
    assert ranging.cuts_of(index.keyed(KEY)) == ()


def test_the_youngest_cut_that_agrees_is_found() -> None:
    ours, cuts = keyed(range(1_200)), ranging.cuts_of(keyed(range(1_000)))
    assert ranging.recent_from(ours, cuts) == cuts[-1].moment
    missing_one = keyed(range(1, 1_200))
    assert ranging.recent_from(missing_one, cuts) is None
    assert ranging.recent_from(ours, (Cut(moment=0, sum=0),)) is None
    assert ranging.count_from(ours, cuts[-1].moment) == 200 + 128


def test_many_cuts_cost_one_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = keyed(range(1_200))
    argsort, sorts = np.argsort, list[int]()

    def counted(keys: Keys, *, kind: Literal["stable"]) -> NDArray[np.intp]:
        sorts.append(len(keys))
        return argsort(keys, kind=kind)

    monkeypatch.setattr(np, "argsort", counted)
    assert ranging.recent_from(ours, tuple(Cut(moment=moment, sum=1) for moment in range(1, 9))) is None
    assert sorts == [1_200]
    assert ranging.recent_from(ours, ()) is None


def test_only_the_stretch_is_compared() -> None:
    ours, theirs = keyed(range(1_000)), keyed(range(1_040))
    moment = ranging.recent_from(theirs, ranging.cuts_of(ours))
    assert moment is not None
    told = RangeTelling(theirs, moment).tell()
    assert len(told.ids) == 8 * (40 + 128)
    found = RangeFinding(ours).hear(told)
    assert found is not None
    assert len(found.missing) == 40
    assert not len(found.extra)


def test_ids_from_before_the_stretch_are_a_lie() -> None:
    ours = keyed(range(50))
    told = Ranged(moment=40, ids=ranging.ids_bytes(ours.ids))
    with pytest.raises(Unusable, match="older"):
        RangeFinding(ours).hear(told)


def test_a_stretch_is_told_whole() -> None:
    with pytest.raises(Unusable):
        RangeTelling(keyed(range(4)), 0).tell_more(More(symbols=1))
    with pytest.raises(Unusable):
        RangeFinding(keyed(range(4))).ask()
    with pytest.raises(Unusable):
        RangeFinding(keyed(range(4))).hear(Sketched(first=0, raw=bytes(10)))
    with pytest.raises(Unusable, match="whole number"):
        RangeFinding(keyed(range(4))).hear(Ranged(moment=0, ids=b"123"))


def test_ids_as_bytes() -> None:
    ids = keyed(range(9)).ids
    assert ranging.ids_of(ranging.ids_bytes(ids)).tolist() == ids.tolist()
