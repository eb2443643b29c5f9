"""Who is at the other end, and that nothing is said to anybody else: proofs, admission, and every way to fail."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bobbin.errors import PeerError
from bobbin.interlace.config import Open
from bobbin.interlace.reasons import Reason
from bobbin.records.signing import SigningKey
from bobbin.runtime.introduction import Introduction, NotAdmitted, NotIntroduced, Refusal, configure, introduce
from bobbin.transport.base import Route
from bobbin.wire import proof
from bobbin.wire.elements import Elements
from bobbin.wire.greeting import Greeting, encode_preface, encode_proof
from bobbin.wire.proof import Nonces, Role
from tests.local_exchanges import ALICE, EVE, SERVER
from tests.policy_worlds import EVERYTHING
from tests.support.byte_streams import (
    BINDING,
    FAR,
    LOOPBACK,
    TLS,
    VERIFIED,
    MemoryStream,
    drip,
    seeded,
    stream_pair,
    until,
)
from tests.support.exchanges import selector

T = TypeVar("T")

_PREFACE = len(encode_preface(bytes(32)))


def _anyone(introduction: Introduction) -> Introduction:
    return introduction


def _only(key: SigningKey) -> Callable[[Introduction], None]:
    def admit(introduction: Introduction) -> None:
        if introduction.peer != key.verifier:
            raise NotAdmitted("not-listed", "this key is not listed here")

    return admit


async def _both(
    streams: tuple[MemoryStream, MemoryStream], keys: tuple[SigningKey | None, SigningKey | None]
) -> tuple[Introduction, Introduction]:
    async with asyncio.timeout(20):
        (one, _), (other, _) = await asyncio.gather(
            introduce(streams[0], role=Role.INITIATOR, key=keys[0], admit=_anyone),
            introduce(streams[1], role=Role.RESPONDER, key=keys[1], admit=_anyone),
        )
    return one, other


def _run(work: Callable[[], Awaitable[T]]) -> T:
    async def run() -> T:
        async with asyncio.timeout(20):
            return await work()

    return asyncio.run(run())


# ---- who is proven --------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000))
def test_both_sides_know_each_other(seed: int) -> None:
    one, other = _run(lambda: _both(stream_pair(VERIFIED, TLS, cut=seeded(seed)), (ALICE, SERVER)))
    assert (one.own, one.peer) == (ALICE.verifier, SERVER.verifier)
    assert (other.own, other.peer) == (SERVER.verifier, ALICE.verifier)
    assert one.encrypted
    assert other.encrypted


def test_a_peer_that_sends_one_byte_at_a_time_is_understood() -> None:
    one, other = _run(lambda: _both(stream_pair(cut=drip), (ALICE, SERVER)))
    assert (one.peer, other.peer) == (SERVER.verifier, ALICE.verifier)


@pytest.mark.parametrize("keys", [(None, None), (ALICE, None), (None, SERVER)])
def test_a_side_without_key_proves_nothing(keys: tuple[SigningKey | None, SigningKey | None]) -> None:
    one, other = _run(lambda: _both(stream_pair(), keys))
    verifiers = tuple(None if key is None else key.verifier for key in keys)
    assert (one.own, one.peer) == verifiers
    assert (other.peer, other.own) == verifiers


def test_one_key_may_be_on_both_sides() -> None:
    one, other = _run(lambda: _both(stream_pair(), (ALICE, ALICE)))
    assert one.peer == other.peer == ALICE.verifier


def test_off_this_machine_an_unbound_proof_counts_as_none() -> None:
    one, other = _run(lambda: _both(stream_pair(FAR), (ALICE, SERVER)))
    assert (one.own, one.peer, other.own, other.peer) == (None, None, None, None)
    assert not one.encrypted
    assert not other.encrypted


@pytest.mark.parametrize(
    ("ours", "theirs", "keys", "encrypted"),
    [
        (VERIFIED, TLS, (ALICE, SERVER), (True, True)),
        (VERIFIED, TLS, (None, None), (True, False)),
        (TLS, TLS, (ALICE, SERVER), (True, True)),
        (TLS, TLS, (ALICE, None), (False, True)),
        (TLS, TLS, (None, SERVER), (True, False)),
        (LOOPBACK, LOOPBACK, (ALICE, SERVER), (False, False)),
        (FAR, FAR, (ALICE, SERVER), (False, False)),
    ],
)
def test_when_nobody_else_can_read(
    ours: Route, theirs: Route, keys: tuple[SigningKey | None, SigningKey | None], encrypted: tuple[bool, bool]
) -> None:
    """By a checked certificate, or by a proven peer that has signed for the certificate that this side sees."""
    one, other = _run(lambda: _both(stream_pair(ours, theirs), keys))
    assert (one.encrypted, other.encrypted) == encrypted


def test_what_came_along_is_not_lost() -> None:
    async def work() -> bytes:
        ours, theirs = stream_pair()
        waiting = asyncio.create_task(introduce(ours, role=Role.INITIATOR, key=None, admit=_anyone))
        await introduce(theirs, role=Role.RESPONDER, key=None, admit=_anyone)
        (introduction, _) = await waiting
        await theirs.write(b"\n")
        introduction.elements.feed(await ours.read())
        return type(introduction.elements.next()).__name__.encode()

    assert _run(work) == b"PhaseEnd"


# ---- who is not -----------------------------------------------------------------------------------------------------


class _Forger:
    """A peer in the hands of the test: it reads and writes what it likes."""

    def __init__(self, stream: MemoryStream) -> None:
        self.stream = stream
        self.greeting = Greeting(Elements())
        self.nonce = b"\x05" * 32

    async def hear_nonce(self) -> bytes:
        while self.greeting.nonce is None:
            self.greeting.feed(await self.stream.read())
        return self.greeting.nonce

    async def hear_proof(self) -> proof.Proof:
        while not self.greeting.complete:
            self.greeting.feed(await self.stream.read())
        assert self.greeting.proof is not None
        return self.greeting.proof

    async def greet(self) -> bytes:
        """Preface against preface; returns the other side's nonce."""
        await self.stream.write(encode_preface(self.nonce))
        return await self.hear_nonce()


async def _refused(stream: MemoryStream, role: Role, key: SigningKey, forging: Awaitable[None]) -> PeerError:
    """What an honest side in that role makes of it. It must not admit anybody."""

    def never(introduction: Introduction) -> None:
        raise AssertionError(f"{introduction.peer} was let through")

    forged = asyncio.ensure_future(forging)
    with pytest.raises(PeerError) as refused:
        await introduce(stream, role=role, key=key, admit=never)
    await forged
    assert stream.is_closed
    return refused.value


def test_a_recorded_proof_is_good_for_its_own_link_only() -> None:
    """Everything that Alice ever sent on one link, sent again on the next by somebody who heard it."""

    async def work() -> PeerError:
        first = stream_pair()
        await _both(first, (ALICE, SERVER))
        recorded = bytes(first[0].outgoing.written)
        eve, server = stream_pair()

        async def replay() -> None:
            await eve.write(recorded)

        return await _refused(server, Role.RESPONDER, SERVER, replay())

    error = _run(work)
    assert error.code == Reason.NEGOTIATION
    assert ALICE.verifier in str(error)


def test_an_initiator_is_not_taken_in_by_its_own_proof() -> None:
    async def work() -> PeerError:
        alice, eve = stream_pair()

        async def reflect() -> None:
            forger = _Forger(eve)
            await forger.greet()
            await eve.write(encode_proof(await forger.hear_proof()))

        return await _refused(alice, Role.INITIATOR, ALICE, reflect())

    assert _run(work).code == Reason.NEGOTIATION


@pytest.mark.parametrize("role", Role)
def test_a_nonce_that_comes_back_is_noticed(role: Role) -> None:
    """Whatever a mirror says, it says nothing before the other side has: our own preface, then our own proof."""

    async def work() -> PeerError:
        ours, mirror = stream_pair()

        async def reflect() -> None:
            await mirror.write(await mirror.read())

        return await _refused(ours, role, ALICE, reflect())

    assert _run(work).code == Reason.NEGOTIATION


@pytest.mark.parametrize("role", Role)
def test_a_proof_for_the_other_role_is_none(role: Role) -> None:
    async def work() -> PeerError:
        honest, forged = stream_pair()

        async def swap() -> None:
            forger = _Forger(forged)
            theirs = await forger.greet()
            initiator = role is Role.INITIATOR
            nonces = Nonces(
                initiator=theirs if initiator else forger.nonce, responder=forger.nonce if initiator else theirs
            )
            made = proof.make(EVE, role, nonces, binding=None, auxiliary=b"\x03" * 32)
            await forged.write(encode_proof(made))

        return await _refused(honest, role, ALICE, swap())

    assert _run(work).code == Reason.NEGOTIATION


async def _relay(source: MemoryStream, target: MemoryStream) -> None:
    while data := await source.read():
        await target.write(data)
    await target.close()


def test_a_middleman_with_another_certificate_is_noticed_by_the_server() -> None:
    """He relays every byte, both nonces included. What differs is the certificate that each end sees."""

    async def work() -> tuple[PeerError, PeerError]:
        alice, towards_alice = stream_pair(structs.replace(VERIFIED, binding=b"\x22" * 32, verified=False))
        towards_server, server = stream_pair(TLS)

        relays = [
            asyncio.create_task(_relay(towards_alice, towards_server)),
            asyncio.create_task(_relay(towards_server, towards_alice)),
        ]
        results = await asyncio.gather(
            introduce(alice, role=Role.INITIATOR, key=ALICE, admit=_only(SERVER)),
            introduce(server, role=Role.RESPONDER, key=SERVER, admit=_only(ALICE)),
            return_exceptions=True,
        )
        await asyncio.gather(*relays, return_exceptions=True)
        assert len(server.outgoing.written) == _PREFACE
        first, second = results
        assert isinstance(first, PeerError)
        assert isinstance(second, PeerError)
        return first, second

    at_alice, at_server = _run(work)
    assert at_server.code == Reason.NEGOTIATION
    assert at_alice.code == Refusal.CLOSED


@pytest.mark.parametrize("towards", [LOOPBACK, FAR])
def test_a_middleman_on_an_open_network_gets_no_proof_to_pass_on(towards: Route) -> None:
    """Alice dials over an open network, and whoever answers passes every byte on to a port where she would be known.

    Without a certificate nothing differs between the two links, so a proof that she made would be good there.
    """

    async def work() -> None:
        alice, towards_alice = stream_pair(FAR)
        towards_server, server = stream_pair(towards)
        relays = [
            asyncio.create_task(_relay(towards_alice, towards_server)),
            asyncio.create_task(_relay(towards_server, towards_alice)),
        ]
        results = await asyncio.gather(
            introduce(alice, role=Role.INITIATOR, key=ALICE, admit=_anyone),
            introduce(server, role=Role.RESPONDER, key=SERVER, admit=_only(ALICE)),
            return_exceptions=True,
        )
        await asyncio.gather(*relays, return_exceptions=True)
        assert isinstance(results[1], NotAdmitted), "the server has taken somebody for Alice"
        assert len(server.outgoing.written) == _PREFACE
        assert bytes(alice.outgoing.written)[_PREFACE:] == encode_proof(None)
        assert isinstance(results[0], NotIntroduced)
        assert "a key is not shown" in str(results[0])
        assert ALICE.verifier not in str(results[0])

    _run(work)


def test_no_side_makes_a_proof_where_none_counts() -> None:
    async def work() -> None:
        streams = stream_pair(FAR)
        await _both(streams, (ALICE, SERVER))
        for stream in streams:
            assert bytes(stream.outgoing.written)[_PREFACE:] == encode_proof(None)

    _run(work)


def test_a_wrong_proof_ends_the_link_even_where_a_right_one_would_not_count() -> None:
    async def work() -> PeerError:
        eve, server = stream_pair(FAR)

        async def forge() -> None:
            forger = _Forger(eve)
            nonces = Nonces(initiator=forger.nonce, responder=await forger.greet())
            made = proof.make(EVE, Role.INITIATOR, nonces, binding=BINDING, auxiliary=b"\x03" * 32)
            await eve.write(encode_proof(made))

        return await _refused(server, Role.RESPONDER, SERVER, forge())

    assert _run(work).code == Reason.NEGOTIATION


# ---- admission ------------------------------------------------------------------------------------------------------


def test_a_responder_says_nothing_but_its_preface_to_whom_it_does_not_admit() -> None:
    async def work() -> None:
        eve, server = stream_pair(TLS)
        results = await asyncio.gather(
            introduce(eve, role=Role.INITIATOR, key=EVE, admit=_anyone),
            introduce(server, role=Role.RESPONDER, key=SERVER, admit=_only(ALICE)),
            return_exceptions=True,
        )
        assert isinstance(results[1], NotAdmitted)
        assert results[1].code == "not-listed"
        assert server.is_closed
        assert len(server.outgoing.written) == _PREFACE
        assert isinstance(results[0], NotIntroduced)
        assert results[0].refusal is Refusal.CLOSED
        assert f"our key {EVE.verifier} is not listed there" in str(results[0])

    _run(work)


def test_an_initiator_says_nothing_but_its_proof_to_whom_it_does_not_admit() -> None:
    async def work() -> None:
        alice, eve = stream_pair(VERIFIED, TLS)
        results = await asyncio.gather(
            introduce(alice, role=Role.INITIATOR, key=ALICE, admit=_only(SERVER)),
            introduce(eve, role=Role.RESPONDER, key=EVE, admit=_anyone),
            return_exceptions=True,
        )
        assert isinstance(results[0], NotAdmitted)
        assert alice.is_closed
        said = bytes(alice.outgoing.written)
        greeting = Greeting(Elements())
        greeting.feed(said)
        assert greeting.complete
        assert not greeting.stream.buffered

    _run(work)


def test_a_responder_proves_itself_after_it_has_admitted() -> None:
    async def work() -> None:
        alice, server = stream_pair(TLS)
        seen: list[int] = []

        def admit(introduction: Introduction) -> str:
            seen.append(len(server.outgoing.written))
            return f"hello {introduction.peer}"

        (_, _), (_, admitted) = await asyncio.gather(
            introduce(alice, role=Role.INITIATOR, key=ALICE, admit=_anyone),
            introduce(server, role=Role.RESPONDER, key=SERVER, admit=admit),
        )
        assert seen == [_PREFACE]
        assert admitted == f"hello {ALICE.verifier}"

    _run(work)


# ---- peers that do not speak ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("said", [b"", encode_preface(b"\x07" * 32), encode_preface(b"\x07" * 32) + b"KnotProof("])
def test_a_peer_that_never_goes_on_runs_into_the_time_limit(role: Role, said: bytes) -> None:
    async def work() -> None:
        ours, theirs = stream_pair()
        await theirs.write(said)
        with pytest.raises(NotIntroduced) as refused:
            await introduce(ours, role=role, key=ALICE, admit=_anyone, timeout_seconds=0.01)
        assert refused.value.refusal is Refusal.TIMEOUT
        assert ours.was_aborted

    _run(work)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("size", [0, 1, _PREFACE - 1, _PREFACE, _PREFACE + 5])
def test_a_peer_that_goes_is_named(role: Role, size: int, *, broken: bool) -> None:
    async def work() -> str:
        ours, theirs = stream_pair()
        await theirs.write((encode_preface(b"\x07" * 32) + b"KnotProof(")[:size])
        theirs.outgoing.end(broken=broken)
        with pytest.raises(NotIntroduced) as refused:
            await introduce(ours, role=role, key=ALICE, admit=_anyone)
        assert refused.value.refusal is Refusal.CLOSED
        assert ours.is_closed
        return str(refused.value)

    text = _run(work)
    assert ("before proving itself" in text) is (size >= _PREFACE)
    if size >= _PREFACE:
        ours = "our key" in text, "it dialled, and has not said who it is" in text
        assert ours == ((True, False) if role is Role.INITIATOR else (False, True)), "each side has its own words"


@pytest.mark.parametrize("role", Role)
def test_a_peer_that_has_gone_before_we_speak_is_named(role: Role) -> None:
    async def work() -> None:
        ours, theirs = stream_pair()
        await theirs.close()
        with pytest.raises(NotIntroduced, match="before it had begun to speak"):
            await introduce(ours, role=role, key=ALICE, admit=_anyone)

    _run(work)


@pytest.mark.parametrize("raw", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", b"\n", bytes(300_000)])
def test_what_is_no_lace_is_refused_at_once(raw: bytes) -> None:
    async def work() -> None:
        ours, theirs = stream_pair(room_bytes=1 << 20)
        await theirs.write(raw)
        with pytest.raises(PeerError):
            await introduce(ours, role=Role.RESPONDER, key=SERVER, admit=_anyone)
        assert len(ours.outgoing.written) == _PREFACE
        assert ours.is_closed

    _run(work)


def test_a_cancelled_introduction_lets_go() -> None:
    async def work() -> None:
        ours, _ = stream_pair()
        task = asyncio.create_task(introduce(ours, role=Role.RESPONDER, key=SERVER, admit=_anyone))
        await until(lambda: len(ours.outgoing.written) == _PREFACE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ours.was_aborted

    _run(work)


# ---- what rules are told --------------------------------------------------------------------------------------------


def test_a_configuration_says_what_is_proven() -> None:
    one, other = _run(lambda: _both(stream_pair(VERIFIED, TLS), (ALICE, SERVER)))
    made = [
        configure(introduction, role=role, selector=selector(EVERYTHING), lifecycle=Open(), cursor_key="k")
        for introduction, role in ((one, Role.INITIATOR), (other, Role.RESPONDER))
    ]
    assert [config.initiator for config in made] == [True, False]
    assert [config.own.verifier for config in made] == [ALICE.verifier, SERVER.verifier]
    assert [config.peer.verifier for config in made] == [SERVER.verifier, ALICE.verifier]
    assert [config.transport for config in made] == ["tls:lace.example:4791"] * 2
    assert all(config.encrypted for config in made)
