"""One channel of a client to one node of a cluster: requests go out together, and answers come by number.

The node greets whoever it lets in, and no request goes before that: so one that was sent was sent to a node that may
have read it, and where the channel does not come that far nothing was asked. Requests that are made in one turn of the
event loop travel in one frame. An answer that does not come in time, and one
that cannot come any more since the channel has ended, is a ``TransportError`` for whoever waits for it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from bobbin.cluster.names import NodeId
from bobbin.cluster.operations import Put, bytes_of_put
from bobbin.errors import PeerError, UsageError
from bobbin.transport.base import EndedByPeer, TransportError
from bobbin.transport.flow import FlowStream
from bobbin.wire.cluster import client as messages
from bobbin.wire.cluster.chain import ChainCommit
from bobbin.wire.cluster.client import Answer, Request
from bobbin.wire.cluster.frame import Deframer, frame
from bobbin.wire.cluster.lace import LaceWrite

_WATCH_SECONDS: Final = 0.25
_FRAME_BYTES: Final = 4 * 1024 * 1024
_FRAME_REQUESTS: Final = 5_000


class ClosedByNode(EndedByPeer):
    """The node has ended the channel: it stops, or does not know who asks (then it does so each time)."""

    def __init__(self) -> None:
        super().__init__("the node has closed the channel")


class Connection:
    """One channel to one node, with the requests that wait for answers on it."""

    def __init__(self, stream: FlowStream, node: NodeId) -> None:
        self.node: Final = node
        self._stream: Final = stream
        self._loop: Final = asyncio.get_running_loop()
        self._number = 0
        self._open: Final[dict[int, tuple[asyncio.Future[Answer], float]]] = {}
        """By number; when each of them has waited for long enough."""
        self._unsent: list[Request] = []
        self._unsent_bytes = 0
        self._is_lone = False
        """Whether one request by itself was answered last: the next one need not wait for others of its turn."""
        self._broken: TransportError | None = None
        self._greeted: Final[asyncio.Future[None]] = self._loop.create_future()
        self._task: Final = self._loop.create_task(self._read())
        self._watch: asyncio.TimerHandle = self._loop.call_later(_WATCH_SECONDS, self._expire)

    @property
    def is_open(self) -> bool:
        return self._broken is None

    @property
    def failure(self) -> TransportError | None:
        """Why it is not open."""
        return self._broken

    async def opened(self) -> None:
        """Wait until the node has let this side in; raises ``TransportError`` where it does not."""
        await asyncio.wait([self._greeted])
        if self._broken is not None:
            raise self._broken

    def ask(self, make: Callable[[int], Request], deadline: float) -> asyncio.Future[Answer]:
        """Send a request; its answer comes by the future, or ``TransportError``, about by then at the latest."""
        future: asyncio.Future[Answer] = self._loop.create_future()
        if self._broken is not None:
            future.set_exception(self._broken)
            return future
        request = make(self._number + 1)
        # Here, where whoever asks hears of it; a frame has the requests of many.
        size = _size_of(request)
        self._number += 1
        self._open[self._number] = future, deadline
        if not self._unsent and not self._is_lone:
            self._loop.call_soon(self._flush)
        self._unsent.append(request)
        self._unsent_bytes += size
        if self._is_lone or len(self._unsent) >= _FRAME_REQUESTS or self._unsent_bytes >= _FRAME_BYTES:
            self._is_lone = False
            self._flush()
        return future

    async def close(self) -> None:
        self._break(TransportError("this side has closed the channel", retry=False))
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._stream.close()

    def _flush(self) -> None:
        requests, self._unsent, self._unsent_bytes = self._unsent, [], 0
        if not requests or self._broken is not None:
            return
        try:
            self._stream.outgoing.put(frame(messages.encode_requests(requests)))
        except TransportError as error:
            self._break(error)

    async def _read(self) -> None:
        deframer = Deframer()

        def take(data: bytes) -> None:
            deframer.feed(data)
            for payload in deframer.drain():
                answers = messages.decode_answers(payload)
                if not self._greeted.done():
                    self._greeted.set_result(None)
                for answer in answers:
                    found = self._open.pop(answer.number, None)
                    if found is not None and not found[0].done():
                        found[0].set_result(answer)
                self._is_lone = len(answers) == 1 and not self._open
            if deframer.buffered:
                deframer.drain()  # says if what follows is no frame

        try:
            await self._stream.pour(take)
            self._break(ClosedByNode())
        except TransportError as error:
            self._break(error)
        except PeerError as error:
            self._break(TransportError(f"the node's answer is none: {error}", retry=True))
        finally:
            self._stream.abort()

    def _break(self, error: TransportError) -> None:
        if self._broken is None:
            self._broken = ClosedByNode() if isinstance(error, EndedByPeer) else error
        self._watch.cancel()
        if not self._greeted.done():
            self._greeted.set_result(None)
        waiting = list(self._open.values())
        self._open.clear()
        for future, _ in waiting:
            if not future.done():
                future.set_exception(self._broken)

    def _expire(self) -> None:
        """Give up on what has waited for too long: one look now and then is cheaper than a timer for each."""
        self._watch = self._loop.call_later(_WATCH_SECONDS, self._expire)
        now = self._loop.time()
        for number in [number for number, (_, deadline) in self._open.items() if deadline <= now]:
            future, _ = self._open.pop(number)
            if not future.done():
                future.set_exception(TransportError("the node did not answer in time", retry=True))


def _size_of(request: Request) -> int:
    """About how many bytes a request takes. Raises ``UsageError`` for one that no node could read.

    A node that cannot read a frame ends the channel, and with it the requests of everybody else.
    """
    try:
        messages.check_request(request)
        size = messages.weight(request)
        if not _is_plain(request):
            messages.decode_requests(messages.encode_requests([request]))
    except (TypeError, AttributeError, ValueError, PeerError) as error:
        raise UsageError(f"this request cannot be written down: {error}") from error
    return size


def _is_plain(request: Request) -> bool:
    """Whether a request of the most frequent kinds has the types that it says: then it need not be read back."""
    if type(request) is LaceWrite:
        return type(request.command) is bytes
    if type(request) is messages.Get:
        return type(request.key) is bytes and type(request.linearizable) is bool
    if type(request) is messages.Put:
        parts = (request.key, request.value, request.client)
        return all(type(part) is bytes for part in parts) and type(request.sequence) is int
    if type(request) is not ChainCommit or bytes_of_put(request.transaction) is None:
        return False
    transaction = request.transaction
    put = transaction.operations[0]
    return (
        type(put) is Put
        and type(put.key) is type(put.data) is type(transaction.id) is bytes
        and type(transaction.since) is type(transaction.born_ms) is type(transaction.priority) is int
        and type(transaction.operations) is tuple
        and type(transaction.reads) is tuple
    )
