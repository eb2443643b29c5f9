"""Snapshots as the machine takes, sends, fetches and installs them (CL-064, CL-072 to CL-074, CL-082 to CL-086)."""

from random import Random

import pytest
from msgspec import structs

from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.raft.effects import (
    Accepted,
    Append,
    Apply,
    Cut,
    DropChunks,
    Effect,
    HardState,
    InstallSnapshot,
    Persist,
    Refused,
    Reset,
    Role,
    Send,
    StoreChunk,
    TakeSnapshot,
    Why,
)
from bobbin.cluster.raft.entries import Configuration, SnapshotMetadata
from bobbin.cluster.raft.events import (
    Received,
    Recovered,
    SnapshotBytes,
    SnapshotFailed,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    SnapshotWanted,
    Tick,
)
from bobbin.cluster.raft.messages import (
    AppendAnswer,
    PreVote,
    RaftMessage,
    SnapshotChunk,
    SnapshotOffer,
    SnapshotRequest,
)
from bobbin.cluster.settings import RaftConfig
from tests.support.raft_cluster import PLAIN, Disk, RaftCluster, entries, metadata_of, names, packed
from tests.support.raft_messages import answer, append, pre_vote, request_vote

A, B, C = names("abc")
ABC = Configuration(names("abc"))
SMALL = RaftConfig(
    snapshot_threshold=10,
    snapshot_trailing_logs=3,
    compaction_check_interval=1,
    compaction_cooldown_ms=1,
    snapshot_chunk_size=16,
    enable_geometric_tiebreak=False,
)


def offer(leader: str, term: int, metadata: SnapshotMetadata, round_: int = 1) -> SnapshotOffer:
    return SnapshotOffer(term=Term(term), leader=NodeId(leader), metadata=metadata, round=round_)


def chunk(leader: str, term: int, metadata: SnapshotMetadata, data: bytes, offset: int = 0) -> SnapshotChunk:
    piece = data[offset : offset + SMALL.snapshot_chunk_size]
    return SnapshotChunk(
        term=Term(term),
        leader=NodeId(leader),
        sha256=metadata.sha256,
        last_index=metadata.last_index,
        last_term=metadata.last_term,
        offset=offset,
        total=metadata.size,
        data=piece,
        is_last=offset + len(piece) == metadata.size,
    )


def filled(count: int = 20, *, without: str = "") -> RaftCluster:
    """Node a leads a cluster that has committed so many commands, and has taken a snapshot."""
    cluster = RaftCluster(config=SMALL)
    cluster.elect("a")
    cluster.isolate(*without)
    for number in range(count):
        cluster.propose("a", b"%d" % number)
        cluster.deliver()
    cluster.run(120)
    assert cluster.machine("a").snapshot is not None
    return cluster


# ---- taking ---------------------------------------------------------------------------------------------------------


def test_a_long_log_is_compacted_by_itself_and_keeps_what_trails() -> None:
    cluster = filled(12)
    cluster.run(700)
    for node in "abc":
        machine = cluster.machine(node)
        assert machine.snapshot is not None
        assert machine.first_index == machine.snapshot.last_index - 3 + 1
        assert cluster.members[NodeId(node)].disk.entries[0].index == machine.first_index
        assert machine.stats.snapshots_taken >= 1


def test_only_what_was_given_out_is_captured() -> None:
    cluster = RaftCluster(config=SMALL)
    cluster.elect("a")
    cluster.propose("a", *[b"x"] * 5)
    cluster.deliver()
    cluster.isolate("b", "c")
    cluster.propose("a", *[b"y"] * 20)
    cluster.deliver()
    leader = cluster.machine("a")
    cluster.step("a", SnapshotWanted(3))
    taken = [e for e in cluster.members[A].effects if isinstance(e, TakeSnapshot)]
    assert [(note.index, note.term, note.configuration) for note in taken] == [(6, 1, ABC)]
    assert leader.last_index == 26


def test_the_log_is_cut_after_the_snapshot_is_durable_and_not_before() -> None:
    cluster = RaftCluster(config=SMALL)
    cluster.elect("a")
    cluster.propose("a", *[b"x"] * 8)
    cluster.deliver()
    machine = cluster.machine("a")
    effects = machine.step(SnapshotWanted(3), now_ns=cluster.now_ns)
    assert not any(isinstance(effect, Persist) for effect in effects)
    assert (machine.first_index, machine.snapshot) == (1, None)
    metadata = metadata_of(b"s", index=9, term=1, configuration=ABC)
    (persist, accepted, *_) = machine.step(SnapshotTaken(metadata), now_ns=cluster.now_ns)
    assert isinstance(persist, Persist)
    assert persist.records == (Cut(Index(7), metadata),)
    assert accepted == Accepted(3, Index(9), 0, Term(1))
    assert machine.snapshot == metadata
    assert machine.first_index == 1, "the disk does not know of the cut yet"


def test_a_snapshot_that_is_not_newer_any_more_is_dropped() -> None:
    cluster = filled()
    machine = cluster.machine("a")
    before = machine.snapshot
    cluster.propose("a", b"y")
    cluster.deliver()
    machine.step(SnapshotWanted(3), now_ns=cluster.now_ns)
    old = metadata_of(b"s", index=2, term=1, configuration=ABC)
    effects = machine.step(SnapshotTaken(old), now_ns=cluster.now_ns)
    assert Refused(3, Why.STORAGE, A) in effects
    assert machine.snapshot == before
    assert not any(isinstance(effect, Persist) for effect in effects)


def test_an_operator_is_told_why_there_is_no_snapshot() -> None:
    cluster = RaftCluster(config=SMALL)
    assert Refused(1, Why.NOTHING_NEW, None) in cluster.step("a", SnapshotWanted(1))
    cluster.elect("a")
    machine = cluster.machine("a")
    machine.step(SnapshotWanted(2), now_ns=cluster.now_ns)
    assert Refused(3, Why.CHANGE_PENDING, A) in cluster.step("a", SnapshotWanted(3))
    assert Refused(2, Why.STORAGE, A) in cluster.step("a", SnapshotFailed("no space"))
    assert cluster.step("a", SnapshotFailed("again")) == []


def test_a_half_done_cut_is_finished_at_the_next_start() -> None:
    cluster = RaftCluster(config=SMALL)
    cluster.crash("a")
    member = cluster.members[A]
    data = packed([b"x"] * 8)
    member.disk.snapshot = metadata_of(data, index=8, term=1, configuration=ABC)
    member.snapshots[member.disk.snapshot.sha256] = data
    member.disk.entries, member.disk.term = list(entries(*[1] * 12)), Term(1)
    cluster.start("a")
    cluster.deliver()
    machine = cluster.machine("a")
    assert (machine.first_index, machine.last_index) == (6, 12)
    assert member.disk.entries[0].index == 6
    assert machine.applied_index == machine.commit_index == 8


# ---- an empty log with a snapshot -----------------------------------------------------------------------------------


def test_l9_with_an_empty_log_the_last_place_is_the_snapshots_in_requests_and_in_judgement() -> None:
    cluster = RaftCluster(config=SMALL)
    cluster.crash("a")
    member = cluster.members[A]
    data = packed([b"x"])
    member.disk.snapshot = metadata_of(data, index=8, term=3, configuration=ABC)
    member.snapshots[member.disk.snapshot.sha256] = data
    member.disk.term = Term(3)
    machine = cluster.start("a")
    assert (machine.last_index, machine.last_term) == (8, 3)
    cluster.wait("a")
    asked = cluster.said("a", PreVote)[-1]
    assert isinstance(asked, PreVote)
    assert (asked.last_index, asked.last_term) == (8, 3)
    cluster.hear("a", "b", pre_vote("b", 3, (3, 7), request=9))
    cluster.hear("a", "b", request_vote("b", 4, (2, 99)))
    assert machine.voted_for is None
    cluster.hear("a", "b", request_vote("b", 5, (3, 8)))
    assert machine.voted_for == "b"


def test_a_log_that_contradicts_its_snapshot_gives_way_and_the_disk_is_told() -> None:
    cluster = RaftCluster(config=SMALL)
    cluster.crash("a")
    member = cluster.members[A]
    data = packed([b"x"])
    member.disk.snapshot = metadata_of(data, index=3, term=2, configuration=ABC)
    member.snapshots[member.disk.snapshot.sha256] = data
    member.disk.entries, member.disk.term = list(entries(1, 1, 1, 1, 1)), Term(2)
    machine = cluster.start("a")
    assert (machine.last_index, machine.last_term) == (3, 2)
    cluster.hear("a", "b", append("b", 3, (2, 3), entries(3, first=4)))
    persist = next(effect for effect in member.effects if isinstance(effect, Persist))
    assert persist.records == (
        Reset(member.disk.snapshot),
        HardState(Term(3), None),
        Append(entries(3, first=4)),
    )


# ---- sending and fetching -------------------------------------------------------------------------------------------


def test_a_follower_without_the_entries_catches_up_by_snapshot_alone() -> None:
    cluster = filled(without="b")
    cluster.heal()
    cluster.run(3_000, lambda: cluster.machine("b").commit_index == cluster.machine("a").commit_index)
    follower = cluster.machine("b")
    assert cluster.members[B].applied == cluster.members[A].applied
    assert follower.stats.snapshots_installed == 1
    assert follower.snapshot is not None
    assert follower.commit_index == cluster.machine("a").commit_index
    assert len(cluster.said("a", SnapshotChunk)) > 2, "in several pieces"
    assert cluster.leaders() == [A]


def test_an_offer_counts_as_a_heartbeat_and_a_request_as_contact() -> None:
    cluster = filled(without="b")
    metadata = cluster.machine("a").snapshot
    assert metadata is not None
    cluster.machine("b")
    cluster.now_ns += 10 * MILLISECOND_NS
    cluster.hear("b", "a", offer("a", 1, metadata, round_=77))
    follower = cluster.machine("b")
    assert follower.leader == A
    assert (follower.election_deadline_ns or 0) >= cluster.now_ns + 150 * MILLISECOND_NS
    asked = cluster.said("b", SnapshotRequest)[-1]
    assert isinstance(asked, SnapshotRequest)
    assert (asked.round, asked.offset, asked.sha256) == (77, 0, metadata.sha256)
    leader = cluster.machine("a")
    cluster.heal()
    cluster.hear("a", "b", structs.replace(asked, round=leader.progress[B].sent_round))
    assert leader.progress[B].last_contact_ns == cluster.now_ns


def test_an_offer_that_brings_no_request_is_still_answered() -> None:
    cluster = filled(without="b")
    metadata = cluster.machine("a").snapshot
    assert metadata is not None
    cluster.hear("b", "a", offer("a", 1, metadata, round_=5))
    cluster.hear("b", "a", offer("a", 1, metadata, round_=6))
    assert len(cluster.said("b", SnapshotRequest)) == 1, "one is under way"
    assert cluster.said("b", AppendAnswer)[-1] == answer("b", 1, cluster.machine("b").commit_index, 6, success=False)


def test_an_offer_of_what_is_here_already_is_acknowledged() -> None:
    cluster = filled()
    cluster.beat()
    metadata = cluster.machine("a").snapshot
    assert metadata is not None
    cluster.hear("b", "a", offer("a", 1, metadata, round_=5))
    assert cluster.said("b", AppendAnswer)[-1] == answer("b", 1, metadata.last_index, 5)
    assert cluster.said("b", SnapshotRequest) == []


def test_an_offer_of_an_older_term_is_refused_with_the_present_one() -> None:
    cluster = filled()
    metadata = metadata_of(b"s", index=99, term=1, configuration=ABC)
    cluster.hear("b", "c", offer("c", 0, metadata, round_=5))
    assert cluster.said("b", AppendAnswer)[-1] == answer("b", 1, 0, 5, success=False)
    assert cluster.machine("b").leader == A


def test_l7_a_snapshot_over_several_terms_is_installed_with_its_own_last_term() -> None:
    cluster = RaftCluster(config=SMALL)
    for leader in "ac":
        cluster.heal()
        cluster.elect(leader)
        cluster.beat()
        cluster.isolate("b")
        cluster.propose(leader, *[b"x"] * 6)
        cluster.deliver()
    cluster.propose("c", *[b"y"] * 6)
    cluster.deliver()
    cluster.run(100)
    metadata = cluster.machine("c").snapshot
    assert metadata is not None
    assert metadata.last_term == 2
    cluster.heal()
    cluster.run(3_000, lambda: cluster.machine("b").commit_index == cluster.machine("c").commit_index)
    assert cluster.machine("b").stats.snapshots_installed == 1
    assert cluster.members[B].applied == cluster.members[C].applied


def test_l8_two_snapshots_a_restart_and_an_empty_node_give_the_same_state() -> None:
    cluster = filled(15, without="b")
    cluster.run(10)
    for number in range(15):
        cluster.propose("a", b"more %d" % number)
        cluster.deliver()
    cluster.run(120)
    leader = cluster.machine("a")
    assert leader.stats.snapshots_taken >= 2
    first = leader.first_index
    cluster.crash("a")
    assert cluster.start("a").first_index == first, "how much was cut is not forgotten"
    cluster.run(3_000, lambda: bool(cluster.leaders()))
    cluster.heal()
    cluster.run(3_000, lambda: cluster.members[B].applied == cluster.members[A].applied)
    assert len(cluster.members[B].applied) == 30
    assert cluster.machine("b").stats.snapshots_installed >= 1


def test_bytes_that_are_gone_bring_an_offer_of_the_newest() -> None:
    cluster = filled(without="b")
    leader = cluster.machine("a")
    first = leader.snapshot
    assert first is not None
    cluster.heal()
    cluster.now_ns += 100 * MILLISECOND_NS
    cluster.step("a", Tick())
    for number in range(15):
        cluster.isolate("b")
        cluster.propose("a", b"more %d" % number)
        cluster.deliver()
        cluster.run(60)
    newest = leader.snapshot
    assert newest is not None
    assert newest.last_index > first.last_index
    cluster.members[A].snapshots = {newest.sha256: cluster.members[A].snapshots[newest.sha256]}
    cluster.heal()
    assert cluster.run(3_000, lambda: cluster.members[B].applied == cluster.members[A].applied)


def test_a_leader_that_is_asked_after_its_time_sends_nothing() -> None:
    cluster = filled()
    metadata = cluster.machine("a").snapshot
    assert metadata is not None
    assert cluster.step("b", SnapshotBytes(C, metadata.sha256, 0, b"xx")) == []
    asked = SnapshotRequest(term=Term(0), requester=C, sha256=metadata.sha256, offset=0, size=5, round=1)
    assert cluster.hear("a", "c", asked) == []
    effects = cluster.hear("a", "c", structs.replace(asked, term=Term(8)))
    assert not any(isinstance(effect, Send) for effect in effects)
    assert cluster.role("a") is Role.FOLLOWER


# ---- installing -----------------------------------------------------------------------------------------------------

DATA = packed([b"one", b"two", b"three"])
NEW = metadata_of(DATA, index=40, term=2, configuration=Configuration(names("abcd")))


def test_an_installed_snapshot_takes_the_place_of_the_log() -> None:
    cluster = RaftCluster(config=SMALL)
    cluster.hear("b", "a", append("a", 1, (0, 0), entries(1, 1, 1)))
    cluster.hear("b", "a", offer("a", 2, NEW, round_=9))
    for offset in range(0, len(DATA), SMALL.snapshot_chunk_size):
        cluster.hear("b", "a", chunk("a", 2, NEW, DATA, offset))
    machine = cluster.machine("b")
    assert (machine.commit_index, machine.applied_index, machine.last_index, machine.last_term) == (40, 40, 40, 2)
    assert (machine.snapshot, machine.first_index) == (NEW, 41)
    assert machine.configuration == NEW.configuration
    assert cluster.members[B].applied == [b"one", b"two", b"three"]
    assert cluster.members[B].disk.entries == []
    assert cluster.said("b", AppendAnswer)[-1] == answer("b", 2, 40, 9)


def test_a_log_that_goes_on_from_the_snapshot_keeps_its_tail() -> None:
    cluster = RaftCluster(config=SMALL)
    data = packed([b"x"])
    metadata = metadata_of(data, index=4, term=1, configuration=ABC)
    cluster.hear("b", "a", append("a", 1, (0, 0), entries(1, 1, 1, 1, 1, 1), commit=2))
    cluster.hear("b", "a", offer("a", 1, metadata))
    for offset in range(0, len(data), SMALL.snapshot_chunk_size):
        cluster.hear("b", "a", chunk("a", 1, metadata, data, offset))
    machine = cluster.machine("b")
    assert (machine.last_index, machine.commit_index, machine.applied_index) == (6, 4, 4)
    cluster.hear("b", "a", append("a", 1, (1, 6), commit=6))
    given = [e.entries[0].index for e in cluster.members[B].effects if isinstance(e, Apply)]
    assert given == [1, 5], "what the snapshot holds is not given out again"


def test_a_snapshot_that_is_refused_changes_nothing() -> None:
    cluster = RaftCluster(config=SMALL)
    cluster.hear("b", "a", append("a", 1, (0, 0), entries(1, 1, 1), commit=3))
    cluster.hear("b", "a", offer("a", 2, NEW))
    wrong = DATA[:-1] + b"?"
    for offset in range(0, len(DATA), SMALL.snapshot_chunk_size):
        cluster.hear("b", "a", chunk("a", 2, NEW, wrong, offset))
    machine = cluster.machine("b")
    assert any(isinstance(effect, InstallSnapshot) for effect in cluster.members[B].effects)
    assert machine.stats.snapshots_refused == 1
    assert (machine.snapshot, machine.commit_index, machine.last_index) == (None, 3, 3)
    cluster.now_ns += 200 * MILLISECOND_NS
    cluster.hear("b", "a", offer("a", 2, NEW))
    asked = cluster.said("b", SnapshotRequest)[-1]
    assert isinstance(asked, SnapshotRequest)
    assert asked.offset == 0, "from the beginning"


def test_a_transfer_that_takes_too_long_is_dropped_and_counted() -> None:
    cluster = RaftCluster(config=SMALL)
    cluster.hear("b", "a", offer("a", 2, NEW))
    cluster.hear("b", "a", chunk("a", 2, NEW, DATA))
    cluster.now_ns += 300_000 * MILLISECOND_NS
    cluster.step("b", Tick())
    assert cluster.machine("b").stats.snapshots_expired == 1
    assert any(isinstance(effect, DropChunks) for effect in cluster.members[B].effects)


def test_an_older_snapshot_is_not_fetched() -> None:
    cluster = filled()
    cluster.beat()
    old = metadata_of(b"old", index=3, term=1, configuration=ABC)
    before = cluster.machine("b").snapshot
    cluster.hear("b", "a", offer("a", 1, old))
    assert cluster.said("b", SnapshotRequest) == []
    assert cluster.machine("b").snapshot == before


def test_while_a_snapshot_is_being_installed_nothing_is_given_out_and_nobody_stands() -> None:
    cluster = RaftCluster(config=SMALL)
    machine = cluster.machine("b")
    now_ns = cluster.now_ns

    def hear(message: RaftMessage) -> list[Effect]:
        return machine.step(Received(A, message), now_ns=now_ns)

    cluster.hear("b", "a", append("a", 2, (0, 0), entries(1, 1, 1), commit=1))
    hear(offer("a", 2, NEW))
    for offset in range(0, len(DATA), SMALL.snapshot_chunk_size):
        hear(chunk("a", 2, NEW, DATA, offset))
    effects = hear(append("a", 2, (1, 3), commit=3))
    assert machine.commit_index == 3
    assert not any(isinstance(effect, Apply) for effect in effects)
    deadline_ns = machine.election_deadline_ns
    assert deadline_ns is not None
    assert not any(isinstance(effect, Send) for effect in machine.step(Tick(), now_ns=deadline_ns))
    effects = machine.step(SnapshotRefused(NEW, "unreadable"), now_ns=deadline_ns)
    given = [effect.entries for effect in effects if isinstance(effect, Apply)]
    assert given == [entries(1, 1, 1)[1:]], "it goes on where it stood"


def test_an_installation_that_nobody_asked_for_is_ignored() -> None:
    cluster = RaftCluster(config=SMALL)
    assert cluster.step("b", SnapshotInstalled(NEW)) == []
    assert cluster.step("b", SnapshotRefused(NEW, "?")) == []
    assert cluster.machine("b").snapshot is None


def test_a_transfer_goes_on_with_another_leader_and_never_mixes_two_snapshots() -> None:
    cluster = RaftCluster(config=SMALL)
    cluster.hear("b", "a", offer("a", 2, NEW))
    cluster.hear("b", "a", chunk("a", 2, NEW, DATA))
    # The next leader has the same snapshot: it goes on where it stood.
    cluster.now_ns += 200 * MILLISECOND_NS
    cluster.hear("b", "c", offer("c", 3, NEW))
    asked = cluster.said("b", SnapshotRequest)[-1]
    assert isinstance(asked, SnapshotRequest)
    assert (asked.offset, asked.term) == (16, 3)
    # The one after it has another: it begins anew, and bytes of the first are not taken.
    other_data = packed([b"quite", b"another", b"state"])
    other = metadata_of(other_data, index=50, term=3, configuration=ABC)
    cluster.now_ns += 200 * MILLISECOND_NS
    cluster.hear("b", "a", offer("a", 4, other))
    asked = cluster.said("b", SnapshotRequest)[-1]
    assert isinstance(asked, SnapshotRequest)
    assert (asked.offset, asked.sha256) == (0, other.sha256)
    before = len([e for e in cluster.members[B].effects if isinstance(e, StoreChunk)])
    cluster.hear("b", "a", chunk("a", 4, NEW, DATA, 16))
    assert len([e for e in cluster.members[B].effects if isinstance(e, StoreChunk)]) == before
    for offset in range(0, len(other_data), SMALL.snapshot_chunk_size):
        cluster.hear("b", "a", chunk("a", 4, other, other_data, offset))
    assert cluster.members[B].applied == [b"quite", b"another", b"state"]
    assert cluster.machine("b").snapshot == other


def test_what_an_earlier_leader_counted_is_no_answer_to_the_next() -> None:
    cluster = RaftCluster(config=SMALL)
    cluster.hear("b", "a", offer("a", 2, NEW, round_=500))
    cluster.hear("b", "c", append("c", 3, (0, 0), round_=1))
    cluster.now_ns += 120 * MILLISECOND_NS
    cluster.step("b", Tick())
    asked = cluster.said("b", SnapshotRequest)[-1]
    assert isinstance(asked, SnapshotRequest)
    assert (asked.term, asked.round) == (3, 0)


@pytest.mark.parametrize("seed", range(3))
def test_a_snapshot_travels_over_a_network_that_loses_a_third_of_all_messages(seed: int) -> None:
    cluster = filled(without="b")
    cluster.heal()
    chance = Random(seed)
    cluster.lost = lambda _: chance.random() < 1 / 3
    assert cluster.run(10_000, lambda: cluster.members[B].applied == cluster.members[A].applied)
    assert cluster.machine("b").stats.snapshots_installed == 1


def test_a_follower_that_lost_its_log_is_brought_back_by_the_same_leader() -> None:
    """CL-295: the snapshot ends before what it had acknowledged, so entries have to follow it."""
    cluster = RaftCluster(config=structs.replace(PLAIN, snapshot_trailing_logs=2))
    cluster.elect("a")
    for number in range(5):
        cluster.propose("a", b"%d" % number)
        cluster.deliver()
    cluster.step("a", SnapshotWanted(999))
    cluster.deliver()
    for number in range(5):
        cluster.propose("a", b"%d" % number)
        cluster.deliver()
    cluster.beat()
    leader, member = cluster.machine("a"), cluster.members[NodeId("c")]
    c = leader.progress[NodeId("c")]
    assert leader.snapshot is not None
    assert leader.snapshot.last_index < c.match_index == leader.last_index
    found = Recovered(
        term=member.disk.term,
        voted_for=member.disk.voted_for,
        lost=(cluster.machine("c").last_term, cluster.machine("c").last_index),
    )
    cluster.crash("c")
    member.disk = Disk()
    member.disk.term, member.disk.voted_for = found.term, found.voted_for
    member.disk.recovered = lambda: found  # type: ignore[method-assign]
    cluster.start("c")
    least = c.match_index
    assert cluster.run(2_000, until=lambda: cluster.machine("c").last_index == leader.last_index)
    assert (cluster.leaders(), leader.term) == (["a"], 1), "nobody else had to lead for that"
    assert c.match_index >= least, "R11"
    cluster.propose("a", b"more")
    cluster.deliver()
    cluster.beat()
    assert member.applied == cluster.members[NodeId("a")].applied
    assert c.held_index == leader.last_index
