"""What a request for a graph must show."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from bobbin.reactive.messages import SAFE_INTEGER_MAX, PeerId
from bobbin.records.signing import SigningKey
from bobbin.runtime import graph_web
from bobbin.runtime.graph_client import connect_graph
from bobbin.runtime.graph_link import LinkSettings
from bobbin.runtime.graph_peers import ANYONE, Identities, signer_peer
from bobbin.runtime.graph_server import GraphServer, ServerSettings
from bobbin.runtime.graph_web import WebListener, WebSettings
from bobbin.runtime.guesses import Guesses
from bobbin.transport.base import Route, TransportError
from bobbin.transport.listen import Handshakes
from bobbin.wire import address as addresses
from tests.support.graphs import (
    SEEN,
    TOKEN,
    TOKENS,
    Sample,
    greeting,
    raw_socket,
    read,
    run,
    serving,
    settings,
)
from tests.unit.cli.command_line import SECRET

KEY = SigningKey.from_text(SECRET)
PLACE = "ws:127.0.0.1:0"


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"path": "/"}, 404),
        ({"path": "/graph?x"}, 404),
        ({"token": None}, 401),
        ({"token": "a-wrong-token"}, 401),
        ({"Authorization": "Bearer a-wrong-token", "token": None}, 401),
        ({"Authorization": f"Bearer {TOKEN}"}, 400),
        ({"origin": "https://elsewhere.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
    ],
)
def test_requests_that_are_refused(asked: dict[str, str], status: int) -> None:
    async def main() -> None:
        sample = Sample()
        async with serving(sample.host, PLACE) as (address,):
            with pytest.raises(InvalidStatus) as caught:
                async with raw_socket(address, **asked):
                    pass
            assert caught.value.response.status_code == status
            assert sample.reasons("turned-away") == [str(status)]

    run(main())


@pytest.mark.parametrize("origin", [None, "http://127.0.0.1:{port}", "https://console.example"])
def test_a_browser_with_a_token(origin: str | None) -> None:
    """One message is one frame (RX-057), and JSON is text."""

    async def main() -> None:
        given = settings(origins=frozenset({"https://console.example"}))
        async with (
            serving(Sample().host, PLACE, given=given) as (address,),
            raw_socket(address, origin=origin and origin.format(port=address.port_number)) as socket,
        ):
            assert socket.subprotocol == "lazily-ipc", "or a browser would not have it"
            await socket.send(json.dumps(greeting()))
            frames = [await socket.recv(), await socket.recv()]
            assert all(isinstance(frame, str) for frame in frames)
            assert [sorted(json.loads(frame))[:2] for frame in frames] == [["codec", "features"], ["edges", "epoch"]]
            ids = [node["slot_id"] for node in json.loads(frames[1])["nodes"]]
            assert len(ids) == 3, "the fourth has an id that a browser could not hold (RX-003)"
            assert max(ids) <= SAFE_INTEGER_MAX
            await socket.send(json.dumps({"type": "resync_request", "from_epoch": 0}) * 2)
            await socket.send(json.dumps({"type": "resync_request", "from_epoch": 0}))
            assert json.loads(await socket.recv())["type"] == "snapshot", "two in one frame are none"

    run(main())


def test_a_handshake_that_fails_closes_with_its_field() -> None:
    async def main() -> None:
        async with serving(Sample().host, PLACE) as (address,), raw_socket(address) as socket:
            await socket.send(json.dumps(greeting(peer=8)))
            with pytest.raises(ConnectionClosed) as caught:
                await socket.recv()
            assert caught.value.rcvd is not None
            assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1008, "peer_id")

    run(main())


def test_a_frame_beyond_the_bound_is_not_taken() -> None:
    """RX-074."""

    async def main() -> None:
        given = settings(link=LinkSettings(frame_bytes_max=5_000))
        async with serving(Sample().host, PLACE, given=given) as (address,), raw_socket(address) as socket:
            await socket.send(json.dumps(greeting()))
            await socket.recv()
            await socket.recv()
            await socket.send(" " * 5_001)
            with pytest.raises(ConnectionClosed) as caught:
                await socket.recv()
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == 1009

    run(main())


def test_a_proof_of_a_key() -> None:
    async def main() -> None:
        peer = signer_peer(KEY.verifier)
        sample = Sample(read("figures/*", peer))
        given = settings(identities=Identities(tokens=TOKENS, signers=frozenset({KEY.verifier})), key=KEY)
        async with (
            serving(sample.host, PLACE, given=given) as (address,),
            connect_graph(address, key=KEY, verifier=KEY.verifier) as mirror,
        ):
            assert mirror.values() == {key: value for key, value in SEEN.items() if key.startswith("figures")}
        assert [values["peer"] for word, values in sample.told if word == "linked"] == [peer]

    run(main())


def test_anyone_where_something_is_for_anyone() -> None:
    async def main() -> None:
        sample = Sample(read("figures/two", ANYONE))
        given = settings(identities=Identities(anyone=True))
        async with serving(sample.host, PLACE, given=given) as (address,), connect_graph(address) as mirror:
            assert mirror.values() == {"figures/two": 2}

    run(main())


def test_an_address_that_is_taken() -> None:
    async def main() -> None:
        async with serving(Sample().host, PLACE) as (address,):
            with pytest.raises(TransportError, match="listens there already"):
                async with serving(Sample().host, str(address)):
                    pass

    run(main())


def test_whoever_has_not_shaken_hands_has_no_room_for_much() -> None:
    """Not even in a message that it never finishes."""

    async def pieces() -> AsyncIterator[str]:
        for _ in range(5):
            yield " " * 5_000
        await asyncio.Event().wait()

    async def main() -> None:
        async with serving(Sample().host, PLACE) as (address,), raw_socket(address) as socket:
            with pytest.raises(ConnectionClosed) as caught:
                await asyncio.gather(socket.send(pieces()), socket.recv())
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == 1009

    run(main())


def test_after_the_handshake_frames_may_be_as_long_as_was_agreed() -> None:
    async def main() -> None:
        sample = Sample()
        async with serving(sample.host, PLACE) as (address,), raw_socket(address) as socket:
            await socket.send(json.dumps(greeting()))
            await socket.recv()
            await socket.recv()
            await socket.send(json.dumps({"type": "resync_request", "from_epoch": 0}) + " " * 100_000)
            assert json.loads(await socket.recv())["type"] == "snapshot"

    run(main())


def test_whoever_guesses_at_tokens_is_told_to_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with a right one, which would be found out otherwise. Who shows none is not concerned."""
    monkeypatch.setattr(graph_web, "Guesses", lambda: Guesses(burst=3, per_second=0.0))

    async def main() -> None:
        given = ServerSettings(identities=Identities(tokens=TOKENS, anyone=True))
        async with serving(Sample().host, PLACE, given=given) as (address,):

            async def status(token: str | None) -> int:
                try:
                    async with raw_socket(address, token=token):
                        return 101
                except InvalidStatus as refused:
                    return refused.response.status_code

            assert {await status(f"wrong-token-{number}") for number in range(3)} == {401}
            assert [await status("another-wrong-one"), await status(TOKEN), await status(None)] == [429, 429, 101]

    run(main())


def test_connections_that_ask_for_nothing_give_way() -> None:
    """The oldest go first, so whoever asks is heard."""

    async def main() -> None:
        turned: list[tuple[str, str]] = []
        web = WebSettings(
            identities=Identities(tokens=TOKENS),
            frame_bytes_max=5_000,
            handshake_seconds=60.0,
            handshakes=Handshakes(count_max=3, count_per_origin_max=2),
        )

        async def take(socket: ServerConnection, route: Route, peer: PeerId) -> None:
            del route
            await socket.send(f"{peer}")

        server = GraphServer(Sample().host, settings())
        place = addresses.parse(PLACE, to_listen=True)
        listener = WebListener(place, web, server, take, lambda *why: turned.append(why), None)
        await listener.start()
        port = listener.address.port_number
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        assert await silent[0][0].read() == b"", "the oldest of this address"
        async with raw_socket(listener.address) as socket:
            assert await socket.recv() == "7"
        assert await silent[1][0].read() == b""
        for local in ("127.0.0.8", "127.0.0.9", "127.0.0.1"):
            silent += [await asyncio.open_connection("127.0.0.1", port, local_addr=(local, 0))]
        assert await silent[2][0].read() == b"", "the oldest of the busiest address"
        assert [why for why, _ in turned] == ["too-many-handshakes"] * 3
        for _, writer in silent:
            writer.close()
        await listener.close()

    run(main())
