"""Open interlace: the stream of what comes, by a rule of this side alone."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.policy.modules import compile_selector
from bobbin.records.coordinate import Address, Coordinate, Prefix
from bobbin.records.record import Record, build_blob
from bobbin.runtime.following import Following, ObservationsMissed, follow, matches_place, result_rule
from tests.lace_pairs import names, two_laces
from tests.local_exchanges import ALL, GROUP_U, LINKS, plex, sealed

SECONDS = 20.0
"""Far longer than anything here takes; a test that waits so long has failed."""


@pytest.fixture
def laces(tmp_path: Path) -> Iterator[tuple[Lace, Lace]]:
    with two_laces(tmp_path) as pair:
        yield pair


async def take(following: Following, count: int) -> list[Record]:
    async with asyncio.timeout(SECONDS):
        return [await anext(following) for _ in range(count)]


async def reach(lace: Lace, record: str) -> None:
    """Wait until a lace has a record."""
    async with asyncio.timeout(SECONDS):
        while not lace.have(record):  # noqa: ASYNC110 -- a store has no event to wait for
            await asyncio.sleep(0.01)


def test_matching_records_are_observed_when_they_are_stored(laces: tuple[Lace, Lace]) -> None:
    """IL-247: those of before and those of later, each once, stored by then; others come without a word."""
    app, server = laces
    before = server.put_record(plex("links/1"))
    server.put_record(plex("other"))

    async def run() -> None:
        async with app.follow(server, GROUP_U, matching="//u//ding//links/") as following:
            assert [record.hash for record in await take(following, 1)] == [before]
            unheard = server.put_record(plex("notes/2"))
            later = [server.put_record(plex(f"links/{number}")) for number in (2, 3)]
            observed = await take(following, 2)
            assert sorted(record.hash for record in observed) == sorted(later)
            assert all(app.have(record.hash) for record in observed)
            await reach(app, unheard)
        with pytest.raises(StopAsyncIteration):
            await anext(following)

    asyncio.run(run())
    assert len(names(app)) == 5


def test_a_function_can_be_the_rule(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    server.put_record(plex("a", b"no"))
    wanted = server.put_record(plex("b", b"yes"))

    async def run() -> list[Record]:
        async with app.follow(server, GROUP_U, matching=lambda record: record.data == b"yes") as following:
            return await take(following, 1)

    assert [record.hash for record in asyncio.run(run())] == [wanted]


def test_the_peer_gets_what_is_put_here_and_cannot_tell_who_observes(laces: tuple[Lace, Lace]) -> None:
    """IL-251: the same ends with a rule that matches all and with one that matches nothing."""
    app, server = laces

    async def run(rule: bool) -> None:  # noqa: FBT001
        async with app.follow(server, GROUP_U, matching=lambda record: rule and bool(record.hash)):
            mine = app.put_record(plex(f"mine/{rule}"))
            theirs = server.put_record(plex(f"theirs/{rule}"))
            await reach(server, mine)
            await reach(app, theirs)

    asyncio.run(run(rule=True))
    asyncio.run(run(rule=False))
    assert names(app) == names(server)
    assert len(names(app)) == 4


def test_another_policy_while_it_is_open(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    first, second = server.put_record(plex("links/1")), server.put_record(plex("notes/1"))

    async def run() -> None:
        async with app.follow(server, LINKS, peer_policy=GROUP_U) as following:
            assert [record.hash for record in await take(following, 1)] == [first]
            assert not app.have(second)
            following.change_policy(compile_selector(GROUP_U))
            assert [record.hash for record in await take(following, 1)] == [second]

    asyncio.run(run())


def test_what_is_not_taken_in_time_is_counted(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    sent = [server.put_record(plex(f"{number}")) for number in range(5)]

    async def run() -> None:
        sides = app.participant(ALL), server.participant(ALL)
        async with follow(*sides, matches=lambda _: True, waiting_max=2) as following:
            for record in sent:
                await reach(app, record)
            taken = await take(following, 2)
            assert {record.hash for record in taken} <= set(sent)
            with pytest.raises(ObservationsMissed) as missed:
                await take(following, 1)
            assert missed.value.count == 3
            server.put_record(plex("again"))
            assert len(await take(following, 1)) == 1, "and it goes on"

    asyncio.run(run())


def test_closing_returns_how_it_ended_and_closed_is_closed(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    record = server.put_record(plex("a"))

    async def run() -> None:
        following = app.follow(server, GROUP_U)
        assert await following.close() is None, "it was never open"
        async with following:
            await take(following, 1)
            result = await following.close()
            assert result is not None
            assert await following.close() is None
        with pytest.raises(UsageError, match="not open"):
            following.change_policy(compile_selector(GROUP_U))

    asyncio.run(run())
    assert app.have(record)


RECORDS: list[Record] = [
    plex("links/1"),
    sealed("links/1"),
    plex("links"),
    plex("links/1", app="other"),
    plex("links/1", group="w"),
    build_blob(b"x"),
]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (Coordinate(group="u", app="ding", name="links/1"), [0, 1]),
        (Prefix(group="u", app="ding", name="links/"), [0, 1]),
        (Prefix(group="u", app="ding"), [0, 1, 2]),
        (Prefix(group="u"), [0, 1, 2, 3]),
    ],
)
def test_places_as_rules(place: Coordinate | Prefix, expected: list[int]) -> None:
    for rule in (matches_place(place), result_rule(place)):
        assert [number for number, record in enumerate(RECORDS) if rule(record)] == expected


def test_other_rules() -> None:
    assert all(map(result_rule(None), RECORDS))
    only = result_rule(Address(hash=RECORDS[5].hash))
    assert [number for number, record in enumerate(RECORDS) if only(record)] == [5]
