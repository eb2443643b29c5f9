"""The extended secret handshake: who is at the other end, and keys that nobody else has. Both sides, as machines.

Four messages go back and forth. N is the key of the network, (a, b) the fresh key pairs of this one handshake on
X25519, A and B the lasting Ed25519 keys of client and server; the server's is known to the client beforehand.

==  =========  =====  ===================================================================================
no  from       bytes  content
==  =========  =====  ===================================================================================
1   client     64     HMAC-SHA-512 of a's public half under N, its first 32 bytes; then that half
2   server     64     the same with b
3   client     144    a box for B: the client's signature, A, and 32 bytes that an application may use
4   server     80     a box for A: the server's signature over what the client said
==  =========  =====  ===================================================================================

What always holds:

* the client says who it is only to whoever holds B, and the server answers only who has proven to hold A;
* what comes out does not depend on how the bytes were cut into chunks;
* nothing is kept but the chunk that is being read: a message has a fixed size;
* after a fault nothing more is read.

Randomness comes in as an argument: the seed of the fresh pair must never serve twice.
"""

import hmac
from hashlib import sha256, sha512
from typing import Final

from msgspec import Struct
from nacl import bindings
from nacl.exceptions import BadSignatureError, CryptoError

from bobbin.errors import UsageError
from bobbin.tangles.keys import SIGNATURE_BYTES, Keypair
from bobbin.wire.pzp.faults import Fault, Latch

KEY_SIZE: Final = 32
EXTRA_SIZE: Final = 32
CHALLENGE_SIZE: Final = 64
CLIENT_PROOF_SIZE: Final = 144
SERVER_PROOF_SIZE: Final = 80

NETWORK_KEY: Final = bytes.fromhex("0c0c5a060ce9c6f3b416e7d4e899e5a138990853a279a80ae44a22ac2588444f")
"""Of the public network: ``p2pLq5VZKvNWaaafMUEcxH9BKm2WjNBCxsc8TRQV5gS`` in base58."""

TIMEOUT_SECONDS: Final = 15.0
"""A handshake that is not done by then is given up. The driver has the clock."""

_MAC_SIZE: Final = 32
_NONCE: Final = bytes(bindings.crypto_secretbox_NONCEBYTES)
"""Zeros: every key of a box is used once."""
_NO_EXTRA: Final = bytes(EXTRA_SIZE)


def _sign(key: Keypair, message: bytes) -> bytes:
    return bindings.crypto_sign(message, key.private_bytes)[:SIGNATURE_BYTES]


def _shared(key: Keypair, point: bytes) -> bytes:
    """The secret shared with the holder of an X25519 key. Raises ``CryptoError``."""
    return bindings.crypto_scalarmult(bindings.crypto_sign_ed25519_sk_to_curve25519(key.private_bytes), point)


class Session(Struct, frozen=True, kw_only=True):
    """What a handshake has come to."""

    peer: bytes
    """The lasting key that the other side has proven to hold."""
    extra: bytes | None
    """What the client said besides; None for zeros."""
    sending_key: bytes
    receiving_key: bytes
    rest: bytes
    """What came along behind the last message: the beginning of the stream."""


class _Side:
    """What both sides do alike."""

    def __init__(self, own: Keypair, *, ephemeral_seed: bytes, network_key: bytes, awaits: int) -> None:
        if len(network_key) != KEY_SIZE:
            raise UsageError(f"the key of a network has {KEY_SIZE} bytes, not {len(network_key)}")
        fresh = Keypair(ephemeral_seed)
        self.session: Session | None = None
        """Set when the handshake is done."""
        self._own: Final = own
        self._network: Final = network_key
        self._fresh: Final = fresh
        self._challenge: Final = self._make_challenge(bindings.crypto_sign_ed25519_pk_to_curve25519(fresh.public_bytes))
        self._awaits = awaits
        """How many bytes the next message of the peer has; 0 where none is to come."""
        self._buffer = b""
        self._latch: Final = Latch()
        self._theirs = b""
        """The peer's fresh key."""
        self._secret = b""
        """Shared by the two fresh keys."""

    @property
    def buffered(self) -> int:
        """Bytes that wait for the rest of a message."""
        return len(self._buffer)

    def finish(self) -> None:
        """The peer sends no more. Raises unless the handshake is done."""
        self._latch.check()
        if self.session is None:
            got = f"{len(self._buffer)} of {self._awaits} bytes of the next message had come"
            self._latch.fail(Fault.TRUNCATED, f"the handshake was broken off; {got}")

    def _take(self) -> bytes | None:
        """The next message, once it is complete."""
        if not self._awaits or len(self._buffer) < self._awaits:
            return None
        message, self._buffer = self._buffer[: self._awaits], self._buffer[self._awaits :]
        return message

    def _make_challenge(self, point: bytes) -> bytes:
        return self._mac(point) + point

    def _mac(self, point: bytes) -> bytes:
        return hmac.digest(self._network, point, sha512)[:_MAC_SIZE]

    def _read_challenge(self, message: bytes) -> None:
        mac, point = message[:_MAC_SIZE], message[_MAC_SIZE:]
        if not hmac.compare_digest(mac, self._mac(point)):
            self._latch.fail(Fault.WRONG_NETWORK, "the other side does not use the key of this network")
        self._theirs = point
        self._secret = self._share(self._fresh, point)

    def _share(self, pair: Keypair, point: bytes) -> bytes:
        try:
            return _shared(pair, point)
        except CryptoError:
            # A point of small order would give a secret that everybody knows.
            self._latch.fail(Fault.WRONG_NETWORK, "the other side's fresh key is of no use as a key")

    def _point_of(self, public: bytes) -> bytes:
        try:
            return bindings.crypto_sign_ed25519_pk_to_curve25519(public)
        except CryptoError:
            self._latch.fail(Fault.NOT_PROVEN, "the other side's lasting key is no point of the curve")

    def _open(self, box: bytes, key: bytes, what: str) -> bytes:
        try:
            return bindings.crypto_secretbox_open(box, _NONCE, key)
        except CryptoError:
            self._latch.fail(Fault.NOT_PROVEN, f"{what} cannot be opened")

    def _verify(self, signature: bytes, message: bytes, public: bytes, what: str) -> None:
        try:
            bindings.crypto_sign_open(signature + message, public)
        except BadSignatureError:
            self._latch.fail(Fault.NOT_PROVEN, f"the signature of the {what} is wrong")

    def _complete(self, peer: bytes, extra: bytes, key: bytes) -> None:
        root = sha256(key).digest()
        rest, self._buffer, self._awaits = self._buffer, b"", 0
        self.session = Session(
            peer=peer,
            extra=None if extra == _NO_EXTRA else extra,
            sending_key=sha256(root + peer).digest(),
            receiving_key=sha256(root + self._own.public_bytes).digest(),
            rest=rest,
        )


class Client(_Side):
    """The side that dials. ``start`` gives its first message; then ``feed`` it what comes and send what it gives."""

    def __init__(
        self,
        own: Keypair,
        server: bytes,
        *,
        ephemeral_seed: bytes,
        network_key: bytes = NETWORK_KEY,
        extra: bytes | None = None,
    ) -> None:
        """``server``: the key that the other side must prove to hold. ``ephemeral_seed``: 32 fresh random bytes."""
        super().__init__(own, ephemeral_seed=ephemeral_seed, network_key=network_key, awaits=CHALLENGE_SIZE)
        if len(server) != KEY_SIZE:
            raise UsageError(f"the key of a server has {KEY_SIZE} bytes, not {len(server)}")
        if extra is not None and len(extra) != EXTRA_SIZE:
            raise UsageError(f"what a client says besides has {EXTRA_SIZE} bytes, not {len(extra)}")
        try:
            self._server_point: Final = bindings.crypto_sign_ed25519_pk_to_curve25519(server)
        except CryptoError as error:
            raise UsageError(
                "the key of the server is no point of the curve: an id, perhaps, in place of a key"
            ) from error
        self._server: Final = server
        self._extra: Final = extra or _NO_EXTRA
        self._hello = b""
        self._secrets = b""

    def start(self) -> bytes:
        """The first message."""
        return self._challenge

    def feed(self, data: bytes) -> bytes:
        """Take bytes, and give what is to be sent. ``session`` is there when that was all."""
        self._latch.check()
        if self.session is not None:
            raise UsageError("the handshake is done; these bytes belong to the stream")
        self._buffer += data
        answer = b""
        while (message := self._take()) is not None:
            if self._awaits == CHALLENGE_SIZE:
                answer += self._prove(message)
            else:
                self._check_server(message)
        return answer

    def _prove(self, message: bytes) -> bytes:
        self._read_challenge(message)
        self._secrets = self._network + self._secret + self._share(self._fresh, self._server_point)
        signature = _sign(self._own, self._network + self._server + sha256(self._secret).digest())
        self._hello = signature + self._own.public_bytes + self._extra
        self._awaits = SERVER_PROOF_SIZE
        return bindings.crypto_secretbox(self._hello, _NONCE, sha256(self._secrets).digest())

    def _check_server(self, message: bytes) -> None:
        key = sha256(self._secrets + self._share(self._own, self._theirs)).digest()
        signature = self._open(message, key, "the answer of the server")
        signed = self._network + self._hello + sha256(self._secret).digest()
        self._verify(signature, signed, self._server, "server")
        self._complete(self._server, self._extra, key)


class Server(_Side):
    """The side that was dialled. When it knows who is there, ``peer`` is set, and it waits for ``accept``."""

    def __init__(self, own: Keypair, *, ephemeral_seed: bytes, network_key: bytes = NETWORK_KEY) -> None:
        super().__init__(own, ephemeral_seed=ephemeral_seed, network_key=network_key, awaits=CHALLENGE_SIZE)
        self.peer: bytes | None = None
        """Who has proven to be there; not told yet whether it is welcome."""
        self._hello = b""
        self._key = b""

    def feed(self, data: bytes) -> bytes:
        """Take bytes, and give what is to be sent."""
        self._latch.check()
        if self.session is not None:
            raise UsageError("the handshake is done; these bytes belong to the stream")
        self._buffer += data
        answer = b""
        while (message := self._take()) is not None:
            if self._awaits == CHALLENGE_SIZE:
                self._read_challenge(message)
                self._awaits = CLIENT_PROOF_SIZE
                answer += self._challenge
            else:
                self._check_client(message)
        return answer

    def accept(self) -> bytes:
        """The last message, which tells the client that it is welcome. ``session`` is there after it."""
        self._latch.check()
        if self.peer is None or self.session is not None:
            raise UsageError("there is nobody who waits to be accepted")
        signature = _sign(self._own, self._network + self._hello + sha256(self._secret).digest())
        self._complete(self.peer, self._hello[-EXTRA_SIZE:], self._key)
        return bindings.crypto_secretbox(signature, _NONCE, self._key)

    def _check_client(self, message: bytes) -> None:
        secrets = self._network + self._secret + self._share(self._own, self._theirs)
        hello = self._open(message, sha256(secrets).digest(), "the proof of the client")
        signature, public = hello[:SIGNATURE_BYTES], hello[SIGNATURE_BYTES:-EXTRA_SIZE]
        signed = self._network + self._own.public_bytes + sha256(self._secret).digest()
        self._verify(signature, signed, public, "client")
        self._key = sha256(secrets + self._share(self._fresh, self._point_of(public))).digest()
        self._hello = hello
        self.peer = public
        self._awaits = 0
