"""The signed envelope of every message between nodes.

All numbers are unsigned, high byte first.

========  =============================================================================================================
bytes     content
========  =============================================================================================================
4         ``BCE`` and the version, 2
1         flags: 1 where it is signed; nothing else
2         the type of the message (``codec.KINDS``)
8         boot id: in which life the sender is; every start of a node has a higher one
8         sequence: counts what the sender has said to this destination in this life, from 0
8         time: milliseconds since 1970 by the sender's clock
16        cluster
8         the boot id of the destination, as far as the sender knows it; 0 where it does not
2, 2, 4   how long are the sender, the destination and the payload
n         sender: the id of the key, as text
n         destination: a node id, as text
32, 64    public key and signature, if it is signed
n         payload, to the end
========  =============================================================================================================

What is signed is ``TAG``, cluster, destination (its length, itself, its boot id), type, boot id, sequence, time, and
length and BLAKE3 digest of the payload. Each part has a fixed size or says how long it is, so that no two messages are
the same bytes. The sender needs no place of its own: Ed25519 signs under the public key, from which the sender follows.

The digest, since Ed25519 reads what it signs twice, with a hash that is slow beside BLAKE3, and entries of a log come
by the megabyte: of a large message it took most of the time.
"""

from struct import Struct as Layout
from typing import Final

from blake3 import blake3
from msgspec import Struct

from bobbin.cluster.identity import (
    PUBLIC_SIZE,
    SIGNATURE_SIZE,
    Identity,
    InvalidKey,
    InvalidSignature,
    PublicIdentity,
)
from bobbin.cluster.names import NodeId
from bobbin.errors import UsageError
from bobbin.wire.cluster import codec
from bobbin.wire.cluster.codec import Hello, Message
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from bobbin.wire.cluster.frame import PAYLOAD_BYTES_MAX

TAG: Final = b"bobbin cluster envelope 2\x00"
CLUSTER_SIZE: Final = 16
ENVELOPE_BYTES_MAX: Final = PAYLOAD_BYTES_MAX
NUMBER_MAX: Final = 2**64 - 1

_MAGIC: Final = b"BCE"
_VERSION: Final = 2
_SIGNED: Final = 1
_HEAD: Final = Layout(">3sBBHQQQ16sQHHI")
_HEAD_SIZE: Final = _HEAD.size
_PROOF_SIZE: Final = PUBLIC_SIZE + SIGNATURE_SIZE
_LENGTH: Final = Layout(">H")
_MIDDLE: Final = Layout(">QHQQQI")


class Envelope(Struct, frozen=True, kw_only=True):
    """One message with everything around it."""

    sender: NodeId
    destination: NodeId
    destination_boot: int
    cluster: bytes
    type: int
    boot_id: int
    sequence: int
    time_ms: int
    payload: bytes
    public: bytes = b""
    """Nothing for an envelope that is not signed."""
    signature: bytes = b""

    @property
    def is_signed(self) -> bool:
        return bool(self.signature)


def signed_bytes(envelope: Envelope) -> bytes:
    """What a signature is over."""
    destination = envelope.destination.encode()
    return b"".join(
        (
            TAG,
            envelope.cluster,
            _LENGTH.pack(len(destination)),
            destination,
            _MIDDLE.pack(
                envelope.destination_boot,
                envelope.type,
                envelope.boot_id,
                envelope.sequence,
                envelope.time_ms,
                len(envelope.payload),
            ),
            blake3(envelope.payload).digest(),
        )
    )


def pack(envelope: Envelope) -> bytes:
    """The bytes of an envelope."""
    sender, destination = envelope.sender.encode(), envelope.destination.encode()
    head = _HEAD.pack(
        _MAGIC,
        _VERSION,
        _SIGNED if envelope.is_signed else 0,
        envelope.type,
        envelope.boot_id,
        envelope.sequence,
        envelope.time_ms,
        envelope.cluster,
        envelope.destination_boot,
        len(sender),
        len(destination),
        len(envelope.payload),
    )
    raw = b"".join((head, sender, destination, envelope.public, envelope.signature, envelope.payload))
    if len(raw) > ENVELOPE_BYTES_MAX:
        raise UsageError(f"an envelope has at most {ENVELOPE_BYTES_MAX} bytes, and this one would have {len(raw)}")
    return raw


def unpack(raw: bytes) -> Envelope:
    """The parts of an envelope, of which nothing is proven. Raises ``MessageRefused``."""
    if len(raw) > ENVELOPE_BYTES_MAX:
        raise MessageRefused(Refusal.OVERSIZED, f"an envelope has at most {ENVELOPE_BYTES_MAX} bytes, not {len(raw)}")
    if len(raw) < _HEAD_SIZE:
        raise MessageRefused(Refusal.TRUNCATED, f"an envelope has at least {_HEAD_SIZE} bytes, not {len(raw)}")
    (magic, version, flags, type_, boot, sequence, time_ms, cluster, theirs, sender_size, destination_size, size) = (
        _HEAD.unpack_from(raw)
    )
    if magic != _MAGIC:
        raise MessageRefused(Refusal.MALFORMED, "this is no envelope of a cluster")
    if version != _VERSION:
        raise MessageRefused(Refusal.VERSION, f"version {version} is not known", field="version")
    if flags & ~_SIGNED:
        raise MessageRefused(Refusal.MALFORMED, f"no envelope has the flags {flags:02x}", field="flags")
    if not boot:
        raise MessageRefused(Refusal.MALFORMED, "no life of a node has the boot id 0", field="boot_id")
    at_destination = _HEAD_SIZE + sender_size
    at_proof = at_destination + destination_size
    at_payload = at_proof + (_PROOF_SIZE if flags else 0)
    if len(raw) != at_payload + size:
        code = Refusal.TRUNCATED if len(raw) < at_payload + size else Refusal.MALFORMED
        raise MessageRefused(code, f"an envelope of these parts has {at_payload + size} bytes, not {len(raw)}")
    return Envelope(
        sender=_text(raw[_HEAD_SIZE:at_destination], "sender"),
        destination=_text(raw[at_destination:at_proof], "destination"),
        destination_boot=theirs,
        cluster=cluster,
        type=type_,
        boot_id=boot,
        sequence=sequence,
        time_ms=time_ms,
        payload=raw[at_payload:],
        public=raw[at_proof : at_proof + PUBLIC_SIZE] if flags else b"",
        signature=raw[at_proof + PUBLIC_SIZE : at_payload] if flags else b"",
    )


def verify(envelope: Envelope, known: PublicIdentity | None = None) -> None:
    """Raise ``MessageRefused`` unless the sender is the holder of the key, and has signed this.

    ``known`` is the sender's key as it was registered: it saves looking at the same key again.
    """
    if not envelope.is_signed:
        raise MessageRefused(Refusal.UNSIGNED, "this message is not signed", field="signature")
    identity = known
    if identity is None or identity.public != envelope.public:
        try:
            identity = PublicIdentity(envelope.public)
        except InvalidKey as error:
            raise MessageRefused(Refusal.INVALID_KEY, str(error), field="public") from error
    if envelope.sender != identity.node:
        raise MessageRefused(Refusal.WRONG_SENDER, "the sender is not the holder of the key", field="sender")
    try:
        identity.verify(signed_bytes(envelope), envelope.signature)
    except InvalidSignature as error:
        raise MessageRefused(Refusal.INVALID_SIGNATURE, str(error), field="signature") from error


def _text(raw: bytes, field: str) -> NodeId:
    try:
        return NodeId(raw.decode())
    except UnicodeDecodeError:
        raise MessageRefused(Refusal.NODE_ID, "a node id that is not UTF-8", field=field) from None


class Sealer:
    """Signs what this node says in this life. What cannot be signed is not said.

    A destination is told its own boot id, which it has shown by ``Hello``: what was meant for an earlier life of it
    says so, and is refused there. Without that, whoever has recorded messages could play them to a node that has
    restarted and remembers no sequence.
    """

    def __init__(self, identity: Identity, *, cluster: bytes, boot_id: int) -> None:
        if len(cluster) != CLUSTER_SIZE:
            raise UsageError(f"the id of a cluster is {CLUSTER_SIZE} bytes, not {len(cluster)}")
        if not 0 < boot_id <= NUMBER_MAX:
            raise UsageError(f"a boot id lies between 1 and 2^64 - 1, not at {boot_id}")
        self.boot_id: Final = boot_id
        self._identity: Final = identity
        self._cluster: Final = cluster
        self._sequences: Final[dict[NodeId, int]] = {}
        self._boots: Final[dict[NodeId, int]] = {}

    def learn(self, peer: NodeId, boot_id: int) -> bool:
        """A peer has shown, in a message that was admitted, in which life it is. An earlier one changes nothing.

        Whether it is news: then the peer may not know in which life this node is either, and is told by ``Hello``.
        """
        is_news = boot_id > self._boots.get(peer, 0)
        if is_news:
            self._boots[peer] = boot_id
        return is_news

    def knows(self, peer: NodeId) -> bool:
        """Whether anything but ``Hello`` can be said to this peer."""
        return peer in self._boots

    def forget(self, peer: NodeId) -> None:
        """A peer has left. Its sequence goes on where it was, should it come back in this life."""
        self._boots.pop(peer, None)

    def seal(self, to: NodeId, message: Message, *, now_ms: int) -> bytes:
        """The envelope of a message. Raises ``UsageError`` where it cannot be made or signed."""
        boot = self._boots.get(to, 0)
        if not boot and not isinstance(message, Hello):
            raise UsageError("nothing but Hello is said to a node before its own Hello has come")
        if not 0 <= now_ms <= NUMBER_MAX:
            raise UsageError(f"a time lies between 0 and 2^64 - 1 ms after 1970, not at {now_ms}")
        number, payload = codec.encode(message)
        sequence = self._sequences.get(to, 0)
        envelope = Envelope(
            sender=self._identity.node,
            destination=to,
            destination_boot=boot,
            cluster=self._cluster,
            type=number,
            boot_id=self.boot_id,
            sequence=sequence,
            time_ms=now_ms,
            payload=payload,
            public=self._identity.public,
        )
        sealed = _signed(envelope, self._identity.sign(signed_bytes(envelope)))
        self._sequences[to] = sequence + 1
        return pack(sealed)


def _signed(envelope: Envelope, signature: bytes) -> Envelope:
    return Envelope(
        sender=envelope.sender,
        destination=envelope.destination,
        destination_boot=envelope.destination_boot,
        cluster=envelope.cluster,
        type=envelope.type,
        boot_id=envelope.boot_id,
        sequence=envelope.sequence,
        time_ms=envelope.time_ms,
        payload=envelope.payload,
        public=envelope.public,
        signature=signature,
    )
