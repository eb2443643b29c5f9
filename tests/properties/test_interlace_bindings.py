"""The same exchange as values and as bytes: the same words, the same results, the same stores."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bobbin.interlace.effects import Arrived, Notice
from bobbin.interlace.messages import Message, Request
from bobbin.interlace.result import Result
from bobbin.runtime.pair import Side
from tests.properties.effort import scaled
from tests.properties.interlace_worlds import World, random_world
from tests.support.exchanges import Meeting

_SEEDS = st.integers(0, 2**32)


def _outcome(meeting: Meeting) -> tuple[list[Result], set[str], set[str]]:
    """What has come of it, whichever way it went."""
    results = [structs.replace(result, strategies=()) for result in meeting.run()]
    return results, set(meeting.here.records), set(meeting.there.records)


def _words(meeting: Meeting, side: str) -> list[Message]:
    return [message for name, message in meeting.said if name == side]


def _told(side: Side) -> list[Notice]:
    """Everything but arrivals, which come in parts of other sizes where bytes are read."""
    return [notice for notice in side.notices if not isinstance(notice, Arrived)]


@scaled(0.4)
@given(_SEEDS)
def test_text_and_tuples_are_one_protocol(seed: int) -> None:
    """IL-058, IL-106, IL-283, IL-284, IL-286, ILC-102: message by message, under random policies and batches."""
    world = random_world(Random(seed))
    values, through_bytes = world.meeting(), world.meeting(codec=True)
    assert _outcome(values) == _outcome(through_bytes)
    for side in ("left", "right"):
        assert _words(values, side) == _words(through_bytes, side)
    for one, other in ((values.left, through_bytes.left), (values.right, through_bytes.right)):
        assert _told(one) == _told(other)
        assert one.machine.epoch is not None
        assert other.machine.epoch is not None
        assert one.machine.epoch.learned.advertisements() == other.machine.epoch.learned.advertisements()


@scaled(0.3)
@given(_SEEDS)
def test_reading_directly_leads_to_the_same_end(seed: int) -> None:
    """IL-181, IL-283, IL-284, IL-286, IL-289, ILC-102: no listing, no partition, and the same results and claims."""
    world = random_world(Random(seed))
    listing, direct = world.meeting(), world.meeting(direct=True)
    assert _outcome(listing) == _outcome(direct)
    for one, other in ((listing.left, direct.left), (listing.right, direct.right)):
        assert one.machine.epoch is not None
        assert other.machine.epoch is not None
        claims = [(claim.record, claim.fields) for claim in one.machine.epoch.learned.advertisements()]
        assert claims == [(claim.record, claim.fields) for claim in other.machine.epoch.learned.advertisements()]
    assert not any(block.records or block.partitions for side in ("left", "right") for block in direct.advertised(side))


def _is_settled(world: World, meeting: Meeting) -> None:
    left, right = meeting.run()
    limits = {left.limit, right.limit} - {None}
    assert limits <= {"max_loop_iterations"}
    if not limits:
        assert left.fixed_point
        assert right.fixed_point
    for result, other, holdings, before in (
        (left, right, meeting.here, world.here),
        (right, left, meeting.there, world.there),
    ):
        assert result.received == set(holdings.records) - {one.hash for one in before}
        assert result.received <= other.sent
        assert not result.rejected


@scaled(0.3)
@given(_SEEDS)
def test_every_exchange_ends_with_books_that_agree(seed: int) -> None:
    """IL-033, IL-224, IL-238, IL-239, IL-240, IL-241, IL-242: whatever the policies do; what came was sent."""
    world = random_world(Random(seed))
    for direct in (False, True):
        _is_settled(world, world.meeting(direct=direct))


@scaled(0.3)
@given(_SEEDS)
def test_nothing_is_requested_twice_or_without_being_advertised(seed: int) -> None:
    """IL-012, IL-040, IL-039: read off the transcript."""
    world = random_world(Random(seed))
    meeting = world.meeting()
    meeting.run()
    sent: dict[str, set[str]] = {"left": set(), "right": set()}
    for side, other in (("left", "right"), ("right", "left")):
        claimed = {claim.record for block in meeting.advertised(other) for claim in block.records}
        held = {one.hash for one in (world.here if side == "left" else world.there)}
        asked: list[str] = []
        for name, message in meeting.said:
            if name == side and isinstance(message, Request):
                assert set(message.records) <= claimed
                assert not set(message.records) & held
                asked += message.records
        assert len(set(asked)) == len(asked), "something was asked for twice"
        received = {response.record for part in meeting.transferred(other) for response in part.responses}
        assert received <= set(asked), "something came that nobody had asked for"
        for part in meeting.transferred(other):
            for response in part.responses:
                assert response.record not in sent[other]
                sent[other].add(response.record)
