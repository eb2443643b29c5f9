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
from bobbin.runtime.statements import Stated, StatementCheck, check_statement, read_statement, whose_store
from tests.lace_pairs import two_laces
from tests.local_exchanges import ALL, EVE, GROUP_U, LINKS, START_NS, plex, sealed

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


# ---- the last one, and where it cannot be checked --------------------------------------------------------------------


def test_an_idle_exchange_finds_the_statement_that_stands(laces: tuple[Lace, Lace]) -> None:
    """The policies select statements, so that each new one would be a reason for the next."""
    app, server = laces
    first = app.sync(server, ALL, statement=True)
    assert first.statement is not None
    for _ in range(3):
        again = app.sync(server, ALL, statement=True)
        assert (again.statement, again.standing_statement) == (None, first.statement)
    assert len(list(app.list("//lace//statement//"))) == 1


def test_it_no_longer_stands_when_something_else_came_or_went(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    made = [app.sync(server, ALL, statement=True).statement]
    server.put_record(plex("links/3"))
    app.sync(server, ALL)
    made.append(app.sync(server, ALL, statement=True).statement)
    for lace in laces:
        lace.remove(plex("links/1").hash, reason="test")
    made.append(app.sync(server, ALL, statement=True).statement)
    server.put_record(plex("links/1", b"as many as before, but not the same"))
    app.sync(server, ALL)
    made.append(app.sync(server, ALL, statement=True).statement)
    assert None not in made
    assert len(set(made)) == 4
    assert app.sync(server, ALL, statement=True).standing_statement == made[-1]


def test_the_statement_of_the_other_side_does_not_stand_for_ours(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    first = app.sync(server, ALL, statement=True).statement
    app.sync(server, ALL)
    theirs = server.sync(app, ALL, statement=True).statement
    assert theirs not in (None, first)
    app.sync(server, ALL)
    assert app.sync(server, ALL, statement=True).standing_statement == first
    assert server.sync(app, ALL, statement=True).standing_statement == theirs


def test_one_under_another_policy_does_not_stand(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    first = app.sync(server, GROUP_U, statement=True).statement
    other = app.sync(server, LINKS, statement=True)
    assert other.statement not in (None, first)
    assert app.sync(server, GROUP_U, statement=True).standing_statement == first, "each plan has its own"


def test_a_peer_that_has_the_statement_is_looked_at_as_it_was_before(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    name = app.sync(server, ALL, statement=True).statement
    app.sync(server, ALL)
    server.put_record(plex("links/later"))
    assert name is not None
    found = server.check_statement(name, policy=ALL)
    assert (found.holds, found.as_issuer) == (True, False)
    assert found.remarks == ("since then 2 came in the selected set",)


def test_a_lace_of_neither_side_cannot_say_what_was_offered(laces: tuple[Lace, Lace], tmp_path: Path) -> None:
    app, server = laces
    name = app.sync(server, ALL, statement=True).statement
    assert name is not None
    with Lace.create(tmp_path / "third.lace") as third:
        third.new_key()
        third.sync(app, ALL)
        found = third.check_statement(name, policy=ALL)
        assert (found.as_issuer, found.holds, found.is_open, found.problems) == (None, False, True, ())
        assert (found.expected, found.found) == (None, None)
        wrong = third.check_statement(name, policy=GROUP_U)
        assert (wrong.is_open, wrong.holds) == (False, False)
        assert U.identifier in wrong.problems[0]
        assert third.check_statement(name, policy=ALL, as_issuer=False).as_issuer is False, "whoever knows, says so"


def test_in_a_third_lace_either_policy_may_come_first(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    about = stated(app, server, peer_policy=LINKS)
    for pair in ((U, L), (L, U)):
        assert check_statement(app.store, about, own=pair[0], peer=pair[1], as_issuer=None).is_open
    assert not check_statement(app.store, about, own=U, peer=U, as_issuer=None).is_open


def test_whose_store_it_is(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    about = stated(app, server)
    assert whose_store(about, [EVE.verifier, app.key().verifier]) is True
    assert whose_store(about, [server.key().verifier]) is False
    assert whose_store(about, [EVE.verifier]) is None
    assert whose_store(about, []) is None
