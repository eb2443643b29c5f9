"""Who an observer on a stream is."""

import asyncio

import pytest
from msgspec import structs

from bobbin.errors import PeerError
from bobbin.records.signing import SigningKey
from bobbin.runtime.graph_greeting import identify, present
from bobbin.runtime.graph_peers import ANYONE, OWNER, Credentials, Identities, signer_peer
from bobbin.runtime.guesses import Guesses
from bobbin.runtime.introduction import NotAdmitted
from bobbin.transport.base import ByteStream, Route, TransportError
from bobbin.wire import address
from tests.support.byte_streams import FAR, LOOPBACK, MemoryStream, stream_pair
from tests.support.graphs import PEER, TOKEN, TOKENS, run
from tests.unit.cli.command_line import SECRET, VERIFIER

KEY = SigningKey.from_text(SECRET)
OWN = structs.replace(LOOPBACK, address=address.parse("unix:/run/graph.sock"), origin="local")
IDENTITIES = Identities(tokens=TOKENS, signers=frozenset({KEY.verifier}))


def _streams(route: Route = LOOPBACK) -> tuple[MemoryStream, MemoryStream]:
    return stream_pair(route, route)


async def _identified(said: bytes, identities: Identities = IDENTITIES, route: Route = LOOPBACK) -> tuple[int, bytes]:
    observer, server = _streams(route)
    await observer.write(said)
    await observer.close()
    peer, rest = await identify(server, identities, guesses=Guesses(), timeout_seconds=10)
    return peer, await _all(rest)


async def _all(stream: ByteStream) -> bytes:
    found = b""
    while data := await stream.read():
        found += data
    return found


def test_a_token_and_what_follows() -> None:
    assert run(_identified(f"token {TOKEN}\n".encode() + b"frames")) == (PEER, b"frames")


@pytest.mark.parametrize(
    "said",
    [
        b"token wrong-token\n",
        b"token \n",
        b"tokenish\n",
        b"proofs\n",
        b"token " + b"x" * 400 + b"\n",
        b"token \xff\xfe\n",
    ],
)
def test_what_is_not_known_is_refused(said: bytes) -> None:
    with pytest.raises(PeerError) as caught:
        run(_identified(said))
    assert caught.value.code == "not-known"


def test_whoever_guesses_is_not_listened_to() -> None:
    """Not even with the right token; another address is."""

    async def show(token: str, guesses: Guesses, route: Route) -> int:
        observer, server = _streams(route)
        await observer.write(f"token {token}\n".encode())
        peer, _ = await identify(server, IDENTITIES, guesses=guesses, timeout_seconds=10)
        return peer

    async def story() -> list[str]:
        guesses = Guesses(burst=3, per_second=1e-9)
        codes = []
        for token in ("wrong-one", "wrong-two", "wrong-three", TOKEN):
            with pytest.raises(PeerError) as caught:
                await show(token, guesses, LOOPBACK)
            codes.append(caught.value.code)
        assert await show(TOKEN, guesses, structs.replace(LOOPBACK, origin="192.0.2.7")) == PEER
        return codes

    assert run(story()) == ["not-known"] * 3 + ["too-many-tokens"]


def test_without_a_word_it_depends_on_the_way() -> None:
    """A length, as frames begin with, is no line."""
    frame = (300).to_bytes(4, "little") + b"{"
    assert run(_identified(frame, route=OWN)) == (OWNER, frame)
    assert run(_identified(frame, Identities(anyone=True))) == (ANYONE, frame)
    with pytest.raises(PeerError, match="do not say who they are"):
        run(_identified(frame))


def test_whoever_goes_or_says_nothing() -> None:
    with pytest.raises(TransportError, match="closed"):
        run(_identified(b"to"))

    async def silent() -> None:
        _, server = _streams()
        await identify(server, IDENTITIES, guesses=Guesses(), timeout_seconds=0.01)

    with pytest.raises(PeerError) as caught:
        run(silent())
    assert caught.value.code == "handshake-timeout"


def _meet(credentials: Credentials, identities: Identities, *, key: SigningKey | None, route: Route = LOOPBACK) -> int:
    async def main() -> int:
        observer, server = _streams(route)
        _, (peer, rest) = await asyncio.gather(
            present(observer, credentials), identify(server, identities, guesses=Guesses(), timeout_seconds=10, key=key)
        )
        await observer.write(b"frames")
        assert await rest.read() == b"frames"
        return peer

    return run(main())


def test_a_proof_of_a_key() -> None:
    assert _meet(Credentials(key=KEY), IDENTITIES, key=None) == signer_peer(KEY.verifier)
    assert _meet(Credentials(key=KEY, verifier=KEY.verifier), IDENTITIES, key=KEY) == signer_peer(KEY.verifier)
    assert _meet(Credentials(peer=PEER, token=TOKEN), IDENTITIES, key=KEY) == PEER


def test_a_proof_that_does_not_count() -> None:
    """Off this machine and in the clear, whoever stands between could have made it another's."""
    with pytest.raises(PeerError):
        _meet(Credentials(key=KEY), IDENTITIES, key=None, route=FAR)
    with pytest.raises(PeerError):
        _meet(Credentials(key=KEY), Identities(tokens=TOKENS), key=None)


def test_a_server_that_is_not_the_expected_one() -> None:
    with pytest.raises(NotAdmitted, match="expected"):
        _meet(Credentials(key=KEY, verifier=KEY.verifier), IDENTITIES, key=None)
    assert KEY.verifier == VERIFIER
