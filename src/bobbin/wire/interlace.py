"""Interlace on a byte stream: messages to elements and back.

A phase of one side is its fact lines, resources or records, and an empty line. Most blocks tell by their lines what
they are, but an empty one does not, and lines that stand in the wrong phase must be refused. So a decoder is told what
its machine awaits, and decodes nothing before: one block at a time, since two machines in step are never more than one
block apart. The exception is a transfer, which comes in parts, so that records can be stored while more arrive.

A driver does this, for as long as the link is up::

    decoder.expect(machine.awaits)
    for message in decoder.feed(data):        # feed(b"") for what is there already
        step the machine, then expect again what it awaits now

and reads from the link only while ``decoder.wants_more``. What is decoded does not depend on how the bytes arrived.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, assert_never

from bobbin import profile
from bobbin.errors import PeerError, UsageError
from bobbin.facts import block
from bobbin.facts.block import BLOCK_BYTES_MAX
from bobbin.facts.extract import Fact
from bobbin.facts.text import is_plain
from bobbin.interlace.advertise import Renderer
from bobbin.interlace.limits import Limits
from bobbin.interlace.messages import (
    Advertise,
    Delivered,
    Hello,
    Message,
    Request,
    Response,
    Setup,
    Transfer,
    Unavailable,
)
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.interlace.schema import Schema
from bobbin.interlace.state import Awaits
from bobbin.policy.operands import EXCHANGE_OPERAND, Origin
from bobbin.records import b64a
from bobbin.wire import elements, hello, loop
from bobbin.wire.compressed import Inflater, compress
from bobbin.wire.elements import Compressed, Element, Elements, Facts, Kind, PhaseEnd, RecordBytes, Resource
from bobbin.wire.predicates import LIST, MAY_REQUEST, NARROW, NOT_AVAILABLE, PARTITION, TICK_READY
from bobbin.wire.reconciliation import part_facts

SETUP_BYTES_MAX: Final = 64 * 1024
"""Fact lines of a setup: one, whose origin may have 4,096 bytes before it is escaped."""
HELLO_BYTES_MAX: Final = 1024 * 1024
"""Fact lines of a hello: it comes before anything is agreed on, and names fields, formats and limits only."""
_EARLY_BYTES_MAX: Final = {Awaits.SETUP: SETUP_BYTES_MAX, Awaits.HELLO: HELLO_BYTES_MAX}
AHEAD_BYTES_MAX: Final = 256 * 1024
"""What is taken from the link while nothing is expected."""
CHUNK_RECORDS_MAX: Final = 4_096
CHUNK_BYTES_MAX: Final = 4 * 1024 * 1024
"""What one part of a transfer holds."""
_TOGETHER: Final = 64
"""Lines that are made at once."""
_SEND_BYTES: Final = 64 * 1024
"""About how many bytes of fact lines are handed on at a time."""

_ADMITS: Final = {
    Awaits.SETUP: frozenset({Kind.FACTS, Kind.RESOURCE}),
    Awaits.HELLO: frozenset({Kind.FACTS, Kind.RESOURCE}),
    Awaits.ADVERTISE: frozenset({Kind.FACTS, Kind.RESOURCE}),
    Awaits.REQUEST: frozenset({Kind.FACTS}),
    Awaits.TRANSFER: frozenset({Kind.FACTS, Kind.RECORD}),
}


def reason_of(error: PeerError) -> Reason:
    """The reason under which an error of a decoder ends an exchange."""
    return Reason(error.code)


# ---- messages to bytes ----------------------------------------------------------------------------------------------


def encode(
    message: Message,
    *,
    source: Origin | None = None,
    fact_bytes_max: int = BLOCK_BYTES_MAX,
    compressed: bool = False,
) -> Iterator[bytes]:
    """The bytes of a message, in pieces.

    ``source`` is the origin of this side's own operand; only an ``Advertise`` with records needs it. ``compressed``:
    whether the peer can read compressed blocks of the advertise phase. Raises
    ``LimitReached`` before the fact lines exceed ``fact_bytes_max``: then the phase has no end, and the link no use.
    """
    match message:
        case Setup():
            yield from _within(hello.setup_facts(message), fact_bytes_max)
            if message.module is not None:
                yield elements.resource(message.operand.module, message.module)
        case Hello():
            yield from _within(hello.hello_facts(message), fact_bytes_max)
            if message.plan_bytes is not None:
                yield elements.resource(message.plan, message.plan_bytes)
        case Advertise():
            pieces = _bounded(_advertise_lines(message, source), fact_bytes_max)
            yield from compress(pieces) if compressed else pieces
        case Request():
            lines = chain(_request_lines(message.records), map(_line, _tick(message.tick)))
            yield from _bounded(lines, fact_bytes_max)
        case Transfer():
            yield from _encode_transfer(message, fact_bytes_max)
            if not message.last:
                return
        case _:
            assert_never(message)
    yield elements.PHASE_END


def _advertise_lines(message: Advertise, source: Origin | None) -> Iterator[bytes]:
    if message.records and source is None:
        raise UsageError("advertisement records are encoded with the source that they are from")
    if source is not None:
        render = Renderer(source).render
        for record in message.records:
            yield render(record.record, record.fields)
    for part in message.partitions:
        yield _line((PARTITION, (part.prefix, str(part.count), b64a.encode(part.root))))
    yield from (_line((LIST, (prefix,))) for prefix in message.lists)
    yield from (_line((NARROW, (prefix,))) for prefix in message.narrows)
    if message.part is not None:
        yield from map(_line, part_facts(message.part))
    yield from map(_line, _tick(message.tick))


def _request_lines(records: Sequence[str]) -> Iterator[bytes]:
    """A line for each record, many at a time where no name needs a closer look."""
    for start in range(0, len(records), _TOGETHER):
        some = records[start : start + _TOGETHER]
        said = "".join(some)
        if said.isascii() and is_plain(said) and max(map(len, some)) <= profile.FACT_VALUE_BYTES_MAX:
            lines = f"')\n{MAY_REQUEST}('".join(some)
            yield f"{MAY_REQUEST}('{lines}')\n".encode()
        else:
            yield from (_line((MAY_REQUEST, (record,))) for record in some)


def _encode_transfer(message: Transfer, fact_bytes_max: int) -> Iterator[bytes]:
    facts = _tick(message.tick)
    room = fact_bytes_max
    for response in message.responses:
        match response:
            case Delivered():
                for piece in _within(facts, room):
                    room -= len(piece)
                    yield piece
                facts = []
                yield response.raw
            case Unavailable():
                facts.append((NOT_AVAILABLE, (response.record,)))
            case _:
                assert_never(response)
    yield from _within(facts, room)


def _tick(tick: str | None) -> list[Fact]:
    return [] if tick is None else [(TICK_READY, (tick,))]


def _line(fact: Fact) -> bytes:
    return block.render([fact])


def _within(facts: Iterable[Fact], bytes_max: int) -> Iterator[bytes]:
    return _bounded(map(_line, facts), bytes_max)


def _bounded(lines: Iterable[bytes], bytes_max: int) -> Iterator[bytes]:
    """Lines in pieces of some size, as long as they stay within the bound."""
    piece: list[bytes] = []
    size = total = 0
    for line in lines:
        total += len(line)
        if total > bytes_max:
            detail = f"the block would have more than {bytes_max} bytes"
            raise LimitReached(Reason.OVERSIZED_BLOCK, "max_fact_block_size", detail)
        piece.append(line)
        size += len(line)
        if size >= _SEND_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)


# ---- bytes to messages ----------------------------------------------------------------------------------------------


class Decoder:
    """One peer's stream after its preface and proof, as messages. Bytes are decoded only when a block is expected."""

    def __init__(
        self,
        stream: Elements,
        *,
        limits: Limits = Limits(),  # noqa: B008 -- a frozen value
        chunk_records_max: int = CHUNK_RECORDS_MAX,
        chunk_bytes_max: int = CHUNK_BYTES_MAX,
        ahead_bytes_max: int = AHEAD_BYTES_MAX,
    ) -> None:
        """``stream`` may hold bytes already; ``limits`` are this side's, until ``agree`` says what was negotiated."""
        self._stream: Final = stream
        self._limits = limits
        self._source: Origin | None = None
        self._schema = Schema()
        self._chunk_records_max: Final = chunk_records_max
        self._chunk_bytes_max: Final = chunk_bytes_max
        self._ahead_bytes_max: Final = ahead_bytes_max
        self._awaits = Awaits.NOTHING
        self._listings = 1
        self._facts = bytearray()
        """Lines of the current phase that wait for its end."""
        self._reads_compressed = False
        self._inflater: Inflater | None = None
        """Of a phase whose lines are compressed."""
        self._reader: loop.AdvertiseReader | None = None
        """Of the same phase: has read its lines as far as they have come."""
        self._resource: Resource | None = None
        self._responses: list[Response] = []
        self._response_bytes = 0
        self._tick: str | None = None
        """Not handed on yet."""
        self._ticked = False
        self._transferring = False
        """Whether something of a transfer has been read, and not its end."""
        self._failure: PeerError | None = None
        """Never raised itself: see ``elements.again``."""

    @property
    def wants_more(self) -> bool:
        """Whether it makes sense to read from the link now."""
        if self._failure is not None:
            return False
        return self._awaits is not Awaits.NOTHING or self._stream.buffered < self._ahead_bytes_max

    @property
    def has_begun(self) -> bool:
        """Whether there is something of a block, or of a part of a transfer, that is not complete."""
        return bool(self._facts or self._inflater or self._resource or self._responses or self._stream.buffered)

    def agree(self, *, source: Origin, schema: Schema, limits: Limits, compressed: bool = False) -> None:
        """What the loop of this epoch is read against: the origin of the peer's operand, and what was negotiated.

        ``compressed``: whether blocks of the advertise phase may come compressed.
        """
        self._reads_compressed = compressed
        self._reader = None
        self._source = source
        self._schema = schema
        self._limits = limits

    def expect(self, awaits: Awaits, *, listings: int = 1) -> None:
        """Decode the next block as what the machine awaits now; also where that is the same as before.

        ``listings`` is how many partitions this side has asked to be listed in it: each may have as many records as
        the limit says, which of them has how many is for the machine to count.
        """
        if awaits is Awaits.ADVERTISE and self._source is None:
            raise UsageError("an advertise block cannot be read before the terms are agreed")
        if self._transferring and awaits not in (Awaits.TRANSFER, Awaits.NOTHING):
            raise UsageError("a transfer has begun and must be read to its end")
        self._awaits = awaits
        self._listings = max(1, listings)
        self._stream.admits = _ADMITS.get(awaits, frozenset())
        if awaits is Awaits.ADVERTISE and self._reads_compressed:
            self._stream.admits |= {Kind.COMPRESSED}
        bytes_max = self._limits.max_fact_block_size
        self._stream.fact_bytes_max = min(bytes_max, _EARLY_BYTES_MAX.get(awaits, bytes_max))

    def feed(self, data: bytes) -> list[Message]:
        """Take bytes; the messages that are complete now. An error comes after the messages before it."""
        if data and not self.wants_more and self._failure is None:
            raise UsageError("nothing is expected from the peer, and enough is waiting")
        if self._failure is not None:
            raise elements.again(self._failure)
        self._stream.feed(data)
        messages: list[Message] = []
        try:
            self._take_all(messages)
        except PeerError as failure:
            self._failure = elements.again(failure)
            messages += self.flush()
        if self._failure is not None and not messages:
            raise elements.again(self._failure)
        return messages

    def flush(self) -> list[Message]:
        """The part of a transfer that is there, however small: for a driver that has waited long enough."""
        if not self._responses:
            return []
        return [self._close_part(last=False)]

    def finish(self) -> None:
        """The stream has ended. Raises unless that was between two phases."""
        if self._failure is not None:
            raise elements.again(self._failure)
        if self._facts or self._inflater or self._resource or self._transferring:
            raise elements.Truncated("the stream ends inside a phase")
        self._stream.finish()

    def drop(self) -> None:
        """Let go of everything that waits: nothing more will be decoded."""
        self._stream.drop()
        self._facts = bytearray()
        self._inflater = self._reader = self._resource = None
        self._responses = []
        self._response_bytes = 0

    def _take_all(self, messages: list[Message]) -> None:
        while self._awaits is not Awaits.NOTHING:
            if self._awaits is Awaits.TRANSFER:
                for record, raw in self._stream.records():
                    self._respond(Delivered(record=record, raw=raw), len(raw), messages)
            element = self._stream.next()
            if element is None:
                return
            self._take(element, messages)

    def _take(self, element: Element, messages: list[Message]) -> None:
        match element:
            case Facts() if self._awaits is Awaits.TRANSFER:
                self._take_answers(element.block, messages)
            case Facts():
                if self._inflater is not None:
                    raise Abort(Reason.MALFORMED_BLOCK, "a phase has both compressed and other fact lines")
                self._facts += element.block
            case Compressed():
                self._inflate(element.piece)
            case Resource():
                if self._resource is not None:
                    raise Abort(Reason.OUT_OF_PHASE, "a phase has at most one resource")
                self._resource = element
            case RecordBytes():
                self._respond(Delivered(record=element.record, raw=element.raw), len(element.raw), messages)
            case PhaseEnd() if self._awaits is Awaits.TRANSFER:
                messages.append(self._close_part(last=True))
                self._ticked = self._transferring = False
                self._awaits = Awaits.NOTHING
            case PhaseEnd():
                messages.append(self._close())
            case _:
                raise Abort(Reason.OUT_OF_PHASE, "a preface inside the stream")

    def _inflate(self, piece: bytes) -> None:
        if self._inflater is None:
            if self._facts:
                raise Abort(Reason.MALFORMED_BLOCK, "a phase has both compressed and other fact lines")
            self._inflater = Inflater(self._stream.fact_bytes_max)
            self._reader = self._make_reader()
        lines = self._inflater.take(piece)
        self._facts += lines
        if self._reader is not None:
            self._reader.take(lines)

    def _make_reader(self) -> loop.AdvertiseReader:
        assert self._source is not None, "only an advertise block is compressed"
        return loop.AdvertiseReader(
            source=self._source,
            schema=self._schema,
            records_max=self._records_max,
            partitions_max=self._limits.max_partition_summaries,
        )

    @property
    def _records_max(self) -> int:
        return self._limits.max_advertisement_records_listed * self._listings

    def _take_answers(self, raw: bytes, messages: list[Message]) -> None:
        self._transferring = True
        refused, tick = loop.read_responses(raw, bytes_max=self._limits.max_fact_block_size)
        if tick is not None and self._ticked:
            raise Abort(Reason.MALFORMED_BLOCK, f"a block has at most one {TICK_READY}")
        if tick is not None:
            self._tick, self._ticked = tick, True
        for response in refused:
            self._respond(response, 0, messages)

    def _respond(self, response: Response, size: int, messages: list[Message]) -> None:
        self._transferring = True
        self._responses.append(response)
        self._response_bytes += size
        if len(self._responses) >= self._chunk_records_max or self._response_bytes >= self._chunk_bytes_max:
            messages.append(self._close_part(last=False))

    def _close_part(self, *, last: bool) -> Transfer:
        part = Transfer(responses=tuple(self._responses), last=last, tick=self._tick)
        self._responses = []
        self._response_bytes = 0
        self._tick = None
        return part

    def _close(self) -> Message:
        """The block that has just ended. What comes next is not known until the machine has seen it."""
        if self._inflater is not None:
            self._inflater.finish()
        raw, resource, reader, awaits = bytes(self._facts), self._resource, self._reader, self._awaits
        self._facts.clear()
        self._inflater = self._reader = self._resource = None
        self._awaits = Awaits.NOTHING
        bytes_max = self._limits.max_fact_block_size
        if awaits is Awaits.SETUP or (awaits is Awaits.ADVERTISE and _is_setup(raw, resource)):
            return hello.read_setup(block.parse(raw, bytes_max=bytes_max), resource)
        if awaits is Awaits.HELLO:
            return hello.read_hello(block.parse(raw, bytes_max=bytes_max), resource)
        if awaits is Awaits.REQUEST:
            return loop.read_request(raw, bytes_max=bytes_max)
        assert awaits is Awaits.ADVERTISE
        assert self._source is not None
        read = None if reader is None else reader.finish(raw, bytes_max=bytes_max, records_max=self._records_max)
        if read is not None:
            return read
        return loop.read_advertise(
            raw,
            source=self._source,
            schema=self._schema,
            bytes_max=bytes_max,
            records_max=self._records_max,
            partitions_max=self._limits.max_partition_summaries,
        )


def _is_setup(raw: bytes, resource: Resource | None) -> bool:
    return resource is not None or raw.startswith(EXCHANGE_OPERAND.encode() + b"(")
