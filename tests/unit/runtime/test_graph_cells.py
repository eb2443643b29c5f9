"""Cells that peers write, in two servers that keep them in step over real links with proven keys."""

import asyncio
from collections.abc import Coroutine

import pytest

from bobbin.errors import UsageError
from bobbin.reactive.crdt import Plane
from bobbin.reactive.crdt.plane import TOMBSTONE
from bobbin.reactive.messages import CellSet, CrdtOperation, CrdtSync, NodeId, PeerId, Stamp
from bobbin.reactive.permissions import OpKind
from bobbin.records.signing import SigningKey
from bobbin.runtime.graph_allowances import Allowance
from bobbin.runtime.graph_cells import ZEROS, GraphCells, keep_replica
from bobbin.runtime.graph_dial import ClientSettings
from bobbin.runtime.graph_host import GraphHost
from bobbin.runtime.graph_link import LinkSettings
from bobbin.runtime.graph_peers import OWNER, Credentials, Identities, signer_peer
from bobbin.runtime.graph_server import GraphServer, ServerSettings
from bobbin.runtime.reactive_context import ReactiveContext
from bobbin.runtime.reconnect import Backoff
from bobbin.runtime.replication import now_us
from bobbin.wire import address as addresses
from bobbin.wire.address import Address
from tests.support.byte_streams import until
from tests.support.graphs import run

A, B, C = (SigningKey(bytes(range(first, first + 32))) for first in (1, 2, 3))
TAGS = {"board/text": "string", "board/count": "i64"}
SOON = Backoff(first_seconds=0.02, longest_seconds=0.05)


class Side:
    """One server's graph."""

    def __init__(
        self,
        own: SigningKey,
        other: SigningKey,
        tags: dict[str, str] | None = None,
        frame_bytes_max: int = LinkSettings().frame_bytes_max,
    ) -> None:
        self.told: list[tuple[str, dict[str, str | int]]] = []
        allowed = [Allowance(OWNER, kind, "*") for kind in (OpKind.READ, OpKind.WRITE)]
        self.host = GraphHost(
            ReactiveContext(), allowed=allowed, tell=lambda word, values: self.told.append((word, dict(values)))
        )
        cells = GraphCells(self.host, TAGS if tags is None else tags)
        self.own, self.other = own, other
        self.replication = cells.replicate(
            signer_peer(own.verifier), [signer_peer(other.verifier)], frame_bytes_max=frame_bytes_max
        )
        settings = ServerSettings(identities=Identities(signers=frozenset({other.verifier})), key=own)
        self.server = GraphServer(self.host, settings)

    async def listen(self, place: str = "tcp:127.0.0.1:0") -> Address:
        return await self.server.start(addresses.parse(place, to_listen=True), replication=self.replication)

    def keep(self, place: Address) -> Coroutine[object, object, None]:
        shown = Credentials(key=self.own, verifier=self.other.verifier)
        return keep_replica(self.replication, self.host, place, shown, ClientSettings(), backoff=SOON)

    def write(self, key: str, value: object) -> None:
        node = self.host.graph.keyed(key)
        assert node is not None
        assert node.tag is not None
        with self.host.context.entered():
            self.host.write(OWNER, (CellSet(node.id, self.host.tags.encode(node.tag, value)),))

    def value(self, key: str) -> object:
        node = self.host.graph.keyed(key)
        assert node is not None
        return node.get()

    def words(self) -> list[str]:
        return [word for word, _ in self.told]


async def _stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("place", ["tcp:127.0.0.1:0", "ws:127.0.0.1:0"])
def test_what_is_written_at_either_is_seen_at_both(place: str) -> None:
    async def main() -> None:
        a, b = Side(A, B), Side(B, A)
        a.write("board/text", "before there was a link")
        keeping = asyncio.create_task(b.keep(await a.listen(place)))
        await until(lambda: b.value("board/text") == "before there was a link")
        b.write("board/count", 7)
        await until(lambda: a.value("board/count") == 7)
        a.write("board/count", 0)
        await until(lambda: b.value("board/count") == 0)
        b.write("board/text", "")
        await until(lambda: a.value("board/text") == "")
        assert "replica" in b.words()
        await _stop(keeping)
        await a.server.close()

    run(main())


def test_a_server_that_is_started_again_has_the_cells_from_the_other() -> None:
    async def main() -> None:
        a, b = Side(A, B), Side(B, A)
        place = await a.listen()
        keeping = asyncio.create_task(b.keep(place))
        a.write("board/text", "kept")
        await until(lambda: b.value("board/text") == "kept")
        await a.server.close()
        again = Side(A, B)
        assert again.value("board/text") == ""
        await again.listen(str(place))
        await until(lambda: again.value("board/text") == "kept")
        again.write("board/text", "newer")
        await until(lambda: b.value("board/text") == "newer")
        assert "replica-lost" in b.words()
        await _stop(keeping)
        await again.server.close()

    run(main())


def test_who_has_not_proven_the_expected_key_is_no_replica() -> None:
    """It is told and tried again; the graph is served meanwhile."""

    async def main() -> None:
        a, b = Side(A, B), Side(B, C)
        a.write("board/text", "not for others")
        keeping = asyncio.create_task(b.keep(await a.listen()))
        await until(lambda: b.words().count("replica-lost") > 1)
        assert b.value("board/text") == ""
        assert not keeping.done()
        await _stop(keeping)
        await a.server.close()

    run(main())


@pytest.mark.parametrize("place", ["tcp:127.0.0.1:0", "ws:127.0.0.1:0"])
def test_cells_that_are_longer_together_than_a_frame_arrive(place: str) -> None:
    async def main() -> None:
        tags = {"one": "string", "two": "string"}
        a, b = Side(A, B, tags), Side(B, A, tags)
        for key in tags:
            a.write(key, key * 700_000)
        keeping = asyncio.create_task(b.keep(await a.listen(place)))
        await until(lambda: all(b.value(key) == key * 700_000 for key in tags))
        assert "replica-lost" not in b.words()
        await _stop(keeping)
        await a.server.close()

    run(main())


def test_a_cell_that_is_too_long_for_a_frame_is_told_and_the_others_go_on() -> None:
    async def main() -> None:
        tags = {"long": "bytes", "short": "string"}
        a, b = Side(A, B, tags), Side(B, A, tags)
        a.write("long", b"x" * 3_500_000)
        a.write("short", "hello")
        keeping = asyncio.create_task(b.keep(await a.listen()))
        await until(lambda: b.value("short") == "hello")
        assert [values["reason"] for word, values in a.told if word == "refused"] == ["too-long"]
        a.write("long", b"no more")
        await until(lambda: b.value("long") == b"no more")
        assert "replica-lost" not in b.words()
        await _stop(keeping)
        await a.server.close()

    run(main())


def test_a_frame_is_bounded_by_what_a_link_has_agreed_on() -> None:
    """The other side takes less than this one: what does not fit there is left out there, and told."""

    async def main() -> None:
        tags = {"long": "bytes", "short": "string"}
        a, b = Side(A, B, tags), Side(B, A, tags, frame_bytes_max=100_000)
        a.write("long", b"x" * 200_000)
        a.write("short", "hello")
        keeping = asyncio.create_task(b.keep(await a.listen()))
        await until(lambda: b.value("short") == "hello")
        refused = [values for word, values in a.told if word == "refused"]
        assert [(one["reason"], one["peer"]) for one in refused] == [("too-long", signer_peer(B.verifier))]
        assert b.value("long") == b""
        await _stop(keeping)
        await a.server.close()

    run(main())


def test_whatever_answers_in_place_of_a_replica_is_told_and_tried_again() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main() -> None:
        web = await asyncio.start_server(answer, "127.0.0.1", 0)
        b = Side(B, A)
        place = addresses.parse(f"ws:127.0.0.1:{web.sockets[0].getsockname()[1]}")
        keeping = asyncio.create_task(b.keep(place))
        await until(lambda: keeping.done() or b.words().count("replica-lost") > 1)
        assert not keeping.done()
        await _stop(keeping)
        web.close()

    run(main())


def test_two_servers_that_dial_each_other_have_one_link() -> None:
    async def main() -> None:
        a, b = Side(A, B), Side(B, A)
        places = await a.listen(), await b.listen()
        keeping = [asyncio.create_task(a.keep(places[1])), asyncio.create_task(b.keep(places[0]))]
        await until(lambda: bool(a.replication.peers and b.replication.peers))
        await asyncio.sleep(0.4)
        lost = a.words().count("replica-lost"), b.words().count("replica-lost")
        assert max(lost) <= 2, lost
        a.write("board/count", 7)
        await until(lambda: b.value("board/count") == 7)
        b.write("board/count", 8)
        await until(lambda: a.value("board/count") == 8)
        await asyncio.sleep(0.2)
        assert lost == (a.words().count("replica-lost"), b.words().count("replica-lost"))
        await _stop(*keeping)
        await a.server.close()
        await b.server.close()

    run(main())


def test_a_state_that_is_no_value_is_written_over() -> None:
    a = Side(A, B)
    sender = signer_peer(B.verifier)
    plane = Plane(sender)
    plane.set(NodeId(1), b"not eight", now_us=now_us(), key="board/count")
    a.replication._merge(plane.sync_for(PeerId(9)), sender, now_us())
    a.write("board/count", 5)
    assert (a.value("board/count"), a.replication.plane.state("board/count")) == (5, (5).to_bytes(8, "little"))
    told = [values for word, values in a.told if word == "refused"]
    assert [(one["reason"], one["peer"]) for one in told] == [("not-a-value", sender)] * 2
    a.write("board/count", 6)
    assert a.replication.plane.state("board/count") == (6).to_bytes(8, "little")
    assert len(told) == len([word for word in a.words() if word == "refused"]), "told once"


def test_no_value_is_taken_for_a_removal() -> None:
    async def main() -> None:
        tags = {"raw": "bytes"}
        a, b = Side(A, B, tags), Side(B, A, tags)
        keeping = asyncio.create_task(b.keep(await a.listen()))
        for value in (b"first", TOMBSTONE, TOMBSTONE + b"\0", TOMBSTONE + b"\0\0", TOMBSTONE + b"x", b"\0", b""):
            a.write("raw", value)
            await until(lambda value=value: b.value("raw") == value)  # type: ignore[misc]
            assert a.value("raw") == value
        await _stop(keeping)
        await a.server.close()

    run(main())


def test_a_state_that_is_no_value_changes_nothing_and_is_told() -> None:
    a = Side(A, B)
    a.write("board/count", 5)
    sender = signer_peer(B.verifier)
    plane = Plane(sender)
    plane.set(NodeId(1), b"wrong", now_us=now_us(), key="board/count")
    plane.set(NodeId(2), b"kept for others", now_us=now_us(), key="of/another/server")
    merged = a.replication._merge(plane.sync_for(PeerId(9)), sender, now_us())
    assert merged.applied == 2
    assert a.value("board/count") == 5
    assert [values["reason"] for word, values in a.told if word == "refused"] == ["not-a-value"]
    assert "of/another/server" in a.replication.plane.names()


def test_what_others_than_members_say_is_not_taken() -> None:
    a = Side(A, B)
    stamp = Stamp(now_us(), 0, PeerId(9))
    sync = CrdtSync((CrdtOperation(NodeId(1), "board/text", stamp, b"mine"),))
    assert a.replication._merge(sync, PeerId(9), now_us()).denied == 1
    assert a.value("board/text") == ""


def test_cells_have_the_zero_of_their_tag_and_keys_of_their_own() -> None:
    side = Side(A, B, {f"z/{tag}": tag for tag in ZEROS})
    assert {tag: side.value(f"z/{tag}") for tag in ZEROS} == dict(ZEROS)
    assert side.replication.plane.names() == (), "nobody has written"
    with pytest.raises(UsageError, match="z/i64 already"):
        GraphCells(side.host, {"z/i64": "i64"})
