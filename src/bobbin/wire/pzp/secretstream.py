"""One direction of an encrypted stream: a header, then blocks of one size (XChaCha20-Poly1305 secretstream).

========  =====  ==================================================================================================
part      bytes  content
========  =====  ==================================================================================================
header    24     random, in the clear
block     512    495 bytes encrypted: up to 494 of content, then 0x80, then zeros (ISO 7816-4), and 17 of the cipher
========  =====  ==================================================================================================

The last block has the tag FINAL and no content. Each write begins a block of its own: the blocks show how long a write
was, within 494 bytes, and never wait for the next one.

What always holds:

* what is read does not depend on how the bytes were cut into chunks;
* a block that was altered, repeated, left out or moved is refused, and everything behind it with it;
* a stream that ends without its last block was cut by somebody, and says so;
* memory is what was fed and one block.
"""

from typing import Final

from nacl import bindings
from nacl.exceptions import CryptoError

from bobbin.errors import UsageError
from bobbin.wire.pzp.faults import Fault, Latch, WireFault

HEADER_SIZE: Final = 24
BLOCK_SIZE: Final = 512
CONTENT_BYTES_MAX: Final = 494
"""Of one block."""

_PLAIN_SIZE: Final = CONTENT_BYTES_MAX + 1
_KEY_SIZE: Final = 32
_MARK: Final = b"\x80"
_MESSAGE: Final = bindings.crypto_secretstream_xchacha20poly1305_TAG_MESSAGE
_FINAL: Final = bindings.crypto_secretstream_xchacha20poly1305_TAG_FINAL


def _state(key: bytes, header: bytes) -> bindings.crypto_secretstream_xchacha20poly1305_state:
    """The state of either side: both begin in the same one, which key and header decide."""
    if len(key) != _KEY_SIZE or len(header) != HEADER_SIZE:
        raise UsageError(f"a stream has a key of {_KEY_SIZE} bytes and a header of {HEADER_SIZE}")
    state = bindings.crypto_secretstream_xchacha20poly1305_state()
    bindings.crypto_secretstream_xchacha20poly1305_init_pull(state, header, key)
    return state


class Sealer:
    """Encrypts what is written."""

    def __init__(self, key: bytes, *, header: bytes) -> None:
        """``header``: 24 fresh random bytes. It is sent before anything that was sealed."""
        self.header: Final = header
        self._state: Final = _state(key, header)
        self._finished = False

    def seal(self, data: bytes) -> bytes:
        """The blocks of one write; none for an empty one."""
        if self._finished:
            raise UsageError("this stream has said that it ends")
        return b"".join(
            self._block(data[start : start + CONTENT_BYTES_MAX], _MESSAGE)
            for start in range(0, len(data), CONTENT_BYTES_MAX)
        )

    def finish(self) -> bytes:
        """The block that says the end."""
        if self._finished:
            raise UsageError("this stream has said that it ends")
        self._finished = True
        return self._block(b"", _FINAL)

    def _block(self, content: bytes, tag: int) -> bytes:
        plain = (content + _MARK).ljust(_PLAIN_SIZE, b"\0")
        return bindings.crypto_secretstream_xchacha20poly1305_push(self._state, plain, tag=tag)


class Opener:
    """Decrypts what comes. ``feed`` it bytes and take what they hold; ``ended`` says that nothing more will."""

    def __init__(self, key: bytes) -> None:
        if len(key) != _KEY_SIZE:
            raise UsageError(f"a stream has a key of {_KEY_SIZE} bytes, not {len(key)}")
        self.ended = False
        """Whether the last block has come."""
        self._key: Final = key
        self._state: bindings.crypto_secretstream_xchacha20poly1305_state | None = None
        self._buffer = b""
        self._latch: Final = Latch()

    @property
    def buffered(self) -> int:
        """Bytes that wait for the rest of their block."""
        return len(self._buffer)

    def feed(self, data: bytes) -> bytes:
        """Take bytes, and give the content of the blocks that are complete.

        A fault behind such blocks does not take their content away: it is raised by the next call.
        """
        self._latch.check()
        data, self._buffer = self._buffer + data, b""
        at = 0
        if self._state is None:
            if len(data) < HEADER_SIZE:
                self._buffer = data
                return b""
            self._state = _state(self._key, data[:HEADER_SIZE])
            at = HEADER_SIZE
        content: list[bytes] = []
        try:
            while len(data) - at >= BLOCK_SIZE and not self.ended:
                content.append(self._open(self._state, data[at : at + BLOCK_SIZE]))
                at += BLOCK_SIZE
            if self.ended and at < len(data):
                self._latch.fail(Fault.AFTER_END, "there are bytes behind the last block of the stream")
        except WireFault:
            if not any(content):
                raise
        else:
            self._buffer = data[at:]
        return content[0] if len(content) == 1 else b"".join(content)

    def check(self) -> None:
        """Raise what is known to be wrong with the bytes that were fed."""
        self._latch.check()

    def finish(self) -> None:
        """There are no more bytes. Raises unless the last block was there."""
        self._latch.check()
        if not self.ended:
            self._latch.fail(Fault.TRUNCATED, "the stream was cut: its last block has not come")

    def _open(self, state: bindings.crypto_secretstream_xchacha20poly1305_state, block: bytes) -> bytes:
        try:
            plain, tag = bindings.crypto_secretstream_xchacha20poly1305_pull(state, block)
        except CryptoError:
            self._latch.fail(Fault.FORGED_BLOCK, "a block is not the next one of this stream, or was altered")
        content = plain.rstrip(b"\0")
        if not content.endswith(_MARK):
            self._latch.fail(Fault.PADDING, "a block does not end in its padding")
        if tag == _FINAL:
            self.ended = True
            if len(content) > len(_MARK):
                self._latch.fail(Fault.WRONG_TAG, "the last block of a stream has no content")
        elif tag != _MESSAGE:
            self._latch.fail(Fault.WRONG_TAG, f"no block of this stream has the tag {tag}")
        return content[:-1]
