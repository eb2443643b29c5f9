"""A node as a whole: many links, reloading, following, stopping."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bobbin.errors import ResourceError, UsageError
from bobbin.interlace.config import Open
from bobbin.interlace.events import Now
from bobbin.interlace.limits import SECOND_NS, Limits
from bobbin.policy.modules import deny_all_query
from bobbin.records.ids import HashText
from bobbin.runtime import node as module
from bobbin.runtime.admission import Refusal
from bobbin.runtime.health import Condition
from bobbin.runtime.introduction import NotIntroduced
from bobbin.runtime.local_peer import now
from bobbin.runtime.node_link import NodeLink
from bobbin.runtime.node_settings import LinkBounds, NodeSettings
from bobbin.runtime.roster import Roster
from bobbin.runtime.status import Direction, End
from bobbin.runtime.tracing import OtelTracing
from bobbin.transport.base import Accept, ByteStream, Listener, TransportError
from bobbin.transport.listen import Handshakes, Refused, Turned
from bobbin.wire import address
from bobbin.wire.address import Address, Scheme
from tests.support.exchanges import BY_GROUP, record, records, selector
from tests.support.nodes import ANY_PORT, Client, MemoryListener, Running, key, peer, until

_NODE: Final = key(1)
_BOB: Final = key(2)
_CAROL: Final = key(3)
_KNOWN: Final = Roster([peer("bob", _BOB.verifier), peer("carol", _CAROL.verifier)])
_ADDRESS: Final = address.parse("tcp:127.0.0.1:4790")


def _run(scene: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await scene()

    asyncio.run(run())


class _Staying:
    """An open link of a client."""

    def __init__(self, client: Client, stream: ByteStream) -> None:
        self.client = client
        self.task = asyncio.create_task(client.run(stream))

    async def rest(self, times: int = 1) -> None:
        await until(lambda: self.client.fixed_points >= times or self.task.done())

    async def end(self) -> None:
        if self.client.exchange is not None:
            self.client.exchange.cancel()
        await asyncio.wait({self.task})
        self.task.exception()
        self.client.close()


def test_a_new_record_reaches_every_link_also_from_one_link_to_another(tmp_path: Path) -> None:
    async def scene() -> None:
        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN) as running:
            bob = _Staying(Client(tmp_path / "bob", _BOB, lifecycle=Open()), running.open())
            carol = _Staying(Client(tmp_path / "carol", _CAROL, lifecycle=Open()), running.open())
            await bob.rest()
            await carol.rest()
            await running.put([record(1)])
            bob.client.store.put_records([record(2)])
            for staying, number in ((bob, 1), (carol, 1), (carol, 2)):
                await staying.client.receive(record(number).hash)
            await until(lambda: len(running.node._links) == 2)
            links = await running.links()
            assert {link.peer for link in links} == {"bob", "carol"}
            assert all(link.direction is Direction.IN for link in links)
            await bob.end()
            await carol.end()

    _run(scene)


def test_bounds_on_links_are_held_and_named(tmp_path: Path) -> None:
    async def scene() -> None:
        settings = NodeSettings(listen=(ANY_PORT,), links=LinkBounds(total_max=1))
        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN, settings=settings) as running:
            bob = _Staying(Client(tmp_path / "bob", _BOB, lifecycle=Open()), running.open())
            await bob.rest()
            carol = Client(tmp_path / "carol", _CAROL)
            with pytest.raises(NotIntroduced):
                await carol.run(running.open())
            assert (await running.node.status()).refused == {Refusal.TOO_MANY: 1}
            carol.close()
            await bob.end()

    _run(scene)


def test_a_newer_link_of_the_same_peer_takes_the_place_of_the_silent_one(tmp_path: Path) -> None:
    async def scene() -> None:
        settings = NodeSettings(listen=(ANY_PORT,), links=LinkBounds(per_peer_max=1, silent_seconds_min=1e-9))
        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN, settings=settings) as running:
            old = _Staying(Client(tmp_path / "old", _BOB, lifecycle=Open()), running.open())
            await old.rest()
            new = _Staying(Client(tmp_path / "new", _BOB, lifecycle=Open()), running.open())
            await new.rest()
            await until(lambda: len(running.node._links) == 1)
            (past,) = (await running.node.status()).past
            assert past.end.reason == End.REPLACED
            assert not new.task.done()
            await old.end()
            await new.end()

    _run(scene)


def test_links_of_one_peer_that_are_alive_do_not_replace_one_another(tmp_path: Path) -> None:
    async def scene() -> None:
        settings = NodeSettings(listen=(ANY_PORT,), links=LinkBounds(per_peer_max=4))
        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN, settings=settings) as running:
            up = [
                _Staying(Client(tmp_path / f"{number}", _BOB, lifecycle=Open()), running.open()) for number in range(4)
            ]
            for one in up:
                await one.rest()
            for _ in range(3):
                fifth = Client(tmp_path / "fifth", _BOB, lifecycle=Open())
                with pytest.raises(NotIntroduced):
                    await fifth.run(running.open())
                fifth.close()
            await until(lambda: len(running.node._links) == 4)
            status = await running.node.status()
            assert (status.refused, status.past) == ({Refusal.TOO_MANY_PEER: 3}, ())
            for one in up:
                assert not one.task.done()
                await one.end()

    _run(scene)


def test_a_flood_of_silent_streams_keeps_no_newcomer_out(tmp_path: Path) -> None:
    """The oldest of them go, by name; the one who says who it is stays."""

    async def scene() -> None:
        settings = NodeSettings(listen=(ANY_PORT,), links=LinkBounds(introducing_max=4))
        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN, settings=settings) as running:
            flood = [running.open() for _ in range(20)]
            await until(lambda: running.node._refused[Refusal.TOO_MANY_INTRODUCING] == 17)
            bob = _Staying(Client(tmp_path / "bob", _BOB, lifecycle=Open()), running.open())
            await bob.rest()
            assert bob.client.fixed_points
            flood += [running.open() for _ in range(20)]
            await until(lambda: running.node._refused[Refusal.TOO_MANY_INTRODUCING] >= 37)
            assert not bob.task.done()
            assert not running.entries("link-crashed")
            await bob.end()
            for stream in flood:
                stream.abort()

    _run(scene)


def test_what_is_turned_away_at_the_listener_is_counted_and_has_its_time_from_the_settings(tmp_path: Path) -> None:
    async def scene() -> None:
        asked: list[tuple[Handshakes, Refused]] = []

        async def take(where: Address, accept: Accept, *, handshakes: Handshakes, refused: Refused) -> Listener:
            asked.append((handshakes, refused))
            return MemoryListener(where, accept)

        settings = NodeSettings(listen=(ANY_PORT,), links=LinkBounds(introduction_seconds_max=3.5))
        async with Running(
            tmp_path / "node", own=_NODE, roster=_KNOWN, settings=settings, in_memory=False, take=take
        ) as running:
            ((handshakes, refused),) = asked
            assert handshakes.seconds == 3.5
            refused(Turned.TIMEOUT, "192.0.2.7:1")
            assert (await running.node.status()).refused == {"handshake-timeout": 1}
            exposed = running.serving.meter.expose().decode()
            assert 'bobbin_refused_links_total{reason="handshake-timeout"} 1.0' in exposed
            (entry,) = running.entries("link-refused")
            assert (entry["reason"], entry["remote"]) == ("handshake-timeout", "192.0.2.7:1")

    _run(scene)


@pytest.mark.parametrize("error", [ZeroDivisionError("ours"), ResourceError("the disk is full", retry=True)])
def test_what_cannot_be_tidied_is_logged_and_the_other_links_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(module, "_TIDY_SECONDS", 0.001)

    async def scene() -> None:
        tidied: list[int] = []

        async def tidy(link: NodeLink) -> None:
            tidied.append(link.number)
            if link.number == 1:
                raise error

        monkeypatch.setattr(NodeLink, "tidy", tidy)
        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN) as running:
            streams = [running.open() for _ in range(2)]
            await until(lambda: tidied.count(1) >= 2 and tidied.count(2) >= 2)
            event = "tidy-crashed" if isinstance(error, ZeroDivisionError) else "tidy-failed"
            assert running.entries(event)[0]["link"] == 1
            for stream in streams:
                stream.abort()

    _run(scene)


# ---- reloading ------------------------------------------------------------------------------------------------------


def test_a_changed_policy_goes_on_in_a_new_epoch(tmp_path: Path) -> None:
    async def scene() -> None:
        roster = Roster([peer("bob", _BOB.verifier, selector=selector(BY_GROUP))])
        async with Running(tmp_path / "node", own=_NODE, roster=roster) as running:
            await running.put([record(1), record(2, group="v")])
            bob = _Staying(Client(tmp_path / "bob", _BOB, lifecycle=Open()), running.open())
            await bob.rest()
            assert bob.client.store.have(HashText(record(1).hash))
            assert not bob.client.store.have(HashText(record(2, group="v").hash))
            (before,) = await running.links()
            running.node.note_failed_reload("peers.toml: it is wrong")
            assert (await running.node.status()).reload_failure == "peers.toml: it is wrong"
            assert running.node.health.condition is Condition.DEGRADED
            await running.node.reload(Roster([peer("bob", _BOB.verifier)]))
            assert (await running.node.status()).reload_failure is None
            assert b"bobbin_reloads_failed_total 1.0" in running.serving.meter.expose()
            await until(lambda: bob.client.store.have(HashText(record(2, group="v").hash)))
            (after,) = await running.links()
            assert after.id == before.id, "it is the same link"
            assert after.plan != before.plan
            assert running.entries("node-reloaded")
            await bob.end()

    _run(scene)


@pytest.mark.parametrize(
    ("roster", "reason"),
    [
        (Roster([peer("carol", _CAROL.verifier)]), End.PEER_REMOVED),
        (Roster([peer("bob", _BOB.verifier, admit=False)]), End.PEER_REMOVED),
        (Roster([peer("bob", _BOB.verifier, limits=Limits(phase_timeout=7))]), End.PEER_CHANGED),
        (Roster([peer("bob", _BOB.verifier, query=deny_all_query())]), End.PEER_CHANGED),
    ],
)
def test_other_changes_end_the_link_by_name(tmp_path: Path, roster: Roster, reason: End) -> None:
    async def scene() -> None:
        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN) as running:
            bob = _Staying(Client(tmp_path / "bob", _BOB, lifecycle=Open()), running.open())
            await bob.rest()
            await running.node.reload(roster)
            await until(lambda: not running.node._links)
            (past,) = (await running.node.status()).past
            assert past.end.reason == reason
            await bob.end()

    _run(scene)


def test_the_same_roster_again_changes_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN) as running:
            bob = _Staying(Client(tmp_path / "bob", _BOB, lifecycle=Open()), running.open())
            await bob.rest()
            renamed = Roster([peer("robert", _BOB.verifier)])
            await running.node.reload(renamed)
            (link,) = await running.links()
            assert link.peer == "robert", "a name is only a name"
            assert not bob.task.done()
            await bob.end()

    _run(scene)


def test_a_new_address_that_cannot_be_listened_on_changes_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN) as running:
            (first,) = running.listeners
            taken: Final = address.parse("tcp:127.0.0.1:5000")
            free: Final = address.parse("tcp:127.0.0.1:5001")
            usual = running.node._listen

            async def take(where: Address, accept: Accept, *, handshakes: Handshakes, refused: Refused) -> Listener:
                if where == taken:
                    raise TransportError("the address is in use", retry=True)
                return await usual(where, accept, handshakes=handshakes, refused=refused)

            running.node._listen = take  # type: ignore[misc]
            with pytest.raises(TransportError, match="in use"):
                await running.node.reload(Roster(), NodeSettings(listen=(free, taken)))
            assert not first.is_closed
            assert running.listeners[-1].is_closed
            assert running.node.roster is _KNOWN
            await running.node.reload(Roster(), NodeSettings(listen=(free,)))
            assert running.node.addresses == (free,)
            assert [listener.is_closed for listener in running.listeners[:1]] == [True]

    _run(scene)


# ---- stopping, health, time -----------------------------------------------------------------------------------------


def test_stopping_lets_links_come_to_rest_and_takes_no_more(tmp_path: Path) -> None:
    async def scene() -> None:
        running = Running(tmp_path / "node", own=_NODE, roster=_KNOWN)
        await running.node.start()
        await running.put(records(3_000, size=200))
        bob = _Staying(Client(tmp_path / "bob", _BOB, lifecycle=Open()), running.open())
        await until(lambda: running.node._links)
        stopping = asyncio.create_task(running.node.stop(50.0))
        await until(lambda: running.node.health.text == "stopping")
        carol = Client(tmp_path / "carol", _CAROL)
        with pytest.raises(NotIntroduced):
            await carol.run(running.open())
        await stopping
        await running.node.stop()
        (past,) = (await running.node.status()).past
        assert past.end.reason == End.NODE_STOPPED
        assert past.records_out in (0, 3_000), "a transfer that had begun was finished"
        with pytest.raises(UsageError):
            await running.node.reload(Roster())
        assert running.entries("node-stopped")
        running.store.close()
        carol.close()
        await bob.end()

    _run(scene)


def test_stopping_does_not_wait_for_a_peer_that_stands_still(tmp_path: Path) -> None:
    async def scene() -> None:
        running = Running(tmp_path / "node", own=_NODE, roster=_KNOWN)
        await running.node.start()
        await running.put(records(50))
        stream = running.open()
        bob = _Staying(Client(tmp_path / "bob", _BOB, lifecycle=Open()), stream)
        await until(lambda: b"HelloTAI" in bytes(stream.outgoing.written))
        stream.outgoing.stall(stalled=True)
        await running.node.stop(0.05)
        stream.outgoing.stall(stalled=False)
        assert not running.node._links
        running.store.close()
        await bob.end()

    _run(scene)


def test_a_node_that_cannot_listen_does_not_start(tmp_path: Path) -> None:
    async def scene() -> None:
        settings = NodeSettings(listen=(Address(scheme=Scheme.TLS, host="127.0.0.1", port=0),))
        running = Running(tmp_path / "node", own=_NODE, roster=_KNOWN, settings=settings, in_memory=False)
        with pytest.raises(UsageError, match="certificate"):
            await running.node.start()
        assert running.node.health.text == "stopping"
        running.store.close()

    _run(scene)


def test_a_wall_clock_that_jumps_breaks_no_link(tmp_path: Path) -> None:
    async def scene() -> None:
        jump_ns = [0]

        def clock() -> Now:
            found = now()
            return Now(tai_ns=found.tai_ns + jump_ns[0], monotonic_ns=found.monotonic_ns)

        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN, clock=clock) as running:
            bob = _Staying(Client(tmp_path / "bob", _BOB, lifecycle=Open()), running.open())
            await bob.rest()
            for number, seconds in ((1, 3_600), (2, -7_200), (3, 0)):
                jump_ns[0] = seconds * SECOND_NS
                await running.put([record(number)])
                await bob.client.receive(record(number).hash)
            (link,) = await running.links()
            assert link.age_seconds >= 0
            assert not bob.task.done()
            await bob.end()

    _run(scene)


def test_a_step_that_does_not_end_is_not_healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN) as running:
            assert running.node.health.text == "ok"
            monkeypatch.setattr(type(running.serving.steps), "busy_seconds", property(lambda _: 99.0))
            assert running.node.health.text == "one step has been going on for 99 seconds"
            monkeypatch.undo()

    _run(scene)


def test_every_link_is_a_span_that_ends_with_its_reason(tmp_path: Path) -> None:
    async def scene() -> None:
        exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracing = OtelTracing(provider.get_tracer("test"))
        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN, tracing=tracing) as running:
            await running.put(records(2))
            client = Client(tmp_path / "bob", _BOB)
            await client.run(running.open())
            await until(exporter.get_finished_spans)
            (span,) = exporter.get_finished_spans()
            attributes = dict(span.attributes or {})
            assert (attributes["peer"], attributes["end"], attributes["records_out"]) == ("bob", "fixed-point", 2)
            assert [event.name for event in span.events] == ["fixed-point"]
            client.close()

    _run(scene)


def test_the_status_of_a_node_that_has_done_nothing_is_whole(tmp_path: Path) -> None:
    async def scene() -> None:
        async with Running(tmp_path / "node", own=_NODE, roster=_KNOWN) as running:
            await running.put(records(4))
            status = await running.node.status()
            assert (status.records, status.peers, status.links, status.past) == (4, 2, (), ())
            assert (status.health, status.stopping, status.verifier) == ("ok", False, _NODE.verifier)
            assert "bobbin_store_records 4.0" in running.serving.meter.expose().decode()

    _run(scene)
