"""The answers to one client."""

import asyncio

from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.phases import Ended
from bobbin.runtime.cluster_members import Rights
from bobbin.runtime.cluster_port import Port
from bobbin.runtime.cluster_settings import ClientBounds
from bobbin.transport.flow import Flow
from bobbin.wire.cluster import client
from bobbin.wire.cluster.chain import ChainChanges, ChainEnded, ChainItem, ChainItems, ChainPage
from bobbin.wire.cluster.client import Answer, Done
from bobbin.wire.cluster.frame import Deframer


class _Flow(Flow):
    """Keeps the answers frame by frame."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[list[Answer]] = []
        self._deframer = Deframer()

    def put(self, data: bytes | memoryview) -> None:
        self._deframer.feed(bytes(data))
        self.frames += [client.decode_answers(payload) for payload in self._deframer.drain()]


def _port(flow: Flow, in_flight: int) -> Port:
    port = Port(flow, Rights.OPERATOR, None, ClientBounds())
    port.in_flight = in_flight
    return port


def test_answers_of_one_turn_share_a_frame_and_the_last_one_does_not_wait() -> None:
    async def story() -> None:
        flow = _Flow()
        port = _port(flow, 3)
        port.answer(Done(1, 1))
        port.answer(Done(2, 2))
        assert flow.frames == []
        port.answer(Done(3, 3))
        assert [len(some) for some in flow.frames] == [3]
        port.in_flight = 2
        port.answer(Done(4, 4))
        await asyncio.sleep(0)
        assert [len(some) for some in flow.frames] == [3, 1]
        assert port.in_flight == 1

    asyncio.run(story())


def test_large_answers_about_a_chain_have_frames_of_their_own() -> None:
    async def story() -> None:
        flow = _Flow()
        port = _port(flow, 9)
        large = ChainItems(1, 1, 1, (ChainItem(bytes(3_000_000), 1),) * 2)
        for answer in (Done(0, 0), large, ChainPage(2, (), 0), ChainChanges(3, (), is_whole=True), Done(4, 4)):
            port.answer(answer)
        assert [[one.number for one in some] for some in flow.frames] == [[0, 1], [2], [3]]
        await asyncio.sleep(0)
        assert len(flow.frames) == 4

    asyncio.run(story())


def test_many_ended_transactions_go_in_frames_that_are_not_too_large() -> None:
    async def story() -> None:
        flow = _Flow()
        count = 11_500
        port = _port(flow, count + 1)
        ended = [ChainEnded(number, Ended.COMMITTED, TxId(bytes(16))) for number in range(count)]
        port.end_all(ended[:3])
        assert flow.frames == [], "others may share the frame"
        port.end_all(ended[3:])
        assert all(4_000 <= len(some) <= 6_000 for some in flow.frames[:2])
        port.answer(Done(count, 1))
        assert [answer.number for some in flow.frames for answer in some] == [*range(count + 1)]
        assert port.in_flight == 0
        await asyncio.sleep(0)

    asyncio.run(story())


def test_a_client_that_leaves_is_let_go_when_all_is_answered() -> None:
    async def story() -> None:
        left: list[bool] = []
        port = _port(_Flow(), 1)
        port.leave(lambda: left.append(True))
        assert (port.is_leaving, left) == (True, [])
        port.answer(Done(1, 1))
        assert left == [True]

    asyncio.run(story())
