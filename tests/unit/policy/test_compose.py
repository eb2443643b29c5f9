import pytest

from bobbin.datalog.limits import Limits
from bobbin.errors import ProgramError, UsageError
from bobbin.policy.compose import intersect, rename_rules, unite
from bobbin.policy.decide import decide
from bobbin.policy.modules import Selector, compile_selector
from tests.policy_worlds import claims, plex, policy, record, situation, stored

_P, _Q, _R = plex(1), plex(2), plex(3)


def _group(name: str) -> Selector:
    """Each module has a helper of the same name and another meaning."""
    return compile_selector(
        f"SelectHave(P) :- Mine(P).\nMine(P) :- Have(P), Field(P,'Group',_,'{name}').\n"
        f"SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'{name}').\n"
    )


_APP = compile_selector(
    "SelectHave(P) :- Mine(P).\nMine(P) :- Have(P), Field(P,'App',_,'x').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'x').\n"
)
_FIELDS = {_P: {"Group": "u", "App": "x"}, _Q: {"Group": "v", "App": "x"}, _R: {"Group": "u", "App": "y"}}


def _sent(text: str) -> frozenset[str]:
    facts = stored(*(record(hash, **fields) for hash, fields in _FIELDS.items()))
    return decide(policy(text), situation(facts)).may_send


def _requested(text: str) -> frozenset[str]:
    return decide(policy(text), situation(stored(), claims(_FIELDS))).may_request


def test_a_union_selects_what_either_does() -> None:
    text = unite([_group("u"), _group("v")])
    assert _sent(text) == _requested(text) == {_P, _Q, _R}


def test_an_intersection_selects_what_both_do() -> None:
    text = intersect([_group("u"), _APP])
    assert _sent(text) == _requested(text) == {_P}


def test_the_result_is_plain_text_with_prefixed_helpers() -> None:
    assert unite([_group("u"), _group("v")]).splitlines() == [
        "SelectAdvertised(P,S) :- M0_SelectAdvertised(P,S).",
        "SelectAdvertised(P,S) :- M1_SelectAdvertised(P,S).",
        "SelectHave(P) :- M0_SelectHave(P).",
        "SelectHave(P) :- M1_SelectHave(P).",
        "M0_SelectHave(P) :- M0_Mine(P).",
        "M0_Mine(P) :- Have(P), Field(P,'Group',_,'u').",
        "M0_SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u').",
        "M1_SelectHave(P) :- M1_Mine(P).",
        "M1_Mine(P) :- Have(P), Field(P,'Group',_,'v').",
        "M1_SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'v').",
    ]
    assert "SelectHave(P) :- M0_SelectHave(P), M1_SelectHave(P)." in intersect([_group("u"), _APP]).splitlines()


def test_a_missing_export_adds_nothing_to_a_union_and_empties_an_intersection() -> None:
    only_have = compile_selector("SelectHave(P) :- Have(P).")
    only_advertised = compile_selector("SelectAdvertised(P,S) :- Advertised(P,S).")
    union = unite([only_have, only_advertised])
    assert (_sent(union), _requested(union)) == (frozenset(_FIELDS), frozenset(_FIELDS))
    both = intersect([only_have, _group("u")])
    assert (_sent(both), _requested(both)) == (frozenset({_P, _R}), frozenset())
    nothing = intersect([only_have, only_advertised])
    assert (_sent(nothing), _requested(nothing)) == (frozenset(), frozenset())


def test_one_module_is_itself_under_another_name() -> None:
    for text in (unite([_group("u")]), intersect([_group("u")])):
        assert _sent(text) == _requested(text) == {_P, _R}


def test_negation_and_recursion_survive() -> None:
    module = compile_selector(
        "SelectHave(P) :- Have(P), not Far(P).\nFar(Q) :- Far(P), RecordLink(P,_,_,_,Q).\n"
        "Far(P) :- Field(P,'Group',_,'v').\n"
    )
    assert _sent(unite([module, module])) == {_P, _R}


@pytest.mark.parametrize("length", [61, 62, 64])
def test_long_names_stay_within_the_limit_and_apart(length: int) -> None:
    first, second = "N" * (length - 1) + "a", "N" * (length - 1) + "b"
    module = compile_selector(
        f"SelectHave(P) :- {first}(P), not {second}(P).\n"
        f"{first}(P) :- Have(P).\n{second}(P) :- Field(P,'Group',_,'v').\n"
    )
    text = unite([module] * 11)
    assert _sent(text) == {_P, _R}
    names = {rule.head.predicate for rule in compile_selector(text).program.rules}
    assert max(map(len, names)) <= 64
    assert len(names) == 3 * 11 + 1


def test_two_names_that_would_become_one_are_refused() -> None:
    long = "L" * 64
    renamed = rename_rules(compile_selector(f"SelectHave('x').\n{long}('x').").program, "M0_")[1].head.predicate
    clash = renamed.removeprefix("M0_")
    module = compile_selector(f"SelectHave('x').\n{long}('x').\n{clash}('y').")
    with pytest.raises(UsageError):
        unite([module])


def test_bounds_of_compositions() -> None:
    with pytest.raises(UsageError):
        unite([])
    with pytest.raises(UsageError):
        intersect([_group("u")] * 33)
    assert intersect([_group("u")] * 32)
    with pytest.raises(ProgramError):
        unite([_group("u")] * 4, Limits(rules_max=10))
