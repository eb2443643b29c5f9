"""A simulated node: what it keeps over a crash, what waits while it stands still, whose clock it goes by."""

from random import Random

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.membership.effects import Effect
from bobbin.cluster.membership.events import Event, Heard, IncarnationPersisted, PersistFailed, Tick
from bobbin.cluster.membership.messages import GossipMessage, Ping, Pong, Suspect
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.settings import GossipConfig
from bobbin.simulator.clock import SECOND_NS, NodeClock, Timeline
from bobbin.simulator.membership_member import Disk, Member

A, B = NodeId("a"), NodeId("b")


class Alone:
    """A stage with one member on it."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.sent: list[tuple[NodeId, GossipMessage]] = []
        self.events: list[Event] = []
        self.clock = NodeClock(self.timeline, skew_ns=5 * SECOND_NS, started_ns=7 * SECOND_NS)
        self.member = Member(
            self, A, GossipConfig(), random=Random(2), clock=self.clock, embedding=Embedding.dense((1.0,))
        )
        self.member.start([(A, None), (B, None)])

    def send(self, origin: NodeId, to: NodeId, message: GossipMessage) -> None:
        assert origin == A
        self.sent.append((to, message))

    def look(self, member: Member, event: Event, effects: list[Effect]) -> None:
        del effects
        assert member is self.member
        self.events.append(event)

    def run(self, milliseconds: int) -> None:
        until = self.timeline.now_ns + milliseconds * MILLISECOND_NS
        while self.timeline.step(until_ns=until):
            pass


def test_an_incarnation_is_durable_after_a_while_and_kept_over_a_crash() -> None:
    stage = Alone()
    member = stage.member
    assert member.disk.incarnation == 0
    stage.run(20)
    assert member.disk.incarnation == 1
    assert IncarnationPersisted(1) in stage.events
    member.crash()
    stage.run(5_000)
    member.start([(B, None)])
    machine = member.machine
    assert machine is not None
    assert (machine.spoken, machine.incarnation) == (1, 2)


def test_what_is_not_written_when_it_dies_is_lost() -> None:
    stage = Alone()
    stage.member.crash()
    stage.run(1_000)
    assert stage.member.disk.incarnation == 0
    assert stage.events == [Tick()]


def test_a_disk_that_fails_says_so() -> None:
    disk = Disk(Random(0))
    disk.failing = 1.0
    assert isinstance(disk.write(5), PersistFailed)
    assert disk.incarnation == 0
    disk.failing = 0.0
    assert disk.write(5) == IncarnationPersisted(5)
    disk.write(3)
    assert disk.incarnation == 5, "an older wish that comes later takes nothing back"


def test_what_comes_while_it_stands_still_waits() -> None:
    stage = Alone()
    stage.run(50)
    stage.member.stall()
    assert stage.member.is_stalled
    stage.sent.clear()
    stage.member.give(Heard(B, Ping(origin=B, sequence=4)))
    stage.run(2_000)
    assert stage.sent == []
    stage.member.resume()
    assert (B, Pong(responder=A, sequence=4)) in stage.sent
    assert not stage.member.is_stalled


def test_it_lives_by_its_forward_clock() -> None:
    stage = Alone()
    stage.run(100)
    before = stage.member.now_ns
    stage.clock.jump(-3_600 * SECOND_NS)
    assert stage.member.now_ns == before == 7 * SECOND_NS + stage.timeline.now_ns


def test_late_wakes_of_an_earlier_life_are_dropped() -> None:
    stage = Alone()
    stage.run(300)
    stage.member.crash()
    stage.member.start([(B, None)])
    ticks = sum(isinstance(event, Tick) for event in stage.events)
    stage.run(1_000)
    # A gossip round each 200 ms, and what probes need; twice as many would be those of two lives.
    assert sum(isinstance(event, Tick) for event in stage.events) - ticks <= 10
    stage.member.give(Heard(B, Suspect(reporter=B, suspect=A, incarnation=9)))
    assert stage.member.machine is not None
    assert stage.member.machine.incarnation == 10
