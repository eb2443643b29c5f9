"""What is offered: listings, summaries, and how much of it the peer has been told."""

from collections.abc import Sequence

import pytest

from bobbin.interlace import merkle
from bobbin.interlace import offers as module
from bobbin.interlace.advertise import advertisement
from bobbin.interlace.built import Built
from bobbin.interlace.claim_index import ClaimIndex
from bobbin.interlace.learned import claims_of
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Advertise, Advertisement, Partition
from bobbin.interlace.offers import News, Offers, Questions
from bobbin.interlace.partitions import payload
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin
from tests.support.exchanges import records

_SOURCE = Origin("source:0")
_SUMMARIES = Service(list_outright_max=1)


def _claims(count: int, *, first: int = 0) -> list[Advertisement]:
    return [advertisement(one.hash, _SOURCE, ()) for one in records(count, first=first)]


def _offers(claims: list[Advertisement]) -> Offers:
    offers = Offers(2)
    offers.update(claims, ())
    offers.check()
    return offers


def _names(claims: list[Advertisement]) -> list[str]:
    return sorted(claim.record for claim in claims)


def test_few_are_listed_in_order() -> None:
    """IL-106, IL-179, ILC-112."""
    claims = _claims(5)
    block = _offers(claims).opening(Limits(), Service())
    assert [one.record for one in block.records] == _names(claims)
    assert not block.partitions


def test_many_are_summarised() -> None:
    """IL-107, IL-108, IL-188, ILC-110: every partition that is not empty, with its count and root."""
    claims = _claims(50)
    block = _offers(claims).opening(Limits(), _SUMMARIES)
    expected = []
    for prefix in sorted({payload(one.record)[:2] for one in claims}):
        digests = [one.digest for one in claims if payload(one.record).startswith(prefix)]
        expected.append(Partition(prefix=prefix, count=len(digests), root=merkle.root(digests)))
    assert block == Advertise(partitions=tuple(expected))


def test_what_came_after_the_very_first_moment_is_told() -> None:
    """IL-289: also to whoever read when nothing had been offered yet."""
    offers = Offers(2)
    empty = offers.lend()
    offers.update(_claims(3), ())
    since = offers.lend().since(empty.version)
    assert since is not None
    assert sorted(since) == _names(_claims(3))


def test_a_moment_that_was_lent_stays_what_it_was() -> None:
    """IL-289: whether something only comes, only goes, or both."""
    one, other, third = _claims(3)
    for added, removed in (([third], []), ([], [one.record]), ([third], [one.record])):
        offers = _offers([one, other])
        moment = offers.lend()
        offers.update(added, removed)
        assert sorted(moment.current()) == _names([one, other])
        assert sorted(offers.current()) != _names([one, other])


def test_a_moment_knows_nothing_of_what_came_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """IL-289: also when what was touched before it is long forgotten."""
    monkeypatch.setattr(module, "_TOUCHED_MIN", 0)
    offers = _offers(_claims(1))
    offers.update((), _names(_claims(1)))
    one, other = _claims(2, first=5)
    before = offers.lend()
    offers.update([one], ())
    moment = offers.lend()
    offers.update([other], ())
    assert moment.since(before.version) == [one.record]
    assert offers.lend().since(moment.version) == [other.record]
    assert before.version == 2


def test_what_was_never_offered_does_not_hold_up_what_is_gone() -> None:
    """IL-031: a removal names whatever may no longer be sent, in any order."""
    offers = _offers(_claims(2))
    unknown = [one.record for one in _claims(2, first=7)]
    offers.update((), [unknown[0], *_names(_claims(2)), unknown[1]])
    assert len(offers) == 0


def test_nothing_to_offer_is_said_by_saying_nothing() -> None:
    """ILC-110."""
    assert Offers(2).opening(Limits(), Service()) == Advertise()


def test_later_only_changes_are_said() -> None:
    """ILC-127: nothing, the changed partitions, an emptied one with count 0."""
    claims = _claims(30)
    offers = _offers(claims)
    offers.opening(Limits(), _SUMMARIES)
    news = [offers.has_news]
    assert offers.opening(Limits(), _SUMMARIES) == Advertise()
    alone = next(
        one for one in claims if sum(payload(other.record)[:2] == payload(one.record)[:2] for other in claims) == 1
    )
    offers.update((), [alone.record, "P.unknown.H3"])
    assert [*news, offers.has_news] == [False, True]
    block = offers.opening(Limits(), _SUMMARIES)
    assert block.partitions == (Partition(prefix=payload(alone.record)[:2], count=0, root=merkle.EMPTY),)
    offers.check()


def test_what_came_and_went_is_no_news() -> None:
    claims = _claims(4)
    offers = _offers(claims[:3])
    offers.opening(Limits(), Service())
    offers.update([claims[3]], ())
    offers.update((), [claims[3].record])
    offers.update((), [claims[0].record])
    offers.update([claims[0]], ())
    assert not offers.has_news
    assert offers.opening(Limits(), Service()) == Advertise()


def test_a_new_exchange_says_everything_again() -> None:
    """IL-237, IL-274."""
    offers = _offers(_claims(3))
    first = offers.opening(Limits(), Service())
    offers.begin_exchange()
    assert offers.opening(Limits(), Service()) == first


def test_only_what_was_announced_counts_as_announced() -> None:
    """ILC-120, IL-013: what came after the block not yet, what was away for a moment still."""
    early, late = _claims(2)
    offers = _offers([early])
    assert not offers.was_announced(early.record)
    offers.opening(Limits(), Service())
    offers.update([late], ())
    assert offers.was_announced(early.record)
    assert not offers.was_announced(late.record)
    offers.update((), [early.record])
    assert not offers.was_announced(early.record)
    offers.update([early], ())
    assert offers.was_announced(early.record)
    offers.opening(Limits(), Service())
    assert offers.was_announced(late.record)
    assert not offers.was_announced("P.unknown.H3")
    offers.check()


def test_answers_are_the_children_and_the_members() -> None:
    """IL-109, IL-110."""
    claims = _claims(200)
    offers = _offers(claims)
    offers.opening(Limits(), _SUMMARIES)
    one, other = sorted({payload(claim.record)[:2] for claim in claims})[:2]
    answer = offers.answer(Questions(lists=(one,), narrows=(other,)), Limits())
    assert [claim.record for claim in answer.records] == [
        name for name in _names(claims) if payload(name).startswith(one)
    ]
    assert {part.prefix for part in answer.partitions} == {
        payload(claim.record)[:3] for claim in claims if payload(claim.record).startswith(other)
    }
    assert offers.answer(Questions(lists=("zz",), narrows=("zz",)), Limits()).says_nothing


@pytest.mark.parametrize(
    ("questions", "reason"),
    [
        (Questions(lists=("a",), narrows=()), Reason.MALFORMED_SUMMARY),
        (Questions(lists=(), narrows=("",)), Reason.MALFORMED_SUMMARY),
        (Questions(lists=("a" * 15,), narrows=()), Reason.NARROWING_LIMIT),
        (Questions(lists=(), narrows=("a" * 14,)), Reason.NARROWING_LIMIT),
    ],
)
def test_questions_about_partitions_that_cannot_be(questions: Questions, reason: Reason) -> None:
    """IL-265, IL-279, ILC-111."""
    with pytest.raises(Abort) as aborted:
        _offers(_claims(3)).answer(questions, Limits())
    assert aborted.value.reason is reason


def test_more_than_may_be_listed_goes_by_partitions() -> None:
    """ILC-128, IL-277."""
    offers = _offers(_claims(10))
    block = offers.opening(Limits(max_advertisement_records_listed=9), Service())
    assert block.partitions
    assert not block.records
    with pytest.raises(LimitReached) as reached:
        offers.answer(
            Questions(lists=tuple(part.prefix for part in block.partitions), narrows=()),
            Limits(max_advertisement_records_listed=9),
        )
    assert reached.value.limit == "max_advertisement_records_listed"


def test_summaries_are_counted_until_the_round_is_over() -> None:
    """IL-278, ILC-127."""
    claims = _claims(20)
    offers = _offers(claims[:18])
    count = len(offers.opening(Limits(), _SUMMARIES).partitions)
    limits = Limits(max_partition_summaries=count, max_advertisement_records_listed=3)
    offers.update(claims[18:], ())
    with pytest.raises(LimitReached) as reached:
        offers.opening(limits, _SUMMARIES)
    assert reached.value.reason is Reason.SUMMARY_LIMIT
    offers.begin_round()
    offers.update((), [claims[0].record])
    assert offers.opening(limits, _SUMMARIES).partitions


def test_where_summaries_are_used_up_everything_is_listed() -> None:
    """IL-278, IL-106."""
    claims = _claims(20)
    offers = _offers(claims)
    block = offers.opening(Limits(max_partition_summaries=1), _SUMMARIES)
    assert [one.record for one in block.records] == _names(claims)


def test_a_listing_in_place_of_summaries_may_be_as_long_as_the_limit() -> None:
    """IL-277, IL-278: exactly the limit is listed; one more ends with the limit named."""
    for listed, fits in ((5, True), (4, False)):
        limits = Limits(max_partition_summaries=1, max_advertisement_records_listed=listed)
        offers = _offers(_claims(5))
        if fits:
            assert len(offers.opening(limits, _SUMMARIES).records) == 5
        else:
            with pytest.raises(LimitReached) as reached:
                offers.opening(limits, _SUMMARIES)
            assert reached.value.limit == "max_partition_summaries"


def test_direct_readers_are_told_what_has_changed() -> None:
    """IL-289: between two moments that were handed over, or that it was too long ago; each stays what it was."""
    claims = _claims(3)
    offers = Offers(2, _SOURCE)
    offers.update([Advertisement(record=one.record, fields=()) for one in claims[:2]], ())
    first = offers.lend()
    offers.update([Advertisement(record=claims[2].record, fields=())], [claims[0].record])
    second = offers.lend()
    assert second.version > first.version
    since = second.since(first.version)
    assert since is not None
    assert set(since) == {claims[0].record, claims[2].record}
    assert set(first.current()) == {claims[0].record, claims[1].record}
    assert set(second.current()) == set(offers.current()) == {claims[1].record, claims[2].record}
    for number in range(2_000):
        offers.update([Advertisement(record=f"P.x{number}.H3", fields=())], ())
        offers.update((), [f"P.x{number}.H3"])
    assert offers.lend().since(first.version) is None
    # A digest that nobody needed is computed when a summary is asked for.
    assert sum(part.count for part in offers.summary()) == 2
    assert {one.digest for one in offers.current().values()} == {one.digest for one in claims[1:]}
    offers.check()


def test_questions_are_bounded_in_each_iteration() -> None:
    """IL-037, IL-278: whoever means well asks about a partition twice at most."""
    limits = Limits(max_partition_summaries=2)
    offers = _offers(_claims(5))
    offers.opening(limits, Service())
    for _ in range(4):
        offers.answer(Questions(lists=("aa",), narrows=()), limits)
    with pytest.raises(LimitReached):
        offers.answer(Questions(lists=("aa",), narrows=()), limits)
    offers.update(_claims(1, first=9), ())
    offers.opening(limits, Service())
    offers.answer(Questions(lists=("aa",), narrows=()), limits)


@pytest.mark.parametrize("service", [Service(), _SUMMARIES])
def test_what_is_offered_can_be_asked_for(service: Service) -> None:
    claims = _claims(30)
    offers = _offers(claims)
    offers.opening(Limits(), service)
    assert offers.having([*_names(claims), *_names(_claims(5, first=30))]) == set(_names(claims))
    prefix = payload(claims[0].record)[:2]
    under = {one.record: one for one in claims if payload(one.record).startswith(prefix)}
    assert dict(offers.under(prefix)) == under


def test_what_leaves_and_comes_back_before_it_is_told_is_no_news() -> None:
    claims = _claims(30)
    offers = _offers(claims)
    offers.opening(Limits(), _SUMMARIES)
    offers.update((), _names(claims[:2]))
    news = [offers.has_news]
    for back in (claims[:2], claims[:3]):
        offers.update(back, ())
        news.append(offers.has_news)
    assert news == [True, False, False], "what is offered already is no news either"
    offers.check()


def _indexed(claims: list[Advertisement]) -> Offers:
    offers = Offers(2, _SOURCE)
    offers.keep_index(claims_of)
    offers.update([Advertisement(record=one.record, fields=one.fields) for one in claims], ())
    return offers


def test_an_index_follows_what_is_offered() -> None:
    offers = _indexed(_claims(9))
    assert offers.index.root() == ClaimIndex(claims_of(_claims(9))).root()
    offers.update(_claims(2, first=20), _names(_claims(3)))
    assert offers.index.root() == ClaimIndex(claims_of([*_claims(6, first=3), *_claims(2, first=20)])).root()
    offers.check()


def test_an_index_may_be_begun_late_and_dropped() -> None:
    offers = Offers(2, _SOURCE)
    offers.update(_claims(9), ())
    offers.opening(Limits(), _SUMMARIES)
    offers.keep_index(claims_of)
    assert offers.index.root() == ClaimIndex(claims_of(_claims(9))).root()
    assert offers.bare().is_bare
    assert offers.announce().base is None
    offers.drop_index()
    assert offers.announce().base is None
    offers.update(_claims(1, first=20), ())
    offers.check()


def test_news_are_what_came_and_went_since_the_last_announcement() -> None:
    offers = _indexed(_claims(9))
    first = offers.announce()
    assert first.base is None
    assert sorted(first.added) == _names(_claims(9))
    root = offers.index.root()
    gone, came = _names(_claims(2)), _claims(1, first=20)
    offers.update(came, gone)
    news = offers.announce()
    assert (news.base, list(news.added)) == (root, [came[0].record])
    assert sorted(news.gone) == gone
    assert news.gone[gone[0]].record == gone[0]
    assert offers.announce() == News(base=offers.index.root())


def test_everything_can_be_told_at_any_time() -> None:
    offers = _indexed(_claims(9))
    first = offers.opening(Limits(), _SUMMARIES)
    assert offers.opening(Limits(), _SUMMARIES) == Advertise()
    assert offers.tell_all(Limits(), _SUMMARIES) == first
    assert [one.record for one in offers.tell_all(Limits(), Service()).records] == _names(_claims(9))
    some = _names(_claims(2))
    assert [one.record for one in offers.list_some(some, Limits())] == some
    assert all(one.digest for one in offers.list_some(some, Limits()))


def _from_kept(claims: list[Advertisement], wrong: int | None) -> Offers:
    """What goes on from an index that was kept, and says something else of one of the claims."""
    kept = claims_of(claims)
    if wrong is not None:
        kept[wrong] = kept[wrong]._replace(digest=bytes(32))
    offers = Offers(2, _SOURCE)
    offers.keep_index(claims_of, ClaimIndex(kept))
    offers.update([Advertisement(record=one.record, fields=one.fields) for one in claims], ())
    return offers


def test_a_sample_of_a_kept_index_is_looked_at() -> None:
    claims = _claims(9)
    offers = _from_kept(claims, 4)
    assert offers.index.root() == ClaimIndex(claims_of(claims)).root()
    assert not offers.renew_index()
    offers.check()


def test_a_kept_index_that_is_not_true_is_made_anew() -> None:
    claims = _claims(500)
    offers = _from_kept(claims, 401)
    true = ClaimIndex(claims_of(claims)).root()
    assert offers.index.root() != true, "no sample shows everything"
    offers.check()
    offers.announce()
    assert offers.renew_index()
    assert offers.index.root() == true
    assert offers.announce().base == true
    assert not offers.renew_index(), "once is enough"
    offers.check()


def test_a_kept_index_that_is_true_stays() -> None:
    offers = _from_kept(_claims(500), None)
    root = offers.index.root()
    assert not offers.renew_index()
    assert offers.index.root() == root
    assert not _indexed(_claims(9)).renew_index()


def test_an_index_of_other_fields_is_noticed() -> None:
    offers = _indexed(_claims(9))
    offers.index.update([claims_of(_claims(1))[0]._replace(digest=bytes(32))], ())
    with pytest.raises(AssertionError, match="fields as they are"):
        offers.check()


def _built(claims: list[Advertisement]) -> Built:
    """What was computed of some claims beforehand."""
    partitions = Offers(2, _SOURCE)
    partitions.update(claims, ())
    return Built(said="a table", digests={one.record: one.digest for one in claims}, partitions=partitions.summary())


def test_a_summary_that_was_computed_beforehand_is_not_computed_again() -> None:
    claims = _claims(9)
    offers = Offers(2, _SOURCE)
    offers.update(claims, ())
    marked = Partition(prefix=payload(claims[0].record)[:2], count=1, root=b"marked")
    offers.note_built(Built(said="", digests={claims[0].record: b"d"}, partitions=(marked,)))
    assert marked in offers.summary()


def test_a_summary_of_other_records_is_not_taken() -> None:
    claims = _claims(9)
    offers = Offers(2, _SOURCE)
    offers.update(claims[:-1], ())
    before = offers.summary()
    offers.note_built(_built(claims))
    assert offers.summary() == before
    offers.check()
    empty = Offers(2, _SOURCE)
    empty.note_built(_built(claims))
    assert empty.summary() == ()


def test_what_was_computed_is_asked_for_when_all_is_first_told_without_digests() -> None:
    """A sketch needs none; where it is of no use, everything is told plainly."""
    claims = _claims(9)
    asked: list[int] = []

    def find(told: Sequence[tuple[str, tuple[ClaimedField, ...]]]) -> Built:
        asked.append(len(told))
        return _built(claims)

    offers = _indexed(claims)
    plain = offers.tell_all(Limits(), _SUMMARIES)
    for share in (False, True):
        offers = _indexed(claims)
        offers.find_built = find
        if share:
            offers.announce()
        assert offers.tell_all(Limits(), _SUMMARIES) == plain
        assert offers.tell_all(Limits(), _SUMMARIES) == plain
        offers.check()
    assert asked == [9, 9], "once for each"
    offers.drop_index()
    assert offers.find_built is None
