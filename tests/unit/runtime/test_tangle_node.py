"""Sessions with many peers over real sockets: dialled, being dialled, and in the modern mode where both know it."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from bobbin.runtime.admission import Refusal
from bobbin.runtime.tangle_library import StoreKeeper
from bobbin.runtime.tangle_link import QuietPeer
from bobbin.runtime.tangle_node import MODERN_CALL, PHASES_CALL, TangleNode
from bobbin.runtime.tangle_places import PlaceBounds
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.base import StoreError
from bobbin.store.sqlite import open_store
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import MessageId
from bobbin.tangles.session_effects import Commit, Finished, Notice
from bobbin.tangles.session_events import Committed
from bobbin.transport import pzp
from bobbin.transport.base import TransportError
from bobbin.transport.muxrpc import FAILED_HERE, CallFailed, Link
from bobbin.transport.secret_stream import SecretStream
from bobbin.wire import address
from bobbin.wire.pzp import manifest
from bobbin.wire.pzp.calls import Calls, Way
from bobbin.wire.pzp.faults import WireFault
from bobbin.wire.pzp.frames import GOODBYE, encode
from tests.support.byte_streams import until
from tests.support.pzp_wire import ALICE, BOB, CAROL
from tests.support.tangle_keeper import MemoryKeeper
from tests.support.tangle_messages import Author

if TYPE_CHECKING:
    from bobbin.errors import BobbinError

HERE = address.parse("tcp:127.0.0.1:0", to_listen=True)
_HANGS_SECONDS = 10.0
"""After which a test that would wait for ever fails."""


def _author(count: int) -> tuple[Author, MemoryKeeper, MessageId]:
    author = Author("alice")
    messages = author.feed(count)
    keeper = MemoryKeeper()
    keeper.add([author.account, *messages])
    keeper.goal(messages[0].id, "all")
    return author, keeper, messages[0].id


def _reader(tangle: MessageId) -> MemoryKeeper:
    keeper = MemoryKeeper()
    keeper.goal(tangle, "all")
    return keeper


def test_a_node_dials_another() -> None:
    async def main() -> None:
        _, keeper, feed = _author(5)
        reader = _reader(feed)
        heard: list[tuple[bytes, Notice]] = []
        serving = TangleNode(BOB, keeper, watch=lambda peer, notice: heard.append((peer, notice)))
        dialling = TangleNode(CAROL, reader)
        listener = await serving.listen(HERE)
        report = await dialling.sync(listener.address, (feed,))
        assert sorted(reader.records) == sorted(keeper.records)
        assert report.peer == BOB.public_bytes
        assert not report.modern
        assert report.bytes_in > sum(traffic.bytes_in for traffic in report.traffic.values()) > 0
        assert report.bytes_out > sum(traffic.bytes_out for traffic in report.traffic.values()) > 0
        assert [notice.added for notice in report.notices if isinstance(notice, Finished)]
        await until(lambda: not serving.sessions)
        assert {peer for peer, _ in heard} == {CAROL.public_bytes}
        await serving.close()

    asyncio.run(main())


def test_a_peer_with_another_key_than_the_address_says_is_told_as_that() -> None:
    """Both sides hear of it: who dialled what may be wrong, who listens that somebody was turned away."""

    async def main() -> None:
        _, keeper, feed = _author(1)
        turned: list[str] = []
        serving = TangleNode(BOB, keeper, turned=lambda code, _: turned.append(code))
        listener = await serving.listen(HERE, admits=lambda peer: peer != CAROL.public_bytes)
        wrong = structs.replace(listener.address, key=ALICE.public_bytes)
        for node, where in ((TangleNode(CAROL, _reader(feed)), wrong), (TangleNode(CAROL, _reader(feed)), None)):
            with pytest.raises(
                WireFault, match="another key listens there than the address says, or it does not admit"
            ):
                await node.sync(where or listener.address, (feed,))
        await until(lambda: len(turned) == 2)
        assert turned == ["not-proven", "not-admitted"]
        await serving.close()

    asyncio.run(main())


def test_what_one_peer_brings_the_others_hear_of() -> None:
    async def main() -> None:
        author, keeper, feed = _author(3)
        middle, end = MemoryKeeper(), MemoryKeeper()
        for other in (middle, end):
            other.add(list(keeper.store)[:3])
            other.goal(feed, "all")
        hub = TangleNode(BOB, middle)
        listener = await hub.listen(HERE)
        stop = asyncio.Event()
        nodes = [TangleNode(ALICE, keeper), TangleNode(CAROL, end)]
        running = [asyncio.create_task(node.sync(listener.address, (feed,), stop=stop)) for node in nodes]
        await until(lambda: len(middle.records) == len(end.records) == 5)
        nodes[0].added(keeper.add([author.post(feed, {"text": "later"})]))
        await until(lambda: len(middle.records) == len(end.records) == 6)
        stop.set()
        await asyncio.gather(*running)
        assert sorted(end.records) == sorted(keeper.records)
        await until(lambda: not hub.sessions)
        await hub.close()

    asyncio.run(main())


def test_a_goal_that_is_set_later_begins_a_run_on_either_side() -> None:
    """TG-098."""

    async def main() -> None:
        author, keeper, feed = _author(2)
        other = author.feed(2, "other")
        keeper.add(other)
        reader = _reader(feed)
        serving, dialling = TangleNode(BOB, keeper), TangleNode(CAROL, reader)
        listener = await serving.listen(HERE)
        stop = asyncio.Event()
        running = asyncio.create_task(dialling.sync(listener.address, (feed,), stop=stop))
        await until(lambda: len(reader.records) == 4)
        reader.goal(other[0].id, "all")
        serving.open_runs((other[0].id,))
        await until(lambda: len(reader.records) == 7)
        stop.set()
        await running
        await until(lambda: not serving.sessions)
        await serving.close()

    asyncio.run(main())


def test_a_node_that_closes_says_goodbye() -> None:
    async def main() -> None:
        _, keeper, feed = _author(2)
        reader = _reader(feed)
        lost: list[BobbinError] = []
        serving = TangleNode(BOB, keeper, lost=lambda _, error: lost.append(error))
        listener = await serving.listen(HERE)
        running = asyncio.create_task(TangleNode(CAROL, reader).sync(listener.address, (feed,), stop=asyncio.Event()))
        await until(lambda: len(reader.records) == 4)
        await serving.close()
        with pytest.raises((TransportError, CallFailed)):
            await running
        assert not lost
        with pytest.raises(TransportError):
            await TangleNode(CAROL, reader).sync(listener.address, (feed,))

    asyncio.run(main())


def test_a_peer_that_goes_without_a_word_is_reported() -> None:
    async def main() -> None:
        _, keeper, _ = _author(1)
        lost: list[tuple[bytes, BobbinError]] = []
        serving = TangleNode(BOB, keeper, lost=lambda peer, error: lost.append((peer, error)))
        listener = await serving.listen(HERE)
        stream = await pzp.dial(listener.address, CAROL)
        stream.abort()
        await until(lambda: bool(lost))
        assert lost[0][0] == CAROL.public_bytes
        assert isinstance(lost[0][1], TransportError | WireFault)
        await serving.close()

    asyncio.run(main())


def test_a_peer_that_is_not_admitted() -> None:
    async def main() -> None:
        _, keeper, feed = _author(1)
        serving = TangleNode(BOB, keeper)
        listener = await serving.listen(HERE, admits=lambda peer: peer != CAROL.public_bytes)
        with pytest.raises((TransportError, WireFault)):
            await TangleNode(CAROL, _reader(feed)).sync(listener.address, (feed,))
        await serving.close()

    asyncio.run(main())


def test_a_silent_key_keeps_nobody_out() -> None:
    """Its own links give way to each other, and others find a place."""

    async def main() -> None:
        _, keeper, feed = _author(1)
        reader = _reader(feed)
        lost: list[tuple[bytes, BobbinError]] = []
        bounds = PlaceBounds(total_max=3, per_peer_max=2)
        serving = TangleNode(BOB, keeper, bounds=bounds, lost=lambda peer, error: lost.append((peer, error)))
        listener = await serving.listen(HERE)
        streams = [await pzp.dial(listener.address, ALICE) for _ in range(5)]
        await until(lambda: len(lost) == 3)
        await TangleNode(CAROL, reader).sync(listener.address, (feed,))
        assert sorted(reader.records) == sorted(keeper.records)
        assert {peer for peer, _ in lost} == {ALICE.public_bytes}
        assert {getattr(error, "code", None) for _, error in lost} == {Refusal.TOO_MANY_PEER}
        for stream in streams:
            stream.abort()
        await serving.close()

    asyncio.run(main())


def test_silent_links_of_many_keys_keep_nobody_out() -> None:
    """Keys cost nothing: whoever opens no call gives way to whoever comes later."""

    async def main() -> None:
        _, keeper, feed = _author(1)
        reader = _reader(feed)
        lost: list[BobbinError] = []
        serving = TangleNode(BOB, keeper, bounds=PlaceBounds(total_max=3), lost=lambda _, error: lost.append(error))
        listener = await serving.listen(HERE)
        streams = [await pzp.dial(listener.address, Keypair.from_words(f"stranger {one}")) for one in range(4)]
        await until(lambda: len(lost) == 1)
        await TangleNode(CAROL, reader).sync(listener.address, (feed,))
        assert sorted(reader.records) == sorted(keeper.records)
        for stream in streams:
            stream.abort()
        await serving.close()

    asyncio.run(main())


def test_links_with_a_call_are_bounded_and_do_not_give_way_while_they_are_alive() -> None:
    async def main() -> None:
        _, keeper, _ = _author(1)
        lost: list[tuple[bytes, BobbinError]] = []
        serving = TangleNode(
            BOB, keeper, bounds=PlaceBounds(total_max=2), lost=lambda peer, error: lost.append((peer, error))
        )
        listener = await serving.listen(HERE)
        links = [Link(await pzp.dial(listener.address, key)) for key in (ALICE, Keypair.from_words("dave"))]
        running = [asyncio.create_task(link.run()) for link in links]
        for link in links:
            await link.open(PHASES_CALL)
        await until(lambda: serving.sessions == 2)
        stream = await pzp.dial(listener.address, CAROL)
        await until(lambda: bool(lost))
        assert [(peer, getattr(error, "code", None)) for peer, error in lost] == [
            (CAROL.public_bytes, Refusal.TOO_MANY)
        ]
        assert serving.sessions == 2
        stream.abort()
        await serving.close()
        await asyncio.gather(*running, return_exceptions=True)

    asyncio.run(main())


@pytest.mark.parametrize("said", [b"", bytes.fromhex("0a0000100000000001") + b"{"], ids=["nothing", "half a frame"])
def test_a_link_without_a_call_does_not_last(said: bytes) -> None:
    async def main() -> None:
        _, keeper, _ = _author(1)
        lost: list[BobbinError] = []
        serving = TangleNode(BOB, keeper, quiet_seconds=0.02, lost=lambda _, error: lost.append(error))
        listener = await serving.listen(HERE)
        stream = await pzp.dial(listener.address, CAROL)
        if said:
            await stream.write(said)
        async with asyncio.timeout(_HANGS_SECONDS):
            assert await stream.read() == GOODBYE
        assert [type(error) for error in lost] == [QuietPeer]
        stream.abort()
        await serving.close()

    asyncio.run(main())


def test_half_a_frame_on_an_open_call_does_not_last() -> None:
    async def main() -> None:
        _, keeper, _ = _author(1)
        lost: list[BobbinError] = []
        serving = TangleNode(BOB, keeper, quiet_seconds=0.02, lost=lambda _, error: lost.append(error))
        listener = await serving.listen(HERE)
        stream = await pzp.dial(listener.address, CAROL)
        _, question = Calls().ask(PHASES_CALL, Way.DUPLEX)
        await stream.write(b"".join(encode(question)) + bytes.fromhex("0a03f0000000000001") + b"{")
        await until(lambda: bool(lost))
        assert isinstance(lost[0], QuietPeer)
        stream.abort()
        await serving.close()

    asyncio.run(main())


def test_parts_of_frames_are_bounded_over_all_links() -> None:
    async def main() -> None:
        _, keeper, _ = _author(1)
        lost: list[tuple[bytes, BobbinError]] = []
        serving = TangleNode(
            BOB,
            keeper,
            bounds=PlaceBounds(unfinished_bytes_max=100_000),
            lost=lambda peer, error: lost.append((peer, error)),
        )
        listener = await serving.listen(HERE)
        stream = await pzp.dial(listener.address, CAROL)
        _, question = Calls().ask(PHASES_CALL, Way.DUPLEX)
        await stream.write(b"".join(encode(question)) + bytes.fromhex("0a03f0000000000001"))
        await stream.write(bytes(200_000))
        await until(lambda: bool(lost))
        assert lost[0][0] == CAROL.public_bytes
        assert "rest of frames" in str(lost[0][1])
        stream.abort()
        await serving.close()

    asyncio.run(main())


class _Broken(MemoryKeeper):
    """A keeper whose store fails, in words that are nobody else's business."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def commit(self, commit: Commit) -> Committed:
        del commit
        raise self._error


@pytest.mark.parametrize(
    "error", [StoreError("no space for /somewhere/records.db", retry=True), RecursionError("deep")]
)
def test_what_fails_in_the_store_is_told_here_and_not_to_the_peer(error: Exception) -> None:
    async def main() -> None:
        _, keeper, feed = _author(3)
        broken = _Broken(error)
        broken.goal(feed, "all")
        heard: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: heard.append(context["exception"]))
        serving = TangleNode(BOB, broken, lost=lambda _, failure: heard.append(failure))
        listener = await serving.listen(HERE)
        with pytest.raises(CallFailed) as caught:
            await TangleNode(CAROL, keeper).sync(listener.address, (feed,), stop=asyncio.Event())
        assert str(caught.value) == FAILED_HERE
        assert heard == [error]
        await serving.close()

    asyncio.run(main())


def test_a_peer_that_never_answers_is_given_up() -> None:
    async def main() -> None:
        _, keeper, feed = _author(1)

        async def accept(stream: SecretStream) -> None:
            try:
                while await stream.read():
                    pass
            except (TransportError, WireFault) as error:
                ends.append(error)
            finally:
                stream.abort()

        ends: list[BobbinError] = []
        listener = await pzp.listen(HERE, BOB, accept)
        with pytest.raises(QuietPeer):
            await TangleNode(CAROL, keeper, quiet_seconds=0.02).sync(listener.address, (feed,))
        await until(lambda: bool(ends))
        await listener.close()

    asyncio.run(main())


# ---- the modern mode ------------------------------------------------------------------------------------------------


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[TangleStore, TangleStore]]:
    """Two stores on the disk, which can do both modes."""
    with ExitStack() as stack:
        opened = [
            stack.enter_context(open_store(tmp_path / name, create=True, now=lambda: 0)) for name in ("one", "two")
        ]
        yield TangleStore(opened[0].tangles), TangleStore(opened[1].tangles)


def _fill(stores: tuple[TangleStore, TangleStore]) -> tuple[Author, MessageId]:
    author = Author("alice")
    messages = author.feed(20)
    stores[0].commit([author.account, *messages])
    stores[1].commit([author.account, *messages[:11]])
    for store in stores:
        store.set_goal(messages[0].id, "all")
    return author, messages[0].id


@pytest.mark.parametrize(("ours", "theirs"), [(True, True), (True, False), (False, True)])
def test_the_modern_mode_is_spoken_where_both_know_it(
    stores: tuple[TangleStore, TangleStore], *, ours: bool, theirs: bool
) -> None:
    async def main() -> None:
        _, feed = _fill(stores)
        serving = TangleNode(BOB, StoreKeeper(stores[0]), modern=theirs)
        listener = await serving.listen(HERE)
        report = await TangleNode(CAROL, StoreKeeper(stores[1]), modern=ours).sync(listener.address, (feed,))
        assert report.modern == (ours and theirs)
        named = {"ask", "answer", "turn", "parcel"} if report.modern else {f"phase {number}" for number in range(1, 10)}
        assert set(report.traffic) <= named
        assert {id for id, *_ in _held(stores[1])} == {id for id, *_ in _held(stores[0])}
        await until(lambda: not serving.sessions)
        await serving.close()

    asyncio.run(main())


def _held(store: TangleStore) -> list[tuple[str, int]]:
    return sorted((kept.id, len(kept.raw)) for kept in store.kept())


def test_a_node_without_the_modern_mode_neither_offers_nor_asks_for_it(
    stores: tuple[TangleStore, TangleStore],
) -> None:
    """A real peer never sees it: it is opened only where the manifest has it."""

    async def main() -> None:
        _fill(stores)
        asked: list[tuple[str, ...]] = []
        for modern in (True, False):
            serving = TangleNode(BOB, StoreKeeper(stores[0]), modern=modern)
            listener = await serving.listen(HERE)
            link = Link(await pzp.dial(listener.address, CAROL))
            running = asyncio.create_task(link.run())
            said = await link.ask(manifest.NAME)
            asked += [name for name in (PHASES_CALL, MODERN_CALL) if manifest.offers(said, name)]
            await link.close()
            await running
            await serving.close()
        assert asked == [PHASES_CALL, MODERN_CALL, PHASES_CALL]

    asyncio.run(main())


def test_later_messages_go_out_in_the_modern_mode_too(stores: tuple[TangleStore, TangleStore]) -> None:
    async def main() -> None:
        author, feed = _fill(stores)
        serving = TangleNode(BOB, StoreKeeper(stores[0]))
        listener = await serving.listen(HERE)
        stop = asyncio.Event()
        dialling = TangleNode(Keypair.from_words("dave"), StoreKeeper(stores[1]))
        running = asyncio.create_task(dialling.sync(listener.address, (feed,), stop=stop))
        await until(lambda: len(_held(stores[1])) == 22)
        later = author.post(feed, {"text": "later"})
        serving.added(stores[0].commit([later]).added)
        await until(lambda: len(_held(stores[1])) == 23)
        stop.set()
        report = await running
        assert report.modern
        await until(lambda: not serving.sessions)
        await serving.close()

    asyncio.run(main())
