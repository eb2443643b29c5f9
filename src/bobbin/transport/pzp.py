"""Dialling PZP peers and being dialled by them: TCP, and an encrypted stream over it.

Handshakes that are not done are bounded, as everywhere: in time, in number, and in number for one origin. Beyond that
the oldest one gives way, so whoever begins handshakes and leaves them keeps nobody else out.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from bobbin.errors import UsageError
from bobbin.tangles.keys import Keypair
from bobbin.transport import dial as dialling
from bobbin.transport import listen as listening
from bobbin.transport import secret_stream
from bobbin.transport.base import ByteStream, Listener, TransportError
from bobbin.transport.listen import Handshakes
from bobbin.transport.secret_stream import SecretStream
from bobbin.wire.address import Address
from bobbin.wire.pzp import address as addresses
from bobbin.wire.pzp.address import PeerAddress
from bobbin.wire.pzp.faults import WireFault
from bobbin.wire.pzp.handshake import NETWORK_KEY, TIMEOUT_SECONDS

AcceptPeer: TypeAlias = Callable[[SecretStream], Awaitable[None]]
"""What becomes of a peer that was taken. It owns the stream and closes it; it runs as a task of its own."""
RefusedPeer: TypeAlias = Callable[[str, str], None]
"""Hears why somebody was turned away, by a code, and who: the other end as its socket names it."""

GAVE_WAY: Final = "too-many-handshakes"
LINK_LOST: Final = "link-lost"
HANDSHAKES: Final = Handshakes(seconds=TIMEOUT_SECONDS)


async def dial(
    address: PeerAddress,
    own: Keypair,
    *,
    network_key: bytes = NETWORK_KEY,
    timeout_seconds: float = dialling.DIAL_SECONDS,
    handshake_seconds: float = TIMEOUT_SECONDS,
) -> SecretStream:
    """An encrypted stream to a peer. Raises ``TransportError``, and ``WireFault`` where somebody else answers."""
    if address.key == own.public_bytes:
        raise UsageError(f"{address} is this side itself")
    stream = await dialling.dial(address.place, timeout_seconds=timeout_seconds)
    return await secret_stream.call(
        stream,
        own,
        address.key,
        extra=address.extra,
        network_key=network_key,
        timeout_seconds=handshake_seconds,
    )


class PeerListener:
    """Takes peers that dial."""

    def __init__(
        self,
        own: Keypair,
        accept: AcceptPeer,
        *,
        admits: Callable[[bytes], bool],
        network_key: bytes,
        handshakes: Handshakes,
        refused: RefusedPeer,
    ) -> None:
        self._own: Final = own
        self._accept: Final = accept
        self._admits: Final = admits
        self._network_key: Final = network_key
        self._handshakes: Final = handshakes
        self._refused: Final = refused
        self._listener: Listener | None = None
        self._unfinished: Final[dict[int, ByteStream]] = {}
        """Streams whose handshake goes on, in the order in which they came."""
        self._numbers = 0

    @property
    def address(self) -> PeerAddress:
        """Where it listens, and with which key."""
        assert self._listener is not None, "it listens when it is given out"
        return addresses.at(self._listener.address, self._own.public_bytes)

    @property
    def unfinished(self) -> int:
        """Handshakes that go on."""
        return len(self._unfinished)

    async def open(self, place: Address) -> None:
        """Begin to take peers at a place."""
        self._listener = await listening.listen(place, self._take)

    async def close(self) -> None:
        """Take no more peers. Those that were taken go on."""
        if self._listener is not None:
            await self._listener.close()
        for stream in tuple(self._unfinished.values()):
            stream.abort()

    async def _take(self, stream: ByteStream) -> None:
        self._make_room(stream.route.origin)
        self._numbers += 1
        number = self._numbers
        self._unfinished[number] = stream
        try:
            taken = await secret_stream.answer(
                stream,
                self._own,
                admits=self._admits,
                network_key=self._network_key,
                timeout_seconds=self._handshakes.seconds,
            )
        except (WireFault, TransportError) as failure:
            gave_way = number not in self._unfinished
            code = GAVE_WAY if gave_way else failure.code if isinstance(failure, WireFault) else LINK_LOST
            self._refused(code, stream.route.remote)
            return
        finally:
            self._unfinished.pop(number, None)
        await self._accept(taken)

    def _make_room(self, origin: str) -> None:
        limits, waiting = self._handshakes, self._unfinished
        here = [number for number, stream in waiting.items() if stream.route.origin == origin]
        if len(here) >= limits.count_per_origin_max:
            oldest = here[0]
        elif len(waiting) >= limits.count_max:
            oldest = next(iter(waiting))
        else:
            return
        waiting.pop(oldest).abort()


async def listen(
    place: Address,
    own: Keypair,
    accept: AcceptPeer,
    *,
    admits: Callable[[bytes], bool] = lambda peer: True,  # noqa: ARG005 - anybody who has a key
    network_key: bytes = NETWORK_KEY,
    handshakes: Handshakes = HANDSHAKES,
    refused: RefusedPeer = lambda code, remote: None,  # noqa: ARG005 - nobody wants to hear it
) -> PeerListener:
    """Take peers at a place over TCP until closed. Raises ``TransportError``.

    ``admits`` is asked about a key that has been proven; a real peer lets everybody in.
    """
    addresses.at(place, own.public_bytes)
    listener = PeerListener(own, accept, admits=admits, network_key=network_key, handshakes=handshakes, refused=refused)
    await listener.open(place)
    return listener
