"""Links between a graph and a mirror: the rows of the conformance list that are about machines."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bobbin.errors import PeerError
from bobbin.reactive.change import Change
from bobbin.reactive.graph import Graph
from bobbin.reactive.handshake import Codec, Feature
from bobbin.reactive.link_effects import Close, Send
from bobbin.reactive.link_events import Changed, Greeted, Opened, Received, Sent, Undecodable
from bobbin.reactive.messages import (
    CellSet,
    Delta,
    Invalidate,
    Message,
    NodeId,
    NodeState,
    OutboxAck,
    ResyncRequest,
    SlotValue,
    Snapshot,
)
from bobbin.reactive.mirror import EpochRule, Mirror, MirrorConfig, MirrorPhase
from bobbin.reactive.outbox import Outbox
from bobbin.reactive.permissions import OpKind, PeerPermissions, RemoteOp
from bobbin.reactive.publisher import Publisher, PublisherConfig, PublisherPhase, take_change
from bobbin.reactive.replica import Replica
from bobbin.reactive.source import GraphSource
from bobbin.reactive.type_tags import TypeTags
from bobbin.wire.lazily import canonical_json, handshake
from bobbin.wire.lazily.conversation import Conversation
from bobbin.wire.lazily.forms import Form
from tests.shared_fixtures import shared_fixture
from tests.support.reactive_links import PEER, SOURCE, Pair, capabilities, node, shown, snapshot

A, B, C, D = map(NodeId, range(1, 5))
GRAPH = snapshot(0, [node(A, b"a"), node(B, b"b"), node(C, b"c")], [(C, A), (C, B)], [A, B])


def local_mirror(rule: EpochRule = EpochRule.STRICT) -> Mirror:
    mirror = Mirror(MirrorConfig(rule=rule, checking=True))
    mirror.step(Opened())
    return mirror


def mirror_at(epoch: int, *ids: int, rule: EpochRule = EpochRule.STRICT) -> Mirror:
    mirror = local_mirror(rule)
    mirror.step(Received(snapshot(epoch, [node(id, None) for id in ids])))
    return mirror


def requests(mirror: Mirror, message: Message) -> list[Message]:
    return [effect.message for effect in mirror.step(Received(message)) if isinstance(effect, Send)]


def values(mirror: Mirror) -> dict[int, bytes | None]:
    return shown(mirror.replica)[0]


# ---- message kinds and epochs -------------------------------------------------------------------------------------


def test_an_observer_gets_a_snapshot_before_any_delta() -> None:
    """RX-009."""
    pair = Pair(GRAPH)
    pair.change(CellSet(A, b"before anybody looks"))
    pair.open()
    pair.change(CellSet(A, b"after"))
    assert [type(message) for message in pair.sent] == [Snapshot, Delta]


def test_a_snapshot_has_the_epoch_that_the_next_delta_is_based_on() -> None:
    """RX-012, RX-013."""
    pair = Pair(GRAPH).open()
    for number in range(3):
        pair.change(CellSet(A, bytes([number])))
    first, *deltas = pair.sent
    assert isinstance(first, Snapshot)
    last = first.epoch
    for delta in deltas:
        assert isinstance(delta, Delta)
        assert (delta.base_epoch, delta.epoch) == (last, last + 1)
        last = delta.epoch
    assert len(deltas) == 3


def test_a_flush_that_shows_nothing_does_not_advance_the_epoch() -> None:
    """RX-013, RX-161: no empty delta, and no number that was left out."""
    pair = Pair(GRAPH, reads=[A]).open()
    pair.change(CellSet(B, b"out of sight"), SlotValue(C, b"also"))
    assert len(pair.sent) == 1
    pair.change(CellSet(A, b"in sight"))
    first, delta = pair.sent
    assert isinstance(first, Snapshot)
    assert delta == Delta(first.epoch, first.epoch + 1, (CellSet(A, b"in sight"),))


@pytest.mark.parametrize(("base", "epoch"), [(4, 5), (6, 7), (0, 1), (4, 6), (0, 6), (5, 7), (5, 5), (5, 4), (9, 6)])
def test_whatever_does_not_lead_from_the_last_epoch_to_the_next_is_discarded(base: int, epoch: int) -> None:
    """RX-014, RX-039, RX-050, RX-051: a gap, a reorder, a restarted sender; nothing is applied, and it is asked."""
    mirror = mirror_at(5, A)
    asked = requests(mirror, Delta(base, epoch, (CellSet(A, b"x"),)))
    assert asked == [ResyncRequest(5)]
    assert (values(mirror), mirror.epoch) == ({A: None}, 5)
    assert mirror.phase is MirrorPhase.RESYNCING


def test_the_delta_that_follows_is_applied() -> None:
    """RX-014, RX-039: the counterpart."""
    mirror = mirror_at(5, A)
    assert requests(mirror, Delta(5, 6, (CellSet(A, b"x"),))) == []
    assert (values(mirror), mirror.epoch) == ({A: b"x"}, 6)


def test_operations_that_name_what_is_not_there_change_nothing() -> None:
    """RX-050: all of a delta or nothing, also when a later operation does not fit."""
    mirror = mirror_at(5, A)
    asked = requests(mirror, Delta(5, 6, (CellSet(A, b"x"), CellSet(B, b"y"))))
    assert asked == [ResyncRequest(5)]
    assert (values(mirror), mirror.epoch) == ({A: None}, 5)


def test_the_sender_answers_with_a_snapshot_of_now_and_deltas_go_on_from_it() -> None:
    """RX-052, RX-053."""
    pair = Pair(GRAPH).open()
    pair.change(CellSet(A, b"lost"))
    pair.lose()
    pair.change(CellSet(B, b"seen"))
    pair.deliver()
    pair.change(CellSet(B, b"later"))
    pair.settle()
    answer = pair.sent[-1]
    assert isinstance(answer, Snapshot)
    assert answer.epoch == pair.publisher.epoch == pair.mirror.epoch
    assert values(pair.mirror) == {A: b"lost", B: b"later", C: b"c"}
    pair.change(CellSet(A, b"on"))
    pair.settle()
    assert values(pair.mirror)[A] == b"on"
    assert pair.mirror.is_current


def test_a_snapshot_replaces_everything() -> None:
    """RX-054."""
    mirror = local_mirror()
    mirror.step(Received(GRAPH))
    mirror.step(Received(snapshot(9, [node(A, b"new"), node(D, b"d")], [(D, A)], [A])))
    assert shown(mirror.replica) == ({A: b"new", D: b"d"}, {(D, A)}, {A})
    assert mirror.epoch == 9


def test_one_request_for_one_gap() -> None:
    """RX-121: a burst of deltas is one gap; the snapshot ends it, and the next gap is asked about again."""
    mirror = mirror_at(2, A)
    asked = [len(requests(mirror, Delta(base, base + 1, (CellSet(A, b"x"),)))) for base in (3, 4, 5, 2)]
    assert asked == [1, 0, 0, 0]
    assert requests(mirror, snapshot(6, [node(A, b"six")])) == []
    assert mirror.is_current
    assert requests(mirror, Delta(8, 9, ())) == [ResyncRequest(6)]


def test_a_cut_frame_is_asked_about_and_the_link_goes_on() -> None:
    """RX-061."""
    pair = Pair(GRAPH).open()
    assert pair.mirror.agreed is not None
    talk = Conversation(pair.mirror.agreed, form=Form.SEED_JSON)
    pair.change(CellSet(A, b"cut"))
    (raw,) = talk.write(pair.lose())
    with pytest.raises(PeerError) as caught:
        Conversation(pair.mirror.agreed, form=Form.SEED_JSON).read(raw[:-1])
    pair.at_mirror(Undecodable(caught.value.code, str(caught.value)))
    assert list(pair.back) == [ResyncRequest(1)]
    pair.settle()
    assert values(pair.mirror)[A] == b"cut"
    assert pair.closed == []


@pytest.mark.parametrize("trouble", ["lost", "late", "twice"])
def test_frames_that_gap_reorder_or_repeat_lead_to_a_snapshot(trouble: str) -> None:
    """RX-061."""
    pair = Pair(GRAPH).open()
    for number in range(3):
        pair.change(CellSet(A, bytes([number])))
    frames = list(pair.wire)
    pair.wire.clear()
    order = {"lost": [0, 2], "late": [1, 0, 2], "twice": [0, 0, 1, 2]}[trouble]
    for number in order:
        pair.at_mirror(Received(frames[number]))
    assert list(pair.back).count(ResyncRequest(int(pair.mirror.epoch or 0))) == 1
    pair.at_source(Sent(3))
    pair.settle()
    assert values(pair.mirror)[A] == bytes([2])


@pytest.mark.parametrize("is_lazy", [False, True])
def test_bare_marks_come_only_from_a_source_that_leaves_slots_lazy(is_lazy: bool) -> None:  # noqa: FBT001 (a parameter)
    """RX-049: that is a choice; what somebody may read is computed otherwise."""
    graph, permissions, truth = Graph(), PeerPermissions(), Replica()
    permissions.grant_all(PEER, OpKind.READ)
    cell = graph.cell(1, tag="i64")
    slot = graph.slot(lambda: cell.get() + 1, tag="i64")
    assert slot.get() == 2
    source = GraphSource(graph, TypeTags.standard(), wanted=None if is_lazy else permissions.is_readable)
    assert truth.replace(source.snapshot()) is None
    publisher = Publisher(PublisherConfig(), peer=PEER, truth=truth, permissions=permissions)
    mirror, changes = local_mirror(), list[Change]()
    for effect in publisher.step(Opened()):
        assert isinstance(effect, Send)
        mirror.step(Received(effect.message))
    source.on_change(changes.append)
    cell.set(5)
    for change in changes:
        take_change(truth, permissions, change)
        for effect in publisher.step(Changed(change)):
            assert isinstance(effect, Send)
            mirror.step(Received(effect.message))
    shown_slot = mirror.replica.nodes[slot.id]
    expected = (NodeState.DIRTY, 2) if is_lazy else (NodeState.RESOLVED, 6)
    assert isinstance(shown_slot.value, bytes)
    assert (shown_slot.state, int.from_bytes(shown_slot.value, "little")) == expected


def test_a_stale_mark_keeps_the_value_and_is_not_taken_for_fresh() -> None:
    """RX-049: understood as what it is."""
    pair = Pair(GRAPH).open()
    pair.change(CellSet(A, b"A"), Invalidate(C))
    pair.settle()
    assert (pair.mirror.replica.nodes[C].state, pair.mirror.replica.nodes[C].value) == (NodeState.DIRTY, b"c")
    pair.change(SlotValue(C, b"C"))
    pair.settle()
    assert (pair.mirror.replica.nodes[C].state, pair.mirror.replica.nodes[C].value) == (NodeState.RESOLVED, b"C")


# ---- the published rule -------------------------------------------------------------------------------------------


def test_by_the_published_rule_a_delta_may_span_epochs_and_an_old_one_is_ignored() -> None:
    """RX-122."""
    mirror = mirror_at(5, A, rule=EpochRule.PUBLISHED)
    assert requests(mirror, Delta(5, 8, (CellSet(A, b"x"),))) == []
    assert (values(mirror), mirror.epoch) == ({A: b"x"}, 8)
    assert requests(mirror, Delta(5, 6, (CellSet(A, b"old"),))) == []
    assert requests(mirror, Delta(8, 8, (CellSet(A, b"none"),))) == []
    assert requests(mirror, Delta(8, 7, (CellSet(A, b"back"),))) == []
    assert (values(mirror), mirror.epoch, mirror.is_current) == ({A: b"x"}, 8, True)
    assert requests(mirror, Delta(9, 10, ())) == [ResyncRequest(8)]
    assert requests(mirror, Delta(10, 11, ())) == []
    assert requests(mirror, Delta(8, 9, (CellSet(A, b"nine"),))) == []
    assert (values(mirror), mirror.epoch) == ({A: b"nine"}, 9)


def test_a_span_advances_at_once_or_not_at_all() -> None:
    """RX-123: a later operation that does not fit leaves the epoch, and everything else, as it was."""
    mirror = mirror_at(5, A, rule=EpochRule.PUBLISHED)
    assert requests(mirror, Delta(5, 8, (CellSet(A, b"x"), CellSet(B, b"y")))) == [ResyncRequest(5)]
    assert (values(mirror), mirror.epoch) == ({A: None}, 5)


def test_by_default_a_span_is_a_gap() -> None:
    """RX-123."""
    mirror = mirror_at(5, A)
    assert requests(mirror, Delta(5, 8, (CellSet(A, b"x"),))) == [ResyncRequest(5)]


def test_the_published_rule_holds_where_both_sides_have_agreed_to_it() -> None:
    """RX-122, RX-123: negotiated, and only then."""
    for ours, theirs, is_applied in [(True, True, True), (True, False, False), (False, True, False)]:
        features = [(Feature.MULTI_EPOCH.value,) * one for one in (ours, theirs)]
        pair = Pair(
            GRAPH,
            mirror=MirrorConfig(capabilities=capabilities(features=features[0])),
            publisher=PublisherConfig(capabilities=capabilities(SOURCE, features=features[1])),
        ).open()
        last = pair.mirror.epoch or 0
        pair.at_mirror(Received(Delta(last, last + 3, (CellSet(A, b"x"),))))
        assert (values(pair.mirror)[A] == b"x") is is_applied


def scenarios(name: str) -> Iterator[dict[str, object]]:
    content = json.loads(shared_fixture("lazily", "reliable-sync", name).read_text("utf-8"))
    yield from content["scenarios"]


def decoded(frame: object) -> Message:
    return canonical_json.decode(json.dumps(frame).encode())


def test_the_fixture_of_gaps() -> None:
    """RX-121, RX-122: the receiver's decisions, one by one, and that it ends like one that has missed nothing."""
    for scenario in scenarios("resync_gap_converge.json"):
        inbound = scenario["inbound"]
        assert isinstance(inbound, list)
        mirror = mirror_at(int(str(scenario["start_last_epoch"])), 1, 2, 3, rule=EpochRule.PUBLISHED)
        asked = 0
        for step in inbound:
            if step.get("dropped"):
                continue
            before = mirror.epoch
            told = requests(mirror, decoded(step["frame"]))
            asked += len(told)
            action = "RequestSnapshot" if told else "Apply" if mirror.epoch != before else "Ignore"
            assert (action, mirror.epoch) == (step["expect_action"], step["last_epoch_after"])
            assert told == ([ResyncRequest(step["request_from"])] if told else [])
        expect = scenario["expect"]
        assert isinstance(expect, dict)
        assert (mirror.epoch, asked) == (expect["final_last_epoch"], expect["resync_requests_emitted"])
        converged = {int(id): bytes(value) for id, value in expect.get("converged_nodes", {}).items()}
        assert values(mirror) == converged


def test_the_fixture_of_spans() -> None:
    """RX-122, RX-123: one delta over three epochs is the same as three."""
    for scenario in scenarios("multi_epoch_delta.json"):
        last, expect = int(str(scenario["receiver_last_epoch"])), scenario["expect"]
        assert isinstance(expect, dict)
        mirror = mirror_at(last, 1, 2, 3, rule=EpochRule.PUBLISHED)
        told = requests(mirror, decoded({"Delta": scenario["delta"]}))
        assert (mirror.epoch == last) is not expect["applied"]
        assert mirror.epoch == expect["receiver_last_epoch_after"]
        assert told == ([ResyncRequest(expect["request_from"])] if expect["action"] == "RequestSnapshot" else [])
        if "equivalent_unit_fold" in scenario:
            units = scenario["equivalent_unit_fold"]
            assert isinstance(units, list)
            unitwise = mirror_at(last, 1, 2, 3)
            for unit in units:
                assert requests(unitwise, decoded({"Delta": unit})) == []
            assert (values(unitwise), unitwise.epoch) == (values(mirror), mirror.epoch)


def test_the_fixture_of_an_outbox() -> None:
    """RX-124: what is acknowledged may go and nothing else; the rest comes again, in order."""
    for scenario in scenarios("outbox_replay_after_crash.json"):
        appended, expect = scenario["appended"], scenario["expect"]
        assert isinstance(appended, list)
        assert isinstance(expect, dict)
        frames = [decoded(one["frame"]) for one in appended]
        outbox = Outbox(first=appended[0]["epoch"] - 1)
        for frame in frames:
            assert isinstance(frame, Delta)
            assert outbox.append(frame.operations) == frame
        if scenario["ack_through"] is None:
            assert [frame.epoch for frame in outbox.frames] == expect["retained"] == expect["resent_on_next_tick"]
            continue
        outbox.acknowledge(int(str(scenario["ack_through"])))
        assert [frame.epoch for frame in outbox.frames] == expect["retained_after_ack"]
        again = Outbox(retained=outbox.frames)
        replayed = again.replay_from(int(str(scenario["reconnect_cursor"])))
        assert [frame.epoch for frame in replayed] == expect["replay_order"]
        mirror = mirror_at(int(str(scenario["reconnect_cursor"])), 1, 2, 3)
        assert all(requests(mirror, frame) == [] for frame in replayed)
        assert mirror.epoch == expect["receiver_last_epoch_after"]


# ---- the handshake ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [snapshot(1, [node(A)]), Delta(0, 1, ())])
def test_nothing_is_taken_before_the_handshake(message: Message) -> None:
    """RX-066."""
    mirror = Mirror(MirrorConfig(capabilities=capabilities()))
    mirror.step(Opened())
    effects = mirror.step(Received(message))
    assert [type(effect) for effect in effects] == [Close]
    assert (values(mirror), mirror.epoch) == ({}, None)
    pair = Pair(GRAPH)
    pair.at_source(Opened())
    pair.at_source(Received(message))
    assert pair.sent == []
    assert [close.code for close in pair.closed] == ["handshake"]


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("protocol_id", {"protocol_id": "other"}),
        ("protocol_major_version", {"major_version": 2}),
        ("codec", {"codec": Codec.MESSAGE_PACK.value}),
        ("ordered_reliable", {"ordered_reliable": False}),
        ("max_frame_size", {"frame_bytes_max": 0}),
        ("features", {"features": ()}),
    ],
)
def test_after_a_handshake_that_failed_nothing_is_applied(field: str, other: dict[str, Any]) -> None:
    """RX-073: at either end, whatever comes."""
    ours: dict[str, Any] = {"features": ("needed",)}
    mirror = Mirror(MirrorConfig(capabilities=capabilities(**ours), required=frozenset({"needed"})))
    mirror.step(Opened())
    effects = mirror.step(Greeted(capabilities(SOURCE, **{**ours, **other})))
    assert [effect.code for effect in effects if isinstance(effect, Close)] == [field]
    assert mirror.step(Received(GRAPH)) == ()
    assert mirror.step(Received(Delta(0, 1, ()))) == ()
    assert (values(mirror), mirror.epoch) == ({}, None)
    config = PublisherConfig(capabilities=capabilities(SOURCE, **ours), required=frozenset({"needed"}))
    pair = Pair(GRAPH, publisher=config)
    pair.permissions.grant(PEER, RemoteOp(OpKind.WRITE, A))
    pair.at_source(Greeted(capabilities(**{**ours, **other})))
    assert [close.code for close in pair.closed] == [field]
    pair.at_source(Received(Delta(0, 1, (CellSet(A, b"x"),))))
    assert (pair.sent, pair.writes) == ([], [])


def test_a_claimed_id_that_is_not_the_connection_s_fails() -> None:
    """RX-073: identity is the connection's."""
    pair = Pair(GRAPH)
    pair.at_source(Greeted(capabilities(PEER + 1)))
    assert [close.code for close in pair.closed] == ["peer_id"]
    assert pair.sent == []
    assert pair.publisher.phase is PublisherPhase.CLOSED


def test_the_sender_keeps_what_was_not_acknowledged() -> None:
    """RX-124: through an epoch, and not one frame more."""
    outbox = Outbox()
    for value in (b"1", b"2", b"3"):
        outbox.append((CellSet(A, value),))
    outbox.acknowledge(2)
    assert [frame.epoch for frame in outbox.frames] == [3]


def test_an_observer_s_acknowledgement_is_taken_and_changes_nothing_else() -> None:
    """RX-124."""
    pair = Pair(GRAPH).open()
    pair.at_source(Received(OutboxAck(1)))
    assert pair.publisher.acknowledged == 1
    assert len(pair.sent) == 1


def test_the_handshake_travels_as_it_is_said() -> None:
    """RX-066: what the machines give to be sent is what the codec of the handshake reads again."""
    said = capabilities(features=("a", "b"))
    assert handshake.decode(handshake.encode(said)) == said


def test_a_local_link_needs_no_handshake() -> None:
    """RX-066: only a link that is not local does."""
    truth, permissions = Replica(), PeerPermissions()
    permissions.grant_all(PEER, OpKind.READ)
    assert truth.replace(GRAPH) is None
    publisher = Publisher(PublisherConfig(), peer=PEER, truth=truth, permissions=permissions)
    (sent,) = publisher.step(Opened())
    mirror = local_mirror()
    assert isinstance(sent, Send)
    mirror.step(Received(sent.message))
    assert shown(mirror.replica) == shown(truth)
