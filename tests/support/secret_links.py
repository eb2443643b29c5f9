"""Encrypted streams in memory, and links over them, for tests of what stands on the PZP wire."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from bobbin.transport import secret_stream
from bobbin.transport.muxrpc import Failed, Link, Serve
from bobbin.transport.secret_stream import SecretStream
from tests.support.byte_streams import MemoryStream, stream_pair, whole
from tests.support.pzp_wire import ALICE, BOB


async def secret_pair(
    *,
    cut: Callable[[int], int] = whole,
    **options: Any,  # noqa: ANN401 -- passed on
) -> tuple[SecretStream, SecretStream, MemoryStream, MemoryStream]:
    """Both ends of an encrypted stream, Alice's who dialled and Bob's, and what they run over."""
    ours, theirs = stream_pair(cut=cut, **options)
    called, answered = await asyncio.gather(
        secret_stream.call(ours, ALICE, BOB.public_bytes), secret_stream.answer(theirs, BOB)
    )
    return called, answered, ours, theirs


@asynccontextmanager
async def linked(
    serves: Mapping[tuple[str, ...], Serve],
    *,
    cut: Callable[[int], int] = whole,
    failed: Failed = lambda error: None,  # noqa: ARG005 - nobody wants to hear it
) -> AsyncIterator[tuple[Link, Link]]:
    """Both ends of a link that is running: one that asks, and one that serves. Closed in the end, if still open."""
    ours, theirs, _, _ = await secret_pair(cut=cut)
    asking, serving = Link(ours), Link(theirs, serves=serves, failed=failed)
    tasks = [asyncio.create_task(link.run()) for link in (asking, serving)]
    try:
        yield asking, serving
    finally:
        await asking.close()
        await asyncio.gather(*tasks)
