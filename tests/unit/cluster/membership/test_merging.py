"""A member comes back: what is merged, what is not, and what ends a merge."""

from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from bobbin.cluster.membership.merging import (
    AGGRESSIVE,
    CONSERVATIVE,
    MERGE,
    MERGE_PRESETS,
    AskDecisions,
    MergeConfig,
    MergeEffect,
    MergeEnded,
    MergePhase,
    OfferData,
    PartitionMerge,
    ShowView,
)
from bobbin.cluster.membership.messages import GossipNodeState, Health
from bobbin.cluster.membership.table import MemberTable
from bobbin.cluster.names import NodeId
from bobbin.errors import UsageError

A, B, C, D = map(NodeId, "abcd")


def word(node: NodeId, health: Health, incarnation: int, time: int = 1) -> GossipNodeState:
    return GossipNodeState(node, health, time, incarnation, node)


@dataclass
class Growing:
    """A set that only grows."""

    members: set[int] = field(default_factory=set)

    def state(self) -> bytes:
        return bytes(sorted(self.members))

    def join(self, state: bytes) -> None:
        self.members |= set(state)


class Side:
    """A node with its member table; what it hears goes into the table after the merge has seen it."""

    def __init__(self, config: MergeConfig | None = None, **declared: Growing) -> None:
        self.table = MemberTable()
        for node in (A, B, C, D):
            self.table.introduce(node)
        self.merge = PartitionMerge(config or MergeConfig(), view=lambda: self.table.states, declared=declared)
        self.now_ms = 0

    def confirm(self, peer: NodeId, times: int) -> list[MergeEffect]:
        return [effect for _ in range(times) for effect in self.merge.heard(peer, now_ms=self.now_ms)]

    def sync(self, peer: NodeId, *states: GossipNodeState) -> list[MergeEffect]:
        effects = self.merge.heard(peer, states, now_ms=self.now_ms)
        self.table.merge(states)
        return effects

    def tick(self, after_ms: int = 0) -> list[MergeEffect]:
        self.now_ms += after_ms
        return self.merge.tick(now_ms=self.now_ms)

    def healed(self, peer: NodeId) -> list[MergeEffect]:
        return self.merge.healed(peer, now_ms=self.now_ms)

    def failed(self, node: NodeId) -> list[MergeEffect]:
        return self.merge.failed(node, now_ms=self.now_ms)

    def whole(self, peer: NodeId, *states: GossipNodeState) -> list[MergeEffect]:
        """A merge from the heal to its end."""
        effects = self.healed(peer)
        effects += self.confirm(peer, 3)
        effects += self.sync(peer, *states)
        return effects + self.tick()


def test_the_settings_are_those_of_the_source() -> None:
    assert MergeConfig() == MergeConfig(
        heal_confirmations=3,
        phase_timeout_ms=5_000,
        phase_retries_max=3,
        sessions_max=1,
        cooldown_ms=10_000,
        deduplication_ms=5_000,
        automatic=True,
    )
    for preset, figures in ((AGGRESSIVE, (2, 3_000, 5_000)), (CONSERVATIVE, (5, 10_000, 30_000))):
        assert (preset.heal_confirmations, preset.phase_timeout_ms, preset.cooldown_ms) == figures
        assert (preset.phase_retries_max, preset.sessions_max, preset.deduplication_ms) == (3, 1, 5_000)
    assert list(MERGE_PRESETS.items()) == [
        ("default", MergeConfig()),
        ("aggressive", AGGRESSIVE),
        ("conservative", CONSERVATIVE),
    ]


@pytest.mark.parametrize(
    "name", ["heal_confirmations", "phase_timeout_ms", "sessions_max", "cooldown_ms", "deduplication_ms"]
)
def test_settings_that_cannot_work_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        replace(MergeConfig(), **{name: 0})


def test_a_merge_goes_through_its_phases_in_order() -> None:
    side = Side()
    assert side.healed(B) == []
    assert side.merge.phases == {B: MergePhase.HEAL_DETECTION}
    assert side.confirm(B, 2) == []
    assert side.confirm(B, 1) == [ShowView(B)]
    assert side.merge.phases == {B: MergePhase.VIEW_EXCHANGE}
    assert side.sync(B, word(C, Health.HEALTHY, 4)) == []
    assert side.merge.phases == {B: MergePhase.MEMBERSHIP_RECONCILIATION}
    side.now_ms = 70
    assert side.tick() == [AskDecisions(B), ShowView(B), MergeEnded(B, MergePhase.COMPLETED, "", 70)]
    assert side.merge.phases == {}
    stats = side.merge.stats
    assert (stats.started, stats.completed, stats.failed, stats.duration_ms_total) == (1, 1, 0, 70)


def test_the_diagram_is_one_line_to_its_end() -> None:
    way = [MergePhase.HEAL_DETECTION]
    while way[-1] in MERGE:
        way.append(MERGE[way[-1]])
    assert way == [phase for phase in MergePhase if phase is not MergePhase.FAILED]


def test_views_are_merged_by_the_rule_of_the_member_table_and_what_differed_is_counted() -> None:
    side = Side()
    side.table.merge([word(C, Health.FAILED, 7), word(D, Health.HEALTHY, 2)])
    side.whole(B, word(C, Health.HEALTHY, 8), word(D, Health.HEALTHY, 2), word(NodeId("stranger"), Health.HEALTHY, 1))
    assert side.table.states[C] == word(C, Health.HEALTHY, 8)
    assert (side.merge.stats.conflicts_auto, side.merge.stats.conflicts_manual) == (1, 0)


def test_a_word_that_the_table_does_not_take_is_left_to_people() -> None:
    side = Side()
    side.healed(B)
    side.confirm(B, 3)
    side.merge.heard(B, [word(C, Health.HEALTHY, 10**9)], now_ms=0)
    side.tick()
    assert (side.merge.stats.conflicts_auto, side.merge.stats.conflicts_manual) == (0, 1)


def test_nothing_but_views_and_declared_data_is_ever_asked_to_be_merged() -> None:
    """U28: there is no way in for states or for vectors that describe them, and votes decide nothing."""
    mine, theirs = Growing({1}), Growing({2, 3})
    side = Side(tags=mine)
    side.healed(B)
    side.confirm(B, 3)
    side.sync(B)
    assert side.tick() == [OfferData(B, "tags", b"\x01")]
    assert side.merge.phases == {B: MergePhase.DATA_RECONCILIATION}
    assert side.merge.data(B, "undeclared", b"\x09", now_ms=0) == []
    assert side.merge.phases == {B: MergePhase.DATA_RECONCILIATION}
    ended = side.merge.data(B, "tags", theirs.state(), now_ms=0)
    assert ended == [AskDecisions(B), ShowView(B), MergeEnded(B, MergePhase.COMPLETED, "", 0)]
    assert mine.members == {1, 2, 3}
    side.merge.data(C, "tags", b"\x04", now_ms=0)
    assert mine.members == {1, 2, 3, 4}, "a join is good at any time"


def test_one_merge_at_a_time_and_the_others_in_their_order() -> None:
    side = Side()
    for peer in (B, C, D):
        side.healed(peer)
    assert side.merge.phases == {B: MergePhase.HEAL_DETECTION}
    side.tick()
    assert list(side.merge.phases) == [B]
    side.confirm(B, 3)
    side.sync(B)
    side.tick()
    assert list(side.merge.phases) == [C]
    assert side.confirm(D, 3) == []
    two = Side(MergeConfig(sessions_max=2))
    for peer in (B, C, D):
        two.healed(peer)
    assert list(two.merge.phases) == [B, C]


def test_a_peer_has_rest_after_a_merge() -> None:
    side = Side()
    side.whole(B)
    side.now_ms = 9_999
    side.healed(B)
    assert side.merge.phases == {}
    side.tick(1)
    assert list(side.merge.phases) == [B]
    assert side.merge.stats.started == 2


def test_the_same_heal_is_taken_up_once() -> None:
    side = Side(MergeConfig(cooldown_ms=1))
    side.healed(B)
    side.healed(B)
    side.healed(C)
    side.healed(C)
    assert side.merge.stats.deduplicated == 2
    side.confirm(B, 3)
    side.sync(B)
    side.tick(4_000)
    side.now_ms = 4_999
    side.healed(B)
    assert side.merge.stats.deduplicated == 3
    side.now_ms = 5_000
    side.healed(B)
    assert side.merge.stats.deduplicated == 3


def test_a_phase_is_tried_again_and_then_given_up() -> None:
    side = Side()
    side.healed(B)
    side.confirm(B, 3)
    assert side.tick(4_999) == []
    assert side.tick(1) == [ShowView(B)]
    assert side.tick(5_000) == [ShowView(B)]
    assert side.tick(5_000) == [ShowView(B)]
    assert side.tick(5_000) == [MergeEnded(B, MergePhase.FAILED, "view-exchange came to no end", 20_000)]
    assert (side.merge.stats.failed, side.merge.stats.completed) == (1, 0)
    assert side.merge.phases == {}


def test_a_new_split_aborts_the_merge() -> None:
    side = Side()
    side.healed(B)
    side.healed(C)
    side.confirm(B, 3)
    assert side.failed(D) == [MergeEnded(B, MergePhase.FAILED, "the network has split again", 0)]
    assert (side.merge.generation, side.merge.stats.aborted_by_split, side.merge.stats.failed) == (1, 1, 1)
    assert side.sync(B) == [], "what comes for it is late"
    side.tick()
    assert list(side.merge.phases) == [C], "with those that are there it is begun anew"
    assert side.failed(C) == [MergeEnded(C, MergePhase.FAILED, "the network has split again", 0)]
    side.tick(10_000)
    assert list(side.merge.phases) == [B]
    side.tick(10_000)
    assert C not in side.merge.phases, "who has failed must heal first"


def test_without_automatic_a_merge_is_begun_by_hand() -> None:
    side = Side(MergeConfig(automatic=False))
    side.healed(B)
    assert side.merge.phases == {}
    side.merge.request(B, now_ms=0)
    assert list(side.merge.phases) == [B]


def test_nothing_is_kept_of_who_is_no_member_any_more() -> None:
    side = Side()
    side.healed(B)
    side.healed(C)
    side.merge.left(B)
    side.merge.left(C)
    side.tick(20_000)
    assert side.merge.phases == {}
    side.healed(B)
    assert side.merge.stats.deduplicated == 0
