"""A graph that is served in a room, and called there: everything but the second process is real."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bobbin.errors import PeerError, UsageError
from bobbin.reactive.messages import PeerId
from bobbin.reactive.permissions import OpKind
from bobbin.reactive.signaling import OPEN
from bobbin.records.signing import SigningKey
from bobbin.runtime.graph_allowances import Allowance
from bobbin.runtime.graph_calls import GRAPH_PEER, Calls, Room, call_graph
from bobbin.runtime.graph_peers import Credentials, Identities, signer_peer, token_digest
from bobbin.runtime.graph_server import GraphServer
from bobbin.runtime.guesses import BURST
from bobbin.runtime.reconnect import Backoff
from bobbin.runtime.signal_server import SignalServer, SignalSettings
from bobbin.runtime.webrtc import RtcHub
from bobbin.transport.base import TransportError
from bobbin.wire import address as addresses
from bobbin.wire.address import Address
from tests.support.byte_streams import until
from tests.support.graphs import PEER, SEEN, TOKEN, TOKENS, Sample, read, seen, settings
from tests.support.signal_rooms import run, serving

OBSERVER, SERVER, OTHER = (SigningKey(bytes(range(first, first + 32))) for first in (1, 2, 3))
SHOWN = Credentials(key=OBSERVER, verifier=SERVER.verifier)
ROOM_TOKENS = {GRAPH_PEER: "the-servers-own", PeerId(40): "an-observers-own"}
KNOWN = SignalSettings(access=OPEN, tokens={token_digest(token): peer for peer, token in ROOM_TOKENS.items()})


def _sample() -> Sample:
    peer = signer_peer(OBSERVER.verifier)
    keys = [read(pattern, one) for one in (peer, PEER) for pattern in ("figures/*", "sums/all")]
    return Sample(*keys, Allowance(peer, OpKind.WRITE, "figures/one"))


def _soon() -> Backoff:
    return Backoff(first_seconds=0.05, longest_seconds=0.1)


def _room(address: Address | None, peer: PeerId | None = None, token: str | None = None) -> Room:
    assert address is not None
    return Room(address=address, name="hall", peer=peer, token=token)


@asynccontextmanager
async def _calls(
    sample: Sample, address: Address | None, token: str | None = None, **other: int
) -> AsyncIterator[asyncio.Task[None]]:
    known = Identities(tokens=TOKENS, signers=frozenset({OBSERVER.verifier}))
    server = GraphServer(sample.host, settings(identities=known, key=SERVER, **other))
    calls = Calls(server, _room(address, GRAPH_PEER, token), sample.host.tell, backoff=_soon())
    await calls.start()
    running = asyncio.create_task(calls.run())
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await server.close()


@pytest.mark.slow
def test_a_graph_is_found_by_its_room_and_outlives_it() -> None:
    sample = _sample()

    async def main() -> None:
        async with serving() as signaling, _calls(sample, signaling.address):
            room = _room(signaling.address)
            async with call_graph(room, credentials=SHOWN, backoff=_soon()) as mirror:
                # Ids that JavaScript cannot hold go to who says that it can.
                assert mirror.values() == SEEN
                await mirror.write({"figures/one": 5})
                await seen(mirror, lambda values: values["sums/all"] == 7)
                assert signaling.address is not None
                port = signaling.address.port_number
                await signaling.close()
                await until(lambda: "room-lost" in [word for word, _ in sample.told])
                await mirror.write({"figures/one": 6})
                await seen(mirror, lambda values: values["sums/all"] == 8)
                again = SignalServer(signaling._settings)
                await again.start("127.0.0.1", port)
                await until(lambda: [word for word, _ in sample.told].count("in-room") == 2)
                async with call_graph(room, credentials=SHOWN) as second:
                    assert second.value("sums/all") == 8
                assert mirror.is_current
            await again.close()

    run(main())


@pytest.mark.slow
def test_who_is_not_known_and_a_room_where_nobody_serves() -> None:
    sample = _sample()

    async def main() -> None:
        async with serving() as signaling:
            room = _room(signaling.address)
            with pytest.raises(TransportError, match="nobody serves a graph in the room hall at"):
                await call_graph(room, credentials=SHOWN).__aenter__()
            async with _calls(sample, signaling.address):
                for shown in (Credentials(), Credentials(key=OTHER, verifier=SERVER.verifier)):
                    with pytest.raises((PeerError, TransportError)):
                        await call_graph(room, credentials=shown).__aenter__()
                with pytest.raises(PeerError, match="here already"):
                    async with _calls(Sample(), signaling.address):
                        pass
            assert sample.reasons("turned-away") == ["not-known"] * 2

    run(main())


def test_a_token_is_not_told_to_whoever_holds_an_id() -> None:
    room = Room(address=addresses.parse("ws:127.0.0.1:1"), name="hall")
    with pytest.raises(UsageError, match="anybody in the room hall can be 3 and would read the token"):
        call_graph(room, credentials=Credentials(peer=PEER, token=TOKEN))


@pytest.mark.slow
def test_a_token_is_told_where_the_room_knows_its_members() -> None:
    sample = _sample()

    async def main() -> None:
        async with (
            serving(KNOWN) as signaling,
            _calls(sample, signaling.address, ROOM_TOKENS[GRAPH_PEER]),
        ):
            own = PeerId(40)
            room = _room(signaling.address, own, ROOM_TOKENS[own])
            async with call_graph(room, credentials=Credentials(peer=PEER, token=TOKEN)) as mirror:
                assert mirror.values() == SEEN

    run(main())


def test_whatever_answers_in_place_of_a_signaling_server_is_told_and_tried_again() -> None:
    sample = _sample()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main() -> None:
        async with serving() as signaling, _calls(sample, signaling.address) as running:
            assert signaling.address is not None
            await until(lambda: "in-room" in [word for word, _ in sample.told])
            await signaling.close()
            web = await asyncio.start_server(answer, "127.0.0.1", signaling.address.port_number)
            await until(lambda: running.done() or [word for word, _ in sample.told].count("room-lost") > 2)
            assert not running.done()
            web.close()
            again = SignalServer(signaling._settings)
            await again.start("127.0.0.1", signaling.address.port_number)
            await until(lambda: [word for word, _ in sample.told].count("in-room") == 2)
            await again.close()

    run(main())


async def _tries(room: Room, token: str, times: int = 1) -> None:
    """Show a token, as somebody does who does not care who reads it, and wait until the link is over."""
    client = await room.join()
    async with RtcHub(client) as hub:
        for _ in range(times):
            link = await hub.dial(GRAPH_PEER)
            await link.send(f"token {token}\n".encode())
            with pytest.raises(TransportError):
                await link.receive()
            await link.close()
    await client.leave()


@pytest.mark.slow
def test_whoever_guesses_in_a_room_shuts_out_itself_alone() -> None:
    sample = _sample()

    async def main() -> None:
        async with (
            serving(KNOWN) as signaling,
            _calls(sample, signaling.address, ROOM_TOKENS[GRAPH_PEER]),
        ):
            await _tries(_room(signaling.address, PeerId(50)), "a-wrong-token", BURST + 1)
            assert sample.reasons("turned-away") == ["not-known"] * BURST + ["too-many-tokens"]
            room = _room(signaling.address, PeerId(40), ROOM_TOKENS[PeerId(40)])
            async with call_graph(room, credentials=Credentials(peer=PEER, token=TOKEN)) as mirror:
                assert mirror.values() == SEEN

    run(main())


@pytest.mark.slow
def test_all_data_channels_together_have_the_bound_of_one_address() -> None:
    sample = _sample()

    async def main() -> None:
        async with serving() as signaling, _calls(sample, signaling.address, links_per_origin_max=1):
            room = _room(signaling.address)
            async with call_graph(room, credentials=SHOWN):
                await _tries(room, TOKEN)
            assert sample.reasons("turned-away") == ["too-many-links"]

    run(main())
