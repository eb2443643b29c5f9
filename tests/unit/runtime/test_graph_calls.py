"""A graph that is served in a room, and called there: everything but the second process is real."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bobbin.errors import PeerError
from bobbin.reactive.messages import PeerId
from bobbin.runtime.graph_calls import GRAPH_PEER, Calls, Room, call_graph
from bobbin.runtime.graph_peers import Credentials
from bobbin.runtime.graph_server import GraphServer
from bobbin.runtime.reconnect import Backoff
from bobbin.runtime.signal_server import SignalServer
from bobbin.transport.base import TransportError
from bobbin.wire.address import Address
from tests.support.byte_streams import until
from tests.support.graphs import PEER, SEEN, TOKEN, Sample, seen, settings
from tests.support.signal_rooms import run, serving

SHOWN = Credentials(peer=PEER, token=TOKEN)


def _soon() -> Backoff:
    return Backoff(first_seconds=0.05, longest_seconds=0.1)


def _room(address: Address | None, peer: PeerId | None = None) -> Room:
    assert address is not None
    return Room(address=address, name="hall", peer=peer)


@asynccontextmanager
async def _calls(sample: Sample, address: Address | None) -> AsyncIterator[None]:
    server = GraphServer(sample.host, settings())
    calls = Calls(server, _room(address, GRAPH_PEER), sample.host.tell, backoff=_soon())
    await calls.start()
    running = asyncio.create_task(calls.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await server.close()


@pytest.mark.slow
def test_a_graph_is_found_by_its_room_and_outlives_it() -> None:
    sample = Sample()

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
    sample = Sample()

    async def main() -> None:
        async with serving() as signaling:
            room = _room(signaling.address)
            with pytest.raises(TransportError, match="nobody serves a graph in the room hall at"):
                await call_graph(room, credentials=SHOWN).__aenter__()
            async with _calls(sample, signaling.address):
                for shown in (Credentials(), Credentials(peer=PEER, token="another-token")):
                    with pytest.raises((PeerError, TransportError)):
                        await call_graph(room, credentials=shown).__aenter__()
                with pytest.raises(PeerError, match="here already"):
                    async with _calls(Sample(), signaling.address):
                        pass
            assert sample.reasons("turned-away") == ["not-known"] * 2

    run(main())
