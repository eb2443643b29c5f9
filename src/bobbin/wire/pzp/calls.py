"""The calls of muxrpc: which frames belong to which call, in both directions, over one stream of frames.

A call is asked by one side and answered by the other, under a number that the asking side counts up from 1. Its frames
carry the number from the side that asked and its negative from the side that answers. A call here is named by what
*this* side writes into its frames: a positive number for what we asked, a negative one for what we were asked.

A call that asks for one answer has one frame each way. A stream has any number of frames each way, and each way ends
with a frame of its own: ``true``, or an error. When both ways have ended the call is over.

This keeps the books, and nothing else: frames in, events out, and the frames to send as values. What always holds:

* a frame of a call that nobody knows, or of a way that has ended, is dropped: the two sides may end at the same time;
* the number of open calls is bounded, and so is the length of what opens one;
* a call that is not understood is answered with an error, and the others go on.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from bobbin.errors import UsageError
from bobbin.wire.pzp.faults import Fault, WireFault
from bobbin.wire.pzp.frames import REQUEST_MAX, Frame, Goodbye, Kind, Packet

OPEN_CALLS_MAX: Final = 64
"""Calls that the other side may have open, its streams that we have ended and it has not among them."""
CALL_BYTES_MAX: Final = 64 * 1024
"""Of the frame that asks."""
ERROR_CHARACTERS_MAX: Final = 1000
"""Of a message that we pass on, ours or theirs."""

_TRUE: Final = b"true"


class Way(StrEnum):
    """What a call is."""

    ASYNC = "async"
    """One question, one answer. Frames do not name it."""
    SOURCE = "source"
    """Only the side that answers has anything to say."""
    SINK = "sink"
    """Only the side that asked has."""
    DUPLEX = "duplex"


class Called(Struct, frozen=True, kw_only=True):
    """The other side asks for something."""

    call: int
    name: tuple[str, ...]
    way: Way
    arguments: tuple[bytes, ...]
    """Each as JSON."""


class Data(Struct, frozen=True, kw_only=True):
    """Something on a stream, or the answer to a question."""

    call: int
    kind: Kind
    body: bytes


class Ended(Struct, frozen=True, kw_only=True):
    """The other side says no more on this call."""

    call: int
    error: str | None
    """What went wrong there; None where nothing did."""


class Left(Struct, frozen=True):
    """The other side has said goodbye."""


Event: TypeAlias = Called | Data | Ended | Left


class _Call:
    __slots__ = ("ours_ended", "theirs_ended", "way")

    def __init__(self, way: Way) -> None:
        self.way: Final = way
        self.ours_ended = False
        self.theirs_ended = False


class _Question(Struct, frozen=True):
    name: list[str] | str
    args: list[Raw]
    type: str = Way.ASYNC.value


class _Error(Struct, frozen=True):
    message: str = ""
    name: str = "Error"
    stack: str | None = None


_read_question: Final = msgspec.json.Decoder(_Question)
_read_error: Final = msgspec.json.Decoder(_Error | bool | str | None)


class Calls:
    """The calls of one link."""

    def __init__(self, *, open_calls_max: int = OPEN_CALLS_MAX) -> None:
        self._open: Final[dict[int, _Call]] = {}
        self._open_calls_max: Final = open_calls_max
        self._asked = 0
        """Our last number."""
        self._heard = 0
        """The greatest number of the other side."""
        self._their_calls = 0

    @property
    def open(self) -> Mapping[int, object]:
        """The calls that are not over, by name."""
        return MappingProxyType(self._open)

    # ---- out ------------------------------------------------------------------------------------------------------

    def ask(self, name: tuple[str, ...], way: Way, arguments: tuple[bytes, ...] = ()) -> tuple[int, Frame]:
        """Open a call. ``arguments``: each as JSON."""
        if not name or not all(name):
            raise UsageError("a call names a procedure")
        if self._asked >= REQUEST_MAX:
            raise UsageError("this link has no more numbers for calls")
        self._asked += 1
        self._open[self._asked] = _Call(way)
        words = b",".join(map(msgspec.json.encode, name))
        body = b'{"name":[%b],"args":[%b]' % (words, b",".join(arguments))
        body += b"}" if way is Way.ASYNC else b',"type":"%b"}' % way.value.encode()
        return self._asked, Frame(request=self._asked, kind=Kind.JSON, body=body, stream=way is not Way.ASYNC)

    def send(self, call: int, body: bytes, kind: Kind = Kind.JSON) -> Frame:
        """Say something on a stream, or answer a question, which ends the call."""
        found = self._speaking(call)
        streams = found.way is not Way.ASYNC
        if not streams:
            if call > 0:
                raise UsageError("whoever asks a question has said everything")
            self._close(call, found)
        return Frame(request=call, kind=kind, body=body, stream=streams)

    def end(self, call: int, error: str | None = None) -> Frame:
        """Say no more on a call. ``error``: why, where that is not as it should be."""
        found = self._speaking(call)
        streams = found.way is not Way.ASYNC
        if not streams and error is None:
            raise UsageError("a question has an answer or an error")
        found.ours_ended = True
        if found.theirs_ended or not streams:
            self._close(call, found)
        body = _TRUE if error is None else msgspec.json.encode(_Error(message=error[:ERROR_CHARACTERS_MAX]))
        return Frame(request=call, kind=Kind.JSON, body=body, stream=streams, end=True)

    def may_send(self, call: int) -> bool:
        """Whether this side has not ended the call."""
        found = self._open.get(call)
        return found is not None and not found.ours_ended

    def _speaking(self, call: int) -> _Call:
        found = self._open.get(call)
        if found is None or found.ours_ended:
            raise UsageError(f"the call {call} is not open on this side")
        return found

    # ---- in -------------------------------------------------------------------------------------------------------

    def take(self, packet: Packet) -> tuple[Event | None, Frame | None]:
        """What a frame means, and what is to be answered at once. Raises ``WireFault``."""
        if isinstance(packet, Goodbye):
            return Left(), None
        call = -packet.request
        found = self._open.get(call)
        if found is None:
            # Numbers count up: a lower one is of a call that is over.
            if call < 0 and -call > self._heard:
                return self._take_question(call, packet)
            return None, None
        if found.theirs_ended or packet.stream != (found.way is not Way.ASYNC):
            return None, None
        if packet.end:
            found.theirs_ended = True
            if found.ours_ended or found.way is Way.ASYNC:
                self._close(call, found)
            return Ended(call=call, error=read_error(packet.body, packet.kind)), None
        if found.way is Way.ASYNC:
            if call < 0:
                return None, None
            self._close(call, found)
        return Data(call=call, kind=packet.kind, body=packet.body), None

    def _take_question(self, call: int, packet: Frame) -> tuple[Event | None, Frame | None]:
        if len(packet.body) > CALL_BYTES_MAX:
            raise WireFault(Fault.OVERSIZED, f"what asks has at most {CALL_BYTES_MAX} bytes, not {len(packet.body)}")
        if self._their_calls >= self._open_calls_max:
            raise WireFault(Fault.TOO_MANY_CALLS, f"more than {self._open_calls_max} calls are open at once")
        self._heard = -call
        self._their_calls += 1
        opened = _Call(Way.DUPLEX if packet.stream else Way.ASYNC)
        self._open[call] = opened
        if packet.end:
            opened.theirs_ended = True
            return None, self.end(call, "a call that ends before it begins")
        try:
            question = _read_question.decode(packet.body) if packet.kind is Kind.JSON else None
            way = Way(question.type) if question is not None and packet.stream else Way.ASYNC
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
            return None, self.end(call, "not understood: a call has a name, its arguments and its type")
        if question is None or packet.stream == (way is Way.ASYNC):
            return None, self.end(call, "not understood: a call has a name, its arguments and its type")
        if packet.stream:
            opened = self._open[call] = _Call(way)
        name = tuple(question.name.split(".")) if isinstance(question.name, str) else tuple(question.name)
        return Called(call=call, name=name, way=way, arguments=tuple(map(bytes, question.args))), None

    def _close(self, call: int, found: _Call) -> None:
        found.ours_ended = found.theirs_ended = True
        del self._open[call]
        if call < 0:
            self._their_calls -= 1


def read_error(body: bytes, kind: Kind) -> str | None:
    """What the body of a last frame says went wrong; None where nothing did. What says nothing sensible is an error."""
    if kind is not Kind.JSON:
        return body[:ERROR_CHARACTERS_MAX].decode(errors="replace") or "unknown"
    try:
        said = _read_error.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "unknown"
    match said:
        case True:
            return None
        case _Error():
            return said.message[:ERROR_CHARACTERS_MAX] or said.name[:ERROR_CHARACTERS_MAX] or "unknown"
        case str():
            return said[:ERROR_CHARACTERS_MAX] or "unknown"
        case _:
            return "unknown"


def not_served(name: tuple[str, ...]) -> str:
    """The words by which a real peer knows that a procedure is not there, and not broken."""
    return f"method:{','.join(name)} is not in list of allowed methods"
