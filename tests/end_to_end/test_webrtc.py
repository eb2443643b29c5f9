"""A graph in one process and its mirror in another, joined by a data channel that a signaling server brought about."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bobbin.errors import UsageError
from bobbin.reactive.type_tags import TypeTags
from bobbin.runtime.graph_client import GraphMirror
from bobbin.runtime.graph_dial import ClientSettings
from bobbin.runtime.graph_peers import Credentials
from bobbin.runtime.reconnect import Backoff
from bobbin.runtime.signal_client import join
from bobbin.runtime.webrtc import RtcHub, RtcLink, show
from bobbin.transport.base import TransportError
from tests.end_to_end.command import environment
from tests.end_to_end.webrtc_source import CALLER, OBSERVER, SESSION, SOURCE, TOKEN
from tests.support.signal_rooms import run, serving

_MODULE = "tests.end_to_end.webrtc_source"


@asynccontextmanager
async def _source(place: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The other process, once it can be dialled."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", _MODULE, place, stdout=asyncio.subprocess.PIPE, env=environment()
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _until(mirror: GraphMirror, key: str, value: object) -> None:
    async for _ in mirror.updates():
        if mirror.value(key) == value:
            return


@pytest.mark.slow
def test_a_graph_is_mirrored_over_a_data_channel_between_two_processes() -> None:
    """RX-056, RX-058: what is read, what is hidden, what is written back, and what comes of it."""

    async def main() -> None:
        async with serving() as server:
            assert server.address is not None
            async with (
                _source(str(server.address)) as process,
                await join(server.address, SESSION, CALLER) as client,
                RtcHub(client) as hub,
            ):
                # Who shows nothing, or what is not known, has the same id in the room, and is let go.
                for first in (b"token of-nobody-at-all\n", b'{"no":"token"}'):
                    stranger = await hub.dial(SOURCE)
                    await stranger.send(first)
                    with pytest.raises(TransportError):
                        await stranger.receive()
                    await stranger.close()

                async def dial() -> RtcLink:
                    link = await hub.dial(SOURCE)
                    await show(link, Credentials(peer=OBSERVER, token=TOKEN))
                    return link

                async with GraphMirror(
                    dial, OBSERVER, ClientSettings(), tags=TypeTags.standard(), backoff=Backoff()
                ) as mirror:
                    assert mirror.values() == {"left": 1, "right": 2, "total": 3, "text": "x" * 3000}
                    for number in range(10, 40):
                        await mirror.write({"left": number})
                    await mirror.write({"right": 1_000_000})
                    await mirror.acknowledged()
                    await _until(mirror, "text", "x" * 41_000)
                    # The server has done its part: frames go without it.
                    await server.close()
                    await mirror.write({"left": 100})
                    await _until(mirror, "total", 102)
                    shown = mirror.values()
                    assert shown == {"left": 100, "right": 2, "total": 102, "text": "x" * 102_000}
                    with pytest.raises(UsageError, match="secret"):
                        mirror.value("secret")
                    seen = {node.key: node.value for node in mirror.nodes.values()}
                assert process.stdout is not None
                told = json.loads(await process.stdout.read())
                assert told["why"] == "closed"
                assert told["turned"] == 2
                assert told["nodes"].pop("secret") == b"hidden".hex()
                assert told["nodes"] == {key: bytes(value).hex() for key, value in seen.items() if value is not None}  # type: ignore[arg-type]
                assert await process.wait() == 0

    run(main())
