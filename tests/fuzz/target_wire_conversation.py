"""A whole link from its first byte: any bytes of a peer end it by a known name, whole and in small pieces alike.

A responder that serves peers without proof is given the bytes as if they came from a socket, through the greeting, the
decoder and the machine. What it makes of them is a result or a refusal with a code; it stores the same records, and
whoever has not been let in gets the preface and nothing else.
"""

import asyncio

from bobbin.errors import PeerError
from bobbin.interlace.config import Open
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.reasons import Reason
from bobbin.runtime.exchange import Exchange
from bobbin.runtime.introduction import Introduction, configure, introduce
from bobbin.runtime.stream_link import StreamLink
from bobbin.simulator.holdings import MemoryHoldings
from bobbin.transport.base import ByteStream
from bobbin.wire.greeting import encode_preface
from bobbin.wire.proof import Role
from tests.policy_worlds import EVERYTHING
from tests.support.byte_streams import stream_pair, whole
from tests.support.exchanges import SetClock, records, selector

_PREFACE_SIZE = len(encode_preface(bytes(32)))
_SINGLE_MAX = 4_096
"""Longer inputs go in pieces of several bytes, so that one input stays quick."""
_PIECE = 61
_ROOM = 1 << 40


def one_input(data: bytes) -> None:
    size = 1 if len(data) <= _SINGLE_MAX else _PIECE
    ends = asyncio.run(_converse(data, None)), asyncio.run(_converse(data, size))
    assert ends[0] == ends[1], ends


async def _converse(data: bytes, piece: int | None) -> tuple[str, frozenset[str]]:
    cut = whole if piece is None else lambda _: piece
    theirs, ours = stream_pair(cut=cut, room_bytes=_ROOM)
    theirs.outgoing.written.extend(data)
    theirs.outgoing.end()
    holdings = MemoryHoldings(records(3))
    end, admitted = await _serve(ours, holdings)
    said = bytes(ours.outgoing.written)
    assert admitted or len(said) == _PREFACE_SIZE
    return end, frozenset(holdings.records)


async def _serve(stream: ByteStream, holdings: MemoryHoldings) -> tuple[str, bool]:
    """How it ended, and whether anybody was let in."""
    admitted: list[Introduction] = []
    try:
        introduction, _ = await introduce(stream, role=Role.RESPONDER, key=None, admit=admitted.append)
    except PeerError as error:
        return error.code, bool(admitted)
    config = configure(
        introduction, role=Role.RESPONDER, selector=selector(EVERYTHING), lifecycle=Open(), checking=True
    )
    machine = InterlaceMachine(config, holdings)
    link = StreamLink(stream, introduction.elements, machine)
    result = await Exchange(machine, holdings, link, clock=SetClock()).run()
    return "" if result.reason is None else Reason(result.reason).value, True
