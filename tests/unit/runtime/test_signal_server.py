"""The rules of a room are tested where they are decided; here is what only a real socket shows."""

import asyncio
from hashlib import sha256
from http import HTTPStatus

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from bobbin.errors import PeerError, ResourceError, UsageError
from bobbin.reactive.messages import PeerId
from bobbin.reactive.signaling import OPEN, Access, Limits, Mode
from bobbin.records.signing import SigningKey
from bobbin.runtime import web_sockets
from bobbin.runtime.guesses import BURST, PER_SECOND
from bobbin.runtime.introduction import introduce
from bobbin.runtime.signal_server import ServerLimits, SignalServer, SignalSettings
from bobbin.runtime.socket_stream import SocketStream
from bobbin.transport.base import Route
from bobbin.transport.listen import Handshakes
from bobbin.wire.proof import Role
from tests.support.byte_streams import until
from tests.support.signal_rooms import RawClient, raw_client, run, serving

PAGE = "https://example.org"


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()


def test_two_clients_find_each_other() -> None:
    """RX-085, RX-087, RX-090, RX-091, RX-094: to the byte, and under the id of the connection."""

    async def main() -> None:
        async with serving() as server, raw_client(server) as two:
            async with raw_client(server) as one:
                assert await one.join(1) == {"type": "welcome", "peer": 1, "peers": []}
                assert await two.join(2) == {"type": "welcome", "peer": 2, "peers": [1]}
                assert await one.hear() == {"type": "peer-joined", "peer": 2}
                await one.say({"type": "offer", "to": 2, "sdp": "v=0\r\no=- é\r\n"})
                assert await two.hear() == {"type": "offer", "from": 1, "sdp": "v=0\r\no=- é\r\n"}
                await two.say('{"type":"relay","to":1,"payload":{"b":1.0,"a":[ 18446744073709551615 ]}}')
                heard = await one.socket.recv()
                assert isinstance(heard, str)
                assert '"payload":{"b":1.0,"a":[ 18446744073709551615 ]}' in heard
                assert '"from":2' in heard
            assert await two.hear() == {"type": "peer-left", "peer": 1}

    run(main())


@pytest.mark.parametrize(
    "said",
    [
        "no json",
        b"\x00binary",
        {"type": "carrier-pigeon", "peer": 1},
        {"type": "offer", "to": 2, "from": 99, "sdp": "x"},
        {"type": "offer", "from": 1, "sdp": "x"},
        {"type": "join", "peer": -1},
        {"type": "join", "peer": 2**53},
        {"type": "join", "peer": 2**64},
        {"type": "join", "peer": 1.0},
        '{"type":"join","peer":1,"peer":2}',
        "[" * 100_000,
    ],
)
def test_what_is_no_frame_is_refused_and_the_client_stays(said: object) -> None:
    """RX-148, RX-149."""

    async def main() -> None:
        async with serving() as server, raw_client(server) as two, raw_client(server) as one:
            await two.join(2)
            await one.say(said)
            answer = await one.hear()
            assert (answer["type"], answer["code"]) == ("error", "bad_message")
            assert await one.join(7) == {"type": "welcome", "peer": 7, "peers": [2]}
            assert await two.hear() == {"type": "peer-joined", "peer": 7}

    run(main())


def test_rooms_are_apart_and_go_with_the_last_client() -> None:
    async def main() -> None:
        async with (
            serving() as server,
            raw_client(server, "/session/a") as one,
            raw_client(server, "/session/b") as two,
        ):
            await one.join(1)
            assert await two.join(1) == {"type": "welcome", "peer": 1, "peers": []}
            assert set(server.rooms) == {"a", "b"}
            await one.say({"type": "leave"})
            with pytest.raises(ConnectionClosed):
                await one.hear()
            await until(lambda: "a" not in server.rooms)
            assert set(server.rooms) == {"b"}

    run(main())


@pytest.mark.parametrize(
    "path", ["/", "/session", "/session/", "/session/a/b", "/session/a?b", "/session/" + "x" * 129]
)
def test_sessions_are_at_one_path(path: str) -> None:
    """RX-149."""

    async def main() -> int:
        async with serving() as server:
            with pytest.raises(InvalidStatus) as refused:
                async with raw_client(server, path):
                    pass
            return refused.value.response.status_code

    assert run(main()) == HTTPStatus.NOT_FOUND


def test_browsers_are_taken_only_from_listed_pages() -> None:
    async def main() -> None:
        async with serving(SignalSettings(access=OPEN, origins=frozenset({PAGE}))) as server:
            async with raw_client(server, origin=PAGE) as one:
                assert (await one.join(1))["type"] == "welcome"
            for origin in ("https://example.com", "null", f"{PAGE}:8443", ""):
                with pytest.raises(InvalidStatus) as refused:
                    async with raw_client(server, origin=origin):
                        pass
                assert refused.value.response.status_code == HTTPStatus.FORBIDDEN

    run(main())


def test_a_token_gives_one_id_and_no_other() -> None:
    """Also where nobody has said that the id of a token is reserved: that follows."""
    settings = SignalSettings(access=Access(mode=Mode.OPEN), tokens={_digest("secret"): PeerId(7)})

    async def main() -> None:
        async with serving(settings) as server:
            async with raw_client(server, token="secret") as one, raw_client(server) as other:
                assert (await one.join(8))["code"] == "permission_denied"
                assert (await other.join(7))["code"] == "permission_denied"
                assert (await one.join(7))["type"] == "welcome"
                assert (await other.join(8))["type"] == "welcome"
            protocols = ("lazily-signal", "bearer.secret")
            async with raw_client(server, protocols=protocols) as browser:
                assert browser.socket.subprotocol == "lazily-signal"
                assert (await browser.join(7))["type"] == "welcome"
            for token, given, status in (
                ("wrong", (), HTTPStatus.UNAUTHORIZED),
                ("", (), HTTPStatus.UNAUTHORIZED),
                (None, ("lazily-signal", "bearer.wrong"), HTTPStatus.UNAUTHORIZED),
                ("secret", protocols, HTTPStatus.BAD_REQUEST),
            ):
                with pytest.raises(InvalidStatus) as refused:
                    async with raw_client(server, token=token, protocols=given):
                        pass
                assert refused.value.response.status_code == status

    run(main())


def test_whoever_guesses_at_tokens_is_told_to_come_later() -> None:
    async def main() -> None:
        now = [0]
        known = SignalSettings(access=OPEN, tokens={_digest("secret"): PeerId(5)})
        server = SignalServer(known, clock_ns=lambda: now[0])
        await server.start("127.0.0.1", 0)

        async def status(token: str | None) -> int:
            try:
                async with raw_client(server, token=token):
                    return 101
            except InvalidStatus as refused:
                return refused.response.status_code

        assert {await status(f"wrong {number}") for number in range(BURST)} == {401}
        assert [await status("wrong"), await status("secret"), await status(None)] == [429, 429, 101]
        now[0] += int(1e9 / PER_SECOND)
        assert await status("secret") == 101
        await server.close()

    run(main())


def test_whoever_connects_and_asks_for_nothing_gives_way() -> None:
    async def main() -> None:
        bounds = ServerLimits(handshakes=Handshakes(count_per_origin_max=1))
        async with serving(SignalSettings(access=OPEN, limits=bounds)) as server:
            assert server.address is not None
            reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port_number)
            async with raw_client(server) as one:
                assert await one.join(1) == {"type": "welcome", "peer": 1, "peers": []}
            assert await reader.read() == b""
            writer.close()

    run(main())


def test_a_frame_that_is_too_long_ends_the_connection() -> None:
    settings = SignalSettings(access=OPEN, limits=ServerLimits(room=Limits(frame_bytes_max=200)))

    async def main() -> None:
        async with serving(settings) as server, raw_client(server) as one, raw_client(server) as two:
            await one.join(1)
            await two.join(2**53 - 1)
            await one.hear()
            frame = '{"type":"offer","to":1,"sdp":"'
            await two.say(frame + "x" * (200 - len(frame) - 2) + '"}')
            assert (await one.hear())["from"] == 2**53 - 1, "what is forwarded may be a little longer"
            await two.say("x" * 201)
            with pytest.raises(ConnectionClosed):
                await two.hear()
            assert await one.hear() == {"type": "peer-left", "peer": 2**53 - 1}

    run(main())


def test_who_does_not_read_is_let_go_and_nobody_else_waits() -> None:
    limits = ServerLimits(waiting_frames_max=8, room=Limits(frames_burst=10**6, bytes_burst=10**9))

    async def main() -> None:
        settings = SignalSettings(access=OPEN, limits=limits)
        async with serving(settings) as server, raw_client(server) as one, raw_client(server) as slow:
            await slow.join(2)
            assert await one.join(1) == {"type": "welcome", "peer": 1, "peers": [2]}
            slow.socket.transport.pause_reading()
            left = asyncio.create_task(one.hear())
            while not left.done():
                await one.say({"type": "offer", "to": 2, "sdp": "x" * 100_000})
            assert left.result() == {"type": "peer-left", "peer": 2}
            slow.socket.transport.abort()
            one.socket.transport.abort()

    run(main())


def test_what_waits_for_a_client_is_bounded_in_bytes_too() -> None:
    """Frames of the greatest length, of which far fewer than the bound on their number are a lot of memory."""
    limits = ServerLimits(waiting_bytes_max=500_000, room=Limits(frames_burst=10**6, bytes_burst=10**9))

    async def main() -> None:
        settings = SignalSettings(access=OPEN, limits=limits)
        async with serving(settings) as server, raw_client(server) as one, raw_client(server) as slow:
            await slow.join(2)
            await one.join(1)
            slow.socket.transport.pause_reading()
            left = asyncio.create_task(one.hear())
            sent = 0
            while not left.done():
                assert sent < limits.waiting_frames_max, "it holds more than it may"
                await one.say({"type": "offer", "to": 2, "sdp": "x" * 250_000})
                sent += 1
            assert left.result() == {"type": "peer-left", "peer": 2}
            slow.socket.transport.abort()
            one.socket.transport.abort()

    run(main())


def test_one_frame_may_always_wait() -> None:
    limits = ServerLimits(waiting_bytes_max=10)

    async def main() -> None:
        settings = SignalSettings(access=OPEN, limits=limits)
        async with serving(settings) as server, raw_client(server) as one, raw_client(server) as two:
            await two.join(2)
            assert await one.join(1) == {"type": "welcome", "peer": 1, "peers": [2]}
            assert await two.hear() == {"type": "peer-joined", "peer": 1}
            await one.say({"type": "offer", "to": 2, "sdp": "x" * 1000})
            assert len((await two.hear())["sdp"]) == 1000

    run(main())


@pytest.mark.parametrize("headers", [{}, {"X-Forwarded-For": "203.0.113.9"}, {"Via": "1.1 somewhere"}])
def test_a_proof_that_a_proxy_passed_on_does_not_count(headers: dict[str, str]) -> None:
    """Nothing binds it to the channel there, so whoever is in between could have passed on somebody else's."""
    key = SigningKey(bytes(range(32)))
    settings = SignalSettings(access=Access(mode=Mode.OPEN), signers={key.verifier: PeerId(7)})

    async def main() -> bool:
        async with serving(settings) as server:
            assert server.address is not None
            uri = f"ws://127.0.0.1:{server.address.port}/session/one"
            route = Route(address=server.address, remote="there", origin="there", loopback=True, binding=None)
            async with connect(
                uri, additional_headers=headers, subprotocols=[web_sockets.PROOF_PROTOCOL], proxy=None
            ) as socket:
                try:
                    await introduce(SocketStream(socket, route), role=Role.INITIATOR, key=key, admit=lambda _: None)
                except PeerError:
                    return False
                return bool((await RawClient(socket).join(7))["type"] == "welcome")

    assert run(main()) is (not headers)


def test_connections_are_bounded_in_all_for_an_address_and_by_rooms() -> None:
    async def refused_with(limits: ServerLimits) -> None:
        async with serving(SignalSettings(access=OPEN, limits=limits)) as server, raw_client(server) as one:
            await one.join(1)
            async with raw_client(server, "/session/other") as other:
                with pytest.raises(ConnectionClosed) as closed:
                    await other.join(2)
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1013
            await one.say({"type": "offer", "to": 1, "sdp": "still here"})
            assert (await one.hear())["sdp"] == "still here"

    for limits in (
        ServerLimits(connections_max=1),
        ServerLimits(connections_per_address_max=1),
        ServerLimits(rooms_max=1),
    ):
        run(refused_with(limits))


def test_whoever_does_not_join_is_let_go() -> None:
    async def main() -> None:
        limits = ServerLimits(join_seconds=0.05)
        async with serving(SignalSettings(access=OPEN, limits=limits)) as server, raw_client(server) as idle:
            with pytest.raises(ConnectionClosed):
                await idle.hear()
            await until(lambda: not server.rooms)

    run(main())


def test_whoever_has_joined_may_stay_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loop, limits = asyncio.get_running_loop(), ServerLimits()
        async with serving(SignalSettings(access=OPEN, limits=limits)) as server, raw_client(server) as one:
            await one.join(1)
            clock = loop.time
            monkeypatch.setattr(loop, "time", lambda: clock() + limits.join_seconds + 1)
            await one.say({"type": "offer", "to": 1, "sdp": "still here"})
            assert (await one.hear())["sdp"] == "still here"

    run(main())


def test_off_this_machine_nothing_is_said_in_the_clear() -> None:
    async def main() -> None:
        server = SignalServer(SignalSettings(access=OPEN))
        with pytest.raises(UsageError, match="other machines"):
            await server.start("0.0.0.0", 0)
        allowed = SignalServer(SignalSettings(access=OPEN, allow_insecure=True))
        await allowed.start("0.0.0.0", 0)
        await allowed.close()
        await allowed.close()

    run(main())


def test_a_place_that_is_taken() -> None:
    async def main() -> None:
        async with serving() as server:
            assert server.address is not None
            other = SignalServer(SignalSettings(access=OPEN))
            with pytest.raises(ResourceError) as failed:
                await other.start("127.0.0.1", server.address.port_number)
            assert failed.value.retry

    run(main())


def test_what_is_turned_away_is_told() -> None:
    told: list[tuple[str, object]] = []

    async def main() -> None:
        server = SignalServer(
            SignalSettings(access=OPEN), tell=lambda word, values: told.append((word, values["status"]))
        )
        await server.start("127.0.0.1", 0)
        with pytest.raises(InvalidStatus):
            async with raw_client(server, "/"):
                pass
        await server.close()

    run(main())
    assert told == [("refused", 404)]
