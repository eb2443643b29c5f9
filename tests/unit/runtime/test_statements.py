"""Statements held against a store: what holds, what has changed since, and what is wrong."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from bobbin.errors import UsageError
from bobbin.interlace.statement import Summary, build_statement
from bobbin.lace import Lace
from bobbin.policy.modules import compile_selector, deny_all_query
from bobbin.records.ids import HashText
from bobbin.records.record import seal
from bobbin.runtime.statements import Stated, StatementCheck, check_statement, read_statement
from tests.lace_pairs import two_laces
from tests.local_exchanges import EVE, GROUP_U, LINKS, START_NS, plex, sealed

U, L = compile_selector(GROUP_U), compile_selector(LINKS)


@pytest.fixture
def laces(tmp_path: Path) -> Iterator[tuple[Lace, Lace]]:
    with two_laces(tmp_path) as (app, server):
        app.put_record(plex("links/1"))
        app.put_record(plex("x", group="private"))
        server.put_record(plex("links/2"))
        yield app, server


def stated(app: Lace, server: Lace, *, peer_policy: str | None = None) -> Stated:
    name = app.sync(server, GROUP_U, peer_policy=peer_policy, statement=True).statement
    assert name is not None
    record = app.get(name)
    assert record is not None
    return read_statement(record)


def check(lace: Lace, about: Stated, *, as_issuer: bool) -> StatementCheck:
    return check_statement(lace.store, about, own=U, peer=U, as_issuer=as_issuer)


def test_it_holds_on_both_sides(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    about = stated(app, server)
    for lace, as_issuer in ((app, True), (server, False)):
        found = check(lace, about, as_issuer=as_issuer)
        assert found.holds
        assert found.remarks == ()
        assert found.found == found.expected
        assert found.expected is not None
        assert found.expected.count == 2


def test_what_came_since_is_told_and_is_no_lie(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    about = stated(app, server)
    for number in range(3):
        app.put_record(plex(f"links/later/{number}"))
    app.put_record(plex("y", group="private"))
    found = check(app, about, as_issuer=True)
    assert found.holds
    assert found.remarks == ("since then 3 came in the selected set",)
    server.put_record(plex("links/later"))
    there = check(server, about, as_issuer=False)
    assert not there.holds, "nothing says what the peer had at that time"
    assert "this store has 1 more in the selected set" in there.problems[0]


def test_what_is_gone_is_missed(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    about = stated(app, server)
    app.remove(plex("links/1").hash, reason="test")
    found = check(app, about, as_issuer=True)
    assert "this store has 1 fewer" in found.problems[0]
    app.lift(plex("links/1").hash)
    app.put_record(plex("links/other"))
    again = check(app, about, as_issuer=True)
    assert not again.holds


def test_another_set_of_the_same_size_is_found(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    about = stated(app, server)
    forged = structs.replace(
        about,
        statement=structs.replace(about.statement, offered=Summary(count=2, digest=about.statement.claimed.digest)),
    )
    found = check(app, forged, as_issuer=True)
    assert "as many, but not the same" in found.problems[0]


def test_other_policies_are_named(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    about = stated(app, server, peer_policy=LINKS)
    assert check_statement(app.store, about, own=U, peer=L, as_issuer=True).holds
    wrong = check_statement(app.store, about, own=L, peer=U, as_issuer=True)
    assert len(wrong.problems) == 2
    assert U.identifier in wrong.problems[0]
    assert wrong.found is None
    hidden = check_statement(app.store, about, own=U, peer=L, query=deny_all_query(), as_issuer=True)
    assert not hidden.holds


def test_a_plan_that_does_not_follow_from_the_operands(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    about = stated(app, server)
    forged = structs.replace(about, statement=structs.replace(about.statement, plan="E.other"))
    assert "it names the plan E.other" in check(app, forged, as_issuer=True).problems[0]


def test_a_statement_that_somebody_else_has_sealed(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    about = stated(app, server)
    plain = build_statement(about.statement, tai_ns=START_NS)
    copied = read_statement(seal(plain, EVE, auxiliary=b"\x05" * 32))
    assert copied.signer == EVE.verifier
    assert "sealed by" in check(app, copied, as_issuer=True).problems[0]


def test_other_records_are_no_statements(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    about = stated(app, server)
    plain = build_statement(about.statement, tai_ns=START_NS)
    for record in (
        plain,
        sealed("x"),
        sealed("x", group="lace", app="receipt"),
        sealed("x", group="lace", app="statement"),
    ):
        with pytest.raises(UsageError, match="no completion statement"):
            read_statement(record)


def test_an_exchange_between_laces_without_names(tmp_path: Path) -> None:
    with two_laces(tmp_path, keys=False) as (app, server):
        app.new_key()
        server.put_record(plex("links/1"))
        about = stated(app, server)
        assert about.statement.link is None
        found = check(app, about, as_issuer=True)
        assert found.holds
        assert any("not remembered" in remark for remark in found.remarks)
        assert isinstance(about.record, str)
        assert HashText(about.record) == about.record
