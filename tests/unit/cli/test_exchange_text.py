"""The account of an exchange: its words, its JSON and its exit code."""

from pathlib import Path

import pytest
from msgspec import structs

from bobbin.cli import exchange_text
from bobbin.cli.exit_codes import ExitCode, of_error
from bobbin.cli.output import Output
from bobbin.interlace.ledger import Difference, Disclosure, Honesty
from bobbin.interlace.limits import Limits
from bobbin.interlace.reasons import Reason
from bobbin.interlace.result import Result
from bobbin.interlace.schema import Schema
from bobbin.policy.decide import evaluate
from bobbin.policy.verdict import explain
from bobbin.runtime.accounts import Agreed, Explained, SyncReport
from bobbin.runtime.local_peer import Figure
from tests.policy_worlds import DING, plex, policy, situation, stored

_NO_FAULT = (ExitCode.OK, ExitCode.NOT_ALL)


def result(**changes: object) -> Result:
    return Result(link=None, plan=None, peer=None, **changes)  # type: ignore[arg-type]


def report(*rounds: Result, there: Result | None = None, honesty: Honesty | None = None) -> SyncReport:
    return SyncReport(
        rounds=rounds,
        peer_rounds=(there or result(fixed_point=True),),
        figures={"setup": Figure(messages=2)},
        agreed=None,
        claimed=frozenset(),
        disclosure=Disclosure(
            modules=(), advertised=frozenset(), fields=frozenset(), summaries=0, requested=frozenset(), sent=frozenset()
        ),
        honesty=honesty or Honesty(received=0, differing={}, never_served=frozenset(), rejected=frozenset()),
    )


DONE = result(fixed_point=True, iterations=1)
AGREED = Agreed(
    plan="E.x",
    link=None,
    peer=None,
    start_tai="1:0",
    tick_tai="1:0",
    clock_skew_seconds=0,
    formats=frozenset({"H3"}),
    schema=Schema(),
    limits=Limits(),
    offered=1,
    claimed=0,
)


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (report(DONE), ExitCode.OK),
        (report(result(fixed_point=True, rejected={"a": "why"})), ExitCode.NOT_ALL),
        (report(result(fixed_point=True, not_available=frozenset("a"))), ExitCode.NOT_ALL),
        (report(DONE, there=result(fixed_point=True, rejected={"a": "why"})), ExitCode.NOT_ALL),
        (report(result(reason=Reason.TRANSFER_LIMIT, limit="max_total_transferred_bytes")), ExitCode.NOT_ALL),
        (report(result(reason=Reason.CANCELLED)), ExitCode.NOT_ALL),
        (report(result(reason=Reason.EVALUATION)), ExitCode.PROGRAM),
        (report(result(reason=Reason.STORE)), ExitCode.RESOURCE),
        (report(result(reason=Reason.PHASE_TIMEOUT)), ExitCode.TRY_AGAIN),
        (report(result(reason=Reason.MALFORMED_BLOCK)), ExitCode.PEER),
        (report(result(reason=Reason.LINK_LOST), there=result(fixed_point=True)), ExitCode.TRY_AGAIN),
        (report(result(reason=Reason.LINK_LOST), there=result(reason=Reason.EVALUATION)), ExitCode.PROGRAM),
    ],
)
def test_every_end_has_its_code(told: SyncReport, code: ExitCode) -> None:
    assert exchange_text.code_of(told) is code
    error = exchange_text.error_of(told)
    assert (None if error is None else of_error(error)) == (None if code in _NO_FAULT else code)


def lines(told: SyncReport) -> list[str]:
    return list(exchange_text.account(Output(as_json=False), told))


def test_a_sketch_that_was_given_up_has_a_line() -> None:
    told = report(result(fixed_point=True, strategies=("partitions", "equal"), fallbacks=("symbols of no use",)))
    (line,) = [one for one in lines(told) if one.startswith("fell back")]
    assert line.endswith("to telling it plainly: symbols of no use")
    value = exchange_text.value_of(told)
    assert value["strategies"] == ["partitions", "equal"]
    assert value["fallbacks"] == ["symbols of no use"]
    assert not any(one.startswith("fell back") for one in lines(report(DONE)))


def test_where_digests_came_from_has_a_line() -> None:
    found = "advertisements/0123456789abcdef, manifest 1"
    told = structs.replace(report(DONE), agreed=structs.replace(AGREED, built=found))
    assert f"digests from   {found}" in lines(told)
    assert exchange_text.value_of(told)["digests"] == found
    assert not any(one.startswith("digests from") for one in lines(report(DONE)))
    assert exchange_text.value_of(report(DONE))["digests"] is None


def test_how_the_sides_found_out_what_the_other_offers_has_a_line() -> None:
    (line,) = [one for one in lines(report(result(strategies=("sketch", "equal")))) if one.startswith("found out")]
    assert line == "found out by   sketch, equal"
    for ways in ((), ("direct", "direct")):
        assert not any(one.startswith("found out") for one in lines(report(result(strategies=ways))))


def test_what_did_not_come_is_listed_up_to_a_bound() -> None:
    many = {f"P.{number:03d}.H3": "blob-digest" for number in range(25)}
    shown = lines(report(result(fixed_point=True, rejected=many, iterations=1)))
    assert "rejected       25 records" in shown
    assert "  P.000.H3  blob-digest" in shown
    assert "  … 5 more; --json lists all" in shown
    assert "P.024.H3" not in "".join(shown)
    assert exchange_text.value_of(report(result(rejected=many)))["rejected"] == many


def test_who_ended_it() -> None:
    ours = report(result(reason=Reason.MALFORMED_BLOCK, detail="line 1", iterations=1))
    assert lines(ours)[-1] == "ended early, malformed-fact-block: line 1 (1 iteration)"
    rules = report(result(reason=Reason.EVALUATION, detail="more than 9 steps", iterations=1))
    assert lines(rules)[-1].endswith("more than 9 steps (1 iteration). --limits large gives rules more room")
    theirs = report(result(reason=Reason.LINK_LOST), there=result(reason=Reason.STORE, detail="disk full"))
    assert "store-failure: the other side: disk full" in lines(theirs)[-1]
    assert exchange_text.value_of(theirs)["ended_by"] == "peer"
    told = report(result(reason=Reason.PEER_STORE, detail="it cannot", sent=frozenset("a"), iterations=1))
    assert lines(told)[-1] == (
        "ended early, peer-store-failure: it cannot (1 iteration). What it has stored stays; try again later, its "
        "owner can say when"
    )
    assert exchange_text.value_of(told)["ended_by"] == "peer"
    assert exchange_text.code_of(told) is ExitCode.TRY_AGAIN
    assert exchange_text.value_of(ours)["ended_by"] == "here"


def test_rounds_are_told_one_by_one() -> None:
    first = result(iterations=2, limit="max_loop_iterations", received=frozenset("ab"))
    shown = lines(report(first, DONE))
    assert shown[-1].endswith("(2 rounds, 3 iterations)")
    assert shown[-2] == (
        "round 1        stopped at the limit max_loop_iterations (2 received, 0 sent); the next one went on"
    )
    for reason, words in (
        (Reason.LINK_LOST, "lost its link"),
        (Reason.PEER_STORE, "found that the peer could not store"),
    ):
        broken = lines(report(result(reason=reason, iterations=1), DONE))
        assert broken[-2] == f"round 1        {words} (0 received, 0 sent); the next one went on"


def test_claims_that_differ_are_shown() -> None:
    difference = Difference(name="Group", index="0", claimed="u", actual=None)
    told = report(
        DONE,
        honesty=Honesty(
            received=1, differing={"P.x.H3": (difference,)}, never_served=frozenset(), rejected=frozenset()
        ),
    )
    shown = list(exchange_text.ledger(Output(as_json=False), told))
    assert "    P.x.H3  Group: claimed 'u', is nothing" in shown
    value = exchange_text.ledger_value(told)["honesty"]
    assert isinstance(value, dict)
    assert value["differing"] == {"P.x.H3": [{"name": "Group", "index": "0", "claimed": "u", "actual": None}]}


def test_without_a_plan_there_is_no_state() -> None:
    assert list(exchange_text.state(Output(as_json=False), None)) == ["no plan was agreed"]
    assert exchange_text.state_value(None) is None


def test_what_was_not_taken_is_named_with_its_place_and_reason() -> None:
    told = structs.replace(
        report(DONE, there=result(fixed_point=True, not_available=frozenset({"P.c.H3"}))),
        refused={"P.a.H3": "wrong patient"},
        refused_there={"P.b.H3": "too old"},
        places={"P.a.H3": "//u//ding//1"},
    )
    shown = lines(told)
    at = shown.index("refused        1 record")
    assert shown[at + 1] == "  P.a.H3  //u//ding//1  removed: wrong patient"
    assert "  P.b.H3  removed: too old" in shown
    assert shown[shown.index("not served     1 record") + 1] == "  P.c.H3"
    value = exchange_text.value_of(told)
    assert (value["refused"], value["not_served"]) == ({"P.a.H3": "wrong patient"}, ["P.c.H3"])
    assert value["places"] == {"P.a.H3": "//u//ding//1"}
    assert exchange_text.code_of(told) is ExitCode.NOT_ALL, "something was not served"
    only_refused = structs.replace(report(DONE), refused={"P.a.H3": "wrong patient"})
    assert exchange_text.code_of(only_refused) is ExitCode.OK, "somebody wanted it so"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (report(DONE), []),
        (report(result(reason=Reason.STORE)), ["the store of this lace has failed; `bobbin fsck a.lace`"]),
        (
            report(result(reason=Reason.LINK_LOST), there=result(reason=Reason.STORE)),
            ["the store of the other lace has failed; `bobbin fsck b.lace`"],
        ),
        (report(DONE, there=result(fixed_point=True, rejected={"a": "blob-digest"})), ["this lace offered 1 record"]),
        (report(result(fixed_point=True, not_available=frozenset("ab"))), ["the other lace offered 2 records"]),
    ],
)
def test_a_store_at_fault_is_one_to_look_into(told: SyncReport, words: list[str]) -> None:
    hints = list(exchange_text.hints(told, Path("a.lace"), Path("b.lace")))
    assert len(hints) == len(words)
    assert all(hint.startswith(word) for hint, word in zip(hints, words, strict=True))


def test_a_replicated_lace_that_has_taken_nothing_is_not_taken_for_damaged(tmp_path: Path) -> None:
    (tmp_path / "b" / "cluster").mkdir(parents=True)
    told = report(result(reason=Reason.LINK_LOST), there=result(reason=Reason.STORE))
    (hint,) = exchange_text.hints(told, tmp_path / "a", tmp_path / "b")
    assert "fsck" not in hint
    assert f"`bobbin cluster status {tmp_path / 'b' / 'cluster'}`" in hint
    assert exchange_text.may_pass(told, tmp_path / "a", tmp_path / "b")
    assert not exchange_text.may_pass(told, tmp_path / "b", tmp_path / "a"), "there the store itself is at fault"
    assert not exchange_text.may_pass(report(DONE), tmp_path / "b", tmp_path / "b")


def explained(**changes: object) -> list[str]:
    verdict = explain(evaluate(policy(DING), situation(stored())), plex(1))
    one = Explained(record="P.a.H3", fate="not moved", own=verdict, peer=verdict, **changes)  # type: ignore[arg-type]
    return list(exchange_text.explained(Output(as_json=False), one, exchange_text.Told()))


def test_the_headline_says_who_has_the_record() -> None:
    assert explained(held=True, held_there=True)[0] == "P.a.H3: not moved; both sides have it"
    assert explained(held=True, held_there=False)[0] == "P.a.H3: not moved; only this side has it"
    assert explained(held=False, held_there=True)[0] == "P.a.H3: not moved; only the other side has it"
    unknown = explained(held=False, held_there=False)
    assert unknown[0] == "P.a.H3: not moved; neither side has it"
    assert len(unknown) == 2, "there is nothing to judge"


def test_a_peer_elsewhere_keeps_its_books_for_itself() -> None:
    told = structs.replace(report(result(reason=Reason.LINK_LOST), DONE), peer_rounds=())
    assert exchange_text.ending(told) is told.result
    assert exchange_text.code_of(told) is ExitCode.OK
    assert list(exchange_text.hints(told, Path("a.lace"), Path("b.lace"))) == []
    assert any(line.startswith("round 1") for line in lines(told))


def test_what_can_be_said_of_a_lace_elsewhere() -> None:
    told = structs.replace(report(result(fixed_point=True, not_available=frozenset("a"))), peer_rounds=())
    (hint,) = exchange_text.hints(told, Path("a.lace"), None)
    assert hint.endswith("its owner can say which")
    out = Output(as_json=False)
    (line,) = exchange_text.unknown(out, "//u//x//1", is_elsewhere=False)
    assert line == "//u//x//1: not moved; neither side has a record there, before the exchange or after it"
    lines = list(exchange_text.unknown(out, "//u//x//1", is_elsewhere=True))
    assert lines[0].startswith("//u//x//1: not moved; this side has no record there")
    assert lines[1] == "  if the peer has one, one of the policies does not let this side have it"
    lines = list(exchange_text.several(out, "//u//x//1", ["P.b.H3", "P.a.H3"]))
    assert lines[0].startswith("//u//x//1: the two sides had different records there")
    assert lines[1:] == ["  P.b.H3", "  P.a.H3"]


def test_why_an_exchange_ended_early_in_one_sentence() -> None:
    told = structs.replace(report(result(reason=Reason.LINK_LOST, detail="gone")), peer_rounds=())
    assert exchange_text.ended(told) == f"the exchange ended early, {Reason.LINK_LOST}: gone"


def test_a_peer_elsewhere_that_closes_the_link_may_have_come_to_a_limit() -> None:
    lost = result(reason=Reason.LINK_LOST, detail="gone", received=frozenset("a"))
    told = structs.replace(report(lost, lost), peer_rounds=())
    lines = list(exchange_text.account(Output(as_json=False), told))
    assert "round 1        lost its link (1 received, 0 sent); the next one went on" in lines
    assert lines[-1].endswith("The peer may have come to a limit; --rounds 3 goes on")
    nothing = structs.replace(report(result(reason=Reason.LINK_LOST, detail="gone")), peer_rounds=())
    assert "limit" not in list(exchange_text.account(Output(as_json=False), nothing))[-1]
