"""Dialling PZP peers and being dialled, over real sockets of this machine."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bobbin.errors import UsageError
from bobbin.transport import pzp
from bobbin.transport.base import TransportError
from bobbin.transport.dial import dial
from bobbin.transport.listen import Handshakes
from bobbin.transport.pzp import PeerListener
from bobbin.transport.secret_stream import SecretStream
from bobbin.wire import address
from bobbin.wire.pzp.address import at
from bobbin.wire.pzp.faults import Fault, WireFault
from tests.support.byte_streams import until
from tests.support.pzp_wire import ALICE, BOB, CAROL

HERE = address.parse("tcp:127.0.0.1:0", to_listen=True)


async def _echo(stream: SecretStream) -> None:
    while data := await stream.read():
        await stream.write(data)
    await stream.close()


def _with_listener(
    test: Callable[[PeerListener, list[tuple[str, str]]], Awaitable[None]],
    *,
    handshakes: Handshakes = pzp.HANDSHAKES,
    admits: Callable[[bytes], bool] = lambda _: True,
) -> None:
    async def main() -> None:
        refused: list[tuple[str, str]] = []
        listener = await pzp.listen(
            HERE,
            BOB,
            _echo,
            handshakes=handshakes,
            admits=admits,
            refused=lambda code, remote: refused.append((code, remote)),
        )
        try:
            await test(listener, refused)
        finally:
            await listener.close()

    asyncio.run(main())


def test_a_peer_is_dialled_and_answers() -> None:
    async def test(listener: PeerListener, refused: list[tuple[str, str]]) -> None:
        assert str(listener.address).startswith("net:127.0.0.1:")
        stream = await pzp.dial(listener.address, ALICE)
        assert stream.peer == BOB.public_bytes
        await stream.write(b"hello")
        assert await stream.read() == b"hello"
        await stream.close()
        assert not refused
        assert listener.unfinished == 0

    _with_listener(test)


def test_a_peer_with_another_key_is_not_taken_for_the_one_that_was_dialled() -> None:
    async def test(listener: PeerListener, refused: list[tuple[str, str]]) -> None:
        with pytest.raises((WireFault, TransportError)):
            await pzp.dial(at(listener.address.place, CAROL.public_bytes), ALICE)
        await until(lambda: bool(refused))
        assert refused[0][0] == Fault.NOT_PROVEN.value
        assert refused[0][1].startswith("127.0.0.1:")

    _with_listener(test)


def test_whoever_is_not_admitted_is_turned_away() -> None:
    async def test(listener: PeerListener, refused: list[tuple[str, str]]) -> None:
        with pytest.raises((WireFault, TransportError)):
            await pzp.dial(listener.address, ALICE)
        await until(lambda: bool(refused))
        assert refused[0][0] == Fault.NOT_ADMITTED.value
        carols = await pzp.dial(listener.address, CAROL)
        await carols.close()

    _with_listener(test, admits=lambda peer: peer == CAROL.public_bytes)


def test_who_leaves_in_the_middle_is_forgotten() -> None:
    async def test(listener: PeerListener, refused: list[tuple[str, str]]) -> None:
        stream = await dial(listener.address.place)
        await stream.write(bytes(10))
        await stream.close()
        await until(lambda: bool(refused))
        assert refused[0][0] == Fault.TRUNCATED.value
        assert listener.unfinished == 0

    _with_listener(test)


def test_who_says_something_else_is_turned_away() -> None:
    async def test(listener: PeerListener, refused: list[tuple[str, str]]) -> None:
        stream = await dial(listener.address.place)
        await stream.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".ljust(64))
        await until(lambda: bool(refused))
        assert refused[0][0] == Fault.WRONG_NETWORK.value
        stream.abort()

    _with_listener(test)


@pytest.mark.parametrize(
    "handshakes",
    [Handshakes(count_max=2, count_per_origin_max=64), Handshakes(count_max=64, count_per_origin_max=2)],
    ids=["all", "one origin"],
)
def test_handshakes_that_are_left_keep_nobody_out(handshakes: Handshakes) -> None:
    async def test(listener: PeerListener, refused: list[tuple[str, str]]) -> None:
        idle = []
        for count in (1, 2, 2, 2):
            idle.append(await dial(listener.address.place))
            await until(lambda count=count: listener.unfinished == count)  # type: ignore[misc]
            await asyncio.sleep(0)
        await until(lambda: len(refused) == 2)
        assert {code for code, _ in refused} == {pzp.GAVE_WAY}
        stream = await pzp.dial(listener.address, ALICE)
        await stream.close()
        for one in idle:
            one.abort()

    _with_listener(test, handshakes=handshakes)


def test_a_handshake_has_its_time() -> None:
    """TG-110."""

    async def test(listener: PeerListener, refused: list[tuple[str, str]]) -> None:
        stream = await dial(listener.address.place)
        assert await stream.read() == b""
        assert [code for code, _ in refused] == [Fault.HANDSHAKE_TIMEOUT.value]
        stream.abort()

    _with_listener(test, handshakes=Handshakes(seconds=0.05))


def test_nobody_is_there() -> None:
    async def main() -> None:
        listener = await pzp.listen(HERE, BOB, _echo)
        gone = listener.address
        await listener.close()
        with pytest.raises(TransportError, match="refused"):
            await pzp.dial(gone, ALICE)

    asyncio.run(main())


def test_one_does_not_dial_oneself() -> None:
    async def test(listener: PeerListener, refused: list[tuple[str, str]]) -> None:
        with pytest.raises(UsageError, match="itself"):
            await pzp.dial(listener.address, BOB)
        assert not refused

    _with_listener(test)


def test_peers_are_taken_over_tcp_only() -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="tcp"):
            await pzp.listen(address.parse("ws:localhost"), BOB, _echo)

    asyncio.run(main())
