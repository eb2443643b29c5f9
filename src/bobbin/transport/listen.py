"""Taking streams at an address: each becomes a task of its own, once its handshake is done.

A handshake costs the server more than the client, and can be begun and left. So there is a time for each, a number for
one origin and a number for all. Beyond them a newcomer is taken all the same, and the oldest handshake goes: that of
the same origin if this one has too many, else that of the origin that has most. So whoever begins handshakes and leaves
them takes time from itself, and keeps nobody else out. What is turned away has a name.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.transport import failures, stdio, tcp, tls, unix_socket, websocket
from bobbin.transport.base import Accept, ByteStream, Listener, Route, TransportError
from bobbin.transport.certificate import CertificateError
from bobbin.transport.flow import CLOSE_SECONDS, Flow, FlowStream
from bobbin.transport.tcp import Remote
from bobbin.transport.tls import TlsServer
from bobbin.transport.unix_socket import SocketFile
from bobbin.wire.address import Address, Scheme

BACKLOG: Final = 128
"""Connections that the system may hold until they are taken."""

_TAKEN_AT_ONCE: Final = 16
_EXHAUSTED_SECONDS: Final = 1.0
"""How long nothing is taken after the system had no more sockets to give."""
_TLS: Final = frozenset({Scheme.TLS, Scheme.WSS})
_WEBSOCKET: Final = frozenset({Scheme.WS, Scheme.WSS})


class Turned(StrEnum):
    """Why what had connected did not become a stream."""

    TIMEOUT = "handshake-timeout"
    FAILED = "handshake-failed"
    """It went, or what it said is no handshake."""
    TOO_MANY = "too-many-handshakes"
    """It was not done, and gave way to another."""


Refused: TypeAlias = Callable[[Turned, str], None]
"""Hears why somebody was turned away, and who: the other end as its socket names it."""


class Handshakes(Struct, frozen=True, kw_only=True):
    """Bounds on handshakes that are not done."""

    seconds: float = 10.0
    """For one of them, from the first byte to the last."""
    count_max: int = 256
    count_per_origin_max: int = 64


class Secure(Struct, frozen=True, kw_only=True):
    """A server's certificate, ready for use."""

    context: ssl.SSLContext
    binding: bytes

    @classmethod
    def load(cls, settings: TlsServer) -> "Secure":
        """Reads files, so an event loop that is in use lets a thread do it. Raises ``CertificateError``."""
        binding = tls.binding_at_server(settings)
        context = tls.server_context(settings)
        if tls.binding_at_server(settings) != binding:
            # Proofs would be bound to another certificate than the one that is shown.
            raise CertificateError(f"{settings.certificate} was changed while it was read")
        return cls(context=context, binding=binding)


class Shown:
    """The certificate that a server shows. Another one holds for every handshake that begins from then on."""

    def __init__(self, settings: TlsServer) -> None:
        self.secure = Secure.load(settings)


async def listen(
    address: Address,
    accept: Accept,
    *,
    tls: TlsServer | Shown | None = None,
    backlog: int = BACKLOG,
    handshakes: Handshakes = Handshakes(),  # noqa: B008 - a value that nobody can change
    refused: Refused = lambda reason, remote: None,  # noqa: ARG005 - nobody wants to hear it
) -> Listener:
    """Take streams at an address until closed. Raises ``TransportError``, and ``UsageError`` for unusable files.

    The port 0 lets the system choose. A name is listened on at all of its addresses. On ``stdio`` there is one stream.
    ``refused`` hears of what connected and did not become a stream. A ``Shown`` can be renewed while it is in use, and
    several addresses can have the same one.
    """
    if (tls is None) == (address.scheme in _TLS):
        what = "needs a certificate and its key" if tls is None else "is not encrypted and takes no certificate"
        raise UsageError(f"{address} {what}")
    try:
        match address.scheme:
            case Scheme.STDIO:
                return _StandardListener(address, await stdio.open_stream(address, *stdio.take()), accept)
            case Scheme.UNIX:
                file = unix_socket.bind(Path(address.path), backlog=backlog)
                return SocketListener(
                    address, [file.listening], accept, handshakes=handshakes, refused=refused, file=file
                )
            case _:
                shown = Shown(tls) if isinstance(tls, TlsServer) else tls
                sockets = await asyncio.to_thread(tcp.bind, address.host, address.port_number, backlog=backlog)
                if address.port == 0:
                    address = msgspec.structs.replace(address, port=sockets[0].getsockname()[1])
                return SocketListener(address, sockets, accept, handshakes=handshakes, refused=refused, shown=shown)
    except (OSError, TransportError) as error:
        raise failures.explain(address, error) from error


class _Handshake:
    """One that is not done."""

    __slots__ = ("connection", "gives_way", "number", "remote", "task")

    def __init__(self, number: int, connection: socket.socket, remote: Remote) -> None:
        self.number: Final = number
        """Counts up: the oldest has the least."""
        self.connection: Final = connection
        self.remote: Final = remote
        self.gives_way = False
        self.task: asyncio.Task[None] | None = None


class SocketListener:
    """Listens on one socket, or on one for each address of a host."""

    def __init__(
        self,
        address: Address,
        sockets: list[socket.socket],
        accept: Accept,
        *,
        handshakes: Handshakes,
        refused: Refused,
        shown: Shown | None = None,
        file: SocketFile | None = None,
    ) -> None:
        self._address = address
        self._sockets = sockets
        self._accept = accept
        self._handshakes = handshakes
        self._refused = refused
        self._shown = shown
        self._file = file
        self._shakes_hands = shown is not None or address.scheme in _WEBSOCKET
        """Whether the client has to say something before its stream is open."""
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._numbers = 0
        self._unfinished: dict[str, dict[int, _Handshake]] = {}
        """Handshakes that count, by origin and number; those of one origin stand in the order in which they came."""
        self._opening: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        for one in sockets:
            self._loop.add_reader(one, self._take, one)

    @property
    def address(self) -> Address:
        return self._address

    @property
    def unfinished(self) -> int:
        """Handshakes that go on."""
        return sum(map(len, self._unfinished.values()))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._file is not None:
            self._file.remove()
        for one in self._sockets:
            self._loop.remove_reader(one)
            one.close()
        opening = tuple(self._opening)
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)

    def _take(self, listening: socket.socket) -> None:
        """Take what has connected. Called by the event loop."""
        for _ in range(_TAKEN_AT_ONCE):
            try:
                connection, name = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # No descriptors or no memory are left. The queue keeps who comes; others may end meanwhile.
                self._loop.remove_reader(listening)
                self._loop.call_later(_EXHAUSTED_SECONDS, self._take_again, listening)
                return
            connection.settimeout(0)
            self._begin(connection, self._describe(connection, name))

    def _take_again(self, listening: socket.socket) -> None:
        if not self._closed:
            self._loop.add_reader(listening, self._take, listening)

    def _describe(self, connection: socket.socket, name: object) -> Remote:
        if self._file is not None:
            return Remote(text=unix_socket.describe(connection), origin=tcp.LOCAL, loopback=True)
        return tcp.describe(name)

    def _begin(self, connection: socket.socket, remote: Remote) -> None:
        if self._shakes_hands:
            self._make_room(remote.origin)
        self._numbers += 1
        one = _Handshake(self._numbers, connection, remote)
        self._unfinished.setdefault(remote.origin, {})[one.number] = one
        one.task = self._loop.create_task(self._open(one))
        self._opening.add(one.task)
        one.task.add_done_callback(partial(self._over, one))

    def _make_room(self, origin: str) -> None:
        limits, waiting = self._handshakes, self._unfinished
        here = waiting.get(origin, {})
        if len(here) >= limits.count_per_origin_max:
            crowd = here
        elif self.unfinished >= limits.count_max:
            # Of equals the one that has waited longest.
            crowd = max(waiting.values(), key=lambda some: (len(some), -next(iter(some))))
        else:
            return
        oldest = next(iter(crowd.values()))
        self._forget(oldest)
        oldest.gives_way = True
        assert oldest.task is not None, "it began with its task"
        oldest.task.cancel()

    def _forget(self, one: _Handshake) -> None:
        """It no longer counts. May be called again."""
        here = self._unfinished.get(one.remote.origin, {})
        if here.pop(one.number, None) is not None and not here:
            del self._unfinished[one.remote.origin]

    def _over(self, one: _Handshake, task: asyncio.Task[None]) -> None:
        self._opening.discard(task)
        self._forget(one)
        if task.cancelled():
            # It may not even have begun.
            one.connection.close()
        if one.gives_way:
            self._refused(Turned.TOO_MANY, one.remote.text)

    async def _open(self, one: _Handshake) -> None:
        limit = asyncio.timeout(self._handshakes.seconds)
        try:
            async with limit:
                stream = await self._shake_hands(one.connection, one.remote)
        except (OSError, TransportError):
            if not one.gives_way:
                self._refused(Turned.TIMEOUT if limit.expired() else Turned.FAILED, one.remote.text)
            return
        finally:
            self._forget(one)
        _run(self._accept, stream, self._tasks)

    async def _shake_hands(self, connection: socket.socket, remote: Remote) -> ByteStream:
        # Once: what is shown and what proofs are bound to are of one certificate.
        secure = None if self._shown is None else self._shown.secure
        flow = Flow()
        try:
            if self._file is None:
                tcp.prepare(connection)
            await self._loop.connect_accepted_socket(
                lambda: flow,
                connection,
                ssl=None if secure is None else secure.context,
                # The time for everything ends first, so that there is one name for it.
                ssl_handshake_timeout=None if secure is None else 2 * self._handshakes.seconds,
                ssl_shutdown_timeout=None if secure is None else CLOSE_SECONDS,
            )
        except BaseException:
            # The handshake may be done, and this task be cancelled before it heard of it.
            flow.abort()
            connection.close()
            raise
        route = Route(
            address=self._address,
            remote=remote.text,
            origin=remote.origin,
            loopback=remote.loopback,
            binding=None if secure is None else secure.binding,
        )
        if self._address.scheme not in _WEBSOCKET:
            return FlowStream(flow, route)
        try:
            return await websocket.take(flow, route)
        except BaseException:
            flow.abort()
            raise


class _StandardListener:
    """Has had its one stream when it begins."""

    def __init__(self, address: Address, stream: ByteStream, accept: Accept) -> None:
        self._address = address
        self._tasks: set[asyncio.Task[None]] = set()
        _run(accept, stream, self._tasks)

    @property
    def address(self) -> Address:
        return self._address

    async def close(self) -> None:
        """There is nothing more to take."""


def _run(accept: Accept, stream: ByteStream, tasks: set[asyncio.Task[None]]) -> None:
    """Let a stream have its task."""

    async def run() -> None:
        try:
            await accept(stream)
        except BaseException:
            # Its owner is gone. An error is shown by the event loop, as of every task that nobody waits for.
            stream.abort()
            raise

    task = asyncio.get_running_loop().create_task(run())
    tasks.add(task)
    task.add_done_callback(tasks.discard)
