"""Nodes over real sockets, and in real processes: every transport, and faults of peers, disks and networks."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from bobbin.interlace.config import Open
from bobbin.interlace.limits import Limits
from bobbin.interlace.reasons import Reason
from bobbin.policy.modules import compile_query
from bobbin.records.ids import HashText
from bobbin.runtime import pace
from bobbin.runtime.clock import tai_now
from bobbin.runtime.introduction import introduce
from bobbin.runtime.node import listen_with
from bobbin.runtime.node_settings import LinkBounds, NodeSettings, Reconnecting
from bobbin.runtime.roster import Roster
from bobbin.runtime.status import NodeStatus, decode_status
from bobbin.store.sqlite import open_store
from bobbin.transport import certificate
from bobbin.transport.base import ByteStream, Route, TransportError
from bobbin.transport.dial import dial
from bobbin.transport.tls import TlsServer
from bobbin.wire import address
from bobbin.wire.address import Address, Scheme
from bobbin.wire.proof import Role
from tests.end_to_end.command import environment
from tests.policy_worlds import SHOW_EVERYTHING
from tests.support.exchanges import BY_GROUP, record, records, selector
from tests.support.nodes import ANY_PORT, PATIENCE_SECONDS, Client, Running, key, peer, until

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_NODE: Final = key(1)
_BOB: Final = key(2)
_KNOWN: Final = Roster([peer("bob", _BOB.verifier)])
_QUICK: Final = Reconnecting(delay_seconds_min=0.01, delay_seconds_max=0.1)


async def _open(running: Running) -> ByteStream:
    return await dial(running.node.addresses[0])


# ---- every transport ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["tcp", "unix", "tls", "ws", "wss"])
def test_two_nodes_stay_in_step_over_every_transport(tmp_path: Path, scheme: str) -> None:
    async def run() -> None:
        files = tmp_path / "tls.pem", tmp_path / "tls.key"
        certificate.create(*files, names=["localhost", "127.0.0.1"])
        secure = listen_with(TlsServer(certificate=files[0], key=files[1]))
        where = (
            Address(scheme=Scheme.UNIX, path=str(tmp_path / "s"))
            if scheme == "unix"
            else Address(scheme=Scheme(scheme), host="127.0.0.1", port=0)
        )
        settings = NodeSettings(listen=(where,))
        async with Running(
            tmp_path / "hub", own=_NODE, roster=_KNOWN, settings=settings, in_memory=False, take=secure
        ) as hub:
            hub_peer = peer("hub", _NODE.verifier, address=hub.node.addresses[0], follow=True)
            following = NodeSettings(reconnect=_QUICK)
            async with Running(
                tmp_path / "bob", own=_BOB, roster=Roster([hub_peer]), settings=following, in_memory=False
            ) as bob:
                await hub.put([record(1)])
                await bob.put([record(2)])
                await bob.receive(record(1).hash)
                await hub.receive(record(2).hash)
                (ours,) = await hub.links()
                (theirs,) = await bob.links()
                assert ours.verifier == _BOB.verifier
                assert theirs.verifier == _NODE.verifier
                assert ours.encrypted == theirs.encrypted == (scheme in ("tls", "wss"))

    asyncio.run(run())


# ---- hostile and unlucky peers --------------------------------------------------------------------------------------


def test_streams_that_never_say_anything_do_not_keep_a_known_peer_out(tmp_path: Path) -> None:
    async def run() -> None:
        settings = NodeSettings(listen=(ANY_PORT,), links=LinkBounds(introducing_max=50, introduction_seconds_max=0.5))
        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN, settings=settings, in_memory=False) as node:
            await node.put(records(3))
            port = node.node.addresses[0].port_number
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
            for _, writer in idle[:30]:
                writer.write(b"\xf0")
            await until(lambda: node.node._refused.get("too-many-introductions", 0) >= 23)
            await until(lambda: node.node._refused.get("introduction-timeout", 0) >= 37)
            client = Client(tmp_path / "bob", _BOB)
            assert len((await client.run(await _open(node))).received) == 3
            for _, writer in idle:
                writer.close()
            client.close()

    asyncio.run(run())


async def _write_for_ever(stream: ByteStream, piece: bytes) -> None:
    """Write until the other end lets go."""
    written = 0
    try:
        while written < 10_000_000_000:
            await stream.write(piece)
            written += len(piece)
            # Both ends are in one event loop here, and a write with room does not wait.
            await asyncio.sleep(0)
    except TransportError:
        return
    raise AssertionError("everything was taken")


def test_a_line_without_end_is_cut_off_at_its_bound(tmp_path: Path) -> None:
    async def run() -> None:
        roster = Roster([peer("bob", _BOB.verifier, limits=Limits(max_fact_block_size=100_000))])
        async with Running(tmp_path / "node", own=_NODE, roster=roster, in_memory=False) as node:
            stream = await _open(node)
            await introduce(stream, role=Role.INITIATOR, key=_BOB, admit=lambda found: found)
            await _write_for_ever(stream, b"A" * 65_536)
            await until(lambda: not node.node._links)
            (past,) = (await node.node.status()).past
            assert past.end.reason in (Reason.OVERSIZED_BLOCK, Reason.MALFORMED_BLOCK)
            assert past.bytes_in < 2_000_000, "what came after the bound was thrown away unread"

    asyncio.run(run())


_DEAR_RULES: Final = (
    "Near(P,Q,R) :- Have(P), Have(Q), Have(R).\n"
    "SelectHave(P) :- Near(P,Q,R), Near(R,Q,P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)


def test_rules_made_to_be_dear_end_their_own_link_and_hold_up_no_other(tmp_path: Path) -> None:
    async def run() -> None:
        carol = key(3)
        roster = Roster([peer("bob", _BOB.verifier), peer("carol", carol.verifier)])
        async with Running(tmp_path / "node", own=_NODE, roster=roster, in_memory=False) as node:
            await node.put(records(400))
            steady = Client(tmp_path / "carol", carol, lifecycle=Open())
            staying = asyncio.create_task(steady.run(await _open(node)))
            await until(lambda: steady.fixed_points)
            hostile = Client(tmp_path / "bob", _BOB, rules=selector(_DEAR_RULES))
            attacking = asyncio.create_task(hostile.run(await _open(node)))
            await node.put([record(1_000)])
            await steady.receive(record(1_000).hash)
            await asyncio.wait({attacking})
            await until(lambda: len(node.node._links) == 1)
            (past,) = (await node.node.status()).past
            assert past.end.reason == Reason.EVALUATION
            assert not staying.done()
            assert steady.exchange is not None
            steady.exchange.cancel()
            await staying
            for client in (steady, hostile):
                client.close()

    asyncio.run(run())


async def _another_fixed_point(client: Client, before: int) -> None:
    await until(lambda: client.fixed_points > before)


def test_a_peer_that_begins_empty_rounds_all_the_time_is_slowed_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "WAIT_SECONDS_MAX", 0.02)

    async def run() -> None:
        settings = NodeSettings(listen=(ANY_PORT,), links=LinkBounds(empty_rounds_per_minute_max=2))
        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN, settings=settings, in_memory=False) as node:
            await node.put(records(20))
            client = Client(tmp_path / "bob", _BOB, rules=selector("SelectHave(P) :- Have(P).\n"), lifecycle=Open())
            staying = asyncio.create_task(client.run(await _open(node)))
            await until(lambda: client.fixed_points)
            for number in range(8):
                # The node has each of these already, so the round brings it nothing.
                before = client.fixed_points
                client.store.put_records([record(number)])
                await _another_fixed_point(client, before)
            (link,) = await node.links()
            assert link.slowed >= 5
            assert not staying.done(), "slowed down, not cut off"
            assert client.exchange is not None
            client.exchange.cancel()
            await staying
            client.close()

    asyncio.run(run())


class _StopsReading:
    """A stream that is kept open, and from which nothing is read any more after so many bytes."""

    def __init__(self, stream: ByteStream, *, after_bytes: int) -> None:
        self._stream = stream
        self._left = after_bytes

    @property
    def route(self) -> Route:
        return self._stream.route

    async def read(self) -> bytes:
        if self._left <= 0:
            await asyncio.get_running_loop().create_future()
        data = await self._stream.read()
        self._left -= len(data)
        return data

    async def write(self, data: bytes) -> None:
        await self._stream.write(data)

    async def close(self) -> None:
        await self._stream.close()

    def abort(self) -> None:
        self._stream.abort()


def test_a_peer_that_does_not_read_holds_up_no_other(tmp_path: Path) -> None:
    async def run() -> None:
        carol = key(3)
        roster = Roster([peer("bob", _BOB.verifier, limits=Limits(phase_timeout=2)), peer("carol", carol.verifier)])
        async with Running(tmp_path / "node", own=_NODE, roster=roster, in_memory=False) as node:
            await node.put(records(400, size=50_000))
            client = Client(tmp_path / "bob", _BOB)
            reading = asyncio.create_task(client.run(_StopsReading(await _open(node), after_bytes=1_000_000)))
            await until(lambda: node.node._links)
            honest = Client(tmp_path / "carol", carol)
            assert len((await honest.run(await _open(node))).received) == 400
            await until(lambda: not node.node._links)
            reasons = {past.peer: past.end.reason for past in (await node.node.status()).past}
            assert reasons == {"carol": "fixed-point", "bob": Reason.PHASE_TIMEOUT}
            reading.cancel()
            await asyncio.wait({reading})
            for one in (client, honest):
                one.close()

    asyncio.run(run())


_ASKS_FOR_HIDDEN: Final = (
    "SelectAdvertised(P,S) :- Advertised(P,S), Field(Q,'Group',_,'hidden').\n"
    "SelectHave(P) :- Have(P), Field(Q,'Group',_,'hidden').\n"
)


@pytest.mark.parametrize(("shown", "count"), [(None, 0), (SHOW_EVERYTHING, 3)])
def test_rules_of_a_peer_see_nothing_outside_their_view_over_the_wire(
    tmp_path: Path, shown: str | None, count: int
) -> None:
    async def run() -> None:
        query = None if shown is None else compile_query(shown)
        roster = Roster([peer("bob", _BOB.verifier, selector=selector(BY_GROUP), query=query)])
        async with Running(tmp_path / "node", own=_NODE, roster=roster, in_memory=False) as node:
            await node.put([*records(3), record(600, group="hidden")])
            client = Client(tmp_path / "bob", _BOB, rules=selector(_ASKS_FOR_HIDDEN))
            # Its own side has such a record, so only what the node lets its rules see makes the difference.
            client.store.put_records([record(500, group="hidden")])
            result = await client.run(await _open(node))
            assert result.fixed_point
            assert len(result.received) == count
            client.close()

    asyncio.run(run())


# ---- processes ------------------------------------------------------------------------------------------------------


class _Process:
    def __init__(self, process: "asyncio.subprocess.Process") -> None:
        self.process = process
        self.port = 0

    async def read_line(self) -> bytes:
        assert self.process.stdout is not None
        return await self.process.stdout.readline()

    async def status(self) -> NodeStatus:
        assert self.process.stdin is not None
        self.process.stdin.write(b"status\n")
        await self.process.stdin.drain()
        return decode_status(await self.read_line())

    async def without_links(self) -> NodeStatus:
        """Its status when every link is over."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (status := await self.status()).links:  # noqa: ASYNC110 -- it is another process
                await asyncio.sleep(0.01)
        return status

    async def stream(self) -> ByteStream:
        return await dial(address.parse(f"tcp:127.0.0.1:{self.port}"))


@asynccontextmanager
async def _process(folder: Path, *, own: int = 1, other: int = 2, file_bytes_max: int = 0) -> AsyncIterator[_Process]:
    arguments = [str(folder), str(own), str(other), str(file_bytes_max)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.end_to_end.node_process",
        *arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        cwd=_REPOSITORY,
        limit=64 * 1024 * 1024,
    )
    made = _Process(process)
    try:
        made.port = int(await made.read_line())
        yield made
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def test_a_full_disk_ends_the_link_by_name_keeps_what_was_stored_and_serves_on(tmp_path: Path) -> None:
    async def run() -> None:
        folder = tmp_path / "node"
        async with _process(folder, file_bytes_max=3_000_000) as node:
            client = Client(tmp_path / "bob", _BOB)
            some = records(2_000, size=5_000)
            client.store.put_records(some)
            await client.run(await node.stream())
            status = await node.without_links()
            assert [past.end.reason for past in status.past] == [Reason.STORE]
            assert status.health.startswith("the store failed")
            reader = Client(tmp_path / "reader", _BOB, rules=selector("SelectAdvertised(P,S) :- Advertised(P,S).\n"))
            found = await reader.run(await node.stream())
            assert found.fixed_point, "it serves on"
            assert len(found.received) == status.records
            for one in (client, reader):
                one.close()
        with open_store(folder / "records.db", now=tai_now) as store:
            assert list(store.check()) == []
            kept = [HashText(one.hash) for one in some if store.have(HashText(one.hash))]
            assert len(kept) == status.records

    asyncio.run(run())


def test_a_node_that_is_killed_loses_nothing_and_the_next_one_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        some = records(3_000, size=500)
        client = Client(tmp_path / "bob", _BOB)
        client.store.put_records(some)
        async with _process(tmp_path / "node") as node:
            syncing = asyncio.create_task(client.run(await node.stream()))
            await until(lambda: client.machine is not None and client.machine.phase == "transfer")
            node.process.send_signal(signal.SIGKILL)
            await node.process.wait()
            result = await syncing
            assert not result.fixed_point
            node.process.stdin.close()  # type: ignore[union-attr]
        async with _process(tmp_path / "node") as node:
            result = await client.run(await node.stream())
            assert result.fixed_point
            assert (await node.status()).records == 3_000
        client.close()

    asyncio.run(run())


def test_a_peer_process_that_vanishes_is_a_lost_link(tmp_path: Path) -> None:
    async def run() -> None:
        async with _process(tmp_path / "node") as node:
            client = Client(tmp_path / "bob", _BOB, lifecycle=Open())
            stream = await node.stream()
            staying = asyncio.create_task(client.run(stream))
            await until(lambda: client.fixed_points)
            stream.abort()
            await asyncio.wait({staying})
            status = await node.without_links()
            assert sum(status.ended.values()) == 1
            assert next(iter(status.ended)) in ("fixed-point", "link-lost")
            client.close()
            with socket.create_connection(("127.0.0.1", node.port)) as garbage:
                garbage.sendall(b"\x00" * 10_000)
            again = Client(tmp_path / "again", _BOB)
            assert (await again.run(await node.stream())).fixed_point
            again.close()

    asyncio.run(run())
