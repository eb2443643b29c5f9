"""One session over one call: frames move, commits are answered, bad input is reported, and nobody waits for ever."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from bobbin.runtime import tangle_link
from bobbin.runtime.tangle_link import NOT_A_FRAME, Call, QuietPeer, TangleLink, TooMuchAtOnce, at_once
from bobbin.tangles import phases
from bobbin.tangles.message import MessageId
from bobbin.tangles.phases import Have
from bobbin.tangles.ranges import Range
from bobbin.tangles.session import Session, SessionConfig
from bobbin.tangles.session_effects import Effect, Finished, Ignored, Notice, Send
from bobbin.tangles.session_events import Committed, Event, OpenRuns, Received
from bobbin.transport.base import TransportError
from bobbin.transport.muxrpc import Body, Duplex, Link
from bobbin.wire.pzp.faults import WireFault
from bobbin.wire.pzp.frames import Kind
from tests.support.byte_streams import until
from tests.support.secret_links import linked, secret_pair
from tests.support.tangle_keeper import MemoryKeeper
from tests.support.tangle_messages import Author

NAME = ("sync", "connect")
T = TypeVar("T")


class Side:
    """One side of a session over a call."""

    def __init__(self, keeper: MemoryKeeper | None = None, **options: float) -> None:
        self.keeper = MemoryKeeper() if keeper is None else keeper
        self.notices: list[Notice] = []
        self.link: TangleLink | None = None
        self._options = options

    def begin(self, call: Call) -> TangleLink:
        self.link = TangleLink(
            call,
            Session(SessionConfig(checking=True), self.keeper.library),
            self.keeper,
            work=at_once,
            spread=lambda messages: self.link.added(messages) if self.link is not None else None,
            watch=self.notices.append,
            **self._options,  # type: ignore[arg-type]
        )
        return self.link

    async def serve(self, duplex: Duplex) -> None:
        await self.begin(duplex).run()

    @property
    def ignored(self) -> list[str]:
        return [notice.reason for notice in self.notices if isinstance(notice, Ignored)]


def _author(count: int) -> tuple[Author, MemoryKeeper, MessageId]:
    author = Author("alice")
    messages = author.feed(count)
    keeper = MemoryKeeper()
    keeper.add([author.account, *messages])
    return author, keeper, messages[0].id


async def _meet(link: Link, side: Side, tangles: tuple[MessageId, ...]) -> TangleLink:
    """A session to its end."""
    duplex = await link.open(NAME)
    session = side.begin(duplex)
    session.open_runs(tangles)
    running = asyncio.create_task(session.run())
    await session.settled()
    await duplex.end()
    await running
    return session


def test_both_sides_converge_and_the_bytes_are_counted() -> None:
    """TG-002, TG-021, TG-024, as seen on a link."""

    async def main() -> None:
        author, keeper, feed = _author(5)
        ours, theirs = Side(keeper), Side()
        theirs.keeper.add(list(keeper.store)[:4])
        keeper.add([author.post(feed, {"text": "newer"})])
        for side in (ours, theirs):
            side.keeper.goal(feed, "all")
        async with linked({NAME: theirs.serve}) as (asking, _):
            session = await _meet(asking, ours, (feed,))
        assert sorted(ours.keeper.records) == sorted(theirs.keeper.records)
        assert set(session.traffic) == {f"phase {number}" for number in range(1, 10)}
        assert [session.traffic[f"phase {number}"].frames_out for number in range(1, 10)] == [1, 0] * 4 + [1]
        assert theirs.link is not None
        for name, traffic in session.traffic.items():
            assert theirs.link.traffic[name].bytes_in == traffic.bytes_out
            assert theirs.link.traffic[name].bytes_out == traffic.bytes_in
        assert any(isinstance(notice, Finished) for notice in ours.notices)

    asyncio.run(main())


def test_a_run_is_finished_after_its_commit() -> None:
    """TG-129, as far as the driver goes: it answers a commit when that is done, and the notice comes after it."""

    async def main() -> None:
        _, keeper, feed = _author(3)
        ours, theirs = Side(), Side(keeper)
        ours.keeper.goal(feed, "all")
        async with linked({NAME: theirs.serve}) as (asking, _):
            await _meet(asking, ours, (feed,))
        (finished,) = [notice for notice in ours.notices if isinstance(notice, Finished)]
        assert len(finished.added) == 5
        assert len(ours.keeper.commits) == 1

    asyncio.run(main())


def test_more_than_one_frame_can_have_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tangle_link, "BODY_BYTES_MAX", 2_000)

    async def main() -> None:
        _, keeper, feed = _author(5)
        ours, theirs = Side(keeper), Side()
        theirs.keeper.goal(feed, "all")
        async with linked({NAME: theirs.serve}) as (asking, _):
            session = ours.begin(await asking.open(NAME))
            session.open_runs((feed,))
            with pytest.raises(TooMuchAtOnce, match="in one frame of 2,000"):
                await session.run()
        assert not theirs.keeper.records

    asyncio.run(main())


def test_what_comes_to_be_later_goes_out() -> None:
    """TG-100."""

    async def main() -> None:
        author, keeper, feed = _author(3)
        ours, theirs = Side(), Side(keeper)
        ours.keeper.add(list(keeper.store)[:3])
        for side in (ours, theirs):
            side.keeper.goal(feed, "all")
        async with linked({NAME: theirs.serve}) as (asking, _):
            duplex = await asking.open(NAME)
            session = ours.begin(duplex)
            session.open_runs((feed,))
            running = asyncio.create_task(session.run())
            await session.settled()
            await until(lambda: theirs.link is not None and theirs.link._settled.is_set())
            assert theirs.link is not None
            theirs.link.added(keeper.add([author.post(feed, {"text": "later"})]))
            await until(lambda: len(ours.keeper.records) == 6)
            await session.settled()
            await duplex.end()
            await running
        assert sorted(ours.keeper.records) == sorted(theirs.keeper.records)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        (b"{}", Kind.JSON, "malformed-phase"),
        (b"not JSON", Kind.JSON, "malformed-phase"),
        (b'{"id":"x","phase":1,"payload":[0,1]}', Kind.JSON, "malformed-phase"),
        (b"\x80", Kind.BYTES, NOT_A_FRAME),
        (b"text", Kind.TEXT, NOT_A_FRAME),
    ],
)
def test_what_is_no_frame_is_reported_and_the_stream_goes_on(body: bytes, kind: Kind, reason: str) -> None:
    """TG-107."""

    async def main() -> None:
        _, keeper, feed = _author(1)
        theirs = Side(keeper)
        async with linked({NAME: theirs.serve}) as (asking, _):
            duplex = await asking.open(NAME)
            await duplex.send(body, kind)
            await duplex.send(phases.encode(Have(feed, Range(1, 0))))
            answer = await duplex.receive()
            assert answer is not None
            assert b'"phase":2' in answer.data
            await duplex.end()
            assert await duplex.receive() is None
        assert theirs.ignored == [reason]

    asyncio.run(main())


def test_the_end_of_the_call_waits_for_what_came_before_it() -> None:
    """What the peer sent last is stored, though it has gone meanwhile."""

    async def main() -> None:
        _, keeper, feed = _author(4)
        theirs = Side()
        theirs.keeper.goal(feed, "all")
        texts = tuple(message.raw for message in keeper.store)
        async with linked({NAME: theirs.serve}) as (asking, _):
            duplex = await asking.open(NAME)
            await duplex.send(phases.encode(Have(feed, Range(0, 4))))
            await duplex.receive()
            await duplex.send(phases.encode(phases.Messages(feed, texts)))
            await duplex.end()
            assert await duplex.receive() is None
        assert sorted(theirs.keeper.records) == sorted(keeper.records)

    asyncio.run(main())


def test_a_peer_that_says_nothing_is_given_up() -> None:
    async def silent(duplex: Duplex) -> None:
        while await duplex.receive() is not None:
            pass

    async def main() -> None:
        _, keeper, feed = _author(1)
        ours = Side(keeper, quiet_seconds=0.02)
        async with linked({NAME: silent}) as (asking, _):
            duplex = await asking.open(NAME)
            session = ours.begin(duplex)
            session.open_runs((feed,))
            with pytest.raises(QuietPeer, match="said nothing") as caught:
                await session.run()
            assert caught.value.retry
            await duplex.end()

    asyncio.run(main())


class _Stuck:
    """A call whose other side neither says nor takes anything until it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.taken = 0

    async def receive(self) -> Body | None:
        await asyncio.Event().wait()
        return None

    async def send(self, data: bytes, kind: Kind = Kind.JSON) -> None:
        del data, kind
        await self.go_on.wait()
        self.taken += 1


def test_a_peer_that_takes_nothing_is_given_up() -> None:
    async def main() -> None:
        _, keeper, feed = _author(1)
        session = Side(keeper, quiet_seconds=0.02).begin(_Stuck())
        session.open_runs((feed,))
        with pytest.raises(QuietPeer, match="taken nothing"):
            await session.run()

    asyncio.run(main())


def test_a_side_that_has_asked_for_nothing_waits_as_long_as_it_takes() -> None:
    async def main() -> None:
        _, keeper, feed = _author(1)
        theirs = Side(keeper, quiet_seconds=0.001)
        async with linked({NAME: theirs.serve}) as (asking, _):
            duplex = await asking.open(NAME)
            await asyncio.sleep(0.02)
            await duplex.send(phases.encode(Have(feed, Range(1, 0))))
            assert await duplex.receive() is not None
            await duplex.end()
            assert await duplex.receive() is None

    asyncio.run(main())


def test_a_link_that_is_lost_ends_the_session() -> None:
    async def main() -> None:
        _, keeper, feed = _author(1)
        ours = Side(keeper)
        near, far, under, _ = await secret_pair()
        asking = Link(near)
        reading = asyncio.create_task(asking.run())
        session = ours.begin(await asking.open(NAME))
        session.open_runs((feed,))
        running = asyncio.create_task(session.run())
        await until(lambda: bool(session.traffic))
        under.lose()
        with pytest.raises((TransportError, WireFault)):
            await running
        far.abort()
        await asyncio.gather(reading, return_exceptions=True)

    asyncio.run(main())


def test_a_commit_that_was_begun_is_seen_through() -> None:
    """The session is over, and the others still hear of what it has stored."""

    async def main() -> None:
        _, keeper, feed = _author(4)
        theirs = MemoryKeeper()
        theirs.goal(feed, "all")
        spread: list[tuple[MessageId, ...]] = []
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(job: Callable[[], T], /) -> T:
            done = job()
            if isinstance(done, Committed):
                begun.set()
                await go_on.wait()
            return done

        texts = tuple(message.raw for message in keeper.store)
        frames: list[phases.Frame] = [Have(feed, Range(0, 4)), phases.Messages(feed, texts)]

        class Call:
            async def receive(self) -> Body | None:
                if frames:
                    return Body(Kind.JSON, phases.encode(frames.pop(0)))
                await begun.wait()
                raise TransportError("the link broke", retry=True)

            async def send(self, data: bytes, kind: Kind = Kind.JSON) -> None:
                del data, kind

        session = TangleLink(
            Call(), Session(SessionConfig(), theirs.library), theirs, work=slowly, spread=spread.append
        )
        running = asyncio.create_task(session.run())
        await begun.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert not spread
        go_on.set()
        await until(lambda: bool(spread))
        assert len(spread[0]) == 6

    asyncio.run(main())


class _Chatty:
    """A machine that answers every frame with a long one."""

    is_idle = False

    def __init__(self, tangle: MessageId, size: int) -> None:
        self._frame = phases.Messages(tangle, (b'"%b"' % (b"x" * size),))
        self.heard = 0

    def step(self, event: Event) -> Sequence[Effect]:
        if isinstance(event, OpenRuns):
            return (Send(self._frame),) * 50
        if isinstance(event, Received):
            self.heard += 1
            return (Send(self._frame),) if self.heard < 100 else ()
        return ()


def test_two_sides_that_both_say_much_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have far more to say than fits on the way, and all of it arrives: reading does not wait for writing."""
    monkeypatch.setattr(tangle_link, "INBOX_FRAMES_MAX", 2)

    async def main() -> None:
        _, keeper, feed = _author(1)
        machines = [_Chatty(feed, 20_000) for _ in range(2)]

        def link(duplex: Duplex, machine: _Chatty) -> TangleLink:
            return TangleLink(duplex, machine, keeper, work=at_once, spread=lambda _: None)

        async def serve(duplex: Duplex) -> None:
            session = link(duplex, machines[1])
            session.open_runs((feed,))
            await session.run()

        async with linked({NAME: serve}) as (asking, _):
            duplex = await asking.open(NAME)
            session = link(duplex, machines[0])
            session.open_runs((feed,))
            running = asyncio.create_task(session.run())
            await until(lambda: all(machine.heard >= 100 for machine in machines))
            await duplex.end()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


def test_a_full_outbox_stops_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tangle_link, "OUTBOX_BYTES_MAX", 1000)

    async def main() -> None:
        _, keeper, feed = _author(1)
        stuck = _Stuck()
        session = TangleLink(stuck, _Chatty(feed, 2000), keeper, work=at_once, spread=lambda _: None)
        session.open_runs((feed,))
        running = asyncio.create_task(session.run())
        await until(lambda: session._outbox.bytes > 1000)
        assert not session._outbox.room.is_set()
        stuck.go_on.set()
        await until(session._outbox.empty.is_set)
        assert session._outbox.room.is_set()
        assert stuck.taken == 50
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


@pytest.mark.parametrize(("bytes_max", "frames_max"), [(1000, 64), (1_000_000, 1)])
def test_a_peer_is_not_read_while_its_frames_wait(
    monkeypatch: pytest.MonkeyPatch, bytes_max: int, frames_max: int
) -> None:
    """Memory is bounded by bytes and by frames, however slow the store is."""
    monkeypatch.setattr(tangle_link, "INBOX_BYTES_MAX", bytes_max)
    monkeypatch.setattr(tangle_link, "INBOX_FRAMES_MAX", frames_max)

    async def main() -> None:
        _, keeper, feed = _author(1)
        body = Body(Kind.JSON, phases.encode(phases.Messages(feed, (b'"%b"' % (b"x" * 1200),))))
        go_on = asyncio.Event()

        class Call:
            read = 0

            async def receive(self) -> Body | None:
                if self.read == 20:
                    return None
                self.read += 1
                return body

            async def send(self, data: bytes, kind: Kind = Kind.JSON) -> None:
                del data, kind

        async def slowly(job: Callable[[], T], /) -> T:
            await go_on.wait()
            return job()

        call, machine = Call(), _Chatty(feed, 10)
        session = TangleLink(call, machine, keeper, work=slowly, spread=lambda _: None)
        running = asyncio.create_task(session.run())
        for _ in range(200):
            await asyncio.sleep(0)
        assert call.read == 1
        go_on.set()
        await running
        assert machine.heard == 20

    asyncio.run(main())
