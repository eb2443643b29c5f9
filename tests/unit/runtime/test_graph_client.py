"""A mirror that is kept over links that come and go."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from bobbin.errors import PeerError, ResourceError, UsageError
from bobbin.reactive.handshake import Codec
from bobbin.reactive.permissions import OpKind
from bobbin.reactive.type_tags import TypeTags
from bobbin.runtime import graph_link
from bobbin.runtime.graph_allowances import Allowance
from bobbin.runtime.graph_channel import Channel, StreamChannel
from bobbin.runtime.graph_client import Dial, GraphMirror, Updates, WritesLost, connect_graph
from bobbin.runtime.graph_dial import ClientSettings
from bobbin.runtime.graph_link import LinkSettings, ServedLink
from bobbin.runtime.graph_server import ServerSettings
from bobbin.runtime.reconnect import Backoff, Lost
from bobbin.transport.base import TransportError
from tests.support.byte_streams import MemoryStream, stream_pair, until
from tests.support.graphs import LARGE, OTHER, PEER, SEEN, TOKEN, Sample, read, run, seen, serving

SOON = Backoff(first_seconds=0.001, longest_seconds=0.001, random=Random(1))


class _World:
    """Links in memory: each attempt is a new pair of streams, or the error that stands next."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.settings = LinkSettings()
        self.failures: list[Exception] = []
        self.streams: list[MemoryStream] = []
        self.lost: list[Lost] = []
        self._tasks: set[asyncio.Task[str]] = set()

    async def dial(self) -> Channel:
        if self.failures:
            raise self.failures.pop(0)
        far, near = stream_pair()
        self.streams.append(far)
        link = ServedLink(self.sample.host, StreamChannel(near), PEER, self.settings)
        self._tasks.add(asyncio.create_task(link.run()))
        return StreamChannel(far)

    def mirror(self, settings: ClientSettings | None = None, dial: Dial | None = None) -> GraphMirror:
        return GraphMirror(
            dial or self.dial,
            PEER,
            settings or ClientSettings(),
            tags=TypeTags.standard(),
            backoff=SOON,
            lost=self.lost.append,
        )

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Deaf:
    """A channel on which, from some moment on, everything goes out and nothing comes in, until it is lost."""

    def __init__(self, inner: Channel) -> None:
        self.is_deaf = False
        self.lost = asyncio.Event()
        self._inner = inner

    async def send(self, raw: bytes) -> None:
        await self._inner.send(raw)

    async def receive(self) -> bytes:
        raw = await self._inner.receive()
        if self.is_deaf:
            await self.lost.wait()
            raise TransportError("the link broke", retry=True)
        return raw

    async def close(self) -> None:
        await self._inner.close()


@asynccontextmanager
async def _world(*allowed: Allowance) -> AsyncIterator[_World]:
    world = _World(Sample(*allowed))
    try:
        yield world
    finally:
        await world.close()


def test_values_and_what_is_known_of_them() -> None:
    async def main() -> None:
        async with _world() as world, world.mirror() as mirror:
            assert mirror.values() == SEEN
            assert mirror.is_current
            assert mirror.value("figures/one") == mirror.value(world.sample.one.id) == 1
            with pytest.raises(UsageError, match="no node 'secret'"):
                mirror.value("secret")

    run(main())


def test_updates_begin_with_what_is_there() -> None:
    async def main() -> None:
        async with _world() as world, world.mirror() as mirror:
            updates = mirror.updates()
            first = await anext(updates)
            assert (first.replaced, len(first.nodes)) == (True, 4)
            world.sample.one.set(5)
            second = await anext(updates)
            assert (second.replaced, second.epoch) == (False, first.epoch + 1)
            assert set(second.nodes) == {world.sample.one.id, world.sample.sum.id}
            world.sample.one.set(6)
            await until(lambda: mirror.value("figures/one") == 6)
            updates.skip()
            world.sample.one.set(7)
            assert (await anext(updates)).epoch == first.epoch + 3

    run(main())


def test_a_reader_that_is_slow_is_told_once_that_all_may_be_different() -> None:
    async def main() -> None:
        async with _world() as world, world.mirror() as mirror:
            updates = Updates(mirror, waiting_max=3)
            await anext(updates)
            mirror._updates.add(updates)
            for value in range(10, 20):
                world.sample.one.set(value)
                await until(lambda value=value: mirror.value("figures/one") == value)  # type: ignore[misc]
            late = await anext(updates)
            assert (late.replaced, late.epoch) == (True, mirror.epoch)

    run(main())


def test_a_link_that_is_lost_comes_back_with_a_snapshot() -> None:
    async def main() -> None:
        async with _world() as world, world.mirror() as mirror:
            world.failures = [TransportError("refused", retry=True)] * 2
            world.streams[0].lose()
            await until(lambda: bool(world.lost))
            assert mirror.values() == SEEN, "what was known stays"
            world.sample.one.set(100)
            assert (await seen(mirror, lambda values: values["figures/one"] == 100))["sums/all"] == 102
            assert len(world.streams) == 2
            assert [lost.attempts for lost in world.lost] == [1, 2, 3]

    run(main())


def test_a_first_attempt_that_fails_is_raised() -> None:
    async def main() -> None:
        async with _world() as world:
            world.failures = [TransportError("refused", retry=True)]
            with pytest.raises(TransportError, match="refused"):
                async with world.mirror():
                    pass
            assert world.lost == []
            world.failures = [TransportError("refused", retry=True)] * 3
            async with world.mirror(ClientSettings(patient=True)) as mirror:
                assert mirror.values() == SEEN
            assert len(world.lost) == 3

    run(main())


def test_what_trying_again_does_not_mend_ends_it() -> None:
    async def main() -> None:
        async with _world() as world, world.mirror() as mirror:
            updates = mirror.updates()
            await anext(updates)
            world.failures = [TransportError("the certificate is another", retry=False)]
            world.streams[0].lose()
            with pytest.raises(TransportError, match="certificate"):
                await anext(updates)
            assert mirror.is_over

    run(main())


def test_leaving_ends_the_updates() -> None:
    async def main() -> None:
        async with _world() as world:
            async with world.mirror() as mirror:
                updates = mirror.updates()
                await anext(updates)
            assert [update async for update in updates] == []

    run(main())


def test_handshakes_that_fail() -> None:
    async def main() -> None:
        async with _world() as world:
            with pytest.raises(PeerError, match="before its handshake"):
                async with world.mirror(ClientSettings(session="another")):
                    pass
            with pytest.raises(PeerError) as caught:
                async with world.mirror(ClientSettings(source=OTHER)):
                    pass
            assert caught.value.code == "peer_id"

    run(main())


def test_whoever_answers_with_something_else() -> None:
    async def main(said: bytes, why: str) -> None:
        async def dial() -> Channel:
            far, near = stream_pair()
            await StreamChannel(near).send(said)
            return StreamChannel(far)

        async with _world() as world:
            with pytest.raises(PeerError) as caught:
                async with world.mirror(dial=dial):
                    pass
            assert caught.value.code == why

    run(main(b"no handshake", "malformed"))
    run(main(b'{"type":"snapshot","epoch":1,"nodes":[],"edges":[],"roots":[]}', "malformed"))


def test_a_frame_that_cannot_be_read_is_asked_for_again() -> None:
    """RX-061."""

    async def main() -> None:
        sample = Sample()
        far, near = stream_pair()

        class Meddling(StreamChannel):
            meddles = False

            async def send(self, raw: bytes) -> None:
                await super().send(raw[:-1] if self.meddles else raw)
                self.meddles = False

        channel = Meddling(near)
        task = asyncio.create_task(ServedLink(sample.host, channel, PEER, LinkSettings()).run())

        async def dial() -> Channel:
            return StreamChannel(far)

        async with _World(sample).mirror(dial=dial) as mirror:
            channel.meddles = True
            sample.one.set(50)
            assert (await seen(mirror, lambda values: values["figures/one"] == 50))["sums/all"] == 52
        with suppress(asyncio.CancelledError):
            await task

    run(main())


@pytest.mark.parametrize("codec", list(Codec))
def test_writing(codec: Codec) -> None:
    async def main() -> None:
        async with _world() as world, world.mirror(ClientSettings(codec=codec)) as mirror:
            await mirror.write({"figures/one": 20})
            await mirror.acknowledged()
            assert world.sample.one.peek() == 20
            assert (await seen(mirror, lambda values: values["sums/all"] == 22))["figures/one"] == 20
            await mirror.write({"figures/two": 20})
            await mirror.acknowledged()
            assert world.sample.two.peek() == 2, "taken, and not done: there is no grant"
            with pytest.raises(UsageError, match="i64"):
                await mirror.write({"figures/one": "twenty"})

    run(main())


def test_what_was_written_outlives_the_link() -> None:
    async def main() -> None:
        async with _world() as world, world.mirror() as mirror:
            world.streams[0].outgoing.stall(stalled=True)
            await mirror.write({"figures/one": 77})
            world.streams[0].lose()
            await mirror.acknowledged()
            assert world.sample.one.peek() == 77

    run(main())


def test_a_write_whose_acknowledgement_is_lost_is_not_done_over_a_later_one() -> None:
    async def main() -> None:
        channels: list[_Deaf] = []

        async with _world() as world:

            async def dial() -> Channel:
                channels.append(_Deaf(await world.dial()))
                return channels[-1]

            async with world.mirror(dial=dial) as mirror:
                channels[0].is_deaf = True
                await mirror.write({"figures/one": 77})
                await until(lambda: world.sample.one.peek() == 77)
                world.sample.one.set(80)
                channels[0].lost.set()
                await mirror.acknowledged()
                assert len(channels) == 2
                assert world.sample.one.peek() == 80
                await mirror.write({"figures/one": 81})
                await mirror.acknowledged()
                assert world.sample.one.peek() == 81

    run(main())


def test_what_was_sent_to_a_server_that_was_started_anew_since_is_told_and_not_sent_again() -> None:
    async def main() -> None:
        async with _world() as world, world.mirror() as mirror:
            world.streams[0].outgoing.stall(stalled=True)
            await mirror.write({"figures/one": 77})
            await until(lambda: not mirror._outgoing)
            world.sample = Sample()
            world.streams[0].lose()
            with pytest.raises(WritesLost, match="figures/one: it may have been written or not") as caught:
                await mirror.acknowledged()
            assert len(caught.value.writes) == 1
            await mirror.acknowledged()
            assert world.sample.one.peek() == 1

    run(main())


def test_a_write_to_several_nodes_of_which_one_is_gone_is_told() -> None:
    async def main() -> None:
        async with _world(read("*"), Allowance(PEER, OpKind.WRITE, "*")) as world, world.mirror() as mirror:
            sample = world.sample
            world.streams[0].outgoing.stall(stalled=True)
            await mirror.write({"figures/one": 77, "figures/large": "for the old one"})
            with sample.host.changing():
                sample.large.dispose()
                other = sample.graph.cell("locked", tag="string", key="door", id=LARGE)
            world.streams[0].lose()
            with pytest.raises(WritesLost, match="figures/one, figures/large: it is no longer there"):
                await mirror.acknowledged()
            assert (sample.one.peek(), other.peek()) == (1, "locked")

    run(main())


@pytest.mark.parametrize("codec", list(Codec))
def test_a_write_that_no_frame_can_hold_is_not_kept(codec: Codec) -> None:
    async def main() -> None:
        async with _world(read("*"), Allowance(PEER, OpKind.WRITE, "*")) as world:
            world.settings = LinkSettings(frame_bytes_max=4_096)
            async with world.mirror(ClientSettings(codec=codec)) as mirror:
                with pytest.raises(UsageError, match="4096 bytes"):
                    await mirror.write({"figures/large": "A" * 4_096})
                assert mirror.machine.unacknowledged == 0
                await mirror.write({"figures/large": "A" * 2_900})
                await mirror.acknowledged()
                assert world.sample.large.peek() == "A" * 2_900
                assert world.lost == []

    run(main())


def test_a_write_that_is_too_long_for_the_next_link_is_told_and_holds_up_nothing() -> None:
    async def main() -> None:
        async with _world(read("*"), Allowance(PEER, OpKind.WRITE, "*")) as world, world.mirror() as mirror:
            world.streams[0].outgoing.stall(stalled=True)
            await mirror.write({"figures/large": "A" * 8_192})
            await mirror.write({"figures/one": 5})
            world.settings = LinkSettings(frame_bytes_max=4_096)
            world.streams[0].lose()
            with pytest.raises(WritesLost, match="figures/large: it was not written"):
                await mirror.acknowledged()
            assert (world.sample.large.peek(), world.sample.one.peek()) == ("held", 5)
            assert len(world.lost) == 1

    run(main())


def test_triggering() -> None:
    async def main() -> None:
        async with _world(read("*"), Allowance(PEER, OpKind.TRIGGER_EFFECT, "figures/one")) as world:
            sample = world.sample
            sample.host.on_trigger(sample.one.id, lambda: sample.one.update(lambda value: value + 1))
            sample.host.on_trigger(sample.two.id, lambda: sample.two.update(lambda value: value + 1))
            async with world.mirror() as mirror:
                await mirror.trigger("figures/two")
                await mirror.trigger("figures/one")
                await seen(mirror, lambda values: values["figures/one"] == 2)
                assert sample.two.peek() == 2

    run(main())


def test_an_address_may_be_a_text() -> None:
    async def main() -> None:
        async with (
            serving(Sample().host, "ws:127.0.0.1:0") as (address,),
            connect_graph(str(address), peer=PEER, token=TOKEN, backoff=SOON) as mirror,
        ):
            assert mirror.values() == SEEN
        with pytest.raises(UsageError, match="not an address"):
            connect_graph("somewhere")

    run(main())


@pytest.mark.parametrize("shares", [True, False])
def test_large_values_come_in_shared_memory_where_both_sides_want_that(tmp_path: Path, shares: bool) -> None:  # noqa: FBT001
    """No frame could hold them, so whoever does not take them so has no link."""

    async def main() -> None:
        sample = Sample()
        text = "é" * 50_000
        sample.large.set(text)
        small = ServerSettings(link=LinkSettings(frame_bytes_max=4_096, arena_bytes=400_000))
        wants = ClientSettings(shares_memory=shares)
        async with serving(sample.host, f"unix:{tmp_path / 'graph.sock'}", given=small) as (address,):
            mirror = connect_graph(address, settings=wants, backoff=SOON)
            if not shares:
                with pytest.raises(PeerError):
                    await mirror.__aenter__()
                return
            async with mirror:
                assert mirror.value("figures/large") == text
                for number in range(20):
                    sample.context.set(sample.large, f"{number} {text}")
                await seen(mirror, lambda values: values["figures/large"] == f"19 {text}")
            assert sample.reasons("let-go") == []

    run(main())


def test_an_arena_that_cannot_be_opened_is_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(graph_link, "arena_feature", lambda _: "bobbin-arena-there_is_none")
        given = ServerSettings(link=LinkSettings(arena_bytes=100_000))
        async with serving(Sample().host, f"unix:{tmp_path / 'graph.sock'}", given=given) as (address,):
            with pytest.raises(ResourceError, match="no arena"):
                await connect_graph(address, settings=ClientSettings(shares_memory=True), backoff=SOON).__aenter__()

    run(main())


def test_many_writes_at_once_wait_for_room() -> None:
    async def main() -> None:
        async with _world() as world, world.mirror() as mirror:
            for value in range(700):
                await mirror.write({"figures/one": value})
            await mirror.acknowledged()
            assert world.sample.one.peek() == 699

    run(main())


def test_a_server_that_never_answers() -> None:
    async def main() -> None:
        held: list[MemoryStream] = []

        async def dial() -> Channel:
            far, near = stream_pair()
            held.append(near)
            return StreamChannel(far)

        async with _world() as world:
            with pytest.raises(PeerError, match="no answer to the handshake") as caught:
                async with world.mirror(ClientSettings(answer_seconds=0.01), dial=dial):
                    pass
            assert caught.value.code == "handshake"

    run(main())


def test_updates_that_nobody_holds_are_forgotten() -> None:
    async def main() -> None:
        async with _world() as world, world.mirror() as mirror:
            kept = mirror.updates()
            for _ in range(10):
                mirror.updates()
            gc.collect()
            assert list(mirror._updates) == [kept]

    run(main())
