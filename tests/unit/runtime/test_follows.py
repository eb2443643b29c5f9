"""Peers that are dialled: how they are dialled, when the next attempt comes, what is shown of it, and a whole node."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest
from msgspec import structs

from bobbin.errors import UsageError
from bobbin.interlace.limits import LARGE
from bobbin.runtime.admission import Refusal
from bobbin.runtime.follows import Attempt, Follow, Lost, dial_known, ended_by
from bobbin.runtime.health import Condition, Health
from bobbin.runtime.introduction import NotAdmitted
from bobbin.runtime.node_settings import NodeSettings, Reconnecting
from bobbin.runtime.roster import KnownPeer, Roster, Way
from bobbin.runtime.status import Direction, End, LinkState
from bobbin.transport import certificate
from bobbin.transport.base import ByteStream, TransportError
from bobbin.transport.listen import listen
from bobbin.transport.tls import TlsServer
from bobbin.wire import address
from bobbin.wire.address import Address, Scheme
from tests.policy_worlds import BOB
from tests.support.byte_streams import FAR, MemoryStream, stream_pair
from tests.support.exchanges import BY_GROUP, record, records, selector
from tests.support.nodes import ANY_PORT, Running, key, peer, until

_FIRST, _SECOND, _THIRD = (Way(address=address.parse(f"tcp:127.0.0.1:{port}")) for port in (1, 2, 3))
_FAILED = Attempt(ended_by(End.CONNECT_FAILED, "refused"), was_good=False)


async def _never(follow: Follow) -> Attempt:
    raise AssertionError(follow)


def _follow(outcomes: list[Attempt], pauses: Reconnecting) -> tuple[Follow, list[int]]:
    made: list[int] = []

    async def attempt(follow: Follow) -> Attempt:
        made.append(follow.attempts)
        return outcomes[min(len(made) - 1, len(outcomes) - 1)]

    known = peer("bob", BOB, address=address.parse("tcp:127.0.0.1:1"), follow=True)
    return Follow(7, known, attempt, pauses), made


def test_attempts_go_on_and_are_counted_until_one_was_good() -> None:
    async def run() -> None:
        good = Attempt(_FAILED.ended, was_good=True, seconds=1)
        short = Attempt(_FAILED.ended, was_good=True, seconds=0.001)
        pauses = Reconnecting(delay_seconds_min=0.001, delay_seconds_max=0.002)
        follow, made = _follow([_FAILED, _FAILED, short, good, _FAILED], pauses)
        task = asyncio.create_task(follow.run())
        await until(lambda: len(made) >= 6)
        task.cancel()
        await asyncio.wait({task})
        assert made[:6] == [0, 1, 2, 3, 1, 2]

    asyncio.run(run())


def test_a_peer_that_has_moved_is_tried_at_once() -> None:
    async def run() -> None:
        pauses = Reconnecting(delay_seconds_min=3_600, delay_seconds_max=3_600)
        follow, made = _follow([_FAILED], pauses)
        task = asyncio.create_task(follow.run())
        await until(lambda: follow.last_end is not None)
        follow.change(structs.replace(follow.known, limits=LARGE), pauses)
        await asyncio.sleep(0)
        assert len(made) == 1
        follow.change(structs.replace(follow.known, ways=(_SECOND, *follow.known.ways)), pauses)
        await asyncio.sleep(0)
        assert len(made) == 1, "it is still where it was tried"
        follow.change(structs.replace(follow.known, ways=(_SECOND,)), pauses)
        await until(lambda: len(made) == 2)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(run())


def test_while_nothing_is_up_the_status_says_when_the_next_attempt_comes() -> None:
    async def run() -> None:
        follow, made = _follow([_FAILED], Reconnecting(delay_seconds_min=3_600, delay_seconds_max=3_600))
        assert follow.status().state is LinkState.CONNECTING
        task = asyncio.create_task(follow.run())
        await until(lambda: follow.last_end is not None)
        status = follow.status()
        assert (status.id, status.direction, status.peer) == (7, Direction.OUT, "bob")
        assert status.state is LinkState.WAITING
        assert "until the next attempt" in status.waits
        assert status.last_end is not None
        assert status.last_end.reason == End.CONNECT_FAILED
        follow.hurry()
        await until(lambda: len(made) == 2)
        follow.is_over = True
        follow.hurry()
        await task

    asyncio.run(run())


def test_a_peer_without_address_cannot_be_followed() -> None:
    async def run() -> None:
        with pytest.raises(UsageError, match="no address"):
            Follow(7, peer("bob", BOB), _never, Reconnecting())

    asyncio.run(run())


def test_all_addresses_are_tried_in_a_row_before_there_is_a_wait() -> None:
    async def run() -> None:
        tried: list[Way] = []
        heard: list[Lost] = []
        up = Attempt(_FAILED.ended, was_good=True, seconds=0.001, was_up=True)

        async def attempt(follow: Follow) -> Attempt:
            tried.append(follow.way)
            assert follow.status().address == str(follow.way.address)
            return up if len(tried) == 2 else _FAILED

        known = peer("bob", BOB, ways=(_FIRST, _SECOND, _THIRD), follow=True)
        pauses = Reconnecting(delay_seconds_min=3_600, delay_seconds_max=3_600)
        follow = Follow(7, known, attempt, pauses, tell=heard.append)
        task = asyncio.create_task(follow.run())
        await until(lambda: len(heard) == 3)
        assert tried == [_FIRST, _SECOND, _THIRD]
        assert [lost.way for lost in heard] == tried
        assert [lost.next_seconds == 0 for lost in heard] == [True, True, False]
        assert follow.status().address == str(_SECOND.address), "the one that worked last comes first"
        follow.hurry()
        await until(lambda: len(heard) == 6)
        assert tried[3:] == [_SECOND, _THIRD, _FIRST]
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(run())


def test_a_certificate_is_taken_if_it_is_pinned_or_a_known_key_will_vouch_for_it(tmp_path: Path) -> None:
    async def run() -> None:
        files = tmp_path / "own.pem", tmp_path / "own.key"
        pin = certificate.create(*files, names=["localhost"])

        async def accept(stream: ByteStream) -> None:
            await stream.read()
            await stream.close()

        server = await listen(
            Address(scheme=Scheme.TLS, host="127.0.0.1", port=0),
            accept,
            tls=TlsServer(certificate=files[0], key=files[1]),
        )
        where = server.address
        for known, verified in (
            (peer("pinned", None, address=where, certificate=pin), True),
            (peer("keyed", BOB, address=where), False),
        ):
            stream = await dial_known(known, known.ways[0])
            assert stream.route.verified is verified
            assert stream.route.binding == pin
            await stream.close()
        for known in (peer("wrong", BOB, address=where, certificate=b"\x01" * 32), peer("nobody", None, address=where)):
            with pytest.raises(TransportError):
                await dial_known(known, known.ways[0])
        await server.close()

    asyncio.run(run())


def test_whoever_listens_hears_of_every_attempt_and_when_the_next_one_comes() -> None:
    async def run() -> None:
        heard: list[Lost] = []

        async def attempt(follow: Follow) -> Attempt:
            del follow
            return _FAILED

        known = peer("bob", BOB, address=address.parse("tcp:127.0.0.1:1"), follow=True)
        pauses = Reconnecting(delay_seconds_min=3_600, delay_seconds_max=3_600)
        follow = Follow(7, known, attempt, pauses, tell=heard.append)
        before = follow.why_unlinked
        task = asyncio.create_task(follow.run())
        await until(lambda: heard)
        (lost,) = heard
        assert (lost.known, lost.ended, lost.attempts, lost.was_up) == (known, _FAILED.ended, 1, False)
        assert 0 <= lost.next_seconds <= 3_600
        assert (before, follow.why_unlinked) == (None, "connect-failed")
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(run())


def test_an_open_way_off_this_machine_is_not_dialled() -> None:
    known = peer("bob", BOB, address=address.parse("tcp:192.0.2.1:4790"), follow=True)
    with pytest.raises(NotAdmitted) as refused:
        asyncio.run(dial_known(known, known.ways[0]))
    assert refused.value.code == "insecure-route"


# ---- the peers of a node --------------------------------------------------------------------------------------------

_NODE: Final = key(1)
_BOB: Final = key(2)
_CAROL: Final = key(3)
_ADDRESS: Final = address.parse("tcp:127.0.0.1:4790")


def _run(scene: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await scene()

    asyncio.run(run())


class _Dialling:
    """Dials another node in memory; may be told to fail."""

    def __init__(self) -> None:
        self.there: Running | None = None
        self.fails = 0
        self.dialled: list[Way] = []
        self.down: set[Way] = set()
        self.stalls = False
        """Whether nothing arrives on new streams."""
        self.streams: list[MemoryStream] = []

    async def __call__(self, known: KnownPeer, way: Way) -> ByteStream:
        del known
        self.dialled.append(way)
        if self.fails or self.there is None or way in self.down:
            self.fails = max(self.fails - 1, 0)
            raise TransportError("nobody answers", retry=True)
        ours, theirs = stream_pair()
        ours.incoming.stall(stalled=self.stalls)
        self.streams.append(ours)
        self.there.listeners[-1].take(theirs)
        return ours


_QUICK: Final = NodeSettings(
    listen=(ANY_PORT,), reconnect=Reconnecting(delay_seconds_min=0.001, delay_seconds_max=0.01)
)


def test_a_followed_peer_is_dialled_until_it_answers_and_again_when_it_is_gone(tmp_path: Path) -> None:
    async def scene() -> None:
        dial = _Dialling()
        dial.fails = 3
        followed = Roster([peer("hub", _NODE.verifier, address=_ADDRESS, follow=True)])
        hub = Roster([peer("bob", _BOB.verifier)])
        async with (
            Running(tmp_path / "hub", own=_NODE, roster=hub) as there,
            Running(tmp_path / "bob", own=_BOB, roster=followed, settings=_QUICK, dial=dial) as here,
        ):
            dial.there = there
            await there.put(records(3))
            await until(lambda: there.node._links)
            await here.put([record(50)])
            await there.receive(record(50).hash)
            await here.receive(record(0).hash)
            (link,) = await here.links()
            assert (link.direction, link.peer, link.verifier) == (Direction.OUT, "hub", _NODE.verifier)
            assert link.last_end is not None
            assert link.last_end.reason == End.CONNECT_FAILED
            assert "bobbin_connects_failed_total 3.0" in here.serving.meter.expose().decode()
            for one in there.node._links.values():
                one.abort()
            await until(lambda: len(dial.dialled) >= 5)
            await until(lambda: there.node._links)
            await here.put([record(51)])
            await there.receive(record(51).hash)

    _run(scene)


def test_a_node_goes_on_at_the_next_address_when_the_one_it_is_linked_to_is_lost(tmp_path: Path) -> None:
    async def scene() -> None:
        dial = _Dialling()
        dial.down = {_FIRST}
        followed = Roster([peer("hub", _NODE.verifier, ways=(_FIRST, _SECOND, _THIRD), follow=True)])
        hub = Roster([peer("bob", _BOB.verifier)])
        # Were there a wait before the next address, this would take an hour.
        patient = NodeSettings(
            listen=(ANY_PORT,), reconnect=Reconnecting(delay_seconds_min=3_600, delay_seconds_max=3_600)
        )
        async with (
            Running(tmp_path / "hub", own=_NODE, roster=hub) as there,
            Running(tmp_path / "bob", own=_BOB, roster=Roster(), settings=patient, dial=dial) as here,
        ):
            dial.there = there
            await here.node.reload(followed)
            await here.put([record(1)])
            await there.receive(record(1).hash)
            (link,) = await here.links()
            assert (link.address, link.peer) == (str(_SECOND.address), "hub")
            more = peer("hub", _NODE.verifier, ways=(_SECOND, _THIRD), follow=True)
            await here.node.reload(Roster([more]))
            assert [one.address for one in await here.links()] == [str(_SECOND.address)], "it is still one of them"
            dial.down = {_SECOND}
            for one in there.node._links.values():
                one.abort()
            await here.put([record(2)])
            await there.receive(record(2).hash)
            assert dial.dialled == [_FIRST, _SECOND, _THIRD]
            (link,) = await here.links()
            assert link.address == str(_THIRD.address)
            assert [entry["address"] for entry in here.entries("followed-peer-lost")] == [str(_SECOND.address)]

    _run(scene)


def test_another_key_at_one_address_is_passed_over(tmp_path: Path) -> None:
    async def scene() -> None:
        followed = Roster([peer("hub", _NODE.verifier, ways=(_FIRST, _SECOND), follow=True)])
        known = Roster([peer("bob", _BOB.verifier)])
        async with (
            Running(tmp_path / "hub", own=_NODE, roster=known) as hub,
            Running(tmp_path / "carol", own=_CAROL, roster=known) as carol,
        ):

            async def dial(known: KnownPeer, way: Way) -> ByteStream:
                del known
                ours, theirs = stream_pair()
                (carol if way == _FIRST else hub).listeners[-1].take(theirs)
                return ours

            async with Running(tmp_path / "bob", own=_BOB, roster=followed, settings=_QUICK, dial=dial) as here:
                await here.put(records(3))
                await hub.receive(record(0).hash)
                assert here.node._refused == {Refusal.WRONG_PEER: 1}
                assert not await carol.have(record(0).hash)

    _run(scene)


def test_a_followed_peer_that_is_down_is_said_by_the_log_the_health_and_the_metrics(tmp_path: Path) -> None:
    async def scene() -> None:
        dial = _Dialling()
        followed = Roster([peer("hub", _NODE.verifier, address=_ADDRESS, follow=True)])
        hub = Roster([peer("bob", _BOB.verifier)])
        pauses = NodeSettings(
            listen=(ANY_PORT,), reconnect=Reconnecting(delay_seconds_min=3_600, delay_seconds_max=3_600)
        )
        async with (
            Running(tmp_path / "hub", own=_NODE, roster=hub) as there,
            Running(tmp_path / "bob", own=_BOB, roster=followed, settings=pauses, dial=dial) as here,
        ):
            await until(lambda: here.entries("followed-peer-unreached"))
            (entry,) = here.entries("followed-peer-unreached")
            assert (entry["level"], entry["peer"], entry["reason"]) == ("warning", "hub", "connect-failed")
            assert (entry["detail"], entry["attempts"]) == ("nobody answers", 1)
            assert entry["address"] == str(_ADDRESS)
            assert isinstance(entry["next_attempt_seconds"], float)
            reason = "1 of 1 followed peers without a link (connect-failed 1)"
            assert here.node.health == Health(condition=Condition.DEGRADED, reasons=(reason,))
            status = await here.node.status()
            assert (status.condition, status.health) == ("degraded", reason)
            exposed = here.serving.meter.expose().decode()
            assert 'bobbin_condition{condition="degraded"} 1.0' in exposed
            assert 'bobbin_condition{condition="ok"} 0.0' in exposed
            assert "bobbin_followed_peers_unlinked 1.0" in exposed
            dial.there = there
            here.node._follows["hub"].hurry()
            await until(lambda: here.node.health.condition is Condition.OK)
            await here.node.refresh()
            assert "bobbin_followed_peers_unlinked 0.0" in here.serving.meter.expose().decode()
            for one in there.node._links.values():
                one.abort()
            await until(lambda: here.entries("followed-peer-lost"))
            (entry,) = here.entries("followed-peer-lost")
            assert (entry["level"], entry["peer"]) == ("warning", "hub")
            # A link that goes while it is at rest has ended at a fixed point; this one may be at rest or not.
            assert entry["reason"] in ("link-lost", "fixed-point")

    _run(scene)


def test_a_followed_peer_is_not_missed_by_a_node_that_stops(tmp_path: Path) -> None:
    async def scene() -> None:
        dial = _Dialling()
        followed = Roster([peer("hub", _NODE.verifier, address=_ADDRESS, follow=True)])
        hub = Roster([peer("bob", _BOB.verifier)])
        async with (
            Running(tmp_path / "hub", own=_NODE, roster=hub) as there,
            Running(tmp_path / "bob", own=_BOB, roster=followed, settings=_QUICK, dial=dial) as here,
        ):
            dial.there = there
            await until(lambda: any(link.known is not None for link in here.node._links.values()))
            await here.node.stop(0.0)
            assert not here.entries("followed-peer-lost")

    _run(scene)


def test_nothing_is_said_on_an_open_way_to_a_followed_peer(tmp_path: Path) -> None:
    async def scene() -> None:
        dialled: list[MemoryStream] = []

        async def dial(known: KnownPeer, way: Way) -> ByteStream:
            del known, way
            ours, _ = stream_pair(FAR, FAR)
            dialled.append(ours)
            return ours

        followed = Roster([peer("hub", _NODE.verifier, address=_ADDRESS, follow=True)])
        async with Running(tmp_path / "bob", own=_BOB, roster=followed, settings=_QUICK, dial=dial) as here:
            await until(lambda: here.entries("followed-peer-unreached"))
            assert dialled[0].is_closed
            assert not any(stream.outgoing.written for stream in dialled)
            (link,) = await here.links()
            assert link.last_end is not None
            assert link.last_end.reason == Refusal.INSECURE
            assert (await here.node.status()).refused.keys() == {Refusal.INSECURE}

    _run(scene)


def test_a_mistake_while_dialling_is_logged_and_the_following_goes_on(tmp_path: Path) -> None:
    async def scene() -> None:
        tried = 0

        async def dial(known: KnownPeer, way: Way) -> ByteStream:
            nonlocal tried
            del way
            tried += 1
            raise ZeroDivisionError(known.name)

        followed = Roster([peer("hub", _NODE.verifier, address=_ADDRESS, follow=True)])
        async with Running(tmp_path / "bob", own=_BOB, roster=followed, settings=_QUICK, dial=dial) as here:
            await until(lambda: tried >= 3)
            assert here.entries("connect-crashed")
            (link,) = await here.links()
            assert link.last_end is not None
            assert "ZeroDivisionError" in link.last_end.detail

    _run(scene)


def test_another_key_at_the_address_is_not_followed(tmp_path: Path) -> None:
    async def scene() -> None:
        dial = _Dialling()
        followed = Roster([peer("hub", _CAROL.verifier, address=_ADDRESS, follow=True)])
        hub = Roster([peer("bob", _BOB.verifier)])
        async with (
            Running(tmp_path / "hub", own=_NODE, roster=hub) as there,
            Running(tmp_path / "bob", own=_BOB, roster=followed, settings=_QUICK, dial=dial) as here,
        ):
            dial.there = there
            await here.put(records(3))
            await until(lambda: here.node._refused.get(Refusal.WRONG_PEER))
            assert not await there.have(record(0).hash)

    _run(scene)


def test_who_is_followed_can_change_while_the_node_runs(tmp_path: Path) -> None:
    async def scene() -> None:
        dial = _Dialling()
        hub = Roster([peer("bob", _BOB.verifier)])
        async with (
            Running(tmp_path / "hub", own=_NODE, roster=hub) as there,
            Running(tmp_path / "bob", own=_BOB, roster=Roster(), settings=_QUICK, dial=dial) as here,
        ):
            dial.there = there
            known = peer("hub", _NODE.verifier, address=_ADDRESS, follow=True)
            await here.node.reload(Roster([known]))
            await until(lambda: there.node._links)
            await until(lambda: here.node._links)
            await here.node.reload(Roster([peer("centre", _NODE.verifier, address=_ADDRESS, follow=True)]))
            await here.put([record(1)])
            await there.receive(record(1).hash)
            (link,) = await here.links()
            assert link.peer == "centre"
            assert len(dial.dialled) == 1, "a peer with another name is the same peer"
            await here.node.reload(Roster([peer("hub", _NODE.verifier, address=_ADDRESS)]))
            await until(lambda: not here.node._links)
            await until(lambda: not here.node._tasks)
            assert await here.links() == ()
            count = len(dial.dialled)
            nowhere = peer("hub", _NODE.verifier, address=_ADDRESS, follow=True)
            dial.there = None
            await here.node.reload(Roster([nowhere]))
            await until(lambda: len(dial.dialled) > count)
            await here.node.reload(Roster())
            await until(lambda: not here.node._tasks)

    _run(scene)


@pytest.mark.parametrize(("moved", "name"), [(_ADDRESS, "centre"), (address.parse("tcp:127.0.0.1:4792"), "centre")])
def test_a_change_during_a_greeting_is_not_missed(tmp_path: Path, moved: Address, name: str) -> None:
    async def scene() -> None:
        dial = _Dialling()
        dial.stalls = True
        followed = Roster([peer("hub", _NODE.verifier, address=_ADDRESS, follow=True)])
        hub = Roster([peer("bob", _BOB.verifier)])
        async with (
            Running(tmp_path / "hub", own=_NODE, roster=hub) as there,
            Running(tmp_path / "bob", own=_BOB, roster=Roster(), settings=_QUICK, dial=dial) as here,
        ):
            dial.there = there
            await here.node.reload(followed)
            await until(lambda: here.node._links)
            dial.stalls = False
            changed = peer(name, _NODE.verifier, address=moved, follow=True, selector=selector(BY_GROUP))
            await here.node.reload(Roster([changed]))
            dial.streams[0].incoming.stall(stalled=False)
            await here.put([record(1), record(2, group="v")])
            await there.receive(record(1).hash)
            assert not await there.have(record(2, group="v").hash), "the new policy holds"
            (link,) = await here.links()
            assert link.peer == name
            assert dial.dialled[-1].address == moved

    _run(scene)
