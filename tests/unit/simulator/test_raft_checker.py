"""R1 to R14: what a cluster keeps, and that breaking it is seen, promise by promise."""

import pytest

from bobbin.cluster.names import Index, Term
from bobbin.cluster.raft.effects import Append, Apply, Effect, HardState, Persist, Role, RoleChanged, Truncate
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.events import Tick
from bobbin.cluster.raft.messages import (
    AppendAnswer,
    AppendEntries,
    PreVote,
    RaftMessage,
    RequestVote,
    TimeoutNow,
    VoteAnswer,
)
from bobbin.simulator.raft_node import RaftNode
from bobbin.simulator.raft_shape import draw_shape
from bobbin.simulator.raft_world import RaftWorld
from bobbin.simulator.world import Broken
from tests.simulation.raft_scenarios import cluster, leader_of, machine_of, others, write


@pytest.fixture(name="world")
def make_world() -> RaftWorld:
    """Three nodes that have agreed on something."""
    world = cluster(3)
    write(world, 2)
    world.pass_time(100_000_000)
    return world


def follower_of(world: RaftWorld) -> RaftNode:
    return world.nodes[others(world, leader_of(world).node)[0]]


def look(world: RaftWorld, node: RaftNode, *effects: Effect) -> None:
    world.checker.look(machine_of(node), Tick(), effects)


def entry(index: int, term: int) -> Entry:
    return Entry(Term(term), Index(index), None)


def test_a_step_in_which_nothing_happens_is_fine(world: RaftWorld) -> None:
    for node in world.nodes.values():
        look(world, node)
        world.checker.compare_log(machine_of(node))


def test_what_the_disk_is_told_must_be_what_the_machine_holds(world: RaftWorld) -> None:
    last = world.checker.ledger.last
    node = follower_of(world)
    with pytest.raises(Broken, match=r"R14: the log of"):
        look(world, node, Persist(99, (Append((entry(last + 1, 1),)),)))


def test_a_leader_only_appends_in_its_own_term(world: RaftWorld) -> None:
    last, leader = world.checker.ledger.last, leader_of(world)
    with pytest.raises(Broken, match=r"R14: .* leads in term 1 and appends an entry of term 0"):
        look(world, leader, Persist(99, (Append((entry(last + 1, 0),)),)))
    with pytest.raises(Broken, match=r"R14: .* leads and cuts"):
        look(world, leader, Persist(99, (Truncate(Index(last)),)))


def test_a_follower_cuts_only_above_commit_and_where_the_logs_differ(world: RaftWorld) -> None:
    last, node = world.checker.ledger.last, follower_of(world)
    with pytest.raises(Broken, match=r"R9"):
        look(world, node, Persist(99, (Truncate(Index(last)), Append((entry(last, 2),)))))
    with pytest.raises(Broken, match=r"R14: .* behind its last entry"):
        look(world, node, Persist(99, (Truncate(Index(last + 1)),)))
    with pytest.raises(Broken, match=r"R14: .* puts entry"):
        look(world, node, Persist(99, (Append((entry(last + 2, 1),)),)))


def test_roles_change_only_as_they_may(world: RaftWorld) -> None:
    leader = leader_of(world)
    with pytest.raises(Broken, match=r"R13"):
        look(world, leader, RoleChanged(Role.LEADER, Role.CANDIDATE, Term(1), None))
    with pytest.raises(Broken, match=r"R13"):
        look(world, follower_of(world), RoleChanged(Role.FOLLOWER, Role.LEADER, Term(1), None))
    other = cluster(3)
    with pytest.raises(Broken, match=r"nobody was told"):
        look(other, leader_of(other), RoleChanged(Role.LEADER, Role.FOLLOWER, Term(1), None))


def test_a_vote_is_durable_asked_for_and_the_only_one(world: RaftWorld) -> None:
    node, leader = follower_of(world), leader_of(world)
    view = world.checker.views[node.node]
    said = VoteAnswer(term=Term(1), granted=True, voter=node.node, request=1)
    view.durable_vote = None
    with pytest.raises(Broken, match=r"R5: .* before it is durable"):
        world.checker.sent(machine_of(node), leader.node, said)
    with pytest.raises(Broken, match=r"R5: .* has voted in term 1"):
        world.checker.sent(machine_of(node), others(world, leader.node, node.node)[0], said)
    with pytest.raises(Broken, match=r"which never asked"):
        look(world, node, Persist(99, (HardState(Term(1), others(world, leader.node, node.node)[0]),)))


@pytest.mark.parametrize(
    ("message", "broken"),
    [
        (AppendAnswer(term=Term(9), success=False, follower=None, match_index=Index(0), round=1), "R5: .* speaks in"),  # type: ignore[arg-type]
        (AppendAnswer(term=Term(0), success=False, follower=None, match_index=Index(0), round=1), "R8"),  # type: ignore[arg-type]
        (AppendAnswer(term=Term(1), success=True, follower=None, match_index=Index(99), round=1), "R7"),  # type: ignore[arg-type]
        (PreVote(term=Term(1), candidate=None, last_index=Index(9), last_term=Term(9), request=1), "its log ends at 9"),  # type: ignore[arg-type]
        (TimeoutNow(term=Term(1), leader=None), "R1: .* speaks as the leader"),  # type: ignore[arg-type]
    ],
)
def test_what_is_said_must_be_true(world: RaftWorld, message: RaftMessage, broken: str) -> None:
    node = follower_of(world)
    with pytest.raises(Broken, match=broken):
        world.checker.sent(machine_of(node), leader_of(world).node, message)


def test_a_leader_sends_what_stands_in_its_log(world: RaftWorld) -> None:
    leader, last = leader_of(world), world.checker.ledger.last

    def append(previous: int, previous_term: int, *entries: Entry, commit: int = 0) -> AppendEntries:
        return AppendEntries(
            term=Term(1),
            leader=leader.node,
            previous_index=Index(previous),
            previous_term=Term(previous_term),
            entries=entries,
            commit=Index(commit),
            round=1,
        )

    to = follower_of(world).node
    world.checker.sent(machine_of(leader), to, append(1, 1, entry(2, 1)))
    for wrong, broken in (
        (append(1, 7), "is of term 7"),
        (append(1, 1, entry(3, 1)), "in the place of 2"),
        (append(1, 1, entry(2, 9)), "in the place of 2"),
        (append(1, 1, commit=last + 1), "tells of commit"),
    ):
        with pytest.raises(Broken, match=broken):
            world.checker.sent(machine_of(leader), to, wrong)


def test_entries_are_given_out_in_order_and_once(world: RaftWorld) -> None:
    node, last = follower_of(world), world.checker.ledger.last
    with pytest.raises(Broken, match=r"R3: .* applies"):
        world.checker.given(node.node, machine_of(node).log.entries(last, last + 1))
    with pytest.raises(Broken, match=r"R3: .* committed is"):
        world.checker.given(node.node, Apply((entry(last + 1, 1),)).entries)


def test_a_leader_has_votes_and_everything_that_is_committed(world: RaftWorld) -> None:
    node = follower_of(world)
    checker, view = world.checker, world.checker.views[node.node]
    checker.ledger.votes.update({(name, Term(7)): node.node for name in world.nodes})
    view.durable_term, view.durable_vote, view.term = Term(7), node.node, 7
    checker.ledger.leaders[Term(7)] = node.node
    view.memory.truncate(2)
    machine = machine_of(node)
    machine._state.disk.term = Term(7)
    with pytest.raises(Broken, match=r"R4: .* without entry"):
        checker._begin_to_lead(view, machine)
    checker.ledger.votes.pop((leader_of(world).node, Term(7)))
    checker.ledger.votes.pop((node.node, Term(7)))
    with pytest.raises(Broken, match=r"R1: .* with 1 votes of 3|R1: .* with 2 votes of 3|R4"):
        checker._begin_to_lead(view, machine)


def test_copies_count_when_they_are_durable(world: RaftWorld) -> None:
    leader, last = leader_of(world), world.checker.ledger.last
    view = world.checker.views[leader.node]
    world.checker._count_copies(view, last)
    for name in others(world, leader.node):
        world.checker.views[name].durable.truncate(last)
    with pytest.raises(Broken, match=r"R7: .* durable at 1 of 3"):
        world.checker._count_copies(view, last)


def test_a_match_is_held_to_the_disk_of_a_follower_of_the_same_term(world: RaftWorld) -> None:
    """World 51981: a follower cut its log for a later leader before its answer came to the earlier one."""
    checker, leader = world.checker, leader_of(world)
    view, peer = checker.views[leader.node], others(world, leader.node)[0]
    checker.views[peer].durable.truncate(checker.ledger.last)
    view.matches.clear()
    with pytest.raises(Broken, match=r"R11: .* to agree up to"):
        checker._match(view, machine_of(leader))
    later = checker.views[peer].durable_term = Term(machine_of(leader).term + 1)
    view.matches.clear()
    with pytest.raises(Broken, match=r"R11: .* to agree up to"):
        checker._match(view, machine_of(leader))  # nobody leads in that term, so nobody had it cut anything
    view.matches.clear()
    checker.ledger.leaders[later] = others(world, leader.node)[1]
    checker._match(view, machine_of(leader))


def test_a_request_for_votes_says_that_it_was_made(world: RaftWorld) -> None:
    node = follower_of(world)
    view = world.checker.views[node.node]
    view.durable_term = view.said = 5  # type: ignore[assignment]
    view.durable_vote = node.node
    request = RequestVote(
        term=Term(5),
        candidate=node.node,
        last_index=view.memory.last_index,
        last_term=view.memory.last_term,
        request=1,
    )
    world.checker.sent(machine_of(node), leader_of(world).node, request)
    assert (node.node, Term(5)) in world.checker.ledger.asked
    assert world.checker.ledger.highest_term == 5


def test_every_world_has_a_checker_that_knows_its_nodes() -> None:
    world = RaftWorld(3)
    assert world.shape == draw_shape(world._random.__class__("raft 3"))
    assert list(world.checker.views) == list(world.nodes)
