"""An encrypted stream to a PZP peer, over any stream of bytes: the handshake of either side, then blocks both ways.

To whoever reads and writes it is a stream like the others, with one thing more: ``peer``, the key that the other end
has proven to hold. One write begins a block of its own. A stream that ends without saying so was cut by somebody, and
reading it raises ``WireFault`` instead of coming to an end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from secrets import token_bytes
from typing import Final, TypeAlias

from bobbin.tangles.keys import Keypair
from bobbin.transport.base import ByteStream, Route, TransportError
from bobbin.transport.flow import CLOSE_SECONDS
from bobbin.wire.pzp.faults import Fault, WireFault
from bobbin.wire.pzp.handshake import NETWORK_KEY, TIMEOUT_SECONDS, Client, Server, Session
from bobbin.wire.pzp.secretstream import CONTENT_BYTES_MAX, HEADER_SIZE, Opener, Sealer

Chance: TypeAlias = Callable[[int], bytes]
"""So many fresh random bytes."""

_SLICE_BYTES: Final = 128 * CONTENT_BYTES_MAX
"""What is encrypted at once. Whole blocks, so that a long write looks the same as one that was never cut."""
_SEED_SIZE: Final = 32


class SecretStream:
    """One end of an encrypted stream."""

    def __init__(self, stream: ByteStream, session: Session, sealer: Sealer) -> None:
        """``sealer``: its header has been sent."""
        self.peer: Final = session.peer
        """The public key of the other end."""
        self.extra: Final = session.extra
        """What the dialling side said besides."""
        self._stream: Final = stream
        self._sealer: Final = sealer
        self._opener: Final = Opener(session.receiving_key)
        self._early = session.rest
        self._finished = False

    @property
    def route(self) -> Route:
        return self._stream.route

    async def read(self) -> bytes:
        """Some bytes; none when the other end has said that it ends. Raises ``TransportError`` and ``WireFault``."""
        self._opener.check()
        while not self._opener.ended:
            data, self._early = self._early, b""
            if not data:
                data = await self._stream.read()
                if not data:
                    self._opener.finish()
            if content := self._opener.feed(data):
                return content
        return b""

    async def write(self, data: bytes) -> None:
        """Send bytes, in blocks that hold nothing else. Raises ``TransportError``."""
        if self._finished:
            raise TransportError("this side has closed the link", retry=False)
        for start in range(0, len(data), _SLICE_BYTES):
            await self._stream.write(self._sealer.seal(data[start : start + _SLICE_BYTES]))

    async def close(self) -> None:
        """Say that this was all, for a bounded time, and let go."""
        if not self._finished:
            self._finished = True
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._stream.write(self._sealer.finish())
            except (TransportError, TimeoutError):
                # The other end has gone, or does not read. It is not told, and finds out by itself.
                self._stream.abort()
        await self._stream.close()

    def abort(self) -> None:
        self._finished = True
        self._stream.abort()


async def call(
    stream: ByteStream,
    own: Keypair,
    server: bytes,
    *,
    extra: bytes | None = None,
    network_key: bytes = NETWORK_KEY,
    timeout_seconds: float = TIMEOUT_SECONDS,
    chance: Chance = token_bytes,
) -> SecretStream:
    """Shake hands as the side that dialled. Raises ``TransportError`` and ``WireFault``; then the stream is let go."""
    client = Client(own, server, ephemeral_seed=chance(_SEED_SIZE), network_key=network_key, extra=extra)

    async def shake_hands() -> SecretStream:
        await stream.write(client.start())
        while client.session is None:
            answer = client.feed(await _read(stream, client))
            if answer:
                await stream.write(answer)
        sealer = Sealer(client.session.sending_key, header=chance(HEADER_SIZE))
        await stream.write(sealer.header)
        return SecretStream(stream, client.session, sealer)

    return await _in_time(stream, shake_hands, timeout_seconds)


async def answer(
    stream: ByteStream,
    own: Keypair,
    *,
    admits: Callable[[bytes], bool] = lambda peer: True,  # noqa: ARG005 - anybody who has a key
    network_key: bytes = NETWORK_KEY,
    timeout_seconds: float = TIMEOUT_SECONDS,
    chance: Chance = token_bytes,
) -> SecretStream:
    """Shake hands as the side that was dialled. ``admits`` is asked about a key that has been proven.

    Raises ``TransportError`` and ``WireFault``; then the stream is let go. Who is not admitted is not told why.
    """
    server = Server(own, ephemeral_seed=chance(_SEED_SIZE), network_key=network_key)

    async def shake_hands() -> SecretStream:
        while server.peer is None:
            said = server.feed(await _read(stream, server))
            if said:
                await stream.write(said)
        if not admits(server.peer):
            raise WireFault(Fault.NOT_ADMITTED, f"the key {server.peer.hex()} is not admitted here")
        accepted = server.accept()
        assert server.session is not None, "it was set by accepting"
        sealer = Sealer(server.session.sending_key, header=chance(HEADER_SIZE))
        await stream.write(accepted + sealer.header)
        return SecretStream(stream, server.session, sealer)

    return await _in_time(stream, shake_hands, timeout_seconds)


async def _read(stream: ByteStream, side: Client | Server) -> bytes:
    data = await stream.read()
    if not data:
        side.finish()
    return data


async def _in_time(
    stream: ByteStream, shake_hands: Callable[[], Awaitable[SecretStream]], seconds: float
) -> SecretStream:
    """A handshake that is done in time; one that is not leaves nothing open."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await shake_hands()
    except TimeoutError:
        stream.abort()
        if not limit.expired():
            raise
    except BaseException:
        stream.abort()
        raise
    raise WireFault(Fault.HANDSHAKE_TIMEOUT, f"the handshake was not done within {seconds:g} seconds")
