"""Conversations between raft nodes as text: who heard what, what it changed, and what was said in answer.

One file per scenario, in the spirit of etcd's interaction tests. Renew them with ``make rewrite`` and read the diff: a
message more or less, or another order, is a change of the protocol.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.raft.effects import (
    Accepted,
    Alarm,
    Append,
    Apply,
    ConfigurationChanged,
    Cut,
    DurableRecord,
    Effect,
    HardState,
    LeaderChanged,
    Persist,
    ReadReady,
    Refused,
    Reset,
    RoleChanged,
    Send,
    TransferDone,
    Truncate,
)
from bobbin.cluster.raft.entries import Configuration, Entry
from bobbin.cluster.raft.events import (
    AddLearner,
    Applied,
    Event,
    JointChange,
    Persisted,
    PersistFailed,
    Propose,
    Read,
    Received,
    Tick,
    Transfer,
)
from bobbin.cluster.raft.messages import (
    AppendAnswer,
    AppendEntries,
    PreVote,
    PreVoteAnswer,
    RaftMessage,
    RequestVote,
    SnapshotChunk,
    SnapshotOffer,
    SnapshotRequest,
    TimeoutNow,
    VoteAnswer,
)
from bobbin.cluster.settings import RaftConfig
from tests.support.raft_cluster import PLAIN, RaftCluster, entries, names

if TYPE_CHECKING:
    from tests.conftest import Golden


class Trace(RaftCluster):
    """A cluster that writes down what happens."""

    def __init__(self, letters: str = "abc", *, config: RaftConfig = PLAIN, outside: str = "", seed: int = 1) -> None:
        self.lines: list[str] = []
        self.is_silent = False
        super().__init__(letters, config=config, outside=outside, seed=seed)
        self.lines.clear()

    def say(self, sentence: str) -> None:
        self.lines.append(f"\n# {sentence}")

    def step(self, node: str, event: Event) -> list[Effect]:
        effects = super().step(node, event)
        told = [line for effect in effects if (line := told_effect(effect))]
        if (told or not isinstance(event, Tick | Applied | Persisted)) and not self.is_silent:
            machine = self.machine(node)
            place = f"{machine.role.value} {machine.term} {machine.commit_index}/{machine.last_index}"
            self.lines.append(f"{node} [{place}] {told_event(event)}")
            self.lines += [f"    {line}" for line in told]
        return effects

    def text(self) -> str:
        return "\n".join(self.lines).strip() + "\n"


def told_entries(found: tuple[Entry, ...]) -> str:
    return "[" + " ".join(f"{entry.term}.{entry.index}{told_payload(entry.payload)}" for entry in found) + "]"


def told_payload(payload: bytes | Configuration | None) -> str:
    match payload:
        case None:
            return ""
        case bytes():
            return f"={payload.decode()}"
        case Configuration():
            return f"={told_configuration(payload)}"


def told_configuration(configuration: Configuration) -> str:
    text = "{" + "".join(configuration.voters)
    if configuration.outgoing:
        text += "&" + "".join(configuration.outgoing)
    return text + (f" +{''.join(configuration.learners)}" if configuration.learners else "") + "}"


def told_event(event: Event) -> str:
    match event:
        case Received(sender, message):
            return f"<- {sender}: {told_message(message)}"
        case Propose(_, commands):
            return "proposes " + " ".join(command.decode() for command in commands)
        case Persisted():
            return "is durable"
        case PersistFailed():
            return "could not write"
        case Tick():
            return "looks at the clock"
        case Transfer(_, target):
            return f"is to hand over to {target}"
        case JointChange(_, additions, removals):
            return f"is to change: +{''.join(additions)} -{''.join(removals)}"
        case AddLearner(_, node):
            return f"is to add the learner {node}"
        case Read():
            return "is asked for a read"
        case _:
            return type(event).__name__


def told_message(message: RaftMessage) -> str:
    match message:
        case PreVote():
            return f"would you vote for me? term {message.term}, log {message.last_term}.{message.last_index}"
        case PreVoteAnswer():
            return f"{'I would' if message.granted else 'I would not'}, term {message.term}"
        case RequestVote():
            wish = ", the leader wishes it" if message.is_transfer else ""
            return f"vote for me in term {message.term}, log {message.last_term}.{message.last_index}{wish}"
        case VoteAnswer():
            return f"{'you have my vote' if message.granted else 'no vote'} in term {message.term}"
        case TimeoutNow():
            return f"stand now, term {message.term}"
        case AppendEntries():
            return (
                f"append {message.term} after {message.previous_term}.{message.previous_index} "
                f"{told_entries(message.entries)} commit {message.commit}"
            )
        case AppendAnswer():
            return f"{'match' if message.success else 'refused, at most'} {message.match_index}, term {message.term}"
        case SnapshotOffer(metadata=metadata):
            return f"snapshot {metadata.last_term}.{metadata.last_index} of {metadata.size} bytes, term {message.term}"
        case SnapshotRequest():
            return f"bytes from {message.offset}, please, term {message.term}"
        case SnapshotChunk():
            return f"bytes {message.offset} to {message.offset + len(message.data)} of {message.total}"


def told_record(record: DurableRecord) -> str:
    match record:
        case HardState(term, voted_for):
            return f"term {term} vote {voted_for or '-'}"
        case Append(found):
            return told_entries(found)
        case Truncate(from_index):
            return f"cut from {from_index} on"
        case Cut(first_index):
            return f"begin at {first_index}"
        case Reset(metadata):
            return f"begin after snapshot {metadata.last_index}"


def told_effect(effect: Effect) -> str:
    match effect:
        case Persist(_, records):
            return "write " + ", ".join(told_record(record) for record in records)
        case Send(to, message):
            return f"-> {to}: {told_message(message)}"
        case Apply(found):
            return f"apply {told_entries(found)}"
        case RoleChanged(_, after):
            return f"becomes {after.value}"
        case LeaderChanged(leader):
            return f"follows {leader or 'nobody'}"
        case ConfigurationChanged(configuration, _, is_committed):
            return f"{'for good' if is_committed else 'from now on'} {told_configuration(configuration)}"
        case Accepted(_, first_index, count):
            return f"accepted at {first_index}, {count}"
        case Refused(_, why):
            return f"refused: {why.value}"
        case ReadReady(_, index):
            return f"may be read at {index}"
        case TransferDone(_, leader):
            return f"transfer over, {leader or 'nobody'} leads"
        case Alarm(code):
            return f"alarm: {code}"
        case _:
            return ""


# ---- scenarios ------------------------------------------------------------------------------------------------------


def elected(trace: Trace, node: str = "a") -> None:
    """Quietly make a node the leader and let everybody hear of it."""
    trace.is_silent = True
    trace.elect(node)
    trace.beat()
    trace.is_silent = False


def an_election(trace: Trace) -> None:
    trace.say("a loses its patience first; b and c would vote for it, and then do.")
    trace.wait("a")
    trace.deliver()
    trace.say("A heartbeat tells the others what is committed.")
    trace.beat()


def replication(trace: Trace) -> None:
    elected(trace)
    trace.say("Two commands; c does not hear of them at first.")
    trace.isolate("c")
    trace.propose("a", b"x", b"y")
    trace.deliver()
    trace.say("c comes back: what was lost is sent again after the time for an answer.")
    trace.heal()
    trace.now_ns += 100 * MILLISECOND_NS
    trace.step("a", Tick())
    trace.deliver()
    trace.say("A read waits for a quorum.")
    trace.step("a", Read(7))
    trace.deliver()


def conflict_repair(trace: Trace) -> None:
    trace.is_silent = True
    for node, terms in (("a", (1, 1, 3, 3)), ("b", (1, 1, 2, 2, 2, 2)), ("c", (1, 1, 3))):
        trace.crash(node)
        disk = trace.members[NodeId(node)].disk
        disk.entries, disk.term = list(entries(*terms)), entries(*terms)[-1].term
        trace.start(node)
    trace.isolate("b")
    trace.elect("a")
    trace.heal()
    trace.is_silent = False
    trace.say("a leads with 1.1 1.2 3.3 3.4 4.5; b holds 1.1 1.2 2.3 2.4 2.5 2.6 and hears of it now.")
    trace.now_ns += 100 * MILLISECOND_NS
    trace.step("a", Tick())
    trace.deliver()
    trace.beat()


def transfer(trace: Trace) -> None:
    elected(trace)
    trace.say("b lacks an entry, so it is not told to stand yet.")
    trace.isolate("b")
    trace.propose("a", b"x")
    trace.deliver()
    trace.step("a", Transfer(5, NodeId("b")))
    trace.propose("a", b"not now")
    trace.say("b catches up, stands at once, and wins although everybody has just heard the leader.")
    trace.heal()
    trace.now_ns += 100 * MILLISECOND_NS
    trace.step("a", Tick())
    trace.deliver()


def joint_change(trace: Trace) -> None:
    elected(trace)
    trace.is_silent = True
    for node in names("de"):
        trace.step("a", AddLearner(1, node))
        trace.deliver()
        trace.beat()
    trace.is_silent = False
    trace.say("d and e, learners so far, take the places of a and b; a leads until it is done.")
    trace.step("a", JointChange(2, names("de"), names("ab")))
    trace.deliver()


def snapshot(trace: Trace) -> None:
    elected(trace)
    trace.is_silent = True
    trace.isolate("c")
    for number in range(6):
        trace.propose("a", b"%d" % number)
        trace.deliver()
    trace.now_ns += 50 * MILLISECOND_NS
    trace.step("a", Tick())
    trace.deliver()
    trace.heal()
    trace.is_silent = False
    trace.say("c lacks entries that a has cut away.")
    trace.now_ns += 100 * MILLISECOND_NS
    trace.step("a", Tick())
    trace.deliver()
    trace.beat()


def disk_failure(trace: Trace) -> None:
    elected(trace)
    trace.say("The leader's own write fails after the others have theirs; it has said and applied nothing of it.")
    trace.members[NodeId("a")].disk.is_slow = True
    trace.propose("a", b"x")
    trace.deliver()
    trace.fail_disk("a")
    trace.members[NodeId("a")].disk.is_slow = False
    trace.say("b takes over and brings the entry back.")
    trace.now_ns += 300 * MILLISECOND_NS
    trace.wait("b")
    trace.deliver()
    trace.beat()


SMALL = RaftConfig(
    snapshot_threshold=5,
    snapshot_trailing_logs=1,
    compaction_check_interval=1,
    snapshot_chunk_size=16,
    enable_geometric_tiebreak=False,
)

SCENARIOS: dict[str, tuple[Callable[[Trace], None], RaftConfig, str]] = {
    "election": (an_election, PLAIN, ""),
    "replication": (replication, PLAIN, ""),
    "conflict_repair": (conflict_repair, PLAIN, ""),
    "transfer": (transfer, PLAIN, ""),
    "joint_change": (joint_change, PLAIN, "de"),
    "snapshot": (snapshot, SMALL, ""),
    "disk_failure": (disk_failure, PLAIN, ""),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_conversation_is_as_it_was(scenario: str, golden: "Golden") -> None:
    play, config, outside = SCENARIOS[scenario]
    trace = Trace(config=config, outside=outside)
    play(trace)
    golden(f"raft/{scenario}.txt", trace.text())
