"""Whole machines behind their doors: what nodes say goes signed through the gateway of whoever hears it, and works.

Time is counted in steps of 5 ms. Disks obey at once; nothing is lost but what a door refuses.
"""

from collections import deque
from random import Random

import pytest

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.identity import Identity
from bobbin.cluster.membership import effects as gossip_effects
from bobbin.cluster.membership import events as gossip_events
from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.cluster.membership.messages import Alive, GossipMessage, Health, Suspect
from bobbin.cluster.names import MILLISECOND_NS, NodeId, Term
from bobbin.cluster.raft import effects as raft_effects
from bobbin.cluster.raft import events as raft_events
from bobbin.cluster.raft.effects import Append, Apply, HardState, Persist, Role, Truncate
from bobbin.cluster.raft.entries import Configuration, Entry
from bobbin.cluster.raft.events import Applied, Persisted, Propose, Received, Recovered
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.cluster.raft.messages import RaftMessage
from bobbin.cluster.settings import GossipConfig, MessageValidationConfig, RaftConfig
from bobbin.wire.cluster import codec
from bobbin.wire.cluster.codec import Hello, Message
from bobbin.wire.cluster.envelope import Sealer, pack, unpack
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from bobbin.wire.cluster.gateway import HELLO_TYPE, Gateway
from bobbin.wire.cluster.registry import Registry
from bobbin.wire.cluster.replay import SequenceTracker
from bobbin.wire.cluster.validation import Bounds
from tests.simulation.raft_planting import Edit, planted
from tests.support.cluster_wire import CLUSTER, NOW_MS, altered, envelope, unsigned

STEP_MS = 5
SIGNATURES = GossipConfig(require_signatures=True)


def identity(words: str) -> Identity:
    return Identity(words.encode().ljust(32, b"\0"))


class Node:
    """One node: machines, a disk that is a few fields, and a door in each life."""

    def __init__(self, own: Identity, seat: NodeId, world: "World", *, embedding: Embedding | None) -> None:
        self.seat = seat
        self.world = world
        self.embedding = embedding
        self.registry = Registry()
        self.boot_id = 0
        self.term_and_vote = HardState(Term(0), None)
        self.entries: list[Entry] = []
        self.incarnation = 0
        self.applied: list[bytes] = []
        self.start(own)

    def start(self, own: Identity) -> None:
        """Begin a life, with this key."""
        self.boot_id += 1
        self.is_up = True
        self.applied = []
        self.sealer = Sealer(own, cluster=CLUSTER, boot_id=self.boot_id)
        self.door = Gateway(
            CLUSTER,
            self.seat,
            self.registry,
            SequenceTracker(),
            MessageValidationConfig(),
            boot_id=self.boot_id,
            gossip=SIGNATURES,
        )
        self.raft = RaftMachine(
            RaftConfig(),
            node=self.seat,
            recovered=Recovered(
                term=self.term_and_vote.term, voted_for=self.term_and_vote.voted_for, entries=tuple(self.entries)
            ),
            bootstrap=Configuration(self.world.seats),
            random=self.world.random,
            embedding=self.embedding,
            checking=True,
        )
        self.gossip = MembershipMachine(
            SIGNATURES,
            node=self.seat,
            incarnation=self.incarnation,
            peers=[(seat, None) for seat in self.world.seats if seat != self.seat],
            random=self.world.random,
            checking=True,
        )
        for seat in self.world.seats:
            if seat != self.seat:
                self.send(seat, Hello(node=self.seat))

    def send(self, to: NodeId, message: Message) -> None:
        """Send what may be sent: nothing but Hello before the other's Hello has come."""
        if isinstance(message, Hello) or self.sealer.knows(to):
            self.world.mail.append((to, self.sealer.seal(to, message, now_ms=self.world.now_ms)))

    def take(self, raw: bytes) -> None:
        """What has come: admitted, or refused and counted by the door."""
        try:
            admitted = self.door.admit(raw, now_ms=self.world.now_ms)
        except MessageRefused:
            return
        message = admitted.message
        if isinstance(message, Hello):
            if self.sealer.learn(admitted.sender, admitted.boot_id):
                self.send(admitted.sender, Hello(node=self.seat))
        elif isinstance(message, RaftMessage):
            self.step(Received(admitted.sender, message))
        else:
            self.step_gossip(gossip_events.Heard(admitted.sender, message))

    def step(self, event: raft_events.Event) -> None:
        waiting = deque([event])
        while waiting:
            for effect in self.raft.step(waiting.popleft(), now_ns=self.world.now_ns):
                match effect:
                    case Persist(token, records):
                        self._persist(records)
                        waiting.append(Persisted(token))
                    case raft_effects.Send(to, message):
                        self.send(to, message)
                    case Apply(entries):
                        self.applied += [entry.payload for entry in entries if isinstance(entry.payload, bytes)]
                        waiting.append(Applied(entries[-1].index))
                    case _:
                        pass

    def step_gossip(self, event: gossip_events.Event) -> None:
        waiting = deque([event])
        while waiting:
            for effect in self.gossip.step(waiting.popleft(), now_ns=self.world.now_ns):
                match effect:
                    case gossip_effects.PersistIncarnation(incarnation):
                        self.incarnation = incarnation
                        waiting.append(gossip_events.IncarnationPersisted(incarnation))
                    case gossip_effects.Send(to, message):
                        self.send(to, message)
                    case _:
                        pass

    def _persist(self, records: tuple[raft_effects.DurableRecord, ...]) -> None:
        for record in records:
            match record:
                case HardState():
                    self.term_and_vote = record
                case Append(entries):
                    self.entries += entries
                case Truncate(from_index):
                    del self.entries[from_index - 1 :]
                case _:
                    raise AssertionError("no snapshot is taken here")


class World:
    """Three nodes, and a clock."""

    def __init__(self, seed: int = 1, *, embedded: bool = True) -> None:
        self.random = Random(seed)
        self.now_ns = 0
        self.mail: deque[tuple[NodeId, bytes]] = deque()
        self.carried: list[tuple[NodeId, bytes]] = []
        """Everything that was ever sent."""
        self.identities = [identity(words) for words in ("one", "two", "three")]
        self.seats = tuple(sorted(one.node for one in self.identities))
        self.nodes = {
            own.node: Node(own, own.node, self, embedding=own.embedding if embedded else None)
            for own in self.identities
        }
        for node in self.nodes.values():
            for own in self.identities:
                node.registry.register(own.public)

    @property
    def now_ms(self) -> int:
        return NOW_MS + self.now_ns // MILLISECOND_NS

    def run(self, milliseconds: int) -> None:
        """Let time pass."""
        for _ in range(milliseconds // STEP_MS):
            self.now_ns += STEP_MS * MILLISECOND_NS
            for node in self.nodes.values():
                if node.is_up:
                    node.step(raft_events.Tick())
                    node.step_gossip(gossip_events.Tick())
            while self.mail:
                to, raw = self.mail.popleft()
                self.carried.append((to, raw))
                if self.nodes[to].is_up:
                    self.nodes[to].take(raw)

    def leader(self) -> Node:
        leaders = [node for node in self.nodes.values() if node.is_up and node.raft.role is Role.LEADER]
        return max(leaders, key=lambda node: node.raft.term)

    def followers(self) -> list[Node]:
        leader = self.leader()
        return [node for node in self.nodes.values() if node is not leader]

    def commit(self, command: bytes) -> None:
        """Propose, and let it be applied everywhere that is up."""
        self.leader().step(Propose(1, (command,)))
        self.run(300)
        for node in self.nodes.values():
            assert not node.is_up or node.applied[-1:] == [command]

    def refusals(self) -> set[Refusal]:
        return {refusal for node in self.nodes.values() for refusal in node.door.refused}


def test_a_cold_start_through_the_door_elects_and_replicates() -> None:
    """CL-271, CL-260: from term 0, with and without embeddings, every message signed, and none of them refused."""
    for embedded in (True, False):
        world = World(embedded=embedded)
        world.run(1_500)
        for number in range(3):
            world.commit(str(number).encode())
        assert {tuple(node.applied) for node in world.nodes.values()} == {(b"0", b"1", b"2")}
        assert world.refusals() == set()
        assert all(node.door.admitted > 20 for node in world.nodes.values())


def test_a_door_that_refuses_the_term_of_a_fresh_cluster_is_noticed() -> None:
    """L5 planted: nobody is ever elected."""
    with planted((Edit(Bounds, "term", "if not 0 <= value", "if not 0 < value"),)):
        world = World(embedded=True)
        world.run(1_500)
        assert [node.seat for node in world.nodes.values() if node.raft.role is Role.LEADER] == []
        assert Refusal.TERM in world.refusals()


def test_the_cluster_goes_on_while_a_key_is_changed() -> None:
    """CL-366: a follower gets a new key and is then needed for the quorum; its old key is worth nothing any more."""
    world = World(seed=2)
    world.run(1_500)
    world.commit(b"before")
    leader = world.leader()
    changed, other = world.followers()
    old = changed.sealer
    late = old.seal(leader.seat, codec.Hello(node=changed.seat), now_ms=world.now_ms)
    fresh = identity("a new key")
    for node in world.nodes.values():
        node.registry.register(fresh.public, seat=changed.seat)
    changed.is_up = False
    world.run(100)
    changed.start(fresh)
    changed.is_up = True
    for node in world.nodes.values():
        node.registry.remove(changed.seat)
    world.run(500)
    other.is_up = False
    world.commit(b"after")
    assert changed.applied == [b"before", b"after"]
    assert world.leader() is leader
    counted = leader.door.refused[Refusal.STRANGER]
    leader.take(late)
    leader.take(old.seal(leader.seat, codec.Hello(node=changed.seat), now_ms=world.now_ms))
    assert leader.door.refused[Refusal.STRANGER] == counted + 2


def test_what_was_recorded_before_a_restart_is_refused_after_it() -> None:
    """CL-135, CL-254: everything that was ever said to a node, played to its next life."""
    world = World(seed=3)
    world.run(2_000)
    node = world.followers()[0]
    recorded = [raw for to, raw in world.carried if to == node.seat]
    hellos = sum(unpack(raw).type == HELLO_TYPE for raw in recorded)
    assert len(recorded) > 50
    node.start(next(own for own in world.identities if own.node == node.seat))
    before = node.raft.term, dict(node.gossip.table.states)
    for raw in recorded:
        node.take(raw)
    # A recorded Hello says in which life its sender was, which is all that it can do.
    assert node.door.admitted == hellos
    assert node.door.refused == {Refusal.WRONG_DESTINATION: len(recorded) - hellos}
    assert (node.raft.term, dict(node.gossip.table.states)) == before
    world.run(1_000)
    world.commit(b"afterwards")


@pytest.mark.slow
def test_signed_gossip_finds_failures_and_refutes_and_a_bare_word_changes_nothing() -> None:
    """CL-365, CL-118, CL-135, CL-336: suspicion, failure and refutation in a running cluster."""
    world = World(seed=4)
    world.run(3_000)
    one, two, three = world.nodes.values()
    assert all(node.gossip.health(seat) is Health.HEALTHY for node in world.nodes.values() for seat in world.seats)

    def said(message: GossipMessage, by: Node) -> bytes:
        return by.sealer.seal(two.seat, message, now_ms=world.now_ms)

    # Somebody without a key says that the third node is suspected, and in its name that it is alive.
    states = dict(two.gossip.table.states)
    incarnation = three.gossip.spoken
    for lie in (
        Suspect(reporter=one.seat, suspect=three.seat, incarnation=incarnation),
        Suspect(reporter=one.seat, suspect=two.seat, incarnation=two.gossip.spoken),
        Alive(node_id=one.seat, incarnation=one.gossip.spoken + 1),
    ):
        sealed = unpack(said(lie, one))
        bare = unsigned(sealed)
        forged = pack(altered(envelope(sealed.type, sealed.payload, identity=identity("nobody")), sender=one.seat))
        for raw in (bare, forged):
            before = two.door.admitted
            two.take(raw)
            assert two.door.admitted == before
    assert two.gossip.table.states == states
    assert two.door.refused[Refusal.UNSIGNED] == 3

    # The same word, signed, is heeded, and refuted by whom it concerns.
    spoken = two.gossip.spoken
    recorded = said(Suspect(reporter=one.seat, suspect=two.seat, incarnation=spoken), one)
    two.take(recorded)
    assert two.gossip.spoken > spoken
    world.run(1_000)
    assert one.gossip.table.states[two.seat].incarnation == two.gossip.spoken
    assert one.gossip.health(two.seat) is Health.HEALTHY
    raised = two.gossip.spoken
    two.take(recorded)
    assert two.door.refused[Refusal.REPLAYED] == 1
    assert two.gossip.spoken == raised

    # A node that is gone is found to have failed.
    three.is_up = False
    world.run(15_000)
    assert one.gossip.health(three.seat) is two.gossip.health(three.seat) is Health.FAILED
