"""The membership machine: how it begins, what it says of itself, what it believes, and what it reports."""

import ast
from pathlib import Path
from random import Random

import pytest

import bobbin.cluster.membership
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.membership.effects import HealthChanged, PersistIncarnation
from bobbin.cluster.membership.events import IncarnationPersisted, PeersChanged, PersistFailed, Tick
from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.cluster.membership.messages import (
    Alive,
    GossipMessage,
    GossipNodeState,
    Health,
    Ping,
    Pong,
    Suspect,
    Sync,
)
from bobbin.cluster.membership.partition import PartitionStatus
from bobbin.cluster.membership.table import U64_MAX
from bobbin.cluster.names import MILLISECOND_NS
from bobbin.cluster.settings import GossipConfig
from bobbin.errors import UsageError
from tests.unit.cluster.membership.driven import A, B, C, D, Driven, F, word


def against(incarnation: int, health: Health = Health.FAILED) -> GossipNodeState:
    """A word against the node itself."""
    return word(A, health, incarnation, at=3, by=C)


def status(node: Driven) -> PartitionStatus:
    """With everybody voting."""
    return node.machine.partition((node.machine.node, *node.machine.embeddings))


def alives(node: Driven) -> set[int]:
    return {message.incarnation for _, message in node.sent(Alive)}


def test_a_failure_at_the_old_incarnation_does_not_stand_against_a_node_that_starts_again() -> None:
    observer = Driven("bc")
    observer.sync(C, word(B, Health.FAILED, 7, by=C))
    observer.hear(B, Alive(node_id=B, incarnation=8))
    assert observer.health(B) is Health.HEALTHY
    observer.sync(C, word(B, Health.FAILED, 7, at=900, by=C))
    assert observer.health(B) is Health.HEALTHY


# ---- beginning ------------------------------------------------------------------------------------------------------


def test_a_node_begins_healthy_with_its_peers_unknown() -> None:
    node = Driven("bc", incarnation=0, persists=False)
    assert node.state(A) == GossipNodeState(A, Health.HEALTHY, 0, 0, A)
    assert [node.state(peer) for peer in (B, C)] == [
        GossipNodeState(peer, Health.UNKNOWN, 0, 0, peer) for peer in (B, C)
    ]
    assert node.machine.table.time == 0


def test_live_peers_become_healthy_by_their_own_word_and_silent_ones_fail() -> None:
    node = Driven("bcd")
    node.introduce(C, D)
    assert [node.health(peer) for peer in (B, C, D)] == [Health.UNKNOWN, Health.HEALTHY, Health.HEALTHY]
    for _ in range(300):
        node.take()
        node.advance(100)
        for to, ping in node.sent(Ping):
            if to != B:
                node.hear(to, Pong(responder=to, sequence=ping.sequence))
        for peer in (C, D):
            node.sync(peer)
    assert [node.health(peer) for peer in (B, C, D)] == [Health.FAILED, Health.HEALTHY, Health.HEALTHY]
    assert node.state(B).incarnation == 0


def test_a_node_goes_on_one_above_what_it_had_made_durable_and_says_so_then() -> None:
    node = Driven("bc", incarnation=7, persists=False)
    assert node.told(PersistIncarnation) == [PersistIncarnation(8)]
    node.advance(1_000)
    assert alives(node) == set()
    assert {state.incarnation for _, sync in node.sent(Sync) for state in sync.states if state.node == A} == {7}
    node.take()
    node.step(IncarnationPersisted(8))
    assert node.sent(Alive) == [(to, Alive(node_id=A, incarnation=8)) for to in (B, C)]
    assert node.state(A) == GossipNodeState(A, Health.HEALTHY, node.machine.table.time, 8, A)


def test_an_incarnation_that_cannot_be_saved_is_asked_for_again_and_not_said() -> None:
    node = Driven("bc", incarnation=7, persists=False)
    node.take()
    node.step(PersistFailed("the disk is full"))
    node.advance(999)
    assert node.told(PersistIncarnation) == []
    node.advance(1)
    assert node.told(PersistIncarnation) == [PersistIncarnation(8)]
    assert alives(node) == set()
    assert node.machine.spoken == 7


def test_incarnations_never_wrap() -> None:
    with pytest.raises(UsageError, match="used up"):
        MembershipMachine(GossipConfig(), node=A, incarnation=U64_MAX, peers=[], random=Random(0))
    node = Driven("bc", incarnation=U64_MAX - 1)
    assert node.machine.spoken == U64_MAX
    node.sync(C, against(U64_MAX))
    node.hear(C, Suspect(reporter=C, suspect=A, incarnation=U64_MAX))
    assert node.machine.incarnation == node.machine.spoken == U64_MAX
    assert node.machine.stats["refused: leap of the own incarnation"] == 2


# ---- words about this node itself -----------------------------------------------------------------------------------


def test_b_at_5_that_is_suspected_goes_to_6_and_tells_everybody() -> None:
    node = Driven("bc")
    assert node.machine.spoken == 5
    node.take()
    time = node.machine.table.time
    node.hear(C, Suspect(reporter=C, suspect=A, incarnation=5))
    assert node.machine.incarnation == 6
    assert node.sent(Alive) == [(to, Alive(node_id=A, incarnation=6)) for to in (B, C)]
    assert node.state(A) == GossipNodeState(A, Health.HEALTHY, time + 1, 6, A)
    assert node.machine.local_health.score == 1


@pytest.mark.parametrize("health", [Health.DEGRADED, Health.FAILED])
@pytest.mark.parametrize("incarnation", [5, 6, 105, 106, 10**6, 2**63])
def test_every_word_against_it_raises_its_incarnation_above_in_one_step(health: Health, incarnation: int) -> None:
    node = Driven("bc", persists=False)
    node.step(IncarnationPersisted(5))
    node.sync(C, against(incarnation, health))
    assert node.machine.incarnation == incarnation + 1
    assert node.machine.spoken == 5
    node.hear(B, Suspect(reporter=B, suspect=A, incarnation=incarnation + 1))
    assert node.machine.incarnation == incarnation + 2


def test_nothing_is_said_at_an_incarnation_before_it_is_durable() -> None:
    node = Driven("bc", persists=False)
    node.step(IncarnationPersisted(5))
    node.take()
    node.hear(C, Suspect(reporter=C, suspect=A, incarnation=5))
    node.advance(2_000)
    assert alives(node) == set()
    assert node.state(A).incarnation == 5
    node.step(IncarnationPersisted(6))
    assert alives(node) == {6}


def test_words_against_it_do_not_flood_its_disk() -> None:
    """Each raise is a durable write before which entries of the log wait, and anybody may cause one."""
    node = Driven("bc", persists=False)
    node.step(IncarnationPersisted(5))
    node.take()
    for number in range(100):
        node.hear(C, Suspect(reporter=C, suspect=A, incarnation=5 + number))
    assert node.machine.incarnation == 105
    assert node.told(PersistIncarnation) == [PersistIncarnation(6)], "one at a time"
    node.step(IncarnationPersisted(6))
    assert alives(node) == {6}
    node.take()
    node.advance(199)
    assert node.told(PersistIncarnation) == [], "and one for each round of gossip"
    node.advance(1)
    assert node.told(PersistIncarnation) == [PersistIncarnation(105)], "the highest, once"
    node.step(IncarnationPersisted(105))
    node.advance(2_000)
    assert node.told(PersistIncarnation) == [PersistIncarnation(105)]
    node.take()
    node.hear(C, Suspect(reporter=C, suspect=A, incarnation=105))
    assert node.told(PersistIncarnation) == [PersistIncarnation(106)], "a single word is answered at once"


def test_a_word_at_an_older_incarnation_or_a_good_one_raises_nothing() -> None:
    node = Driven("bc")
    node.take()
    node.sync(C, against(4))
    node.hear(C, Suspect(reporter=C, suspect=A, incarnation=4))
    node.sync(C, word(A, Health.HEALTHY, 5, at=2))
    assert node.machine.incarnation == 5
    assert node.told(PersistIncarnation) == []
    assert node.sent(Alive) == [(C, Alive(node_id=A, incarnation=5))], "who is behind hears it from the node itself"


def test_a_node_that_has_lost_its_disk_goes_above_what_it_hears_of_itself() -> None:
    node = Driven("bc", incarnation=0)
    assert node.machine.spoken == 1
    node.sync(C, word(A, Health.HEALTHY, 700))
    assert node.machine.spoken == 701


def test_nobodys_word_about_it_is_taken() -> None:
    node = Driven("bc", persists=False)
    node.step(IncarnationPersisted(5))
    own = node.state(A)
    for states in ([against(5)], [against(9, Health.DEGRADED)], [word(A, Health.HEALTHY, 5, at=500, by=C)]):
        node.sync(C, *states)
        assert node.state(A) == own


def test_what_others_wrote_of_its_health_gets_a_later_stamp_of_its_own() -> None:
    """So that all hold the same in the end: the receivers of an ``Alive`` each stamped it themselves."""
    node = Driven("bc")
    theirs = word(A, Health.HEALTHY, 5, at=500, by=C)
    node.sync(C, theirs)
    node.advance(400)
    own = node.state(A)
    assert own.writer == A
    assert own.timestamp > 500
    assert own.incarnation == 5


def test_one_lie_does_not_use_up_its_incarnations() -> None:
    node = Driven("bc")
    node.sync(C, against(2**63 + 1))
    assert node.machine.incarnation == 5
    assert node.machine.stats["refused: incredible incarnation"] == 1


# ---- words about others ---------------------------------------------------------------------------------------------


def test_only_the_node_itself_says_that_it_is_healthy() -> None:
    node = Driven("bc")
    node.sync(B)
    node.hear(B, Ping(origin=B, sequence=1))
    assert node.health(B) is Health.UNKNOWN
    time = node.machine.table.time
    node.hear(B, Alive(node_id=B, incarnation=1))
    assert node.state(B) == GossipNodeState(B, Health.HEALTHY, time + 1, 1, A)


def test_a_leap_is_dropped_and_the_node_itself_is_asked() -> None:
    node = Driven("bc")
    node.introduce(B, C, incarnation=5)
    node.take()
    node.sync(C, word(B, Health.FAILED, 106, by=C))
    assert node.state(B).incarnation == 5
    held = node.state(B)
    assert node.sent(Sync) == [(B, Sync(sender=A, states=(held,), sender_time=node.machine.table.time))]
    node.sync(C, word(B, Health.FAILED, 105, by=C))
    assert node.state(B).incarnation == 105
    node.sync(B, word(B, Health.HEALTHY, 10**6))
    assert node.state(B).incarnation == 10**6


@pytest.mark.parametrize("jump", [3, 100])
def test_how_far_an_incarnation_may_leap_is_a_setting(jump: int) -> None:
    node = Driven("bc", config=GossipConfig(max_incarnation_jump=jump))
    node.introduce(B, C)
    node.sync(C, word(B, Health.DEGRADED, 2 + jump, by=C))
    assert node.state(B).incarnation == 1
    node.sync(C, word(B, Health.DEGRADED, 1 + jump, by=C))
    assert node.state(B).incarnation == 1 + jump


def test_the_clock_follows_words_and_not_an_empty_sync() -> None:
    node = Driven("bc")
    before = node.machine.table.time
    node.sync(C, time=900)
    assert node.machine.table.time == before
    node.sync(C, word(B, Health.HEALTHY, 1, at=40), time=900)
    assert node.machine.table.time == 41
    node.sync(C, word(B, Health.HEALTHY, 1, at=40), time=900)
    assert node.machine.table.time == 42
    node.sync(C, word(B, Health.HEALTHY, 2, at=50), word(A, Health.HEALTHY, 5, at=60, by=C), time=900)
    assert node.machine.table.time == 61


def test_a_word_that_is_refused_moves_no_clock() -> None:
    node = Driven("bc")
    before = node.machine.table.time
    node.sync(C, word(B, Health.HEALTHY, 1, at=2**50), time=5)
    node.sync(C, word(F, Health.HEALTHY, 1, at=9))
    assert node.machine.table.time == before
    assert node.machine.stats["refused: stamp ahead of the clock"] == 1
    assert node.machine.stats["refused: not a member"] == 1


def test_strangers_and_words_in_anothers_name_change_nothing() -> None:
    node = Driven("bc")
    node.introduce()
    before = dict(node.machine.table.states)
    node.take()
    node.hear(D, Suspect(reporter=D, suspect=B, incarnation=1))
    node.hear(C, Alive(node_id=B, incarnation=9))
    node.hear(C, Suspect(reporter=B, suspect=C, incarnation=1))
    node.hear(C, Sync(sender=B, states=(word(B, Health.FAILED, 1),), sender_time=9))
    node.hear(C, Ping(origin=B, sequence=1))
    assert node.machine.table.states == before
    assert node.take() == []
    assert node.machine.stats["refused: stranger"] == 1
    assert node.machine.stats["refused: in another's name"] == 4


def test_a_recorded_message_that_comes_again_changes_nothing() -> None:
    node = Driven("bc")
    node.introduce()
    recorded: list[GossipMessage] = [
        Sync(sender=C, states=(word(B, Health.DEGRADED, 1, at=4, by=C),), sender_time=9),
        Suspect(reporter=C, suspect=B, incarnation=1),
    ]
    for message in recorded:
        node.hear(C, message)
    node.hear(B, Alive(node_id=B, incarnation=2))
    before = dict(node.machine.table.states)
    node.take()
    for message in recorded:
        node.hear(C, message)
    node.hear(B, Alive(node_id=B, incarnation=2))
    assert node.machine.table.states == before
    assert node.machine.suspicions == {}
    assert node.told(HealthChanged) == []


# ---- reports --------------------------------------------------------------------------------------------------------


def test_every_change_of_health_is_told_in_order() -> None:
    node = Driven("bc", config=GossipConfig(probe_interval_ms=100_000))
    node.introduce()
    node.hear(C, Suspect(reporter=C, suspect=B, incarnation=1))
    node.advance(5_000)
    node.hear(B, Alive(node_id=B, incarnation=2))
    node.sync(C, word(B, Health.HEALTHY, 2, at=99))
    told = [(one.before, one.after, one.incarnation) for one in node.told(HealthChanged) if one.node == B]
    assert told == [
        (Health.UNKNOWN, Health.HEALTHY, 1),
        (Health.HEALTHY, Health.DEGRADED, 1),
        (Health.DEGRADED, Health.FAILED, 1),
        (Health.FAILED, Health.HEALTHY, 2),
    ]


def test_the_status_of_the_partition_is_a_report() -> None:
    node = Driven("bcd", config=GossipConfig(probe_interval_ms=100_000))
    assert status(node) is PartitionStatus.UNKNOWN
    node.advance(4_999)
    assert status(node) is PartitionStatus.UNKNOWN
    node.advance(201)
    assert status(node) is PartitionStatus.QUORUM_LOST
    node.introduce(B)
    assert status(node) is PartitionStatus.STALEMATE
    node.introduce(C)
    assert status(node) is PartitionStatus.QUORUM_REACHABLE
    node.hear(C, Suspect(reporter=C, suspect=B, incarnation=1))
    assert status(node) is PartitionStatus.QUORUM_REACHABLE, "a suspected node is not lost"
    node.sync(C, word(B, Health.FAILED, 1, by=C))
    assert status(node) is PartitionStatus.STALEMATE
    node.hear(B, Alive(node_id=B, incarnation=2))
    assert status(node) is PartitionStatus.STALEMATE, "and one on probation is not back"


def test_whoever_only_listens_counts_for_nothing_in_the_report() -> None:
    """CL-120: a majority is one of voters, and a listener that is away, or there, changes none."""
    node = Driven("bcd", config=GossipConfig(probe_interval_ms=100_000))
    node.advance(5_200)
    assert node.machine.reachable == {A}
    assert node.machine.partition((A,)) is PartitionStatus.QUORUM_REACHABLE
    assert node.machine.partition((B,)) is PartitionStatus.QUORUM_LOST, "this node does not vote itself"
    node.introduce(B, C)
    assert node.machine.reachable == {A, B, C}
    assert node.machine.partition((A, D)) is PartitionStatus.STALEMATE
    assert node.machine.partition(()) is PartitionStatus.UNKNOWN


def test_a_vector_is_routed_by_the_view() -> None:
    east, north = Embedding.dense((1.0, 0.0)), Embedding.dense((0.0, 1.0))
    node = Driven("bc", embeddings={"a": north, "b": east, "c": Embedding.dense((0.9, 0.3))})
    assert node.machine.route(east) == A, "nobody else is healthy yet"
    node.introduce()
    assert node.machine.route(east) == B
    node.sync(C, word(B, Health.DEGRADED, 1, by=C))
    assert node.machine.route(east) == C
    plain = Driven("bc", embeddings={"b": east}, config=GossipConfig(geometric_routing=False))
    plain.introduce()
    somewhere = {plain.machine.route(Embedding.dense((1.0, 0.01 * number))) for number in range(20)}
    assert somewhere == {A, B, C}


def test_members_come_and_go_by_the_log() -> None:
    node = Driven("bc")
    node.introduce()
    node.hear(C, Suspect(reporter=C, suspect=B, incarnation=1))
    node.begin_probe(B)
    node.step(PeersChanged(((A, None), (C, None), (D, None))))
    assert set(node.machine.table.states) == {A, C, D}
    assert node.machine.suspicions == {}
    assert node.machine.probe is None
    assert (node.health(C), node.health(D)) == (Health.HEALTHY, Health.UNKNOWN)
    node.hear(B, Alive(node_id=B, incarnation=4))
    assert B not in node.machine.table.states


def test_a_node_alone_is_content() -> None:
    node = Driven("")
    node.advance(20_000)
    assert node.sent(Sync) == []
    assert status(node) is PartitionStatus.QUORUM_REACHABLE
    assert node.machine.route(Embedding.dense((1.0,))) == A


# ---- time -----------------------------------------------------------------------------------------------------------


def test_a_clock_that_goes_back_changes_nothing() -> None:
    node = Driven("bc")
    node.introduce()
    node.advance(1_000)
    before = node.machine.table.states.copy()
    now = node.now_ns
    node.now_ns -= 3_600_000 * MILLISECOND_NS
    node.step(Tick())
    assert node.machine.table.states == before
    node.now_ns = now
    node.take()
    node.advance(1_000)
    assert len(node.sent(Sync)) >= 8


def test_membership_knows_nothing_of_consensus() -> None:
    folder = Path(bobbin.cluster.membership.__file__).parent
    imported = {
        name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [one.name for one in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        if name.startswith("bobbin")
    }
    allowed = (
        "bobbin.cluster.membership",
        "bobbin.cluster.names",
        "bobbin.cluster.geometry",
        "bobbin.cluster.settings",
    )
    assert [name for name in imported if not name.startswith((*allowed, "bobbin.errors"))] == []
