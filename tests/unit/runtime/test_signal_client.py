from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve

from bobbin.errors import PeerError, UsageError
from bobbin.reactive.messages import PeerId
from bobbin.reactive.signaling import Access, Mode
from bobbin.reactive.signaling_frames import ForwardedRelay, PeerJoined, PeerLeft, Relay
from bobbin.runtime.signal_client import Credentials, JoinRefused, join
from bobbin.runtime.signal_server import SignalServer, SignalSettings
from bobbin.transport import certificate
from bobbin.transport.base import TransportError
from bobbin.transport.dial import InsecureRoute
from bobbin.transport.tls import TlsClient, TlsServer
from bobbin.wire.address import Address, Scheme
from tests.local_exchanges import ALICE, EVE
from tests.support.byte_streams import until
from tests.support.signal_rooms import run, serving

ONE, TWO = PeerId(1), PeerId(2)


@pytest.fixture
def files(tmp_path: Path) -> TlsServer:
    made = TlsServer(certificate=tmp_path / "certificate.pem", key=tmp_path / "key.pem")
    certificate.create(made.certificate, made.key, names=["127.0.0.1"])
    return made


def _at(server: SignalServer) -> Address:
    assert server.address is not None
    return server.address


def test_clients_speak_through_the_room() -> None:
    async def main() -> None:
        async with serving() as server, await join(_at(server), "one", ONE) as one:
            assert one.peers == frozenset()
            async with await join(_at(server), "one", TWO, capabilities=("crdt",)) as two:
                assert two.peers == {ONE}
                assert await one.receive() == PeerJoined(peer=TWO)
                assert one.peers == {TWO}
                await two.send(Relay(to=ONE, payload=b'{"any":"json"}'))
                assert await one.receive() == ForwardedRelay(sender=TWO, payload=b'{"any":"json"}')
            assert await one.receive() == PeerLeft(peer=TWO)
            assert one.peers == frozenset()

    run(main())


def test_a_server_that_goes_is_an_error_that_says_so() -> None:
    async def main() -> None:
        async with serving() as server:
            one = await join(_at(server), "one", ONE)
            await server.close()
            with pytest.raises(TransportError):
                await one.receive()
            with pytest.raises(TransportError):
                await one.send(Relay(to=TWO, payload=b"1"))
            await one.leave()
            with pytest.raises(TransportError) as refused:
                await join(_at(server), "one", ONE)
            assert refused.value.retry

    run(main())


def test_a_join_that_is_refused_has_the_servers_code() -> None:
    async def main() -> None:
        async with serving(SignalSettings(access=Access())) as server:
            with pytest.raises(JoinRefused) as refused:
                await join(_at(server), "one", ONE)
            assert refused.value.code == "permission_denied"

    run(main())


def test_a_wrong_token_is_no_way_in() -> None:
    async def main() -> None:
        async with serving() as server:
            with pytest.raises(TransportError, match="401") as refused:
                await join(_at(server), "one", ONE, credentials=Credentials(token="wrong"))
            assert not refused.value.retry

    run(main())


# ---- proofs -------------------------------------------------------------------------------------------------------


def _known(**more: object) -> SignalSettings:
    access = Access(mode=Mode.OPEN, reserved=frozenset({ONE}))
    return SignalSettings(access=access, signers={ALICE.verifier: ONE}, **more)  # type: ignore[arg-type]


def test_a_key_is_an_id() -> None:
    async def main() -> None:
        async with serving(_known()) as server:
            async with await join(_at(server), "one", ONE, credentials=Credentials(key=ALICE)) as alice:
                assert alice.peer == ONE
            for key, peer in ((ALICE, TWO), (None, ONE)):
                with pytest.raises(JoinRefused):
                    await join(_at(server), "one", peer, credentials=Credentials(key=key))
            with pytest.raises((PeerError, TransportError)):
                await join(_at(server), "one", ONE, credentials=Credentials(key=EVE))
            assert not server.rooms

    run(main())


def test_a_proof_is_bound_to_the_encrypted_channel(files: TlsServer) -> None:
    pin = certificate.fingerprint(files.certificate)

    async def main() -> None:
        async with serving(_known(tls=files)) as server:
            for demands in (TlsClient(pin=pin), TlsClient(authorities=files.certificate)):
                made = await join(_at(server), "one", ONE, credentials=Credentials(key=ALICE), tls_demands=demands)
                await made.leave()
                await until(lambda: not server.rooms)

    run(main())


def test_a_server_that_takes_no_proofs() -> None:
    async def main() -> None:
        async with serving() as server:
            with pytest.raises(TransportError, match="no proofs"):
                await join(_at(server), "one", ONE, credentials=Credentials(key=ALICE))

    run(main())


def test_a_token_does_not_go_to_a_certificate_that_is_not_the_pinned_one(files: TlsServer) -> None:
    tried: list[str] = []

    async def main() -> None:
        server = SignalServer(_known(tls=files), tell=lambda word, values: tried.append(f"{word} {values}"))
        await server.start("127.0.0.1", 0)
        try:
            with pytest.raises(TransportError, match="pin"):
                await join(
                    _at(server), "one", ONE, credentials=Credentials(token="x"), tls_demands=TlsClient(pin=bytes(32))
                )
        finally:
            await server.close()

    run(main())
    assert tried == [], "a request with that token would have been refused, and told"


# ---- what a client is told wrongly --------------------------------------------------------------------------------


def _strange(say: tuple[str | bytes, ...]) -> Exception:
    """What a client raises whose server says these things."""

    async def main() -> Exception:
        async def speak(socket: ServerConnection) -> None:
            await socket.recv()
            for one in say:
                await socket.send(one)
            await socket.wait_closed()

        async with serve(speak, "127.0.0.1", 0) as server:
            place = Address(scheme=Scheme.WS, host="127.0.0.1", port=server.sockets[0].getsockname()[1])
            try:
                client = await join(place, "one", ONE)
                await client.receive()
            except (PeerError, TransportError) as error:
                return error
        raise AssertionError("it was believed")

    return run(main())


@pytest.mark.parametrize(
    "said",
    [
        ('{"type":"welcome","peer":2,"peers":[]}',),
        ('{"type":"welcome","peer":1,"peers":[1]}',),
        ('{"type":"peer-joined","peer":2}',),
        (b"binary",),
        ("garbage",),
        ('{"type":"welcome","peer":1,"peers":[]}', '{"type":"welcome","peer":1,"peers":[]}'),
        ('{"type":"welcome","peer":1,"peers":[]}', '{"type":"offer","to":1,"sdp":""}'),
        ('{"type":"welcome","peer":1,"peers":[]}', '{"type":"error","code":"free_text","message":""}'),
    ],
)
def test_a_server_that_breaks_the_protocol_is_not_believed(said: tuple[str | bytes, ...]) -> None:
    assert isinstance(_strange(said), PeerError)


def test_a_server_that_says_nothing_is_left() -> None:
    async def main() -> None:
        async def silent(socket: ServerConnection) -> None:
            await socket.wait_closed()

        async with serve(silent, "127.0.0.1", 0) as server:
            place = Address(scheme=Scheme.WS, host="127.0.0.1", port=server.sockets[0].getsockname()[1])
            with pytest.raises(TransportError, match="within") as left:
                await join(place, "one", ONE, timeout_seconds=0.2)
            assert left.value.retry

    run(main())


def test_where_a_client_does_not_go() -> None:
    def refused(address: Address, session: str = "one") -> None:
        with pytest.raises(UsageError):
            run(join(address, session, ONE))

    refused(Address(scheme=Scheme.TCP, host="127.0.0.1", port=1))
    refused(Address(scheme=Scheme.WS, host="127.0.0.1", port=1), "a/b")
    for host in ("node.example", "192.0.2.7"):
        with pytest.raises(InsecureRoute):
            run(join(Address(scheme=Scheme.WS, host=host, port=1), "one", ONE))
    with pytest.raises(UsageError):
        Credentials(token="x", key=ALICE)
