"""The first words on a link: two prefaces, two proofs, and the decision whether to go on (Lace-060, stream binding).

Both sides send their preface at once. The initiator then sends its proof; the responder sends its own only after it has
verified and admitted the initiator, so a stranger does not even learn who listens here. The initiator admits the
responder before it sends anything else. So no operand, module, plan or advertisement leaves a side before the peer has
been admitted by it.

A proof that verifies says who the peer is only where nobody can stand between: on a channel with a binding, or on this
machine. Elsewhere it counts as none, and none is made: without a binding it would fit any link with the same nonces, so
whoever stands between could pass it on, in that moment, to a port where such proofs do count. One that does not verify
ends the link anywhere: nobody sends it by mistake.

Everything that a stranger can cause here is bounded: the bytes by ``wire.greeting``, the time by ``timeout_seconds``.
"""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from secrets import token_bytes
from typing import Final, TypeVar

from msgspec import Struct

from bobbin.errors import PeerError
from bobbin.interlace.choice import Strategy
from bobbin.interlace.config import Bounded, Config, Open
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.reasons import Abort, Reason
from bobbin.interlace.setup import Party
from bobbin.policy.modules import Selector
from bobbin.records.ids import Verifier
from bobbin.records.signing import SigningKey
from bobbin.runtime.shares import draw_share
from bobbin.transport.base import ByteStream, Route, TransportError
from bobbin.wire import proof
from bobbin.wire.address import Scheme
from bobbin.wire.elements import NONCE_SIZE, Elements
from bobbin.wire.greeting import Greeting, encode_preface, encode_proof
from bobbin.wire.proof import Nonces, Role

TIMEOUT_SECONDS: Final = 10.0
_AUXILIARY_SIZE: Final = 32
_BEFORE_PREFACE: Final = "before it had begun to speak: it is no lace, or takes no more links now"
_ENCRYPTED: Final = frozenset({Scheme.TLS, Scheme.WSS})

T = TypeVar("T")


class Refusal(StrEnum):
    """Why there was no introduction, where the stream itself was no fault."""

    CLOSED = "closed-before-proof"
    """The peer went before it had said who it is."""
    TIMEOUT = "introduction-timeout"


class NotIntroduced(PeerError):
    """The peer did not say who it is. It was sent our preface, and an initiator's proof where one counts."""

    def __init__(self, refusal: Refusal, detail: str) -> None:
        super().__init__(refusal.value, detail)
        self.refusal = refusal


class NotAdmitted(PeerError):
    """This side does not want the peer. ``code`` is the reason, for logs and counts; the peer is not told any."""


class Introduction(Struct, frozen=True, kw_only=True):
    """What is known of a link and of the peer at its other end."""

    route: Route
    peer: Verifier | None
    """Only if its proof verifies, and counts on this route."""
    own: Verifier | None
    """This side, if its proof counts for the peer in the same way."""
    encrypted: bool
    """Whether it is certain that nobody else reads along."""
    elements: Elements
    """The stream behind both greetings, with whatever bytes came along."""


async def introduce(
    stream: ByteStream,
    *,
    role: Role,
    key: SigningKey | None,
    admit: Callable[[Introduction], T],
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> tuple[Introduction, T]:
    """Greet the peer, and find out who it is; returns that, and what ``admit`` made of it.

    ``admit`` raises ``NotAdmitted`` to refuse; whatever it raises, nothing more is said. Raises ``NotIntroduced`` for a
    peer that goes or takes too long, another ``PeerError`` for one that breaks the form or whose proof is wrong. The
    stream is closed then.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            made = await _Introducer(stream, role, key).run(admit)
    except TimeoutError as error:
        stream.abort()
        detail = f"the peer did not introduce itself within {timeout_seconds:g} seconds"
        raise NotIntroduced(Refusal.TIMEOUT, detail) from error
    except Exception:
        await stream.close()
        raise
    except BaseException:
        stream.abort()
        raise
    return made


class _Introducer:
    """One introduction."""

    def __init__(self, stream: ByteStream, role: Role, key: SigningKey | None) -> None:
        self._stream = stream
        self._role = role
        self._peer_role = Role.RESPONDER if role is Role.INITIATOR else Role.INITIATOR
        self._key = key
        self._nonce = token_bytes(NONCE_SIZE)
        self._greeting = Greeting(Elements())

    async def run(self, admit: Callable[[Introduction], T]) -> tuple[Introduction, T]:
        await self._write(encode_preface(self._nonce), _BEFORE_PREFACE)
        nonces = await self._hear_preface()
        if self._role is Role.INITIATOR:
            await self._prove(nonces)
        introduction = await self._hear_proof(nonces)
        admitted = admit(introduction)
        if self._role is Role.RESPONDER:
            await self._prove(nonces)
        return introduction, admitted

    async def _hear_preface(self) -> Nonces:
        while self._greeting.nonce is None:
            await self._read(_BEFORE_PREFACE)
        if self._greeting.nonce == self._nonce:
            raise Abort(Reason.NEGOTIATION, "the peer sends our own nonce back")
        if self._role is Role.INITIATOR:
            return Nonces(initiator=self._nonce, responder=self._greeting.nonce)
        return Nonces(initiator=self._greeting.nonce, responder=self._nonce)

    async def _prove(self, nonces: Nonces) -> None:
        made = None
        if self._key is not None and proof_counts(self._stream.route):
            binding, auxiliary = self._stream.route.binding, token_bytes(_AUXILIARY_SIZE)
            made = proof.make(self._key, self._role, nonces, binding=binding, auxiliary=auxiliary)
        await self._write(encode_proof(made), f"before proving itself: {self._why_gone()}")

    async def _hear_proof(self, nonces: Nonces) -> Introduction:
        while not self._greeting.complete:
            await self._read(f"before proving itself: {self._why_gone()}")
        route, given = self._stream.route, self._greeting.proof
        proven = None if given is None else proof.verify(given, self._peer_role, nonces, binding=route.binding)
        counts = proof_counts(route)
        peer = proven if counts else None
        return Introduction(
            route=route,
            peer=peer,
            own=self._key.verifier if self._key is not None and counts else None,
            encrypted=_is_encrypted(route, peer),
            elements=self._greeting.stream,
        )

    async def _read(self, when: str) -> None:
        try:
            data = await self._stream.read()
        except TransportError as error:
            raise _gone(when) from error
        if not data:
            raise _gone(when)
        self._greeting.feed(data)

    async def _write(self, data: bytes, when: str) -> None:
        try:
            await self._stream.write(data)
        except TransportError as error:
            raise _gone(when) from error

    def _why_gone(self) -> str:
        if self._role is Role.RESPONDER:
            return "it dialled, and has not said who it is"
        if self._key is None:
            ours = "we have no key to show"
        elif not proof_counts(self._stream.route):
            ours = "a key is not shown on a link that anybody can stand in"
        else:
            ours = f"our key {self._key.verifier} is not listed there"
        return f"{ours}, or it takes no more links now"


def proof_counts(route: Route) -> bool:
    """Whether a proof says anything on this route. Where it does not, none is made."""
    return proof.counts(binding=route.binding, loopback=route.loopback)


def _gone(when: str) -> NotIntroduced:
    return NotIntroduced(Refusal.CLOSED, f"the peer closed the link {when}")


def _is_encrypted(route: Route, peer: Verifier | None) -> bool:
    """Whether only the peer can read: its certificate was checked, or the proven peer has signed for that very one."""
    if route.address.scheme not in _ENCRYPTED or route.binding is None:
        return False
    return route.verified or peer is not None


def configure(
    introduction: Introduction,
    *,
    role: Role,
    selector: Selector,
    lifecycle: Bounded | Open,
    limits: Limits = Limits(),  # noqa: B008 (a frozen value)
    service: Service = Service(),  # noqa: B008 (a frozen value)
    cursor_key: str | None = None,
    strategy: Strategy = Strategy.AUTO,
    checking: bool = False,
) -> Config:
    """The configuration of one exchange on this link: rules are told what is proven, and nothing else.

    ``cursor_key`` is what the link is remembered under where a side has proven nothing.
    """
    return Config(
        selector=selector,
        own=Party(verifier=introduction.own),
        peer=Party(verifier=introduction.peer),
        initiator=role is Role.INITIATOR,
        lifecycle=lifecycle,
        limits=limits,
        service=service,
        transport=str(introduction.route.address),
        encrypted=introduction.encrypted,
        cursor_key=cursor_key,
        strategy=strategy,
        share=draw_share(),
        checking=checking,
    )
