"""How an observer says who it is on a stream of bytes, before the first frame.

One line, of printable ASCII:

===============  ======================================================================================
line             what follows
===============  ======================================================================================
``token TOKEN``  frames
``proof``        the introduction that links between laces begin with, both ways, and then frames
(none)           frames. The observer is the owner on a Unix socket and on stdio, and anyone elsewhere
===============  ======================================================================================

A line cannot be taken for a frame: read as a length, its first four bytes would be more than a gigabyte. The server
does not answer the line, and lets go of whoever shows what is not known here.
"""

import asyncio
from typing import Final

from bobbin.errors import PeerError
from bobbin.reactive.messages import PeerId
from bobbin.records.signing import SigningKey
from bobbin.runtime.graph_peers import ANYONE, OWNER, Credentials, Identities
from bobbin.runtime.guesses import Guesses
from bobbin.runtime.introduction import Introduction, NotAdmitted, introduce
from bobbin.transport.base import ByteStream, Route, TransportError
from bobbin.wire.address import Scheme
from bobbin.wire.proof import Role

NOT_KNOWN: Final = "not-known"
TOO_MANY_TOKENS: Final = "too-many-tokens"
OWN_SCHEMES: Final = frozenset({Scheme.UNIX, Scheme.STDIO})
"""Ways that lead to one user only."""

_TOKEN: Final = b"token "
_PROOF: Final = b"proof\n"
_HEAD_SIZE: Final = 4
_LINE_BYTES_MAX: Final = 256


class Unread:
    """A stream of which something was read already."""

    def __init__(self, stream: ByteStream, early: bytes) -> None:
        self._stream: Final = stream
        self._early = early

    @property
    def route(self) -> Route:
        return self._stream.route

    async def read(self) -> bytes:
        early, self._early = self._early, b""
        return early or await self._stream.read()

    async def write(self, data: bytes) -> None:
        await self._stream.write(data)

    async def close(self) -> None:
        await self._stream.close()

    def abort(self) -> None:
        self._stream.abort()


async def identify(
    stream: ByteStream,
    identities: Identities,
    *,
    guesses: Guesses,
    timeout_seconds: float,
    key: SigningKey | None = None,
) -> tuple[PeerId, ByteStream]:
    """Who is at the other end, and the stream behind what it said of that. ``key``: what this side proves in turn.

    An address that has shown too many wrong tokens is not listened to, whatever it shows.

    Raises ``PeerError`` for somebody who is not known, and ``TransportError``. The stream is still open then, unless
    the introduction has closed it.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _identify(stream, identities, guesses, key)
    except TimeoutError as error:
        raise PeerError("handshake-timeout", "the observer did not say who it is") from error


async def _identify(
    stream: ByteStream, identities: Identities, guesses: Guesses, key: SigningKey | None
) -> tuple[PeerId, ByteStream]:
    early = b""
    while len(early) < _HEAD_SIZE:
        early += await _more(stream)
    if not early.startswith((_TOKEN[:_HEAD_SIZE], _PROOF[:_HEAD_SIZE])):
        return _without(stream.route, identities), Unread(stream, early)
    while b"\n" not in early[:_LINE_BYTES_MAX]:
        if len(early) >= _LINE_BYTES_MAX:
            raise PeerError(NOT_KNOWN, "the first line is too long")
        early += await _more(stream)
    end = early.index(b"\n") + 1
    line, rest = early[:end], Unread(stream, early[end:])
    if line == _PROOF:
        return await prove_to(rest, identities, key=key), rest
    origin, now = stream.route.origin, asyncio.get_running_loop().time()
    if not guesses.may_try(origin, now):
        raise PeerError(TOO_MANY_TOKENS, "too many wrong tokens came from there")
    peer = identities.of_token(line[len(_TOKEN) :].rstrip(b"\r\n").decode("ascii", "surrogateescape"))
    if not line.startswith(_TOKEN) or peer is None:
        guesses.note_wrong(origin, now)
        raise PeerError(NOT_KNOWN, "this token is not known")
    return peer, rest


async def prove_to(stream: ByteStream, identities: Identities, *, key: SigningKey | None) -> PeerId:
    """Who is at the other end, by a proof. Raises ``PeerError``."""

    def admit(introduction: Introduction) -> PeerId:
        known = identities.of_signer(introduction.peer)
        if known is None:
            raise NotAdmitted(NOT_KNOWN, "nobody here knows that key, or its proof does not count")
        return known

    introduction, peer = await introduce(stream, role=Role.RESPONDER, key=key, admit=admit)
    if introduction.elements.buffered:
        raise PeerError(NOT_KNOWN, "the observer speaks before it was let in")
    return peer


async def present(stream: ByteStream, credentials: Credentials) -> None:
    """The observer's side. Raises ``PeerError`` or ``TransportError``."""
    if credentials.token is not None:
        await stream.write(_TOKEN + credentials.token.encode() + b"\n")
    elif credentials.key is not None:
        await stream.write(_PROOF)
        await prove(stream, credentials)


async def prove(stream: ByteStream, credentials: Credentials) -> None:
    """Prove the observer's key, and see that the server's is the one that is expected. Raises ``PeerError``."""

    def admit(introduction: Introduction) -> None:
        if credentials.verifier not in (None, introduction.peer):
            raise NotAdmitted(NOT_KNOWN, "what answers has not proven the key that is expected")

    await introduce(stream, role=Role.INITIATOR, key=credentials.key, admit=admit)


def _without(route: Route, identities: Identities) -> PeerId:
    if route.address.scheme in OWN_SCHEMES:
        return OWNER
    if identities.anyone:
        return ANYONE
    raise PeerError(NOT_KNOWN, "nothing is for those who do not say who they are")


async def _more(stream: ByteStream) -> bytes:
    data = await stream.read()
    if not data:
        raise TransportError("the other end has closed the link", retry=True)
    return data
