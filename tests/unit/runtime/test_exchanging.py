"""What a lace does with another one: the operations of Lace-050 and its three examples, over real stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.datalog.limits import Limits as ProgramLimits
from bobbin.errors import UsageError
from bobbin.interlace.effects import Effect, SaveCursor, Send
from bobbin.interlace.events import Event, Persisted, Received
from bobbin.interlace.limits import Limits
from bobbin.interlace.messages import Advertise, Message, Request, Setup, Transfer
from bobbin.lace import Lace
from bobbin.policy.executables import BUDGETS, Budgets
from bobbin.policy.modules import compile_selector, deny_all_selector
from bobbin.records.record import Seal
from bobbin.runtime import operations
from tests.lace_pairs import names, two_laces
from tests.local_exchanges import ALICE, ALL, EVE, EVIDENCE, GROUP_U, LINKS, member, plex, sealed


@pytest.fixture
def laces(tmp_path: Path) -> Iterator[tuple[Lace, Lace]]:
    with two_laces(tmp_path) as pair:
        yield pair


class Overheard:
    """Everything that our side says and hears."""

    def __init__(self) -> None:
        self.said: list[Message] = []
        self.heard: list[Message] = []
        self.order: list[str] = []
        self.saved: SaveCursor | None = None

    def observe(self, event: Event, effects: tuple[Effect, ...]) -> None:
        if isinstance(event, Received):
            self.heard.append(event.message)
        if isinstance(event, Persisted):
            self.order.append("stored")
        for effect in effects:
            if isinstance(effect, Send):
                self.said.append(effect.message)
            if isinstance(effect, SaveCursor):
                self.saved = effect
                self.order.append("cursor")


# ---- the examples ---------------------------------------------------------------------------------------------------


def test_first_follow(laces: tuple[Lace, Lace]) -> None:
    """IL-290…IL-293: what lies under links/ comes, all of it, once, stored before the cursor; nothing else moves."""
    app, server = laces
    wanted = [server.put_record(plex(f"links/{number}", b"x" * number)) for number in range(300)]
    held = [app.put_record(plex(f"links/{number}", b"x" * number)) for number in range(5)]
    others = [
        server.put_record(plex("notes/1")),
        server.put_record(plex("links/1", group="w")),
        server.put_record(plex("links/1", app="other")),
    ]
    overheard = Overheard()
    report = app.sync(server, LINKS, observers=[overheard.observe], through_codec=True)
    assert report.fixed_point
    assert report.received == set(wanted) - set(held), "every partition was looked at, and nothing held was asked for"
    assert set(wanted) <= names(app)
    assert names(app).isdisjoint(others)
    asked = [record for message in overheard.said if isinstance(message, Request) for record in message.records]
    assert sorted(asked) == sorted(set(wanted) - set(held))
    assert overheard.order.index("stored") < overheard.order.index("cursor") == len(overheard.order) - 1
    assert overheard.saved is not None
    assert {one.record for one in overheard.saved.cursor.advertisements} == set(wanted)
    again = app.sync(server, LINKS)
    assert (again.fixed_point, again.received, again.iterations) == (True, frozenset(), 1)


def test_a_record_that_was_withdrawn_is_not_sent(laces: tuple[Lace, Lace]) -> None:
    """IL-292, IL-296: between the request and the answer the server removes a record."""
    app, server = laces
    kept, gone = server.put_record(plex("links/1")), server.put_record(plex("links/2"))

    def remove(event: Event, effects: tuple[Effect, ...]) -> None:
        del event
        if any(isinstance(effect, Send) and isinstance(effect.message, Request) for effect in effects):
            server.remove(gone, reason="withdrawn")

    report = app.sync(server, LINKS, observers=[remove])
    assert report.received == {kept}
    assert report.not_available == {gone}
    assert report.fixed_point


def test_store_one_local_record(laces: tuple[Lace, Lace]) -> None:
    """IL-250, IL-294…IL-296: exactly the record is offered, and the server takes it by its own policy."""
    app, server = laces
    other = app.put_record(plex("links/other"))
    record = plex("links/1", b"hello")
    placed = app.store_to(server, [record], peer_policy=GROUP_U)
    assert placed.stored == {record.hash}
    assert not placed.not_taken
    assert record.hash in names(app), "its bytes are local first"
    assert names(server) == {record.hash}
    assert placed.report.disclosure.advertised == {record.hash}
    assert other not in names(server)
    again = app.store_to(server, [record.hash], peer_policy=GROUP_U)
    assert again.there_already == {record.hash}
    assert not again.stored


def test_a_server_whose_policy_does_not_select_a_record_does_not_get_it(laces: tuple[Lace, Lace]) -> None:
    """IL-250, IL-295: neither advertised nor requested where a predicate fails."""
    app, server = laces
    record = plex("links/1", group="private")
    placed = app.store_to(server, [record], peer_policy=GROUP_U)
    assert placed.not_taken == {record.hash}
    assert placed.report.fixed_point
    assert placed.report.disclosure.advertised == frozenset()
    own = app.store_to(server, [plex("links/2")], peer_policy=GROUP_U, policy=LINKS.replace("links/", "notes/"))
    assert len(own.not_taken) == 1, "the policy of this side has its say too"
    assert names(server) == set()


def test_evidence_closure(laces: tuple[Lace, Lace]) -> None:
    """IL-297, IL-299: the members come first, and with them what they have signed; a claim is no evidence."""
    app, server = laces
    compile_selector(EVIDENCE)
    proof = server.put_record(member(ALICE))
    letters = [server.put_record(sealed(f"letter/{number}", by=ALICE)) for number in range(3)]
    stranger = server.put_record(sealed("letter/x", by=EVE))
    report = app.sync(server, EVIDENCE)
    assert report.received == {proof, *letters}
    assert report.iterations >= 3, "a loop for the member, one for the letters, one that finds nothing more"
    assert stranger not in names(app)
    without = server.remove(proof, reason="left")
    assert without
    with two_laces(app.path.parent / "second") as (second, _):
        assert second.sync(server, EVIDENCE).received == frozenset(), "no evidence, no letters"


def test_evidence_that_the_peer_may_not_see_has_no_effect_there(laces: tuple[Lace, Lace]) -> None:
    """IL-298: the server's query policy hides the member, so the app's rules do not find it there."""
    app, server = laces
    server.put_record(member(ALICE))
    letter = server.put_record(sealed("letter/1", by=ALICE))
    app.put_record(member(ALICE))
    hidden = "Queryable(P,O) :- OwnSelected(P), Viewer(O), Field(P,'App',_,'ding').\n"
    assert app.sync(server, EVIDENCE, peer_query_policy=hidden).received == frozenset()
    assert app.sync(server, EVIDENCE).received == {letter}


# ---- operations -----------------------------------------------------------------------------------------------------


def test_one_policy_is_all_that_an_exchange_asks_for(laces: tuple[Lace, Lace]) -> None:
    """IL-011: the caller says which records the exchange is about, and nothing of directions."""
    app, server = laces
    mine, theirs = app.put_record(plex("a")), server.put_record(plex("b"))
    report = app.sync(server, GROUP_U)
    assert report.sent == {mine}
    assert report.received == {theirs}
    assert names(app) == names(server)


def test_get_one_record(laces: tuple[Lace, Lace]) -> None:
    """IL-248: by hash or by place; its constraint holds for the call only, nothing else moves, nothing is sent."""
    app, server = laces
    old, new = plex("links/1", b"old"), plex("links/1", b"new", tai=5)
    for record in (old, new, plex("links/2")):
        server.put_record(record)
    mine = app.put_record(plex("links/1", b"mine", tai=1))
    got = app.get_from(server, old.hash, peer_policy=ALL)
    assert got.record == old
    assert names(app) == {old.hash, mine}
    got = app.get_from(server, "//u//ding//links/1", peer_policy=ALL)
    assert got.record == new, "the newest"
    assert names(app) == {old.hash, new.hash, mine}
    assert names(server).isdisjoint({mine})
    assert got.report.fixed_point, "the exchange is over"
    assert app.get_from(server, "//u//ding//nothing", peer_policy=ALL).record is None
    assert app.get_from(server, plex("links/2").hash, peer_policy=LINKS, policy=GROUP_U).record is not None
    assert app.get_from(server, old.hash, peer_policy=deny_all_selector()).report.received == frozenset()
    with pytest.raises(UsageError, match="list them"):
        app.get_from(server, "//u//ding//", peer_policy=ALL)
    with pytest.raises(UsageError):
        app.get_from(server, "nonsense", peer_policy=ALL)


def test_list_records(laces: tuple[Lace, Lace]) -> None:
    """IL-249: the same selection as for one, with many results."""
    app, server = laces
    wanted = [server.put_record(plex(f"links/{number}")) for number in range(4)]
    server.put_record(plex("notes/1"))
    listing = app.list_from(server, "//u//ding//links/", peer_policy=ALL)
    assert {listed.hash for listed in listing.records} == set(wanted) == names(app)
    at_one = app.list_from(server, "//u//ding//notes/1", peer_policy=ALL)
    assert [listed.name for listed in at_one.records] == ["notes/1"]
    assert len(app.list_from(server, "//u//", peer_policy=ALL).records) == 5
    with pytest.raises(UsageError, match="get it"):
        app.list_from(server, f"////{wanted[0]}", peer_policy=ALL)


def test_an_operation_is_the_plain_exchange_with_its_operands(tmp_path: Path) -> None:
    """IL-244…IL-246: the same messages and the same end as an exchange under the policy that it is made of."""
    place = "//u//ding//links/"
    ends = []
    for way in ("operation", "plain"):
        with two_laces(tmp_path / way) as (app, server):
            for number in range(6):
                server.put_record(plex(f"links/{number}"))
            server.put_record(plex("notes/1"))
            if way == "operation":
                report = app.list_from(server, place, peer_policy=ALL).report
            else:
                parsed = operations.place_of(place)
                report = app.sync(server, operations.at(parsed), peer_policy=ALL, query_policy="")
            figures = {phase: figure.messages for phase, figure in report.figures.items()}
            ends.append((names(app), names(server), report.received, report.disclosure.modules, figures))
    assert ends[0] == ends[1]


def test_what_an_operation_is_about_is_in_the_operand_before_setup(laces: tuple[Lace, Lace]) -> None:
    """IL-245, IL-246: the module that goes out names the record; the messages are those of every exchange."""
    app, server = laces
    record = plex("links/1")
    overheard = Overheard()
    app.put_record(record)
    app.sync(server, operations.only([record.hash]), peer_policy=GROUP_U, observers=[overheard.observe])
    first = overheard.said[0]
    assert isinstance(first, Setup)
    assert record.hash.encode() in (first.module or b"")
    assert {type(message).__name__ for message in overheard.said} == {
        "Setup",
        "Hello",
        "Advertise",
        "Request",
        "Transfer",
    }
    heard = {record for message in overheard.heard if isinstance(message, Request) for record in message.records}
    assert heard == {record.hash}
    assert any(isinstance(message, Transfer) for message in overheard.said)
    assert all(not message.lists for message in overheard.said if isinstance(message, Advertise))


def test_records_that_are_not_here_cannot_be_stored_there(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    with pytest.raises(UsageError, match="not stored here"):
        app.store_to(server, [plex("x").hash], peer_policy=ALL)


# ---- rehearsal, rounds ----------------------------------------------------------------------------------------------


def test_a_dry_run_gives_the_answer_and_changes_nothing(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    app.put_record(plex("a"))
    server.put_record(plex("b"))
    before = names(app), names(server), app.store.kept("cursor", "x"), app.stat(), server.stat()
    rehearsed = app.sync(server, GROUP_U, dry_run=True)
    assert (names(app), names(server), app.store.kept("cursor", "x"), app.stat(), server.stat()) == before
    real = app.sync(server, GROUP_U)
    assert (rehearsed.received, rehearsed.sent) == (real.received, real.sent)
    assert rehearsed.result.link == real.result.link, "the copies speak with the keys of the laces"
    for wish in ({"statement": True}, {"receipts": True}):
        with pytest.raises(UsageError, match="dry run"):
            app.sync(server, GROUP_U, dry_run=True, **wish)  # type: ignore[arg-type]


def test_rounds_go_on_after_a_limit(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    wanted = {server.put_record(plex(f"links/{number}", b"x" * 200)) for number in range(6)}
    limits = Limits(max_total_transferred_bytes=1_000)
    first = app.sync(server, GROUP_U, limits=limits)
    assert not first.fixed_point
    assert 0 < len(first.received) < 6
    rest = app.sync(server, GROUP_U, limits=limits, rounds=10)
    assert rest.fixed_point
    assert 1 < len(rest.rounds) < 10
    assert first.received | rest.received == wanted
    assert len(first.received) + sum(len(one.received) for one in rest.rounds) == 6


def test_rounds_end_where_nothing_moves(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    server.put_record(plex("links/1", b"x" * 2_000))
    report = app.sync(server, GROUP_U, limits=Limits(max_total_transferred_bytes=1_000), rounds=10)
    assert len(report.rounds) == 1
    assert not report.fixed_point


# ---- who is who -----------------------------------------------------------------------------------------------------


def test_laces_without_keys_exchange_without_names(tmp_path: Path) -> None:
    with two_laces(tmp_path, keys=False) as (app, server):
        server.put_record(plex("a"))
        report = app.sync(server, GROUP_U)
        assert report.received
        assert report.result.link is None
        assert app.sync(server, GROUP_U).iterations == 1
        for wish in ({"statement": True}, {"receipts": True}):
            with pytest.raises(UsageError, match="key"):
                app.sync(server, GROUP_U, **wish)  # type: ignore[arg-type]


def test_a_lace_has_nothing_to_exchange_with_itself(laces: tuple[Lace, Lace]) -> None:
    with pytest.raises(UsageError, match="itself"):
        laces[0].sync(laces[0], GROUP_U)


# ---- what is said afterwards ----------------------------------------------------------------------------------------


def test_receipts_for_what_came_and_is_stored(laces: tuple[Lace, Lace]) -> None:
    """IL-252…IL-255: a Seal of the receiver for each record; the exchange is the same without them."""
    app, server = laces
    came = [server.put_record(plex(f"links/{number}")) for number in range(2)]
    app.put_record(plex("mine"))
    report = app.sync(server, GROUP_U, receipts=True)
    assert report.received == set(came)
    receipts = [app.get(name) for name in report.receipts]
    assert len(receipts) == 2
    for receipt in receipts:
        assert isinstance(receipt, Seal)
        assert receipt.verifier == app.key().verifier
        assert dict(receipt.extras)["Stored-From"] == server.key().verifier
        assert dict(receipt.extras)["Stored-Hash"] in came
        assert receipt.name == f"store/{dict(receipt.extras)['Stored-Hash']}"
    assert app.sync(server, GROUP_U, receipts=True).receipts == ()
    assert names(server).isdisjoint(report.receipts), "no policy selects them, so they stay"


def test_receipts_and_statements_never_breed(laces: tuple[Lace, Lace]) -> None:
    """ILC-148: policies that select everything come to rest, with receipts and statements on both sides."""
    app, server = laces
    server.put_record(plex("a"))
    counts = []
    for _ in range(4):
        app.sync(server, ALL, receipts=True, statement=True)
        server.sync(app, ALL, receipts=True, statement=True)
        counts.append((len(names(app)), len(names(server))))
    assert counts[1][0] == counts[1][1] or counts[2][0] == counts[2][1]
    last = app.sync(server, ALL, receipts=True)
    assert last.receipts == ()
    moved = [app.sync(server, ALL, statement=True).statement, server.sync(app, ALL, statement=True).statement]
    assert moved == [None, None], "what both have said still stands"


def test_a_statement_is_stored_and_holds(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    server.put_record(plex("a"))
    report = app.sync(server, GROUP_U, statement=True)
    assert report.statement is not None
    check = app.check_statement(report.statement, policy=GROUP_U)
    assert check.holds
    assert check.as_issuer
    with pytest.raises(UsageError, match="not stored here"):
        server.check_statement(report.statement, policy=GROUP_U)
    with pytest.raises(UsageError, match="no completion statement"):
        app.check_statement(plex("a").hash, policy=GROUP_U)


def test_no_statement_where_a_limit_ended_it(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    server.put_record(plex("links/1", b"x" * 2_000))
    report = app.sync(server, GROUP_U, limits=Limits(max_total_transferred_bytes=1_000), statement=True)
    assert report.statement is None


# ---- why ------------------------------------------------------------------------------------------------------------


def test_what_was_removed_on_either_side_is_named_with_its_reason_and_place(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    mine, theirs = app.put_record(plex("links/mine")), server.put_record(plex("links/theirs"))
    elsewhere = server.put_record(plex("x", group="private"))
    for record in (theirs, elsewhere):
        app.remove(record, reason="not for us")
    server.remove(mine, reason="not for them")
    report = app.sync(server, GROUP_U, explain=[mine, theirs])
    assert (report.fixed_point, report.received, report.sent) == (True, frozenset(), frozenset())
    assert report.refused == {theirs: "not for us"}, "the other one no policy would have let in"
    assert report.refused_there == {mine: "not for them"}
    assert set(report.places) == {mine, theirs}
    assert all(place.endswith(("//links/mine", "//links/theirs")) for place in report.places.values())
    ours, other = (one.fate for one in report.explained)
    assert "removed on the other side and is refused there (not for them)" in ours
    assert "removed here and is refused (not for us)" in other


def test_budgets_of_rules_hold_for_one_exchange(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    for number in range(4):
        server.put_record(plex(f"links/{number}"))
    tight = Budgets(peer=ProgramLimits(derived_tuples_max=2))
    stopped = app.sync(server, GROUP_U, budgets=tight)
    assert not stopped.fixed_point
    assert "derive more than 2 tuples" in stopped.result.detail + stopped.peer_rounds[-1].detail
    assert app.sync(server, GROUP_U).fixed_point
    assert app.sync(server, GROUP_U, budgets=BUDGETS["large"]).fixed_point


def test_explanations_of_both_sides(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    came, hidden = server.put_record(plex("a")), server.put_record(plex("b", group="private"))
    mine = app.put_record(plex("c"))
    report = app.sync(server, GROUP_U, explain=[came, hidden, mine])
    fates = {one.record: one.fate for one in report.explained}
    assert fates == {came: "received", hidden: "not moved", mine: "sent"}
    verdicts = {one.record: one for one in report.explained}
    holders = {one.record: (one.held, one.held_there) for one in report.explained}
    assert holders == {came: (True, True), hidden: (False, True), mine: (True, True)}
    unknown = app.sync(server, GROUP_U, explain=[plex("d").hash]).explained[0]
    assert (unknown.fate, unknown.is_known) == ("not moved", False)
    there = {record: one.peer for record, one in verdicts.items() if one.peer is not None}
    assert there[hidden].sending == "withheld"
    assert there[came].sending == "sent"
    assert verdicts[came].own.to_request[0].holds, "the peer still advertises it"


def test_what_is_no_lace_no_policy_or_no_limits_is_refused_with_a_sentence(laces: tuple[Lace, Lace]) -> None:
    here, there = laces
    with pytest.raises(UsageError, match=r"Lace\.open"):
        here.sync("there.lace", ALL)
    with pytest.raises(UsageError, match="text of rules"):
        here.sync(there, Path("a.policy"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="LARGE"):
        here.sync(there, ALL, limits="large")  # type: ignore[arg-type]


# ---- peers elsewhere ------------------------------------------------------------------------------------------------


def test_what_only_a_peer_in_this_process_can_be_asked(laces: tuple[Lace, Lace]) -> None:
    app, server = laces
    record = server.put_record(plex("links/1"))
    with pytest.raises(UsageError, match="needs a policy"):
        app.sync(server)
    for ask in (
        lambda: app.get_from(server, record),
        lambda: app.list_from(server, "//u//ding//links/"),
        lambda: app.store_to(server, [plex("links/2")]),
    ):
        with pytest.raises(UsageError, match="peer_policy"):
            ask()
    assert names(app) <= {plex("links/2").hash}


def test_what_a_peer_elsewhere_cannot_be_asked(laces: tuple[Lace, Lace]) -> None:
    app, _ = laces
    where = "unix:/nowhere"
    with pytest.raises(UsageError, match="its own affair"):
        app.sync(where, GROUP_U, peer_policy=GROUP_U)
    with pytest.raises(UsageError, match="its own affair"):
        app.sync(where, GROUP_U, through_codec=True)
    for ask in (
        lambda: app.get_from(where, "//u//ding//links/1", peer_policy=GROUP_U),
        lambda: app.list_from(where, "//u//ding//links/", peer_policy=GROUP_U),
        lambda: app.store_to(where, [plex("links/1")], peer_policy=GROUP_U),
    ):
        with pytest.raises(UsageError, match="its own policy"):
            ask()
    with pytest.raises(UsageError, match="connect"):
        app.follow(where, GROUP_U)  # type: ignore[arg-type]


def test_records_are_kept_before_they_are_handed_over(laces: tuple[Lace, Lace]) -> None:
    app, _ = laces
    here = app.put_record(plex("links/1"))
    assert app.keep([here, plex("links/2")]) == (here, plex("links/2").hash)
    assert app.have(plex("links/2").hash)
    with pytest.raises(UsageError, match="not stored here"):
        app.keep([plex("links/3").hash])
