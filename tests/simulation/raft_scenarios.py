"""Small stories of a cluster in which one thing happens, each with what must come of it.

They run in a world without troubles of its own, so that everything which the worlds assert after every step is asserted
here as well. Some faults do not break a promise often enough for a few hundred seeds; these stories find them.
"""

from random import Random
from typing import Final

from msgspec import structs

from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.raft.effects import Persist, Role, Send
from bobbin.cluster.raft.entries import Configuration, Entry
from bobbin.cluster.raft.events import (
    AddLearner,
    Event,
    JointChange,
    Persisted,
    Received,
    Recovered,
    SnapshotWanted,
    Tick,
    Transfer,
)
from bobbin.cluster.raft.judging import Judge
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.cluster.raft.messages import (
    AppendAnswer,
    AppendEntries,
    RaftMessage,
    RequestVote,
    SnapshotChunk,
    TimeoutNow,
    VoteAnswer,
)
from bobbin.cluster.settings import RaftConfig
from bobbin.simulator.clock import SECOND_NS
from bobbin.simulator.raft_clients import Client, Request, Verb
from bobbin.simulator.raft_node import RaftNode
from bobbin.simulator.raft_shape import Shape
from bobbin.simulator.raft_world import RaftWorld

LONGEST_NS: Final = 300 * MILLISECOND_NS
"""Of the election timeouts."""


def cluster(voters: int = 3, *, spares: int = 0, seed: int = 1, config: RaftConfig | None = None) -> RaftWorld:
    """A cluster with its first leader, to which nothing happens by itself."""
    shape = Shape(
        voters=voters,
        spares=spares,
        clients=0,
        window_ns=0,
        troubles=0,
        think_ns_max=1,
        is_calm_dawn=True,
        is_bytes=False,
        is_slow=False,
        has_bad_disks=False,
        is_rotting=False,
        gather_ns=0,
        is_compacting=False,
        is_changing=False,
        is_hostile=False,
        is_rough=False,
        is_drifting=False,
        is_placed=True,
        is_checking=True,
        rotate_bytes=1 << 20,
        sessions_max=1_024,
        config=config or RaftConfig(),
    )
    world = RaftWorld(seed, shape=shape)
    world.dawn()
    world.pass_time(100 * MILLISECOND_NS)
    return world


def leader_of(world: RaftWorld) -> RaftNode:
    found = world.leader()
    assert found is not None, "nobody leads"
    return found


def machine_of(node: RaftNode) -> RaftMachine:
    assert node.machine is not None, f"{node.node} is down"
    return node.machine


def client_of(world: RaftWorld, nodes: list[NodeId] | None = None) -> Client:
    client = Client("story", world._random, world.timeline, world, world.book, nodes or list(world.nodes))
    client.whim, client.attempts_max = 0.0, 60
    return client


def write(world: RaftWorld, count: int = 1, nodes: list[NodeId] | None = None) -> list[Request]:
    """So many writes, one after the other, of a client that knows these nodes; whether they were answered or not."""
    client = client_of(world, nodes)
    made = []
    for _ in range(count):
        request = client.act(Verb.PUT)
        assert request is not None
        made.append(request)
        world.run_until(lambda: not client.is_busy, 10 * SECOND_NS, "a client waits for ever")
    return made


def others(world: RaftWorld, *nodes: NodeId) -> list[NodeId]:
    return [name for name in world.nodes if name not in nodes]


def stop(world: RaftWorld, name: NodeId) -> None:
    """A node is down until the end of its world."""
    world.nodes[name].crash()


# ---- sizes ---------------------------------------------------------------------------------------------------------


def commits_with_a_minority_down(voters: int) -> None:
    """3, 5 and 7 nodes bear 1, 2 and 3 that are down, whoever they are, and commit nothing with one more."""
    for seed in range(6):
        world = cluster(voters, seed=seed)
        down = Random(seed).sample(list(world.nodes), voters // 2)
        if seed % 2:
            down = [leader_of(world).node, *others(world, leader_of(world).node)[: voters // 2 - 1]]
        for name in down:
            stop(world, name)
        (answered,) = write(world, nodes=others(world, *down))
        assert answered.returned_ns is not None, f"{voters} nodes do not bear that {down} are down"
        stop(world, next(name for name in world.nodes if name not in down and name != leader_of(world).node))
        before = world.checker.ledger.last
        (unanswered,) = write(world, nodes=others(world, *down))
        assert unanswered.returned_ns is None
        world.pass_time(2 * SECOND_NS)
        assert world.checker.ledger.last == before, "something was committed without a majority"


def four_nodes_are_no_better_than_three() -> None:
    """Four bear one failure and not two, and of two halves neither commits."""
    world = cluster(4)
    names = list(world.nodes)
    world.network.cut(names[:2], names[2:])
    before = world.checker.ledger.last
    for half in (names[:2], names[2:]):
        (request,) = write(world, nodes=half)
        assert request.returned_ns is None
    assert world.checker.ledger.last == before
    world.network.heal()
    stop(world, names[3])
    (answered,) = write(world, nodes=names[:3])
    assert answered.returned_ns is not None
    stop(world, next(name for name in names[:3] if name != leader_of(world).node))
    assert write(world, nodes=names[:3])[0].returned_ns is None


# ---- calm ----------------------------------------------------------------------------------------------------------


def a_calm_cluster_stays_calm() -> None:
    """Heartbeats alone keep leader and term, and nobody even asks."""
    world = cluster(5)
    leader, term = leader_of(world), machine_of(leader_of(world)).term
    asked = {name: machine_of(node).stats.pre_votes_started for name, node in world.nodes.items()}
    world.pass_time(5 * SECOND_NS)
    assert leader_of(world) is leader
    assert machine_of(leader).term == term
    for name, node in world.nodes.items():
        assert machine_of(node).stats.pre_votes_started == asked[name], f"{name} has lost its patience"


def clocks_that_jump_move_nothing() -> None:
    """An hour forward or back at any node starts no election and ends no timer; monotonic time goes on."""
    world = cluster(3)
    leader, term = leader_of(world), machine_of(leader_of(world)).term
    stats = [machine_of(node).stats for node in world.nodes.values()]
    asked = [one.pre_votes_started for one in stats]
    for hours in (1, -2, 1):
        for node in world.nodes.values():
            beats = machine_of(leader).stats.heartbeats_sent
            node.clock.jump(hours * 3_600 * SECOND_NS)
            world.pass_time(SECOND_NS)
            assert machine_of(leader).stats.heartbeats_sent > beats + 10, "the leader's timers stand still"
        assert leader_of(world) is leader
        assert machine_of(leader).term == term
        assert [one.pre_votes_started for one in stats] == asked, "somebody has lost its patience"
    world.nodes[leader.node].clock.jump(-3_600 * SECOND_NS)
    stop(world, leader.node)
    world.run_until(lambda: world.leader() is not None, 10 * LONGEST_NS, "nobody notices that the leader is gone")
    assert write(world, nodes=others(world, leader.node))[0].returned_ns is not None


def a_cold_start_elects_in_time() -> None:
    """With every extension on, 3 and 5 nodes have a leader within ten of the longest timeouts."""
    for seed in range(30):
        cluster(3 + 2 * (seed % 2), seed=100 + seed)


# ---- partitions ----------------------------------------------------------------------------------------------------


def a_node_that_was_cut_off_comes_back_in_its_term() -> None:
    """It asks and asks, in its present term; when the cut heals nobody's term has grown, and the leader leads on."""
    world = cluster(3)
    leader = leader_of(world)
    term = machine_of(leader).term
    away = others(world, leader.node)[0]
    world.network.cut([away], others(world, away))
    world.pass_time(3 * SECOND_NS)
    assert machine_of(world.nodes[away]).term == term
    assert machine_of(world.nodes[away]).leader is None
    world.network.heal()
    world.pass_time(SECOND_NS)
    assert leader_of(world) is leader
    assert [machine_of(node).term for node in world.nodes.values()] == [term] * 3


def a_node_that_does_not_hear_its_leader_deposes_nobody() -> None:
    """It can ask, and all the others have heard their leader; without pre-vote as well."""
    for pre_vote, is_deaf in ((True, False), (False, False), (True, True)):
        world = cluster(3, config=RaftConfig(enable_pre_vote=pre_vote))
        leader = leader_of(world)
        term = machine_of(leader).term
        deaf = others(world, leader.node)[0]
        world.network.cut(others(world, deaf) if is_deaf else [leader.node], [deaf], one_way=True)
        world.network.cut([deaf], [leader.node], one_way=True)
        world.pass_time(2 * SECOND_NS)
        assert leader_of(world) is leader
        assert machine_of(leader).term == term
        assert not pre_vote or machine_of(world.nodes[deaf]).term == term


def a_leader_without_quorum_steps_down() -> None:
    """Within two checks, each one election timeout long; it commits nothing and answers no read meanwhile."""
    world = cluster(3)
    old = leader_of(world)
    world.network.cut([old.node], others(world, old.node))
    heard: list[int | None] = []
    world.read(old.node, b"apple", lambda index, item, leader: heard.append(index))  # noqa: ARG005
    (answered,) = write(world, nodes=others(world, old.node))
    assert answered.returned_ns is not None
    world.read(old.node, b"apple", lambda index, item, leader: heard.append(index))  # noqa: ARG005
    world.pass_time(2 * LONGEST_NS + 50 * MILLISECOND_NS)
    assert machine_of(old).role is Role.FOLLOWER
    assert heard == [None, None], "a deposed leader has answered a read"


def a_diverged_log_is_repaired() -> None:
    """What an old leader has alone gives way, from the first difference on; what is committed stays."""
    world = cluster(3)
    old = leader_of(world)
    write(world, 3)
    world.network.cut([old.node], others(world, old.node))
    for number in range(4):
        world.propose(old.node, _command(world, number), lambda answer, result, leader: None)  # noqa: ARG005
    world.pass_time(10 * MILLISECOND_NS)
    assert machine_of(old).last_index > world.checker.ledger.last
    write(world, 5, nodes=others(world, old.node))
    world.network.heal()
    world.run_until(world._is_well, 5 * SECOND_NS, "the logs stay different")
    world._expect_alike()


def _command(world: RaftWorld, number: int) -> bytes:
    command = b"\xff" + number.to_bytes(2, "big")
    world.book.nonsense.add(command)
    return command


# ---- crashes -------------------------------------------------------------------------------------------------------


def everybody_restarts_at_once() -> None:
    """At any moment: what was acknowledged is there, and no term has two leaders."""
    for moment in range(1, 40, 3):
        world = cluster(3, seed=moment)
        done = write(world, 2)
        client = client_of(world)
        client.act(Verb.PUT)
        world.pass_time(moment * MILLISECOND_NS // 5)
        for node in world.nodes.values():
            world.went_down(node)
        world.run_until(world._is_well, 5 * SECOND_NS, "the cluster does not come back")
        world._expect_alike()
        assert all(request.returned_ns is not None for request in done)
        assert write(world)[0].returned_ns is not None


def the_power_goes_at_each_write_of_a_node() -> None:
    """Wherever it is cut, the node comes back with what it has said, and the cluster goes on."""
    _strike_each_operation("cut_in")


def a_disk_fails_at_each_write_of_a_node() -> None:
    """Wherever it fails, once, nothing that was said is taken back, and the cluster goes on."""
    _strike_each_operation("fail_in")


def _strike_each_operation(attribute: str) -> None:
    config = RaftConfig(
        snapshot_threshold=4, snapshot_trailing_logs=1, compaction_check_interval=1, compaction_cooldown_ms=1
    )
    for operation in range(1, 46):
        world = cluster(3, seed=operation, config=config)
        node = leader_of(world) if operation % 2 else world.nodes[others(world, leader_of(world).node)[0]]
        setattr(node.disk, attribute, operation)
        write(world, 8)
        world.run_until(world._is_well, 5 * SECOND_NS, f"the cluster does not recover from {attribute} {operation}")
        world._expect_alike()


# ---- snapshots, members, transfers ---------------------------------------------------------------------------------


def a_snapshot_goes_on_over_a_change_of_leader() -> None:
    """A follower that fetches from one leader ends with one whole snapshot, by whichever leader."""
    config = RaftConfig(
        snapshot_threshold=5,
        snapshot_trailing_logs=0,
        snapshot_chunk_size=16,
        compaction_check_interval=1,
        compaction_cooldown_ms=1,
    )
    for seed in range(6):
        world = cluster(3, seed=seed, config=config)
        behind = others(world, leader_of(world).node)[0]
        world.network.cut([behind], others(world, behind))
        write(world, 14, nodes=others(world, behind))
        for node in world.nodes.values():
            node.ask(SnapshotWanted)
        chunks = 0
        old = leader_of(world)
        deliver = world.network._deliver

        def count(to: NodeId, sender: NodeId, message: RaftMessage) -> None:
            nonlocal chunks
            if isinstance(message, SnapshotChunk):
                chunks += 1
                if chunks == 3:
                    world.went_down(old)  # noqa: B023 (called in this round only)
            deliver(to, sender, message)  # noqa: B023

        world.network._deliver = count  # type: ignore[misc]
        world.network.heal()
        world.run_until(world._is_well, 10 * SECOND_NS, "the follower never catches up")
        assert chunks > 3, "the transfer was over before the leader went"
        world._expect_alike()
        assert machine_of(world.nodes[behind]).stats.snapshots_installed > 0


def a_spoilt_snapshot_is_refused() -> None:
    """A leader's chunk has other bytes than its hash says: nothing of it is kept, and the next transfer is whole."""
    config = RaftConfig(
        snapshot_threshold=5,
        snapshot_trailing_logs=0,
        snapshot_chunk_size=4_096,
        compaction_check_interval=1,
        compaction_cooldown_ms=1,
    )
    world = cluster(3, config=config)
    behind = others(world, leader_of(world).node)[0]
    world.network.cut([behind], others(world, behind))
    write(world, 14, nodes=others(world, behind))
    for node in world.nodes.values():
        node.ask(SnapshotWanted)
    spoilt = 0
    deliver = world.network._deliver

    def spoil(to: NodeId, sender: NodeId, message: RaftMessage) -> None:
        nonlocal spoilt
        if isinstance(message, SnapshotChunk) and not spoilt:
            spoilt = message.data.count(b"story.")
            message = structs.replace(message, data=message.data.replace(b"story.", b"storx."))
        deliver(to, sender, message)

    world.network._deliver = spoil  # type: ignore[misc]
    world.network.heal()
    world.run_until(world._is_well, 10 * SECOND_NS, "the follower never catches up")
    assert spoilt
    assert world.tally["alarm: snapshot-refused"] == 1
    world._expect_alike()


def a_joint_change_needs_both_majorities() -> None:
    """Two of three voters are replaced while they are cut off: the new majority alone commits nothing."""
    world = cluster(3, spares=2)
    leader = leader_of(world)
    leaving = [name for name in world.bootstrap.voters if name != leader.node]
    coming = others(world, *world.bootstrap.voters)
    for name in coming:
        leader.ask(lambda request, name=name: AddLearner(request, name))  # type: ignore[misc]
        world.pass_time(200 * MILLISECOND_NS)
    for name in leaving:
        world.network.cut([name], others(world, name))
    before = machine_of(leader).commit_index
    leader.ask(lambda request: JointChange(request, tuple(coming), tuple(leaving)))
    world.pass_time(200 * MILLISECOND_NS)
    assert machine_of(leader).configuration.is_joint
    assert machine_of(leader).commit_index == before, "committed by the new majority alone"
    world.network.heal()
    world.run_until(world._is_well, 5 * SECOND_NS, "the joint configuration is never left")
    voters = machine_of(leader_of(world)).configuration
    assert set(voters.voters) == {leader.node, *coming}
    assert write(world)[0].returned_ns is not None


def a_transfer_waits_for_its_target() -> None:
    """The target catches up first; then it leads, although everybody has just heard the old leader."""
    world = cluster(3)
    leader = leader_of(world)
    target = others(world, leader.node)[0]
    world.network.cut([target], others(world, target))
    write(world, 3, nodes=others(world, target))
    world.network.heal()
    leader.ask(lambda request: Transfer(request, target))
    # Sooner than anybody would lose patience.
    world.run_until(lambda: leader_of(world).node == target, 140 * MILLISECOND_NS, "leadership is not handed over")
    assert write(world)[0].returned_ns is not None


def nobody_else_may_ask_for_an_election() -> None:
    """``TimeoutNow`` of another than the leader, or of another term, does nothing."""
    world = cluster(3)
    leader = leader_of(world)
    target, stranger = others(world, leader.node)
    term = machine_of(leader).term
    for sender, in_term in ((stranger, term), (leader.node, Term(term - 1))):
        world.nodes[target].receive(sender, TimeoutNow(term=in_term, leader=sender))
        world.pass_time(LONGEST_NS)
        assert leader_of(world) is leader
        assert machine_of(leader).term == term


# ---- one machine ---------------------------------------------------------------------------------------------------

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


class Alone:
    """One machine, without pre-vote, whose disk answers at once."""

    def __init__(self, recovered: Recovered | None = None, *, judge: Judge | None = None) -> None:
        self.now_ns = 0
        self.machine = RaftMachine(
            RaftConfig(enable_pre_vote=False),
            node=A,
            recovered=recovered or Recovered(),
            bootstrap=Configuration((A, B, C)),
            random=Random(1),
            checking=True,
            judge=judge,
        )

    @property
    def is_leader(self) -> bool:
        return self.machine.role is Role.LEADER

    def step(self, event: Event) -> list[Send]:
        effects = self.machine.step(event, now_ns=self.now_ns)
        said = [effect for effect in effects if isinstance(effect, Send)]
        for effect in effects:
            if isinstance(effect, Persist):
                said += self.step(Persisted(effect.token))
        return said

    def wait(self) -> list[Send]:
        """A step, and the longest timeout later another."""
        said = self.step(Tick())
        self.now_ns += LONGEST_NS
        return said + self.step(Tick())


def grants_of_an_older_round_count_for_nothing() -> None:
    """A candidate of term 2 is not elected by votes that it was given in term 1."""
    alone = Alone()
    first = [one.message for one in alone.wait() if isinstance(one.message, RequestVote)]
    second = [one.message for one in alone.wait() if isinstance(one.message, RequestVote)]
    assert [one.term for one in (*first, *second)] == [1, 1, 2, 2]
    for voter in (B, C):
        late = VoteAnswer(term=Term(1), granted=True, voter=voter, request=first[0].request)
        alone.step(Received(voter, late))
        alone.step(Received(voter, structs.replace(late, request=second[0].request)))
        alone.step(Received(voter, structs.replace(late, term=Term(2))))
    assert not alone.is_leader
    alone.step(Received(B, VoteAnswer(term=Term(2), granted=True, voter=B, request=second[0].request)))
    assert alone.is_leader


def a_refusal_is_contact() -> None:
    """A leader that repairs one follower through many refusals stays; when nobody says anything it goes."""
    entries = tuple(Entry(Term(1), Index(index), None) for index in range(1, 6))
    alone = Alone(Recovered(term=Term(1), entries=entries))
    (request, *_) = [one.message for one in alone.wait() if isinstance(one.message, RequestVote)]
    grant = VoteAnswer(term=Term(2), granted=True, voter=B, request=request.request)
    said = alone.step(Received(B, grant))
    for _ in range(40):
        for message in [one.message for one in said if one.to == B]:
            assert isinstance(message, AppendEntries)
            refusal = AppendAnswer(
                term=Term(2), success=False, follower=B, match_index=message.previous_index, round=message.round
            )
            alone.step(Received(B, refusal))
        alone.now_ns += 50 * MILLISECOND_NS
        said = alone.step(Tick())
        assert alone.is_leader, "refusals are taken for silence"
    for _ in range(20):
        alone.now_ns += 50 * MILLISECOND_NS
        alone.step(Tick())
    assert not alone.is_leader


def the_term_of_a_log_counts_before_its_length() -> None:
    """A longer log of an older term is behind; a shorter one of a newer term is not."""
    entries = tuple(Entry(Term(3), Index(index), None) for index in (1, 2))
    for last_term, last_index, granted in ((2, 9, False), (3, 1, False), (3, 2, True), (4, 1, True)):
        alone = Alone(Recovered(term=Term(3), entries=entries))
        request = RequestVote(
            term=Term(9), candidate=B, last_index=Index(last_index), last_term=Term(last_term), request=1
        )
        (answer,) = [one.message for one in alone.step(Received(B, request))]
        assert isinstance(answer, VoteAnswer)
        assert answer.granted is granted, (last_term, last_index)
