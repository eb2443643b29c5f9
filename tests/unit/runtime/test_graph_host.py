"""A graph and its observers, without any connection."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bobbin.errors import ResourceError, UsageError
from bobbin.reactive.graph import EffectsFailed, Graph
from bobbin.reactive.handshake import Capabilities
from bobbin.reactive.link_effects import Close, Send
from bobbin.reactive.link_events import Asked, Lost, Opened, Received, Sent
from bobbin.reactive.messages import (
    BlobRef,
    CellSet,
    CrdtSync,
    Delta,
    Invalidate,
    NodeAdd,
    NodeId,
    NodeRemove,
    PeerId,
    SlotValue,
    Snapshot,
)
from bobbin.reactive.permissions import OpKind, RemoteOp
from bobbin.reactive.publisher import PublisherConfig
from bobbin.reactive.type_tags import TypeTags
from bobbin.runtime.graph_allowances import Allowance
from bobbin.runtime.graph_host import NOTICES_MAX, GraphHost, HostedLink
from bobbin.runtime.single_effects import SingleEffects
from tests.support.graphs import LARGE, OTHER, PEER, Sample, read, run


def _open(sample: Sample, peer: PeerId = PEER, config: PublisherConfig | None = None) -> HostedLink:
    link = sample.host.open(config or PublisherConfig(checking=True), peer, lambda: None)
    link.step(Opened())
    return link


def _taken(link: HostedLink) -> list[Snapshot | Delta]:
    """What is to be sent, and as sent as can be."""
    found: list[Snapshot | Delta] = []
    while (effect := link.take()) is not None:
        assert isinstance(effect, Send)
        assert isinstance(effect.message, Snapshot | Delta)
        found.append(effect.message)
        link.step(Sent())
    return found


def test_an_observer_sees_what_it_may_and_no_more() -> None:
    sample = Sample()
    link = _open(sample)
    (snapshot,) = _taken(link)
    assert isinstance(snapshot, Snapshot)
    assert {node.key for node in snapshot.nodes} == {"figures/one", "figures/two", "sums/all", "figures/large"}
    sample.secret.set("other")
    assert _taken(link) == [], "there is no sign of it"
    with sample.host.changing():
        sample.one.set(5)
        sample.two.set(6)
    (delta,) = _taken(link)
    assert isinstance(delta, Delta)
    assert [type(one) for one in delta.operations] == [CellSet, CellSet, SlotValue], "one flush, one delta"
    assert delta.epoch == snapshot.epoch + 1


def test_what_nobody_may_read_is_not_computed() -> None:
    sample = Sample(read("figures/*"), read("sums/all"))
    values = {node.key: node.value for node in sample.host.snapshot().nodes}
    assert values["sums/all"] == (3).to_bytes(8, "little")
    assert values["sums/secret"] is None


def test_nodes_that_come_later_are_allowed_by_their_keys() -> None:
    sample = Sample()
    link = _open(sample)
    _taken(link)
    new = sample.graph.slot(lambda: 2 * sample.one.get(), tag="i64", key="figures/new")
    (delta,) = _taken(link)
    assert isinstance(delta, Delta)
    assert isinstance(delta.operations[0], NodeAdd)
    sample.graph.cell(1, tag="i64", key="elsewhere")
    assert _taken(link) == []
    new.dispose()
    (gone,) = _taken(link)
    assert isinstance(gone, Delta)
    assert gone.operations == (NodeRemove(new.id),)


def test_allowing_and_forbidding_while_a_link_is_up() -> None:
    sample = Sample()
    link, other = _open(sample), _open(sample, OTHER)
    _taken(link)
    _taken(other)
    sample.host.allow(read("sums/secret"))
    (came,) = _taken(link)
    assert isinstance(came, Delta)
    assert any(isinstance(one, NodeAdd) and one.key == "sums/secret" for one in came.operations)
    assert b"hushhush" in [getattr(one, "value", None) for one in came.operations], "it was computed for that"
    assert _taken(other) == []
    sample.host.forbid(read("sums/secret"))
    (went,) = _taken(link)
    assert isinstance(went, Delta)
    assert went.operations == (NodeRemove(sample.double.id),)
    assert read("sums/secret") not in sample.host.allowed


def test_a_write_needs_its_own_grant() -> None:
    """A peer writes what it may in one batch; the rest is dropped and noted."""
    sample = Sample()
    link = _open(sample)
    _taken(link)
    runs: list[int] = []
    sample.graph.effect(lambda: runs.append(sample.sum.get()))
    writes = (CellSet(sample.one.id, (40).to_bytes(8, "little")), CellSet(sample.two.id, (9).to_bytes(8, "little")))
    link.step(Received(Delta(1, 2, writes)))
    assert (sample.one.peek(), sample.two.peek()) == (40, 2)
    assert runs == [3, 42]
    assert sample.told[-1][0] == "denied"
    assert sample.told[-1][1]["node"] == sample.two.id


def test_values_that_are_none_change_nothing() -> None:
    sample = Sample(read("*"), Allowance(PEER, OpKind.WRITE, "*"))
    link = _open(sample)
    blob = BlobRef(offset=0, length=1, generation=1, epoch=1, checksum=1)
    writes = (CellSet(sample.one.id, b"three"), CellSet(sample.two.id, blob), CellSet(sample.sum.id, b"12345678"))
    link.step(Received(Delta(1, 2, writes)))
    assert (sample.one.peek(), sample.two.peek(), sample.sum.peek()) == (1, 2, 3)
    assert {word for word, _ in sample.told} == {"refused", "denied"}
    assert sample.reasons("refused") == ["malformed-value", "not-a-value"]


def test_what_goes_wrong_after_a_write_is_not_the_peers_affair() -> None:
    sample = Sample()
    link = _open(sample)

    def fail() -> None:
        if sample.one.get() > 1:
            raise ValueError("too many")

    sample.graph.effect(fail)
    link.step(Received(Delta(1, 2, (CellSet(sample.one.id, (3).to_bytes(8, "little")),))))
    assert sample.one.peek() == 3
    assert sample.told[-1][0] == "failed"


def test_triggers_need_their_own_grant() -> None:
    sample = Sample(read("*"), Allowance(PEER, OpKind.WRITE, "*"), Allowance(OTHER, OpKind.TRIGGER_EFFECT, "*"))
    runs: list[str] = []
    sample.host.on_trigger(sample.one.id, lambda: runs.append("run"))
    link, other = _open(sample), _open(sample, OTHER)
    link.step(Asked(RemoteOp(OpKind.TRIGGER_EFFECT, sample.one.id)))
    assert runs == []
    other.step(Asked(RemoteOp(OpKind.TRIGGER_EFFECT, sample.one.id)))
    assert runs == ["run"]
    other.step(Asked(RemoteOp(OpKind.TRIGGER_EFFECT, sample.two.id)))
    assert sample.reasons("refused") == ["no-effect"]
    sample.one.dispose()
    other.step(Asked(RemoteOp(OpKind.TRIGGER_EFFECT, sample.one.id)))
    assert runs == ["run"]
    with pytest.raises(UsageError, match="no node"):
        sample.host.on_trigger(NodeId(999), lambda: None)


def test_a_trigger_that_fails_is_told() -> None:
    sample = Sample(Allowance(PEER, OpKind.TRIGGER_EFFECT, "*"))

    def fail() -> None:
        raise ResourceError("the disk is full", retry=False)

    sample.host.on_trigger(sample.one.id, fail)
    _open(sample).step(Asked(RemoteOp(OpKind.TRIGGER_EFFECT, sample.one.id)))
    assert sample.told[-1] == ("failed", {"peer": PEER, "why": "the disk is full"})


def test_a_slow_observer_gets_one_snapshot_and_nobody_waits_for_it() -> None:
    sample = Sample()
    config = PublisherConfig(in_flight_max=1, outbox_frames_max=3, checking=True)
    slow, quick = _open(sample, config=config), _open(sample, OTHER)
    sample.host.allow(read("figures/*", OTHER))
    first = slow.take()
    assert isinstance(first, Send)
    for value in range(10, 20):
        sample.one.set(value)
    assert len(_taken(quick)) > 5
    assert slow.take() is None, "one is on its way"
    slow.step(Sent())
    (snapshot,) = _taken(slow)
    assert isinstance(snapshot, Snapshot)
    assert any(node.key == "figures/one" and node.value == (19).to_bytes(8, "little") for node in snapshot.nodes)
    assert "behind" in [word for word, _ in sample.told]


def test_a_link_that_is_over_hears_nothing() -> None:
    sample = Sample()
    link = _open(sample)
    _taken(link)
    link.step(Lost())
    sample.host.forget(link)
    sample.one.set(9)
    assert link.is_over
    assert _taken(link) == []
    assert sample.host.links == 0


def test_an_effect_that_must_not_happen_twice_happens_once_over_all_starts(tmp_path: Path) -> None:
    happened: list[str] = []

    def trigger(run: Callable[[], object]) -> Sample:
        """Two wishes, at one start of the process."""
        sample = Sample(Allowance(PEER, OpKind.TRIGGER_EFFECT, "figures/*"))
        with SingleEffects.open(tmp_path / "effects") as records:
            sample.host.on_trigger(sample.one.id, run, once=records)
            link = _open(sample)
            for _ in range(2):
                link.step(Asked(RemoteOp(OpKind.TRIGGER_EFFECT, sample.one.id)))
        return sample

    first, second = (trigger(lambda: happened.append("sent")) for _ in range(2))
    assert happened == ["sent"]
    told = {"key": "figures/one", "why": "over"}
    assert [values for word, values in first.told if word == "not-again"] == [told]
    assert [values for word, values in second.told if word == "not-again"] == [told, told]


def test_an_effect_that_failed_half_way_is_in_doubt_and_not_done_again(tmp_path: Path) -> None:
    sample = Sample(Allowance(PEER, OpKind.TRIGGER_EFFECT, "figures/*"))
    begun: list[int] = []

    def fail() -> None:
        begun.append(1)
        raise OSError("half way")

    with SingleEffects.open(tmp_path / "effects") as records:
        sample.host.on_trigger(sample.one.id, fail, once=records)
        link = _open(sample)
        for _ in range(2):
            link.step(Asked(RemoteOp(OpKind.TRIGGER_EFFECT, sample.one.id)))
        assert records.in_doubt == ("figures/one",)
    assert begun == [1]
    assert [word for word, _ in sample.told] == ["failed", "not-again"]


def test_only_a_node_with_a_key_can_be_known_again(tmp_path: Path) -> None:
    sample = Sample()
    nameless = sample.graph.cell(1, tag="i64")
    with SingleEffects.open(tmp_path / "effects") as records, pytest.raises(UsageError, match="no key"):
        sample.host.on_trigger(nameless.id, lambda: None, once=records)


def test_a_cell_that_has_a_value_which_cannot_be_shown_can_be_written_from_afar() -> None:
    """It was set so here, by mistake. Whoever may write it can put that right."""
    sample = Sample()
    link = _open(sample)
    _taken(link)
    with pytest.raises(EffectsFailed, match="i64"):
        sample.one.set("no number")  # type: ignore[arg-type]
    (stale,) = _taken(link)
    assert isinstance(stale, Delta)
    assert Invalidate(sample.one.id) in stale.operations
    link.step(Received(Delta(0, 1, (CellSet(sample.one.id, (5).to_bytes(8, "little")),))))
    assert sample.one.peek() == 5
    assert sample.reasons("denied") == []


def test_replicated_cells_are_refused() -> None:
    sample = Sample()
    _open(sample).step(Received(CrdtSync((), None)))
    assert sample.reasons("refused") == ["replicated-cells"]


def test_ids_that_an_observer_cannot_hold_are_not_shown() -> None:
    """RX-003."""
    sample = Sample()
    (snapshot,) = _taken(_open(sample, config=PublisherConfig(id_max=LARGE - 1)))
    assert isinstance(snapshot, Snapshot)
    assert LARGE not in {node.id for node in snapshot.nodes}


def test_changes_may_be_made_in_another_thread() -> None:
    sample = Sample()
    woken: list[str] = []
    link = sample.host.open(PublisherConfig(), PEER, lambda: woken.append(threading.current_thread().name))
    link.step(Opened())
    _taken(link)
    woken.clear()

    def change() -> None:
        with sample.host.changing():
            sample.one.set(12)

    thread = threading.Thread(target=change, name="another")
    thread.start()
    thread.join()
    assert woken == ["another"]
    assert len(_taken(link)) == 1


def test_a_closed_host_follows_no_more() -> None:
    sample = Sample()
    link = _open(sample)
    _taken(link)
    sample.host.close()
    sample.one.set(12)
    assert _taken(link) == []


def test_a_link_with_a_handshake_says_nothing_before_it() -> None:
    """RX-066."""
    sample = Sample()
    config = PublisherConfig(capabilities=Capabilities(peer=PeerId(0), session="graph"))
    assert _open(sample, config=config).take() is None


def test_what_takes_its_time_is_told_when_it_is_there() -> None:
    async def main() -> None:
        sample = Sample()
        link = _open(sample)
        _taken(link)
        going = asyncio.Event()

        async def compute() -> int:
            value = sample.one.get()
            await going.wait()
            return value + 100

        async with sample.context:
            with sample.context.entered() as graph:
                later = graph.async_slot(compute, eager=True, tag="i64", key="figures/later")
            (added,) = _taken(link)
            assert isinstance(added, Delta)
            assert added.operations[0] == NodeAdd(later.id, "i64", None, "figures/later")
            going.set()
            assert await sample.context.value(later) == 101
            told = [one for delta in _taken(link) if isinstance(delta, Delta) for one in delta.operations]
            assert SlotValue(later.id, (101).to_bytes(8, "little")) in told

    run(main())


def test_who_is_refused_again_and_again_fills_no_log() -> None:
    sample = Sample()
    link = _open(sample)
    for _ in range(NOTICES_MAX + 10):
        link.step(Asked(RemoteOp(OpKind.TRIGGER_EFFECT, sample.one.id)))
    assert len(sample.told) == NOTICES_MAX
    assert sample.reasons("refused") == ["too-many-notices"]


def test_the_next_owner_of_an_id_inherits_nothing() -> None:
    """Neither who may see it, nor what it triggers."""
    sample = Sample(read("figures/*"), Allowance(PEER, OpKind.TRIGGER_EFFECT, "*"))
    runs: list[str] = []
    sample.host.on_trigger(sample.two.id, lambda: runs.append("run"))
    link = _open(sample)
    _taken(link)
    with sample.host.changing():
        id = sample.two.id
        sample.sum.dispose()
        sample.two.dispose()
        sample.graph.cell("hidden", tag="string", key="elsewhere", id=id)
    (gone,) = _taken(link)
    assert isinstance(gone, Delta)
    assert gone.operations == (NodeRemove(id),)
    link.step(Asked(RemoteOp(OpKind.TRIGGER_EFFECT, id)))
    assert runs == []
    assert sample.reasons("refused") == ["no-effect"]


def test_what_is_allowed_later_is_computed_for_that() -> None:
    sample = Sample(read("figures/*"))
    link = _open(sample)
    _taken(link)
    sample.host.allow(read("sums/all"))
    told = [one for delta in _taken(link) if isinstance(delta, Delta) for one in delta.operations]
    assert (3).to_bytes(8, "little") in [getattr(one, "value", None) for one in told]


def _write_short(value: str) -> bytes:
    if len(value) > 3:
        raise ValueError("three letters at most")
    return value.encode()


def test_a_value_that_could_not_be_shown_is_not_taken() -> None:
    """Else the cell would have no value for whoever watches, and nobody from outside could give it another."""
    tags = TypeTags.standard()
    tags.register("short", str, _write_short, lambda raw: raw.decode())
    graph = Graph()
    note = graph.cell({"ok": 1}, tag="json", key="note")
    short = graph.cell("abc", tag="short", key="short")
    told: list[tuple[str, dict[str, str | int]]] = []
    host = GraphHost(
        graph,
        tags,
        allowed=[read("*"), Allowance(PEER, OpKind.WRITE, "*")],
        tell=lambda word, values: told.append((word, dict(values))),
    )
    link = host.open(PublisherConfig(checking=True), PEER, lambda: None)
    link.step(Opened())
    _taken(link)
    link.step(Received(Delta(1, 2, (CellSet(note.id, b"[" * 200 + b"]" * 200),))))
    link.step(Received(Delta(2, 3, (CellSet(short.id, b"abcd"),))))
    assert [values["reason"] for _, values in told] == ["malformed-value", "unwritable-value"]
    assert _taken(link) == []
    assert (note.peek(), short.peek()) == ({"ok": 1}, "abc")
    link.step(Received(Delta(3, 4, (CellSet(note.id, b'{"ok":2}'),))))
    assert note.peek() == {"ok": 2}, "the cell takes what is a value, as before"
    assert len(_taken(link)) == 1


def test_bad_values_of_one_frame_fill_no_log() -> None:
    sample = Sample()
    link = _open(sample)
    link.step(Received(Delta(1, 2, tuple(CellSet(sample.one.id, b"") for _ in range(10 * NOTICES_MAX)))))
    assert len(sample.told) == NOTICES_MAX
    assert sample.reasons("refused")[-1] == "too-many-notices"


def test_triggers_that_fail_again_and_again_fill_no_log() -> None:
    sample = Sample(Allowance(PEER, OpKind.TRIGGER_EFFECT, "*"))

    def fail() -> None:
        raise ValueError("no number")

    sample.host.on_trigger(sample.one.id, fail)
    link = _open(sample)
    for _ in range(NOTICES_MAX + 10):
        link.step(Asked(RemoteOp(OpKind.TRIGGER_EFFECT, sample.one.id)))
    assert sample.told[0] == ("failed", {"peer": PEER, "why": "ValueError: no number"})
    assert len(sample.told) == NOTICES_MAX
    assert not link.is_over


def test_whoever_hears_and_fails_takes_nothing_from_anybody() -> None:
    sample = Sample(read("*"), read("*", OTHER))
    sample.hear = _fail  # type: ignore[method-assign, assignment]
    config = PublisherConfig(in_flight_max=1, outbox_frames_max=1, checking=True)
    slow, quick = _open(sample, config=config), _open(sample, OTHER)
    _taken(quick)
    for value in range(10, 16):
        sample.one.set(value)
        (delta,) = _taken(quick)
        assert isinstance(delta, Delta)
        assert delta.operations[0] == CellSet(sample.one.id, value.to_bytes(8, "little"))
    assert not slow.is_over


def _fail(*_: object) -> None:
    raise OSError("the disk is full")


def test_a_link_that_fails_at_a_change_is_ended_and_the_others_have_it() -> None:
    """It would otherwise go on without that change, and without a gap to notice it by."""
    sample = Sample(read("*"), read("*", OTHER))
    is_well = True

    def wake() -> None:
        if not is_well:
            _fail()

    broken = sample.host.open(PublisherConfig(), PEER, wake)
    broken.step(Opened())
    good = _open(sample, OTHER)
    _taken(broken)
    _taken(good)
    is_well = False
    sample.one.set(9)
    assert len(_taken(good)) == 1
    assert broken.is_over
    assert isinstance(broken.take(), Send)
    assert broken.take() == Close("failed", "OSError: the disk is full")
    sample.host.allow(read("figures/one", OTHER))
    sample.one.set(10)
    assert len(_taken(good)) == 1
    assert broken.take() is None
