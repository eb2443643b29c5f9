"""Calls over one link: questions, streams both ways, bounds, goodbyes, and links that are lost."""

import asyncio
import json

import pytest

from bobbin.errors import PeerError, ResourceError, UsageError
from bobbin.transport import muxrpc
from bobbin.transport.base import TransportError
from bobbin.transport.muxrpc import Body, CallFailed, Duplex, Link
from bobbin.wire.pzp.calls import Calls, Way
from bobbin.wire.pzp.faults import Fault, WireFault
from bobbin.wire.pzp.frames import GOODBYE, Kind, encode
from tests.support.byte_streams import drip, seeded, until, whole
from tests.support.secret_links import linked, secret_pair

SYNC = ("sync", "connect")
NAME = ("some", "thing")
_HANGS_SECONDS = 10.0
"""After which a test that would wait for ever fails."""


async def _echo(duplex: Duplex) -> None:
    while (body := await duplex.receive()) is not None:
        await duplex.send(body.data, body.kind)


@pytest.mark.parametrize("cut", [whole, drip, seeded(3)], ids=["whole", "drip", "seeded"])
def test_a_stream_both_ways(cut: object) -> None:
    """TG-114."""

    async def main() -> None:
        assert callable(cut)
        async with linked({NAME: _echo}, cut=cut) as (asking, serving):
            first, second = await asking.open(NAME), await asking.open(NAME)
            await first.send(b"[1]")
            await second.send(b"\x00\x01", Kind.BYTES)
            assert await first.receive() == Body(Kind.JSON, b"[1]")
            assert await second.receive() == Body(Kind.BYTES, b"\x00\x01")
            await first.end()
            assert await first.receive() is None
            await second.send(b"[2]")
            assert await second.receive() == Body(Kind.JSON, b"[2]")
            await second.end()
            assert await second.receive() is None
            await second.end()
            assert asking.bytes_out == serving.bytes_in > 0

    asyncio.run(main())


def test_what_is_not_served_is_refused_in_the_words_that_real_peers_know() -> None:
    async def main() -> None:
        async with linked({}) as (asking, _):
            duplex = await asking.open(SYNC)
            with pytest.raises(CallFailed, match="method:sync,connect is not in list of allowed methods"):
                await duplex.receive()
            with pytest.raises(CallFailed, match="method:no,such is not in list"):
                await asking.ask(("no", "such"))
            with pytest.raises(CallFailed, match="not in list"):
                await asking.ask(SYNC)

    asyncio.run(main())


def test_everybody_may_ask_for_the_manifest() -> None:
    async def main() -> None:
        async with linked({NAME: _echo}) as (asking, _):
            said = await asking.ask(("manifest",))
            assert json.loads(said) == {"manifest": "sync", "some": {"thing": "duplex"}}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "said", "is_ours"),
    [
        (PeerError("wrong", "that was wrong of you"), "that was wrong of you", False),
        (UsageError("cannot do that"), muxrpc.FAILED_HERE, True),
        (ResourceError("no space for /somewhere/records.db", retry=True), muxrpc.FAILED_HERE, True),
        (RecursionError("deep"), muxrpc.FAILED_HERE, True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_ends_the_call_and_not_the_link_and_what_is_ours_stays_here(
    error: Exception, said: str, *, is_ours: bool
) -> None:
    async def fail(duplex: Duplex) -> None:
        await duplex.receive()
        raise error

    async def main() -> None:
        heard: list[Exception] = []
        async with linked({NAME: fail, SYNC: _echo}, failed=heard.append) as (asking, _):
            duplex = await asking.open(NAME)
            await duplex.send(b"1")
            for _ in range(2):
                with pytest.raises(CallFailed) as caught:
                    await duplex.receive()
                assert str(caught.value) == said
            assert heard == ([error] if is_ours else [])
            other = await asking.open(SYNC)
            await other.send(b"1")
            assert await other.receive() == Body(Kind.JSON, b"1")
            await other.end()

    asyncio.run(main())


def test_what_nobody_reads_does_not_hold_up_the_link() -> None:
    async def leave(duplex: Duplex) -> None:
        await duplex.receive()

    async def main() -> None:
        async with linked({NAME: leave, SYNC: _echo}) as (asking, _):
            duplex = await asking.open(NAME)
            for _ in range(muxrpc.INBOX_FRAMES_MAX + 10):
                await duplex.send(b"1")
            other = await asking.open(SYNC)
            await other.send(b"2")
            assert await other.receive() == Body(Kind.JSON, b"2")
            await other.end()
            await duplex.end()

    asyncio.run(main())


def test_a_call_with_much_waiting_stops_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(muxrpc, "INBOX_FRAMES_MAX", 3)
    held: list[Duplex] = []
    go_on = asyncio.Event()

    async def hold(duplex: Duplex) -> None:
        held.append(duplex)
        await go_on.wait()
        while await duplex.receive() is not None:
            pass

    async def main() -> None:
        async with linked({NAME: hold}) as (asking, serving):
            duplex = await asking.open(NAME)
            for _ in range(20):
                await duplex.send(b"1")
            await until(lambda: bool(held) and len(held[0]._inbox) == 3)
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(held[0]._inbox) == 3
            go_on.set()
            await duplex.end()
            assert await duplex.receive() is None
            assert serving.bytes_in > 0

    asyncio.run(main())


def test_a_goodbye_ends_the_link_at_both_ends() -> None:
    async def main() -> None:
        ours, theirs, _, _ = await secret_pair()
        asking, serving = Link(ours), Link(theirs, serves={NAME: _echo})
        tasks = [asyncio.create_task(link.run()) for link in (asking, serving)]
        duplex = await asking.open(NAME)
        await asking.close()
        await asyncio.gather(*tasks)
        assert asking.is_over
        assert serving.is_over
        with pytest.raises(TransportError):
            await duplex.receive()
        with pytest.raises(TransportError):
            await duplex.send(b"1")
        with pytest.raises(TransportError):
            await asking.open(NAME)
        await duplex.end()
        await asking.close()

    asyncio.run(main())


def test_a_link_that_is_cut_tells_every_call() -> None:
    async def main() -> None:
        ours, theirs, under, _ = await secret_pair()
        asking, serving = Link(ours), Link(theirs, serves={NAME: _echo})
        tasks = [asyncio.create_task(link.run()) for link in (asking, serving)]
        duplex = await asking.open(NAME)
        await duplex.send(b"1")
        assert await duplex.receive() == Body(Kind.JSON, b"1")
        under.lose()
        with pytest.raises((TransportError, WireFault)):
            await duplex.receive()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, TransportError | WireFault) for end in ends)
        with pytest.raises((TransportError, WireFault)):
            await asking.ask(("manifest",))

    asyncio.run(main())


def test_wrong_bytes_end_the_link() -> None:
    async def main() -> None:
        ours, theirs, _, under = await secret_pair()
        serving = Link(theirs, serves={NAME: _echo})
        running = asyncio.create_task(serving.run())
        await ours.write(b"\xff" * 9)
        with pytest.raises(WireFault) as caught:
            await running
        assert caught.value.fault is Fault.MALFORMED
        assert under.was_aborted
        ours.abort()

    asyncio.run(main())


def test_no_long_frame_is_waited_for_before_a_call_is_open() -> None:
    """A stranger makes this side keep no more than a question."""

    async def main() -> None:
        ours, theirs, _, _ = await secret_pair()
        serving = Link(theirs, serves={NAME: _echo})
        running = asyncio.create_task(serving.run())
        await ours.write(bytes.fromhex("0a0001000100000001"))
        with pytest.raises(WireFault) as caught:
            async with asyncio.timeout(_HANGS_SECONDS):
                await running
        assert caught.value.fault is Fault.OVERSIZED
        assert "65536 bytes, not 65537" in str(caught.value)
        ours.abort()

    asyncio.run(main())


def test_a_long_frame_comes_over_a_call_and_not_behind_it() -> None:
    async def main() -> None:
        async with linked({NAME: _echo}) as (asking, serving):
            duplex = await asking.open(NAME)
            await duplex.send(bytes(200_000), Kind.BYTES)
            assert await duplex.receive() == Body(Kind.BYTES, bytes(200_000))
            assert serving.is_answering
            await duplex.end()
            assert await duplex.receive() is None
            await until(lambda: not serving.is_answering)
            assert serving._calls.open == {}
        ours, theirs, _, _ = await secret_pair()
        running = asyncio.create_task(Link(theirs, serves={NAME: _echo}).run())
        calls = Calls()
        call, question = calls.ask(NAME, Way.DUPLEX)
        await ours.write(b"".join(b"".join(encode(frame)) for frame in (question, calls.end(call))))
        assert await ours.read()
        await ours.write(bytes.fromhex("0a0001000100000002"))
        with pytest.raises(WireFault) as caught:
            async with asyncio.timeout(_HANGS_SECONDS):
                await running
        assert caught.value.fault is Fault.OVERSIZED
        ours.abort()

    asyncio.run(main())


def test_it_is_known_how_long_the_other_side_is_waited_for() -> None:
    async def main() -> None:
        ours, theirs, _, _ = await secret_pair()
        grew: list[int] = []
        serving = Link(theirs, serves={NAME: _echo}, grew=lambda: grew.append(serving.unfinished_bytes))
        assert serving.silent_seconds == 0.0
        running = asyncio.create_task(serving.run())
        await until(lambda: serving.silent_seconds > 0.0)
        await ours.write(bytes.fromhex("0a0000100000000001") + b"12345")
        await until(lambda: bool(grew))
        assert grew == [14]
        serving.abort()
        assert serving.unfinished_bytes == 0
        await asyncio.gather(running, return_exceptions=True)
        assert serving.silent_seconds == 0.0
        ours.abort()

    asyncio.run(main())


def test_a_frame_that_is_too_long_ends_the_link() -> None:
    async def main() -> None:
        ours, theirs, _, _ = await secret_pair()
        serving = Link(theirs, serves={NAME: _echo}, body_bytes_max=1000)
        running = asyncio.create_task(serving.run())
        await ours.write(bytes.fromhex("0a000003e900000001"))
        with pytest.raises(WireFault) as caught:
            await running
        assert caught.value.fault is Fault.OVERSIZED
        ours.abort()

    asyncio.run(main())


def test_an_end_without_a_goodbye_is_no_end() -> None:
    async def main() -> None:
        ours, theirs, _, _ = await secret_pair()
        running = asyncio.create_task(Link(theirs).run())
        await ours.close()
        with pytest.raises(WireFault) as caught:
            await running
        assert caught.value.fault is Fault.TRUNCATED

    asyncio.run(main())


def test_the_goodbye_is_answered() -> None:
    """TG-113: nine zero bytes, both ways, and then the last block."""

    async def main() -> None:
        ours, theirs, _, _ = await secret_pair()
        running = asyncio.create_task(Link(theirs).run())
        await ours.write(GOODBYE)
        assert await ours.read() == GOODBYE
        await running
        await ours.close()

    asyncio.run(main())


def test_a_frame_that_was_broken_off_ends_the_link() -> None:
    """Behind a part of a frame nothing can be understood, so nothing more is said."""

    async def main() -> None:
        ours, theirs, under, _ = await secret_pair(room_bytes=5000)
        link = Link(ours)
        running = asyncio.create_task(link.run())
        duplex = await link.open(NAME)
        sending = asyncio.create_task(duplex.send(bytes(10_000)))
        await until(lambda: len(under.outgoing.written) > 5000)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert link.is_over
        assert under.was_aborted
        written = len(under.outgoing.written)
        await duplex.end("too late")
        with pytest.raises(TransportError, match="broken off"):
            await duplex.send(b"1")
        assert len(under.outgoing.written) == written
        await asyncio.gather(running, return_exceptions=True)
        theirs.abort()

    asyncio.run(main())


def test_letting_go_at_once() -> None:
    async def main() -> None:
        ours, theirs, under, _ = await secret_pair()
        link = Link(ours)
        running = asyncio.create_task(link.run())
        await asyncio.sleep(0)
        link.abort()
        assert link.is_over
        assert under.was_aborted
        await asyncio.gather(running, return_exceptions=True)
        theirs.abort()

    asyncio.run(main())
