"""What a person reads who has got a policy, a plan, an operand or a case wrong: every text, word for word."""

from collections.abc import Callable

import pytest

from bobbin.errors import BobbinError
from bobbin.policy import builder
from bobbin.policy.cases import parse_cases
from bobbin.policy.claims import ClaimedField, Claims, claim_source
from bobbin.policy.compose import intersect, unite
from bobbin.policy.decide import decide
from bobbin.policy.executables import Budgets, LocalPolicy, PolicyCache, make_policy
from bobbin.policy.modules import compile_selector, receive_selector
from bobbin.policy.operands import (
    Operand,
    Origin,
    check_module_identifier,
    label_origin,
    parse_origin,
    read_operand,
)
from bobbin.policy.plan import make_plan, parse_plan
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.standing import Standing
from bobbin.records.ids import Verifier
from tests.policy_worlds import ALICE, BOB, DING, DING_IDENTIFIER, EVERYTHING, claims, plex, situation, stored

_DING = compile_selector(DING)
_ALL = compile_selector(EVERYTHING)
_POLICY = make_policy(_DING, _ALL, own_origin=Origin(ALICE), peer_origin=Origin(BOB))
_FIRST = Operand(module=_DING.identifier, origin=Origin("source:0"))
_SECOND = Operand(module=_ALL.identifier, origin=Origin("source:1"))
_PLAN = make_plan(_FIRST, _SECOND)
_PREFIX = "partition_prefix_length"
_ZEROS = "0" * 43


def _said(make: Callable[[], object]) -> str:
    with pytest.raises(BobbinError) as refused:
        make()
    return str(refused.value)


def _claimed(*fields: ClaimedField) -> Claims:
    return Claims(Origin(BOB), {plex(1): fields})


def _planned(*lines: str) -> object:
    head = "ExchangePlan('lace-exchange-plan/v1','intersection')"
    return parse_plan("".join(f"{line}\n" for line in (head, *lines)).encode())


_LINES = tuple(_PLAN.canonical.decode().splitlines()[1:])


_TEXTS: list[tuple[Callable[[], object], str]] = [
    (lambda: builder.name_prefix(""), "an empty prefix is no condition; leave it out"),
    (lambda: builder.field("App"), "a condition on App names at least one value"),
    (lambda: builder.last(0), "a time window has a positive number of seconds, not 0"),
    (builder.write, "a policy has at least one selection; use deny_all_selector() to select nothing"),
    (builder.signer, "name at least one verifier"),
    (lambda: builder.signer("nobody"), "not a verifier (<letter>.<43 symbols>.H3): 'nobody'"),
    (lambda: Claims(Origin(BOB), {"nonsense": ()}), "not the hash text of a record: 'nonsense'"),
    (lambda: _claimed(ClaimedField("App", "01", "x")), "the index of a claimed field is a decimal, not '01'"),
    (lambda: _claimed(ClaimedField("App", "0", "")), "a claimed field holds '', which no record can say"),
    (lambda: _claimed(ClaimedField("App", "0", "x"), ClaimedField("App", "0", "y")), "a claimed field stands twice"),
    (
        lambda: list(claim_source(claims({})).enumerate("Have")),
        "claims say nothing about Have; only Advertised and AdvertisedField",
    ),
    (lambda: list(claim_source(claims({})).match("Advertised", (None,))), "Advertised has 2 arguments, not 1"),
    (lambda: unite([]), "a composition has at least one selector"),
    (lambda: intersect([_DING] * 65), "an intersection has at most 32 selectors, not 65"),
    (
        lambda: decide(_POLICY, situation(stored(), claims({}, ALICE))),
        (f"the claims come from {ALICE}, the plan is with {BOB}"),
    ),
    (
        lambda: decide(_POLICY, situation(stored(), claims({}), RuntimeFacts())),
        (f"the plan is with {BOB}, which this link has not proven"),
    ),
    (
        lambda: LocalPolicy(_PLAN, 0, own=_ALL, peer=_ALL, query=None, budgets=Budgets()),
        (f"the plan is about module {DING_IDENTIFIER}, not {_ALL.identifier}"),
    ),
    (lambda: PolicyCache(plans_per_peer_max=0), "a cache of policies holds at least one plan of one peer"),
    (lambda: PolicyCache(peers_max=0), "a cache of policies holds at least one plan of one peer"),
    (
        lambda: receive_selector(_ALL.canonical, DING_IDENTIFIER),
        (f"the bytes sent for module {DING_IDENTIFIER} are those of {_ALL.identifier}"),
    ),
    (
        lambda: parse_origin("local"),
        "the origin 'local' is reserved and stands in no exchange; name a side as source:LABEL",
    ),
    (
        lambda: parse_origin("somebody"),
        (
            "'somebody' is no origin. An origin is who a policy comes from: a verifier "
            "(V.<43 symbols>.H3), or source:LABEL for a side that has proven nothing"
        ),
    ),
    (lambda: label_origin(""), "the label of an origin is not empty, in form NFC, without control characters"),
    (lambda: label_origin("\ud800"), "the label of an origin is not Unicode text"),
    (lambda: label_origin("x" * 4096), "an origin has at most 4096 bytes"),
    (lambda: check_module_identifier("R.short"), "not a module identifier (R.<43 symbols>): 'R.short'"),
    (
        lambda: check_module_identifier("E" + DING_IDENTIFIER[1:]),
        ("not a module identifier (R.<43 symbols>): 'E.no0zpA989ba4DQLVF~dswkCbzd5aK1Dn373LKs5I1gC'"),
    ),
    (
        lambda: check_module_identifier("R." + "!" * 43),
        (
            "not a module identifier: a symbol is outside the B64A alphabet: "
            "'R.!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!'"
        ),
    ),
    (lambda: read_operand(("Have", ("x",))), "expected ExchangeOperand/4, found Have/1"),
    (
        lambda: read_operand(("ExchangeOperand", ("2", DING_IDENTIFIER, ALICE, "selector"))),
        "the index of an operand is '0' or '1', not '2'",
    ),
    (
        lambda: read_operand(("ExchangeOperand", ("0", DING_IDENTIFIER, ALICE, "query"))),
        "the role of an operand is 'selector', not 'query'",
    ),
    (
        lambda: read_operand(("ExchangeOperand", ("0", "R.x", ALICE, "selector"))),
        "not a module identifier (R.<43 symbols>): 'R.x'",
    ),
    (
        lambda: parse_plan(b"Have('x')\n"),
        "the first line of a plan is ExchangePlan('lace-exchange-plan/v1','intersection')",
    ),
    (lambda: _planned(_LINES[0]), "a plan has two operands"),
    (lambda: _planned("Have('x')", "Have('y')"), "expected ExchangeOperand/4, found Have/1"),
    (lambda: _planned(*reversed(_LINES)), "the operands of a plan are 0 and 1, in this order"),
    (lambda: _planned(*_LINES, "Have('x')"), "expected ExchangeParameter/2 after the operands, found Have/1"),
    (
        lambda: _planned(*_LINES, *[f"ExchangeParameter('{_PREFIX}','3')"] * 2),
        "the parameter 'partition_prefix_length' stands twice",
    ),
    (lambda: _planned(*_LINES, "ExchangeParameter('moon','3')"), "no plan parameter is called 'moon'"),
    (
        lambda: parse_plan(_PLAN.canonical, announced=f"E.{_ZEROS}"),
        (f"the bytes of plan E.{_ZEROS} are those of {_PLAN.identifier}"),
    ),
    (lambda: make_plan(_FIRST, _SECOND, {"moon": "3"}), "no plan parameter is called 'moon'"),
    (lambda: make_plan(_FIRST, _SECOND, {_PREFIX: "03"}), "the plan parameter partition_prefix_length cannot be '03'"),
    (
        lambda: RuntimeFacts(start_tai="1640995200:000000000", tick_tai="1640995199:000000000"),
        "the tick 1640995199:000000000 lies before the start 1640995200:000000000",
    ),
    (lambda: RuntimeFacts(clock_skew_seconds=-1), "a clock skew is a number of seconds from 0, not -1"),
    (lambda: RuntimeFacts(transport=""), "not the address of a transport: ''"),
    (lambda: RuntimeFacts(peer=Verifier("nobody")), "not a verifier (<letter>.<43 symbols>.H3): 'nobody'"),
    (lambda: Standing(_POLICY).freeze(), "this decision is not up to date with anything; load it first"),
]
_CASES = [
    ("case: e\u0301\n", "line 1: this line is not in form NFC"),
    ("policy: x\n", "line 2: there is no case; one begins with 'case: <title>'"),
    ("stored a\n", "line 1: a record belongs to a case; begin one with 'case: <title>'"),
    ("case: a\nstored nothing\n", "line 2: no record can be called 'nothing'"),
    ("case: a\nstored b\nstored b\n", "line 3: b is stored twice"),
    ("case: a\n!\n", "line 2: expected a setting, a record, 'let' or 'case:'"),
    ("case: a\n  Group: u\n", "line 2: an indented line is a field, 'Name: value', of the record above it"),
    ("let a = nobody\n", "line 1: not a verifier (<letter>.<43 symbols>.H3): 'nobody'"),
    ("case:\n", "line 1: a case has a title"),
    (
        "sent: a\ncase: a\n",
        ("line 1: before the first case stand policy, peer policy, query policy, once each, and 'let'"),
    ),
    ("case: a\nsent: nothing\nsent: nothing\n", "line 3: 'sent' stands twice in this case"),
    ("case: a\nmoon: 3\n", "line 2: no setting is called 'moon'"),
    ("case: a\n", "line 1: the case expects nothing; say sent, withheld, requested, not requested"),
    ("case: a\nstored b\nsent: b\nwithheld: b\n", "line 4: b cannot be both sent and withheld"),
    ("case: a\nskew: x\nsent: nothing\n", "line 1: a skew is a number of seconds, not 'x'"),
    ("case: a\nencrypted: maybe\nsent: nothing\n", "line 1: 'encrypted' is yes or no"),
    (
        "case: a\nfact: nonsense\nsent: nothing\n",
        "line 2: line 1 of a fact block: it does not begin with the name of a predicate",
    ),
    (
        "case: a\nfact: Moon('x')\nsent: nothing\n",
        ("line 2: no record fact is called Moon; there are Have, Field, RecordLink, BlobHash, PlexHash"),
    ),
    ("case: a\nsent:\n", "line 2: 'sent' names records of this case, or 'nothing'"),
    ("case: a\nsent: b\n", "line 2: this case has no record 'b'"),
    ("case: a\nstored b\n  Type: X\nsent: b\n", "line 1: the Type of b is B, P or S, not 'X'"),
]


@pytest.mark.parametrize(("make", "text"), _TEXTS)
def test_what_is_said_of_a_mistake(make: Callable[[], object], text: str) -> None:
    assert _said(make) == text


@pytest.mark.parametrize(("cases", "text"), _CASES)
def test_what_is_said_of_a_mistake_in_cases(cases: str, text: str) -> None:
    assert _said(lambda: parse_cases(cases)) == text
