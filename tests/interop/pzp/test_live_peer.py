"""A peer of the published packages that writes and reads while it is linked with ours."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bobbin.runtime.tangle_node import TangleNode
from bobbin.tangles import compose, structures
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message, moot_id
from bobbin.tangles.session_effects import Finished, Notice
from bobbin.transport import pzp
from bobbin.transport.base import TransportError
from bobbin.transport.muxrpc import Body, CallFailed, Link
from bobbin.wire import address
from bobbin.wire.pzp.address import PeerAddress, at, parse
from bobbin.wire.pzp.faults import WireFault
from bobbin.wire.pzp.frames import Kind
from tests.interop.pzp.node_peer import NodeError, NodePeer, NodeProcess, until
from tests.support.tangle_keeper import MemoryKeeper

NODE, OURS = Keypair.from_words("alice"), Keypair.from_words("bob")
HERE = address.parse("tcp:127.0.0.1:0", to_listen=True)


class Pair:
    """A live peer, and ours with the same account: both write to it with the same key."""

    def __init__(self, peer: NodePeer, account: str) -> None:
        self.peer = peer
        self.account = account
        self.keeper = MemoryKeeper()
        self.finished: set[str] = set()
        self.node = TangleNode(OURS, self.keeper, watch=self._watch)

    def _watch(self, peer: bytes, notice: Notice) -> None:
        assert peer == NODE.public_bytes
        if isinstance(notice, Finished):
            self.finished.add(notice.tangle)

    async def address(self) -> PeerAddress:
        return parse(await self.peer.do("address"))

    async def goal(self, tangle: str, goal: str) -> None:
        """Both want so much of a tangle."""
        await self.peer.do("goal", tangle=tangle, goal=goal)
        self.keeper.goal(tangle, goal)

    def write(self, data: dict[str, Any], domain: str, tangles: Iterable[str]) -> Message:
        """A message of ours, told to whoever is linked."""
        store = self.keeper.store
        message = compose.post(
            NODE,
            data,
            account=store.tangle(self.account),
            domain=domain,
            tangles=[store.tangle(tangle) for tangle in tangles],
        )
        self.node.added(self.keeper.add([message]))
        return message

    async def meet(self, *tangles: str) -> None:
        """One session that we dial, to its end."""
        await self.node.sync(await self.address(), tangles)
        await self.agree()

    async def idle(self, *tangles: str) -> None:
        """Wait for the end of a run on each of these tangles, in the session that was opened last."""

        async def is_finished() -> bool:
            return self.finished >= set(tangles)

        await until(is_finished, "the end of every run")

    async def agree(self) -> None:
        """Wait until both have the same."""

        async def is_equal() -> bool:
            return await self.peer.records() == sorted(self.keeper.records)

        await until(is_equal, "both sides with the same messages")


def _live(test: Callable[[Pair], Awaitable[None]], process: NodeProcess, folder: Path) -> None:
    async def main() -> None:
        async with process.peer(folder, NODE) as peer:
            pair = Pair(peer, await peer.do("account", subdomain="person", nonce="here"))
            await test(pair)

    asyncio.run(main())


@asynccontextmanager
async def _linked(pair: Pair, *tangles: str, dialled: bool) -> AsyncIterator[None]:
    """A session that goes on, opened by either side."""
    pair.finished.clear()
    if dialled:
        listener = await pair.node.listen(HERE)
        await pair.peer.do("start")
        await pair.peer.do("connect", address=str(listener.address))
        try:
            yield
        finally:
            await pair.peer.do("hang_up")
            await pair.node.close()
        return
    stop = asyncio.Event()
    running = asyncio.create_task(pair.node.sync(await pair.address(), tangles, stop=stop))
    try:
        yield
    finally:
        stop.set()
        await running


async def _post(pair: Pair, number: int) -> str:
    return str(await pair.peer.do("publish", account=pair.account, domain="post", data={"text": f"from Node {number}"}))


@pytest.mark.parametrize("dialled", [False, True], ids=["we dial", "we are dialled"])
def test_a_feed_that_both_sides_write_while_linked(process: NodeProcess, tmp_path: Path, *, dialled: bool) -> None:
    """TG-100: what comes to be after the run goes out at once, both ways, and nothing comes back."""

    async def test(pair: Pair) -> None:
        feed = moot_id(pair.account, "post")
        for number in range(3):
            await _post(pair, number)
        await pair.goal(feed, "all")
        # A real peer wants nothing, now or later, of one that begins with nothing.
        await pair.meet(feed)
        async with _linked(pair, feed, dialled=dialled):
            await pair.idle(feed)
            before = len(pair.keeper.commits)
            for number in range(3, 6):
                await _post(pair, number)
                await pair.agree()
                message = pair.write({"text": f"ours {number}"}, "post", [feed])
                await pair.agree()
                assert (message.id, "dataful") in await pair.peer.records()
            assert len(pair.keeper.commits) == before + 3

    _live(test, process, tmp_path)


@pytest.mark.parametrize("dialled", [False, True], ids=["we dial", "we are dialled"])
def test_a_thread_with_replies_of_both_sides(process: NodeProcess, tmp_path: Path, *, dialled: bool) -> None:
    async def test(pair: Pair) -> None:
        feed = moot_id(pair.account, "post")
        root = await _post(pair, 0)
        await pair.goal(feed, "all")
        await pair.goal(root, "all")
        await pair.meet(feed, root)
        async with _linked(pair, feed, root, dialled=dialled):
            await pair.idle(feed, root)
            for number in range(3):
                pair.write({"text": f"our reply {number}"}, "post", [feed, root])
                await pair.agree()
                await pair.peer.do(
                    "publish", account=pair.account, domain="post", data={"text": "their reply"}, tangles=[root]
                )
                await pair.agree()
        tangle = pair.keeper.store.tangle(root)
        assert len(tangle) == 7
        assert tangle.max_depth == 6

    _live(test, process, tmp_path)


def test_a_set_that_both_sides_write(process: NodeProcess, tmp_path: Path) -> None:
    async def test(pair: Pair) -> None:
        await pair.peer.do("set_load", account=pair.account)
        for value in ("one", "two", "three"):
            await pair.peer.do("set_add", subdomain="numbers", value=value)
        await pair.peer.do("set_del", subdomain="numbers", value="two")
        feed = await pair.peer.do("set_feed", subdomain="numbers")
        await pair.goal(feed, "set")
        await pair.meet(feed)
        store = pair.keeper.store
        assert structures.set_values(store.tangle(feed), store.data) == ["one", "three"]
        pair.write({"add": ["four"], "del": ["one"], "supersedes": []}, "set_v1__numbers", [feed])
        await pair.meet(feed)
        values = await pair.peer.do("set_values", subdomain="numbers", account=pair.account)
        assert sorted(values) == sorted(map(str, structures.set_values(store.tangle(feed), store.data)))
        assert "four" in values

    _live(test, process, tmp_path)


def test_a_dict_that_both_sides_write(process: NodeProcess, tmp_path: Path) -> None:
    async def test(pair: Pair) -> None:
        await pair.peer.do("dict_load", account=pair.account)
        await pair.peer.do("dict_update", subdomain="profile", update={"name": "alice"})
        await pair.peer.do("dict_update", subdomain="profile", update={"age": 20})
        feed = await pair.peer.do("dict_feed", subdomain="profile")
        await pair.goal(feed, "dict")
        await pair.meet(feed)
        store = pair.keeper.store
        assert structures.dict_values(store.tangle(feed), store.data) == {"name": "alice", "age": 20}
        (named,) = [id for id in store.tangle(feed).topological() if "name" in str(store.data(id))]
        pair.write({"update": {"name": "Alice"}, "supersedes": [named]}, "dict_v1__profile", [feed])
        await pair.meet(feed)
        read = await pair.peer.do("dict_read", subdomain="profile", account=pair.account)
        assert read == {"name": "Alice", "age": 20} == structures.dict_values(store.tangle(feed), store.data)

    _live(test, process, tmp_path)


def test_only_the_newest_and_what_leads_to_them(process: NodeProcess, tmp_path: Path) -> None:
    async def test(pair: Pair) -> None:
        feed = moot_id(pair.account, "post")
        posts = [await _post(pair, number) for number in range(9)]
        await pair.peer.do("goal", tangle=feed, goal="all")
        pair.keeper.goal(feed, "newest-3")
        await pair.node.sync(await pair.address(), (feed,))
        records = dict(pair.keeper.records)
        assert [records.get(post) for post in posts[-3:]] == ["dataful"] * 3
        assert "dataful" not in [records.get(post) for post in posts[:-3]]
        trail = pair.keeper.store.tangle(feed).shortest_path(posts[-3])
        assert {post for post in posts[:-3] if post in records} == set(trail) & set(posts)
        assert len(await pair.peer.records()) == 2 + len(posts)

    _live(test, process, tmp_path)


def test_a_goal_that_is_set_later_begins_a_run(process: NodeProcess, tmp_path: Path) -> None:
    """TG-098."""

    async def test(pair: Pair) -> None:
        await _post(pair, 0)
        await pair.peer.do("publish", account=pair.account, domain="other", data={"text": "elsewhere"})
        feed, other = moot_id(pair.account, "post"), moot_id(pair.account, "other")
        await pair.goal(feed, "all")
        async with _linked(pair, feed, dialled=False):

            async def has_feed() -> bool:
                return len(pair.keeper.records) == 3

            await until(has_feed, "the first feed")
            await pair.goal(other, "all")
            pair.node.open_runs((other,))
            await pair.agree()

    _live(test, process, tmp_path)


@pytest.mark.parametrize("dialled", [False, True], ids=["we dial", "we are dialled"])
def test_many_tangles_over_one_stream(process: NodeProcess, tmp_path: Path, *, dialled: bool) -> None:
    """TG-099."""

    async def test(pair: Pair) -> None:
        domains = [f"domain{number}" for number in range(5)]
        feeds = [moot_id(pair.account, domain) for domain in domains]
        for feed, domain in zip(feeds, domains, strict=True):
            for number in range(3):
                await pair.peer.do("publish", account=pair.account, domain=domain, data={"number": number})
            await pair.goal(feed, "all")
        await pair.meet(*feeds)
        for feed, domain in zip(feeds, domains, strict=True):
            await pair.peer.do("publish", account=pair.account, domain=domain, data={"by": "Node"})
            pair.write({"by": "ours"}, domain, [feed])
        assert await pair.peer.records() != sorted(pair.keeper.records)
        async with _linked(pair, *feeds, dialled=dialled):
            await pair.agree()
        assert len(pair.keeper.records) == 1 + 5 * 6

    _live(test, process, tmp_path)


def test_later_sessions_work_like_the_first(process: NodeProcess, tmp_path: Path) -> None:
    """TG-115, as far as it can be had with a real peer: it writes, and ours is complete after each of five sessions."""

    async def test(pair: Pair) -> None:
        feed = moot_id(pair.account, "post")
        await pair.goal(feed, "all")
        for session in range(5):
            for number in range(3):
                await _post(pair, 10 * session + number)
            await pair.meet(feed)
            assert len(pair.keeper.records) == 2 + 3 * (session + 1)

    _live(test, process, tmp_path)


def test_what_a_real_peer_drops_it_drops_here_too(process: NodeProcess, tmp_path: Path) -> None:
    """TG-107: bad shapes change nothing, and the stream goes on, on either side."""

    async def test(pair: Pair) -> None:
        stream = await pzp.dial(await pair.address(), OURS)
        link = Link(stream)
        running = asyncio.create_task(link.run())
        duplex = await link.open(("sync", "connect"))
        feed = moot_id(pair.account, "post")
        for bad in (b"{}", b"[]", b'{"id":"x","phase":1,"payload":[0,1]}', b'{"id":"%b","phase":1,"payload":[0]}'):
            await duplex.send(bad.replace(b"%b", feed.encode()))
        await duplex.send(b'{"id":"%b","phase":1,"payload":[1,0]}' % feed.encode())
        said = await duplex.receive()
        assert said is not None
        assert said.data.startswith(b'{"id":"%b","phase":2,' % feed.encode())
        await duplex.end()
        assert await duplex.receive() is None
        await link.close()
        await running

    _live(test, process, tmp_path)


def test_calls_to_a_real_peer(process: NodeProcess, tmp_path: Path) -> None:
    """TG-113, TG-114: an answer, a refusal, a stream that ends, and a goodbye on both sides."""

    async def test(pair: Pair) -> None:
        stream = await pzp.dial(await pair.address(), OURS)
        assert stream.peer == NODE.public_bytes
        link = Link(stream)
        running = asyncio.create_task(link.run())
        assert b'"connect":"duplex"' in await link.ask(("manifest",))
        with pytest.raises(CallFailed, match="method:db,add is not in list of allowed methods"):
            await link.ask(("db", "add"))
        refused = await link.open(("tangles", "connect"))
        with pytest.raises(CallFailed, match="not in list of allowed methods"):
            await refused.receive()
        assert await pair.peer.do("linked") == 1
        await link.close()
        await running

        async def is_gone() -> bool:
            return bool(await pair.peer.do("linked") == 0)

        await until(is_gone, "the end of the link at the other side")

    _live(test, process, tmp_path)


def test_a_real_peer_calls_us(process: NodeProcess, tmp_path: Path) -> None:
    """TG-113, TG-114."""
    taken: list[Body] = []

    async def main() -> None:
        links: list[Link] = []

        async def accept(stream: Any) -> None:  # noqa: ANN401
            async def sync(duplex: Any) -> None:  # noqa: ANN401
                while (body := await duplex.receive()) is not None:
                    taken.append(body)

            links.append(Link(stream, serves={("sync", "connect"): sync}))
            await links[0].run()

        listener = await pzp.listen(HERE, OURS, accept)
        async with process.peer(tmp_path, NODE) as peer:
            feed = moot_id(await peer.do("account", subdomain="person", nonce="x"), "post")
            await peer.do("goal", tangle=feed, goal="all")
            await peer.do("start")
            assert await peer.do("connect", address=str(listener.address)) == OURS.public
            assert await peer.do("ask", name="manifest") == {"manifest": "sync", "sync": {"connect": "duplex"}}
            with pytest.raises(NodeError, match="method:auth is not in list of allowed methods"):
                await peer.do("ask", name="auth")

            async def has_come() -> bool:
                return bool(taken)

            await until(has_come, "the first phase")
            assert taken[0] == Body(Kind.JSON, b'{"id":"%b","phase":1,"payload":[1,0]}' % feed.encode())
            await links[0].close()

            async def is_gone() -> bool:
                return bool(await peer.do("linked") == 0)

            await until(is_gone, "the end of the link at the other side")
        await listener.close()

    asyncio.run(main())


def test_strangers_and_impostors(process: NodeProcess, tmp_path: Path) -> None:
    """TG-108, TG-109: another network is not answered, another key is not believed; then all goes on."""

    async def test(pair: Pair) -> None:
        right = await pair.address()
        with pytest.raises((WireFault, TransportError)):
            await pzp.dial(right, OURS, network_key=b"\x07" * 32)
        with pytest.raises((WireFault, TransportError)):
            await pzp.dial(at(right.place, Keypair.from_words("carol").public_bytes), OURS)
        stream = await pzp.dial(right, OURS)
        await stream.close()

    _live(test, process, tmp_path)
