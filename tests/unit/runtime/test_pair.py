"""Two machines in one thread: whose turn it is, what becomes of effects, and how an end gets about."""

from collections.abc import Callable

import pytest

from bobbin.errors import ResourceError
from bobbin.interlace.config import Open
from bobbin.interlace.effects import Ended, Persist, SaveCursor
from bobbin.interlace.events import (
    Cancelled,
    LinkClosed,
    PersistFailed,
    Received,
    Settled,
    Started,
    Undecodable,
    Unsendable,
)
from bobbin.interlace.limits import Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Advertise, Message, Request, Transfer
from bobbin.interlace.reasons import LimitReached, Reason
from bobbin.interlace.state import Awaits, Phase
from bobbin.runtime.pair import Channel, DirectChannel, Pair, Side, failure
from bobbin.store.base import FullStore, StoreError
from tests.support.exchanges import Meeting, SetClock, Watched, config, hashes, meet, record, records


def test_a_direct_channel_hands_over_what_it_got() -> None:
    """IL-284, IL-058."""
    channel = DirectChannel()
    assert channel.pull(Awaits.REQUEST) is None
    messages: list[Message] = [Request(records=("P.a.H3",)), Advertise()]
    for message in messages:
        channel.push(message)
    assert [channel.pull(Awaits.REQUEST), channel.pull(Awaits.REQUEST)] == [Received(message) for message in messages]
    assert channel.pull(Awaits.REQUEST) is None


def test_a_pair_runs_to_the_end() -> None:
    """IL-284, IL-286."""
    meeting = meet(records(3), records(3, first=2))
    left, right = meeting.run()
    assert left == meeting.left.result
    assert right == meeting.right.result
    assert set(meeting.here.records) == set(meeting.there.records) == hashes(records(5))
    assert [isinstance(side.notices[-1], Ended) for side in (meeting.left, meeting.right)] == [True, True]


def test_everything_is_stored_through_the_validating_door() -> None:
    """IL-285: what one side hands over is validated by the other; the store of the peer is never touched."""
    meeting = meet(records(2), [])
    meeting.run()
    assert isinstance(meeting.there, Watched)
    assert meeting.there.doings.count("persist") == 1
    assert all(meeting.there.records[name] is not meeting.here.records[name] for name in meeting.there.records)


def test_observers_see_every_step() -> None:
    seen: list[str] = []
    machine = InterlaceMachine(config(), Watched())
    side = Side(machine, Watched(), [lambda event, _: seen.append(type(event).__name__)])
    other = Side(InterlaceMachine(config(initiator=False), Watched()), Watched())
    Pair(side, other, clock=SetClock()).run()
    assert seen[:3] == ["Started", "Received", "Received"]


def test_a_machine_that_awaits_nothing_is_given_nothing() -> None:
    side = Side(InterlaceMachine(config(), Watched()), Watched())
    waiting = DirectChannel()
    waiting.push(Request())
    clock = SetClock()
    assert not side.turn(waiting, DirectChannel(), peer_closed=False, now=clock())
    assert isinstance(waiting.pull(Awaits.REQUEST), Received)


def test_an_end_of_one_side_is_the_end_of_the_link() -> None:
    """IL-236: after what was said before it."""
    meeting = meet(records(1), [], lifecycle=Open())
    meeting.start()
    meeting.give("right", Cancelled())
    assert meeting.left.closed
    assert meeting.right.closed
    assert meeting.left.result is not None
    assert meeting.left.result.fixed_point
    # Nothing is left to do.
    meeting.pair.settle()
    assert not meeting.left.turn(DirectChannel(), DirectChannel(), peer_closed=True, now=meeting.clock())


class _Narrow(DirectChannel):
    """A link that does not carry listings."""

    def push(self, message: Message) -> None:
        if isinstance(message, Advertise) and message.records:
            raise LimitReached(Reason.OVERSIZED_BLOCK, "max_fact_block_size", "too large")
        super().push(message)


def test_what_a_channel_refuses_comes_back_to_its_sender() -> None:
    """IL-268."""
    meeting = meet(records(2), [])
    events: list[object] = []
    meeting.left._observers = (*meeting.left._observers, lambda event, _: events.append(event))
    meeting.pair = Pair(meeting.left, meeting.right, clock=meeting.clock, channel=lambda *_: _Narrow())
    left, right = meeting.pair.run()
    assert any(isinstance(event, Unsendable) for event in events)
    assert (left.reason, left.limit) == (Reason.OVERSIZED_BLOCK, "max_fact_block_size")
    assert right.reason is Reason.LINK_LOST


class _Garbled(DirectChannel):
    def pull(self, awaits: Awaits) -> Received | Undecodable | None:
        event = super().pull(awaits)
        return Undecodable(Reason.MALFORMED_BLOCK, "garbled") if awaits is Awaits.REQUEST and event else event


def test_what_cannot_be_read_ends_the_exchange() -> None:
    """IL-261."""
    meeting = meet(records(2), [])
    pair = Pair(meeting.left, meeting.right, clock=meeting.clock, channel=lambda *_: _Garbled())
    assert Reason.MALFORMED_BLOCK in {result.reason for result in pair.run()}


def test_parts_of_a_transfer_follow_one_another() -> None:
    meeting = meet(records(5), [], service=Service(chunk_records_max=2))
    meeting.run()
    assert [len(part.responses) for part in meeting.transferred("left") if part.responses] == [2, 2, 1]


def test_a_channel_is_made_for_each_direction() -> None:
    made: list[tuple[Side, Side]] = []
    meeting = meet([], [])

    def channel(sender: Side, receiver: Side) -> Channel:
        made.append((sender, receiver))
        return DirectChannel()

    Pair(meeting.left, meeting.right, clock=meeting.clock, channel=channel)
    assert made == [(meeting.left, meeting.right), (meeting.right, meeting.left)]


def test_a_side_whose_peer_is_gone_before_it_starts() -> None:
    side = Side(InterlaceMachine(config(), Watched()), Watched())
    side.give(Started())
    clock = SetClock()
    assert side.turn(DirectChannel(), DirectChannel(), peer_closed=True, now=clock())
    assert side.turn(DirectChannel(), DirectChannel(), peer_closed=True, now=clock())
    assert side.result is not None
    assert side.result.reason is Reason.LINK_LOST
    side.give(LinkClosed())
    assert side.turn(DirectChannel(), DirectChannel(), peer_closed=True, now=clock())


@pytest.mark.parametrize("left_first", [True, False])
def test_records_that_come_while_the_other_side_reads_directly_are_not_lost(*, left_first: bool) -> None:
    """IL-017, IL-289, IL-181: whenever it is stored, and whoever has the first turn."""
    for moment in range(1, 7):
        here = Watched(records(2))
        meeting = meet(here, Watched(records(2, first=20)), direct=True)
        here.before_evaluate = _put_at(here, moment)
        sides = (meeting.left, meeting.right) if left_first else (meeting.right, meeting.left)
        Pair(*sides, clock=meeting.clock).run()
        result = meeting.right.result
        assert result is not None
        assert result.fixed_point
        assert not result.not_available
        assert _offered(meeting) <= set(meeting.there.records)


def _put_at(holdings: Watched, moment: int) -> Callable[[], None]:
    def put() -> None:
        if holdings.evaluations == moment - 1:
            holdings.put(record(9))

    return put


def _offered(meeting: Meeting) -> set[str]:
    assert meeting.left.machine.epoch is not None
    assert meeting.left.machine.phase is Phase.ENDED
    return set(meeting.left.machine.epoch.offers.current())


def test_a_transfer_part_that_is_last_is_not_flushed() -> None:
    meeting = meet(records(1), [])
    meeting.run()
    assert [part.last for part in meeting.transferred("left")] == [True]
    assert all(isinstance(part, Transfer) for part in meeting.transferred("right"))


class _Full(Watched):
    """Holdings on a disk without room."""

    def persist(self, effect: Persist) -> tuple[Settled, ...]:
        raise ResourceError(f"no room for {len(effect.arrivals)} records", retry=False)


def test_a_store_that_fails_ends_the_exchange_with_what_was_moved_before() -> None:
    some = records(3)
    meeting = meet(_Full(), some)
    meeting.run()
    result, other = meeting.left.result, meeting.right.result
    assert result is not None
    assert other is not None
    assert (result.reason, result.detail, result.fixed_point) == (Reason.STORE, "no room for 3 records", False)
    assert not result.received
    assert result.deferred == hashes(some)
    assert other.reason is Reason.LINK_LOST
    assert not meeting.here.records


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (ResourceError("no majority answers", retry=True), True),
        (StoreError("another process writes", retry=True), True),
        (FullStore("no space"), False),
        (ResourceError("no disk", retry=False), False),
    ],
)
def test_space_does_not_come_by_itself(error: ResourceError, may_pass: bool) -> None:  # noqa: FBT001
    assert failure(error) == PersistFailed(str(error), may_pass=may_pass)


def test_a_cursor_that_could_not_be_kept_is_not_claimed() -> None:
    class Full(Watched):
        def save(self, effect: SaveCursor) -> bool:
            self.doings.append("save")
            del effect
            return False

    full = Full(records(2))
    here, there = meet(full, records(2, first=2), signed=True).run()
    assert "save" in full.doings
    assert here.fixed_point
    assert not here.cursor_updated
    assert there.cursor_updated
