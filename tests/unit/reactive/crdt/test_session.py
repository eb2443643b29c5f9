from collections import deque
from random import Random

import pytest

from bobbin.reactive.crdt.plane import FOREIGN_STAMP, CellName, Merged, Plane
from bobbin.reactive.crdt.session import UNEXPECTED, SessionConfig, SessionEffect, SyncSession, Wrote
from bobbin.reactive.link_effects import Close, Send
from bobbin.reactive.link_events import Lost, Opened, PermissionsChanged, Received
from bobbin.reactive.messages import (
    CrdtOperation,
    CrdtSync,
    Message,
    NodeId,
    OutboxAck,
    PeerId,
    ResyncRequest,
    Stamp,
    Value,
)

A, B, C = PeerId(1), PeerId(2), PeerId(3)
MESSAGES_MAX = 10_000
"""Beyond this two sides would speak for ever."""


class Net:
    """Planes, and links between some of them that keep the order."""

    def __init__(self, *peers: PeerId, members: tuple[PeerId, ...] = (A, B, C), operations_max: int = 4) -> None:
        self.now = 1_000
        self.planes = {peer: Plane(peer, members=members) for peer in peers}
        self.members = members
        self.operations_max = operations_max
        self.sessions: dict[tuple[PeerId, PeerId], SyncSession] = {}
        self.wires: dict[tuple[PeerId, PeerId], deque[Message]] = {}
        self.closed: list[Close] = []
        self.messages = 0

    def link(self, one: PeerId, other: PeerId) -> None:
        for own, peer in ((one, other), (other, one)):
            config = SessionConfig(is_member=own in self.members, operations_max=self.operations_max)
            self.sessions[own, peer] = SyncSession(self.planes[own], peer, self._merge(own), config)
            self.wires[own, peer] = deque()
        for own, peer in ((one, other), (other, one)):
            self.perform(own, peer, self.sessions[own, peer].step(Opened(), now_us=self.now))

    def _merge(self, own: PeerId):  # type: ignore[no-untyped-def]  # noqa: ANN202 (the type of ``session.Merge``)
        def merge(sync: CrdtSync, sender: PeerId, now_us: int) -> Merged:
            merged = self.planes[own].ingest(sync, sender=sender, now_us=now_us)
            if merged.applied:
                self.tell(own, but=sender)
            return merged

        return merge

    def cut(self, one: PeerId, other: PeerId) -> None:
        """Whatever was on its way is lost."""
        for pair in ((one, other), (other, one)):
            if pair in self.sessions:
                self.sessions.pop(pair).step(Lost(), now_us=self.now)
                self.wires.pop(pair).clear()

    def tell(self, own: PeerId, *, but: PeerId | None = None) -> None:
        for (mine, peer), session in tuple(self.sessions.items()):
            if mine == own and peer != but:
                self.perform(own, peer, session.step(Wrote(), now_us=self.now))

    def write(self, own: PeerId, node: int, state: bytes) -> CrdtOperation:
        self.now += 1
        written = self.planes[own].set(NodeId(node), state, now_us=self.now)
        self.tell(own)
        return written

    def perform(self, own: PeerId, peer: PeerId, effects: tuple[SessionEffect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.wires[own, peer].append(effect.message)
            else:
                self.closed.append(effect)

    def deliver(self, own: PeerId, peer: PeerId) -> Message:
        """The next message from one to another."""
        message = self.wires[own, peer].popleft()
        self.messages += 1
        assert self.messages < MESSAGES_MAX, "they do not fall silent"
        self.perform(peer, own, self.sessions[peer, own].step(Received(message), now_us=self.now))
        return message

    def settle(self) -> None:
        while any(self.wires.values()):
            for own, peer in tuple(self.wires):
                if self.wires.get((own, peer)):
                    self.deliver(own, peer)

    def states(self, peer: PeerId) -> dict[CellName, Value | None]:
        plane = self.planes[peer]
        return {name: plane.state(name) for name in plane.names()}


def test_two_replicas_become_equal_and_fall_silent() -> None:
    net = Net(A, B)
    for node in range(10):
        net.write(A, node, b"a")
        net.write(B, node + 5, b"b")
    net.link(A, B)
    net.settle()
    assert net.states(A) == net.states(B) == {NodeId(node): b"a" if node < 10 else b"b" for node in range(15)}
    assert net.sessions[A, B].unacknowledged == net.sessions[B, A].unacknowledged == 0
    before = net.messages
    net.write(A, 1, b"new")
    net.settle()
    assert net.states(B)[NodeId(1)] == b"new"
    assert net.messages == before + 2, "a write, and the word that it was taken"


def test_no_frame_has_more_operations_than_the_bound() -> None:
    net = Net(A, B, operations_max=3)
    for node in range(20):
        net.write(A, node, b"a")
    net.link(A, B)
    frames: list[Message] = []
    while any(net.wires.values()):
        for pair in ((A, B), (B, A)):
            frames += [net.deliver(*pair) for _ in tuple(net.wires[pair])]
    sizes = [len(frame.operations) for frame in frames if isinstance(frame, CrdtSync)]
    assert max(sizes) == 3
    assert sum(sizes) == 20, "each was sent once"
    assert net.states(B) == net.states(A)


def test_what_one_peer_says_reaches_others_through_a_member() -> None:
    net = Net(A, B, C)
    net.link(A, B)
    net.link(B, C)
    net.settle()
    net.write(A, 1, b"from a")
    net.write(C, 2, b"from c")
    net.settle()
    assert net.states(A) == net.states(B) == net.states(C) == {NodeId(1): b"from a", NodeId(2): b"from c"}


def test_a_guest_sends_what_it_wrote_and_gets_everything() -> None:
    guest = PeerId(9)
    net = Net(A, B, guest)
    net.link(A, B)
    net.link(A, guest)
    net.write(B, 1, b"from b")
    net.write(guest, 2, b"from the guest")
    net.settle()
    assert net.states(guest) == net.states(B) == {NodeId(1): b"from b", NodeId(2): b"from the guest"}
    assert net.closed == []


def test_a_guest_that_passes_on_what_others_wrote_is_let_go() -> None:
    net = Net(A, B, members=(A,))
    net.link(A, B)
    net.settle()
    foreign = CrdtSync((CrdtOperation(NodeId(1), None, Stamp(5, 0, C), b"x"),))
    (closing,) = net.sessions[A, B].step(Received(foreign), now_us=net.now)
    assert isinstance(closing, Close)
    assert closing.code == FOREIGN_STAMP
    assert net.sessions[A, B].step(Wrote(), now_us=net.now) == ()
    assert net.sessions[A, B].step(Received(CrdtSync(())), now_us=net.now) == (), "nothing more is taken"


def test_what_cannot_be_acknowledged_is_sent_once() -> None:
    net = Net(A, B)
    lonely = CrdtSync((CrdtOperation(NodeId(1), None, Stamp(5, 0, C), b"without a frontier"),))
    net.planes[A].ingest(lonely, sender=C, now_us=net.now)
    net.link(A, B)
    net.settle()
    assert net.states(B) == {NodeId(1): b"without a frontier"}
    assert net.sessions[A, B].unacknowledged == 1
    net.write(A, 2, b"more")
    net.settle()
    net.cut(A, B)
    net.link(A, B)
    net.settle()
    assert net.states(B) == net.states(A)


def test_a_peer_that_comes_back_without_anything_gets_it_again() -> None:
    net = Net(A, B)
    net.link(A, B)
    for node in range(10):
        net.write(A, node, b"a")
    net.settle()
    assert net.planes[A].sync_for(B).operations == ()
    net.cut(A, B)
    assert len(net.planes[A].sync_for(B).operations) == 10, "what it had seen is forgotten with the link"
    net.planes[B] = Plane(B, members=(A, B, C))
    net.link(A, B)
    net.settle()
    assert net.states(B) == net.states(A)


def test_what_a_peer_may_not_read_is_not_sent_until_it_may() -> None:
    """RX-130: although the frontier was whole all the time."""
    net = Net(A, B, operations_max=2)
    hidden = {NodeId(node) for node in range(5)}
    for node in range(10):
        net.write(A, node, b"a")
    net.link(A, B)
    config = SessionConfig(reads=lambda one: one.id not in hidden, operations_max=2)
    net.sessions[A, B] = SyncSession(net.planes[A], B, net._merge(A), config)
    net.wires[A, B].clear()
    net.perform(A, B, net.sessions[A, B].step(Opened(), now_us=net.now))
    net.settle()
    assert set(net.states(B)) == {NodeId(node) for node in range(5, 10)}
    hidden.clear()
    net.perform(A, B, net.sessions[A, B].step(PermissionsChanged(), now_us=net.now))
    net.settle()
    assert net.states(B) == net.states(A)


def test_a_cold_peer_is_asked_and_who_is_asked_sends_everything() -> None:
    """RX-129."""
    net = Net(A, B)
    for node in range(6):
        net.write(A, node, b"a")
    net.link(A, B)
    net.wires[A, B].clear()
    first = net.sessions[B, A].step(Received(CrdtSync((net.planes[A].sync_for(B).operations[0],))), now_us=net.now)
    assert Send(ResyncRequest(0)) in first
    net.perform(A, B, net.sessions[A, B].step(Received(ResyncRequest(0)), now_us=net.now))
    net.settle()
    assert net.states(B) == net.states(A)


def test_other_messages_end_the_link() -> None:
    net = Net(A, B)
    net.link(A, B)
    (closing,) = net.sessions[A, B].step(Received(OutboxAck(1)), now_us=net.now)
    assert isinstance(closing, Close)
    assert closing.code == UNEXPECTED


def test_nothing_is_said_before_the_link_is_open() -> None:
    plane = Plane(A)
    session = SyncSession(plane, B, lambda sync, sender, now_us: plane.ingest(sync, sender=sender, now_us=now_us))
    assert session.step(Wrote(), now_us=1) == ()
    assert session.step(Received(CrdtSync(())), now_us=1) == ()


@pytest.mark.parametrize("seed", range(60))
def test_replicas_converge_over_links_that_break(seed: int) -> None:
    """RX-103, RX-128."""
    random = Random(seed)
    net = Net(A, B, C, PeerId(4), operations_max=random.choice((1, 3, 50)))
    pairs = [(A, B), (B, C), (A, PeerId(4))]
    for pair in pairs:
        net.link(*pair)
    for number in range(150):
        match random.randrange(6):
            case 0 | 1:
                net.write(random.choice(tuple(net.planes)), random.randrange(12), b"%d" % number)
            case 2 if random.random() < 0.3:
                pair = random.choice(pairs)
                net.cut(*pair)
                net.link(*pair)
            case _:
                flying = [pair for pair, wire in net.wires.items() if wire]
                if flying:
                    net.deliver(*random.choice(flying))
    net.settle()
    assert net.closed == []
    states = [net.states(peer) for peer in net.planes]
    assert all(one == states[0] for one in states)
