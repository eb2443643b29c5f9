"""A selection that stands: what it selects, how it changes, how it rests. The laws are in tests/properties."""

import msgspec
import pytest
from msgspec import structs

from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.errors import UsageError
from bobbin.facts.relations import RECORD_LINK
from bobbin.policy import standing_selection as module
from bobbin.policy.modules import compile_selector
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.standing_selection import FORMAT, FrozenSelection, Selected, StandingSelection
from bobbin.policy.views import RecordFacts
from tests.policy_worlds import ALICE, DING, EVERYTHING, plex, record, stored

_P, _Q, _R = plex(1), plex(2), plex(3)
_NOW = RuntimeFacts()
_EMPTY = RecordFacts()


def _standing(text: str, facts: RecordFacts = _EMPTY, runtime: RuntimeFacts = _NOW) -> StandingSelection:
    standing = StandingSelection(compile_selector(text))
    standing.load(facts, runtime)
    return standing


def test_records_come_and_go() -> None:
    standing = _standing(DING, stored(record(_P, Group="u", App="ding"), record(_Q, Group="v", App="ding")))
    assert standing.records() == [_P]
    new = record(_R, Group="u", App="ding")
    assert standing.advance(runtime=_NOW, stored=new) == Selected(added=frozenset({_R}))
    assert standing.advance(runtime=_NOW, removed=[_P, _Q]) == Selected(removed=frozenset({_P}))
    assert standing.records() == [_R]
    assert standing.advance(runtime=_NOW, removed=[_R], stored=new) == Selected()
    assert standing.records() == [_R]


def test_a_record_that_is_negated_later_leaves() -> None:
    rules = "SelectHave(P) :- Have(P), not Muted(P).\nMuted(P) :- RecordLink(_,_,_,'mute',P).\n"
    standing = _standing(rules, stored(record(_P)))
    linked = [*record(_Q), (RECORD_LINK, (_Q, "+Link", "0", "mute", _P))]
    assert standing.advance(runtime=_NOW, stored=linked) == Selected(added=frozenset({_Q}), removed=frozenset({_P}))
    assert standing.advance(runtime=_NOW, removed=[_Q]) == Selected(added=frozenset({_P}), removed=frozenset({_Q}))


@pytest.mark.parametrize(
    "rules",
    [
        f"SelectHave('{_P}').\n",
        "SelectHave(P) :- RecordLink(_,_,_,_,P).\n",
        "SelectHave(P) :- Named(P).\nNamed(P) :- RecordLink(_,_,_,_,P).\nStoredSelection('x').\n",
        "SelectHave(P) :- RecordLink(_,_,_,_,P), not Far(P).\nSelectHave(P) :- Have(P), Far(P).\nFar('y').\n",
    ],
)
def test_only_stored_records_count(rules: str) -> None:
    linked = [*record(_Q), (RECORD_LINK, (_Q, "+Link", "0", "to", _P))]
    standing = _standing(rules, stored(linked))
    assert standing.records() == []
    assert standing.advance(runtime=_NOW, stored=record(_P)) == Selected(added=frozenset({_P}))
    assert standing.advance(runtime=_NOW, removed=[_P]) == Selected(removed=frozenset({_P}))


def test_a_rule_is_added_only_where_rules_leave_room_for_what_is_not_stored() -> None:
    assert _standing(EVERYTHING)._export == "SelectHave"
    assert _standing(f"{EVERYTHING}SelectHave('{_P}').\n")._export == "StoredSelection"


def test_a_selector_without_choice_of_stored_records_selects_none() -> None:
    standing = _standing("SelectAdvertised(P,S) :- Advertised(P,S).\n", stored(record(_P)))
    assert standing.records() == []
    assert standing.advance(runtime=_NOW, stored=record(_Q)) == Selected()


def test_the_time_moves_records_in_and_out() -> None:
    rules = "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(N), Le(T,N).\n"
    early, late = "1640995200:000000000", "1640995300:000000000"
    facts = stored(record(_P, TAI=early), record(_Q, TAI=late))
    standing = _standing(rules, facts, RuntimeFacts(tick_tai=early))
    assert standing.records() == [_P]
    assert standing.advance(runtime=RuntimeFacts(tick_tai=late)) == Selected(added=frozenset({_Q}))
    assert standing.advance(runtime=RuntimeFacts()) == Selected(removed=frozenset({_P, _Q}))
    assert standing.advance(runtime=RuntimeFacts(tick_tai=early)) == Selected(added=frozenset({_P}))


def test_runtime_facts_that_no_rule_reads_change_nothing() -> None:
    standing = _standing(EVERYTHING, stored(record(_P)))
    assert standing.advance(runtime=RuntimeFacts(here=ALICE, tick_tai="1640995200:000000000")) == Selected()
    assert standing.advance(runtime=_NOW) == Selected()


def test_a_selection_that_was_frozen_goes_on() -> None:
    rules = f"{DING}SelectHave(P) :- Have(P), Here(V), Field(P,'Signed-By',_,V).\n"
    first = _standing(rules, stored(record(_P, Group="u", App="ding")), RuntimeFacts(here=ALICE))
    raw = msgspec.msgpack.encode(first.freeze())
    frozen = msgspec.msgpack.decode(raw, type=FrozenSelection)
    second = StandingSelection.restore(first.selector, frozen)
    assert second.is_usable
    assert second.records() == [_P]
    assert second.advance(runtime=RuntimeFacts(here=ALICE), stored=record(_Q, Signed_By=ALICE)).added == {_Q}
    assert second.advance(runtime=_NOW).removed == {_Q}
    assert second.advance(runtime=_NOW, removed=[_P]).removed == {_P}


def test_a_selection_that_was_frozen_knows_the_time_that_it_was_frozen_at() -> None:
    early, late = "1640995200:000000000", "1640995300:000000000"
    rules = "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(N), Le(N,T).\n"
    first = _standing(rules, stored(record(_P, TAI=early)), RuntimeFacts(tick_tai=early))
    second = StandingSelection.restore(first.selector, first.freeze())
    assert second.advance(runtime=RuntimeFacts(tick_tai=late)) == Selected(removed=frozenset({_P}))


def test_another_format_is_refused() -> None:
    frozen = structs.replace(_standing(DING).freeze(), format=(FORMAT[0] + 1, FORMAT[1]))
    with pytest.raises(UsageError, match="format"):
        StandingSelection.restore(compile_selector(DING), frozen)


def test_before_loading_and_after_a_failure_there_is_nothing_to_go_on_from() -> None:
    selector = compile_selector(EVERYTHING)
    standing = StandingSelection(selector, Limits(derived_tuples_max=2))
    for ask in (standing.records, standing.freeze, lambda: standing.advance(runtime=_NOW)):
        with pytest.raises(UsageError, match="load it first"):
            ask()
    standing.load(stored(record(_P), record(_Q)), _NOW)
    with pytest.raises(LimitExceeded):
        standing.advance(runtime=_NOW, stored=record(_R))
    assert not standing.is_usable
    standing.load(stored(record(_R)), _NOW)
    assert standing.records() == [_R]


def test_texts_that_occur_nowhere_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IDLE_TEXTS_MAX", 50)
    standing = _standing(DING, stored(record(_P, Group="u", App="ding")))
    for number in range(10, 200):
        one = plex(number)
        assert standing.advance(runtime=_NOW, stored=record(one, Group="u", App="ding")).added == {one}
        assert standing.advance(runtime=_NOW, removed=[one]).removed == {one}
    assert len(standing._program.values) < 100
    assert standing.records() == [_P]
