"""A link over a byte stream, after its introduction: messages go out as bytes and come in as what the machine awaits.

Bytes are read only while the machine awaits a message, so a peer that sends more has to wait, and what is held of it is
one element and one read. A transfer is handed on in parts: when enough has come, when the phase ends, or when the
stream falls quiet for a moment, so that a slow peer's records are stored as they come. When the stream ends, what was
complete before is still handed on.

A block that has begun is complete within the time of a phase, also where the machine is at rest and waits for nothing
in particular: else a peer could leave as much of one here as a block may have, for as long as the link is up. Transfers
are complete in parts, and the machine gives them their time.

Bytes are counted by phase. What goes out belongs to the phase of its message; what comes in, to the phase that it was
decoded in.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from bobbin.errors import PeerError
from bobbin.interlace.limits import SECOND_NS, Limits
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Advertise, Message
from bobbin.interlace.reasons import Abort, Reason
from bobbin.interlace.state import Awaits
from bobbin.runtime.exchange import LinkEnded, Work
from bobbin.runtime.undisturbed import undisturbed
from bobbin.transport.base import ByteStream, TransportError
from bobbin.wire import parting
from bobbin.wire.elements import COMMENT_BYTES_MAX, Elements, again
from bobbin.wire.interlace import Decoder, encode

if TYPE_CHECKING:
    from bobbin.interlace.epoch import Epoch

PARTING_SECONDS: Final = 1.0
"""How long it may take to say why a link ends, or to hear it."""
QUIET_SECONDS: Final = 0.05
"""A transfer that has brought nothing for so long is handed on as far as it has come."""
_WRITE_BYTES: Final = 64 * 1024
"""Pieces are joined up to about this size: a write for each of many small records would cost more than they do."""
_LARGE_BYTES: Final = 256 * 1024
"""A block from which on it is decoded where the machine works, so that it holds up no other link."""


class Traffic(Struct, kw_only=True):
    """What one phase has brought and taken."""

    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class StreamLink:
    """One end of a link whose peer may be anywhere."""

    def __init__(
        self,
        stream: ByteStream,
        elements: Elements,
        machine: InterlaceMachine,
        *,
        work: Work | None = None,
        monotonic: Callable[[], int] = monotonic_ns,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        """``elements``: the peer's bytes behind its proof. ``machine``: says what its blocks are read against.

        ``work``, the same as the exchange's, is where large blocks are decoded.
        """
        self.traffic: Final[dict[str, Traffic]] = {}
        """By phase, in the order in which they came first."""
        self.bytes_in = elements.buffered
        """Read from the stream, decoded or not."""
        self.bytes_out = 0
        self.heard_ns = monotonic()
        """When the peer was last heard, by the forward clock."""
        self.failure: str | None = None
        """What the transport said when it failed."""
        self._stream: Final = stream
        self._elements: Final = elements
        self._machine: Final = machine
        self._work: Final = work
        self._monotonic: Final = monotonic
        self._quiet_seconds: Final = quiet_seconds
        self._decoder: Final = Decoder(elements, limits=machine.config.limits)
        self._agreed: Epoch | None = None
        self._asked: Final[deque[int]] = deque((0, 0), maxlen=2)
        """How many partitions our last two blocks asked to be listed: a block answers the one before ours."""
        self._ready: Final[deque[Message]] = deque()
        self._reading: asyncio.Task[bytes] | None = None
        """Kept when nobody waits for it any more: a read that was begun must not lose its bytes."""
        self._has_ended = False
        self._receiving: Final = asyncio.Lock()
        self._begun_ns: int | None = None
        """When there was first something of the block that is being read; None where there is nothing of it."""

    # ---- out ------------------------------------------------------------------------------------------------------

    async def send(self, message: Message) -> None:
        """Send a message; returns when there is room for the next one. Raises ``LinkEnded``, ``LimitReached``."""
        epoch = self._machine.epoch
        source = None if epoch is None else epoch.agreement.policy.own_origin
        limits = self._limits
        if isinstance(message, Advertise):
            self._asked.append(len(message.lists))
        traffic = self._traffic(_phase_of(message))
        traffic.messages_out += 1
        pieces: list[bytes] = []
        size = 0
        compressed = epoch is not None and epoch.agreement.compresses
        bytes_max = limits.max_fact_block_size
        for piece in encode(message, source=source, fact_bytes_max=bytes_max, compressed=compressed):
            pieces.append(piece)
            size += len(piece)
            if size >= _WRITE_BYTES:
                await self._write(pieces, size, traffic)
                pieces, size = [], 0
        if pieces:
            await self._write(pieces, size, traffic)

    async def _write(self, pieces: list[bytes], size: int, traffic: Traffic) -> None:
        try:
            await self._stream.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        except TransportError as error:
            self.failure = str(error)
            heard = await self._last_word()
            raise (LinkEnded(str(error)) if heard is None else parting.ended(heard)) from error
        self.bytes_out += size
        traffic.bytes_out += size
        # A stream with room returns at once. Other links want their turn between two pieces of a large block.
        await asyncio.sleep(0)

    async def _last_word(self) -> Reason | None:
        """What the peer has said of its end, to a side that was writing and not reading when that came."""
        if self._receiving.locked():
            return None  # whoever receives hears it
        with suppress(TimeoutError):
            async with self._receiving, asyncio.timeout(PARTING_SECONDS):
                while self._elements.buffered <= COMMENT_BYTES_MAX:
                    self._reading = self._reading or asyncio.create_task(self._read())
                    data = await asyncio.shield(self._reading)
                    if not data:
                        # The end is left for whoever receives, and so is anything but a last word.
                        return self._elements.waiting_parting or self._elements.parting
                    self._reading = None
                    self._elements.feed(data)
        return None

    # ---- in -------------------------------------------------------------------------------------------------------

    async def receive(self, awaits: Awaits) -> Message:
        """The next message, read as what is awaited. Raises ``LinkEnded``, or ``PeerError`` for what is no message."""
        async with self._receiving:
            if not self._ready:
                self._expect(awaits)
                await self._decode(b"", awaits)
            while not self._ready:
                self._note_begun()
                await self._hear(awaits)
        self._begun_ns = None
        return self._ready.popleft()

    def _note_begun(self) -> None:
        if not self._decoder.has_begun:
            self._begun_ns = None
        elif self._begun_ns is None:
            self._begun_ns = self._monotonic()

    def _expect(self, awaits: Awaits) -> None:
        epoch = self._machine.epoch
        if epoch is not None and epoch is not self._agreed:
            self._agreed = epoch
            agreement, terms = epoch.agreement, epoch.terms
            self._decoder.agree(
                source=agreement.policy.peer_origin,
                schema=terms.schema,
                limits=terms.limits,
                compressed=agreement.compresses,
            )
        self._decoder.expect(awaits, listings=max(self._asked))

    async def _hear(self, awaits: Awaits) -> None:
        """Take more of the stream, or what there is of a transfer if there is no more at the moment."""
        if self._has_ended:
            if self._elements.parting is not None and not self._elements.buffered:
                raise parting.ended(self._elements.parting)
            # Raises where the stream ended inside a phase, and says so.
            self._decoder.finish()
            raise LinkEnded(self.failure or "the peer has closed the link")
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        if awaits is Awaits.TRANSFER:
            done, _ = await asyncio.wait({self._reading}, timeout=self._quiet_seconds)
            if not done:
                self._take(self._decoder.flush(), awaits)
                if self._ready:
                    return
        while not self._reading.done():
            # Whoever stops waiting for a message does not undo the read.
            await asyncio.wait({self._reading}, timeout=self._seconds_left(awaits))
        self._seconds_left(awaits)
        data = self._reading.result()
        self._reading = None
        if data:
            await self._decode(data, awaits)
        else:
            self._has_ended = True
            self._take(self._decoder.flush(), awaits)

    def _seconds_left(self, awaits: Awaits) -> float | None:
        """For what has begun; None where nothing has, or where the machine looks after it. Raises when it is over."""
        if self._begun_ns is None or awaits is Awaits.TRANSFER:
            return None
        allowed = self._limits.phase_timeout
        left_ns = self._begun_ns + allowed * SECOND_NS - self._monotonic()
        if left_ns <= 0:
            raise Abort(Reason.PHASE_TIMEOUT, f"a block was not complete {allowed} seconds after its beginning")
        return left_ns / SECOND_NS

    async def _read(self) -> bytes:
        """Some bytes; none when there will be no more, by whoever's doing."""
        try:
            data = await self._stream.read()
        except TransportError as error:
            self.failure = str(error)
            return b""
        self.bytes_in += len(data)
        if data:
            self.heard_ns = self._monotonic()
        return data

    async def _decode(self, data: bytes, awaits: Awaits) -> None:
        before = self._elements.buffered + len(data)
        try:
            if self._work is not None and before >= _LARGE_BYTES:
                decoded = await self._work(lambda: self._feed(data))
            else:
                decoded = self._feed(data)
        finally:
            self._traffic(awaits.value).bytes_in += before - self._elements.buffered
        if isinstance(decoded, PeerError):
            raise again(decoded)
        self._take(decoded, awaits)

    def _feed(self, data: bytes) -> list[Message] | PeerError:
        """Raises nothing: an error that goes from one thread to another is kept by both, with all that it passed."""
        try:
            return undisturbed(lambda: self._decoder.feed(data))
        except PeerError as failure:
            return again(failure)

    def _take(self, messages: list[Message], awaits: Awaits) -> None:
        self._traffic(awaits.value).messages_in += len(messages)
        self._ready.extend(messages)

    # ---- end ------------------------------------------------------------------------------------------------------

    async def close(self, why: Reason | None = None) -> None:
        """Let go of the stream. What was sent before still arrives, if the other side reads on.

        Of some ends the peer is told (``wire.parting``).
        """
        if said := parting.encode(why):
            with suppress(TransportError, TimeoutError):
                async with asyncio.timeout(PARTING_SECONDS):
                    await self._stream.write(said)
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        await self._stream.close()
        # A block that was never whole may be large. It goes now, and not when somebody forgets this link.
        self._ready.clear()
        if self._work is None:
            self._decoder.drop()
        else:
            # Where blocks are decoded, since the last one may still be.
            await self._work(self._decoder.drop)

    @property
    def _limits(self) -> Limits:
        """As agreed; this side's own before that."""
        epoch = self._machine.epoch
        return self._machine.config.limits if epoch is None else epoch.terms.limits

    def _traffic(self, phase: str) -> Traffic:
        return self.traffic.setdefault(phase, Traffic())


def _phase_of(message: Message) -> str:
    return type(message).__name__.lower()
