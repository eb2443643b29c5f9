"""What every state machine promises, shown on the one that there is, alone and under a raft machine."""

from msgspec.structs import replace

from bobbin.cluster.key_value import KeyValue, Put, client_id
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Apply, Effect, InstallSnapshot, TakeSnapshot
from bobbin.cluster.raft.events import AddLearner
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.cluster.state_machine import Capture, StateMachine
from bobbin.wire.cluster.commands import encode_command, key_value
from tests.support.raft_cluster import PLAIN, Member, RaftCluster, name


def _machine() -> StateMachine:
    return key_value()


def test_a_state_goes_by_way_of_a_capture_to_another_machine() -> None:
    one, other = _machine(), _machine()
    for index in range(1, 20):
        one.apply(Index(index), Term(1), encode_command(Put(b"", 0, b"%d" % index, b"v")))
    capture: Capture = one.snapshot()
    entries = list(capture)
    assert len(capture) == len(entries)
    other.restore(entries)
    assert other.root == one.root != _machine().root
    assert len(one.root) == 32


def test_a_snapshot_is_of_the_state_and_not_of_the_commands() -> None:
    """A thousand commands, three keys: a head and three entries."""
    machine = _machine()
    for index in range(1, 1_001):
        machine.apply(Index(index), Term(1), encode_command(Put(b"", 0, b"%d" % (index % 3), b"%d" % index)))
    assert len(machine.snapshot()) == 4


def test_machines_that_apply_the_same_answer_the_same() -> None:
    one, other = _machine(), _machine()
    for index, command in enumerate((b"nonsense", encode_command(Put(b"", 0, b"k", b"v")), b""), 1):
        assert one.apply(Index(index), Term(1), command) == other.apply(Index(index), Term(1), command)
        assert one.root == other.root


# ---- under raft -----------------------------------------------------------------------------------------------------


class _Tables(RaftCluster):
    """Nodes with key-value tables, whose snapshots are what the tables write down."""

    def __init__(self, letters: str, outside: str) -> None:
        self.tables: dict[NodeId, KeyValue] = {}
        self.given: dict[NodeId, list[Index]] = {}
        """The commands that each node was given to apply since it began."""
        config = replace(
            PLAIN,
            snapshot_threshold=30,
            snapshot_trailing_logs=5,
            compaction_check_interval=2,
            compaction_cooldown_ms=200,
            snapshot_chunk_size=100,
        )
        super().__init__(letters, config=config, outside=outside)

    def start(self, node: str) -> RaftMachine:
        member = self.members[name(node)]
        table = self.tables[member.node] = key_value()
        self.given[member.node] = []
        machine = super().start(node)
        if member.disk.snapshot is not None:
            table.restore(member.applied)
        return machine

    def _perform(self, member: Member, effect: Effect) -> None:
        if isinstance(effect, Apply):
            for entry in effect.entries:
                if isinstance(entry.payload, bytes):
                    self.given[member.node].append(entry.index)
                    self.tables[member.node].apply(entry.index, entry.term, entry.payload)
        super()._perform(member, effect)

    def _perform_snapshot(self, member: Member, effect: Effect) -> None:
        if isinstance(effect, TakeSnapshot):
            member.applied = list(self.tables[member.node].snapshot())
        super()._perform_snapshot(member, effect)
        if isinstance(effect, InstallSnapshot) and member.disk.snapshot == effect.metadata:
            self.tables[member.node].restore(member.applied)

    def write(self, node: str, first: int, count: int) -> None:
        """Many keys, each written more than once, by a client with a session."""
        client = client_id(Index(0), b"a client")
        commands = [
            encode_command(Put(client, number + 1, b"key %d" % (number % 50), b"value %d" % number))
            for number in range(first, first + count)
        ]
        self.propose(node, *commands)
        self.run(1_000)


def test_two_snapshots_a_restart_and_an_install_on_an_empty_node_give_equal_roots() -> None:
    cluster = _Tables("ab", outside="d")
    cluster.elect("a")
    snapshots = []
    for first in (0, 60):
        cluster.write("a", first, 60)
        snapshots.append(cluster.machine("a").snapshot)
    assert None not in snapshots
    assert snapshots[0] != snapshots[1]
    before = cluster.machine("a")
    first_index, root = before.first_index, cluster.tables[name("a")].root
    assert first_index == before.commit_index - 4 > 60
    assert len(cluster.given[name("a")]) == 120
    for node in "ab":
        cluster.crash(node)
    for node in "ab":
        cluster.start(node)
        # How much was cut is not forgotten, nor is anything of it applied again.
        assert cluster.machine(node).first_index == first_index
    cluster.elect("a")
    cluster.step("a", AddLearner(99, name("d")))
    cluster.run(2_000)
    assert {cluster.tables[name(node)].root for node in "abd"} == {root}
    assert [cluster.given[name(node)] for node in "abd"] == [[], [], []]
    assert cluster.machine("d").snapshot == snapshots[1]
