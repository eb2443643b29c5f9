"""Every row of the error table as an exchange meets it, and the time that each phase has."""

from collections.abc import Callable

import pytest
from msgspec import structs

from bobbin.datalog.limits import Limits as ProgramLimits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.errors import ResourceError, UsageError
from bobbin.interlace.config import Open
from bobbin.interlace.effects import Persist
from bobbin.interlace.events import (
    Cancelled,
    Fired,
    LinkClosed,
    OperandChanged,
    PersistFailed,
    Started,
    StoreChanged,
    Undecodable,
)
from bobbin.interlace.limits import SECOND_NS, Limits, Service
from bobbin.interlace.messages import Advertise, Delivered, Hello, Message, Partition, Request, Setup, Transfer
from bobbin.interlace.offers import Offers
from bobbin.interlace.reasons import LimitReached, Reason
from bobbin.interlace.result import Result
from bobbin.interlace.rounds import Round
from bobbin.interlace.state import Phase
from bobbin.policy.executables import Budgets, PolicyCache
from bobbin.runtime.codec_channel import CodecChannel
from bobbin.runtime.pair import Channel, Pair, Side
from tests.support.exchanges import (
    Against,
    Changes,
    Watched,
    config,
    delivered,
    hashes,
    meet,
    record,
    records,
    selector,
)


def _ended(against: Against) -> Result:
    assert against.closed
    assert against.result is not None
    assert not against.result.fixed_point
    assert against.result.detail
    return against.result


# ---- phase timeout --------------------------------------------------------------------------------------------------


def _to_setup_again(against: Against) -> None:
    against.to_request()
    against.say(Request())
    against.say(Advertise())
    against.give(OperandChanged(selector("SelectHave(P) :- Have(P).\n")))


_PHASES: dict[Phase, Callable[[Against], object]] = {
    Phase.SETUP: lambda against: against.give(Started()),
    Phase.HELLO: lambda against: against.to_hello(),
    Phase.ADVERTISE: lambda against: against.to_loop(),
    Phase.REQUEST: lambda against: against.to_request(),
    Phase.TRANSFER: lambda against: against.to_transfer([record(1)]),
    Phase.SETUP_AGAIN: _to_setup_again,
}


@pytest.mark.parametrize("phase", _PHASES)
@pytest.mark.parametrize("seconds", [30, 7])
def test_a_phase_has_so_many_seconds(phase: Phase, seconds: int) -> None:
    """IL-267, IL-275, IL-282, ILC-126: each phase its own; then an abort with the reason."""
    limits = Limits() if seconds == 30 else Limits(phase_timeout=seconds)
    against = Against(config(limits=limits, lifecycle=Open()))
    against.clock.move(100)
    _PHASES[phase](against)
    assert against.stands_in(phase)
    assert against.timer is not None
    assert against.timer.monotonic_ns == (100 + seconds) * SECOND_NS
    against.clock.move(seconds)
    against.fire()
    assert _ended(against).reason is Reason.PHASE_TIMEOUT


def test_a_timer_of_an_earlier_phase_is_dropped() -> None:
    """IL-282: one timer per phase, none over several."""
    against = Against(config())
    against.to_hello()
    old = against.timer
    assert old is not None
    against.clock.move(20)
    against.say(against.hello())
    assert against.timer is not None
    assert against.timer.monotonic_ns == (20 + 30) * SECOND_NS
    against.clock.move(15)
    against.give(Fired(old.token))
    assert against.result is None


def test_all_blocks_of_an_advertise_phase_share_its_time() -> None:
    """IL-282: questions and answers do not prolong it."""
    against = Against(config(), Watched(records(3)))
    against.to_loop()
    timer = against.timer
    against.clock.move(20)
    against.say(Advertise(partitions=(Partition(prefix="ab", count=1, root=bytes(32)),)))
    assert against.timer == timer


def test_at_a_fixed_point_nobody_is_hurried() -> None:
    """IL-230, IL-282: an idle exchange has no phase timeout."""
    against = Against(config(lifecycle=Open()))
    against.to_request()
    against.say(Request())
    against.say(Advertise())
    assert against.stands_in(Phase.IDLE)
    against.clock.move(3)
    against.fire()
    assert against.result is None


# ---- the error table ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [phase for phase in _PHASES if phase is not Phase.SETUP_AGAIN])
@pytest.mark.parametrize("reason", [Reason.MALFORMED_BLOCK, Reason.MALFORMED_SUMMARY, Reason.FOREIGN_SOURCE])
def test_what_cannot_be_read_aborts_in_every_phase(phase: Phase, reason: Reason) -> None:
    """IL-256, IL-261, IL-265, ILC-060."""
    against = Against(config(), Watched(records(2, first=50)))
    _PHASES[phase](against)
    before = len(against.said)
    against.give(Undecodable(reason, "it is none"))
    result = _ended(against)
    assert (result.reason, result.detail) == (reason, "it is none")
    assert len(against.said) == before


def test_a_foreign_source_aborts() -> None:
    """ILC-060: an advertisement under another label than the peer's origin, on the wire."""
    meeting = meet(records(2), [], codec=True)

    def channel(sender: Side, receiver: Side) -> Channel:
        way = CodecChannel(sender.machine, receiver.machine)
        push = way.push

        def forge(message: Message) -> None:
            push(message)
            way._pieces = type(way._pieces)(
                piece.replace(b"'source:0'", b"'source:9'") if isinstance(message, Advertise) else piece
                for piece in way._pieces
            )

        way.push = forge  # type: ignore[method-assign]
        return way

    meeting.pair = Pair(meeting.left, meeting.right, clock=meeting.clock, channel=channel)
    _, right = meeting.run()
    assert right.reason is Reason.FOREIGN_SOURCE
    assert not meeting.there.records


@pytest.mark.parametrize("line", ["Nonsense('x'", "Advertised('x')x", "Hello-TAI('x')", "TickReady('\\x')", "A('\\n')"])
@pytest.mark.parametrize("kind", [Setup, Hello, Advertise, Request, Transfer])
def test_one_bad_line_spoils_its_block(kind: type[Message], line: str) -> None:
    """IL-261: whatever else the block says, and in whichever phase it comes."""
    meeting = meet(records(2), [], codec=True)

    def channel(sender: Side, receiver: Side) -> Channel:
        way = CodecChannel(sender.machine, receiver.machine)
        push = way.push

        def spoil(message: Message) -> None:
            if isinstance(message, kind) and sender is meeting.left:
                way._pieces.append(f"{line}\n".encode())
            push(message)

        way.push = spoil  # type: ignore[method-assign]
        return way

    meeting.pair = Pair(meeting.left, meeting.right, clock=meeting.clock, channel=channel)
    _, right = meeting.run()
    assert right.reason is Reason.MALFORMED_BLOCK
    assert not meeting.there.records


class _Failing(Watched):
    def __init__(self, error: Exception, *, at: int) -> None:
        super().__init__(records(2))
        self._error, self._at = error, at
        self.before_evaluate = self._fail

    def _fail(self) -> None:
        if self.evaluations == self._at:
            raise self._error


@pytest.mark.parametrize("cancelled", [False, True])
def test_what_cannot_be_stored_counts_as_not_delivered(*, cancelled: bool) -> None:
    """IL-033: the exchange ends, once, for the reason that came first."""
    against = Against(config())
    against.to_transfer([record(1), record(2)])
    against.holds_back = True
    against.say(delivered(record(1), last=False))
    if cancelled:
        against.give(Cancelled())
        assert against.result is None
    against.give(PersistFailed("the disk is full"))
    result = _ended(against)
    expected = (Reason.CANCELLED, "this side ended the exchange") if cancelled else (Reason.STORE, "the disk is full")
    assert (result.reason, result.detail) == expected
    assert (result.received, result.deferred) == (frozenset(), hashes([record(1), record(2)]))
    with pytest.raises(UsageError):
        against.give(PersistFailed("the disk is full"))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_evaluation_error_is_terminal(at: int) -> None:
    """IL-198: at whichever evaluation of the round; it is not taken for an empty result."""
    against = Against(config(), _Failing(LimitExceeded("steps_max", "too many steps"), at=at))
    against.to_hello()
    against.say(against.hello())
    if at:
        against.say(Advertise())
    if at > 1:
        against.say(Request(records=(record(0).hash,)))
    result = _ended(against)
    assert (result.reason, result.detail) == (Reason.EVALUATION, "too many steps")
    assert not result.sent


def test_a_policy_that_costs_too_much_is_terminal() -> None:
    """IL-198: the real thing, not a stand-in."""
    holdings = Watched(records(5))
    holdings._cache = PolicyCache(budgets=Budgets(own=ProgramLimits(derived_tuples_max=2)))
    left, right = meet(holdings, []).run()
    assert left.reason is Reason.EVALUATION
    assert right.reason is Reason.LINK_LOST


def test_a_store_that_fails_ends_the_round() -> None:
    """IL-256: with a reason of its own."""

    class Full(ResourceError):
        pass

    against = Against(config(), _Failing(Full("no room", retry=False), at=0))
    against.to_hello()
    against.say(against.hello())
    assert _ended(against).reason is Reason.STORE


_ENDINGS: dict[str, Callable[[Against], object]] = {
    "malformed": lambda against: against.give(Undecodable(Reason.MALFORMED_BLOCK, "it is none")),
    "timeout": lambda against: against.fire(),
    "cancelled": lambda against: against.give(Cancelled()),
    "link lost": lambda against: against.give(LinkClosed()),
    "out of phase": lambda against: against.say(Request()),
    "unrequested": lambda against: against.say(delivered(record(99))),
}


@pytest.mark.parametrize("ending", _ENDINGS.values(), ids=_ENDINGS.keys())
@pytest.mark.parametrize("settled", [True, False])
def test_after_an_end_stored_records_stay_and_are_reported(
    ending: Callable[[Against], object], *, settled: bool
) -> None:
    """IL-224, IL-256, IL-273, ILC-126: what was being stored is waited for; the end comes once, and last."""
    some = records(3)
    against = Against(config())
    against.to_transfer(some)
    against.holds_back = not settled
    against.say(delivered(some[0], last=False))
    ending(against)
    assert against.closed
    assert (against.result is not None) is settled
    against.holds_back = False
    while against.waiting:
        against.give(against.waiting.pop(0))
    result = _ended(against)
    assert result.received == set(against.holdings.records) == {some[0].hash}
    assert against.stands_in(Phase.ENDED)
    said = len(against.said)
    for event in (Cancelled(), LinkClosed(), StoreChanged(), Undecodable(Reason.MALFORMED_BLOCK, "x")):
        against.give(event)
    assert against.result is result
    assert len(against.said) == said


def test_after_an_abort_the_next_exchange_starts_from_negotiation() -> None:
    """IL-237, IL-274: nothing of the old agreement, its phase or its requests is left."""
    holdings = Watched()
    broken = Against(config(), holdings)
    broken.to_transfer(records(3))
    broken.give(LinkClosed())
    again = Against(config(), holdings)
    assert again.machine.epoch is None
    again.to_transfer(records(3))
    again.say(delivered(*records(3)))
    assert set(holdings.records) == hashes(records(3))


def test_the_messages_of_each_phase_and_no_others() -> None:
    """IL-256, ILC-095: everything out of its phase aborts."""
    anything: tuple[Message, ...] = (
        Against(config()).setup(),
        _hello(),
        Advertise(),
        Request(),
        Transfer(last=True),
    )
    belongs = {
        Phase.SETUP: {"Setup"},
        Phase.HELLO: {"Hello"},
        Phase.ADVERTISE: {"Advertise", "Setup"},
        Phase.REQUEST: {"Request"},
        Phase.TRANSFER: {"Transfer"},
        Phase.SETUP_AGAIN: {"Setup", "Advertise"},
    }
    for phase, go in _PHASES.items():
        for message in anything:
            against = Against(config(lifecycle=Open()))
            go(against)
            against.say(message)
            if type(message).__name__ in belongs[phase]:
                assert against.result is None or against.result.reason is not Reason.OUT_OF_PHASE, (phase, message)
            else:
                assert _ended(against).reason is Reason.OUT_OF_PHASE


def _hello() -> Message:
    against = Against(config())
    against.to_hello()
    return against.hello()


def test_rounds_and_offers_keep_their_own_limits() -> None:
    """IL-037, IL-047: each counter is advanced where its limit is looked at."""
    books = Round()
    for _ in range(16):
        books.count_iteration(Limits())
    with pytest.raises(LimitReached):
        books.count_iteration(Limits())
    assert books.iterations == 16
    offers = Offers(2)
    with pytest.raises(LimitReached):
        offers._spend(16_385, Limits())


def test_persisting_is_asked_for_before_an_abort_takes_effect() -> None:
    """IL-273: a fault in the middle of a part does not lose what stood before it."""
    some = records(2)
    against = Against(config())
    against.to_transfer(some)
    wrong = Transfer(responses=(*delivered(some[0]).responses, Delivered(record=record(9).hash, raw=b"")), last=True)
    against.say(wrong)
    assert [type(effect) for effect in against.effects if isinstance(effect, Persist)] == [Persist]
    assert _ended(against).received == {some[0].hash}


def test_limits_of_a_side_hold_although_the_peer_has_none() -> None:
    """IL-007, IL-037: a peer that names no limits does not lift ours."""
    meeting = meet(
        records(8),
        [],
        limits=Limits(max_loop_iterations=3),
        service=Service(request_records_max=1),
        right=Changes(limits=Limits()),
    )
    left, _ = meeting.run()
    assert left.reason is Reason.LOOP_LIMIT
    against = Against(config(limits=Limits(max_advertisement_records_listed=1)))
    against.to_hello()
    against.say(structs.replace(against.hello(), limits={}))
    against.say(Advertise(records=tuple(map(against.claim, records(2)))))
    assert _ended(against).reason is Reason.LISTING_LIMIT
