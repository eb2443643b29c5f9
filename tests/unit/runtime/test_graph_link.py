"""One observer's link, over streams in memory: what it is told, and what it may say."""

import asyncio
from typing import Any

import pytest

from bobbin.reactive.messages import SAFE_INTEGER_MAX
from bobbin.runtime.graph_channel import StreamChannel
from bobbin.runtime.graph_link import (
    EXACT_IDS,
    SNAPSHOT_REST,
    SNAPSHOT_REST_SECONDS_MAX,
    LinkSettings,
    Pace,
    ServedLink,
)
from bobbin.wire.lazily.forms import Form
from bobbin.wire.lazily.framing import frame
from tests.support.byte_streams import stream_pair, until
from tests.support.graphs import LARGE, PEER, RawStream, Sample, greeting, run


class _Linked:
    """A link, and the observer at its other end."""

    def __init__(self, sample: Sample, given: LinkSettings | None = None, *, doubles: bool = False) -> None:
        self.sample = sample
        self.far, self.near = stream_pair()
        self.observer = RawStream(self.far)
        chosen = given or LinkSettings()
        channel = StreamChannel(self.near, frame_bytes_max=chosen.frame_bytes_max)
        link = ServedLink(sample.host, channel, PEER, chosen, holds_doubles=doubles)
        self.task = asyncio.create_task(link.run())


def _keys(snapshot: Any) -> list[str | None]:  # noqa: ANN401 -- JSON
    return [node.get("key") for node in snapshot["Snapshot"]["nodes"]]


def test_the_first_frame_is_the_handshake() -> None:
    """RX-066: whatever else comes first ends the link, and nothing was said."""

    async def main(said: bytes) -> None:
        linked = _Linked(Sample())
        await linked.observer.say(said)
        assert await linked.observer.hear() is None
        assert await linked.task == "malformed"
        assert linked.sample.reasons("let-go") == ["malformed"]

    for said in (b'{"ResyncRequest":{"from_epoch":0}}', b'{"type":"resync_request","from_epoch":0}', b"nonsense"):
        run(main(said))


@pytest.mark.parametrize(
    ("other", "field"),
    [
        ({"peer": 8}, "peer_id"),
        ({"peer": 0}, "peer_id"),
        ({"protocol_id": "other"}, "protocol_id"),
        ({"protocol_major_version": 2}, "protocol_major_version"),
        ({"codec": "cbor"}, "codec"),
        ({"session_id": "another"}, "session_id"),
        ({"ordered_reliable": False}, "ordered_reliable"),
        ({"max_frame_size": 0}, "max_frame_size"),
    ],
)
def test_what_does_not_fit_fails_closed(other: dict[str, object], field: str) -> None:
    """RX-073: no snapshot goes to a link without an agreement, whatever it says afterwards."""

    async def main() -> None:
        linked = _Linked(Sample())
        await linked.observer.say(greeting(**other))  # type: ignore[arg-type]
        assert await linked.observer.hear() is None
        assert await linked.task == field

    run(main())


def test_an_observer_that_says_nothing_is_let_go() -> None:
    async def main() -> None:
        linked = _Linked(Sample(), LinkSettings(handshake_seconds=0.01))
        assert await linked.task == "handshake-timeout"
        assert linked.near.is_closed

    run(main())


async def _first(given: LinkSettings | None = None, *, doubles: bool = False, **other: object) -> Any:  # noqa: ANN401
    """The snapshot that an observer gets."""
    linked = _Linked(Sample(), given, doubles=doubles)
    snapshot = await linked.observer.greet(**other)
    await linked.far.close()
    await linked.task
    return snapshot


def test_the_form_follows_from_the_handshake() -> None:
    async def main() -> None:
        assert (await _first())["type"] == "snapshot"
        published = await _first(features=["json-base64"])
        assert _keys(published) == ["figures/one", "figures/two", "sums/all", "figures/large"]
        told = await _first(LinkSettings(form=Form.CANONICAL_JSON))
        assert told["Snapshot"]["nodes"][0]["state"] == {"Payload": [1, 0, 0, 0, 0, 0, 0, 0]}

    run(main())


def test_a_delta_for_each_flush_that_shows() -> None:
    async def main() -> None:
        sample = Sample()
        linked = _Linked(sample)
        epoch = (await linked.observer.greet())["epoch"]
        sample.secret.set("never told")
        sample.one.set(10)
        delta = await linked.observer.hear()
        assert (delta["base_epoch"], delta["epoch"]) == (epoch, epoch + 1)
        assert [one["op"] for one in delta["ops"]] == ["cell_set", "slot_value"]
        await linked.observer.say({"type": "resync_request", "from_epoch": 0})
        again = await linked.observer.hear()
        assert (again["type"], again["epoch"]) == ("snapshot", epoch + 1)
        await linked.far.close()
        assert await linked.task == "closed"
        assert sample.host.links == 0

    run(main())


def test_ids_beyond_what_javascript_holds() -> None:
    """RX-003: they do not go to a peer that may hold numbers as JavaScript does, unless it says that it does not."""

    async def main() -> None:
        plain = await _first(doubles=True)
        assert all(node["slot_id"] <= SAFE_INTEGER_MAX for node in plain["nodes"])
        assert len(plain["nodes"]) == 3
        for doubles, features in ((True, [EXACT_IDS]), (False, [])):
            exact = await _first(doubles=doubles, features=features)
            assert LARGE in [node["slot_id"] for node in exact["nodes"]]

    run(main())


def test_writes_and_wishes_go_by_permissions() -> None:
    async def main() -> None:
        sample = Sample()
        sample.host.on_trigger(sample.two.id, lambda: sample.two.set(99))
        linked = _Linked(sample)
        await linked.observer.greet(features=["json-base64"])
        value = {"Inline": "KgAAAAAAAAA="}
        writes = [{"CellSet": {"node": node.id, "payload": value}} for node in (sample.one, sample.two, sample.secret)]
        await linked.observer.say({"Delta": {"base_epoch": 0, "epoch": 1, "ops": writes}})
        await linked.observer.say({"kind": "trigger_effect", "node": sample.two.id})
        delta = await linked.observer.hear()
        assert [*delta["Delta"]["ops"][0]] == ["CellSet"]
        await until(lambda: len([word for word, _ in sample.told if word == "denied"]) == 3)
        assert (sample.one.peek(), sample.two.peek(), sample.secret.peek()) == (42, 2, "hush")

    run(main())


def test_what_cannot_be_read_is_borne_for_a_while() -> None:
    async def main() -> None:
        linked = _Linked(Sample())
        await linked.observer.greet()
        for _ in range(9):
            await linked.observer.say(b"{")
        assert await linked.observer.hear() is None
        assert await linked.task == "malformed"
        assert linked.sample.reasons("refused") == ["malformed"] * 8

    run(main())


def test_a_frame_beyond_the_bound_ends_a_stream() -> None:
    """RX-074."""

    async def main() -> None:
        linked = _Linked(Sample(), LinkSettings(frame_bytes_max=2_000))
        await linked.observer.greet()
        await linked.observer.say(b"{" + b" " * 2_000)
        assert await linked.observer.hear() is None
        assert await linked.task == "oversized"

    run(main())


def test_a_snapshot_that_is_longer_than_a_frame_is_not_sent() -> None:
    """RX-074: the smaller bound of the two holds for what is sent, too."""

    async def main() -> None:
        linked = _Linked(Sample())
        await linked.observer.say(greeting(max_frame_size=200))
        assert (await linked.observer.hear())["protocol_id"] == "lazily-ipc"
        assert await linked.observer.hear() is None
        assert await linked.task == "oversized"

    run(main())


def test_an_observer_that_takes_nothing_is_let_go() -> None:
    async def main() -> None:
        sample = Sample()
        linked = _Linked(sample, LinkSettings(stalled_seconds=0.05, outbox_frames_max=2))
        await linked.observer.greet()
        linked.near.outgoing.stall(stalled=True)
        text = sample.graph.cell("", tag="string", key="figures/text")
        for turn in range(40):
            text.set(str(turn) * 20_000)
            await asyncio.sleep(0)
        assert await linked.task == "stalled"
        assert "behind" in [word for word, _ in sample.told]

    run(main())


def test_whoever_sends_much_does_not_hold_up_the_others() -> None:
    """Frames that are there already are read one at a time, with a turn for everybody in between."""

    async def main() -> None:
        linked = _Linked(Sample())
        await linked.observer.greet()
        wish = b'{"kind":"trigger_effect","node":1}'
        await linked.far.write(frame(wish) * 50)
        turns = 0
        while len(linked.sample.told) < 50:
            before = len(linked.sample.told)
            await asyncio.sleep(0)
            turns += 1
            assert len(linked.sample.told) - before <= 1
        assert turns >= 50

    run(main())


def test_a_snapshot_that_took_long_is_not_made_again_at_once() -> None:
    now = 100.0
    pace = Pace(lambda: now)
    assert pace.seconds == 0
    with pace.working():
        now += 0.02
    assert pace.seconds == pytest.approx(0.02 * SNAPSHOT_REST)
    now += 0.05
    assert pace.seconds == pytest.approx(0.02 * SNAPSHOT_REST - 0.05)
    now += 10
    assert pace.seconds == 0
    with pace.working():
        now += 5
    assert pace.seconds == SNAPSHOT_REST_SECONDS_MAX, "nobody waits without end"


def test_only_requests_for_snapshots_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def count(pace: Pace) -> float:
        del pace
        asked.append(1)
        return 0.0

    monkeypatch.setattr(Pace, "seconds", property(count))

    async def main() -> None:
        sample = Sample()
        linked = _Linked(sample)
        await linked.observer.greet(features=["json-base64"])
        await linked.observer.say({"kind": "trigger_effect", "node": sample.two.id})
        value = {"Inline": "KgAAAAAAAAA="}
        writes = [{"CellSet": {"node": sample.one.id, "payload": value}}]
        await linked.observer.say({"Delta": {"base_epoch": 0, "epoch": 1, "ops": writes}})
        assert "Delta" in await linked.observer.hear()
        assert asked == []
        for number in (1, 2):
            await linked.observer.say({"ResyncRequest": {"from_epoch": 0}})
            assert "Snapshot" in await linked.observer.hear()
            assert len(asked) == number
        await linked.far.close()
        await linked.task

    run(main())
