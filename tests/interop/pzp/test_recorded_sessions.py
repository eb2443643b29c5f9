"""The recorded sessions once more, with a live peer of Node on one side: both ends come to what was recorded."""

import asyncio
from pathlib import Path

import pytest

from bobbin.runtime.tangle_node import TangleNode
from bobbin.tangles.session_effects import Finished, Notice
from bobbin.wire import address
from bobbin.wire.pzp.address import parse
from tests.interop.pzp.node_peer import NodePeer, NodeProcess, until
from tests.interop.pzp.recordings import Recording
from tests.support.tangle_keeper import MemoryKeeper

SESSIONS = (
    "account-tangle",
    "account-tangle-del",
    "both-empty",
    "dict-from-scratch",
    "feed-all-dialer-empty",
    "feed-all-from-scratch",
    "feed-all-partial",
    "feed-new-account-key",
    "feed-newest5",
    "feed-newest-from-scratch",
    "goal-none-dialer",
    "goal-none-listener",
    "identical",
    "newest-vs-newest",
    "random-feed-2",
    "random-newest-4",
    "random-weave-3",
    "set-from-scratch",
    "set-ghosts",
    "set-moot-only",
    "thread-both-portions",
    "thread-dialer-lacks-root",
)
"""One of each kind; what other recordings add is a matter of the machine, not of the wire."""


async def _check(recording: Recording, ours: str, keeper: MemoryKeeper, theirs: str, peer: NodePeer) -> None:
    async def has_come() -> bool:
        return await peer.records() == recording.after(theirs) and sorted(keeper.records) == recording.after(ours)

    try:
        await until(has_come, "what was recorded")
    except AssertionError:
        assert sorted(keeper.records) == recording.after(ours)
        assert await peer.records() == recording.after(theirs)
        raise


@pytest.mark.parametrize("name", SESSIONS)
def test_we_dial(name: str, process: NodeProcess, tmp_path: Path) -> None:
    """TG-114."""

    async def main() -> None:
        recording = Recording(name)
        async with recording.node_peer(recording.listener, process, tmp_path) as peer:
            keeper = recording.keeper(recording.dialler)
            node = TangleNode(recording.key(recording.dialler), keeper)
            goals = recording.goals(recording.dialler)
            report = await node.sync(parse(await peer.do("address")), goals)
            assert not report.modern
            assert {notice.tangle for notice in report.notices if isinstance(notice, Finished)} == set(goals)
            moved = {name: (traffic.bytes_in, traffic.bytes_out) for name, traffic in report.traffic.items()}
            assert moved == recording.bytes_by_phase(recording.dialler)
            await _check(recording, recording.dialler, keeper, recording.listener, peer)

    asyncio.run(main())


@pytest.mark.parametrize("name", SESSIONS)
def test_we_are_dialled(name: str, process: NodeProcess, tmp_path: Path) -> None:
    """TG-114."""

    async def main() -> None:
        recording = Recording(name)
        keeper = recording.keeper(recording.listener)
        finished: set[str] = set()

        def watch(peer: bytes, notice: Notice) -> None:
            assert peer == recording.key(recording.dialler).public_bytes
            if isinstance(notice, Finished):
                finished.add(notice.tangle)

        async def is_done() -> bool:
            return finished >= set(recording.goals(recording.dialler))

        node = TangleNode(recording.key(recording.listener), keeper, watch=watch)
        listener = await node.listen(address.parse("tcp:127.0.0.1:0", to_listen=True))
        try:
            async with recording.node_peer(recording.dialler, process, tmp_path) as peer:
                await peer.do("start")
                await peer.do("connect", address=str(listener.address))
                await until(is_done, "the end of every run")
                await _check(recording, recording.listener, keeper, recording.dialler, peer)
        finally:
            await node.close()

    asyncio.run(main())
