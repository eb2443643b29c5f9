"""A way from one machine to the other, in one process, through the bytes that a socket would carry.

Everything passes the encoder of one side and the decoder of the other, in pieces, so that what holds here holds on a
stream. Only the preface and the proof are missing: in one process nobody has to prove anything to himself.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from bobbin.errors import PeerError
from bobbin.interlace.events import Received, Undecodable
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Message
from bobbin.interlace.state import Awaits
from bobbin.wire.elements import Elements
from bobbin.wire.interlace import Decoder, encode, reason_of

if TYPE_CHECKING:
    from bobbin.interlace.epoch import Epoch

Tap: TypeAlias = Callable[[Message, int], None]
"""Told of every message that was carried, with its size in bytes."""


class CodecChannel:
    """One direction of a link, as bytes."""

    def __init__(self, sender: InterlaceMachine, receiver: InterlaceMachine, *, tap: Tap | None = None) -> None:
        self._sender = sender
        self._receiver = receiver
        self._tap = tap
        self._pieces: deque[bytes] = deque()
        self._decoded: deque[Message] = deque()
        self._decoder: Final = Decoder(Elements(has_preface=False), limits=receiver.config.limits)
        self._agreed: Epoch | None = None

    def push(self, message: Message) -> None:
        epoch = self._sender.epoch
        source = None if epoch is None else epoch.agreement.policy.own_origin
        limits = self._sender.config.limits if epoch is None else epoch.terms.limits
        compressed = epoch is not None and epoch.agreement.compresses
        bytes_max = limits.max_fact_block_size
        pieces = list(encode(message, source=source, fact_bytes_max=bytes_max, compressed=compressed))
        self._pieces.extend(pieces)
        if self._tap is not None:
            self._tap(message, sum(map(len, pieces)))

    def pull(self, awaits: Awaits) -> Received | Undecodable | None:
        if not self._decoded:
            try:
                self._decode(awaits)
            except PeerError as error:
                return Undecodable(reason_of(error), str(error))
        return Received(self._decoded.popleft()) if self._decoded else None

    def _decode(self, awaits: Awaits) -> None:
        epoch = self._receiver.epoch
        if epoch is not None and epoch is not self._agreed:
            self._agreed = epoch
            agreement, terms = epoch.agreement, epoch.terms
            self._decoder.agree(
                source=agreement.policy.peer_origin,
                schema=terms.schema,
                limits=terms.limits,
                compressed=agreement.compresses,
            )
        self._decoder.expect(awaits)
        self._decoded.extend(self._decoder.feed(b""))
        while self._pieces and not self._decoded:
            self._decoded.extend(self._decoder.feed(self._pieces.popleft()))
