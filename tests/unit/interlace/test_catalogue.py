"""Advertisements in partitions: a mapping, its roots, and what several links hold together."""

import pytest

from bobbin.interlace.advertise import advertisement
from bobbin.interlace.catalogue import Catalogue
from bobbin.interlace.messages import Advertisement
from bobbin.interlace.partitions import Partitions
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin
from tests.support.exchanges import records

_ONE, _OTHER = Origin("source:0"), Origin("source:1")


def _told(source: Origin, count: int = 20) -> list[Advertisement]:
    """What a source says; the texts are new objects each time, as they are when they come from a link."""
    return [
        advertisement("".join(list(one.hash)), source, (ClaimedField("Group", "0", f"group {number}"),))
        for number, one in enumerate(records(count))
    ]


def _catalogue(source: Origin, told: list[Advertisement], *, with_digests: bool) -> Catalogue:
    made = Catalogue(2, source, with_digests=with_digests)
    made.update({one.record: one for one in told})
    return made


def _summed(told: list[Advertisement]) -> Partitions:
    partitions = Partitions(2)
    for one in told:
        partitions.add(one.record, one.digest)
    return partitions


def test_it_is_a_mapping() -> None:
    told = _told(_ONE, 3)
    held = _catalogue(_ONE, told, with_digests=True)
    assert dict(held) == {one.record: one for one in told}
    assert len(held) == 3
    assert held.pop(told[0].record) == told[0]
    del held[told[1].record]
    with pytest.raises(KeyError):
        held[told[1].record]
    with pytest.raises(KeyError):
        del held[told[1].record]
    assert list(held.entries()) == [told[2]]


@pytest.mark.parametrize("with_digests", [True, False])
def test_roots_are_those_of_the_digests_before_and_after_sharing(with_digests: bool) -> None:  # noqa: FBT001
    told = _told(_ONE)
    held = _catalogue(_ONE, told, with_digests=with_digests)
    expected = _summed(told).summaries()
    assert held.summaries() == expected
    held.share()
    assert held.summaries() == expected
    held.check()


def test_two_peers_claims_are_the_same_objects_and_have_their_own_roots() -> None:
    one, other = (_catalogue(source, _told(source), with_digests=False) for source in (_ONE, _OTHER))
    one.share()
    other.share()
    assert all(one[record] is other[record] for record in one)
    assert not any(claim.digest for claim in one.entries())
    assert one.summaries() == _summed(_told(_ONE)).summaries()
    assert other.summaries() == _summed(_told(_OTHER)).summaries()


def test_what_is_offered_to_two_peers_is_held_once_with_digests() -> None:
    one, other = (_catalogue(_ONE, _told(_ONE), with_digests=True) for _ in range(2))
    one.share()
    other.share()
    assert all(one[record] is other[record] for record in one)
    assert all(offer.digest for offer in one.entries())


def test_offers_of_two_sources_are_kept_apart() -> None:
    one, other = (_catalogue(source, _told(source), with_digests=True) for source in (_ONE, _OTHER))
    one.share()
    other.share()
    assert one.summaries() == _summed(_told(_ONE)).summaries()
    assert other.summaries() == _summed(_told(_OTHER)).summaries()


def test_digests_are_computed_where_they_are_missing() -> None:
    bare = [Advertisement(record=one.record, fields=one.fields) for one in _told(_ONE)]
    assert sorted(_catalogue(_ONE, bare, with_digests=True).entries(), key=str) == sorted(_told(_ONE), key=str)
    assert _catalogue(_ONE, bare, with_digests=False).summaries() == _summed(_told(_ONE)).summaries()


def test_without_a_source_digests_stay_as_they_came() -> None:
    held = Catalogue(2, None, with_digests=False)
    told = _told(_ONE)
    held.update({one.record: one for one in told})
    held.share()
    assert dict(held) == {one.record: one for one in told}


def test_a_copy_goes_its_own_way() -> None:
    told = _told(_ONE)
    held = _catalogue(_ONE, told, with_digests=True)
    other = held.copy()
    assert (dict(other), other.summaries()) == (dict(held), held.summaries())
    del other[told[0].record]
    del held[told[1].record]
    assert (told[0].record in held, told[1].record in held) == (True, False)
    assert (told[0].record in other, told[1].record in other) == (False, True)
    held.check()
    other.check()


@pytest.mark.parametrize("with_digests", [False, True])
def test_many_advertisements_are_taken_as_one_is(*, with_digests: bool) -> None:
    told = _told(_ONE)
    bare = {one.record: Advertisement(record=one.record, fields=one.fields) for one in told[10:]}
    expected = _catalogue(_ONE, told, with_digests=with_digests)
    made = _catalogue(_ONE, told[:10], with_digests=with_digests)
    made.add_all(bare)
    made.check()
    assert made.summaries() == expected.summaries() == _summed(told).summaries()
    assert made[told[-1].record] == (told[-1] if with_digests else bare[told[-1].record])


def test_the_same_of_another_source_has_its_own_roots() -> None:
    held = _catalogue(
        _ONE, [Advertisement(record=one.record, fields=one.fields) for one in _told(_ONE)], with_digests=False
    )
    assert held.summaries() == _summed(_told(_ONE)).summaries()
    other = held.of_source(_OTHER)
    assert other.summaries() == _summed(_told(_OTHER)).summaries()
    assert held.summaries() == _summed(_told(_ONE)).summaries()
    assert all(theirs is ours for theirs, ours in zip(other.parts().values(), held.parts().values(), strict=True))
    del other[_told(_ONE)[0].record]
    assert len(held) == len(other) + 1
    held.check()
    other.check()


def test_what_has_changed_is_told_record_by_record() -> None:
    told = [Advertisement(record=one.record, fields=one.fields) for one in _told(_ONE)]
    held = _catalogue(_ONE, told, with_digests=False)
    other = held.of_source(_OTHER)
    assert held.changes_to(other) == ([], [])
    changed = Advertisement(record=told[0].record, fields=())
    other[changed.record] = changed
    del other[told[1].record]
    assert held.changes_to(other) == ([changed], [told[1].record])
    assert other.changes_to(held)[1] == []
    assert {one.record for one in other.changes_to(held)[0]} == {told[0].record, told[1].record}
