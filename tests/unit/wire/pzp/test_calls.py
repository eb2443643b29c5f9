"""The calls of muxrpc: who asks, who answers, when a call is over, and what is dropped."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.wire.pzp.calls import CALL_BYTES_MAX, Called, Calls, Data, Ended, Left, Way, not_served, read_error
from bobbin.wire.pzp.faults import Fault, WireFault
from bobbin.wire.pzp.frames import Frame, Goodbye, Kind
from tests.support.pzp_wire import packets, recorded

SYNC = ("sync", "connect")
OPENING = b'{"name":["sync","connect"],"args":[],"type":"duplex"}'


def _frame(request: int, body: bytes, *, stream: bool = True, end: bool = False, kind: Kind = Kind.JSON) -> Frame:
    return Frame(request=request, kind=kind, body=body, stream=stream, end=end)


def test_the_sync_stream_is_opened_as_a_real_peer_opens_it() -> None:
    """TG-114."""
    calls = Calls()
    call, frame = calls.ask(SYNC, Way.DUPLEX)
    assert call == 1
    assert frame == packets([bytes.fromhex(part) for part in _recorded(0)])[0]


def _recorded(number: int) -> tuple[str, str]:
    values = recorded("muxrpc-frames")["frames"][number]
    return values["head"], values["body"]


def test_a_stream_both_ways() -> None:
    """TG-114: what was asked on 1 is answered on -1, and each way ends by itself."""
    ours, theirs = Calls(), Calls()
    call, opening = ours.ask(SYNC, Way.DUPLEX)
    assert theirs.take(opening) == (Called(call=-1, name=SYNC, way=Way.DUPLEX, arguments=()), None)
    question = ours.send(call, b"[1]")
    assert (question.request, question.stream, question.end) == (1, True, False)
    assert theirs.take(question) == (Data(call=-1, kind=Kind.JSON, body=b"[1]"), None)
    answer = theirs.send(-1, b"[2]")
    assert answer.request == -1
    assert ours.take(answer) == (Data(call=1, kind=Kind.JSON, body=b"[2]"), None)
    last = ours.end(call)
    assert (last.body, last.end) == (b"true", True)
    assert theirs.take(last) == (Ended(call=-1, error=None), None)
    assert not ours.may_send(call)
    assert theirs.may_send(-1)
    more = theirs.send(-1, b"[3]")
    assert ours.take(more) == (Data(call=1, kind=Kind.JSON, body=b"[3]"), None)
    assert ours.take(theirs.end(-1, "enough")) == (Ended(call=1, error="enough"), None)
    assert not ours.open
    assert not theirs.open


def test_a_question_and_its_answer() -> None:
    ours, theirs = Calls(), Calls()
    call, question = ours.ask(("manifest",), Way.ASYNC, (b'{"a":1}',))
    assert not question.stream
    assert question.body == b'{"name":["manifest"],"args":[{"a":1}]}'
    event, _ = theirs.take(question)
    assert event == Called(call=-1, name=("manifest",), way=Way.ASYNC, arguments=(b'{"a":1}',))
    assert ours.take(theirs.send(-1, b"7")) == (Data(call=call, kind=Kind.JSON, body=b"7"), None)
    assert not ours.open
    assert not theirs.open


def test_a_question_that_is_refused() -> None:
    ours, theirs = Calls(), Calls()
    call, question = ours.ask(("nothing",), Way.ASYNC)
    theirs.take(question)
    assert ours.take(theirs.end(-1, not_served(("nothing",)))) == (
        Ended(call=call, error="method:nothing is not in list of allowed methods"),
        None,
    )
    assert not ours.open
    assert not theirs.open


def test_the_name_of_a_call_may_be_one_text() -> None:
    event, _ = Calls().take(_frame(1, b'{"name":"sync.connect","args":[],"type":"duplex"}'))
    assert event == Called(call=-1, name=SYNC, way=Way.DUPLEX, arguments=())


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"[]", Kind.JSON),
        (b"{", Kind.JSON),
        (b"\xff\xfe", Kind.JSON),
        (b'{"name":["a"],"args":{},"type":"duplex"}', Kind.JSON),
        (b'{"name":["a"],"args":[],"type":"triplex"}', Kind.JSON),
        (b'{"name":["a"],"args":[]}', Kind.JSON),
        (b'{"name":["a"],"args":[],"type":"async"}', Kind.JSON),
        (b'{"name":[1],"args":[],"type":"duplex"}', Kind.JSON),
        (b"[" * 5000, Kind.JSON),
        (b"hello", Kind.TEXT),
        (b"hello", Kind.BYTES),
    ],
)
def test_what_is_not_understood_gets_an_error_and_the_link_goes_on(body: bytes, kind: Kind) -> None:
    calls = Calls()
    event, answer = calls.take(_frame(1, body, kind=kind))
    assert event is None
    assert answer is not None
    assert (answer.request, answer.end, answer.stream) == (-1, True, True)
    assert "not understood" in (read_error(answer.body, answer.kind) or "")
    assert calls.take(_frame(1, b"true", end=True))[0] == Ended(call=-1, error=None)
    assert not calls.open
    assert isinstance(calls.take(_frame(2, OPENING))[0], Called)


def test_a_call_that_ends_before_it_begins() -> None:
    calls = Calls()
    event, answer = calls.take(_frame(1, b"true", end=True))
    assert event is None
    assert answer is not None
    assert answer.end
    assert not calls.open


def test_frames_of_calls_that_are_over_or_unknown_are_dropped() -> None:
    calls = Calls()
    calls.take(_frame(3, OPENING))
    calls.end(-3)
    calls.take(_frame(3, b"true", end=True))
    late = [_frame(3, OPENING), _frame(2, OPENING), _frame(-9, b"1"), _frame(0, b"1"), _frame(0, b"1", stream=False)]
    assert [calls.take(frame) for frame in late] == [(None, None)] * len(late)
    assert not calls.open


def test_a_way_that_has_ended_stays_ended() -> None:
    calls = Calls()
    calls.take(_frame(1, OPENING))
    calls.take(_frame(1, b"true", end=True))
    assert calls.take(_frame(1, b"1")) == (None, None)
    assert calls.take(_frame(1, b"true", end=True)) == (None, None)
    assert calls.may_send(-1)


def test_a_frame_of_the_other_kind_of_call_is_dropped() -> None:
    calls = Calls()
    calls.take(_frame(1, OPENING))
    assert calls.take(_frame(1, b"1", stream=False)) == (None, None)
    calls.take(_frame(2, b'{"name":["a"],"args":[]}', stream=False))
    assert calls.take(_frame(2, b"1", stream=False)) == (None, None)
    call, _ = calls.ask(("a",), Way.ASYNC)
    assert calls.take(_frame(-call, b"1", stream=True)) == (None, None)


def test_the_number_of_open_calls_is_bounded() -> None:
    calls = Calls(open_calls_max=3)
    for number in (1, 2, 3):
        calls.take(_frame(number, OPENING))
    with pytest.raises(WireFault) as caught:
        calls.take(_frame(4, OPENING))
    assert caught.value.fault is Fault.TOO_MANY_CALLS


def test_calls_that_are_over_make_room() -> None:
    calls = Calls(open_calls_max=1)
    for number in range(1, 50):
        calls.take(_frame(number, OPENING))
        calls.end(-number, "no")
        calls.take(_frame(number, b"true", end=True))
    for number in range(50, 90):
        calls.take(_frame(number, b'{"name":["a"],"args":[]}', stream=False))
        calls.send(-number, b"1")
    assert not calls.open


def test_what_asks_is_short() -> None:
    with pytest.raises(WireFault) as caught:
        Calls().take(_frame(1, b" " * CALL_BYTES_MAX + OPENING))
    assert caught.value.fault is Fault.OVERSIZED


def test_a_goodbye() -> None:
    assert Calls().take(Goodbye()) == (Left(), None)


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b"true", Kind.JSON, None),
        (b"false", Kind.JSON, "unknown"),
        (b"null", Kind.JSON, "unknown"),
        (b"{", Kind.JSON, "unknown"),
        (b"7", Kind.JSON, "unknown"),
        (b'"boom"', Kind.JSON, "boom"),
        (b'{"message":"boom","name":"Error","stack":null}', Kind.JSON, "boom"),
        (b'{"message":"","name":"TypeError"}', Kind.JSON, "TypeError"),
        (b'{"message":7}', Kind.JSON, "unknown"),
        (b"boom", Kind.TEXT, "boom"),
        (b"\xff", Kind.BYTES, "\ufffd"),
        (b'"' + b"x" * 5000 + b'"', Kind.JSON, "x" * 1000),
    ],
)
def test_what_an_end_says(body: bytes, kind: Kind, said: str | None) -> None:
    """TG-114: the end is true, or an error."""
    assert read_error(body, kind) == said


def test_recorded_ends() -> None:
    """TG-114."""
    assert [read_error(bytes.fromhex(_recorded(number)[1]), Kind.JSON) for number in (3, 4)] == [None, "boom"]
    calls = Calls()
    calls.take(_frame(1, OPENING))
    (end,) = packets([bytes.fromhex(part) for part in _recorded(3)])
    assert calls.end(-1) == end


@pytest.mark.parametrize(
    "mistake",
    [
        lambda calls: calls.ask((), Way.DUPLEX),
        lambda calls: calls.ask(("",), Way.DUPLEX),
        lambda calls: calls.send(1, b"1"),
        lambda calls: calls.end(1),
        lambda calls: calls.send(calls.ask(("a",), Way.ASYNC)[0], b"1"),
        lambda calls: calls.end(calls.ask(("a",), Way.ASYNC)[0]),
    ],
)
def test_our_own_mistakes(mistake: Any) -> None:  # noqa: ANN401
    with pytest.raises(UsageError):
        mistake(Calls())


@given(
    st.lists(
        st.builds(
            Frame,
            request=st.integers(-3, 5),
            kind=st.sampled_from(Kind),
            body=st.sampled_from([OPENING, b"true", b"1", b'{"name":["a"],"args":[]}', b"x"]),
            stream=st.booleans(),
            end=st.booleans(),
        ),
        max_size=30,
    )
)
def test_any_frames_leave_the_books_in_order(frames: list[Frame]) -> None:
    calls = Calls(open_calls_max=4)
    calls.ask(SYNC, Way.DUPLEX)
    calls.ask(("a",), Way.ASYNC)
    for frame in frames:
        try:
            event, answer = calls.take(frame)
        except WireFault:
            assert calls._their_calls == 4
            break
        assert answer is None or answer.end
        assert event is None or answer is None
        if isinstance(event, Called):
            assert calls.may_send(event.call)
    theirs = [call for call in calls.open if call < 0]
    assert len(theirs) == calls._their_calls <= 4
    assert all(not (state.ours_ended and state.theirs_ended) for state in calls._open.values())
