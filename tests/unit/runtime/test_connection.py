"""A lace and a peer elsewhere, over real sockets of this machine: where it is, what is demanded, what can be done."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec import structs

from bobbin.errors import UsageError
from bobbin.interlace.limits import Limits
from bobbin.lace import Lace
from bobbin.records.ids import Verifier
from bobbin.runtime.connection import Connection, Destination, is_address, run
from bobbin.runtime.introduction import NotAdmitted
from bobbin.runtime.reaching import NotReached
from bobbin.runtime.remote import INSECURE, WRONG_PEER, RemotePeer
from bobbin.runtime.roster import Way
from bobbin.transport import certificate
from bobbin.transport.base import TransportError
from bobbin.transport.listen import listen
from bobbin.transport.tls import TlsServer
from bobbin.wire import address
from bobbin.wire.address import Address, Scheme
from tests.lace_pairs import names, two_laces
from tests.local_exchanges import ALICE, ALL, EVE, GROUP_U, plex
from tests.support.byte_streams import FAR, LOOPBACK, until
from tests.support.responders import Responder

T = TypeVar("T")


@pytest.fixture
def laces(tmp_path: Path) -> Iterator[tuple[Lace, Lace]]:
    with two_laces(tmp_path) as both:
        yield both


@asynccontextmanager
async def _serving(
    lace: Lace, where: str, *, rules: str = GROUP_U, tls: TlsServer | None = None
) -> AsyncIterator[Address]:
    """The address of a lace that answers."""
    responder = Responder(lace.participant(rules))
    asked = address.parse(where)
    if asked.scheme is not Scheme.UNIX:
        asked = structs.replace(asked, port=0)
    listener = await listen(asked, responder.answer, tls=tls)
    try:
        yield listener.address
    finally:
        await listener.close()


def _run(work: Callable[[], Awaitable[T]]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(60):
            return await work()

    return asyncio.run(limited())


def _connection(
    lace: Lace, where: Address, *, verifier: Verifier | None = None, policy: str | None = GROUP_U
) -> Connection:
    return Connection(lace, Destination(address=where, verifier=verifier).peer(), policy, limits=Limits())


# ---- routes that anybody can stand in -------------------------------------------------------------------------------


def _led_away(responder: Responder, *, verifier: Verifier | None = None, allow_insecure: bool = False) -> RemotePeer:
    destination = Destination(address=FAR.address, verifier=verifier, allow_insecure=allow_insecure)
    return structs.replace(destination.peer(), dial=responder.dial)


@pytest.mark.parametrize("verifier", [None, EVE.verifier])
def test_not_a_byte_is_said_on_an_open_network(laces: tuple[Lace, Lace], verifier: Verifier | None) -> None:
    """The route is refused before there is anything that could be passed on to somebody else."""
    app, server = laces
    app.put_record(plex("links/1"))

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U), routes=(FAR, LOOPBACK))
        with pytest.raises(NotAdmitted) as refused:
            await Connection(app, _led_away(responder, verifier=verifier), GROUP_U).sync()
        await responder.finish()
        assert refused.value.code == INSECURE
        assert not responder.streams[0].outgoing.written
        assert responder.streams[0].is_closed

    _run(work)


def test_where_an_open_network_is_allowed_no_proof_is_given(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    server.put_record(plex("links/1"))

    async def work() -> None:
        responder = Responder(server.participant(GROUP_U), routes=(FAR, FAR))
        report = await Connection(app, _led_away(responder, allow_insecure=True), GROUP_U).sync()
        await responder.finish()
        assert report.fixed_point
        assert b"KnotProof" not in responder.streams[0].outgoing.written

    _run(work)
    assert names(app) == names(server)


# ---- over real streams ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["tcp", "unix", "ws"])
def test_records_move_over_every_plain_stream(laces: tuple[Lace, Lace], tmp_path: Path, scheme: str) -> None:
    app, server = laces
    server.put_record(plex("links/1", b"x" * 300_000))
    app.put_record(plex("links/2", b"y" * 300_000))
    where = f"unix:{tmp_path}/lace.sock" if scheme == "unix" else f"{scheme}:127.0.0.1"

    async def work() -> None:
        async with _serving(server, where) as found, _connection(app, found) as link:
            report = await link.sync()
            assert report.fixed_point
            assert report.agreed is not None
            assert report.agreed.peer == server.key().verifier

    _run(work)
    assert names(app) == names(server)


def _certificate(folder: Path) -> TlsServer:
    made = TlsServer(certificate=folder / "certificate.pem", key=folder / "key.pem")
    certificate.create(made.certificate, made.key, names=["localhost", "127.0.0.1"])
    return made


@pytest.mark.parametrize("demand", ["verifier", "certificate", "authority"])
@pytest.mark.parametrize("scheme", ["tls", "wss"])
def test_an_encrypted_link_is_trusted_by_key_by_pin_or_by_authority(
    laces: tuple[Lace, Lace], tmp_path: Path, scheme: str, demand: str
) -> None:
    app, server = laces
    server.put_record(plex("links/1"))
    tls = _certificate(tmp_path)
    rules = GROUP_U + "SelectHave(P) :- Have(P), TransportEncrypted().\n"
    server.put_record(plex("only/encrypted", group="w"))

    async def work() -> None:
        async with _serving(server, f"{scheme}:127.0.0.1", rules=ALL, tls=tls) as found:
            destination = Destination(
                address=found,
                verifier=server.key().verifier if demand == "verifier" else None,
                certificate=certificate.fingerprint(tls.certificate) if demand == "certificate" else None,
                authorities=tls.certificate if demand == "authority" else None,
            )
            async with app.connect(destination, ALL) as link:
                assert (await link.sync()).fixed_point
            async with app.connect(destination, rules) as link:
                assert (await link.sync()).fixed_point

    _run(work)
    assert names(app) == names(server)


def test_another_key_or_certificate_than_expected_is_refused(laces: tuple[Lace, Lace], tmp_path: Path) -> None:
    app, server = laces
    server.put_record(plex("links/1"))
    tls = _certificate(tmp_path)

    async def work() -> None:
        async with _serving(server, "tls:127.0.0.1", tls=tls) as found:
            with pytest.raises(NotAdmitted) as refused:
                await _connection(app, found, verifier=EVE.verifier).sync()
            assert refused.value.code == WRONG_PEER
            with pytest.raises(TransportError):
                await Connection(app, Destination(address=found, certificate=b"\x01" * 32).peer(), GROUP_U).sync()
            with pytest.raises(TransportError):
                await _connection(app, found).sync()

    _run(work)
    assert not names(app)


def test_each_address_has_its_own_pin_and_all_have_one_key(laces: tuple[Lace, Lace], tmp_path: Path) -> None:
    app, server = laces
    record = server.put_record(plex("links/1"))
    certificates = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        certificates.append(_certificate(tmp_path / name))
    pins = [certificate.fingerprint(tls.certificate) for tls in certificates]

    async def work() -> None:
        async with (
            _serving(server, "tls:127.0.0.1", tls=certificates[0]) as one,
            _serving(server, "tls:127.0.0.1", tls=certificates[1]) as two,
        ):

            def there(*chosen: bytes) -> Destination:
                ways = tuple(Way(address=at, certificate=pin) for at, pin in zip((one, two), chosen, strict=True))
                return Destination.by(ways, name="hall", verifier=server.key().verifier)

            with pytest.raises(NotReached) as refused:
                await Connection(app, there(pins[1], pins[0]).peer(), GROUP_U).sync()
            assert [failure.address for failure in refused.value.failures] == [str(one), str(two)]
            assert not refused.value.retry, "a certificate is not mended by waiting"
            report = await Connection(app, there(pins[1], pins[1]).peer(), GROUP_U).sync()
            assert report.received == {record}, "the second one shows what is pinned for it"

    _run(work)
    with pytest.raises(UsageError, match="only a key"):
        Destination.by(tuple(Way(address=address.parse(f"tls:{host}")) for host in "ab")).peer()


def test_nobody_listens(laces: tuple[Lace, Lace], tmp_path: Path) -> None:
    app, _ = laces
    with pytest.raises(TransportError):
        _run(lambda: _connection(app, address.parse(f"unix:{tmp_path}/nobody.sock")).sync())


# ---- operations -----------------------------------------------------------------------------------------------------


def test_one_record_a_place_and_a_hand_over(laces: tuple[Lace, Lace], tmp_path: Path) -> None:
    app, server = laces
    one, two, three = (server.put_record(plex(f"links/{number}")) for number in range(3))
    elsewhere = server.put_record(plex("other/1"))
    mine = plex("links/mine")

    async def work() -> None:
        async with (
            _serving(server, f"unix:{tmp_path}/lace.sock") as found,
            _connection(app, found, policy=None) as link,
        ):
            got = await link.get(one)
            assert got.record is not None
            assert got.record.hash == one
            assert names(app) == {one}
            listing = await link.list("//u//ding//links/")
            assert {listed.hash for listed in listing.records} == {one, two, three}
            placed = await link.store([mine, one])
            assert placed.stored == {mine.hash}
            assert placed.there_already == {one}
            assert not placed.unconfirmed
            with pytest.raises(UsageError, match="given none"):
                await link.sync()
            with pytest.raises(UsageError, match="not stored here"):
                await link.store([elsewhere])

    _run(work)
    assert server.have(mine.hash)
    assert not app.have(elsewhere)


def test_records_that_come_later_are_iterated_over(laces: tuple[Lace, Lace], tmp_path: Path) -> None:
    app, server = laces
    server.put_record(plex("links/1"))

    async def work() -> None:
        async with _serving(server, f"unix:{tmp_path}/lace.sock") as found, app.connect(found, GROUP_U) as link:
            seen = []
            async for record in link.open("//u//ding//links/"):
                seen.append(record)
                if len(seen) == 3:
                    break
                server.put_record(plex("other/x"))
                server.put_record(plex(f"links/{len(seen) + 1}"))
            assert seen == [plex("links/1"), plex("links/2"), plex("links/3")]

    _run(work)


def test_a_connection_that_is_left_closes_what_it_has_open(laces: tuple[Lace, Lace], tmp_path: Path) -> None:
    app, server = laces

    async def work() -> None:
        async with _serving(server, f"unix:{tmp_path}/lace.sock") as found:
            async with app.connect(found, GROUP_U) as link:
                following = await link.follow().__aenter__()
                await until(lambda: following.link is not None)
            assert following.result is not None
            with pytest.raises(StopAsyncIteration):
                await anext(following)

    _run(work)


# ---- which peer -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"), [("tcp:lab", True), ("stdio", True), ("unix:/x", True), ("lab", False), ("lab-2", False)]
)
def test_what_is_meant_as_an_address(text: str, expected: bool) -> None:  # noqa: FBT001 -- from a table
    assert is_address(text) is expected


def test_a_key_that_is_named_is_not_set_aside_by_another() -> None:
    anybody = Destination(address=address.parse("tls:lab.example"))
    demanding = anybody.demanding(EVE.verifier)
    assert demanding == structs.replace(anybody, verifier=EVE.verifier)
    assert demanding.demanding(EVE.verifier) == demanding
    with pytest.raises(UsageError, match="known by another key"):
        demanding.demanding(ALICE.verifier)


def test_a_program_says_which_key_must_be_proven(laces: tuple[Lace, Lace], tmp_path: Path) -> None:
    app, server = laces
    server.put_record(plex("links/1"))
    tls = _certificate(tmp_path)

    async def work() -> None:
        async with _serving(server, "tls:127.0.0.1", tls=tls) as found:
            for peer in (str(found), found, Destination(address=found)):
                async with app.connect(peer, GROUP_U, verifier=EVE.verifier) as link:
                    with pytest.raises(NotAdmitted) as refused:
                        await link.sync()
                assert refused.value.code == WRONG_PEER
                async with app.connect(peer, GROUP_U, verifier=server.key().verifier) as link:
                    assert (await link.sync()).fixed_point

    _run(work)


def test_a_program_with_an_event_loop_is_told_what_to_use() -> None:
    async def nothing() -> int:
        return 7

    assert run(nothing()) == 7

    async def inside() -> None:
        with pytest.raises(UsageError, match="connect"):
            run(nothing())

    asyncio.run(inside())
