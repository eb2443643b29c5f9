import asyncio

import pytest

from bobbin.reactive.crdt.binding import ReplicatedCells
from bobbin.reactive.crdt.clock import STAMP_AHEAD
from bobbin.reactive.crdt.plane import CellName, Merged, Plane
from bobbin.reactive.crdt.session import UNEXPECTED
from bobbin.reactive.crdt.states import Kind
from bobbin.reactive.graph import Graph
from bobbin.reactive.handshake import Capabilities
from bobbin.reactive.messages import CrdtOperation, CrdtSync, NodeId, OutboxAck, PeerId, Stamp, Value
from bobbin.runtime import replication
from bobbin.runtime.replication import (
    BEHIND,
    CROSSED,
    FEATURE,
    STALLED,
    WRONG_PEER,
    Replication,
    ReplicationSettings,
    now_us,
)
from bobbin.transport.base import TransportError
from bobbin.wire.lazily import canonical_json, handshake
from tests.support.byte_streams import until
from tests.support.signal_rooms import run

A, B, C, GUEST = map(PeerId, (1, 2, 3, 9))
MEMBERS = (A, B, C)


class Pipe:
    """One end of a channel in memory."""

    def __init__(self, incoming: asyncio.Queue[bytes | None], outgoing: asyncio.Queue[bytes | None]) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._closed = False

    async def send(self, frame: bytes) -> None:
        if self._closed:
            raise TransportError("closed", retry=True)
        await self._outgoing.put(frame)

    async def receive(self) -> bytes:
        frame = await self._incoming.get()
        if frame is None:
            await self._incoming.put(None)
            raise TransportError("closed", retry=True)
        return frame

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._outgoing.put(None)
            await self._incoming.put(None)


def _pipe() -> tuple[Pipe, Pipe]:
    one: asyncio.Queue[bytes | None] = asyncio.Queue()
    other: asyncio.Queue[bytes | None] = asyncio.Queue()
    return Pipe(one, other), Pipe(other, one)


def _replica(own: PeerId, **more: object) -> Replication:
    return Replication(Plane(own, members=MEMBERS), **more)  # type: ignore[arg-type]


def _states(replica: Replication) -> dict[CellName, Value | None]:
    return {name: replica.plane.state(name) for name in replica.plane.names()}


class Linked:
    """Replicas, and links between some of them."""

    def __init__(self, *pairs: tuple[Replication, Replication]) -> None:
        self.ends: list[Pipe] = []
        self.tasks: list[asyncio.Task[str]] = []
        for one, other in pairs:
            ends = _pipe()
            self.ends += ends
            self.tasks.append(asyncio.create_task(one.run(ends[0], other.plane.own)))
            self.tasks.append(asyncio.create_task(other.run(ends[1], one.plane.own)))

    async def stop(self) -> list[str]:
        for end in self.ends:
            await end.close()
        return await asyncio.gather(*self.tasks)


def test_what_is_written_anywhere_is_everywhere() -> None:
    async def main() -> None:
        a, b, c = map(_replica, MEMBERS)
        for node in range(1000):
            a.plane.set(NodeId(node), b"before there was a link", now_us=now_us())
        linked = Linked((a, b), (b, c))
        await until(lambda: len(c.plane) == 1000)
        told: list[CellName] = []
        a.on_change(told.extend)
        c.plane.set(NodeId(5), b"from c", now_us=now_us())
        c.wrote()
        await until(lambda: a.plane.state(NodeId(5)) == b"from c")
        assert told == [NodeId(5)]
        assert (a.peers, b.peers) == (frozenset({B}), frozenset({A, C}))
        assert await linked.stop() == ["closed"] * 4
        assert b.peers == frozenset()

    run(main())


def test_what_was_missed_while_there_was_no_link_comes_with_the_next_one() -> None:
    async def main() -> None:
        a, b = _replica(A), _replica(B)
        await Linked((a, b)).stop()
        for number in range(10):
            (a if number % 2 else b).plane.set(NodeId(number), b"%d" % number, now_us=now_us())
        linked = Linked((a, b))
        await until(lambda: len(a.plane) == len(b.plane) == 10)
        assert _states(a) == _states(b)
        await linked.stop()

    run(main())


def test_a_graph_shows_what_peers_write() -> None:
    """RX-102."""

    async def main() -> None:
        graph, plane = Graph(), Plane(A, members=MEMBERS)
        cells, cell = ReplicatedCells(plane, graph), graph.cell(b"")
        cells.bind(NodeId(1), cell, lambda: bytes(plane.state(NodeId(1)) or b""))  # type: ignore[arg-type]
        seen: list[bytes] = []
        graph.effect(lambda: seen.append(cell.get()))

        def merge(sync: CrdtSync, sender: PeerId, now: int) -> Merged:
            return cells.ingest(sync, sender=sender, now_us=now).merged

        a, b = Replication(plane, merge=merge), _replica(B)
        linked = Linked((a, b))
        for value in (b"one", b"one", b"two"):
            b.plane.set(NodeId(1), value, now_us=now_us())
            b.wrote()
            await until(lambda: plane.stamp(NodeId(1)) == b.plane.stamp(NodeId(1)))
        assert seen == [b"", b"one", b"two"]
        await linked.stop()

    run(main())


def test_a_guest_may_what_it_was_granted() -> None:
    async def main() -> None:
        readable: set[NodeId] = {NodeId(1)}
        a = _replica(
            A,
            reads=lambda peer, one: peer == GUEST and one.id in readable,
            writes=lambda peer, one: peer == GUEST and one.id == NodeId(3),
        )
        guest = _replica(GUEST)
        for node in (1, 2):
            a.plane.set(NodeId(node), b"a", now_us=now_us())
        for node in (3, 4):
            guest.plane.set(NodeId(node), b"guest", now_us=now_us())
        linked = Linked((a, guest))
        await until(lambda: NodeId(1) in guest.plane.names() and NodeId(3) in a.plane.names())
        assert NodeId(2) not in guest.plane.names()
        assert NodeId(4) not in a.plane.names()
        readable.add(NodeId(2))
        a.permissions_changed(GUEST)
        a.permissions_changed(C)
        await until(lambda: NodeId(2) in guest.plane.names())
        await linked.stop()

    run(main())


def test_a_guest_speaks_for_itself_alone_in_merged_cells() -> None:
    """What it has seen of others is believed when they, or members, have said it."""

    async def main() -> None:
        everybody = {"reads": lambda *_: True, "writes": lambda *_: True}
        a, b, guest = (_replica(own, **everybody) for own in (A, B, GUEST))
        for replica in (a, b, guest):
            replica.plane.declare(NodeId(1), Kind.PN_COUNTER, key="votes", now_us=now_us())
            replica.plane.declare(NodeId(2), Kind.MV, key="title", now_us=now_us())
        b.plane.add("votes", 3, now_us=now_us())
        b.plane.put("title", b"B's", now_us=now_us())
        first = Linked((b, guest))
        await until(lambda: guest.plane.values("title") == {b"B's"} and guest.plane.count("votes") == 3)
        guest.plane.add("votes", 1, now_us=now_us())
        guest.plane.put("title", b"after B's", now_us=now_us())
        second = Linked((a, guest))
        await until(lambda: a.plane.count("votes") == 1)
        assert a.plane.values("title") == frozenset()
        third = Linked((a, b))
        await until(lambda: a.plane.values("title") == {b"after B's"} and a.plane.count("votes") == 4)
        for linked in (first, second, third):
            await linked.stop()

    run(main())


def test_nobody_but_members_may_anything_by_default() -> None:
    async def main() -> None:
        a, guest = _replica(A), _replica(GUEST)
        a.plane.set(NodeId(1), b"a", now_us=now_us())
        guest.plane.set(NodeId(2), b"guest", now_us=now_us())
        linked = Linked((a, guest))
        await until(lambda: GUEST in a.plane.frontier)
        assert (a.plane.names(), guest.plane.names()) == ((NodeId(1),), (NodeId(2),))
        await linked.stop()

    run(main())


def test_what_is_too_long_for_a_frame_goes_in_several() -> None:
    async def main() -> None:
        settings = ReplicationSettings(frame_bytes_max=5_000)
        a, b = _replica(A, settings=settings), _replica(B, settings=settings)
        for node in range(100):
            a.plane.set(NodeId(node), bytes(500), now_us=now_us())
        linked = Linked((a, b))
        await until(lambda: len(b.plane) == 100)
        assert _states(b) == _states(a)
        await linked.stop()

    run(main())


@pytest.mark.parametrize("operations_max", [1, 512])
def test_an_operation_that_no_frame_can_hold_is_told_and_the_others_go_on(operations_max: int) -> None:
    async def main() -> None:
        settings = ReplicationSettings(frame_bytes_max=5_000, operations_max=operations_max)
        skipped: list[tuple[PeerId, NodeId]] = []
        a = _replica(A, settings=settings, skipped=lambda peer, one: skipped.append((peer, one.id)))
        b = _replica(B, settings=settings)
        for node in range(5):
            a.plane.set(NodeId(node), bytes(50_000 if node in {1, 4} else 500), now_us=now_us())
        linked = Linked((a, b))
        await until(lambda: set(b.plane.names()) == {0, 2, 3})
        await until(lambda: len(skipped) == 2)
        a.plane.set(NodeId(1), b"short", now_us=now_us())
        a.wrote()
        await until(lambda: b.plane.state(NodeId(1)) == b"short")
        b.plane.set(NodeId(9), b"back", now_us=now_us())
        b.wrote()
        await until(lambda: a.plane.state(NodeId(9)) == b"back")
        assert skipped == [(B, 1), (B, 4)]
        assert not any(task.done() for task in linked.tasks)
        await linked.stop()

    run(main())


def test_what_fits_is_known_before_it_is_written() -> None:
    async def main() -> None:
        settings = ReplicationSettings(frame_bytes_max=5_000)
        skipped: list[NodeId] = []
        a = _replica(A, settings=settings, skipped=lambda _, one: skipped.append(one.id))
        b = _replica(B, settings=settings)
        key = "\x01" * 100
        longest = next(size for size in range(5_000, 0, -1) if a.fits(key, bytes(size)))
        assert longest > 2_000
        a.plane.set(NodeId(1), bytes(longest), now_us=now_us(), key=key)
        linked = Linked((a, b))
        await until(lambda: b.plane.state(key) == bytes(longest))
        assert skipped == []
        await linked.stop()

    run(main())


async def _answered(replica: Replication, *frames: bytes, peer: PeerId = B) -> str:
    """Why a link ends on which the peer says these things."""
    ours, theirs = _pipe()
    running = asyncio.create_task(replica.run(ours, peer))
    for frame in frames:
        await theirs.send(frame)
    return await running


def _greeting(peer: PeerId = B, features: tuple[str, ...] = (FEATURE,)) -> bytes:
    return handshake.encode(Capabilities(peer=peer, session="cells", features=features))


def _frame(wall: int) -> bytes:
    return canonical_json.encode(CrdtSync((CrdtOperation(NodeId(1), None, Stamp(wall, 0, B), b"x"),)))


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        pytest.param((_greeting(C),), WRONG_PEER, id="another peer"),
        pytest.param((_greeting(features=()),), "handshake", id="no such feature"),
        pytest.param((b"garbage",), "malformed", id="no handshake"),
        pytest.param((_frame(1),), "malformed", id="a frame before the handshake"),
        pytest.param((_greeting(), b"garbage"), "malformed", id="no frame"),
        pytest.param((_greeting(), _frame(2**63)), STAMP_AHEAD, id="a stamp from far ahead"),
        pytest.param((_greeting(), canonical_json.encode(OutboxAck(1))), UNEXPECTED, id="another message"),
    ],
)
def test_a_peer_that_breaks_the_rules_is_let_go_and_nothing_of_it_is_kept(frames: tuple[bytes, ...], why: str) -> None:
    async def main() -> None:
        a = _replica(A)
        assert await _answered(a, *frames) == why
        assert len(a.plane) == 0
        assert a.peers == frozenset()

    run(main())


def test_a_peer_that_says_nothing_is_let_go() -> None:
    async def main() -> str:
        return await _answered(_replica(A, settings=ReplicationSettings(handshake_seconds=0.05)))

    assert run(main()) == "handshake-timeout"


def test_a_peer_that_comes_back_takes_the_place_of_its_own_link() -> None:
    async def main() -> None:
        a, b = _replica(A), _replica(B)
        first = Linked((a, b))
        await until(lambda: A in b.peers and B in a.peers)
        second = Linked((a, b))
        assert "replaced" in await asyncio.gather(*first.tasks)
        a.plane.set(NodeId(1), b"x", now_us=now_us())
        a.wrote()
        await until(lambda: NodeId(1) in b.plane.names())
        assert a.peers == frozenset({B})
        await second.stop()

    run(main())


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_links_that_were_dialled_at_once_that_of_the_lesser_id_stands(*, is_first: bool) -> None:
    async def dial(own: Replication, other: Replication) -> list[asyncio.Task[str]]:
        ours, theirs = _pipe()
        tasks = [
            asyncio.create_task(own.run(ours, other.plane.own)),
            asyncio.create_task(other.run(theirs, own.plane.own, answers=True)),
        ]
        await until(lambda: any(task.done() for task in tasks) or bool(own.peers and other.peers))
        return tasks

    async def main() -> None:
        a, b = _replica(A), _replica(B)
        pairs = [(a, b), (b, a)]
        links = [await dial(*pair) for pair in (pairs if is_first else reversed(pairs))]
        stands, falls = links if is_first else reversed(links)
        assert set(await asyncio.gather(*falls)) <= {CROSSED, "closed", "replaced"}
        a.plane.set(NodeId(1), b"x", now_us=now_us())
        a.wrote()
        await until(lambda: NodeId(1) in b.plane.names())
        assert not any(task.done() for task in stands)
        waiting = asyncio.create_task(a.apart(B))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        for task in stands:
            task.cancel()
        await asyncio.gather(*stands, return_exceptions=True)
        await waiting
        await a.apart(B)

    run(main())


def test_a_peer_whose_link_is_old_comes_back_though_its_id_is_greater() -> None:
    """Who has a link does not dial, so the old one is dead."""

    async def main() -> None:
        settings = ReplicationSettings(handshake_seconds=0.05)
        a, b = _replica(A, settings=settings), _replica(B, settings=settings)
        ours, theirs = _pipe()
        old = asyncio.create_task(a.run(ours, B)), asyncio.create_task(b.run(theirs, A, answers=True))
        await until(lambda: bool(a.peers and b.peers))
        await asyncio.sleep(0.12)
        ours, theirs = _pipe()
        new = asyncio.create_task(a.run(ours, B, answers=True)), asyncio.create_task(b.run(theirs, A))
        assert "replaced" in await asyncio.gather(*old)
        await until(lambda: bool(a.peers and b.peers))
        await ours.close()
        await asyncio.gather(*new)

    run(main())


def test_a_task_that_is_cancelled_is_over() -> None:
    async def main() -> None:
        a, b = _replica(A), _replica(B)
        linked = Linked((a, b))
        await until(lambda: A in b.peers and B in a.peers)
        linked.tasks[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await linked.tasks[0]
        assert await linked.tasks[1] == "closed"

    run(main())


def test_a_task_that_is_cancelled_with_all_others_is_over() -> None:
    async def main() -> None:
        a, b = _replica(A), _replica(B)
        linked = Linked((a, b))
        await until(lambda: A in b.peers and B in a.peers)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        ended = await asyncio.gather(*linked.tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended)

    run(main())


class Unread(Pipe):
    """Takes two frames, and then none until somebody reads again."""

    def __init__(self, incoming: asyncio.Queue[bytes | None], outgoing: asyncio.Queue[bytes | None]) -> None:
        super().__init__(incoming, outgoing)
        self.is_read = asyncio.Event()
        self.sent = 0

    async def send(self, frame: bytes) -> None:
        self.sent += 1
        if self.sent > 2:
            await self.is_read.wait()
        await super().send(frame)


async def _met(cells: int) -> tuple[Replication, Unread, asyncio.Queue[bytes | None], asyncio.Task[str]]:
    """A replica with cells, and a link to a peer that has greeted it."""
    replica = _replica(A, clock_us=lambda: 10**15)
    for number in range(cells):
        replica.plane.set(NodeId(number), b"v", now_us=10**15)
    says: asyncio.Queue[bytes | None] = asyncio.Queue()
    pipe = Unread(says, asyncio.Queue())
    running = asyncio.create_task(replica.run(pipe, B))
    says.put_nowait(handshake.encode(Capabilities(peer=B, session="cells", features=(FEATURE, "json-base64"))))
    await until(lambda: pipe.sent == 2)
    return replica, pipe, says, running


def test_whoever_asks_often_and_does_not_read_is_owed_one_answer() -> None:
    async def main() -> None:
        _, pipe, says, running = await _met(3)
        for _ in range(1_000):
            says.put_nowait(b'{"ResyncRequest":{"from_epoch":0}}')
        await until(says.empty)
        assert not running.done()
        # What ends the link is done after everything that waits.
        says.put_nowait(canonical_json.encode(OutboxAck(1)))
        await until(says.empty)
        pipe.is_read.set()
        assert await running == UNEXPECTED
        assert 3 <= pipe.sent <= 4, "both greetings, the answer that was being sent, and one more"

    run(main())


def test_a_peer_that_takes_nothing_is_let_go() -> None:
    async def main() -> None:
        replica = _replica(A, settings=ReplicationSettings(stalled_seconds=0.05))
        replica.plane.set(NodeId(1), b"v", now_us=now_us())
        says: asyncio.Queue[bytes | None] = asyncio.Queue()
        pipe = Unread(says, asyncio.Queue())
        says.put_nowait(_greeting())
        says.put_nowait(canonical_json.encode(CrdtSync((), ((B, Stamp(1, 0, B)),))))
        assert await replica.run(pipe, B) == STALLED
        assert replica.peers == frozenset()

    run(main())


def test_whoever_makes_frames_and_takes_none_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says in turn that it has everything, and that it has nothing."""
    monkeypatch.setattr(replication, "WAITING_MAX", 8)

    async def main() -> None:
        replica, _, says, running = await _met(3)
        all_of_it = tuple(sorted(replica.plane.frontier.items()))
        for _ in range(100):
            says.put_nowait(canonical_json.encode(CrdtSync((), ((B, Stamp(1, 0, B)),))))
            says.put_nowait(canonical_json.encode(CrdtSync((), all_of_it)))
        assert await running == BEHIND
        assert replica.peers == frozenset()

    run(main())
