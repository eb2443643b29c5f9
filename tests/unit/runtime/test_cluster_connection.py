"""One channel of a client to one node."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import pytest

from bobbin.cluster.names import NodeId
from bobbin.cluster.operations import CounterAdd, Put, Transaction
from bobbin.errors import UsageError
from bobbin.runtime.cluster_connection import Connection
from bobbin.wire.cluster.chain import ChainCommit
from bobbin.wire.cluster.client import Get, Request, Value, decode_requests, encode_answers
from bobbin.wire.cluster.client import Put as PutKey
from bobbin.wire.cluster.frame import Deframer, frame
from bobbin.wire.cluster.lace import LaceWrite

if TYPE_CHECKING:
    from bobbin.transport.flow import FlowStream


class _Silent:
    """A channel that takes frames and answers what it is told to."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.outgoing = self
        self._take: Callable[[bytes], None] = lambda _: None

    def answer(self, answers: list[Value]) -> None:
        self._take(frame(encode_answers(answers)))

    def put(self, data: bytes) -> None:
        self.frames.append(data)

    async def pour(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        await asyncio.Event().wait()

    async def close(self) -> None: ...

    def abort(self) -> None: ...


async def _sent(silent: _Silent, connection: Connection, count: int) -> list[int]:
    """How many requests each frame has that leaves when so many are made in one turn."""
    silent.frames.clear()
    asked = [connection.ask(lambda number: Get(number, b"key"), deadline=1e9) for _ in range(count)]
    await asyncio.sleep(0)
    deframer = Deframer()
    deframer.feed(b"".join(silent.frames))
    numbers = [[request.number for request in decode_requests(payload)] for payload in deframer.drain()]
    silent.answer([Value(number, b"value", 1, 1) for some in numbers for number in some])
    await asyncio.gather(*asked)
    return [len(some) for some in numbers]


def test_requests_of_one_turn_travel_together_also_when_nothing_is_under_way() -> None:
    """If one went ahead alone, the others would wait until a write of its own is durable."""

    async def story() -> None:
        silent = _Silent()
        connection = Connection(cast("FlowStream", silent), NodeId("n1"))
        await asyncio.sleep(0)
        for count in (3, 3, 1):
            assert await _sent(silent, connection, count) == [count]
        # After one that was alone, the next is expected to be, and leaves without waiting for its turn to end.
        assert await _sent(silent, connection, 3) == [1, 2]
        assert await _sent(silent, connection, 3) == [3]
        await connection.close()

    asyncio.run(story())


_ID = bytes(16)


@pytest.mark.parametrize(
    "wrong",
    [
        Get(1, "key"),  # type: ignore[arg-type]
        Get(1, 5),  # type: ignore[arg-type]
        PutKey(1, b"key", "value", b"client", 1),  # type: ignore[arg-type]
        LaceWrite(1, "text"),  # type: ignore[arg-type]
        ChainCommit(1, Transaction(_ID, (Put(b"k", "v"),))),  # type: ignore[arg-type]
        ChainCommit(1, Transaction(_ID, (Put(b"k", object()),))),  # type: ignore[arg-type]
        ChainCommit(1, Transaction(_ID, (CounterAdd(b"k", 1.5),))),  # type: ignore[arg-type]
        ChainCommit(1, Transaction(_ID, (Put(b"k", b"v"),), (), 1.5)),  # type: ignore[arg-type]
    ],
)
def test_a_request_that_no_node_could_read_is_refused_where_it_is_made_and_takes_no_other_along(
    wrong: Request,
) -> None:
    async def story() -> None:
        silent = _Silent()
        connection = Connection(cast("FlowStream", silent), NodeId("n1"))
        await asyncio.sleep(0)
        good = connection.ask(lambda number: Get(number, b"key"), deadline=1e9)
        with pytest.raises(UsageError):
            await connection.ask(lambda _: wrong, deadline=1e9)
        await asyncio.sleep(0)
        deframer = Deframer()
        deframer.feed(b"".join(silent.frames))
        assert [decode_requests(payload) for payload in deframer.drain()] == [[Get(1, b"key")]]
        silent.answer([Value(1, b"value", 1, 1)])
        assert await good == Value(1, b"value", 1, 1)
        await connection.close()

    asyncio.run(story())
