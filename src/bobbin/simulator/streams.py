"""What travels on the links of a world of exchanges: messages as they are, or the bytes that a socket would carry.

A stream stands at one end of a link. It turns what its machine says into items for the link, and what arrives into
events, read as what the machine awaits. The byte stream is cut into pieces at random places, so that nothing depends on
where a piece ends.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final, Protocol, TypeAlias

from bobbin.errors import PeerError
from bobbin.interlace.events import Received, Undecodable
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Advertise, Message
from bobbin.interlace.state import Awaits
from bobbin.wire.elements import Elements
from bobbin.wire.interlace import Decoder, encode, reason_of

Item: TypeAlias = Message | bytes
Corrupt: TypeAlias = Callable[[bytes], bytes]


class Stream(Protocol):
    """One end's way of speaking."""

    def write(self, message: Message) -> list[Item]:
        """What goes on the link for a message. Raises ``PeerError`` where it would be too large."""
        ...

    def take(self, item: Item) -> None:
        """Something has arrived."""
        ...

    def next(self) -> Received | Undecodable | None:
        """The next message of the peer, if it is there and is awaited."""
        ...


class MessageStream:
    """Messages as they are."""

    def __init__(self, machine: InterlaceMachine) -> None:
        self._machine: Final = machine
        self._arrived: Final[deque[Message]] = deque()

    def write(self, message: Message) -> list[Item]:
        return [message]

    def take(self, item: Item) -> None:
        assert not isinstance(item, bytes), "messages travel on this link"
        self._arrived.append(item)

    def next(self) -> Received | Undecodable | None:
        if not self._arrived or self._machine.awaits is Awaits.NOTHING:
            return None
        return Received(self._arrived.popleft())


class ByteStream:
    """Messages as bytes, in pieces of any size."""

    def __init__(self, machine: InterlaceMachine, random: Random, corrupt: Corrupt = bytes) -> None:
        """``corrupt`` changes bytes on their way out."""
        self._machine: Final = machine
        self._random: Final = random
        self._corrupt: Final = corrupt
        limits = machine.config.limits
        self._decoder: Final = Decoder(Elements(has_preface=False), limits=limits)
        self._bytes = bytearray()
        self._ready: Final[deque[Message]] = deque()
        self._failure: Undecodable | None = None
        self._asked: Final[deque[int]] = deque((0, 0), maxlen=2)
        """How many partitions our last two blocks asked to be listed."""

    def write(self, message: Message) -> list[Item]:
        epoch, config = self._machine.epoch, self._machine.config
        # Who advertises before there is a plan is a liar, and names any source.
        early = config.own.origin(0 if config.initiator else 1)
        source = early if epoch is None else epoch.agreement.policy.own_origin
        limits = config.limits if epoch is None else epoch.terms.limits
        compressed = epoch is not None and epoch.agreement.compresses
        bytes_max = limits.max_fact_block_size
        raw = b"".join(encode(message, source=source, fact_bytes_max=bytes_max, compressed=compressed))
        if isinstance(message, Advertise):
            self._asked.append(len(message.lists))
        return list(self._pieces(self._corrupt(raw)))

    def take(self, item: Item) -> None:
        assert isinstance(item, bytes), "bytes travel on this link"
        self._bytes += item

    def next(self) -> Received | Undecodable | None:
        awaits = self._machine.awaits
        if awaits is Awaits.NOTHING or self._failure is not None:
            return None
        if not self._ready:
            self._decode(awaits)
        if self._ready:
            return Received(self._ready.popleft())
        return self._failure

    def _decode(self, awaits: Awaits) -> None:
        decoder, epoch = self._decoder, self._machine.epoch
        if epoch is not None:
            agreement, terms = epoch.agreement, epoch.terms
            decoder.agree(
                source=agreement.policy.peer_origin,
                schema=terms.schema,
                limits=terms.limits,
                compressed=agreement.compresses,
            )
        decoder.expect(awaits, listings=max(self._asked))
        data = bytes(self._bytes)
        self._bytes.clear()
        try:
            self._ready.extend(decoder.feed(data))
            if not self._ready and awaits is Awaits.TRANSFER:
                self._ready.extend(decoder.flush())
        except PeerError as error:
            self._failure = Undecodable(reason_of(error), str(error))

    def _pieces(self, raw: bytes) -> list[bytes]:
        if not raw:
            return []
        cuts = sorted({self._random.randrange(len(raw)) for _ in range(self._random.randrange(3))} - {0})
        return [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


def truncate(item: Item, random: Random) -> Item | None:
    """What arrives of an item in which the link broke: the beginning of some bytes, nothing of a message."""
    return item[: random.randrange(len(item))] if isinstance(item, bytes) else None
