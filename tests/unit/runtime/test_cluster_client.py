"""A client of a cluster."""

import asyncio
import select
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from bobbin.cluster.key_value import SESSION_WINDOW, Kind, Outcome
from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.effects import Role
from bobbin.errors import UsageError
from bobbin.runtime.cluster_client import (
    ClusterClient,
    NotAccepted,
    OutcomeUnknown,
    _Session,
)
from bobbin.runtime.cluster_connection import ClosedByNode
from bobbin.runtime.cluster_members import Directory, KnownMembers
from bobbin.transport.base import TransportError
from bobbin.wire.cluster.client import GREETING, Done
from bobbin.wire.cluster.commands import encode_outcome
from bobbin.wire.cluster.frame import frame
from tests.support.clusters import OPERATOR, Nodes, cluster, until


def _run(tmp_path: Path, count: int, story: Callable[[Nodes], Awaitable[None]]) -> None:
    async def run() -> None:
        async with cluster(tmp_path, count) as nodes:
            await nodes.elected()
            await story(nodes)

    asyncio.run(run())


def test_keys_are_written_compared_read_and_listed(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.client() as client:
            first = await client.put(b"a", b"1")
            assert await client.compare_and_swap(b"a", b"1", b"2")
            swapped = await client.get(b"a")
            # Not always the next place of the log: the node has something of its own to say there.
            assert swapped.value == b"2"
            assert swapped.version > first
            assert not await client.compare_and_swap(b"a", b"1", b"3")
            assert await client.compare_and_swap(b"b", None, b"x")
            found = await client.get(b"a")
            assert (found.value, found.version) == (b"2", swapped.version)
            assert (await client.get(b"a", stale=True)).value is not None
            assert await client.delete(b"b")
            assert not await client.delete(b"b")
            assert [row.key async for row in client.scan()] == [b"a"]
            with pytest.raises(NotAccepted, match="belong to the cluster"):
                await client.put(b"\x00bobbin/member/x", b"")
            with pytest.raises(UsageError):
                await client.put(b"", b"")

    _run(tmp_path, 1, story)


def test_a_scan_goes_on_from_page_to_page(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.client() as client:
            await asyncio.gather(*(client.put(b"%05d" % at, b"v") for at in range(1_500)))
            assert [row.key async for row in client.scan(b"0")] == [b"%05d" % at for at in range(1_500)]

    _run(tmp_path, 1, story)


def test_a_client_follows_the_leader_and_a_retried_write_is_done_once(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.client() as client:
            await client.put(b"counter", b"0")
            for step in range(1, 4):
                old = await nodes.elected()
                target = next(node for node in nodes.running if node is not old)
                # While leadership goes elsewhere: each swap succeeds once, or the next one would find another value.
                swaps = asyncio.create_task(_count(client, 5 * (step - 1), 5 * step))
                await client.transfer(target.node)
                await swaps
            found = await client.get(b"counter")
            assert found.value == b"15"
            leader = await nodes.elected()
            assert (await client.status(leader.node)).role == "leader"
            other = next(node for node in nodes.running if node is not leader)
            assert (await client.status(other.node)).role == "follower"

    _run(tmp_path, 3, story)


async def _count(client: ClusterClient, first: int, last: int) -> None:
    for at in range(first, last):
        assert await client.compare_and_swap(b"counter", b"%d" % at, b"%d" % (at + 1))


def test_by_the_socket_of_a_node_alone(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        leader = await nodes.elected()
        place = nodes.place_of(leader)
        # From then on the leader writes nothing by itself.
        await until(lambda: leader.state.says_who_is_known)
        async with ClusterClient(nodes.known, socket=place.folder / "node.sock", seconds=5) as client:
            await client.put(b"a", b"1")
            assert (await client.members()).directory == leader.directory
            snapshot = await client.snapshot()
            assert snapshot == leader.machine.commit_index
            with pytest.raises(NotAccepted, match="nothing has been applied"):
                await client.snapshot()
        follower = next(one for one in nodes.places if one.node is not leader)
        async with ClusterClient(nodes.known, socket=follower.folder / "node.sock", seconds=0.3) as client:
            with pytest.raises(NotAccepted, match="does not lead"):
                await client.put(b"a", b"2")
            await until(lambda: follower.running.state.table.get(b"a") is not None)
            assert (await client.get(b"a", stale=True)).value == b"1"

    _run(tmp_path, 3, story)


def test_nobody_who_answers_is_an_error_that_may_pass(tmp_path: Path) -> None:
    async def run() -> None:
        nodes = Nodes(tmp_path, 2)
        async with nodes.client(seconds=0.3) as client:
            with pytest.raises(TransportError) as caught:
                await client.put(b"a", b"1")
            assert caught.value.retry
        async with ClusterClient(nodes.known, socket=tmp_path / "node.sock", seconds=0.3) as client:
            with pytest.raises(TransportError, match="no node answers"):
                await client.get(b"a")
        with pytest.raises(UsageError):
            ClusterClient(nodes.known)
        with pytest.raises(UsageError):
            ClusterClient(KnownMembers(directory=Directory()), own=OPERATOR)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("greeting", "change"),
    [(frame(GREETING), OutcomeUnknown), (frame(GREETING)[:3], ClosedByNode), (b"", ClosedByNode)],
    ids=["greeted", "greeted in part", "not greeted"],
)
def test_what_was_asked_is_in_doubt_only_where_the_node_had_let_the_client_in(
    greeting: bytes, change: type[Exception], tmp_path: Path
) -> None:
    """It lets go without reading what comes, and the system makes a reset of that."""

    async def run() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(tmp_path / "node.sock"))
            listening.listen()
            listening.settimeout(0)
            serving = asyncio.create_task(_greet_and_let_go(listening, greeting))
            async with ClusterClient(Nodes(tmp_path, 1).known, socket=tmp_path / "node.sock", seconds=0.3) as client:
                with pytest.raises(ClosedByNode):
                    await client.get(b"a")
                with pytest.raises(change):
                    await client.replace([], [NodeId("n1")])
            serving.cancel()

    asyncio.run(run())


async def _greet_and_let_go(listening: socket.socket, greeting: bytes) -> None:
    while True:
        channel, _ = await asyncio.get_running_loop().sock_accept(listening)
        channel.sendall(greeting)
        while greeting == frame(GREETING) and not select.select([channel], [], [], 0)[0]:  # noqa: ASYNC110
            await asyncio.sleep(0.001)  # until something is unread
        channel.close()


def test_a_node_that_does_not_greet_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bobbin.runtime.cluster_links.DIAL_SECONDS", 0.05)

    async def run() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(tmp_path / "node.sock"))
            listening.listen()
            async with ClusterClient(Nodes(tmp_path, 1).known, socket=tmp_path / "node.sock", seconds=0.3) as client:
                with pytest.raises(TransportError, match="no answer in time"):
                    await client.replace([], [NodeId("n1")])

    asyncio.run(run())


def test_numbers_stay_within_what_the_cluster_remembers() -> None:
    async def run() -> None:
        session = _Session(b"id")
        numbers = [await session.begin() for _ in range(SESSION_WINDOW - 1)]
        assert numbers == list(range(1, SESSION_WINDOW))
        session.end(5)
        waiting = asyncio.create_task(session.begin())
        await asyncio.sleep(0)
        assert not waiting.done()
        session.end(1)
        assert await waiting == SESSION_WINDOW

    asyncio.run(run())


def test_a_node_that_restarts_in_the_middle_costs_nothing(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.client() as client:
            writes = [asyncio.create_task(client.put(b"%d" % at, b"v")) for at in range(200)]
            await asyncio.sleep(0)
            place = nodes.places[0]
            await nodes.stop(place)
            await nodes.start(place)
            versions = await asyncio.gather(*writes)
            assert len(set(versions)) == 200
            assert nodes.leader is not None
            assert nodes.leader.machine.role is Role.LEADER

    _run(tmp_path, 1, story)


def test_a_session_that_is_over_and_cannot_be_replaced_is_a_typed_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            await nodes.elected()
            async with nodes.client() as client:
                await client.put(b"a", b"1")
                expired = Done(1, 1, encode_outcome(Outcome(Kind.EXPIRED, 9)))
                monkeypatch.setattr(client, "_attempt", AsyncMock(return_value=expired))
                monkeypatch.setattr(client, "_open_session", AsyncMock(side_effect=OutcomeUnknown("time is up")))
                with pytest.raises(OutcomeUnknown, match="time is up"):
                    await client.put(b"a", b"2")

    asyncio.run(run())
