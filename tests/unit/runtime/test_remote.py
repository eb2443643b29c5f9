"""The side that dials: bounded exchanges with a peer elsewhere, and an open one that comes back after a loss."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest
from msgspec import structs

from bobbin.errors import BobbinError, UsageError
from bobbin.interlace.config import Bounded, Open
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.reasons import Reason
from bobbin.lace import Lace
from bobbin.records.coordinate import Prefix
from bobbin.runtime.following import ObservationsMissed, matches_place, result_rule
from bobbin.runtime.introduction import Introduction, NotAdmitted, NotIntroduced
from bobbin.runtime.local_peer import Manner
from bobbin.runtime.operations import Wishes, at, only, placed
from bobbin.runtime.progressing import Progressing
from bobbin.runtime.reconnect import Backoff, Lost
from bobbin.runtime.recording import Recorder
from bobbin.runtime.remote import (
    INSECURE,
    UNKNOWN_PEER,
    WRONG_PEER,
    RemotePeer,
    connect,
    expecting,
    follow_remote,
    synchronise_remote,
)
from bobbin.transport.base import ByteStream, Route, TransportError
from bobbin.wire.elements import Elements
from tests.lace_pairs import names, two_laces
from tests.local_exchanges import ALICE, ALL, EVE, GROUP_U, SERVER, plex, sealed
from tests.support.byte_streams import FAR, LOOPBACK, TLS, VERIFIED, until
from tests.support.responders import Responder, responding

T = TypeVar("T")


@pytest.fixture
def laces(tmp_path: Path) -> Iterator[tuple[Lace, Lace]]:
    with two_laces(tmp_path) as both:
        yield both


@pytest.fixture
def keyless(tmp_path: Path) -> Iterator[tuple[Lace, Lace]]:
    with two_laces(tmp_path, keys=False) as both:
        yield both


def _run(work: Callable[[], Awaitable[T]]) -> T:
    async def run() -> T:
        async with asyncio.timeout(60):
            return await work()

    return asyncio.run(run())


# ---- whom to take ---------------------------------------------------------------------------------------------------


def _introduction(route: Route, peer: str | None, *, encrypted: bool) -> Introduction:
    verifiers = {"server": SERVER.verifier, "eve": EVE.verifier}
    proven = None if peer is None else verifiers[peer]
    return Introduction(route=route, peer=proven, own=ALICE.verifier, encrypted=encrypted, elements=Elements())


@pytest.mark.parametrize(
    ("route", "peer", "encrypted", "expected", "insecure", "code"),
    [
        (LOOPBACK, None, False, False, False, None),
        (LOOPBACK, "eve", False, True, False, WRONG_PEER),
        (LOOPBACK, None, False, True, True, WRONG_PEER),
        (FAR, None, False, False, False, INSECURE),
        (FAR, None, False, False, True, None),
        (VERIFIED, "server", True, False, False, None),
        (VERIFIED, None, True, False, False, INSECURE),
        (VERIFIED, "eve", True, True, False, WRONG_PEER),
        (TLS, "server", True, True, False, None),
        (TLS, "eve", True, False, False, UNKNOWN_PEER),
        (TLS, "eve", True, True, True, WRONG_PEER),
    ],
)
def test_who_will_do(
    *, route: Route, peer: str | None, encrypted: bool, expected: bool, insecure: bool, code: str | None
) -> None:
    admit = expecting(SERVER.verifier if expected else None, allow_insecure=insecure)
    introduction = _introduction(route, peer, encrypted=encrypted)
    if code is None:
        admit(introduction)
    else:
        with pytest.raises(NotAdmitted) as refused:
            admit(introduction)
        assert refused.value.code == code


def test_nothing_is_said_to_whom_is_not_admitted(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    app.put_record(plex("links/1"))

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U))
        async with responding(responder, expecting(EVE.verifier)) as peer:
            with pytest.raises(NotAdmitted):
                await synchronise_remote(app.participant(GROUP_U), peer)
        said = bytes(responder.streams[0].outgoing.written)
        assert b"ExchangeOperand" not in said
        assert said.count(b"KnotProof") == 1

    _run(work)


def test_a_peer_that_does_not_want_us_says_nothing(laces: tuple[Lace, Lace]) -> None:
    app, server = laces

    def nobody(introduction: Introduction) -> None:
        raise NotAdmitted("not-listed", f"{introduction.peer} is not listed")

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U), admit=nobody)
        async with responding(responder) as peer:
            with pytest.raises(NotIntroduced, match="is not listed there, or it takes no more links now"):
                await synchronise_remote(app.participant(GROUP_U), peer)

    _run(work)


# ---- bounded --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lifecycle", [Bounded(), Open()], ids=["bounded", "open"])
def test_the_account_is_that_of_an_exchange_in_one_process(laces: tuple[Lace, Lace], lifecycle: Bounded | Open) -> None:
    app, server = laces
    some = [plex(f"links/{number}", b"x" * number) for number in range(20)]
    for number, record in enumerate(some):
        (app if number % 3 else server).put_record(record)
    hidden = server.put_record(plex("links/x", group="private"))
    with app.copied() as here, server.copied() as there:
        one, other = here.participant(GROUP_U), there.participant(GROUP_U)
        expected = here.sync(there, GROUP_U, through_codec=True)
        del one, other

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U), lifecycle=lifecycle)
        async with responding(responder) as peer:
            report = await synchronise_remote(app.participant(GROUP_U), peer)
        assert report.fixed_point
        assert (report.received, report.sent) == (expected.received, expected.sent)
        assert (report.bytes_received, report.bytes_sent) == (expected.bytes_received, expected.bytes_sent)
        assert report.iterations == expected.iterations
        assert report.disclosure.advertised == expected.disclosure.advertised
        assert report.honesty == expected.honesty
        assert report.peer_rounds == ()
        assert list(report.figures) == ["setup", "hello", "advertise", "request", "transfer"]
        assert report.figures["transfer"].bytes == report.bytes_received + report.bytes_sent + 2
        assert report.agreed is not None
        assert report.agreed.peer == server.key().verifier
        assert report.agreed.link is not None
        assert [result.fixed_point for result in responder.results] == [True]

    _run(work)
    assert names(app) == names(server) - {hidden}


def test_the_next_exchange_goes_on_from_the_last(laces: tuple[Lace, Lace]) -> None:
    """Cursors and memory are kept under the proven verifiers: nothing that is known is listed again."""
    app, server = laces
    for number in range(400):
        server.put_record(plex(f"links/{number}"))

    async def work() -> tuple[int, int]:
        responder = Responder(server.participant(GROUP_U))
        sizes = []
        for extra in range(2):
            server.put_record(plex(f"more/{extra}"))
            async with responding(responder) as peer:
                report = await synchronise_remote(app.participant(GROUP_U), peer)
            assert report.fixed_point
            sizes.append(report.figures["advertise"].bytes or 0)
        return sizes[0], sizes[1]

    first, second = _run(work)
    assert second * 2 < first, "summaries of partitions, and one listing"


@pytest.mark.parametrize("keys", ["none", "ours", "theirs"])
def test_a_side_without_key_is_a_side(keyless: tuple[Lace, Lace], keys: str) -> None:
    app, server = keyless
    if keys != "none":
        (app if keys == "ours" else server).new_key()
    record = server.put_record(plex("links/1"))

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U))
        async with responding(responder) as peer:
            report = await synchronise_remote(app.participant(GROUP_U), peer)
        assert report.received == {record}
        assert report.agreed is not None
        assert (report.agreed.peer is not None) is (keys == "theirs")
        assert report.agreed.link is None

    _run(work)


def test_rounds_go_on_where_a_limit_ended_the_last(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    for number in range(6):
        server.put_record(plex(f"links/{number}", b"x" * 1_000))

    async def work(rounds: int) -> tuple[int, bool, int]:
        limits = Limits(max_total_transferred_bytes=3_000)
        responder = Responder(server.participant(GROUP_U), limits=limits, service=Service(chunk_records_max=1))
        manner = Manner(limits=limits, service=Service(request_records_max=1))
        async with responding(responder) as peer:
            report = await synchronise_remote(
                app.participant(GROUP_U), peer, manner=manner, wishes=Wishes(rounds=rounds)
            )
        return len(report.rounds), report.fixed_point, responder.dials

    used, done, dials = _run(lambda: work(1))
    assert (used, done, dials) == (1, False, 1)
    assert 0 < len(names(app)) < 6
    used, done, dials = _run(lambda: work(9))
    assert done
    assert used == dials
    assert names(app) == names(server)


def test_a_link_that_does_not_come_up_again_leaves_the_account_of_the_others(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    for number in range(6):
        server.put_record(plex(f"links/{number}", b"x" * 1_000))

    async def work() -> None:
        limits = Limits(max_total_transferred_bytes=3_000)
        responder = Responder(server.participant(GROUP_U), limits=limits, service=Service(chunk_records_max=1))

        async def once() -> ByteStream:
            stream = await responder.dial()
            responder.is_down = True
            return stream

        manner = Manner(limits=limits, service=Service(request_records_max=1))
        peer = RemotePeer(dial=once, admit=expecting(None), name="test")
        report = await synchronise_remote(app.participant(GROUP_U), peer, manner=manner, wishes=Wishes(rounds=5))
        assert len(report.rounds) == 1
        assert report.received == names(app)
        with pytest.raises(TransportError):
            await synchronise_remote(app.participant(GROUP_U), peer)
        await responder.finish()

    _run(work)


def test_what_is_explained_says_what_is_known_here(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    came = server.put_record(plex("links/1"))
    went = app.put_record(plex("links/2"))
    hidden = server.put_record(plex("links/3", group="private"))

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U))
        async with responding(responder) as peer:
            wishes = Wishes(explain=(came, went, hidden), look_for=(came, went, hidden))
            report = await synchronise_remote(app.participant(GROUP_U), peer, wishes=wishes)
        one, two, three = report.explained
        assert (one.fate, one.held, one.held_there) == ("received", True, True)
        assert (two.fate, two.held, two.held_there) == ("sent", True, True)
        assert (three.fate, three.held, three.held_there) == ("not moved", False, None)
        assert "does not advertise it" in three.remark
        assert all(explained.peer is None for explained in report.explained)
        assert report.claimed == {came, went}

    _run(work)


def test_a_record_counts_as_stored_when_the_peer_offers_it_back(laces: tuple[Lace, Lace]) -> None:
    """A peer that takes and does not give back leaves open what became of it."""
    app, server = laces
    records = [app.put_record(plex(f"links/{number}")) for number in range(3)]
    server.put_record(plex("links/0"))
    taking = f"SelectHave(P) :- Have(P), Here('{app.key().verifier}').\nSelectAdvertised(P,S) :- Advertised(P,S).\n"

    async def work(rules: str, chosen: Sequence[str]) -> list[frozenset[str]]:
        responder = Responder(server.participant(rules))
        async with responding(responder) as peer:
            own = app.participant(only(chosen))
            report = await synchronise_remote(own, peer, wishes=Wishes(look_for=tuple(chosen)))
        done = placed(chosen, report)
        return [done.stored, done.there_already, done.unconfirmed, done.not_taken]

    assert _run(lambda: work(ALL, records[:2])) == [{records[1]}, {records[0]}, set(), set()]
    assert _run(lambda: work(taking, records[2:])) == [set(), set(), {records[2]}, set()]


def test_statements_and_receipts(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    came = server.put_record(sealed("links/1"))

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U))
        async with responding(responder) as peer:
            wishes = Wishes(statement=True, receipts=True)
            report = await synchronise_remote(app.participant(GROUP_U), peer, wishes=wishes)
        assert report.received == {came}
        assert report.statement is not None
        assert len(report.receipts) == 1
        assert app.have(report.statement)

    _run(work)


def test_what_cannot_be_sealed_is_said_before(keyless: tuple[Lace, Lace]) -> None:
    app, server = keyless
    server.put_record(plex("links/1"))

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U))
        async with responding(responder) as peer:
            with pytest.raises(UsageError, match="no key"):
                await synchronise_remote(app.participant(GROUP_U), peer, wishes=Wishes(statement=True))
            app.new_key()
            with pytest.raises(UsageError, match="proven sender"):
                await synchronise_remote(app.participant(GROUP_U), peer, wishes=Wishes(receipts=True))
            with pytest.raises(UsageError, match="followed"):
                await synchronise_remote(app.participant(GROUP_U), peer, manner=Manner(lifecycle=Open()))
        assert not names(app)

    _run(work)


def test_progress_and_recordings_work_as_for_local_peers(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    record = plex("links/1", b"x" * 500)
    server.put_record(record)
    told: list[tuple[int, int]] = []
    progressing = Progressing(lambda moved, wanted: told.append((moved, wanted)))
    recording = BytesIO()

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U))
        async with responding(responder) as peer:
            await synchronise_remote(
                app.participant(GROUP_U), peer, observers=[progressing.observe], recorder=Recorder(recording)
            )

    _run(work)
    assert told[-1] == (1, 1)
    assert progressing.bytes_moved == len(record.raw)
    assert recording.getvalue().startswith(b"bobbin-recording/1")


def test_a_cancelled_exchange_lets_go_of_the_store_and_of_the_link(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    for number in range(50):
        server.put_record(plex(f"links/{number}", b"x" * 5_000))

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U), service=Service(chunk_records_max=1))
        async with responding(responder) as peer:
            task = asyncio.create_task(synchronise_remote(app.participant(GROUP_U), peer))
            await until(lambda: bool(names(app)))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert responder.streams[0].is_closed
            report = await synchronise_remote(app.participant(GROUP_U), peer)
            assert report.fixed_point
        assert responder.results[0].reason is Reason.LINK_LOST

    _run(work)
    assert names(app) == names(server)


# ---- open -----------------------------------------------------------------------------------------------------------


class _AtOnce(Random):
    """Never waits."""

    def uniform(self, a: float, b: float) -> float:
        del b
        return a


def _backoff() -> Backoff:
    return Backoff(first_seconds=1, longest_seconds=1, random=_AtOnce())


@pytest.mark.parametrize("lasts", [True, False])
def test_records_come_as_they_are_written_and_links_come_back(laces: tuple[Lace, Lace], *, lasts: bool) -> None:
    """Links that were of use start the waits over if they have lasted."""
    app, server = laces
    first = plex("links/1")
    server.put_record(first)
    lost: list[Lost] = []

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U))
        own = app.participant(GROUP_U)
        place = matches_place(Prefix(group="u", app="ding", name="links/"))
        async with responding(responder) as peer:
            longest = 1e-9 if lasts else 3_600.0
            backoff = Backoff(first_seconds=1e-9, longest_seconds=longest, random=_AtOnce())
            follow = follow_remote(own, peer, matches=place, backoff=backoff, tell=lost.append)
            async with follow as following:
                assert await anext(following) == first
                server.put_record(plex("elsewhere/1"))
                server.put_record(plex("links/2"))
                assert await anext(following) == plex("links/2")
                for number in range(3, 6):
                    responder.streams[-1].lose()
                    server.put_record(plex(f"links/{number}"))
                    assert await anext(following) == plex(f"links/{number}")
                assert following.link is not None
                assert following.link.introduction.peer == server.key().verifier
            assert following.result is not None
            assert following.result.reason is Reason.CANCELLED
            with pytest.raises(StopAsyncIteration):
                await anext(following)
        assert responder.dials == 4
        assert [one.attempts for one in lost] == [1, 1, 1] if lasts else [1, 2, 3]

    _run(work)
    assert names(app) == names(server)


def test_the_first_link_must_come_up(laces: tuple[Lace, Lace]) -> None:
    app, server = laces

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U))
        responder.is_down = True
        async with responding(responder) as peer:
            with pytest.raises(TransportError):
                async with follow_remote(app.participant(GROUP_U), peer, matches=result_rule(None)):
                    pass

    _run(work)


def test_what_trying_again_cannot_mend_ends_the_stream(laces: tuple[Lace, Lace]) -> None:
    app, server = laces

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U))
        demands = [expecting(None), expecting(EVE.verifier)]

        def demand(introduction: Introduction) -> None:
            demands.pop(0)(introduction)

        async with (
            responding(responder, demand) as peer,
            follow_remote(app.participant(GROUP_U), peer, matches=result_rule(None), backoff=_backoff()) as following,
        ):
            responder.streams[0].lose()
            with pytest.raises(NotAdmitted):
                await anext(following)

    _run(work)


def test_a_peer_that_is_away_for_a_while_is_found_again(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    lost: list[Lost] = []

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U))

        def tell(one: Lost) -> None:
            lost.append(one)
            responder.is_down = len(lost) < 4

        async with (
            responding(responder) as peer,
            follow_remote(
                app.participant(GROUP_U), peer, matches=result_rule(None), backoff=_backoff(), tell=tell
            ) as following,
        ):
            await until(lambda: bool(responder.streams) and following.link is not None)
            responder.streams[0].lose()
            server.put_record(plex("links/1"))
            assert await anext(following) == plex("links/1")

    _run(work)
    assert len(lost) == 4


def test_a_policy_changes_on_the_link_and_on_those_that_come(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    server.put_record(plex("links/1"))
    server.put_record(plex("x", group="w"))

    async def work() -> None:
        responder = Responder(server.participant(ALL))
        async with responding(responder) as peer:
            follow = follow_remote(app.participant(GROUP_U), peer, matches=result_rule(None), backoff=_backoff())
            with pytest.raises(UsageError):
                follow.change_policy(at(Prefix(group="w")))
            async with follow as following:
                assert await anext(following) == plex("links/1")
                following.change_policy(app.participant(ALL).selector)
                assert await anext(following) == plex("x", group="w")
                responder.streams[0].lose()
                server.put_record(plex("y", group="w"))
                assert await anext(following) == plex("y", group="w")

    _run(work)


def test_observations_that_nobody_takes_are_counted(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    for number in range(5):
        server.put_record(plex(f"links/{number}"))

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U))
        async with responding(responder) as peer:
            follow = follow_remote(app.participant(GROUP_U), peer, matches=result_rule(None), waiting_max=2)
            async with follow as following:
                await until(lambda: names(app) == names(server))
                assert await anext(following) is not None
                assert await anext(following) is not None
                with pytest.raises(ObservationsMissed) as missed:
                    await anext(following)
                assert missed.value.count == 3

    _run(work)


def test_closing_at_any_moment_ends_everything(laces: tuple[Lace, Lace]) -> None:
    """Before the link has begun, while it runs, while it waits for the next attempt."""
    app, server = laces

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U))
        async with responding(responder) as peer:
            for turns in (0, 1, 2, 5, 20, 200):
                follow = follow_remote(app.participant(GROUP_U), peer, matches=result_rule(None))
                async with follow:
                    for _ in range(turns):
                        await asyncio.sleep(0)
                assert all(stream.is_closed for stream in responder.streams)
            slow = follow_remote(
                app.participant(GROUP_U),
                peer,
                matches=result_rule(None),
                backoff=Backoff(first_seconds=50, longest_seconds=50),
            )
            async with slow as following:
                await until(lambda: following.link is not None)
                responder.streams[-1].lose()
                await until(lambda: following.link is None)

    _run(work)


def test_one_link_can_be_had_by_itself(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    server.put_record(plex("links/1"))

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U))
        async with responding(responder) as peer:
            link = await connect(app.participant(GROUP_U), structs.replace(peer, name="other"), Manner())
            assert link.introduction.peer == server.key().verifier
            assert not names(app)
            books = await link.run()
            assert books.result.fixed_point
            assert sum(figure.bytes or 0 for figure in link.figures().values()) > 0

    _run(work)
    assert names(app) == names(server)


def test_errors_are_ours() -> None:
    """Whatever may keep a link from coming up is a Bobbin error."""
    assert all(issubclass(kind, BobbinError) for kind in (NotAdmitted, NotIntroduced, TransportError))
