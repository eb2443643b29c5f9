"""A node of a replicated lace, running: it is written, read, restarted, and brought up to date by a snapshot."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path

import pytest

from bobbin.cli.replicated_process import replicated_node
from bobbin.cluster.names import Index, Term
from bobbin.config.layout import Layout
from bobbin.config.replicated import create_nodes, prepare_node
from bobbin.errors import UsageError
from bobbin.runtime.cluster_client import NotAccepted
from bobbin.runtime.log import make_log
from bobbin.runtime.replicated_commands import CompareRoot, encode
from bobbin.runtime.replicated_effects import LeaderEffects
from bobbin.runtime.replicated_keeper import LaceKeeper
from bobbin.runtime.replicated_node import ReplicatedNode
from bobbin.runtime.replicated_proposing import NotHereYet
from bobbin.runtime.single_effects import Fate
from bobbin.store.sqlite import open_store
from tests.conformance.samples import plex
from tests.support.clusters import free_ports, until

LOG = make_log(output=StringIO())


def layouts(folder: Path, count: int) -> list[Layout]:
    ports = free_ports(count)
    made = [
        prepare_node(folder / f"n{number}", listen=f"tls:127.0.0.1:{port}")
        for number, port in enumerate(ports, start=1)
    ]
    create_nodes(made, preset="lan")
    found = [Layout(node.layout.folder.parent) for node in made]
    for layout in found:
        open_store(layout.records, create=True, now=lambda: 0).close()
    return found


@asynccontextmanager
async def running(*folders: Layout) -> AsyncIterator[list[ReplicatedNode]]:
    nodes: list[ReplicatedNode] = []
    contexts = [replicated_node(layout, LOG) for layout in folders]
    try:
        for context in contexts:
            nodes.append(await context.__aenter__())  # noqa: PERF401 -- those before it are left if one fails
        yield nodes
    finally:
        for context, _ in zip(contexts, nodes, strict=False):
            await context.__aexit__(None, None, None)


def test_one_node_takes_and_shows_and_remembers(tmp_path: Path) -> None:
    (layout,) = layouts(tmp_path, 1)

    async def first() -> None:
        async with running(layout) as (node,):
            puts = await asyncio.to_thread(node.store.put_records, [plex(1), plex(2)])
            assert [put.id for put in puts] == [1, 2]
            await asyncio.to_thread(node.store.settle)
            assert node.store.have(plex(2).hash)
            assert node.node.gauges()["lace_high_water"] == 2
            await until(lambda: node.effects.fence is not None)
            assert await asyncio.to_thread(node.effects.once, "mail", lambda: None) is Fate.DONE
            await node.client.snapshot()
            await asyncio.to_thread(node.store.put_records, [plex(3)])

    async def second() -> None:
        async with running(layout) as (node,):
            await asyncio.to_thread(node.store.settle)
            assert [stored.id for stored in node.store.scan()] == [1, 2, 3]
            await until(lambda: node.effects.fence is not None)
            assert await asyncio.to_thread(node.effects.once, "mail", lambda: pytest.fail("again")) is Fate.OVER

    asyncio.run(first())
    asyncio.run(second())


def test_the_root_that_is_shown_is_over_the_records_as_soon_as_they_are_stored(tmp_path: Path) -> None:
    (layout,) = layouts(tmp_path, 1)
    go_on = threading.Event()

    async def run() -> None:
        async with running(layout) as (node,):
            await until(lambda: node.effects.fence is not None)  # which is kept in the store, too
            await asyncio.to_thread(node.store.put_records, [plex(1)])
            before = node.node.report(1).root
            assert before == node.node.report(2).root != b""
            node._keeper.after(go_on.wait)
            putting = asyncio.create_task(asyncio.to_thread(node.store.put_records, [plex(2)]))
            try:
                await until(lambda: node._keeper.queued > node._keeper.state.applied)
                assert node.node.report(3).root == b"", "its thread has not stored it yet"
            finally:
                go_on.set()
            await putting
            assert node.node.report(4).root not in (before, b"")

    asyncio.run(run())


def test_a_request_that_is_no_command_of_a_lace_is_refused(tmp_path: Path) -> None:
    (layout,) = layouts(tmp_path, 1)

    async def run() -> None:
        async with running(layout) as (node,):
            with pytest.raises(NotAccepted, match="no command of a lace"):
                await node.client.propose(b"\x93\x01\x00")
            with pytest.raises(NotAccepted, match="for a client"):
                await node.client.propose(encode(CompareRoot(5, bytes(32))))
            with pytest.raises(UsageError):
                await node.client.propose(b"")

    asyncio.run(run())


def test_a_leader_whose_store_is_behind_takes_nothing_new_until_it_has_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or its event loop would have to wait for the store, and the others would elect somebody else."""
    (layout,) = layouts(tmp_path, 1)

    async def run() -> None:
        async with running(layout) as (node,):
            await asyncio.to_thread(node.store.put_records, [plex(1)])
            with monkeypatch.context() as patch:
                patch.setattr(LaceKeeper, "is_crowded", True)
                late = asyncio.create_task(asyncio.to_thread(node.store.put_records, [plex(2)]))
                await asyncio.sleep(0.2)
                assert not late.done()
                assert not node.store.have(plex(2).hash)
            (put,) = await late
            assert put.id == 2

    asyncio.run(run())


def test_a_leader_tries_again_until_it_may_fire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (layout,) = layouts(tmp_path, 1)
    appoint = LeaderEffects.appoint
    tried: list[Term] = []

    def late(effects: LeaderEffects, term: Term) -> bool:
        tried.append(term)
        if len(tried) < 3:
            raise NotHereYet
        return appoint(effects, term)

    monkeypatch.setattr(LeaderEffects, "appoint", late)
    monkeypatch.setattr("bobbin.runtime.replicated_node.APPOINT_SECONDS", (0.01, 0.02))

    async def run() -> None:
        async with running(layout) as (node,):
            await until(lambda: node.effects.fence is not None)
            assert await asyncio.to_thread(node.effects.once, "a", lambda: None) is Fate.DONE

    asyncio.run(run())
    assert len(tried) == 3
    assert len(set(tried)) == 1, "all in one term"


def test_a_node_that_holds_something_else_halts(tmp_path: Path) -> None:
    (layout,) = layouts(tmp_path, 1)

    async def run() -> None:
        async with running(layout) as (node,):
            await asyncio.to_thread(node.store.put_records, [plex(1)])
            node._keeper._roots[5] = bytes(32)
            node._attachment.note_root(Index(5), b"x" * 32)
            await until(lambda: node.node.is_halted)
            assert "what is stored differs" in str(node.node.over.exception())

    asyncio.run(run())


@pytest.mark.slow
def test_three_nodes_hold_the_same_and_one_that_was_away_gets_a_snapshot(tmp_path: Path) -> None:
    folders = layouts(tmp_path, 3)

    async def run() -> None:
        async with running(*folders[:2]) as (one, two):
            woken: list[int] = []
            two.store.subscribe(woken.append)
            await asyncio.to_thread(one.store.put_records, [plex(number) for number in range(50)])
            await asyncio.to_thread(two.store.settle)
            assert two.store.high_water() == 50
            assert woken, "what came by another node wakes"
            assert await asyncio.to_thread(lambda: two.store.remove(plex(7).hash, reason="a trial"))
            await asyncio.to_thread(one.store.keep, "cursor", "peer/link", b"where")
            for node in (one, two):
                await node.client.snapshot(node.node.node)
            async with running(folders[2]) as (three,):
                await asyncio.to_thread(three.store.settle)
                await until(lambda: three.store.replica() == one.store.replica())
                assert three.store.kept("cursor", "peer/link") == b"where"
                assert not three.store.have(plex(7).hash)
                (put,) = await asyncio.to_thread(three.store.put_records, [plex(100)])
                assert put.id == 51
                leading = [node for node in (one, two, three) if node.effects.fence is not None]
                assert len(leading) <= 1, "one node may fire, and no other"
            assert list(one.store.check()) == []

    asyncio.run(run())
