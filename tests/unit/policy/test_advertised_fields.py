import pytest

from bobbin.policy.advertised_fields import FieldRequirements, required_fields
from bobbin.policy.modules import compile_selector
from tests.policy_worlds import DING, policy

_EXPORT = "SelectAdvertised(P,S) :- Advertised(P,S)."


def _required(rules: str) -> FieldRequirements:
    return required_fields(compile_selector(f"{_EXPORT}\n{rules}").program)


@pytest.mark.parametrize(
    ("rules", "names", "every"),
    [
        ("", set(), False),
        ("A(P) :- AdvertisedField(P,_,'Group',_,'u').", {"Group"}, False),
        ("A(P) :- Advertised(P,S), not AdvertisedField(P,S,'Group',_,_).", {"Group"}, False),
        ("A(P) :- AdvertisedField(P,_,N,_,'u').", set(), True),
        ("A(P) :- AdvertisedField(P,_,_,_,'u').", set(), True),
        ("A(P) :- Advertised(P,S), not AdvertisedField(P,S,_,_,'x').", set(), True),
        ("A(P) :- AdvertisedField(P,_,'App',_,_). B(P) :- AdvertisedField(P,_,N,_,N).", {"App"}, True),
        ("A(P) :- Field(P,'Group',_,'u').", set(), False),
    ],
)
def test_what_rules_require(rules: str, names: set[str], every: bool) -> None:  # noqa: FBT001 (a table of cases)
    assert _required(rules) == FieldRequirements(names=frozenset(names), all=every)


def test_a_plan_requires_what_either_module_does() -> None:
    link = policy(DING, f"{_EXPORT} A(P) :- AdvertisedField(P,_,'TAI',_,_).")
    assert link.fields == FieldRequirements(names=frozenset({"App", "Group", "TAI"}))


def test_a_schema_meets_requirements() -> None:
    names = FieldRequirements(names=frozenset({"App", "Group"}))
    assert names.are_met_by({"App", "Group", "Name"}, all_fields=False)
    assert not names.are_met_by({"App"}, all_fields=False)
    assert names.are_met_by((), all_fields=True)
    every = FieldRequirements(all=True)
    assert not every.are_met_by({"App", "Group", "Name", "TAI"}, all_fields=False)
    assert every.are_met_by((), all_fields=True)
