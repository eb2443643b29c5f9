"""The account of an exchange: figures of several rounds, and what is known of a record from here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.records.coordinate import Coordinate
from bobbin.runtime import accounts
from bobbin.runtime.accounts import SyncReport
from bobbin.runtime.local_peer import Figure, Ran, run_local
from bobbin.runtime.operations import sides
from tests.lace_pairs import two_laces
from tests.local_exchanges import ALL, GROUP_U, Clock, plex


@pytest.fixture
def laces(tmp_path: Path) -> Iterator[tuple[Lace, Lace]]:
    with two_laces(tmp_path) as both:
        yield both


def _ran(app: Lace, server: Lace, rules: str = GROUP_U) -> tuple[Ran, SyncReport]:
    with sides(app.participant(rules), server.participant(rules)) as (left, right):
        ran = run_local(left, right, clock=Clock())
        report = accounts.account([ran.own], [ran.peer], [ran.figures], describe=left.holdings.describe)
    return ran, report


def test_figures_of_rounds_are_added(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    server.put_record(plex("links/1"))
    ran, _ = _ran(app, server)
    figures = [
        {"setup": Figure(messages=2, bytes=10)},
        {"setup": Figure(messages=2, bytes=5), "hello": Figure(messages=1)},
    ]
    with sides(app.participant(GROUP_U), server.participant(GROUP_U)) as (left, _):
        report = accounts.account([ran.own, ran.own], (), figures, describe=left.holdings.describe)
    assert report.figures == {"setup": Figure(messages=4, bytes=15), "hello": Figure(messages=1)}
    assert (len(report.rounds), report.peer_rounds) == (2, ())


def test_only_what_was_looked_for_is_claimed(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    here, there = app.put_record(plex("links/1")), server.put_record(plex("links/2"))
    ran, report = _ran(app, server)
    assert report.claimed == frozenset()
    with sides(app.participant(GROUP_U), server.participant(GROUP_U)) as (left, _):
        looked = accounts.account(
            [ran.own], (), [], describe=left.holdings.describe, look_for=[here, there, plex("links/3").hash]
        )
    assert looked.claimed == {here, there}


def test_a_peer_elsewhere_is_seen_from_here(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    offered = app.put_record(plex("links/1"))
    ran, report = _ran(app, server)
    unknown = plex("links/9").hash
    one, two = (
        accounts.explained(record, report, own=(ran.own, app.store), peer=None) for record in (offered, unknown)
    )
    assert (one.fate, one.held, one.held_there, one.peer) == ("sent", True, True, None)
    assert (two.fate, two.held, two.held_there, two.is_known) == ("not moved", False, None, False)
    assert "does not advertise it" in two.remark


def test_an_offer_that_is_not_answered_leaves_the_question_open(laces: tuple[Lace, Lace]) -> None:
    """The peer removed the record on purpose: it is offered, not requested, and not advertised."""
    app, server = laces
    offered = app.put_record(plex("links/1"))
    server.remove(offered, reason="not for us")
    ran, report = _ran(app, server)
    one = accounts.explained(offered, report, own=(ran.own, app.store), peer=None)
    assert (one.held, one.held_there) == (True, None)
    assert "does not say whether it has it" in one.remark


def test_without_a_plan_nothing_is_explained(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    ran, report = _ran(app, server, ALL)
    books = ran.own
    without = type(books)(result=books.result, ledger=books.ledger, config=books.config, epoch=None)
    with pytest.raises(UsageError):
        accounts.explained("x", report, own=(without, app.store), peer=None)
    assert accounts.refused(app.store, None) == {}
    assert accounts.asked_about([], [_PLACE], None, app.store) == ()


_PLACE = Coordinate(group="u", app="ding", name="links/1")
_TELLING = """SelectHave(P) :- Have(P), Field(P,'Group',_,'u').
SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), AdvertisedField(P,S,'App',_,_),
    AdvertisedField(P,S,'Name',_,_).
"""
"""The peer has to tell where a record is."""


def test_what_a_peer_elsewhere_has_told_of_at_a_place(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    ours, theirs = plex("links/1", b"ours"), plex("links/1", b"theirs")
    server.put_record(theirs)
    server.put_record(plex("links/2"))
    app.put_record(ours)
    app.put_record(theirs)
    app.remove(theirs.hash, reason="not for us")
    ran, _ = _ran(app, server, _TELLING)
    assert ran.own.epoch is not None
    assert accounts.told_at(ran.own.epoch, app.store, _PLACE) == (theirs.hash, ours.hash), "ours has gone there"
    assert set(accounts.asked_about([], [_PLACE], ran.own.epoch, app.store)) == {ours.hash, theirs.hash}
    assert accounts.asked_about(["x"], [], ran.own.epoch, app.store) == ("x",)


def test_a_peer_elsewhere_that_does_not_tell_where_a_record_is(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    theirs = plex("links/1")
    server.put_record(theirs)
    app.put_record(theirs)
    app.remove(theirs.hash, reason="not for us")
    ran, _ = _ran(app, server)
    assert ran.own.epoch is not None
    assert theirs.hash in ran.own.epoch.learned
    assert accounts.told_at(ran.own.epoch, app.store, _PLACE) == ()
