"""The account of an exchange: its words, its JSON and its exit code."""

import pytest

from bobbin.cli import exchange_text
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.output import Output
from bobbin.interlace.ledger import Difference, Disclosure, Honesty
from bobbin.interlace.reasons import Reason
from bobbin.interlace.result import Result
from bobbin.runtime.local_peer import Figure
from bobbin.runtime.operations import SyncReport


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


def lines(told: SyncReport) -> list[str]:
    return list(exchange_text.account(Output(as_json=False), told))


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
    theirs = report(result(reason=Reason.LINK_LOST), there=result(reason=Reason.STORE, detail="disk full"))
    assert "store-failure: the other side: disk full" in lines(theirs)[-1]
    assert exchange_text.value_of(theirs)["ended_by"] == "peer"
    assert exchange_text.value_of(ours)["ended_by"] == "here"


def test_rounds_are_told_one_by_one() -> None:
    first = result(iterations=2, limit="max_loop_iterations", received=frozenset("ab"))
    shown = lines(report(first, DONE))
    assert shown[-1].endswith("(2 rounds, 3 iterations)")
    assert shown[-2] == (
        "round 1        stopped at the limit max_loop_iterations (2 received, 0 sent); the next one went on"
    )


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
