"""Connections to a WebSocket's port whose request has not come: counted from their first moment, and ended in time.

The library counts nobody before a request is there, and the event loop nobody before a TLS handshake is done. So here a
connection is counted as soon as it is taken, and the handshake begins after that. Of too many the oldest goes, of the
same origin if that one has too many, else of the origin that has most: whoever connects and says nothing takes the
place from itself, and keeps nobody else out.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, TypeAlias

from websockets.asyncio.server import ServerConnection

from bobbin.runtime.web_sockets import CLOSE_SECONDS
from bobbin.transport import tcp
from bobbin.transport.listen import Handshakes, Turned
from bobbin.transport.tcp import Remote

Turn: TypeAlias = Callable[[str, str], None]
"""Hears who was turned away: why, in a word, and the other end as its socket names it."""


class Arrivals:
    """Whoever has connected to one server, until its request has come."""

    def __init__(self, bounds: Handshakes, turn: Turn, context: ssl.SSLContext | None) -> None:
        """``context``: of the server's certificate, where the connections are to be encrypted."""
        self._bounds: Final = bounds
        self._turn: Final = turn
        self._context: Final = context
        self._held: Final[dict[str, dict[ServerConnection, asyncio.Transport]]] = {}
        """By origin, in the order in which they came."""
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    @property
    def held(self) -> int:
        """How many there are."""
        return sum(map(len, self._held.values()))

    def connection(self) -> type[ServerConnection]:
        """The class of the connections that the library is to make. It is given no TLS: that is done here."""
        arrivals = self

        class Arriving(ServerConnection):
            is_made = False

            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                if self.is_made or not isinstance(transport, asyncio.Transport):
                    super().connection_made(transport)
                    return
                arrivals._hold(self, transport)
                if arrivals._context is None:
                    self.begin(transport)
                else:
                    # What comes now is not for the library.
                    transport.pause_reading()
                    arrivals._secure(self, transport, arrivals._context, self.begin)

            def begin(self, transport: asyncio.Transport) -> None:
                self.is_made = True
                self.connection_made(transport)

            def connection_lost(self, exc: Exception | None) -> None:
                arrivals.release(self)
                if self.is_made:
                    super().connection_lost(exc)

        return Arriving

    def release(self, connection: ServerConnection) -> None:
        """Its request has come, or it has gone. May be called again."""
        for origin, held in self._held.items():
            if connection in held:
                del held[connection]
                if not held:
                    del self._held[origin]
                return

    async def close(self) -> None:
        """End what is not done."""
        for held in self._held.values():
            for transport in held.values():
                transport.abort()
        self._held.clear()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _hold(self, connection: ServerConnection, transport: asyncio.Transport) -> None:
        origin = _remote(transport).origin
        own = self._held.setdefault(origin, {})
        own[connection] = transport
        if len(own) > self._bounds.count_per_origin_max:
            self._turn_away(origin)
        elif self.held > self._bounds.count_max:
            self._turn_away(max(self._held, key=lambda one: len(self._held[one])))

    def _turn_away(self, origin: str) -> None:
        oldest, transport = next(iter(self._held[origin].items()))
        self._turn(Turned.TOO_MANY.value, _remote(transport).text)
        self.release(oldest)
        transport.abort()

    def _secure(
        self,
        connection: ServerConnection,
        transport: asyncio.Transport,
        context: ssl.SSLContext,
        begin: Callable[[asyncio.Transport], None],
    ) -> None:
        async def shake_hands() -> None:
            secured = None
            try:
                secured = await asyncio.get_running_loop().start_tls(
                    transport,
                    connection,
                    context,
                    server_side=True,
                    ssl_handshake_timeout=self._bounds.seconds,
                    ssl_shutdown_timeout=CLOSE_SECONDS,
                )
            except OSError:
                # It went, said nothing in time, or what it said is no handshake.
                self._turn(Turned.FAILED.value, _remote(transport).text)
            finally:
                if secured is None:
                    self.release(connection)
                    transport.abort()
            if secured is not None:
                begin(secured)

        task = asyncio.get_running_loop().create_task(shake_hands())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _remote(transport: asyncio.Transport) -> Remote:
    return tcp.describe(transport.get_extra_info("peername"))
