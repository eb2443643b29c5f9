"""What the peer claims: brought up to date by listings and summaries, verified, and told as changes."""

import pytest

from bobbin.interlace import merkle
from bobbin.interlace.advertise import advertisement
from bobbin.interlace.claim_index import ClaimIndex
from bobbin.interlace.learned import Learned, claims_of
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Advertise, Advertisement, Partition
from bobbin.interlace.offers import Offers, Questions
from bobbin.interlace.partitions import Partitions, payload
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin
from tests.support.exchanges import records

_SOURCE = Origin("source:0")
_LIMITS = Limits()


def _claims(count: int, *, first: int = 0, value: str = "x") -> tuple[Advertisement, ...]:
    fields = [ClaimedField("App", "0", value)]
    made = [advertisement(one.hash, _SOURCE, fields) for one in records(count, first=first)]
    return tuple(sorted(made, key=lambda one: one.record))


def _summaries(claims: tuple[Advertisement, ...]) -> tuple[Partition, ...]:
    parts = Partitions(2)
    for claim in claims:
        parts.add(claim.record, claim.digest)
    return parts.summaries()


def _listed(claims: tuple[Advertisement, ...]) -> Learned:
    learned = Learned(2)
    learned.open(Advertise(records=claims), _LIMITS)
    learned.end_phase()
    learned.check()
    return learned


def _reason(learned: Learned, block: Advertise, *, opening: bool = False) -> Reason:
    with pytest.raises(Abort) as aborted:
        (learned.open if opening else learned.hear)(block, _LIMITS)
    return aborted.value.reason


def test_a_listing_is_the_whole_state() -> None:
    """IL-106, IL-195: it replaces what was there."""
    learned = _listed(_claims(5))
    assert learned.advertisements() == _claims(5)
    learned.open(Advertise(records=_claims(4, first=3)), _LIMITS)
    learned.end_phase()
    assert learned.advertisements() == _claims(4, first=3)
    assert _claims(1)[0].record not in learned
    learned.check()


def test_changes_are_told_once() -> None:
    """IL-046, IL-196: what is claimed now, what is withdrawn, and nothing twice."""
    learned = _listed(_claims(3))
    changes = learned.changes()
    assert changes.claimed == {one.record: one.fields for one in _claims(3)}
    assert not changes.withdrawn
    assert not learned.changes().claimed
    kept, changed = _claims(1, first=1), _claims(1, first=2, value="y")
    learned.open(Advertise(records=tuple(sorted((*kept, *changed), key=lambda one: one.record))), _LIMITS)
    changes = learned.changes()
    assert changes.claimed == {changed[0].record: changed[0].fields}
    assert changes.withdrawn == {_claims(1)[0].record}


def test_saying_nothing_first_means_nothing_and_later_means_the_same() -> None:
    """ILC-110, IL-195."""
    learned = Learned(2, _claims(3))
    learned.open(Advertise(), _LIMITS)
    assert len(learned) == 0
    learned = _listed(_claims(3))
    learned.open(Advertise(), _LIMITS)
    learned.end_phase()
    assert len(learned) == 3


def test_what_a_cursor_held_is_a_claim_until_the_peer_speaks() -> None:
    """IL-174, IL-182."""
    learned = Learned(2, _claims(3))
    assert not learned.unsaved
    assert set(learned.changes().claimed) == {one.record for one in _claims(3)}
    learned.open(Advertise(partitions=_summaries(_claims(3))), _LIMITS)
    assert learned.ask(_LIMITS, Service()) == Questions(lists=(), narrows=())
    learned.end_phase()
    assert not learned.unsaved


def test_a_partition_that_differs_is_listed_and_verified() -> None:
    """IL-109, IL-194, IL-195."""
    learned = Learned(2, _claims(3))
    truth = _claims(5, first=1)
    learned.open(Advertise(partitions=_summaries(truth)), _LIMITS)
    questions = learned.ask(_LIMITS, Service())
    assert not questions.narrows
    learned.hear(Advertise(), _LIMITS)
    learned.ask(_LIMITS, Service())
    wanted = tuple(one for one in truth if payload(one.record)[:2] in questions.lists)
    learned.hear(Advertise(records=wanted), _LIMITS)
    learned.end_phase()
    assert learned.advertisements() == truth
    assert learned.unsaved
    learned.check()


def test_a_large_partition_that_is_mostly_known_is_narrowed() -> None:
    """IL-110, IL-187."""
    claims = tuple(one for one in _claims(3_000) if payload(one.record)[0] == "a")
    offers = Offers(1)
    offers.update(claims, ())
    learned = Learned(1, claims[:-1])
    service = Service(list_outright_max=1, list_partition_max=1)
    learned.open(offers.opening(_LIMITS, service), _LIMITS)
    assert learned.ask(_LIMITS, service) == Questions(lists=(), narrows=("a",))
    learned.hear(Advertise(), _LIMITS)
    learned.ask(_LIMITS, service)
    learned.hear(offers.answer(Questions(lists=(), narrows=("a",)), _LIMITS), _LIMITS)
    deeper = learned.ask(_LIMITS, service)
    assert {len(prefix) for prefix in (*deeper.lists, *deeper.narrows)} == {2}
    assert all(claims[-1].record[2:].startswith(prefix) for prefix in (*deeper.lists, *deeper.narrows))


@pytest.mark.parametrize(("summaries", "narrowed"), [(64, False), (65, True)])
def test_a_partition_is_narrowed_where_its_children_are_within_the_limit(summaries: int, *, narrowed: bool) -> None:
    """IL-110: one summary has come, and a partition has up to 64 children."""
    claims = tuple(one for one in _claims(400) if payload(one.record)[0] == "a")
    offers = Offers(1)
    offers.update(claims, ())
    learned = Learned(1, claims[:-1])
    service = Service(list_outright_max=1, list_partition_max=1)
    limits = Limits(max_partition_summaries=summaries)
    learned.open(offers.opening(limits, service), limits)
    expected = Questions(lists=(), narrows=("a",)) if narrowed else Questions(lists=("a",), narrows=())
    assert learned.ask(limits, service) == expected


def test_a_claim_that_is_withdrawn_is_to_be_saved_like_a_new_one() -> None:
    """IL-034: a cursor that still had it would be wrong."""
    learned = Learned(2, _claims(3))
    assert not learned.unsaved
    learned.open(Advertise(records=_claims(3)), _LIMITS)
    assert not learned.unsaved, "nothing has changed"
    learned.open(Advertise(records=_claims(2)), _LIMITS)
    assert learned.unsaved


def test_a_record_that_lies_in_no_child_is_gone_when_only_children_are_named() -> None:
    """ILC-110, IL-195: its whole payload is the prefix, as a foreign format may have it."""
    claims = tuple(one for one in _claims(400) if payload(one.record)[0] == "a")
    stray = advertisement("B.a.X", _SOURCE, ())
    offers = Offers(1)
    offers.update(claims, ())
    learned = Learned(1, (*claims, stray))
    service = Service(list_outright_max=1, list_partition_max=1)
    learned.open(offers.opening(_LIMITS, service), _LIMITS)
    questions = learned.ask(_LIMITS, service)
    assert questions == Questions(lists=(), narrows=("a",))
    learned.hear(Advertise(), _LIMITS)
    assert learned.ask(_LIMITS, service) == Questions(lists=(), narrows=())
    learned.hear(offers.answer(questions, _LIMITS), _LIMITS)
    assert stray.record not in learned
    learned.end_phase()
    assert learned.advertisements() == claims


def test_children_that_are_not_named_are_gone() -> None:
    """ILC-110, IL-195."""
    one, *_, other = sorted(
        (claim for claim in _claims(400) if payload(claim.record)[0] == "b"), key=lambda c: c.record
    )
    learned = Learned(1, (one, other))
    learned.open(Advertise(partitions=(_partition("b", other),)), _LIMITS)
    learned._asked.narrows["b"] = _partition("b", other)
    learned._to_ask = []
    learned.hear(Advertise(), _LIMITS)
    learned.hear(Advertise(partitions=(_partition(payload(other.record)[:2], other),)), _LIMITS)
    learned.end_phase()
    assert learned.advertisements() == (other,)


def _partition(prefix: str, *claims: Advertisement) -> Partition:
    return Partition(prefix=prefix, count=len(claims), root=merkle.root([claim.digest for claim in claims]))


def test_what_was_announced_is_checked_at_the_end() -> None:
    """IL-194, IL-266: a parent whose root its children do not make."""
    claims = tuple(one for one in _claims(300) if payload(one.record)[0] == "c")
    wrong = Partition(prefix="c", count=len(claims), root=bytes(32))
    learned = Learned(1, claims)
    learned.open(Advertise(partitions=(wrong,)), _LIMITS)
    service = Service(list_partition_max=1)
    assert learned.ask(_LIMITS, service).narrows == ("c",)
    learned.hear(Advertise(), _LIMITS)
    learned.ask(_LIMITS, service)
    parts = Partitions(2)
    for claim in claims:
        parts.add(claim.record, claim.digest)
    learned.hear(Advertise(partitions=parts.summaries()), _LIMITS)
    assert learned.ask(_LIMITS, service) == Questions(lists=(), narrows=())
    learned.hear(Advertise(), _LIMITS)
    with pytest.raises(Abort) as aborted:
        learned.end_phase()
    assert aborted.value.reason is Reason.ROOT_MISMATCH


def test_questions_fit_into_one_listing() -> None:
    """IL-277: what does not fit is asked for in the next block, and a phase does not end before."""
    truth = _claims(12)
    limits = Limits(max_advertisement_records_listed=5)
    learned = Learned(2)
    learned.open(Advertise(partitions=_summaries(truth)), limits)
    heard: list[tuple[str, ...]] = []
    due: tuple[Advertisement, ...] = ()
    while questions := learned.ask(limits, Service()).lists:
        heard.append(questions)
        learned.hear(Advertise(records=due), limits)
        due = tuple(one for one in truth if payload(one.record)[:2] in questions)
        assert len(due) <= 5
    with pytest.raises(Abort):
        learned.end_phase()
    learned.hear(Advertise(records=due), limits)
    learned.end_phase()
    assert len(heard) > 2
    assert learned.advertisements() == truth


def test_malformed_first_blocks() -> None:
    """IL-265."""
    whole = _summaries(_claims(1))
    assert _reason(Learned(2), Advertise(lists=("ab",)), opening=True) is Reason.OUT_OF_PHASE
    both = Advertise(records=_claims(1), partitions=whole)
    assert _reason(Learned(2), both, opening=True) is Reason.MALFORMED_SUMMARY
    empty = Partition(prefix="ab", count=0, root=merkle.EMPTY)
    assert _reason(Learned(2), Advertise(partitions=(empty,)), opening=True) is Reason.MALFORMED_SUMMARY
    later = _listed(_claims(1))
    wrong = Partition(prefix="ab", count=0, root=bytes(32))
    assert _reason(later, Advertise(partitions=(wrong,)), opening=True) is Reason.MALFORMED_SUMMARY


def test_malformed_answers() -> None:
    """IL-109, IL-110, IL-265: nobody asked for them, or they are empty."""
    child = Partition(prefix="abc", count=1, root=bytes(32))
    assert _reason(Learned(2), Advertise(partitions=(child,))) is Reason.MALFORMED_SUMMARY
    assert _reason(Learned(2), Advertise(records=_claims(1))) is Reason.MALFORMED_BLOCK
    learned = Learned(2)
    limits = Limits(max_advertisement_records_listed=1)
    learned.open(Advertise(partitions=(Partition(prefix="ab", count=2, root=bytes(32)),)), limits)
    assert learned.ask(limits, Service()).narrows == ("ab",)
    learned.hear(Advertise(), limits)
    empty = Partition(prefix="abc", count=0, root=merkle.EMPTY)
    assert _reason(learned, Advertise(partitions=(empty,))) is Reason.MALFORMED_SUMMARY


def test_a_cursor_whose_digest_is_wrong_is_repaired_by_the_listing() -> None:
    """IL-182."""
    (true,) = _claims(1)
    learned = Learned(2, [Advertisement(record=true.record, fields=true.fields, digest=bytes(32))])
    learned.open(Advertise(partitions=_summaries((true,))), _LIMITS)
    learned.ask(_LIMITS, Service())
    learned.hear(Advertise(), _LIMITS)
    learned.ask(_LIMITS, Service())
    learned.hear(Advertise(records=(true,)), _LIMITS)
    learned.end_phase()
    assert learned.advertisements() == (true,)


def test_reading_directly_gives_what_a_listing_gives() -> None:
    """IL-289, IL-283: at first, after changes, and from another source than before."""
    claims = _claims(6)
    offers = Offers(2, _SOURCE)
    offers.update(claims[:4], ())
    learned = Learned(2)
    learned.open(offers.opening(_LIMITS, Service(), direct=True), _LIMITS)
    assert learned.advertisements() == claims[:4]
    offers.update(claims[4:], [claims[0].record])
    learned.open(offers.opening(_LIMITS, Service(), direct=True), _LIMITS)
    learned.end_phase()
    assert learned.advertisements() == claims[1:]
    assert learned.summary() == offers.summary() == _summaries(claims[1:])
    other = Offers(2, _SOURCE)
    other.update(claims[:1], ())
    learned.begin_exchange()
    learned.open(other.opening(_LIMITS, Service(), direct=True), _LIMITS)
    assert learned.advertisements() == claims[:1]
    learned.check()


def test_limits_on_what_comes() -> None:
    """IL-277, IL-278."""
    learned = Learned(2)
    with pytest.raises(LimitReached):
        learned.open(Advertise(records=_claims(4)), Limits(max_advertisement_records_listed=3))
    with pytest.raises(LimitReached):
        learned.hear(Advertise(records=_claims(4)), Limits(max_advertisement_records_listed=3))
    with pytest.raises(LimitReached):
        learned.open(Advertise(partitions=_summaries(_claims(4))), Limits(max_partition_summaries=1))


def test_a_partition_of_exactly_the_limit_is_asked_for() -> None:
    """IL-277: what cannot be narrowed further may have as many records as one listing, and no more."""
    at_depth = Limits(max_advertisement_records_listed=3, max_narrowing_depth=1)
    for count, fits in ((3, True), (4, False)):
        learned = Learned(2)
        learned.open(Advertise(partitions=(Partition(prefix="ab", count=count, root=merkle.EMPTY),)), at_depth)
        if fits:
            assert learned.ask(at_depth, Service()) == Questions(lists=("ab",), narrows=())
        else:
            assert learned.ask(at_depth, Service()) == Questions(lists=(), narrows=("ab",))


def test_no_more_is_asked_for_than_a_block_has_room_for() -> None:
    """IL-276, ILC-128: a listing that could not be sent is asked for in parts."""
    limits = Limits(max_fact_block_size=4 * 1024)
    learned = Learned(2)
    summaries = tuple(Partition(prefix=f"a{one}", count=2, root=merkle.EMPTY) for one in "abcde")
    learned.open(Advertise(partitions=summaries), limits)
    assert learned.ask(limits, Service()).lists == ("aa", "ab")


def test_a_large_partition_is_narrowed_even_where_nothing_is_known() -> None:
    """IL-276, ILC-128."""
    limits = Limits(max_fact_block_size=4 * 1024)
    learned = Learned(2)
    learned.open(Advertise(partitions=(Partition(prefix="ab", count=9, root=merkle.EMPTY),)), limits)
    assert learned.ask(limits, Service()) == Questions(lists=(), narrows=("ab",))


def test_claims_are_bounded_in_all() -> None:
    """IL-037, IL-047."""
    learned = Learned(2, claims_max=3)
    learned.open(Advertise(records=_claims(3)), _LIMITS)
    with pytest.raises(LimitReached) as reached:
        learned.open(Advertise(records=_claims(4)), _LIMITS)
    assert reached.value.limit == "claims_max"


def test_a_claim_that_lies_in_no_child_does_not_stay() -> None:
    """IL-195, IL-181: what a cursor holds under a payload as short as its prefix is gone when the peer has no such."""
    claims = _claims(200)
    prefix = payload(claims[0].record)[:2]
    stray = Advertisement(record=f"P.{prefix}.X1", fields=())
    learned = Learned(2, [*claims, stray], _SOURCE)
    offers = Offers(2, _SOURCE)
    offers.update(claims, ())
    service = Service(list_outright_max=1, list_partition_max=1)
    learned.open(offers.opening(_LIMITS, service), _LIMITS)
    for _ in range(4):
        questions = learned.ask(_LIMITS, service)
        learned.hear(Advertise(), _LIMITS)
        learned.hear(offers.answer(questions, _LIMITS), _LIMITS)
    learned.end_phase()
    assert stray.record not in learned
    assert len(learned) == len(claims)


# ---- what needs no question -----------------------------------------------------------------------------------------


def _own(claims: tuple[Advertisement, ...]) -> Offers:
    """The same records, as this side offers them."""
    offers = Offers(2, Origin("source:1"))
    offers.update([advertisement(one.record, Origin("source:1"), one.fields) for one in claims], ())
    return offers


def _recognised(own: Offers, claims: tuple[Advertisement, ...], held: tuple[Advertisement, ...] = ()) -> Learned:
    learned = Learned(2, held, _SOURCE)
    learned.changes()
    learned.open(Advertise(partitions=_summaries(claims)), _LIMITS, own.under)
    return learned


@pytest.mark.parametrize("held", [0, 20, 60])
def test_claims_that_this_side_could_make_itself_are_not_asked_for(held: int) -> None:
    """Nor what was known before together with those: each side has now what one of them had."""
    claims = _claims(100)
    learned = _recognised(_own(claims[held // 2 :]), claims, claims[:held])
    questions = learned.ask(_LIMITS, Service())
    assert not questions.lists
    assert not questions.narrows
    learned.end_phase()
    learned.check()
    assert [(one.record, one.fields) for one in learned.advertisements()] == [
        (one.record, one.fields) for one in claims
    ]
    assert learned.changes().claimed == {one.record: one.fields for one in claims[held:]}
    assert learned.summary() == _summaries(claims)
    assert learned.unsaved


def test_what_was_claimed_and_is_not_any_more_is_withdrawn_without_a_question() -> None:
    claims = _claims(40)
    extra = advertisement(f"P.{payload(claims[0].record)[:2]}{'0' * 41}.H3", _SOURCE, claims[0].fields)
    learned = _recognised(_own(claims), claims, (*claims, extra))
    assert learned.ask(_LIMITS, Service()) == Questions(lists=(), narrows=())
    learned.end_phase()
    assert learned.changes().withdrawn == {extra.record}


def test_claims_with_other_fields_or_other_records_are_asked_for() -> None:
    claims = _claims(60)
    [other] = _claims(1, value="other")
    differing = tuple(other if one.record == other.record else one for one in claims)
    for own in (_own(claims), _own(claims[:-1]), _own((*claims, *_claims(60, first=60)))):
        learned = _recognised(own, differing)
        asked = learned.ask(_LIMITS, Service()).lists
        assert payload(other.record)[:2] in asked
        assert len(learned) < len(claims)
        learned.check()


def test_a_child_is_recognised_like_a_partition() -> None:
    claims = _claims(300)
    large = max(_summaries(claims), key=lambda part: part.count)
    inside = tuple(one for one in claims if payload(one.record).startswith(large.prefix))
    learned = Learned(2, inside[:-1], _SOURCE)
    learned.open(Advertise(partitions=(large,)), _LIMITS, _own(inside[1:-1]).under)
    service = Service(list_partition_max=1)
    assert learned.ask(_LIMITS, service).narrows == (large.prefix,)
    learned.hear(Advertise(), _LIMITS)
    parts = Partitions(2)
    for one in inside:
        parts.add(one.record, one.digest)
    assert learned.ask(_LIMITS, service) == Questions(lists=(), narrows=())
    learned.hear(Advertise(partitions=parts.children(large.prefix)), _LIMITS)
    asked = learned.ask(_LIMITS, Service(list_partition_max=64)).lists
    assert asked == (payload(inside[-1].record)[:3],)


def test_claims_that_were_proven_as_a_whole_are_told_as_changes() -> None:
    learned = _listed(_claims(20))
    learned.changes()
    claims = learned.nothing()
    kept, changed, came = _claims(10), _claims(2, first=10, value="y"), _claims(3, first=40)
    claims.update({one.record: one for one in (*kept, *changed, *came)})
    learned.unsaved = False
    learned.become(claims, ClaimIndex(claims_of([*kept, *changed, *came])))
    learned.check()
    changes = learned.changes()
    assert set(changes.claimed) == {one.record for one in (*changed, *came)}
    assert changes.withdrawn == {one.record for one in _claims(8, first=12)}
    assert learned.unsaved
    assert len(learned) == 15


def test_the_root_that_a_cursor_knows_is_said_without_hashing(monkeypatch: pytest.MonkeyPatch) -> None:
    root = ClaimIndex(claims_of(_claims(20))).root()
    learned = Learned(2, _claims(20), root=root)
    learned.check()
    learned = Learned(2, _claims(20), root=root)
    with monkeypatch.context() as patched:
        patched.setattr("bobbin.interlace.learned.claims_of", lambda _: pytest.fail("everything is hashed"))
        assert learned.root == learned.known_root == root
    learned.open(Advertise(records=tuple(_claims(5))), Limits())
    assert learned.known_root == b"", "it was of what was held before"
    assert learned.root == learned.known_root == ClaimIndex(claims_of(_claims(5))).root()
    again = Learned(2, _claims(20), root=root)
    index = ClaimIndex(claims_of(_claims(3)))
    claims = again.nothing()
    for one in _claims(3):
        claims[one.record] = one
    again.become(claims, index)
    assert again.root == index.root()
    again.check()


def test_the_index_is_that_of_what_is_held() -> None:
    learned = _listed(_claims(20))
    assert learned.index.root() == ClaimIndex(claims_of(_claims(20))).root()
    learned.open(Advertise(records=_claims(5)), _LIMITS, complete=True)
    assert learned.index.root() == ClaimIndex(claims_of(_claims(5))).root()
    assert learned.is_settled


def test_no_more_claims_are_held_than_the_bound_says() -> None:
    learned = Learned(2, claims_max=3)
    claims = learned.nothing()
    claims.update({one.record: one for one in _claims(4)})
    with pytest.raises(LimitReached):
        learned.become(claims, ClaimIndex(claims_of(_claims(4))))
    assert len(learned) == 0
