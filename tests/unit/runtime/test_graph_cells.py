"""Cells that peers write, in two servers that keep them in step over real links with proven keys."""

import asyncio
from collections.abc import Coroutine

import pytest

from bobbin.errors import UsageError
from bobbin.reactive.crdt import Plane
from bobbin.reactive.messages import CellSet, CrdtOperation, CrdtSync, NodeId, PeerId, Stamp
from bobbin.reactive.permissions import OpKind
from bobbin.records.signing import SigningKey
from bobbin.runtime.graph_allowances import Allowance
from bobbin.runtime.graph_cells import ZEROS, GraphCells, keep_replica
from bobbin.runtime.graph_dial import ClientSettings
from bobbin.runtime.graph_host import GraphHost
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

    def __init__(self, own: SigningKey, other: SigningKey, tags: dict[str, str] | None = None) -> None:
        self.told: list[tuple[str, dict[str, str | int]]] = []
        allowed = [Allowance(OWNER, kind, "*") for kind in (OpKind.READ, OpKind.WRITE)]
        self.host = GraphHost(
            ReactiveContext(), allowed=allowed, tell=lambda word, values: self.told.append((word, dict(values)))
        )
        cells = GraphCells(self.host, TAGS if tags is None else tags)
        self.own, self.other = own, other
        self.replication = cells.replicate(signer_peer(own.verifier), [signer_peer(other.verifier)])
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
