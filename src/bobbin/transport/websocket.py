"""WebSocket: the same bytes in binary frames, for ways that only HTTP can go.

The frames carry no meaning: a stream may be cut into them anywhere. They are bounded, not compressed, and never text.
A browser cannot open such a link: it says which page it comes from, and who says so is refused. Otherwise any page that
somebody looks at could talk to a node on the same machine, where more is allowed than from afar. For the same reason a
request that a proxy has passed on does not count as one of this machine, wherever the proxy runs.

The rules of the frames are those of the library ``websockets``; this module moves the bytes, so that TLS, bounds and
back-pressure are the same as for every other stream.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, TypeAlias

from msgspec import structs
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.uri import WebSocketURI

from bobbin.transport.base import READ_BYTES_MAX, Route, TransportError
from bobbin.transport.flow import Flow
from bobbin.wire.address import PATH, Address, Scheme

HEAD_BYTES_MAX: Final = 32 * 1024
"""What may come before a request or an answer is complete."""
FRAME_BYTES: Final = 128 * 1024
"""How this side cuts what it writes. A frame of the other side may have up to ``READ_BYTES_MAX``."""
PING_SECONDS: Final = 30.0
"""A link where nothing is said would be cut by the proxies on its way. Whether the peer lives is not asked by this."""

FRAME_COST_BYTES: Final = 32
"""What taking a frame costs, whatever is in it, counted in bytes that are taken in large frames."""
SMALL_FRAMES_MAX: Final = 8_192
"""Frames with nothing in them that may come at once. Larger ones make up for smaller ones, up to as many again."""
SMALL_FRAMES_PER_SECOND: Final = 16
"""What time makes up for: pings, and the short words of a link where little happens."""
PARSED_AT_ONCE_BYTES: Final = 16 * 1024
"""After so many bytes it is looked whether they were too many frames."""

_Rules: TypeAlias = ClientProtocol | ServerProtocol
_CREDIT_BYTES: Final = SMALL_FRAMES_MAX * FRAME_COST_BYTES
_HEAD_END: Final = b"\r\n\r\n"
_PASSED_ON: Final = frozenset({"forwarded", "via", "x-real-ip"})
_PASSED_ON_PREFIX: Final = "x-forwarded-"
_RETRY_FROM: Final = 500
_RETRY: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class FrameCredit:
    """How many more small frames a peer may send.

    Whoever cuts a stream into single bytes has the other end do hundreds of times the work for each of them. So every
    frame costs, what is in it earns, and time earns a little. The credit has a bound: much that came in large frames
    does not pay for many small ones afterwards.
    """

    def __init__(self, now: float) -> None:
        """``now``: in seconds, by a clock that only goes forward."""
        self._bytes = float(_CREDIT_BYTES)
        self._now = now

    def spend(self, frame_bytes: int, now: float) -> bool:
        """One frame has come. Returns whether that is still in bounds."""
        earned = frame_bytes + (now - self._now) * SMALL_FRAMES_PER_SECOND * FRAME_COST_BYTES
        self._now = now
        self._bytes = min(self._bytes + earned - FRAME_COST_BYTES, _CREDIT_BYTES)
        return self._bytes >= 0


class WebSocketStream:
    """An open WebSocket."""

    def __init__(self, flow: Flow, rules: _Rules, route: Route, early: bytes = b"") -> None:
        """``early`` is what came right after the handshake."""
        self._flow = flow
        self._rules = rules
        self._route = route
        self._frames: deque[bytes] = deque()
        self._ended = False
        self._refused: str | None = None
        """What the peer did that this side does not take."""
        self._loop = asyncio.get_running_loop()
        self._credit = FrameCredit(self._loop.time())
        self._ping_timer = self._loop.call_later(PING_SECONDS, self._ping)
        self._parse(early)

    @property
    def route(self) -> Route:
        return self._route

    async def read(self) -> bytes:
        while not self._frames:
            if self._refused is not None:
                raise TransportError(self._refused, retry=False)
            if self._ended:
                return b""
            data = await self._flow.read()
            if not data:
                # A peer that was killed says no farewell, over TCP either.
                self._ended = True
                return b""
            self._parse(data)
            self._reply()
        return self._joined()

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        for start in range(0, len(data), FRAME_BYTES):
            if self._rules.state is not State.OPEN:
                # What the peer did wrong has closed it from here as well.
                raise TransportError(self._refused or "the other end has closed the link", retry=self._refused is None)
            self._rules.send_binary(view[start : start + FRAME_BYTES])
            self._put()
            await self._flow.room()

    async def close(self) -> None:
        self._ping_timer.cancel()
        if self._rules.state is State.OPEN and not self._flow.is_over:
            self._rules.send_close(CloseCode.NORMAL_CLOSURE)
            self._put()
        await self._flow.close()

    def abort(self) -> None:
        self._ping_timer.cancel()
        self._flow.abort()

    def _parse(self, data: bytes) -> None:
        for start in range(0, len(data), PARSED_AT_ONCE_BYTES):
            self._rules.receive_data(data[start : start + PARSED_AT_ONCE_BYTES])
            self._take(self._rules.events_received())
            if self._refused is not None:
                return

    def _joined(self) -> bytes:
        """What is there, in one piece: whoever reads pays for each piece, too."""
        size, count = 0, 0
        for frame in self._frames:
            if count and size + len(frame) > READ_BYTES_MAX:
                break
            size, count = size + len(frame), count + 1
        return b"".join(self._frames.popleft() for _ in range(count))

    def _take(self, events: Iterable[object]) -> None:
        """Sort frames. Each is bounded by the rules already."""
        now = self._loop.time()
        for event in events:
            assert isinstance(event, Frame), "after the handshake there are only frames"
            if not self._credit.spend(len(event.data), now):
                self._refused = "the peer cuts what it says into too many small frames"
                self._rules.fail(CloseCode.POLICY_VIOLATION, "too many small frames")
                return
            match event.opcode:
                case Opcode.BINARY | Opcode.CONT:
                    if event.data:
                        self._frames.append(bytes(event.data))
                case Opcode.TEXT:
                    self._refused = "the peer sent text; only binary frames carry a link"
                    self._rules.fail(CloseCode.UNSUPPORTED_DATA, "binary frames only")
                    return
                case Opcode.CLOSE:
                    self._ended = True
                case _:
                    # Pings are answered by the rules.
                    pass
        if self._rules.parser_exc is not None:
            self._refused = f"the peer broke the rules of WebSocket: {self._rules.parser_exc}"

    def _reply(self) -> None:
        """Send what the rules answer by themselves, without waiting: a reader must never wait for a writer."""
        if self._rules.state is State.OPEN and self._flow.is_full:
            # Pongs. The peer will see from what comes instead that this side lives.
            self._rules.data_to_send()
        elif self._flow.is_over:
            self._rules.data_to_send()
        else:
            self._put()

    def _put(self) -> None:
        _put(self._flow, self._rules)

    def _ping(self) -> None:
        if self._flow.is_over or self._rules.state is not State.OPEN:
            return
        if not self._flow.is_full:
            self._rules.send_ping(b"")
            self._put()
        self._ping_timer = self._loop.call_later(PING_SECONDS, self._ping)


async def take(flow: Flow, route: Route) -> WebSocketStream:
    """The server's side of the handshake. A request for anything else than a link is answered, and ends in an error."""
    rules = ServerProtocol(origins=[None], max_size=READ_BYTES_MAX)
    event, rest = await _first_event(flow, rules)
    assert isinstance(event, Request), "a server hears a request first"
    if event.path == PATH:
        response = rules.accept(event)
    else:
        response = rules.reject(HTTPStatus.NOT_FOUND, f"There is nothing here; a link is at {PATH}.\n")
    rules.send_response(response)
    _put(flow, rules)
    if rules.state is not State.OPEN:
        await flow.close()
        raise TransportError(f"what connected did not ask for a link: answered {response.status_code}", retry=False)
    if is_passed_on(event):
        route = structs.replace(route, loopback=False)
    return WebSocketStream(flow, rules, route, rest)


def is_passed_on(request: Request) -> bool:
    """Whether the request says that a proxy stands between. What it says of where it came from is not believed."""
    names = {name.lower() for name, _ in request.headers.raw_items()}
    return not names.isdisjoint(_PASSED_ON) or any(name.startswith(_PASSED_ON_PREFIX) for name in names)


async def ask(flow: Flow, address: Address, route: Route) -> WebSocketStream:
    """The client's side of the handshake."""
    secure = address.scheme is Scheme.WSS
    rules = ClientProtocol(
        WebSocketURI(secure, address.host, address.port_number, PATH, ""), origin=None, max_size=READ_BYTES_MAX
    )
    rules.send_request(rules.connect())
    _put(flow, rules)
    event, rest = await _first_event(flow, rules)
    assert isinstance(event, Response), "a client hears an answer first"
    match rules.handshake_exc:
        case None:
            return WebSocketStream(flow, rules, route, rest)
        case InvalidStatus():
            status = event.status_code
            retry = status >= _RETRY_FROM or status in _RETRY
            raise TransportError(f"what answers there gives no link: {status} {event.reason_phrase}", retry=retry)
        case error:
            raise TransportError(f"what answers there is no WebSocket: {error}", retry=False)


async def _first_event(flow: Flow, rules: _Rules) -> tuple[object, bytes]:
    """The request or the answer, and the bytes that came right after it.

    The rules are not shown those yet. A server that has not answered is in no state to take a frame, and what a peer
    may send along would else depend on how its bytes were cut.
    """
    taken, last = 0, b""
    while True:
        data = await flow.read()
        if not data:
            raise TransportError("closed by the other end while connecting", retry=True)
        taken += len(data)
        found = (last + data).find(_HEAD_END)
        cut = len(data) if found < 0 else found + len(_HEAD_END) - len(last)
        last = (last + data)[1 - len(_HEAD_END) :]
        rules.receive_data(data[:cut])
        events = rules.events_received()
        if not events and found >= 0 and rules.handshake_exc is None:
            # An answer that is a page, and no link: its text comes after the headers.
            rules.receive_data(data[cut:])
            events = rules.events_received()
        if events:
            return events[0], data[cut:]
        if rules.handshake_exc is not None:
            cause = rules.handshake_exc.__cause__ or rules.handshake_exc
            raise TransportError(f"no WebSocket: {cause}", retry=False)
        if taken > HEAD_BYTES_MAX:
            raise TransportError(f"no WebSocket: headers of more than {HEAD_BYTES_MAX} bytes", retry=False)


def _put(flow: Flow, rules: _Rules) -> None:
    for part in rules.data_to_send():
        # An empty part says that this side is done; closing the stream says it too.
        if part:
            flow.put(part)
