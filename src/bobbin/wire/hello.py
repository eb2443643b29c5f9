"""The blocks of setup and hello, from facts to messages and back (Lace-050).

Both blocks are small and come once, so they are read as lists. Lines may come in any order. What a message says is
checked here as far as its form goes; whether the two sides can agree on it is for the machine to say.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from bobbin.facts.block import MalformedBlock
from bobbin.facts.extract import Fact
from bobbin.interlace import capability
from bobbin.interlace.limits import NAMES
from bobbin.interlace.messages import Hello, Setup
from bobbin.interlace.reasons import Abort, Reason
from bobbin.interlace.schema import Schema
from bobbin.policy.operands import EXCHANGE_OPERAND, operand_fact, read_operand
from bobbin.records import ids, tai
from bobbin.records.ids import Verifier
from bobbin.wire import texts
from bobbin.wire.elements import Resource
from bobbin.wire.predicates import refuse

EXCHANGE_PLAN: Final = "HelloExchangePlan"
SIGNER: Final = "HelloSigner"
TAI: Final = "HelloTAI"
TICK_INTERVAL: Final = "HelloTickInterval"
RECORD_FORMAT: Final = "HelloRecordFormat"
ADVERTISED_FIELD: Final = "HelloAdvertisedField"
ALL_ADVERTISED_FIELDS: Final = "HelloAllAdvertisedFields"
LIMIT: Final = "HelloLimit"

_ARITY: Final = {
    EXCHANGE_PLAN: 1,
    SIGNER: 1,
    TAI: 1,
    TICK_INTERVAL: 1,
    RECORD_FORMAT: 1,
    ADVERTISED_FIELD: 1,
    ALL_ADVERTISED_FIELDS: 0,
    LIMIT: 2,
}
_EXACTLY_ONE: Final = (EXCHANGE_PLAN, TAI, TICK_INTERVAL)


def read_setup(facts: Sequence[Fact], resource: Resource | None) -> Setup:
    """The setup that a block announces, with the module that came along."""
    for line, (predicate, values) in enumerate(facts, start=1):
        if predicate != EXCHANGE_OPERAND:
            refuse(line, predicate, values, "setup")
    if len(facts) != 1:
        raise MalformedBlock(max(1, len(facts)), f"a setup has one {EXCHANGE_OPERAND}, not {len(facts)}")
    index, operand = read_operand(facts[0])
    if resource is not None and resource.identifier != operand.module:
        detail = f"the operand names the module {operand.module}, and {resource.identifier} came"
        raise Abort(Reason.MALFORMED_MODULE, detail)
    return Setup(index=index, operand=operand, module=None if resource is None else resource.raw)


def setup_facts(message: Setup) -> list[Fact]:
    """The block of a setup."""
    return [operand_fact(message.index, message.operand)]


def read_hello(facts: Sequence[Fact], resource: Resource | None) -> Hello:
    """The hello that a block says, with the plan that came along."""
    said: dict[str, list[tuple[int, tuple[str, ...]]]] = {predicate: [] for predicate in _ARITY}
    seen: set[Fact] = set()
    for line, fact in enumerate(facts, start=1):
        predicate, values = fact
        if _ARITY.get(predicate) != len(values):
            refuse(line, predicate, values, "hello")
        if fact in seen:
            raise MalformedBlock(line, "the same line stands before it")
        seen.add(fact)
        said[predicate].append((line, values))
    last = max(1, len(facts))
    for predicate in _EXACTLY_ONE:
        if len(said[predicate]) != 1:
            raise MalformedBlock(last, f"a hello has one {predicate}, not {len(said[predicate])}")
    if len(said[SIGNER]) > 1:
        raise MalformedBlock(last, f"a hello has at most one {SIGNER}")
    if not said[RECORD_FORMAT]:
        raise MalformedBlock(last, f"a hello has at least one {RECORD_FORMAT}")
    plan = _read_plan(*said[EXCHANGE_PLAN][0])
    if resource is not None and resource.identifier != plan:
        raise Abort(Reason.PLAN_MISMATCH, f"the hello names the plan {plan}, and {resource.identifier} came")
    limits = _read_limits(said[LIMIT])
    return Hello(
        plan=plan,
        tai=_read_tai(*said[TAI][0]),
        tick_interval_ns=_read_interval(*said[TICK_INTERVAL][0]),
        formats=frozenset(_read_format(*one) for one in said[RECORD_FORMAT]),
        schema=_read_schema(said[ADVERTISED_FIELD], every=bool(said[ALL_ADVERTISED_FIELDS])),
        signer=_read_signer(*said[SIGNER][0]) if said[SIGNER] else None,
        limits={name: limits[name] for name in NAMES if name in limits},
        plan_bytes=None if resource is None else resource.raw,
        reconcile=limits.get(capability.NAME),
    )


def hello_facts(message: Hello) -> Iterator[Fact]:
    """The block of a hello, in the order of the protocol page."""
    yield EXCHANGE_PLAN, (message.plan,)
    if message.signer is not None:
        yield SIGNER, (message.signer,)
    yield TAI, (message.tai,)
    yield TICK_INTERVAL, (str(message.tick_interval_ns),)
    for suffix in sorted(message.formats):
        yield RECORD_FORMAT, (suffix,)
    if message.schema.all:
        yield ALL_ADVERTISED_FIELDS, ()
    else:
        for name in sorted(message.schema.names):
            yield ADVERTISED_FIELD, (name,)
    for name in NAMES:
        if name in message.limits:
            yield LIMIT, (name, str(message.limits[name]))
    if message.reconcile is not None:
        yield LIMIT, (capability.NAME, str(message.reconcile))


def _read_plan(line: int, values: tuple[str, ...]) -> str:
    if not texts.PLAN.fullmatch(values[0]):
        raise MalformedBlock(line, "a plan identifier is E. and 43 symbols")
    return values[0]


def _read_tai(line: int, values: tuple[str, ...]) -> str:
    try:
        tai.parse(values[0])
    except tai.TaiError as error:
        raise MalformedBlock(line, str(error)) from error
    return values[0]


def _read_interval(line: int, values: tuple[str, ...]) -> int:
    interval = texts.decimal(values[0])
    if interval is None:
        raise MalformedBlock(line, "a tick interval is a decimal below 2^64")
    return interval


def _read_format(line: int, values: tuple[str, ...]) -> str:
    if not texts.FORMAT.fullmatch(values[0]):
        raise MalformedBlock(line, "a record format is the suffix of hash texts")
    return values[0]


def _read_signer(line: int, values: tuple[str, ...]) -> Verifier:
    try:
        ids.parse_verifier(values[0])
    except ids.IdentifierError as error:
        raise MalformedBlock(line, str(error)) from error
    return Verifier(values[0])


def _read_schema(said: Sequence[tuple[int, tuple[str, ...]]], *, every: bool) -> Schema:
    for line, (name,) in said:
        if not texts.is_said_by_records(name):
            raise MalformedBlock(line, "no field of a record has this name")
    return Schema(all=True) if every else Schema(names=frozenset(name for _, (name,) in said))


def _read_limits(said: Sequence[tuple[int, tuple[str, ...]]]) -> dict[str, int]:
    """All limits, known or not: those that nobody knows must be well-formed as well."""
    limits: dict[str, int] = {}
    for line, (name, text) in said:
        if name in limits:
            raise MalformedBlock(line, f"the limit {name[:80]!r} has two values")
        value = texts.decimal(text)
        if not value:
            raise Abort(Reason.NEGOTIATION, f"the limit {name[:80]!r} is a decimal from 1 to 2^64-1, not {text[:80]!r}")
        limits[name] = value
    return limits
