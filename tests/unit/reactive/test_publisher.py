"""The side of the graph: a snapshot, deltas, bounds, and what an observer may do."""

import pytest

from bobbin.errors import UsageError
from bobbin.reactive.change import Change
from bobbin.reactive.link_effects import Behind, Close, Denied, Greet, Notify, PublisherEffect, Refused, Send, Write
from bobbin.reactive.link_events import (
    Asked,
    Changed,
    Greeted,
    Lost,
    Opened,
    PermissionsChanged,
    Received,
    Sent,
    Undecodable,
)
from bobbin.reactive.messages import (
    CellSet,
    CrdtOperation,
    CrdtSync,
    Delta,
    NodeAdd,
    NodeId,
    NodeRemove,
    OutboxAck,
    PeerId,
    ResyncRequest,
    Snapshot,
    Stamp,
)
from bobbin.reactive.outbox import ACKED_WRITES, NamedOutbox, Taken, TakenWrites, taken_in
from bobbin.reactive.permissions import OpKind, PeerPermissions, RemoteOp
from bobbin.reactive.publisher import Publisher, PublisherConfig, PublisherPhase, take_change
from bobbin.reactive.replica import Replica
from tests.support.reactive_links import PEER, SOURCE, Pair, capabilities, node, read, shown, snapshot

A, B, C = map(NodeId, range(1, 4))
GRAPH = snapshot(0, [node(A, b"a"), node(B, b"b"), node(C, b"c")], [(C, A)], [A, B])


def slow(*, outbox_frames_max: int = 100, outbox_bytes_max: int = 10_000) -> Pair:
    """A link whose observer takes one message at a time."""
    config = PublisherConfig(
        capabilities=capabilities(SOURCE),
        in_flight_max=1,
        outbox_frames_max=outbox_frames_max,
        outbox_bytes_max=outbox_bytes_max,
        checking=True,
    )
    return Pair(GRAPH, publisher=config).open()


def acking(*features: str) -> Pair:
    config = PublisherConfig(capabilities=capabilities(SOURCE, features=(ACKED_WRITES,)), checking=True)
    pair = Pair(GRAPH, publisher=config)
    pair.permissions.grant(PEER, RemoteOp(OpKind.WRITE, A))
    pair.at_source(Opened())
    pair.at_source(Greeted(capabilities(features=features or (ACKED_WRITES,))))
    return pair


def write(base: int, value: bytes) -> Received:
    return Received(Delta(base, base + 1, (CellSet(A, value),)))


def test_the_observer_greets_first_and_gets_a_greeting_and_a_snapshot() -> None:
    truth, permissions = Replica(), PeerPermissions()
    own = capabilities(SOURCE)
    publisher = Publisher(PublisherConfig(capabilities=own), peer=PEER, truth=truth, permissions=permissions)
    assert publisher.step(Opened()) == ()
    assert publisher.step(Greeted(capabilities())) == (Greet(own), Send(Snapshot(1, (), (), ())))
    assert publisher.phase is PublisherPhase.LIVE
    assert publisher.agreed is not None
    assert publisher.agreed.remote == PEER


def test_nothing_is_told_before_the_handshake_and_nothing_of_it_is_lost() -> None:
    pair = Pair(GRAPH)
    pair.change(CellSet(A, b"early"))
    pair.at_source(PermissionsChanged())
    assert pair.sent == []
    assert pair.publisher.epoch is None
    pair.open()
    assert shown(pair.mirror.replica)[0][A] == b"early"


@pytest.mark.parametrize(
    "event",
    [Received(ResyncRequest(0)), Asked(RemoteOp(OpKind.TRIGGER_EFFECT, A)), Undecodable("malformed", "noise")],
)
def test_whoever_does_not_greet_first_is_sent_away(event: Received | Asked | Undecodable) -> None:
    pair = Pair(GRAPH)
    pair.at_source(event)
    assert len(pair.closed) == 1
    assert pair.publisher.phase is PublisherPhase.CLOSED
    pair.at_source(Greeted(capabilities()))
    assert pair.sent == []


def test_a_second_greeting_ends_the_link() -> None:
    pair = Pair(GRAPH).open()
    pair.at_source(Greeted(capabilities()))
    assert [close.code for close in pair.closed] == ["handshake"]
    pair.change(CellSet(A, b"x"))
    assert len(pair.sent) == 1


def test_a_link_that_is_lost_is_over() -> None:
    pair = slow()
    pair.change(CellSet(A, b"1"))
    pair.change(CellSet(A, b"2"))
    pair.at_source(Lost())
    assert pair.publisher.phase is PublisherPhase.CLOSED
    assert pair.publisher.step(Changed(Change((CellSet(A, b"3"),)))) == ()
    assert pair.publisher.step(Sent()) == ()
    pair.publisher.check()


def test_only_so_many_messages_are_with_the_transport() -> None:
    pair = slow()
    for number in range(3):
        pair.change(CellSet(A, bytes([number])))
    assert len(pair.wire) == 1
    pair.settle()
    assert [message.epoch for message in pair.sent if isinstance(message, Delta)] == [2, 3, 4]
    with pytest.raises(UsageError, match="were said to be sent"):
        pair.publisher.step(Sent())


def test_a_slow_observer_gets_one_snapshot_in_place_of_all_that_waited() -> None:
    pair = slow(outbox_frames_max=2)
    for number in range(10):
        pair.change(CellSet(A, bytes([number])))
    assert [notice.notice for notice in pair.notices] == [Behind(3)]
    assert pair.publisher.is_behind
    assert [type(message) for message in pair.sent] == [Snapshot, Delta]
    pair.change(CellSet(B, b"made when it can be taken"))
    pair.settle()
    assert [type(message) for message in pair.sent] == [Snapshot, Delta, Snapshot]
    assert shown(pair.mirror.replica)[0] == {A: b"\x09", B: b"made when it can be taken", C: b"c"}
    assert pair.mirror.epoch == pair.publisher.epoch == 12
    pair.change(CellSet(A, b"on"))
    pair.settle()
    assert isinstance(pair.sent[-1], Delta)
    assert not pair.publisher.is_behind


def test_what_waits_is_bounded_in_bytes_too() -> None:
    pair = slow(outbox_bytes_max=1000)
    pair.change(CellSet(A, bytes(2000)))
    assert isinstance(pair.sent[-1], Delta), "what need not wait is not measured"
    pair.change(CellSet(A, bytes(500)))
    assert not pair.publisher.is_behind
    pair.change(CellSet(A, bytes(400)))
    assert pair.publisher.is_behind


def test_a_request_is_answered_once_with_what_is_then() -> None:
    pair = slow()
    pair.change(CellSet(A, b"1"))
    pair.change(CellSet(A, b"2"))
    for _ in range(5):
        pair.at_source(Received(ResyncRequest(0)))
    pair.change(CellSet(A, b"3"))
    pair.settle()
    assert [type(message) for message in pair.sent] == [Snapshot, Delta, Snapshot]
    assert shown(pair.mirror.replica)[0][A] == b"3"


def test_snapshots_are_made_one_after_the_other_however_many_are_asked_for() -> None:
    pair = Pair(GRAPH).open()
    pair.at_source(Received(ResyncRequest(0)))
    pair.change(CellSet(A, b"x"))
    for _ in range(50):
        pair.at_source(Received(ResyncRequest(0)))
    assert [type(message) for message in pair.sent] == [Snapshot, Snapshot, Delta]
    pair.change(CellSet(A, b"y"))
    assert len(pair.sent) == 3, "what changes meanwhile is in the next one"
    pair.at_source(Sent())
    assert [type(message) for message in pair.sent] == [Snapshot, Snapshot, Delta, Snapshot]
    pair.at_source(Sent())
    pair.at_source(Sent())
    assert len(pair.sent) == 4
    pair.change(CellSet(A, b"z"))
    assert isinstance(pair.sent[-1], Delta)


def test_a_snapshot_that_is_on_its_way_answers_who_asks_meanwhile() -> None:
    pair = slow()
    pair.settle()
    sent = len(pair.sent)
    for _ in range(3):
        pair.at_source(Received(ResyncRequest(0)))
    pair.at_source(Sent())
    assert len(pair.sent) == sent + 1
    pair.at_source(Received(ResyncRequest(0)))
    assert len(pair.sent) == sent + 2, "it has come, and was of no use, for whatever reason"


def test_undecodable_frames_are_borne_up_to_a_bound() -> None:
    config = PublisherConfig(capabilities=capabilities(SOURCE), undecodable_max=2)
    pair = Pair(GRAPH, publisher=config).open()
    for _ in range(2):
        pair.at_source(Undecodable("malformed", "noise"))
    assert pair.closed == []
    assert [notice.notice for notice in pair.notices] == [Refused("malformed", "noise")] * 2
    pair.at_source(Undecodable("malformed", "noise"))
    assert pair.closed == [Close("malformed", "noise")]


def test_what_can_be_written_may_be_said_by_whoever_has_the_graph() -> None:
    """A cell whose value cannot be shown is no root as long as that is so, and can be written all the same."""
    truth, permissions = Replica(), PeerPermissions()
    assert truth.replace(GRAPH) is None
    permissions.grant(PEER, *(RemoteOp(OpKind.WRITE, id) for id in (A, C)))
    config = PublisherConfig(checking=True)
    publisher = Publisher(config, peer=PEER, truth=truth, permissions=permissions, is_cell=lambda id: id == C)
    publisher.step(Opened())
    effects = publisher.step(Received(Delta(0, 1, (CellSet(A, b"a"), CellSet(C, b"c")))))
    assert [effect for effect in effects if isinstance(effect, Write)] == [Write((CellSet(C, b"c"),))]


def test_writes_of_one_frame_are_done_together() -> None:
    pair = Pair(GRAPH).open()
    pair.permissions.grant(PEER, *(RemoteOp(OpKind.WRITE, id) for id in (A, B)))
    pair.at_source(Received(Delta(1, 2, (CellSet(A, b"1"), CellSet(B, b"2")))))
    assert [done.writes for done in pair.writes] == [(CellSet(A, b"1"), CellSet(B, b"2"))]


def test_a_write_needs_no_read_grant_and_a_read_grant_allows_no_write() -> None:
    pair = Pair(GRAPH, reads=[B]).open()
    pair.permissions.grant(PEER, RemoteOp(OpKind.WRITE, A))
    pair.at_source(Received(Delta(1, 2, (CellSet(A, b"1"), CellSet(B, b"2")))))
    assert [done.writes for done in pair.writes] == [(CellSet(A, b"1"),)]
    pair.change(CellSet(A, b"1"))
    assert len(pair.sent) == 1, "who may only write does not see what it wrote"


def test_acknowledged_writes_are_done_once_and_in_order() -> None:
    pair = acking()
    for event in (write(0, b"1"), write(0, b"1"), write(2, b"3"), write(1, b"2"), write(0, b"1"), write(2, b"3")):
        pair.at_source(event)
        if pair.wire:
            pair.wire.clear()
            pair.at_source(Sent(1))
    assert [done.writes[0].value for done in pair.writes] == [b"1", b"2", b"3"]
    acks = [message.through_epoch for message in pair.sent if isinstance(message, OutboxAck)]
    assert acks == [1, 1, 1, 2, 2, 3]


def test_acknowledgements_do_not_pile_up() -> None:
    pair = acking()
    for number in range(10):
        pair.at_source(write(number, bytes([number])))
    assert len(pair.sent) == 4, "a snapshot and three acknowledgements are with the transport"
    pair.at_source(Sent(4))
    assert pair.sent[-1] == OutboxAck(10)
    assert len(pair.sent) == 5


def test_a_frame_of_writes_that_may_not_be_done_is_acknowledged_all_the_same() -> None:
    pair = acking()
    pair.at_source(Received(Delta(0, 1, (CellSet(B, b"x"),))))
    assert pair.writes == []
    assert pair.sent[-1] == OutboxAck(1)


def test_without_the_feature_writes_are_taken_as_they_come() -> None:
    pair = acking("something else")
    pair.at_source(write(0, b"1"))
    pair.at_source(write(0, b"2"))
    assert [done.writes[0].value for done in pair.writes] == [b"1", b"2"]
    assert len(pair.sent) == 1


def test_effects_are_triggered_by_whoever_may() -> None:
    pair = Pair(GRAPH).open()
    trigger = RemoteOp(OpKind.TRIGGER_EFFECT, NodeId(77))
    pair.at_source(Asked(trigger))
    assert pair.fired == []
    assert pair.notices == [Notify(Denied(trigger, "there is no grant"))]
    pair.permissions.grant(PEER, trigger)
    pair.at_source(Asked(trigger))
    assert pair.fired == [NodeId(77)]


@pytest.mark.parametrize("kind", [OpKind.READ, OpKind.WRITE])
def test_reading_and_writing_take_no_wish(kind: OpKind) -> None:
    pair = Pair(GRAPH).open()
    pair.permissions.grant_all(PEER, *OpKind)
    pair.at_source(Asked(RemoteOp(kind, A)))
    assert pair.fired == []
    assert [type(notice.notice) for notice in pair.notices] == [Refused]


def test_states_of_replicated_cells_need_a_write_grant_each() -> None:
    pair = Pair(GRAPH).open()
    pair.permissions.grant(PEER, RemoteOp(OpKind.WRITE, A))
    stamp = Stamp(1, 0, PEER)
    mine, other = (CrdtOperation(id, None, stamp, b"x") for id in (A, B))
    frontier = ((PeerId(PEER), stamp),)
    pair.at_source(Received(CrdtSync((mine,), frontier)))
    pair.at_source(Received(CrdtSync((mine, other), frontier)))
    assert pair.delivered == [CrdtSync((mine,), frontier), CrdtSync((mine,), None)]


def test_what_is_known_follows_a_change_and_grants_go_with_their_node() -> None:
    truth, permissions = Replica(), PeerPermissions()
    assert truth.replace(GRAPH) is None
    permissions.grant(PEER, *read(A, B))
    take_change(truth, permissions, Change((NodeRemove(A), NodeAdd(A, "t", b"n"), CellSet(B, b"B"))))
    assert shown(truth)[0] == {A: b"n", B: b"B", C: b"c"}
    assert permissions.readable(PEER, truth.nodes) == {B}


def test_a_change_that_does_not_fit_changes_nothing() -> None:
    truth, permissions = Replica(), PeerPermissions()
    permissions.grant(PEER, *read(A))
    with pytest.raises(UsageError, match="does not fit"):
        take_change(truth, permissions, Change((NodeAdd(A, "t", b"a"), NodeRemove(B))))
    assert shown(truth)[0] == {}
    assert permissions.is_readable(A)


def test_the_first_epoch_is_as_it_was_told() -> None:
    config = PublisherConfig(capabilities=capabilities(SOURCE), first_epoch=10**6)
    pair = Pair(GRAPH, publisher=config).open()
    pair.change(CellSet(A, b"x"))
    assert [message.epoch for message in pair.sent if isinstance(message, Snapshot | Delta)] == [10**6, 10**6 + 1]


def named(taken: TakenWrites, settled: int, *, peer: PeerId = PEER) -> tuple[Publisher, Taken | None]:
    """A link to an observer that names its outbox, and what it is told of it."""
    truth, permissions = Replica(), PeerPermissions()
    assert truth.replace(GRAPH) is None
    permissions.grant(peer, RemoteOp(OpKind.WRITE, A))
    config = PublisherConfig(capabilities=capabilities(SOURCE, features=(ACKED_WRITES,)), checking=True)
    publisher = Publisher(config, peer=peer, truth=truth, permissions=permissions, taken=taken)
    feature = NamedOutbox("0123456789abcdef", settled).feature
    (greet, *_) = publisher.step(Greeted(capabilities(peer, features=(ACKED_WRITES, feature))))
    assert isinstance(greet, Greet)
    return publisher, taken_in(greet.capabilities.features)


def done(effects: tuple[PublisherEffect, ...]) -> tuple[list[object], list[int]]:
    """What is written and what is acknowledged."""
    values: list[object] = [write.value for effect in effects if isinstance(effect, Write) for write in effect.writes]
    sent = [effect.message for effect in effects if isinstance(effect, Send)]
    return values, [message.through_epoch for message in sent if isinstance(message, OutboxAck)]


def test_a_write_that_comes_again_over_another_link_is_not_done_again() -> None:
    taken = TakenWrites("a")
    first, told = named(taken, 0)
    assert told == Taken(0, "a.1")
    assert done(first.step(write(0, b"1"))) == ([b"1"], [1])
    assert done(first.step(write(1, b"2"))) == ([b"2"], [2])
    first.step(Lost())
    second, told = named(taken, 1)
    assert told == Taken(1, "a.1")
    assert done(second.step(write(0, b"2"))) == ([], [1])
    assert done(second.step(write(1, b"3"))) == ([b"3"], [2])


def test_an_outbox_is_known_from_its_first_link_on_though_nothing_came() -> None:
    taken = TakenWrites("a")
    named(taken, 0)
    second, told = named(taken, 0)
    assert told == Taken(0, "a.1")
    assert done(second.step(write(0, b"1"))) == ([b"1"], [1])


def test_what_two_links_of_one_outbox_say_at_once_is_done_once() -> None:
    taken = TakenWrites("a")
    first, _ = named(taken, 0)
    second, _ = named(taken, 0)
    assert done(first.step(write(0, b"1"))) == ([b"1"], [1])
    assert done(second.step(write(0, b"1"))) == ([], [1])
    assert done(second.step(write(1, b"2"))) == ([b"2"], [2])
    assert done(first.step(write(1, b"2"))) == ([], [2])


def test_an_outbox_of_the_same_name_is_another_one_where_the_peer_is_another() -> None:
    taken = TakenWrites("a")
    first, _ = named(taken, 0)
    first.step(write(0, b"1"))
    second, told = named(taken, 0, peer=PeerId(PEER + 1))
    assert told == Taken(0, "a.2")
    assert done(second.step(write(0, b"1"))) == ([b"1"], [1])


def test_an_observer_of_which_nothing_is_remembered_begins_where_it_says() -> None:
    publisher, told = named(TakenWrites("a"), 40)
    assert told == Taken(0, "a.1")
    assert done(publisher.step(write(0, b"1"))) == ([b"1"], [1])


def test_links_that_share_a_memory_do_so_also_when_it_is_forgotten() -> None:
    taken = TakenWrites("a", per_peer_max=1)
    first, _ = named(taken, 0)
    second, _ = named(taken, 0)
    taken.of(PEER, "f" * 16)
    assert done(first.step(write(0, b"1"))) == ([b"1"], [1])
    assert done(second.step(write(0, b"1"))) == ([], [1])
    third, told = named(taken, 0)
    assert told == Taken(0, "a.3"), "it may not have taken all that was sent, and cannot know"
    assert done(third.step(write(0, b"another"))) == ([b"another"], [1])


def test_where_nothing_is_remembered_an_outbox_is_not_spoken_of() -> None:
    pair = Pair(GRAPH, publisher=PublisherConfig(capabilities=capabilities(SOURCE, features=(ACKED_WRITES,))))
    feature = NamedOutbox("0123456789abcdef", 0).feature
    (greet, *_) = pair.publisher.step(Greeted(capabilities(PEER, features=(ACKED_WRITES, feature))))
    assert isinstance(greet, Greet)
    assert taken_in(greet.capabilities.features) is None
