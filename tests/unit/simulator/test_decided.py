"""One question is worked out once; whatever a decision looks at makes another question."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

import pytest

from bobbin.policy.claims import ClaimedField
from bobbin.policy.decide import Decision
from bobbin.policy.executables import LocalPolicy, make_policy
from bobbin.policy.modules import compile_query, compile_selector
from bobbin.policy.operands import Origin
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.records.record import Record, validate
from bobbin.simulator import decided as module
from bobbin.simulator.decided import Decided
from tests.unit.simulator.exchanges import note

Claimed: TypeAlias = Mapping[str, tuple[ClaimedField, ...]]

ALL = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
NAMED = "SelectHave(P) :- Have(P), Field(P,'Name',_,'n/1').\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
TIMED = "SelectHave(P) :- Have(P), TickTAI(_).\nSelectAdvertised(P,S) :- AdvertisedField(P,S,'Name',_,'n/3').\n"
NOTHING_SEEN = "Queryable(P,O) :- Have(P), Viewer(O), Ne(P,P).\n"
TICKING = RuntimeFacts(start_tai="1700000000:000000000", tick_tai="1700000000:000000000")


def policy(own: str = ALL, peer: str = ALL, query: str | None = None, source: str = "source:1") -> LocalPolicy:
    return make_policy(
        compile_selector(own),
        compile_selector(peer),
        own_origin=Origin("source:0"),
        peer_origin=Origin(source),
        query=None if query is None else compile_query(query),
    )


def ask(
    decided: Decided,
    rules: LocalPolicy,
    records: tuple[Record, ...] = (note(1), note(2)),
    claimed: Claimed = MappingProxyType({}),
    runtime: RuntimeFacts = RuntimeFacts(),  # noqa: B008 (a frozen value)
) -> Decision:
    return decided.decide(rules, records, claimed, runtime)


def test_the_same_question_is_worked_out_once_whoever_asks() -> None:
    decided = Decided()
    first = ask(decided, policy())
    assert first.may_send == {note(1).hash, note(2).hash}
    # The same rules in another layout, the same bytes in other records, in another order.
    elsewhere = policy("SelectAdvertised(P,S) :- Advertised(P,S).\n% the same\nSelectHave(P):-Have(P).\n")
    again = (validate(note(2).raw), validate(note(1).raw))
    assert ask(decided, elsewhere, again) == first
    assert (decided.asked, decided.worked_out) == (2, 1)


@pytest.mark.parametrize("order", [1, -1])
def test_everything_that_a_decision_looks_at_makes_another_question(order: int) -> None:
    field = ClaimedField("Name", "0", "n/3")
    bare: Claimed = {note(3).hash: ()}
    told: Claimed = {note(3).hash: (field,)}
    sent, first = frozenset({note(1).hash, note(2).hash}), frozenset({note(1).hash})
    wanted = frozenset({note(3).hash})
    cases: list[tuple[LocalPolicy, tuple[Record, ...], Claimed, RuntimeFacts]] = [
        (policy(), (note(1), note(2)), {}, RuntimeFacts()),
        (policy(), (note(1),), {}, RuntimeFacts()),
        (policy(), (note(1), note(2)), bare, RuntimeFacts()),
        (policy(NAMED), (note(1), note(2)), {}, RuntimeFacts()),
        (policy(ALL, NAMED), (note(1), note(2)), {}, RuntimeFacts()),
        (policy(query=NOTHING_SEEN), (note(1), note(2)), {}, RuntimeFacts()),
        (policy(TIMED), (note(1), note(2)), bare, RuntimeFacts()),
        (policy(TIMED), (note(1), note(2)), bare, TICKING),
        (policy(TIMED), (note(1), note(2)), told, TICKING),
        (policy(source="source:2"), (note(1), note(2)), bare, RuntimeFacts()),
    ]
    none: frozenset[str] = frozenset()
    expected = [(sent, none), (first, none), (sent, wanted), (first, none), (first, none), (none, none)]
    expected += [(none, none), (sent, none), (sent, wanted), (sent, wanted)]
    decided = Decided()
    for case, (may_send, may_request) in list(zip(cases, expected, strict=True))[::order]:
        assert ask(decided, *case) == Decision(may_send=may_send, may_request=may_request)
    assert decided.worked_out == len(cases)


def test_a_known_answer_is_worked_out_again_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = Decided(again_every=2)
    ask(decided, policy())
    nothing = Decision(may_send=frozenset(), may_request=frozenset())
    monkeypatch.setattr(module, "decide", lambda *_: nothing)
    assert ask(decided, policy()).may_send
    with pytest.raises(AssertionError, match="one question has two answers"):
        ask(decided, policy())


def test_a_policy_that_is_gone_is_not_taken_for_another() -> None:
    decided = Decided()
    for _ in range(20):
        assert len(ask(decided, policy()).may_send) == 2
        assert len(ask(decided, policy(NAMED)).may_send) == 1
