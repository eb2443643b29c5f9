"""One transfer phase: both lists are answered, every answer has its place."""

from collections.abc import Callable

import pytest

from bobbin.interlace.events import Fate, Settled
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Delivered, Response, Transfer, Unavailable
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.interlace.transfer import Account, TransferPhase

_NAMES = tuple(f"P.{letter}.H3" for letter in "abcde")


def _load(held: dict[str, bytes]) -> Callable[[str], bytes | None]:
    return held.get


def _all(*, size: int = 10) -> Callable[[str], bytes | None]:
    return lambda _: bytes(size)


def _serve(phase: TransferPhase, load: Callable[[str], bytes | None], service: Service | None = None) -> list[Transfer]:
    parts = []
    while not phase.said_last:
        parts.append(phase.serve(load, Limits(), service or Service(), stop=False))
        phase.check()
    return parts


def _responses(parts: list[Transfer]) -> list[Response]:
    return [response for part in parts for response in part.responses]


def test_everything_asked_for_is_answered_in_order() -> None:
    """IL-118, IL-114, IL-202."""
    held = {name: name.encode() for name in _NAMES[:3]}
    phase = TransferPhase((), _NAMES, Account())
    assert _responses(_serve(phase, _load(held))) == [
        *(Delivered(record=name, raw=name.encode()) for name in _NAMES[:3]),
        *(Unavailable(record=name) for name in _NAMES[3:]),
    ]
    assert phase.sent == list(_NAMES[:3])


def test_each_record_is_looked_at_when_its_turn_comes() -> None:
    """IL-202: not once for the whole list."""
    held = dict.fromkeys(_NAMES, b"x")

    def load(name: str) -> bytes | None:
        held.pop(_NAMES[-1], None)
        return held.get(name)

    parts = _serve(TransferPhase((), _NAMES, Account()), load, Service(chunk_records_max=2))
    assert [type(one) for one in _responses(parts)] == [Delivered] * 4 + [Unavailable]


@pytest.mark.parametrize(
    ("service", "sizes"),
    [
        (Service(), [5]),
        (Service(chunk_records_max=2), [2, 2, 1]),
        (Service(chunk_bytes_max=1), [1, 1, 1, 1, 1]),
        (Service(chunk_bytes_max=20), [2, 2, 1]),
        (Service(chunk_bytes_max=21), [3, 2]),
        (Service(serve_bytes_max=20), [2]),
        (Service(serve_records_max=3), [3]),
        (Service(serve_bytes_max=11), [2]),
        (Service(chunk_records_max=2, serve_records_max=3), [2, 1]),
    ],
)
def test_parts_and_budgets(service: Service, sizes: list[int]) -> None:
    """IL-201, IL-203: what does not fit the budget is left out, the last part says that it is the last."""
    parts = _serve(TransferPhase((), _NAMES, Account()), _all(), service)
    assert [len(part.responses) for part in parts] == sizes
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]


def test_absent_records_count_against_the_budget_too() -> None:
    """IL-201: looking is work."""
    parts = _serve(TransferPhase((), _NAMES, Account()), _load({}), Service(serve_records_max=2))
    assert _responses(parts) == [Unavailable(record=name) for name in _NAMES[:2]]


def test_a_stop_is_the_last_part() -> None:
    phase = TransferPhase((), _NAMES, Account())
    phase.serve(_all(), Limits(), Service(chunk_records_max=1), stop=False)
    assert phase.serve(_all(), Limits(), Service(), stop=True) == Transfer(last=True)


def test_bytes_of_both_directions_count() -> None:
    """IL-280, ILC-129: what fits is said first, then the limit is named."""
    account = Account()
    account.received = 15
    phase = TransferPhase((), _NAMES, account)
    limits = Limits(max_total_transferred_bytes=35)
    assert len(phase.serve(_all(), limits, Service(), stop=False).responses) == 2
    assert account.total == 35
    with pytest.raises(LimitReached) as reached:
        phase.serve(_all(), limits, Service(), stop=False)
    assert reached.value.limit == "max_total_transferred_bytes"
    assert account.total == 35


def test_answers_settle_requests() -> None:
    """IL-033, IL-203, IL-204."""
    phase = TransferPhase(_NAMES, (), Account())
    phase.serve(_all(), Limits(), Service(), stop=False)
    delivered = [Delivered(record=name, raw=b"abc") for name in _NAMES[:3]]
    phase.take(Transfer(responses=(*delivered, Unavailable(record=_NAMES[3])), last=True), Limits())
    assert phase.hand_over() == tuple(delivered)
    assert phase.hand_over() == ()
    assert phase.deferred == {_NAMES[4]}
    assert (phase.unsettled, phase.over) == (3, False)
    phase.settle(
        (
            Settled(record=_NAMES[0], fate=Fate.STORED),
            Settled(record=_NAMES[1], fate=Fate.REJECTED, reason="why"),
            Settled(record=_NAMES[2], fate=Fate.REFUSED),
        )
    )
    assert phase.over
    assert (phase.stored, phase.rejected, phase.refused) == ([_NAMES[0]], {_NAMES[1]: "why"}, [_NAMES[2]])
    assert phase.unavailable_there == [_NAMES[3]]
    phase.check()


def test_a_record_that_somebody_else_stored_is_nobodys_gain() -> None:
    phase = TransferPhase(_NAMES[:1], (), Account())
    phase.take(Transfer(responses=(Delivered(record=_NAMES[0], raw=b"x"),), last=True), Limits())
    phase.settle((Settled(record=_NAMES[0], fate=Fate.DUPLICATE),))
    assert (phase.stored, phase.rejected, phase.unsettled) == ([], {}, 0)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([Delivered(record="P.z.H3", raw=b"x")], Reason.UNREQUESTED_RECORD),
        ([Delivered(record=_NAMES[0], raw=b"x")] * 2, Reason.UNREQUESTED_RECORD),
        ([Unavailable(record="P.z.H3")], Reason.OUT_OF_PHASE),
        ([Unavailable(record=_NAMES[0])] * 2, Reason.OUT_OF_PHASE),
    ],
)
def test_an_answer_without_request_aborts(answers: list[Response], reason: Reason) -> None:
    """IL-119, IL-270, ILC-137: what stood before it is handed over all the same."""
    phase = TransferPhase(_NAMES, (), Account())
    with pytest.raises(Abort) as aborted:
        phase.take(Transfer(responses=tuple(answers), last=True), Limits())
    assert aborted.value.reason is reason
    assert not phase.heard_last
    before = [one for one in answers[:-1] if isinstance(one, Delivered)]
    assert list(phase.hand_over()) == before
    phase.check()


def test_nothing_follows_the_last_part() -> None:
    """IL-119."""
    phase = TransferPhase(_NAMES, (), Account())
    phase.take(Transfer(last=True), Limits())
    with pytest.raises(Abort):
        phase.take(Transfer(last=True), Limits())


def test_what_comes_next_is_known_before_it_is_served() -> None:
    phase = TransferPhase((), _NAMES, Account())
    service = Service(chunk_records_max=2)
    assert phase.next_asked(service) == list(_NAMES[:2])
    phase.serve(_load(dict.fromkeys(_NAMES, b"x")), Limits(), service, stop=False)
    assert phase.next_asked(service) == list(_NAMES[2:4])
