"""A link over bytes: the same outcome as in one process, whatever the stream does to them, and every way it can end."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bobbin.errors import PeerError
from bobbin.interlace.config import Bounded, Config, Open
from bobbin.interlace.events import Now, Persisted
from bobbin.interlace.limits import SECOND_NS, Limits, Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Delivered, Setup, Transfer
from bobbin.interlace.reasons import LimitReached, Reason
from bobbin.interlace.result import Result
from bobbin.interlace.setup import Party, own_setup
from bobbin.interlace.state import Awaits, Phase
from bobbin.policy.operands import Operand, Origin
from bobbin.records.ids import Verifier
from bobbin.runtime.exchange import Exchange, LinkEnded
from bobbin.runtime.stream_link import StreamLink
from bobbin.simulator.holdings import MemoryHoldings
from bobbin.wire.elements import Elements
from bobbin.wire.interlace import HELLO_BYTES_MAX, encode
from tests.policy_worlds import ALICE, BOB, EVERYTHING
from tests.support.byte_streams import MemoryStream, drip, run_story, seeded, stream_pair, until
from tests.support.exchanges import (
    BY_GROUP,
    NOBODY,
    PULL,
    PUSH,
    START_NS,
    SetClock,
    Watched,
    config,
    hashes,
    meet,
    record,
    records,
    selector,
)
from tests.support.linked import Linked

T = TypeVar("T")

_LISTED = Service(list_outright_max=1, list_partition_max=2, chunk_records_max=2, request_records_max=5)
"""Everything in small portions: partitions, many parts, many iterations."""


def _proven(verifier: Verifier | None) -> Party:
    return NOBODY if verifier is None else Party(verifier=verifier)


# ---- the same as in one process -------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    here=st.sets(st.integers(0, 30), max_size=16),
    there=st.sets(st.integers(0, 30), max_size=16),
    rules=st.tuples(*[st.sampled_from([EVERYTHING, BY_GROUP, PULL, PUSH, PULL + PUSH])] * 2),
    service=st.sampled_from([Service(), _LISTED]),
    keys=st.sampled_from([(None, None), (ALICE, BOB), (ALICE, None), (None, BOB)]),
)
def test_a_stream_has_the_outcome_of_one_process(
    seed: int,
    here: set[int],
    there: set[int],
    rules: tuple[str, str],
    service: Service,
    keys: tuple[Verifier | None, Verifier | None],
) -> None:
    def some(numbers: set[int]) -> list[MemoryHoldings]:
        made = [record(number, group="u" if number % 3 else "x") for number in sorted(numbers)]
        return [Watched(made), Watched(made)]

    ours, theirs = some(here), some(there)
    own, peer = _proven(keys[0]), _proven(keys[1])
    left = config(rules[0], own=own, peer=peer, service=service, cursor_key="k")
    right = config(rules[1], own=peer, peer=own, service=service, cursor_key="k", initiator=False)
    meeting = meet(
        ours[0],
        theirs[0],
        *rules,
        service=service,
        cursor_key="k",
        own=own,
        peer=peer,
        right={"own": peer, "peer": own},
    )
    expected = meeting.run()
    results = run_story(lambda: Linked(left, right, ours[1], theirs[1], cut=seeded(seed), room_bytes=64).run())
    assert results == expected
    assert set(ours[1].records) == set(ours[0].records)
    assert set(theirs[1].records) == set(theirs[0].records)


def test_one_byte_at_a_time_is_only_slow() -> None:
    here, there = Watched(records(6)), Watched(records(6, first=4))
    left, right = run_story(
        lambda: Linked(
            config(service=_LISTED), config(service=_LISTED, initiator=False), here, there, cut=drip, room_bytes=16
        ).run()
    )
    assert left.fixed_point
    assert right.fixed_point
    assert set(here.records) == set(there.records) == hashes(records(10))


def test_both_sides_can_have_much_to_say_at_once() -> None:
    """More in each direction than fits on the way, so whoever does not read while writing would wait for ever."""
    here, there = Watched(records(40, size=4_000)), Watched(records(40, first=40, size=4_000))
    left, right = run_story(
        lambda: Linked(config(), config(initiator=False), here, there, room_bytes=2_000, cut=seeded(1)).run()
    )
    assert left.fixed_point
    assert right.fixed_point
    assert len(here.records) == len(there.records) == 80


# ---- open and bounded -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lives", [(Bounded(), Open()), (Open(), Bounded())], ids=["bounded-open", "open-bounded"])
def test_a_bounded_side_ends_an_open_one_properly(lives: tuple[Bounded | Open, Bounded | Open]) -> None:
    here, there = Watched(records(3)), Watched(records(3, first=2))
    left, right = run_story(
        lambda: Linked(config(lifecycle=lives[0]), config(lifecycle=lives[1], initiator=False), here, there).run()
    )
    assert (left.fixed_point, left.reason) == (True, None)
    assert (right.fixed_point, right.reason) == (True, None)
    assert set(here.records) == set(there.records)


def test_an_open_link_goes_on_with_records_operands_and_ends() -> None:
    async def work() -> None:
        here, there = Watched([*records(2), record(7, group="x")]), Watched()
        opened = config(BY_GROUP, lifecycle=Open())
        linked = Linked(opened, config(BY_GROUP, lifecycle=Open(), initiator=False), here, there, cut=seeded(3))
        tasks = linked.start()
        await linked.at_rest()
        here.put(record(9))
        linked.left.exchange.wake()
        await until(lambda: record(9).hash in there.records)
        for end in (linked.left, linked.right):
            end.exchange.change_operand(selector(EVERYTHING))
        await until(lambda: record(7, group="x").hash in there.records)
        linked.left.exchange.cancel()
        left, right = await asyncio.gather(*tasks)
        assert left.reason is Reason.CANCELLED
        assert right.reason in (None, Reason.LINK_LOST)

    run_story(work)


# ---- ends -----------------------------------------------------------------------------------------------------------


_BEFORE_END = [Phase.SETUP, Phase.HELLO, Phase.ADVERTISE, Phase.REQUEST, Phase.TRANSFER]


@pytest.mark.parametrize("phase", _BEFORE_END)
@pytest.mark.parametrize("way", ["close", "abort", "lose"])
def test_a_peer_may_go_in_each_phase(phase: Phase, way: str) -> None:
    """The side that stays ends with what it has stored, and the reason says that the link is lost."""

    async def work() -> None:
        here, there = Watched(records(8, size=300)), Watched(records(8, first=8, size=300))
        service = Service(chunk_records_max=1)
        linked = Linked(
            config(service=service),
            config(service=service, initiator=False),
            here,
            there,
            cut=seeded(5),
            room_bytes=100,
        )
        left, right = linked.start()
        await until(lambda: linked.right.machine.phase is phase)
        right.cancel()
        stream = linked.right.stream
        if way == "close":
            await stream.close()
        elif way == "abort":
            stream.abort()
        else:
            stream.lose()
        result = await left
        with pytest.raises(asyncio.CancelledError):
            await right
        assert (result.fixed_point, result.reason) == (False, Reason.LINK_LOST)
        assert result.received == set(here.records) - hashes(records(8, size=300))
        assert linked.left.stream.is_closed

    run_story(work)


@settings(max_examples=80, deadline=None)
@given(after=st.integers(0, 4_000), seed=st.integers(0, 1_000))
def test_a_link_may_break_after_any_byte(after: int, seed: int) -> None:
    """Every complete record that arrived is stored; both sides end; what they report is what they have."""

    async def work() -> tuple[Linked, Result, Result]:
        linked = Linked(
            config(service=_LISTED),
            config(service=_LISTED, initiator=False),
            Watched(records(6)),
            Watched(records(6, first=4)),
            cut=seeded(seed),
            room_bytes=64,
        )
        linked.left.stream.outgoing.drop_after = after
        left, right = await linked.run()
        return linked, left, right

    linked, left, right = run_story(work)
    before = {"left": hashes(records(6)), "right": hashes(records(6, first=4))}
    for name, end, result in (("left", linked.left, left), ("right", linked.right, right)):
        assert result.fixed_point is (result.reason is None)
        assert result.reason in (None, Reason.LINK_LOST)
        assert result.received == set(end.holdings.records) - before[name]
        assert end.stream.is_closed


def test_cancelling_ends_both_sides() -> None:
    async def work() -> None:
        linked = Linked(config(lifecycle=Open()), config(lifecycle=Open(), initiator=False), Watched(), Watched())
        left, right = linked.start()
        await linked.at_rest()
        right.cancel()
        with pytest.raises(asyncio.CancelledError):
            await right
        result = await left
        assert (result.fixed_point, result.reason) == (True, None)
        assert linked.left.stream.is_closed
        assert linked.right.stream.is_closed

    run_story(work)


def test_what_the_transport_said_is_kept() -> None:
    async def work() -> None:
        linked = Linked(config(lifecycle=Open()), config(lifecycle=Open(), initiator=False), Watched(), Watched())
        tasks = linked.start()
        await linked.at_rest()
        linked.left.stream.lose()
        await asyncio.gather(*tasks)
        assert linked.right.link.failure == "the link broke"

    run_story(work)


# ---- time and bounds ------------------------------------------------------------------------------------------------


class _Alone:
    """A side whose peer is bytes that a test writes."""

    def __init__(self, own: Config, holdings: Watched | None = None) -> None:
        self.clock = SetClock()
        self.holdings = holdings or Watched()
        ours, self.peer = stream_pair(room_bytes=1 << 24)
        self.machine = InterlaceMachine(own, self.holdings)
        self.link = StreamLink(ours, Elements(has_preface=False), self.machine)
        self.stream = ours
        self.exchange = Exchange(self.machine, self.holdings, self.link, clock=self.clock)

    async def until_fired(self, task: asyncio.Task[Result], seconds: float) -> Result:
        """The time goes on; something wakes the driver, which looks at its clock."""
        self.clock.move(seconds)
        self.exchange.wake()
        return await task


def _peer_setup() -> bytes:
    """What an honest peer without proof begins with."""
    return b"".join(encode(own_setup(selector(EVERYTHING), own=NOBODY, peer=NOBODY, initiator=False)))


def test_a_setup_that_never_ends_stops_at_the_phase_timeout() -> None:
    async def work() -> Result:
        alone = _Alone(config())
        task = asyncio.create_task(alone.exchange.run())
        await alone.peer.write(_peer_setup()[:-1])
        await until(lambda: alone.link.bytes_in > 0)
        await alone.peer.write(b"# and a comment, to look busy\n")
        return await alone.until_fired(task, 31)

    assert run_story(work).reason is Reason.PHASE_TIMEOUT


def test_a_hello_that_never_ends_stops_at_the_phase_timeout() -> None:
    async def work() -> Result:
        alone = _Alone(config())
        task = asyncio.create_task(alone.exchange.run())
        await alone.peer.write(_peer_setup() + b"HelloRecordFormat('H3')\n")
        await until(lambda: alone.machine.phase is Phase.HELLO)
        await alone.peer.write(b"HelloRecordFormat('H4')\n")
        return await alone.until_fired(task, 31)

    assert run_story(work).reason is Reason.PHASE_TIMEOUT


def test_a_hello_that_never_ends_stops_at_its_bound() -> None:
    async def work() -> tuple[Result, int]:
        alone = _Alone(config())
        task = asyncio.create_task(alone.exchange.run())
        await alone.peer.write(_peer_setup() + b"HelloRecordFormat('H3')\n" * 100_000)
        return await task, alone.machine.config.limits.max_fact_block_size

    result, negotiable = run_story(work)
    assert result.reason is Reason.OVERSIZED_BLOCK
    assert negotiable > HELLO_BYTES_MAX, "what could be negotiated is not waited for"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"K" * 70_000, Reason.OVERSIZED_BLOCK),
        (b"# " + b"x" * 5_000, Reason.OVERSIZED_BLOCK),
        (b"ExchangeOperand('0','x')\n" * 5_000, Reason.OVERSIZED_BLOCK),
        ("🧩: ".encode() + b"R" * 1_000, Reason.MALFORMED_BLOCK),
        (b"\xff", Reason.MALFORMED_BLOCK),
        (record(1).raw, Reason.OUT_OF_PHASE),
        (b"HelloSigner('x')\n\n", Reason.OUT_OF_PHASE),
    ],
)
def test_a_setup_has_its_bounds(raw: bytes, reason: Reason) -> None:
    async def work() -> Result:
        alone = _Alone(config())
        task = asyncio.create_task(alone.exchange.run())
        await alone.peer.write(raw)
        return await task

    result = run_story(work)
    assert result.reason is reason


class _Ahead:
    """A clock that is so much later each time it is read."""

    def __init__(self, seconds: float) -> None:
        self._step_ns = round(seconds * SECOND_NS)
        self._read = 0

    def __call__(self) -> Now:
        self._read += 1
        return Now(tai_ns=START_NS, monotonic_ns=self._read * self._step_ns)


def test_a_slow_drip_ends_at_the_phase_timeout() -> None:
    """One byte now and then keeps no phase alive."""

    async def work() -> Result:
        ours, peer = stream_pair(cut=drip)
        holdings = Watched()
        machine = InterlaceMachine(config(), holdings)
        link = StreamLink(ours, Elements(has_preface=False), machine)
        exchange = Exchange(machine, holdings, link, clock=_Ahead(0.5))
        task = asyncio.create_task(exchange.run())

        async def dripping() -> None:
            while not task.done():
                await peer.write(b"#\n")
                exchange.wake()
                await asyncio.sleep(0)

        asyncio.create_task(dripping()).add_done_callback(lambda done: done.exception())
        return await task

    assert run_story(work).reason is Reason.PHASE_TIMEOUT


def test_what_is_too_large_to_be_sent_is_named() -> None:
    async def work() -> LimitReached:
        limits = Limits(max_fact_block_size=10)
        alone = _Alone(config(limits=limits))
        operand = Operand(module=selector(EVERYTHING).identifier, origin=Origin("source:1"))
        with pytest.raises(LimitReached) as refused:
            await alone.link.send(Setup(index=1, operand=operand))
        return refused.value

    assert run_story(work).limit == "max_fact_block_size"


# ---- transfers ------------------------------------------------------------------------------------------------------


def test_a_transfer_that_falls_quiet_is_stored_as_far_as_it_has_come() -> None:
    """Three records and a half arrive, and then nothing for a while: three are stored before the rest is there."""

    async def work() -> None:
        here, some = Watched(), sorted(records(5, size=2_000), key=lambda one: one.hash)
        held: list[bool] = []

        def cut(waiting: int) -> int:
            way = linked.left.stream.incoming
            at = way.written.find(some[2].raw)
            if at >= 0 and not held:
                held.append(True)
                way.cut_at(at + len(some[2].raw) + 700)
            return waiting

        linked = Linked(config(), config(initiator=False), here, Watched(some), cut=cut, room_bytes=1 << 20)
        stored = asyncio.Event()
        linked.left.notice = lambda event: stored.set() if isinstance(event, Persisted) else None
        left, right = linked.start()
        await stored.wait()
        assert set(here.records) == hashes(some[:3])
        linked.left.stream.incoming.cut_at(None)
        results = await left, await right
        assert all(result.fixed_point for result in results)
        assert set(here.records) == hashes(some)

    run_story(work)


def test_complete_records_before_the_end_of_a_stream_are_kept() -> None:
    async def work() -> None:
        some = records(5, size=2_000)
        linked = Linked(config(), config(initiator=False), Watched(), Watched(some), room_bytes=1 << 20)
        out = linked.right.stream.outgoing
        left, right = linked.start()
        await until(lambda: linked.right.machine.phase is Phase.REQUEST)
        out.drop_after = len(out.written) + 1 + 3 * 2_300
        result, _ = await left, await right
        assert result.reason is Reason.LINK_LOST
        assert len(result.received) in (2, 3)
        assert result.received == set(linked.left.holdings.records)

    run_story(work)


def test_the_parts_of_a_transfer_come_in_order() -> None:
    async def work() -> list[int]:
        link, peer = _transfer_link()
        some = sorted(records(3), key=lambda one: one.hash)
        for one in some:
            await peer.write(one.raw)
        parts = [await link.receive(Awaits.TRANSFER)]
        await peer.write(b"\n")
        parts.append(await link.receive(Awaits.TRANSFER))
        assert all(isinstance(part, Transfer) for part in parts)
        assert [part.last for part in parts if isinstance(part, Transfer)] == [False, True]
        return [len(part.responses) for part in parts if isinstance(part, Transfer)]

    assert run_story(work) == [3, 0]


def _transfer_link() -> tuple[StreamLink, MemoryStream]:
    ours, peer = stream_pair()
    return StreamLink(ours, Elements(has_preface=False), InterlaceMachine(config(), Watched()), quiet_seconds=0), peer


def test_waiting_may_stop_without_losing_a_byte() -> None:
    async def work() -> None:
        link, peer = _transfer_link()
        waiting = asyncio.create_task(link.receive(Awaits.TRANSFER))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        one = record(1)
        await peer.write(one.raw + b"\n")
        part = await link.receive(Awaits.TRANSFER)
        assert part == Transfer(responses=(Delivered(record=one.hash, raw=one.raw),), last=True)

    run_story(work)


def test_the_end_of_a_stream_comes_after_what_was_said() -> None:
    async def work() -> None:
        link, peer = _transfer_link()
        await peer.write(record(1).raw + b"\n")
        await peer.close()
        assert isinstance(await link.receive(Awaits.TRANSFER), Transfer)
        with pytest.raises(LinkEnded):
            await link.receive(Awaits.SETUP)

    run_story(work)


def test_a_stream_that_ends_inside_a_phase_says_so() -> None:
    async def work() -> PeerError:
        link, peer = _transfer_link()
        await peer.write(record(1).raw + record(2).raw[:-1])
        await peer.close()
        assert isinstance(await link.receive(Awaits.TRANSFER), Transfer)
        with pytest.raises(PeerError) as refused:
            await link.receive(Awaits.TRANSFER)
        return refused.value

    error = run_story(work)
    assert error.code == Reason.LINK_LOST
    assert "truncated" in str(error)


# ---- counting -------------------------------------------------------------------------------------------------------


def test_bytes_are_counted_by_phase_on_both_sides_alike() -> None:
    async def work() -> None:
        here, there = Watched(records(5)), Watched(records(5, first=3))
        linked = Linked(config(), config(initiator=False), here, there, cut=seeded(9))
        before = linked.left.link.heard_ns
        await linked.run()
        left, right = linked.left.link, linked.right.link
        assert list(left.traffic) == ["setup", "hello", "advertise", "request", "transfer"]
        for phase, traffic in left.traffic.items():
            other = right.traffic[phase]
            assert (traffic.bytes_in, traffic.bytes_out) == (other.bytes_out, other.bytes_in)
            assert traffic.messages_in
            assert traffic.messages_out
        assert sum(traffic.bytes_out for traffic in left.traffic.values()) == left.bytes_out
        assert left.bytes_out == len(linked.left.stream.outgoing.written) == right.bytes_in
        assert left.heard_ns >= before

    run_story(work)


# ---- work elsewhere -------------------------------------------------------------------------------------------------


def test_large_blocks_are_decoded_where_the_machine_works() -> None:
    async def work() -> int:
        jobs: list[str] = []

        async def count(job: Callable[[], T], /) -> T:
            await asyncio.sleep(0)
            jobs.append("job")
            return job()

        service = Service(list_outright_max=100_000)
        here, there = Watched(records(2_500)), Watched()
        linked = Linked(
            config(BY_GROUP, service=service),
            config(BY_GROUP, service=service, initiator=False),
            here,
            there,
            work=count,
        )
        left, right = await linked.run()
        assert left.fixed_point
        assert right.fixed_point
        steps = len(linked.left.events) + len(linked.right.events)
        return len(jobs) - steps

    assert run_story(work) > 0


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_link_that_is_closed_holds_nothing_of_what_never_became_whole(elsewhere: bool) -> None:  # noqa: FBT001
    async def work() -> None:
        done: list[str] = []

        async def do(job: Callable[[], T], /) -> T:
            done.append("job")
            return job()

        ours, theirs = stream_pair()
        machine = InterlaceMachine(config(), MemoryHoldings())
        elements = Elements(has_preface=False)
        link = StreamLink(ours, elements, machine, work=do if elsewhere else None)
        waiting = asyncio.create_task(link.receive(Awaits.SETUP))
        await theirs.write(b"A" * 1000)
        await until(lambda: elements.buffered == 1000)
        waiting.cancel()
        await link.close()
        assert elements.buffered == 0
        assert bool(done) == elsewhere, "buffers are touched where blocks are decoded"

    run_story(work)
