"""Every limit at its edge: what just fits, and what is one too many."""

import pytest

from bobbin.interlace.config import Open
from bobbin.interlace.events import (
    StoreChanged,
    Undecodable,
    Unsendable,
)
from bobbin.interlace.learned import Learned
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Advertise, Message, Partition, Request
from bobbin.interlace.offers import Questions
from bobbin.interlace.partitions import payload
from bobbin.interlace.reasons import LimitReached, Reason
from bobbin.interlace.result import Result
from bobbin.interlace.state import Phase
from bobbin.interlace.transfer import Account
from bobbin.runtime.codec_channel import CodecChannel
from bobbin.runtime.pair import Channel, Pair, Side
from tests.support.exchanges import (
    Against,
    Meeting,
    Watched,
    config,
    delivered,
    hashes,
    meet,
    record,
    records,
)


def _ended(against: Against) -> Result:
    assert against.closed
    assert against.result is not None
    assert not against.result.fixed_point
    assert against.result.detail
    return against.result


# ---- fact block -----------------------------------------------------------------------------------------------------


def _with_sizes(limits: Limits) -> tuple[Meeting, list[tuple[Message, int]]]:
    meeting = meet(records(30), [], limits=limits)
    sizes: list[tuple[Message, int]] = []

    def channel(sender: Side, receiver: Side) -> Channel:
        return CodecChannel(sender.machine, receiver.machine, tap=lambda message, size: sizes.append((message, size)))

    meeting.pair = Pair(meeting.left, meeting.right, clock=meeting.clock, channel=channel)
    return meeting, sizes


def test_the_largest_block_is_exactly_as_large_as_the_limit() -> None:
    """IL-047, IL-268, IL-275, IL-276, IL-037: one byte less, and the exchange stops with the limit named."""
    meeting, sizes = _with_sizes(Limits())
    meeting.run()
    largest = max(size for message, size in sizes if isinstance(message, Advertise | Request)) - 1
    # A hello with smaller numbers is no larger, and the listing is the largest block by far.
    assert meet(records(30), [], limits=Limits(max_fact_block_size=largest), codec=True).run()[1].received
    left, right = meet(records(30), [], limits=Limits(max_fact_block_size=largest - 1), codec=True).run()
    assert (left.reason, left.limit) == (Reason.OVERSIZED_BLOCK, "max_fact_block_size")
    assert right.reason is Reason.LINK_LOST
    assert not right.received
    assert Limits().max_fact_block_size == 64 * 1024 * 1024


def test_an_oversized_block_of_the_peer_aborts() -> None:
    """IL-268: the receiver's own limit holds, also against a sender that has none."""
    against = Against(config())
    against.to_loop()
    against.give(Undecodable(Reason.OVERSIZED_BLOCK, "too large"))
    assert _ended(against).reason is Reason.OVERSIZED_BLOCK


def test_an_own_block_that_does_not_go_through_ends_the_exchange() -> None:
    """IL-047, IL-268."""
    against = Against(config())
    against.to_loop()
    against.give(Unsendable(reason=Reason.OVERSIZED_BLOCK, detail="too large", limit="max_fact_block_size"))
    result = _ended(against)
    assert (result.reason, result.limit) == (Reason.OVERSIZED_BLOCK, "max_fact_block_size")


# ---- listing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [100_000, 3])
def test_a_listing_has_so_many_records_and_not_one_more(limit: int) -> None:
    """IL-277, IL-275, IL-047, ILC-126: refused whole, not cut."""
    limits = Limits() if limit == 100_000 else Limits(max_advertisement_records_listed=limit)
    for count, fits in ((limit, True), (limit + 1, False)):
        against = Against(config(limits=limits))
        against.to_loop()
        against.say(Advertise(records=(against.claim(record(1)),) * count))
        assert against.stands_in(Phase.REQUEST) is fits
        if not fits:
            result = _ended(against)
            assert (result.reason, result.limit) == (Reason.LISTING_LIMIT, "max_advertisement_records_listed")


def test_a_larger_send_set_goes_by_partitions() -> None:
    """ILC-128, IL-277: more than may be listed, and all of it arrives; no listing exceeds the limit."""
    meeting = meet(records(60), [], limits=Limits(max_advertisement_records_listed=5))
    _, right = meeting.run()
    assert right.received == hashes(records(60))
    assert max(len(block.records) for block in meeting.advertised("left")) <= 5
    assert meeting.advertised("left")[0].partitions


def test_a_partition_that_cannot_be_narrowed_stops_with_the_limit_named() -> None:
    """ILC-128, IL-047: two records under one prefix where one may be listed and nothing narrowed."""
    limits = Limits(max_advertisement_records_listed=1, max_narrowing_depth=1)
    against = Against(config(limits=limits))
    against.to_loop()
    against.say(Advertise(partitions=(Partition(prefix="ab", count=2, root=bytes(32)),)))
    against.say(Advertise())
    against.say(Advertise(partitions=(Partition(prefix="abc", count=2, root=bytes(32)),)))
    result = _ended(against)
    assert (result.reason, result.limit) == (Reason.LISTING_LIMIT, "max_advertisement_records_listed")


def test_a_peer_may_not_have_more_listed_than_the_limit() -> None:
    """IL-277: however it asks for it."""
    some = records(40)
    against = Against(config(limits=Limits(max_advertisement_records_listed=3)), Watched(some))
    against.to_loop()
    against.say(Advertise())
    prefixes = sorted({payload(one.hash)[:2] for one in some})
    against.say(Advertise(lists=tuple(prefixes)))
    assert _ended(against).reason is Reason.LISTING_LIMIT


# ---- summaries ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [16_384, 3])
def test_so_many_summaries_come_in_one_exchange_and_not_one_more(limit: int) -> None:
    """IL-278, IL-275, IL-047."""
    limits = Limits() if limit == 16_384 else Limits(max_partition_summaries=limit)
    part = Partition(prefix="ab", count=1, root=bytes(32))
    for count, fits in ((limit, True), (limit + 1, False)):
        against = Against(config(limits=limits))
        against.to_loop()
        against.say(Advertise(partitions=(part,) * count))
        assert against.stands_in(Phase.ADVERTISE) is fits
        if not fits:
            result = _ended(against)
            assert (result.reason, result.limit) == (Reason.SUMMARY_LIMIT, "max_partition_summaries")


def test_summaries_are_counted_over_the_whole_exchange() -> None:
    """IL-278, ILC-127, IL-037: two iterations together go past what one of them does not."""
    learned = Learned(2)
    limits = Limits(max_partition_summaries=3)
    parts = tuple(Partition(prefix=prefix, count=1, root=bytes(32)) for prefix in ("aa", "ab"))
    learned.open(Advertise(partitions=parts), limits)
    with pytest.raises(LimitReached):
        learned.open(Advertise(partitions=parts), limits)
    learned.begin_round()
    learned.open(Advertise(partitions=parts), limits)


def test_a_send_set_with_too_many_partitions_is_listed_or_stops() -> None:
    """IL-278, IL-047, ILC-128."""
    some = records(40)
    summaries = Service(list_outright_max=1)
    meeting = meet(some, [], limits=Limits(max_partition_summaries=5), service=summaries)
    assert meeting.run()[1].received == hashes(some)
    assert not meeting.advertised("left")[0].partitions
    tight = Limits(max_partition_summaries=5, max_advertisement_records_listed=5)
    left, right = meet(some, [], limits=tight, service=summaries).run()
    assert (left.reason, left.limit) == (Reason.SUMMARY_LIMIT, "max_partition_summaries")
    assert not right.received


# ---- narrowing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [12, 1])
def test_a_partition_is_narrowed_so_often_and_not_once_more(depth: int) -> None:
    """IL-279, IL-275, ILC-111: prefixes of length 2 to 14 under the default; deeper questions abort."""
    limits = Limits() if depth == 12 else Limits(max_narrowing_depth=depth)
    deepest = payload(record(1).hash)[: 2 + depth]
    for question, fits in (
        (Advertise(narrows=(deepest[:-1],)), True),
        (Advertise(lists=(deepest,)), True),
        (Advertise(narrows=(deepest,)), False),
        (Advertise(lists=(deepest + "a",)), False),
    ):
        against = Against(config(limits=limits, service=Service(list_outright_max=1)), Watched(records(3)))
        against.to_loop()
        against.say(Advertise())
        said = against.say(question)
        if fits:
            (answer,) = said
            assert isinstance(answer, Advertise)
            assert [one.record for one in answer.records] == ([record(1).hash] if question.lists else [])
            assert [part.prefix for part in answer.partitions] == ([] if question.lists else [deepest])
        else:
            assert _ended(against).reason is Reason.NARROWING_LIMIT


def test_this_side_asks_no_deeper_than_the_limit() -> None:
    """IL-279: at the deepest prefix a partition is listed."""
    limits = Limits(max_narrowing_depth=2)
    learned = Learned(2)
    service = Service(list_partition_max=1)
    learned.open(Advertise(partitions=(Partition(prefix="ab", count=200_000, root=bytes(32)),)), limits)
    assert learned.ask(limits, service) == Questions(lists=(), narrows=("ab",))
    learned.hear(Advertise(), limits)
    learned.ask(limits, service)
    learned.hear(Advertise(partitions=(Partition(prefix="abc", count=200_000, root=bytes(32)),)), limits)
    assert learned.ask(limits, service).narrows == ("abc",)
    learned.hear(Advertise(), limits)
    learned.ask(limits, service)
    learned.hear(Advertise(partitions=(Partition(prefix="abcd", count=200_000, root=bytes(32)),)), limits)
    with pytest.raises(LimitReached):
        learned.ask(limits, service)


# ---- bytes ----------------------------------------------------------------------------------------------------------


def test_so_many_bytes_move_in_one_round_and_not_one_more() -> None:
    """IL-269, IL-275, IL-280, ILC-129, ILC-126: both directions together; the rest is a partial result."""
    here, there = records(4), records(4, first=10)
    total = sum(len(one.raw) for one in [*here, *there])
    one_way = Service(request_records_max=1)
    results = meet(here, there, limits=Limits(max_total_transferred_bytes=total), service=one_way).run()
    assert [result.fixed_point for result in results] == [True, True]
    assert [result.bytes_sent + result.bytes_received for result in results] == [total, total]

    meeting = meet(here, there, limits=Limits(max_total_transferred_bytes=total - 1), service=one_way)
    left, right = meeting.run()
    assert Reason.TRANSFER_LIMIT in (left.reason, right.reason)
    for result, holdings, before in ((left, meeting.here, here), (right, meeting.there, there)):
        assert not result.fixed_point
        assert result.received == set(holdings.records) - hashes(before)
        assert result.received
        if result.reason is Reason.TRANSFER_LIMIT:
            assert result.limit == "max_total_transferred_bytes"


def test_the_default_is_one_gibibyte() -> None:
    """IL-280."""
    account = Account()
    account.received, account.sent = 2**29, 2**29 - 1
    assert account.has_room(1, Limits())
    assert not account.has_room(2, Limits())


def test_a_peer_that_sends_too_much_is_stopped_with_what_came_before() -> None:
    """IL-269, IL-273, IL-280: the record past the limit is not stored, those before it are."""
    some = sorted(records(3), key=lambda one: one.hash)
    limits = Limits(max_total_transferred_bytes=len(some[0].raw) + len(some[1].raw))
    against = Against(config(limits=limits))
    against.to_transfer(some)
    against.say(delivered(*some))
    result = _ended(against)
    assert (result.reason, result.limit) == (Reason.TRANSFER_LIMIT, "max_total_transferred_bytes")
    assert set(against.holdings.records) == result.received == hashes(some[:2])
    assert result.deferred == hashes(some[2:])
    assert result.bytes_received == limits.max_total_transferred_bytes


def test_a_new_round_counts_anew() -> None:
    """IL-280, ILC-125, ILC-129: the limit is of a round, not of an open exchange."""
    limit = Limits(max_total_transferred_bytes=2 * len(record(1).raw))
    holdings = Watched()
    meeting = meet(holdings, [], lifecycle=Open(), limits=limit)
    meeting.start()
    for number in range(5):
        holdings.put(record(number))
        meeting.give("left", StoreChanged())
    assert set(meeting.there.records) == hashes(records(5))
    assert meeting.left.result is None


# ---- iterations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [16, 4])
def test_so_many_iterations_make_a_round_and_not_one_more(limit: int) -> None:
    """IL-275, IL-281, IL-224, IL-047, ILC-125, ILC-126: the limit is named, it is no fixed point."""
    limits = Limits() if limit == 16 else Limits(max_loop_iterations=limit)
    one_by_one = Service(request_records_max=1)
    # One iteration for each record, and one in which nobody wants anything.
    results = meet(records(limit - 1), [], limits=limits, service=one_by_one).run()
    assert [(result.iterations, result.fixed_point) for result in results] == [(limit, True), (limit, True)]
    meeting = meet(records(limit), [], limits=limits, service=one_by_one)
    results = meeting.run()
    for result in results:
        assert (result.reason, result.limit) == (Reason.LOOP_LIMIT, "max_loop_iterations")
        assert not result.fixed_point
        assert result.iterations == limit
    assert results[1].received == hashes(meeting.there.records.values())
    assert len(results[1].received) == limit
