"""Suspicion: how long it lasts, who shortens it, and how it ends."""

import pytest

from bobbin.cluster.membership.effects import HealthChanged, Send
from bobbin.cluster.membership.local_health import LocalHealth
from bobbin.cluster.membership.messages import Alive, Health, Ping, PingAck, PingReq, Pong, Suspect, Sync
from bobbin.cluster.membership.suspicion import Suspicion, share
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.settings import GossipConfig
from tests.unit.cluster.membership.driven import A, B, C, D, Driven, F, word

CONFIG = GossipConfig()


def suspect(by: NodeId, incarnation: int = 1) -> Suspect:
    return Suspect(reporter=by, suspect=B, incarnation=incarnation)


def suspected(*reporters: NodeId, config: GossipConfig = CONFIG) -> Driven:
    """B is suspected; the pings of the node itself are answered by everybody else."""
    node = Driven(config=config)
    node.introduce()
    for reporter in reporters or (C,):
        node.hear(reporter, suspect(reporter))
    assert node.health(B) is Health.DEGRADED
    return node


def time_to_fail(node: Driven, most_ms: int = 60_000) -> int:
    """In milliseconds, while everybody but B answers pings."""
    for passed in range(0, most_ms, 10):
        if node.health(B) is Health.FAILED:
            return passed
        node.take()
        node.advance(10)
        for to, ping in node.sent(Ping):
            if to != B:
                node.hear(to, Pong(responder=to, sequence=ping.sequence))
        for to, request in node.sent(PingReq):
            node.hear(to, PingAck(origin=A, target=request.target, sequence=request.sequence, success=False))
    raise AssertionError("never")


def test_confirmations_shorten_the_time_to_half() -> None:
    assert share(0, 3) == 1.0
    assert share(3, 3) == share(9, 3) == pytest.approx(0.5)
    shares = [share(count, 3) for count in range(4)]
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) == 4


def test_each_reporter_counts_once() -> None:
    suspicion = Suspicion.begin(CONFIG, LocalHealth(8), 1, 0)
    assert suspicion.due_ns == 5_000 * MILLISECOND_NS
    assert suspicion.report(C)
    assert suspicion.due_ns == 5_000 * MILLISECOND_NS, "the first is the suspicion itself"
    assert suspicion.report(D)
    due = suspicion.due_ns
    assert due == 3_750 * MILLISECOND_NS
    assert not suspicion.report(D)
    assert not suspicion.report(C)
    assert (suspicion.due_ns, suspicion.confirmations) == (due, 1)
    suspicion.postpone(7)
    assert (suspicion.began_ns, suspicion.due_ns) == (7, due + 7)


def test_poor_health_of_ones_own_gives_more_time() -> None:
    health = LocalHealth(8)
    health.worsen(2)
    suspicion = Suspicion.begin(CONFIG, health, 1, 0)
    assert suspicion.due_ns == 15_000 * MILLISECOND_NS
    for reporter in (A, C, D, F):
        suspicion.report(reporter)
    assert suspicion.due_ns == 7_500 * MILLISECOND_NS


def test_without_a_refutation_the_end_of_the_timer_is_a_failure() -> None:
    # This node's own probe of B fails meanwhile, and confirms.
    node = suspected(config=GossipConfig(probe_interval_ms=100_000))
    assert time_to_fail(node) == 5_000
    held = node.state(B)
    assert (held.incarnation, held.writer) == (1, A), "at the incarnation at which it was suspected, and no higher"


@pytest.mark.parametrize(("reporters", "least", "most"), [((C, D), 3_740, 3_760), ((C, D, F), 3_020, 3_040)])
def test_reports_of_others_bring_the_end_nearer(reporters: tuple[NodeId, ...], least: int, most: int) -> None:
    node = suspected(*reporters, config=GossipConfig(probe_interval_ms=100_000))
    for reporter in reporters:
        node.hear(reporter, suspect(reporter))
    assert least <= time_to_fail(node) <= most


def test_the_suspicion_timeout_is_a_setting() -> None:
    config = GossipConfig(suspicion_timeout_ms=1_200, probe_interval_ms=100_000)
    assert time_to_fail(suspected(config=config)) == 1_200


def test_an_alive_with_a_higher_incarnation_ends_it() -> None:
    node = suspected()
    node.advance(4_000)
    node.take()
    node.hear(B, Alive(node_id=B, incarnation=2))
    held = node.state(B)
    assert (held.health, held.incarnation) == (Health.HEALTHY, 2)
    assert held.timestamp == node.machine.table.time
    assert B not in node.machine.suspicions
    assert node.told(HealthChanged) == [HealthChanged(B, Health.DEGRADED, Health.HEALTHY, 2)]
    node.advance(900)
    assert node.health(B) is Health.HEALTHY


def test_an_alive_of_an_equal_or_lower_incarnation_is_ignored() -> None:
    node = suspected()
    before = node.state(B)
    for incarnation in (1, 0):
        node.hear(B, Alive(node_id=B, incarnation=incarnation))
    assert node.state(B) == before
    assert node.machine.stats["ignored: alive"] == 2


def test_a_suspect_counts_at_the_known_incarnation_alone() -> None:
    node = Driven()
    node.introduce(incarnation=5)
    for incarnation in (4, 6):
        node.hear(C, suspect(C, incarnation))
        assert node.health(B) is Health.HEALTHY
    node.hear(C, suspect(C, 5))
    assert node.health(B) is Health.DEGRADED
    assert node.state(B).incarnation == 5


def test_a_sign_of_life_clears_this_nodes_timer_and_writes_nothing() -> None:
    node = suspected()
    before = node.state(B)
    node.sync(B)
    assert node.machine.suspicions == {}
    assert node.state(B) == before, "only B itself says that it is healthy"
    node.introduce(C)
    assert node.state(B) == before


def test_the_timer_runs_again_when_the_next_probe_fails() -> None:
    node = suspected()
    node.sync(B)
    assert time_to_fail(node) > 5_000


def test_an_answer_that_others_report_clears_the_timer_too() -> None:
    node = suspected()
    sequence = node.begin_probe(B)
    node.take()
    node.advance(500)
    helper = node.sent(PingReq)[0][0]
    assert B in node.machine.suspicions
    node.hear(helper, PingAck(origin=A, target=B, sequence=sequence, success=True))
    assert node.machine.suspicions == {}
    assert node.health(B) is Health.DEGRADED


def test_a_suspected_node_is_told_by_whoever_contacts_it() -> None:
    node = suspected()
    node.take()
    for _ in range(30):
        node.advance(200)
    told: set[NodeId] = set()
    contacts = 0
    for one in node.take():
        if isinstance(one, Send) and one.to == B:
            if isinstance(one.message, Suspect):
                told.add(B)
                assert one.message.incarnation == 1
            elif isinstance(one.message, Ping | Sync):
                contacts += 1
                assert B in told
                told.clear()
    assert contacts > 3
    node.take()
    node.hear(C, PingReq(origin=C, target=B, sequence=3))
    assert [type(one.message) for one in node.take() if isinstance(one, Send)] == [Suspect, Ping]


def test_a_word_in_a_sync_starts_a_timer_as_well() -> None:
    node = Driven()
    node.introduce()
    node.sync(C, word(B, Health.DEGRADED, 1, by=D))
    assert B in node.machine.suspicions
    node.sync(C, word(B, Health.DEGRADED, 2, at=9, by=D))
    assert node.machine.suspicions[B].incarnation == 2
    node.sync(C, word(B, Health.FAILED, 2, by=D))
    assert node.machine.suspicions == {}
