"""One node over its lives: effects in order, three attempts at a write, snapshots on the side."""

from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.raft.events import SnapshotWanted
from bobbin.cluster.raft.messages import TimeoutNow
from bobbin.simulator.clock import SECOND_NS
from bobbin.simulator.raft_clients import Answer
from bobbin.simulator.raft_shape import Speed
from tests.simulation.raft_scenarios import cluster, leader_of, machine_of, others, write


def test_a_life_ends_and_the_next_begins_with_what_was_durable() -> None:
    world = cluster(3)
    write(world, 3)
    node = leader_of(world)
    last, term, life = machine_of(node).last_index, machine_of(node).term, node.life
    node.crash()
    assert not node.is_up
    assert node.life == life + 1
    assert node.start()
    assert machine_of(node).last_index == last
    assert machine_of(node).term == term
    assert node.applied == 0
    world.run_until(lambda: node.applied >= last, 5 * SECOND_NS, "nothing is applied again")


def test_what_an_earlier_life_had_planned_does_not_happen() -> None:
    world = cluster(3)
    node = leader_of(world)
    done: list[int] = []
    node._later(MILLISECOND_NS, lambda: done.append(1))
    node.crash()
    node.start()
    node._later(MILLISECOND_NS, lambda: done.append(2))
    world.pass_time(10 * MILLISECOND_NS)
    assert done == [2]


def test_a_slow_disk_gathers_what_waits_into_one_group() -> None:
    world = cluster(3)
    node = leader_of(world)
    node.speed = Speed(write_ns_max=50 * MILLISECOND_NS, answer_ns_max=5 * MILLISECOND_NS)
    before = node.disk.operations
    answers: list[Answer] = []
    for number in range(6):
        command = b"\xff%d" % number
        world.book.nonsense.add(command)
        node.propose(command, lambda answer, result, leader: answers.append(answer))  # noqa: ARG005
    world.pass_time(SECOND_NS)
    assert answers == [Answer.DONE] * 6
    assert node.disk.operations - before < 6 * 2, "fewer syncs than proposals"


def test_a_write_is_tried_three_times_and_then_taken_back() -> None:
    world = cluster(3)
    node = world.nodes[others(world, leader_of(world).node)[0]]
    node.disk.error_rate = 1.0
    write(world, 1)
    world.pass_time(250 * MILLISECOND_NS)
    assert machine_of(node).stats.persist_failures == 0
    world.pass_time(SECOND_NS)
    assert machine_of(node).stats.persist_failures > 0
    assert world.tally["alarm: storage"] > 0
    node.disk.error_rate = 0.0
    world.run_until(world._is_well, 5 * SECOND_NS, "it does not recover")


def test_a_node_that_stands_still_hears_everything_later() -> None:
    world = cluster(3)
    node = world.nodes[others(world, leader_of(world).node)[0]]
    node.paused_until_ns = world.timeline.now_ns + 100 * MILLISECOND_NS
    before = machine_of(node).last_index
    write(world, 1, nodes=[leader_of(world).node])
    assert machine_of(node).last_index == before
    world.pass_time(200 * MILLISECOND_NS)
    assert machine_of(node).last_index > before


def test_a_snapshot_is_written_while_the_table_moves_on() -> None:
    world = cluster(3)
    write(world, 3)
    node = leader_of(world)
    node.speed = Speed(snapshot_ns_max=400 * MILLISECOND_NS)
    node.ask(SnapshotWanted)
    index = node.applied
    write(world, 2)
    world.pass_time(SECOND_NS)
    snapshot = machine_of(node).snapshot
    assert snapshot is not None
    assert snapshot.last_index == index < node.applied
    node.crash()
    node.start()
    assert node.applied == index


def test_a_node_that_is_down_takes_nothing() -> None:
    world = cluster(3)
    node = leader_of(world)
    node.crash()
    node.receive(
        NodeId("n1"),
        TimeoutNow(term=machine_of(next(n for n in world.nodes.values() if n.is_up)).term, leader=node.node),
    )
    heard: list[object] = []
    node.propose(b"x", lambda *answer: heard.append(answer))
    node.read(b"x", lambda *answer: heard.append(answer))
    node.ask(SnapshotWanted)
    assert heard == []
