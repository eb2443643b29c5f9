"""Completion statements: what one says, its one spelling, and what must have been offered."""

import pytest
from msgspec import structs

from bobbin.datalog.limits import Limits
from bobbin.errors import UsageError
from bobbin.interlace.result import Result
from bobbin.interlace.schema import Schema
from bobbin.interlace.statement import (
    LISTED_MAX,
    MalformedStatement,
    Statement,
    Summary,
    build_statement,
    make_statement,
    other_side,
    parse,
    recompute,
    render,
    stated_offer,
    stated_plan,
    summarise,
)
from bobbin.policy.executables import Budgets, PolicyLimitExceeded
from bobbin.policy.modules import compile_selector, deny_all_query
from bobbin.policy.operands import Origin
from bobbin.policy.views import RecordFacts
from bobbin.records.record import seal, validate
from bobbin.runtime.local_peer import Ran, run_local
from bobbin.simulator.holdings import MemoryHoldings
from tests.local_exchanges import APP, GROUP_U, SERVER, START_NS, Clock, Liar, plex, side

OURS, THEIRS, PRIVATE = plex("links/1"), plex("links/2"), plex("x", group="private")


@pytest.fixture
def ran() -> Ran:
    return run_local(side([OURS, PRIVATE], key=APP), side([THEIRS], key=SERVER), clock=Clock())


@pytest.fixture
def stated(ran: Ran) -> Statement:
    assert ran.own.epoch is not None
    return make_statement(ran.own.epoch, ran.own.result)


def test_what_a_statement_says(ran: Ran, stated: Statement) -> None:
    assert (stated.plan, stated.link) == (ran.own.result.plan, ran.own.result.link)
    assert stated.operands[stated.index].origin == Origin(APP.verifier)
    assert stated_plan(stated).identifier == stated.plan
    assert (stated.received, stated.sent, stated.offered.count, stated.claimed.count) == (1, 1, 2, 2)
    assert stated.schema == Schema(names=frozenset({"Group"}))
    assert stated.encrypted
    assert not stated.not_available
    assert not stated.rejected


def test_both_sides_state_the_same_two_sets(ran: Ran, stated: Statement) -> None:
    assert ran.peer.epoch is not None
    there = make_statement(ran.peer.epoch, ran.peer.result)
    assert there.index == other_side(stated)
    assert (there.offered, there.claimed) == (stated.claimed, stated.offered)
    assert stated_offer(stated, there.index) == there.offered


def test_it_is_an_ordinary_record_and_reads_back(stated: Statement) -> None:
    plain = build_statement(stated, tai_ns=START_NS)
    assert (plain.group, plain.app, plain.name) == ("lace", "statement", f"interlace/{stated.link}")
    assert parse(validate(seal(plain, APP, auxiliary=b"\x07" * 32).raw).data) == stated
    anonymous = run_local(side([OURS]), side([THEIRS]), clock=Clock())
    assert anonymous.own.epoch is not None
    without = make_statement(anonymous.own.epoch, anonymous.own.result)
    assert without.link is None
    assert build_statement(without, tai_ns=START_NS).name == f"interlace/{without.plan}"
    assert parse(render(without)) == without


def test_rare_parts_read_back(stated: Statement) -> None:
    rare = structs.replace(
        stated,
        parameters=(("partition-prefix-length", "3"),),
        transport="tcp:host:1",
        encrypted=False,
        schema=Schema(all=True),
        not_available=(OURS.hash,),
        rejected=((THEIRS.hash, "blob-digest"),),
    )
    assert parse(render(rare)) == rare


def test_what_did_not_come_is_named() -> None:
    ran = run_local(side(), side([THEIRS], holdings=Liar()), clock=Clock())
    assert ran.own.epoch is not None
    stated = make_statement(ran.own.epoch, ran.own.result)
    assert stated.received == 0
    assert [record for record, _ in stated.rejected] == [THEIRS.hash]


def test_only_a_fixed_point_can_be_stated(ran: Ran) -> None:
    assert ran.own.epoch is not None
    for wrong, why in (
        (
            structs.replace(ran.own.result, fixed_point=False),
            "an exchange that did not reach its fixed point has no completion to state",
        ),
        (
            structs.replace(ran.own.result, not_available=frozenset(map(str, range(LISTED_MAX + 1)))),
            f"more than {LISTED_MAX} records did not come; no statement can list them",
        ),
    ):
        with pytest.raises(UsageError) as refused:
            make_statement(ran.own.epoch, wrong)
        assert str(refused.value) == why


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"InterlaceStatement('bobbin-interlace-statement/v1')", b"InterlaceStatement('v2')"),
        (b"StatementIssuer('", b"StatementIssuer('1"),
        (b"StatementMoved('1','1')\n", b""),
        (b"StatementMoved('1','1')", b"StatementMoved('1')"),
        (b"StatementMoved('1','1')", b"StatementMoved('01','1')"),
        (b"StatementMoved('1','1')", b"StatementMoved('one','1')"),
        (b"StatementMoved('1','1')\n", b"StatementMoved('1','1')\nStatementMoved('1','1')\n"),
        (b"StatementMoved('1','1')\n", b"StatementMoved('1','1')\nMore('1')\n"),
        (b"ExchangeOperand('0'", b"ExchangeOperand('5'"),
        (b"InterlaceStatement", b"interlace statement"),
    ],
)
def test_what_is_no_statement(stated: Statement, old: bytes, new: bytes) -> None:
    raw = render(stated)
    assert old in raw
    with pytest.raises(MalformedStatement):
        parse(raw.replace(old, new))


def test_bytes_that_are_nothing_at_all() -> None:
    for raw in (b"", b"\xff", b"Have('x')\n"):
        with pytest.raises(MalformedStatement):
            parse(raw)


def test_the_offer_follows_from_policies_and_records(stated: Statement) -> None:
    selector = compile_selector(GROUP_U)
    records = [OURS, PRIVATE, THEIRS]
    holdings = MemoryHoldings(records)

    def offered(*held: object, denied: bool = False) -> Summary:
        kept = [record for record in records if record in held]
        return recompute(
            stated,
            stated.index,
            own=selector,
            peer=selector,
            query=deny_all_query() if denied else None,
            facts=RecordFacts.of_records(kept),
            claimed={},
            describe=holdings.describe,
            budgets=Budgets(),
        ).summary

    assert offered(*records) == stated.offered
    assert offered(OURS, THEIRS) == stated.offered, "what is not selected makes no difference"
    assert offered(OURS, PRIVATE) != stated.offered
    assert offered(*records, denied=True) == summarise([]) == Summary(count=0, digest=summarise([]).digest)


def test_a_result_without_records_is_stated_too(ran: Ran) -> None:
    assert ran.own.epoch is not None
    empty = Result(link=None, plan=ran.own.result.plan, peer=None, fixed_point=True)
    assert make_statement(ran.own.epoch, empty).received == 0


def test_a_recomputation_has_every_runtime_fact_that_the_exchange_had() -> None:
    rules = (
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
        "SelectHave(P) :- Have(P), StartTAI(T), TickTAI(T), ClockSkewSeconds('1'), TransportEncrypted(), Here(A), "
        "Peer(B), Ne(A,B).\n"
    )
    ran = run_local(side([OURS], rules, key=APP), side([], rules, key=SERVER), clock=Clock())
    assert ran.own.epoch is not None
    stated, selector = make_statement(ran.own.epoch, ran.own.result), compile_selector(rules)
    assert stated.offered.count == 1
    recomputed = recompute(
        stated,
        stated.index,
        own=selector,
        peer=selector,
        query=None,
        facts=RecordFacts.of_records([OURS]),
        claimed={},
        describe=MemoryHoldings([OURS]).describe,
        budgets=Budgets(),
    )
    assert recomputed.summary == stated.offered
    assert recomputed.records == {OURS.hash}


@pytest.mark.parametrize("whose", ["own", "peer"])
def test_a_recomputation_costs_what_its_budgets_allow(stated: Statement, whose: str) -> None:
    selector = compile_selector(GROUP_U)

    def offered(budgets: Budgets) -> Summary:
        return recompute(
            stated,
            stated.index,
            own=selector,
            peer=selector,
            query=None,
            facts=RecordFacts.of_records([OURS, THEIRS]),
            claimed={},
            describe=MemoryHoldings([OURS, THEIRS]).describe,
            budgets=budgets,
        ).summary

    small = Limits(derived_tuples_max=1)
    with pytest.raises(PolicyLimitExceeded) as caught:
        offered(Budgets(own=small) if whose == "own" else Budgets(peer=small))
    assert caught.value.limit == "derived_tuples_max"
    assert offered(Budgets()) == stated.offered
