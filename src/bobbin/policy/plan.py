"""The plan of an exchange: two operands under one name that both sides compute alike (Lace-040).

A plan is a fact block with its lines in one order, so equal plans have equal bytes and one ``E.`` identifier::

    ExchangePlan('lace-exchange-plan/v1','intersection')
    ExchangeOperand('0','R.…','<origin 0>','selector')
    ExchangeOperand('1','R.…','<origin 1>','selector')
    ExchangeParameter('<name>','<value>')                    zero or more, by name

The bytes of the modules are bound through their own identifiers. Which claimed fields the rules need is not written:
it follows from the modules (``advertised_fields``). ``Here`` and everything else that differs between the two sides is
no part of a plan.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from blake3 import blake3
from msgspec import Struct

from bobbin import profile
from bobbin.errors import PeerError, UsageError
from bobbin.facts import block
from bobbin.facts.extract import Fact
from bobbin.policy import vocabulary
from bobbin.policy.operands import (
    Index,
    MalformedOperand,
    Operand,
    check_module_identifier,
    operand_fact,
    parse_origin,
    read_operand,
)
from bobbin.records import b64a, ids

IDENTIFIER_PREFIX: Final = "E."
COMPILATION_FAILURE: Final = "exchange-plan-compilation-failure"
IDENTIFIER_MISMATCH: Final = "exchange-plan-identifier-mismatch"

PLAN_BYTES_MAX: Final = 65_536
"""Far above what two operands and the known parameters can take: origins have at most 4,096 bytes each."""

EXCHANGE_PLAN: Final = vocabulary.EXCHANGE_PLAN
EXCHANGE_PARAMETER: Final = "ExchangeParameter"
_HEAD: Final[Fact] = (EXCHANGE_PLAN, (profile.PLAN_VERSION, profile.PLAN_OPERATION))
_OPERANDS: Final = 2


class MalformedPlan(PeerError):
    """Bytes that a peer calls a plan are none. Nothing of them was kept."""

    def __init__(self, message: str, code: str = COMPILATION_FAILURE) -> None:
        super().__init__(code, message)


class Plan(Struct, frozen=True, kw_only=True):
    """An agreed plan. Made by ``make_plan`` or ``parse_plan``, which check everything."""

    operands: tuple[Operand, Operand]
    parameters: tuple[tuple[str, str], ...]
    """Names ascend and are unique."""
    canonical: bytes
    identifier: str

    def parameter(self, name: str) -> str | None:
        """The value of a parameter, or None."""
        return dict(self.parameters).get(name)

    def operand(self, index: Index) -> Operand:
        return self.operands[index]


def make_plan(first: Operand, second: Operand, parameters: Mapping[str, str] = MappingProxyType({})) -> Plan:
    """The plan of operand 0 and operand 1, in this order."""
    for operand in (first, second):
        check_module_identifier(operand.module)
        parse_origin(operand.origin)
    for name, value in parameters.items():
        _check_parameter(name, value)
    ordered = tuple(sorted(parameters.items(), key=lambda pair: pair[0].encode()))
    facts: list[Fact] = [_HEAD, operand_fact(0, first), operand_fact(1, second)]
    facts += [(EXCHANGE_PARAMETER, pair) for pair in ordered]
    canonical = block.render(facts)
    return Plan(
        operands=(first, second), parameters=ordered, canonical=canonical, identifier=plan_identifier(canonical)
    )


def parse_plan(raw: bytes, *, announced: str | None = None) -> Plan:
    """The plan that bytes from a peer spell; with ``announced``, they must have that identifier."""
    facts = block.parse(raw, bytes_max=PLAN_BYTES_MAX)
    if facts[:1] != [_HEAD]:
        raise MalformedPlan(f"the first line of a plan is {block.render_fact(*_HEAD)}")
    if len(facts) < 1 + _OPERANDS:
        raise MalformedPlan("a plan has two operands")
    try:
        operands = [read_operand(fact) for fact in facts[1 : 1 + _OPERANDS]]
    except MalformedOperand as error:
        raise MalformedPlan(str(error)) from error
    if [index for index, _ in operands] != [0, 1]:
        raise MalformedPlan("the operands of a plan are 0 and 1, in this order")
    parameters = _read_parameters(facts[1 + _OPERANDS :])
    plan = make_plan(operands[0][1], operands[1][1], parameters)
    if plan.canonical != raw:
        raise MalformedPlan("the parameters of a plan ascend by name")
    if announced is not None and plan.identifier != announced:
        message = f"the bytes of plan {announced[:60]} are those of {plan.identifier}"
        raise MalformedPlan(message, IDENTIFIER_MISMATCH)
    return plan


def plan_identifier(canonical: bytes) -> str:
    """``E.`` and the hash of plan bytes."""
    return IDENTIFIER_PREFIX + b64a.encode(blake3(profile.PLAN_DOMAIN + canonical).digest())


def link_identifier(one: ids.Verifier, another: ids.Verifier, plan: Plan) -> str:
    """The name of a link between two proven signers under a plan; it does not depend on who asks (Lace-050)."""
    smaller, larger = sorted((one, another))
    return b64a.encode(blake3(f"{smaller}{larger}{plan.identifier}".encode()).digest())


def _read_parameters(facts: list[Fact]) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for predicate, values in facts:
        if predicate != EXCHANGE_PARAMETER or len(values) != 2:
            raise MalformedPlan(f"expected {EXCHANGE_PARAMETER}/2 after the operands, found {predicate}/{len(values)}")
        name, value = values
        if name in parameters:
            raise MalformedPlan(f"the parameter {name[:80]!r} stands twice")
        try:
            _check_parameter(name, value)
        except UsageError as error:
            raise MalformedPlan(str(error)) from error
        parameters[name] = value
    return parameters


def _check_parameter(name: str, value: str) -> None:
    check = _PARAMETERS.get(name)
    if check is None:
        raise UsageError(f"no plan parameter is called {name[:80]!r}")
    if not check(value):
        raise UsageError(f"the plan parameter {name} cannot be {value[:80]!r}")


def _is_prefix_length(value: str) -> bool:
    # A decimal has one spelling: no sign, no leading zero.
    number = int(value) if value.isascii() and value.isdigit() and len(value) <= 2 else 0
    return str(number) == value and 1 <= number <= profile.PARTITION_PREFIX_LENGTH_MAX


_PARAMETERS: Final[Mapping[str, Callable[[str], bool]]] = MappingProxyType(
    {profile.PARTITION_PREFIX_LENGTH: _is_prefix_length}
)
