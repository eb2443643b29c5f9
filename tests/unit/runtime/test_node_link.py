"""One link of a node: every way that it can end has its name, and nobody else notices."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from bobbin.interlace.choice import Strategy
from bobbin.interlace.config import Open
from bobbin.interlace.limits import Limits
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.reasons import Reason
from bobbin.runtime import node_link
from bobbin.runtime.admission import Refusal
from bobbin.runtime.health import Condition, Health
from bobbin.runtime.introduction import NotIntroduced
from bobbin.runtime.introduction import Refusal as IntroductionRefusal
from bobbin.runtime.node_settings import LinkBounds, NodeSettings
from bobbin.runtime.roster import ANONYMOUS, Roster
from bobbin.runtime.status import End, LinkState
from bobbin.store.base import FullStore, StoreError
from bobbin.wire.greeting import encode_preface
from tests.support.byte_streams import FAR
from tests.support.exchanges import record, records
from tests.support.nodes import ANY_PORT, Client, Running, key, peer, until

_NODE: Final = key(1)
_BOB: Final = key(2)
_EVE: Final = key(3)
_PREFACE_BYTES: Final = len(encode_preface(bytes(32)))


def _with_node(
    folder: Path,
    scene: Callable[[Running], Awaitable[None]],
    *,
    roster: Roster | None = None,
    settings: NodeSettings | None = None,
) -> None:
    async def run() -> None:
        known = roster or Roster([peer("bob", _BOB.verifier)])
        async with Running(folder / "node", own=_NODE, roster=known, settings=settings) as running:
            await scene(running)

    asyncio.run(run())


async def _past_reasons(running: Running) -> list[str]:
    status = await running.node.status()
    return [past.end.reason for past in status.past]


def test_a_bounded_peer_gets_what_both_select_and_leaves_at_the_fixed_point(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        await running.put(records(3))
        client = Client(tmp_path / "bob", _BOB)
        client.store.put_records(records(2, first=10))
        result = await client.run(running.open())
        assert result.fixed_point
        assert (len(result.received), len(result.sent)) == (3, 2)
        await until(lambda: not running.node._links)
        (past,) = (await running.node.status()).past
        assert (past.peer, past.verifier) == ("bob", _BOB.verifier)
        assert past.end.reason == End.FIXED_POINT
        assert (past.records_in, past.records_out, past.rounds) == (2, 3, 1)
        assert past.bytes_in > 0
        text = running.serving.meter.expose().decode()
        assert 'bobbin_links_total{end="fixed-point"} 1.0' in text
        assert 'bobbin_links_open{direction="in"} 0.0' in text
        assert 'bobbin_bytes_total{direction="in",phase="transfer"}' in text
        client.close()

    _with_node(tmp_path, scene)


@pytest.mark.parametrize(("strategy", "way"), [(Strategy.AUTO, "comparison"), (Strategy.PARTITIONS, "partitions")])
def test_a_peer_is_told_in_the_way_that_is_noted_for_it(tmp_path: Path, strategy: Strategy, way: str) -> None:
    async def scene(running: Running) -> None:
        await running.put(records(3))
        client = Client(tmp_path / "bob", _BOB)
        result = await client.run(running.open())
        assert result.fixed_point
        assert result.strategies[0] == way
        client.close()

    _with_node(tmp_path, scene, roster=Roster([peer("bob", _BOB.verifier, strategy=strategy)]))


def test_a_stranger_learns_nothing_but_a_preface(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        await running.put(records(3))
        for own, reason in ((_EVE, Refusal.UNKNOWN_KEY), (None, Refusal.NO_PROOF)):
            client = Client(tmp_path / "eve", own)
            stream = running.open()
            with pytest.raises(NotIntroduced):
                await client.run(stream)
            assert len(stream.incoming.written) == _PREFACE_BYTES
            status = await running.node.status()
            assert status.refused[reason] == 1
            assert status.past == ()
            client.close()
        assert [entry["reason"] for entry in running.entries("link-refused")] == ["unknown-key", "no-proof"]
        assert 'bobbin_refused_links_total{reason="unknown-key"} 1.0' in running.serving.meter.expose().decode()

    _with_node(tmp_path, scene)


def test_off_this_machine_an_open_stream_is_refused(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        client = Client(tmp_path / "bob", _BOB)
        stream = running.open(FAR)
        with pytest.raises(NotIntroduced):
            await client.run(stream)
        assert len(stream.incoming.written) == _PREFACE_BYTES
        assert (await running.node.status()).refused == {Refusal.INSECURE: 1}
        client.close()

    known = Roster([peer("bob", _BOB.verifier)], anonymous=peer(ANONYMOUS, None))
    _with_node(tmp_path, scene, roster=known)


@pytest.mark.parametrize(
    ("bytes_", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", Reason.OUT_OF_PHASE),
        (b"\xff" * 100_000, Reason.OUT_OF_PHASE),
        (b"A" * 10_000_000, Reason.OUT_OF_PHASE),
        (encode_preface(bytes(32)) + b"Have('x')\n\n", Reason.MALFORMED_BLOCK),
    ],
)
def test_what_is_no_greeting_is_refused_by_name(tmp_path: Path, bytes_: bytes, reason: Reason) -> None:
    async def scene(running: Running) -> None:
        stream = running.open()
        writing = asyncio.ensure_future(stream.write(bytes_))
        await until(lambda: running.node._refused)
        await asyncio.wait({writing})
        writing.exception()
        assert list((await running.node.status()).refused) == [reason.value]

    _with_node(tmp_path, scene)


def test_a_peer_that_says_nothing_is_let_go_in_time(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        stream = running.open()
        await until(lambda: stream.incoming.written)
        (status,) = await running.links()
        assert status.state is LinkState.INTRODUCING
        assert status.peer is None
        assert status.waits == "for the peer to say who it is"
        await until(lambda: not running.node._links)
        assert (await running.node.status()).refused == {IntroductionRefusal.TIMEOUT: 1}

    settings = NodeSettings(listen=(ANY_PORT,), links=LinkBounds(introduction_seconds_max=0.05))
    _with_node(tmp_path, scene, settings=settings)


def test_a_store_that_cannot_take_more_ends_the_link_and_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(running: Running) -> None:
        first = Client(tmp_path / "first", _BOB)
        first.store.put_records(records(2))
        await first.run(running.open())
        whole = running.store.put_records

        def full(*_: object, **__: object) -> None:
            raise FullStore("cannot write: database or disk is full")

        monkeypatch.setattr(running.store, "put_records", full)
        second = Client(tmp_path / "second", _BOB)
        second.store.put_records(records(2, first=10))
        heard = await second.run(running.open())
        assert heard.reason is Reason.PEER_STORE, "a peer that is told can say what to do"
        await until(lambda: not running.node._links)
        newest = (await running.node.status()).past[0]
        assert newest.end.reason == Reason.STORE
        assert "disk is full" in newest.end.detail
        assert running.node.health.text == "the store failed: cannot write: database or disk is full"
        assert await running.have(record(0).hash)
        monkeypatch.setattr(running.store, "put_records", whole)
        third = Client(tmp_path / "third", _BOB)
        third.store.put_records(records(2, first=10))
        assert (await third.run(running.open())).fixed_point
        assert await running.have(record(10).hash)
        for client in (first, second, third):
            client.close()

    _with_node(tmp_path, scene)


def test_a_store_that_takes_nothing_for_now_is_degraded_until_something_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a replicated lace without a majority: nothing that a restart would mend."""

    async def scene(running: Running) -> None:
        whole = running.store.put_records

        def alone(*_: object, **__: object) -> None:
            raise StoreError("no majority answers", retry=True)

        monkeypatch.setattr(running.store, "put_records", alone)
        client = Client(tmp_path / "bob", _BOB)
        client.store.put_records(records(2))
        assert (await client.run(running.open())).reason is Reason.PEER_STORE
        await until(lambda: not running.node._links)
        expected = Health(
            condition=Condition.DEGRADED, reasons=("the store cannot be written now: no majority answers",)
        )
        assert running.node.health == expected
        assert running.node.health.is_healthy
        monkeypatch.setattr(running.store, "put_records", whole)
        await running.put(records(1, first=10))
        await until(lambda: running.node.health.condition is Condition.OK)
        client.close()

    _with_node(tmp_path, scene)


def test_a_mistake_of_ours_ends_one_link_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(running: Running) -> None:
        steady = Client(tmp_path / "steady", _BOB, lifecycle=Open())
        staying = asyncio.create_task(steady.run(running.open()))
        await until(lambda: steady.fixed_points)

        class Broken(InterlaceMachine):
            def step(self, *_: object, **__: object) -> tuple[()]:
                raise AssertionError("a mistake")

        monkeypatch.setattr(node_link, "InterlaceMachine", Broken)
        unlucky = Client(tmp_path / "unlucky", _BOB)
        result = await unlucky.run(running.open())
        assert result.reason is Reason.LINK_LOST
        monkeypatch.undo()
        await until(lambda: len(running.node._links) == 1)
        assert await _past_reasons(running) == [End.CRASHED]
        (crash,) = running.entries("link-crashed")
        assert "a mistake" in str(crash["exception"])
        await running.put([record(1)])
        await until(lambda: steady.fixed_points > 1)
        assert steady.exchange is not None
        steady.exchange.cancel()
        await staying
        for client in (steady, unlucky):
            client.close()

    _with_node(tmp_path, scene)


def test_a_peer_that_falls_silent_in_a_phase_meets_the_phase_timeout(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        await running.put(records(2))
        client = Client(tmp_path / "bob", _BOB)
        stream = running.open()
        task = asyncio.create_task(client.run(stream))
        # Everything up to its setup arrives, and nothing after that.
        await until(lambda: b"ExchangeOperand" in bytes(stream.outgoing.written))
        stream.outgoing.stall(stalled=True)
        await until(lambda: not running.node._links)
        stream.outgoing.stall(stalled=False)
        await asyncio.wait({task})
        assert await _past_reasons(running) == [Reason.PHASE_TIMEOUT]
        task.result()
        client.close()

    _with_node(tmp_path, scene, roster=Roster([peer("bob", _BOB.verifier, limits=Limits(phase_timeout=1))]))


@pytest.mark.parametrize("mark", [b"ExchangeOperand", b"HelloTAI", b"Advertised(", b"MayRequest"])
def test_a_peer_that_is_killed_in_a_phase_is_a_lost_link(tmp_path: Path, mark: bytes) -> None:
    async def scene(running: Running) -> None:
        await running.put(records(4))
        client = Client(tmp_path / "bob", _BOB)
        client.store.put_records(records(2, first=10))
        stream = running.open()
        task = asyncio.create_task(client.run(stream))
        await until(lambda: mark in bytes(stream.outgoing.written) or task.done())
        stream.lose()
        await asyncio.wait({task})
        await until(lambda: not running.node._links)
        (reason,) = await _past_reasons(running)
        assert reason in (Reason.LINK_LOST, Reason.MALFORMED_BLOCK, End.FIXED_POINT)
        task.exception()
        again = Client(tmp_path / "again", _BOB)
        assert len((await again.run(running.open())).received) >= 4
        for one in (client, again):
            one.close()

    _with_node(tmp_path, scene)


def test_a_link_can_be_told_to_end_before_anybody_is_let_in(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        stream = running.open()
        await until(lambda: stream.incoming.written)
        (link,) = running.node._links.values()
        link.end(End.NODE_STOPPED, "now")
        link.end(End.REPLACED, "again: the first word holds")
        await until(lambda: not running.node._links)
        assert (await running.node.status()).refused == {End.NODE_STOPPED: 1}

    _with_node(tmp_path, scene)
