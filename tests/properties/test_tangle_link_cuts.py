"""A link under a tangle session breaks anywhere: each side ends with a known error, and the next session works."""

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import PeerError
from bobbin.runtime.tangle_link import TangleLink, at_once
from bobbin.tangles.message import MessageId
from bobbin.tangles.session import Session, SessionConfig
from bobbin.transport import secret_stream
from bobbin.transport.base import TransportError
from bobbin.transport.muxrpc import Duplex, Link
from tests.support.byte_streams import MemoryStream, seeded, stream_pair
from tests.support.pzp_wire import ALICE, BOB
from tests.support.tangle_keeper import MemoryKeeper
from tests.support.tangle_messages import Author

if TYPE_CHECKING:
    from collections.abc import Coroutine

NAME = ("sync", "connect")
AUTHOR = Author("alice")
FEED = AUTHOR.feed(12)
TANGLE = FEED[0].id
COMMON = 7
"""Messages of the feed that both sides have; each has some of the others besides."""


def _keepers() -> tuple[MemoryKeeper, MemoryKeeper]:
    ours, theirs = MemoryKeeper(), MemoryKeeper()
    ours.add([AUTHOR.account, *FEED])
    theirs.add([AUTHOR.account, *FEED[:COMMON]])
    for keeper in (ours, theirs):
        keeper.goal(TANGLE, "all")
    return ours, theirs


def _session(call: Duplex, keeper: MemoryKeeper) -> TangleLink:
    session: list[TangleLink] = []

    def spread(messages: tuple[MessageId, ...]) -> None:
        session[0].added(messages)

    session.append(
        TangleLink(call, Session(SessionConfig(checking=True), keeper.library), keeper, work=at_once, spread=spread)
    )
    return session[0]


async def _dial(stream: MemoryStream, keeper: MemoryKeeper) -> None:
    link = Link(await secret_stream.call(stream, ALICE, BOB.public_bytes))
    reading = asyncio.create_task(link.run())
    try:
        duplex = await link.open(NAME)
        session = _session(duplex, keeper)
        session.open_runs((TANGLE,))
        running = asyncio.create_task(session.run())
        settling = asyncio.create_task(session.settled())
        try:
            await asyncio.wait((running, settling), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
            await duplex.end()
            await running
        finally:
            running.cancel()
            settling.cancel()
            await asyncio.gather(running, settling, return_exceptions=True)
        await link.close()
    finally:
        link.abort()
        await asyncio.gather(reading, return_exceptions=True)


async def _serve(stream: MemoryStream, keeper: MemoryKeeper) -> None:
    async def serve(duplex: Duplex) -> None:
        await _session(duplex, keeper).run()

    await Link(await secret_stream.answer(stream, BOB), serves={NAME: serve}).run()


async def _end_of(side: "Coroutine[None, None, None]") -> Exception | None:
    """How a side has ended; anything that is not a broken link or a peer's fault is let out."""
    try:
        await side
    except (TransportError, PeerError) as error:
        return error
    return None


@pytest.mark.slow
@given(ours_first=st.booleans(), after=st.integers(0, 40_000), backwards=st.booleans(), seed=st.integers(0, 1000))
def test_a_link_that_breaks_anywhere(*, ours_first: bool, after: int, backwards: bool, seed: int) -> None:
    async def main() -> None:
        keepers = _keepers() if ours_first else _keepers()[::-1]
        whole = sorted(_keepers()[0].records)
        near, far = stream_pair(cut=seeded(seed))
        (far if backwards else near).outgoing.drop_after = after
        async with asyncio.timeout(60):
            ends = await asyncio.gather(_end_of(_dial(near, keepers[0])), _end_of(_serve(far, keepers[1])))
        # Without an error on either side, all of it has come.
        if list(ends) == [None, None]:
            assert sorted(keepers[0].records) == sorted(keepers[1].records) == whole
        for keeper in keepers:
            assert set(keeper.records) <= set(whole)
        near, far = stream_pair(cut=seeded(seed + 1))
        async with asyncio.timeout(60):
            again = await asyncio.gather(_end_of(_dial(near, keepers[0])), _end_of(_serve(far, keepers[1])))
        assert list(again) == [None, None]
        assert sorted(keepers[0].records) == sorted(keepers[1].records) == whole

    asyncio.run(main())
