"""A peer with several addresses: who is tried, who is passed over, and what is said when nobody is there."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from msgspec import structs

from bobbin.errors import BobbinError, PeerError, ResourceError, UsageError
from bobbin.interlace.effects import Effect
from bobbin.interlace.events import Event
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.reasons import Reason
from bobbin.lace import Lace
from bobbin.runtime.address_rotation import Rotation
from bobbin.runtime.following import result_rule
from bobbin.runtime.introduction import NotAdmitted, NotIntroduced, Refusal
from bobbin.runtime.local_peer import Manner
from bobbin.runtime.operations import Wishes
from bobbin.runtime.reaching import Failure, NotReached, reach
from bobbin.runtime.reconnect import LASTING_SECONDS, Backoff, Lost, Once, keep, may_help
from bobbin.runtime.remote import WRONG_PEER, Line, RemotePeer, expecting, follow_remote, synchronise_remote
from bobbin.store.base import StoreError
from bobbin.transport.base import TransportError
from tests.lace_pairs import names, two_laces
from tests.local_exchanges import ALL, GROUP_U, plex
from tests.support.byte_streams import until
from tests.support.responders import Responder

_ADDRESSES = ("tls:a:1", "tls:b:2", "tls:c:3")
_DOWN = TransportError("tls:a:1: refused; nothing listens there", retry=True)
_PINNED = TransportError("another certificate than the pinned one", retry=False)
_WRONG = NotAdmitted("wrong-peer", "somebody else answers")
_CLOSED = NotIntroduced(Refusal.CLOSED, "it takes no more links now")


class _Peer:
    """Each address fails with an error or leads there."""

    def __init__(self, *ends: BobbinError | None) -> None:
        self._ends = ends
        self.tried: list[int] = []
        self.passed_over: list[Failure] = []

    def reach(self, rotation: Rotation) -> int:
        return asyncio.run(
            reach(self._attempt, _ADDRESSES[: len(self._ends)], rotation, passed_over=self.passed_over.append)
        )

    async def _attempt(self, at: int) -> int:
        self.tried.append(at)
        error = self._ends[at]
        if error is not None:
            raise error
        return at


def test_the_first_that_answers_will_do_and_is_the_first_from_then_on() -> None:
    peer, rotation = _Peer(_DOWN, _WRONG, None), Rotation(3)
    assert peer.reach(rotation) == 2
    assert [(one.address, one.is_alarm) for one in peer.passed_over] == [("tls:a:1", False), ("tls:b:2", True)]
    assert peer.reach(rotation) == 2
    assert peer.tried == [0, 1, 2, 2]


def test_one_address_fails_with_its_own_error() -> None:
    peer = _Peer(_WRONG)
    with pytest.raises(NotAdmitted) as failed:
        peer.reach(Rotation())
    assert failed.value is _WRONG
    assert not peer.passed_over


def test_when_all_fail_each_is_said_with_its_reason() -> None:
    peer = _Peer(_DOWN, _WRONG, _PINNED)
    with pytest.raises(NotReached) as failed:
        peer.reach(Rotation(3))
    assert str(failed.value) == (
        "no address leads to the peer: tls:a:1: refused; nothing listens there · tls:b:2: somebody else answers · "
        "tls:c:3: another certificate than the pinned one"
    )
    assert [one.error for one in failed.value.failures] == [_DOWN, _WRONG, _PINNED]
    assert len(peer.passed_over) == 2, "of the last one the error itself tells"


@pytest.mark.parametrize(
    ("ends", "family", "helps"),
    [
        ((_DOWN, _DOWN), ResourceError, True),
        ((_DOWN, _WRONG), ResourceError, True),
        ((_PINNED, _CLOSED), ResourceError, True),
        ((_PINNED, _WRONG), ResourceError, False),
        ((_PINNED, _PINNED), ResourceError, False),
        ((_WRONG, _WRONG), NotAdmitted, False),
        ((_WRONG, _CLOSED), PeerError, True),
    ],
)
def test_the_error_is_of_the_family_of_what_happened(
    ends: tuple[BobbinError, ...], family: type[BobbinError], *, helps: bool
) -> None:
    with pytest.raises(family) as failed:
        _Peer(*ends).reach(Rotation(2))
    assert may_help(failed.value) is helps, "whether another round makes sense"


@pytest.mark.parametrize("error", [_WRONG, _PINNED])
def test_the_rest_of_a_round_alone_never_says_that_trying_again_is_no_use(error: BobbinError) -> None:
    """A link at the first address is lost, and only the second one is tried: the first may be up again soon."""
    peer, rotation = _Peer(error, error), Rotation(2)
    assert rotation.move_on()
    with pytest.raises(BobbinError, match=r"^no other address leads to the peer: tls:b:2: ") as rest:
        peer.reach(rotation)
    assert may_help(rest.value)
    with pytest.raises(BobbinError, match=r"^no address leads to the peer: tls:a:1: .* · tls:b:2: ") as whole:
        peer.reach(rotation)
    assert not may_help(whole.value)
    assert peer.tried == [1, 0, 1]


@pytest.mark.parametrize("error", [_WRONG, _PINNED])
def test_keeping_a_link_outlives_a_stranger_at_the_other_address(error: BobbinError) -> None:
    """The peer at the first address reboots twice; then somebody else answers there as well, and that ends it."""
    ends = iter([None, error, _DOWN, error, None, error, error, error])
    tried: list[int] = []
    rotation = Rotation(2)

    async def attempt(at: int) -> int:
        tried.append(at)
        if (end := next(ends)) is not None:
            raise end
        return at

    async def once() -> Once:
        await reach(attempt, _ADDRESSES[:2], rotation)
        return Once(was_good=True, why="link-lost", seconds=LASTING_SECONDS)

    async def sleep(seconds: float) -> None:
        del seconds

    with pytest.raises(BobbinError, match="no address leads to the peer"):
        asyncio.run(keep(once, backoff=Backoff(), rotation=rotation, sleep=sleep))
    assert tried == [0, 1, 0, 1, 0, 1, 0, 1]


def test_what_the_caller_did_wrong_is_not_tried_elsewhere() -> None:
    peer = _Peer(UsageError("no such thing"), None)
    with pytest.raises(UsageError):
        peer.reach(Rotation(2))
    assert peer.tried == [0]


# ---- whole exchanges ------------------------------------------------------------------------------------------------


@pytest.fixture
def laces(tmp_path: Path) -> Iterator[tuple[Lace, Lace]]:
    with two_laces(tmp_path) as both:
        yield both


def _run(work: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(60):
            await work()

    asyncio.run(run())


def _by(*responders: Responder) -> RemotePeer:
    """One peer at several addresses."""
    first, *others = (
        Line(dial=responder.dial, address=f"tls:n{number}") for number, responder in enumerate(responders, start=1)
    )
    admit = expecting(responders[0].own.key.verifier if responders[0].own.key else None)
    return RemotePeer(dial=first.dial, address=first.address, otherwise=tuple(others), admit=admit, name="test")


def test_addresses_are_tried_in_their_order_and_each_that_failed_is_told(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    record = server.put_record(plex("links/1"))
    failed: list[Failure] = []

    async def work() -> None:
        nodes = [Responder(server.participant(GROUP_U)) for _ in range(3)]
        nodes[0].is_down = True
        peer = structs.replace(_by(*nodes), passed_over=failed.append)
        report = await synchronise_remote(app.participant(GROUP_U), peer)
        assert report.received == {record}
        assert [node.dials for node in nodes] == [1, 1, 0]
        for node in nodes:
            node.is_down = True
        with pytest.raises(NotReached) as refused:
            await synchronise_remote(app.participant(GROUP_U), peer)
        assert [one.address for one in refused.value.failures] == ["tls:n1", "tls:n2", "tls:n3"]
        for node in nodes:
            await node.finish()

    _run(work)
    assert [one.address for one in failed] == ["tls:n1", "tls:n1", "tls:n2"]


def test_the_key_is_demanded_at_every_address(laces: tuple[Lace, Lace], tmp_path: Path) -> None:
    """Whoever else answers at one of them is passed over, and hears nothing of this lace."""
    app, server = laces
    record = app.put_record(plex("links/1"))

    async def work() -> None:
        with Lace.create(tmp_path / "eve.lace") as eve:
            eve.new_key()
            wrong, right = Responder(eve.participant(ALL)), Responder(server.participant(GROUP_U))
            peer = structs.replace(_by(wrong, right), admit=expecting(server.key().verifier))
            assert (await synchronise_remote(app.participant(GROUP_U), peer)).sent == {record}
            assert b"ExchangeOperand" not in bytes(wrong.streams[0].outgoing.written)
            right.is_down = True
            with pytest.raises(NotReached, match=r"tls:n1: the peer is to be .* · tls:n2: nobody listens there"):
                await synchronise_remote(app.participant(GROUP_U), peer)
            both = structs.replace(peer, otherwise=(Line(dial=wrong.dial, address="tls:n2"),))
            with pytest.raises(NotAdmitted, match=r"tls:n1: .* · tls:n2: ") as refused:
                await synchronise_remote(app.participant(GROUP_U), both)
            assert refused.value.code == WRONG_PEER
            for responder in (wrong, right):
                await responder.finish()
            assert not names(eve)

    _run(work)


def test_an_exchange_whose_link_is_lost_goes_on_at_the_next_address(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    for number in range(8):
        server.put_record(plex(f"links/{number}", b"x" * 5_000))

    async def work() -> None:
        nodes = [Responder(server.participant(GROUP_U), service=Service(chunk_records_max=1)) for _ in range(2)]
        manner = Manner(service=Service(request_records_max=1))

        async def lose() -> None:
            await until(lambda: bool(names(app)))
            nodes[0].streams[0].lose()

        losing = asyncio.create_task(lose())
        report = await synchronise_remote(app.participant(GROUP_U), _by(*nodes), manner=manner)
        await losing
        assert report.fixed_point
        assert [result.reason for result in report.rounds] == [Reason.LINK_LOST, None]
        first, second = (result.received for result in report.rounds)
        assert first
        assert second
        assert not first & second, "what came by the first does not come again"
        for node in nodes:
            await node.finish()

    _run(work)
    assert names(app) == names(server)


def test_an_exchange_with_a_node_that_cannot_store_goes_on_at_the_next_address(
    laces: tuple[Lace, Lace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that is cut off from the others of its lace says so; one that is not takes the record."""
    app, server = laces
    app.put_record(plex("links/1"))
    whole = server.store.put_records
    failures = [StoreError("no majority of its nodes answers", retry=True)]

    def put(*arguments: object, **named: object) -> object:
        if failures:
            raise failures.pop()
        return whole(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(server.store, "put_records", put)

    async def work() -> None:
        nodes = [Responder(server.participant(GROUP_U)) for _ in range(2)]
        report = await synchronise_remote(app.participant(GROUP_U), _by(*nodes))
        assert [result.reason for result in report.rounds] == [Reason.PEER_STORE, None]
        assert [node.dials for node in nodes] == [1, 1]
        for node in nodes:
            await node.finish()

    _run(work)
    assert names(app) == names(server)


@pytest.mark.parametrize("is_down", [False, True])
def test_a_later_round_goes_on_at_the_next_address_too(laces: tuple[Lace, Lace], *, is_down: bool) -> None:
    """The first round ends by a limit; the link of the second one is lost before it has moved anything."""
    app, server = laces
    for number in range(4):
        server.put_record(plex(f"links/{number}", b"x" * 5_000))

    async def work() -> None:
        limits, service = Limits(max_loop_iterations=2), Service(chunk_records_max=1)
        nodes = [Responder(server.participant(GROUP_U), service=service) for _ in range(2)]
        nodes[1].is_down = is_down

        def lose(event: Event, effects: tuple[Effect, ...]) -> None:
            del event, effects
            if nodes[0].dials == 2:
                nodes[0].streams[1].lose()

        report = await synchronise_remote(
            app.participant(GROUP_U),
            _by(*nodes),
            manner=Manner(limits=limits, service=Service(request_records_max=1)),
            wishes=Wishes(rounds=9),
            observers=[lose],
        )
        first, second, *others = report.rounds
        assert first.limit is not None
        assert (second.reason, second.received) == (Reason.LINK_LOST, frozenset())
        assert nodes[0].dials == 2
        if is_down:
            assert not others
            assert second.detail.endswith("; no other address leads to the peer: tls:n2: nobody listens there")
        else:
            assert report.fixed_point
        for node in nodes:
            await node.finish()

    _run(work)
    assert (names(app) == names(server)) is not is_down


def test_a_following_goes_on_at_the_next_address_without_a_wait(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    lost: list[Lost] = []

    async def work() -> None:
        nodes = [Responder(server.participant(GROUP_U)) for _ in range(3)]
        # Were there a wait before the next address, this would take an hour.
        backoff = Backoff(first_seconds=3_600, longest_seconds=3_600, random=Random(1))
        follow = follow_remote(
            app.participant(GROUP_U), _by(*nodes), matches=result_rule(None), backoff=backoff, tell=lost.append
        )
        async with follow as following:
            server.put_record(plex("links/0"))
            assert await anext(following) == plex("links/0")
            nodes[1].is_down = True
            nodes[0].is_down = True
            nodes[0].streams[0].lose()
            server.put_record(plex("links/1"))
            assert await anext(following) == plex("links/1")
        assert [node.dials for node in nodes] == [1, 1, 1]
        assert [(one.is_next, one.wait_seconds) for one in lost] == [(True, 0.0)]
        for node in nodes:
            await node.finish()

    _run(work)
    assert names(app) == names(server)


def test_when_no_address_is_left_there_is_a_wait_and_another_round(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    lost: list[Lost] = []

    async def work() -> None:
        nodes = [Responder(server.participant(GROUP_U)) for _ in range(2)]

        def tell(one: Lost) -> None:
            lost.append(one)
            nodes[1].is_down = nodes[0].is_down = len(lost) < 3

        follow = follow_remote(
            app.participant(GROUP_U),
            _by(*nodes),
            matches=result_rule(None),
            backoff=Backoff(first_seconds=0.001, longest_seconds=0.001),
            tell=tell,
        )
        async with follow as following:
            await until(lambda: following.link is not None)
            nodes[0].streams[0].lose()
            server.put_record(plex("links/1"))
            assert await anext(following) == plex("links/1")
        assert [one.is_next for one in lost] == [True, False, False]
        assert "tls:n2: nobody listens there" in lost[1].why
        assert lost[2].why.index("tls:n1: ") < lost[2].why.index("tls:n2: "), "from the one that worked last"
        for node in nodes:
            await node.finish()

    _run(work)
