"""One graph over every way, by the same rules."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from bobbin.errors import PeerError, UsageError
from bobbin.reactive.crdt.plane import Plane
from bobbin.reactive.messages import NodeId
from bobbin.records.signing import SigningKey
from bobbin.runtime.graph_client import connect_graph
from bobbin.runtime.graph_dial import ClientSettings, dial_graph
from bobbin.runtime.graph_greeting import NOT_KNOWN
from bobbin.runtime.graph_link import LinkSettings
from bobbin.runtime.graph_peers import ANYONE, Credentials, Identities, signer_peer
from bobbin.runtime.graph_server import GraphServer, ServerSettings
from bobbin.runtime.replication import Replication, now_us
from bobbin.runtime.web_sockets import PROOF_PROTOCOL
from bobbin.transport import certificate
from bobbin.transport.base import TransportError
from bobbin.transport.tls import TlsClient, TlsServer, binding_at_server
from bobbin.wire import address as addresses
from tests.support.byte_streams import until
from tests.support.graphs import (
    OTHER,
    OTHER_TOKEN,
    PEER,
    SEEN,
    TOKEN,
    TOKENS,
    RawStream,
    Sample,
    greeting,
    raw_socket,
    read,
    run,
    seen,
    serving,
    settings,
)
from tests.unit.cli.command_line import SECRET

KEY = SigningKey.from_text(SECRET)


def _places(tmp_path: Path) -> list[str]:
    return ["tcp:127.0.0.1:0", f"unix:{tmp_path}/graph.sock", "ws:127.0.0.1:0"]


def test_every_way_leaves_the_same_mirror(tmp_path: Path) -> None:
    """RX-056, RX-060: the same values, edges and roots, and of the hidden nothing, over each of them."""

    async def main() -> None:
        sample = Sample()
        async with serving(sample.host, *_places(tmp_path)) as places:
            mirrors = [connect_graph(place, peer=PEER, token=TOKEN) for place in places]
            for mirror in mirrors:
                await mirror.__aenter__()
                assert mirror.values() == SEEN
            with sample.host.changing():
                sample.one.set(10)
                sample.secret.set("other")
                sample.graph.cell("new", tag="string", key="figures/three")
            for mirror in mirrors:
                assert (await seen(mirror, lambda values: "figures/three" in values))["sums/all"] == 12
            replicas = [mirror.machine.replica.snapshot(0) for mirror in mirrors]
            assert replicas[0] == replicas[1] == replicas[2]
            for mirror in mirrors:
                await mirror.__aexit__(None, None, None)

    run(main())


def test_bytes_of_the_hidden_go_over_no_way(tmp_path: Path) -> None:
    """RX-060: not even for a moment before something filters it."""

    async def main() -> None:
        sample = Sample()
        async with serving(sample.host, *_places(tmp_path)) as (plain, own, web):
            for place in (plain, own):
                observer = await RawStream.dial(place)
                first = await observer.greet(features=["json-base64"])
                sample.secret.set(sample.secret.peek() + "h")
                sample.two.update(lambda value: value + 1)
                told = f"{first}{await observer.hear()}"
                assert "secret" not in told
                assert "aHVzaA" not in told
                await observer.stream.close()
            async with raw_socket(web) as socket:
                await socket.send(json.dumps(greeting(features=["json-base64"])))
                told = f"{await socket.recv()!s}{await socket.recv()!s}"
                assert "figures/one" in told
                assert "secret" not in told

    run(main())


def test_peers_see_each_their_own(tmp_path: Path) -> None:
    async def main() -> None:
        sample = Sample(read("figures/one"), read("figures/two", OTHER))
        async with serving(sample.host, *_places(tmp_path)) as places:
            for place in places:
                async with (
                    connect_graph(place, peer=PEER, token=TOKEN) as one,
                    connect_graph(place, peer=OTHER, token=OTHER_TOKEN) as two,
                ):
                    assert (one.values(), two.values()) == ({"figures/one": 1}, {"figures/two": 2})

    run(main())


def test_a_claimed_id_that_differs_fails_closed(tmp_path: Path) -> None:
    async def main() -> None:
        sample = Sample(read("*"), read("*", OTHER))
        async with serving(sample.host, *_places(tmp_path)) as places:
            for place in places:
                with pytest.raises(PeerError):
                    async with connect_graph(place, peer=OTHER, token=TOKEN):
                        pass
        assert sample.reasons("let-go") == ["peer_id"] * 3

    run(main())


@pytest.mark.parametrize("place", ["tcp:127.0.0.1:0", "ws:127.0.0.1:0"])
@pytest.mark.parametrize("shown", [{}, {"peer": PEER, "token": "a-wrong-token"}, {"key": KEY}])
def test_whoever_is_not_known_is_turned_away(place: str, shown: dict[str, object]) -> None:
    async def main() -> None:
        sample = Sample()
        async with serving(sample.host, place) as (address,):
            with pytest.raises(PeerError):
                async with connect_graph(address, **shown):  # type: ignore[arg-type]
                    pass
            await until(lambda: "turned-away" in [word for word, _ in sample.told])
        assert sample.host.links == 0

    run(main())


def test_the_owner_comes_by_the_unix_socket(tmp_path: Path) -> None:
    async def main() -> None:
        sample = Sample()
        async with serving(sample.host, f"unix:{tmp_path}/graph.sock") as (address,):
            assert (tmp_path / "graph.sock").stat().st_mode & 0o777 == 0o600
            async with connect_graph(address) as mirror:
                assert mirror.value("secret") == "hush"

    run(main())


def test_a_proof_over_tcp() -> None:
    async def main() -> None:
        sample = Sample(read("figures/one", signer_peer(KEY.verifier)))
        given = settings(identities=Identities(signers=frozenset({KEY.verifier})))
        async with (
            serving(sample.host, "tcp:127.0.0.1:0", given=given) as (address,),
            connect_graph(address, key=KEY) as mirror,
        ):
            assert mirror.values() == {"figures/one": 1}

    run(main())


def test_encrypted_ways(tmp_path: Path) -> None:
    shown = TlsServer(certificate=tmp_path / "certificate.pem", key=tmp_path / "key.pem")
    certificate.create(shown.certificate, shown.key, names=["127.0.0.1"])
    trust = TlsClient(pin=binding_at_server(shown))

    async def main() -> None:
        async with serving(Sample().host, "tls:127.0.0.1:0", "wss:127.0.0.1:0", given=settings(tls=shown)) as places:
            for place in places:
                async with connect_graph(place, peer=PEER, token=TOKEN, tls=trust) as mirror:
                    assert mirror.values() == SEEN
                with pytest.raises(TransportError):
                    async with connect_graph(place, peer=PEER, token=TOKEN, tls=TlsClient(pin=b"x" * 32)):
                        pass

    run(main())


def test_what_is_not_encrypted_stays_on_this_machine() -> None:
    async def main() -> None:
        server = GraphServer(Sample().host, settings())
        for place in ("tcp:0.0.0.0:0", "ws:0.0.0.0:0", "ws:[::]:0"):
            with pytest.raises(UsageError, match="nothing is encrypted"):
                await server.start(addresses.parse(place, to_listen=True))
        for place in ("tls:127.0.0.1:0", "wss:127.0.0.1:0"):
            with pytest.raises(UsageError, match="needs a certificate"):
                await server.start(addresses.parse(place, to_listen=True))
        assert server.addresses == ()
        await server.close()
        open_to_all = settings(allow_insecure=True)
        async with serving(Sample().host, "ws:0.0.0.0:0", given=open_to_all) as (address,), raw_socket(address):
            pass

    run(main())


def test_a_request_that_was_passed_on_does_not_count_as_local() -> None:
    async def main() -> None:
        sample = Sample()
        async with (
            serving(sample.host, "ws:127.0.0.1:0") as (address,),
            raw_socket(address, **{"X-Forwarded-For": "192.0.2.1"}) as socket,
        ):
            await socket.wait_closed()
            assert (socket.close_code, socket.close_reason) == (1008, "insecure")
        assert sample.reasons("turned-away") == ["insecure"]

    run(main())


@pytest.mark.parametrize("bound", ["links_max", "links_per_origin_max", "links_per_peer_max"])
def test_there_are_only_so_many_links(bound: str, tmp_path: Path) -> None:
    async def main() -> None:
        sample = Sample()
        async with serving(sample.host, *_places(tmp_path), given=settings(**{bound: 1})) as places:
            async with connect_graph(places[2], peer=PEER, token=TOKEN):
                for place in (places[0], places[2]):
                    with pytest.raises(PeerError):
                        async with connect_graph(place, peer=PEER, token=TOKEN):
                            pass
            assert sample.reasons("turned-away") == ["too-many-links"] * 2
            await until(lambda: sample.host.links == 0)
            async with connect_graph(places[0], peer=PEER, token=TOKEN) as mirror:
                assert mirror.values() == SEEN

    run(main())


def test_whoever_connects_and_says_nothing_is_let_go() -> None:
    async def main() -> None:
        sample = Sample()
        given = settings(link=LinkSettings(handshake_seconds=0.05))
        async with serving(sample.host, "tcp:127.0.0.1:0", given=given) as (address,):
            observer = await RawStream.dial(address, token=None)
            assert await observer.hear() is None
            await observer.stream.close()
        assert sample.reasons("turned-away") == ["handshake-timeout"]

    run(main())


def test_closing_lets_everybody_go(tmp_path: Path) -> None:
    async def main() -> None:
        sample = Sample()
        server = GraphServer(sample.host, settings(identities=Identities(tokens=TOKENS)))
        places = [await server.start(addresses.parse(place, to_listen=True)) for place in _places(tmp_path)]
        observer = await RawStream.dial(places[0])
        await observer.greet()
        async with raw_socket(places[2]) as socket:
            await server.close()
            await socket.wait_closed()
            assert socket.close_code == 1001
        assert await observer.hear() is None
        await observer.stream.close()
        await asyncio.wait_for(server.is_idle.wait(), 10)
        assert sample.host.links == 0

    run(main())


def test_who_has_not_said_who_it_is_counts_as_well() -> None:
    """Else links could be held open without end by those who are nobody."""

    async def main() -> None:
        sample = Sample()
        given = settings(links_per_origin_max=1, identities=Identities(signers=frozenset({KEY.verifier})))
        async with serving(sample.host, "ws:127.0.0.1:0", "tcp:127.0.0.1:0", given=given) as (web, plain):
            url = f"ws://127.0.0.1:{web.port_number}/graph"
            async with connect(url, subprotocols=[PROOF_PROTOCOL], proxy=None):
                observer = await RawStream.dial(plain, token=None)
                assert await observer.hear() is None
                await observer.stream.close()
            assert sample.reasons("turned-away")[0] == "too-many-links"

    run(main())


def test_one_address_shuts_out_nobody_who_comes_without_a_name_from_another() -> None:
    async def main() -> None:
        sample = Sample(read("figures/one", ANYONE))
        given = settings(links_per_peer_max=1, identities=Identities(anyone=True))
        async with serving(sample.host, "ws:127.0.0.1:0", given=given) as (address,):
            url = f"ws://127.0.0.1:{address.port_number}/graph"
            codes: list[int | None] = []
            async with AsyncExitStack() as stack:
                for local in ("127.0.0.1", "127.0.0.1", "127.0.0.9"):
                    way = connect(url, proxy=None, compression=None, local_addr=(local, 0))
                    socket = await stack.enter_async_context(way)
                    try:
                        await socket.send(json.dumps(greeting(ANYONE)))
                        assert "lazily-ipc" in str(await socket.recv())
                        codes.append(None)
                    except ConnectionClosed as closed:
                        codes.append(closed.rcvd.code if closed.rcvd else 0)
            assert codes == [None, 1013, None]

    run(main())


def test_replicas_come_at_an_address_of_their_own() -> None:
    """Known by what they show, as observers are. Whoever shows nothing has no part in it."""

    async def main() -> None:
        a, b = (Replication(Plane(own, members=(PEER, OTHER))) for own in (OTHER, PEER))
        a.plane.set(NodeId(1), b"from there", now_us=now_us())
        sample = Sample()
        server = GraphServer(sample.host, ServerSettings(identities=Identities(tokens=TOKENS, anyone=True)))
        graphs = await server.start(addresses.parse("tcp:127.0.0.1:0", to_listen=True))
        cells = await server.start(addresses.parse("tcp:127.0.0.1:0", to_listen=True), replication=a)
        shown = Credentials(peer=PEER, token=TOKEN)
        running = asyncio.create_task(b.run(await dial_graph(cells, shown, ClientSettings()), OTHER))
        await until(lambda: NodeId(1) in b.plane.names())
        b.plane.set(NodeId(2), b"from here", now_us=now_us())
        b.wrote()
        await until(lambda: NodeId(2) in a.plane.names())
        stranger = await dial_graph(cells, Credentials(), ClientSettings())
        await stranger.send(json.dumps(greeting(ANYONE)).encode())
        with pytest.raises(TransportError):
            await stranger.receive()
        await stranger.close()
        assert NOT_KNOWN in sample.reasons("turned-away")
        async with connect_graph(graphs, peer=PEER, token=TOKEN) as mirror:
            assert mirror.values() == SEEN
        await server.close()
        assert await running == "closed"

    run(main())
