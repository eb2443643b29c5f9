"""What a peer can leave on a link: a block that is never complete has its time, and a refused one leaves nothing."""

import asyncio
import tracemalloc

import pytest

from bobbin.errors import PeerError
from bobbin.interlace.config import Open
from bobbin.interlace.limits import SECOND_NS, Limits, Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Delivered, Request, Transfer
from bobbin.interlace.reasons import Reason
from bobbin.interlace.result import Result
from bobbin.interlace.state import Awaits
from bobbin.runtime.steps import Steps
from bobbin.runtime.stream_link import StreamLink
from bobbin.wire.elements import Elements
from tests.support.byte_streams import MemoryStream, run_story, stream_pair
from tests.support.collector import without_collector
from tests.support.exchanges import SetClock, Watched, config, record, records
from tests.support.linked import Linked, LinkedEnd

# ---- time -----------------------------------------------------------------------------------------------------------


class _Clock:
    """Stands still until it is set; with a step, it goes on by that each time it is read."""

    def __init__(self, step_seconds: float = 0) -> None:
        self.seconds = 0.0
        self._step = step_seconds

    def __call__(self) -> int:
        self.seconds += self._step
        return round(self.seconds * SECOND_NS)


async def _turns() -> None:
    """Enough for everybody to do what there is to do: nothing here waits for a thread or a timer."""
    for _ in range(100):
        await asyncio.sleep(0)


def test_a_block_that_begins_at_the_fixed_point_is_complete_within_the_time_of_a_phase() -> None:
    """The machine has no timer there but its tick, which a peer can put off for a day."""

    async def work() -> Result:
        clock = _Clock()
        service = Service(tick_interval_ns=24 * 3600 * SECOND_NS)
        own = config(lifecycle=Open(), service=service)
        theirs = config(lifecycle=Open(), service=service, limits=Limits(phase_timeout=7), initiator=False)
        linked = Linked(own, theirs, Watched(), Watched(), monotonic=clock)
        left, right = linked.start()
        await linked.at_rest()
        out = linked.right.stream.outgoing
        await out.write(b"PeerAdvertises('x')\n")
        await _turns()
        clock.seconds += 6.9
        await out.write(b"PeerAdvertises('y')\n")
        await _turns()
        assert linked.left.link.bytes_in == len(out.written)
        assert not left.done()
        clock.seconds += 0.2
        await out.write(b"PeerAdvertises('z')\n")
        result, _ = await asyncio.gather(left, right)
        return result

    result = run_story(work)
    assert result.reason is Reason.PHASE_TIMEOUT
    assert "7 seconds" in result.detail


def test_a_block_that_is_begun_and_left_ends_without_another_byte() -> None:
    """Bytes that stand in the buffer count as much as lines that are held."""

    async def work() -> PeerError:
        clock = _Clock(29.999)
        ours, peer = stream_pair()
        link = StreamLink(ours, Elements(has_preface=False), InterlaceMachine(config(), Watched()), monotonic=clock)
        await peer.write(b"MayReq")
        with pytest.raises(PeerError) as refused:
            await link.receive(Awaits.REQUEST)
        return refused.value

    assert run_story(work).code == Reason.PHASE_TIMEOUT


def test_what_is_no_block_has_no_time_to_end() -> None:
    """A peer may be silent for days, and its comments and whole blocks begin nothing."""

    async def work() -> None:
        clock = _Clock()
        ours, peer = stream_pair()
        link = StreamLink(ours, Elements(has_preface=False), InterlaceMachine(config(), Watched()), monotonic=clock)
        for _ in range(3):
            waiting = asyncio.create_task(link.receive(Awaits.REQUEST))
            for said in (b"# a comment\n", b"# another\n", b"\n"):
                clock.seconds += 1_000
                await peer.write(said)
                await _turns()
            assert await waiting == Request(records=())

    run_story(work)


def test_a_slow_transfer_has_the_time_that_its_machine_gives_it() -> None:
    async def work() -> None:
        clock = _Clock()
        ours, peer = stream_pair()
        machine = InterlaceMachine(config(), Watched())
        link = StreamLink(ours, Elements(has_preface=False), machine, quiet_seconds=0, monotonic=clock)
        one = record(1)
        waiting = asyncio.create_task(link.receive(Awaits.TRANSFER))
        for at in range(len(one.raw)):
            clock.seconds += 1
            await peer.write(one.raw[at : at + 1])
            await _turns()
        part = await waiting
        assert part == Transfer(responses=(Delivered(record=one.hash, raw=one.raw),), last=False)

    run_story(work)


# ---- memory ---------------------------------------------------------------------------------------------------------


class _Spoilt(MemoryStream):
    """A stream whose peer says, instead of its first request, a large block that is whole and wrong."""

    def __init__(self, stream: MemoryStream) -> None:
        super().__init__(stream.route, stream.incoming, stream.outgoing)
        self._left: int | None = None

    async def read(self) -> bytes:
        if self._left is None:
            data = await super().read()
            at = data.find(b"MayRequest(")
            if at >= 0:
                self._left = 100
            if at:
                return data[:at] if at > 0 else data
        assert self._left is not None
        self._left -= 1
        return (b"PeerAdvertises('" + b"P" * 200 + b"','x')\n") * 1_000 if self._left else b"\n"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_refused_block_is_gone_when_its_link_has_ended(elsewhere: bool) -> None:  # noqa: FBT001
    """By itself: the collector may not come for a long time, and the link is still held here."""

    async def work() -> None:
        steps = Steps()
        clock = SetClock()
        ours, theirs = stream_pair()
        here = LinkedEnd(
            config(), Watched(records(3)), _Spoilt(ours), clock=clock, work=steps.turn() if elsewhere else None
        )
        there = LinkedEnd(config(initiator=False), Watched(records(3, first=3)), theirs, clock=clock)
        before = tracemalloc.get_traced_memory()[0]
        result, _ = await asyncio.gather(here.exchange.run(), there.exchange.run())
        assert result.reason is Reason.MALFORMED_BLOCK
        assert here.link.bytes_in > 20_000_000
        assert tracemalloc.get_traced_memory()[1] > before + 20_000_000
        assert tracemalloc.get_traced_memory()[0] < before + 2_000_000
        await steps.close()

    with without_collector():
        tracemalloc.start()
        try:
            run_story(work)
        finally:
            tracemalloc.stop()
