"""Messages to the leaders of other shards."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from bobbin.cluster.transactions.messages import ShardMessage, TxAckMsg
from bobbin.cluster.transactions.names import ShardId, tx_id
from bobbin.runtime import shard_courier
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.shard_courier import Courier
from bobbin.transport.base import TransportError
from bobbin.wire.cluster.chain import ChainSay
from bobbin.wire.cluster.client import Done, Request
from bobbin.wire.cluster.shard_messages import encode

_OWN, _OTHER, _NEAR = ShardId(0), ShardId(1), ShardId(2)
_MESSAGE = TxAckMsg(tx_id(0, bytes(8)), _OWN, success=True)


class _Client:
    """Takes messages when it may."""

    def __init__(self) -> None:
        self.said: list[Request] = []
        self.may = asyncio.Event()
        self.fails = False
        self.is_closed = False

    async def ask(self, kind: type[Done], make: Callable[[int], Request]) -> Done:
        await self.may.wait()
        if self.fails:
            raise TransportError("nobody answers", retry=True)
        self.said.append(make(1))
        return kind(1, 0)

    async def close(self) -> None:
        self.is_closed = True


class _Neighbour:
    def __init__(self) -> None:
        self.is_leading = True
        self.heard: list[tuple[ShardId, ShardMessage]] = []

    def hear(self, sender: ShardId, message: ShardMessage) -> None:
        self.heard.append((sender, message))


def _courier(client: _Client) -> Courier:
    return Courier(_OWN, {_OTHER: lambda: cast(ClusterClient, client)})


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_message_travels_to_another_process() -> None:
    async def story() -> None:
        client = _Client()
        courier = _courier(client)
        courier.send(_OTHER, _MESSAGE)
        client.may.set()
        await _turns()
        assert client.said == [ChainSay(1, _OWN, encode(_MESSAGE))]
        client.fails = True
        courier.send(_OTHER, _MESSAGE)
        courier.send(ShardId(9), _MESSAGE)
        await _turns()
        assert courier.counts == {"shard_messages_sent": 2, "shard_messages_dropped": 1, "shard_messages_lost": 1}
        await courier.close()
        assert client.is_closed
        courier.send(_OTHER, _MESSAGE)
        assert courier.counts["shard_messages_dropped"] == 2

    asyncio.run(story())


def test_nothing_travels_to_a_leader_of_this_process() -> None:
    async def story() -> None:
        client, near = _Client(), _Neighbour()
        courier = _courier(client)
        courier.know({_OWN: near, _OTHER: near, _NEAR: near})
        courier.send(_OTHER, _MESSAGE)
        assert near.heard == []
        await _turns()
        assert near.heard == [(_OWN, _MESSAGE)]
        near.is_leading = False
        client.may.set()
        courier.send(_OTHER, _MESSAGE)
        courier.send(_NEAR, _MESSAGE)
        await _turns()
        assert (len(near.heard), len(client.said)) == (1, 1)
        assert courier.counts["shard_messages_lost"] == 1
        await courier.close()

    asyncio.run(story())


def test_so_many_are_under_way_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr(shard_courier, "UNDER_WAY_MAX", 3)
        client = _Client()
        courier = _courier(client)
        for _ in range(5):
            courier.send(_OTHER, _MESSAGE)
        assert courier.counts["shard_messages_dropped"] == 2
        client.may.set()
        await _turns()
        assert len(client.said) == 3
        monkeypatch.setattr(shard_courier, "BYTES_MAX", 10)
        client.may.clear()
        courier.send(_OTHER, _MESSAGE)  # alone it may be as large as it is
        courier.send(_OTHER, _MESSAGE)
        assert courier.counts["shard_messages_dropped"] == 3
        await courier.close()

    asyncio.run(story())
