"""Recorded sessions with a live peer and a store on the disk: what was recorded, durable, and read again as it is."""

import asyncio
from pathlib import Path

import pytest

from bobbin.runtime.tangle_library import StoreKeeper
from bobbin.runtime.tangle_node import TangleNode
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.sqlite import open_store
from bobbin.tangles import message as messages
from bobbin.tangles import structures
from bobbin.tangles.canonical import Json
from bobbin.tangles.keys import Keypair
from bobbin.tangles.structures import SPAN_DEFAULT
from bobbin.wire import address
from bobbin.wire.pzp.address import parse
from tests.interop.pzp.node_peer import NodeProcess, until
from tests.interop.pzp.recordings import Recording

SESSIONS = (
    "account-tangle",
    "dict-from-scratch",
    "feed-all-partial",
    "feed-newest5",
    "set-ghosts",
    "thread-both-portions",
)


def _fill(store: TangleStore, recording: Recording, side: str) -> None:
    done = store.commit(recording.messages(side))
    assert not done.refused
    for tangle, goal in recording.peers[side]["goals"]:
        store.set_goal(tangle, goal)


def _records(store: TangleStore) -> list[tuple[str, str]]:
    kept = [messages.decode(one.raw) for one in store.kept()]
    return sorted((one.id, "dataful" if one.has_data else "dataless") for one in kept)


@pytest.mark.parametrize("name", SESSIONS)
def test_we_dial(name: str, process: NodeProcess, tmp_path: Path) -> None:
    recording = Recording(name)
    ours, theirs = recording.dialler, recording.listener
    path = tmp_path / "records.db"

    async def main(store: TangleStore) -> None:
        async with recording.node_peer(theirs, process, tmp_path / "peer") as peer:
            node = TangleNode(recording.key(ours), StoreKeeper(store))
            report = await node.sync(parse(await peer.do("address")), recording.goals(ours))
            assert not report.modern
            moved = {name: (traffic.bytes_in, traffic.bytes_out) for name, traffic in report.traffic.items()}
            assert moved == recording.bytes_by_phase(ours)

            async def has_come() -> bool:
                return await peer.records() == recording.after(theirs)

            await until(has_come, "what was recorded of the other side")

    spans = recording.spans(ours)
    with open_store(path, create=True, now=lambda: 0) as opened:
        store = TangleStore(opened.tangles, span=next(iter(spans.values()), SPAN_DEFAULT))
        _fill(store, recording, ours)
        asyncio.run(main(store))
        assert _records(store) == recording.after(ours)
    with open_store(path, now=lambda: 0) as again:
        assert _records(TangleStore(again.tangles)) == recording.after(ours)
        assert list(again.check()) == []


@pytest.mark.parametrize("name", [name for name in SESSIONS if name != "set-ghosts"])
def test_we_are_dialled(name: str, process: NodeProcess, tmp_path: Path) -> None:
    """In the one that is left out the side that is dialled begins with ghosts, which only its own upkeep can make."""
    recording = Recording(name)
    ours, theirs = recording.listener, recording.dialler

    async def main(store: TangleStore) -> None:
        node = TangleNode(recording.key(ours), StoreKeeper(store))
        listener = await node.listen(address.parse("tcp:127.0.0.1:0", to_listen=True))
        try:
            async with recording.node_peer(theirs, process, tmp_path / "peer") as peer:
                await peer.do("start")
                await peer.do("connect", address=str(listener.address))

                async def has_come() -> bool:
                    return await peer.records() == recording.after(theirs) and _records(store) == recording.after(ours)

                await until(has_come, "what was recorded of both sides")
        finally:
            await node.close()

    spans = recording.spans(ours)
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as opened:
        store = TangleStore(opened.tangles, span=next(iter(spans.values()), SPAN_DEFAULT))
        _fill(store, recording, ours)
        asyncio.run(main(store))
        assert list(opened.check()) == []


def test_ghosts_do_not_come_back(process: NodeProcess, tmp_path: Path) -> None:
    """TG-041, TG-075, TG-088: what our upkeep has deleted a real peer still has, and does not send again."""
    node_key, our_key = Keypair.from_words("alice"), Keypair.from_words("bob")

    async def main(store: TangleStore) -> None:
        async with process.peer(tmp_path / "peer", node_key) as peer:
            account = await peer.do("account", subdomain="person", nonce="here")
            await peer.do("set_load", account=account)
            for _ in range(4):
                await peer.do("set_add", subdomain="names", value="one")
                await peer.do("set_del", subdomain="names", value="one")
            await peer.do("set_add", subdomain="names", value="two")
            feed = await peer.do("set_feed", subdomain="names")
            await peer.do("goal", tangle=feed, goal="set")
            store.set_goal(feed, "set")
            node = TangleNode(our_key, StoreKeeper(store))
            where = parse(await peer.do("address"))
            await node.sync(where, (feed,))
            whole = _records(store)
            assert whole == await peer.records()
            gone = store.collect(strict=True)
            ghosts = set(store.shelf.ghosts(feed).depths)
            assert ghosts
            assert ghosts <= set(gone.deleted)
            kept = _records(store)
            for _ in range(2):
                await node.sync(where, (feed,))
                assert not ghosts & {id for id, _ in _records(store)}
            await peer.do("set_add", subdomain="names", value="three")
            await node.sync(where, (feed,))
            assert {id for id, _ in kept} < {id for id, _ in _records(store)}
            assert not ghosts & {id for id, _ in _records(store)}
            values = structures.set_values(store.tangle(feed), lambda id: _data(store, id))
            assert sorted(map(str, values)) == ["three", "two"]
            assert sorted(await peer.do("set_values", subdomain="names", account=account)) == ["three", "two"]

    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as opened:
        asyncio.run(main(TangleStore(opened.tangles, span=4)))
        assert list(opened.check()) == []


def _data(store: TangleStore, id: str) -> Json:
    found = store.message(id)
    return None if found is None else found.data
