"""Holdings in memory: what a machine reads of them, and what is done to them."""

import pytest

from bobbin.interlace.cursor import Cursor
from bobbin.interlace.effects import Persist, SaveCursor
from bobbin.interlace.events import Fate
from bobbin.interlace.messages import Delivered
from bobbin.interlace.ports import Evaluated, Question
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField
from bobbin.policy.modules import compile_query, compile_selector
from bobbin.policy.operands import Operand, Origin
from bobbin.policy.plan import make_plan
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.records.reasons import Reason
from bobbin.records.record import build_plex
from bobbin.simulator.holdings import MemoryHoldings, describe
from tests.policy_worlds import EVERYTHING
from tests.support.exchanges import BY_GROUP, START_NS, hashes, record, records

_ORIGINS = (Origin("source:0"), Origin("source:1"))


def _begun(holdings: MemoryHoldings, rules: str = BY_GROUP) -> MemoryHoldings:
    own, peer = compile_selector(rules), compile_selector(EVERYTHING)
    plan = make_plan(
        Operand(module=own.identifier, origin=_ORIGINS[0]), Operand(module=peer.identifier, origin=_ORIGINS[1])
    )
    policy = holdings.prepare(plan, 0, own=own, peer_module=peer.canonical)
    assert holdings.begin(policy, Schema(), "key") is None
    return holdings


def _ask(
    holdings: MemoryHoldings, claimed: dict[str, str] | None = None, withdrawn: frozenset[str] = frozenset()
) -> Evaluated:
    fields = {name: (ClaimedField("Group", "0", group),) for name, group in (claimed or {}).items()}
    return holdings.evaluate(Question(runtime=RuntimeFacts(), claimed=fields, withdrawn=withdrawn))


def test_evaluations_tell_what_has_changed() -> None:
    """IL-028, IL-173, IL-196, IL-287: the first from nothing, the others since the last."""
    holdings = _begun(MemoryHoldings([record(1), record(2, group="x")]))
    first = _ask(holdings, {record(5).hash: "u", record(6).hash: "x"})
    assert first.send_added == {record(1).hash}
    assert first.request_added == {record(5).hash}
    assert _ask(holdings) == Evaluated()
    holdings.put(record(3))
    holdings.remove(record(1).hash)
    after = _ask(holdings, {record(6).hash: "u"}, frozenset({record(5).hash}))
    assert after.send_added == {record(3).hash}
    assert after.send_removed == {record(1).hash}
    assert after.request_added == {record(6).hash}
    assert after.request_removed == {record(5).hash}
    assert after.moved == hashes([record(1), record(3)])
    assert holdings.evaluations == 3


def test_a_new_epoch_starts_from_nothing() -> None:
    """IL-234."""
    holdings = _begun(MemoryHoldings(records(2)))
    _ask(holdings, {record(9).hash: "u"})
    again = _ask(_begun(holdings))
    assert again.send_added == hashes(records(2))
    assert not again.request_added


def test_a_query_policy_bounds_what_the_peer_sees() -> None:
    """ILC-076, IL-086."""
    query = compile_query(f"Queryable(P,O) :- OwnSelected(P), Ne(P,'{record(0).hash}'), Viewer(O).\n")
    assert _ask(_begun(MemoryHoldings(records(2), query=query))).send_added == {record(1).hash}


def test_absent_is_neither_stored_nor_refused() -> None:
    """ILC-147."""
    holdings = MemoryHoldings(records(2))
    holdings.remove(record(1).hash)
    assert holdings.absent([record(number).hash for number in range(3)]) == {record(2).hash}
    holdings.refused.clear()
    assert holdings.absent([record(1).hash]) == {record(1).hash}


def test_what_arrives_is_validated_before_it_is_stored() -> None:
    """IL-043, IL-211, IL-153, ILC-147."""
    holdings = MemoryHoldings([record(0)])
    holdings.refused.add(record(3).hash)
    arrivals = tuple(
        Delivered(record=record(number).hash, raw=raw)
        for number, raw in ((0, record(0).raw), (1, record(1).raw), (2, record(1).raw), (3, record(3).raw), (4, b"no"))
    )
    settled = holdings.persist(Persist(arrivals))
    assert [one.fate for one in settled] == [Fate.DUPLICATE, Fate.STORED, Fate.REJECTED, Fate.REFUSED, Fate.REJECTED]
    assert [one.record for one in settled] == [arrival.record for arrival in arrivals]
    assert settled[2].reason == Reason.NOT_REQUESTED
    assert set(holdings.records) == hashes(records(2))
    assert [raw for raw, _ in holdings.quarantine] == [record(1).raw, b"no"]


def test_descriptions_have_the_fields_of_the_schema() -> None:
    """IL-075, IL-100, IL-104: with their indexes, in canonical order."""
    one = build_plex(
        group="u", app="ding", name="n", tai_ns=START_NS, data=b"", extras=[("Tag", "b"), ("Tag", "a"), ("Else", "x")]
    )
    assert describe(one, Schema(names=frozenset({"Tag", "App"}))) == (
        ClaimedField("App", "0", "ding"),
        ClaimedField("Tag", "0", "b"),
        ClaimedField("Tag", "1", "a"),
    )
    assert {field.name for field in describe(one, Schema(all=True))} >= {"Group", "App", "Name", "TAI", "Tag", "Else"}
    holdings = MemoryHoldings([one])
    assert holdings.describe([one.hash, "P.x.H3"], Schema()) == [(), None]


def test_bytes_modules_and_cursors_are_kept() -> None:
    """IL-034, IL-087."""
    holdings = MemoryHoldings([record(0)])
    assert holdings.load(record(0).hash) == record(0).raw
    assert holdings.load(record(1).hash) is None
    holdings.modules["R.x"] = b"text"
    assert (holdings.module("R.x"), holdings.module("R.y")) == (b"text", None)
    cursor = Cursor(key="k", plan="E.x", source="source:1", schema=Schema(), advertisements=())
    holdings.save(SaveCursor(cursor))
    assert holdings.cursor("k") is cursor
    assert holdings.cursor("other") is None


def test_an_evaluation_needs_a_policy() -> None:
    with pytest.raises(AssertionError):
        _ask(MemoryHoldings())


def test_another_machine_over_the_same_records() -> None:
    """IL-024: shared are records, refusals and cursors, not what a machine has evaluated."""
    one = _begun(MemoryHoldings(records(1)))
    _ask(one)
    other = _begun(one.beside())
    other.put(record(5))
    assert record(5).hash in one.records
    assert _ask(other).send_added == hashes([record(0), record(5)])
    assert _ask(one).send_added == {record(5).hash}
