"""A link in memory: order, room, and an end that both sides notice."""

import asyncio

import pytest

from bobbin.errors import PeerError
from bobbin.interlace.messages import Request
from bobbin.interlace.reasons import Reason
from bobbin.interlace.state import Awaits
from bobbin.runtime.exchange import LinkEnded
from bobbin.runtime.memory_link import memory_link


def _request(number: int) -> Request:
    return Request(records=(f"P.{number}.H3",))


def test_messages_arrive_in_order_in_both_directions() -> None:
    """ILC-097."""

    async def run() -> None:
        left, right = memory_link()
        for number in range(3):
            await left.send(_request(number))
            await right.send(_request(10 + number))
        assert [await right.receive(Awaits.REQUEST) for _ in range(3)] == [_request(number) for number in range(3)]
        assert [await left.receive(Awaits.REQUEST) for _ in range(3)] == [_request(10 + number) for number in range(3)]

    asyncio.run(run())


def test_a_sender_waits_for_room() -> None:
    async def run() -> None:
        left, right = memory_link()
        sent: list[int] = []

        async def send() -> None:
            for number in range(10):
                await left.send(_request(number))
                sent.append(number)

        sending = asyncio.create_task(send())
        for _ in range(50):
            await asyncio.sleep(0)
        assert 0 < len(sent) < 10
        for number in range(10):
            assert await right.receive(Awaits.REQUEST) == _request(number)
        await sending
        assert len(sent) == 10

    asyncio.run(run())


def test_what_was_sent_before_the_end_still_arrives() -> None:
    """IL-236."""

    async def run() -> None:
        left, right = memory_link()
        await left.send(_request(1))
        await left.close()
        await left.close()
        assert await right.receive(Awaits.REQUEST) == _request(1)
        for _ in range(2):
            with pytest.raises(LinkEnded):
                await right.receive(Awaits.REQUEST)
        with pytest.raises(LinkEnded):
            await left.send(_request(2))

    asyncio.run(run())


def test_a_sender_notices_that_nobody_reads_any_more() -> None:
    """IL-236: also one that waits for room."""

    async def run() -> None:
        left, right = memory_link()

        async def send() -> None:
            while True:
                await left.send(_request(1))

        sending = asyncio.create_task(send())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not sending.done()
        await right.close()
        for _ in range(2):
            with pytest.raises(LinkEnded):
                await (sending if not sending.done() else left.send(_request(2)))

    asyncio.run(run())


def test_an_end_that_is_told_is_heard_behind_what_was_sent() -> None:
    async def run() -> None:
        left, right = memory_link()
        await left.send(_request(1))
        await left.close(Reason.STORE)
        assert await right.receive(Awaits.REQUEST) == _request(1)
        with pytest.raises(PeerError) as ended:
            await right.receive(Awaits.REQUEST)
        assert ended.value.code == Reason.PEER_STORE
        await right.close(Reason.CANCELLED)
        with pytest.raises(LinkEnded):
            await left.receive(Awaits.REQUEST)

    asyncio.run(run())
