"""Peers that are dialled: how they are dialled, when the next attempt comes, and what is shown of it."""

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from bobbin.errors import UsageError
from bobbin.interlace.limits import LARGE
from bobbin.runtime.follows import Attempt, Follow, dial_known, failed_connect
from bobbin.runtime.node_settings import Reconnecting
from bobbin.runtime.status import Direction, End, LinkState
from bobbin.transport import certificate
from bobbin.transport.base import ByteStream, TransportError
from bobbin.transport.listen import listen
from bobbin.transport.tls import TlsServer
from bobbin.wire import address
from bobbin.wire.address import Address, Scheme
from tests.policy_worlds import BOB
from tests.support.nodes import peer, until

_FAILED = Attempt(failed_connect("refused"), was_good=False)


def _follow(outcomes: list[Attempt], pauses: Reconnecting) -> tuple[Follow, list[int]]:
    made: list[int] = []

    async def attempt(follow: Follow) -> Attempt:
        made.append(follow.attempts)
        return outcomes[min(len(made) - 1, len(outcomes) - 1)]

    known = peer("bob", BOB, address=address.parse("tcp:127.0.0.1:1"), follow=True)
    return Follow(7, known, attempt, pauses), made


def test_attempts_go_on_and_are_counted_until_one_was_good() -> None:
    async def run() -> None:
        good = Attempt(_FAILED.ended, was_good=True, seconds=1)
        short = Attempt(_FAILED.ended, was_good=True, seconds=0.001)
        pauses = Reconnecting(delay_seconds_min=0.001, delay_seconds_max=0.002)
        follow, made = _follow([_FAILED, _FAILED, short, good, _FAILED], pauses)
        task = asyncio.create_task(follow.run())
        await until(lambda: len(made) >= 6)
        task.cancel()
        await asyncio.wait({task})
        assert made[:6] == [0, 1, 2, 3, 1, 2]

    asyncio.run(run())


def test_a_peer_that_has_moved_is_tried_at_once() -> None:
    async def run() -> None:
        pauses = Reconnecting(delay_seconds_min=3_600, delay_seconds_max=3_600)
        follow, made = _follow([_FAILED], pauses)
        task = asyncio.create_task(follow.run())
        await until(lambda: follow.last_end is not None)
        follow.change(structs.replace(follow.known, limits=LARGE), pauses)
        await asyncio.sleep(0)
        assert len(made) == 1
        follow.change(structs.replace(follow.known, address=address.parse("tcp:127.0.0.1:2")), pauses)
        await until(lambda: len(made) == 2)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(run())


def test_while_nothing_is_up_the_status_says_when_the_next_attempt_comes() -> None:
    async def run() -> None:
        follow, made = _follow([_FAILED], Reconnecting(delay_seconds_min=3_600, delay_seconds_max=3_600))
        assert follow.status().state is LinkState.CONNECTING
        task = asyncio.create_task(follow.run())
        await until(lambda: follow.last_end is not None)
        status = follow.status()
        assert (status.id, status.direction, status.peer) == (7, Direction.OUT, "bob")
        assert status.state is LinkState.WAITING
        assert "until the next attempt" in status.waits
        assert status.last_end is not None
        assert status.last_end.reason == End.CONNECT_FAILED
        follow.hurry()
        await until(lambda: len(made) == 2)
        follow.is_over = True
        follow.hurry()
        await task

    asyncio.run(run())


def test_a_peer_without_address_cannot_be_dialled() -> None:
    with pytest.raises(UsageError, match="no address"):
        asyncio.run(dial_known(peer("bob", BOB)))


def test_a_certificate_is_taken_if_it_is_pinned_or_a_known_key_will_vouch_for_it(tmp_path: Path) -> None:
    async def run() -> None:
        files = tmp_path / "own.pem", tmp_path / "own.key"
        pin = certificate.create(*files, names=["localhost"])

        async def accept(stream: ByteStream) -> None:
            await stream.read()
            await stream.close()

        server = await listen(
            Address(scheme=Scheme.TLS, host="127.0.0.1", port=0),
            accept,
            tls=TlsServer(certificate=files[0], key=files[1]),
        )
        where = server.address
        for known, verified in (
            (peer("pinned", None, address=where, certificate=pin), True),
            (peer("keyed", BOB, address=where), False),
        ):
            stream = await dial_known(known)
            assert stream.route.verified is verified
            assert stream.route.binding == pin
            await stream.close()
        for known in (peer("wrong", BOB, address=where, certificate=b"\x01" * 32), peer("nobody", None, address=where)):
            with pytest.raises(TransportError):
                await dial_known(known)
        await server.close()

    asyncio.run(run())
