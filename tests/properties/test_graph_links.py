"""Mirrors over links that are cut anywhere, stall and break, of a graph whose values and permissions change meanwhile.

The machines are tested by the simulator; this is about their drivers: whatever the links do, once they are left alone
every mirror is what a newcomer with the same permissions gets.
"""

import asyncio
from random import Random
from typing import Final

import pytest

from bobbin.reactive.graph import Cell
from bobbin.reactive.messages import Edge, Node, NodeId, PeerId
from bobbin.reactive.permissions import OpKind
from bobbin.reactive.type_tags import TypeTags
from bobbin.runtime.graph_allowances import Allowance
from bobbin.runtime.graph_channel import Channel, StreamChannel
from bobbin.runtime.graph_client import GraphMirror
from bobbin.runtime.graph_dial import ClientSettings
from bobbin.runtime.graph_link import LinkSettings, ServedLink
from bobbin.runtime.reconnect import Backoff
from tests.support.byte_streams import MemoryStream, seeded, stream_pair
from tests.support.graphs import Sample, run

PEERS: Final = (PeerId(7), PeerId(8), PeerId(9))
PATTERNS: Final = ("figures/*", "figures/one", "sums/*", "made/*", "secret")
STEPS: Final = 80
SMALL: Final = LinkSettings(outbox_frames_max=3)
"""So that an observer that stalls is soon behind."""

State = tuple[frozenset[Node], frozenset[Edge], frozenset[NodeId]]


class _Links:
    """Everybody's links to one graph."""

    def __init__(self, sample: Sample, random: Random) -> None:
        self.sample = sample
        self._random = random
        self._tasks: list[asyncio.Task[str]] = []
        self.streams: dict[PeerId, MemoryStream] = {}

    def mirror(self, peer: PeerId) -> GraphMirror:
        async def dial() -> Channel:
            cut = seeded(self._random.randrange(2**32))
            far, near = stream_pair(cut=cut, room_bytes=self._random.choice((64, 4_096)))
            link = ServedLink(self.sample.host, StreamChannel(near), peer, SMALL)
            self._tasks.append(asyncio.create_task(link.run()))
            self.streams[peer] = near
            return StreamChannel(far)

        backoff = Backoff(first_seconds=0.0005, longest_seconds=0.0005, random=self._random)
        return GraphMirror(dial, peer, ClientSettings(), tags=TypeTags.standard(), backoff=backoff)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _state(mirror: GraphMirror) -> State:
    replica = mirror.machine.replica
    return frozenset(replica.nodes.values()), frozenset(replica.edges), frozenset(replica.roots)


def _change(sample: Sample, links: _Links, made: list[Cell[int]], random: Random) -> None:
    """Something happens."""
    host, peer = sample.host, random.choice(PEERS)
    allowance = Allowance(peer, OpKind.READ, random.choice(PATTERNS))
    match random.randrange(9):
        case 0:
            host.allow(allowance)
        case 1:
            host.forbid(allowance)
        case 2:
            cell = sample.graph.cell(random.randrange(9), tag="i64", key=f"made/{len(made)}/{random.random()}")
            made.append(cell)
        case 3 if made:
            made.pop(random.randrange(len(made))).dispose()
        case 4:
            links.streams[peer].lose()
        case 5:
            stream = links.streams[peer]
            stream.outgoing.stall(stalled=not stream.outgoing.is_stalled)
        case 6:
            sample.secret.set(str(random.random()) * random.choice((1, 500)))
        case _:
            with host.changing():
                sample.one.set(random.randrange(100))
                sample.two.set(random.randrange(100))


async def _agrees(links: _Links, mirror: GraphMirror, peer: PeerId) -> None:
    """Wait until a mirror is what a newcomer gets. Nothing changes any more, so it must come to that."""
    async with links.mirror(peer) as fresh:
        expected = _state(fresh)
    async for _ in mirror.updates():
        if _state(mirror) == expected:
            return


@pytest.mark.parametrize("seed", range(12))
def test_every_mirror_comes_to_what_a_newcomer_gets(seed: int) -> None:
    async def main() -> None:
        random = Random(seed)
        sample = Sample(*(Allowance(peer, OpKind.READ, "figures/*") for peer in PEERS))
        links = _Links(sample, random)
        mirrors = {peer: links.mirror(peer) for peer in PEERS}
        made: list[Cell[int]] = []
        for mirror in mirrors.values():
            await mirror.__aenter__()
        for _ in range(STEPS):
            _change(sample, links, made, random)
            for _ in range(random.choice((0, 1, 5, 50))):
                await asyncio.sleep(0)
        for stream in links.streams.values():
            stream.outgoing.stall(stalled=False)
        for peer, mirror in mirrors.items():
            await _agrees(links, mirror, peer)
            assert not {node.key for node in mirror.nodes.values()} - _allowed(sample, peer)
            await mirror.__aexit__(None, None, None)
        await links.close()

    run(main())


def _allowed(sample: Sample, peer: PeerId) -> set[str | None]:
    """The keys that a peer may read, found the slow way."""
    mine = [one for one in sample.host.allowed if one.peer == peer and one.kind is OpKind.READ]
    return {node.key for node in sample.graph.nodes() if any(one.matches(node.key) for one in mine)}
