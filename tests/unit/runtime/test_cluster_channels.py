"""Who comes to a node. Strangers and plain TCP are in ``end_to_end/test_cluster_nodes``."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from bobbin.cluster.identity import Identity
from bobbin.cluster.settings import MessageValidationConfig
from bobbin.runtime import cluster_links
from bobbin.runtime.cluster_certificate import make
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.cluster_links import Purpose
from bobbin.runtime.cluster_members import Caller, Rights
from bobbin.transport.base import TransportError
from bobbin.wire.cluster.client import GREETING, Get, Put, decode_answers, encode_requests
from bobbin.wire.cluster.frame import Deframer, frame
from tests.support.clusters import OPERATOR, cluster, until


def test_the_operator_of_this_machine_comes_by_a_private_socket(tmp_path: Path) -> None:
    async def run() -> None:
        # Far longer than the path of a socket may be.
        folder = tmp_path / ("long " * 20) / ("path " * 20)
        folder.mkdir(parents=True)
        async with cluster(folder, 1) as nodes:
            await nodes.elected()
            socket = nodes.places[0].folder / "node.sock"
            assert socket.stat().st_mode & 0o077 == 0
            async with ClusterClient(nodes.known, socket=socket) as client:
                await client.put(b"a", b"1")
        assert not socket.exists()

    asyncio.run(run())


def test_a_request_that_is_none_ends_the_channel_and_no_other(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            node = await nodes.elected()
            place = nodes.places[0]
            async with nodes.client() as client:
                await client.put(b"a", b"1")
                stream = await cluster_links.dial(OPERATOR, place.address, [place.own.certificate], Purpose.CLIENT)
                assert await stream.read() == frame(GREETING)
                await stream.write(frame(b"\xc1"))
                with suppress(TransportError):
                    assert await stream.read() == b""
                assert node.channels.refused["unreadable"] == 1
                await client.put(b"a", b"2")

    asyncio.run(run())


def test_who_is_not_known_any_more_is_let_go_of(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            node = await nodes.elected()
            guest = make(Identity(bytes([70]) * 32))
            caller = Caller(certificate=guest.certificate, rights=Rights.OPERATOR)
            directory = nodes.known.directory
            node.channels.know(type(directory)(directory.members.values(), [*directory.callers.values(), caller]))
            async with ClusterClient(nodes.known, own=guest, seconds=0.5) as client:
                await client.put(b"a", b"1")
                assert node.channels.clients == 1
                node.channels.know(directory)
                await until(lambda: node.channels.clients == 0)
                with pytest.raises(TransportError):
                    await client.get(b"a")

    asyncio.run(run())


def test_a_bad_frame_ends_the_channel_at_once_after_good_ones(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            node = await nodes.elected()
            _, writer = await asyncio.open_unix_connection(nodes.places[0].folder / "node.sock")
            writer.write(frame(encode_requests([Get(1, b"k", linearizable=False)])) + bytes(5))
            await until(lambda: node.channels.refused["malformed"] == 1)
            await until(lambda: node.channels.clients == 0)
            writer.close()

    asyncio.run(run())


def test_a_key_longer_than_the_setting_is_refused_before_it_is_in_a_log(tmp_path: Path) -> None:
    """CL-348."""

    async def run() -> None:
        async with cluster(tmp_path, 1, validation=MessageValidationConfig(max_key_len=20)) as nodes:
            node = await nodes.elected()
            _, writer = await asyncio.open_unix_connection(nodes.places[0].folder / "node.sock")
            writer.write(frame(encode_requests([Put(1, b"l" * 21, b"v", b"", 0)])))
            await until(lambda: node.channels.refused["key"] == 1)
            writer.close()
            async with nodes.client() as client:
                await client.put(b"l" * 20, b"v")
            # Whatever came before that write would have been applied before it.
            assert [item.key for item in node.state.table.scan(b"l", end=b"m", limit=10)] == [b"l" * 20]

    asyncio.run(run())


def test_a_client_that_asks_for_much_and_does_not_read_costs_little(tmp_path: Path) -> None:
    """A frame of a few hundred bytes asks for 40 MB: what is held for it is bounded, and all of it comes in the end."""

    async def run() -> None:
        async with cluster(tmp_path, 1) as nodes:
            node = await nodes.elected()
            async with nodes.client() as client:
                await client.put(b"k", bytes(1_000_000))
            await until(lambda: node.channels.clients == 0)
            reader, writer = await asyncio.open_unix_connection(nodes.places[0].folder / "node.sock")
            writer.write(
                frame(encode_requests([Get(number, b"k", linearizable=number % 2 == 0) for number in range(40)]))
            )
            await until(lambda: any(port._flow.is_full and port._reads for port in node.channels._ports.values()))
            (port,) = node.channels._ports.values()
            for _ in range(20):
                await asyncio.sleep(0)
                assert port._flow._writing().get_write_buffer_size() < 8_000_000
            numbers: set[int] = set()
            deframer = Deframer()
            while len(numbers) < 40:
                deframer.feed(await reader.read(1_000_000))
                for payload in deframer.drain():
                    numbers.update(answer.number for answer in decode_answers(payload))
            writer.close()
            await until(lambda: node.channels.clients == 0)

    asyncio.run(run())
