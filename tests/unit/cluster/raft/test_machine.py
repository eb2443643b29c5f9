"""The machine as a whole: CL-030, CL-042 to CL-057 as far as one process shows them, and the script B4."""

import ast
from pathlib import Path
from random import Random

import pytest

import bobbin.cluster.raft
from bobbin.cluster.key_value import Put
from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.raft.effects import (
    Accepted,
    Alarm,
    Apply,
    Persist,
    Refused,
    Role,
    RoleChanged,
    Send,
    WakeAt,
    Why,
)
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.events import (
    Applied,
    Event,
    Persisted,
    PersistFailed,
    Propose,
    Read,
    Received,
    Recovered,
    Tick,
    Transfer,
)
from bobbin.cluster.raft.inbox import INBOX_MAX
from bobbin.cluster.raft.machine import WAITING_BYTES_MAX, RaftMachine
from bobbin.cluster.raft.messages import AppendEntries, PreVoteAnswer, RequestVote
from bobbin.cluster.raft.state import TRANSITIONS
from bobbin.cluster.settings import MB, RaftConfig
from bobbin.errors import UsageError
from bobbin.wire.cluster.commands import decode_outcome, encode_command, key_value
from tests.support.raft_cluster import PLAIN, RaftCluster, entries, metadata_of, names
from tests.support.raft_messages import append, pre_vote, request_vote, vote

A, B, C = names("abc")
ABC = Configuration(names("abc"))


def leading() -> RaftCluster:
    cluster = RaftCluster()
    cluster.elect("a")
    cluster.beat()
    return cluster


def machine_of(recovered: Recovered, bootstrap: Configuration | None = ABC) -> RaftMachine:
    return RaftMachine(PLAIN, node=A, recovered=recovered, bootstrap=bootstrap, random=Random(0), checking=True)


# ---- beginning ------------------------------------------------------------------------------------------------------


def test_a_machine_begins_with_what_was_on_the_disk() -> None:
    snapshot = metadata_of(b"s", index=4, term=2, configuration=Configuration(names("abcde")))
    machine = machine_of(Recovered(term=Term(7), voted_for=B, snapshot=snapshot, entries=entries(2, 2, 3, first=3)))
    assert (machine.term, machine.voted_for, machine.role, machine.leader) == (7, B, Role.FOLLOWER, None)
    assert (machine.first_index, machine.last_index, machine.last_term, machine.durable_index) == (3, 5, 3, 5)
    assert (machine.commit_index, machine.applied_index) == (4, 4)
    assert machine.configuration.voters == names("abcde"), "the first configuration counts only where there is no other"


def test_a_quorum_that_does_not_fit_the_first_voters_is_refused() -> None:
    config = RaftConfig(quorum_size=1)
    with pytest.raises(UsageError, match="quorum_size"):
        RaftMachine(config, node=A, recovered=Recovered(), bootstrap=ABC, random=Random(0))


def test_a_node_without_a_configuration_only_listens() -> None:
    machine = machine_of(Recovered(), None)
    sent = []
    for tick in range(40):
        sent += [e for e in machine.step(Tick(), now_ns=tick * 100 * MILLISECOND_NS) if isinstance(e, Send)]
    assert sent == []
    assert machine.role is Role.FOLLOWER


def test_a_node_that_lost_its_log_neither_stands_nor_elects_a_log_without_it() -> None:
    machine = machine_of(Recovered(term=Term(3), lost=(Term(3), Index(5))))
    machine.step(Tick(), now_ns=0)
    for tick in range(1, 20):
        effects = machine.step(Tick(), now_ns=tick * 300 * MILLISECOND_NS)
        assert not any(isinstance(effect, Send) for effect in effects)
    now_ns = 20 * 300 * MILLISECOND_NS
    machine.step(Received(B, request_vote("b", 4, (3, 4))), now_ns=now_ns)
    assert machine.voted_for is None, "that log lacks what this node has acknowledged"
    machine.step(Persisted(1), now_ns=now_ns)
    machine.step(Received(B, append("b", 4, (0, 0), entries(1, 2, 3, 3, 3, 4))), now_ns=now_ns)
    machine.step(Persisted(2), now_ns=now_ns)
    deadline_ns = machine.election_deadline_ns
    assert deadline_ns is not None
    effects = machine.step(Tick(), now_ns=deadline_ns)
    assert any(isinstance(effect, Send) for effect in effects), "its log is as good as before"


# ---- steps ----------------------------------------------------------------------------------------------------------


def test_effects_come_in_the_order_persist_send_notify_wake() -> None:
    cluster = leading()
    effects = cluster.propose("a", b"x")
    assert isinstance(effects[0], Persist)
    assert all(isinstance(effect, Send) for effect in effects[1:3])
    assert isinstance(effects[3], Accepted)
    ranks = {Persist: 0, Send: 1, WakeAt: 3}
    machine = RaftMachine(PLAIN, node=A, recovered=Recovered(), bootstrap=Configuration((A,)), random=Random(0))
    now_ns = 0
    for token in range(1, 9):
        events: list[Event] = [Tick(), Persisted(token), Propose(token, (b"x",)), Read(token)]
        for event in events:
            now_ns += 100 * MILLISECOND_NS
            order = [ranks.get(type(effect), 2) for effect in machine.step(event, now_ns=now_ns)]
            assert order == sorted(order)
    assert machine.commit_index > 3


def test_a_tick_is_asked_for_when_it_is_due_earlier_than_before() -> None:
    machine = machine_of(Recovered())
    (first,) = machine.step(Tick(), now_ns=0)
    assert first == WakeAt(machine.election_deadline_ns or 0)
    assert machine.step(Tick(), now_ns=1) == []


def test_time_never_goes_back() -> None:
    machine = machine_of(Recovered())
    machine.step(Tick(), now_ns=0)
    deadline_ns = machine.election_deadline_ns
    assert deadline_ns is not None
    assert any(isinstance(effect, Send) for effect in machine.step(Tick(), now_ns=deadline_ns))
    machine.step(Tick(), now_ns=5)
    assert (machine.election_deadline_ns or 0) > deadline_ns


def test_what_makes_no_sense_raises_and_changes_nothing() -> None:
    cluster = leading()
    machine = cluster.machine("a")
    before = (machine.last_index, machine.applied_index, machine.commit_index)
    with pytest.raises(UsageError):
        machine.step(Propose(1, ()), now_ns=cluster.now_ns)
    with pytest.raises(UsageError):
        machine.step(Applied(Index(99)), now_ns=cluster.now_ns)
    assert (machine.last_index, machine.applied_index, machine.commit_index) == before


# ---- proposals ------------------------------------------------------------------------------------------------------


def test_proposals_are_refused_by_everybody_who_does_not_lead() -> None:
    cluster = leading()
    assert Refused(1, Why.NOT_LEADER, A) in cluster.propose("b", b"x"), "and told whom to ask"
    cluster.isolate("b")
    cluster.config = RaftConfig(enable_pre_vote=False)
    cluster.crash("b")
    cluster.start("b")
    cluster.wait("b")
    cluster.answer_disks("b")
    assert cluster.role("b") is Role.CANDIDATE
    last_index = cluster.machine("b").last_index
    assert Refused(2, Why.NOT_LEADER, None) in cluster.propose("b", b"x")
    assert cluster.machine("b").last_index == last_index


def test_proposals_are_refused_during_a_transfer() -> None:
    cluster = leading()
    cluster.isolate("b")
    cluster.propose("a", b"x")
    cluster.step("a", Transfer(9, B))
    last_index = cluster.machine("a").last_index
    assert Refused(2, Why.TRANSFERRING, A) in cluster.propose("a", b"y")
    assert cluster.machine("a").last_index == last_index


def test_proposals_have_bounds() -> None:
    config = RaftConfig(proposals_waiting_max=5, command_bytes_max=100, enable_geometric_tiebreak=False)
    cluster = RaftCluster(config=config)
    cluster.elect("a")
    assert Refused(1, Why.TOO_MUCH, A) in cluster.propose("a", b"x" * 101)
    assert Refused(2, Why.TOO_MUCH, A) in cluster.propose("a", b"ok", b"x" * 101), "all or none"
    assert Refused(3, Why.TOO_MUCH, A) in cluster.propose("a", *[b"x"] * 6)
    assert cluster.machine("a").last_index == 1
    assert any(isinstance(effect, Accepted) for effect in cluster.propose("a", *[b"x"] * 5))
    assert Refused(5, Why.TOO_MUCH, A) in cluster.propose("a", b"x")
    cluster.deliver()
    assert any(isinstance(effect, Accepted) for effect in cluster.propose("a", b"x"))


def test_what_waits_to_be_committed_is_bounded_in_bytes_too() -> None:
    cluster = leading()
    large = bytes(MB)
    size = WAITING_BYTES_MAX // MB
    assert any(isinstance(effect, Accepted) for effect in cluster.propose("a", *[large] * (size - 1)))
    refused = cluster.propose("a", large, b"x")
    assert Refused(cluster.request, Why.TOO_MUCH, A) in refused
    assert any(isinstance(effect, Accepted) for effect in cluster.propose("a", large))
    assert Refused(cluster.request + 1, Why.TOO_MUCH, A) in cluster.propose("a", b"x")
    cluster.deliver()
    cluster.beat()
    assert any(isinstance(effect, Accepted) for effect in cluster.propose("a", b"x")), "committed ones count no more"


# ---- messages that are none -----------------------------------------------------------------------------------------


def test_b4_a_leaders_own_message_looped_back_changes_nothing() -> None:
    cluster = leading()
    cluster.propose("a", b"x")
    own = [m for m in cluster.said("a", AppendEntries) if isinstance(m, AppendEntries)][-1]
    machine = cluster.machine("a")
    before = (machine.role, machine.term, machine.last_index, machine.commit_index, machine.election_deadline_ns)
    assert cluster.hear("a", "a", own) == []
    after = (machine.role, machine.term, machine.last_index, machine.commit_index, machine.election_deadline_ns)
    assert after == before
    assert machine.stats.strangers == 1


def test_a_leader_does_not_follow_another_of_its_own_term() -> None:
    cluster = leading()
    effects = cluster.hear("a", "b", append("b", 1, (1, 1), entries(1, first=2)))
    assert cluster.role("a") is Role.LEADER
    assert [effect.code for effect in effects if isinstance(effect, Alarm)] == ["two-leaders"]


def test_messages_that_wait_for_the_disk_are_bounded() -> None:
    cluster = RaftCluster()
    cluster.members[B].disk.is_slow = True
    cluster.hear("b", "a", request_vote("a", 3))
    for number in range(INBOX_MAX + 5):
        cluster.hear("b", "c", pre_vote("c", 3, request=number))
    assert cluster.machine("b").inbox_dropped == 5
    cluster.flush("b")
    answered = [m.request for m in cluster.said("b", PreVoteAnswer) if isinstance(m, PreVoteAnswer)]
    assert answered == list(range(5, INBOX_MAX + 5)), "the oldest gave way"


def test_what_was_held_back_in_an_older_term_is_not_said_in_a_later_one() -> None:
    cluster = RaftCluster()
    cluster.hear("b", "a", append("a", 1))
    cluster.members[B].disk.is_slow = True
    cluster.now_ns += 200 * MILLISECOND_NS
    cluster.hear("b", "a", append("a", 1, (0, 0), entries(1, 1)))
    cluster.now_ns += 200 * MILLISECOND_NS
    cluster.hear("b", "c", request_vote("c", 2, (1, 9)))
    before = len(cluster.mail)
    cluster.flush("b")
    assert [message for _, _, message in cluster.mail[before:]] == [vote("b", 2, 1)]


# ---- the disk of a leader -------------------------------------------------------------------------------------------


def test_a_leader_whose_disk_fails_steps_down_and_has_applied_nothing_of_it() -> None:
    cluster = leading()
    cluster.members[A].disk.is_slow = True
    cluster.propose("a", b"x")
    cluster.deliver()
    machine = cluster.machine("a")
    assert machine.progress[B].match_index == 2
    effects = cluster.fail_disk("a")
    assert (machine.role, machine.last_index, machine.commit_index) == (Role.FOLLOWER, 1, 1)
    assert cluster.members[A].applied == []
    assert not any(isinstance(effect, Refused) for effect in effects), "the others may still commit it"
    cluster.members[A].disk.is_slow = False
    cluster.run(3_000)
    assert cluster.members[A].applied == cluster.members[B].applied == [b"x"]


def test_a_late_word_of_the_disk_changes_nothing() -> None:
    cluster = leading()
    machine = cluster.machine("a")
    before = (machine.role, machine.term, machine.last_index, machine.durable_index)
    assert cluster.step("a", PersistFailed(1, "late")) == []
    cluster.step("a", Persisted(1))
    assert (machine.role, machine.term, machine.last_index, machine.durable_index) == before


# ---- laws over random runs ------------------------------------------------------------------------------------------


def random_run(seed: int, checks: "Checks") -> RaftCluster:
    """Crashes, cuts and lost messages by chance, then quiet."""
    chance = Random(seed)
    cluster = RaftCluster("abc" if seed % 2 else "abcde", seed=seed)
    nodes = sorted(cluster.members)
    for number in range(25):
        cluster.lost = lambda _: chance.random() < 0.1
        match chance.randrange(4):
            case 0:
                victim = chance.choice(nodes)
                cluster.crash(victim)
                cluster.run(chance.randrange(200))
                cluster.start(victim)
            case 1:
                cluster.cut_off = {chance.choice(nodes)}
            case 2:
                cluster.cut_off = set()
            case _:
                pass
        leader = cluster.leader()
        if leader is not None:
            cluster.propose(leader, b"%d" % number, b"%d'" % number)
        for _ in range(6):
            cluster.run(chance.randrange(120))
            checks.look(cluster)
    cluster.heal()
    cluster.lost = lambda _: False
    return cluster


class Checks:
    """What holds across all nodes and over all time (R1, R3, R4, R8, R10, R12, R13)."""

    def __init__(self) -> None:
        self.leaders: dict[int, NodeId] = {}
        self.committed: dict[int, tuple[int, object]] = {}
        self.seen: dict[NodeId, tuple[RaftMachine, int, int]] = {}
        self.terms: dict[NodeId, int] = {}

    def look(self, cluster: RaftCluster) -> None:
        for member in cluster.members.values():
            machine = member.machine
            assert machine is not None
            self._look_at_leader(machine)
            for index in range(machine.first_index, machine.commit_index + 1):
                (entry,) = machine.log.entries(index, index + 1)
                known = self.committed.setdefault(index, (entry.term, entry.payload))
                assert known == (entry.term, entry.payload), f"two entries were committed at {index}"
            assert member.disk.term >= self.terms.get(member.node, 0), "a durable term fell"
            self.terms[member.node] = member.disk.term
            before = self.seen.get(member.node)
            if before is not None and before[0] is machine:
                assert machine.commit_index >= before[1]
                assert machine.applied_index >= before[2]
            self.seen[member.node] = (machine, machine.commit_index, machine.applied_index)

    def _look_at_leader(self, machine: RaftMachine) -> None:
        if machine.role is not Role.LEADER:
            return
        if machine.term not in self.leaders:
            for index, (term, _) in self.committed.items():
                if term < machine.term and index >= machine.first_index:
                    assert machine.log.term_at(index) == term, "a leader lacks what was committed before it"
        assert self.leaders.setdefault(machine.term, machine.node) == machine.node, "two leaders in one term"


@pytest.mark.parametrize("seed", range(6))
def test_random_runs_keep_the_laws_and_come_to_rest(seed: int) -> None:
    checks = Checks()
    cluster = random_run(seed, checks)

    def is_settled() -> bool:
        leader = cluster.leader()
        if leader is None or len(cluster.leaders()) > 1:
            return False
        last = cluster.machine(leader).last_index
        return all(cluster.machine(node).commit_index == last for node in cluster.members)

    assert cluster.run(10 * 300, is_settled)
    leader = cluster.leader()
    assert leader is not None
    cluster.propose(leader, b"fresh")
    assert cluster.run(1_000, lambda: all(b"fresh" in member.applied for member in cluster.members.values()))
    checks.look(cluster)
    assert len({tuple(member.applied) for member in cluster.members.values()}) == 1
    for member in cluster.members.values():
        for change in member.all(RoleChanged):
            assert isinstance(change, RoleChanged)
            assert change.after in TRANSITIONS[change.before]


def test_an_acknowledged_write_survives_every_single_crash_and_is_read_afterwards() -> None:
    for victim in "abc":
        cluster = leading()
        cluster.propose("a", b"x")
        cluster.deliver()
        assert cluster.members[A].applied == [b"x"]
        cluster.crash(victim)
        assert cluster.run(3_000, lambda cluster=cluster: bool(cluster.leaders()))  # type: ignore[misc]
        leader = str(cluster.leader())
        cluster.step(leader, Read(77))
        cluster.run(200)
        assert cluster.members[NodeId(leader)].applied == [b"x"]


def test_a_proposal_of_unknown_outcome_is_never_called_failed() -> None:
    cluster = leading()
    cluster.propose("a", b"x")
    cluster.lost = lambda mail: mail[1] == A
    cluster.deliver()
    cluster.isolate("a")
    cluster.run(2_000)
    assert cluster.role("a") is Role.FOLLOWER
    about = [e for e in cluster.members[A].effects if isinstance(e, Refused) and e.request == 1]
    assert about == []
    new = str(cluster.leader())
    assert cluster.members[NodeId(new)].applied == [b"x"], "indeed it was committed"


def test_l14_an_invalid_command_is_a_recorded_refusal_on_every_node_and_counts_as_applied() -> None:
    cluster = leading()
    cluster.propose("a", b"\xc1 no command", encode_command(Put(b"", 0, b"key", b"value")))
    cluster.deliver()
    cluster.beat()
    results: dict[NodeId, list[bytes]] = {}
    roots = set()
    for member in cluster.members.values():
        table = key_value()
        given = [entry for effect in member.effects if isinstance(effect, Apply) for entry in effect.entries]
        results[member.node] = [
            table.apply(entry.index, entry.term, entry.payload) for entry in given if isinstance(entry.payload, bytes)
        ]
        roots.add(table.root)
        assert member.machine is not None
        assert member.machine.applied_index == 3
        assert table.get(b"key") is not None, "what follows it is applied"
    assert results[A] == results[B] == results[C]
    assert decode_outcome(results[A][0]).kind.is_refusal
    assert len(roots) == 1


def test_a_candidate_that_moved_on_is_not_elected_by_old_votes() -> None:
    cluster = RaftCluster(config=RaftConfig(enable_pre_vote=False, enable_geometric_tiebreak=False))
    cluster.wait("a")
    cluster.answer_disks("a")
    request = [m for m in cluster.said("a", RequestVote) if isinstance(m, RequestVote)][-1].request
    cluster.mail.clear()
    cluster.hear("a", "b", append("b", 1))
    cluster.hear("a", "c", vote("c", 1, request))
    assert cluster.role("a") is Role.FOLLOWER


def test_consensus_knows_nothing_of_membership() -> None:
    """Gossip informs people; no vote, heartbeat or write depends on it (CL-032), so it is not even within reach."""
    folder = Path(bobbin.cluster.raft.__file__).parent
    imported = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module)
    assert imported
    assert not any(name.startswith("bobbin.cluster.membership") for name in imported)
