import pytest

from bobbin.errors import PeerError, UsageError
from bobbin.policy import plan as plan_module
from bobbin.policy.operands import Operand, Origin
from bobbin.policy.plan import MalformedPlan, Plan, link_identifier, make_plan, parse_plan
from tests.policy_worlds import ALICE, BOB, DING_IDENTIFIER

_OTHER = "R." + "0" * 43
_BOB = Operand(module=DING_IDENTIFIER, origin=Origin(BOB))
_ALICE = Operand(module=DING_IDENTIFIER, origin=Origin(ALICE))
_HEAD = "ExchangePlan('lace-exchange-plan/v1','intersection')\n"
_ZERO = f"ExchangeOperand('0','{DING_IDENTIFIER}','{BOB}','selector')\n"
_ONE = f"ExchangeOperand('1','{DING_IDENTIFIER}','{ALICE}','selector')\n"
_LENGTH = "ExchangeParameter('partition_prefix_length','3')\n"


@pytest.fixture
def plan() -> Plan:
    return make_plan(_BOB, _ALICE)


def test_the_published_vector(plan: Plan) -> None:
    assert plan.canonical == (_HEAD + _ZERO + _ONE).encode()
    assert len(plan.canonical) == 315
    assert plan.identifier == "E.VVBTh8kMnUEQp95bnyjcvTDW8z1sUF7rXwzSGiDdudC"


def test_the_published_link_does_not_depend_on_who_asks(plan: Plan) -> None:
    link = "Zw0Pp5roXlBSvgIx4Y~xqwiTntvfHbAJYpJjpNynuZK"
    assert link_identifier(ALICE, BOB, plan) == link_identifier(BOB, ALICE, plan) == link


def test_whatever_the_plan_says_is_in_its_name(plan: Plan) -> None:
    other_origin = Operand(module=DING_IDENTIFIER, origin=Origin("source:1"))
    other_module = Operand(module=_OTHER, origin=Origin(ALICE))
    plans = [
        plan,
        make_plan(_ALICE, _BOB),
        make_plan(_BOB, other_origin),
        make_plan(_BOB, other_module),
        make_plan(_BOB, _ALICE, {"partition_prefix_length": "2"}),
        make_plan(_BOB, _ALICE, {"partition_prefix_length": "3"}),
    ]
    assert len({made.identifier for made in plans}) == len(plans)


def test_a_plan_reads_back_as_itself(plan: Plan) -> None:
    longer = make_plan(_BOB, _ALICE, {"partition_prefix_length": "43"})
    for made in (plan, longer):
        assert parse_plan(made.canonical, announced=made.identifier) == made
    assert longer.parameter("partition_prefix_length") == "43"
    assert plan.parameter("partition_prefix_length") is None


def test_a_plan_under_another_name_is_refused(plan: Plan) -> None:
    with pytest.raises(MalformedPlan) as refused:
        parse_plan(plan.canonical, announced="E." + "0" * 43)
    assert refused.value.code == "exchange-plan-identifier-mismatch"


@pytest.mark.parametrize(
    "text",
    [
        "",
        _HEAD,
        _HEAD + _ZERO,
        _ZERO + _ONE,
        _HEAD + _ONE + _ZERO,
        _HEAD + _ZERO + _ZERO,
        _HEAD + _ZERO + _ONE + _ONE,
        _ZERO + _HEAD + _ONE,
        _HEAD + _ZERO + _LENGTH + _ONE,
        _HEAD.replace("v1", "v2") + _ZERO + _ONE,
        _HEAD.replace("intersection", "union") + _ZERO + _ONE,
        _HEAD.replace(",'intersection'", "") + _ZERO + _ONE,
        _HEAD + _ZERO.replace("selector", "query") + _ONE,
        _HEAD + _ZERO.replace(BOB, "local") + _ONE,
        _HEAD + _ZERO.replace(BOB, "source:") + _ONE,
        _HEAD + _ZERO.replace(DING_IDENTIFIER, "R.GROUP_X") + _ONE,
        _HEAD + _ZERO + _ONE + _LENGTH + _LENGTH,
        _HEAD + _ZERO + _ONE + "ExchangeParameter('unknown','1')\n",
        _HEAD + _ZERO + _ONE + "ExchangeParameter('partition_prefix_length')\n",
        *(
            _HEAD + _ZERO + _ONE + f"ExchangeParameter('partition_prefix_length','{value}')\n"
            for value in ("", "0", "03", "44", "-1", "+1", "²", "1e1", "999999999999999999999")
        ),
    ],
)
def test_what_is_no_plan(text: str) -> None:
    with pytest.raises(MalformedPlan) as refused:
        parse_plan(text.encode())
    assert refused.value.code == "exchange-plan-compilation-failure"


@pytest.mark.parametrize(
    "raw",
    [
        (_HEAD + _ZERO + _ONE).encode()[:-1],
        (_HEAD + "\n" + _ZERO + _ONE).encode(),
        (_HEAD + _ZERO + _ONE).replace("\n", "\r\n").encode(),
        ("# plan\n" + _HEAD + _ZERO + _ONE).encode(),
        b"\xff",
        (_HEAD + _ZERO + _ONE + "x" * 70_000).encode(),
    ],
)
def test_what_is_not_even_a_fact_block(raw: bytes) -> None:
    with pytest.raises(PeerError) as refused:
        parse_plan(raw)
    assert refused.value.code in ("malformed-fact-block", "oversized-fact-block")


def test_a_plan_of_our_own_is_checked_too() -> None:
    with pytest.raises(UsageError):
        make_plan(Operand(module="R.x", origin=Origin(BOB)), _ALICE)
    with pytest.raises(UsageError):
        make_plan(_BOB, Operand(module=_OTHER, origin=Origin("local")))
    with pytest.raises(UsageError):
        make_plan(_BOB, _ALICE, {"colour": "red"})


def test_parameters_ascend_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """ILC-063: there is one known parameter so far; the order holds for any number."""
    known = {name: lambda value: value == "x" for name in ("a", "b", "É")}
    monkeypatch.setattr(plan_module, "_PARAMETERS", known)
    made = make_plan(_BOB, _ALICE, {"É": "x", "b": "x", "a": "x"})
    lines = [f"ExchangeParameter('{name}','x')\n" for name in ("a", "b", "É")]
    assert made.canonical == (_HEAD + _ZERO + _ONE + "".join(lines)).encode()
    assert parse_plan(made.canonical) == made
    for order in ((1, 0, 2), (0, 2, 1), (2, 1, 0)):
        with pytest.raises(MalformedPlan):
            parse_plan((_HEAD + _ZERO + _ONE + "".join(lines[place] for place in order)).encode())
