"""The side of the observer: phases, timers, what is asked and when, writing back, and what subscribers hear."""

import pytest
from msgspec import structs

from bobbin.errors import UsageError
from bobbin.reactive.link_effects import (
    Ask,
    Close,
    Deliver,
    Greet,
    MirrorEffect,
    Notify,
    Refused,
    Send,
    Updated,
    Wake,
)
from bobbin.reactive.link_events import Greeted, Lost, Opened, Received, TooLong, Trigger, Undecodable, Woke, WriteCells
from bobbin.reactive.messages import (
    CellSet,
    CrdtSync,
    Delta,
    EdgeAdd,
    EdgeRemove,
    Invalidate,
    Message,
    NodeAdd,
    NodeId,
    NodeRemove,
    NodeState,
    OutboxAck,
    PeerId,
    ResyncRequest,
    SlotValue,
    Snapshot,
)
from bobbin.reactive.mirror import LOST_WRITE, RUN, Mirror, MirrorConfig, MirrorPhase
from bobbin.reactive.outbox import ACKED_WRITES, NamedOutbox, Taken, named_in
from bobbin.reactive.permissions import OpKind, RemoteOp
from bobbin.reactive.publisher import PublisherConfig
from tests.support.reactive_links import PEER, SOURCE, Pair, capabilities, node, shown, snapshot

A, B, C = map(NodeId, range(1, 4))
GRAPH = snapshot(3, [node(A, b"a"), node(B, b"b")], [(B, A)], [A])

KEYED = snapshot(3, [node(A, b"a", key="x"), node(B, b"b")], [], [A, B])
BOX = "0123456789abcdef"


def greeted(*features: str, **config: int) -> Mirror:
    own = capabilities(features=features)
    mirror = Mirror(MirrorConfig(capabilities=own, checking=True, **config))  # type: ignore[arg-type]
    mirror.step(Opened())
    mirror.step(Greeted(capabilities(SOURCE, features=features)))
    return mirror


def live(*features: str, **config: int) -> Mirror:
    mirror = greeted(*features, **config)
    mirror.step(Received(GRAPH))
    return mirror


def said(effects: tuple[MirrorEffect, ...]) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def timers(effects: tuple[MirrorEffect, ...]) -> list[int]:
    return [effect.token for effect in effects if isinstance(effect, Wake)]


def test_from_the_greeting_to_the_first_snapshot() -> None:
    own = capabilities()
    mirror = Mirror(MirrorConfig(capabilities=own, retry_ms=70))
    phases = [mirror.phase]
    assert mirror.step(Opened()) == (Greet(own), Wake(1, 70))
    phases.append(mirror.phase)
    assert mirror.step(Greeted(capabilities(SOURCE))) == (Wake(2, 70),)
    phases.append(mirror.phase)
    assert phases == [MirrorPhase.OFFLINE, MirrorPhase.GREETING, MirrorPhase.AWAITING]
    assert not mirror.is_current
    effects = mirror.step(Received(GRAPH))
    assert effects == (Updated(epoch=3, nodes=(A, B), structure=True, replaced=True),)
    assert (mirror.phase, mirror.epoch, mirror.is_current) == (MirrorPhase.LIVE, 3, True)
    assert mirror.step(Woke(1)) == mirror.step(Woke(2)) == ()


def test_a_second_connection_at_a_time_is_a_mistake() -> None:
    mirror = greeted()
    with pytest.raises(UsageError, match="has a connection"):
        mirror.step(Opened())


def test_only_the_source_that_is_awaited_will_do() -> None:
    mirror = Mirror(MirrorConfig(capabilities=capabilities(), source=PeerId(SOURCE + 1)))
    mirror.step(Opened())
    effects = mirror.step(Greeted(capabilities(SOURCE)))
    assert [effect.code for effect in effects if isinstance(effect, Close)] == ["peer_id"]
    assert mirror.phase is MirrorPhase.CLOSED


def test_a_handshake_that_is_not_answered_is_given_up() -> None:
    mirror = Mirror(MirrorConfig(capabilities=capabilities()))
    mirror.step(Opened())
    (closed,) = mirror.step(Woke(1))
    assert isinstance(closed, Close)
    assert mirror.step(Received(GRAPH)) == ()
    assert mirror.step(Lost()) == ()
    assert mirror.phase is MirrorPhase.OFFLINE


def test_a_handshake_that_cannot_be_read_is_given_up() -> None:
    mirror = Mirror(MirrorConfig(capabilities=capabilities()))
    mirror.step(Opened())
    assert mirror.step(Undecodable("malformed", "noise")) == (Close("malformed", "noise"),)


def test_a_handshake_where_none_is_due_ends_the_link() -> None:
    for mirror in (live(), Mirror(MirrorConfig())):
        if mirror.phase is MirrorPhase.OFFLINE:
            mirror.step(Opened())
        effects = mirror.step(Greeted(capabilities(SOURCE)))
        assert [effect.code for effect in effects if isinstance(effect, Close)] == ["handshake"]
        assert mirror.phase is MirrorPhase.CLOSED


def test_what_is_known_stays_readable_without_a_link_and_is_replaced_by_the_next() -> None:
    mirror = live()
    mirror.step(Lost())
    assert shown(mirror.replica)[0] == {A: b"a", B: b"b"}
    assert (mirror.epoch, mirror.is_current) == (3, False)
    mirror.step(Opened())
    mirror.step(Greeted(capabilities(SOURCE)))
    assert said(mirror.step(Received(Delta(3, 4, (CellSet(A, b"x"),))))) == [ResyncRequest(0)], (
        "another link counts anew"
    )
    assert shown(mirror.replica)[0] == {A: b"a", B: b"b"}
    mirror.step(Received(snapshot(1, [node(C, b"c")], [], [C])))
    assert shown(mirror.replica)[0] == {C: b"c"}
    assert (mirror.epoch, mirror.is_current) == (1, True)


def test_without_a_link_nothing_is_taken() -> None:
    mirror = live()
    mirror.step(Lost())
    assert mirror.step(Received(Delta(3, 4, (CellSet(A, b"x"),)))) == ()
    assert mirror.step(Received(snapshot(9, []))) == ()
    assert mirror.step(Undecodable("malformed", "noise")) == ()
    assert mirror.epoch == 3


def test_a_snapshot_that_does_not_come_is_asked_for_again() -> None:
    mirror = greeted()
    effects = mirror.step(Woke(2))
    assert said(effects) == [ResyncRequest(0)]
    (token,) = timers(effects)
    again = mirror.step(Woke(token))
    assert said(again) == [ResyncRequest(0)]
    assert mirror.step(Woke(token)) == (), "a timer that is late means nothing"
    mirror.step(Received(GRAPH))
    assert mirror.step(Woke(timers(again)[0])) == ()


def test_a_frame_that_cannot_be_read_may_have_been_the_snapshot() -> None:
    mirror = live()
    assert said(mirror.step(Undecodable("truncated", "cut"))) == [ResyncRequest(3)]
    assert said(mirror.step(Undecodable("truncated", "cut"))) == [ResyncRequest(3)]
    assert mirror.phase is MirrorPhase.RESYNCING
    assert said(mirror.step(Received(Delta(3, 4, (CellSet(A, b"x"),))))) == []
    assert mirror.epoch == 3
    mirror.step(Received(snapshot(4, [node(A, b"x")])))
    assert mirror.is_current


def test_a_snapshot_that_contradicts_itself_ends_the_link() -> None:
    mirror = live()
    effects = mirror.step(Received(snapshot(9, [node(A)], [(A, B)])))
    assert [effect.code for effect in effects if isinstance(effect, Close)] == ["snapshot"]
    assert shown(mirror.replica)[0] == {A: b"a", B: b"b"}
    assert mirror.epoch == 3


def test_subscribers_hear_what_was_touched() -> None:
    mirror = live()

    def told(*operations: object) -> Updated:
        epoch = mirror.epoch or 0
        (effect,) = mirror.step(Received(Delta(epoch, epoch + 1, operations)))  # type: ignore[arg-type]
        assert isinstance(effect, Updated)
        return effect

    assert told(CellSet(A, b"A"), SlotValue(B, b"B")) == Updated(epoch=4, nodes=(A, B))
    assert told(Invalidate(B)) == Updated(epoch=5, nodes=(B,))
    assert told(EdgeRemove(B, A)) == Updated(epoch=6, nodes=(), structure=True)
    assert told(NodeAdd(C, "t"), EdgeAdd(C, A)) == Updated(epoch=7, nodes=(C,), structure=True)
    assert told(NodeRemove(C), NodeRemove(A), NodeAdd(A, "t")) == Updated(
        epoch=8, nodes=(A,), removed=(C,), structure=True
    )
    assert mirror.replica.nodes[B].state is NodeState.DIRTY


def test_other_messages_do_not_touch_the_mirror() -> None:
    mirror = live()
    sync = CrdtSync(())
    assert mirror.step(Received(sync)) == (Deliver(sync),)
    assert mirror.step(Received(OutboxAck(9))) == ()
    (effect,) = mirror.step(Received(ResyncRequest(0)))
    assert isinstance(effect, Notify)
    assert mirror.epoch == 3


def test_a_plain_write_is_sent_once_as_a_delta_on_what_was_seen() -> None:
    mirror = live()
    assert said(mirror.step(WriteCells((CellSet(A, b"x"),)))) == [Delta(3, 4, (CellSet(A, b"x"),))]
    assert mirror.unacknowledged == 0
    assert shown(mirror.replica)[0][A] == b"a", "the graph says what is written"


def test_a_write_waits_until_somebody_can_take_it() -> None:
    mirror = live(RUN + "1", writes_max=2)
    mirror.step(Lost())
    for value in (b"1", b"2"):
        assert mirror.step(WriteCells((CellSet(A, value),))) == ()
    with pytest.raises(UsageError, match="no room"):
        mirror.step(WriteCells((CellSet(A, b"3"),)))
    with pytest.raises(UsageError, match="without cells"):
        mirror.step(WriteCells(()))
    mirror.step(Opened())
    mirror.step(Greeted(capabilities(SOURCE, features=(RUN + "1",))))
    assert said(mirror.step(Received(GRAPH))) == [Delta(3, 4, (CellSet(A, value),)) for value in (b"1", b"2")]
    assert mirror.unacknowledged == 0


def test_an_acknowledged_write_is_kept_and_sent_again_until_it_has_arrived() -> None:
    mirror = live(ACKED_WRITES)
    first = mirror.step(WriteCells((CellSet(A, b"1"),)))
    assert said(first) == [Delta(0, 1, (CellSet(A, b"1"),))]
    (token,) = timers(first)
    second = mirror.step(WriteCells((CellSet(A, b"2"),)))
    assert said(second) == [Delta(1, 2, (CellSet(A, b"2"),))]
    assert timers(second) == []
    assert mirror.step(Received(OutboxAck(1))) == ()
    assert mirror.unacknowledged == 1
    again = mirror.step(Woke(token))
    assert said(again) == [Delta(1, 2, (CellSet(A, b"2"),))]
    mirror.step(Received(OutboxAck(2)))
    assert mirror.unacknowledged == 0
    assert mirror.step(Woke(timers(again)[0])) == ()


def test_on_another_link_what_was_not_acknowledged_is_numbered_anew() -> None:
    mirror = live(ACKED_WRITES, RUN + "1")
    for value in (b"1", b"2", b"3"):
        mirror.step(WriteCells((CellSet(A, value),)))
    mirror.step(Received(OutboxAck(1)))
    mirror.step(Lost())
    mirror.step(Opened())
    mirror.step(Greeted(capabilities(SOURCE, features=(ACKED_WRITES, RUN + "1"))))
    assert said(mirror.step(Received(GRAPH))) == [
        Delta(0, 1, (CellSet(A, b"2"),)),
        Delta(1, 2, (CellSet(A, b"3"),)),
    ]


@pytest.mark.parametrize("runs", [("1", "2"), ("1", None), (None, None)])
def test_from_a_source_that_may_be_another_a_write_finds_its_node_by_key_and_tag(runs: tuple[str | None, ...]) -> None:
    features = [(ACKED_WRITES, *(() if run is None else (RUN + run,))) for run in runs]
    mirror = greeted(*features[0])
    keyed = [node(A, b"a", key="x"), node(B, b"b", key="y"), node(C, b"c")]
    mirror.step(Received(snapshot(3, keyed, [], [A, B, C])))
    for id in (A, B, C):
        mirror.step(WriteCells((CellSet(id, b"new"),)))
    mirror.step(WriteCells((CellSet(A, b"both"), CellSet(B, b"both"))))
    mirror.step(Lost())
    mirror.step(WriteCells((CellSet(A, b"late"),)))
    mirror.step(Opened())
    mirror.step(Greeted(capabilities(SOURCE, features=features[1])))
    other = [node(A, b"another"), node(B, b"a", key="x"), structs.replace(node(C, b"b", key="y"), tag="other")]
    effects = mirror.step(Received(snapshot(1, other, [], [A, B, C])))
    empty = [Delta(number, number + 1, ()) for number in (1, 2, 3)]
    assert said(effects) == [Delta(0, 1, (CellSet(B, b"new"),)), *empty, Delta(4, 5, (CellSet(B, b"late"),))]
    lost = [effect.notice for effect in effects if isinstance(effect, Notify)]
    assert [notice.code for notice in lost if isinstance(notice, Refused)] == ["lost-write"] * 3
    mirror.step(Received(OutboxAck(5)))
    assert mirror.unacknowledged == 0


def lost_writes(effects: tuple[MirrorEffect, ...]) -> list[str]:
    notices = [effect.notice for effect in effects if isinstance(effect, Notify)]
    return [notice.detail for notice in notices if isinstance(notice, Refused) and notice.code == LOST_WRITE]


def has(through: int, memory: str = "a.1") -> str:
    return Taken(through, memory).feature


def named(*features: str, memory: str = "a.1") -> Mirror:
    own = capabilities(features=(ACKED_WRITES,))
    mirror = Mirror(MirrorConfig(capabilities=own, outbox=BOX, checking=True))
    mirror.step(Opened())
    mirror.step(Greeted(capabilities(SOURCE, features=(ACKED_WRITES, has(0, memory), *features))))
    mirror.step(Received(KEYED))
    return mirror


def relink(mirror: Mirror, *features: str, shows: Snapshot | None = None) -> tuple[MirrorEffect, ...]:
    mirror.step(Lost())
    mirror.step(Opened())
    mirror.step(Greeted(capabilities(SOURCE, features=(ACKED_WRITES, *features))))
    return mirror.step(Received(shows or KEYED))


def test_an_id_that_another_node_has_now_is_not_written_to_though_the_source_is_the_same() -> None:
    mirror = named(RUN + "1")
    mirror.step(WriteCells((CellSet(A, b"for x"),)))
    mirror.step(WriteCells((CellSet(B, b"for b"),)))
    other = snapshot(9, [node(A, b"door", key="door"), node(B, b"b", key="had none")], [], [A, B])
    effects = relink(mirror, RUN + "1", has(0), shows=other)
    assert said(effects) == [Delta(0, 1, ()), Delta(1, 2, ())]
    assert [detail.split(":")[0] for detail in lost_writes(effects)] == ["x", "2"]


def test_what_is_written_while_the_snapshot_of_another_source_is_awaited_was_meant_for_the_old_one() -> None:
    mirror = named(RUN + "1")
    mirror.step(Lost())
    mirror.step(Opened())
    mirror.step(Greeted(capabilities(SOURCE, features=(ACKED_WRITES, has(0, "b.1"), RUN + "2"))))
    mirror.step(WriteCells((CellSet(B, b"for b of the first"),)))
    mirror.step(WriteCells((CellSet(A, b"for x"),)))
    effects = mirror.step(Received(KEYED))
    assert said(effects) == [Delta(0, 1, ()), Delta(1, 2, (CellSet(A, b"for x"),))]
    assert len(lost_writes(effects)) == 1


def test_a_write_to_an_id_that_was_not_known_waits_for_no_other_link() -> None:
    mirror = named(RUN + "1")
    mirror.step(Lost())
    mirror.step(WriteCells((CellSet(C, b"blind"),)))
    effects = relink(mirror, RUN + "1", has(0), shows=snapshot(9, [node(C, b"c")], [], [C]))
    assert said(effects) == [Delta(0, 1, ())]
    assert len(lost_writes(effects)) == 1


def test_an_outbox_is_named_on_every_link_with_what_is_settled() -> None:
    mirror = named()
    mirror.step(WriteCells((CellSet(A, b"1"),)))
    mirror.step(WriteCells((CellSet(A, b"2"),)))
    mirror.step(Received(OutboxAck(1)))
    mirror.step(Lost())
    (greet,) = [effect for effect in mirror.step(Opened()) if isinstance(effect, Greet)]
    assert named_in(greet.capabilities.features) == NamedOutbox(BOX, 1)


def test_what_a_source_has_already_is_not_sent_to_it_again() -> None:
    mirror = named()
    for value in (b"1", b"2", b"3"):
        mirror.step(WriteCells((CellSet(A, value),)))
    mirror.step(Received(OutboxAck(1)))
    effects = relink(mirror, has(1))
    assert said(effects) == [Delta(1, 2, (CellSet(A, b"3"),))]
    assert lost_writes(effects) == []
    mirror.step(Received(OutboxAck(2)))
    assert mirror.unacknowledged == 0


@pytest.mark.parametrize("features", [(), (has(0, "a.2"),), (has(0, "b.1"),)])
def test_a_source_that_does_not_know_the_outbox_gets_only_what_was_never_sent(features: tuple[str, ...]) -> None:
    mirror = named()
    mirror.step(WriteCells((CellSet(A, b"sent"),)))
    mirror.step(Lost())
    mirror.step(WriteCells((CellSet(A, b"kept"),)))
    effects = relink(mirror, *features)
    assert said(effects) == [Delta(0, 1, ()), Delta(1, 2, (CellSet(A, b"kept"),))]
    assert [detail.split(":")[0] for detail in lost_writes(effects)] == ["x"]
    assert lost_writes(relink(mirror, *features)) == ([] if features else [lost_writes(effects)[0]])


def test_a_memory_that_began_after_a_frame_was_sent_does_not_know_of_it() -> None:
    """Its first link was lost before the mirror heard of it, so on the second one it says that it knows the outbox."""
    mirror = named(memory="a.1")
    mirror.step(WriteCells((CellSet(A, b"sent to the old one"),)))
    mirror.step(Lost())
    mirror.step(Opened())
    effects = relink(mirror, has(0, "b.1"))
    assert said(effects) == [Delta(0, 1, ())]
    assert len(lost_writes(effects)) == 1


def test_a_write_that_went_to_one_memory_goes_there_again_and_to_no_other() -> None:
    mirror = named(memory="a.1")
    mirror.step(WriteCells((CellSet(A, b"1"),)))
    first = said(relink(mirror, has(0, "a.1")))
    assert first == [Delta(0, 1, (CellSet(A, b"1"),))]
    assert said(relink(mirror, has(0, "b.1"))) == [Delta(0, 1, ())]
    assert said(relink(mirror, has(0, "a.1"))) == [Delta(0, 1, ())], "it was told that nobody knows, and that stays so"


def test_a_frame_that_is_too_long_goes_without_its_writes_from_then_on() -> None:
    mirror = named()
    mirror.step(WriteCells((CellSet(A, b"long"),)))
    mirror.step(WriteCells((CellSet(A, b"short"),)))
    assert lost_writes(mirror.step(TooLong(1, "longer than a frame"))) == ["x: it was not written: longer than a frame"]
    assert said(relink(mirror, has(0))) == [Delta(0, 1, ()), Delta(1, 2, (CellSet(A, b"short"),))]


def test_writes_reach_the_graph_once_over_a_link_that_breaks() -> None:
    own, other = (capabilities(peer, features=(ACKED_WRITES,)) for peer in (PEER, SOURCE))
    config = PublisherConfig(capabilities=other, checking=True)
    pair = Pair(GRAPH, publisher=config, mirror=MirrorConfig(capabilities=own, checking=True)).open()
    pair.permissions.grant(PEER, RemoteOp(OpKind.WRITE, A))
    for value in (b"1", b"2"):
        pair.at_mirror(WriteCells((CellSet(A, value),)))
    pair.back.clear()
    pair.at_mirror(Woke(pair.timers[-1].token))
    pair.settle()
    assert [done.writes[0].value for done in pair.writes] == [b"1", b"2"]
    assert pair.mirror.unacknowledged == 0


def test_an_effect_is_asked_for_over_a_link_and_not_without() -> None:
    mirror = live()
    assert mirror.step(Trigger(C)) == (Ask(RemoteOp(OpKind.TRIGGER_EFFECT, C)),)
    mirror.step(Lost())
    with pytest.raises(UsageError, match="no link"):
        mirror.step(Trigger(C))
