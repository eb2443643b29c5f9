"""Data channels between two hubs in one process: everything but the second process is real."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar, cast

import pytest
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

from bobbin.errors import PeerError, UsageError
from bobbin.reactive.messages import PeerId
from bobbin.reactive.signaling_frames import (
    Answer,
    Code,
    ForwardedAnswer,
    ForwardedIce,
    ForwardedOffer,
    Ice,
    Offer,
    PeerLeft,
    Refusal,
    ServerFrame,
)
from bobbin.records.signing import SigningKey
from bobbin.runtime.graph_peers import ANYONE, Credentials, Identities, signer_peer, token_digest
from bobbin.runtime.guesses import Guesses
from bobbin.runtime.signal_client import SignalClient, join
from bobbin.runtime.signal_server import SignalServer
from bobbin.runtime.webrtc import BAD_DESCRIPTION, UNSUITABLE_CHANNEL, RtcHub, RtcLimits, RtcLink, identify, show
from bobbin.transport.base import TransportError
from tests.support.byte_streams import until
from tests.support.signal_rooms import run, serving

ONE, TWO = PeerId(11), PeerId(12)
T = TypeVar("T")


def _anyone(peer: PeerId) -> bool:
    del peer
    return True


async def _client(server: SignalServer, peer: PeerId) -> SignalClient:
    assert server.address is not None
    return await join(server.address, "one", peer)


@asynccontextmanager
async def _hubs(
    limits: RtcLimits = RtcLimits(),  # noqa: B008 (a frozen value)
    accepts: Callable[[PeerId], bool] = _anyone,
) -> AsyncIterator[tuple[RtcHub, RtcHub]]:
    async with (
        serving() as server,
        await _client(server, ONE) as one,
        await _client(server, TWO) as two,
        RtcHub(one, limits=limits) as dialling,
        RtcHub(two, accepts=accepts, limits=limits) as accepting,
    ):
        yield dialling, accepting


async def _linked(dialling: RtcHub, accepting: RtcHub) -> tuple[RtcLink, RtcLink]:
    dialled, taken = await asyncio.gather(dialling.dial(TWO), accepting.accept())
    return dialled, taken


def test_frames_go_both_ways_in_order_and_the_end_is_heard() -> None:
    """RX-056, RX-058."""

    async def main() -> None:
        async with _hubs() as hubs:
            dialled, taken = await _linked(*hubs)
            assert (dialled.claimed, taken.claimed) == (TWO, ONE)
            frames = [b"%d " % number * (1 + 40 * number) for number in range(50)]
            for frame in frames:
                await dialled.send(frame)
            assert [await taken.receive() for _ in frames] == frames
            large = bytes(range(256)) * 1024
            await taken.send(large)
            assert await dialled.receive() == large
            with pytest.raises(UsageError, match="already"):
                await hubs[0].dial(TWO)
            assert (hubs[0].links, hubs[1].links) == (frozenset({TWO}), frozenset({ONE}))
            await taken.close()
            for link in (dialled, taken):
                with pytest.raises(TransportError):
                    await link.receive()
                with pytest.raises(TransportError):
                    await link.receive()
                with pytest.raises(TransportError):
                    await link.send(b"late")
            await until(lambda: not hubs[0].links and not hubs[1].links)
            again, _ = await _linked(*hubs)
            assert not again.is_over

    run(main())


@pytest.mark.parametrize(
    "options",
    [{"ordered": False}, {"maxRetransmits": 0}, {"maxPacketLifeTime": 100}, {"ordered": False, "maxRetransmits": 3}],
)
def test_a_channel_that_may_lose_or_reorder_is_refused(options: dict[str, int]) -> None:
    """RX-058: by the side that is asked for it."""

    async def main() -> None:
        async with (
            serving() as server,
            await _client(server, ONE) as one,
            await _client(server, TWO) as two,
            RtcHub(two, accepts=_anyone) as accepting,
        ):
            connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
            channel = connection.createDataChannel("lazily-ipc", **options)  # type: ignore[arg-type]
            closed = asyncio.Event()
            channel.on("close", closed.set)
            await connection.setLocalDescription(await connection.createOffer())
            await one.send(Offer(to=TWO, sdp=connection.localDescription.sdp))
            answer = await _hear(one, ForwardedAnswer)
            await connection.setRemoteDescription(RTCSessionDescription(sdp=answer.sdp, type="answer"))
            await closed.wait()
            assert accepting.links == frozenset()
            await connection.close()

    run(main())


async def _hear(client: SignalClient, kind: type[T]) -> T:
    while not isinstance(frame := await client.receive(), kind):
        pass
    return frame


def test_a_link_of_our_own_refuses_such_a_channel_too() -> None:
    """RX-058."""

    async def main() -> None:
        connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        link = RtcLink(ONE, connection, RtcLimits())
        link.use(connection.createDataChannel("lazily-ipc", ordered=False))
        with pytest.raises(PeerError) as refused:
            await link.opened()
        assert refused.value.code == UNSUITABLE_CHANNEL
        await link.close()

    run(main())


def test_ways_that_come_later_are_added() -> None:
    """As a browser sends them: a description without ways, and each way in a frame of its own."""

    async def main() -> None:
        async with (
            serving() as server,
            await _client(server, ONE) as one,
            await _client(server, TWO) as two,
            RtcHub(two, accepts=_anyone) as accepting,
        ):
            connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
            channel = connection.createDataChannel("lazily-ipc")
            await connection.setLocalDescription(await connection.createOffer())
            lines = connection.localDescription.sdp.splitlines(keepends=True)
            ways = [line for line in lines if line.startswith("a=candidate:")]
            assert ways
            bare = "".join(line for line in lines if line not in ways and not line.startswith("a=end-of-candidates"))
            await one.send(Offer(to=TWO, sdp=bare))
            for text in ("", "candidate:", "candidate:nonsense", "rubbish", *(way[2:].strip() for way in ways)):
                await one.send(Ice(to=TWO, candidate=text))
            answer = await _hear(one, ForwardedAnswer)
            await connection.setRemoteDescription(RTCSessionDescription(sdp=answer.sdp, type="answer"))
            link = await accepting.accept()
            channel.send("text is a frame, too")
            assert await link.receive() == b"text is a frame, too"
            await connection.close()

    run(main())


def test_nobody_is_taken_who_was_not_wanted() -> None:
    async def main() -> None:
        async with _hubs(RtcLimits(connect_seconds=0.5), accepts=lambda peer: peer == PeerId(9)) as (one, two):
            with pytest.raises(TransportError, match="not reached"):
                await one.dial(TWO)
            assert one.links == two.links == frozenset()

    run(main())


def test_somebody_who_is_not_there_is_told_at_once() -> None:
    async def main() -> None:
        async with _hubs() as (one, _):
            with pytest.raises(PeerError) as refused:
                await one.dial(PeerId(9))
            assert refused.value.code == "unknown_target"
            assert one.links == frozenset()

    run(main())


def test_a_description_that_is_none() -> None:
    async def main() -> None:
        async with (
            serving() as server,
            await _client(server, ONE) as one,
            await _client(server, TWO) as two,
            RtcHub(one, accepts=_anyone) as hub,
        ):
            await two.send(Offer(to=ONE, sdp="nonsense"))
            dialling = asyncio.create_task(hub.dial(TWO))
            await _hear(two, ForwardedOffer)
            await two.send(Answer(to=ONE, sdp="v=0\r\nnonsense"))
            with pytest.raises(PeerError) as refused:
                await dialling
            assert refused.value.code == BAD_DESCRIPTION
            assert hub.links == frozenset()

    run(main())


def test_a_peer_that_leaves_while_it_is_dialled_and_a_server_that_goes() -> None:
    async def main() -> None:
        async with serving() as server, await _client(server, ONE) as one, RtcHub(one) as hub:
            two = await _client(server, TWO)
            dialling = asyncio.create_task(hub.dial(TWO))
            await _hear(two, ForwardedOffer)
            await two.leave()
            with pytest.raises(TransportError, match="left"):
                await dialling
            three = await _client(server, TWO)
            dialling, accepting = asyncio.create_task(hub.dial(TWO)), asyncio.create_task(hub.accept())
            await _hear(three, ForwardedOffer)
            await server.close()
            for waiting in (dialling, accepting):
                with pytest.raises(TransportError):
                    await waiting

    run(main())


async def _drain(link: RtcLink) -> tuple[list[bytes], str]:
    """What is left of a link, and why it ended."""
    frames: list[bytes] = []
    try:
        while True:
            frames.append(await link.receive())
    except TransportError as error:
        return frames, str(error)


def test_what_is_not_taken_is_bounded() -> None:
    limits = RtcLimits(frame_bytes_max=1000, received_frames_max=4, received_bytes_max=2500)

    async def flooded(*sizes: int) -> str:
        async with _hubs(limits) as hubs:
            dialled, taken = await _linked(*hubs)
            generous = RtcLimits()
            object.__setattr__(dialled, "_limits", generous)
            for size in sizes:
                await dialled.send(bytes(size))
            await until(lambda: taken.is_over)
            frames, why = await _drain(taken)
            assert len(frames) <= limits.received_frames_max
            assert sum(map(len, frames)) <= limits.received_bytes_max
            return why

    assert "faster" in run(flooded(1, 1, 1, 1, 1))
    assert "faster" in run(flooded(1000, 1000, 1000))
    assert "1001 bytes" in run(flooded(1001))


def test_a_frame_that_is_too_long_is_not_sent() -> None:
    async def main() -> None:
        async with _hubs(RtcLimits(frame_bytes_max=1000)) as hubs:
            dialled, taken = await _linked(*hubs)
            with pytest.raises(UsageError, match="1001"):
                await dialled.send(bytes(1001))
            await dialled.send(bytes(1000))
            assert await taken.receive() == bytes(1000)

    run(main())


def test_a_sender_waits_while_much_is_on_its_way() -> None:
    limits = RtcLimits(unsent_bytes_max=10_000)

    async def main() -> None:
        async with _hubs(limits) as hubs:
            dialled, taken = await _linked(*hubs)
            sent = 0

            async def send() -> None:
                nonlocal sent
                for _ in range(30):
                    await dialled.send(bytes(5_000))
                    sent += 1
                    assert dialled.unsent_bytes <= limits.unsent_bytes_max

            async with asyncio.TaskGroup() as group:
                group.create_task(send())
                for _ in range(30):
                    assert await taken.receive() == bytes(5_000)
            assert sent == 30

    run(main())


def test_two_that_dial_at_once_have_one_link() -> None:
    async def main() -> None:
        async with (
            serving() as server,
            await _client(server, ONE) as one,
            await _client(server, TWO) as two,
            RtcHub(one, accepts=_anyone) as lesser,
            RtcHub(two, accepts=_anyone) as greater,
        ):
            first, second = asyncio.create_task(lesser.dial(TWO)), asyncio.create_task(greater.dial(ONE))
            with pytest.raises(TransportError, match="same time"):
                await second
            taken, dialled = await greater.accept(), await first
            await dialled.send(b"one link")
            assert await taken.receive() == b"one link"
            assert (lesser.links, greater.links) == (frozenset({TWO}), frozenset({ONE}))

    run(main())


# ---- who is at the other end ----------------------------------------------------------------------------------------

_TOKEN = "a-token-of-somebody"
_KEY, _SERVER_KEY = SigningKey(bytes(range(32))), SigningKey(bytes(range(1, 33)))
_KNOWN = Identities(tokens={token_digest(_TOKEN): PeerId(77)}, signers=frozenset({_KEY.verifier}))
_SECONDS = 30.0


def test_an_id_of_a_room_is_no_id_of_a_graph() -> None:
    """An observer has the id that its token or its key gives, whatever it is called in the room."""

    async def main() -> None:
        async with _hubs() as hubs:
            dialled, taken = await _linked(*hubs)
            assert (taken.claimed, dialled.claimed) == (ONE, TWO)
            assert taken.route.origin != dialled.route.origin, "nobody is bounded for what others do"
            await show(dialled, Credentials(peer=PeerId(77), token=_TOKEN))
            await dialled.send(b"frame")
            peer, channel = await identify(taken, _KNOWN, guesses=Guesses(), timeout_seconds=_SECONDS)
            assert peer == PeerId(77)
            assert await channel.receive() == b"frame"

    run(main())


def test_a_key_is_proven_on_the_channel_both_ways() -> None:
    async def main() -> None:
        async with _hubs() as hubs:
            dialled, taken = await _linked(*hubs)
            assert dialled.binding is not None
            assert dialled.binding == taken.binding
            credentials = Credentials(key=_KEY, verifier=_SERVER_KEY.verifier)
            (peer, channel), _ = await asyncio.gather(
                identify(taken, _KNOWN, guesses=Guesses(), timeout_seconds=_SECONDS, key=_SERVER_KEY),
                show(dialled, credentials),
            )
            assert peer == signer_peer(_KEY.verifier)
            await dialled.send(b"frame")
            assert await channel.receive() == b"frame"

    run(main())


def test_a_proof_does_not_count_where_somebody_stands_between() -> None:
    """Whoever brings the channels about could open two of them, and pass on what is said: the bindings differ."""

    async def main() -> None:
        async with _hubs() as near, _hubs() as far:
            (observer, inner), (outer, graph) = await _linked(*near), await _linked(*far)
            assert observer.binding != graph.binding

            async def pass_on(one: RtcLink, other: RtcLink) -> None:
                with suppress(TransportError):
                    while True:
                        await other.send(await one.receive())

            between = [asyncio.create_task(pass_on(*ends)) for ends in ((inner, outer), (outer, inner))]
            telling = asyncio.create_task(show(observer, Credentials(key=_KEY)))
            with pytest.raises(PeerError):
                await identify(graph, _KNOWN, guesses=Guesses(), timeout_seconds=_SECONDS)
            await asyncio.gather(inner.close(), outer.close())
            await asyncio.gather(telling, *between, return_exceptions=True)

    run(main())


@pytest.mark.parametrize(
    "first",
    [
        b'{"a":"frame"}',
        b"token somebody-elses-token\n",
        f"token {_TOKEN}".encode(),
        f"token {_TOKEN}\n{{}}".encode(),
        b"",
    ],
)
def test_whoever_is_not_known_is_let_go(first: bytes) -> None:
    async def main() -> None:
        async with _hubs() as hubs:
            dialled, taken = await _linked(*hubs)
            await dialled.send(first)
            with pytest.raises(PeerError) as refused:
                await identify(taken, _KNOWN, guesses=Guesses(), timeout_seconds=_SECONDS)
            assert refused.value.code == "not-known"
            await until(lambda: dialled.is_over)

    run(main())


def test_whoever_says_nothing_of_itself_is_anyone_where_that_is_allowed() -> None:
    async def main() -> None:
        async with _hubs() as hubs:
            dialled, taken = await _linked(*hubs)
            await dialled.send(b"{}")
            await dialled.send(b"more")
            peer, channel = await identify(taken, Identities(anyone=True), guesses=Guesses(), timeout_seconds=_SECONDS)
            assert (peer, await channel.receive(), await channel.receive()) == (ANYONE, b"{}", b"more")
            await channel.send(b"back")
            assert await dialled.receive() == b"back"
            await channel.close()
            with pytest.raises(PeerError, match="did not say"):
                await identify((await _linked(*hubs))[1], _KNOWN, guesses=Guesses(), timeout_seconds=0)

    run(main())


# ---- what the signaling server says ---------------------------------------------------------------------------------


class _Server:
    """In place of a client: says what a test wants, and keeps what is sent."""

    peer = ONE

    def __init__(self) -> None:
        self.says: asyncio.Queue[ServerFrame] = asyncio.Queue()
        self.sent: list[object] = []

    async def send(self, frame: object) -> None:
        self.sent.append(frame)

    async def receive(self) -> ServerFrame:
        return await self.says.get()


@asynccontextmanager
async def _alone() -> AsyncIterator[tuple[RtcHub, _Server]]:
    server = _Server()
    async with RtcHub(cast("SignalClient", server), accepts=_anyone) as hub:
        yield hub, server


@pytest.mark.parametrize("peer", [0, 1, 2, 2**52, 2**53 - 1])
def test_ids_that_mean_something_at_a_graph_are_not_linked_to(peer: int) -> None:
    async def main() -> None:
        async with _alone() as (hub, server):
            with pytest.raises(UsageError, match="meaning"):
                await hub.dial(PeerId(peer))
            server.says.put_nowait(ForwardedOffer(sender=PeerId(peer), sdp="v=0"))
            await until(server.says.empty)
            assert hub.links == frozenset()

    run(main())


@pytest.mark.parametrize(
    ("words", "fails"),
    [
        ("peer 66 is not here", False),
        ("peer 12 is not here", True),
        ("peer 11 may not signal peer 12", True),
        ("peer 11 may not signal peer 66", False),
        ("no such peer", True),
    ],
)
def test_a_refusal_ends_the_dial_that_it_is_about(words: str, *, fails: bool) -> None:
    async def main() -> None:
        async with _alone() as (hub, server):
            dialling = asyncio.create_task(hub.dial(TWO))
            await until(lambda: bool(server.sent))
            server.says.put_nowait(Refusal(code=Code.UNKNOWN_TARGET, message=words))
            server.says.put_nowait(PeerLeft(peer=TWO))
            with pytest.raises(PeerError if fails else TransportError, match="refuses" if fails else "has left"):
                await dialling

    run(main())


def test_words_that_could_be_about_two_dials_end_neither() -> None:
    async def main() -> None:
        async with _alone() as (hub, server):
            dialling = [asyncio.create_task(hub.dial(peer)) for peer in (TWO, PeerId(13))]
            await until(lambda: len(server.sent) == 2)
            server.says.put_nowait(Refusal(code=Code.UNKNOWN_TARGET, message="no such peer"))
            server.says.put_nowait(PeerLeft(peer=TWO))
            server.says.put_nowait(PeerLeft(peer=PeerId(13)))
            for one in dialling:
                with pytest.raises(TransportError, match="has left"):
                    await one

    run(main())


def test_ways_are_looked_at_beside_the_reading_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    async def look(connection: RTCPeerConnection, candidate: object) -> None:
        del connection
        looked.append(candidate)
        await asyncio.Event().wait()

    monkeypatch.setattr(RTCPeerConnection, "addIceCandidate", look)

    async def main() -> None:
        async with _alone() as (hub, server):
            dialling = asyncio.create_task(hub.dial(TWO))
            await until(lambda: bool(server.sent))
            way = "candidate:1 1 UDP 2122252543 one.local 5000 typ host"
            for _ in range(100):
                server.says.put_nowait(ForwardedIce(sender=TWO, candidate=way))
                server.says.put_nowait(ForwardedIce(sender=PeerId(13), candidate=way))
            await until(lambda: len(looked) >= 64 and server.says.empty())
            server.says.put_nowait(PeerLeft(peer=TWO))
            with pytest.raises(TransportError, match="has left"):
                await dialling
            assert len(looked) == 64

    run(main())


def test_a_link_may_be_closed_by_many_at_once_and_by_one_that_gives_up() -> None:
    async def main() -> None:
        failed: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: failed.append(what))
        async with _hubs() as hubs:
            dialled, taken = await _linked(*hubs)
            hasty = asyncio.create_task(dialled.close())
            await asyncio.sleep(0)
            hasty.cancel()
            await asyncio.gather(dialled.close(), dialled.close(), taken.close())
        gc.collect()
        assert failed == []

    run(main())
